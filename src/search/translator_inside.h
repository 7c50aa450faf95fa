/* translator_inside.h — the inside of a translator (translator.h), for src/search/translator*.c
 * only. One run goes through them in this order:
 *
 *     translator.c           options, and the run
 *     translator_parts.c     texts become parts: sentences with their tokens
 *     translator_search.c    parts are sorted by length and searched batch by batch
 *     translator_links.c     words or pieces of a batch are aligned, if asked for
 *     translator_results.c   tokens become text, and parts are joined to translations
 *
 * Everything a run leaves behind lies in `keep`, which the next run empties.
 *
 * Tokenising and reading off go over all threads, in tasks of TASK texts or parts: a GPU translates
 * faster than one thread tokenises. Each thread has a `keep` of its own for what it makes. */
#ifndef SEARCH_TRANSLATOR_INSIDE_H
#define SEARCH_TRANSLATOR_INSIDE_H

#include "base/keep.h"
#include "base/mem.h"
#include "base/num.h"
#include "data/words.h"
#include "search/brackets.h"
#include "search/translator.h"

enum {
    MAX_ROOMS = 16,
    MAX_WIDTHS = 4, /* powers of two from TERMS_BEAM to SEARCH_MAX_BEAM */
    TASK = 64
};

/* The tokens of a text, if it has been tokenised already: NULL where not. */
struct coded {
    int32_t *ids; /* [n], or the first max_tok of them */
    int n;
};

/* A sentence to search. */
struct part {
    int text;           /* it belongs to */
    const char *before; /* [n_before] of the text, kept; NULL: a space parts it from the last */
    size_t n_before;
    const char *after; /* [n_after] likewise, of the last part */
    size_t n_after;
    const int32_t *src; /* [n_src] with its end mark, if any; the tag, if any, is before it */
    int n_src;
    const int32_t *said; /* [n_said] what is searched: src and its tag, or with terms in it */
    int n_said;
    const int *word; /* [pieces] that each token belongs to, if wanted, or -1 */
    int word_at;     /* counted from this one of the text */
    const int32_t *prefix;
    int n_prefix;
    uint64_t key;
    const char *line;          /* [n_line] its text, of a tree */
    size_t n_line;             /* and */
    int n_word;                /* the words of it, divided at spaces */
    const struct terms *terms; /* that it must contain, or NULL */
    int width;                 /* hypotheses that these take; 0: as many as the others */
    int missed;                /* terms that it lacks */
    struct candidate *best;    /* [n] what the search found */
    int n;
};

/* A searcher for sentences of some length. */
struct room {
    struct searcher *searcher;
    struct search_caps caps;
    int full; /* as large as it will get */
};

/* A batch, and the most hypotheses in one search: wide beams get fewer sentences. */
struct suit {
    int sentences, tokens, hypotheses;
};

/* NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding): what belongs together stays so */
struct translator {
    const struct engine *engine;
    const struct tokenizer *source, *target;
    int ended; /* 1 if sources have an end mark, which nearly all have */
    /* what translator_set makes of the options */
    struct translator_options options;
    int limit; /* tokens of a part, end mark and tag included */
    const struct sentence_rules *rules;
    struct engine_tags tags; /* that every part, and its translation, begins with; -1: none */
    int tagged, leads;       /* 1 if there is one before the part, before its translation */
    int max_tok;             /* tokens of a part's text */
    int ready;               /* options are set */
    struct suit suit;
    struct speller *speller;   /* made when there is a glossary */
    struct brackets *brackets; /* made when trees are wanted */
    struct pool *pool;         /* or NULL */
    int n_thread;
    struct keep *of_thread; /* [n_thread] */
    /* of a run */
    struct keep keep;
    struct part *part;
    int n_part, cap_part;
    struct words words; /* scratch */
    struct translator_stats stats;
    /* translator_parts.c */
    struct coded *coded; /* [cap_coded] by text */
    int cap_coded;
    int32_t *ids;             /* [limit] scratch */
    struct span *span;        /* [limit] the bytes of each, if wanted */
    struct words terms_words; /* scratch */
    /* translator_search.c; rooms by how wide the search is, as the options say or as terms want it,
     * and by length */
    struct room room[1 + MAX_WIDTHS][MAX_ROOMS];
    int *order; /* [n_part] */
    int cap_order;
    struct search_input *input;
    struct search_result *result;
    int cap_batch;
    /* translator_links.c */
    struct aligner *aligner;
    float threshold;         /* of its links */
    struct align_pair *pair; /* what the aligner is asked, and its answers */
    int cap_pair;
    float *matrix;
    size_t cap_matrix;
    float *of_words; /* the same of a candidate's words */
    size_t cap_of_words;
};

/* One call of translator_run. */
struct job {
    const struct translator_poll *poll;
    int done, total;
};

/* What the model reads of a part: its tokens behind the tag, if there is one. */
static inline const int32_t *part_ids(const struct translator *t, const struct part *p) {
    return p->src - t->tagged;
}
static inline int part_length(const struct translator *t, const struct part *p) {
    return p->n_src + t->tagged;
}

static inline int wants_words(const struct translator *t) {
    return t->options.alignment == ALIGNMENT_WORDS;
}

/* ---- translator.c ---------------------------------------------------------------------------- */

/* The most tokens of a translation of n_src. */
int translator_longest(const struct translator *t, int n_src);
/* Runs task 0 .. n - 1, each TASK texts or parts. */
void translator_tasks(struct translator *t, pool_fn *fn, void *ctx, int n);

/* ---- translator_parts.c ---------------------------------------------------------------------- */

/* Tokenises n texts on all threads where that pays, for translator_prepare. */
void translator_code(struct translator *t, const struct translator_input *in, int n);
/* Adds the parts of a text, which is the one of this number that translator_code was given. */
int translator_prepare(struct translator *t, int text, const struct translator_input *given,
                       struct translation *out, struct err *err);
/* A copy of t->words. */
const struct span *translator_keep_words(struct translator *t);

/* ---- translator_search.c --------------------------------------------------------------------- */

/* Searches all parts. */
int translator_search(struct translator *t, struct job *job, struct err *err);
void translator_close_rooms(struct translator *t);

/* ---- translator_links.c ---------------------------------------------------------------------- */

/* Makes the aligner that the options want. */
int translator_open_links(struct translator *t, struct err *err);
/* Links of all candidates of the n parts that order[0..n) names. */
int translator_link(struct translator *t, const int *order, int n, struct err *err);

/* ---- translator_results.c -------------------------------------------------------------------- */

/* The texts of all candidates. */
int translator_read_off(struct translator *t, struct err *err);
/* Joins out->n_part parts. */
void translator_assemble(struct translator *t, struct translation *out, const struct part *part);

#endif
