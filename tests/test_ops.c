/* test_ops.c — the table of op cases in four ways.
 *
 * grad: on ref in f64, every analytic gradient against central differences of the forward op. This
 * makes
 *     ref a trustworthy judge.
 * compare: the cpu backend, every usable instruction set, f32 and bf16, against ref on the same
 * bits; and
 *     the same bits with one thread and with two. The same for a GPU, where there is one: two runs,
 *     same bits.
 * batch: on the cpu, a packed batch gives bit for bit what its sentences give one at a time.
 * propagate: a NaN that reaches ref's results reaches the cpu's: a training run gone wrong is
 * seen. */
#include "base/mem.h"
#include "ops.h"

static const enum dtype act_types[] = {DTYPE_F32, DTYPE_BF16};

/* ---- grad ------------------------------------------------------------------------------------ */

/* The scalar whose gradient the backward op computes, from the state after a forward op. */
static double loss_of(const struct op_test *test) {
    struct op_image after;
    double loss = 0;
    op_save((struct op_test *)test, &after);
    for (int n = 0; n < test->n_loss; n++) {
        struct op_pair p = test->loss[n];
        const struct tensor *y = &test->t[p.value];
        if (p.grad < 0) {
            loss += OPS_GRAD_SCALE * tensor_get(y, after.t[p.value], 0, 0);
            continue;
        }
        for (int i = 0; i < y->m.rows; i++)
            for (int j = 0; j < y->m.cols; j++)
                loss += tensor_get(y, after.t[p.value], i, j) *
                        tensor_get(&test->t[p.grad], test->t[p.grad].init, i, j);
    }
    op_image_free(&after);
    return loss;
}

static double loss_at(struct op_test *test, int value, int i, int j, double x) {
    const struct tensor *t = &test->t[value];
    double was = tensor_get(t, t->init, i, j);
    tensor_put(t, t->init, i, j, x);
    op_reset(test);
    op_forward(test);
    double loss = loss_of(test);
    tensor_put(t, t->init, i, j, was);
    return loss;
}

static void check_gradient(struct op_test *test, struct op_pair p, const struct op_image *after) {
    const struct tensor *x = &test->t[p.value], *dx = &test->t[p.grad];
    double max = 0;
    for (int pass = 0; pass < 2; pass++) /* first the magnitude, then the comparison */
        for (int i = 0; i < x->m.rows; i++)
            for (int j = 0; j < x->m.cols; j++) {
                double got = tensor_get(dx, after->t[p.grad], i, j), h = 1e-5;
                if (dx->role == ROLE_ACC) got -= tensor_get(dx, dx->init, i, j);
                max = fmax(max, fabs(got));
                if (!pass) continue;
                double at = tensor_get(x, x->init, i, j);
                double want =
                    (loss_at(test, p.value, i, j, at + h) - loss_at(test, p.value, i, j, at - h)) /
                    (2 * h);
                if (!(fabs(got - want) <= 1e-7 * (1 + max)))
                    fail_msg("%s '%s': %s[%d,%d] = %.12g, differences say %.12g", test->c->op,
                             test->c->name, dx->name, i, j, got, want);
            }
}

TEST(grad) {
    struct backend *ref = ops_ref_open();
    int checked = 0;
    for (int n = 0; n < op_case_count; n++) {
        const struct op_case *c = &op_cases[n];
        if (strcmp(c->op, TEST_ARG) != 0 || c->large) continue;
        struct op_test *test = op_open(ref, c, DTYPE_F64);
        struct op_image after;
        op_forward(test);
        op_backward(test);
        op_check_sync(ref, c->name);
        op_save(test, &after);
        for (int p = 0; p < test->n_grad; p++, checked++)
            check_gradient(test, test->grad[p], &after);
        op_image_free(&after);
        op_close(test);
    }
    assert_true(checked >= 5);
    backend_close(ref);
}

/* ---- compare --------------------------------------------------------------------------------- */

/* Everything an op should write it did write: no NaN is left after both passes. */
static void check_written(const struct op_test *test, const struct op_image *image) {
    for (int n = 0; n < test->n; n++)
        for (int i = 0; i < test->t[n].m.rows; i++)
            for (int j = 0; j < test->t[n].m.cols; j++)
                if (isnan(tensor_get(&test->t[n], image->t[n], i, j)))
                    fail_msg("%s '%s': ref left %s[%d,%d] NaN", test->c->op, test->c->name,
                             test->t[n].name, i, j);
}

