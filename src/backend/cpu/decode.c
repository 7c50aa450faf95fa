/* decode.c — what decoding needs beside the forward ops: attention over a cache, and the best tokens.
 *
 * attention_step reads each cached row of each hypothesis once: it is bound by the cache the rows sit in.
 * An item is one head of one hypothesis; a task is as many items as make some 32k multiplications, so that
 * a short cache does not drown in hand-outs.
 *
 * topk takes one row per task: one sweep for the sum of exponentials, one for the best k, in which vectors
 * without an element above the k-th best so far cost one comparison. Ties go to the lower id because the
 * sweep goes upwards and an equal later element is not above. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "base/mem.h"

/* ---------------------------------------------------------------------------------- attention ---- */

enum { STEP_WORK = 1 << 15 };

struct step_job {
    const struct attention_step_args *a;
    const struct row_kernels *rows;
    float *score; /* [threads, score_ld] */
    size_t score_ld;
    int n_item, items_per_task;
};

/* The new key and value of one head go into the cache. Nobody but this item reads them in this call. */
static void append_head(const struct attention_step_args *a, int b, int h, int d_k, int d_v) {
    int t = a->len[b] - 1;
    int64_t row = a->index ? a->index[b * a->index_ld + t] : a->start[b] + t;
    struct mat k = mat_cols(a->k, h * d_k, d_k), k_new = mat_cols(a->k_new, h * d_k, d_k);
    struct mat v = mat_cols(a->v, h * d_v, d_v), v_new = mat_cols(a->v_new, h * d_v, d_v);
    memcpy(mat_row(&k, row), mat_row(&k_new, b), (size_t)d_k * dtype_size(k.type));
    memcpy(mat_row(&v, row), mat_row(&v_new, b), (size_t)d_v * dtype_size(v.type));
}

static void step_item(const struct step_job *j, int item, float *score) {
    const struct attention_step_args *a = j->a;
    int b = item / a->n_head, h = item % a->n_head;
    int d_k = a->q.cols / a->n_head, d_v = a->v.cols / a->n_head, len = a->len[b];
    struct mat q = mat_cols(a->q, h * d_k, d_k), k = mat_cols(a->k, h * d_k, d_k);
    struct mat v = mat_cols(a->v, h * d_v, d_v), o = mat_cols(a->o, h * d_v, d_v);
    struct attend x = {.o = mat_row(&o, b),
                       .q = mat_row(&q, b),
                       .k = k.data,
                       .v = v.data,
                       .ld_k = k.ld,
                       .ld_v = v.ld,
                       .index = a->index ? a->index + b * a->index_ld : NULL,
                       .start = a->index ? 0 : a->start[b],
                       .first = a->window > 0 && len - 1 > a->window ? len - 1 - a->window : 0,
                       .len = len,
                       .d_k = d_k,
                       .d_v = d_v,
                       .scale = a->scale,
                       .type = a->q.type,
                       .score = score};
    if (!mat_empty(&a->k_new)) append_head(a, b, h, d_k, d_v);
    j->rows->attend(&x);
}

static void step_task(void *ctx, int task, int thread) {
    const struct step_job *j = ctx;
    int first = task * j->items_per_task, last = first + j->items_per_task;
    for (int item = first; item < last && item < j->n_item; item++)
        step_item(j, item, j->score + (size_t)thread * j->score_ld);
}

/* Items that together make STEP_WORK. max_len may be far above the lengths at hand, so those count. */
static int items_per_task(const struct attention_step_args *a) {
    int64_t rows = 0;
    for (int b = 0; b < a->q.rows; b++) rows += a->len[b];
    int64_t per_item = rows / a->q.rows * (a->q.cols + a->v.cols) / a->n_head + 1;
    return (int)(STEP_WORK / per_item) + 1;
}

void cpu_attention_step(struct backend *base, const struct attention_step_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct step_job job = {.a = a, .rows = be->isa->rows, .n_item = a->q.rows * a->n_head};
    job.score_ld = ((size_t)a->max_len + MEM_ALIGN / 4 - 1) / (MEM_ALIGN / 4) * (MEM_ALIGN / 4);
    job.score =
        cpu_workspace(be, size_mul(job.score_ld * sizeof *job.score, (size_t)pool_size(be->pool)));
    if (!job.score) return;
    job.items_per_task = items_per_task(a);
    pool_run(be->pool, step_task, &job, cpu_blocks(job.n_item, job.items_per_task));
}

/* ---------------------------------------------------------------------------------- topk --------- */

struct topk_job {
    const struct topk_args *a;
    const struct row_kernels *rows;
};

struct candidate {
    float z; /* NaN ranks with the impossible: -inf */
    int id;
};

static float logit(const struct mat *m, int row, int j) {
    const void *p = mat_row(m, row);
    float z = m->type == DTYPE_BF16 ? bf16_load(((const uint16_t *)p)[j]) : ((const float *)p)[j];
    return isnan(z) ? -INFINITY : z;
}

static int better(struct candidate a, struct candidate b) {
    return a.z > b.z || (a.z == b.z && a.id < b.id);
}

/* heap[0] is the worst; restores that below `at`. */
static void sift(struct candidate *heap, int n, int at) {
    struct candidate c = heap[at];
    for (;;) {
        int child = 2 * at + 1;
        if (child >= n) break;
        if (child + 1 < n && better(heap[child], heap[child + 1])) child++;
        if (!better(c, heap[child])) break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = c;
}

static void topk_task(void *ctx, int row, int thread) {
    const struct topk_job *j = ctx;
    const struct mat *logits = &j->a->logits;
    (void)thread;
    const void *z = mat_row(logits, row);
    int n = logits->cols, k = j->a->value.cols;
    struct candidate heap[TOPK_MAX];
    BUG_ON(k < 1 || k > TOPK_MAX);
    for (int i = 0; i < k; i++) heap[i] = (struct candidate){logit(logits, row, i), i};
    for (int i = k / 2; i-- > 0;) sift(heap, k, i);
    int at = k;
    while ((at = j->rows->find_above(z, logits->type, n, at, heap[0].z)) < n) {
        heap[0] = (struct candidate){logit(logits, row, at), at};
        sift(heap, k, 0);
        at++;
    }
    float max, lse = logf(j->rows->sum_exp(z, logits->type, n, &max));
    float *value = mat_row(&j->a->value, row);
    int32_t *id = j->a->id + (int64_t)row * k;
    for (int i = k; i-- > 0;) { /* the worst goes last */
        id[i] = heap[0].id;
        value[i] = heap[0].z - max - lse;
        heap[0] = heap[i];
        sift(heap, i, 0);
    }
}

void cpu_topk(struct backend *base, const struct topk_args *a) {
    struct cpu_backend *be = cpu_of(base);
    if (!cpu_workspace(be, 0)) return;
    struct topk_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, topk_task, &job, a->logits.rows);
}
