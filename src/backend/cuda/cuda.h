/* cuda.h — what the files of the cuda backend share: the backend struct, launching, scratch memory,
 * and the small device functions every kernel uses.
 *
 * How an op is written. A slot is `void cuda_<slot>(struct backend *base, const struct <op>_args
 * *a)`:
 *
 *     struct cuda_backend *be = cuda_of(base);
 *     float *scratch = (float *)cuda_workspace(be, bytes);  // also with 0 bytes, as the first
 *     thing
 *     if (!scratch) return;                                  // planning, or an error is pending
 *     LAUNCH(be, some_kernel, grid, block, shared_bytes, arguments...);
 *     LAUNCH(be, (other_kernel<T, 4>), ...);                 // parentheses protect commas
 *
 * - One stream, be->stream: ops run in the order in which they were called, so an op may rely on
 *   everything before it and the workspace can be shared by all ops. Nothing in an op waits for the
 *   device.
 * - A launch that fails makes the backend's error sticky (backend_fail, the first one wins); LAUNCH
 *   does nothing once an error is pending. Failures inside kernels surface at the next sync.
 *   HEED_CUDA_SYNC=1 waits after every launch, so that the message names the kernel.
 * - Where there is a second stream (beside.cu), cuda_workspace waits for what is under way there.
 *   Ops of the way back call cuda_workspace_beside instead, then cuda_await with all they write.
 * - The workspace is 256-byte aligned, uninitialised, valid until the next op begins.
 *   cuda_workspace is called once per op with the sum of what it needs (struct cuda_carve helps);
 *   the size must not shrink when the number of rows grows, since planning sends the largest batch
 *   only.
 * - Between two kernels the device idles for a microsecond or two, which adds up over the hundreds
 *   of a step. CHAIN launches like LAUNCH, but lets the blocks of this kernel be set up while the
 *   last ones of the kernel before are still running. Such a kernel calls chain_wait() before it
 *   touches memory.
 * - Data pointers have the alignment of their element type and no more (column slices, tests); take
 *   the wide path only where cuda_aligned says so.
 * - Deterministic: no float atomics; sums go through fixed blocks in fixed order.
 *
 * The plug-in is a shared object of its own and needs nothing from the program that loads it: it
 * brings its own copy of device.c. Written in C++ for templates over the storage type, otherwise in
 * the style of the rest. */
#ifndef BACKEND_CUDA_CUDA_H
#define BACKEND_CUDA_CUDA_H

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <initializer_list>
#include <stddef.h>
#include <stdint.h>
#include <type_traits>
#include <utility>

extern "C" {
#include "backend/device.h"
}

struct cuda_products; /* gemm.cu: descriptors and algorithms of matrix products, by shape */
struct cuda_staging;  /* memory.cu: pinned memory that uploads pass through */
struct cuda_posts;    /* record.cu: small results on their way to the host */
struct cuda_timing;   /* cuda.cu: events of ops while profiling */
struct cuda_beside;   /* beside.cu: products on a second stream */

struct cuda_backend {
    struct backend base;
    int device, n_sm;
    int shared_max; /* bytes of shared memory a block may ask for */
    int capability; /* 90 for sm_90 */
    size_t l2_size;
    int tf32, sync_each; /* HEED_CUDA_TF32: products of f32 on tensor cores; HEED_CUDA_SYNC */
    int chain;           /* kernels may be set up while the one before still runs; see CHAIN */
    int few_rows, edges; /* HEED_CUDA_FEW, HEED_CUDA_EDGES: experiments (docs/notes/gpu.md) */
    cudaStream_t stream;
    cublasLtHandle_t blas;
    void *blas_workspace;
    size_t blas_workspace_size;
    struct cuda_products *products;
    struct cuda_staging *staging;
    struct cuda_posts *posts;
    struct cuda_timing *timing;
    struct cuda_beside *beside; /* NULL: there is no second stream */
};

static inline struct cuda_backend *cuda_of(struct backend *be) { return (struct cuda_backend *)be; }

