/* gemm_avx512.c — the f32 matrix kernel for AVX-512: 16-lane vectors in 32 registers, so a patch is
 * 14 x 32 (28 registers of sums, two of B, one of A, one spare). The shared body is gemm_f32.h. */
#include "backend/cpu/gemm_transpose.h"

#define VL         16
#define MR         14
#define FUSED      1
#define f32_kernel gemm_f32_avx512
#include "backend/cpu/gemm_f32.h"

static inline void transpose(vec *r) {
    __m512i w[16];
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) w[i] = (__m512i)r[i];
    transpose_words(w);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = (vec)w[i];
}
