/* cuda_runtime.h — a stand-in for CUDA's, with which kernels are compiled as plain C++ and run on
 * the CPU. What it is for and what it checks: ../README.md.
 *
 * Only what src/backend/cuda uses is here. Words of CUDA's C++ become nothing (__global__) or plain
 * C++ (__shared__: static, since one block runs at a time); threadIdx and its like are members of
 * the thread that runs; whatever makes threads wait for each other is a call into block.cc.
 * Functions of the host (runtime.cc) have the names and contracts of CUDA's. */
#ifndef EMULATED_CUDA_RUNTIME_H
#define EMULATED_CUDA_RUNTIME_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __noinline__
#define __shared__ static
#define __grid_constant__
#define __launch_bounds__(...)
#define __align__(n) alignas(n)

/* ---- vectors --------------------------------------------------------------------------------- */

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) {
    return {x, y, z, w};
}
static inline float2 make_float2(float x, float y) { return {x, y}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

/* ---- a kernel's threads (block.cc) ----------------------------------------------------------- */

struct emulated_thread {
    uint3 index;
    int warp, lane;
};
extern struct emulated_thread *emulated_self;
extern uint3 emulated_block;
extern dim3 emulated_block_dim, emulated_grid_dim;
#define threadIdx (emulated_self->index)
#define blockIdx  emulated_block
#define blockDim  emulated_block_dim
#define gridDim   emulated_grid_dim

/* The dynamic shared memory of the block that runs. */
void *emulated_shared(void);
#define SHARED_ARRAY(type, name) type *name = (type *)emulated_shared()

/* All lanes of `mask` bring `size` bytes (up to 64) and see those of all: returns [32][64]. It
 * stays valid until this lane's next exchange but one. `what` names the call in messages. */
const char *emulated_exchange(unsigned mask, const void *in, size_t size, const char *what);
/* All threads of the block; returns the number of those whose x is not 0. */
int emulated_barrier(int x, const char *what);
/* Lets others run until over(of). `what` is what this thread waits for. */
void emulated_poll(bool (*over)(const void *), const void *of, const char *what);

/* What a thread begins and waits for later, in groups. It is done as late as a device may do it,
 * when the thread waits: until then memory is as it was. */
enum emulated_kind { EMULATED_COPIES, EMULATED_PRODUCTS, EMULATED_STORES, EMULATED_KINDS };
void emulated_begin(enum emulated_kind kind, std::function<void()> work);
void emulated_commit(enum emulated_kind kind);
/* Until at most that many committed groups are under way. */
void emulated_wait(enum emulated_kind kind, int most);
/* What the copy engine does for whoever waits at a barrier, in any order. */
void emulated_engine(std::function<void()> work);
/* Ends the program: a kernel did what no device forgives. */
[[noreturn]] void emulated_fault(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* What a kernel says that may be set up before the one before it has ended: each of its threads has
 * to wait for that one. Blocks of it never run early here. */
#define __CUDA_ARCH__ 900
void cudaGridDependencySynchronize(void);
static inline void cudaTriggerProgrammaticLaunchCompletion(void) {}

static inline void __syncthreads(void) { emulated_barrier(0, "__syncthreads"); }
static inline int __syncthreads_or(int x) { return emulated_barrier(x, "__syncthreads_or") > 0; }
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
    emulated_exchange(mask, "", 0, "__syncwarp");
}

template <class T>
static inline T emulated_shuffle(unsigned mask, const T &x, int from, const char *what) {
    T y;
    const char *all = emulated_exchange(mask, &x, sizeof x, what);
    memcpy(&y, all + (from & 31) * 64, sizeof y);
    return y;
}
template <class T> static inline T __shfl_sync(unsigned mask, T x, int from) {
    return emulated_shuffle(mask, x, from, "__shfl_sync");
}
template <class T> static inline T __shfl_xor_sync(unsigned mask, T x, int bits) {
    return emulated_shuffle(mask, x, emulated_self->lane ^ bits, "__shfl_xor_sync");
}
template <class T> static inline T __shfl_down_sync(unsigned mask, T x, unsigned by) {
    int from = emulated_self->lane + (int)by;
    return emulated_shuffle(mask, x, from < 32 ? from : emulated_self->lane, "__shfl_down_sync");
}
template <class T> static inline T __shfl_up_sync(unsigned mask, T x, unsigned by) {
    int from = emulated_self->lane - (int)by;
    return emulated_shuffle(mask, x, from >= 0 ? from : emulated_self->lane, "__shfl_up_sync");
}
static inline unsigned __ballot_sync(unsigned mask, int x) {
    int here = x != 0;
    const char *all = emulated_exchange(mask, &here, sizeof here, "__ballot_sync");
    unsigned bits = 0;
    for (int lane = 0; lane < 32; lane++) {
        int there;
        memcpy(&there, all + lane * 64, sizeof there);
        if (mask >> lane & 1u && there) bits |= 1u << lane;
    }
    return bits;
}
static inline int __any_sync(unsigned mask, int x) { return __ballot_sync(mask, x) != 0; }
static inline int __all_sync(unsigned mask, int x) { return __ballot_sync(mask, x) == mask; }
static inline int __reduce_add_sync(unsigned mask, int x) {
    const char *all = emulated_exchange(mask, &x, sizeof x, "__reduce_add_sync");
    int sum = 0;
    for (int lane = 0; lane < 32; lane++) {
        int there;
        memcpy(&there, all + lane * 64, sizeof there);
        if (mask >> lane & 1u) sum += there;
    }
    return sum;
}

static inline int atomicAdd(int *to, int x) { /* one thread runs at a time */
    int was = *to;
    *to += x;
    return was;
}

/* ---- arithmetic ------------------------------------------------------------------------------ */

template <class To, class From> static inline To emulated_bits(From x) {
    static_assert(sizeof(To) == sizeof(From), "the same bits");
    To y;
    memcpy(&y, &x, sizeof y);
    return y;
}
static inline float __uint_as_float(unsigned x) { return emulated_bits<float>(x); }
static inline unsigned __float_as_uint(float x) { return emulated_bits<unsigned>(x); }
static inline float __int_as_float(int x) { return emulated_bits<float>(x); }
static inline int __float_as_int(float x) { return emulated_bits<int>(x); }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline unsigned __umulhi(unsigned x, unsigned y) {
    return (unsigned)((unsigned long long)x * y >> 32);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline int min(int x, int y) { return x < y ? x : y; }
static inline int max(int x, int y) { return x > y ? x : y; }
static inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
static inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
static inline int64_t min(int64_t x, int64_t y) { return x < y ? x : y; }
static inline int64_t max(int64_t x, int64_t y) { return x > y ? x : y; }

/* ---- the host's side (runtime.cc) ------------------------------------------------------------ */

enum cudaError_t {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorMemoryAllocation = 2,
    cudaErrorInsufficientDriver = 35,
    cudaErrorDevicesUnavailable = 46,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorInvalidResourceHandle = 400,
    cudaErrorNotReady = 600,
    cudaErrorStreamCaptureUnsupported = 900
};
const char *cudaGetErrorString(cudaError_t rc);
const char *cudaGetErrorName(cudaError_t rc);
cudaError_t cudaGetLastError(void);

typedef struct emulated_stream *cudaStream_t;
typedef struct emulated_event *cudaEvent_t;
typedef struct emulated_graph *cudaGraph_t;
typedef struct emulated_graph *cudaGraphExec_t;

struct cudaDeviceProp {
    char name[256];
};
enum cudaDeviceAttr {
    cudaDevAttrComputeCapabilityMajor,
    cudaDevAttrComputeCapabilityMinor,
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrL2CacheSize
};
cudaError_t cudaGetDeviceCount(int *n);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device);
cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr what, int device);
cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaRuntimeGetVersion(int *version);
cudaError_t cudaDeviceSynchronize(void);

