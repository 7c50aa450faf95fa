/* memory.cu — transfers, zeroing and conversion.
 *
 * An upload returns when the source may be reused, not when the device has the data: it is copied
 * into a ring of pinned memory first, from where the copy engine takes it in the stream's order.
 * The ring is a few slots; an event tells when a slot has been read, so the host waits only when it
 * is a whole ring ahead. A download waits: that is its contract. Small ones, the numbers of a step,
 * go through pinned memory too. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { SLOTS = 4, SLOT_SIZE = 4 << 20, BOUNCE_SIZE = 4096 };

struct cuda_staging {
    char *ring;   /* [SLOTS][SLOT_SIZE], pinned */
    char *bounce; /* [BOUNCE_SIZE], pinned; behind the ring */
    int slot;
    size_t used; /* bytes of the current slot */
    cudaEvent_t read[SLOTS];
    bool busy[SLOTS]; /* read[] has been recorded */
};

int cuda_staging_new(struct cuda_backend *be, struct err *err) {
    struct cuda_staging *s = (struct cuda_staging *)calloc(1, sizeof *s);
    be->staging = s;
    if (!s) return err_set(err, HEED_ENOMEM, "cuda: out of host memory");
    size_t size = (size_t)SLOTS * SLOT_SIZE + BOUNCE_SIZE;
    cudaError_t rc = cudaMallocHost((void **)&s->ring, size);
    for (int i = 0; i < SLOTS && rc == cudaSuccess; i++)
        rc = cudaEventCreateWithFlags(&s->read[i], cudaEventDisableTiming);
    if (rc == cudaSuccess) {
        s->bounce = s->ring + (size_t)SLOTS * SLOT_SIZE;
        return 0;
    }
    cudaGetLastError();
    return err_set(err, HEED_ENOMEM, "cuda: no pinned memory for transfers (%.0f MiB): %s",
                   (double)size / 1048576.0, cudaGetErrorString(rc));
}

void cuda_staging_free(struct cuda_backend *be) {
    struct cuda_staging *s = be->staging;
    if (!s) return;
    for (int i = 0; i < SLOTS; i++)
        if (s->read[i]) cudaEventDestroy(s->read[i]);
    if (s->ring) cudaFreeHost(s->ring);
    free(s);
    be->staging = NULL;
}

static bool next_slot(struct cuda_backend *be) {
    struct cuda_staging *s = be->staging;
    if (!cuda_ok(be, cudaEventRecord(s->read[s->slot], be->stream), "upload")) return false;
    s->busy[s->slot] = true;
    s->slot = (s->slot + 1) % SLOTS;
    s->used = 0;
    return !s->busy[s->slot] || cuda_ok(be, cudaEventSynchronize(s->read[s->slot]), "upload");
}

void cuda_upload(struct backend *base, void *dst, const void *host_src, size_t size) {
    struct cuda_backend *be = cuda_of(base);
    struct cuda_staging *s = be->staging;
    cuda_bind(be);
    cuda_join(be);
    for (size_t at = 0; at < size;) {
        if (s->used >= SLOT_SIZE && !next_slot(be)) return;
        size_t n = SLOT_SIZE - s->used < size - at ? SLOT_SIZE - s->used : size - at;
        char *pinned = s->ring + (size_t)s->slot * SLOT_SIZE + s->used;
        memcpy(pinned, (const char *)host_src + at, n);
        if (!cuda_ok(
                be,
                cudaMemcpyAsync((char *)dst + at, pinned, n, cudaMemcpyHostToDevice, be->stream),
                "upload"))
            return;
        s->used += (n + 63) & ~(size_t)63;
        at += n;
    }
}

void cuda_download(struct backend *base, void *host_dst, const void *src, size_t size) {
    struct cuda_backend *be = cuda_of(base);
    bool small = size <= BOUNCE_SIZE;
    void *to = small ? be->staging->bounce : host_dst;
    cuda_bind(be);
    cuda_join(be);
    if (!cuda_ok(be, cudaMemcpyAsync(to, src, size, cudaMemcpyDeviceToHost, be->stream),
                 "download") ||
        !cuda_ok(be, cudaStreamSynchronize(be->stream), "download"))
        return;
    if (small) memcpy(host_dst, to, size);
}

void cuda_zero(struct backend *base, void *dst, size_t size) {
    struct cuda_backend *be = cuda_of(base);
    cuda_bind(be);
    cuda_join(be);
    cuda_ok(be, cudaMemsetAsync(dst, 0, size, be->stream), "zero");
}

/* ---- cast ------------------------------------------------------------------------------------ */

static __device__ double widen(double x) { return x; }
static __device__ double widen(float x) { return x; }
static __device__ double widen(bf16 x) { return __bfloat162float(x); }
static __device__ void narrow(double *to, double x) { *to = x; }
static __device__ void narrow(float *to, double x) { *to = (float)x; }
static __device__ void narrow(bf16 *to, double x) { *to = __float2bfloat16_rn((float)x); }

template <class To, class From>
static __global__ void cast_kernel(To *dst, int64_t dst_ld, const From *src, int64_t src_ld,
                                   int64_t rows, int64_t cols) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < rows * cols;
         at += step) {
        int64_t i = at / cols, j = at - i * cols;
        narrow(dst + i * dst_ld + j, widen(src[i * src_ld + j]));
    }
}

template <class To, class From>
static void cast_launch(struct cuda_backend *be, const struct mat *dst, const struct mat *src) {
    int64_t n = (int64_t)dst->rows * dst->cols;
    LAUNCH(be, (cast_kernel<To, From>), cuda_grid(be, n, 256, 16), 256, 0, (To *)dst->data, dst->ld,
           (const From *)src->data, src->ld, dst->rows, dst->cols);
}

template <class To>
static void cast_to(struct cuda_backend *be, const struct mat *dst, const struct mat *src) {
    if (src->type == DTYPE_F64)
        cast_launch<To, double>(be, dst, src);
    else if (src->type == DTYPE_F32)
        cast_launch<To, float>(be, dst, src);
    else
        cast_launch<To, bf16>(be, dst, src);
}

void cuda_cast(struct backend *base, const struct mat *dst, const struct mat *src) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_plain(be, dst, "cast") || !cuda_plain(be, src, "cast")) return;
    cuda_bind(be);
    cuda_join(be);
    if (dst->type == DTYPE_F64)
        cast_to<double>(be, dst, src);
    else if (dst->type == DTYPE_F32)
        cast_to<float>(be, dst, src);
    else
        cast_to<bf16>(be, dst, src);
}