/* ---- errors ---------------------------------------------------------------------------------- */

/* True if rc is success; else records it with `what` (a kernel, a call). */
bool cuda_ok(struct cuda_backend *be, cudaError_t rc, const char *what);

/* CUDA has a current device per thread; whoever calls a backend may do so from any thread, and from
 * one that used another device before. */
static inline void cuda_bind(const struct cuda_backend *be) { cudaSetDevice(be->device); }

/* ---- scratch --------------------------------------------------------------------------------- */

/* backend_scratch on the right device, when all that runs beside the stream is done; or while it
 * goes on. */
void *cuda_workspace(struct cuda_backend *be, size_t size);
void *cuda_workspace_beside(struct cuda_backend *be, size_t size);

/* Several parts of one workspace: the same function carves over NULL (measures) and over memory. */
struct cuda_carve {
    char *base;
    size_t used;
};
template <class T> static inline T *cuda_take(struct cuda_carve *c, size_t count) {
    size_t at = (c->used + 255) & ~(size_t)255;
    c->used = at + count * sizeof(T);
    return c->base ? reinterpret_cast<T *>(c->base + at) : nullptr;
}

/* ---- launching ------------------------------------------------------------------------------- */

void cuda_launched(struct cuda_backend *be, cudaError_t rc, const char *what);

/* How a kernel is launched: its blocks, and their bytes of dynamic shared memory. */
struct cuda_shape {
    dim3 grid, block;
    size_t shared;
};
static inline struct cuda_shape cuda_shape_of(dim3 grid, dim3 block, size_t shared) {
    return {grid, block, shared};
}

/* Is what is launched recorded, to be replayed? Recordings keep plain order, unless `edges`. */
static inline bool cuda_recording(const struct cuda_backend *be) {
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    return cudaStreamIsCapturing(be->stream, &capture) == cudaSuccess &&
           capture != cudaStreamCaptureStatusNone;
}

template <class... Formal, class... Actual>
static inline void cuda_launch(struct cuda_backend *be, const char *what, bool chain,
                               void (*kernel)(Formal...), const struct cuda_shape &shape,
                               Actual &&...arguments) {
    if (be->base.err.code || shape.grid.x == 0 || shape.grid.y == 0 || shape.grid.z == 0) return;
    cudaLaunchConfig_t config = {};
    config.gridDim = shape.grid;
    config.blockDim = shape.block;
    config.dynamicSmemBytes = shape.shared;
    config.stream = be->stream;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    if (chain && be->chain && (be->edges || !cuda_recording(be))) {
        config.attrs = &early;
        config.numAttrs = 1;
    }
    cudaError_t rc = cudaLaunchKernelEx(&config, kernel, static_cast<Formal>(arguments)...);
    if (rc != cudaSuccess || be->sync_each) cuda_launched(be, rc, what);
}

/* grid and block: dim3 or a number. More than 48 KiB of shared memory: call cuda_allow_shared
 * before. */
