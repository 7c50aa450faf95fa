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

/* What a tile's columns share. A missing bias is zeros and a missing ReLU a floor of -inf, so that one loop
 * serves all; all it costs is that -0 becomes +0. */
struct gemm_epilogue {
    float bias[64];
    float floor;
};

GEMM_INLINE float gemm_finish(const struct gemm_epilogue *e, float t, int j) {
    const float x = t + e->bias[j];
    return x < e->floor ? e->floor : x; /* a NaN stays */
}

GEMM_INLINE void gemm_store_rows(const struct gemm_store *to, const float *t, const int nr,
                                 int rows, int cols) {
    struct gemm_epilogue e = {.floor = to->relu ? 0.0f : -__builtin_inff()};
    for (int j = 0; j < cols; j++)
        e.bias[j] = !to->bias                    ? 0.0f
                    : to->bias_type == DTYPE_F32 ? ((const float *)to->bias)[j]
                                                 : bf16_load(((const uint16_t *)to->bias)[j]);
    if (to->type == DTYPE_F32)
        for (int i = 0; i < rows; i++, t += nr) {
            float *restrict out = (float *)to->c + i * to->ldc;
            for (int j = 0; j < cols; j++) out[j] = gemm_finish(&e, t[j], j);
        }
    else
        for (int i = 0; i < rows; i++, t += nr) {
            uint16_t *restrict out = (uint16_t *)to->c + i * to->ldc;
            for (int j = 0; j < cols; j++) out[j] = gemm_round(gemm_finish(&e, t[j], j));
        }
}

/* The store of a kernel whose tiles are nr (a constant at most 64) wide. */
GEMM_INLINE void gemm_store_tile(const struct gemm_store *to, const float *t, const int nr,
                                 int rows, int cols) {
    if (cols == nr)
        gemm_store_rows(to, t, nr, rows, nr);
    else
        gemm_store_rows(to, t, nr, rows, cols);
}

#endif
