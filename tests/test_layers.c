/* test_layers.c — the layers of `heed bench layers` (bench/layer.h) beside plain loops over the
 * formulas, what is counted of them, and the fit of exponents (bench/fit.h). */
#include "base/mem.h"
#include "bench/fit.h"
#include "bench/layer.h"
#include "gpu.h"
#include "test.h"

enum { N = 11, D = 64, REACH = 3 };

/* ---- the fit --------------------------------------------------------------------------------- */

TEST(fits_powers) {
    double x[8], y[8];
    for (int i = 0; i < 8; i++) x[i] = 16 << i, y[i] = 3e-6 * pow(x[i], 1.7);
    struct fit fit = fit_power(x, y, 8);
    assert_int_equal(fit.n, 8);
    assert_float_equal(fit.exponent, 1.7, 1e-9);
    assert_float_equal(fit.factor, 3e-6, 1e-12);
    /* noise above and below: least squares of a hand computation, log2 y = 0, 1, 1, 2 at 0 1 2 3 */
    const double two[] = {1, 2, 4, 8}, noisy[] = {1, 2, 2, 4};
    assert_float_equal(fit_power(two, noisy, 4).exponent, 0.6, 1e-12);
    assert_int_equal(fit_power(x, y, 2).n, 0);
    struct fit_line line = fit_line(two, noisy, 4); /* by hand: means 3.75, 2.25; 11.25 / 28.75 */
    assert_float_equal(line.slope, 11.25 / 28.75, 1e-12);
    assert_float_equal(line.at_zero, 2.25 - 3.75 * 11.25 / 28.75, 1e-12);
    assert_float_equal(fit_line(two, noisy, 1).at_zero, 1, 1e-12);
}

TEST(leaves_fixed_cost_out) {
    const double y[] = {5, 5.1, 6, 49, 60, 100}, late[] = {5, 80, 6, 51, 60};
    assert_int_equal(fit_begin(y, 6, 10), 4);
    assert_int_equal(fit_begin(late, 5, 10), 3); /* one long turn among short ones */
    assert_int_equal(fit_begin(y, 3, 10), 3);
}

/* ---- plain layers ---------------------------------------------------------------------------- */

/* y [n,out] = x [n,in] w [out,in]^T */
static void product(double *y, const double *x, const double *w, int n, int in, int out) {
    for (int i = 0; i < n; i++)
        for (int o = 0; o < out; o++) {
            double sum = 0;
            for (int k = 0; k < in; k++) sum += x[i * in + k] * w[o * in + k];
            y[i * out + o] = sum;
        }
}

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static void plain_attention(double *y, const double *x, const double *w, const double *out,
                            int reach) {
    static double qkv[N * 3 * D], mixed[N * D];
    product(qkv, x, w, N, D, 3 * D);
    for (int i = 0; i < N; i++) { /* D is one head */
        double p[N], sum = 0;
        for (int j = 0; j < N; j++) {
            double s = 0;
            for (int k = 0; k < D; k++) s += qkv[i * 3 * D + k] * qkv[j * 3 * D + D + k];
            p[j] = reach && abs(i - j) > reach ? 0 : exp(s / sqrt(D));
            sum += p[j];
        }
        for (int k = 0; k < D; k++) {
            double v = 0;
            for (int j = 0; j < N; j++) v += p[j] / sum * qkv[j * 3 * D + 2 * D + k];
            mixed[i * D + k] = v;
        }
    }
    product(y, mixed, out, N, D, D);
}

static void plain_recurrent(double *y, const double *x, const double *w) {
    double xh[2 * D] = {0}, z[2 * D];
    for (int t = 0; t < N; t++) {
        memcpy(xh, x + t * D, D * sizeof *xh);
        product(z, xh, w, 1, 2 * D, 2 * D);
        for (int k = 0; k < D; k++) {
            double f = sigmoid(z[k]), c = fmax(0, z[D + k]);
            y[t * D + k] = xh[D + k] = f * xh[D + k] + (1 - f) * c;
        }
    }
}

static double at(const double *x, int n, int i, int k) {
    return i < 0 || i >= n ? 0 : x[i * D + k];
}

