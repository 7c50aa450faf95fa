/* tiled_amx.c — products with tiled weights for AMX, BF16 and I8.
 *
 * Sixteen lines of a tile of w, 1 KiB that lie together, are one register as the second
 * operand of tdpbf16ps and tdpbssd; sixteen rows of staged x, 64 bytes each, are one as the first.
 * So both are loaded as they lie. 32 rows go by two tiles of w in four registers of sums (0 .. 3),
 * two of x (4, 5), two of w (6, 7): four loads for four multiplications. 16 rows or fewer go by
 * four tiles of w: five loads for four multiplications, and four chains in flight still.
 *
 * Two tiles stay in a cache while all rows of x pass by them, past the first-level cache; a
 * finished patch goes into y between the steps of the next (amx_patch.h), and the next two tiles
 * are asked for, some lines with every step, which takes 10 to 15 % off at 128 rows. Where there
 * are many rows of x, I8 goes the other way: w stays in the second-level cache, x passes by in
 * panels of 32 rows, and the next panel is quantised between the steps, so that x is read while the
 * registers multiply.
 *
 * What bounds I8, measured with 512 rows on one core of a Xeon, in us:
 *
 *     w                                    512 x 512   1536 x 512   2048 x 512   512 x 2048
 *     multiplications alone                       75                       242          224
 *     y finished in two pieces of a patch        165          500          650          710
 *     y finished after every second step         160          428          573          675
 *     and y not written                          133          348          453          614
 *
 * The rest is memory: f32 on both sides of 512 columns is 8 bytes per cycle for either at the rate
 * of the registers, and a core gets some 4 to 10 from beyond its own cache, however early it asks:
 * asking for lines of y ahead cost 5 to 10 %, of x nothing or more (docs/notes/amx.md).
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

enum {
    NEAR_STEPS = 16, /* of two tiles or 32 rows, in the first-level cache: 32 KiB */
    PASS_EVERY = 2,  /* steps between two calls of aside where x passes, else 1 */
};

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
 * their way into y; for I8 the rows' factors. */
struct pending {
    char *t;
    const float *factor;
    int row, rows, tile;
};

GEMM_INLINE void finish(const struct tiled_part *p, const struct pending *d, const int across,
                        const int i8) {
    struct gemm_store to;
    const int cols = tiled_target(&to, p, d->row, d->tile, across);
    if (i8)
        store_i8(p, &to, (const int32_t *)d->t, d->factor, d->tile * TILE_ROWS, across * TILE_ROWS,
                 d->rows, cols);
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
        finish(p, &(struct pending){t, p->factor, 0, p->rows, tile}, 4, i8);
    }
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
GEMM_INLINE __m512i larger(__m512i most, __m512i bits) {
    return _mm512_max_epi32(most, _mm512_and_si512(bits, _mm512_set1_epi32(0x7fffffff)));
}

static float largest(const float *x, int n) {
    __m512i most[4] = {0};
    int k = 0;
    for (; k + 64 <= n; k += 64)
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) most[i] = larger(most[i], _mm512_loadu_si512(x + k + 16 * i));
    for (; k < n; k += 16)
        most[0] = larger(most[0], _mm512_maskz_loadu_epi32(first_lanes(n - k), x + k));
    most[0] =
        _mm512_max_epi32(_mm512_max_epi32(most[0], most[1]), _mm512_max_epi32(most[2], most[3]));
    const int32_t all = _mm512_reduce_max_epi32(most[0]);
    float a;
    memcpy(&a, &all, 4);
    return a;
}

/* Times factor, to integers; clipped if the factor is not the row's own. */
GEMM_INLINE __m512i quantise(__m512 v, __m512 factor, const int clip) {
    const __m512 most = _mm512_set1_ps(127), least = _mm512_set1_ps(-127);
    v = _mm512_mul_ps(v, factor);
    if (clip) v = _mm512_max_ps(_mm512_min_ps(v, most), least);
    return _mm512_cvtps_epi32(v);
}

/* 64 numbers to bytes. Packing works in lanes of 128 bits; one permutation puts their words in
 * order. */
GEMM_INLINE void quantise_64(char *to, const __m512 *v, __m512 factor, const int clip) {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    __m512i q[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) q[i] = quantise(v[i], factor, clip);
    const __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    const __m512i bytes = _mm512_packs_epi16(low, high);
    _mm512_storeu_si512(to, _mm512_permutexvar_epi32(order, bytes));
}

/* A row, zeros behind it. */
GEMM_INLINE void quantise_row(char *to, const float *x, int n, __m512 factor, const int clip) {
    __m512 v[4];
    int k = 0;
    for (; k + 64 <= n; k += 64) {
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) v[i] = _mm512_loadu_ps(x + k + 16 * i);
        quantise_64(to + k, v, factor, clip);
    }
    if (k == n) return;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const int left = n - k - 16 * i;
        v[i] = _mm512_maskz_loadu_ps(left > 0 ? first_lanes(left) : 0, x + k + 16 * i);
    }
    quantise_64(to + k, v, factor, clip);
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

