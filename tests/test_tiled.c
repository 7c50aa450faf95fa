/* test_tiled.c — products with tiled weights, and what makes such weights.
 *
 * Kernels run per instruction set this machine has, and for AMX in emulation anywhere with AVX-512.
 * What the contract promises in bits is compared in bits: I8 products with ref's (hence with each
 * other across instruction sets), F32 and BF16 ones with the plain product of the same set, a row
 * alone with the row in a batch, one thread with three. What lies around y must keep its poison. */
#include "test.h"

#include <float.h>

#include "backend/cpu/gemm.h"
#include "backend/cpu/tiled.h"
#include "backend/ref/ref.h"
#include "backend/tile.h"
#include "base/mem.h"
#include "base/rng.h"

extern const struct gemm_kernel gemm_bf16_amx_emulated;
extern const struct tiled_kernel tiled_bf16_amx_emulated, tiled_i8_amx_emulated;

static struct isa emulated;

static const struct isa *find_isa(const char *name) {
    struct err err;
    const struct isa *isa;
    if (strcmp(name, "amx-emulated") != 0) return isa_select(&isa, name, &err) == 0 ? isa : NULL;
    if (isa_select(&isa, "avx512", &err)) return NULL;
    emulated = *isa;
    emulated.name = "amx-emulated";
    emulated.gemm_bf16 = &gemm_bf16_amx_emulated;
    emulated.tiled_bf16 = &tiled_bf16_amx_emulated;
    emulated.tiled_i8 = &tiled_i8_amx_emulated;
    return &emulated;
}

#define NEED_ISA(isa)                                                                              \
    const struct isa *isa = find_isa(TEST_ARG);                                                    \
    if (!isa) SKIP("this machine has no %s", TEST_ARG)

/* ---- products -------------------------------------------------------------------------------- */

enum { SPARE = 3 }; /* columns behind each row of x and y */
static const uint32_t poison = 0x7fc0dead;

struct product {
    struct tiled t;
    struct mat plain; /* w as it was before it was tiled, in the act type */
    float *scale, *unit, *zero;
    int32_t *sum;
    size_t y_size;
};

static void *block(size_t size) {
    void *p = mem_block(size ? size : 1);
    assert_non_null(p);
    return p;
}

static void put_value(void *data, int64_t at, enum dtype type, float x) {
    if (type == DTYPE_F32)
        ((float *)data)[at] = x;
    else
        ((uint16_t *)data)[at] = bf16_store(x);
}

static struct mat random_mat(int rows, int cols, int64_t ld, enum dtype type, struct rng *rng) {
    struct mat m = {.ld = ld, .rows = rows, .cols = cols, .type = type};
    m.data = block((size_t)rows * (size_t)ld * dtype_size(type));
    for (int64_t i = 0; i < rows * ld; i++)
        put_value(m.data, i, type, (float)(rng_uniform(rng) * 2 - 1));
    return m;
}

static float *values_of(const struct mat *m) {
    float *f = block((size_t)m->rows * (size_t)m->cols * 4);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->cols; j++) f[(int64_t)i * m->cols + j] = (float)get(m, i, j);
    return f;
}

static void poison_y(struct product *p) {
    for (size_t i = 0; i + 4 <= p->y_size; i += 4) memcpy((char *)p->t.y.data + i, &poison, 4);
}

/* w of type w_type tiled, everything random from the seed. */
static struct product product_new(int m, int n, int k, enum dtype w_type, int bias, uint64_t seed) {
    struct rng rng = {.key = seed};
    const enum dtype act = w_type == DTYPE_BF16 ? DTYPE_BF16 : DTYPE_F32;
    struct product p = {.plain = random_mat(n, k, k, act, &rng)};
    p.t.x = random_mat(m, k, k + SPARE, act, &rng);
    p.t.y = random_mat(m, n, n + SPARE + (n & 1), act, &rng); /* whole words of poison */
    p.y_size = (size_t)m * (size_t)p.t.y.ld * dtype_size(act);
    if (bias) p.t.b = random_mat(1, n, n, act, &rng);
    p.scale = block(tiled_rows(n) * 4);
    p.sum = block(tiled_rows(n) * 4);
    p.unit = block(tiled_rows(n) * 4);
    p.zero = block(tiled_rows(n) * 4);
    p.t.w = (struct mat){.data = block(tiled_bytes(n, k, w_type)),
                         .ld = k,
                         .rows = n,
                         .cols = k,
                         .type = w_type,
                         .tiled = 1};
    float *f = values_of(&p.plain);
    if (w_type == DTYPE_I8) {
        p.t.w.scale = p.scale;
        p.t.w.sum = p.sum;
    }
    tile_pack(&p.t.w, f, k, 0, tile_count(n));
    mem_block_free(f);
    poison_y(&p);
    return p;
}

