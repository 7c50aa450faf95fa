/* gemm_amx.c — bf16 products for AMX, Intel's matrix registers: from operands as they lie to C.
 *
 * Eight registers of 16 rows x 64 bytes. tdpbf16ps multiplies a 16 x 32 one of A by a 32 x 16 one
 * of B (stored as 16 rows of 16 pairs) into 16 x 16 sums: 16384 operations, issued every 16 cycles.
 * A patch is 32 x 32 (amx_patch.h). At that speed 512 x 512 weights are multiplied by a row in the
 * time that memory takes to move a few hundred bytes, so a pass over memory that packs operands
 * costs as much as the product. Hence nothing is packed ahead:
 *
 *   A   is multiplied where it lies if its rows lie along the depth on whole cache lines; the rows
 *       of a block, 1 MiB at most, stay in the second-level cache. Otherwise a block is packed, by
 *       the thread that multiplies it. The next block's rows are asked for meanwhile.
 *   B   goes by in strips of 32 columns. While one is multiplied with all rows of the block, the
 *       next is packed into the other of two buffers, a register between two steps, and the lines
 *       of the one after it are asked for.
 *   C   a finished patch waits in t, and goes through the epilogue while the next is multiplied.
 *
 * Depth. A strip's and a panel's KC depths are 16 KiB each, so that both stay in a first-level
 * cache of 48 KiB while the rows of the block pass by the strip; between, sums rest in t.
 * A product deeper than DEPTH_MOST goes through its block DEPTH_CHUNK at a time, with sums of the
 * whole block in t.
 *
 * Numbers: within a register's 32 depths even and odd products are summed apart, then added to the
 * sum (which starts from C when adding); rounded to nearest, denormals count as zero. */
#include "backend/cpu/amx_patch.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pairs.h"
#include "base/num.h"

enum { UNIT = 32, PANEL_STEP = 2 * AMX_REGISTER }; /* depths of a register; two of them */

#ifndef AMX_LAB
enum {
    DEPTH = 1024,            /* multiplied at a time */
    GROUP_BYTES = 512 << 10, /* of B's columns, packed */
    DEEP_ROWS = 512,         /* whose sums are kept when there are more depths */
    NEAR_STEPS = 16,         /* as many steps of a panel stay in the first-level cache */
    IN_PLACE = 1,
    EXPECT_ROWS = 1,
    EXPECT_C = 1,
};
#else
extern int DEPTH, GROUP_BYTES, DEEP_ROWS, NEAR_STEPS, IN_PLACE, EXPECT_ROWS, EXPECT_C;
#endif

/* ---- sizes ----------------------------------------------------------------------------------- */

static int whole(int n, int unit) { return ceil_div(n, unit) * unit; }

/* Depths at a time, and columns of B that are packed so deep. */
static int depth_of(int k) { return min_int(whole(max_int(k, 1), UNIT), DEPTH); }
static int group_of(int depth) { return GROUP_BYTES / (depth * 2) / AMX_SIDE * AMX_SIDE; }

/* Bytes of the parts of a thread's workspace; none shrinks when a side grows. */
static size_t panel_bytes(int k) { return (size_t)AMX_SIDE * 2 * (size_t)depth_of(k); }
static size_t group_bytes(int n, int k) {
    return min_size((size_t)whole(n, AMX_SIDE) * 2 * (size_t)depth_of(k), GROUP_BYTES);
}
static size_t sums_bytes(int m, int n, int k) {
    if (k <= DEPTH) return 2 * AMX_PATCH;
    const int rows = whole(min_int(m, DEEP_ROWS), AMX_SIDE);
    const int cols = whole(min_int(n, group_of(DEPTH)), AMX_SIDE);
    return max_size((size_t)rows * (size_t)cols * 4, 2 * AMX_PATCH);
}
static size_t workspace(int m, int n, int k) {
    return panel_bytes(k) + group_bytes(n, k) + sums_bytes(m, n, k);
}

/* ---- packing --------------------------------------------------------------------------------- */

/* Vectors (rows of A, columns of B) of an operand: as gemm_pack, from a first element on. */
struct source {
    const uint16_t *at;
    int64_t ld;
    int along_k, n, depth;
};

static struct source source_of(const struct gemm_operand *o, int along_k, int first, int n, int k0,
                               int depth) {
    const int64_t at = along_k ? first * o->ld + k0 : k0 * o->ld + first;
    return (struct source){(const uint16_t *)o->data + at, o->ld, along_k, n, depth};
}

