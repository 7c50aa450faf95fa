/* ngrams.h — how many n-grams of a hypothesis occur in its references: the inner loop of BLEU and
 * chrF.
 *
 * A text is a row of symbols: characters, or words numbered by a `struct lexicon`. The table holds
 * the n-grams of the references, of all orders together, as a trie in one hash table: an n-gram is
 * the pair (slot of its first n-1 symbols, last symbol), 64 bits that identify it exactly, so no
 * result rests on hashes being different. A hypothesis walks the same trie. It goes order by order
 * over all positions, since neighbouring positions do not wait for each other's memory while the
 * orders of one position do; and a position whose n-gram is in no reference is done, as no longer
 * one can be.
 *
 * Each occurrence in the hypothesis takes one from the count of the references, which makes the
 * number matched sum(min(count in hypothesis, count in references)). So one build serves one
 * hypothesis.
 *
 * Slots carry the number of the round that wrote them; beginning anew costs nothing. Memory only
 * grows. */
#ifndef EVAL_NGRAMS_H
#define EVAL_NGRAMS_H

#include <stddef.h>
#include <stdint.h>

#include "eval/tokens.h"

enum { NGRAMS_MAX_ORDER = 8 };

struct ngrams {
    struct gram {
        uint64_t key;
        uint32_t round, left;
    } * gram;
    struct gram_seen { /* of the reference that is being added, where there are several */
        uint32_t reference, count;
    } * seen;
    uint32_t *at; /* [positions] the slot + 1 of the n-gram of the order before, 0: none */
    size_t room, at_room;
    uint32_t round, reference;
    int bits; /* the table in use has 2^bits slots */
};

void ngrams_release(struct ngrams *ngrams);

/* Begins with no references; those to come have n_symbol symbols in all. */
void ngrams_begin(struct ngrams *ngrams, size_t n_symbol, int order);

/* Adds a reference. An n-gram's count is the largest of its counts in a single reference. */
void ngrams_add(struct ngrams *ngrams, const uint32_t *symbol, size_t n, int order);

/* match[k] = n-grams of order k + 1 of the hypothesis that are in the references. Uses the counts
 * up. */
void ngrams_match(struct ngrams *ngrams, uint64_t *match, const uint32_t *symbol, size_t n,
                  int order);

/* Numbers for words, 1 upwards; exact as well: words are compared, not their hashes. */
struct lexicon {
    struct lexeme {
        uint32_t hash, round, start, length, symbol;
    } * lexeme;
    size_t room;
    uint32_t round, n;
    int bits;
};

void lexicon_release(struct lexicon *lexicon);
void lexicon_begin(struct lexicon *lexicon, size_t n_token);

/* symbol[i] = the number of tokens' i-th word. One not met before gets a new number, */
void lexicon_add(struct lexicon *lexicon, uint32_t *symbol, const struct tokens *tokens, size_t n);
/* or 0. `known` are the tokens that were added, which must still be there. */
void lexicon_find(const struct lexicon *lexicon, uint32_t *symbol, const struct tokens *known,
                  const struct tokens *tokens, size_t n);

#endif
