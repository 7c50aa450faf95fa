/* vec.h — the vector type that the row kernels are written on: eight f32 lanes on every
 * instruction set, since lanes decide the order of sums. Two of them may share a register (pairs).
 *
 * It is GCC's vector extension, so arithmetic reads as arithmetic. Intrinsics appear only for what
 * the extension cannot say (max, min, sqrt, the widening multiply, the fused multiply-add) or what
 * the compiler says badly (16-bit to 32-bit lanes and back). Without AVX2 a vector is two of SSE2,
 * and the fused multiply-add is emulated (fma.h).
 *
 * Every routine is a fixed sequence of operations, fused where it says vfma and only there: the
 * same values in the same lanes give the same bits, whichever row, thread or processor they come
 * from. Rows end in a partial vector whose missing lanes read as 0.
 *
 * Types: 1 in the argument `bf` means bf16 in memory, 0 f32, F16 that; it is always a constant
 * where it matters. bf16 rounds as bf16_store does, by integer arithmetic: the native instruction
 * flushes denormals. f16 rounds as f16_store_limited does. */
#ifndef BACKEND_CPU_VEC_H
#define BACKEND_CPU_VEC_H

#include <stdint.h>
#include <string.h>

#include "backend/cpu/fma.h"
#include "base/half.h"
#include "base/rng.h"

#define VEC __attribute__((vector_size(32)))
typedef float vf VEC;
typedef int32_t vi VEC;
typedef uint32_t vu VEC;
typedef uint64_t vq VEC;
typedef double vd VEC;
typedef uint16_t vh __attribute__((vector_size(16)));
typedef float vf_half __attribute__((vector_size(16)));
enum { W = 8 };   /* f32 lanes */
enum { F16 = 2 }; /* of `bf` */

#define INLINE      static inline __attribute__((always_inline))
#define OUT_OF_LINE static __attribute__((noinline, unused))

#define IOTA        ((vi){0, 1, 2, 3, 4, 5, 6, 7})
#define BLOCK_ORDER ((vq){0, 2, 1, 3}) /* see vphilox */

#ifdef __AVX2__
INLINE vi vless(vf a, vf b) { return a < b; }
INLINE vi vless_equal(vf a, vf b) { return a <= b; }
INLINE vi vless_int(vi a, vi b) { return a < b; }
INLINE vf vfma(vf a, vf b, vf c) { return f32x8_fma(a, b, c); }
INLINE vf vmax(vf a, vf b) { return (vf)_mm256_max_ps((__m256)a, (__m256)b); }
INLINE vf vmin(vf a, vf b) { return (vf)_mm256_min_ps((__m256)a, (__m256)b); }
INLINE vf vsqrt(vf a) { return (vf)_mm256_sqrt_ps((__m256)a); }
INLINE vq vmul32(vq a, vq b) { return (vq)_mm256_mul_epu32((__m256i)a, (__m256i)b); }
INLINE vu vwiden(vh h) { return (vu)_mm256_cvtepu16_epi32((__m128i)h); }
INLINE vh vnarrow(vu u) {
    __m256i packed = _mm256_packus_epi32((__m256i)u, (__m256i)u); /* within 128-bit halves */
    return (vh)_mm256_castsi256_si128(_mm256_permute4x64_epi64(packed, 0x08));
}
INLINE vq vunpack_lo(vq a, vq b) { return (vq)_mm256_unpacklo_epi64((__m256i)a, (__m256i)b); }
INLINE vq vunpack_hi(vq a, vq b) { return (vq)_mm256_unpackhi_epi64((__m256i)a, (__m256i)b); }
#else
union halves {
    vf f;
    vi i;
    vq q;
    __m128 half[2];
    __m128i bits[2];
};
#define BY_HALVES(part, out, op, x, y)                                                             \
    union halves a = {.out = x}, b = {.out = y};                                                   \
    for (int i = 0; i < 2; i++) a.part[i] = op(a.part[i], b.part[i]);                              \
    return a.out
