/* fuzz_marianbin.c — any bytes are a .bin of Marian: refused with a message, or every tensor can be
 * read to its last byte. */
#include "fuzz.h"

#include "base/crc32c.h"
#include "base/mem.h"
#include "io/marianbin.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct marianbin bin;
    struct err err = {0};
    char *copy = xmalloc(size ? size : 1); /* so that reading one byte too many is noticed */
    memcpy(copy, data, size);
    int rc = marianbin_read(&bin, copy, size, "input", &err);
    want(rc <= 0 && !rc == !err.msg[0]);
    for (int i = 0; i < bin.n; i++) {
        const struct tensor *t = &bin.item[i].tensor;
        crc32c(0, t->data, t->size);
        want(marianbin_find(&bin, t->name) == &bin.item[i]);
        want(t->rank <= SAFETENSORS_MAX_RANK && bin.item[i].scale >= 0);
    }
    marianbin_release(&bin);
    xfree(copy);
    return 0;
}
