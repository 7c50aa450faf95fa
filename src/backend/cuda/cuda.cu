/* cuda.cu — the cuda backend as a device: finding a GPU, its memory, one stream, one workspace, its
 * op table, and the one function the plug-in exports.
 *
 * Everything queued goes to one stream, so ops need no ordering among themselves and the host never
 * waits, except in download and sync. Errors are sticky (cuda.h). After an error of the device
 * itself (an address out of range, an ECC error) the CUDA context is dead: every later call fails
 * with the same message, which is what a caller should see. */
#include "backend/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"
#include "base/clock.h"

enum { BLAS_WORKSPACE = 64 << 20, LEAST_CAPABILITY = 80 };

/* ---- errors ---------------------------------------------------------------------------------- */

bool cuda_ok(struct cuda_backend *be, cudaError_t rc, const char *what) {
    if (rc == cudaSuccess) return true;
    backend_fail(&be->base, rc == cudaErrorMemoryAllocation ? HEED_ENOMEM : HEED_EDEVICE,
                 "cuda: %s: %s (%s)", what, cudaGetErrorString(rc), cudaGetErrorName(rc));
    cudaGetLastError(); /* cleared where possible: the next call reports its own errors */
    return false;
}

void cuda_launched(struct cuda_backend *be, cudaError_t rc, const char *what) {
    if (cuda_ok(be, rc, what) && be->sync_each)
        cuda_ok(be, cudaStreamSynchronize(be->stream), what);
}

bool cuda_allow_shared(struct cuda_backend *be, const void *kernel, size_t bytes,
                       const char *what) {
    if (bytes > (size_t)be->shared_max) {
        backend_fail(&be->base, HEED_EDEVICE,
                     "cuda: %s: %zu bytes of shared memory, the device has %d", what, bytes,
                     be->shared_max);
        return false;
    }
    return bytes <= 48 * 1024 ||
           cuda_ok(be,
                   cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        (int)bytes),
                   what);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void *cuda_alloc(struct backend *base, size_t size) {
    void *ptr = NULL;
    cuda_bind(cuda_of(base));
    if (cudaMalloc(&ptr, size ? size : 1) == cudaSuccess) return ptr;
    cudaGetLastError();
    return NULL;
}

static void cuda_free(struct backend *base, void *ptr) {
    cuda_bind(cuda_of(base));
    cudaFree(ptr); /* waits for work that may still use it */
}

static void *cuda_queue(const struct backend *base) {
    const struct cuda_backend *be = (const struct cuda_backend *)base;
    cuda_beside_never(be); /* others order their work by this stream alone */
    return be->stream;
}

static size_t cuda_available(const struct backend *base) {
    size_t left = 0, all = 0;
    cuda_bind((const struct cuda_backend *)base);
    if (cudaMemGetInfo(&left, &all) != cudaSuccess) cudaGetLastError();
    return left;
}

static void cuda_sync(struct backend *base) {
    struct cuda_backend *be = cuda_of(base);
    cuda_bind(be);
    cuda_join(be);
    cuda_ok(be, cudaStreamSynchronize(be->stream), "waiting for the device");
}

void *cuda_workspace_beside(struct cuda_backend *be, size_t size) {
    cuda_bind(be);
    return backend_scratch(&be->base, size);
}

void *cuda_workspace(struct cuda_backend *be, size_t size) {
    cuda_bind(be);
    cuda_join(be);
    return backend_scratch(&be->base, size);
}

/* ---- timing ---------------------------------------------------------------------------------- */

/* While profiling, an event before and one after each op; their distances are read when somebody
 * asks, so that the queue stays full and what is timed is the device and not the host. */
enum { TIMED_MAX = 2048 };

struct cuda_timing {
    int n;
    enum op op[TIMED_MAX];
    cudaEvent_t begin[TIMED_MAX], end[TIMED_MAX];
};

