/* subword.h — other segmentations of the same text, drawn at random: subword regularisation.
 *
 * A sentence that comes as the same pieces in every epoch teaches a model nothing about how pieces
 * are spelled. Drawing its segmentation anew each time does. There are two ways, one per kind of
 * tokenizer:
 *
 *   bpe      BPE dropout (Provilkov et al. 2020, algorithm 1). A word is spelled in characters. At
 *            every step each possible merge of neighbours is dropped with probability P, for this
 *            step only, and the one of highest priority among the rest is applied (of equal ones
 *            the leftmost). The word is finished when nothing can be merged or all was dropped at
 *            once. P = 0 gives the usual segmentation, P = 1 characters.
 *   unigram  subword sampling (Kudo 2018). A segmentation x is drawn with probability proportional
 *            to p(x)^A, p being the tokenizer's own model: over all segmentations, exactly, by
 *            forward filtering and backward sampling. A large A gives the usual segmentation
 *            nearly always, A near 0 all segmentations alike.
 *
 * SentencePiece's sampling has the same distribution for unigram, but not for bpe: there a dropped
 * merge is gone until one of its sides has become another piece. Since a word is built by a chain
 * of merges and one missing link ends the chain, the same P then splits more than twice as much.
 *
 * Both begin with the ids of a sentence, not with its text. The random numbers are a function of a
 * key, so that the same key gives the same segmentation. Pieces that are not made of characters
 * stay as they are: special pieces, bytes and unknown ones, those the user defined, and any whose
 * characters are not all pieces themselves. So do words of more than SUBWORD_MAX_CHARS characters.
 *
 * A struct subword is tables that never change; several threads may use it, each with a
 * struct subword_work of its own. Nothing is allocated while sampling. */
#ifndef DATA_SUBWORD_H
#define DATA_SUBWORD_H

#include "data/tokenizer.h"

enum { SUBWORD_MAX_CHARS = 1024, SUBWORD_MAX_ALPHA = 100 };

struct subword_options {
    double bpe_dropout;   /* P in [0, 1]; for bpe */
    double unigram_alpha; /* A in [0, SUBWORD_MAX_ALPHA]; for unigram */
};

/* Which random numbers: those of sentence `number` under a key. */
struct subword_dice {
    uint64_t key, number;
};

struct subword;
struct subword_work;

/* Whether the options ask for anything, and whether they suit tokenizers of this type: HEED_EINVAL
 * if not. */
int subword_wanted(const struct subword_options *options);
int subword_check(const struct subword_options *options, enum tokenizer_type type, struct err *err);

/* Copies what it needs of the tokenizer. Refuses what subword_check does, and odd tokenizers. */
int subword_new(struct subword **subword, const struct tokenizer *tokenizer,
                const struct subword_options *options, struct err *err);
void subword_free(struct subword *subword);

/* What a thread samples with; the tables must outlive it. */
struct subword_work *subword_work_new(const struct subword *subword);
void subword_work_free(struct subword_work *work);

/* A segmentation of the text of n ids: its pieces to out, and their number. 0, and out holding
 * anything, when there would be more than cap of them. Ids are below the tokenizer's size. */
int subword_sample(struct subword_work *work, struct subword_dice dice, const int32_t *ids, int n,
                   int32_t *out, int cap);

/* How many characters the piece counts for: those it is spelled in, 1 if it is never split. Two
 * segmentations of a text have equal sums. */
int subword_chars(const struct subword *subword, int32_t id);

/* Equal for tables made with the same options; the tokenizer does not enter. */
struct subword_options subword_options_of(const struct subword *subword);

#endif
