/* fuzz_vocabulary.c — three bytes are marks and the rest is a vocabulary: refused with a message,
 * or a tokenizer that encodes into its ids and decodes all of them. */
#include "data/tokenizer.h"
#include "fuzz.h"

static void *model;
static size_t n_model;

static void learn(void) {
    char text[128], path[128];
    struct err err = {0};
    struct tokenizer *t = NULL;
    static const char line[] = "The quick brown fox jumps over the lazy dog.\n";
    fuzz_put("input", (const uint8_t *)line, sizeof line - 1);
    fuzz_path(text, sizeof text, "input");
    fuzz_path(path, sizeof path, "config.json"); /* a name that is removed at the end */
    const char *input = text;
    struct tokenizer_train_options o = {.input = &input,
                                        .n_input = 1,
                                        .out = path,
                                        .type = TOKENIZER_CHAR,
                                        .size = 64,
                                        .normalization = "identity"};
    want(tokenizer_train(&o, NULL, &err) == 0 && tokenizer_open(&t, path, &err) == 0);
    const void *bytes = tokenizer_bytes(t, &n_model);
    want((model = malloc(n_model)) != NULL);
    memcpy(model, bytes, n_model);
    tokenizer_free(t);
}

static void use(const struct tokenizer *t) {
    static const char text[] = "a quick\xC3\xA9 <s></s><unk>\xE2\x96\x81 \xFF dog";
    int n = tokenizer_size(t);
    int32_t ids[64];
    struct span *span = malloc((size_t)n * sizeof *span);
    int32_t *all = malloc((size_t)n * sizeof *all);
    char out[256];
    int m = tokenizer_encode_end(t, text, sizeof text - 1, ids, 64);
    want(m >= 0 && m <= 64);
    for (int i = 0; i < m; i++) want(ids[i] >= 0 && ids[i] < n);
    want(tokenizer_decode(t, ids, m, out, sizeof out) >= 0);
    for (int i = 0; i < n; i++) {
        all[i] = i;
        want(tokenizer_find(t, tokenizer_piece(t, i)) == i);
    }
    int size = tokenizer_decode_spans(t, all, n, out, sizeof out, span);
    want(size >= 0 && size == tokenizer_decode(t, all, n, out, sizeof out));
    for (int i = 0; i < n; i++)
        want(span[i].begin == (i ? span[i - 1].end : 0) && span[i].end <= size);
    want(tokenizer_unk(t) >= 0 && tokenizer_bos(t) < n && tokenizer_eos(t) < n);
    free(span);
    free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const hidden[] = {"quick"};
    struct err err = {0};
    struct tokenizer *t;
    if (size < 3 || size > 1 << 16) return 0;
    if (fuzz_enter()) learn();
    struct tokenizer_parts parts = {.name = "model",
                                    .vocabulary_name = "vocabulary",
                                    .model = model,
                                    .n_model = n_model,
                                    .vocabulary = data + 3,
                                    .n_vocabulary = size - 3,
                                    .marks = {data[0] - 4, data[1] - 4, data[2] - 4},
                                    .hidden = hidden,
                                    .n_hidden = 1};
    int rc = tokenizer_open_parts(&t, &parts, &err);
    want(rc <= 0 && !t == !!rc && !rc == !err.msg[0]);
    if (t) use(t);
    tokenizer_free(t);
    return 0;
}
