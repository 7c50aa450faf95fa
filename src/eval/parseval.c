/* parseval.c — see parseval.h. */
#include "eval/parseval.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/text.h"
#include "heed.h"

/* ---- rules ----------------------------------------------------------------------------------- */

static int add_rule(struct parseval_rules *r, int kind, const char *a, const char *b,
                    struct err *err) {
    if (r->n == PARSEVAL_MAX_RULES)
        return err_set(err, HEED_ELIMIT, "more than %d rules", PARSEVAL_MAX_RULES);
    if (strlen(a) >= PARSEVAL_MAX_LABEL || strlen(b) >= PARSEVAL_MAX_LABEL)
        return err_set(err, HEED_ELIMIT, "a label of more than %d bytes", PARSEVAL_MAX_LABEL - 1);
    struct parseval_rule *rule = &r->rule[r->n++];
    rule->kind = kind;
    snprintf(rule->a, sizeof rule->a, "%s", a);
    snprintf(rule->b, sizeof rule->b, "%s", b);
    return 0;
}

void parseval_default_rules(struct parseval_rules *r) {
    static const char *const deleted[] = {"TOP", "S1", "ROOT", "-NONE-", ",", ":",
                                          "``",  "''", ".",    "?",      "!", NULL};
    *r = (struct parseval_rules){.name = "default"};
    for (int i = 0; deleted[i]; i++) add_rule(r, RULE_DELETE, deleted[i], "", NULL);
    add_rule(r, RULE_EQUAL, "ADVP", "PRT", NULL);
}

/* One line of a parameter file: a name and its values. */
static int read_rule(struct parseval_rules *r, char *line, struct err *err) {
    static const struct {
        const char *name;
        int values, kind; /* kind -1: no business of ours */
    } known[] = {{"DELETE_LABEL", 1, RULE_DELETE},
                 {"QUOTE_LABEL", 1, RULE_QUOTE},
                 {"EQ_LABEL", 2, RULE_EQUAL},
                 {"EQ_WORD", 2, RULE_EQUAL_WORD},
                 {"DEBUG", 1, -1},
                 {"MAX_ERROR", 1, -1},
                 {"CUTOFF_LEN", 1, -1},
                 {"DELETE_LABEL_FOR_LENGTH", 1, -1}};
    char *rest, *word[4] = {0};
    int n = 0;
    for (char *at = strtok_r(line, " \t\r", &rest); at && n < 4;
         at = strtok_r(NULL, " \t\r", &rest))
        word[n++] = at;
    if (!n || word[0][0] == '#') return 0;
    if (strcmp(word[0], "LABELED") == 0 && n == 2) {
        r->unlabelled = strcmp(word[1], "0") == 0;
        return 0;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(word[0], known[i].name) != 0) continue;
        if (n != known[i].values + 1)
            return err_set(err, HEED_EFORMAT, "%s has %d values, not %d", word[0], n - 1,
                           known[i].values);
        if (known[i].kind < 0) return 0;
        return add_rule(r, known[i].kind, word[1], n > 2 ? word[2] : "", err);
    }
    return err_set(err, HEED_EFORMAT, "'%.60s' is no parameter of EVALB", word[0]);
}

int parseval_read_rules(struct parseval_rules *r, const char *path, struct err *err) {
    struct text *text;
    struct line line;
    struct err why;
    const char *name = strrchr(path, '/');
    *r = (struct parseval_rules){0};
    snprintf(r->name, sizeof r->name, "%s", name ? name + 1 : path);
    int rc = text_open(&text, path, err);
    if (rc) return rc;
    while ((rc = text_next(text, &line, err)) > 0) {
        char *copy = xstrdup(line.text);
        int bad = read_rule(r, copy, &why);
        xfree(copy);
        if (!bad) continue;
        rc = err_set(err, bad, "%.180s: line %llu: %s", path,
                     (unsigned long long)text_counts(text).lines, why.msg);
        break;
    }
    text_close(text);
    return rc < 0 ? rc : 0;
}

