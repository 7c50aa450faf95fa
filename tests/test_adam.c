/* test_adam.c — the optimizer against a plain loop in double, the sum of squares, and the tree in
 * which gradients are added. */
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "ops.h"
#include "train/shards.h"

enum { STEPS = 20 };

struct settings {
    float lr, clip;
    int clear, copy;
    float avg; /* weight in the average; 0: there is none */
};

/* Kingma & Ba's Algorithm 1 for one parameter, gradients given. */
static void adam_by_hand(double *p, double *m, double *v, double g, double lr, int t) {
    const double b1 = 0.9f, b2 = 0.98f;
    *m = b1 * *m + (1 - b1) * g;
    *v = b2 * *v + (1 - b2) * g * g;
    double m_hat = *m / (1 - pow(b1, t)), v_hat = *v / (1 - pow(b2, t));
    *p -= lr * m_hat / (sqrt(v_hat) + (double)1e-9f);
}

static double *normals(int n, uint64_t key, double scale) {
    struct rng rng = {.key = key};
    double *x = xmalloc((size_t)n * sizeof *x);
    for (int i = 0; i < n; i++) x[i] = (double)(float)(scale * rng_normal(&rng));
    return x;
}

static void check_copy(struct backend *be, const struct adam_args *a) {
    double *copy = ops_values(be, &a->copy), *p = ops_values(be, &a->p);
    for (int i = 0; i < a->p.cols; i++) {
        double want = bf16_load(bf16_store((float)p[i]));
        if (copy[i] != want) fail_msg("copy[%d] = %.9g, want %.9g", i, copy[i], want);
    }
}

static void adam_steps(struct backend *be, enum dtype type, int n, struct settings set,
                       const char *what) {
    double *p = normals(n, 1, 1), *m = xcalloc((size_t)n, sizeof *m);
    double *v = xcalloc((size_t)n, sizeof *v), *avg = normals(n, 2, 1);
    struct adam_args a = {.lr = set.lr, .beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-9f};
    a.p = ops_mat(be, type, 1, n, p);
    a.m = ops_mat(be, type, 1, n, m);
    a.v = ops_mat(be, type, 1, n, v);
    if (set.copy) a.copy = ops_mat(be, DTYPE_BF16, 1, n, NULL);
    if (set.avg > 0) a.avg = ops_mat(be, type, 1, n, avg);
    a.avg_weight = set.avg;
    a.clip = set.clip;
    a.clear = set.clear;
    for (a.t = 1; a.t <= STEPS; a.t++) {
        double *g = normals(n, 100 + (uint64_t)a.t, 0.1), norm = 0;
        a.g = ops_mat(be, type, 1, n, g);
        for (int i = 0; i < n; i++) norm += g[i] * g[i];
        a.sumsq = ops_mat(be, DTYPE_F64, 1, 1, &norm);
        adam(be, &a);
        op_check_sync(be, what);
        double c = set.clip > 0 ? fmin(1, set.clip / sqrt(norm)) : 1;
        for (int i = 0; i < n; i++) adam_by_hand(&p[i], &m[i], &v[i], c * g[i], set.lr, (int)a.t);
        for (int i = 0; i < n; i++) avg[i] = set.avg * p[i] + (1 - (double)set.avg) * avg[i];
        double *left = ops_values(be, &a.g);
        for (int i = 0; i < n; i++) assert_true(left[i] == (set.clear ? 0 : g[i]));
        if (set.copy) check_copy(be, &a);
        xfree(g);
    }
    ops_check_near(DTYPE_F32, ops_values(be, &a.p), p, 1, n, what);
    ops_check_near(DTYPE_F32, ops_values(be, &a.m), m, 1, n, what);
    ops_check_near(DTYPE_F32, ops_values(be, &a.v), v, 1, n, what);
    if (set.avg > 0) ops_check_near(DTYPE_F32, ops_values(be, &a.avg), avg, 1, n, what);
    ops_release();
    xfree(p);
    xfree(m);
    xfree(v);
    xfree(avg);
}

static const struct settings variants[] = {
    {.lr = 1e-2f},
    {.lr = 1e-2f, .clip = 0.05f, .clear = 1},
    {.lr = 1e-3f, .clip = 1e6f, .copy = 1},
    {.lr = 1e-2f, .clear = 1, .copy = 1},
    {.lr = 1e-2f, .clear = 1, .copy = 1, .avg = 0.1f},
    {.lr = 1e-2f, .clip = 0.05f, .avg = 1},
};
static const int sizes[] = {1, 7, 16, 1003, 40001};