static void timing_free(struct cuda_timing *t) {
    for (int i = 0; t && i < TIMED_MAX; i++) {
        if (t->begin[i]) cudaEventDestroy(t->begin[i]);
        if (t->end[i]) cudaEventDestroy(t->end[i]);
    }
    free(t);
}

static void cuda_settle(struct backend *base) {
    struct cuda_backend *be = cuda_of(base);
    struct cuda_timing *t = be->timing;
    if (!t || t->n == 0) return;
    cuda_sync(base);
    for (int i = 0; i < t->n; i++) {
        float ms = 0;
        if (cudaEventElapsedTime(&ms, t->begin[i], t->end[i]) != cudaSuccess) cudaGetLastError();
        base->cost[t->op[i]].ns += (uint64_t)(1e6 * (double)ms);
    }
    t->n = 0;
}

static void cuda_mark(struct backend *base, enum op op, int end) {
    struct cuda_backend *be = cuda_of(base);
    cuda_bind(be);
    if (!be->timing) be->timing = (struct cuda_timing *)calloc(1, sizeof *be->timing);
    struct cuda_timing *t = be->timing;
    if (!t) return;
    cuda_join(be);
    if (!end && t->n == TIMED_MAX) cuda_settle(base);
    cudaEvent_t *event = end ? &t->end[t->n] : &t->begin[t->n];
    if (!*event && !cuda_ok(be, cudaEventCreate(event), "an event for timing")) return;
    if (!cuda_ok(be, cudaEventRecord(*event, be->stream), "an event for timing")) return;
    if (end) t->op[t->n++] = op;
}

/* ---- open ------------------------------------------------------------------------------------ */

/* All properties at once take long: they are only asked for to name the device. */
static const char *device_name(const struct cuda_backend *be, struct cudaDeviceProp *prop) {
    bool known = cudaGetDeviceProperties(prop, be->device) == cudaSuccess;
    cudaGetLastError();
    return known ? prop->name : "?";
}

/* cuBLASLt picks its algorithms by all of these. */
static void cuda_describe(const struct backend *base, char *text, size_t size) {
    const struct cuda_backend *be = (const struct cuda_backend *)base;
    struct cudaDeviceProp prop;
    size_t blas = cublasLtGetVersion();
    snprintf(text, size, "cuda %.60s, %d multiprocessors, cuBLASLt %zu.%zu.%zu%s",
             device_name(be, &prop), be->n_sm, blas / 10000, blas / 100 % 100, blas % 100,
             be->tf32 ? ", TF32" : "");
}

static void cuda_close(struct backend *base) {
    struct cuda_backend *be = cuda_of(base);
    cuda_bind(be);
    if (be->stream) cudaStreamSynchronize(be->stream);
    timing_free(be->timing);
    cuda_beside_free(be);
    cuda_products_free(be);
    cuda_staging_free(be);
    cuda_posts_free(be);
    cudaFree(be->blas_workspace);
    if (be->blas) cublasLtDestroy(be->blas);
    if (be->stream) cudaStreamDestroy(be->stream);
    cudaGetLastError();
    free(be);
}

static const struct backend_vtable *cuda_vtable(void) {
    static struct backend_vtable vt;
    vt.name = "cuda";
    vt.device_memory = 1;
    vt.describe = cuda_describe;
    vt.close = cuda_close;
    vt.alloc = cuda_alloc;
    vt.free = cuda_free;
    vt.upload = cuda_upload;
    vt.download = cuda_download;
    vt.zero = cuda_zero;
    vt.cast = cuda_cast;
    vt.sync = cuda_sync;
    vt.available = cuda_available;
    vt.queue = cuda_queue;
    vt.mark = cuda_mark;
    vt.settle = cuda_settle;
    vt.replay = cuda_replay;
    vt.recorded = cuda_recorded;
    vt.forget = cuda_forget;
    vt.post = cuda_post;
    vt.collect = cuda_collect;
#define CUDA_OP_ENTRY(slot, args) vt.slot = cuda_##slot;
    BACKEND_OPS(CUDA_OP_ENTRY)
#undef CUDA_OP_ENTRY
    return &vt;
}

