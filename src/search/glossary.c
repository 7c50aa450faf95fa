/* glossary.c — see glossary.h.
 *
 * All terms are one tree whose edges are words in small letters. A node is the hash of the way to
 * it, kept in a table with open addressing; a term that ends there is compared with the text before
 * it is believed, so that equal hashes cost time and nothing else. */
#include "search/glossary.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "data/text.h"
#include "model/card.h"

/* ---- the tree -------------------------------------------------------------------------------- */

struct entry {
    const char *source, *target; /* NUL-terminated; the source's words with one space between */
    const char *small;           /* the source in small letters */
    int exact;                   /* it has a capital */
    int next;                    /* other entry of the same words in small letters, or -1 */
};

struct node {
    uint64_t way; /* 0: free */
    int entry;    /* the first that ends here, or -1 */
};

struct glossary {
    struct keep keep; /* texts */
    struct entry *entry;
    int n, room;
    struct node *node; /* [size], a power of two */
    size_t size, used;
    struct words words; /* scratch */
};

struct glossary *glossary_new(void) {
    struct glossary *g = xcalloc(1, sizeof *g);
    g->size = 64;
    g->node = xcalloc(g->size, sizeof *g->node);
    return g;
}

void glossary_free(struct glossary *g) {
    if (!g) return;
    keep_release(&g->keep);
    words_release(&g->words);
    xfree(g->entry);
    xfree(g->node);
    xfree(g);
}

int glossary_size(const struct glossary *g) { return g->n; }

static uint64_t step(uint64_t way, const char *word, size_t size) {
    uint64_t next = XXH3_64bits_withSeed(word, size, way);
    return next ? next : 1;
}

/* The place of a node, or the free one where it belongs. */
static struct node *place(const struct glossary *g, uint64_t way) {
    size_t at = (size_t)way & (g->size - 1);
    while (g->node[at].way && g->node[at].way != way) at = (at + 1) & (g->size - 1);
    return &g->node[at];
}

static struct node *make_node(struct glossary *g, uint64_t way) {
    struct node *node = place(g, way);
    if (node->way) return node;
    if (2 * (g->used + 1) > g->size) {
        struct node *old = g->node;
        size_t size = g->size;
        g->size *= 2;
        g->node = xcalloc(g->size, sizeof *g->node);
        for (size_t i = 0; i < size; i++)
            if (old[i].way) *place(g, old[i].way) = old[i];
        xfree(old);
        node = place(g, way);
    }
    g->used++;
    *node = (struct node){way, -1};
    return node;
}

/* ---- words ----------------------------------------------------------------------------------- */

enum { MOST_CODES = GLOSSARY_MAX_TERM + 1 };

/* A word in small letters: its size, at most 2 * GLOSSARY_MAX_TERM + 2; 0 for one that is too long
 * to be of a term. */
static size_t small_letters(char *out, const char *word, size_t size) {
    uint32_t code[MOST_CODES], small[2 * MOST_CODES];
    size_t n = 0, bytes = 0;
    if (size > GLOSSARY_MAX_TERM) return 0;
    for (size_t at = 0; at < size; n++) {
        int length = utf8_decode(&code[n], word + at, size - at);
        if (length < 0) return 0;
        at += (size_t)length;
    }
    n = unicode_lower(small, code, n);
    for (size_t i = 0; i < n; i++) {
        /* a final sigma is the same letter */
        char *to = out + bytes;
        int length = utf8_encode(to, small[i] == 0x3C2 ? 0x3C3 : small[i]);
        if (bytes + (size_t)length > 2 * GLOSSARY_MAX_TERM) return 0;
        bytes += (size_t)length;
    }
    return bytes;
}

/* A text's words from .. to with one space between: their size, to out [2 * GLOSSARY_MAX_TERM]; 0
 * if that is too small. */
