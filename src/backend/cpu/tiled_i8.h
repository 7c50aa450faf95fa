/* tiled_i8.h — products of quantised rows with tiled I8 weights, written once and included by the
 * tiled_<isa>.c files, which define
 *
 *     VL                        lanes of a vector; types fvec (f32) and ivec (int32) of that width
 *     I8_WORD                   bytes of 4 depths of x, staged
 *     struct i8_x               those broadcast;  i8_fetch(from) does it, I8_HIDE(x) makes them
 *                               unknown
 *     struct i8_line            a vector of a line of w, ready to multiply;  i8_load(from) reads
 *                               one
 *     i8_dot(sum, x, line)      sum + the products of 4 depths; exact
 *     i8_start(sums)            where sums begin, given those of w's rows
 *     i8_put(to, q)             the staged form of VL quantised depths
 *     i8_round(v)               to the nearest integers, ties to even
 *
 * Sums are exact in int32, so their order is free and every instruction set gets the same; the few
 * roundings around them are those of the contract (struct linear_args), one operation each. */
#ifndef BACKEND_CPU_TILED_I8_H
#define BACKEND_CPU_TILED_I8_H

#include <math.h>
#include <string.h>

#include "backend/cpu/fma.h"
#include "backend/cpu/tiled_walk.h"
#include "backend/tile.h"

enum { I8_PARTS = TILE_ROWS / VL };

/* ---- staging: rows of x to integers ---------------------------------------------------------- */

/* The largest |x| of the row. As integers the bits of absolute values order as they do, infinity
 * above all numbers and NaN above infinity: the result does not depend on an order of comparing. */
static float i8_largest(const float *x, int n) {
    ivec most = {0};
    int32_t all = 0;
    int k = 0;
    for (; k + VL <= n; k += VL) {
        ivec bits;
        memcpy(&bits, x + k, sizeof bits);
        bits &= 0x7fffffff;
        const ivec more = bits > most;
        most = (bits & more) | (most & ~more);
    }
    for (; k < n; k++) {
        int32_t bits;
        memcpy(&bits, x + k, 4);
        bits &= 0x7fffffff;
        if (bits > all) all = bits;
    }
    for (int i = 0; i < VL; i++)
        if (most[i] > all) all = most[i];
    float a;
    memcpy(&a, &all, 4);
    return a;
}

/* v, or the nearest number that is at most 127 in size. */
GEMM_INLINE fvec i8_clip(fvec v) {
    const fvec most = (fvec){0} + 127.0f;
    const ivec above = v > most, below = v < -most;
    return (fvec)(((ivec)v & ~(above | below)) | ((ivec)most & above) | ((ivec)-most & below));
}

/* The row at x, times factor, to integers, clipped if the factor is not the row's own. Returns the
 * lanes in which a value was not finite, if they are clipped. */
GEMM_INLINE ivec i8_quantise(char *to, const float *x, int n, float factor, const int clip) {
    const int64_t step = VL * (int64_t)(I8_WORD / 4);
    ivec odd = {0};
    fvec v = {0};
    int k = 0;
    for (; k + VL <= n; k += VL, to += step) {
        memcpy(&v, x + k, sizeof v);
        if (clip) odd |= ((ivec)v & 0x7fffffff) > 0x7f7fffff;
        i8_put(to, i8_round(clip ? i8_clip(v * factor) : v * factor));
    }
    if (k == n) return odd;
    v = (fvec){0};
    memcpy(&v, x + k, (size_t)(n - k) * 4);
    if (clip) odd |= ((ivec)v & 0x7fffffff) > 0x7f7fffff;
    i8_put(to, i8_round(clip ? i8_clip(v * factor) : v * factor));
    return odd;
}

/* One row by a factor that is given; returns 1, or NaN where it is not all finite. */
static float i8_stage_given(char *to, const float *x, int n, float factor) {
    const ivec odd = i8_quantise(to, x, n, factor, 1);
    int32_t any = 0;
    for (int i = 0; i < VL; i++) any |= odd[i];
    return any ? NAN : 1;
}

static void i8_stage(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                     int last) {
    for (int i = first; i < last; i++) {
        char *to = (char *)dst + i * ld;
        const float *from = (const float *)x->data + i * x->ld;
        if (x->x_scale > 0) {
            factor[i] = i8_stage_given(to, from, x->cols, x->x_scale);
            continue;
        }
        const float a = i8_largest(from, x->cols), inverse = 127 / a;
        const int finite = a <= __FLT_MAX__;
        factor[i] = finite ? a / 127 : NAN;
        if (finite && inverse <= __FLT_MAX__)
            i8_quantise(to, from, x->cols, inverse, 0);
        else
            for (int k = 0; k < x->cols; k += VL)
                i8_put(to + k * (int64_t)(I8_WORD / 4), (ivec){0});
    }
}

/* ---- the product ----------------------------------------------------------------------------- */

