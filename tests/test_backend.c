/* test_backend.c — the contract that backend.c and ops.c keep for every backend: checks, sticky
 * errors, planning. */
#include "backend/cpu/isa.h"
#include "backend/device.h"
#include "backend/profile.h"
#include "base/mem.h"
#include "ops.h"

static struct backend *open_device(const char *device) {
    struct backend *be;
    struct err err = {0};
    struct backend_options o = {.device = device, .n_thread = 2};
    ASSERT_OK(backend_open(&be, &o, &err), err);
    return be;
}

static struct linear_args linear_of(struct backend *be, int n, int in, int out) {
    struct linear_args a = {.y = ops_mat(be, DTYPE_F32, n, out, NULL)};
    a.x = ops_random(be, DTYPE_F32, n, in, 1);
    a.w = ops_random(be, DTYPE_F32, out, in, 2);
    a.b = ops_random(be, DTYPE_F32, 1, out, 3);
    return a;
}

static int is_written(struct backend *be, const struct mat *m) {
    double *x = ops_values(be, m);
    int written = 0;
    for (int i = 0; i < m->rows * m->cols; i++) written += !isnan(x[i]);
    return written;
}

TEST(opens) {
    struct backend *be;
    struct err err = {0};
    ASSERT_ERR(backend_open(&be, &(struct backend_options){.device = "abacus"}, &err), err,
               HEED_EINVAL, "abacus");
    assert_null(be);
    ASSERT_OK(backend_open(&be, NULL, &err), err);
    assert_string_equal(backend_name(be), "cpu");
    backend_close(be);
    backend_close(NULL);
    struct backend_options o = {.isa = "z80"};
    assert_true(backend_open(&be, &o, &err) < 0);
    assert_null(be);
    if (!strstr(err.msg, "z80") || !strstr(err.msg, isa_table[0]->name))
        fail_msg("'%s' names neither what was asked nor what there is", err.msg);
}

/* A wrong shape: the message says op, argument and sizes; nothing runs until sync reports it
 * once. */
static void sticky(const char *device) {
    struct backend *be = open_device(device);
    struct linear_args good = linear_of(be, 3, 4, 5), bad = good;
    struct err err = {0};
    bad.x.cols = 6;
    bad.x.ld = 6;
    linear_fwd(be, &bad);
    linear_fwd(be, &good);
    int rc = backend_sync(be, &err);
    assert_int_equal(rc, HEED_EINVAL);
    assert_int_equal(err.code, HEED_EINVAL);
    if (!strstr(err.msg, "linear_fwd: w is [5,4] f32") || !strstr(err.msg, "expected [5,6] f32"))
        fail_msg("unclear message '%s'", err.msg);
    assert_int_equal(is_written(be, &good.y), 0);
    linear_fwd(be, &good);
    ASSERT_OK(backend_sync(be, &err), err);
    assert_int_equal(is_written(be, &good.y), 15);
    ops_release();
    backend_close(be);
}
TEST(failure_is_sticky) {
    sticky("ref");
    sticky("cpu");
}

/* While an error is pending memory operations are no-ops too, and the first error wins. */
TEST(first_failure_wins) {
    struct backend *be = open_device("cpu");
    struct linear_args bad = linear_of(be, 2, 2, 2);
    struct err err = {0};
    float host[4] = {1, 2, 3, 4};
    struct mat m = ops_mat(be, DTYPE_F32, 1, 4, (double[]){5, 6, 7, 8});
    bad.b.cols = 3;
    bad.b.ld = 3;
    linear_fwd(be, &bad);
    topk(be, &(struct topk_args){.value = m, .logits = bad.x});
    backend_upload(be, m.data, host, sizeof host);
    backend_zero(be, m.data, 4);
    backend_fail(be, HEED_EIO, "later");
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINVAL, "linear_fwd: b is [1,3]");
    double *x = ops_values(be, &m);
    for (int i = 0; i < 4; i++) assert_true(x[i] == 5 + i);
    ops_release();
    backend_close(be);
}

/* ---- shapes ---------------------------------------------------------------------------------- */

