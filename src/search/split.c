/* split.c — see split.h.
 *
 * Two passes. `shatter` descends the ranks until every piece fits; `pack` joins neighbours. Each
 * piece is counted once on the way down and once when it is packed, so the work is linear in the
 * text. */
#include "search/split.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

enum split_rank { SPLIT_SENTENCE, SPLIT_CLAUSE, SPLIT_WORD, SPLIT_CHARACTER };

/* ---- characters ------------------------------------------------------------------------------ */

struct reader {
    const char *text;
    size_t size, at;
};

/* Takes the character at r->at and moves past it; 0 at the end. */
static uint32_t take(struct reader *r) {
    uint32_t code = 0;
    if (r->at == r->size) return 0;
    int n = utf8_decode(&code, r->text + r->at, r->size - r->at);
    r->at += (size_t)(n < 0 ? -n : n);
    return n < 0 ? 0xFFFD : code;
}

static uint32_t peek(const struct reader *r) {
    struct reader copy = *r;
    return take(&copy);
}

static int is_space(uint32_t c) {
    return c == ' ' || (c >= '\t' && c <= '\r') || c == 0x85 || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000;
}

static int among(uint32_t c, const uint32_t *set) {
    for (; *set; set++)
        if (*set == c) return 1;
    return 0;
}

/* Marks that end something when white space follows, and those that do so without: Chinese and
 * Japanese do not write spaces. */
struct marks {
    const uint32_t *spaced, *alone;
};

static const struct marks clause_marks = {
    (const uint32_t[]){',', ';', ':', 0x2013, 0x2014, 0x060C, 0x061B, 0},
    (const uint32_t[]){0xFF0C, 0x3001, 0xFF1B, 0xFF1A, 0xFF64, 0}};

/* Quotation marks and brackets that may stand between the mark and the space. */
static const uint32_t closing[] = {'"',    '\'',   ')',    ']',    '}',    0xBB,   0xAB,
                                   0x2018, 0x2019, 0x201C, 0x201D, 0x203A, 0x2039, 0x300D,
                                   0x300F, 0x3011, 0xFF09, 0xFF3D, 0};

/* c has just been taken. If it ends a clause, moves past its closing marks and the space. */
static int ends_clause(struct reader *r, uint32_t c) {
    const struct marks *m = &clause_marks;
    int alone = among(c, m->alone);
    if (!alone && !among(c, m->spaced)) return 0;
    struct reader ahead = *r;
    uint32_t next;
    while ((next = peek(&ahead)) &&
           (among(next, closing) || among(next, m->alone) || among(next, m->spaced))) {
        alone |= among(next, m->alone);
        take(&ahead);
    }
    if (!alone && next && !is_space(next)) return 0;
    while (is_space(peek(&ahead))) take(&ahead);
    *r = ahead;
    return 1;
}

/* Where the piece that begins at text[from] ends, in (from, size]: behind its white space, so that
 * pieces adjoin. text is valid UTF-8. */
