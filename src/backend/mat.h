/* mat.h — views of matrices, and numbers of the types that they are stored in.
 *
 * A view is plain data: it borrows memory and never owns it. The memory may be a device's, so the
 * functions that look at elements are for host memory only. Every op (ops.h) takes views; weights
 * may be tiled, a special layout (tile.h). */
#ifndef BACKEND_MAT_H
#define BACKEND_MAT_H

#include <stddef.h>
#include <stdint.h>

#include "base/half.h"

/* I8: tiled weights only; F16: caches of keys and values only. */
enum dtype { DTYPE_F32, DTYPE_BF16, DTYPE_F64, DTYPE_I8, DTYPE_F16, DTYPE_COUNT };

static inline size_t dtype_size(enum dtype type) {
    return type == DTYPE_F64 ? 8 : type == DTYPE_F32 ? 4 : type == DTYPE_I8 ? 1 : 2;
}
const char *dtype_name(enum dtype type); /* "f32" */

/* The type of statistics and parameter gradients beside activations of this type. */
static inline enum dtype dtype_wide(enum dtype type) {
    return type == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

/* bf16 is the upper half of an f32; storing rounds to nearest even and keeps NaN a NaN. */
static inline float bf16_load(uint16_t h) {
    union {
        uint32_t u;
        float f;
    } x = {.u = (uint32_t)h << 16};
    return x.f;
}
static inline uint16_t bf16_store(float f) {
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    if ((x.u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x.u >> 16 | 0x40);
    return (uint16_t)((x.u + 0x7fffu + (x.u >> 16 & 1)) >> 16);
}

/* Element `at` of an array of F32, BF16, F64 or F16; an F16 is at most 65504. */
static inline double dtype_load(const void *data, enum dtype type, int64_t at) {
    return type == DTYPE_F64   ? ((const double *)data)[at]
           : type == DTYPE_F32 ? (double)((const float *)data)[at]
           : type == DTYPE_F16 ? (double)f16_load(((const uint16_t *)data)[at])
                               : (double)bf16_load(((const uint16_t *)data)[at]);
}
static inline void dtype_store(void *data, enum dtype type, int64_t at, double x) {
    if (type == DTYPE_F64)
        ((double *)data)[at] = x;
    else if (type == DTYPE_F32)
        ((float *)data)[at] = (float)x;
    else if (type == DTYPE_F16)
        ((uint16_t *)data)[at] = f16_store_limited((float)x);
    else
        ((uint16_t *)data)[at] = bf16_store((float)x);
}
/* As dtype_load, of activations and weights: F32 or BF16. */
static inline float f32_load(const void *data, enum dtype type, int64_t at) {
    return type == DTYPE_BF16 ? bf16_load(((const uint16_t *)data)[at]) : ((const float *)data)[at];
}

/* A borrowed row-major view: element (i, j) at data[i * ld + j]. A vector is one row; no columns
 * mean that the matrix is absent. */
struct mat {
    void *data;
    int64_t ld;
    int rows, cols;
    enum dtype type;
    int tiled;          /* laid out as tile.h says; ld is not used */
    const float *scale; /* I8 only, as sum and x_scale */
    const int32_t *sum;
    /* I8 that brings a factor for what it is multiplied with, and how to leave the integers: see
     * linear_args; 0: x is rounded row by row. unit and zero are as long as scale. */
    float x_scale;
    const float *unit, *zero;
};

static inline int mat_empty(const struct mat *m) { return m->cols == 0; }

/* A view of rows that follow each other without gaps. */
static inline struct mat mat_of(void *data, int rows, int cols, enum dtype type) {
    struct mat m = {data, cols, rows, cols, type, 0, NULL, NULL, 0, NULL, NULL};
    return m;
}

/* Row i of m. */
static inline void *mat_row(const struct mat *m, int64_t i) {
    return (char *)m->data + (size_t)(i * m->ld) * dtype_size(m->type);
}

/* The rows [first, first + rows) of m, and its columns [first, first + cols). Over no memory, as in
 * a plan, they are views of no memory. */
static inline struct mat mat_rows(struct mat m, int64_t first, int rows) {
    if (m.data) m.data = mat_row(&m, first);
    m.rows = rows;
    return m;
}
static inline struct mat mat_cols(struct mat m, int first, int cols) {
    if (m.data) m.data = (char *)m.data + (size_t)first * dtype_size(m.type);
    m.cols = cols;
    return m;
}

#endif
