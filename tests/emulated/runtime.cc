/* runtime.cc — the stand-in for the CUDA runtime: devices, memory, streams, events, recordings.
 *
 * There is one device, "emulated", with the capability of EMULATED_CAPABILITY (90) and four
 * multiprocessors, so that kernels that stay take several pieces each.
 *
 * When queued work is done is up to EMULATED_ORDER, within what a device might do:
 *     eager (default)  as it is queued;
 *     late             when somebody waits for it, or must, all streams alike;
 *     late-first       the first stream that was made late, the others as early as events allow;
 *     late-others      the reverse.
 * So a missing wait between streams, or between the device and the host, shows as a wrong result in
 * one of them. Memory comes filled with NaN, with a guard on either side that is looked at when it
 * is freed and when the host waits for the device. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "block.h"
#include "cuda.h"

static thread_local cudaError_t last_error;

static cudaError_t result(cudaError_t rc) {
    if (rc != cudaSuccess) last_error = rc;
    return rc;
}

cudaError_t cudaGetLastError(void) {
    cudaError_t rc = last_error;
    last_error = cudaSuccess;
    return rc;
}

const char *cudaGetErrorName(cudaError_t rc) {
    switch (rc) {
    case cudaSuccess:
        return "cudaSuccess";
    case cudaErrorInvalidValue:
        return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation:
        return "cudaErrorMemoryAllocation";
    case cudaErrorInsufficientDriver:
        return "cudaErrorInsufficientDriver";
    case cudaErrorDevicesUnavailable:
        return "cudaErrorDevicesUnavailable";
    case cudaErrorNoDevice:
        return "cudaErrorNoDevice";
    case cudaErrorInvalidDevice:
        return "cudaErrorInvalidDevice";
    case cudaErrorInvalidResourceHandle:
        return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady:
        return "cudaErrorNotReady";
    case cudaErrorStreamCaptureUnsupported:
        return "cudaErrorStreamCaptureUnsupported";
    }
    return "an error of no name";
}
const char *cudaGetErrorString(cudaError_t rc) { return cudaGetErrorName(rc); }

/* ---- the device ------------------------------------------------------------------------------ */

static int number_of(const char *name, int value) {
    const char *text = getenv(name);
    return text && *text ? atoi(text) : value;
}

cudaError_t cudaGetDeviceCount(int *n) { return *n = 1, cudaSuccess; }
cudaError_t cudaSetDevice(int device) {
    return result(device == 0 ? cudaSuccess : cudaErrorInvalidDevice);
}
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int) {
    snprintf(prop->name, sizeof prop->name, "emulated");
    return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int) {
    int capability = number_of("EMULATED_CAPABILITY", 90);
    switch (what) {
    case cudaDevAttrComputeCapabilityMajor:
        *value = capability / 10;
        break;
    case cudaDevAttrComputeCapabilityMinor:
        *value = capability % 10;
        break;
    case cudaDevAttrMultiProcessorCount:
        *value = 4;
        break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
        *value = capability >= 90 ? 232448 : 101376;
        break;
    case cudaDevAttrL2CacheSize:
        *value = 50 << 20;
        break;
    }
    return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int *version) { return *version = 13000, cudaSuccess; }
cudaError_t cudaRuntimeGetVersion(int *version) { return *version = 13000, cudaSuccess; }

/* ---- memory ---------------------------------------------------------------------------------- */

enum { GUARD = 256, FILL = 0xff };
static const size_t DEVICE_MEMORY = (size_t)16 << 30, FILL_MOST = (size_t)16 << 20;

static struct {
    std::recursive_mutex lock; /* of all that follows, and of streams */
    std::map<char *, size_t> block;
    size_t used;
} memory;
typedef std::lock_guard<std::recursive_mutex> guard;

static void guards_check(char *at, size_t size) {
    const unsigned char *before = (unsigned char *)at - GUARD, *after = (unsigned char *)at + size;
    for (int i = 0; i < GUARD; i++)
        if (before[i] != 0xa5 || after[i] != 0xa5) {
            fprintf(stderr, "emulated GPU: something wrote %s %zu bytes of device memory\n",
                    after[i] != 0xa5 ? "behind" : "before", size);
            abort();
        }
}

cudaError_t cudaMalloc(void **out, size_t size) {
    guard hold(memory.lock);
    void *at = NULL;
    if (size > DEVICE_MEMORY - memory.used ||
        posix_memalign(&at, GUARD, size + 2 * GUARD + 256)) /* what follows need not be aligned */
        return result(cudaErrorMemoryAllocation);
    char *begin = (char *)at + GUARD;
    memset(at, 0xa5, GUARD);
    memset(begin, FILL, size < FILL_MOST ? size : FILL_MOST);
    memset(begin + size, 0xa5, GUARD);
    memory.block[begin] = size;
    memory.used += size;
    *out = begin;
    return cudaSuccess;
}

