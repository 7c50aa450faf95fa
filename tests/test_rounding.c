/* test_rounding.c — training that is aware of int8: the op against what int8 files hold, and a
 * model that computes with rounded weights while those behind them learn. */
#include <math.h>

#include "backend/tile.h"
#include "base/mem.h"
#include "base/num.h"
#include "gpu.h"
#include "ops.h"
#include "test.h"
#include "toy.h"

/* ---- the op ---------------------------------------------------------------------------------- */

/* What a tiled int8 matrix stands for: the way that weights take into a file and back. */
static float *through_int8(const double *w, int rows, int cols) {
    struct mat tiled = {.type = DTYPE_I8, .rows = rows, .cols = cols, .ld = cols, .tiled = 1};
    float *plain = xmalloc((size_t)rows * (size_t)cols * sizeof *plain);
    size_t padded = tiled_rows(rows);
    tiled.data = mem_block(tiled_bytes(rows, cols, DTYPE_I8));
    float *scale = xcalloc(padded, sizeof *scale);
    int32_t *sum = xcalloc(padded, sizeof *sum);
    tiled.scale = scale;
    tiled.sum = sum;
    for (int i = 0; i < rows * cols; i++) plain[i] = (float)w[i];
    tile_pack(&tiled, plain, cols, 0, tile_count(rows));
    tile_values(plain, cols, &tiled, 0, tile_count(rows));
    mem_block_free(tiled.data);
    xfree(scale);
    xfree(sum);
    return plain;
}

/* Column `skip` on, so that rows begin anywhere. */
static void check_round(struct backend *be, enum dtype type, int rows, int cols, int skip,
                        const char *what) {
    struct mat all = ops_random(be, type, rows, cols + skip, (uint64_t)(rows + cols)), w = all;
    w.data = (char *)w.data + (size_t)skip * dtype_size(type);
    w.cols = cols;
    double *in = ops_values(be, &w), *before = ops_values(be, &all);
    float *want = through_int8(in, rows, cols);
    round_rows(be, &(struct round_rows_args){w});
    op_check_sync(be, what);
    double *got = ops_values(be, &w), *after = ops_values(be, &all);
    for (int i = 0; i < rows * cols; i++) {
        float x = want[i];
        if (type == DTYPE_BF16) x = bf16_load(bf16_store(x));
        if (got[i] != (double)x)
            fail_msg("%s: %d x %d of %s, element %d: %.9g becomes %.9g, not %.9g", what, rows, cols,
                     dtype_name(type), i, in[i], got[i], (double)x);
    }
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < skip; j++) {
            int at = i * (cols + skip) + j;
            assert_true(after[at] == before[at]);
        }
    xfree(want);
    ops_release();
}

static void check_strange(struct backend *be, const char *what) {
    enum { COLS = 5 };
    const double in[4][COLS] = {{0, 0, -0.0, 0, 0},
                                {1e-40, -1e-40, 0, 0, 0}, /* 127 / 1e-40 is infinite */
                                {1, 2, (double)NAN, 3, 4.3},
                                {1, 2, (double)INFINITY, 3, 4.3}};
    struct mat w = ops_mat(be, DTYPE_F32, 4, COLS, in[0]);
    round_rows(be, &(struct round_rows_args){w});
    op_check_sync(be, what);
    double *out = ops_values(be, &w);
    for (int j = 0; j < 2 * COLS; j++) assert_true(out[j] == 0);
    for (int j = 2 * COLS; j < 4 * COLS; j++) { /* as it was */
        double want = (double)(float)in[j / COLS][j % COLS];
        assert_true(isnan(want) ? isnan(out[j]) : out[j] == want);
    }
    ops_release();
}

static void round_on_all(struct ops_backend *list) {
    static const int shape[][2] = {{1, 1}, {3, 7}, {17, 64}, {40, 1030}, {33, 2048}, {300, 40}};
    struct backend *ref = ops_ref_open();
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (int bf16 = 0; bf16 < 2; bf16++)
            for (int skip = 0; skip < 2; skip++) {
                enum dtype type = bf16 ? DTYPE_BF16 : DTYPE_F32;
                check_round(ref, type, shape[i][0], shape[i][1], skip, "ref");
                for (int b = 0; list[b].be; b++)
                    check_round(list[b].be, type, shape[i][0], shape[i][1], skip, list[b].text);
            }
    check_strange(ref, "ref");
    for (int b = 0; list[b].be; b++) check_strange(list[b].be, list[b].text);
    backend_close(ref);
    ops_cpu_close(list);
}