#define LAUNCH(be, kernel, grid, block, shared, ...)                                               \
    cuda_launch(be, #kernel, false, kernel, cuda_shape_of(grid, block, shared), __VA_ARGS__)
/* The same for a kernel chosen beforehand: `name` is what a message calls it. */
#define LAUNCH_AS(be, name, kernel, grid, block, shared, ...)                                      \
    cuda_launch(be, name, false, kernel, cuda_shape_of(grid, block, shared), __VA_ARGS__)
/* For kernels that begin with chain_wait(). */
#define CHAIN(be, kernel, grid, block, shared, ...)                                                \
    cuda_launch(be, #kernel, true, kernel, cuda_shape_of(grid, block, shared), __VA_ARGS__)
#define CHAIN_AS(be, name, kernel, grid, block, shared, ...)                                       \
    cuda_launch(be, name, true, kernel, cuda_shape_of(grid, block, shared), __VA_ARGS__)

/* The dynamic shared memory of a block, as an array. This is a macro, and instructions that C++ has
 * no words for are in mma.h and hopper.h only, so that tests can compile kernels for a CPU
 * (tests/emulated). */
#ifndef SHARED_ARRAY
#define SHARED_ARRAY(type, name) extern __shared__ type name[]
#endif

/* Waits until the kernel before has ended and all it wrote is visible; from then on the blocks
 * of the kernel after may be set up, as far as there is room for them. */
static __device__ __forceinline__ void chain_wait() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

/* Once per kernel, at its first use: lets it have `bytes` of dynamic shared memory. */
bool cuda_allow_shared(struct cuda_backend *be, const void *kernel, size_t bytes, const char *what);

static inline int cuda_blocks(int64_t n, int64_t block) { return (int)((n + block - 1) / block); }

/* Grid for a grid-stride loop over n items: enough blocks to fill the device, no more than
 * needed. */
static inline int cuda_grid(const struct cuda_backend *be, int64_t n, int block, int per_sm) {
    int64_t want = (n + block - 1) / block, most = (int64_t)be->n_sm * per_sm;
    return (int)(want < most ? want : most);
}

/* ---- types ----------------------------------------------------------------------------------- */

typedef __nv_bfloat16 bf16;

static __device__ __forceinline__ float to_f32(float x) { return x; }
static __device__ __forceinline__ float to_f32(bf16 x) { return __bfloat162float(x); }
template <class T> static __device__ __forceinline__ T from_f32(float x);
template <> __device__ __forceinline__ float from_f32<float>(float x) { return x; }
template <> __device__ __forceinline__ bf16 from_f32<bf16>(float x) {
    return __float2bfloat16_rn(x);
}

/* N neighbours at once: one access of N * sizeof(T) bytes, which must be aligned to that (at most
 * 16). */
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) pack { T x[N]; };
template <class T, int N>
static __device__ __forceinline__ void load_pack(float (&out)[N], const T *from) {
    pack<T, N> p = *reinterpret_cast<const pack<T, N> *>(from);
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = to_f32(p.x[i]);
}
template <class T, int N>
static __device__ __forceinline__ void store_pack(T *to, const float (&in)[N]) {
    pack<T, N> p;
    if constexpr (std::is_same_v<T, bf16> && N % 2 == 0) { /* one instruction rounds two */
        union {
            pack<T, N> all;
            __nv_bfloat162 two[N / 2];
        } u;
#pragma unroll
        for (int i = 0; i < N / 2; i++) u.two[i] = __floats2bfloat162_rn(in[2 * i], in[2 * i + 1]);
        p = u.all;
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) p.x[i] = from_f32<T>(in[i]);
    }
    *reinterpret_cast<pack<T, N> *>(to) = p;
}

/* 16 bytes as they lie in memory, to be held in four registers until they are needed as numbers (an
 * array of bf16 would take a register for each). */
static __device__ __forceinline__ void unpack16(float (&x)[4], const uint4 &raw) {
    x[0] = __uint_as_float(raw.x), x[1] = __uint_as_float(raw.y);
    x[2] = __uint_as_float(raw.z), x[3] = __uint_as_float(raw.w);
}
static __device__ __forceinline__ void unpack16(float (&x)[8], const uint4 &raw) {
    uint32_t word[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        x[2 * i] = __uint_as_float(word[i] << 16); /* a bf16 is the upper half of an f32 */
        x[2 * i + 1] = __uint_as_float(word[i] & 0xffff0000u);
    }
}

/* Eight columns of a row, of which the first n exist; WIDE: all of them do, and the address is a
 * multiple of 16 bytes. The others read as 0 and are not written. */
template <bool WIDE, class T>
static __device__ __forceinline__ void load8(float (&out)[8], const T *from, int n) {
    if constexpr (WIDE) {
        load_pack(out, from);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++) out[i] = i < n ? to_f32(from[i]) : 0.0f;
    }
}
template <bool WIDE, class T>
static __device__ __forceinline__ void store8(T *to, const float (&in)[8], int n) {
    if constexpr (WIDE) {
        store_pack(to, in);
    } else {
#pragma unroll
        for (int i = 0; i < 8; i++)
            if (i < n) to[i] = from_f32<T>(in[i]);
    }
}

