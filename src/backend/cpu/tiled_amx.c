/* tiled_amx.c — products with tiled weights for AMX, BF16 and I8.
 *
 * Sixteen lines of a tile of w, 1 KiB that lie together, are one register as the second
 * operand of tdpbf16ps and tdpbssd; sixteen rows of staged x, 64 bytes each, are one as the first.
 * So both are loaded as they lie. 32 rows go by two tiles of w in four registers of sums (0 .. 3),
 * two of x (4, 5), two of w (6, 7): four loads for four multiplications. 16 rows or fewer go by
 * four tiles of w: five loads for four multiplications, and four chains in flight still.
 *
 * Staged rows are padded with zeros to whole registers, in both directions; x's padding rows are
 * multiplied and their results dropped, which costs nothing where w's stream is the limit.
 *
 * Numbers: BF16 as gemm_amx.c: per 32 depths even and odd products are summed apart, then joined to
 * the one running sum. I8 is exact. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/amx.h"
#include "backend/cpu/tiled_walk.h"

enum { STEP = TILE_LINES * TILE_LINE_BYTES };

/* ---- the product ----------------------------------------------------------------------------- */

#define MULTIPLY(i8, sum, a, b)                                                                    \
    do {                                                                                           \
        if (i8)                                                                                    \
            amx_multiply_i8(sum, a, b);                                                            \
        else                                                                                       \
            amx_multiply(sum, a, b);                                                               \
    } while (0)

/* t [32][32] of 4-byte sums = 32 rows of x by the tiles at w and w1. */
GEMM_INLINE void rows_32(const struct tiled_part *p, const char *x, const char *w, const char *w1,
                         char *t, const int i8) {
    const char *x1 = x + 16 * p->ldx;
    amx_zero_sums();
    for (int line = 0; line < p->lines; line += TILE_LINES) {
        amx_load(4, x, p->ldx);
        amx_load(6, w, 64);
        MULTIPLY(i8, 0, 4, 6);
        amx_load(7, w1, 64);
        MULTIPLY(i8, 1, 4, 7);
        amx_load(5, x1, p->ldx);
        MULTIPLY(i8, 2, 5, 6);
        MULTIPLY(i8, 3, 5, 7);
        x += 64;
        x1 += 64;
        w += STEP;
        w1 += STEP;
    }
    amx_store(0, t, 128);
    amx_store(1, t + 64, 128);
    amx_store(2, t + (ptrdiff_t)16 * 128, 128);
    amx_store(3, t + (ptrdiff_t)16 * 128 + 64, 128);
}

/* t [16][64] = 16 rows of x by four tiles. */
GEMM_INLINE void rows_16(const struct tiled_part *p, const char *x, const char *const *w, char *t,
                         const int i8) {
    amx_zero_sums();
    for (int64_t at = 0, line = 0; line < p->lines; line += TILE_LINES, at += STEP, x += 64) {
        amx_load(4, x, p->ldx);
        amx_load(5, w[0] + at, 64);
        MULTIPLY(i8, 0, 4, 5);
        amx_load(6, w[1] + at, 64);
        MULTIPLY(i8, 1, 4, 6);
        amx_load(7, w[2] + at, 64);
        MULTIPLY(i8, 2, 4, 7);
        amx_load(5, w[3] + at, 64);
        MULTIPLY(i8, 3, 4, 5);
    }
    amx_store(0, t, 256);
    amx_store(1, t + 64, 256);
    amx_store(2, t + 128, 256);
    amx_store(3, t + 192, 256);
}

/* The epilogue of I8, as tiled_i8.h has it: rows x cols of sums, nr apart. */
static void store_i8(const struct tiled_part *p, const struct gemm_store *to, const int32_t *t,
                     const float *factor, int col, int nr, int rows, int cols) {
    for (int j = 0; j < cols; j += 16) {
        const __mmask16 there = cols - j < 16 ? (__mmask16)((1u << (cols - j)) - 1) : 0xffff;
        const __m512 s = _mm512_loadu_ps(p->scale + col + j);
        __m512 bias = to->bias ? _mm512_maskz_loadu_ps(there, (const float *)to->bias + j)
                               : _mm512_setzero_ps();
        __m512i lift = _mm512_setzero_si512();
        if (p->zero) {
            bias = _mm512_add_ps(_mm512_loadu_ps(p->zero + col + j), bias);
            lift = _mm512_mullo_epi32(_mm512_set1_epi32(127), _mm512_loadu_si512(p->sum + col + j));
        }
        for (int i = 0; i < rows; i++) {
            const __m512i whole = _mm512_add_epi32(_mm512_loadu_si512(t + i * nr + j), lift);
            const __m512 sum = _mm512_cvtepi32_ps(whole);
            const __m512 step = _mm512_mul_ps(_mm512_set1_ps(factor[i]), s);
            __m512 z = p->zero ? _mm512_add_ps(_mm512_mul_ps(sum, step), bias)
                               : _mm512_fmadd_ps(sum, step, bias);
            if (to->relu) z = _mm512_max_ps(_mm512_setzero_ps(), z); /* a NaN stays */
            _mm512_mask_storeu_ps((float *)to->c + i * to->ldc + j, there, z);
        }
    }
}