static void product_free(struct product *p) {
    void *blocks[] = {p->t.y.data, p->t.x.data, p->t.w.data, p->t.b.data, p->plain.data,
                      p->scale,    p->sum,      p->unit,     p->zero};
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) mem_block_free(blocks[i]);
}

/* The workspace has exactly the promised size, so that a sanitizer sees what exceeds it. */
static void run(const struct isa *isa, const struct tiled *t, int n_thread) {
    struct err err;
    struct cpu_backend be = {.isa = isa};
    ASSERT_OK(pool_new(&be.pool, n_thread, &err), err);
    void *workspace = block(tiled_workspace(&be, t));
    tiled_run(&be, t, workspace);
    mem_block_free(workspace);
    pool_free(be.pool);
}

/* A copy of p's y with whatever `fill` writes. */
static struct mat y_like(const struct product *p) {
    struct mat y = p->t.y;
    y.data = block(p->y_size);
    memcpy(y.data, p->t.y.data, p->y_size);
    return y;
}

static struct linear_args args_of(const struct product *p, struct mat y) {
    return (struct linear_args){
        .y = y, .x = p->t.x, .w = p->t.w, .b = p->t.b, .act = p->t.relu ? ACT_RELU : ACT_NONE};
}

/* The same product by the gemm of the set, on the plain weights. */
static void run_plain(const struct isa *isa, const struct product *p, const struct mat *y) {
    struct err err;
    struct cpu_backend be = {.isa = isa};
    struct gemm g = {
        .m = p->t.x.rows,
        .n = p->plain.rows,
        .k = p->plain.cols,
        .a = {.data = p->t.x.data, .ld = p->t.x.ld, .type = p->t.x.type},
        .b = {.data = p->plain.data, .ld = p->plain.ld, .type = p->plain.type, .trans = 1},
        .c = y->data,
        .ldc = y->ld,
        .c_type = y->type,
        .bias = mat_empty(&p->t.b) ? NULL : p->t.b.data,
        .bias_type = y->type,
        .relu = p->t.relu};
    ASSERT_OK(pool_new(&be.pool, 1, &err), err);
    void *workspace = block(gemm_workspace(&be, &g));
    gemm_run(&be, &g, workspace);
    mem_block_free(workspace);
    pool_free(be.pool);
}

static void check_same(const struct product *p, const struct mat *want, const char *what) {
    if (memcmp(p->t.y.data, want->data, p->y_size) == 0) return;
    for (int i = 0; i < p->t.y.rows; i++)
        for (int j = 0; j < (int)p->t.y.ld; j++) {
            const size_t size = dtype_size(want->type),
                         at = ((size_t)(i * want->ld) + (size_t)j) * size;
            if (memcmp((char *)p->t.y.data + at, (char *)want->data + at, size) == 0) continue;
            fail_msg("%s: m %d n %d k %d %s: y[%d,%d] is %.9g, want %.9g", what, p->t.x.rows,
                     p->t.w.rows, p->t.w.cols, dtype_name(p->t.w.type), i, j, get(&p->t.y, i, j),
                     get(want, i, j));
        }
}

/* Odd shapes: ends of tiles, of lines and of register blocks; depths across the blocks of sums (512
 * and 1024). */
static const struct {
    int m, n, k;
} shapes[] = {{1, 1, 1},     {1, 16, 64},   {3, 17, 5},    {5, 33, 1100}, {2, 47, 2051},
              {16, 96, 129}, {17, 64, 63},  {33, 31, 130}, {130, 50, 70}, {141, 65, 96},
              {7, 200, 512}, {300, 20, 40}, {12, 80, 31},  {1, 520, 77}};
enum { N_SHAPE = sizeof shapes / sizeof *shapes, MOST_ROWS = 40 };

