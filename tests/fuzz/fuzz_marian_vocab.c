/* fuzz_marian_vocab.c — any bytes are a vocab.yml of Marian, or a plain list of tokens: refused
 * with a message, or every id has a token. */
#include "fuzz.h"

#include "base/utf8.h"
#include "convert/marian_vocab.h"

static void check(const struct marian_vocab *vocab, int rc, const struct err *err) {
    want(rc <= 0 && !rc == !err->msg[0]);
    if (rc) return;
    want(vocab->n > 0 && vocab->n <= MARIAN_VOCAB_MAX);
    for (int i = 0; i < vocab->n; i++) {
        const char *token = vocab->token[i];
        size_t size = strlen(token);
        want(size && utf8_clean_prefix(token, size) == size && !strchr(token, '\n'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct keep keep = {0};
    struct marian_vocab vocab = {0};
    struct err err = {0};
    int rc = marian_vocab_yml(&vocab, (const char *)data, size, "input", &keep, &err);
    check(&vocab, rc, &err);
    err = (struct err){0};
    rc = marian_vocab_text(&vocab, (const char *)data, size, "input", &keep, &err);
    check(&vocab, rc, &err);
    keep_release(&keep);
    return 0;
}