/* ---- more ------------------------------------------------------------------------------------ */

/* A panel of rows of x that is being staged. */
struct staging {
    struct mat x;
    char *to;
    float *factor;
    int row, end;   /* those that are not staged yet */
    int calls, due; /* calls of aside for each row, and until the next */
};

/* Tiles that are asked for. */
struct asking {
    const char *line; /* the next */
    int left, at_once;
};

/* The last patch's way into y where it is 32 columns wide: what its columns share. */
struct columns {
    __m512 scale[2], bias[2], floor; /* floor: -inf without ReLU */
    __m512i lift[2];
    int wide;
};

/* What is done beside the multiplications. */
struct side {
    const struct tiled_part *p;
    struct pending last;    /* patch; its rows that are not in y yet */
    struct columns columns; /* of I8 */
    int at_once;            /* of them, between two steps */
    struct staging next;    /* panel, if any */
    struct asking tiles;    /* if any */
};

static void columns_at(struct columns *c, const struct tiled_part *p, int tile) {
    struct gemm_store to;
    c->wide = tiled_target(&to, p, 0, tile, 2) == AMX_SIDE;
    if (!c->wide) return;
    c->floor = _mm512_set1_ps(to.relu ? 0 : -INFINITY);
#pragma GCC unroll 2
    for (int i = 0; i < 2; i++) {
        const int col = tile * TILE_ROWS + 16 * i;
        c->scale[i] = _mm512_loadu_ps(p->scale + col);
        c->bias[i] =
            to.bias ? _mm512_loadu_ps((const float *)to.bias + 16 * i) : _mm512_setzero_ps();
        c->lift[i] = _mm512_setzero_si512();
        if (!p->zero) continue;
        c->bias[i] = _mm512_add_ps(_mm512_loadu_ps(p->zero + col), c->bias[i]);
        c->lift[i] = _mm512_mullo_epi32(_mm512_set1_epi32(127), _mm512_loadu_si512(p->sum + col));
    }
}

/* The next rows, as store_i8 does it. */
GEMM_INLINE void finish_wide(struct side *d, int n, const int lifted) {
    const struct tiled_part *p = d->p;
    const struct columns *c = &d->columns;
    const int rows = n < d->last.rows ? n : d->last.rows;
    const char *t = d->last.t;
    float *y = (float *)p->to.c + d->last.row * p->to.ldc + d->last.tile * TILE_ROWS;
    for (int i = 0; i < rows; i++, t += AMX_SIDE * 4, y += p->to.ldc) {
        const __m512 factor = _mm512_set1_ps(d->last.factor[i]);
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const __m512i sum = _mm512_load_si512(t + 64 * j);
            const __m512 step = _mm512_mul_ps(factor, c->scale[j]);
            __m512 z;
            if (lifted)
                z = _mm512_add_ps(
                    _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(sum, c->lift[j])), step),
                    c->bias[j]);
            else
                z = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), step, c->bias[j]);
            _mm512_storeu_ps(y + 16 * j, _mm512_max_ps(c->floor, z));
        }
    }
    d->last.row += rows;
    d->last.rows -= rows;
    d->last.t += rows * AMX_SIDE * 4;
    d->last.factor += rows;
}

GEMM_INLINE void finish_rows(struct side *d, int n, const int i8) {
    struct pending part = d->last;
    if (part.rows <= 0) return;
    if (i8 && d->columns.wide) {
        if (d->p->zero)
            finish_wide(d, n, 1);
        else
            finish_wide(d, n, 0);
        return;
    }
    part.rows = n < part.rows ? n : part.rows;
    finish(d->p, &part, 2, i8);
    d->last.row += part.rows;
    d->last.rows -= part.rows;
    d->last.t += part.rows * AMX_SIDE * 4;
    if (i8) d->last.factor += part.rows;
}

GEMM_INLINE void ask(struct asking *t) {
    for (int i = 0; i < t->at_once && t->left > 0; i++, t->left--, t->line += 64)
        __builtin_prefetch(t->line, 0, 2);
}

static void stage_rows(struct side *d, int n) {
    struct staging *s = &d->next;
    const int end = s->end - s->row < n ? s->end : s->row + n;
    stage_i8(s->to, d->p->ldx, s->factor, &s->x, s->row, end);
    s->row = end;
}

GEMM_INLINE void aside_bf16(void *ctx) {
    struct side *d = ctx;
    ask(&d->tiles);
    finish_rows(d, d->at_once, 0);
}

GEMM_INLINE void aside_i8(void *ctx) {
    struct side *d = ctx;
    ask(&d->tiles);
    finish_rows(d, d->at_once, 1);
    if (--d->next.due > 0) return;
    stage_rows(d, 1);
    d->next.due = d->next.calls;
}

static int step_count(const struct tiled_part *p) {
    return (p->lines + TILE_LINES - 1) / TILE_LINES;
}
static int pass_calls(const struct tiled_part *p) {
    return (step_count(p) + PASS_EVERY - 1) / PASS_EVERY;
}

