/* xent.cu — output projection and label-smoothed cross-entropy, loss and gradient.  PAPER: 5.4.
 *
 * The rows go through in chunks, so that the logits [N,V] never exist as a whole: project a chunk,
 * turn its logits into dz in place, then use dz for both gradients. A block does one row: it holds
 * the row in shared memory (a row of 37,000 logits in bf16 is 74 KB, three to a multiprocessor), so
 * a logit is read from and written to device memory once. Logits have the act type, as every
 * activation.
 *
 * Long chunks: dw [V,d] in f32 is read and written once per chunk. Bound by three products of N V
 * d; the rows between move 4 bytes per logit in bf16 and take two exponentials. Loss and hits of
 * the rows are kept and summed at the end, in double, in an order fixed by their number. */
#include "backend/cuda/eights.h"

enum {
    LOGITS_BYTES = 448 << 20,
    CHUNK_UNIT = 128,
    EIGHTS = 2, /* eights of logits that a thread takes in at a time */
    AHEAD = 4,  /* so many times so many are on their way */
    TOTAL_THREADS = 1024
};

struct xent_rows {
    float *loss, *nll, *hit; /* [N] */
};

/* exp(x - y). For bf16 one multiply-add and one instruction of the special unit, good to about 1e-6
 * |y|. */
template <class T> static __device__ __forceinline__ float exp_diff(float x, float y);
template <> __device__ __forceinline__ float exp_diff<float>(float x, float y) {
    return expf(x - y);
}
template <> __device__ __forceinline__ float exp_diff<bf16>(float x, float y) {
    return exp2_fast(fmaf(x, 1.44269504f, -1.44269504f * y));
}

/* What a thread has seen of a row: the largest logit, the first eight with it, the sum of
 * exp(z - base), the sum of logits. base is max, but 0 for a max of -inf, since inf - inf is not a
 * number. */
struct seen {
    float max, base, sum, sum_z;
    int at;
};

/* Takes in the eight logits of number p, of which n exist; the others are to be -inf. The sum is
 * scaled anew where the maximum grows, which becomes rare soon. */
template <class T>
static __device__ __forceinline__ void see(struct seen *s, const float (&v)[8], int p, int n) {
    float max = v[0];
#pragma unroll
    for (int j = 1; j < 8; j++) max = fmaxf(max, v[j]);
    if (max > s->max) {
        if (s->max > -INFINITY) s->sum *= exp_diff<T>(s->max, max);
        s->max = s->base = max;
        s->at = p;
    }
#pragma unroll
    for (int j = 0; j < 8; j++) s->sum += exp_diff<T>(v[j], s->base);
#pragma unroll
    for (int j = 0; j < 8; j++) s->sum_z += j < n ? v[j] : 0.0f;
}

/* z [rows, ld]: logits; when GRAD, dz takes their place. ld is a multiple of 8 and z aligned;
 * first: the number of the chunk's first row in the batch. A thread has every eight logits that are
 * THREADS times eight further on. CACHED: it asks for them before it looks at the row's target, and
 * keeps AHEAD times EIGHTS of them on their way, so that neither barriers nor exponentials of one
 * row keep the memory idle. Until the barriers it reads only what it put there itself. */
