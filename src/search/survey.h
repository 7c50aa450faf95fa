/* survey.h — all heads of a model over a set of sentences: what each of them does (eval/heads.h).
 *
 * A sentence goes through the model with all attention kept (look.h); pieces become words, marks
 * stay what they are, and every head's matrix is measured. In the decoder a row is named after the
 * token that it reads, in self- and cross-attention: its queries are the begin mark and the words
 * before the end mark.
 *
 * A survey borrows the engine and owns the rest; units and matrices are those of the last sentence.
 * One thread at a time. */
#ifndef SEARCH_SURVEY_H
#define SEARCH_SURVEY_H

#include "base/keep.h"
#include "data/words.h"
#include "eval/heads.h"
#include "search/look.h"

enum { SURVEY_OFFSETS = 5 }; /* heads with a fixed offset, to compare with: -5 .. 5 */

struct survey_sentence {
    const char *text, *target; /* target NULL: the model's own translation */
    enum words_unit unit;      /* what a word of the text is */
    const int *parent;         /* [n_word] of words, -1: none; NULL: no tree */
    int n_word;                /* with parent: how many words it must have */
    const struct links *links; /* between words of the text: from, to; NULL: none */
};

/* The units of one side. */
struct survey_side {
    const char **token; /* [n] */
    char *unit;         /* [n] enum heads_unit */
    int *form;          /* [n] */
    int n;
    int *of; /* [n_piece] the unit of each */
    int n_piece;
    int *of_word; /* [n_word] the unit of each */
    int n_word;
};

struct survey {
    struct look look;
    struct heads_sums *head[VIEW_KINDS]; /* [n_layer * n_head] */
    struct heads_sums fixed[2 * SURVEY_OFFSETS + 1];
    int n_head, n_layer[VIEW_KINDS];
    int n_sentence;
    int64_t n_word;
    struct survey_side src, tgt; /* of the last sentence */
    struct words words;
    struct keep keep;
};

void survey_init(struct survey *s, struct engine *engine, const struct engine_tags *tags);
void survey_release(struct survey *s);

/* Looks at a sentence, and adds nothing. HEED_ELIMIT: too long for the model; HEED_EINVAL: it has
 * not the words that its tree has. */
int survey_look(struct survey *s, const struct survey_sentence *in, struct err *err);

/* Queries and keys of a kind of attention in the last sentence. */
const struct survey_side *survey_queries(const struct survey *s, enum view_kind kind);
const struct survey_side *survey_keys(const struct survey *s, enum view_kind kind);

/* One head of the last sentence in units: out [n_query, n_key]. */
void survey_matrix(const struct survey *s, enum view_kind kind, int layer, int head, float *out);

/* Looks at a sentence and adds its measures to all heads. number: see heads_case; -1 keeps it from
 * being anyone's best case. */
int survey_add(struct survey *s, const struct survey_sentence *in, int number, struct err *err);

/* The best that a head with a fixed offset does, in each measure. */
void survey_fixed(const struct survey *s, double best[HEADS_MEASURES]);

#endif