/* GCC compares vectors that it has no instructions for element by element. */
INLINE vf vless_f(vf x, vf y) { BY_HALVES(half, f, _mm_cmplt_ps, x, y); }
INLINE vf vless_equal_f(vf x, vf y) { BY_HALVES(half, f, _mm_cmple_ps, x, y); }
INLINE vi vless(vf x, vf y) { return (vi)vless_f(x, y); }
INLINE vi vless_equal(vf x, vf y) { return (vi)vless_equal_f(x, y); }
INLINE vi vless_int(vi x, vi y) { BY_HALVES(bits, i, _mm_cmplt_epi32, x, y); }
INLINE vf vmax(vf x, vf y) { BY_HALVES(half, f, _mm_max_ps, x, y); }
INLINE vf vmin(vf x, vf y) { BY_HALVES(half, f, _mm_min_ps, x, y); }
INLINE vq vmul32(vq x, vq y) { BY_HALVES(bits, q, _mm_mul_epu32, x, y); }
INLINE vq vunpack_lo(vq x, vq y) { BY_HALVES(bits, q, _mm_unpacklo_epi64, x, y); }
INLINE vq vunpack_hi(vq x, vq y) { BY_HALVES(bits, q, _mm_unpackhi_epi64, x, y); }
INLINE vf vfma_try(vf x, vf y, vf z, __m128i *suspects) {
    union halves a = {.f = x}, b = {.f = y}, c = {.f = z};
    for (int i = 0; i < 2; i++)
        c.half[i] = f32x4_fma_try(a.half[i], b.half[i], c.half[i], suspects);
    return c.f;
}
OUT_OF_LINE vf vfma_exact(vf x, vf y, vf z) {
    for (int i = 0; i < W; i++) z[i] = f32_fma(x[i], y[i], z[i]);
    return z;
}
INLINE vf vfma(vf x, vf y, vf z) {
    __m128i suspects = _mm_setzero_si128();
    const vf sum = vfma_try(x, y, z, &suspects);
    return fma_suspect(suspects) ? vfma_exact(x, y, z) : sum;
}
INLINE vf vsqrt(vf x) {
    union halves a = {.f = x};
    for (int i = 0; i < 2; i++) a.half[i] = _mm_sqrt_ps(a.half[i]);
    return a.f;
}
INLINE vu vwiden(vh h) { return __builtin_convertvector(h, vu); }
INLINE vh vnarrow(vu u) { return __builtin_convertvector(u, vh); }
#endif

/* max and min return their second argument when either is NaN, on every path above. */

/* x - 0 is x, also for -0: the compiler sees a broadcast and no sum. */
INLINE vf splat(float x) { return x - (vf){0}; }
INLINE vi splat_int(int32_t x) { return x + (vi){0}; }
INLINE vf vsel(vi mask, vf a, vf b) { return (vf)((mask & (vi)a) | (~mask & (vi)b)); }
INLINE vf vkeep(vi mask, vf a) { return (vf)(mask & (vi)a); } /* a where mask, else 0 */
INLINE vf vabs(vf a) { return (vf)((vi)a & 0x7fffffff); }

/* ---- memory ---------------------------------------------------------------------------------- */

INLINE size_t elem(int bf) { return bf ? 2 : 4; }

/* How many lanes the step at `left` elements before the end covers; <= 0 at the end. */
INLINE int lanes(int left) { return left < W ? left : W; }

INLINE vf widen(vh h) { return (vf)(vwiden(h) << 16); }

INLINE vh narrow(vf x) {
    vu u = (vu)x;
    vu r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
    vu nan = (vu)vless_int(splat_int(0x7f800000),
                           (vi)(u & 0x7fffffffu)); /* signed: what every set can compare */
    r = (nan & (u >> 16 | 0x40)) | (~nan & r);
    return vnarrow(r);
}

