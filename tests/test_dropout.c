/* test_dropout.c — dropout is the function of position that ops.h says, in every op, both
 * ways. */
#include "backend/dropout.h"
#include "base/mem.h"
#include "ops.h"

static const struct dropout some = {.p = 0.3f, .site = 11, .step = 42, .seed = 0xfeedface12345678u};

/* The contract, spelled out a second time: the sixteen-bit halves of a draw, in order. */
TEST(definition) {
    for (uint32_t row = 0; row < 5; row++)
        for (uint32_t col = 0; col < 40; col++) {
            struct philox x = philox4x32(some.seed, col / 8, row, some.site, some.step);
            uint16_t half[8];
            for (int i = 0; i < 4; i++) {
                half[2 * i] = (uint16_t)x.x[i];
                half[2 * i + 1] = (uint16_t)(x.x[i] >> 16);
            }
            int keep = half[col % 8] >= 19661; /* round(0.3 * 65536) */
            assert_int_equal(dropout_keep(&some, row, col), keep);
            double factor = dropout_factor(&some, row, col);
            ASSERT_NEAR(factor, keep ? 65536.0 / (65536 - 19661) : 0, 1e-7);
        }
    struct dropout none = some;
    none.p = 0;
    assert_true(dropout_factor(&none, 3, 4) == 1);
}

enum { STAT_ROWS = 500, STAT_COLS = 200, STAT_N = STAT_ROWS * STAT_COLS };

/* Kept elements, and elements on which d and e agree. */
static void count(const struct dropout *d, const struct dropout *e, int shift, int *kept,
                  int *same) {
    *kept = *same = 0;
    for (uint32_t row = 0; row < STAT_ROWS; row++)
        for (uint32_t col = 0; col < STAT_COLS; col++) {
            int keep = dropout_keep(d, row, col);
            *kept += keep;
            *same += keep == dropout_keep(e, row + (uint32_t)shift, col);
        }
}

TEST(rate) {
    static const float rates[] = {0.01f, 0.1f, 0.3f, 0.5f, 0.9f};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct dropout d = some;
        int kept, same;
        d.p = rates[i];
        count(&d, &d, 0, &kept, &same);
        double q = 1 - rates[i], sigma = sqrt(STAT_N * q * (1 - q));
        ASSERT_NEAR(kept, STAT_N * q, 5 * sigma + STAT_N / 65536.0);
        ASSERT_NEAR(q * dropout_scale(d.p), 1, 1e-4);
    }
}

/* Masks of other sites, steps, seeds, heads and rows agree only by chance. */
TEST(independence) {
    struct dropout other[5] = {some, some, some, some, some};
    other[0].site++;
    other[1].step++;
    other[2].seed ^= 1;
    other[3].site += 1u << 16;
    for (int i = 0; i < 5; i++) {
        int kept, same;
        double chance = 0.7 * 0.7 + 0.3 * 0.3;
        count(&some, &other[i], i == 4, &kept, &same);
        ASSERT_NEAR(same, STAT_N * chance, 5 * sqrt(STAT_N * chance * (1 - chance)));
    }
}

/* ---- in the ops ------------------------------------------------------------------------------ */

enum { N = 21, D = 45 };

static void check_factors(struct backend *be, const struct mat *m, double value, const char *what) {
    double *x = ops_values(be, m);
    op_check_sync(be, what);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->cols; j++) {
            double want = value * (double)dropout_factor(&some, i, j);
            double tol = m->type == DTYPE_BF16 ? fabs(want) / 128 : fabs(want) * 1e-6;
            if (!(fabs(x[i * m->cols + j] - want) <= tol))
                fail_msg("%s: [%d,%d] = %g, want %g", what, i, j, x[i * m->cols + j], want);
        }
}

static struct mat constant(struct backend *be, enum dtype type, int rows, int cols, double value) {
    double *x = xmalloc((size_t)rows * (size_t)cols * sizeof *x);
    for (int i = 0; i < rows * cols; i++) x[i] = value;
    struct mat m = ops_mat(be, type, rows, cols, x);
    xfree(x);
    return m;
}

static void embed_mask(struct backend *be, enum dtype type) {
    int32_t ids[N] = {0}, pos[N];
    for (int i = 0; i < N; i++) pos[i] = i; /* so that every row of dpos is one row of dy */
    struct embed_args a = {.y = ops_mat(be, type, N, D, NULL), .dy = constant(be, type, N, D, 1)};
    a.table = constant(be, type, 1, D, 0.5);
    a.pos_table = constant(be, type, N, D, 0.5);
    a.dtable = constant(be, DTYPE_F32, 1, D, 0);
    a.dpos = constant(be, DTYPE_F32, N, D, 0);
    a.ids = ops_ints(be, ids, N);
    a.pos = ops_ints(be, pos, N);
    a.scale = 1;
    a.drop = some;
    embed_fwd(be, &a);
    check_factors(be, &a.y, 1, "embed y");
    embed_bwd(be, &a);
    check_factors(be, &a.dpos, 1, "embed dpos");
}

