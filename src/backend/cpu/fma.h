/* fma.h — a * b + c rounded once, on vectors of f32, with or without an instruction for it.
 *
 * What a model says must not depend on the processor, so where the bits of a sum matter the kernels
 * say f32xN_fma and never leave the choice to the compiler (which may not contract: see the
 * Makefile). Where processors lack the instruction, doubles stand in: the product of two floats is
 * exact in a double, so the sum rounds once to 53 bits and a second time to 24. Two roundings
 * differ from one only if the first lands exactly between two neighbouring floats. That shows in
 * the bits, is rare unless it is the exact sum, and is set right out of line: the first rounding is
 * replaced by rounding to odd, which is never mistaken for a tie. Some ten times the price of the
 * instruction. */
#ifndef BACKEND_CPU_FMA_H
#define BACKEND_CPU_FMA_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define FMA_INLINE static inline __attribute__((always_inline))

#ifdef __FMA__
#define f32x16_fma _mm512_fmadd_ps
#define f32x8_fma  _mm256_fmadd_ps
FMA_INLINE float f32_fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
FMA_INLINE float f32_fma(float a, float b, float c) {
    const double product = (double)a * (double)b;
    double sum = product + (double)c;
    const double part = sum - product;
    const double rest = (product - (sum - part)) + ((double)c - part); /* exactly what was lost */
    if (rest < 0 || rest > 0) {
        uint64_t bits;
        memcpy(&bits, &sum, sizeof bits);
        bits = (bits - ((rest < 0) != (sum < 0))) | 1; /* towards zero, then odd */
        memcpy(&sum, &bits, sizeof bits);
    }
    return (float)sum;
}

FMA_INLINE __m128d f32x2_sum(__m128 a, __m128 b, __m128 c) {
    return _mm_add_pd(_mm_mul_pd(_mm_cvtps_pd(a), _mm_cvtps_pd(b)), _mm_cvtps_pd(c));
}

/* Rounds twice, and adds to the suspects the lanes where that may differ from once: sums whose 29
 * bits below a float's are a one and zeros, and sums other than 0 so small (below 2^-126) that the
 * float has fewer bits. */
FMA_INLINE __m128 f32x4_fma_try(__m128 a, __m128 b, __m128 c, __m128i *suspects) {
    const __m128d lo = f32x2_sum(a, b, c);
    const __m128d hi = f32x2_sum(_mm_movehl_ps(a, a), _mm_movehl_ps(b, b), _mm_movehl_ps(c, c));
    const __m128 l = _mm_castpd_ps(lo), h = _mm_castpd_ps(hi);
    const __m128i below = _mm_castps_si128(_mm_shuffle_ps(l, h, 0x88));
    const __m128i above = _mm_castps_si128(_mm_shuffle_ps(l, h, 0xdd));
    const __m128i most = _mm_set1_epi32(0x7fffffff), tie = _mm_set1_epi32(0x10000000);
    const __m128i half = _mm_cmpeq_epi32(_mm_and_si128(below, _mm_set1_epi32(0x1fffffff)), tie);
    /* 0 becomes the largest */
    const __m128i size = _mm_add_epi32(_mm_and_si128(above, most), most);
    const __m128i tiny = _mm_cmplt_epi32(size, _mm_set1_epi32((int)0xb80fffff));
    *suspects = _mm_or_si128(*suspects, _mm_or_si128(half, tiny));
    return _mm_movelh_ps(_mm_cvtpd_ps(lo), _mm_cvtpd_ps(hi));
}

/* To be looked into out of line. */
FMA_INLINE int fma_suspect(__m128i suspects) {
    return __builtin_expect(_mm_movemask_ps(_mm_castsi128_ps(suspects)), 0);
}

static __attribute__((noinline, unused)) __m128 f32x4_fma_exact(__m128 a, __m128 b, __m128 c) {
    for (int i = 0; i < 4; i++) c[i] = f32_fma(a[i], b[i], c[i]);
    return c;
}

FMA_INLINE __m128 f32x4_fma(__m128 a, __m128 b, __m128 c) {
    __m128i suspects = _mm_setzero_si128();
    const __m128 sum = f32x4_fma_try(a, b, c, &suspects);
    return fma_suspect(suspects) ? f32x4_fma_exact(a, b, c) : sum;
}
#endif

/* The one for vectors of VL lanes, VL a macro. */
#define F32_FMA__(n)         f32x##n##_fma
#define F32_FMA_(n)          F32_FMA__(n)
#define F32_FMA(VL, a, b, c) F32_FMA_(VL)(a, b, c)

#endif
