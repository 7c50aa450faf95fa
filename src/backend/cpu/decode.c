/* decode.c — what decoding needs beside the forward ops: attention over a cache, and the best
 * tokens.
 *
 * attention_step reads each cached row of each hypothesis once, all heads of it together: it is
 * bound by the memory the rows sit in. A task is as many hypotheses as make some 32k
 * multiplications, so that a short cache does not drown in hand-outs.
 *
 * topk takes one row per task: one sweep for the sum of exponentials, one for the best k, in which
 * vectors without an element above the k-th best so far cost one comparison. Ties go to the lower
 * id because the sweep goes upwards and an equal later element is not above. */
#include <math.h>
#include <string.h>

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "base/mem.h"

/* ---- attention ------------------------------------------------------------------------------- */

enum { STEP_WORK = 1 << 15 };

struct step_job {
    const struct attention_step_args *a;
    const struct row_kernels *rows;
    float *scratch; /* [threads, scratch_ld] */
    size_t scratch_ld, score_size;
    int rows_per_task;
};

static int64_t cache_row(const struct attention_step_args *a, int b, int t) {
    return a->index ? a->index[b * a->index_ld + t] : a->start[b] + t;
}

/* The new key and value go into the cache. Nobody but this hypothesis reads them in this call. */
static void append(const struct attention_step_args *a, int b) {
    int64_t row = cache_row(a, b, a->len[b] - 1);
    size_t size = dtype_size(a->k.type);
    memcpy(mat_row(&a->k, row), mat_row(&a->k_new, b), (size_t)a->k.cols * size);
    memcpy(mat_row(&a->v, row), mat_row(&a->v_new, b), (size_t)a->v.cols * size);
}

static void step_row(const struct step_job *j, int b, float *scratch) {
    const struct attention_step_args *a = j->a;
    int len = a->len[b];
    if (!mat_empty(&a->k_new)) append(a, b);
    j->rows->attend(
        &(struct attend){.o = mat_row(&a->o, b),
                         .q = mat_row(&a->q, b),
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
                         .score = scratch,
                         .sum = scratch + j->score_size});
}

static void step_task(void *ctx, int task, int thread) {
    const struct step_job *j = ctx;
    int first = task * j->rows_per_task, last = first + j->rows_per_task;
    for (int b = first; b < last && b < j->a->q.rows; b++)
        step_row(j, b, j->scratch + (size_t)thread * j->scratch_ld);
}

/* Hypotheses that together make STEP_WORK. max_len may be far above the lengths at hand, so those
 * count. */
static int rows_per_task(const struct attention_step_args *a) {
    int64_t steps = 0;
    for (int b = 0; b < a->q.rows; b++) steps += a->len[b];
    int64_t per_row = steps / a->q.rows * (a->q.cols + a->v.cols) + 1;
    return (int)(STEP_WORK / per_row) + 1;
}

static size_t whole_lines(size_t n) { return (n + 15) / 16 * 16; }

void cpu_attention_step(struct backend *base, const struct attention_step_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct step_job job = {.a = a, .rows = be->isa->rows};
    job.score_size = size_mul((size_t)a->max_len + 1, attend_width(a->n_head));
    job.scratch_ld = size_add(job.score_size, whole_lines((size_t)a->v.cols));
    job.scratch = cpu_workspace(
        be, size_mul(size_mul(job.scratch_ld, sizeof *job.scratch), (size_t)pool_size(be->pool)));
    if (!job.scratch) return;
    job.rows_per_task = rows_per_task(a);
    pool_run(be->pool, step_task, &job, cpu_blocks(a->q.rows, job.rows_per_task));
}

/* ---- topk ------------------------------------------------------------------------------------ */

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

/* ---- beam_step ------------------------------------------------------------------------------- */

/* Some hundred comparisons per sentence: there is nothing to be faster at than the specification.
 * Searches on the cpu do this on the host's own arrays (search/search.c), which is the same
 * memory. */
void cpu_beam_step(struct backend *base, const struct beam_step_args *a) {
    if (cpu_workspace(cpu_of(base), 0)) ref_beam_step(a);
}
