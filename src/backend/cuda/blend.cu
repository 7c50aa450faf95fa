/* blend.cu — the mean of an ensemble's distributions.
 *
 * A block per row, whose columns its threads share out. Two passes: of each model the logarithm of
 * its sum of exponentials, then the models side by side. The second pass finds what the first has
 * read in the cache (a row of 24,000 logits in bf16 is 48 KB). Bound by memory where a batch is
 * large: 2 bytes in per model and token, 4 out. */
#include "backend/cuda/cuda.h"

enum { THREADS = 512 };

/* The logits of the models, [B,V] each, as a kernel takes them. */
struct blend_in {
    const void *z[BLEND_MOST];
    int64_t ld[BLEND_MOST];
    float weight[BLEND_MOST];
    bool narrow[BLEND_MOST]; /* bf16 */
    int n;
};

static __device__ __forceinline__ float logit(const struct blend_in &in, int m, int col) {
    int64_t at = blockIdx.x * in.ld[m] + col;
    return in.narrow[m] ? to_f32(((const bf16 *)in.z[m])[at]) : ((const float *)in.z[m])[at];
}

/* log sum_v exp(z_v) of model m, in all threads. The slots are free on entry, and again after the
 * next barrier. */
static __device__ float log_sum(const struct blend_in &in, int m, int n, float (*slot)[32]) {
    float max = -INFINITY, sum = 0;
    for (int v = threadIdx.x; v < n; v += THREADS) max = fmaxf(max, logit(in, m, v));
    max = block_max(max, slot[0]);
    for (int v = threadIdx.x; v < n; v += THREADS) sum += expf(logit(in, m, v) - max);
    return max + logf(block_sum(sum, slot[1]));
}

static __global__ void __launch_bounds__(THREADS)
    blend_kernel(float *out, int64_t ld, int n, struct blend_in in) {
    __shared__ float slot[2][32], lse[BLEND_MOST];
    for (int m = 0; m < in.n; m++) {
        float x = log_sum(in, m, n, slot);
        if (threadIdx.x == 0) lse[m] = x;
    }
    __syncthreads();
    for (int v = threadIdx.x; v < n; v += THREADS) {
        float top = -INFINITY, sum = 0;
        for (int m = 0; m < in.n; m++) top = fmaxf(top, logit(in, m, v) - lse[m]);
        float base = top > -INFINITY ? top : 0; /* a token that is impossible to all */
        for (int m = 0; m < in.n; m++) sum += in.weight[m] * expf(logit(in, m, v) - lse[m] - base);
        out[blockIdx.x * ld + v] = base + logf(sum);
    }
}

void cuda_blend(struct backend *base, const struct blend_args *a) {
    struct cuda_backend *be = cuda_of(base);
    struct blend_in in = {};
    if (!cuda_workspace(be, 0)) return;
    in.n = a->n;
    for (int m = 0; m < a->n; m++) {
        in.z[m] = a->z[m].data;
        in.ld[m] = a->z[m].ld;
        in.weight[m] = a->weight[m];
        in.narrow[m] = a->z[m].type == DTYPE_BF16;
    }
    LAUNCH(be, blend_kernel, a->out.rows, THREADS, 0, cuda_data<float>(&a->out), a->out.ld,
           a->out.cols, in);
}
