/* ref.h — what the files of the ref backend share: elements of any type read and written as double.
 *
 * The ref backend is the executable specification of ops.h: one naive scalar version of every op.
 * Arithmetic is always double; only storage has a type, behind get and put, so one text serves F32,
 * BF16 and F64 and the rounding of a narrow type happens exactly where a value is stored. (Products
 * with int8 weights, and round_rows, are the exception: their contract is one of bits.) The ops are
 * pure functions of their arguments. They allocate scratch when they like: this is the backend that
 * must be plainly right, not the one that must be fast. */
#ifndef BACKEND_REF_REF_H
#define BACKEND_REF_REF_H

#include "backend/device.h"
#include "backend/tile.h"

static inline double get(const struct mat *m, int64_t i, int64_t j) {
    if (m->tiled) return tile_value(m, (int)i, (int)j);
    return dtype_load(m->data, m->type, i * m->ld + j);
}

static inline void put(const struct mat *m, int64_t i, int64_t j, double x) {
    dtype_store(m->data, m->type, i * m->ld + j, x);
}

static inline void add(const struct mat *m, int64_t i, int64_t j, double x) {
    put(m, i, j, get(m, i, j) + x);
}

/* Row i of a times row j of b. */
static inline double dot(const struct mat *a, int64_t i, const struct mat *b, int64_t j) {
    double sum = 0;
    for (int c = 0; c < a->cols; c++) sum += get(a, i, c) * get(b, j, c);
    return sum;
}

#define REF_OP_DECLARE(slot, args) void ref_##slot(const struct args *a);
BACKEND_OPS(REF_OP_DECLARE)
#undef REF_OP_DECLARE

#endif