/* Finished sums of `across` (2 or 4) tiles, fewer at the end of w, into y. */
GEMM_INLINE void finish(const struct tiled_part *p, const void *t, int row, int tile, int rows,
                        const int across, const int i8) {
    struct gemm_store to;
    const int cols = tiled_target(&to, p, row, tile, across);
    const int have = p->rows - row < rows ? p->rows - row : rows;
    if (i8)
        store_i8(p, &to, t, p->factor + row, tile * TILE_ROWS, across * TILE_ROWS, have, cols);
    else
        gemm_store_patch(&to, t, across * TILE_ROWS, have, cols);
}

/* Beyond the last tile, the last again: multiplied, but stored nowhere. */
static const char *tile_at(const struct tiled_part *p, int tile) {
    return p->w + (tile < p->tiles ? tile : p->tiles - 1) * p->ldw;
}

GEMM_INLINE void run_any(const struct tiled_part *p, const int i8) {
    char t[4096] __attribute__((aligned(64)));
    const int wide = p->rows > 16, across = wide ? 2 : 4;
    for (int tile = 0; tile < p->tiles; tile += across) {
        const char *w[4];
        for (int i = 0; i < 4; i++) w[i] = tile_at(p, tile + i);
        for (int row = 0; wide && row < p->rows; row += 32) {
            rows_32(p, p->x + row * p->ldx, w[0], w[1], t, i8);
            finish(p, t, row, tile, 32, 2, i8);
        }
        if (wide) continue;
        rows_16(p, p->x, w, t, i8);
        finish(p, t, 0, tile, 16, 4, i8);
    }
}

static void run_bf16(const struct tiled_part *p) { run_any(p, 0); }
static void run_i8(const struct tiled_part *p) { run_any(p, 1); }

/* ---- staging --------------------------------------------------------------------------------- */

static void stage_bf16(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                       int last) {
    (void)factor;
    for (int i = first; i < last; i++) {
        char *to = (char *)dst + i * ld;
        const size_t size = i < x->rows ? (size_t)x->cols * 2 : 0;
        if (size) memcpy(to, (const uint16_t *)x->data + i * x->ld, size);
        memset(to + size, 0, (size_t)ld - size);
    }
}

static __mmask16 first_lanes(int n) { return n >= 16 ? 0xffff : (__mmask16)((1u << n) - 1); }

/* Bits of absolute values order as they do, NaN above all: see tiled_i8.h. */
static float largest(const float *x, int n) {
    __m512i most = _mm512_setzero_si512();
    for (int k = 0; k < n; k += 16) {
        const __m512i bits = _mm512_maskz_loadu_epi32(first_lanes(n - k), x + k);
        most = _mm512_max_epi32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
    }
    const int32_t all = _mm512_reduce_max_epi32(most);
    float a;
    memcpy(&a, &all, 4);
    return a;
}

static void stage_i8(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                     int last) {
    for (int i = first; i < last; i++) {
        char *to = (char *)dst + i * ld;
        memset(to, 0, (size_t)ld);
        if (i >= x->rows) continue;
        const float *from = (const float *)x->data + i * x->ld;
        const float a = largest(from, x->cols), given = x->x_scale;
        const float inverse = given > 0 ? given : 127 / a;
        const int finite = a <= __FLT_MAX__;
        factor[i] = !finite ? NAN : given > 0 ? 1 : a / 127;
        if (!finite || !(inverse <= __FLT_MAX__)) continue;
        const __m512 most = _mm512_set1_ps(127);
        for (int k = 0; k < x->cols; k += 16) {
            __m512 v = _mm512_maskz_loadu_ps(first_lanes(x->cols - k), from + k);
            v = _mm512_mul_ps(v, _mm512_set1_ps(inverse));
            v = _mm512_max_ps(_mm512_min_ps(v, most), _mm512_sub_ps(_mm512_setzero_ps(), most));
            const __m512i q = _mm512_cvtps_epi32(v);
            _mm_storeu_si128((__m128i *)(to + k), _mm512_cvtepi32_epi8(q));
        }
    }
}

/* ---- peak ------------------------------------------------------------------------------------ */

AMX_PEAK(peak_i8, amx_multiply_i8, 64)

#ifndef TILED_AMX_BF16
#define TILED_AMX_BF16 tiled_bf16_amx
#define TILED_AMX_I8   tiled_i8_amx
#endif

const struct tiled_kernel TILED_AMX_BF16 = {.stage_bytes = 2,
                                            .row_unit = 32,
                                            .stage = stage_bf16,
                                            .run = run_bf16,
                                            .enter = amx_enter,
                                            .leave = amx_leave};
const struct tiled_kernel TILED_AMX_I8 = {.stage_bytes = 1,
                                          .row_unit = 32,
                                          .stage = stage_i8,
                                          .run = run_i8,
                                          .peak = peak_i8,
                                          .enter = amx_enter,
                                          .leave = amx_leave};