/* 16 vectors x 32 depths from (first, k) on. r[i] is vector i along the depth, or, `across`, the
 * pairs of depths 2i, 2i + 1 of all vectors. */
GEMM_INLINE void load_register(__m512i *r, const struct source *s, int first, int k,
                               const int across, const int full) {
    const int n = full ? 16 : s->n - first, depths = full ? UNIT : s->depth - k;
    if (full && s->along_k && across) {
        load_transposed(r, s->at + first * s->ld + k, s->ld * 2);
        return;
    }
    if (s->along_k) {
        load_along_k(r, s->at + first * s->ld + k, s->ld, n, depths);
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            r[i] = n > 0 && depths > 2 * i
                       ? load_pair(s->at + (k + 2 * i) * s->ld + first, s->ld, n, depths - 2 * i)
                       : _mm512_setzero_si512();
    }
    if (s->along_k == across) transpose_words(r);
}

GEMM_INLINE void pack_register(char *to, const struct source *s, int first, int k,
                               const int across) {
    __m512i r[16];
    if (s->n - first >= 16 && s->depth - k >= UNIT)
        load_register(r, s, first, k, across, 1);
    else
        load_register(r, s, first, k, across, 0);
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) _mm512_store_si512(to + 64 * i, r[i]);
}

/* Asks for the lines of register `index`. */
static void expect_strip_register(const struct source *s, int index) {
    const int k = index / 2 * UNIT, first = index % 2 * 16;
    if (s->along_k)
        for (int i = first; i < min_int(first + 16, s->n); i++)
            __builtin_prefetch(s->at + i * s->ld + k, 0, 2);
    else /* both registers of a step share their lines */
        for (int i = k + first; i < min_int(k + first + 16, s->depth); i++)
            __builtin_prefetch(s->at + i * s->ld, 0, 2);
}

/* The step of a panel of A whose rows lie side by side, all 32 of them: pairs of depths are joined
 * on the way into a small square, where a row's pairs are below each other; from there they are
 * loaded transposed. Joining works in lanes of 128 bits: a square has rows 0 .. 3 of every eight,
 * the other 4 .. 7. */
static void pack_across(char *to, const struct source *s, int k) {
    char square[2][AMX_REGISTER] __attribute__((aligned(64)));
    const uint16_t *at = s->at + k * s->ld;
#pragma GCC unroll 4
    for (int i = 0; i < 16; i++, at += 2 * s->ld) {
        const __m512i even = _mm512_loadu_si512(at), odd = _mm512_loadu_si512(at + s->ld);
        _mm512_store_si512(square[0] + 64 * i, _mm512_unpacklo_epi16(even, odd));
        _mm512_store_si512(square[1] + 64 * i, _mm512_unpackhi_epi16(even, odd));
    }
    for (int half = 0; half < 2; half++) {
        __m512i r[16];
        load_transposed(r, square[half], 64);
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            _mm512_store_si512(to + 64 * (i / 4 * 8 + i % 4 + 4 * half), r[i]);
    }
}

/* All registers of some vectors, panel by panel; meanwhile the next panel is asked for. */
static void pack_all(char *to, const struct source *s, const int across) {
    for (int first = 0; first < s->n; first += AMX_SIDE) {
        struct source part = *s, next = *s;
        part.at += s->along_k ? first * s->ld : first;
        part.n = min_int(AMX_SIDE, s->n - first);
        next.at += s->along_k ? (first + AMX_SIDE) * s->ld : first + AMX_SIDE;
        next.n = max_int(0, min_int(AMX_SIDE, s->n - first - AMX_SIDE));
        int i = 0;
        if (!across && !s->along_k && part.n == AMX_SIDE)
            for (; (i / 2 + 1) * UNIT <= s->depth; i += 2, to += PANEL_STEP)
                pack_across(to, &part, i / 2 * UNIT);
        for (; i < 2 * ceil_div(s->depth, UNIT); i++, to += AMX_REGISTER) {
            pack_register(to, &part, i % 2 * 16, i / 2 * UNIT, across);
            if (across) expect_strip_register(&next, i);
        }
    }
}

/* ---- between the steps ----------------------------------------------------------------------- */

struct side {
    /* the last patch, on its way to C */
    struct gemm_store to;
    const float *t;
    int row, rows, cols, rows_at_once;
    /* where the patch at hand will go */
    const char *c;
    int64_t ldc; /* bytes */
    int c_row, c_rows, c_bytes;
    /* the next panel of A: lines to ask for */
    struct source next;
    int line, lines, lines_at_once;
};

