/* gemm_amx.c — bf16 products for AMX, Intel's matrix registers: from operands as they lie to C.
 *
 * Eight registers of 16 rows x 64 bytes. tdpbf16ps multiplies a 16 x 32 one of A by a 32 x 16 one
 * of B (stored as 16 rows of 16 pairs) into 16 x 16 sums: 16384 operations, issued every 16 cycles.
 * A patch is 32 x 32 (amx_patch.h).
 *
 * How tiles map to data. Weights of 512 x 512 are multiplied by 32 rows in 6 us, in which a core
 * gets some 160 KiB from the shared cache: a pass over memory that packs operands ahead costs as
 * much as the product. So a thread takes a rectangle of C and does everything itself:
 *
 *   B   a group of columns, 1 MiB at most, is packed into the thread's second-level cache: strips
 *       of 32 columns, two registers per step. It stays there while all rows pass by.
 *   A   goes by in panels of 32 rows, multiplied where they lie if that is along the depth on whole
 *       cache lines, else packed: one at a time, or, where rows lie side by side, four, whose
 *       lines are neighbours. A panel of 512 depths stays in the first-level cache while the strips
 *       stream past it (tileloaddt1, which leaves that cache alone).
 *   C   a finished patch waits in t and goes through the epilogue a row or two after every step of
 *       the next. Whole f32 patches without an epilogue begin and end in C itself.
 *
 * With few rows packing B would be half of the work: where B lies along the depth it is the first
 * operand instead, loaded as it lies, and C comes out transposed.
 *
 * What bounds it, on a Xeon with 48 KiB and 2 MiB of own caches, in ns for a step, 32 x 32 sums by
 * 32 depths:
 *
 *     multiplications, of zeros                                                   21.5
 *     of numbers, at the clock they leave                                         26.8
 *     A past the first-level cache, B in it, a patch of 16 steps                  30.1
 *     A in place, rows 1 KiB apart                                                33.3
 *     rounding and storing the last patch beside it, C in the second level        34.5
 *
 * A step hides 32 vector operations, 32 loads and 32 stores within the first level, if they are
 * spread over the steps; it hides 4 lines to or from the second level and hardly any from beyond:
 * sums leave their registers in the order of the program, so a load that waits holds up the
 * multiplications behind it. A line costs 0.4 ns to load from the second level, 1.2 to store there,
 * 2 to 4 from the shared cache, however early it is asked for. The rest is therefore lines: of
 * packing B (1 KiB in 45 to 100 ns) and of storing C (docs/notes/amx.md).
 *
 * Numbers: within a register's 32 depths even and odd products are summed apart, then added to the
 * sum (which starts from C when adding); rounded to nearest, denormals count as zero. */
#include "backend/cpu/amx_patch.h"
#include "backend/cpu/gemm.h"
#include "backend/cpu/gemm_pairs.h"
#include "base/num.h"

enum { UNIT = 32, PANEL_STEP = 2 * AMX_REGISTER }; /* depths of a register; two of them */

enum {
    GROUP_BYTES = 1 << 20, /* of B's columns, packed: half of a second-level cache */
    DEPTH_F32 = 1024,      /* multiplied at a time; in between, sums rest in C, */
    DEPTH_BF16 = 2048,     /* or in the workspace */
    DEEP_ROWS = 512,       /* whose sums are kept then */
    BESIDE = 4,            /* panels packed at once whose vectors lie side by side */
    TURN_ROWS = 384,       /* of A at most, where C is computed transposed, */
    TURN_DEPTH = 256,      /* depth at least, */
    TURN_COLS = 8192,      /* and columns at most: a strip has a line in each row of C */
    NEAR_STEPS = 16,       /* of a panel of A that stay in the first-level cache: 32 KiB */
};

/* ---- sizes ----------------------------------------------------------------------------------- */

static int whole(int n, int unit) { return ceil_div(n, unit) * unit; }