struct passes {
    struct op_image fwd, bwd;
};

/* Forward; then backward from ref's forward results, where there are some, so that differences of
 * the forward pass do not blur those of the backward pass. */
static struct passes run_passes(struct op_test *test, const struct passes *ref, const char *what) {
    struct passes p;
    op_forward(test);
    op_check_sync(test->be, what);
    op_save(test, &p.fwd);
    if (ref) op_load(test, &ref->fwd);
    op_backward(test);
    op_check_sync(test->be, what);
    op_save(test, &p.bwd);
    return p;
}

static void passes_free(struct passes *p) {
    op_image_free(&p->fwd);
    op_image_free(&p->bwd);
}

static void compare_case(const struct ops_backend *list, struct backend *ref,
                         const struct op_case *c, enum dtype type) {
    struct op_test *judge = op_open(ref, c, type);
    struct passes want = run_passes(judge, NULL, c->name), one_thread = {0};
    check_written(judge, &want.bwd);
    for (int n = 0; list[n].be; n++) {
        struct op_test *test = op_open(list[n].be, c, type);
        struct passes got = run_passes(test, &want, list[n].text);
        op_check_near(test, &got.fwd, &want.fwd, list[n].text);
        op_check_near(test, &got.bwd, &want.bwd, list[n].text);
        if (n % 2) {
            op_check_same(test, &got.fwd, &one_thread.fwd, list[n].text);
            op_check_same(test, &got.bwd, &one_thread.bwd, list[n].text);
        }
        passes_free(&one_thread);
        one_thread = got;
        op_close(test);
    }
    passes_free(&one_thread);
    passes_free(&want);
    op_close(judge);
}

