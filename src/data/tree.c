/* tree.c — see tree.h. */
#include "data/tree.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

static int is_space(char c) { return c == ' ' || c == '\t'; }
static int is_end(char c) { return is_space(c) || c == '(' || c == ')'; }

static struct tree_text text_of(const char *word) {
    return (struct tree_text){word, (int)strlen(word)};
}

int tree_same(struct tree_text a, struct tree_text b) {
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, (size_t)a.size) == 0);
}

int tree_is(struct tree_text text, const char *word) { return tree_same(text, text_of(word)); }

void tree_release(struct tree *t) {
    xfree(t->item);
    xfree(t->stack);
    *t = (struct tree){0};
}

/* ---- building -------------------------------------------------------------------------------- */

static void begin(struct tree *t) { t->n = t->n_word = t->n_root = 0; }

static void add(struct tree *t, struct tree_item item) {
    GROW(t->item, t->n, t->room);
    t->n_word += item.kind == TREE_LEAF;
    t->item[t->n++] = item;
}

static void push(struct tree *t, struct tree_text label, int *depth) {
    t->n_root += *depth == 0;
    GROW(t->stack, *depth, t->room_stack);
    t->stack[(*depth)++] = t->n;
    add(t, (struct tree_item){.kind = TREE_OPEN, .name = label});
}

static void pop(struct tree *t, int *depth) {
    int open = t->stack[--*depth];
    t->item[open].mate = t->n;
    add(t, (struct tree_item){.kind = TREE_CLOSE, .mate = open, .name = t->item[open].name});
}

/* ---- reading brackets ------------------------------------------------------------------------ */

struct cursor {
    const char *line;
    size_t size, at;
};

static int peek(const struct cursor *c) {
    return c->at < c->size ? (unsigned char)c->line[c->at] : 0;
}

static void skip_space(struct cursor *c) {
    while (c->at < c->size && is_space(c->line[c->at])) c->at++;
}

static struct tree_text take(struct cursor *c) {
    size_t from = c->at;
    while (c->at < c->size && !is_end(c->line[c->at])) c->at++;
    return (struct tree_text){c->line + from, (int)(c->at - from)};
}

static int wrong(const struct cursor *c, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "column %zu: %s", c->at + 1, what);
}

/* Behind an opening bracket: a phrase begins, or it is a word with its tag. */
static int read_open(struct tree *t, struct cursor *c, int *depth, struct err *err) {
    struct tree_text name = take(c);
    skip_space(c);
    if (peek(c) == '(' || peek(c) == ')' || c->at == c->size) return push(t, name, depth), 0;
    struct tree_text word = take(c);
    skip_space(c);
    if (peek(c) != ')') return wrong(c, "a word and something else in one bracket", err);
    c->at++;
    t->n_root += *depth == 0;
    add(t, (struct tree_item){.kind = TREE_LEAF, .name = name, .word = word});
    return 0;
}

int tree_read(struct tree *t, const char *line, size_t size, struct err *err) {
    struct cursor c = {line, size, 0};
    int depth = 0;
    begin(t);
    for (skip_space(&c); c.at < c.size; skip_space(&c)) {
        int rc = 0;
        if (peek(&c) == '(')
            c.at++, rc = read_open(t, &c, &depth, err);
        else if (peek(&c) != ')')
            rc = wrong(&c, "a word that is alone in no bracket", err);
        else if (!depth)
            rc = wrong(&c, "a bracket is closed that was not opened", err);
        else
            c.at++, pop(t, &depth);
        if (rc) return rc;
    }
    if (!depth) return 0;
    return err_set(err, HEED_EFORMAT, "brackets that are never closed: %d", depth);
}

/* ---- reading rows ---------------------------------------------------------------------------- */

/* The next token; 0 at the end. */
static int next_token(struct cursor *c, struct tree_text *token) {
    skip_space(c);
    size_t from = c->at;
    while (c->at < c->size && !is_space(c->line[c->at])) c->at++;
    *token = (struct tree_text){c->line + from, (int)(c->at - from)};
    return token->size > 0;
}

static struct tree_text label_of(struct tree_text token) {
    return (struct tree_text){token.at + 1, token.size - 1};
}

int tree_read_row(struct tree *t, const char *row, size_t size, struct err *err) {
    struct cursor c = {row, size, 0};
    struct tree_text token;
    int depth = 0;
    begin(t);
    while (next_token(&c, &token)) {
        if (token.at[0] == '(') {
            push(t, label_of(token), &depth);
        } else if (token.at[0] != ')') {
            t->n_root += depth == 0;
            add(t, (struct tree_item){.kind = TREE_LEAF, .name = token});
        } else if (!depth || !tree_same(t->item[t->stack[depth - 1]].name, label_of(token))) {
            return err_set(err, HEED_EFORMAT, "column %d: '%.*s' closes no bracket",
                           (int)(token.at - row) + 1, token.size, token.at);
        } else {
            pop(t, &depth);
        }
    }
    if (!depth) return 0;
    return err_set(err, HEED_EFORMAT, "brackets that are never closed: %d", depth);
}