/* Depths at a time, and columns of B that are packed so deep. */
static int depth_of(int k, int most) { return min_int(whole(max_int(k, 1), UNIT), most); }
static int group_of(int depth) { return GROUP_BYTES / (depth * 2) / AMX_SIDE * AMX_SIDE; }

/* Bytes of the parts of a thread's workspace, for any C; none shrinks when a side grows. */
static size_t panel_bytes(int k) {
    return (size_t)BESIDE * AMX_SIDE * 2 * (size_t)depth_of(k, DEPTH_BF16);
}
static size_t group_bytes(int m, int n, int k) {
    const size_t depth = (size_t)depth_of(k, DEPTH_BF16);
    return min_size((size_t)whole(max_int(m, n), AMX_SIDE) * 2 * depth, GROUP_BYTES);
}
static size_t sums_bytes(int m, int n, int k) {
    if (k <= DEPTH_F32) return (size_t)2 * AMX_PATCH;
    const int rows = whole(min_int(m, DEEP_ROWS), AMX_SIDE);
    const int cols = whole(min_int(n, group_of(DEPTH_F32)), AMX_SIDE);
    return max_size((size_t)rows * (size_t)cols * 4, (size_t)2 * AMX_PATCH);
}
static size_t workspace(int m, int n, int k) {
    return panel_bytes(k) + group_bytes(m, n, k) + sums_bytes(m, n, k);
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

/* The step of a panel of A whose rows lie side by side, all 32 of them: pairs of depths are joined
 * on the way into a small square, where a row's pairs are below each other; from there they are
 * loaded transposed. Joining works in lanes of 128 bits: a square has rows 0 .. 3 of every eight,
 * the other 4 .. 7. */
static void pack_across(char *to, const struct source *s, int first, int k) {
    char square[2][AMX_REGISTER] __attribute__((aligned(64)));
    const uint16_t *at = s->at + k * s->ld + first;
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

/* A step of the panel from `first` on. */
GEMM_INLINE void pack_step(char *to, const struct source *s, int first, int k, const int across) {
    if (!across && !s->along_k && s->n - first >= AMX_SIDE && s->depth - k >= UNIT) {
        pack_across(to, s, first, k);
        return;
    }
    pack_register(to, s, first, k, across);
    pack_register(to + AMX_REGISTER, s, first + 16, k, across);
}

/* Bytes of a panel, packed. */
static int64_t packed(int depth) { return (int64_t)ceil_div(depth, UNIT) * PANEL_STEP; }

/* All registers of some vectors, panel by panel. Where vectors lie side by side, a step of a panel
 * is a single line from each of 32 places: then some panels are packed together, so that lines are
 * read beside each other. */
static void pack_all(char *to, const struct source *s, const int across) {
    const int at_once = s->along_k ? AMX_SIDE : BESIDE * AMX_SIDE;
    for (int first = 0; first < s->n; first += at_once)
        for (int k = 0; k < s->depth; k += UNIT)
            for (int i = first; i < min_int(first + at_once, s->n); i += AMX_SIDE)
                pack_step(to + i / AMX_SIDE * packed(s->depth) + packed(k), s, i, k, across);
}

/* ---- between the steps ----------------------------------------------------------------------- */

/* The last patch, on its way to C: row by row if it is 32 columns of bf16. */
struct side {
    struct gemm_store to;
    const float *t;
    int rows, cols;
    int wide, at_once; /* rows, between two steps */
    struct amx_rounding rounding;
};

/* What is left of it; all of it once more if something in it is not a number. */
static void store_rest(struct side *d) {
    if (!d->t) return;
    if (d->wide) amx_round_rows(&d->rounding, AMX_SIDE);
    if (!d->wide || d->rounding.numbers != 0xffff)
        gemm_store_patch(&d->to, d->t, AMX_SIDE, d->rows, d->cols);
    d->t = NULL;
    d->wide = 0;
}

GEMM_INLINE void aside(void *ctx) {
    struct side *d = ctx;
    if (d->wide) amx_round_rows(&d->rounding, d->at_once);
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

/* Rows of A from `row` on, `most` or what is left. */
static struct source rows_of(const struct block *b, int row, int most) {
    return source_of(&b->g->a, !b->g->a.trans, row, min_int(most, b->row + b->rows - row), b->k0,
                     b->depth);
}

/* The panel of A from `row` on in the workspace, packed now or with one before it. */
static const char *packed_panel(struct block *b, int row) {
    const int at_once = b->g->a.trans ? BESIDE : 1, i = (row - b->row) / AMX_SIDE % at_once;
    const struct source s = rows_of(b, row, at_once * AMX_SIDE);
    if (i == 0) pack_all(b->a, &s, 0);
    return b->a + i * packed(b->depth);
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
    d->t = (const float *)t;
    d->rows = rows;
    d->cols = cols;
    d->to = (struct gemm_store){corner(b, row, col), g->ldc, g->c_type, .relu = g->relu};
    d->to.bias_type = g->bias_type;
    if (g->bias) d->to.bias = (const char *)g->bias + (size_t)col * dtype_size(g->bias_type);
    d->wide = cols == AMX_SIDE && g->c_type == DTYPE_BF16;
    if (d->wide) d->rounding = amx_round_to(&d->to, d->t, rows);
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
    if ((const char *)b->side.t == t) store_rest(&b->side);
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
    amx_patch(q, 0, aside, &b->side);
    store_rest(&b->side);
    if (b->last && !straight) hand_over(b, t, row, q->rows, col, cols);
}

static void run_panel(struct block *b, int row) {
    const struct source s = rows_of(b, row, AMX_SIDE);
    const int steps = ceil_div(b->depth, UNIT);
    const int near = steps <= NEAR_STEPS;
    struct amx_patch q = {.w_half = AMX_REGISTER,
                          .w_step = PANEL_STEP,
                          .steps = steps,
                          .rows = s.n,
                          .every = 1,
                          .x_stream = !near,
                          .w_stream = 1};
    if (b->in_place && s.n == AMX_SIDE) {
        q.x = (const char *)s.at;
        q.ldx = s.ld * 2;
        q.x_half = 16 * q.ldx;
        q.x_step = 64;
    } else {
        q.x = packed_panel(b, row);
        q.ldx = 64;
        q.x_half = AMX_REGISTER;
        q.x_step = PANEL_STEP;
    }
    b->side.at_once = ceil_div(AMX_SIDE, max_int(steps, 1));
    for (int strip = 0; strip < b->cols; strip += AMX_SIDE) multiply(b, &q, row, strip);
}

/* The block at all depths. */
static void run_block(struct block *b, int chunk) {
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

/* ---- few rows: C transposed ------------------------------------------------------------------ */

/* Where B's columns lie along the depth, as weights do in y = x w^T, and rows of A are few: B is
 * the first operand, loaded where it lies, and A is packed as the second, which is less to pack.
 * C^T comes out, in patches of 32 columns by 32 rows of C, and is rounded and transposed between
 * the steps of the next patch: first pairs of columns are joined to words, then squares of words
 * are transposed on their way into C. */

enum { JOINTS = 16, QUARTERS = 8, PIECES = JOINTS + QUARTERS };

/* A finished patch. */
struct turned {
    const float *t; /* [32 columns of C][32 rows], or NULL */
    struct gemm_store to;
    int rows, cols;
    const float *bias; /* of its columns; -0 where there is none */
    float floor;       /* -inf without a ReLU */
    int piece;         /* the next */
    __mmask16 numbers;
    char words[2][AMX_REGISTER] __attribute__((aligned(64))); /* of rows 0 .. 15, 16 .. 31 */
};

/* Columns 2i, 2i + 1. */
GEMM_INLINE void join(struct turned *d, int i) {
    const __m512 even = _mm512_set1_ps(d->bias[2 * i]), odd = _mm512_set1_ps(d->bias[2 * i + 1]);
    const __m512 floor = _mm512_set1_ps(d->floor);
    const float *t = d->t + 2 * i * AMX_SIDE;
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++, t += 16) {
        const __m512 x0 = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(t), even));
        const __m512 x1 = _mm512_max_ps(floor, _mm512_add_ps(_mm512_load_ps(t + AMX_SIDE), odd));
        d->numbers = _mm512_mask_cmp_ps_mask(d->numbers, x0, x1, _CMP_ORD_Q);
        const __m512i low = _mm512_srli_epi32(gemm_round_vector(x0), 16);
        _mm512_store_si512(d->words[h] + 64 * i,
                           _mm512_mask_mov_epi16(low, 0xaaaaaaaa, gemm_round_vector(x1)));
    }
}

/* Rows 4i .. 4i + 3. */
GEMM_INLINE void turn(const struct turned *d, int i) {
    __m512i r[4];
    uint16_t *c = (uint16_t *)d->to.c + 4 * i * d->to.ldc;
    load_transposed_quarter(r, d->words[i / 4], 64, i % 4);
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        if (4 * i + j < d->rows) _mm512_storeu_si512(c + j * d->to.ldc, r[j]);
}

/* Some pieces. Each step gets its share, joints in the first half of a patch's steps, quarters in
 * the second: what waits for lines of C is spread out. */
GEMM_INLINE void turn_some(struct turned *d, int joints, int quarters) {
    if (d->piece < JOINTS)
        for (int i = 0; i < joints && d->piece < JOINTS; i++) join(d, d->piece++);
    else
        for (int i = 0; i < quarters && d->piece < PIECES; i++) turn(d, d->piece++ - JOINTS);
}

/* What is left; the plain way for columns at the edge and for what is not a number. */
static void turn_rest(struct turned *d) {
    float t[AMX_SIDE * AMX_SIDE] __attribute__((aligned(64)));
    while (d->piece < PIECES) turn_some(d, JOINTS, QUARTERS);
    if (!d->t || (d->cols == AMX_SIDE && d->numbers == 0xffff)) return;
    for (int i = 0; i < AMX_SIDE; i++)
        for (int j = 0; j < AMX_SIDE; j++) t[i * AMX_SIDE + j] = d->t[j * AMX_SIDE + i];
    gemm_store_patch(&d->to, t, AMX_SIDE, d->rows, d->cols);
}

/* 32 columns of B, as a panel or where they lie. */
struct strip {
    const char *w;
    int64_t ld, step; /* bytes from column to column, and to the next step */
    int first, n;
    float bias[AMX_SIDE];
};

static void take_strip(const struct block *b, struct strip *s, int first) {
    const struct gemm *g = b->g;
    const int n = min_int(AMX_SIDE, b->col + b->cols - first);
    const struct source w = source_of(&g->b, 1, first, n, 0, b->depth);
    *s = (struct strip){(const char *)w.at, w.ld * 2, 64, first, n, {0}};
    if (n < AMX_SIDE) {
        pack_all(b->a, &w, 0);
        s->w = b->a;
        s->ld = 64;
        s->step = PANEL_STEP;
    }
    for (int i = 0; i < n; i++)
        s->bias[i] = g->bias ? f32_load(g->bias, g->bias_type, first + i) : -0.0f;
}

/* The strip by the panel of rows from `row` on, sums to t. */
static void multiply_turned(const struct block *b, const struct strip *s, int row, char *t,
                            struct turned *last) {
    const int steps = b->depth / UNIT;
    const int joints = ceil_div(2 * JOINTS, steps), quarters = ceil_div(2 * QUARTERS, steps);
    const char *w = s->w, *x = b->b + (row - b->row) / AMX_SIDE * packed(b->depth);
    const int64_t ld = s->ld;
    amx_zero_sums();
    for (int step = 0; step < steps; step++, w += s->step, x += PANEL_STEP) {
        amx_load(4, w, ld);
        amx_load_stream(6, x, 64);
        amx_multiply(0, 4, 6);
        amx_load_stream(7, x + AMX_REGISTER, 64);
        amx_multiply(1, 4, 7);
        amx_load(5, w + 16 * ld, ld);
        amx_multiply(2, 5, 6);
        amx_multiply(3, 5, 7);
        turn_some(last, joints, quarters);
    }
    turn_rest(last);
    amx_store_sums(t, AMX_SIDE * 4, 1);
}

/* All columns by the block's rows, which are packed first. */
static void run_turned_block(struct block *b) {
    const struct gemm *g = b->g;
    struct strip s[2];
    struct turned last = {.piece = PIECES, .floor = g->relu ? 0 : -__builtin_inff()};
    const struct source rows = rows_of(b, b->row, b->rows);
    pack_all(b->b, &rows, 1);
    for (int i = 0, patch = 0; i * AMX_SIDE < b->cols; i++) {
        struct strip *at = &s[i % 2];
        take_strip(b, at, b->col + i * AMX_SIDE);
        for (int row = b->row; row < b->row + b->rows; row += AMX_SIDE) {
            char *t = b->t + patch++ % 2 * AMX_PATCH;
            multiply_turned(b, at, row, t, &last);
            last.t = (const float *)t;
            last.to = (struct gemm_store){corner(b, row, at->first), g->ldc, g->c_type,
                                          .relu = g->relu, .bias_type = g->bias_type};
            if (g->bias)
                last.to.bias = (const char *)g->bias + (size_t)at->first * dtype_size(g->bias_type);
            last.rows = min_int(AMX_SIDE, b->row + b->rows - row);
            last.cols = at->n;
            last.bias = at->bias;
            last.piece = at->n == AMX_SIDE ? 0 : PIECES;
            last.numbers = 0xffff;
        }
    }
    turn_rest(&last);
}

/* The deeper and the fewer, the more is packing B beside transposing C. */
static int turns(const struct gemm *g) {
    const int few = g->m <= TURN_ROWS && 4 * g->m <= 3 * g->k && g->n <= TURN_COLS;
    const int in_place = g->b.ld % 32 == 0 && (uintptr_t)g->b.data % 64 == 0;
    return few && in_place && !g->a.trans && g->b.trans && g->c_type == DTYPE_BF16 && !g->add &&
           g->k >= TURN_DEPTH && g->k % UNIT == 0 && g->k <= DEPTH_BF16;
}

static void run_turned(struct block *b, struct gemm_range at) {
    const int most = group_of(b->g->k), n = ceil_div(at.rows, most);
    const int rows = whole(ceil_div(at.rows, n), AMX_SIDE);
    b->depth = b->g->k;
    b->col = at.col;
    b->cols = at.cols;
    for (b->row = at.row; b->row < at.row + at.rows; b->row += b->rows) {
        b->rows = min_int(rows, at.row + at.rows - b->row);
        run_turned_block(b);
    }
}

/* ---- kernel ---------------------------------------------------------------------------------- */

static void run(const struct gemm *g, struct gemm_range at, void *memory) {
    const int row_end = at.row + at.rows, col_end = at.col + at.cols;
    const int depth = depth_of(g->k, g->c_type == DTYPE_F32 ? DEPTH_F32 : DEPTH_BF16);
    const int group = group_of(depth);
    struct block b = {.g = g, .a = memory, .kept = g->k > depth};
    b.b = b.a + panel_bytes(g->k);
    b.t = b.b + group_bytes(g->m, g->n, g->k);
    b.in_place =
        !g->a.trans && g->k % UNIT == 0 && g->a.ld % 32 == 0 && (uintptr_t)g->a.data % 64 == 0;
    amx_enter();
    if (turns(g)) {
        run_turned(&b, at);
        amx_leave();
        return;
    }
    for (b.row = at.row; b.row < row_end; b.row += b.rows) {
        b.rows = min_int(b.kept ? DEEP_ROWS : at.rows, row_end - b.row);
        for (b.col = at.col; b.col < col_end; b.col += b.cols) {
            b.cols = min_int(group, col_end - b.col);
            run_block(&b, depth);
        }
    }
    store_rest(&b.side);
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
    .packs_rows = turns,
    .workspace = workspace,
    .peak = peak,
    .enter = amx_enter,
    .leave = amx_leave,
};
