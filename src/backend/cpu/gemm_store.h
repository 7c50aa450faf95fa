/* gemm_store.h — the way of a finished patch into C: bias, ReLU, rounding. Included by the
 * gemm_<isa>.c files, whose flags decide what the plain loops below become.
 *
 * A patch is a few KiB in the first-level cache and cost mr*nr*K multiplications, so this pass of a
 * few operations per element is small beside it where multiplications are slow; what matters is
 * that full rows are a compile-time number of vectors, without a remainder loop. AMX multiplies a
 * 32 x 32 patch 512 deep in 370 ns, beside which 160 ns of plain loop are not small: bf16 rows of
 * AVX-512 kernels have a loop of their own. Both give the same bits, since a column may be inside a
 * full patch of one product and at the edge of another. */
#ifndef BACKEND_CPU_GEMM_STORE_H
#define BACKEND_CPU_GEMM_STORE_H

#include "backend/cpu/isa.h"

#ifdef __AVX512BW__
#include <immintrin.h>
#endif

#define GEMM_INLINE static inline __attribute__((always_inline))

/* f(n, ...) with n, `rows` made even, as a constant: f exists for every even number up to MR, which
 * is at most 14. */
#define GEMM_ROWS_CASE(n, f, ...)                                                                  \
    case n / 2:                                                                                    \
        if (n <= MR) f(n <= MR ? n : MR, __VA_ARGS__);                                             \
        break;
#define GEMM_EVEN_ROWS(rows, f, ...)                                                               \
    switch (((rows) + 1) / 2) {                                                                    \
        GEMM_ROWS_CASE(2, f, __VA_ARGS__)                                                          \
        GEMM_ROWS_CASE(4, f, __VA_ARGS__)                                                          \
        GEMM_ROWS_CASE(6, f, __VA_ARGS__)                                                          \
        GEMM_ROWS_CASE(8, f, __VA_ARGS__)                                                          \
        GEMM_ROWS_CASE(10, f, __VA_ARGS__)                                                         \
        GEMM_ROWS_CASE(12, f, __VA_ARGS__)                                                         \
        GEMM_ROWS_CASE(14, f, __VA_ARGS__)                                                         \
    }

/* Depths that are packed side by side where neighbours in memory are neighbours in the panel. The
 * rows after them, GEMM_PACK_DEPTHS from k on, are called for meanwhile: each lies in a page of its
 * own, so that no prefetcher guesses it. */
enum { GEMM_PACK_DEPTHS = 8 };
GEMM_INLINE void gemm_expect_rows(const struct gemm_pack *p, int k) {
    const int64_t size = p->type == DTYPE_F32 ? 4 : 2;
    for (int end = p->k - k < GEMM_PACK_DEPTHS ? p->k : k + GEMM_PACK_DEPTHS; k < end; k++) {
        const char *row = (const char *)p->src + k * p->ld * size;
        for (int64_t at = 0; at < p->n * size; at += 64) __builtin_prefetch(row + at);
    }
}

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

/* What a patch's columns share. A missing bias is -0, which changes nothing it is added to, and a
 * missing ReLU a floor of -inf, so that one loop serves all. */
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
        e.bias[j] = !to->bias                    ? -0.0f
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

#ifdef __AVX512BW__

/* Rows of 32 columns rounded to bf16. The bias stays in two registers, each row is one store of 64
 * bytes, and what an epilogue lacks is not computed. In operations per row: rounding and joining 9,
 * NaNs 1, bias 2, ReLU 2; two 512-bit ports do a patch of 32 rows in 160 to 224 cycles at best. */
GEMM_INLINE __m512 gemm_bias_vector(const struct gemm_store *to, int j) {
    if (!to->bias) return _mm512_setzero_ps();
    if (to->bias_type == DTYPE_F32) return _mm512_loadu_ps((const float *)to->bias + j);
    const void *half = (const uint16_t *)to->bias + j;
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(half)), 16));
}

