/* gemm_avx2.c — the f32 matrix kernel for AVX2 and FMA: 8-lane vectors in 16 registers, so a patch
 * is 6 x 16 (twelve registers of sums, two of B, one of A). Two FMAs and two loads per cycle: a
 * step of depth is 12 FMAs and 8 loads, six cycles, bound by the multipliers. The shared body is
 * gemm_f32.h. */
#include <immintrin.h>

#define VL         8
#define MR         6
#define FUSED      1
#define f32_kernel gemm_f32_avx2
#include "backend/cpu/gemm_f32.h"

/* Interleave neighbours within 128-bit halves twice (4 x 4 blocks), then exchange halves. */
static void transpose(vec *r) {
    __m256 a[8], b[8];
    for (int i = 0; i < 8; i += 2) {
        a[i] = _mm256_unpacklo_ps((__m256)r[i], (__m256)r[i + 1]);
        a[i + 1] = _mm256_unpackhi_ps((__m256)r[i], (__m256)r[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            b[i + 2 * j] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0x44);
            b[i + 2 * j + 1] = _mm256_shuffle_ps(a[i + j], a[i + 2 + j], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = (vec)_mm256_permute2f128_ps(b[i], b[i + 4], 0x20);
        r[i + 4] = (vec)_mm256_permute2f128_ps(b[i], b[i + 4], 0x31);
    }
}