cudaError_t cudaFree(void *at) {
    if (!at) return cudaSuccess;
    cudaDeviceSynchronize();
    guard hold(memory.lock);
    auto found = memory.block.find((char *)at);
    if (found == memory.block.end()) return result(cudaErrorInvalidValue);
    guards_check(found->first, found->second);
    memory.used -= found->second;
    memory.block.erase(found);
    free((char *)at - GUARD);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *left, size_t *all) {
    guard hold(memory.lock);
    *all = DEVICE_MEMORY;
    *left = DEVICE_MEMORY - memory.used;
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void **out, size_t size) {
    return posix_memalign(out, GUARD, size) ? result(cudaErrorMemoryAllocation) : cudaSuccess;
}
cudaError_t cudaFreeHost(void *at) {
    cudaDeviceSynchronize();
    free(at);
    return cudaSuccess;
}

/* ---- streams, events ------------------------------------------------------------------------- */

struct emulated_graph {
    std::vector<std::function<void()>> work;
};

struct emulated_stream {
    bool first, late;
    uint64_t n_queued, n_done;
    std::deque<std::function<void()>> work;
    std::shared_ptr<struct emulated_graph> capture;
    bool captures; /* it began the capture, and did not join */
};

struct emulated_event {
    struct emulated_stream *stream;
    uint64_t at; /* it has come when so much of the stream's work is done; 0: never recorded */
    double time;
    std::shared_ptr<struct emulated_graph> capture; /* it was recorded in one */
};

static std::vector<struct emulated_stream *> streams;

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_until(struct emulated_stream *s, uint64_t n) {
    guard hold(memory.lock);
    while (s->n_done < n && !s->work.empty()) {
        std::function<void()> work = std::move(s->work.front());
        s->work.pop_front();
        work();
        s->n_done++;
    }
}

cudaError_t emulated_queue(cudaStream_t s, std::function<void()> work) {
    guard hold(memory.lock);
    if (!s) return work(), cudaSuccess;
    if (s->capture) return s->capture->work.push_back(std::move(work)), cudaSuccess;
    s->work.push_back(std::move(work));
    s->n_queued++;
    if (!s->late) run_until(s, s->n_queued);
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned) {
    guard hold(memory.lock);
    const char *order = getenv("EMULATED_ORDER");
    std::string name = order ? order : "eager";
    struct emulated_stream *s = new emulated_stream();
    s->first = streams.empty();
    s->late = name == "late" || name == (s->first ? "late-first" : "late-others");
    streams.push_back(s);
    *out = s;
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s) {
    guard hold(memory.lock);
    if (s->capture) return result(cudaErrorStreamCaptureUnsupported);
    run_until(s, s->n_queued);
    for (auto &block : memory.block) guards_check(block.first, block.second);
    return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize(void) {
    guard hold(memory.lock);
    for (struct emulated_stream *s : streams) run_until(s, s->n_queued);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s) {
    guard hold(memory.lock);
    run_until(s, s->n_queued);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i] == s) streams.erase(streams.begin() + (long)i);
    delete s;
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned) {
    *out = new emulated_event();
    return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
    cudaDeviceSynchronize(); /* work that is queued may still set its time */
    delete e;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
    guard hold(memory.lock);
    e->capture = s->capture;
    if (s->capture) return cudaSuccess;
    e->stream = s;
    e->at = s->n_queued + 1;
    return emulated_queue(s, [e]() { e->time = seconds(); });
}

cudaError_t cudaEventQuery(cudaEvent_t e) {
    guard hold(memory.lock);
    return !e->at || e->stream->n_done >= e->at ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t e) {
    guard hold(memory.lock);
    if (e->at) run_until(e->stream, e->at);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end) {
    guard hold(memory.lock);
    if (!begin->at || !end->at) return result(cudaErrorInvalidResourceHandle);
    if (cudaEventQuery(begin) || cudaEventQuery(end)) return result(cudaErrorNotReady);
    *ms = (float)(1e3 * (end->time - begin->time));
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
    guard hold(memory.lock);
    if (e->capture) { /* s joins the recording, whose work is in one line anyway */
        if (s->capture && s->capture != e->capture)
            return result(cudaErrorStreamCaptureUnsupported);
        s->capture = e->capture;
        return cudaSuccess;
    }
    if (s->capture || !e->at) return cudaSuccess; /* what a recording waits for is not in it */
    struct emulated_stream *other = e->stream;
    uint64_t at = e->at;
    return emulated_queue(s, [other, at]() { run_until(other, at); });
}