/* Host: may rows of m be read `bytes` at a time? An absent matrix is no obstacle. */
static inline bool cuda_aligned(const struct mat *m, size_t bytes) {
    size_t one = dtype_size(m->type);
    return mat_empty(m) || ((uintptr_t)m->data % bytes == 0 && (size_t)m->ld * one % bytes == 0 &&
                            (size_t)m->cols * one % bytes == 0);
}

/* May all eights of columns be read at once, by load8? */
static inline bool cuda_wide(const struct mat *m) {
    return mat_empty(m) || (cuda_aligned(m, 16) && m->cols % 8 == 0);
}

/* Host: ops.c lets tiled weights through to linear and embed; they are for the cpu. */
static inline bool cuda_plain(struct cuda_backend *be, const struct mat *m, const char *op) {
    if (!m->tiled && m->type != DTYPE_I8) return true;
    backend_fail(&be->base, HEED_EINVAL, "cuda: %s: weights tiled for the cpu", op);
    return false;
}

/* Calls body(T()) with the C++ type of an act-type matrix; ops.c has let only these two
 * through. */
template <class Body> static inline void cuda_with_type(enum dtype type, Body body) {
    if (type == DTYPE_BF16)
        body(bf16());
    else
        body(float());
}

template <class T> static inline T *cuda_data(const struct mat *m) { return (T *)m->data; }

/* ---- sums ------------------------------------------------------------------------------------ */

static __device__ __forceinline__ float warp_sum(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
static __device__ __forceinline__ double warp_sum(double x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
static __device__ __forceinline__ float warp_max(float x) {
#pragma unroll
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}

/* Sum over a block of whole warps, in all threads. `slot` is shared memory for 32 values, free on
 * entry (a barrier since its last use) and in use until the next barrier. */
template <class T> static __device__ __forceinline__ T block_sum(T x, T *slot) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warp = blockDim.x / 32;
    x = warp_sum(x);
    if (lane == 0) slot[warp] = x;
    __syncthreads();
    return warp_sum(lane < n_warp ? slot[lane] : T(0));
}

static __device__ __forceinline__ float block_max(float x, float *slot) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n_warp = blockDim.x / 32;
    x = warp_max(x);
    if (lane == 0) slot[warp] = x;
    __syncthreads();
    return warp_max(lane < n_warp ? slot[lane] : -INFINITY);
}

/* ---- dropout --------------------------------------------------------------------------------- */

/* Philox4x32-10, bit for bit that of base/rng.h. */
static __device__ __forceinline__ uint4 philox4x32_device(uint64_t key, uint32_t c0, uint32_t c1,
                                                          uint32_t c2, uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        uint32_t hi0 = __umulhi(0xD2511F53u, c0), lo0 = 0xD2511F53u * c0;
        uint32_t hi1 = __umulhi(0xCD9E8D57u, c2), lo1 = 0xCD9E8D57u * c2;
        c0 = hi1 ^ c1 ^ k0;
        c2 = hi0 ^ c3 ^ k1;
        c1 = lo1;
        c3 = lo0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return make_uint4(c0, c1, c2, c3);
}

/* struct dropout (ops.h) as kernels take it. threshold == 0: nothing is dropped. */
struct cuda_dropout {
    uint64_t seed;
    uint32_t threshold, site, step;
    float scale;
};

static inline struct cuda_dropout cuda_dropout_of(const struct dropout *d) {
    struct cuda_dropout c = {d->seed, dropout_threshold(d->p), d->site, d->step,
                             dropout_scale(d->p)};
    return c;
}

/* Which of the columns 8 * block .. 8 * block + 7 of a row are kept: bit i for column 8 * block +
 * i. */