#ifdef __F16C__
INLINE vf widen_f16(vh h) { return (vf)_mm256_cvtph_ps((__m128i)h); }
INLINE vh narrow_f16(vf x) {
    const vf c = vmin(splat(65504), vmax(splat(-65504), x)); /* a NaN stays */
    return (vh)_mm256_cvtps_ph((__m256)c, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
#else
INLINE vf widen_f16(vh h) {
    vf x = {0};
    for (int i = 0; i < W; i++) x[i] = f16_load(h[i]);
    return x;
}
INLINE vh narrow_f16(vf x) {
    vh h = {0};
    for (int i = 0; i < W; i++) h[i] = f16_store_limited(x[i]);
    return h;
}
#endif
INLINE vf widen_as(vh h, int bf) { return bf == F16 ? widen_f16(h) : widen(h); }

/* The end of a row, out of line: the usual widths have none, and inline they would force vectors
 * through the stack. */
OUT_OF_LINE vf load_part(const void *p, int m) {
    vf v = {0};
    memcpy(&v, p, (size_t)m * 4);
    return v;
}
OUT_OF_LINE vh load_part_bf(const void *p, int m) {
    vh v = {0};
    memcpy(&v, p, (size_t)m * 2);
    return v;
}
OUT_OF_LINE void store_part(void *p, int m, vf v) { memcpy(p, &v, (size_t)m * 4); }
OUT_OF_LINE void store_part_bf(void *p, int m, vh v) { memcpy(p, &v, (size_t)m * 2); }

/* Elements [i, i + m) of the row at p, as f32; lanes from m on are 0. */
INLINE vf vload(const void *p, int64_t i, int m, int bf) {
    const char *at = (const char *)p + (size_t)i * elem(bf);
    vf v;
    vh h;
    if (__builtin_expect(m != W, 0))
        return bf ? widen_as(load_part_bf(at, m), bf) : load_part(at, m);
    if (bf)
        memcpy(&h, at, sizeof h);
    else
        memcpy(&v, at, sizeof v);
    return bf ? widen_as(h, bf) : v;
}

INLINE void vstore(void *p, int64_t i, int m, int bf, vf v) {
    char *at = (char *)p + (size_t)i * elem(bf);
    vh h;
    if (bf) h = bf == F16 ? narrow_f16(v) : narrow(v);
    if (__builtin_expect(m != W, 0)) {
        if (bf)
            store_part_bf(at, m, h);
        else
            store_part(at, m, v);
    } else if (bf)
        memcpy(at, &h, sizeof h);
    else
        memcpy(at, &v, sizeof v);
}

/* What a value becomes when it is stored and read again. */
INLINE vf rounded(vf v, int bf) { return bf ? widen(narrow(v)) : v; }

/* Lanes before m, lanes from m on, and those whose column, j + lane, lies in [lo, hi). */
INLINE vi upto(int m) { return vless_int(IOTA, splat_int(m)); }
INLINE vi from(int m) { return vless_int(splat_int(m - 1), IOTA); }
INLINE vi between(int j, int lo, int hi) { return from(lo - j) & upto(hi - j); }

/* ---- reductions ------------------------------------------------------------------------------ */

/* Across the lanes, halves folded onto each other: the one order in which lanes are ever summed. */
#ifdef __AVX2__
#define SWAP_4(v)     __builtin_shufflevector(v, v, 4, 5, 6, 7, 0, 1, 2, 3)
#define SWAP_2(v)     __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5)
#define SWAP_1(v)     __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6)
#define FOLD(v, with) (v = with(v, SWAP_4(v)), v = with(v, SWAP_2(v)), with(v, SWAP_1(v))[0])
INLINE vf vadd(vf a, vf b) { return a + b; }
INLINE float vsum(vf v) { return FOLD(v, vadd); }
INLINE float vmax_all(vf v) { return FOLD(v, vmax); }
#else
#define FOLD(v, with)                                                                              \
    union halves u = {.f = v};                                                                     \
    __m128 h = with(u.half[0], u.half[1]);                                                         \
    h = with(h, _mm_movehl_ps(h, h));                                                              \
    return _mm_cvtss_f32(with(h, _mm_shuffle_ps(h, h, 0x55)))
INLINE float vsum(vf v) { FOLD(v, _mm_add_ps); }
INLINE float vmax_all(vf v) { FOLD(v, _mm_max_ps); }
#endif

/* Lane i is vsum(v[i]), bit for bit, for W vectors at the price of about two. */
INLINE vf vsum_each(const vf v[W]) {
#ifdef __AVX2__
    vf pair[4], four[2]; /* halves of two vectors side by side, then quarters of four */
    for (int i = 0; i < 4; i++) {
        vf a = v[2 * i], b = v[2 * i + 1];
        pair[i] = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11) +
                  __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
    }
    for (int i = 0; i < 2; i++) {
        vf a = pair[2 * i], b = pair[2 * i + 1];
        four[i] = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13) +
                  __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
    }
    vf sum = __builtin_shufflevector(four[0], four[1], 0, 2, 8, 10, 4, 6, 12, 14) +
             __builtin_shufflevector(four[0], four[1], 1, 3, 9, 11, 5, 7, 13, 15);
    return __builtin_shufflevector(sum, sum, 0, 4, 1, 5, 2, 6, 3, 7);
#else
    vf sum = {0};
    for (int i = 0; i < W; i++) sum[i] = vsum(v[i]);
    return sum;
#endif
}

