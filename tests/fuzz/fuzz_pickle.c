/* fuzz_pickle.c — any bytes are a pickle: refused with a message, or values that can be walked. */
#include "fuzz.h"

#include "base/crc32c.h"
#include "io/pickle.h"

/* Values may contain themselves: so deep, and so many. */
static void walk(const struct pickle_value *v, int depth, int *left) {
    if (--*left < 0 || depth > 20) return;
    switch (v->kind) {
    case PICKLE_LONG:
    case PICKLE_STRING:
    case PICKLE_BYTES:
    case PICKLE_GLOBAL:
        crc32c(0, v->bytes, v->n);
        break;
    case PICKLE_OBJECT:
        walk(v->callable, depth + 1, left);
        walk(v->args, depth + 1, left);
        if (v->state) walk(v->state, depth + 1, left); /* fall through */
    case PICKLE_TUPLE:
    case PICKLE_LIST:
    case PICKLE_DICT:
        want(v->kind != PICKLE_DICT || v->n % 2 == 0);
        for (size_t i = 0; i < v->n; i++) walk(v->item[i], depth + 1, left);
        break;
    case PICKLE_PERSISTENT:
        walk(v->args, depth + 1, left);
        break;
    default:
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const struct pickle_value *v;
    struct keep keep = {.block = 4096};
    struct err err = {0};
    size_t used;
    struct pickle_input in = {(const char *)data, size, "x"};
    int rc = pickle_read(&v, &in, &used, &keep, &err), left = 10000;
    want(rc <= 0 && !rc == !err.msg[0] && !rc == !!v && used <= size);
    if (!rc) walk(v, 0, &left);
    keep_release(&keep);
    return 0;
}