static void plain_conv(double *y, const double *x, const double *w, int dilation) {
    for (int i = 0; i < N; i++)
        for (int o = 0; o < D; o++) {
            double sum = 0;
            for (int t = 0; t < LAYER_TAPS; t++)
                for (int k = 0; k < D; k++)
                    sum += w[o * LAYER_TAPS * D + t * D + k] *
                           at(x, N, dilation ? i + (t - 2) * dilation : i + t - 1, k);
            y[i * D + o] = sum;
        }
}

static void plain_separable(double *y, const double *x, int n, const double *w,
                            const double *logit) {
    double *z = xcalloc((size_t)n * D, sizeof *z);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < D; k++) {
            double f0 = sigmoid(logit[k]), f1 = sigmoid(logit[D + k]);
            z[i * D + k] = fmax(0, f1 * f0 * at(x, n, i - 1, k) + f1 * (1 - f0) * at(x, n, i, k) +
                                       (1 - f1) * at(x, n, i + 1, k));
        }
    product(y, z, w, n, D, D);
    xfree(z);
}

/* ---- comparison ------------------------------------------------------------------------------ */

static double *numbers(struct layer *l, struct mat m) {
    struct err err;
    size_t n = (size_t)m.rows * (size_t)m.cols;
    void *raw = xcalloc(n, dtype_size(m.type));
    double *out = xcalloc(n, sizeof *out);
    ASSERT_OK(layer_read(l, &m, raw, &err), err);
    for (size_t i = 0; i < n; i++) out[i] = dtype_load(raw, m.type, (int64_t)i);
    xfree(raw);
    return out;
}

static struct backend *device(const char *name) {
    struct backend *be;
    struct err err;
    ASSERT_OK(backend_open(&be, &(struct backend_options){.device = name, .n_thread = 2}, &err),
              err);
    return be;
}

/* Sequence s of the rows, which are the layer's (bench/layer.h). */
static void sequence(double *out, const double *rows, const struct layer_shape *shape, int s) {
    int apart = shape->kind == LAYER_ATTENTION || shape->kind == LAYER_RESTRICTED;
    for (int i = 0; i < N; i++)
        memcpy(out + i * D, rows + (apart ? s * N + i : i * shape->batch + s) * D, D * sizeof *out);
}

static void check_layer(struct backend *be, struct layer_shape shape, double tolerance) {
    struct layer *l;
    struct err err;
    static double want[N * D], one[N * D], got[N * D];
    double size = 0;
    ASSERT_OK(layer_new(&l, be, &shape, &err), err);
    layer_run(l, LAYER_WHOLE);
    for (int i = 0; i < layer_facts[shape.kind].n_part; i++) layer_run(l, i); /* change nothing */
    double *x = numbers(l, layer_x(l)), *y = numbers(l, layer_y(l));
    double *w = numbers(l, layer_weight(l, 0)), *v = numbers(l, layer_weight(l, 1));
    for (int s = 0; s < shape.batch; s++) {
        sequence(one, x, &shape, s);
        sequence(got, y, &shape, s);
        switch (shape.kind) {
        case LAYER_RECURRENT:
            plain_recurrent(want, one, w);
            break;
        case LAYER_CONV:
            plain_conv(want, one, w, shape.dilation);
            break;
        case LAYER_SEPARABLE:
            plain_separable(want, one, N, w, v);
            break;
        default:
            plain_attention(want, one, w, v, shape.kind == LAYER_RESTRICTED ? shape.r : 0);
        }
        for (int i = 0; i < N * D; i++) {
            size = fmax(size, fabs(want[i]));
            if (!(fabs(got[i] - want[i]) <= tolerance))
                fail_msg("%s: y[%d,%d] of sequence %d is %g, want %g", layer_facts[shape.kind].name,
                         i / D, i % D, s, got[i], want[i]);
        }
    }
    assert_true(size > 0.01); /* of something, not of zeros */
    xfree(x);
    xfree(y);
    xfree(w);
    xfree(v);
    layer_free(l);
}