static int has_rule(const struct parseval_rules *r, int kind, struct tree_text name) {
    for (int i = 0; i < r->n; i++)
        if ((int)r->rule[i].kind == kind && tree_is(name, r->rule[i].a)) return 1;
    return 0;
}

/* The same, or equal by rules of a kind. */
static int are_equal(const struct parseval_rules *r, int kind, struct tree_text a,
                     struct tree_text b) {
    if (tree_same(a, b)) return 1;
    for (int i = 0; i < r->n; i++) {
        const struct parseval_rule *rule = &r->rule[i];
        if ((int)rule->kind != kind) continue;
        if (tree_is(a, rule->a) && tree_is(b, rule->b)) return 1;
        if (tree_is(a, rule->b) && tree_is(b, rule->a)) return 1;
    }
    return 0;
}

static int is_deleted_bracket(const struct parseval_rules *r, struct tree_text label) {
    for (int i = 0; i < r->n; i++) {
        if (r->rule[i].kind != RULE_DELETE) continue;
        struct tree_text name = {r->rule[i].a, (int)strlen(r->rule[i].a)};
        if (are_equal(r, RULE_EQUAL, label, name)) return 1;
    }
    return 0;
}

/* ---- one tree -------------------------------------------------------------------------------- */

/* A mark that is a quotation mark to one annotator and an apostrophe to another. */
static int is_quote(const struct parseval_rules *r, const struct tree_item *leaf) {
    return (tree_is(leaf->word, "'") || tree_is(leaf->word, "\"") || tree_is(leaf->word, "/")) &&
           has_rule(r, RULE_QUOTE, leaf->name);
}

/* Which words count, and where marks that may have two natures are. */
static void choose_words(struct parseval_side *s, const struct parseval_rules *r) {
    int n = 0;
    s->n_quote = 0;
    for (int i = 0; i < s->tree.n; i++) {
        GROW(s->kept, i, s->room_kept);
        const struct tree_item *item = &s->tree.item[i];
        s->kept[i] = item->kind == TREE_LEAF && !has_rule(r, RULE_DELETE, item->name);
        if (item->kind == TREE_LEAF && is_quote(r, item)) {
            GROW(s->quote, s->n_quote, s->room_quote);
            s->quote[s->n_quote++] = (struct parseval_quote){i, n};
        }
        n += s->kept[i];
    }
    s->n_word = n;
}

static int by_span(const void *a, const void *b) {
    const struct parseval_bracket *p = a, *q = b;
    if (p->begin != q->begin) return p->begin < q->begin ? -1 : 1;
    if (p->end != q->end) return p->end < q->end ? -1 : 1;
    return p->order - q->order;
}

/* EVALB cuts a label at the first - or =, be it the first character. */
static struct tree_text cut_label(struct tree_text label) {
    for (int i = 0; i < label.size; i++)
        if (label.at[i] == '-' || label.at[i] == '=') label.size = i;
    return label;
}

/* The words that count, and the brackets around them. */
static void collect(struct parseval_side *s, const struct parseval_rules *r) {
    int depth = 0, n = 0;
    s->n_word = s->n_bracket = 0;
    for (int i = 0; i < s->tree.n; i++) {
        const struct tree_item *item = &s->tree.item[i];
        if (item->kind == TREE_OPEN) {
            GROW(s->stack, depth, s->room_stack);
            GROW(s->bracket, n, s->room_bracket);
            s->bracket[n] = (struct parseval_bracket){
                .label = cut_label(item->name), .begin = s->n_word, .order = n};
            s->stack[depth++] = n++;
        } else if (item->kind == TREE_CLOSE) {
            s->bracket[s->stack[--depth]].end = s->n_word;
        } else if (s->kept[i]) {
            GROW(s->word, s->n_word, s->room_word);
            s->word[s->n_word++] = i;
        }
    }
    for (int i = 0; i < n; i++) {
        const struct parseval_bracket *b = &s->bracket[i];
        if (b->begin == b->end || is_deleted_bracket(r, b->label)) continue;
        s->bracket[s->n_bracket++] = *b;
    }
}

