/* marian_vocab.h — Marian's vocabularies: vocab.yml, one token and its id per line, or a plain
 * text of tokens.
 *
 *     </s>: 0
 *     "\"": 12
 *     'it''s': 13
 *     ? "\xA0"
 *     : 14
 *
 * It calls itself YAML, but what YAML makes of it is not what it means: `null: 5`, `y: 6` and
 * `1.0: 7` are words, and a line may have any number of colons. So a line is read from the right:
 * the id, a colon, and what is left is the token, quoted or not. In a plain text the number of the
 * line, from 0, is the id.
 *
 * Files are hostile: ids must be those from 0 to the number of tokens, each once. */
#ifndef CONVERT_MARIAN_VOCAB_H
#define CONVERT_MARIAN_VOCAB_H

#include <stddef.h>

#include "base/err.h"
#include "base/keep.h"

enum { MARIAN_VOCAB_MAX = 1 << 20 };

/* The tokens by id. */
struct marian_vocab {
    const char *const *token;
    int n;
};

/* All of it is taken from keep. `where` begins messages. */
typedef int marian_vocab_reader(struct marian_vocab *vocab, const char *text, size_t size,
                                const char *where, struct keep *keep, struct err *err);
marian_vocab_reader marian_vocab_yml, marian_vocab_text;

#endif
