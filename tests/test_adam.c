/* test_adam.c — the optimizer against a plain loop in double, and the sum of squares. */
#include "base/mem.h"
#include "base/rng.h"
#include "ops.h"

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
    double *p = normals(n, 1, 1), *m = xcalloc((size_t)n, sizeof *m), zero[1] = {0};
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
        a.sumsq = ops_mat(be, DTYPE_F64, 1, 1, zero);
        sumsq(be, &(struct sumsq_args){.out = a.sumsq, .x = a.g});
        adam(be, &a);
        op_check_sync(be, what);
        for (int i = 0; i < n; i++) norm += g[i] * g[i];
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

static double run_sumsq(struct backend *be, enum dtype type, int rows, int cols) {
    double start[1] = {3};
    struct sumsq_args a = {.x = ops_random(be, type, rows, cols, 4)};
    a.out = ops_mat(be, DTYPE_F64, 1, 1, start);
    sumsq(be, &a);
    op_check_sync(be, "sumsq");
    double got = *ops_values(be, &a.out);
    ops_release();
    return got;
}

static void sumsq_on_all(struct ops_backend *list) {
    static const int shape[][2] = {{1, 1}, {3, 7}, {1, 100003}, {41, 129}};
    struct backend *ref = ops_ref_open();
    double ones[6] = {1, 1, 2, 2, 1, 1}, start[1] = {0.5};
    struct sumsq_args a = {.x = ops_mat(ref, DTYPE_F32, 2, 3, ones)};
    a.out = ops_mat(ref, DTYPE_F64, 1, 1, start);
    sumsq(ref, &a);
    assert_true(*ops_values(ref, &a.out) == 12.5);
    for (size_t n = 0; n < sizeof shape / sizeof *shape; n++)
        for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
            double want = run_sumsq(ref, (enum dtype)type, shape[n][0], shape[n][1]), before = 0;
            for (int b = 0; list[b].be; b++) {
                double got = run_sumsq(list[b].be, (enum dtype)type, shape[n][0], shape[n][1]);
                ASSERT_NEAR(got, want, 1e-6 * want);
                if (b % 2) assert_true(got == before);
                before = got;
            }
        }
    ops_release();
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(sumsq_adds_in_fixed_order) { sumsq_on_all(ops_cpu_open()); }
TEST(sumsq_adds_in_fixed_order_cuda) { sumsq_on_all(ops_cuda_open()); }

TESTS(T(adam_on_ref), T(adam_on_cpu), T(adam_on_cuda), T(adam_zero_gradient),
      T(adam_zero_gradient_cuda), T(sumsq_adds_in_fixed_order), T(sumsq_adds_in_fixed_order_cuda))
