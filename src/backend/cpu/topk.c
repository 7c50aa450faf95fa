/* topk.c — the k best tokens of each row by log-probability.
 *
 * One row per task: one sweep for the best k, in which vectors without an element above the k-th
 * best so far cost one comparison, and one for the sum of exponentials, which needs the largest.
 * Ties go to the lower id because the sweep goes upwards and an equal later element is not
 * above. */
#include <math.h>

#include "backend/cpu/cpu.h"

struct topk_job {
    const struct topk_args *a;
    const struct row_kernels *rows;
};

struct candidate {
    float z; /* NaN ranks with the impossible: -inf */
    int id;
};

static float logit(const struct mat *m, int row, int j) {
    float z = f32_load(mat_row(m, row), m->type, j);
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
    float max = heap[0].z; /* of the row: the best of the best */
    for (int i = 1; i < k; i++) max = fmaxf(max, heap[i].z);
    float lse = logf(j->rows->sum_exp(z, logits->type, n, max));
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
    if (!backend_scratch(&be->base, 0)) return;
    struct topk_job job = {.a = a, .rows = be->isa->rows};
    pool_run(be->pool, topk_task, &job, a->logits.rows);
}
