/* test_ema.c — the moving average of the parameters: follows them by the formula, stands in for
 * them and steps aside, and leaves no trace in what is learnt. */
#include <math.h>

#include "gpu.h"
#include "test.h"
#include "toy.h"
#include "train/schedule.h"

enum { STEPS = 12, SENTENCES = 3 };
static const double decay = 0.5; /* reached by (1 + t) / (10 + t) at step 8 */

static void open_toy(struct toy *toy, const char *device, enum dtype type, double ema) {
    struct config config = toy_config();
    struct err err = {0};
    config.dropout = 0.1f;
    toy_open(toy, &config, &(struct backend_options){.device = device, .n_thread = 1}, type, 64);
    struct optimizer_options options = toy->opt->options;
    options.ema = ema;
    optimizer_free(toy->opt);
    check_ok(optimizer_new(&toy->opt, toy->model, toy->acts, &options, &err), &err);
}

static void update(struct toy *toy, int step) {
    struct batch batch;
    struct update_report report;
    struct err err = {0};
    int len[SENTENCES] = {5, 9, 1 + step % 4};
    toy_batch(&batch, len, len, SENTENCES, 33, (uint64_t)step + 1);
    const struct batch *one[] = {&batch};
    check_ok(optimizer_update(toy->opt, one, 1, &report, &err), &err);
    batch_release(&batch);
}

static double evaluate(struct toy *toy) {
    struct batch batch;
    struct update_report report = {0};
    struct err err = {0};
    int len[SENTENCES] = {6, 2, 8};
    toy_batch(&batch, len, len, SENTENCES, 33, 99);
    check_ok(optimizer_evaluate(toy->opt, &batch, &report, &err), &err);
    batch_release(&batch);
    return report.loss;
}

static float *average_of(struct toy *toy) {
    struct err err = {0};
    float *out = xmalloc(toy->model->table.n_elem * sizeof *out);
    backend_download(toy->be, out, toy->opt->avg, toy->model->table.n_elem * sizeof *out);
    check_ok(backend_sync(toy->be, &err), &err);
    return out;
}

/* By hand, in double, from the parameters that the updates leave. */
static void follows(const char *device, enum dtype type) {
    struct toy toy;
    open_toy(&toy, device, type, decay);
    size_t n = toy.model->table.n_elem;
    float *p = toy_params(&toy), *avg = average_of(&toy);
    assert_memory_equal(p, avg, n * sizeof *p); /* it begins where the parameters do */
    double *want = xmalloc(n * sizeof *want);
    for (size_t i = 0; i < n; i++) want[i] = p[i];
    for (int t = 1; t <= STEPS; t++) {
        double d = fmin(decay, (1.0 + t) / (10.0 + t));
        update(&toy, t);
        xfree(p);
        p = toy_params(&toy);
        for (size_t i = 0; i < n; i++) want[i] = d * want[i] + (1 - d) * p[i];
    }
    xfree(avg);
    avg = average_of(&toy);
    double apart = 0;
    for (size_t i = 0; i < n; i++) {
        ASSERT_NEAR(avg[i], want[i], 1e-6 + 1e-6 * fabs(want[i]));
        apart = fmax(apart, fabs(want[i] - p[i]));
    }
    assert_true(apart > 1e-3); /* the parameters have moved away from their average */
    xfree(want);
    xfree(avg);
    xfree(p);
    toy_close(&toy);
}

/* Shown, the model computes what one with these weights does; hidden, learning goes on with the
 * bits of a run that has no average at all. */
static void shows(const char *device, enum dtype type) {
    struct toy with, without;
    struct err err = {0};
    open_toy(&with, device, type, decay);
    open_toy(&without, device, type, 0);
    check_ok(optimizer_show_average(without.opt, &err), &err); /* nothing to show */
    check_ok(optimizer_hide_average(without.opt, &err), &err);
    for (int t = 1; t <= STEPS; t++) {
        update(&with, t);
        update(&without, t);
        double trained = evaluate(&with);
        assert_true(trained == evaluate(&without));
        check_ok(optimizer_show_average(with.opt, &err), &err);
        double shown = evaluate(&with);
        check_ok(optimizer_hide_average(with.opt, &err), &err);
        assert_true(evaluate(&with) == trained && shown != trained);
        if (t < STEPS) continue;
        float *avg = average_of(&with);
        check_ok(model_set(without.model, avg, &err), &err);
        assert_true(evaluate(&without) == shown);
        xfree(avg);
    }
    toy_close(&with);
    toy_close(&without);
}

TEST(average_follows) {
    follows("ref", DTYPE_F32);
    follows("cpu", DTYPE_F32);
    follows("cpu", DTYPE_BF16);
}
TEST(average_stands_in) {
    shows("cpu", DTYPE_F32);
    shows("cpu", DTYPE_BF16);
}
TEST(average_follows_cuda) {
    gpu_needed();
    follows("cuda", DTYPE_F32);
    follows("cuda", DTYPE_BF16);
}
TEST(average_stands_in_cuda) {
    gpu_needed();
    shows("cuda", DTYPE_F32);
    shows("cuda", DTYPE_BF16);
}

/* The number of an update decides how much of it is kept: nearly all at first, 1 - decay in the
 * end. */
TEST(weight_of_an_update) {
    ASSERT_NEAR(schedule_average(0.9999, 1), 9.0 / 11, 1e-15);
    ASSERT_NEAR(schedule_average(0.9999, 990), 0.009, 1e-15);
    ASSERT_NEAR(schedule_average(0.9999, 89990), 1e-4, 1e-12);
    ASSERT_NEAR(schedule_average(0.9999, 1000000), 1e-4, 1e-12);
    ASSERT_NEAR(schedule_average(0.5, 7), 9.0 / 17, 1e-15);
    assert_true(schedule_average(0.5, 8) == 0.5 && schedule_average(0.5, 9) == 0.5);
}

TESTS(T(average_follows), T(average_stands_in), T(average_follows_cuda), T(average_stands_in_cuda),
      T(weight_of_an_update))