/* ---- recordings ------------------------------------------------------------------------------ */

cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status) {
    *status = s->capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
    guard hold(memory.lock);
    if (s->capture) return result(cudaErrorStreamCaptureUnsupported);
    s->capture = std::make_shared<struct emulated_graph>();
    s->captures = true;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
    guard hold(memory.lock);
    if (!s->captures) return result(cudaErrorStreamCaptureUnsupported);
    std::shared_ptr<struct emulated_graph> capture = s->capture;
    for (struct emulated_stream *other : streams)
        if (other->capture == capture) other->capture = nullptr;
    s->captures = false;
    *graph = new emulated_graph(*capture);
    return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long) {
    *out = new emulated_graph(*graph);
    return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s) {
    std::vector<std::function<void()>> work = graph->work;
    return emulated_queue(s, [work]() {
        for (auto &one : work) one();
    });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return delete graph, cudaSuccess; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph) { return delete graph, cudaSuccess; }

/* ---- work ------------------------------------------------------------------------------------ */

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind,
                            cudaStream_t s) {
    return emulated_queue(s, [=]() { memmove(to, from, size); });
}
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t s) {
    return emulated_queue(s, [=]() { memset(to, byte, size); });
}
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int byte, size_t width, size_t height,
                              cudaStream_t s) {
    return emulated_queue(s, [=]() {
        for (size_t row = 0; row < height; row++) memset((char *)to + row * pitch, byte, width);
    });
}

static struct {
    std::mutex lock;
    std::map<const void *, int> shared;
} kernels;

cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute, int value) {
    std::lock_guard<std::mutex> hold(kernels.lock);
    kernels.shared[kernel] = value;
    return cudaSuccess;
}

/* Kernels are hidden symbols: a message gives the place in the file, for addr2line. */
static std::string name_of(const void *kernel) {
    char text[512];
    Dl_info info = {};
    dladdr(kernel, &info);
    snprintf(text, sizeof text, "%s+0x%zx", info.dli_fname ? info.dli_fname : "?",
             (size_t)((const char *)kernel - (const char *)info.dli_fbase));
    return text;
}

cudaError_t emulated_launch(const cudaLaunchConfig_t *config, const void *kernel,
                            std::function<void()> body) {
    dim3 grid = config->gridDim, block = config->blockDim;
    size_t shared = config->dynamicSmemBytes, allowed = 48 * 1024;
    {
        std::lock_guard<std::mutex> hold(kernels.lock);
        auto found = kernels.shared.find(kernel);
        if (found != kernels.shared.end() && (size_t)found->second > allowed)
            allowed = (size_t)found->second;
    }
    uint64_t threads = (uint64_t)block.x * block.y * block.z;
    if (threads == 0 || threads > 1024 || block.z > 64 || shared > allowed || grid.x == 0 ||
        grid.x > 0x7fffffffu || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
        return result(cudaErrorInvalidValue);
    bool early = false;
    for (unsigned i = 0; i < config->numAttrs; i++)
        early |= config->attrs[i].id == cudaLaunchAttributeProgrammaticStreamSerialization &&
                 config->attrs[i].val.programmaticStreamSerializationAllowed;
    struct emulated_kernel k = {grid, block, shared, name_of(kernel), early, body};
    return emulated_queue(config->stream, [k]() { emulated_run(k); });
}

/* ---- the copy engine's descriptors ----------------------------------------------------------- */

static CUresult encode(CUtensorMap *map, CUtensorMapDataType, cuuint32_t dims, void *at,
                       const cuuint64_t *size, const cuuint64_t *pitch, const cuuint32_t *box,
                       const cuuint32_t *step, CUtensorMapInterleave, CUtensorMapSwizzle,
                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
    if (dims != 2 || (uintptr_t)at % 16 || pitch[0] % 16 || box[0] * 2 != 128 || box[1] > 256 ||
        step[0] != 1 || step[1] != 1)
        return CUDA_ERROR_INVALID_VALUE;
    *map = {(char *)at,        (int64_t)size[0], (int64_t)size[1],
            (int64_t)pitch[0], (int)box[0],      (int)box[1]};
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult *found) {
    if (strcmp(name, "cuTensorMapEncodeTiled") != 0) return result(cudaErrorInvalidValue);
    *out = (void *)encode;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

/* ---- the driver, as far as src/backend/plugin.c asks for it ---------------------------------- */

extern "C" {
__attribute__((visibility("default"))) int cuInit(unsigned);
__attribute__((visibility("default"))) int cuDeviceGetCount(int *n);
int cuInit(unsigned) { return 0; }
int cuDeviceGetCount(int *n) { return *n = 1, 0; }
}