INLINE int vany(vi mask) {
#ifdef __AVX2__
    return _mm256_movemask_ps((__m256)mask) != 0;
#else
    union halves u = {.f = (vf)mask};
    return _mm_movemask_ps(_mm_or_ps(u.half[0], u.half[1])) != 0;
#endif
}

/* The sum of squares of the lanes of x, added to two vectors of doubles. */
INLINE void vsquares(vd acc[2], vf x) {
    vf_half h[2];
    memcpy(h, &x, sizeof x);
    for (int i = 0; i < 2; i++) {
        vd wide = __builtin_convertvector(h[i], vd);
        acc[i] += wide * wide; /* exact, as the product of floats is */
    }
}

/* ---- functions ------------------------------------------------------------------------------- */

/* Without the instruction: fused unless that is suspect, where suspects are asked for. */
INLINE vf vfma_by(vf a, vf b, vf c, __m128i *suspects) {
#ifndef __AVX2__
    if (suspects) return vfma_try(a, b, c, suspects);
#else
    (void)suspects;
#endif
    return vfma(a, b, c);
}

/* e^x to about 1 ulp. x = n ln 2 + r with |r| <= ln 2 / 2, e^r by a polynomial that interpolates at
 * Chebyshev nodes (relative error 1e-8). Below -87.3, where the result would be denormal, and for
 * -inf it is 0; above 88.3 it stays at e^88.3; NaN stays NaN. */
INLINE vf vexp_by(vf x, __m128i *suspects) {
    const float lo = -87.3f, magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to an integer */
    vf c = vmin(splat(88.3f), vmax(splat(lo), x));
    vf t = vfma_by(c, splat(1.44269504f), splat(magic), suspects), n = t - magic;
    /* ln 2 in two parts; the first has trailing zeros, so n * it is exact */
    vf r = vfma_by(n, splat(-0.693145752f), c, suspects);
    r = vfma_by(n, splat(-1.42860682e-6f), r, suspects);
    vf q = splat(0.00139261761f);
    q = vfma_by(q, r, splat(0.00836317307f), suspects);
    q = vfma_by(q, r, splat(0.0416665547f), suspects);
    q = vfma_by(q, r, splat(0.16666577f), suspects);
    q = vfma_by(q, r, splat(0.5f), suspects);
    vf p = vfma_by(q * r, r, r, suspects) + 1.0f;
    vf scale = (vf)(((vu)t << 23) + (127u << 23)); /* the low bits of t are n */
    return vkeep(~vless(x, splat(lo)), p * scale);
}

#ifdef __AVX2__
INLINE vf vexp(vf x) { return vexp_by(x, NULL); }
#else
OUT_OF_LINE vf vexp_exact(vf x) { return vexp_by(x, NULL); }
INLINE vf vexp(vf x) { /* suspects are looked at once for all its steps */
    __m128i suspects = _mm_setzero_si128();
    const vf e = vexp_by(x, &suspects);
    return fma_suspect(suspects) ? vexp_exact(x) : e;
}
#endif

/* ---- pairs ----------------------------------------------------------------------------------- */

/* Two vectors side by side, for loops that keep two strands anyway: one register where there are
 * such, and the bits of two vectors everywhere. No partial ones. */
