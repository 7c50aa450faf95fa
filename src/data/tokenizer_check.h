/* tokenizer_check.h — is it safe to hand these bytes to SentencePiece?
 *
 * The library checks that a file is a protocol buffer, but trusts its contents. Two of its searches
 * then run outside their memory: the table of text normalisation is a trie whose offsets and values
 * are used as they are, and prefixes found in a trie are written to arrays of fixed size.
 * tokenizer_check walks the file and refuses what could do that. It is not a second parser: whether
 * the rest makes a model is for the library to say. */
#ifndef DATA_TOKENIZER_CHECK_H
#define DATA_TOKENIZER_CHECK_H

#include <stddef.h>

#include "base/err.h"

int tokenizer_check(const unsigned char *data, size_t size, struct err *err);

#endif