static __device__ __forceinline__ uint32_t dropout_keep8(const struct cuda_dropout &d, uint32_t row,
                                                         uint32_t block) {
    uint4 bits = philox4x32_device(d.seed, block, row, d.site, d.step);
    uint32_t word[4] = {bits.x, bits.y, bits.z, bits.w}, keep = 0;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        keep |= ((word[i] & 0xffffu) >= d.threshold ? 1u : 0u) << (2 * i);
        keep |= ((word[i] >> 16) >= d.threshold ? 1u : 0u) << (2 * i + 1);
    }
    return keep;
}

/* Factor of one element: 0, or the scale of what is kept. Eight neighbours draw from one call
 * above. */
static __device__ __forceinline__ float dropout_factor1(const struct cuda_dropout &d, uint32_t row,
                                                        uint32_t col) {
    if (d.threshold == 0) return 1.0f;
    return dropout_keep8(d, row, col / 8) >> (col % 8) & 1u ? d.scale : 0.0f;
}

/* ---- products -------------------------------------------------------------------------------- */

/* gemm.cu: c = [c +] op(a) op(b), row-major, f32 accumulation.
 *     c [m,n];  op(a) [m,k]: a is [m,k], or [k,m] when a_trans;  op(b) [k,n]: b is [k,n], or [n,k]
 *               when b_trans
 * bias [n] (type of a) is added before the optional ReLU. */
struct cuda_gemm {
    int m, n, k;
    const void *a, *b;
    int64_t lda, ldb, ldc;
    enum dtype type;   /* of a, b and bias */
    enum dtype c_type; /* F32, or that of a */
    int a_trans, b_trans, add, relu;
    void *c;
    const void *bias; /* or NULL */
};
void cuda_gemm_run(struct cuda_backend *be, const struct cuda_gemm *g);

/* few_rows.cu: the same where it is one for its kernel; else false, and nothing has been done. */
bool cuda_few_rows(struct cuda_backend *be, const struct cuda_gemm *g);

/* c = op(a) op(b); the caller adds whatever else the product should do. */
static inline struct cuda_gemm cuda_gemm_of(const struct mat *c, const struct mat *a, int a_trans,
                                            const struct mat *b, int b_trans) {
    struct cuda_gemm g = {};
    g.m = a_trans ? a->cols : a->rows, g.k = a_trans ? a->rows : a->cols;
    g.n = b_trans ? b->rows : b->cols;
    g.a = a->data, g.lda = a->ld, g.a_trans = a_trans;
    g.b = b->data, g.ldb = b->ld, g.b_trans = b_trans;
    g.c = c->data, g.ldc = c->ld;
    g.type = a->type, g.c_type = c->type;
    return g;
}

/* beside.cu: what is queued from now on begins when all products beside the stream have ended, or
 * those that read or write what it is going to write. */
void cuda_join(struct cuda_backend *be);
void cuda_await(struct cuda_backend *be, std::initializer_list<const struct mat *> written);
/* Where there is a second stream and it may be used: what is queued there from now on begins when
 * all that is queued so far has ended. Its own scratch memory, of at least so many bytes; else
 * NULL. Between begin and end everything is queued there: it reads dy and x, writes dw and db. */
void *cuda_beside_fork(struct cuda_backend *be, size_t scratch);
void cuda_beside_begin(struct cuda_backend *be);
void cuda_beside_end(struct cuda_backend *be, const struct linear_args *a);
void cuda_beside_never(const struct cuda_backend *be);
int cuda_beside_new(struct cuda_backend *be, struct err *err);
void cuda_beside_free(struct cuda_backend *be);

int cuda_products_new(struct cuda_backend *be, struct err *err);
void cuda_products_free(struct cuda_backend *be);

/* sum_rows.cu: how a pass over [rows, cols] that also sums columns is cut into blocks. A thread has
 * eight columns; a row of threads has neighbouring ones, up to 2,048, and a block as many rows of
 * threads as make CUDA_SUM_THREADS, so that what is under way lies together in memory. A row of
 * threads takes CUDA_SUM_AHEAD rows of the matrix, then those a whole grid further on. A block
 * leaves one row of partial sums. */