/* Runs `check` for every shape, then for every number of rows. */
static void for_shapes(const struct isa *isa, enum dtype type,
                       void (*check)(const struct isa *isa, struct product *p)) {
    for (int i = 0; i < N_SHAPE + MOST_ROWS; i++) {
        const int extra = i - N_SHAPE;
        struct product p =
            extra < 0 ? product_new(shapes[i].m, shapes[i].n, shapes[i].k, type, i % 3, (uint64_t)i)
                      : product_new(extra + 1, 83, 75, type, extra % 2, (uint64_t)i);
        p.t.relu = i % 4 == 1;
        check(isa, &p);
        product_free(&p);
    }
}

static void check_i8(const struct isa *isa, struct product *p) {
    struct mat want = y_like(p);
    const struct linear_args a = args_of(p, want);
    ref_linear_fwd(&a);
    run(isa, &p->t, 1);
    check_same(p, &want, "beside ref");
    mem_block_free(want.data);
}

TEST(i8_is_ref) {
    NEED_ISA(isa);
    for_shapes(isa, DTYPE_I8, check_i8);
}

/* As marian-conv makes them. */
static void give_scale(struct product *p, float x_scale) {
    struct mat *w = &p->t.w;
    w->x_scale = x_scale;
    w->unit = p->unit;
    w->zero = p->zero;
    for (size_t i = 0; i < tiled_rows(w->rows); i++) {
        p->unit[i] = w->scale[i] / x_scale;
        p->zero[i] = -127 * (float)w->sum[i] * p->unit[i];
    }
}

/* One factor for all rows of x: a quarter of them exceeds it and is clipped. */
static void check_i8_given(const struct isa *isa, struct product *p) {
    give_scale(p, 127 / 0.75f);
    check_i8(isa, p);
}

TEST(i8_given_scale_is_ref) {
    NEED_ISA(isa);
    for_shapes(isa, DTYPE_I8, check_i8_given);
}

/* What it computes, once: x_scale 10 has steps of 0.1 up to 12.7. */
TEST(i8_given_scale) {
    NEED_ISA(isa);
    struct product p = product_new(5, 1, 2, DTYPE_I8, 0, 1);
    const float row[2] = {1, 127},
                x[5][2] = {
                    {1.26f, 0.04f}, {100, -100}, {-1e30f, FLT_MAX}, {NAN, 1}, {1, -INFINITY}};
    const double want[5] = {1.3, 12.7 * (1 - 127), 12.7 * (127 - 1), NAN, NAN};
    tile_pack(&p.t.w, row, 2, 0, 1);
    give_scale(&p, 10);
    for (int i = 0; i < 5; i++) memcpy((float *)p.t.x.data + i * p.t.x.ld, x[i], sizeof x[i]);
    run(isa, &p.t, 1);
    for (int i = 0; i < 5; i++) {
        const double got = get(&p.t.y, i, 0);
        if (isnan(want[i]))
            assert_true(isnan(got));
        else
            ASSERT_NEAR(got, want[i], 1e-3);
    }
    product_free(&p);
}

static void check_plain(const struct isa *isa, struct product *p) {
    struct mat want = y_like(p);
    run_plain(isa, p, &want);
    run(isa, &p->t, 1);
    check_same(p, &want, "beside the plain product");
    mem_block_free(want.data);
}

TEST(f32_is_plain) {
    NEED_ISA(isa);
    for_shapes(isa, DTYPE_F32, check_plain);
}

TEST(bf16_is_plain) {
    NEED_ISA(isa);
    for_shapes(isa, DTYPE_BF16, check_plain);
}

/* Plain products are tested against double elsewhere; one look that both are not wrong together. */
static void check_near(const struct isa *isa, struct product *p) {
    struct mat want = y_like(p);
    const struct linear_args a = args_of(p, want);
    const double tol = (p->t.y.type == DTYPE_BF16 ? 8e-3 : 1e-6) * (4 + sqrt(p->t.w.cols));
    ref_linear_fwd(&a);
    run(isa, &p->t, 1);
    for (int i = 0; i < want.rows; i++)
        for (int j = 0; j < want.cols; j++) ASSERT_NEAR(get(&p->t.y, i, j), get(&want, i, j), tol);
    mem_block_free(want.data);
}