TEST(adam_on_ref) {
    struct backend *ref = ops_ref_open();
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
        adam_steps(ref, DTYPE_F32, 7, variants[i], "ref f32");
        adam_steps(ref, DTYPE_F64, 7, variants[i], "ref f64");
    }
    backend_close(ref);
}

static void adam_on_all(struct ops_backend *list) {
    for (int b = 0; list[b].be; b++)
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
            for (size_t n = 0; n < sizeof sizes / sizeof *sizes; n++)
                if (sizes[n] < 10000 || i == 0 ||
                    i == 4) /* one long run is enough, and one with an average */
                    adam_steps(list[b].be, DTYPE_F32, sizes[n], variants[i], list[b].text);
    ops_cpu_close(list);
}

TEST(adam_on_cpu) { adam_on_all(ops_cpu_open()); }
TEST(adam_on_cuda) { adam_on_all(ops_cuda_open()); }

/* A zero gradient must not move a parameter, nor divide zero by zero, with clipping on. */
static void zero_gradient(struct backend *be) {
    double one[3] = {1, 2, 3}, zero[3] = {0};
    struct adam_args a = {.lr = 1, .beta1 = 0.9f, .beta2 = 0.98f, .eps = 1e-9f, .clip = 1, .t = 1};
    a.p = ops_mat(be, DTYPE_F32, 1, 3, one);
    a.g = ops_mat(be, DTYPE_F32, 1, 3, zero);
    a.m = ops_mat(be, DTYPE_F32, 1, 3, zero);
    a.v = ops_mat(be, DTYPE_F32, 1, 3, zero);
    a.sumsq = ops_mat(be, DTYPE_F64, 1, 1, zero);
    adam(be, &a);
    op_check_sync(be, "zero gradient");
    double *p = ops_values(be, &a.p);
    for (int i = 0; i < 3; i++) assert_true(p[i] == one[i]);
    ops_release();
}