/* One wrong field per line: what is broken, then a part of the message. */
#define REFUSED(call, part)                                                                        \
    do {                                                                                           \
        struct err err_ = {0};                                                                     \
        call;                                                                                      \
        ASSERT_ERR(backend_sync(be, &err_), err_, HEED_EINVAL, part);                              \
    } while (0)
#define BROKEN(noun, slot, change, part)                                                           \
    do {                                                                                           \
        struct noun##_args a = good;                                                               \
        change;                                                                                    \
        REFUSED(slot(be, &a), part);                                                               \
    } while (0)

TEST(linear_shapes) {
    struct backend *be = open_device("ref");
    struct linear_args good = linear_of(be, 3, 4, 5);
    good.dy = good.y;
    good.dx = good.x;
    good.dw = good.w;
    BROKEN(linear, linear_fwd, a.y.rows = 2, "linear_fwd: y is [2,5]");
    BROKEN(linear, linear_fwd, a.y.ld = 4, "row stride 4");
    BROKEN(linear, linear_fwd, a.w.type = DTYPE_BF16, "linear_fwd: w is [5,4] bf16");
    BROKEN(linear, linear_fwd, a.b.rows = 2, "linear_fwd: b is [2,5]");
    BROKEN(linear, linear_fwd, a.z = a.y, "z must be absent");
    BROKEN(linear, linear_fwd, a.act = ACT_GELU, "linear_fwd: z is [0,0]");
    BROKEN(linear, linear_fwd, a.drop.p = 1, "dropout 1");
    BROKEN(linear, linear_fwd, a.drop.p = -0.1f, "dropout -0.1");
    BROKEN(linear, linear_fwd, a.drop.p = NAN, "dropout");
    BROKEN(linear, linear_bwd, a.dx.cols = 3, "linear_bwd: dx is [3,3]");
    BROKEN(linear, linear_bwd, a.dw = (struct mat){0}, "linear_bwd: dw is [0,0]");
    BROKEN(linear, linear_bwd, (a.act = ACT_RELU, a.y.cols = 0), "linear_bwd: y is");
    BROKEN(linear, linear_bwd, a.x_act = ACT_GELU, "expected a->x_act == ACT_RELU");
    BROKEN(linear, linear_bwd, (a.x_act = ACT_RELU, a.dx = (struct mat){0}), "dx is [0,0]");
    BROKEN(linear, linear_bwd, (a.x_act = ACT_RELU, a.dx_add = 1), "expected !a->dx_add");
    BROKEN(linear, linear_bwd, (a.x_act = ACT_RELU, a.x_p = 1), "dropout 1");
    BROKEN(linear, linear_bwd, a.dx_sum = a.b, "dx_sum must be absent");
    ops_release();
    backend_close(be);
}

TEST(attention_shapes) {
    struct backend *be = open_device("ref");
    struct attention_args good = {.n_head = 2, .scale = 1, .o = ops_mat(be, DTYPE_F32, 3, 4, NULL)};
    good.q = good.k = good.v = good.o;
    good.lse = ops_mat(be, DTYPE_F32, 2, 3, NULL);
    good.rq = good.rk = (struct rows){ops_ints(be, (int32_t[]){0, 3}, 2), 1, 3, 3};
    BROKEN(attention, attention_fwd, a.n_head = 3, "attention_fwd: expected a->q.cols % a->n_head");
    BROKEN(attention, attention_fwd, a.n_head = 0, "n_head >= 1");
    BROKEN(attention, attention_fwd, a.window = -1, "window");
    BROKEN(attention, attention_fwd, a.lse.rows = 1, "lse is [1,3]");
    BROKEN(attention, attention_fwd, a.k.rows = 2, "v is [3,4]");
    BROKEN(attention, attention_fwd, a.rq.n_tok = 4, "offsets");
    BROKEN(attention, attention_fwd, a.rk.max_len = 0, "offsets");
    BROKEN(attention, attention_fwd, a.rk.n_seq = 2, "n_seq");
    BROKEN(attention, attention_fwd, a.probs = a.o, "probs is [3,4]");
    BROKEN(attention, attention_bwd, a.dout = a.o, "dq is [0,0]");
    BROKEN(attention, attention_fwd, a.q.type = DTYPE_COUNT, "activations must be");
    ops_release();
    backend_close(be);
}

