/* ssru.cu — the recurrence that stands in a decoder's self-attention's place, its reverse, and one
 * step of it.
 *
 * Along a sentence: a thread has one column of one sentence and walks its rows; the 128 threads of
 * a block have neighbouring columns, so that each row is read and written in whole lines. Only the
 * multiply-add of the state is serial: the rows' g and x are fetched AHEAD at a time. A batch of
 * some hundred sentences of a model's width fills the device; the op is then bound by memory.
 *
 * A step: a thread has one element; blocks walk over all of them. Nothing is summed, so every run
 * has the same bits. */
#include "backend/cuda/cuda.h"

enum { THREADS = 128, AHEAD = 4, STEP_THREADS = 256, STEP_PER_SM = 8 };

/* f = sigmoid(g) and 1 - f, each without cancellation. Nothing here may be contracted, lest a step
 * and a sentence differ. */
struct gates {
    float f, rest;
};
static __device__ __forceinline__ struct gates gates_of(float g) {
    float e = expf(-fabsf(g)), large = 1.0f / __fadd_rn(1.0f, e), small = e * large;
    struct gates k = {g < 0 ? small : large, g < 0 ? large : small};
    return k;
}

static __device__ __forceinline__ float next_state(float g, float x, float c) {
    struct gates k = gates_of(g);
    return fmaf(k.f, c, k.rest * x);
}

static __device__ __forceinline__ float positive(float x) { return x < 0 ? 0.0f : x; }

/* The arguments as kernels take them. */
template <class T> struct ssru_view {
    const T *g, *x, *dout;
    T *o, *dg, *dx;
    float *c;
    int64_t ld_g, ld_x, ld_c, ld_o, ld_dout, ld_dg, ld_dx;
    const int32_t *start;
    int d;
};

template <class T>
static __global__ void __launch_bounds__(THREADS) ssru_fwd_kernel(struct ssru_view<T> a) {
    chain_wait();
    int col = blockIdx.y * THREADS + threadIdx.x;
    if (col >= a.d) return;
    int last = a.start[blockIdx.x + 1];
    float state = 0;
    for (int i = a.start[blockIdx.x]; i < last; i += AHEAD) {
        float g[AHEAD], x[AHEAD];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            bool in = i + k < last;
            g[k] = in ? to_f32(a.g[(i + k) * a.ld_g + col]) : 0.0f;
            x[k] = in ? to_f32(a.x[(i + k) * a.ld_x + col]) : 0.0f;
        }
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i + k >= last) break;
            state = next_state(g[k], x[k], state);
            a.c[(i + k) * a.ld_c + col] = state;
            a.o[(i + k) * a.ld_o + col] = from_f32<T>(positive(state));
        }
    }
}

template <class T>
static __global__ void __launch_bounds__(THREADS) ssru_bwd_kernel(struct ssru_view<T> a) {
    chain_wait();
    int col = blockIdx.y * THREADS + threadIdx.x;
    if (col >= a.d) return;
    int first = a.start[blockIdx.x];
    float carry = 0; /* f_{i+1} dc_{i+1} */
    for (int i = a.start[blockIdx.x + 1] - 1; i >= first; i -= AHEAD) {
        float g[AHEAD], x[AHEAD], dout[AHEAD], c[AHEAD + 1];
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            bool in = i - k >= first;
            g[k] = in ? to_f32(a.g[(i - k) * a.ld_g + col]) : 0.0f;
            x[k] = in ? to_f32(a.x[(i - k) * a.ld_x + col]) : 0.0f;
            dout[k] = in ? to_f32(a.dout[(i - k) * a.ld_dout + col]) : 0.0f;
        }
#pragma unroll
        for (int k = 0; k <= AHEAD; k++) c[k] = i - k >= first ? a.c[(i - k) * a.ld_c + col] : 0.0f;
#pragma unroll
        for (int k = 0; k < AHEAD; k++) {
            if (i - k < first) break;
            struct gates t = gates_of(g[k]);
            float dc = carry + (c[k] > 0 ? dout[k] : 0.0f);
            a.dx[(i - k) * a.ld_dx + col] = from_f32<T>(t.rest * dc);
            a.dg[(i - k) * a.ld_dg + col] = from_f32<T>(t.f * t.rest * (c[k + 1] - x[k]) * dc);
            carry = t.f * dc;
        }
    }
}