#ifdef __AVX512F__
typedef float vp __attribute__((vector_size(64)));
INLINE vp psplat(float x) { return x - (vp){0}; }
INLINE vp padd(vp a, vp b) { return a + b; }
INLINE vp pfma(vp a, vp b, vp c) { return (vp)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c); }
INLINE vp pmax(vp a, vp b) { return (vp)_mm512_max_ps((__m512)a, (__m512)b); }
INLINE vf plow(vp a) { return (vf)_mm512_castps512_ps256((__m512)a); }
INLINE vf phigh(vp a) { return (vf)_mm512_extractf32x8_ps((__m512)a, 1); }
INLINE vp pload(const void *p, int64_t i, int bf) {
    const char *at = (const char *)p + (size_t)i * elem(bf);
    if (!bf) return (vp)_mm512_loadu_ps(at);
    const __m256i h = _mm256_loadu_si256((const __m256i *)at);
    if (bf == F16) return (vp)_mm512_cvtph_ps(h);
    return (vp)_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16);
}
INLINE void pstore(float *p, int64_t i, vp a) { _mm512_storeu_ps(p + i, (__m512)a); }
/* Whether any lane is above the bound, or at it. */
INLINE int pany_above(vp a, float bound, const int or_equal) {
    const __m512 b = (__m512)psplat(bound);
    return or_equal ? _mm512_cmp_ps_mask(b, (__m512)a, _CMP_LE_OQ) != 0
                    : _mm512_cmp_ps_mask(b, (__m512)a, _CMP_LT_OQ) != 0;
}
/* vexp, lane by lane, of what is not above 0. No bounds: what is too far down is left out at the
 * end, whatever it has become. */
INLINE vp pexp_down(vp x) {
    const float lo = -87.3f, magic = 12582912.0f;
    vp t = pfma(x, psplat(1.44269504f), psplat(magic)), n = t - magic;
    vp r = pfma(n, psplat(-1.42860682e-6f), pfma(n, psplat(-0.693145752f), x));
    vp q = pfma(psplat(0.00139261761f), r, psplat(0.00836317307f));
    q = pfma(q, r, psplat(0.0416665547f));
    q = pfma(q, r, psplat(0.16666577f));
    q = pfma(q, r, psplat(0.5f));
    vp p = pfma(q * r, r, r) + 1.0f;
    const __mmask16 keep = _mm512_cmp_ps_mask((__m512)x, (__m512)psplat(lo), _CMP_NLT_UQ);
    return (vp)_mm512_maskz_scalef_ps(keep, (__m512)p, (__m512)n);
}
#else
typedef struct {
    vf v[2];
} vp;
#define EACH_HALF(expression)                                                                      \
    vp out;                                                                                        \
    for (int k = 0; k < 2; k++) out.v[k] = (expression);                                           \
    return out
INLINE vp psplat(float x) { EACH_HALF(splat(x)); }
INLINE vp padd(vp a, vp b) { EACH_HALF(a.v[k] + b.v[k]); }
INLINE vp pfma(vp a, vp b, vp c) { EACH_HALF(vfma(a.v[k], b.v[k], c.v[k])); }
INLINE vp pmax(vp a, vp b) { EACH_HALF(vmax(a.v[k], b.v[k])); }
INLINE vp pexp_down(vp x) { EACH_HALF(vexp(x.v[k])); }
INLINE vp pload(const void *p, int64_t i, int bf) { EACH_HALF(vload(p, i + k * W, W, bf)); }
INLINE void pstore(float *p, int64_t i, vp a) {
    for (int k = 0; k < 2; k++) vstore(p, i + k * W, W, 0, a.v[k]);
}
INLINE int pany_above(vp a, float bound, const int or_equal) {
    const vf b = splat(bound);
    return or_equal ? vany(vless_equal(b, a.v[0]) | vless_equal(b, a.v[1]))
                    : vany(vless(b, a.v[0]) | vless(b, a.v[1]));
}
INLINE vf plow(vp a) { return a.v[0]; }
INLINE vf phigh(vp a) { return a.v[1]; }
#endif

