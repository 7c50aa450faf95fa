/* nccl.c — ranks whose GPUs talk to each other through NCCL; libheed-nccl.so.
 *
 * Who is who, and the host calls, are MPI's (libheed-mpi.so): NCCL only moves device memory. It
 * has a stream of its own, ordered against the backend's by events. There are no kernels here, and
 * neither NCCL nor the driver is linked: both are found when the plug-in is asked for. NCCL's
 * reductions are not used, since their bits depend on the number of ranks. */
#include <dlfcn.h>
#include <nccl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loader.h"
#include "comm/transport.h"

/* The functions of the two libraries: name, result, parameters. CUDA's are the driver's. */
#define NCCL_FUNCTIONS(X)                                                                          \
    X(ncclGetUniqueId, ncclResult_t, (ncclUniqueId * id))                                          \
    X(ncclCommInitRank, ncclResult_t, (ncclComm_t * comm, int n, ncclUniqueId id, int rank))       \
    X(ncclCommDestroy, ncclResult_t, (ncclComm_t comm))                                            \
    X(ncclCommGetAsyncError, ncclResult_t, (ncclComm_t comm, ncclResult_t * result))               \
    X(ncclGroupStart, ncclResult_t, (void))                                                        \
    X(ncclGroupEnd, ncclResult_t, (void))                                                          \
    X(ncclSend, ncclResult_t,                                                                      \
      (const void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,                 \
       cudaStream_t stream))                                                                       \
    X(ncclRecv, ncclResult_t,                                                                      \
      (void *data, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream)) \
    X(ncclGetErrorString, const char *, (ncclResult_t result))
#define CUDA_FUNCTIONS(X)                                                                          \
    X(cuStreamGetCtx, int, (cudaStream_t stream, void **context))                                  \
    X(cuCtxSetCurrent, int, (void *context))                                                       \
    X(cuStreamCreate, int, (cudaStream_t * stream, unsigned flags))                                \
    X(cuStreamDestroy_v2, int, (cudaStream_t stream))                                              \
    X(cuStreamWaitEvent, int, (cudaStream_t stream, cudaEvent_t event, unsigned flags))            \
    X(cuStreamQuery, int, (cudaStream_t stream))                                                   \
    X(cuEventCreate, int, (cudaEvent_t * event, unsigned flags))                                   \
    X(cuEventDestroy_v2, int, (cudaEvent_t event))                                                 \
    X(cuEventRecord, int, (cudaEvent_t event, cudaStream_t stream))

#define FUNCTION(name, result, parameters) static result(*p_##name) parameters;
NCCL_FUNCTIONS(FUNCTION)
CUDA_FUNCTIONS(FUNCTION)
#undef FUNCTION

enum { NON_BLOCKING = 1, NO_TIMING = 2, NOT_READY = 600 /* of CUDA's driver */ };

struct nccl {
    struct comm head;
    struct comm *control;
    ncclComm_t world;
    void *context;
    cudaStream_t queue, stream; /* the backend's, and NCCL's own */
    cudaEvent_t before, after;
};

static struct nccl *nccl_of(struct comm *comm) { return (struct nccl *)comm; }

static int failed(struct nccl *n, ncclResult_t result, const char *what) {
    if (result == ncclSuccess || result == ncclInProgress) return 0;
    comm_fail(&n->head, HEED_EDEVICE, "nccl: rank %d of %d: %s: %s", n->head.rank, n->head.size,
              what, p_ncclGetErrorString(result));
    return 1;
}

static int cuda_failed(struct nccl *n, int result, const char *what) {
    if (result)
        comm_fail(&n->head, HEED_EDEVICE, "nccl: rank %d of %d: %s: CUDA error %d", n->head.rank,
                  n->head.size, what, result);
    return result;
}

/* ---- libraries ------------------------------------------------------------------------------- */

static int find(void *library, const char *name, void *function, const char *from,
                struct err *err) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol ? 0 : err_set(err, HEED_EDEVICE, "nccl: %s lacks %s", from, name);
}