/* ---- two trees ------------------------------------------------------------------------------- */

/* Where the trees have different numbers of words, and a mark counts in one and not in the other by
 * its tags alone, it counts in both. The loop is EVALB's, whose places are counted in words before
 * the mark and move when one is put back. */
static void settle_quotes(struct parseval *p) {
    const struct parseval_rules *r = p->rules;
    struct parseval_side *hyp = &p->hyp, *ref = &p->ref;
    for (int i = 0; i < hyp->n_quote; i++) {
        int index = hyp->quote[i].index;
        for (int j = 0; j < ref->n_quote; j++) {
            struct tree_text a = ref->tree.item[ref->quote[j].item].name;
            struct tree_text b = hyp->tree.item[hyp->quote[i].item].name;
            if (ref->quote[j].index != index || tree_same(a, b)) continue;
            int a_deleted = has_rule(r, RULE_DELETE, a), b_deleted = has_rule(r, RULE_DELETE, b);
            if (a_deleted == b_deleted) continue;
            struct parseval_side *side = a_deleted ? ref : hyp;
            int first = a_deleted ? j : i;
            side->kept[side->quote[first].item] = 1;
            side->n_word++;
            for (int k = first; k < side->n_quote; k++) side->quote[k].index++;
        }
    }
}

static const struct tree_item *word_of(const struct parseval_side *s, int i) {
    return &s->tree.item[s->word[i]];
}

static int words_differ(const struct parseval *p) {
    if (p->hyp.n_word != p->ref.n_word) return 1;
    for (int i = 0; i < p->ref.n_word; i++)
        if (!are_equal(p->rules, RULE_EQUAL_WORD, word_of(&p->ref, i)->word,
                       word_of(&p->hyp, i)->word))
            return 1;
    return 0;
}

