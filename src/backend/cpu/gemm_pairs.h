/* gemm_pairs.h — bf16 panels of pairs, for the kernels whose instructions multiply pairs: vdpbf16ps
 * and AMX's tdpbf16ps both add a0 b0 + a1 b1 to an f32. A panel `width` wide holds, for every two
 * depths k, k + 1, the `width` pairs (element k low, element k + 1 high) as 32-bit words.
 *
 * Included by gemm_avx512bf16.c and gemm_amx.c; needs AVX-512 F and BW only. */
#ifndef BACKEND_CPU_GEMM_PAIRS_H
#define BACKEND_CPU_GEMM_PAIRS_H

#include <string.h>

#include "backend/cpu/gemm_store.h"
#include "backend/cpu/gemm_transpose.h"

/* The first `count` (0 .. 32) halves at src, zeros beyond. */
GEMM_INLINE __m512i load_halves(const uint16_t *src, int count) {
    if (count >= 32) return _mm512_loadu_si512(src);
    return _mm512_maskz_loadu_epi16(count > 0 ? (__mmask32)((1u << count) - 1) : 0, src);
}

GEMM_INLINE __mmask16 first_words(int count) {
    return count >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << count) - 1);
}

/* 16 vectors x 32 depths, neighbours in memory being neighbours in depth: vector i's pairs are the
 * words of r[i] as they lie in memory. Vectors from `n` on are zero. */
GEMM_INLINE void load_along_k(__m512i *r, const uint16_t *src, int64_t ld, int n, int depths) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++)
        r[i] = i < n ? load_halves(src + i * ld, depths) : _mm512_setzero_si512();
}

/* 16 vectors x 2 depths, neighbours in memory being neighbouring vectors: two rows are
 * interleaved. */
GEMM_INLINE __m512i load_words(const uint16_t *src, int n) {
    return _mm512_cvtepu16_epi32(n >= 16 ? _mm256_loadu_si256((const __m256i *)src)
                                         : _mm256_maskz_loadu_epi16(first_words(n), src));
}

GEMM_INLINE __m512i load_pair(const uint16_t *src, int64_t ld, int n, int depths) {
    const __m512i low = load_words(src, n);
    if (depths < 2) return low;
    return _mm512_or_si512(low, _mm512_slli_epi32(load_words(src + ld, n), 16));
}

/* Neighbours in memory are neighbours in depth: 16 x 16 pairs are transposed in registers. */
GEMM_INLINE void pack_pairs_along(const struct gemm_pack *p, const int width, int k_pad) {
    const uint16_t *src = p->src;
    char *panel = p->dst;
    for (int first = 0; first < p->n; first += width, panel += p->stride)
        for (int k = 0; k < k_pad; k += 32)
            for (int w = 0; w < width; w += 16) {
                __m512i r[16];
                uint32_t *to = (uint32_t *)panel + (int64_t)(k / 2) * width + w;
                const int steps = k_pad - k < 32 ? (k_pad - k) / 2 : 16;
                load_along_k(r, src + (first + w) * p->ld + k, p->ld, p->n - first - w, p->k - k);
                transpose_words(r);
#pragma GCC unroll 16
                for (int i = 0; i < 16; i++)
                    if (i < steps)
                        _mm512_mask_storeu_epi32(to + i * width, first_words(width - w), r[i]);
            }
}

/* Neighbours in memory are neighbours in the panel. As in pack_rows of gemm_f32.h: several panels
 * side by side, a few depths at a time. */
GEMM_INLINE void pack_pairs_across(const struct gemm_pack *p, const int width, int k_pad) {
    const uint16_t *src = p->src;
    for (int k0 = 0; k0 < k_pad; k0 += GEMM_PACK_DEPTHS) {
        char *panel = p->dst;
        const int k1 = k_pad - k0 < GEMM_PACK_DEPTHS ? k_pad : k0 + GEMM_PACK_DEPTHS;
        gemm_expect_rows(p, k0 + GEMM_PACK_DEPTHS);
        for (int first = 0; first < p->n; first += width, panel += p->stride)
            for (int w = 0; w < width; w += 16)
                for (int k = k0; k < k1; k += 2) {
                    const int n = p->n - first - w, depths = p->k - k;
                    const uint16_t *from = src + k * p->ld + first + w;
                    uint32_t *to = (uint32_t *)panel + (int64_t)(k / 2) * width + w;
                    _mm512_mask_storeu_epi32(to, first_words(width - w),
                                             n > 0 && depths > 0 ? load_pair(from, p->ld, n, depths)
                                                                 : _mm512_setzero_si512());
                }
    }
}

/* Panels `width` wide, depths padded with zeros to a multiple of k_unit (an even number up to
 * 32). */
GEMM_INLINE void pack_pairs(const struct gemm_pack *p, const int width, const int k_unit) {
    const int k_pad = (p->k + k_unit - 1) / k_unit * k_unit;
    if (p->along_k)
        pack_pairs_along(p, width, k_pad);
    else
        pack_pairs_across(p, width, k_pad);
}

#endif