TEST(layers_are_what_they_say) {
    int exact = strcmp(TEST_ARG, "ref") == 0, gpu = strcmp(TEST_ARG, "cuda") == 0;
    struct backend *be = gpu ? gpu_open() : device(TEST_ARG);
    double tolerance = exact ? 1e-12 : gpu ? 2e-2 : 1e-5; /* a GPU multiplies in TF32 */
    for (int kind = 0; kind < LAYER_KINDS; kind++)
        for (int batch = 1; batch <= 3; batch += 2) {
            struct layer_shape shape = {(enum layer_kind)kind, N, D, batch, REACH, 0, DTYPE_F32};
            if (exact) shape.type = DTYPE_F64;
            check_layer(be, shape, tolerance);
            shape.dilation = 4;
            if (kind == LAYER_CONV) check_layer(be, shape, tolerance);
        }
    backend_close(be);
}

TEST(blocks_of_rows_meet) {
    enum { LONG = 1100 }; /* three blocks of them */
    struct backend *be = device("cpu");
    struct layer *l;
    struct err err;
    struct layer_shape shape = {LAYER_SEPARABLE, LONG, D, 1, 0, 0, DTYPE_F32};
    static double want[LONG * D];
    ASSERT_OK(layer_new(&l, be, &shape, &err), err);
    layer_run(l, LAYER_WHOLE);
    double *x = numbers(l, layer_x(l)), *y = numbers(l, layer_y(l));
    double *w = numbers(l, layer_weight(l, 0)), *v = numbers(l, layer_weight(l, 1));
    plain_separable(want, x, LONG, w, v);
    for (int i = 0; i < LONG * D; i++)
        if (!(fabs(y[i] - want[i]) <= 1e-5)) fail_msg("row %d: %g, want %g", i / D, y[i], want[i]);
    xfree(x);
    xfree(y);
    xfree(w);
    xfree(v);
    layer_free(l);
    backend_close(be);
}

/* ---- counts ---------------------------------------------------------------------------------- */

TEST(counts_what_waits) {
    static const int want[LAYER_KINDS] = {[LAYER_ATTENTION] = 3,
                                          [LAYER_RECURRENT] = 2 * N,
                                          [LAYER_CONV] = 2,
                                          [LAYER_SEPARABLE] = 4,
                                          [LAYER_RESTRICTED] = 3};
    struct backend *be = device("cpu");
    struct err err;
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        struct layer_shape shape = {.kind = (enum layer_kind)kind, .n = N, .d = D, .r = REACH};
        struct layer *l;
        ASSERT_OK(layer_new(&l, be, &shape, &err), err);
        assert_int_equal(layer_sequential(l), want[kind]);
        assert_int_equal(layer_sequential(l), want[kind]); /* and again */
        assert_true(layer_bytes(l) >= 2 * N * D * sizeof(float));
        assert_true(layer_scratch(l) > 0);
        layer_free(l);
    }
    backend_close(be);
}

TEST(measures_paths) {
    static const int want[LAYER_KINDS] = {[LAYER_ATTENTION] = 1,
                                          [LAYER_RECURRENT] = N,
                                          [LAYER_CONV] = N - 1,
                                          [LAYER_SEPARABLE] = N - 1,
                                          [LAYER_RESTRICTED] = (N - 1 + REACH - 1) / REACH};
    struct backend *be = device("cpu");
    struct err err;
    int length;
    struct layer_shape shape = {.n = N, .d = 32, .r = REACH};
    for (int kind = 0; kind < LAYER_KINDS; kind++) {
        shape.kind = (enum layer_kind)kind;
        ASSERT_OK(layer_path(&length, be, &shape, 0, &err), err);
        if (length != want[kind])
            fail_msg("%s: %d, want %d", layer_facts[kind].name, length, want[kind]);
    }
    shape.kind = LAYER_CONV;
    for (int n = 2; n <= 28; n++) { /* 1, 3, 9 ... reach to 2, 8, 26 */
        shape.n = n;
        ASSERT_OK(layer_path(&length, be, &shape, 1, &err), err);
        assert_int_equal(length, n <= 3 ? 1 : n <= 9 ? 2 : n <= 27 ? 3 : 4);
    }
    backend_close(be);
}

TESTS(T(fits_powers), T(leaves_fixed_cost_out), TP(layers_are_what_they_say, "ref"),
      TP(layers_are_what_they_say, "cpu"), TP(layers_are_what_they_say, "cuda"),
      T(blocks_of_rows_meet), T(counts_what_waits), T(measures_paths))