enum { CUDA_SUM_THREADS = 256, CUDA_SUM_AHEAD = 2, CUDA_SUM_PER_SM = 4 };
struct cuda_sum_shape {
    dim3 grid, block; /* grid.x: rows of partial sums */
};
struct cuda_sum_shape cuda_sum_shape(const struct cuda_backend *be, int rows, int cols);
size_t cuda_sum_rows_size(const struct cuda_backend *be, int rows, int cols);
static __device__ __forceinline__ int sum_first_row() {
    return (blockIdx.x * blockDim.y + threadIdx.y) * CUDA_SUM_AHEAD;
}
static __device__ __forceinline__ int sum_row_step() {
    return gridDim.x * blockDim.y * CUDA_SUM_AHEAD;
}
static __device__ __forceinline__ int sum_first_col() {
    return (blockIdx.y * blockDim.x + threadIdx.x) * 8;
}
/* The end of such a pass, for all threads of the block: adds up its rows of threads, in order. */
static __device__ __forceinline__ void sum_store(float *partial, const float (&sum)[8], int cols) {
    __shared__ float part[CUDA_SUM_THREADS][8];
    int col = sum_first_col(), at = threadIdx.y * blockDim.x + threadIdx.x;
#pragma unroll
    for (int j = 0; j < 8; j++) part[at][j] = sum[j];
    __syncthreads();
    if (threadIdx.y != 0) return;
    for (int j = 0; j < 8 && col + j < cols; j++) {
        float total = 0;
        for (unsigned y = 0; y < blockDim.y; y++) total += part[y * blockDim.x + threadIdx.x][j];
        partial[(int64_t)blockIdx.x * cols + col + j] = total;
    }
}
/* sum[j] += column sums of x, in an order fixed by its shape and the device; `partial` is scratch
 * of cuda_sum_rows_size bytes. */
void cuda_sum_rows(struct cuda_backend *be, float *sum, const struct mat *x, void *partial);
/* The second stage alone, for up to three vectors of `cols` values side by side in a row of partial
 * sums:
 *     sum.to[v][j] += sum over i of partial[i, v * cols + j], i < rows, in an order fixed by their
 *     number. */
struct cuda_sums {
    float *to[3];
    int n;
};
void cuda_add_partials(struct cuda_backend *be, const struct cuda_sums *sum, const float *partial,
                       int rows, int cols);

/* through_relu.cu: the part of linear_bwd that is about dx and dx_sum, where x came out of a ReLU
 * and the shape is one for sm_90a; else false, and nothing has been done. `partial` is scratch of
 * cuda_through_relu_size bytes. */
bool cuda_through_relu(struct cuda_backend *be, const struct linear_args *a, float *partial);
size_t cuda_through_relu_size(const struct mat *dx);

/* memory.cu */
int cuda_staging_new(struct cuda_backend *be, struct err *err);
void cuda_staging_free(struct cuda_backend *be);
void cuda_upload(struct backend *base, void *dst, const void *host_src, size_t size);
void cuda_download(struct backend *base, void *host_dst, const void *src, size_t size);
void cuda_zero(struct backend *base, void *dst, size_t size);
void cuda_cast(struct backend *base, const struct mat *dst, const struct mat *src);

/* record.cu */
int cuda_replay(struct backend *base, struct recording **recording);
int cuda_recorded(struct backend *base, struct recording **recording);
void cuda_forget(struct backend *base, struct recording *recording);
int cuda_posts_new(struct cuda_backend *be, struct err *err);
void cuda_posts_free(struct cuda_backend *be);
void cuda_post(struct backend *base, int slot, const void *src, size_t size);
void cuda_collect(struct backend *base, int slot, void *host_dst, size_t size);

#define CUDA_OP_DECLARE(slot, args) void cuda_##slot(struct backend *base, const struct args *a);
BACKEND_OPS(CUDA_OP_DECLARE)
#undef CUDA_OP_DECLARE

#endif
