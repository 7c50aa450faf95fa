/* clean.c — see clean.h. */
#include "data/clean.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/num.h"
#include "data/clean_line.h"
#include "data/language.h"
#include "data/seen.h"

enum { TASK_PAIRS = 64, SLACK_WORDS = 4, SLACK_CHARS = 20 };
enum { RUN_CHARS = 6, RUN_WORDS = 4 }; /* in a row are too many, if the other side has fewer */
enum { SLACK_LETTERS = 4, FRAGMENT_SLACK = 10 };
#define FRAGMENT_RATIO 1.2
/* Of lines whose language is looked at: a fifth of the parts at most in the wanted one. */
enum { PART_WORDS = 3, WORD_BYTES = 12, OWN_PARTS = 5 };

const char *const clean_reasons[] = {
#define CLEAN_TEXT(name, text) text,
    CLEAN_MAP(CLEAN_TEXT)
#undef CLEAN_TEXT
        NULL};

#define OPTIONS_OF clean_options
const struct option clean_rows[] = {
    ROW(STRING, "src_lang", language[0], NULL,
        "language of the source, such as en: drops what is clearly in another", .arg = "CODE"),
    ROW(STRING, "tgt_lang", language[1], NULL, "language of the target", .arg = "CODE"),
    ROW(INT, "language_words", language_words, "8",
        "fewest words of a line whose language is judged", .max = 1 << 16),
    ROW(LIST, "exclude", exclude, NULL,
        "texts that must stay unseen: drops pairs with a side that is a line of them",
        .arg = "FILE"),
    ROW(INT, "min_words", min_words, "1", "fewest words of a side", .max = 1 << 16),
    ROW(INT, "max_words", max_words, "200", "most words of a side; 0: any number", .max = 1 << 16),
    ROW(INT, "max_word", max_word, "60",
        "longest word in characters, if the other side has none like it; 0: any", .max = 1 << 16),
    ROW(F64, "letters", letters, "0.5", "smallest share of letters among all but spaces", .max = 1),
    ROW(F64, "word_ratio", word_ratio, "2",
        "longer side at most X times the shorter and 4 words more; 0: any", .max = 1000),
    ROW(F64, "char_ratio", char_ratio, "2",
        "longer side at most X times the shorter and 20 characters more; 0: any", .max = 1000),
    ROW(INT, "max_copy", max_copy, "4", "most words of a line that is the same on both sides",
        .max = 1 << 16),
    ROW(INT, "max_per_source", max_per[0], "0", "most translations of one source; 0: any number",
        .max = 1 << 30),
    ROW(INT, "max_per_target", max_per[1], "0", "most sources of one translation; 0: any number",
        .max = 1 << 30),
    ROW(STRING, "keep", keep, NULL, "reasons not to drop a pair for, separated by commas",
        .arg = "REASONS", .choices = clean_reasons),
    {.name = NULL},
};

/* What a thread found out about a pair. */
struct judged {
    struct clean_verdict verdict; /* so far: what follows depends on other pairs */
    uint64_t near[2], exact;      /* of the sides; of the pair */
};

struct cleaner {
    struct clean_options o;
    unsigned off; /* bit i: not for reason i */
    struct pool *pool;
    struct scratch {
        struct clean_scratch walk;
        struct clean_line line[2];
    } * scratch;             /* [threads] */
    struct judged *judged;   /* [cap] of the window */
    const struct pair *pair; /* the window */
    int n, cap;              /* pairs in it */
    struct seen excluded;    /* near hashes of lines */
    struct seen kept;        /* hashes of pairs; value: part of the exact hash */
    struct seen per[2];      /* near hashes of sides; value: pairs kept */
    struct clean_report report;
};

/* ---- a pair alone ---------------------------------------------------------------------------- */

static int exceeds(size_t longer, size_t shorter, double ratio, int slack) {
    return ratio > 0 && (double)longer > ratio * (double)shorter + slack;
}

/* More than the other side by as much as makes them different lines. */
static int is_repeated(const struct clean_line *a, const struct clean_line *b) {
    return (a->run >= RUN_CHARS && a->run >= 2 * b->run) ||
           (a->word_run >= RUN_WORDS && a->word_run >= 2 * b->word_run);
}

/* Begins in the middle of a sentence that the other side has from its beginning. */
static int is_fragment(const struct clean_line *a, const struct clean_line *b) {
    return a->begins == CLEAN_SMALL && b->begins == CLEAN_CAPITAL &&
           exceeds(b->chars, a->chars, FRAGMENT_RATIO, FRAGMENT_SLACK);
}

