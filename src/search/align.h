/* align.h — which source tokens each target token looked at: cross-attention of a finished
 * translation.
 *
 * The translation is sent once more through the decoder, all positions at once (so this costs
 * little compared with the search), with the attention probabilities of one layer kept, or of
 * several, to compare them. An aligner owns its activations and borrows the model; one thread at a
 * time.
 *
 * A target token is aligned by the row of the decoder that has it as *input*. The row before, which
 * writes it, does not know yet what it will be, and looks at what it might become; the row that
 * reads it knows what to look for. */
#ifndef SEARCH_ALIGN_H
#define SEARCH_ALIGN_H

#include "base/pool.h"
#include "data/batch.h"
#include "data/links.h"
#include "model/model.h"

/* auto: align_default's, whichever layer is given */
enum align_row { ALIGN_AUTO, ALIGN_INPUT, ALIGN_OUTPUT };
extern const char *const align_row_names[]; /* NULL-terminated */

/* Whose attention is an alignment. */
struct align_options {
    int layer;          /* of the decoder, counted from 1; 0: align_default */
    int head;           /* counted from 1; 0: the mean of all */
    enum align_row row; /* that reads a target token, or the one that writes it */
    float threshold;    /* a word has no link if none gets this share of its attention */
};

/* What aligns best in models about which nothing is known. Deep decoders, from 4 layers on: the
 * middle layer (the one before, if their number is even), which looks for its input. Shallow ones:
 * the last layer, which has no time for that and looks for what to write. */
struct align_options align_default(int n_layer);

/* One pair; src ends with its end mark. tgt need not: a translation cut at the model's last
 * position can be aligned without one (its last token has no row that reads it, and is aligned by
 * the row that writes it). out [n_tgt, n_src] receives P(target token looks at source token), rows
 * summing to 1; where an aligner has several choices, one such matrix for each, in their order. */
struct align_pair {
    const int32_t *src, *tgt;
    int n_src, n_tgt;
    float *out;
};

struct aligner_setup {
    int32_t bos;
    const struct align_options *choice; /* [n_choice], at least 1 */
    int n_choice;
    struct batch_caps caps;
    struct pool *pool;        /* to take matrices out of large batches; NULL: one thread */
    const volatile int *stop; /* non-zero ends a run with HEED_ECANCELLED; NULL: never */
};

struct aligner;
int aligner_new(struct aligner **aligner, struct model *model, const struct aligner_setup *setup,
                struct err *err);
void aligner_free(struct aligner *aligner);

/* Pairs beyond the capacity are done in several rounds. */
int aligner_run(struct aligner *aligner, const struct align_pair *pair, int n, struct err *err);

/* ---- reading a matrix ------------------------------------------------------------------------ */

/* Rows are target tokens or words, columns are those of the source. */
struct align_matrix {
    const float *at;
    int n_row, n_col, stride; /* stride: from row to row; at least n_col */
};

/* Tokens to words: out [n_tgt_word, n_src_word] is, for each target word, the mean over its tokens
 * of what they give to all tokens of a source word. src_of and tgt_of are as words_map has them;
 * tokens that belong to no word (end marks) do not count. A target word without tokens has a row of
 * zeros. */
struct align_words {
    const int *src_of, *tgt_of; /* [n_col], [n_row] of the matrix */
    int n_src_word, n_tgt_word;
};
void align_to_words(float *out, const struct align_matrix *matrix, const struct align_words *words);

/* The hard alignment: for each row the column of the largest value (ties to the lower), if that is
 * above 0 and no less than the threshold. link[k] = {column, row}, in ascending order; their
 * number, at most n_row. */
int align_links(struct align_link *link, const struct align_matrix *matrix, float threshold);

#endif