/* bf16_store of a number, in the upper half of each word. */
GEMM_INLINE __m512i gemm_round_vector(__m512 x) {
    const __m512i u = _mm512_castps_si512(x);
    const __mmask16 odd = _mm512_test_epi32_mask(u, _mm512_set1_epi32(0x10000));
    const __m512i up = _mm512_add_epi32(u, _mm512_set1_epi32(0x7fff));
    return _mm512_mask_add_epi32(up, odd, up, _mm512_set1_epi32(1));
}

GEMM_INLINE __m512i gemm_upper_halves(__m512i x0, __m512i x1) {
    static const uint16_t odd[32] __attribute__((aligned(64))) = {
        1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
        33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
    return _mm512_permutex2var_epi16(x0, _mm512_load_si512(odd), x1);
}

/* Returns 0 if a NaN was rounded as if it were a number: then the patch must be stored again. */
GEMM_INLINE int gemm_round_rows(const struct gemm_store *to, const float *t, int rows,
                                const int has_bias, const int relu) {
    const __m512 bias0 = gemm_bias_vector(to, 0), bias1 = gemm_bias_vector(to, 16);
    const __m512 floor = _mm512_setzero_ps();
    const int64_t ldc = to->ldc;
    uint16_t *out = to->c;
    __mmask16 numbers = 0xffff;
    for (int i = 0; i < rows; i++, t += 32, out += ldc) {
        __m512 x0 = _mm512_load_ps(t), x1 = _mm512_load_ps(t + 16);
        if (has_bias) {
            x0 = _mm512_add_ps(x0, bias0);
            x1 = _mm512_add_ps(x1, bias1);
        }
        if (relu) { /* if one of the two is a NaN, the maximum is the second */
            x0 = _mm512_max_ps(floor, x0);
            x1 = _mm512_max_ps(floor, x1);
        }
        numbers = _mm512_mask_cmp_ps_mask(numbers, x0, x1, _CMP_ORD_Q);
        _mm512_storeu_si512(out, gemm_upper_halves(gemm_round_vector(x0), gemm_round_vector(x1)));
    }
    return numbers == 0xffff;
}

/* Returns 0 if the plain loop is wanted. */
GEMM_INLINE int gemm_store_wide(const struct gemm_store *to, const float *t, const int nr, int rows,
                                int cols) {
    if (nr != 32 || cols != 32 || to->type != DTYPE_BF16) return 0;
    if (to->relu)
        return to->bias ? gemm_round_rows(to, t, rows, 1, 1) : gemm_round_rows(to, t, rows, 0, 1);
    return to->bias ? gemm_round_rows(to, t, rows, 1, 0) : gemm_round_rows(to, t, rows, 0, 0);
}

#else
#define gemm_store_wide(to, t, nr, rows, cols) 0
#endif

/* The reverse: rows x cols of C into a patch nr wide, zeros beside them. */
GEMM_INLINE void gemm_load_patch(float *t, const int nr, const void *c, int64_t ldc,
                                 enum dtype type, int rows, int cols) {
    for (int i = 0; i < rows; i++, t += nr) {
        const char *row = (const char *)c + i * ldc * (int64_t)dtype_size(type);
        if (type == DTYPE_F32)
            __builtin_memcpy(t, row, (size_t)cols * 4);
        else
            for (int j = 0; j < cols; j++) t[j] = bf16_load(((const uint16_t *)row)[j]);
        for (int j = cols; j < nr; j++) t[j] = 0;
    }
}

/* The store of a kernel whose patches are nr (a constant at most 64) wide. */
GEMM_INLINE void gemm_store_patch(const struct gemm_store *to, const float *t, const int nr,
                                  int rows, int cols) {
    if (gemm_store_wide(to, t, nr, rows, cols)) return;
    if (cols == nr)
        gemm_store_rows(to, t, nr, rows, nr);
    else
        gemm_store_rows(to, t, nr, rows, cols);
}

#endif
