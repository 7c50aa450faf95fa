/* tiled_amx.c — products with tiled weights for AMX, BF16 and I8.
 *
 * Sixteen lines of a tile of w, 1 KiB that lie together, are one register as the second
 * operand of tdpbf16ps and tdpbssd; sixteen rows of staged x, 64 bytes each, are one as the first.
 * So both are loaded as they lie. 32 rows go by two tiles of w in four registers of sums (0 .. 3),
 * two of x (4, 5), two of w (6, 7): four loads for four multiplications. 16 rows or fewer go by
 * four tiles of w: five loads for four multiplications, and four chains in flight still.
 *
 * Two tiles stay in a cache while all rows of x pass by them, past the first-level cache; a
 * finished patch goes into y between the steps of the next (amx_patch.h). With f32 on both sides I8
 * products are bound by what surrounds them: per row of 512 x 512 weights the multiplications take
 * 90 ns, reading x from the shared cache 76, writing y there 90.
 *
 * Staged rows are padded with zeros to whole registers, in both directions; x's padding rows are
 * multiplied and their results dropped, which costs nothing where w's stream is the limit.
 *
 * Numbers: BF16 as gemm_amx.c: per 32 depths even and odd products are summed apart, then joined to
 * the one running sum. I8 is exact. */
#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "backend/cpu/amx_patch.h"
#include "backend/cpu/tiled_walk.h"

enum { STEP = TILE_LINES * TILE_LINE_BYTES };

enum { NEAR_STEPS = 16 }; /* of two tiles that stay in the first-level cache: 32 KiB */

/* ---- 16 rows or fewer ------------------------------------------------------------------------ */

