/* attention_step.c — one query per hypothesis over a cache of keys and values, for decoding.
 *
 * Each cached row of each hypothesis is read once, all heads of it together: the op is bound by the
 * memory the rows sit in. Neighbours that see the same rows, the hypotheses of a sentence over its
 * encoding, read them together. A task is as many hypotheses as make some 32k multiplications: with
 * a short cache, handing out single ones would cost more than computing them. */
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/mem.h"
#include "base/num.h"

enum { STEP_WORK = 1 << 15 };

struct step_job {
    const struct attention_step_args *a;
    const struct row_kernels *rows;
    float *scratch; /* [threads, scratch_ld] */
    size_t scratch_ld, score_size;
    int rows_per_task;
};

/* The new key and value go into the cache. Nobody but this hypothesis reads them in this call. */
static void append(const struct step_job *j, int b) {
    const struct attention_step_args *a = j->a;
    const enum dtype to = a->k.type, from = a->q.type;
    int64_t row = attention_step_row(a, b, a->len[b] - 1);
    void *k = mat_row(&a->k, row), *v = mat_row(&a->v, row);
    const void *k_new = mat_row(&a->k_new, b), *v_new = mat_row(&a->v_new, b);
    if (to == from) {
        memcpy(k, k_new, (size_t)a->k.cols * dtype_size(to));
        memcpy(v, v_new, (size_t)a->v.cols * dtype_size(to));
    } else {
        j->rows->convert(k, to, k_new, from, a->k.cols, 1);
        j->rows->convert(v, to, v_new, from, a->v.cols, 1);
    }
}

/* How many hypotheses from b on, below `last`, see the same rows: 1, 2 or ATTEND_MOST. */
static int group_at(const struct attention_step_args *a, int b, int last) {
    int n = 1;
    if (a->index) return 1;
    while (n < ATTEND_MOST && b + n < last && a->start[b + n] == a->start[b] &&
           a->len[b + n] == a->len[b])
        n++;
    return n == ATTEND_MOST ? n : n < 2 ? 1 : 2;
}

static void step_group(const struct step_job *j, int b, int n, float *scratch) {
    const struct attention_step_args *a = j->a;
    const int len = a->len[b];
    struct attend x = {.n = n,
                       .k = a->k.data,
                       .v = a->v.data,
                       .ld_k = a->k.ld,
                       .ld_v = a->v.ld,
                       .index = a->index ? a->index + b * a->index_ld : NULL,
                       .start = a->index ? 0 : a->start[b],
                       .first = a->window > 0 && len - 1 > a->window ? len - 1 - a->window : 0,
                       .len = len,
                       .n_head = a->n_head,
                       .d_k = a->q.cols / a->n_head,
                       .d_v = a->v.cols / a->n_head,
                       .scale = a->scale,
                       .type = a->q.type,
                       .cache = a->k.type,
                       .score = scratch,
                       .sum = scratch + j->score_size};
    for (int g = 0; g < n; g++) {
        if (!mat_empty(&a->k_new)) append(j, b + g);
        x.q[g] = mat_row(&a->q, b + g);
        x.o[g] = mat_row(&a->o, b + g);
    }
    j->rows->attend(&x);
}

static void step_task(void *ctx, int task, int thread) {
    const struct step_job *j = ctx;
    const int first = task * j->rows_per_task;
    const int last = min_int(first + j->rows_per_task, j->a->q.rows);
    for (int b = first, n; b < last; b += n) {
        n = group_at(j->a, b, last);
        step_group(j, b, n, j->scratch + (size_t)thread * j->scratch_ld);
    }
}

/* Hypotheses that together make STEP_WORK. max_len may be far above the lengths at hand, so those
 * count. */
static int rows_per_task(const struct attention_step_args *a, int n_thread) {
    int64_t steps = 0;
    for (int b = 0; b < a->q.rows; b++) steps += a->len[b];
    int64_t per_row = steps / a->q.rows * (a->q.cols + a->v.cols) + 1;
    int n = (int)(STEP_WORK / per_row) + 1;
    /* Where all sentences have as many hypotheses, groups are cut only if threads would have
     * nothing to do otherwise. */
    int group = a->index ? 1 : max_int(1, min_int(ATTEND_MOST, a->q.rows / n_thread));
    return ceil_div(n, group) * group;
}

static size_t whole_lines(size_t n) { return (n + 15) / 16 * 16; }

void cpu_attention_step(struct backend *base, const struct attention_step_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct step_job job = {.a = a, .rows = be->isa->rows};
    const size_t most = a->index ? 1 : ATTEND_MOST;
    job.score_size = size_mul(size_mul((size_t)a->max_len + 1, attend_width(a->n_head)), most);
    job.scratch_ld = size_add(job.score_size, size_mul(whole_lines((size_t)a->v.cols), most));
    job.scratch = backend_scratch(&be->base, size_mul(size_mul(job.scratch_ld, sizeof *job.scratch),
                                                      (size_t)pool_size(be->pool)));
    if (!job.scratch) return;
    job.rows_per_task = rows_per_task(a, pool_size(be->pool));
    pool_run(be->pool, step_task, &job, ceil_div(a->q.rows, job.rows_per_task));
}