TEST(near_ref) {
    NEED_ISA(isa);
    for_shapes(isa, DTYPE_F32, check_near);
    for_shapes(isa, DTYPE_BF16, check_near);
}

/* ---- promises in bits ------------------------------------------------------------------------ */

static void put_piece(void *ctx, const struct mat *piece, int row, int col, int thread) {
    const struct product *p = ctx;
    const struct mat to = mat_cols(p->t.y, col, piece->cols);
    (void)thread;
    assert_true(piece->rows <= TILED_PIECE_ROWS && piece->cols <= TILED_PIECE_COLS);
    for (int i = 0; i < piece->rows; i++)
        memcpy(mat_row(&to, row + i), mat_row(piece, i),
               (size_t)piece->cols * dtype_size(piece->type));
}

static void check_rows_alone(const struct isa *isa, struct product *p) {
    run(isa, &p->t, 1);
    struct mat want = y_like(p);
    poison_y(p);
    for (int i = 0; i < p->t.x.rows; i++) {
        struct tiled one = p->t;
        const size_t size = dtype_size(p->t.x.type);
        one.x.rows = one.y.rows = 1;
        one.x.data = (char *)p->t.x.data + (size_t)(i * p->t.x.ld) * size;
        one.y.data = (char *)p->t.y.data + (size_t)(i * p->t.y.ld) * size;
        run(isa, &one, 1);
    }
    check_same(p, &want, "row by row");
    poison_y(p);
    run(isa, &p->t, 3);
    check_same(p, &want, "three threads");
    struct tiled taken = p->t;
    struct tiled_sink sink = {put_piece, p};
    taken.sink = &sink;
    taken.y.data = NULL;
    poison_y(p);
    run(isa, &taken, 3);
    check_same(p, &want, "taken in pieces");
    mem_block_free(want.data);
}

TEST(rows_and_threads) {
    NEED_ISA(isa);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (type == DTYPE_F64 || type == DTYPE_F16) continue;
        static const int size[][3] = {{29, 83, 75}, {40, 640, 600}, {150, 70, 20}};
        for (int i = 0; i < 3; i++) {
            const int m = TEST_SANITIZED ? size[i][0] / 4 + 1 : size[i][0];
            struct product p = product_new(m, size[i][1], size[i][2], (enum dtype)type, 1, 7);
            check_rows_alone(isa, &p);
            product_free(&p);
        }
    }
}

/* Several chunks of staged rows, and large enough that work is shared. */
TEST(many_rows) {
    NEED_ISA(isa);
    if (strcmp(TEST_ARG, "amx-emulated") == 0 && TEST_SANITIZED) SKIP("too slow");
    struct product p = product_new(1100, 18, 1024, DTYPE_I8, 1, 3);
    struct mat want = y_like(&p);
    const struct linear_args a = args_of(&p, want);
    ref_linear_fwd(&a);
    run(isa, &p.t, 3);
    check_same(&p, &want, "many rows");
    mem_block_free(want.data);
    product_free(&p);
}

TEST(workspace_grows) {
    NEED_ISA(isa);
    struct err err;
    struct cpu_backend be = {.isa = isa};
    ASSERT_OK(pool_new(&be.pool, 2, &err), err);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (type == DTYPE_F64 || type == DTYPE_F16) continue;
        static const int steps[] = {1, 2, 31, 64, 127, 128, 1000, 4096, 20000};
        for (int i = 0; i < 9; i++)
            for (int j = 0; j < 9; j++) {
                struct tiled t = {.w = {.cols = steps[i], .rows = 5, .type = (enum dtype)type}};
                struct tiled wider = t, longer = t;
                t.x.rows = wider.x.rows = steps[j];
                longer.x.rows = steps[j < 8 ? j + 1 : j];
                wider.w.cols = steps[i < 8 ? i + 1 : i];
                assert_true(tiled_workspace(&be, &t) <= tiled_workspace(&be, &wider));
                assert_true(tiled_workspace(&be, &t) <= tiled_workspace(&be, &longer));
            }
    }
    pool_free(be.pool);
}

