/* products.c — see products.h. */
#include "bench/products.h"

#include "base/mem.h"

int bench_products_open(struct cpu_backend *be, const struct isa **only,
                        const struct bench_gemm_options *o, struct err *err) {
    *only = NULL;
    int rc = o->isa ? isa_select(only, o->isa, err) : 0;
    return rc ? rc : pool_new(&be->pool, o->threads, err);
}

int bench_next_isa(struct cpu_backend *be, const struct isa *only) {
    const struct isa *const *next = isa_table;
    while (be->isa && *next++ != be->isa) continue;
    while (*next && (only ? *next != only : !isa_usable(*next))) next++;
    be->isa = *next;
    return *next != NULL;
}

struct mat bench_mat(int rows, int cols, enum dtype type) {
    struct mat m = mat_of(NULL, rows, cols, type);
    const int64_t count = (int64_t)rows * cols;
    uint32_t state = 7;
    m.data = mem_block((size_t)count * dtype_size(type));
    for (int64_t i = 0; m.data && i < count; i++) {
        state = state * 1664525u + 1013904223u;
        dtype_store(m.data, type, i, (double)(int32_t)state * 0x1p-31);
    }
    return m;
}
