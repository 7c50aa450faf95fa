/* gemm_transpose.h — a 16 x 16 matrix of 32-bit words, transposed in sixteen 512-bit registers.
 *
 * Two rounds of interleaving within 128-bit lanes transpose every 4 x 4 block; two rounds of lane
 * shuffles then move the blocks. 64 shuffles for 256 words. A word is a float, or a pair of
 * bf16. */
#ifndef BACKEND_CPU_GEMM_TRANSPOSE_H
#define BACKEND_CPU_GEMM_TRANSPOSE_H

#include <immintrin.h>
#include <stdint.h>

static inline __attribute__((always_inline)) void transpose_words(__m512i *r) {
    __m512i a[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
        a[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        a[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    /* r[4q + c]: in lane l, column 4l + c of rows 4q .. 4q + 3. */
#pragma GCC unroll 4
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
    }
    /* Gather the four lanes of a column from q = 0 .. 3. */
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) {
        const __m512i lo01 = _mm512_shuffle_i32x4(r[c], r[c + 4], 0x44);
        const __m512i hi01 = _mm512_shuffle_i32x4(r[c], r[c + 4], 0xee);
        const __m512i lo23 = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0x44);
        const __m512i hi23 = _mm512_shuffle_i32x4(r[c + 8], r[c + 12], 0xee);
        a[c] = _mm512_shuffle_i32x4(lo01, lo23, 0x88);
        a[c + 4] = _mm512_shuffle_i32x4(lo01, lo23, 0xdd);
        a[c + 8] = _mm512_shuffle_i32x4(hi01, hi23, 0x88);
        a[c + 12] = _mm512_shuffle_i32x4(hi01, hi23, 0xdd);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) r[i] = a[i];
}

/* The same on the way from memory, rows ld bytes apart: quarters of four rows are loaded side by
 * side, which leaves the first two rounds, 32 shuffles and 64 loads, of which there can be two per
 * cycle. This is a quarter: words 4c .. 4c + 3 of all rows. */
static inline __attribute__((always_inline)) void
load_transposed_quarter(__m512i *r, const void *src, int64_t ld, int c) {
    const char *row = (const char *)src + 16 * c;
    __m512i a[4], z[4];
#pragma GCC unroll 4
    for (int q = 0; q < 4; q++) { /* in lane l, words 4c .. 4c + 3 of row 4l + q */
        const char *at = row + q * ld;
        z[q] = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)at));
#pragma GCC unroll 3
        for (int l = 1; l < 4; l++)
            z[q] = _mm512_mask_broadcast_i32x4(z[q], (__mmask16)(0xf << 4 * l),
                                               _mm_loadu_si128((const __m128i *)(at + 4 * l * ld)));
    }
    a[0] = _mm512_unpacklo_epi32(z[0], z[1]);
    a[1] = _mm512_unpackhi_epi32(z[0], z[1]);
    a[2] = _mm512_unpacklo_epi32(z[2], z[3]);
    a[3] = _mm512_unpackhi_epi32(z[2], z[3]);
    r[0] = _mm512_unpacklo_epi64(a[0], a[2]);
    r[1] = _mm512_unpackhi_epi64(a[0], a[2]);
    r[2] = _mm512_unpacklo_epi64(a[1], a[3]);
    r[3] = _mm512_unpackhi_epi64(a[1], a[3]);
}

static inline __attribute__((always_inline)) void load_transposed(__m512i *r, const void *src,
                                                                  int64_t ld) {
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) load_transposed_quarter(r + 4 * c, src, ld, c);
}

#endif