/* Rows without a number to scale by: zeros, denormals, infinities, NaN. */
TEST(i8_odd_rows) {
    NEED_ISA(isa);
    struct product p = product_new(8, 20, 70, DTYPE_I8, 1, 5);
    const int64_t ld = p.t.x.ld;
    float *x = p.t.x.data;
    memset(x, 0, (size_t)p.t.x.cols * 4);
    for (int k = 0; k < 70; k++) x[ld + k] = k % 2 ? 1e-40f : -2e-40f;
    x[2 * ld + 69] = INFINITY;
    x[3 * ld + 3] = NAN;
    x[4 * ld + 64] = -INFINITY;
    for (int k = 0; k < 70; k++) x[5 * ld + k] = k % 2 ? FLT_MAX : -FLT_MAX / 300;
    for (int k = 0; k < 70; k++) x[6 * ld + k] = (float)(k - 35) / 2; /* ties, at 127 / 17.5 */
    struct mat want = y_like(&p);
    const struct linear_args a = args_of(&p, want);
    ref_linear_fwd(&a);
    run(isa, &p.t, 1);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 20; j++) {
            const double got = get(&p.t.y, i, j), expect = get(&want, i, j);
            assert_int_equal(i >= 2 && i <= 4, isnan(got));
            if (!isnan(got)) assert_true(got == expect);
            if (i < 2) assert_true(got == get(&p.t.b, 0, j));
        }
    mem_block_free(want.data);
    product_free(&p);
}

/* ---- making tiled weights -------------------------------------------------------------------- */

TEST(pack_and_back) {
    static const int rows[] = {1, 15, 16, 17, 50}, cols[] = {1, 3, 16, 31, 64, 65, 200};
    for (int type = 0; type < DTYPE_COUNT; type++)
        for (int i = 0; i < 5; i++)
            for (int j = 0; j < 7; j++) {
                if (type == DTYPE_F64 || type == DTYPE_F16) continue;
                struct product p = product_new(1, rows[i], cols[j], (enum dtype)type, 0, 11);
                float *f = values_of(&p.plain),
                      *back = block((size_t)rows[i] * (size_t)cols[j] * 4);
                tile_values(back, cols[j], &p.t.w, 0, tile_count(rows[i]));
                for (int r = 0; r < rows[i]; r++)
                    for (int c = 0; c < cols[j]; c++) {
                        const float w = f[r * cols[j] + c], got = back[r * cols[j] + c];
                        assert_true((double)got == (float)get(&p.t.w, r, c));
                        if (type != DTYPE_I8)
                            assert_true(got == w);
                        else
                            assert_true(fabsf(got - w) <= 0.5001f * p.scale[r]);
                    }
                mem_block_free(f);
                mem_block_free(back);
                product_free(&p);
            }
}

/* Padding is zero, sums are those of the rows, the largest weight is 127, and ranges of tiles add
 * up. */
TEST(quantised_form) {
    struct product p = product_new(1, 37, 70, DTYPE_I8, 0, 13);
    const size_t size = tiled_bytes(37, 70, DTYPE_I8);
    const int8_t *q = p.t.w.data;
    struct mat padded = p.t.w;
    padded.rows = 48; /* its rows are there */
    for (int i = 0; i < 48; i++) {
        int sum = 0, most = 0;
        for (int j = 0; j < 128; j++) {
            const int x = q[tiled_at(&padded, i, j)];
            if (i >= 37 || j >= 70) assert_int_equal(x, 0);
            sum += x;
            most = abs(x) > most ? abs(x) : most;
        }
        assert_int_equal(sum, p.sum[i]);
        assert_int_equal(most, i < 37 ? 127 : 0);
        if (i >= 37) assert_true(p.scale[i] == 1);
    }
    float *f = values_of(&p.plain);
    int8_t *again = block(size);
    struct mat w = p.t.w;
    w.data = again;
    for (int t = 2; t >= 0; t--) tile_pack(&w, f, 70, t, t + 1);
    assert_memory_equal(again, q, size);
    mem_block_free(again);
    mem_block_free(f);
    product_free(&p);
}

/* Rows that are int8 already: every value there is, in place bit for bit, and products are
 * ref's. */
static void place(struct product *p, int8_t *q, float *scale) {
    const int n = p->t.w.rows, k = p->t.w.cols;
    for (int i = 0; i < n; i++) scale[i] = 0.01f * (float)(i + 1);
    for (int i = 0; i < n * k; i++) q[i] = i / k == 1 ? -128 : (int8_t)(uint8_t)(i * 37 + i / k);
    memset(p->t.w.data, 0x55, tiled_bytes(n, k, DTYPE_I8));
    memset(p->sum, 0x55, tiled_rows(n) * 4);
    memset(p->scale, 0x55, tiled_rows(n) * 4);
    for (int t = tile_count(n) - 1; t >= 0; t--) tile_place(&p->t.w, q, k, scale, t, t + 1);
}