static void store_rows(struct side *d, int n) {
    const int rows = min_int(n, d->rows - d->row);
    if (rows <= 0) return;
    gemm_store_patch(&d->to, d->t + d->row * AMX_SIDE, AMX_SIDE, rows, d->cols);
    d->to.c = (char *)d->to.c + rows * d->to.ldc * (int64_t)dtype_size(d->to.type);
    d->row += rows;
}

static void aside(void *ctx) {
    struct side *d = ctx;
    const struct source *s = &d->next;
    store_rows(d, d->rows_at_once);
    for (int i = 0; i < d->rows_at_once && d->c_row < d->c_rows; i++, d->c_row++) {
        __builtin_prefetch(d->c + d->c_row * d->ldc, 1, 3);
        if (d->c_bytes > 64) __builtin_prefetch(d->c + d->c_row * d->ldc + 64, 1, 3);
    }
    for (int i = 0; i < d->lines_at_once && d->line < d->lines; i++, d->line++) {
        const int row = d->line % AMX_SIDE, at = d->line / AMX_SIDE;
        if (row < s->n) __builtin_prefetch(s->at + row * s->ld + at * (int64_t)UNIT, 0, 2);
    }
}

/* ---- a range of C ---------------------------------------------------------------------------- */

/* A block of C: rows by the group of columns that is packed, `depth` deep from k0 on. */
struct block {
    const struct gemm *g;
    int row, rows, col, cols;
    int k0, depth;
    int last; /* chunk of depth */
    int in_place;
    int kept; /* sums between chunks of depth are in t, in places of their own, or in C */
    char *a, *b, *t;
    int patches;
    struct side side;
};

static struct source panel_of(const struct block *b, int row) {
    return source_of(&b->g->a, !b->g->a.trans, row, min_int(AMX_SIDE, b->row + b->rows - row),
                     b->k0, b->depth);
}

static char *corner(const struct block *b, int row, int col) {
    const struct gemm *g = b->g;
    return (char *)g->c + ((int64_t)row * g->ldc + col) * (int64_t)dtype_size(g->c_type);
}

/* Whether the patch is 32 x 32 numbers in C, too: then its sums can be there. */
static int is_whole(const struct block *b, int rows, int cols) {
    return b->g->c_type == DTYPE_F32 && rows == AMX_SIDE && cols == AMX_SIDE;
}

/* The finished patch at t goes to C beside the next one. */
static void hand_over(struct block *b, const char *t, int row, int rows, int col, int cols) {
    const struct gemm *g = b->g;
    struct side *d = &b->side;
    store_rows(d, AMX_SIDE); /* of the one before, if steps were too few */
    d->t = (const float *)t;
    d->row = 0;
    d->rows = rows;
    d->cols = cols;
    d->to = (struct gemm_store){corner(b, row, col), g->ldc, g->c_type, .relu = g->relu};
    d->to.bias_type = g->bias_type;
    if (g->bias) d->to.bias = (const char *)g->bias + (size_t)col * dtype_size(g->bias_type);
}

/* The panel of A in q by a strip of B. */
static void multiply(struct block *b, struct amx_patch *q, int row, int strip) {
    const struct gemm *g = b->g;
    const int col = b->col + strip, cols = min_int(AMX_SIDE, b->cols - strip);
    const int whole_patch = is_whole(b, q->rows, cols);
    const int place =
        b->kept ? (row - b->row) / AMX_SIDE * ceil_div(b->cols, AMX_SIDE) + strip / AMX_SIDE
                : b->patches++ % 2;
    char *t = b->t + (int64_t)place * AMX_PATCH, *c = corner(b, row, col);
    const int64_t ldc = g->ldc * 4;
    if (q->steps == 0 || (const char *)b->side.t == t) store_rows(&b->side, AMX_SIDE);
    q->w = b->b + (int64_t)strip * 2 * q->steps * UNIT;
    q->from = whole_patch ? c : t;
    q->ld_from = whole_patch ? ldc : AMX_SIDE * 4;
    if (b->k0 == 0 && !g->add)
        q->from = NULL;
    else if (b->k0 == 0 && !whole_patch)
        gemm_load_patch((float *)t, AMX_SIDE, c, g->ldc, g->c_type, q->rows, cols);
    const int straight = whole_patch && !(b->last && (g->bias || g->relu));
    q->to = straight ? c : t;
    q->ld_to = straight ? ldc : AMX_SIDE * 4;
    b->side.c = c;
    b->side.c_row = 0;
    b->side.c_rows = EXPECT_C && b->last && q->from != c ? q->rows : 0;
    amx_patch(q, 0, aside, &b->side);
    if (b->last && !straight) hand_over(b, t, row, q->rows, col, cols);
}

