/* vocabulary.h — the tokens of a model by id, where these are not the pieces of a SentencePiece
 * file in the file's order.
 *
 * A text file: one token per line, and the number of the line, from 0, is its id. Tokens are UTF-8
 * without newline or NUL, no two alike, none empty. Files are hostile: what breaks these rules is
 * refused with its line, counted from 1 as editors do.
 *
 * A vocabulary never changes and may be used by several threads at once. */
#ifndef DATA_VOCABULARY_H
#define DATA_VOCABULARY_H

#include <stddef.h>

#include "base/err.h"

enum {
    VOCABULARY_MAX_FILE = 64 << 20, /* bytes */
    VOCABULARY_MAX_SIZE = 1 << 20,  /* tokens */
    VOCABULARY_MAX_TOKEN = 1024     /* bytes */
};

struct vocabulary;

/* HEED_EFORMAT or HEED_ELIMIT for what is not one. `name` begins every message. Owns a copy of the
 * bytes. */
int vocabulary_read(struct vocabulary **vocabulary, const char *name, const void *data, size_t size,
                    struct err *err);
void vocabulary_free(struct vocabulary *vocabulary);

int vocabulary_size(const struct vocabulary *vocabulary);

/* id in [0, size) */
const char *vocabulary_token(const struct vocabulary *vocabulary, int id);

/* -1: there is none. */
int vocabulary_find(const struct vocabulary *vocabulary, const char *token, size_t size);

#endif