/* Closes the last bracket, or forgets it where it has nothing inside. */
static int close_or_forget(struct tree *t, int *depth) {
    int open = t->stack[*depth - 1];
    if (open < t->n - 1) return pop(t, depth), 0;
    --*depth;
    t->n = open;
    return 1;
}

/* A closing bracket; the root stays open, since more may come. */
static int repair_close(struct tree *t, struct tree_text label, int *depth, int *root_closed) {
    int changes = 0, at = *depth - 1;
    while (at >= 0 && !tree_same(t->item[t->stack[at]].name, label)) at--;
    if (at < 0 || (at == 0 && *root_closed)) return 1;
    while (*depth > (at ? at : 1)) {
        changes += *depth - 1 > at; /* it was left open */
        changes += close_or_forget(t, depth);
    }
    if (at == 0) *root_closed = 1;
    return changes;
}

int tree_repair(struct tree *t, const char *row, size_t size, int n_word) {
    struct cursor c = {row, size, 0};
    struct tree_text token;
    int depth = 0, changes = 0, root_closed = 0;
    begin(t);
    while (next_token(&c, &token)) {
        if (depth == 0 && token.at[0] != '(') {
            push(t, text_of(TREE_ROOT), &depth);
            changes++;
        }
        if (token.at[0] == ')') {
            changes += repair_close(t, label_of(token), &depth, &root_closed);
            continue;
        }
        changes += root_closed;
        root_closed = 0;
        if (token.at[0] == '(')
            push(t, label_of(token), &depth);
        else if (t->n_word < n_word)
            add(t, (struct tree_item){.kind = TREE_LEAF, .name = token});
        else
            changes++;
    }
    if (depth == 0) push(t, text_of(TREE_ROOT), &depth), changes++;
    changes += depth - root_closed;
    while (depth > 1) changes += close_or_forget(t, &depth);
    for (; t->n_word < n_word; changes++)
        add(t, (struct tree_item){.kind = TREE_LEAF, .name = text_of(TREE_WORD)});
    pop(t, &depth);
    return changes;
}

/* ---- what is said of trees ------------------------------------------------------------------- */

int tree_check(const struct tree *t, struct err *err) {
    if (t->n_root != 1) return err_set(err, HEED_EFORMAT, "%d trees, not one", t->n_root);
    for (int i = 0; i < t->n; i++)
        if (t->item[i].kind == TREE_OPEN && t->item[i].mate == i + 1)
            return err_set(err, HEED_EFORMAT, "the phrase '%.*s' is empty", t->item[i].name.size,
                           t->item[i].name.at);
    return 0;
}

/* "NP" of "NP-SBJ-1"; a label that begins so, as -LRB- does, is left alone. */
static struct tree_text bare(struct tree_text label) {
    for (int i = 1; i < label.size && label.at[0] != '-'; i++)
        if (label.at[i] == '-' || label.at[i] == '=') label.size = i;
    return label;
}

/* Takes out what is GONE. */
enum { GONE = TREE_CLOSE + 1 };
static void close_ranks(struct tree *t) {
    int n = t->n, depth = 0;
    begin(t);
    for (int i = 0; i < n; i++) {
        struct tree_item item = t->item[i];
        if ((int)item.kind == GONE) continue;
        if (item.kind == TREE_OPEN) {
            push(t, item.name, &depth);
        } else if (item.kind == TREE_CLOSE) {
            pop(t, &depth);
        } else {
            t->n_root += depth == 0;
            add(t, item);
        }
    }
}

void tree_clean(struct tree *t) {
    int n = t->n, depth = 0;
    begin(t); /* what is kept is written over what was read */
    for (int i = 0; i < n; i++) {
        struct tree_item item = t->item[i];
        if (item.kind == TREE_LEAF && !tree_is(item.name, "-NONE-")) add(t, item);
        if (item.kind == TREE_OPEN)
            push(t, item.name.size ? bare(item.name) : text_of(TREE_ROOT), &depth);
        if (item.kind != TREE_CLOSE) continue;
        int open = t->stack[depth - 1];
        if (close_or_forget(t, &depth)) continue;
        struct tree_item *inner = &t->item[open + 1], *last = &t->item[t->n - 2];
        if (inner->kind != TREE_OPEN || inner->mate != t->n - 2 ||
            !tree_same(inner->name, t->item[open].name))
            continue;
        inner->kind = last->kind = (enum tree_kind)GONE; /* the only child of its like */
    }
    close_ranks(t);
}

/* ---- words ----------------------------------------------------------------------------------- */