/* t [16][64] = 16 rows of x by four tiles. */
GEMM_INLINE void rows_16(const struct tiled_part *p, const char *x, const char *const *w, char *t,
                         const int i8) {
    amx_zero_sums();
    for (int64_t at = 0, line = 0; line < p->lines; line += TILE_LINES, at += STEP, x += 64) {
        amx_load(4, x, p->ldx);
        amx_load(5, w[0] + at, 64);
        AMX_MULTIPLY(i8, 0, 4, 5);
        amx_load(6, w[1] + at, 64);
        AMX_MULTIPLY(i8, 1, 4, 6);
        amx_load(7, w[2] + at, 64);
        AMX_MULTIPLY(i8, 2, 4, 7);
        amx_load(5, w[3] + at, 64);
        AMX_MULTIPLY(i8, 3, 4, 5);
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

/* Rows [row, row + rows) of the part, by the tiles from `tile` on: sums at t, across * 16 wide, on
 * their way into y. */
struct pending {
    const char *t;
    int row, rows, tile;
};

GEMM_INLINE void finish(const struct tiled_part *p, const struct pending *d, const int across,
                        const int i8) {
    struct gemm_store to;
    const int cols = tiled_target(&to, p, d->row, d->tile, across);
    if (i8)
        store_i8(p, &to, (const int32_t *)d->t, p->factor + d->row, d->tile * TILE_ROWS,
                 across * TILE_ROWS, d->rows, cols);
    else
        gemm_store_patch(&to, (const float *)d->t, across * TILE_ROWS, d->rows, cols);
}

/* Beyond the last tile, the last again: multiplied, but stored nowhere. */
static const char *tile_at(const struct tiled_part *p, int tile) {
    return p->w + (tile < p->tiles ? tile : p->tiles - 1) * p->ldw;
}

GEMM_INLINE void run_few(const struct tiled_part *p, const int i8) {
    char t[AMX_PATCH] __attribute__((aligned(64)));
    for (int tile = 0; tile < p->tiles; tile += 4) {
        const char *w[4];
        for (int i = 0; i < 4; i++) w[i] = tile_at(p, tile + i);
        rows_16(p, p->x, w, t, i8);
        finish(p, &(struct pending){t, 0, p->rows, tile}, 4, i8);
    }
}

/* ---- more ------------------------------------------------------------------------------------ */

/* What is done beside the multiplications. */
struct side {
    const struct tiled_part *p;
    struct pending last; /* patch; its rows that are not in y yet */
    int at_once;         /* rows, between two steps */
    const char *y;       /* where the patch at hand will go */
    int64_t ldy;
    int y_rows, y_bytes;
};

GEMM_INLINE void finish_rows(struct side *d, int n, const int i8) {
    struct pending part = d->last;
    if (part.rows <= 0) return;
    part.rows = n < part.rows ? n : part.rows;
    finish(d->p, &part, 2, i8);
    d->last.row += part.rows;
    d->last.rows -= part.rows;
    d->last.t += part.rows * AMX_SIDE * 4;
}

GEMM_INLINE void aside(struct side *d, const int i8) {
    finish_rows(d, d->at_once, i8);
    for (int i = 0; i < d->at_once && d->y_rows > 0; i++, d->y_rows--, d->y += d->ldy) {
        __builtin_prefetch(d->y, 1, 3);
        if (d->y_bytes > 64) __builtin_prefetch(d->y + 64, 1, 3);
    }
}
static void aside_bf16(void *ctx) { aside(ctx, 0); }
static void aside_i8(void *ctx) { aside(ctx, 1); }

/* 32 rows by two tiles: sums to t, whose last user is done with it when they get there. */
GEMM_INLINE void patch(struct side *d, int row, int tile, char *t, const int i8) {
    const struct tiled_part *p = d->p;
    const int steps = (p->lines + TILE_LINES - 1) / TILE_LINES, left = p->rows - row;
    const int calls = (steps + AMX_ASIDE - 1) / AMX_ASIDE;
    const struct amx_patch q = {.x = p->x + row * p->ldx,
                                .ldx = p->ldx,
                                .x_half = 16 * p->ldx,
                                .x_step = 64,
                                .w = tile_at(p, tile),
                                .w_half = tile_at(p, tile + 1) - tile_at(p, tile),
                                .w_step = STEP,
                                .x_stream = 1,
                                .w_stream = steps > NEAR_STEPS,
                                .steps = steps,
                                .rows = left < AMX_SIDE ? left : AMX_SIDE,
                                .to = t,
                                .ld_to = AMX_SIDE * 4};
    d->at_once = (AMX_SIDE + calls - 1) / calls;
    d->y = (const char *)p->to.c + row * d->ldy + (int64_t)tile * TILE_ROWS * (d->y_bytes / 32);
    d->y_rows = q.rows;
    amx_patch(&q, i8, i8 ? aside_i8 : aside_bf16, d);
    finish_rows(d, AMX_SIDE, i8);
    d->last = (struct pending){t, row, q.rows, tile};
}

/* Two tiles stay in a cache while all rows pass by them. */
GEMM_INLINE void run_many(const struct tiled_part *p, const int i8) {
    char sums[2][AMX_PATCH] __attribute__((aligned(64)));
    const int64_t size = (int64_t)dtype_size(p->to.type);
    struct side d = {.p = p, .ldy = p->to.ldc * size, .y_bytes = (int)(AMX_SIDE * size)};
    for (int tile = 0; tile < p->tiles; tile += 2)
        for (int row = 0; row < p->rows; row += AMX_SIDE)
            patch(&d, row, tile, sums[row / AMX_SIDE % 2], i8);
    finish_rows(&d, AMX_SIDE, i8);
}

static void run_bf16(const struct tiled_part *p) {
    if (p->rows > 16)
        run_many(p, 0);
    else
        run_few(p, 0);
}
static void run_i8(const struct tiled_part *p) {
    if (p->rows > 16)
        run_many(p, 1);
    else
        run_few(p, 1);
}

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

/* 16 of n numbers, zeros beyond them, times factor, to integers; clipped if the factor is not the
 * row's own. */
GEMM_INLINE __m512i quantise(const float *x, int n, __m512 factor, const int clip) {
    const __m512 most = _mm512_set1_ps(127), least = _mm512_set1_ps(-127);
    __m512 v = _mm512_maskz_loadu_ps(n > 0 ? first_lanes(n) : 0, x);
    v = _mm512_mul_ps(v, factor);
    if (clip) v = _mm512_max_ps(_mm512_min_ps(v, most), least);
    return _mm512_cvtps_epi32(v);
}

/* A row to bytes, 64 at a time. Packing works in lanes of 128 bits; one permutation puts their
 * words in order. */
GEMM_INLINE void quantise_row(char *to, const float *x, int n, __m512 factor, const int clip) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    for (int k = 0; k < n; k += 64) {
        __m512i q[4];
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) q[i] = quantise(x + k + 16 * i, n - k - 16 * i, factor, clip);
        const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
        const __m512i bytes = _mm512_packs_epi16(low, high);
        _mm512_storeu_si512(to + k, _mm512_permutexvar_epi32(order, bytes));
    }
}

static void stage_i8(void *dst, int64_t ld, float *factor, const struct mat *x, int first,
                     int last) {
    for (int i = first; i < last; i++) {
        char *to = (char *)dst + i * ld;
        const float *from = (const float *)x->data + i * x->ld;
        const float a = i < x->rows ? largest(from, x->cols) : 0, given = x->x_scale;
        const float inverse = given > 0 ? given : 127 / a;
        const int finite = a <= __FLT_MAX__;
        if (i < x->rows) factor[i] = !finite ? NAN : given > 0 ? 1 : a / 127;
        if (i >= x->rows || !finite || !(inverse <= __FLT_MAX__))
            memset(to, 0, (size_t)ld);
        else if (given > 0)
            quantise_row(to, from, x->cols, _mm512_set1_ps(inverse), 1);
        else
            quantise_row(to, from, x->cols, _mm512_set1_ps(inverse), 0);
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
