/* beside.cu — gradients of weights and biases on a stream of their own. An experiment:
 * HEED_CUDA_BESIDE=1 (docs/notes/gpu.md).
 *
 * On the way back everything waits for dx, and nothing but the update for dw and db. In small
 * updates neither product fills the device, and the sums of db wait for memory while products do
 * not: so they are computed while the way back goes on. Kernels, their order on each weight and
 * thus the bits are those of one stream.
 *
 * Memory is what makes it delicate: dw reads dy and x, and the ops that follow write over such
 * buffers. So each part that is under way beside is kept with the addresses it reads and writes,
 * the few ops of the way back that know of it wait where what they write is among those
 * (cuda_await), and everything else waits for all of them first (cuda_join, in cuda_workspace and
 * in transfers). Waiting is the stream's; the host goes on. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>

enum { MOST = 8 /* parts under way */, SCRATCH = 16 << 20 };

struct span {
    uintptr_t begin, end;
};

struct part {
    cudaEvent_t done;
    struct span used[4]; /* dy and x, which it reads, dw and db, which it writes */
};

struct cuda_beside {
    cudaStream_t stream;
    void *blas_workspace, *scratch;
    cudaEvent_t begin;
    bool never; /* it may not be used */
    int n;
    struct part part[MOST]; /* in the order of the stream; the last has index n - 1 */
};

int cuda_beside_new(struct cuda_backend *be, struct err *err) {
    struct cuda_beside *b = be->beside = (struct cuda_beside *)calloc(1, sizeof *b);
    if (!b) return err_set(err, HEED_ENOMEM, "cuda: out of host memory");
    int least = 0, greatest = 0;
    cudaError_t rc = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithPriority(&b->stream, cudaStreamNonBlocking, least);
    if (rc == cudaSuccess) rc = cudaMalloc(&b->blas_workspace, be->blas_workspace_size);
    if (rc == cudaSuccess) rc = cudaMalloc(&b->scratch, SCRATCH);
    if (rc == cudaSuccess) rc = cudaEventCreateWithFlags(&b->begin, cudaEventDisableTiming);
    for (int i = 0; i < MOST && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&b->part[i].done, cudaEventDisableTiming);
    if (rc == cudaSuccess) return 0;
    cudaGetLastError();
    return err_set(err, HEED_ENOMEM, "cuda: no second stream (HEED_CUDA_BESIDE): %s",
                   cudaGetErrorString(rc));
}

void cuda_beside_free(struct cuda_backend *be) {
    struct cuda_beside *b = be->beside;
    if (!b) return;
    if (b->stream) cudaStreamSynchronize(b->stream);
    for (int i = 0; i < MOST; i++)
        if (b->part[i].done) cudaEventDestroy(b->part[i].done);
    if (b->begin) cudaEventDestroy(b->begin);
    cudaFree(b->scratch);
    cudaFree(b->blas_workspace);
    if (b->stream) cudaStreamDestroy(b->stream);
    free(b);
    be->beside = NULL;
}

void cuda_beside_never(const struct cuda_backend *be) {
    if (be->beside) be->beside->never = true;
}

static struct span span_of(const struct mat *m) {
    if (mat_empty(m)) return {0, 0};
    uintptr_t at = (uintptr_t)m->data;
    return {at,
            at + ((size_t)(m->rows - 1) * (size_t)m->ld + (size_t)m->cols) * dtype_size(m->type)};
}

static bool overlap(const struct span &a, const struct span &b) {
    return a.begin < b.end && b.begin < a.end;
}

/* The first `n` products have ended before whatever is queued from now on. */
static void wait_for(struct cuda_backend *be, int n) {
    struct cuda_beside *b = be->beside;
    if (n == 0) return;
    cuda_ok(be, cudaStreamWaitEvent(be->stream, b->part[n - 1].done, 0), "a second stream");
    struct part spent[MOST];
    for (int i = 0; i < n; i++) spent[i] = b->part[i];
    for (int i = n; i < b->n; i++) b->part[i - n] = b->part[i];
    b->n -= n;
    for (int i = 0; i < n; i++) b->part[b->n + i] = spent[i]; /* their events serve again */
}

void cuda_join(struct cuda_backend *be) {
    if (be->beside) wait_for(be, be->beside->n);
}

void cuda_await(struct cuda_backend *be, std::initializer_list<const struct mat *> written) {
    for (int i = be->beside ? be->beside->n : 0; i > 0; i--)
        for (const struct mat *m : written)
            for (const struct span &used : be->beside->part[i - 1].used)
                if (overlap(span_of(m), used)) return wait_for(be, i);
}

void *cuda_beside_fork(struct cuda_backend *be, size_t scratch) {
    struct cuda_beside *b = be->beside;
    if (!b || b->never || be->base.err.code || scratch > SCRATCH || cuda_recording(be)) return NULL;
    if (b->n == MOST) wait_for(be, 1);
    return cuda_ok(be, cudaEventRecord(b->begin, be->stream), "a second stream") &&
                   cuda_ok(be, cudaStreamWaitEvent(b->stream, b->begin, 0), "a second stream")
               ? b->scratch
               : NULL;
}

static void change_places(struct cuda_backend *be) {
    std::swap(be->stream, be->beside->stream);
    std::swap(be->blas_workspace, be->beside->blas_workspace);
}

void cuda_beside_begin(struct cuda_backend *be) { change_places(be); }

void cuda_beside_end(struct cuda_backend *be, const struct linear_args *a) {
    struct part *p = &be->beside->part[be->beside->n++];
    cuda_ok(be, cudaEventRecord(p->done, be->stream), "a second stream");
    change_places(be);
    p->used[0] = span_of(&a->dy), p->used[1] = span_of(&a->x);
    p->used[2] = span_of(&a->dw), p->used[3] = span_of(&a->db);
}