static size_t join(char *out, const char *text, const struct span *word, int n) {
    size_t size = 0;
    for (int i = 0; i < n; i++) {
        size_t length = (size_t)(word[i].end - word[i].begin);
        if (size + 1 + length > 2 * GLOSSARY_MAX_TERM) return 0;
        if (i) out[size++] = ' ';
        memcpy(out + size, text + word[i].begin, length);
        size += length;
    }
    return size;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static void trim(const char **text, size_t *size) {
    for (uint32_t code; *size && utf8_decode(&code, *text, *size) > 0 && unicode_is_space(code);) {
        int n = utf8_decode(&code, *text, *size);
        *text += n;
        *size -= (size_t)n;
    }
    for (size_t at = *size; at > 0;) {
        uint32_t code;
        do at--;
        while (at > 0 && ((*text)[at] & 0xC0) == 0x80);
        if (utf8_decode(&code, *text + at, *size - at) < 0 || !unicode_is_space(code)) break;
        *size = at;
    }
}

static int check_term(const char *which, const char *text, size_t size, struct err *err) {
    if (size == 0) return err_set(err, HEED_EFORMAT, "the %s term is empty", which);
    if (size > GLOSSARY_MAX_TERM)
        return err_set(err, HEED_ELIMIT, "the %s term has %zu bytes; %d is the most", which, size,
                       GLOSSARY_MAX_TERM);
    if (utf8_plain_prefix(text, size) < size)
        return err_set(err, HEED_EFORMAT,
                       "the %s term has something at byte %zu that is not plain UTF-8 text", which,
                       utf8_plain_prefix(text, size) + 1);
    return 0;
}

/* The node of the words in g->words, and these in small letters. */
static struct node *find_way(struct glossary *g, const char *source, char *small) {
    uint64_t way = 0;
    size_t size = 0;
    struct node *node = NULL;
    for (int i = 0; i < g->words.n; i++) {
        const struct span *w = &g->words.word[i];
        char word[2 * GLOSSARY_MAX_TERM + 4];
        size_t n = small_letters(word, source + w->begin, (size_t)(w->end - w->begin));
        if (n == 0 || size + 1 + n > 2 * GLOSSARY_MAX_TERM) return NULL;
        if (i) small[size++] = ' ';
        memcpy(small + size, word, n);
        size += n;
        node = make_node(g, way = step(way, word, n));
    }
    small[size] = 0;
    return node;
}

int glossary_add(struct glossary *g, const char *source, size_t source_size, const char *target,
                 size_t target_size, struct err *err) {
    char words[2 * GLOSSARY_MAX_TERM + 1], small[2 * GLOSSARY_MAX_TERM + 1];
    trim(&source, &source_size);
    trim(&target, &target_size);
    int rc = check_term("source", source, source_size, err);
    if (!rc) rc = check_term("target", target, target_size, err);
    if (rc) return rc;
    words_of_text(&g->words, WORDS_WORDS, source, source_size);
    if (g->words.n > GLOSSARY_MAX_WORDS)
        return err_set(err, HEED_ELIMIT, "the source term has %d words; %d are the most",
                       g->words.n, GLOSSARY_MAX_WORDS);
    if (g->n == GLOSSARY_MAX_TERMS)
        return err_set(err, HEED_ELIMIT, "these are more than %d terms", GLOSSARY_MAX_TERMS);
    size_t size = join(words, source, g->words.word, g->words.n);
    struct node *node = size ? find_way(g, source, small) : NULL;
    if (!node) return err_set(err, HEED_ELIMIT, "the source term is too long in small letters");
    words[size] = 0;
    int cases = 0;
    for (int i = node->entry; i >= 0; i = g->entry[i].next, cases++)
        if (strcmp(g->entry[i].source, words) == 0) {
            g->entry[i].target = keep_text(&g->keep, target, target_size);
            return 0;
        }
    if (cases == GLOSSARY_MAX_CASES)
        return err_set(err, HEED_ELIMIT,
                       "there are %d terms already that differ from this one in capitals only",
                       cases);
    if (g->n == g->room) {
        g->room = g->room ? 2 * g->room : 64;
        g->entry = xrealloc(g->entry, (size_t)g->room * sizeof *g->entry);
    }
    g->entry[g->n] = (struct entry){.source = keep_text(&g->keep, words, size),
                                    .target = keep_text(&g->keep, target, target_size),
                                    .small = keep_text(&g->keep, small, strlen(small)),
                                    .exact = strcmp(words, small) != 0,
                                    .next = node->entry};
    node->entry = g->n++;
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

struct field {
    const char *text;
    size_t size;
};
enum { MOST_FIELDS = 32 };

static int split_line(struct field *field, const char *text, size_t size) {
    int n = 0;
    for (const char *end = text + size; n < MOST_FIELDS; n++) {
        const char *tab = memchr(text, '\t', (size_t)(end - text));
        field[n] = (struct field){text, (size_t)((tab ? tab : end) - text)};
        if (!tab) return n + 1;
        text = tab + 1;
    }
    return n;
}

/* Two or three letters, then perhaps more behind hyphens. */
static int is_language(const struct field *f) {
    size_t letters = 0;
    while (letters < f->size && (f->text[letters] | 32) >= 'a' && (f->text[letters] | 32) <= 'z')
        letters++;
    return letters >= 2 && letters <= 3 && f->size < 36 &&
           (letters == f->size || f->text[letters] == '-');
}

/* Which columns to read. */
struct columns {
    int source, target;
};

static int find_column(int *column, const struct field *field, int n, const char *language,
                       const char *path, struct err *err) {
    for (int i = 0; i < n; i++) {
        char tag[40];
        snprintf(tag, sizeof tag, "%.*s", (int)field[i].size, field[i].text);
        if (card_speaks(tag, language) || card_speaks(language, tag)) return *column = i, 0;
    }
    return err_set(err, HEED_ECONFIG, "%.150s: its first line names no column for %s", path,
                   language);
}

/* "#en<tab>de": the columns' languages. */
static int read_header(struct columns *c, const struct glossary_file *file, const struct line *line,
                       struct err *err) {
    struct field field[MOST_FIELDS];
    if (line->size == 0 || line->text[0] != '#') return 0;
    int n = split_line(field, line->text + 1, line->size - 1);
    for (int i = 0; i < n; i++)
        if (n < 2 || !is_language(&field[i])) return 0;
    if (!file->source || !file->target) return 0;
    if (file->reverse)
        return err_set(err, HEED_EINVAL,
                       "%.150s names the languages of its columns, which decide; there is nothing "
                       "to reverse",
                       file->path);
    int rc = find_column(&c->source, field, n, file->source, file->path, err);
    return rc ? rc : find_column(&c->target, field, n, file->target, file->path, err);
}

static int read_line(struct glossary *g, const struct columns *c, const struct line *line,
                     struct err *err) {
    struct field field[MOST_FIELDS];
    if (line->flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "more than %d bytes", TEXT_MAX_LINE);
    if (line->flags & LINE_REPLACED) return err_set(err, HEED_EFORMAT, "not UTF-8");
    size_t blank = 0;
    while (blank < line->size && strchr(" \t", line->text[blank])) blank++;
    if (blank == line->size || line->text[0] == '#') return 0;
    int n = split_line(field, line->text, line->size), last = max_int(c->source, c->target);
    if (n <= last)
        return err_set(err, HEED_EFORMAT,
                       n == 1 ? "no tab; a line is a term, a tab and its translation"
                              : "%d columns; the one that is wanted is number %d",
                       n, last + 1);
    const struct field *from = &field[c->source], *to = &field[c->target];
    return glossary_add(g, from->text, from->size, to->text, to->size, err);
}

int glossary_open(struct glossary **glossary, const struct glossary_file *file, struct err *err) {
    struct columns columns = {file->reverse ? 1 : 0, file->reverse ? 0 : 1};
    struct text *text;
    struct line line;
    *glossary = NULL;
    int rc = text_open(&text, file->path, err);
    if (rc) return rc;
    struct glossary *g = glossary_new();
    for (uint64_t number = 1; (rc = text_next(text, &line, err)) > 0; number++) {
        struct err why = {0};
        if (number == 1 && (rc = read_header(&columns, file, &line, err))) break;
        if (!(rc = read_line(g, &columns, &line, &why))) continue;
        rc = err_set(err, rc, "%.120s:%llu: %.120s", file->path, (unsigned long long)number,
                     why.msg);
        break;
    }
    text_close(text);
    if (rc)
        glossary_free(g);
    else
        *glossary = g;
    return rc;
}

/* ---- finding --------------------------------------------------------------------------------- */

/* Words of a text on their way down the tree. */
struct walk {
    const char *text;
    const struct span *word;
    int n;
    char small[2 * GLOSSARY_MAX_TERM + 4]; /* in small letters, one space between */
    size_t size;
    uint64_t way;
};

/* One word further: its node, or NULL where no term goes on. */
static const struct node *walk_on(const struct glossary *g, struct walk *w) {
    const struct span *next = &w->word[w->n++];
    char word[2 * GLOSSARY_MAX_TERM + 4];
    size_t n = small_letters(word, w->text + next->begin, (size_t)(next->end - next->begin));
    if (n == 0 || w->size + 1 + n > 2 * GLOSSARY_MAX_TERM) return NULL;
    if (w->n > 1) w->small[w->size++] = ' ';
    memcpy(w->small + w->size, word, n);
    w->small[w->size += n] = 0;
    const struct node *node = place(g, w->way = step(w->way, word, n));
    return node->way ? node : NULL;
}

/* A term that was found. */
struct hit {
    const struct entry *entry;
    int n;        /* words */
    int capitals; /* the text has capitals where the term has none */
    struct span at;
};

/* The entry of a node that is written as the text writes it; else one that does not mind. */
static void compare(const struct glossary *g, const struct walk *w, int first, struct hit *hit) {
    char words[2 * GLOSSARY_MAX_TERM + 1], large[4 * GLOSSARY_MAX_TERM + 1];
    const struct entry *best = NULL;
    size_t size = join(words, w->text, w->word, w->n);
    words[size] = 0;
    large[speller_capitals(large, words, size, 0)] = 0;
    int loud = size > 1 && strcmp(words, large) == 0 && strcmp(words, w->small) != 0;
    for (int i = first; i >= 0; i = g->entry[i].next) {
        const struct entry *e = &g->entry[i];
        if (strcmp(e->small, w->small) != 0) continue;
        if (strcmp(e->source, words) == 0) {
            *hit = (struct hit){.entry = e, .n = w->n};
            return;
        }
        if (!e->exact || (loud && !best)) best = e;
    }
    if (best) *hit = (struct hit){.entry = best, .n = w->n, .capitals = loud};
}

/* The longest term that begins with word `at`. */
static struct hit find(const struct glossary *g, const struct words *words, const char *text,
                       int at) {
    struct hit hit = {0};
    struct walk w = {.text = text, .word = words->word + at};
    while (at + w.n < words->n && w.n < GLOSSARY_MAX_WORDS) {
        const struct node *node = walk_on(g, &w);
        if (!node) break;
        if (node->entry >= 0) compare(g, &w, node->entry, &hit);
    }
    return hit;
}

/* A term's translation to out, which has room for twice its size; with a capital, where it begins
 * the text and the term had one. */
static size_t say_term(char *out, const struct hit *hit, const char *text, int begins) {
    const char *target = hit->entry->target, *term = text + hit->at.begin;
    size_t size = strlen(target);
    uint32_t code = 0, small[2];
    utf8_decode(&code, term, (size_t)(hit->at.end - hit->at.begin));
    unicode_lower(small, &code, 1);
    if (begins && small[0] != code) return speller_capitals(out, target, size, 1);
    memcpy(out, target, size + 1);
    return size;
}

/* The text with the translations of n terms in their places. */
static void say(struct glossary_search *how, const char *text, size_t size, const struct hit *hit,
                int n) {
    size_t most = size + 1, at = 0;
    for (int i = 0; i < n; i++) most += 2 * strlen(hit[i].entry->target);
    char *said = keep_take(how->keep, most);
    how->said = said;
    for (int i = 0; i < n; i++) {
        size_t before = (size_t)hit[i].at.begin - at;
        memcpy(said, text + at, before);
        said += before;
        said += say_term(said, &hit[i], text, hit[i].at.begin == how->words->word[0].begin);
        at = (size_t)hit[i].at.end;
    }
    memcpy(said, text + at, size - at);
    how->n_said = (size_t)(said - how->said) + size - at;
}

const struct terms *glossary_find(struct glossary_search *how, const char *text, size_t size) {
    struct hit hit[TERMS_MAX];
    int n = 0;
    words_of_text(how->words, WORDS_WORDS, text, size);
    for (int at = 0; at < how->words->n;) {
        struct hit one = find(how->glossary, how->words, text, at);
        if (one.entry)
            one.at =
                (struct span){how->words->word[at].begin, how->words->word[at + one.n - 1].end};
        at += max_int(one.n, 1);
        if (!one.entry) continue;
        if (n < TERMS_MAX)
            hit[n++] = one;
        else
            how->missed++;
    }
    how->said = NULL;
    if (n == 0) return NULL;
    struct terms *terms = keep_take(how->keep, sizeof *terms);
    struct term *term = keep_take(how->keep, (size_t)n * sizeof *term);
    *terms = (struct terms){term, 0, speller_edge(how->speller)};
    for (int i = 0; i < n; i++) {
        const char *target = hit[i].entry->target;
        int forms = speller_term(how->speller, &term[terms->n], target, strlen(target),
                                 hit[i].capitals, how->keep);
        how->missed += forms == 0;
        if (forms) hit[terms->n++] = hit[i];
    }
    if (terms->n) say(how, text, size, hit, terms->n);
    return terms->n ? terms : NULL;
}
