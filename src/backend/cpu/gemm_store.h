/* gemm_store.h — the way of a finished tile into C: bias, ReLU, rounding. Included by the gemm_<isa>.c
 * files, whose flags decide what the plain loops below become.
 *
 * A tile is a few KiB in the first-level cache and cost mr*nr*K multiplications, so this pass of a few
 * operations per element is small beside it; what matters is that full rows are a compile-time number of
 * vectors, without a remainder loop. */
#ifndef BACKEND_CPU_GEMM_STORE_H
#define BACKEND_CPU_GEMM_STORE_H

#include "backend/cpu/isa.h"

#define GEMM_INLINE static inline __attribute__((always_inline))

/* As bf16_store, as a selection instead of a branch. */
GEMM_INLINE uint16_t gemm_round(float f) {
    union {
        float f;
        uint32_t u;
    } x = {.f = f};
    uint32_t rounded = x.u + 0x7fffu + (x.u >> 16 & 1);
    uint32_t quiet = x.u | 0x400000u;
    return (uint16_t)(((x.u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded) >> 16);
}

GEMM_INLINE void gemm_store_row(const struct gemm_store *to, void *c, float *t, const float *bias,
                                int cols) {
    if (bias)
        for (int j = 0; j < cols; j++) t[j] += bias[j];
    if (to->relu)
        for (int j = 0; j < cols; j++) t[j] = t[j] < 0 ? 0 : t[j]; /* a NaN stays */
    if (to->type == DTYPE_F32) {
        float *restrict out = c;
        for (int j = 0; j < cols; j++) out[j] = t[j];
    } else {
        uint16_t *restrict out = c;
        for (int j = 0; j < cols; j++) out[j] = gemm_round(t[j]);
    }
}

/* The store of a kernel whose tiles are nr (a constant at most 64) wide. */
GEMM_INLINE void gemm_store_tile(const struct gemm_store *to, float *t, int rows, int cols,
                                 const int nr) {
    float bias[64];
    const size_t row_bytes = (size_t)to->ldc * dtype_size(to->type);
    if (to->bias && to->bias_type == DTYPE_F32)
        for (int j = 0; j < cols; j++) bias[j] = ((const float *)to->bias)[j];
    else if (to->bias)
        for (int j = 0; j < cols; j++) bias[j] = bf16_load(((const uint16_t *)to->bias)[j]);
    for (int i = 0; i < rows; i++) {
        char *c = (char *)to->c + (size_t)i * row_bytes;
        if (cols == nr)
            gemm_store_row(to, c, t + i * nr, to->bias ? bias : NULL, nr);
        else
            gemm_store_row(to, c, t + i * nr, to->bias ? bias : NULL, cols);
    }
}

#endif