/* The first of the hypothesis' brackets, sorted, that is not before a span. */
static int first_of(const struct parseval_side *s, const struct parseval_bracket *span) {
    int low = 0, high = s->n_bracket;
    while (low < high) {
        int middle = (low + high) / 2;
        const struct parseval_bracket *b = &s->bracket[middle];
        if (b->begin < span->begin || (b->begin == span->begin && b->end < span->end))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int matches(struct parseval *p) {
    struct parseval_side *hyp = &p->hyp;
    int n = 0;
    if (hyp->n_bracket) qsort(hyp->bracket, (size_t)hyp->n_bracket, sizeof *hyp->bracket, by_span);
    for (int i = 0; i < p->ref.n_bracket; i++) {
        const struct parseval_bracket *b = &p->ref.bracket[i];
        for (int j = first_of(hyp, b); j < hyp->n_bracket; j++) {
            struct parseval_bracket *h = &hyp->bracket[j];
            if (h->begin != b->begin || h->end != b->end) break;
            if (h->matched) continue;
            if (!p->rules->unlabelled && !are_equal(p->rules, RULE_EQUAL, b->label, h->label))
                continue;
            h->matched = 1;
            n++;
            break;
        }
    }
    return n;
}

static int cross(const struct parseval_bracket *a, const struct parseval_bracket *b) {
    return (a->begin < b->begin && a->end > b->begin && a->end < b->end) ||
           (a->begin > b->begin && a->begin < b->end && a->end > b->end);
}

static int crossings(const struct parseval *p) {
    int n = 0;
    for (int j = 0; j < p->hyp.n_bracket; j++) {
        int i = 0;
        while (i < p->ref.n_bracket && !cross(&p->ref.bracket[i], &p->hyp.bracket[j])) i++;
        n += i < p->ref.n_bracket;
    }
    return n;
}

void parseval_count(struct parseval *p, uint64_t stat[PARSEVAL_N_STAT], struct segment hyp,
                    const struct segment *ref) {
    struct err err;
    memset(stat, 0, PARSEVAL_N_STAT * sizeof *stat);
    int bad = tree_read(&p->ref.tree, ref->text, ref->size, &err);
    bad |= tree_read(&p->hyp.tree, hyp.text, hyp.size, &err);
    choose_words(&p->ref, p->rules);
    choose_words(&p->hyp, p->rules);
    if (!p->hyp.n_word) {
        stat[PARSEVAL_SKIPPED] = 1;
        return;
    }
    if (!bad) {
        if (p->hyp.n_word != p->ref.n_word) settle_quotes(p);
        collect(&p->ref, p->rules);
        collect(&p->hyp, p->rules);
    }
    if (bad || words_differ(p)) {
        stat[PARSEVAL_ERRORS] = 1;
        return;
    }
    int match = matches(p), crossing = crossings(p);
    stat[PARSEVAL_MATCH] = (uint64_t)match;
    stat[PARSEVAL_REF] = (uint64_t)p->ref.n_bracket;
    stat[PARSEVAL_HYP] = (uint64_t)p->hyp.n_bracket;
    stat[PARSEVAL_VALID] = 1;
    stat[PARSEVAL_EXACT] = match == p->ref.n_bracket && match == p->hyp.n_bracket;
    stat[PARSEVAL_CROSSING] = (uint64_t)crossing;
    stat[PARSEVAL_NO_CROSSING] = crossing == 0;
    stat[PARSEVAL_FEW_CROSSING] = crossing <= 2;
    stat[PARSEVAL_WORDS] = (uint64_t)p->ref.n_word;
    for (int i = 0; i < p->ref.n_word; i++)
        stat[PARSEVAL_TAGS] +=
            are_equal(p->rules, RULE_EQUAL, word_of(&p->ref, i)->name, word_of(&p->hyp, i)->name);
}

/* ---- life ------------------------------------------------------------------------------------ */

void parseval_init(struct parseval *p, const struct parseval_rules *rules) {
    *p = (struct parseval){.rules = rules};
}

static void side_release(struct parseval_side *s) {
    tree_release(&s->tree);
    xfree(s->kept);
    xfree(s->bracket);
    xfree(s->word);
    xfree(s->quote);
    xfree(s->stack);
}

void parseval_release(struct parseval *p) {
    side_release(&p->hyp);
    side_release(&p->ref);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static double percent(uint64_t part, uint64_t whole) {
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

double parseval_value(const uint64_t *sum, const void *rules) {
    (void)rules;
    double p = percent(sum[PARSEVAL_MATCH], sum[PARSEVAL_HYP]);
    double r = percent(sum[PARSEVAL_MATCH], sum[PARSEVAL_REF]);
    return p + r > 0 ? 2 * p * r / (p + r) : 0;
}

void parseval_details(char *out, size_t size, const uint64_t *sum) {
    uint64_t n = sum[PARSEVAL_VALID];
    unsigned long long errors = sum[PARSEVAL_ERRORS], skipped = sum[PARSEVAL_SKIPPED];
    snprintf(out, size,
             "P = %.2f R = %.2f exact = %.2f crossing = %.2f (none = %.2f few = %.2f) tags = %.2f "
             "(sentences = %llu errors = %llu skipped = %llu)",
             percent(sum[PARSEVAL_MATCH], sum[PARSEVAL_HYP]),
             percent(sum[PARSEVAL_MATCH], sum[PARSEVAL_REF]), percent(sum[PARSEVAL_EXACT], n),
             n ? (double)sum[PARSEVAL_CROSSING] / (double)n : 0,
             percent(sum[PARSEVAL_NO_CROSSING], n), percent(sum[PARSEVAL_FEW_CROSSING], n),
             percent(sum[PARSEVAL_TAGS], sum[PARSEVAL_WORDS]), n + errors + skipped, errors,
             skipped);
}

void parseval_signature(char *out, size_t size, const struct parseval_rules *rules,
                        const struct resampling *resampling) {
    char begin[96];
    signature_begin(begin, sizeof begin, 1, resampling);
    snprintf(out, size, "%slabels:%s|rules:%s|version:heed-%s", begin,
             rules->unlabelled ? "no" : "yes", rules->name, HEED_VERSION);
}
