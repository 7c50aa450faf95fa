/* tiled_f32.h — products in f32 with tiled weights, F32 ones and (widened on the way) BF16 ones,
 * written once on a vector type and included by tiled_generic.c, tiled_avx2.c and tiled_avx512.c
 * after their definition of VL, the lanes of a vector, and of FUSED, whether products are added by
 * fused multiply-adds. For BF16, whose products are exact, the bits are the same.
 *
 * A line of F32 weights is one depth of 16 rows of w, so a step of depth is: load the lines of the
 * tiles at hand, broadcast a word of each row of x, multiply-add. A line of BF16 is two depths: the
 * lower halves of its words, moved up, are the even one, the upper halves the odd one.
 *
 * Numbers: the sums of gemm_f32.h, bit for bit. Blocks of 512 depths, each one chain of
 * multiply-adds from zero; a block's sum joins the sum of those before it. */
#ifndef BACKEND_CPU_TILED_F32_H
#define BACKEND_CPU_TILED_F32_H

#include <string.h>

#include "backend/cpu/fma.h"
#include "backend/cpu/tiled_walk.h"
#include "backend/tile.h"

enum { SUM_DEPTHS = 512 }; /* KC of gemm_f32.h */

typedef float tvec __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint32_t tword __attribute__((vector_size(4 * VL), aligned(4), may_alias));

GEMM_INLINE tvec f32_madd(tvec a, tvec b, tvec c) {
    if (FUSED) return (tvec)F32_FMA(VL, a, b, c);
    return a * b + c;
}

GEMM_INLINE void f32_step(tvec *sum, const tvec *w, const char *const *x, int64_t ldx, int64_t at,
                          const int rows, const int nv) {
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
        const tvec a =
            *(const float *)(X_ROW(x, i, ldx) + at) - (tvec){0}; /* a broadcast, no sum */
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++) sum[i * nv + j] = f32_madd(a, w[j], sum[i * nv + j]);
    }
}

/* Moves the pointers to rows of x, `at`, on as it goes. */
GEMM_INLINE void f32_lines(tvec *sum, const char **at, int64_t ldx, const char *w, int64_t ldw,
                           int lines, struct tiled_next next, const int rows, const int across,
                           const int bf) {
    enum { PARTS = TILE_ROWS / VL };
    const int nv = across * PARTS;
    for (int line = 0; line < lines; line++, w += TILE_LINE_BYTES, next.at += next.step) {
        tvec even[4 * PARTS], odd[4 * PARTS];
#pragma GCC unroll 4
        for (int t = 0; t < across; t++) {
            __builtin_prefetch(next.at + t * ldw, 0, 2);
#pragma GCC unroll 4
            for (int j = 0; j < PARTS; j++) {
                const char *from = w + t * ldw + j * 4 * VL;
                const tword word = *(const tword *)from;
                even[t * PARTS + j] = bf ? (tvec)(word << 16) : (tvec)word;
                odd[t * PARTS + j] = (tvec)(word & 0xffff0000u);
            }
        }
        f32_step(sum, even, at, ldx, 0, rows, nv);
        if (bf) f32_step(sum, odd, at, ldx, 4, rows, nv);
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++) at[i] += bf ? 8 : 4;
    }
}

GEMM_INLINE void f32_any_block(const struct tiled_part *p, int row, int tile,
                               struct tiled_next next, const int rows, const int across,
                               const int bf) {
    const int nr = across * TILE_ROWS, nv = nr / VL;
    const int deep = bf ? SUM_DEPTHS / 2 : SUM_DEPTHS; /* lines */
    const int64_t ldx = p->ldx, ldw = p->ldw;
    const char *w = p->w + tile * ldw, *x = p->x + row * ldx;
    float t[14 * 2 * TILE_ROWS] __attribute__((aligned(64)));
    tiled_expect(p, row, tile, rows, across);
    int line = 0;
    do {
        const int lines = p->lines - line < deep ? p->lines - line : deep;
        const char *at[5];
        tvec sum[14 * 2 * TILE_ROWS / VL];
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++)
            at[i] = x + 3 * i * ldx + (int64_t)line * (bf ? 8 : 4);
#pragma GCC unroll 64
        for (int i = 0; i < rows * nv; i++) sum[i] = (tvec){0};
        f32_lines(sum, at, ldx, w + (int64_t)line * TILE_LINE_BYTES, ldw, lines, next, rows, across,
                  bf);
        next.at += lines * next.step;
#pragma GCC unroll 64
        for (int i = 0; i < rows * nv; i++) {
            tvec *to = (tvec *)(t + i * VL);
            if (line) sum[i] += *to;
            *to = sum[i];
        }
        line += deep;
    } while (line < p->lines);
    struct gemm_store to;
    const int cols = tiled_target(&to, p, row, tile, across);
    gemm_store_patch(&to, t, nr, rows, cols);
}

GEMM_INLINE void f32_block(const struct tiled_part *p, int row, int tile, struct tiled_next next,
                           const int rows, const int across) {
    f32_any_block(p, row, tile, next, rows, across, 0);
}

GEMM_INLINE void bf16_block(const struct tiled_part *p, int row, int tile, struct tiled_next next,
                            const int rows, const int across) {
    f32_any_block(p, row, tile, next, rows, across, 1);
}

/* x as it is, for rows that share cache sets where they lie. */
static void copy_stage(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                       int last) {
    (void)factor;
    for (int i = first; i < last; i++)
        memcpy((char *)dst + i * ld, (const float *)x->data + i * x->ld, (size_t)x->cols * 4);
}

/* x widened, with a zero where an odd depth ends it. */
static void widen_stage(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                        int last) {
    (void)factor;
    for (int i = first; i < last; i++) {
        float *restrict to = (float *)((char *)dst + i * ld);
        const uint16_t *restrict from = (const uint16_t *)x->data + i * x->ld;
        for (int k = 0; k < x->cols; k++) to[k] = bf16_load(from[k]);
        if (x->cols % 2) to[x->cols] = 0;
    }
}

#endif
