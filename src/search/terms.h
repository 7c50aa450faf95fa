/* terms.h — what a translation must contain: terms, each in one of several forms.
 *
 * A form is a sequence of pieces. A hypothesis has a term if it has one of its forms as whole
 * words; two terms never share a piece of it. So what a hypothesis has is a function of the tokens
 * that it has written, read from left to right: where unmet terms match, the longest form counts
 * (of equal ones that of the first term), and reading goes on behind it. Nothing need be stored
 * with a hypothesis, whichever way it goes.
 *
 * Whole words. `edge` says of every piece whether a word that was written before it has ended
 * (TERM_PARTS: it begins with a space or punctuation), and whether a word may begin right behind it
 * (TERM_OPENS: it ends with a space, a bracket, a hyphen or the like). A form is `glued` if it
 * begins without a space: then it must stand at the beginning, or behind a piece that opens. What
 * follows a form must part.
 *
 * The terms of a sentence are plain arrays of whoever found them (glossary.h); nothing here is
 * allocated or can fail. docs/math/terms.md says how the search uses them. */
#ifndef SEARCH_TERMS_H
#define SEARCH_TERMS_H

#include <stdint.h>

enum {
    TERMS_MAX = 32,    /* of a sentence */
    TERM_FORMS = 6,    /* of a term */
    TERM_PIECES = 128, /* of a form */
    TERMS_NEXT = 64,   /* pieces proposed to a hypothesis */
    TERM_PARTS = 1,    /* bits of `edge` */
    TERM_OPENS = 2
};

struct term_form {
    const int32_t *id; /* [n] */
    int n;             /* from 1 to TERM_PIECES */
    int glued;
};

struct term {
    struct term_form form[TERM_FORMS];
    int n;      /* at least 1 */
    int weight; /* pieces of its longest form */
};

struct terms {
    const struct term *term; /* [n] */
    int n;                   /* at most TERMS_MAX */
    const uint8_t *edge;     /* [vocabulary]; NULL: every piece parts and opens */
};

/* How far a hypothesis has been read for good: what comes later does not change what it has up to
 * there. Begins as {0}. */
struct terms_read {
    uint64_t met; /* bit i: term i */
    int at;
};

/* What n tokens have. The last `begun` of them begin an unmet term, as far as it goes. */
struct terms_view {
    uint64_t met;
    int n_met, begun;
    int weight; /* of the terms that are met */
};

/* The weights of all. */
int terms_weight(const struct terms *terms);

/* Reads on; *read may have been made with any part of the same tokens. */
struct terms_view terms_view(const struct terms *terms, struct terms_read *read,
                             const int32_t *written, int n);

/* The pieces that would begin an unmet term, or go on with the one that has begun; each once.
 * Returns how many. */
int terms_next(const struct terms *terms, const struct terms_view *view, const int32_t *written,
               int n, int32_t id[TERMS_NEXT]);

#endif