static void zero_gradient_on_all(struct ops_backend *list) {
    struct backend *ref = ops_ref_open();
    zero_gradient(ref);
    for (int b = 0; list[b].be; b++) zero_gradient(list[b].be);
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(adam_zero_gradient) { zero_gradient_on_all(ops_cpu_open()); }
TEST(adam_zero_gradient_cuda) { zero_gradient_on_all(ops_cuda_open()); }

/* The sums of [rows, cols], added to 3, in order. xfree. */
static double *run_sumsq(struct backend *be, enum dtype type, int rows, int cols) {
    size_t n = (size_t)rows * (size_t)ceil_div(cols, SUMSQ_RANGE);
    double *out = xmalloc(n * sizeof *out);
    for (size_t i = 0; i < n; i++) out[i] = 3;
    struct sumsq_args a = {.x = ops_random(be, type, rows, cols, 4)};
    a.out = ops_mat(be, DTYPE_F64, rows, ceil_div(cols, SUMSQ_RANGE), out);
    sumsq(be, &a);
    op_check_sync(be, "sumsq");
    memcpy(out, ops_values(be, &a.out), n * sizeof *out);
    ops_release();
    return out;
}

/* A range has the same bits wherever it begins and whatever is behind it. */
static void check_range(struct backend *be, const char *what) {
    enum { N = 3 * SUMSQ_RANGE + 100 };
    double zero[4] = {0};
    struct sumsq_args all = {.x = ops_random(be, DTYPE_F32, 1, N, 4)}, one = {.x = all.x};
    all.out = ops_mat(be, DTYPE_F64, 1, 4, zero);
    one.out = ops_mat(be, DTYPE_F64, 1, 1, zero);
    one.x.data = (float *)all.x.data + (ptrdiff_t)2 * SUMSQ_RANGE;
    one.x.cols = SUMSQ_RANGE;
    sumsq(be, &all);
    sumsq(be, &one);
    op_check_sync(be, what);
    assert_true(*ops_values(be, &one.out) == ops_values(be, &all.out)[2]);
    ops_release();
}

static void sumsq_on_all(struct ops_backend *list) {
    static const int shape[][2] = {{1, 1}, {3, 7}, {1, 100003}, {41, 129}};
    struct backend *ref = ops_ref_open();
    double ones[6] = {1, 1, 2, 2, 1, 1}, start[2] = {0.5, 1};
    struct sumsq_args a = {.x = ops_mat(ref, DTYPE_F32, 2, 3, ones)};
    a.out = ops_mat(ref, DTYPE_F64, 2, 1, start);
    sumsq(ref, &a);
    assert_true(ops_values(ref, &a.out)[0] == 6.5 && ops_values(ref, &a.out)[1] == 7);
    for (size_t n = 0; n < sizeof shape / sizeof *shape; n++)
        for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
            int rows = shape[n][0], cols = shape[n][1], count = rows * ceil_div(cols, SUMSQ_RANGE);
            double *want = run_sumsq(ref, (enum dtype)type, rows, cols), *before = NULL;
            for (int b = 0; list[b].be; b++) {
                double *got = run_sumsq(list[b].be, (enum dtype)type, rows, cols);
                for (int i = 0; i < count; i++) ASSERT_NEAR(got[i], want[i], 1e-6 * want[i]);
                if (b % 2) assert_memory_equal(got, before, (size_t)count * sizeof *got);
                xfree(before);
                before = got;
            }
            xfree(before);
            xfree(want);
        }
    check_range(ref, "ref");
    for (int b = 0; list[b].be; b++) check_range(list[b].be, list[b].text);
    ops_release();
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(sumsq_adds_in_fixed_order) { sumsq_on_all(ops_cpu_open()); }
TEST(sumsq_adds_in_fixed_order_cuda) { sumsq_on_all(ops_cuda_open()); }

/* ---- tree ------------------------------------------------------------------------------------ */

/* The tree as its definition has it, in f32. */
static float tree(const double *x, int ld, int k) {
    if (k == 1) return (float)*x;
    int p = 1;
    while (2 * p < k) p *= 2;
    return tree(x, ld, p) + tree(x + (ptrdiff_t)p * ld, ld, k - p);
}

static struct mat part_rows(const struct mat *x, int first, int n, int skip) {
    struct mat part = *x;
    part.data = (float *)mat_row(x, first) + skip;
    part.rows = n;
    part.cols -= skip;
    return part;
}

/* All at once, and in `parts` equal parts whose sums, put in their first rows, are added then; from
 * column `skip` on, so that nothing is aligned. */
static void check_tree(struct backend *be, int k, int parts, int n, const char *what) {
    int skip = parts % 2, own = k / parts;
    struct mat x = ops_random(be, DTYPE_F32, k, n, 7), out = ops_mat(be, DTYPE_F32, 1, n, NULL);
    double *in = ops_values(be, &x);
    out = part_rows(&out, 0, 1, skip);
    sum(be, &(struct sum_args){.out = out, .x = part_rows(&x, 0, k, skip)});
    double *whole = ops_values(be, &out);
    for (int i = 0; i < parts; i++)
        sum(be, &(struct sum_args){.out = part_rows(&x, i * own, 1, skip),
                                   .x = part_rows(&x, i * own, own, skip)});
    struct mat tops = part_rows(&x, 0, parts, skip);
    tops.ld *= own;
    sum(be, &(struct sum_args){.out = part_rows(&x, 0, 1, skip), .x = tops});
    op_check_sync(be, what);
    struct mat first = part_rows(&x, 0, 1, skip);
    double *twice = ops_values(be, &first);
    for (int j = 0; j < n - skip; j++) {
        double want = tree(in + skip + j, n, k);
        if (whole[j] != want || twice[j] != want)
            fail_msg("%s: %d rows, column %d: %.9g, in %d parts %.9g, want %.9g", what, k, j,
                     whole[j], parts, twice[j], want);
    }
    ops_release();
}

static void tree_on_all(struct ops_backend *list) {
    struct backend *ref = ops_ref_open();
    for (int k = 1; k <= 24; k++)
        for (int parts = 1; parts <= k; parts++) {
            if (!shards_valid(k, parts)) continue;
            check_tree(ref, k, parts, 19, "ref");
            for (int b = 0; list[b].be; b++) check_tree(list[b].be, k, parts, 203, list[b].text);
        }
    for (int b = 0; list[b].be; b++) {
        check_tree(list[b].be, 8, 2, 70000, list[b].text);
        check_tree(list[b].be, SUM_MOST, 1, 9, list[b].text);
    }
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(sum_is_a_tree) { tree_on_all(ops_cpu_open()); }
TEST(sum_is_a_tree_cuda) { tree_on_all(ops_cuda_open()); }

TESTS(T(adam_on_ref), T(adam_on_cpu), T(adam_on_cuda), T(adam_zero_gradient),
      T(adam_zero_gradient_cuda), T(sumsq_adds_in_fixed_order), T(sumsq_adds_in_fixed_order_cuda),
      T(sum_is_a_tree), T(sum_is_a_tree_cuda))