TEST(other_shapes) {
    struct backend *be = open_device("cpu");
    struct mat x = ops_mat(be, DTYPE_F32, 2, 3, NULL), none = {0}, wide = x;
    wide.type = DTYPE_F64;
    REFUSED(linear_fwd(be, &(struct linear_args){.x = wide, .w = wide, .y = wide}),
            "f64 on ref only");
    REFUSED(embed_fwd(be, &(struct embed_args){.y = x, .table = x, .pos_table = none}),
            "embed_fwd: pos_table is [0,0]");
    REFUSED(embed_bwd(be, &(struct embed_args){.dy = x, .dtable = none}), "embed_bwd: dtable is");
    struct add_norm_args norm = {.x = x, .y = x, .gamma = x, .beta = x, .eps = 1};
    REFUSED(add_norm_fwd(be, &norm), "add_norm_fwd: gamma is [2,3]");
    norm.gamma.rows = norm.beta.rows = 1;
    norm.stats = (struct mat){.data = x.data, .ld = 2, .rows = 2, .cols = 2};
    norm.r = x;
    REFUSED(add_norm_fwd(be, &norm), "add_norm_fwd: r must be absent");
    struct xent_args loss = {.x = x, .w = x, .smoothing = 1};
    REFUSED(xent(be, &loss), "xent: expected a->smoothing");
    loss.smoothing = 0;
    REFUSED(xent(be, &loss), "xent: totals is [0,0]");
    struct mat value = {.data = x.data, .ld = 4, .rows = 2, .cols = 4};
    REFUSED(topk(be, &(struct topk_args){.logits = x, .value = value}), "topk: k is not in");
    REFUSED(sumsq(be, &(struct sumsq_args){.x = x, .out = x}), "sumsq: out is [2,3]");
    REFUSED(sum(be, &(struct sum_args){.x = x, .out = x}), "sum: out is [2,3]");
    struct mat row = {.data = x.data, .ld = 3, .rows = 1, .cols = 3};
    struct adam_args adam_bad = {.p = row, .g = row, .m = row, .v = row};
    REFUSED(adam(be, &adam_bad), "adam: expected a->t >= 1");
    adam_bad.t = 1;
    adam_bad.clip = 1;
    REFUSED(adam(be, &adam_bad), "adam: sumsq is");
    adam_bad.clip = 0;
    adam_bad.avg_weight = 1.5f;
    REFUSED(adam(be, &adam_bad), "adam: expected a->avg_weight >= 0 && a->avg_weight <= 1");
    adam_bad.avg_weight = 0;
    adam_bad.avg = row;
    adam_bad.avg.type = DTYPE_BF16;
    REFUSED(adam(be, &adam_bad), "adam: avg is");
    REFUSED(backend_cast(be, &x, &row), "cast: src is [1,3]");
    ops_release();
    backend_close(be);
}

/* ---- planning -------------------------------------------------------------------------------- */

/* Planning needs no memory at all: addresses may be NULL, nothing is written, sizes are
 * recorded. */
TEST(planning_touches_nothing) {
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct backend *be = open_device(devices[d]);
        struct linear_args real = linear_of(be, 9, 8, 7);
        struct mat byte = ops_mat(be, DTYPE_F32, 1, 1, (double[]){5});
        float zero = 0;
        op_check_sync(be, "before");
        backend_plan(be);
        linear_fwd(be, &real);
        backend_upload(be, byte.data, &zero, sizeof zero);
        backend_zero(be, byte.data, sizeof zero);
        for (int n = 0; n < op_case_count; n++) { /* every op, on the shapes of the table */
            struct op_test *test = op_open(be, &op_cases[n], DTYPE_F32);
            for (int i = 0; i < test->n; i++) test->t[i].m.data = NULL;
            op_forward(test);
            op_backward(test);
            op_close(test);
        }
        struct err err = {0};
        size_t need = backend_workspace(be);
        assert_true(d == 0 || need > 0);
        ASSERT_OK(backend_commit(be, &err), err);
        assert_int_equal(is_written(be, &real.y), 0);
        assert_true(*ops_values(be, &byte) == 5);
        assert_int_equal(backend_workspace(be), need);
        ops_release();
        backend_close(be);
    }
}