TEST(int8_in_place) {
    enum { N = 37, K = 70 };
    struct product p = product_new(1, N, K, DTYPE_I8, 0, 13);
    int8_t q[N * K];
    float scale[N];
    place(&p, q, scale);
    struct mat padded = p.t.w;
    padded.rows = 48;
    for (int i = 0; i < 48; i++) {
        int sum = 0;
        for (int j = 0; j < 128; j++) {
            const int x = ((const int8_t *)p.t.w.data)[tiled_at(&padded, i, j)];
            assert_int_equal(x, i < N && j < K ? q[i * K + j] : 0);
            sum += x;
        }
        assert_int_equal(sum, p.sum[i]);
        assert_true(p.scale[i] == (i < N ? scale[i] : 1));
    }
    product_free(&p);
}

TEST(any_int8_is_ref) {
    NEED_ISA(isa);
    enum { N = 37, K = 2051 };
    struct product p = product_new(20, N, K, DTYPE_I8, 1, 13);
    int8_t *q = block((size_t)N * K);
    float scale[N];
    place(&p, q, scale);
    for (int k = 0; k < K; k++) ((float *)p.t.x.data)[k] = 1; /* all at their limits */
    check_i8(isa, &p);
    mem_block_free(q);
    product_free(&p);
}

TEST(quantise_odd_rows) {
    float src[4][5] = {{0}, {1e-39f, -1e-40f}, {1, NAN, 2}, {-254, 1, 3, 0.99f, INFINITY}};
    int8_t q[16 * 64];
    float scale[16];
    int32_t sum[16];
    struct mat w = mat_of(q, 4, 5, DTYPE_I8);
    w.tiled = 1;
    w.scale = scale;
    w.sum = sum;
    tile_pack(&w, src[0], 5, 0, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(sum[i], 0);
        assert_int_equal(i >= 2, isnan(scale[i]));
        if (i < 2) assert_true(scale[i] == 1);
        for (int j = 0; j < 5; j++) assert_int_equal(q[tiled_at(&w, i, j)], 0);
    }
    src[3][4] = 0; /* 127 / 254 exactly: 0.5 and 1.5 round to even */
    tile_pack(&w, src[0], 5, 0, 1);
    assert_true(scale[3] == 2);
    static const int want[] = {-127, 0, 2, 0, 0};
    for (int j = 0; j < 5; j++) assert_int_equal(q[tiled_at(&w, 3, j)], want[j]);
    assert_int_equal(sum[3], -125);
}

/* ---- through the seam ------------------------------------------------------------------------ */

static struct backend *open_backend(const char *device, const char *isa) {
    struct err err;
    struct backend *be;
    const struct backend_options o = {.device = device, .n_thread = 2, .isa = isa};
    return backend_open(&be, &o, &err) ? NULL : be;
}