static int load(struct err *err) {
    static const char nccl_name[] = "libnccl.so.2", cuda_name[] = "libcuda.so.1";
    /* Both stay loaded. */
    void *cuda = dlopen(cuda_name, RTLD_NOW | RTLD_LOCAL), *nccl = NULL;
    if (cuda) nccl = dlopen(nccl_name, RTLD_NOW | RTLD_LOCAL);
    /* cppcheck-suppress resourceLeak ; as said */
    if (!nccl) return err_set(err, HEED_EDEVICE, "nccl: cannot be loaded: %.200s", dlerror());
    int rc = 0;
#define FIND(name, result, parameters)                                                             \
    if (!rc) rc = find(library, #name, &p_##name, from, err);
    void *library = nccl;
    const char *from = nccl_name;
    NCCL_FUNCTIONS(FIND)
    library = cuda;
    from = cuda_name;
    CUDA_FUNCTIONS(FIND)
#undef FIND
    return rc;
}

/* ---- host memory ----------------------------------------------------------------------------- */

/* What MPI could not do is this comm's failure, too. */
static void settle(struct nccl *n) {
    if (n->control->err.code) comm_fail(&n->head, n->control->err.code, "%s", n->control->err.msg);
}

static void nccl_bcast(struct comm *comm, void *data, size_t size, int root) {
    struct nccl *n = nccl_of(comm);
    n->control->vt->bcast(n->control, data, size, root);
    settle(n);
}

static void nccl_gather(struct comm *comm, void *all, const void *mine, size_t size) {
    struct nccl *n = nccl_of(comm);
    n->control->vt->gather(n->control, all, mine, size);
    settle(n);
}

static void nccl_send(struct comm *comm, const void *data, size_t size, int to) {
    struct nccl *n = nccl_of(comm);
    n->control->vt->send(n->control, data, size, to);
    settle(n);
}

static void nccl_receive(struct comm *comm, void *data, size_t size, int from) {
    struct nccl *n = nccl_of(comm);
    n->control->vt->receive(n->control, data, size, from);
    settle(n);
}

/* ---- device memory --------------------------------------------------------------------------- */

static void nccl_attach(struct comm *comm, const struct comm_device *device) {
    struct nccl *n = nccl_of(comm);
    ncclUniqueId id;
    if (n->world) return;
    if (!device->queue) {
        comm_fail(comm, HEED_EDEVICE, "nccl: rank %d has no GPU", comm->rank);
        return;
    }
    n->queue = device->queue;
    if (cuda_failed(n, p_cuStreamGetCtx(n->queue, &n->context), "context") ||
        cuda_failed(n, p_cuCtxSetCurrent(n->context), "context") ||
        cuda_failed(n, p_cuStreamCreate(&n->stream, NON_BLOCKING), "stream") ||
        cuda_failed(n, p_cuEventCreate(&n->before, NO_TIMING), "event") ||
        cuda_failed(n, p_cuEventCreate(&n->after, NO_TIMING), "event"))
        return;
    memset(&id, 0, sizeof id);
    if (comm->rank == 0) failed(n, p_ncclGetUniqueId(&id), "start");
    nccl_bcast(comm, &id, sizeof id, 0);
    if (!comm->err.code)
        failed(n, p_ncclCommInitRank(&n->world, comm->size, id, comm->rank), "start");
}

static void nccl_begin(struct comm *comm) {
    struct nccl *n = nccl_of(comm);
    if (!cuda_failed(n, p_cuCtxSetCurrent(n->context), "begin") &&
        !cuda_failed(n, p_cuEventRecord(n->before, n->queue), "begin"))
        cuda_failed(n, p_cuStreamWaitEvent(n->stream, n->before, 0), "begin");
}

static void nccl_end(struct comm *comm) {
    struct nccl *n = nccl_of(comm);
    if (!cuda_failed(n, p_cuCtxSetCurrent(n->context), "end") &&
        !cuda_failed(n, p_cuEventRecord(n->after, n->stream), "end"))
        cuda_failed(n, p_cuStreamWaitEvent(n->queue, n->after, 0), "end");
}

/* A message to or from every member of the level; nothing is sent where there is nothing. `scatter`
 * is exchange, where this rank's own slice goes the same way, else allgather, where it stays. */
static void run(struct nccl *n, enum comm_level level, char *in, const char *out,
                const size_t *count, int scatter) {
    struct comm *comm = &n->head;
    const char *what = scatter ? "exchange" : "allgather";
    int members = comm_count(comm, level), own = comm_index(comm, level);
    if (!n->world) comm_fail(comm, HEED_EDEVICE, "nccl: %s before attach", what);
    if (comm->err.code || failed(n, p_ncclGroupStart(), what)) return;
    for (int i = 0; i < members; i++) {
        int peer = comm_member(comm, level, i), give = scatter ? i : own, get = scatter ? own : i;
        size_t at = scatter ? (size_t)i * count[own] : comm_offset(count, i);
        if (i == own && !scatter) continue;
        if (count[give] && failed(n,
                                  p_ncclSend(out + comm_offset(count, give), count[give], ncclInt8,
                                             peer, n->world, n->stream),
                                  what))
            break;
        if (count[get] &&
            failed(n, p_ncclRecv(in + at, count[get], ncclInt8, peer, n->world, n->stream), what))
            break;
    }
    failed(n, p_ncclGroupEnd(), what);
}

static void nccl_exchange(struct comm *comm, enum comm_level level, void *recv, const void *send,
                          const size_t *count) {
    run(nccl_of(comm), level, recv, send, count, 1);
}

static void nccl_allgather(struct comm *comm, enum comm_level level, void *data,
                           const size_t *count) {
    run(nccl_of(comm), level, data, data, count, 0);
}

/* NCCL reports some failures only to those who ask while they wait. */
static void nccl_sync(struct comm *comm) {
    struct nccl *n = nccl_of(comm);
    int state;
    if (!n->world || cuda_failed(n, p_cuCtxSetCurrent(n->context), "sync")) return;
    while ((state = p_cuStreamQuery(n->stream)) == NOT_READY) {
        ncclResult_t late = ncclSuccess;
        if (failed(n, p_ncclCommGetAsyncError(n->world, &late), "sync") || failed(n, late, "sync"))
            return;
        sched_yield();
    }
    cuda_failed(n, state, "sync");
}

/* ---- life ------------------------------------------------------------------------------------ */

/* After a failure NCCL is left to the end of the process: its own ways to abort have been seen to
 * hang. */
static void nccl_close(struct comm *comm) {
    struct nccl *n = nccl_of(comm);
    if (comm->err.code) comm_fail(n->control, comm->err.code, "%s", comm->err.msg);
    if (n->world && !comm->err.code) {
        p_cuCtxSetCurrent(n->context);
        p_ncclCommDestroy(n->world);
        p_cuEventDestroy_v2(n->before);
        p_cuEventDestroy_v2(n->after);
        p_cuStreamDestroy_v2(n->stream);
    }
    n->control->vt->close(n->control);
    free(n);
}

static void nccl_quit(struct comm *comm, int status) {
    struct nccl *n = nccl_of(comm);
    n->control->vt->quit(n->control, status);
}

static const struct comm_transport table = {.name = "nccl",
                                            .close = nccl_close,
                                            .quit = nccl_quit,
                                            .bcast = nccl_bcast,
                                            .gather = nccl_gather,
                                            .send = nccl_send,
                                            .receive = nccl_receive,
                                            .attach = nccl_attach,
                                            .exchange = nccl_exchange,
                                            .allgather = nccl_allgather,
                                            .begin = nccl_begin,
                                            .end = nccl_end,
                                            .sync = nccl_sync};

int heed_nccl_open(const struct comm_abi *abi, struct comm **comm, const char *path,
                   struct err *err);

__attribute__((visibility("default"))) int
heed_nccl_open(const struct comm_abi *abi, struct comm **comm, const char *path, struct err *err) {
    union {
        void *object;
        comm_plugin_open *function;
    } open;
    struct comm *control = NULL;
    int rc = comm_abi_check(abi, "nccl", err);
    if (!rc) rc = load(err);
    if (!rc) rc = loader_find(&open.object, "mpi", path, err);
    if (!rc) rc = open.function(abi, &control, path, err);
    if (rc) return rc;
    struct nccl *n = calloc(1, sizeof *n);
    if (!n) return err_set(err, HEED_ENOMEM, "nccl: out of memory");
    n->head = *control;
    n->head.vt = &table;
    n->control = control;
    *comm = &n->head;
    return 0;
}
