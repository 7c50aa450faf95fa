/* split.h — a text that is too long for the model, cut into parts that are not.
 *
 * Where a text may be cut is a matter of rank: after a sentence, else after a clause, else between
 * two words, and only where even a single word is too long, between two characters. Cuts are as few
 * as possible: what looks like the end of a sentence may be an abbreviation, and the less often
 * that matters, the better. So neighbouring sentences are put together again as long as they fit,
 * and so are the pieces of one that does not.
 *
 * Pure functions over bytes of UTF-8; the caller's function counts the tokens of a piece. */
#ifndef SEARCH_SPLIT_H
#define SEARCH_SPLIT_H

#include <stddef.h>

#include "base/err.h"
#include "data/sentences.h"

/* Tokens of text[0..size), or a negative status. */
typedef int split_count(void *ctx, const char *text, size_t size);

struct split_part {
    size_t at, size; /* bytes, without white space around */
    int count;       /* what split_count said */
};

/* The longest parts that are made where the model takes more: about as long as what it has learnt
 * from, and short enough that no other sentence waits long for one. */
enum { SPLIT_LONGEST = 256 };

struct split_rule {
    int limit; /* most tokens in a part */
    split_count *count;
    void *ctx;
    const struct sentence_rules *rules; /* where sentences end; NULL: those of no language */
};

/* Cuts the text, valid UTF-8, into parts that obey the rule and returns their number;
 * xfree(*parts). HEED_ELIMIT when a single character has too many tokens; if split_count fails, its
 * status. */
int split_text(struct split_part **parts, const char *text, size_t size,
               const struct split_rule *rule, struct err *err);

#endif