/* `more`: a case beside those of the table, or NULL. */
static void compare_all(struct ops_backend *list, const char *op, const struct op_case *more) {
    struct backend *ref = ops_ref_open();
    int checked = 0;
    for (int n = 0; n < op_case_count + !!more; n++) {
        const struct op_case *c = n < op_case_count ? &op_cases[n] : more;
        for (int type = 0; type < 2; type++)
            if (strcmp(c->op, op) == 0 && ++checked) compare_case(list, ref, c, act_types[type]);
    }
    assert_true(checked >= 5);
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(compare) { compare_all(ops_cpu_open(), TEST_ARG, NULL); }
TEST(compare_cuda) {
    /* Work for most of a GPU's multiprocessors, without which it takes other kernels. */
    static const struct op_case wide = {
        "linear",  "through relu, many pieces", {300, 1, 799}, .d = 1992, .d_out = 24,
        .p = 0.1f, .flags = BIAS | X_RELU,      .large = 1};
    compare_all(ops_cuda_open(), TEST_ARG, &wide);
}

/* ---- batch ----------------------------------------------------------------------------------- */

/* Tensors that do not count tokens are sums over the batch, or inputs: not compared. */
static void check_batch(const struct op_test *test, struct op_image *whole, struct op_image *parts,
                        const char *what) {
    for (int n = 0; n < test->n; n++)
        if (test->t[n].axis == AXIS_NONE) memcpy(parts->t[n], whole->t[n], test->t[n].size);
    op_check_same(test, parts, whole, what);
}

static void batch_case(const struct ops_backend *on, const struct op_case *c, enum dtype type) {
    struct op_test *test = op_open(on->be, c, type);
    struct passes whole = run_passes(test, NULL, on->text), parts;
    op_reset(test);
    for (int s = 0; s < test->n_seq; s++) {
        op_bind(test, s, s + 1);
        op_forward(test);
    }
    op_save(test, &parts.fwd);
    for (int s = 0; s < test->n_seq; s++) {
        op_bind(test, s, s + 1);
        op_backward(test);
    }
    op_check_sync(on->be, on->text);
    op_save(test, &parts.bwd);
    check_batch(test, &whole.fwd, &parts.fwd, on->text);
    check_batch(test, &whole.bwd, &parts.bwd, on->text);
    passes_free(&whole);
    passes_free(&parts);
    op_close(test);
}

TEST(batch) {
    struct ops_backend *list = ops_cpu_open();
    for (int n = 0; n < op_case_count; n++) {
        struct op_case c = op_cases[n];
        if (strcmp(c.op, TEST_ARG) != 0) continue;
        c.p = 0; /* the dropout mask depends on the row of the batch */
        for (int i = 0; list[i].be; i++)
            for (int type = 0; type < 2; type++) batch_case(&list[i], &c, act_types[type]);
    }
    ops_cpu_close(list);
}

/* ---- propagate ------------------------------------------------------------------------------- */

/* Does a NaN in element [0,0] of an input show in what the forward op writes? */
static int nan_shows(struct backend *be, const struct op_case *c, int input) {
    struct op_test *test = op_open(be, c, DTYPE_F32);
    struct op_image after;
    int shows = 0;
    tensor_put(&test->t[input], test->t[input].init, 0, 0, NAN);
    op_reset(test);
    op_forward(test);
    op_check_sync(be, c->name);
    op_save(test, &after);
    for (int n = 0; n < test->n; n++) {
        const struct tensor *t = &test->t[n];
        if (t->role == ROLE_IN || t->name[0] == 'd') continue; /* gradients are NaN already */
        for (int i = 0; i < t->m.rows; i++)
            for (int j = 0; j < t->m.cols; j++) shows |= isnan(tensor_get(t, after.t[n], i, j));
    }
    op_image_free(&after);
    op_close(test);
    return shows;
}

static int nan_case(const struct ops_backend *list, struct backend *ref, const struct op_case *c) {
    struct op_test *shape = op_open(ref, c, DTYPE_F32);
    int shown = 0;
    for (int n = 0; n < shape->n; n++) {
        if (shape->t[n].role != ROLE_IN || shape->t[n].name[0] == 'd') continue;
        if (!nan_shows(ref, c, n)) continue;
        for (int i = 0; list[i].be; i++)
            if (!nan_shows(list[i].be, c, n))
                fail_msg("%s '%s', %s: a NaN in %s is swallowed", c->op, c->name, list[i].text,
                         shape->t[n].name);
        shown++;
    }
    op_close(shape);
    return shown;
}

static void propagate_all(struct ops_backend *list, const char *op) {
    struct backend *ref = ops_ref_open();
    int shown = 0;
    for (int n = 0; n < op_case_count; n++) {
        struct op_case c = op_cases[n];
        c.p = 0;
        if (strcmp(c.op, op) == 0 && !c.large) shown += nan_case(list, ref, &c);
    }
    assert_true(shown >= 5);
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(propagate) { propagate_all(ops_cpu_open(), TEST_ARG); }
TEST(propagate_cuda) { propagate_all(ops_cuda_open(), TEST_ARG); }

TESTS(TP(grad, "embed"), TP(grad, "linear"), TP(grad, "attention"), TP(grad, "add_norm"),
      TP(grad, "xent"), TP(grad, "guide"), TP(grad, "ssru"), TP(compare, "embed"),
      TP(compare, "linear"), TP(compare, "attention"), TP(compare, "add_norm"), TP(compare, "xent"),
      TP(compare, "guide"), TP(compare, "ssru"), TP(batch, "embed"), TP(batch, "linear"),
      TP(batch, "attention"), TP(batch, "add_norm"), TP(batch, "xent"), TP(batch, "guide"),
      TP(batch, "ssru"), TP(propagate, "embed"), TP(propagate, "linear"),
      TP(propagate, "attention"), TP(propagate, "add_norm"), TP(propagate, "xent"),
      TP(propagate, "guide"), TP(propagate, "ssru"), TP(compare_cuda, "embed"),
      TP(compare_cuda, "linear"), TP(compare_cuda, "attention"), TP(compare_cuda, "add_norm"),
      TP(compare_cuda, "xent"), TP(compare_cuda, "guide"), TP(compare_cuda, "ssru"),
      TP(propagate_cuda, "embed"), TP(propagate_cuda, "linear"), TP(propagate_cuda, "attention"),
      TP(propagate_cuda, "add_norm"), TP(propagate_cuda, "xent"), TP(propagate_cuda, "guide"),
      TP(propagate_cuda, "ssru"))
