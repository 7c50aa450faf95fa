/* fuzz_safetensors.c — any bytes are a safetensors file: refused with a message, or every tensor
 * can be read to its last byte. */
#include "fuzz.h"

#include "base/crc32c.h"
#include "io/safetensors.h"

static int count(void *ctx, const char *key, const char *value) {
    want(key && value);
    ++*(int *)ctx;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[128];
    struct safetensors st;
    struct err err = {0};
    fuzz_enter();
    fuzz_put("input", data, size);
    fuzz_path(path, sizeof path, "input");
    int rc = safetensors_open(&st, path, &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (rc) return 0;
    size_t covered = st.header_size;
    for (int i = 0; i < st.n_tensor; i++) {
        const struct tensor *t = &st.tensor[i];
        covered += t->size;
        crc32c(0, t->data, t->size); /* reads all of it */
        want(safetensors_find(&st, t->name) == t);
        size_t n = tensor_count(t);
        float last;
        if (tensor_is_float(t) && n) tensor_values(t, n - 1, 1, &last);
    }
    want(covered == size);
    int n = 0;
    safetensors_metadata_each(&st, count, &n);
    safetensors_close(&st);
    return 0;
}