static void run_panel(struct block *b, int row) {
    const struct source s = panel_of(b, row);
    const int steps = ceil_div(b->depth, UNIT), calls = ceil_div(steps, AMX_ASIDE);
    const int near = steps <= NEAR_STEPS;
    struct amx_patch q = {.w_half = AMX_REGISTER,
                          .w_step = PANEL_STEP,
                          .steps = steps,
                          .rows = s.n,
                          .x_stream = !near,
                          .w_stream = 1};
    struct side *d = &b->side;
    if (b->in_place && s.n == AMX_SIDE) {
        q.x = (const char *)s.at;
        q.ldx = s.ld * 2;
        q.x_half = 16 * q.ldx;
        q.x_step = 64;
    } else {
        pack_all(b->a, &s, 0);
        q.x = b->a;
        q.ldx = 64;
        q.x_half = AMX_REGISTER;
        q.x_step = PANEL_STEP;
    }
    d->rows_at_once = calls ? ceil_div(AMX_SIDE, calls) : 0;
    d->line = d->lines = 0;
    if (EXPECT_ROWS && s.along_k && row + AMX_SIDE < b->row + b->rows && calls) {
        d->next = panel_of(b, row + AMX_SIDE);
        d->lines = AMX_SIDE * steps;
        d->lines_at_once = ceil_div(d->lines, ceil_div(b->cols, AMX_SIDE) * calls);
    }
    for (int strip = 0; strip < b->cols; strip += AMX_SIDE) multiply(b, &q, row, strip);
}

/* The block at all depths. */
static void run_block(struct block *b) {
    const int chunk = depth_of(b->g->k);
    b->k0 = 0;
    do { /* once also for a depth of zero */
        b->depth = min_int(chunk, b->g->k - b->k0);
        b->last = b->k0 + b->depth == b->g->k;
        const struct source s =
            source_of(&b->g->b, b->g->b.trans, b->col, b->cols, b->k0, b->depth);
        pack_all(b->b, &s, 1);
        for (int row = b->row; row < b->row + b->rows; row += AMX_SIDE) run_panel(b, row);
        b->k0 += b->depth;
    } while (b->k0 < b->g->k);
}

static void run(const struct gemm *g, struct gemm_range at, void *memory) {
    const int row_end = at.row + at.rows, col_end = at.col + at.cols;
    const int group = group_of(depth_of(g->k)), deep = g->k > DEPTH;
    struct block b = {.g = g, .a = memory, .kept = deep};
    b.b = b.a + panel_bytes(g->k);
    b.t = b.b + group_bytes(g->n, g->k);
    b.side.ldc = g->ldc * (int64_t)dtype_size(g->c_type);
    b.side.c_bytes = AMX_SIDE * (int)dtype_size(g->c_type);
    b.in_place = IN_PLACE && !g->a.trans && g->k % UNIT == 0 && g->a.ld % 32 == 0 &&
                 (uintptr_t)g->a.data % 64 == 0;
    amx_enter();
    for (b.row = at.row; b.row < row_end; b.row += b.rows) {
        b.rows = min_int(deep ? DEEP_ROWS : at.rows, row_end - b.row);
        for (b.col = at.col; b.col < col_end; b.col += b.cols) {
            b.cols = min_int(group, col_end - b.col);
            run_block(&b);
        }
    }
    store_rows(&b.side, AMX_SIDE);
    amx_leave();
}

static void store(const struct gemm_store *to, const float *t, int rows, int cols) {
    gemm_store_patch(to, t, AMX_SIDE, rows, cols);
}

AMX_PEAK(peak, amx_multiply, UNIT)

#ifndef GEMM_AMX_KERNEL
#define GEMM_AMX_KERNEL gemm_bf16_amx
#endif

const struct gemm_kernel GEMM_AMX_KERNEL = {
    .type = DTYPE_BF16,
    .mr = AMX_SIDE,
    .nr = AMX_SIDE,
    .store = store,
    .run = run,
    .workspace = workspace,
    .peak = peak,
    .enter = amx_enter,
    .leave = amx_leave,
};
