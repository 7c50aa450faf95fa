/* tiled_avx512bf16.c — BF16 products with tiled weights by vdpbf16ps: a line of w is 16 pairs of
 * depths, as the instruction wants them, and a pair of x is broadcast. Blocks are those of f32, 14
 * rows by two tiles, two depths a step.
 *
 * Numbers: those of gemm_avx512bf16.c, bit for bit. Blocks of 1024 depths, each one chain from
 * zero; a block's sum joins the sum of those before it. */
#include <immintrin.h>
#include <string.h>

#include "backend/cpu/tiled_walk.h"

enum { SUM_LINES = 512 }; /* KC of gemm_avx512bf16.c, in pairs */

/* Moves the pointers to rows of x, `at`, on as it goes. */
GEMM_INLINE void dp_lines(__m512 *sum, const char **at, int64_t ldx, const char *w, int64_t ldw,
                          int lines, struct tiled_next next, const int rows, const int across) {
    for (int line = 0; line < lines; line++, w += TILE_LINE_BYTES, next.at += next.step) {
        __m512bh part[4];
#pragma GCC unroll 4
        for (int t = 0; t < across; t++) {
            __builtin_prefetch(next.at + t * ldw, 0, 2);
            part[t] = (__m512bh)_mm512_loadu_si512(w + t * ldw);
        }
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            int32_t pair;
            memcpy(&pair, X_ROW(at, i, ldx), sizeof pair);
#pragma GCC unroll 4
            for (int t = 0; t < across; t++)
                sum[i * across + t] = _mm512_dpbf16_ps(sum[i * across + t],
                                                       (__m512bh)_mm512_set1_epi32(pair), part[t]);
        }
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++) at[i] += 4;
    }
}

GEMM_INLINE void dp_block(const struct tiled_part *p, int row, int tile, struct tiled_next next,
                          const int rows, const int across) {
    const int64_t ldx = p->ldx, ldw = p->ldw;
    const char *w = p->w + tile * ldw;
    float t[14 * 2 * TILE_ROWS] __attribute__((aligned(64)));
    tiled_expect(p, row, tile, rows, across);
    int line = 0;
    do {
        const int lines = p->lines - line < SUM_LINES ? p->lines - line : SUM_LINES;
        const char *at[5];
        __m512 sum[14 * 2];
#pragma GCC unroll 5
        for (int i = 0; i < (rows + 2) / 3; i++)
            at[i] = p->x + (row + 3 * i) * ldx + (int64_t)line * 4;
#pragma GCC unroll 32
        for (int i = 0; i < rows * across; i++) sum[i] = _mm512_setzero_ps();
        dp_lines(sum, at, ldx, w + (int64_t)line * TILE_LINE_BYTES, ldw, lines, next, rows, across);
        next.at += lines * next.step;
#pragma GCC unroll 32
        for (int i = 0; i < rows * across; i++) {
            if (line) sum[i] = _mm512_add_ps(_mm512_load_ps(t + i * 16), sum[i]);
            _mm512_store_ps(t + i * 16, sum[i]);
        }
        line += SUM_LINES;
    } while (line < p->lines);
    struct gemm_store to;
    const int cols = tiled_target(&to, p, row, tile, across);
    gemm_store_patch(&to, t, across * TILE_ROWS, rows, cols);
}

/* x as it is, with a zero where an odd depth ends it. */
static void stage(void *dst, int64_t ld, float *factor, const struct mat *x, int first, int last) {
    (void)factor;
    for (int i = first; i < last; i++) {
        uint16_t *to = (uint16_t *)((char *)dst + i * ld);
        memcpy(to, (const uint16_t *)x->data + i * x->ld, (size_t)x->cols * 2);
        if (x->cols % 2) to[x->cols] = 0;
    }
}

TILED_TABLE(dp_block, 6, 14, 14)

static void run(const struct tiled_part *p) { tiled_walk(p, dp_block_blocks); }

const struct tiled_kernel tiled_bf16_avx512bf16 = {
    .stage_bytes = 2, .row_unit = 1, .stage = stage, .run = run};
