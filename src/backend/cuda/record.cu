/* record.cu — ops queued in one go (CUDA graphs), and small results that the host reads while the
 * device goes on.
 *
 * The first time a recording's ops just run: kernels are loaded and products choose theirs, which a
 * capture should not have to do, and what comes once is not worth a graph. The second time the
 * stream is captured and the graph launched. From then on it is launched alone: one call of the
 * driver instead of one per kernel.
 *
 * A graph holds addresses. Those of the arguments are the caller's promise; the workspace's is
 * ours, so a recording remembers it and is made anew where it has moved. What cannot be captured
 * runs as it always did.
 *
 * Posts go through pinned memory, one event per slot: waiting for an event does not wait for what
 * was queued after it. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum life { NEW, CAPTURING, READY, REFUSED };

struct recording {
    enum life life;
    bool used;
    cudaGraphExec_t graph;
    void *workspace;
};

static void drop_graph(struct recording *r) {
    if (r->graph) cudaGraphExecDestroy(r->graph);
    r->graph = NULL;
    cudaGetLastError();
}

int cuda_replay(struct backend *base, struct recording **recording) {
    struct cuda_backend *be = cuda_of(base);
    struct recording *r = *recording;
    if (be->sync_each) return 0; /* one cannot wait inside a capture */
    if (!r) r = *recording = (struct recording *)calloc(1, sizeof *r);
    if (!r) return 0;
    cuda_bind(be);
    cuda_join(be);
    if (r->life == READY && r->workspace == be->base.workspace) {
        cuda_ok(be, cudaGraphLaunch(r->graph, be->stream), "a recording");
        return 1;
    }
    if (r->life == READY || (r->life == NEW && r->used)) {
        drop_graph(r);
        /* Relaxed: other threads, with streams of their own, go on allocating. */
        cudaError_t rc = cudaStreamBeginCapture(be->stream, cudaStreamCaptureModeRelaxed);
        r->life = rc == cudaSuccess ? CAPTURING : REFUSED;
        r->workspace = be->base.workspace;
        cudaGetLastError();
    }
    r->used = true;
    return 0;
}

int cuda_recorded(struct backend *base, struct recording **recording) {
    struct cuda_backend *be = cuda_of(base);
    struct recording *r = *recording;
    if (!r || r->life != CAPTURING) return 0;
    cudaGraph_t graph = NULL;
    cuda_bind(be);
    bool ok = cudaStreamEndCapture(be->stream, &graph) == cudaSuccess && graph &&
              !be->base.err.code && cudaGraphInstantiate(&r->graph, graph, 0) == cudaSuccess;
    if (graph) cudaGraphDestroy(graph);
    cudaGetLastError();
    r->life = ok ? READY : REFUSED;
    if (!ok) {
        drop_graph(r);
        return be->base.err.code == 0;
    }
    cuda_ok(be, cudaGraphLaunch(r->graph, be->stream), "a recording");
    return 0;
}

void cuda_forget(struct backend *base, struct recording *recording) {
    struct cuda_backend *be = cuda_of(base);
    cuda_bind(be);
    if (recording->graph) cudaStreamSynchronize(be->stream); /* it may be on its way */
    drop_graph(recording);
    free(recording);
}

/* ---- posts ----------------------------------------------------------------------------------- */

struct cuda_posts {
    char *pinned; /* [POST_SLOTS][POST_SIZE] */
    cudaEvent_t there[POST_SLOTS];
};

int cuda_posts_new(struct cuda_backend *be, struct err *err) {
    struct cuda_posts *p = be->posts = (struct cuda_posts *)calloc(1, sizeof *p);
    if (!p) return err_set(err, HEED_ENOMEM, "cuda: out of host memory");
    cudaError_t rc = cudaMallocHost((void **)&p->pinned, POST_SLOTS * POST_SIZE);
    for (int i = 0; i < POST_SLOTS && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&p->there[i], cudaEventDisableTiming);
    if (rc == cudaSuccess) return 0;
    cudaGetLastError();
    return err_set(err, HEED_ENOMEM, "cuda: no pinned memory for results: %s",
                   cudaGetErrorString(rc));
}

void cuda_posts_free(struct cuda_backend *be) {
    struct cuda_posts *p = be->posts;
    if (!p) return;
    for (int i = 0; i < POST_SLOTS; i++)
        if (p->there[i]) cudaEventDestroy(p->there[i]);
    if (p->pinned) cudaFreeHost(p->pinned);
    free(p);
    be->posts = NULL;
}

void cuda_post(struct backend *base, int slot, const void *src, size_t size) {
    struct cuda_backend *be = cuda_of(base);
    struct cuda_posts *p = be->posts;
    cuda_bind(be);
    cuda_join(be);
    if (cuda_ok(be,
                cudaMemcpyAsync(p->pinned + slot * POST_SIZE, src, size, cudaMemcpyDeviceToHost,
                                be->stream),
                "a post"))
        cuda_ok(be, cudaEventRecord(p->there[slot], be->stream), "a post");
}

void cuda_collect(struct backend *base, int slot, void *host_dst, size_t size) {
    struct cuda_backend *be = cuda_of(base);
    struct cuda_posts *p = be->posts;
    cuda_bind(be);
    if (cuda_ok(be, cudaEventSynchronize(p->there[slot]), "a post"))
        memcpy(host_dst, p->pinned + slot * POST_SIZE, size);
}