/* 32 rows, of which the first is `row` and staged at x, by two tiles: sums to t, whose last user is
 * done with it when they get there. The operand that the next patch will share stays in the
 * first-level cache, if it fits; the other is loaded past it. */
GEMM_INLINE void patch(struct side *d, const char *x, struct pending at, const int x_stays,
                       const int i8) {
    const struct tiled_part *p = d->p;
    const int steps = step_count(p), near = steps <= NEAR_STEPS;
    const int calls = x_stays ? pass_calls(p) : steps;
    const struct amx_patch q = {.x = x,
                                .ldx = p->ldx,
                                .x_half = 16 * p->ldx,
                                .x_step = 64,
                                .w = tile_at(p, at.tile),
                                .w_half = tile_at(p, at.tile + 1) - tile_at(p, at.tile),
                                .w_step = STEP,
                                .x_stream = !x_stays || !near,
                                .w_stream = x_stays || !near,
                                .steps = steps,
                                .rows = at.rows,
                                .every = x_stays ? PASS_EVERY : 1,
                                .to = at.t,
                                .ld_to = AMX_SIDE * 4};
    d->at_once = (AMX_SIDE + calls - 1) / calls;
    if (i8)
        amx_patch(&q, 1, aside_i8, d);
    else
        amx_patch(&q, 0, aside_bf16, d);
    finish_rows(d, AMX_SIDE, i8);
    if (i8 && (at.tile != d->last.tile || !d->last.t)) columns_at(&d->columns, p, at.tile);
    d->last = at;
}

static int rows_from(const struct tiled_part *p, int row) {
    return p->rows - row < AMX_SIDE ? p->rows - row : AMX_SIDE;
}

/* The two tiles from `tile` on will be wanted when all rows have passed by those at hand. Behind
 * the part's last they may be another's, or nobody's: asking does no harm. */
static struct asking expect_tiles(const struct tiled_part *p, int tile) {
    const int lines = (int)(2 * p->ldw / TILE_LINE_BYTES);
    const int calls = (p->rows + AMX_SIDE - 1) / AMX_SIDE * step_count(p);
    return (struct asking){p->w + tile * p->ldw, lines, (lines + calls - 1) / calls};
}

/* Two tiles stay in a cache while all rows pass by them, and the next two come. */
GEMM_INLINE void run_many(const struct tiled_part *p, const int i8) {
    char sums[2][AMX_PATCH] __attribute__((aligned(64)));
    struct side d = {.p = p};
    for (int tile = 0; tile < p->tiles; tile += 2) {
        d.tiles = expect_tiles(p, tile + 2);
        for (int row = 0; row < p->rows; row += AMX_SIDE) {
            /* cppcheck-suppress legacyUninitvar ; the patch writes it */
            struct pending at = {sums[row / AMX_SIDE % 2], NULL, row, rows_from(p, row), tile};
            if (i8) at.factor = p->factor + row;
            patch(&d, p->x + row * p->ldx, at, 0, i8);
        }
    }
    finish_rows(&d, AMX_SIDE, i8);
}

/* The panel from `row` on is to be staged within so many calls of aside. Panels take turns in two
 * places. A row's factor may still be wanted by the last patch of the panel before the one at hand,
 * but every call of aside first finishes a row or more of that, then stages one at most. */
static void expect(struct side *d, const struct mat *x, int row, int calls) {
    const struct tiled_part *p = d->p;
    const int panel = row / AMX_SIDE;
    d->next = (struct staging){.to = p->x + panel % 2 * AMX_SIDE * p->ldx,
                               .factor = p->factor + panel % 2 * AMX_SIDE,
                               .calls = calls / AMX_SIDE};
    if (row >= p->rows) return;
    d->next.x = mat_rows(*x, row, rows_from(p, row));
    d->next.end = AMX_SIDE;
}

/* The other way round: all tiles stay in the second-level cache, 32 rows pass by them, and
 * meanwhile the next 32 are staged. */
static void pass_i8(const struct tiled_part *p, const struct mat *x) {
    char sums[2][AMX_PATCH] __attribute__((aligned(64)));
    const int pairs = (p->tiles + 1) / 2;
    struct side d = {.p = p};
    expect(&d, x, 0, 0);
    stage_rows(&d, AMX_SIDE);
    for (int row = 0; row < p->rows; row += AMX_SIDE) {
        const char *at = d.next.to;
        const float *factor = d.next.factor;
        expect(&d, x, row + AMX_SIDE, pass_calls(p) * pairs);
        for (int tile = 0; tile < p->tiles; tile += 2)
            patch(&d, at,
                  /* cppcheck-suppress legacyUninitvar ; the patch writes it */
                  (struct pending){sums[tile / 2 % 2], factor, row, rows_from(p, row), tile}, 1, 1);
        stage_rows(&d, AMX_SIDE);
    }
    finish_rows(&d, AMX_SIDE, 1);
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
                                          .pass = pass_i8,
                                          .peak = peak_i8,
                                          .enter = amx_enter,
                                          .leave = amx_leave};
