/* heads.h — what an attention head does: measures of its weights over many sentences.
 *
 * A sentence is rows of units: words, punctuation, and marks (begin, end and language marks), with
 * a matrix A [n_query, n_key] of how much each query looks at each key, rows summing to 1. Pieces
 * have been merged before (search/align.h). Every measure is a ratio of two sums over the queries
 * that are no marks, so that the measures of a corpus follow from those of its sentences. With i
 * and j the places of a query and a key among the units that are no marks,
 *
 *   entropy    mean of -sum_j A_ij log2 A_ij, marks included: bits
 *   distance   mean |i - j|, weighted by A; self-attention only
 *   diagonal   mean 1 - |(i + 1/2) / n_query - (j + 1/2) / n_key|, weighted by A
 *   back3 .. ahead3   mean A at j = i - 3 .. i + 3, of queries that may see such a key; self only
 *   same       mean attention to other words of the same spelling, of words that have one
 *   punct      mean attention to punctuation, in sentences that have some in sight
 *   mark       mean attention to marks
 *   parent     of words that depend on another (data/depends.h), how many look most at it
 *   child      of words on which others depend, how many look most at one of those
 *   far        of words with a parent or child FAR or more words away that is spelled otherwise,
 *              how many look most at one of those
 *   link       of words with given links (such as a pronoun's to what it stands for), how many
 *              look most at a linked word
 *
 * "Look most at" compares words and punctuation other than the query itself; ties go to the lower
 * place, and a row without any such attention looks at nothing. Plain data, no memory, cannot
 * fail. */
#ifndef EVAL_HEADS_H
#define EVAL_HEADS_H

#include "data/links.h"

enum { HEADS_FAR = 5, HEADS_OFFSETS = 7 };
enum heads_unit { HEADS_WORD, HEADS_PUNCT, HEADS_MARK };

enum heads_measure {
    HEADS_ENTROPY,
    HEADS_DISTANCE,
    HEADS_DIAGONAL,
    HEADS_BACK3,
    HEADS_BACK2,
    HEADS_BACK1,
    HEADS_HERE,
    HEADS_AHEAD1,
    HEADS_AHEAD2,
    HEADS_AHEAD3,
    HEADS_SAME,
    HEADS_PUNCTUATION,
    HEADS_MARKS,
    HEADS_PARENT,
    HEADS_CHILD,
    HEADS_DISTANT,
    HEADS_LINK,
    HEADS_MEASURES
};
extern const char *const heads_names[]; /* "entropy" ... */

struct heads_sentence {
    int number; /* whatever its caller counts; negative: never the best case */
    int self;   /* queries and keys are the same units */
    int causal; /* and a query sees no later key */
    int n_query, n_key;
    const char *query_unit, *key_unit; /* enum heads_unit of each */
    const int *query_form, *key_form;  /* equal numbers: spelled the same */
    const int *parent;                 /* [n_query] units, -1: none; NULL: no tree */
    const struct links *links;         /* units: query, key; NULL: none */
};

/* The best case of a measure: the sentence and, where it is about words, the query that looks most
 * at the right key. */
struct heads_case {
    double value; /* of the sentence, or the attention; 0: there is none */
    int sentence, query, key;
};

struct heads_sums {
    double sum[HEADS_MEASURES], weight[HEADS_MEASURES];
    struct heads_case best[HEADS_MEASURES];
};

/* Adds a sentence. a: [n_query, n_key]. */
void heads_add(struct heads_sums *sums, const struct heads_sentence *s, const float *a);

/* sum / weight; NaN where there was nothing to measure. */
double heads_value(const struct heads_sums *sums, enum heads_measure m);

/* What a head is like that always looks at the key `offset` places on (itself where there is none),
 * which is what agreement with syntax has to be compared with. a: as heads_add takes it. */
void heads_fixed(float *a, const struct heads_sentence *s, int offset);

/* ---- kinds ----------------------------------------------------------------------------------- */

/* What a head mostly does, the first of these that is true. `fixed` is the best that heads with a
 * fixed offset do in each measure.
 *   rests       more than half of its attention goes to marks
 *   itself      more than half goes to the word itself
 *   positional  more than half goes to one other offset
 *   points      half or more of the links are followed, and a third more than by a fixed offset
 *   parent, child   agrees with the tree in at least 10 of 100 words more than a fixed offset
 *   punctuation more than 40 % goes to punctuation
 *   same        more than 40 % goes to other words of the same spelling
 *   local       the mean distance is below 2.5
 *   broad       the entropy is above 3.5 bits, as if 11 words were equal
 *   mixed       none of these */
enum heads_kind {
    HEADS_RESTS,
    HEADS_ITSELF,
    HEADS_POSITIONAL,
    HEADS_POINTS,
    HEADS_TO_PARENT,
    HEADS_TO_CHILD,
    HEADS_TO_PUNCTUATION,
    HEADS_TO_SAME,
    HEADS_LOCAL,
    HEADS_BROAD,
    HEADS_MIXED,
    HEADS_KINDS
};
extern const char *const heads_kind_names[];
enum heads_kind heads_kind(const struct heads_sums *sums, const double fixed[HEADS_MEASURES]);

#endif