/* A table of each type, tiled, gives the embeddings that its values give untiled. */
TEST(embed) {
    struct backend *be = open_backend("cpu", TEST_ARG);
    if (!be) SKIP("this machine has no %s", TEST_ARG);
    static const int32_t ids[] = {0, 5, 36, -1, 16, 15}, pos[] = {0, 1, 2, 3, 4, 5};
    for (int type = 0; type < DTYPE_COUNT; type++)
        for (int d = 1; d < 1200; d += d < 30 ? 7 : 573) {
            if (type == DTYPE_F64 || type == DTYPE_F16) continue;
            struct rng rng = {.key = 3};
            struct err err;
            struct product p = product_new(6, 37, d, (enum dtype)type, 0, (uint64_t)d);
            const enum dtype act = p.t.x.type;
            struct mat y[2] = {random_mat(6, d, d, act, &rng), random_mat(6, d, d, act, &rng)};
            struct mat table = random_mat(37, d, d, act, &rng),
                       places = random_mat(6, d, d, act, &rng);
            float *f = block((size_t)37 * (size_t)d * 4);
            tile_values(f, d, &p.t.w, 0, tile_count(37));
            for (int64_t i = 0; i < (int64_t)37 * d; i++) put_value(table.data, i, act, f[i]);
            struct embed_args a = {.pos_table = places, .ids = ids, .pos = pos, .scale = 1.5f};
            a.drop = (struct dropout){.p = d % 2 ? 0.25f : 0, .seed = 9};
            a.y = y[0];
            a.table = p.t.w;
            embed_fwd(be, &a);
            a.y = y[1];
            a.table = table;
            embed_fwd(be, &a);
            ASSERT_OK(backend_sync(be, &err), err);
            assert_memory_equal(y[0].data, y[1].data, (size_t)6 * (size_t)d * dtype_size(act));
            a.table = p.t.w;
            ref_embed_fwd(&a);
            for (int i = 0; i < 6; i++)
                for (int j = 0; j < d; j++)
                    ASSERT_NEAR(get(&y[0], i, j), get(&y[1], i, j),
                                act == DTYPE_BF16 ? 0.02 : 1e-6);
            void *blocks[] = {y[0].data, y[1].data, table.data, places.data, f};
            for (int i = 0; i < 5; i++) mem_block_free(blocks[i]);
            product_free(&p);
        }
    backend_close(be);
}

/* The best tokens of a tiled product, whose logits never exist, are those of its logits, to the
 * last bit: with a row of ties, one with numbers that are none, and hardly a number above -inf. */
TEST(topk_op) {
    enum { M = 150, N = 1300, K = 5 };
    static const float odd[] = {0, NAN, INFINITY};
    struct backend *be = open_backend("cpu", TEST_ARG);
    struct err err;
    if (!be) SKIP("this machine has no %s", TEST_ARG);
    for (int type = 0; type < DTYPE_COUNT; type++) {
        if (type == DTYPE_F64 || type == DTYPE_F16) continue;
        struct product p = product_new(M, N, 40, (enum dtype)type, type == DTYPE_I8, 5);
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 40; j++)
                put_value(p.t.x.data, i * p.t.x.ld + j, p.t.x.type, odd[i]);
        for (int j = 3; j < N && type == DTYPE_I8; j++)
            put_value(p.t.b.data, j, p.t.b.type, -INFINITY);
        float value[2][M * K];
        int32_t id[2][M * K];
        linear_fwd(be, &(struct linear_args){.y = p.t.y, .x = p.t.x, .w = p.t.w, .b = p.t.b});
        for (int fused = 0; fused < 2; fused++) {
            struct topk_args a = {.logits = p.t.y, .id = id[fused]};
            a.value = mat_of(value[fused], M, K, DTYPE_F32);
            if (fused) a.logits.data = NULL, a.x = p.t.x, a.w = p.t.w, a.b = p.t.b;
            topk(be, &a);
        }
        ASSERT_OK(backend_sync(be, &err), err);
        assert_memory_equal(id[0], id[1], sizeof id[0]);
        for (int i = 0; i < M * K; i++)
            if (memcmp(&value[0][i], &value[1][i], 4) &&
                !(isnan(value[0][i]) && isnan(value[1][i])))
                fail_msg("%s: value[%d,%d] is %.9g, of the logits %.9g",
                         dtype_name((enum dtype)type), i / K, i % K, (double)value[1][i],
                         (double)value[0][i]);
        for (int i = type == DTYPE_I8 ? 3 : 0; i < K; i++) assert_int_equal(id[1][i], i);
        product_free(&p);
    }
    backend_close(be);
}

/* A plan for the largest product serves smaller ones; activations and dropout work on what the
 * product left. */
