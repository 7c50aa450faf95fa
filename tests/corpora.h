/* corpora.h — small corpora for tests, without a tokenizer: text is numbers, and a number is its
 * own id. */
#ifndef TESTS_CORPORA_H
#define TESTS_CORPORA_H

#include <stdatomic.h>

#include "data/corpus.h"

/* Ids are the words modulo n_vocab; a word that is no number has the sum of its bytes. Calls are
 * counted. For links, a word is one id, or two odd ones in a row. */
struct corpus_encoder numbers_encoder(int n_vocab);
extern atomic_long numbers_calls;

/* TEST_DIR/name; stays valid. */
const char *corpora_path(const char *name);

/* Writes TEST_DIR/name and returns its path. */
const char *corpora_write(const char *name, const char *text, size_t size);

/* Writes NAME.src and NAME.tgt with n pairs of log-normal lengths: pair i begins with the number i
 * on both sides, the rest of it is arbitrary. */
void corpora_generate(const char *name, int n, uint64_t seed);

/* Options for NAME.src and NAME.tgt, cached in TEST_DIR/cache. */
struct corpus_options corpora_options(const char *name, int n_vocab);

/* Generates and builds; fails the test when it cannot. */
void corpora_make(struct corpus *corpus, const char *name, int n, int n_vocab);

/* Makes the checksums of a cache file in memory right, whatever the rest of it says. */
void corpora_sign(void *data, size_t size);

#endif
