/* test_ref.c — the forward definitions of ref against numbers worked out by hand.
 *
 * Differences (test_ops.c) prove that backward fits forward; they cannot see a forward op that is
 * wrong in a consistent way. These are the smallest cases that pin each definition. */
#include "ops.h"

static struct backend *ref;

static struct mat mat(int rows, int cols, const double *values) {
    return ops_mat(ref, DTYPE_F64, rows, cols, values);
}
static struct mat empty(int rows, int cols) { return mat(rows, cols, NULL); }

static void check(const struct mat *m, const double *want, const char *what) {
    op_check_sync(ref, what);
    double *got = ops_values(ref, m);
    for (int i = 0; i < m->rows * m->cols; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-6)) /* arguments such as eps are f32 */
            fail_msg("%s[%d] = %.9g, want %.9g", what, i, got[i], want[i]);
}

TEST(embed) {
    ref = ops_ref_open();
    struct embed_args a = {.y = empty(3, 2), .scale = 10};
    a.table = mat(2, 2, (double[]){1, 2, 3, 4});
    a.pos_table = mat(2, 2, (double[]){0.5, 0.25, -1, -2});
    a.ids = ops_ints(ref, (int32_t[]){1, -1, 0}, 3);
    a.pos = ops_ints(ref, (int32_t[]){0, 1, 1}, 3);
    embed_fwd(ref, &a);
    check(&a.y, (double[]){30.5, 40.25, -1, -2, 9, 18}, "y");
    a.dy = mat(3, 2, (double[]){1, 2, 3, 4, 5, 6});
    a.dtable = mat(2, 2, (double[]){100, 100, 100, 100});
    embed_bwd(ref, &a);
    check(&a.dtable, (double[]){150, 160, 110, 120}, "dtable");
    ops_release();
    backend_close(ref);
}

TEST(linear) {
    ref = ops_ref_open();
    struct linear_args a = {.y = empty(1, 3)};
    a.x = mat(1, 2, (double[]){2, 3});
    a.w = mat(3, 2, (double[]){1, 1, -1, 0, 0, 0.5});
    a.b = mat(1, 3, (double[]){10, 0.5, -0.5});
    linear_fwd(ref, &a);
    check(&a.y, (double[]){15, -1.5, 1}, "none");
    a.act = ACT_RELU;
    linear_fwd(ref, &a);
    check(&a.y, (double[]){15, 0, 1}, "relu");
    a.z = empty(1, 3);
    a.act = ACT_GELU; /* Phi(-1.5) = 0.0668072013, Phi(1) = 0.8413447461 */
    linear_fwd(ref, &a);
    check(&a.y, (double[]){15, -1.5 * 0.0668072013, 0.8413447461}, "gelu");
    check(&a.z, (double[]){15, -1.5, 1}, "z");
    a.act = ACT_SILU; /* sigmoid(15) = 0.9999996941, sigmoid(-1.5) = 0.1824255238 */
    linear_fwd(ref, &a);
    check(&a.y, (double[]){15 * 0.9999996941, -1.5 * 0.1824255238, 0.7310585786}, "silu");
    ops_release();
    backend_close(ref);
}

/* Scores 0 and log 3 give weights 1/4 and 3/4. */
static struct attention_args attention_of_two(void) {
    struct attention_args a = {.n_head = 1, .scale = 2, .o = empty(2, 1), .lse = empty(1, 2)};
    a.q = mat(2, 1, (double[]){1, 1});
    a.k = mat(2, 1, (double[]){0, 0.5 * log(3)});
    a.v = mat(2, 1, (double[]){8, 16});
    a.rq = a.rk = (struct rows){ops_ints(ref, (int32_t[]){0, 2}, 2), 1, 2, 2};
    return a;
}

TEST(attention) {
    ref = ops_ref_open();
    struct attention_args a = attention_of_two();
    a.probs = empty(2, 2);
    attention_fwd(ref, &a);
    check(&a.o, (double[]){14, 14}, "full o");
    check(&a.lse, (double[]){log(4), log(4)}, "full lse");
    a.causal = 1;
    attention_fwd(ref, &a);
    check(&a.o, (double[]){8, 14}, "causal o");
    check(&a.lse, (double[]){0, log(4)}, "causal lse");
    check(&a.probs, (double[]){1, 0, 0.25, 0.75}, "causal P");
    a.causal = 0;
    a.probs = empty(2, 1);
    a.rq = a.rk = (struct rows){ops_ints(ref, (int32_t[]){0, 1, 2}, 3), 2, 2, 1};
    attention_fwd(ref, &a);
    check(&a.o, (double[]){8, 16}, "two sentences o");
    check(&a.probs, (double[]){1, 1}, "two sentences P");
    ops_release();
    backend_close(ref);
}

