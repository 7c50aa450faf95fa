/* corpus_encoder.c — a tokenizer as the encoder of a corpus. Apart from the rest of the corpus,
 * which needs no tokenizer. */
#include <string.h>

#include "data/corpus.h"
#include "data/tokenizer.h"
#include "data/words.h"

static int checked(int n, size_t size, struct err *err) {
    if (n >= 0) return n;
    return err_set(err, (enum heed_status)n, "tokenizer: cannot encode a line of %zu bytes", size);
}

static int encode(const void *ctx, int32_t *ids, int cap, const char *text, size_t size,
                  struct err *err) {
    return checked(tokenizer_encode(ctx, text, size, ids, cap), size, err);
}

static int encode_words(const void *ctx, struct words *words, int unit, const char *text,
                        size_t size, struct err *err) {
    return checked(words_encode(words, (enum words_unit)unit, ctx, text, size), size, err);
}

struct corpus_encoder corpus_encoder_of(const struct tokenizer *tokenizer) {
    struct corpus_encoder e = {.encode = encode,
                               .words = encode_words,
                               .ctx = tokenizer,
                               .n_vocab = tokenizer_size(tokenizer),
                               .eos = tokenizer_eos(tokenizer)};
    _Static_assert((int)TOKENIZER_HASH_SIZE == (int)CORPUS_KEY_SIZE, "the hash is taken whole");
    tokenizer_hash(tokenizer, e.hash);
    return e;
}