/* A case runs in a workspace planned for exactly that case, and allocates nothing. */
TEST(planned_is_enough) {
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++)
        for (int n = 0; n < op_case_count; n++) {
            struct backend *be = open_device("cpu");
            struct op_test *test = op_open(be, &op_cases[n], (enum dtype)type);
            struct err err = {0};
            backend_plan(be);
            op_forward(test);
            op_backward(test);
            ASSERT_OK(backend_commit(be, &err), err);
            uint64_t before = mem_count();
            op_forward(test);
            op_backward(test);
            uint64_t after = mem_count();
            ASSERT_OK(backend_sync(be, &err), err);
            if (after != before)
                fail_msg("%s '%s' allocated inside an op", op_cases[n].op, op_cases[n].name);
            op_close(test);
            backend_close(be);
        }
}

TEST(more_than_planned_is_an_error) {
    struct backend *be = open_device("cpu");
    struct linear_args small = linear_of(be, 2, 8, 8), large = linear_of(be, 700, 300, 500);
    struct err err = {0};
    backend_plan(be);
    linear_fwd(be, &small);
    ASSERT_OK(backend_commit(be, &err), err);
    linear_fwd(be, &small);
    ASSERT_OK(backend_sync(be, &err), err);
    linear_fwd(be, &large);
    ASSERT_ERR(backend_sync(be, &err), err, HEED_EINTERNAL, "workspace");
    assert_int_equal(is_written(be, &large.y), 0);
    linear_fwd(be, &small);
    ASSERT_OK(backend_sync(be, &err), err);
    ops_release();
    backend_close(be);
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST(memory) {
    static const char *const devices[] = {"ref", "cpu"};
    for (int d = 0; d < 2; d++) {
        struct backend *be = open_device(devices[d]);
        struct err err = {0};
        assert_null(backend_alloc(be, SIZE_MAX / 2 + 1, &err));
        assert_int_equal(err.code, HEED_ENOMEM);
        void *p = backend_alloc(be, 100, &err);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % MEM_ALIGN, 0);
        backend_free(be, p);
        backend_free(be, NULL);
        double x[6] = {1, -2, 3.0000001, 1e-30, 65504.5, -0.0};
        struct mat f32 = ops_mat(be, DTYPE_F32, 2, 3, x),
                   bf16 = ops_mat(be, DTYPE_BF16, 2, 3, NULL);
        struct mat back = ops_mat(be, DTYPE_F32, 2, 3, NULL);
        backend_cast(be, &bf16, &f32);
        backend_cast(be, &back, &bf16);
        ASSERT_OK(backend_sync(be, &err), err);
        double *got = ops_values(be, &back);
        for (int i = 0; i < 6; i++) assert_true(got[i] == bf16_load(bf16_store((float)x[i])));
        ops_release();
        backend_close(be);
    }
}

TEST(profile_counts) {
    struct backend *be = open_device("cpu");
    struct linear_args a = linear_of(be, 3, 4, 5);
    linear_fwd(be, &a);
    assert_int_equal(backend_cost(be, OP_linear_fwd)->calls, 0);
    backend_profile(be, 1);
    linear_fwd(be, &a);
    linear_fwd(be, &a);
    assert_int_equal(backend_cost(be, OP_linear_fwd)->calls, 2);
    assert_true(backend_cost(be, OP_linear_fwd)->flops == 2 * 2.0 * 3 * 4 * 5);
    backend_profile(be, 1);
    assert_int_equal(backend_cost(be, OP_linear_fwd)->calls, 0);
    assert_string_equal(op_name(OP_linear_fwd), "linear_fwd");
    ops_release();
    backend_close(be);
}

TESTS(T(opens), T(failure_is_sticky), T(first_failure_wins), T(linear_shapes), T(attention_shapes),
      T(other_shapes), T(planning_touches_nothing), T(planned_is_enough),
      T(more_than_planned_is_an_error), T(memory), T(profile_counts))
