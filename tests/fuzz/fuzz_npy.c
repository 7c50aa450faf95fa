/* fuzz_npy.c — any bytes are a .npy array: refused with a message, or all elements are there. */
#include "fuzz.h"

#include "base/crc32c.h"
#include "io/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct tensor t;
    struct err err = {0};
    int rc = npy_read(&t, (const char *)data, size, "x", "a", &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    if (rc) return 0;
    crc32c(0, t.data, t.size); /* reads all of it */
    size_t n = 1;
    for (int i = 0; i < t.rank; i++) n *= (size_t)t.shape[i];
    want(n == tensor_count(&t));
    return 0;
}