TEST(linear_op) {
    struct backend *cpu = open_backend("cpu", TEST_ARG), *ref;
    struct err err;
    if (!cpu) SKIP("this machine has no %s", TEST_ARG);
    ref = open_backend("ref", NULL);
    struct product p = product_new(70, 50, 90, DTYPE_I8, 1, 21);
    struct mat z = y_like(&p), want = y_like(&p);
    backend_plan(cpu);
    struct linear_args a = args_of(&p, p.t.y);
    a.w.data = a.x.data = a.y.data = NULL;
    a.w.scale = NULL;
    a.w.sum = NULL;
    linear_fwd(cpu, &a);
    ASSERT_OK(backend_commit(cpu, &err), err);
    for (int act = ACT_NONE; act <= ACT_SILU; act++)
        for (int m = 1; m <= 70; m += 23) {
            a = args_of(&p, p.t.y);
            a.act = (enum act)act;
            a.x.rows = a.y.rows = z.rows = want.rows = m;
            if (act >= ACT_GELU) a.z = z;
            a.drop = (struct dropout){.p = m == 24 ? 0.5f : 0, .seed = 4};
            linear_fwd(cpu, &a);
            a.y = want;
            linear_fwd(ref, &a);
            ASSERT_OK(backend_sync(cpu, &err), err);
            ASSERT_OK(backend_sync(ref, &err), err);
            for (int i = 0; i < m; i++)
                for (int j = 0; j < 50; j++) ASSERT_NEAR(get(&p.t.y, i, j), get(&want, i, j), 2e-5);
        }
    mem_block_free(z.data);
    mem_block_free(want.data);
    product_free(&p);
    backend_close(cpu);
    backend_close(ref);
}

TEST(refuses_what_it_must) {
    struct backend *be = open_backend("cpu", NULL);
    struct err err;
    struct product p = product_new(2, 20, 30, DTYPE_I8, 1, 1);
    struct linear_args a = args_of(&p, p.t.y);
    a.w.scale = NULL;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "scales");
    a = args_of(&p, p.t.y);
    a.w.cols = a.w.ld = a.x.cols = a.x.ld = TILE_I8_COLS + 1;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "65537");
    a = args_of(&p, p.t.y);
    a.w.tiled = 0;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "i8");
    a = args_of(&p, p.t.y);
    a.w.cols = 29;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "w is [20,29]");
    a = args_of(&p, p.t.y);
    a.w.type = DTYPE_BF16;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "expected [20,30] f32");
    a = args_of(&p, p.t.y);
    a.w.x_scale = 1;
    linear_fwd(be, &a);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "scale of x");
    a = args_of(&p, p.t.y);
    linear_fwd(be, &a); /* nothing of it sticks */
    ASSERT_OK(backend_sync(be, &err), err);
    product_free(&p);
    backend_close(be);
}

#define SETS(f)                                                                                    \
    TP(f, "generic"), TP(f, "avx2"), TP(f, "avx512"), TP(f, "avx512vnni"), TP(f, "avx512bf16"),    \
        TP(f, "amx")
#define KERNELS(f) SETS(f), TP(f, "amx-emulated")

/* Thousands of shapes: I8 against ref, with and without given scales, and BF16 against the plain
 * product, whose own test is in test_gemm.c; one thread or more. */
TEST(amx_fuzz) {
    NEED_ISA(isa);
    struct rng rng = {.key = 15};
    const int times = TEST_SANITIZED ? 200 : 2000;
    for (int n = 0; n < times; n++) {
        const int tall = n % 20 < 2; /* of either type */
        const int m = 1 + (int)rng_below(&rng, tall ? 400 : 70);
        const int cols = 1 + (int)rng_below(&rng, tall ? 40 : 100);
        const int k = 1 + (int)rng_below(&rng, n % 10 ? 150 : 1200);
        const enum dtype type = n % 2 ? DTYPE_I8 : DTYPE_BF16;
        struct product p = product_new(m, cols, k, type, n % 3, (uint64_t)n);
        p.t.relu = n % 4 > 1;
        if (type == DTYPE_BF16)
            check_plain(isa, &p);
        else if (n % 8 == 1)
            check_i8_given(isa, &p);
        else
            check_i8(isa, &p);
        product_free(&p);
    }
}

TESTS(KERNELS(i8_is_ref), KERNELS(i8_given_scale_is_ref), KERNELS(i8_given_scale),
      KERNELS(f32_is_plain), KERNELS(bf16_is_plain), KERNELS(near_ref), KERNELS(rows_and_threads),
      KERNELS(many_rows), KERNELS(workspace_grows), KERNELS(i8_odd_rows), KERNELS(any_int8_is_ref),
      T(int8_in_place), SETS(embed), SETS(linear_op), SETS(topk_op), T(pack_and_back),
      T(quantised_form), T(quantise_odd_rows), T(refuses_what_it_must), TPL(amx_fuzz, "amx", 300),
      TPL(amx_fuzz, "amx-emulated", 300))