/* What may hide every device, as a text to end a message with. */
static const char *visible_devices(char *text, size_t size) {
    const char *value = getenv("CUDA_VISIBLE_DEVICES");
    if (!value) return "";
    snprintf(text, size, " (CUDA_VISIBLE_DEVICES is '%.60s')", value);
    return text;
}

/* How many devices there are, or why there are none. */
static int count_devices(int *n, struct err *err) {
    char hidden[96];
    int driver = 0, runtime = 0;
    cudaError_t rc = cudaGetDeviceCount(n);
    cudaGetLastError();
    if (rc == cudaSuccess && *n > 0) return 0;
    cudaDriverGetVersion(&driver);
    cudaRuntimeGetVersion(&runtime);
    if (rc == cudaErrorInsufficientDriver && driver > 0)
        return err_set(err, HEED_EDEVICE,
                       "cuda: the driver supports CUDA %d.%d; this build needs %d.%d or newer",
                       driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
    if (rc == cudaErrorInsufficientDriver)
        return err_set(err, HEED_EDEVICE, "cuda: there is no NVIDIA driver (libcuda.so.1)");
    if (rc == cudaSuccess || rc == cudaErrorNoDevice)
        return err_set(err, HEED_EDEVICE, "cuda: there is no usable GPU%s",
                       visible_devices(hidden, sizeof hidden));
    return err_set(err, HEED_EDEVICE, "cuda: no device can be used: %s (%s)%s",
                   cudaGetErrorString(rc), cudaGetErrorName(rc),
                   visible_devices(hidden, sizeof hidden));
}

/* "cuda" or "cuda:N" among n devices. */
static int parse_device(int *device, const char *text, int n, struct err *err) {
    char hidden[96], *end;
    *device = 0;
    if (strcmp(text, "cuda") == 0) return 0;
    long number = strtol(text + strlen("cuda:"), &end, 10);
    if (strncmp(text, "cuda:", 5) != 0 || end == text + 5 || *end)
        return err_set(err, HEED_EINVAL, "device: '%s' is not cuda or cuda:N", text);
    if (number < 0 || number >= n)
        return err_set(err, HEED_EDEVICE, "device: '%s', but there are %d devices%s", text, n,
                       visible_devices(hidden, sizeof hidden));
    *device = (int)number;
    return 0;
}

static bool env_on(const char *name) {
    const char *value = getenv(name);
    return value && strcmp(value, "0") != 0 && *value;
}

static int describe_device(struct cuda_backend *be, struct err *err) {
    int major = 0, minor = 0, l2 = 0;
    struct cudaDeviceProp prop;
    cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, be->device);
    cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, be->device);
    cudaDeviceGetAttribute(&be->n_sm, cudaDevAttrMultiProcessorCount, be->device);
    cudaDeviceGetAttribute(&be->shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin, be->device);
    cudaDeviceGetAttribute(&l2, cudaDevAttrL2CacheSize, be->device);
    be->capability = 10 * major + minor;
    be->chain = be->capability >= 90;
    be->l2_size = (size_t)l2;
    if (be->capability >= LEAST_CAPABILITY) return cudaGetLastError(), 0;
    return err_set(err, HEED_EDEVICE,
                   "cuda: device %d (%.60s) has compute capability %d.%d; %d.%d is needed",
                   be->device, device_name(be, &prop), major, minor, LEAST_CAPABILITY / 10,
                   LEAST_CAPABILITY % 10);
}