TEST(rows_are_as_in_int8) { round_on_all(ops_cpu_open()); }
TEST(rows_are_as_in_int8_cuda) { round_on_all(ops_cuda_open()); }

/* ---- a model --------------------------------------------------------------------------------- */

/* Matrices of the copy are the parameters rounded twice, to bf16 and to int8; all else once. */
static void check_copy(struct toy *toy, const float *params) {
    struct model *m = toy->model;
    struct err err = {0};
    uint16_t *copy = xmalloc(m->table.n_elem * sizeof *copy);
    backend_download(toy->be, copy, m->copy, m->table.n_elem * sizeof *copy);
    check_ok(backend_sync(toy->be, &err), &err);
    for (int i = 0; i < m->table.n_param; i++) {
        const struct param *p = &m->table.param[i];
        int n = p->rows * p->cols, moved = 0;
        double *narrow = xmalloc((size_t)n * sizeof *narrow);
        for (int k = 0; k < n; k++)
            narrow[k] = (double)bf16_load(bf16_store(params[p->offset + (size_t)k]));
        float *want = param_is_matrix(p) ? through_int8(narrow, p->rows, p->cols) : NULL;
        for (int k = 0; k < n; k++) {
            float x = want ? bf16_load(bf16_store(want[k])) : (float)narrow[k];
            float got = bf16_load(copy[p->offset + (size_t)k]);
            if (got != x)
                fail_msg("%s, element %d: %.9g, not %.9g", p->name, k, (double)got, (double)x);
            moved |= (double)x != narrow[k];
        }
        assert_true(moved || !want);
        xfree(want);
        xfree(narrow);
    }
    xfree(copy);
}

static void update(struct toy *toy, int step) {
    struct batch batch;
    struct update_report report;
    struct err err = {0};
    const int len[3] = {5, 9, 2};
    toy_batch(&batch, len, len, 3, 33, (uint64_t)step);
    const struct batch *one[] = {&batch};
    check_ok(optimizer_update(toy->opt, one, 1, &report, &err), &err);
    batch_release(&batch);
}

static void learns_rounded(const char *device) {
    struct config config = toy_config();
    struct toy toy;
    struct err err = {0};
    toy_open(&toy, &config, &(struct backend_options){.device = device, .n_thread = 1}, DTYPE_BF16,
             64);
    struct optimizer_options options = toy.opt->options;
    options.ema = 0.5;
    optimizer_free(toy.opt);
    float *first = toy_params(&toy), *params = NULL;
    toy.model->rounds = 1;
    check_ok(model_set(toy.model, first, &err), &err);
    check_copy(&toy, first);
    check_ok(optimizer_new(&toy.opt, toy.model, toy.acts, &options, &err), &err);
    for (int step = 1; step <= 4; step++) {
        update(&toy, step);
        xfree(params);
        params = toy_params(&toy); /* not rounded */
        check_copy(&toy, params);
        check_ok(optimizer_show_average(toy.opt, &err), &err);
        float *average = toy_params(&toy);
        check_copy(&toy, average);
        xfree(average);
        check_ok(optimizer_hide_average(toy.opt, &err), &err);
        check_copy(&toy, params);
    }
    assert_memory_not_equal(first, params, toy.model->table.n_elem * sizeof *first);
    xfree(first);
    xfree(params);
    toy_close(&toy);
}

TEST(learns_with_rounded_weights) {
    learns_rounded("ref");
    learns_rounded("cpu");
}
TEST(learns_with_rounded_weights_cuda) {
    gpu_needed();
    learns_rounded("cuda");
}

TESTS(T(rows_are_as_in_int8), T(rows_are_as_in_int8_cuda), T(learns_with_rounded_weights),
      T(learns_with_rounded_weights_cuda))