/* The Penn Treebank's tag of a mark, or NULL. */
static const char *tag_of(struct tree_text word) {
    static const struct {
        const char *word, *tag;
    } table[] = {
        {",", ","},         {".", "."},         {"?", "."},         {"!", "."},
        {":", ":"},         {";", ":"},         {"...", ":"},       {"…", ":"},
        {"--", ":"},        {"–", ":"},         {"—", ":"},         {"-", "HYPH"},
        {"/", "HYPH"},      {"``", "``"},       {"''", "''"},       {"“", "``"},
        {"”", "''"},        {"‘", "``"},        {"’", "''"},        {"\"", "''"},
        {"-LRB-", "-LRB-"}, {"-RRB-", "-RRB-"}, {"-LSB-", "-LRB-"}, {"-RSB-", "-RRB-"},
        {"[", "-LRB-"},     {"]", "-RRB-"},     {"(", "-LRB-"},     {")", "-RRB-"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (tree_is(word, table[i].word)) return table[i].tag;
    return NULL;
}

int tree_words_in(const char *line, size_t size) {
    struct cursor c = {line, size, 0};
    struct tree_text word;
    int n = 0;
    while (next_token(&c, &word)) n++;
    return n;
}

/* The next leaf at or behind *at, or NULL. */
static const struct tree_item *next_leaf(const struct tree *t, int *at) {
    while (*at < t->n && t->item[*at].kind != TREE_LEAF) ++*at;
    return *at < t->n ? &t->item[(*at)++] : NULL;
}

int tree_fill(struct tree *t, const char *line, size_t size, const struct tree *like,
              struct err *err) {
    struct cursor c = {line, size, 0};
    struct tree_text word;
    int n = tree_words_in(line, size), at = 0;
    if (n != t->n_word)
        return err_set(err, HEED_EFORMAT, "%d words, but the tree has %d", n, t->n_word);
    if (like && like->n_word != n)
        return err_set(err, HEED_EFORMAT, "%d words, but the tree with the tags has %d", n,
                       like->n_word);
    for (int i = 0; i < t->n; i++) {
        struct tree_item *leaf = &t->item[i];
        if (leaf->kind != TREE_LEAF) continue;
        next_token(&c, &word);
        leaf->word = word;
        const struct tree_item *other = like ? next_leaf(like, &at) : NULL;
        if (other) {
            leaf->name = other->name;
        } else if (tree_is(leaf->name, TREE_WORD)) {
            const char *tag = tag_of(leaf->word);
            leaf->name = text_of(tag ? tag : TREE_WORD);
        }
    }
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put(struct buffer *out, struct tree_text text) {
    buffer_put(out, text.at, (size_t)text.size);
}

void tree_put(struct buffer *out, const struct tree *t) {
    for (int i = 0; i < t->n; i++) {
        const struct tree_item *item = &t->item[i];
        if (item->kind == TREE_CLOSE) {
            buffer_puts(out, ")");
            continue;
        }
        buffer_puts(out, i ? " (" : "(");
        put(out, item->name);
        if (item->kind == TREE_OPEN) continue;
        buffer_puts(out, " ");
        /* a bracket inside of a word would end it */
        for (int k = 0; k < item->word.size; k++)
            if (item->word.at[k] == '(')
                buffer_puts(out, "-LRB-");
            else if (item->word.at[k] == ')')
                buffer_puts(out, "-RRB-");
            else
                buffer_put(out, item->word.at + k, 1);
        buffer_puts(out, ")");
    }
}

void tree_put_row(struct buffer *out, const struct tree *t, int tags) {
    for (int i = 0; i < t->n; i++) {
        const struct tree_item *item = &t->item[i];
        if (i) buffer_puts(out, " ");
        if (item->kind == TREE_LEAF && !tags) {
            buffer_puts(out, TREE_WORD);
            continue;
        }
        if (item->kind != TREE_LEAF) buffer_puts(out, item->kind == TREE_OPEN ? "(" : ")");
        put(out, item->name);
    }
}

void tree_put_words(struct buffer *out, const struct tree *t) {
    for (int i = 0, n = 0; i < t->n; i++) {
        if (t->item[i].kind != TREE_LEAF) continue;
        if (n++) buffer_puts(out, " ");
        put(out, t->item[i].word);
    }
}

static void list_symbol(struct buffer *all, const char *symbol) {
    for (size_t at = 0; at < all->size; at += strlen(all->text + at) + 1)
        if (strcmp(all->text + at, symbol) == 0) return;
    buffer_put(all, symbol, strlen(symbol) + 1);
}

int tree_list_symbols(struct buffer *all, const struct tree *t, int most, struct err *err) {
    for (int i = 0; i < t->n; i++) {
        const struct tree_item *item = &t->item[i];
        const char *bracket = item->kind == TREE_OPEN ? "(" : item->kind == TREE_CLOSE ? ")" : "";
        char symbol[256];
        int n = snprintf(symbol, sizeof symbol, "\xE2\x96\x81%s%.*s", bracket, item->name.size,
                         item->name.at);
        if (n >= most)
            return err_set(err, HEED_ELIMIT, "'%.40s...' is too long for a symbol", symbol);
        list_symbol(all, symbol);
    }
    return 0;
}
