/* topk.c — the k best tokens of each row by log-probability.
 *
 * A row is looked at in blocks of TILED_PIECE_COLS. Of a block the largest element and the sum of
 * exponentials below it are kept, and a sweep for candidates is made only if that element can be
 * one; vectors without an element above the k-th best so far cost one comparison. At the end the
 * sums of the blocks are joined, in their order.
 *
 * With tiled weights the logits come as pieces of the product, which are still in the cache
 * (tiled_sink), and never exist as a whole: at 128 hypotheses of a vocabulary of 65,000 they are 33
 * MB. Which thread gets which piece varies, so each has its own best of a row; the best of the
 * best do not depend on how they were shared out, since ties go to the lower id. */
#include <limits.h>
#include <math.h>

#include "backend/cpu/tiled.h"
#include "base/mem.h"
#include "base/num.h"

struct candidate {
    float z;
    int id;
};

/* A place that nobody has taken: no number is below it. */
static const struct candidate nobody = {-INFINITY, INT_MAX};

struct topk_job {
    const struct topk_args *a;
    const struct row_kernels *rows;
    int n_block, n_heap;    /* n_heap: threads that have candidates of one row */
    struct candidate *heap; /* [n_heap, B, k]; of each k the first is the worst */
    float *max, *sum;       /* [B, n_block] */
};

static struct candidate *heap_of(const struct topk_job *j, int which, int row) {
    int64_t at = (int64_t)which * j->a->value.rows + row;
    return j->heap + at * j->a->value.cols;
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

static void offer(struct candidate *heap, int k, struct candidate c) {
    if (!better(c, heap[0])) return;
    heap[0] = c;
    sift(heap, k, 0);
}

/* What an element from column `col` on must be above: an equal one is better where its id is
 * lower. */
static float bar(struct candidate worst, int col) {
    return col < worst.id ? nextafterf(worst.z, -INFINITY) : worst.z;
}

/* The n logits z of a row, which begin at column col. */
static void look(const struct topk_job *j, struct candidate *heap, const void *z, int row, int col,
                 int n) {
    int64_t block = (int64_t)row * j->n_block + col / TILED_PIECE_COLS;
    enum dtype type = j->a->logits.type;
    j->rows->soft_sum(z, type, n, &j->max[block], &j->sum[block]);
    if (!(j->max[block] > bar(heap[0], col))) return;
    for (int at = 0;; at++) {
        at = j->rows->find_above(z, type, n, at, bar(heap[0], col + at));
        if (at >= n) break;
        offer(heap, j->a->value.cols, (struct candidate){f32_load(z, type, at), col + at});
    }
}

/* Tokens that are impossible, or NaN, take what is left, the lowest ids first. */
static void fill(struct candidate *heap, int k) {
    int id = 0;
    for (int i = 0; i < k; i++) {
        if (heap[i].id != nobody.id) continue;
        for (int other = 0; other < k; other++)
            if (heap[other].id == id) id++, other = -1;
        heap[i].id = id++;
    }
    for (int i = k / 2; i-- > 0;) sift(heap, k, i);
}

/* The best of all threads, with their log-probabilities. */
static void finish_row(const struct topk_job *j, int row) {
    int k = j->a->value.cols;
    struct candidate *heap = heap_of(j, 0, row);
    for (int which = 1; which < j->n_heap; which++)
        for (int i = 0; i < k; i++) offer(heap, k, heap_of(j, which, row)[i]);
    fill(heap, k);
    const float *max = j->max + (int64_t)row * j->n_block, *sum = j->sum + (max - j->max);
    float top = -INFINITY;
    for (int b = 0; b < j->n_block; b++) top = fmaxf(top, max[b]);
    float lse = logf(j->rows->soft_join(max, sum, j->n_block, top));
    float *value = mat_row(&j->a->value, row);
    int32_t *id = j->a->id + (int64_t)row * k;
    for (int i = k; i-- > 0;) { /* the worst goes last */
        id[i] = heap[0].id;
        value[i] = heap[0].z - top - lse;
        heap[0] = heap[i];
        sift(heap, i, 0);
    }
}

static void row_task(void *ctx, int row, int thread) {
    const struct topk_job *j = ctx;
    const struct mat *logits = &j->a->logits;
    (void)thread;
    for (int col = 0; col < logits->cols; col += TILED_PIECE_COLS) {
        struct mat z =
            mat_cols(mat_rows(*logits, row, 1), col, min_int(TILED_PIECE_COLS, logits->cols - col));
        look(j, heap_of(j, 0, row), z.data, row, col, z.cols);
    }
    finish_row(j, row);
}

static void finish_task(void *ctx, int row, int thread) {
    (void)thread;
    finish_row(ctx, row);
}

static void take(void *ctx, const struct mat *piece, int row, int col, int thread) {
    const struct topk_job *j = ctx;
    for (int i = 0; i < piece->rows; i++)
        look(j, heap_of(j, thread, row + i), mat_row(piece, i), row + i, col, piece->cols);
}

/* Lays the job's arrays into the arena, and returns the rest, `more` bytes; over no memory it
 * measures. */
static void *carve(struct arena *arena, struct topk_job *j, size_t more) {
    size_t rows = (size_t)j->a->value.rows, n = rows * (size_t)j->n_block;
    size_t k = (size_t)j->a->value.cols;
    j->heap = arena_take(arena, size_mul(rows * (size_t)j->n_heap, k * sizeof *j->heap));
    j->max = arena_take(arena, size_mul(n, sizeof *j->max));
    j->sum = arena_take(arena, size_mul(n, sizeof *j->sum));
    return arena_take(arena, more);
}

void cpu_topk(struct backend *base, const struct topk_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct topk_job job = {.a = a, .rows = be->isa->rows, .n_heap = 1};
    struct tiled_sink sink = {take, &job};
    struct tiled product = {.y = a->logits, .x = a->x, .w = a->w, .b = a->b, .sink = &sink};
    struct arena arena = {0};
    size_t more = 0;
    job.n_block = ceil_div(a->logits.cols, TILED_PIECE_COLS);
    if (a->w.tiled) {
        job.n_heap = pool_size(be->pool);
        more = tiled_workspace(be, &product);
    } else if (!mat_empty(&a->w))
        cpu_linear_fwd(base,
                       &(struct linear_args){.y = a->logits, .x = a->x, .w = a->w, .b = a->b});
    carve(&arena, &job, more);
    arena = (struct arena){.base = backend_scratch(&be->base, arena.used), .cap = arena.used};
    if (!arena.base) return;
    void *workspace = carve(&arena, &job, more);
    for (int64_t i = 0; i < (int64_t)job.n_heap * a->value.rows * a->value.cols; i++)
        job.heap[i] = nobody;
    if (a->w.tiled) tiled_run(be, &product, workspace);
    pool_run(be->pool, a->w.tiled ? finish_task : row_task, &job, a->value.rows);
}