template <class T> static struct ssru_view<T> view_of(const struct ssru_args *a) {
    struct ssru_view<T> v = {};
    v.g = cuda_data<T>(&a->g), v.ld_g = a->g.ld;
    v.x = cuda_data<T>(&a->x), v.ld_x = a->x.ld;
    v.o = cuda_data<T>(&a->o), v.ld_o = a->o.ld;
    v.c = cuda_data<float>(&a->c), v.ld_c = a->c.ld;
    v.dout = cuda_data<T>(&a->dout), v.ld_dout = a->dout.ld;
    v.dg = cuda_data<T>(&a->dg), v.ld_dg = a->dg.ld;
    v.dx = cuda_data<T>(&a->dx), v.ld_dx = a->dx.ld;
    v.start = a->rows.start;
    v.d = a->g.cols;
    return v;
}

static dim3
grid_of(const struct ssru_args *a) {
    return dim3(a->rows.n_seq, cuda_blocks(a->g.cols, THREADS));
}

void cuda_ssru_fwd(struct backend *base, const struct ssru_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    cuda_with_type(a->g.type, [&](auto t) {
        using T = decltype(t);
        CHAIN(be, ssru_fwd_kernel<T>, grid_of(a), THREADS, 0, view_of<T>(a));
    });
}

void cuda_ssru_bwd(struct backend *base, const struct ssru_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    cuda_with_type(a->g.type, [&](auto t) {
        using T = decltype(t);
        CHAIN(be, ssru_bwd_kernel<T>, grid_of(a), THREADS, 0, view_of<T>(a));
    });
}

/* ---- step ------------------------------------------------------------------------------------ */

template <class T> struct ssru_step_view {
    const T *g, *x;
    T *o;
    float *c;
    int64_t ld_g, ld_x, ld_c, ld_o, index_ld;
    const int32_t *index, *len;
    int n, d;
};

template <class T>
static __global__ void __launch_bounds__(STEP_THREADS)
    ssru_step_kernel(struct ssru_step_view<T> a) {
    chain_wait();
    int64_t all = (int64_t)a.n * a.d;
    for (int64_t at = blockIdx.x * (int64_t)STEP_THREADS + threadIdx.x; at < all;
         at += (int64_t)gridDim.x * STEP_THREADS) {
        int b = (int)(at / a.d), col = (int)(at % a.d), n = a.len[b];
        const int32_t *row = a.index + b * a.index_ld + n - 1;
        float state = n > 1 ? a.c[row[-1] * a.ld_c + col] : 0.0f;
        state = next_state(to_f32(a.g[b * a.ld_g + col]), to_f32(a.x[b * a.ld_x + col]), state);
        a.c[row[0] * a.ld_c + col] = state;
        a.o[b * a.ld_o + col] = from_f32<T>(positive(state));
    }
}

void cuda_ssru_step(struct backend *base, const struct ssru_step_args *a) {
    struct cuda_backend *be = cuda_of(base);
    if (!cuda_workspace(be, 0)) return;
    cuda_with_type(a->g.type, [&](auto t) {
        using T = decltype(t);
        struct ssru_step_view<T> v = {};
        v.g = cuda_data<T>(&a->g), v.ld_g = a->g.ld;
        v.x = cuda_data<T>(&a->x), v.ld_x = a->x.ld;
        v.o = cuda_data<T>(&a->o), v.ld_o = a->o.ld;
        v.c = cuda_data<float>(&a->c), v.ld_c = a->c.ld;
        v.index = a->index, v.len = a->len, v.index_ld = a->index_ld;
        v.n = a->g.rows, v.d = a->g.cols;
        int64_t all = (int64_t)v.n * v.d;
        CHAIN(be, ssru_step_kernel<T>, cuda_grid(be, all, STEP_THREADS, STEP_PER_SM), STEP_THREADS,
              0, v);
    });
}