static void linear_mask(struct backend *be, enum dtype type) {
    struct linear_args a = {.y = ops_mat(be, type, N, D, NULL), .dy = constant(be, type, N, D, 1)};
    a.x = constant(be, type, N, 3, 0);
    a.w = constant(be, type, D, 3, 1);
    a.b = constant(be, type, 1, D, 2);
    a.dw = constant(be, DTYPE_F32, D, 3, 0);
    a.drop = some;
    for (a.act = ACT_NONE; a.act <= ACT_RELU; a.act++) {
        a.dy = constant(be, type, N, D, 1);
        linear_fwd(be, &a);
        check_factors(be, &a.y, 2, "linear y");
        linear_bwd(be, &a);
        check_factors(be, &a.dy, 1, "linear dz");
    }
}

static void add_norm_mask(struct backend *be, enum dtype type) {
    struct add_norm_args a = {.y = ops_mat(be, type, N, D, NULL), .eps = 1e-5f, .drop = some};
    a.r = ops_mat(be, type, N, D, NULL);
    a.x = constant(be, type, N, D, 0);
    a.s = constant(be, type, N, D, 1);
    a.gamma = constant(be, type, 1, D, 1);
    a.beta = constant(be, type, 1, D, 0);
    a.stats = ops_mat(be, DTYPE_F32, N, 2, NULL);
    a.dy = constant(be, type, N, D, 0); /* then g is dr */
    a.dr = constant(be, type, N, D, 3);
    a.dx = ops_mat(be, type, N, D, NULL);
    a.ds = ops_mat(be, type, N, D, NULL);
    a.dgamma = constant(be, DTYPE_F32, 1, D, 0);
    a.dbeta = constant(be, DTYPE_F32, 1, D, 0);
    add_norm_fwd(be, &a);
    check_factors(be, &a.r, 1, "add_norm r");
    add_norm_bwd(be, &a);
    check_factors(be, &a.ds, 3, "add_norm ds");
}

/* With equal scores P is 1/N; with v the identity o shows the mask itself, and with dout the
 * identity dv shows it transposed. One sentence, first row of the batch; the second head shows the
 * head's site. */
static void attention_mask(struct backend *be, enum dtype type) {
    int32_t start[2] = {0, N};
    double identity[N * 2 * N] = {0};
    for (int i = 0; i < N; i++) identity[i * 2 * N + i] = identity[i * 2 * N + N + i] = 1;
    struct attention_args a = {.o = ops_mat(be, type, N, 2 * N, NULL), .n_head = 2, .scale = 1};
    a.q = constant(be, type, N, 4, 0);
    a.k = constant(be, type, N, 4, 1);
    a.v = ops_mat(be, type, N, 2 * N, identity);
    a.lse = ops_mat(be, DTYPE_F32, 2, N, NULL);
    a.rq = a.rk =
        (struct rows){.start = ops_ints(be, start, 2), .n_seq = 1, .n_tok = N, .max_len = N};
    a.dout = ops_mat(be, type, N, 2 * N, identity);
    a.dq = ops_mat(be, type, N, 4, NULL);
    a.dk = ops_mat(be, type, N, 4, NULL);
    a.dv = ops_mat(be, type, N, 2 * N, NULL);
    a.drop = some;
    attention_fwd(be, &a);
    attention_bwd(be, &a);
    op_check_sync(be, "attention");
    double *o = ops_values(be, &a.o), *dv = ops_values(be, &a.dv);
    for (int i = 0; i < N; i++)
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < N; j++) {
                struct dropout d = some;
                d.site += (uint32_t)h << 16;
                double want = dropout_factor(&d, i, j) / N;
                double tol = type == DTYPE_BF16 ? want / 64 : want * 1e-5;
                ASSERT_NEAR(o[i * 2 * N + h * N + j], want, tol);
                ASSERT_NEAR(dv[j * 2 * N + h * N + i], want, tol);
            }
}

static void all_masks(struct backend *be) {
    for (int bf16 = 0; bf16 < 2; bf16++) {
        enum dtype type = bf16 ? DTYPE_BF16 : DTYPE_F32;
        embed_mask(be, type);
        linear_mask(be, type);
        add_norm_mask(be, type);
        attention_mask(be, type);
        ops_release();
    }
}

TEST(masks_ref) {
    struct backend *ref = ops_ref_open();
    all_masks(ref);
    backend_close(ref);
}

TEST(masks) {
    struct ops_backend *list = ops_open(TEST_ARG);
    for (int i = 0; list[i].be; i++) all_masks(list[i].be);
    ops_cpu_close(list);
}

TESTS(T(definition), T(rate), T(independence), T(masks_ref), TP(masks, "cpu"), TP(masks, "cuda"))