/* The reasons that one side alone can give; b is the other one. */
static int holds_side(const struct cleaner *c, enum clean_reason why, const struct line *line,
                      const struct clean_line *a, const struct clean_line *b) {
    const struct clean_options *o = &c->o;
    switch (why) {
    case CLEAN_EMPTY:
        return a->words == 0 && !(line->flags & LINE_TOO_LONG);
    case CLEAN_BROKEN:
        return a->broken;
    case CLEAN_LENGTH:
        return (line->flags & LINE_TOO_LONG) || (a->words && a->words < (size_t)o->min_words) ||
               (o->max_words && a->words > (size_t)o->max_words);
    case CLEAN_LETTERS:
        return o->letters > 0 && a->chars > 0 &&
               (a->letters == 0 ||
                (double)a->letters + SLACK_LETTERS < o->letters * (double)a->chars);
    case CLEAN_WORD:
        return o->max_word && a->longest > (size_t)o->max_word && a->longest >= 2 * b->longest;
    case CLEAN_REPEATED:
        return is_repeated(a, b);
    case CLEAN_MARKUP:
        return a->markup > b->markup;
    case CLEAN_FRAGMENT:
        return is_fragment(a, b);
    case CLEAN_RATIO:
        return exceeds(a->words, b->words, o->word_ratio, SLACK_WORDS) ||
               exceeds(a->chars, b->chars, o->char_ratio, SLACK_CHARS);
    default:
        return 0;
    }
}

static int same_language(const char *a, const char *b) {
    size_t n = strcspn(a, "-");
    return n == strcspn(b, "-") && strncmp(a, b, n) == 0;
}

/* Does the guess name the language, if only as one of several? */
static int names(const struct language_guess *guess, const char *wanted) {
    for (int i = 0; i < guess->n; i++)
        if (same_language(guess->best[i].code, wanted)) return 1;
    return 0;
}

/* The end of some words of text[at..size): PART_WORDS of them, or all if fewer would be left. */
static size_t part_end(const char *text, size_t at, size_t size) {
    size_t end = size;
    for (int word = 0; word < 2 * PART_WORDS && at < size; word++) {
        if (word == PART_WORDS) end = at;
        at += strcspn(text + at, " ");
        at += strspn(text + at, " ");
        if (at == size && word < 2 * PART_WORDS - 1) return size;
    }
    return end;
}

/* Foreign words in a line, names above all, mislead the guess for the whole. So a line is foreign
 * only if the guess is sure and hardly any few words of it look like the wanted language. */
static int is_foreign(const struct cleaner *c, const struct line *line, size_t words,
                      const char *wanted) {
    struct language_guess guess;
    size_t enough = (size_t)c->o.language_words; /* some write without spaces */
    int parts = 0, own = 0;
    if (!wanted || (words < enough && line->size < enough * WORD_BYTES)) return 0;
    language_detect(&guess, line->text, line->size, wanted);
    if (!guess.reliable || names(&guess, wanted)) return 0;
    for (size_t at = 0, end; at < line->size; at = end, parts++) {
        end = part_end(line->text, at, line->size);
        language_detect(&guess, line->text + at, end - at, wanted);
        guess.n = min_int(guess.n, 1);
        own += names(&guess, wanted);
    }
    return own * OWN_PARTS <= parts;
}

/* The reasons that the pair gives: 1; those of its first or second side: -1, -2. */
static int holds(const struct cleaner *c, enum clean_reason why, const struct pair *pair,
                 const struct clean_line line[2]) {
    switch (why) {
    case CLEAN_COPY:
        return line[0].exact == line[1].exact && line[0].words > (size_t)c->o.max_copy;
    case CLEAN_NUMBERS:
        return clean_numbers_disagree(&line[0], &line[1]);
    case CLEAN_LANGUAGE:
        for (int s = 0; s < 2; s++)
            if (is_foreign(c, &pair->side[s], line[s].words, c->o.language[s])) return -1 - s;
        return 0;
    case CLEAN_EXCLUDED:
        for (int s = 0; s < 2; s++)
            if (seen_find(&c->excluded, line[s].near)) return -1 - s;
        return 0;
    default:
        for (int s = 0; s < 2; s++)
            if (holds_side(c, why, &pair->side[s], &line[s], &line[!s])) return -1 - s;
        return 0;
    }
}

static int is_on(const struct cleaner *c, enum clean_reason why) { return !(c->off >> why & 1); }

static void judge(const struct cleaner *c, struct judged *j, const struct pair *pair,
                  struct scratch *scratch) {
    struct clean_line *line = scratch->line;
    for (int s = 0; s < 2; s++) {
        clean_look(&line[s], &pair->side[s], &scratch->walk);
        j->near[s] = line[s].near;
    }
    uint64_t exact[2] = {line[0].exact, line[1].exact};
    j->exact = XXH3_64bits(exact, sizeof exact);
    j->verdict = (struct clean_verdict){.why = CLEAN_KEPT};
    for (enum clean_reason why = 0; why <= CLEAN_EXCLUDED; why++) {
        int held = is_on(c, why) ? holds(c, why, pair, line) : 0;
        if (!held) continue;
        j->verdict = (struct clean_verdict){why, held > 0 ? 2 : -1 - held};
        return;
    }
}

static void judge_task(void *ctx, int task, int thread) {
    struct cleaner *c = ctx;
    int end = min_int(c->n, (task + 1) * TASK_PAIRS);
    for (int i = task * TASK_PAIRS; i < end; i++)
        judge(c, &c->judged[i], &c->pair[i], &c->scratch[thread]);
}

/* ---- beside the pairs before it -------------------------------------------------------------- */

