/* fuzz_torch.c — any bytes are a checkpoint of PyTorch: refused with a message, or every tensor's
 * first and last element can be read. */
#include "fuzz.h"

#include "io/torch.h"

static size_t item_size(const char *dtype) {
    if (strstr(dtype, "64")) return 8;
    if (strstr(dtype, "32")) return 4;
    return strstr(dtype, "16") ? 2 : 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct torch_file *f;
    struct err err = {0};
    int rc = torch_open_bytes(&f, (const char *)data, size, "x", &err);
    want(rc <= 0 && !rc == !err.msg[0] && !rc == !!f);
    for (int i = 0; !rc && i < torch_count(f); i++) {
        const struct torch_tensor *t = torch_at(f, i);
        size_t last = 0, item = item_size(t->dtype);
        int empty = 0;
        want(torch_find(f, t->name) == t && t->rank <= TORCH_MAX_RANK);
        for (int k = 0; k < t->rank; k++) {
            empty |= !t->shape[k];
            last += (size_t)((t->shape[k] - 1) * t->stride[k]);
        }
        char element[8];
        if (empty) continue;
        memcpy(element, t->data, item);
        memcpy(element, (const char *)t->data + item * last, item);
    }
    torch_close(f);
    return 0;
}