/* r = (1, 2, 3, 6): mean 3, variance 3.5; eps 0.5 makes the root 2. */
TEST(add_norm) {
    ref = ops_ref_open();
    struct add_norm_args a = {
        .eps = 0.5f, .y = empty(1, 4), .r = empty(1, 4), .stats = empty(1, 2)};
    a.x = mat(1, 4, (double[]){1, 1, 1, 1});
    a.s = mat(1, 4, (double[]){0, 1, 2, 5});
    a.gamma = mat(1, 4, (double[]){1, 1, 1, 2});
    a.beta = mat(1, 4, (double[]){0, 0, 7, 0});
    add_norm_fwd(ref, &a);
    check(&a.r, (double[]){1, 2, 3, 6}, "r");
    check(&a.stats, (double[]){3, 0.5}, "stats");
    check(&a.y, (double[]){-1, -0.5, 7, 3}, "y");
    ops_release();
    backend_close(ref);
}

/* Logits (0, log 2, log 5): probabilities 1/8, 2/8, 5/8. The second row is ignored; in the third
 * all logits are equal, so the first token wins. */
TEST(cross_entropy) {
    ref = ops_ref_open();
    struct xent_args a = {.grad_scale = 2, .row_nll = empty(1, 3), .dx = empty(3, 1)};
    a.x = mat(3, 1, (double[]){1, 1, 0});
    a.w = mat(3, 1, (double[]){0, log(2), log(5)});
    a.target = ops_ints(ref, (int32_t[]){2, -1, 0}, 3);
    a.totals = mat(1, 3, (double[]){100, 200, 300});
    a.dw = mat(3, 1, (double[]){10, 10, 10});
    a.db = mat(1, 3, (double[]){0, 0, 0});
    xent(ref, &a);
    double nll = log(8) - log(5) + log(3);
    check(&a.totals, (double[]){100 + nll, 200 + nll, 302}, "totals");
    check(&a.row_nll, (double[]){log(8) - log(5), 0, log(3)}, "row_nll");
    double dx0 = 2 * (0.25 * log(2) - 0.375 * log(5)), dx2 = 2.0 / 3 * (log(2) + log(5));
    check(&a.dx, (double[]){dx0, 0, dx2}, "dx");
    check(&a.dw, (double[]){10.25, 10.5, 9.25}, "dw");
    check(&a.db, (double[]){0.25 - 4.0 / 3, 0.5 + 2.0 / 3, -0.75 + 2.0 / 3}, "db");
    a.smoothing = 0.3f;
    a.totals = mat(1, 3, (double[]){0, 0, 0});
    a.dx = a.dw = a.db = (struct mat){0};
    xent(ref, &a);
    double loss = log(8) - 0.7 * log(5) - 0.1 * log(10) + log(3);
    check(&a.totals, (double[]){loss, nll, 2}, "smoothed totals");
    ops_release();
    backend_close(ref);
}

/* Two sentences, the second of one token; gates of 0 let half through, of log 3 three quarters. */
TEST(ssru) {
    double log3 = 1.0986122886681098;
    ref = ops_ref_open();
    struct ssru_args a = {.o = empty(3, 1), .c = empty(3, 1)};
    a.g = mat(3, 1, (double[]){0, log3, -log3});
    a.x = mat(3, 1, (double[]){-4, 10, 8});
    a.rows = (struct rows){ops_ints(ref, (int32_t[]){0, 2, 3}, 3), 2, 3, 2};
    ssru_fwd(ref, &a);
    check(&a.c, (double[]){-2, 1, 6}, "c"); /* -4 / 2; 3/4 (-2) + 10 / 4; 3/4 8 */
    check(&a.o, (double[]){0, 1, 6}, "o");
    a.dout = mat(3, 1, (double[]){100, 8, 16});
    a.dg = empty(3, 1);
    a.dx = empty(3, 1);
    ssru_bwd(ref, &a);
    /* dc = 3/4 8, 8, 16: the first row's own output was cut off */
    check(&a.dx, (double[]){3, 2, 12}, "dx");
    check(&a.dg, (double[]){6, -18, -24}, "dg"); /* 1/4 (0 + 4) 6; 3/16 (-2 - 10) 8; 3/16 (-8) 16 */
    ops_release();
    backend_close(ref);
}

TESTS(T(embed), T(linear), T(attention), T(add_norm), T(cross_entropy), T(ssru))
