/* brackets.h — rows of tokens that are trees (data/tree.h): which token may come next.
 *
 * A row such as (S (NP XX XX )NP (VP XX )VP )S is whole if every bracket is closed by its own
 * label, none is empty, one is around all, and there are as many words as the sentence has. With n
 * tokens written of at most L (the end mark counted), d brackets open and w words left,
 *
 *     an opening bracket   while w > 0 and n + w + d + 3 <= L
 *     a word               while w > 0 and d > 0
 *     a closing bracket    of the innermost label, unless it is empty, or the root and w > 0
 *     the end mark         when the root is closed
 *
 * may follow. Words, the open brackets and the end mark always fit: w + d + 1 <= L - n holds before
 * and after each of these. So something may always follow, and every row ends whole and in time, if
 * L is at least w + 3 at the beginning. All of this is a function of the tokens that a hypothesis
 * has written; nothing is stored with it.
 *
 * Brackets are the symbols (heed vocab --symbols) that begin with one, behind a space; a label
 * counts if both of its brackets are there. All other symbols behind a space are words: XX, or
 * tags. */
#ifndef SEARCH_BRACKETS_H
#define SEARCH_BRACKETS_H

#include "data/tokenizer.h"

enum bracket_kind { BRACKET_NONE, BRACKET_OPEN, BRACKET_CLOSE, BRACKET_WORD };

struct brackets {
    int n;              /* tokens of the vocabulary */
    uint8_t *kind;      /* [n] enum bracket_kind */
    int32_t *mate;      /* [n] of a bracket: the other one */
    int n_open, n_word; /* how many there are of these */
};

/* HEED_EINVAL where the tokenizer has no brackets, or no words. */
int brackets_new(struct brackets **brackets, const struct tokenizer *tokenizer, struct err *err);
void brackets_free(struct brackets *brackets);

/* The least tokens of a row of that many words, the end mark counted. */
int brackets_least(int n_word);

/* What may follow. */
struct brackets_view {
    int may_open, may_word, may_end;
    int32_t close; /* the closing bracket, or -1 */
};

/* n tokens are written of a row of n_word words that may have `longest` tokens. */
struct brackets_view brackets_view(const struct brackets *brackets, const int32_t *written, int n,
                                   int n_word, int longest);

/* May this token follow, and how many may? */
int brackets_allow(const struct brackets *brackets, const struct brackets_view *view, int32_t token,
                   int32_t eos);
int brackets_choices(const struct brackets *brackets, const struct brackets_view *view);

#endif
