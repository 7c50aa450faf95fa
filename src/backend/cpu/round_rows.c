/* round_rows.c — weights as int8 will hold them.
 *
 * A task is a few rows. Each is gone through twice, widened in parts that stay in the first cache:
 * for its largest weight, and to round it. Bound by memory where a matrix is large; beside the
 * products of an update it does not count. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "backend/tile.h"
#include "base/num.h"

enum { PER_TASK = 16, PART = 1024 }; /* rows; columns */

struct round_job {
    const struct mat *w;
    const struct row_kernels *rows;
};

/* Adding the shift, 1.5 * 2^23, leaves no bits behind the point: rint is two additions. */
static void round_part(float *w, int n, float factor, float step) {
    const float shift = 12582912.0f;
    for (int j = 0; j < n; j++) w[j] = ((w[j] * factor + shift) - shift) * step;
}

static void round_row(const struct round_job *job, int row) {
    const struct mat *w = job->w;
    const int64_t size = (int64_t)dtype_size(w->type);
    char *at = mat_row(w, row);
    float part[PART], most = 0;
    for (int j = 0; j < w->cols; j += PART) {
        const int n = min_int(PART, w->cols - j);
        job->rows->convert(part, DTYPE_F32, at + j * size, w->type, n, 1);
        const float largest = tile_largest(part, n);
        if (!isfinite(largest)) return;
        most = fmaxf(most, largest);
    }
    const float inverse = 127 / most, factor = isfinite(inverse) ? inverse : 0;
    for (int j = 0; j < w->cols; j += PART) {
        const int n = min_int(PART, w->cols - j);
        job->rows->convert(part, DTYPE_F32, at + j * size, w->type, n, 1);
        round_part(part, n, factor, most / 127);
        job->rows->convert(at + j * size, w->type, part, DTYPE_F32, n, 1);
    }
}

static void round_task(void *ctx, int task, int thread) {
    const struct round_job *job = ctx;
    (void)thread;
    for (int i = task * PER_TASK; i < min_int((task + 1) * PER_TASK, job->w->rows); i++)
        round_row(job, i);
}

void cpu_round_rows(struct backend *base, const struct round_rows_args *a) {
    struct cpu_backend *be = cpu_of(base);
    struct round_job job = {.w = &a->w, .rows = be->isa->rows};
    if (!backend_scratch(&be->base, 0)) return;
    pool_run(be->pool, round_task, &job, ceil_div(a->w.rows, PER_TASK));
}