/* Sums to values: fma((float)sum, step, bias), or rounded twice; then ReLU. */
GEMM_INLINE fvec i8_value(ivec sum, fvec step, fvec bias, int relu, const int twice) {
    const fvec f = __builtin_convertvector(sum, fvec);
    fvec z = f * step + bias;
    if (!twice) z = F32_FMA(VL, f, step, bias);
    return relu ? (fvec)((ivec)z & ~(ivec)(z < (fvec){0})) : z; /* a NaN stays */
}

/* One vector of columns, `col` the first of them, or its first `size` bytes, in all rows. */
GEMM_INLINE void i8_column(const struct tiled_part *p, const struct gemm_store *to, const ivec *sum,
                           const int nv, const float *factor, int col, const int rows,
                           size_t size) {
    fvec bias = {0}, scale, zero;
    ivec all;
    memcpy(&scale, p->scale + col, sizeof scale);
    if (to->bias) memcpy(&bias, to->bias, size);
    if (p->zero) {
        memcpy(&zero, p->zero + col, sizeof zero);
        memcpy(&all, p->sum + col, sizeof all);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const fvec z =
                i8_value(sum[i * nv] + 127 * all, factor[i] * scale, zero + bias, to->relu, 1);
            memcpy(&((float *)to->c)[i * to->ldc], &z, size);
        }
        return;
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const fvec z = i8_value(sum[i * nv], factor[i] * scale, bias, to->relu, 0);
        memcpy(&((float *)to->c)[i * to->ldc], &z, size);
    }
}

GEMM_INLINE void i8_finish(const struct tiled_part *p, const ivec *sum, int row, int tile,
                           const int rows, const int across) {
    struct gemm_store to;
    const int cols = tiled_target(&to, p, row, tile, across);
    const float *factor = p->factor + row;
#pragma GCC unroll 16
    for (int j = 0; j < across * I8_PARTS; j++) {
        const int left = cols - j * VL, col = tile * TILE_ROWS + j * VL;
        if (left >= VL)
            i8_column(p, &to, sum + j, across * I8_PARTS, factor, col, rows, sizeof(fvec));
        else if (left > 0)
            i8_column(p, &to, sum + j, across * I8_PARTS, factor, col, rows, (size_t)left * 4);
        to.c = (float *)to.c + VL;
        if (to.bias) to.bias = (const float *)to.bias + VL;
    }
}

GEMM_INLINE void i8_block(const struct tiled_part *p, int row, int tile, struct tiled_next next,
                          const int rows, const int across) {
    const int nv = across * I8_PARTS, lines = p->lines;
    const int64_t ldx = p->ldx, ldw = p->ldw;
    const char *w = p->w + tile * ldw, *x[5];
    ivec sum[14 * 2 * I8_PARTS];
    tiled_expect(p, row, tile, rows, across);
#pragma GCC unroll 5
    for (int i = 0; i < (rows + 2) / 3; i++) x[i] = p->x + (row + 3 * i) * ldx;
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++) sum[i * nv + j] = i8_start(p->sum + tile * TILE_ROWS + j * VL);
    for (int line = 0; line < lines; line++, w += TILE_LINE_BYTES, next.at += next.step) {
        struct i8_line part[4 * I8_PARTS];
#pragma GCC unroll 4
        for (int t = 0; t < across; t++) {
            __builtin_prefetch(next.at + t * ldw, 0, 2);
#pragma GCC unroll 4
            for (int j = 0; j < I8_PARTS; j++)
                part[t * I8_PARTS + j] = i8_load(w + t * ldw + j * 4 * VL);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const struct i8_x word = i8_fetch(X_ROW(x, i, ldx));
#pragma GCC unroll 16
            for (int j = 0; j < nv; j++) sum[i * nv + j] = i8_dot(sum[i * nv + j], word, part[j]);
        }
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++) x[i] += I8_WORD;
    }
    i8_finish(p, sum, row, tile, rows, across);
}

/* As many independent i8_dot as a step of the largest block has. Hiding the operand keeps the
 * compiler from doing once what the product does for every row. */
#define I8_PEAK(n_sum)                                                                             \
    static double i8_peak(int64_t iterations) {                                                    \
        static const int32_t ones[2] = {0x01010101, 0x01010101};                                   \
        ivec sum[n_sum], w = (ivec){0} + 0x01020304;                                               \
        struct i8_line line = i8_load((const char *)&w);                                           \
        struct i8_x x = i8_fetch((const char *)ones);                                              \
        _Pragma("GCC unroll 32") for (int i = 0; i < (n_sum); i++) sum[i] = (ivec){0} + i;         \
        for (int64_t n = 0; n < iterations; n++) {                                                 \
            _Pragma("GCC unroll 32") for (int i = 0; i < (n_sum); i++) {                           \
                I8_HIDE(x);                                                                        \
                sum[i] = i8_dot(sum[i], x, line);                                                  \
            }                                                                                      \
        }                                                                                          \
        ivec all = {0};                                                                            \
        _Pragma("GCC unroll 32") for (int i = 0; i < (n_sum); i++) all += sum[i];                  \
        volatile int32_t keep = all[0];                                                            \
        (void)keep;                                                                                \
        return (double)iterations * (n_sum)*VL * 8;                                                \
    }

#endif