cudaError_t cudaMemGetInfo(size_t *left, size_t *all);
cudaError_t cudaMalloc(void **out, size_t size);
cudaError_t cudaFree(void *at);
cudaError_t cudaMallocHost(void **out, size_t size);
cudaError_t cudaFreeHost(void *at);
enum cudaMemcpyKind {
    cudaMemcpyHostToDevice = 1,
    cudaMemcpyDeviceToHost = 2,
    cudaMemcpyDeviceToDevice = 3,
    cudaMemcpyDefault = 4
};
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemsetAsync(void *to, int byte, size_t size, cudaStream_t s);
cudaError_t cudaMemset2DAsync(void *to, size_t pitch, int byte, size_t width, size_t height,
                              cudaStream_t s);

enum { cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2 };
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags);
static inline cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int) {
    return cudaStreamCreateWithFlags(out, flags);
}
static inline cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0, *greatest = -5;
    return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags);
static inline cudaError_t cudaEventCreate(cudaEvent_t *out) {
    return cudaEventCreateWithFlags(out, 0);
}
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end);

enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
enum cudaStreamCaptureMode {
    cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeThreadLocal,
    cudaStreamCaptureModeRelaxed
};
cudaError_t cudaStreamIsCapturing(cudaStream_t s, cudaStreamCaptureStatus *status);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t s);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph);

enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
cudaError_t cudaFuncSetAttribute(const void *kernel, cudaFuncAttribute what, int value);
enum cudaDriverEntryPointQueryResult { cudaDriverEntryPointSuccess };
enum { cudaEnableDefault = 0 };
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out, unsigned version,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult *result);

/* ---- launches -------------------------------------------------------------------------------- */

enum cudaLaunchAttributeID { cudaLaunchAttributeProgrammaticStreamSerialization };
struct cudaLaunchAttribute {
    cudaLaunchAttributeID id;
    struct {
        int programmaticStreamSerializationAllowed;
    } val;
};
struct cudaLaunchConfig_t {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    cudaLaunchAttribute *attrs;
    unsigned numAttrs;
};

/* Checks the shape, and queues `body`, which every thread of every block will call. */
cudaError_t emulated_launch(const cudaLaunchConfig_t *config, const void *kernel,
                            std::function<void()> body);
/* Queues work of another kind, a copy or a product of the library. */
cudaError_t emulated_queue(cudaStream_t s, std::function<void()> work);

template <class... Formal, class... Actual>
static inline cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t *config,
                                             void (*kernel)(Formal...), Actual &&...actual) {
    std::tuple<std::decay_t<Formal>...> arguments(std::forward<Actual>(actual)...);
    return emulated_launch(config, (const void *)kernel,
                           [kernel, arguments]() { std::apply(kernel, arguments); });
}

#endif
