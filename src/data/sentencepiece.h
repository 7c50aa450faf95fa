/* sentencepiece.h — the little of SentencePiece that we use, as C.
 *
 * Implemented by sentencepiece.cc, the only C++ here. No exception leaves it, nothing is printed,
 * and the calls that would end the process on bad input cannot be reached as long as callers do
 * their part: sp_open wants bytes that tokenizer_check accepted, sp_train sentences that are not
 * all blank. */
#ifndef DATA_SENTENCEPIECE_H
#define DATA_SENTENCEPIECE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct sp;
struct span; /* data/tokenizer.h */

int sp_open(struct sp **sp, const void *model, size_t size, struct err *err);
void sp_free(struct sp *sp);

int sp_size(const struct sp *sp);
int sp_unk(const struct sp *sp);
int sp_bos(const struct sp *sp);
int sp_eos(const struct sp *sp);
const char *sp_piece(const struct sp *sp, int id); /* id in [0, size) */

int sp_find(const struct sp *sp, const char *piece); /* -1: there is none */

int sp_is_control(const struct sp *sp, int id); /* the same */

/* See tokenizer_encode and tokenizer_decode. */
int sp_encode(const struct sp *sp, const char *text, size_t size, int32_t *ids, int cap);
int sp_decode(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap);

/* Characters that the model does not have come as one unknown piece; find says what else it is, -1
 * for nothing, and its id is then -2 - find(). */
struct sp_finder {
    int (*find)(const void *ctx, const char *piece, size_t size);
    const void *ctx;
};

/* Where ids, and the bytes of each piece if span is not NULL, go: [cap]. finder may be NULL. */
struct sp_out {
    int32_t *ids;
    struct span *span;
    int cap;
    const struct sp_finder *finder;
};
int sp_encode_spans(const struct sp *sp, const char *text, size_t size, const struct sp_out *out);

/* The same with the bytes of each piece. */
int sp_decode_spans(const struct sp *sp, const int32_t *ids, int n, char *out, size_t cap,
                    struct span *span);

/* The same of pieces by their spelling. Those that the model does not have are text. span may be
 * NULL. */
int sp_decode_pieces(const struct sp *sp, const char *const *piece, int n, char *out, size_t cap,
                     struct span *span);

/* The library's own sampling, which draws from a generator of the thread: what subword.h is judged
 * by. sp_seed counts for threads that have not drawn yet. */
int sp_sample(const struct sp *sp, const char *text, size_t size, float amount, int32_t *ids,
              int cap);
void sp_seed(unsigned seed);

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
