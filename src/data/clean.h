/* clean.h — which pairs of a corpus are fit to learn from?
 *
 * A pair is dropped for the first reason of CLEAN_MAP that holds; docs/data.md has the rules as
 * users read them, clean_options says what may be set. Most rules look at one pair alone, the last
 * four compare it with texts that must stay unseen and with the pairs kept before it.
 *
 * A cleaner takes windows of pairs, judges them on all threads, and decides in order: its verdicts
 * do not depend on the number of threads. It owns what it remembers: 12 bytes for a slot of each
 * table (seen.h), which grow with the number of different pairs kept (sources, targets: only when
 * their number is limited), and of lines to stay unseen. */
#ifndef DATA_CLEAN_H
#define DATA_CLEAN_H

#include "base/options.h"
#include "base/pool.h"
#include "data/pairs.h"

#define CLEAN_MAP(X)                                                                               \
    X(CLEAN_EMPTY, "empty")         /* a side has no text */                                       \
    X(CLEAN_BROKEN, "broken")       /* bad UTF-8, U+FFFD, controls, private use, "fÃ¼r" */       \
    X(CLEAN_LENGTH, "length")       /* too few or too many words, or a line beyond text.h */       \
    X(CLEAN_LETTERS, "letters")     /* mostly digits, punctuation and symbols */                   \
    X(CLEAN_WORD, "word")           /* an endless word that has no like on the other side */       \
    X(CLEAN_REPEATED, "repeated")   /* a character or word repeated on one side only */            \
    X(CLEAN_MARKUP, "markup")       /* HTML tags or entities, not as many on both sides */         \
    X(CLEAN_COPY, "copy")           /* both sides are the same */                                  \
    X(CLEAN_RATIO, "ratio")         /* one side is much longer */                                  \
    X(CLEAN_FRAGMENT, "fragment")   /* half a sentence: a small letter begins it, not the other */ \
    X(CLEAN_NUMBERS, "numbers")     /* numbers that disagree */                                    \
    X(CLEAN_LANGUAGE, "language")   /* a side is clearly in another language */                    \
    X(CLEAN_EXCLUDED, "excluded")   /* a side is in a text that must stay unseen */                \
    X(CLEAN_DUPLICATE, "duplicate") /* the pair was there before */                                \
    X(CLEAN_NEAR, "near-duplicate") /* ... but for case, digits, punctuation and spaces */         \
    X(CLEAN_REPEAT_SIDE, "repeated-side") /* a side has been kept often enough */

enum clean_reason {
#define CLEAN_ENUM(name, text) name,
    CLEAN_MAP(CLEAN_ENUM)
#undef CLEAN_ENUM
        CLEAN_N,
    CLEAN_KEPT = -1
};
extern const char *const clean_reasons[]; /* NULL-terminated */

/* 0 switches a limit off. */
struct clean_options {
    const char *language[2]; /* "en", "de"; NULL: not looked at */
    int language_words;      /* in shorter lines languages are not told apart */
    int min_words, max_words;
    int max_word;      /* characters */
    double letters;    /* share of what is not space, at least; 4 may be missing */
    double word_ratio; /* longer > ratio * shorter + 4 words */
    double char_ratio; /* longer > ratio * shorter + 20 characters */
    int max_copy;      /* words of a line that is the same on both sides */
    int max_per[2];    /* pairs of one source, one target */
    const char *keep;  /* names of reasons, separated by commas, for which nothing is dropped */
    struct option_list exclude; /* files whose lines must not occur on either side */
};
extern const struct option clean_rows[]; /* of the above */

struct clean_verdict {
    enum clean_reason why; /* CLEAN_KEPT: none */
    int side;              /* of the reason: 0, 1; 2: of the pair */
};

struct clean_report {
    uint64_t n_read, n_kept;
    uint64_t n_dropped[CLEAN_N], first_dropped[CLEAN_N]; /* line number from 1; 0: none */
    size_t bytes;                                        /* of the tables */
};

struct cleaner;

/* Reads the excluded files. Borrows options and pool. Errors: names that are not known, files that
 * cannot be read. */
int cleaner_new(struct cleaner **cleaner, const struct clean_options *options, struct pool *pool,
                struct err *err);
void cleaner_free(struct cleaner *cleaner);

/* The verdicts on pair[0..n), which follow those of the last call. */
void cleaner_run(struct cleaner *cleaner, struct clean_verdict *verdict, const struct pair *pair,
                 int n);
const struct clean_report *cleaner_report(const struct cleaner *cleaner);

#endif