static size_t next_piece(const char *text, size_t size, size_t from, enum split_rank rank,
                         const struct sentence_rules *rules) {
    struct reader r = {text, size, from};
    if (rank == SPLIT_SENTENCE) {
        size_t at = sentence_skip_space(text, size, from);
        if (at < size) at = sentence_end(rules, text, size, at);
        return sentence_skip_space(text, size, at);
    }
    while (r.at < size) {
        uint32_t c = take(&r);
        if (rank == SPLIT_CHARACTER) return r.at;
        if (rank == SPLIT_WORD && is_space(c)) {
            while (is_space(peek(&r))) take(&r);
            return r.at;
        }
        if (rank == SPLIT_CLAUSE && ends_clause(&r, c)) return r.at;
    }
    return size;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

struct splitter {
    const char *text;
    const struct sentence_rules *rules;
    int limit;
    split_count *count;
    void *ctx;
    struct split_part *part;
    int *group; /* [n] of each part: pieces cut out of one that was too long stay together */
    int n, cap, n_group;
    struct err *err;
};

static void add(struct splitter *s, size_t at, size_t end, int count, int group) {
    if (s->n == s->cap) {
        s->cap = s->cap ? 2 * s->cap : 16;
        s->part = xrealloc(s->part, (size_t)s->cap * sizeof *s->part);
        s->group = xrealloc(s->group, (size_t)s->cap * sizeof *s->group);
    }
    s->group[s->n] = group;
    s->part[s->n++] = (struct split_part){at, end - at, count};
}

/* Tokens of text[at..end), white space at its ends left out. */
static int count_piece(struct splitter *s, size_t at, size_t end) {
    int n = s->count(s->ctx, s->text + at, end - at);
    return n < 0 ? err_set(s->err, n, "a part of it cannot be tokenised") : n;
}

/* The longest run of characters from `at` that fits; 0 when one is too many, negative on failure.
 * The guess grows and shrinks by halves, so that a long word is not counted whole each time. */
static int longest_run(struct splitter *s, size_t at, size_t end, size_t *run_end, int *run_count) {
    size_t good = at, bad = end + 1, step = (size_t)s->limit;
    *run_count = 0;
    for (;;) {
        size_t guess = bad > end && good + step < end ? good + step
                       : bad > end                    ? end
                                                      : good + (bad - good) / 2;
        while (guess > good && guess < end && ((unsigned char)s->text[guess] & 0xC0u) == 0x80)
            guess--;
        if (guess <= good) guess = next_piece(s->text, end, good, SPLIT_CHARACTER, NULL);
        if (guess >= bad) break;
        int n = count_piece(s, at, guess);
        if (n < 0) return n;
        if (n > s->limit) {
            bad = guess;
            continue;
        }
        good = guess;
        *run_count = n;
        step *= 2;
        if (good == end) break;
    }
    *run_end = good;
    return good > at;
}

static int cut_hard(struct splitter *s, size_t at, size_t end, int group) {
    while (at < end) {
        size_t run_end;
        int count, rc = longest_run(s, at, end, &run_end, &count);
        if (rc < 0) return rc;
        if (rc == 0)
            return err_set(s->err, HEED_ELIMIT, "one character of it has more than %d token%s",
                           s->limit, PLURAL(s->limit));
        add(s, at, run_end, count, group);
        at = run_end;
    }
    return 0;
}

/* Cuts text[at..end) into pieces of this rank, and those that are too long into pieces of the
 * next. */
static int shatter(struct splitter *s, size_t begin, size_t end, enum split_rank rank, int group) {
    for (size_t at = begin; at < end;) {
        size_t next = next_piece(s->text, end, at, rank, s->rules);
        int n = count_piece(s, at, next);
        if (n < 0) return n;
        if (n <= s->limit) {
            add(s, at, next, n, group);
        } else { /* at most as deep as there are ranks */
            int inner = ++s->n_group;
            int rc = rank == SPLIT_WORD ? cut_hard(s, at, next, group)
                                        : shatter(s, at, next, rank + 1, inner);
            if (rc) return rc;
        }
        at = next;
    }
    return 0;
}

/* Joins neighbours of one group: where a sentence had to be cut, its end is not glued to the next.
 * Tokens of a whole are not quite the sum of its pieces', so the result is counted again, and a
 * piece is given back if it is too long. */
static int pack(struct splitter *s) {
    int kept = 0;
    for (int i = 0; i < s->n;) {
        int last = i, sum = s->part[i].count, n;
        size_t at = s->part[i].at, end;
        while (last + 1 < s->n && s->group[last + 1] == s->group[i] &&
               sum + s->part[last + 1].count <= s->limit)
            sum += s->part[++last].count;
        for (;; last--) {
            end = s->part[last].at + s->part[last].size;
            n = last == i ? s->part[i].count : count_piece(s, at, end);
            if (n < 0) return n;
            if (n <= s->limit) break;
        }
        i = last + 1;
        if (n > 0) s->part[kept++] = (struct split_part){at, end - at, n};
    }
    s->n = kept;
    return 0;
}

static void trim(struct split_part *p, const char *text) {
    struct reader r = {text, p->at + p->size, p->at};
    while (is_space(peek(&r))) take(&r);
    size_t end = r.size;
    for (size_t at = end; at > r.at; end = at) {
        do at--;
        while (at > r.at && ((unsigned char)text[at] & 0xC0u) == 0x80);
        if (!is_space(peek(&(struct reader){text, end, at}))) break;
    }
    *p = (struct split_part){r.at, end - r.at, p->count};
}

int split_text(struct split_part **parts, const char *text, size_t size,
               const struct split_rule *rule, struct err *err) {
    struct splitter s = {.text = text,
                         .rules = rule->rules ? rule->rules : sentence_rules(NULL),
                         .limit = rule->limit,
                         .count = rule->count,
                         .ctx = rule->ctx,
                         .err = err};
    int rc = shatter(&s, 0, size, SPLIT_SENTENCE, 0);
    if (!rc) rc = pack(&s);
    for (int i = 0; !rc && i < s.n; i++) trim(&s.part[i], text);
    *parts = rc ? NULL : s.part;
    if (rc) xfree(s.part);
    xfree(s.group);
    return rc ? rc : s.n;
}