/* log x to about 2 ulp of the result, or 1e-7 near 1, for x that is 0 or normal: x = 2^e y, y
 * within a factor of sqrt 2 of 1, and log y = 2 artanh((y - 1) / (y + 1)) by its series, whose next
 * term is below 1e-9. 0 gives -inf, NaN stays NaN. */
INLINE vf vlog(vf x) {
    vi bits = (vi)x, e = (bits - 0x3f3504f3) >> 23; /* 0x3f3504f3: sqrt(1/2) */
    vf y = (vf)(bits - (e << 23)), s = (y - 1.0f) / (y + 1.0f), q = s * s;
    vf p = vfma(q, splat(2 / 9.0f), splat(2 / 7.0f));
    p = vfma(q, p, splat(2 / 5.0f));
    p = vfma(q, p, splat(2 / 3.0f));
    p = vfma(q * p, s, s + s);
    vf n = __builtin_convertvector(e, vf);
    vf l = vfma(n, splat(0.693145752f), vfma(n, splat(1.42860682e-6f), p));
    l = vsel(vless(splat(0), x), l, splat(-INFINITY));
    return vsel(vless_equal(x, x), l, x); /* not a number: not even equal to itself */
}

INLINE vf vsigmoid(vf x) { return 1.0f / (1.0f + vexp(-x)); }

/* The normal distribution function and its density. With a = |z| and t = 1 / (1 + 0.35 a), Phi(-a)
 * = exp(-a^2 / 2) t Q(t): Q is smooth on all of t's range, so one polynomial (relative error 4e-8)
 * serves every z, and the density shares the exponential. */
INLINE vf vnormal(vf z, vf *density) {
    vf a = vabs(z), e = vexp(z * z * -0.5f), t = 1.0f / vfma(splat(0.35f), a, splat(1.0f));
    vf q = splat(-0.029679522f);
    q = vfma(q, t, splat(0.14654583f));
    q = vfma(q, t, splat(-0.260961229f));
    q = vfma(q, t, splat(0.165050996f));
    q = vfma(q, t, splat(-0.0270466085f));
    q = vfma(q, t, splat(0.107114588f));
    q = vfma(q, t, splat(0.119444917f));
    q = vfma(q, t, splat(0.139912298f));
    q = vfma(q, t, splat(0.139618713f));
    vf tail = e * t * q;
    *density = e * 0.398942280f;
    return vsel(vless(z, splat(0)), tail, 1.0f - tail);
}

/* ---- philox ---------------------------------------------------------------------------------- */

/* Philox blocks first .. first + W/2 - 1 of one row, as the 16-bit draws of 4 W columns in order.
 *
 * Each 64-bit lane carries one block, its four words in the low halves of four vectors; the
 * widening multiply ignores the high halves, so they may hold rubbish and a round is two
 * multiplies, two shifts and four xors. Lane 2 g + h works on block first + h W/4 + g: then the
 * interleaving of the words at the end, which acts within 128-bit groups g, leaves the blocks in
 * order. */
INLINE void vphilox(uint16_t *out, uint64_t key, uint32_t first, uint32_t row, uint32_t site,
                    uint32_t step) {
    vq c0 = BLOCK_ORDER + first, c1 = (vq){0} + row, c2 = (vq){0} + site, c3 = (vq){0} + step;
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    const vq m0 = (vq){0} + PHILOX_M0, m1 = (vq){0} + PHILOX_M1;
    for (int round = 0; round < 10; round++) {
        vq p0 = vmul32(c0, m0), p1 = vmul32(c2, m1);
        c0 = (p1 >> 32) ^ c1 ^ k0;
        c2 = (p0 >> 32) ^ c3 ^ k1;
        c1 = p1;
        c3 = p0;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    vq w01 = (c0 & 0xffffffffu) | c1 << 32, w23 = (c2 & 0xffffffffu) | c3 << 32;
    vq lo = vunpack_lo(w01, w23), hi = vunpack_hi(w01, w23);
    memcpy(out, &lo, sizeof lo);
    memcpy(out + 2 * W, &hi, sizeof hi);
}

#endif