template <class T, bool CACHED, bool GRAD, int THREADS>
static __global__ void __launch_bounds__(THREADS)
    xent_kernel(T *z, int64_t ld, int n_vocab, const int32_t *target, float smoothing,
                float grad_scale, int first, struct xent_rows out, float *row_nll) {
    SHARED_ARRAY(uint4, memory);
    __shared__ float slot[3][32];
    T *row = z + blockIdx.x * ld, *cache = (T *)memory;
    const T *in = CACHED ? cache : row;
    chain_wait();
    int packs = (n_vocab + 7) / 8, whole = n_vocab / 8, ask = threadIdx.x;
    const T *ask_from = row + threadIdx.x * 8;
    T *ask_to = cache + threadIdx.x * 8;
    auto ask_some = [&]() {
        if constexpr (CACHED) {
#pragma unroll
            for (int i = 0; i < EIGHTS; i++)
                if (ask + i * THREADS < packs)
                    ask8(ask_to + i * THREADS * 8, ask_from + i * THREADS * 8);
            copies_commit();
            ask += EIGHTS * THREADS;
            ask_from += EIGHTS * THREADS * 8, ask_to += EIGHTS * THREADS * 8;
        }
    };
#pragma unroll
    for (int i = 0; i < AHEAD; i++) ask_some();
    int at = first + blockIdx.x, t = target[at];
    float v[8];
    if (t < 0) {
        if (threadIdx.x == 0) {
            out.loss[at] = out.nll[at] = out.hit[at] = 0;
            if (row_nll) row_nll[at] = 0;
        }
        if constexpr (CACHED) copies_wait<0>();
        if constexpr (GRAD) {
#pragma unroll
            for (int j = 0; j < 8; j++) v[j] = 0;
            for (int p = threadIdx.x; p < packs; p += THREADS) store_pack(row + p * 8, v);
        }
        return;
    }
    struct seen s = {-INFINITY, 0, 0, 0, (int)threadIdx.x};
    int p = threadIdx.x;
    for (; p + (EIGHTS - 1) * THREADS < whole; p += EIGHTS * THREADS) {
        float w[EIGHTS][8];
        if constexpr (CACHED) copies_wait<AHEAD - 1>();
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) take8(w[i], in + (p + i * THREADS) * 8);
        ask_some();
#pragma unroll
        for (int i = 0; i < EIGHTS; i++) see<T>(&s, w[i], p + i * THREADS, 8);
    }
    if constexpr (CACHED) copies_wait<0>();
    for (; p < packs; p += THREADS) {
        int n = n_vocab - p * 8;
        take8(v, in + p * 8);
#pragma unroll
        for (int j = 0; j < 8; j++)
            if (j >= n) v[j] = -INFINITY;
        see<T>(&s, v, p, n);
    }
    float max = block_max(s.max, slot[0]), z_t = to_f32(in[t]);
    if (s.max > -INFINITY) s.sum *= exp_diff<T>(s.max, max);
    float sum_z = block_sum(s.sum_z, slot[1]), lse = max + logf(block_sum(s.sum, slot[2]));
    /* The target is a hit if no logit is larger and none before it is as large. */
    int earlier = s.max >= z_t && s.at < t / 8;
    if ((int)threadIdx.x == t / 8 % THREADS) {
        take8(v, in + t / 8 * 8);
#pragma unroll
        for (int j = 0; j < 8; j++) earlier |= j < t % 8 && v[j] >= z_t;
    }
    earlier = __syncthreads_or(earlier); /* and z_t has been read by all */
    if (threadIdx.x == 0) {
        out.nll[at] = lse - z_t;
        out.loss[at] = lse - (1 - smoothing) * z_t - smoothing / n_vocab * sum_z;
        out.hit[at] = !earlier && z_t >= max; /* false if z_t is not a number */
        if (row_nll) row_nll[at] = lse - z_t;
    }
    if constexpr (GRAD) {
        float less = -grad_scale * (smoothing / n_vocab), most = -grad_scale * (1 - smoothing);
        auto turn = [&](float(&v)[8], int p) {
            take8(v, in + p * 8);
#pragma unroll
            for (int j = 0; j < 8; j++) v[j] = fmaf(exp_diff<T>(v[j], lse), grad_scale, less);
        };
        float v_t[8]; /* the target's are written twice, which spares all others a look */
        bool mine = (int)threadIdx.x == t / 8 % THREADS;
        if (mine) {
            turn(v_t, t / 8);
#pragma unroll
            for (int j = 0; j < 8; j++)
                if (t / 8 * 8 + j == t) v_t[j] += most;
        }
        T *to = row + threadIdx.x * 8;
#pragma unroll 2
        for (int p = threadIdx.x; p < packs; p += THREADS, to += THREADS * 8) {
            turn(v, p);
            store_pack(to, v); /* past V there is padding, which nobody reads */
        }
        if (mine) store_pack(row + t / 8 * 8, v_t);
    }
}

static __global__ void xent_totals_kernel(double *totals, struct xent_rows r, int n) {
    __shared__ double slot[3][32];
    double loss = 0, nll = 0, hit = 0;
    chain_wait();
    for (int i = threadIdx.x; i < n; i += TOTAL_THREADS) {
        loss += r.loss[i];
        nll += r.nll[i];
        hit += r.hit[i];
    }
    loss = block_sum(loss, slot[0]);
    nll = block_sum(nll, slot[1]);
    hit = block_sum(hit, slot[2]);
    if (threadIdx.x == 0) {
        totals[0] += loss;
        totals[1] += nll;
        totals[2] += hit;
    }
}

/* ---- chunks ---------------------------------------------------------------------------------- */

struct xent_job {
    const struct xent_args *a;
    struct mat z; /* [chunk, V] of the act type, rows of padded length: logits, then dz */
    struct xent_rows rows;
    void *partial; /* for db */
    int first, n;
};

/* The longest chunk for this vocabulary. */
static int chunk_most(int64_t ld, enum dtype type) {
    int64_t rows = LOGITS_BYTES / (ld * (int64_t)dtype_size(type)) / CHUNK_UNIT * CHUNK_UNIT;
    return rows < CHUNK_UNIT ? CHUNK_UNIT : rows > (1 << 20) ? 1 << 20 : (int)rows;
}

static void carve(const struct cuda_backend *be, struct cuda_carve *c, struct xent_job *j,
                  int chunk) {
    const struct xent_args *a = j->a;
    j->z.data = cuda_take<char>(c, (size_t)chunk * (size_t)j->z.ld * dtype_size(j->z.type));
    j->rows.loss = cuda_take<float>(c, (size_t)a->x.rows);
    j->rows.nll = cuda_take<float>(c, (size_t)a->x.rows);
    j->rows.hit = cuda_take<float>(c, (size_t)a->x.rows);
    j->partial =
        mat_empty(&a->db) ? NULL : cuda_take<char>(c, cuda_sum_rows_size(be, chunk, a->w.rows));
}