/* Decides on a pair that is good by itself, and remembers it if it is kept. */
static struct clean_verdict compare(struct cleaner *c, const struct judged *j) {
    int near = is_on(c, CLEAN_NEAR);
    uint32_t tag = (uint32_t)(j->exact >> 32) | 1; /* 0 is for what is new */
    uint32_t *value = NULL;
    if (near || is_on(c, CLEAN_DUPLICATE)) {
        value = seen_value(&c->kept, near ? XXH3_64bits(j->near, sizeof j->near) : j->exact);
        enum clean_reason why = *value == tag ? CLEAN_DUPLICATE : CLEAN_NEAR;
        if (*value && is_on(c, why)) return (struct clean_verdict){why, 2};
    }
    for (int s = 0; s < 2; s++)
        if (c->o.max_per[s] && is_on(c, CLEAN_REPEAT_SIDE) &&
            *seen_value(&c->per[s], j->near[s]) >= (uint32_t)c->o.max_per[s])
            return (struct clean_verdict){CLEAN_REPEAT_SIDE, s};
    if (value && !*value) *value = tag;
    for (int s = 0; s < 2; s++)
        if (c->o.max_per[s]) ++*seen_value(&c->per[s], j->near[s]);
    return (struct clean_verdict){.why = CLEAN_KEPT};
}

void cleaner_run(struct cleaner *c, struct clean_verdict *verdict, const struct pair *pair, int n) {
    struct clean_report *r = &c->report;
    if (n > c->cap) {
        c->cap = n;
        c->judged = xrealloc(c->judged, (size_t)n * sizeof *c->judged);
    }
    c->pair = pair;
    c->n = n;
    pool_run(c->pool, judge_task, c, ceil_div(n, TASK_PAIRS));
    for (int i = 0; i < n; i++) {
        struct clean_verdict v = c->judged[i].verdict;
        if (v.why == CLEAN_KEPT) v = compare(c, &c->judged[i]);
        verdict[i] = v;
        r->n_read++;
        r->n_kept += v.why == CLEAN_KEPT;
        if (v.why == CLEAN_KEPT) continue;
        if (!r->n_dropped[v.why]++) r->first_dropped[v.why] = r->n_read;
    }
    r->bytes = seen_bytes(&c->excluded) + seen_bytes(&c->kept) + seen_bytes(&c->per[0]) +
               seen_bytes(&c->per[1]);
}

const struct clean_report *cleaner_report(const struct cleaner *c) { return &c->report; }

/* ---- opening --------------------------------------------------------------------------------- */

static int read_keep(struct cleaner *c, struct err *err) {
    for (const char *at = c->o.keep; at && *at;) {
        char name[32];
        size_t length = strcspn(at, ",");
        int which = 0;
        struct err why;
        snprintf(name, sizeof name, "%.*s", (int)min_size(length, sizeof name - 1), at);
        if (choice_parse(&which, clean_reasons, name, &why))
            return err_set(err, HEED_EINVAL, "keep: %s", why.msg);
        c->off |= 1u << which;
        at += length + (at[length] == ',');
    }
    return 0;
}

static int check_languages(const struct cleaner *c, struct err *err) {
    for (int s = 0; s < 2; s++)
        if (c->o.language[s] && !language_known(c->o.language[s]))
            return err_set(
                err, HEED_EINVAL,
                "%s: '%.40s' is not the code of a language that is known, such as en or de",
                s ? "tgt_lang" : "src_lang", c->o.language[s]);
    return 0;
}

/* Remembers the lines that have text. */
static int read_excluded(struct cleaner *c, const char *path, struct err *err) {
    struct text *text;
    struct line line;
    int rc = text_open(&text, path, err);
    if (rc) return rc;
    while ((rc = text_next(text, &line, err)) > 0) {
        struct clean_line *look = &c->scratch[0].line[0];
        clean_look(look, &line, &c->scratch[0].walk);
        if (look->words) *seen_value(&c->excluded, look->near) = 1;
    }
    text_close(text);
    return rc;
}

int cleaner_new(struct cleaner **cleaner, const struct clean_options *o, struct pool *pool,
                struct err *err) {
    struct cleaner *c = xcalloc(1, sizeof *c);
    c->o = *o;
    c->pool = pool;
    c->scratch = xcalloc((size_t)pool_size(pool), sizeof *c->scratch);
    int rc = read_keep(c, err);
    if (!rc) rc = check_languages(c, err);
    for (int i = 0; i < o->exclude.n && !rc; i++) rc = read_excluded(c, o->exclude.item[i], err);
    *cleaner = rc ? NULL : c;
    if (rc) cleaner_free(c);
    return rc;
}

void cleaner_free(struct cleaner *c) {
    if (!c) return;
    for (int i = 0; i < pool_size(c->pool); i++) clean_scratch_release(&c->scratch[i].walk);
    xfree(c->scratch);
    xfree(c->judged);
    seen_release(&c->excluded);
    seen_release(&c->kept);
    for (int s = 0; s < 2; s++) seen_release(&c->per[s]);
    xfree(c);
}
