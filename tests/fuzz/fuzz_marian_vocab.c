/* fuzz_marian_vocab.c — any bytes are a vocab.yml of Marian, or a plain list of tokens: refused with
 * a message, or every id has a token. */
#include "fuzz.h"

#include "base/utf8.h"
#include "convert/marian_vocab.h"

static void check(const char *const *token, int n, int rc, const struct err *err) {
    want(rc <= 0 && !rc == !err->msg[0]);
    if (rc) return;
    want(n > 0 && n <= MARIAN_VOCAB_MAX);
    for (int i = 0; i < n; i++) {
        size_t size = strlen(token[i]);
        want(size && utf8_clean_prefix(token[i], size) == size && !strchr(token[i], '\n'));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct keep keep = {0};
    const char *const *token = NULL;
    int n = 0;
    struct err err = {0};
    int rc = marian_vocab_yml(&token, &n, (const char *)data, size, "input", &keep, &err);
    check(token, n, rc, &err);
    err = (struct err){0};
    rc = marian_vocab_text(&token, &n, (const char *)data, size, "input", &keep, &err);
    check(token, n, rc, &err);
    keep_release(&keep);
    return 0;
}
