/* sentencepiece.h — the little of the SentencePiece library that we use, as C: it learns
 * vocabularies. Their files are used by spm.h.
 *
 * Implemented by sentencepiece.cc. No exception leaves it, nothing is printed, and the calls that
 * would end the process on bad input cannot be reached as long as callers do their part: sp_test
 * wants bytes that spm_open has checked, sp_train sentences that are not all blank. */
#ifndef DATA_SENTENCEPIECE_H
#define DATA_SENTENCEPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Runs the tests that a file brings along: texts, and the pieces they should become. */
int sp_test(const void *model, size_t size, struct err *err);

/* What SentencePiece calls --KEY=VALUE; a value of NULL is not said, and not in the file. */
struct sp_setting {
    const char *key, *value;
};

/* Gives the next sentence, which stays valid until the next call, or NULL at the end. */
typedef const char *sp_next_fn(void *ctx, size_t *size);

/* Learns a model; *model is xmalloc'ed. On failure *err holds SentencePiece's own words. */
struct sp_training {
    const struct sp_setting *setting;
    int n_setting;
    sp_next_fn *next;
    void *ctx;
};
int sp_train(void **model, size_t *size, const struct sp_training *training, struct err *err);

#endif