/* The first call that needs the device: whatever is wrong with it shows here. */
static int open_device(struct cuda_backend *be, struct err *err) {
    size_t left = 0, all = 0;
    double begin = clock_seconds();
    cudaError_t rc = cudaSetDevice(be->device);
    if (rc == cudaSuccess) rc = cudaMemGetInfo(&left, &all);
    /* The least priority is the one streams have by themselves: beside a second stream this one
     * needs a greater one, or dw's blocks would go before dx's. */
    int least = 0, greatest = 0;
    if (rc == cudaSuccess) rc = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    if (rc == cudaSuccess)
        rc = cudaStreamCreateWithPriority(&be->stream, cudaStreamNonBlocking,
                                          env_on("HEED_CUDA_BESIDE") ? greatest : least);
    if (rc != cudaSuccess) {
        cudaGetLastError();
        return err_set(err, rc == cudaErrorMemoryAllocation ? HEED_ENOMEM : HEED_EDEVICE,
                       "cuda: device %d cannot be opened: %s (%s)%s", be->device,
                       cudaGetErrorString(rc), cudaGetErrorName(rc),
                       rc == cudaErrorDevicesUnavailable ? "; another process holds it" : "");
    }
    begin = backend_lap(&be->base, "context", begin);
    int code = describe_device(be, err);
    if (code) return code;
    be->blas_workspace_size = BLAS_WORKSPACE;
    be->blas_workspace = cuda_alloc(&be->base, be->blas_workspace_size);
    if (!be->blas_workspace)
        return err_set(err, HEED_ENOMEM,
                       "cuda: device %d has only %.0f of %.0f MiB left, too little to start",
                       be->device, (double)left / 1048576.0, (double)all / 1048576.0);
    begin = backend_lap(&be->base, "memory", begin);
    cublasStatus_t blas = cublasLtCreate(&be->blas);
    if (blas != CUBLAS_STATUS_SUCCESS)
        return err_set(err, HEED_EDEVICE, "cuda: cuBLASLt cannot be started: %s",
                       cublasLtGetStatusString(blas));
    begin = backend_lap(&be->base, "cuBLASLt", begin);
    code = cuda_staging_new(be, err);
    if (!code) code = cuda_posts_new(be, err);
    if (!code) code = cuda_products_new(be, err);
    if (!code && env_on("HEED_CUDA_BESIDE")) code = cuda_beside_new(be, err);
    backend_lap(&be->base, "pinned memory", begin);
    return code;
}

extern "C" __attribute__((visibility("default"))) int
heed_cuda_open(const struct plugin_abi *abi, struct backend **out,
               const struct backend_options *options, struct err *err) {
    struct plugin_abi mine = PLUGIN_ABI;
    int n = 0, device = 0;
    *out = NULL;
    if (memcmp(&mine, abi, sizeof mine) != 0)
        return err_set(err, HEED_EDEVICE,
                       "cuda: the plug-in was built from other sources than this heed (interface "
                       "%d and %d): install both from one build",
                       (int)mine.version, (int)abi->version);
    double begin = clock_seconds();
    int code = count_devices(&n, err);
    double found = clock_seconds();
    if (!code) code = parse_device(&device, options->device, n, err);
    if (code) return code;
    struct cuda_backend *be = (struct cuda_backend *)calloc(1, sizeof *be);
    if (!be) return err_set(err, HEED_ENOMEM, "cuda: out of host memory");
    be->base.vt = cuda_vtable();
    be->device = device;
    backend_lap(&be->base, "devices", begin + clock_seconds() - found);
    be->tf32 = env_on("HEED_CUDA_TF32");
    be->sync_each = env_on("HEED_CUDA_SYNC");
    const char *few = getenv("HEED_CUDA_FEW");
    be->few_rows = few ? atoi(few) : 0;
    if (be->few_rows == 1) be->few_rows = 32;
    be->edges = env_on("HEED_CUDA_EDGES");
    if ((code = open_device(be, err))) {
        cuda_close(&be->base);
        return code;
    }
    *out = &be->base;
    return 0;
}