static size_t cache_size(int n_vocab, enum dtype type) {
    return (size_t)((n_vocab + 7) / 8 * 8) * dtype_size(type);
}

/* Does a row of logits of this type fit into shared memory, beside the slots? */
static bool fits(const struct cuda_backend *be, int n_vocab, enum dtype type) {
    return cache_size(n_vocab, type) + 1024 <= (size_t)be->shared_max;
}

template <class T, bool CACHED, bool GRAD, int THREADS>
static void launch(struct cuda_backend *be, struct xent_job *j) {
    const struct xent_args *a = j->a;
    size_t shared = CACHED ? cache_size(a->w.rows, j->z.type) : 0;
    auto kernel = xent_kernel<T, CACHED, GRAD, THREADS>;
    if (!cuda_allow_shared(be, (const void *)kernel, shared, "xent_kernel")) return;
    CHAIN_AS(be, "xent_kernel", kernel, j->n, THREADS, shared, cuda_data<T>(&j->z), j->z.ld,
             a->w.rows, a->target, a->smoothing, a->grad_scale, j->first, j->rows,
             mat_empty(&a->row_nll) ? (float *)NULL : cuda_data<float>(&a->row_nll));
}

/* Rows too long for shared memory are read again from where they lie, by more threads. */
template <class T, bool GRAD> static void launch_rows(struct cuda_backend *be, struct xent_job *j) {
    if (fits(be, j->a->w.rows, j->z.type))
        launch<T, true, GRAD, 256>(be, j);
    else
        launch<T, false, GRAD, 512>(be, j);
}

static void project(struct cuda_backend *be, const struct xent_job *j) {
    const struct xent_args *a = j->a;
    struct mat x = mat_rows(a->x, j->first, j->n);
    struct cuda_gemm g = cuda_gemm_of(&j->z, &x, 0, &a->w, 1);
    g.bias = mat_empty(&a->b) ? NULL : a->b.data;
    cuda_gemm_run(be, &g);
}

static void gradients(struct cuda_backend *be, const struct xent_job *j) {
    const struct xent_args *a = j->a;
    struct mat dz = mat_rows(j->z, 0, j->n), x = mat_rows(a->x, j->first, j->n);
    struct mat to = mat_rows(a->dx, j->first, j->n);
    struct cuda_gemm dx = cuda_gemm_of(&to, &dz, 0, &a->w, 0);
    struct cuda_gemm dw = cuda_gemm_of(&a->dw, &dz, 1, &x, 0);
    cuda_gemm_run(be, &dx);
    dw.add = 1;
    cuda_gemm_run(be, &dw);
    if (!mat_empty(&a->db)) cuda_sum_rows(be, cuda_data<float>(&a->db), &dz, j->partial);
}

void cuda_xent(struct backend *base, const struct xent_args *a) {
    struct cuda_backend *be = cuda_of(base);
    int n = a->x.rows;
    struct xent_job job = {};
    job.a = a;
    job.z = mat_of(NULL, n, a->w.rows, a->x.type);
    job.z.ld = (a->w.rows + 63) / 64 * 64;
    int most = chunk_most(job.z.ld, job.z.type), chunk = n < most ? n : most;
    struct cuda_carve c = {};
    carve(be, &c, &job, chunk);
    c.base = (char *)cuda_workspace(be, c.used);
    if (!c.base) return;
    c.used = 0;
    carve(be, &c, &job, chunk);
    /* The kernel reads eight logits at a time, past the end of a row whose length is not a multiple
     * of eight. It ignores what it finds there, which is defined all the same. */
    size_t size = dtype_size(job.z.type), past = (size_t)(-a->w.rows & 7);
    if (past)
        cuda_ok(be,
                cudaMemset2DAsync((char *)job.z.data + (size_t)a->w.rows * size,
                                  (size_t)job.z.ld * size, 0, past * size, (size_t)chunk,
                                  be->stream),
                "xent");
    /* Chunks of about equal length. */
    int n_chunk = cuda_blocks(n, most), even = cuda_blocks(n, n_chunk);
    even = cuda_blocks(even, CHUNK_UNIT) * CHUNK_UNIT;
    if (even > chunk) even = chunk;
    for (job.first = 0; job.first < n; job.first += job.n) {
        job.n = n - job.first < even ? n - job.first : even;
        project(be, &job);
        bool grad = !mat_empty(&a->dx);
        cuda_with_type(a->x.type, [&](auto t) {
            using T = decltype(t);
            grad ? launch_rows<T, true>(be, &job) : launch_rows<T, false>(be, &job);
        });
        if (grad) gradients(be, &job);
    }
    CHAIN(be, xent_totals_kernel, 1, TOTAL_THREADS, 0, cuda_data<double>(&a->totals), job.rows, n);
}
