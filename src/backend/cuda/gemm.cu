/* gemm.cu — matrix products, through cuBLASLt.
 *
 * cuBLASLt is column-major. A row-major c = op(a) op(b) is, in its eyes, c^T = op(b)^T op(a)^T: the
 * operands change places, m and n too, and the transpose flags stay as they are. Bias is added
 * along what it calls rows, which are our columns. Accumulation is in f32 (in tf32 only on
 * request).
 *
 * Which kernel computes a product is asked of its heuristic once per shape and remembered. Ragged
 * batches have a new number of rows every time, so that dimension enters the key rounded up: the
 * question is asked for the rounded shape, never for the first shape seen. The choice is a function
 * of the arguments alone; a run that is resumed multiplies with the same kernels and gives the same
 * bits. Where the chosen kernel does not take the exact shape, the exact shape is asked for. Split
 * sums pass through the workspace in f32, in a fixed order: there are no atomics on floats.
 *
 * What the library has no kernel for (odd addresses, strange strides) a plain kernel of ours
 * does. */
#include "backend/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>

enum { CACHE_SIZE = 4096 /* a power of two */, CANDIDATES = 8 };

/* What a choice depends on. Compared as bytes: no padding, everything set. */
struct key {
    int32_t m, n, k; /* the rounded one included */
    int32_t lda, ldb, ldc;
    uint8_t type, c_type, a_trans, b_trans, add, relu, bias, exact;
    uint8_t a_align, b_align, c_align, bias_align;
};

struct choice {
    struct key key;
    bool taken, found;      /* found: the library has a kernel */
    int32_t good_m, good_k; /* the last exact shape the kernel was checked for */
    cublasLtMatmulAlgo_t algo;
    size_t workspace;
};

struct cuda_products {
    int n;
    struct choice choice[CACHE_SIZE];
};

int cuda_products_new(struct cuda_backend *be, struct err *err) {
    be->products = (struct cuda_products *)calloc(1, sizeof *be->products);
    return be->products ? 0 : err_set(err, HEED_ENOMEM, "cuda: out of host memory");
}

void cuda_products_free(struct cuda_backend *be) {
    free(be->products);
    be->products = NULL;
}

/* ---- our own --------------------------------------------------------------------------------- */

/* c [m,n] in patches of 64 x 64, 16 deep, 256 threads with 4 x 4 results each. */
enum { PATCH = 64, DEPTH = 16 };

template <class T, class C> static __global__ void gemm_any_kernel(struct cuda_gemm g) {
    __shared__ float a_patch[DEPTH][PATCH + 1], b_patch[DEPTH][PATCH + 1];
    const T *a = (const T *)g.a, *b = (const T *)g.b, *bias = (const T *)g.bias;
    int row = blockIdx.y * PATCH, col = blockIdx.x * PATCH;
    int ty = threadIdx.x / 16 * 4, tx = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < g.k; k0 += DEPTH) {
        for (int at = threadIdx.x; at < PATCH * DEPTH; at += 256) {
            /* neighbouring threads read neighbouring addresses, whichever way the matrix lies */
            int ak = g.a_trans ? at / PATCH : at % DEPTH, ai = g.a_trans ? at % PATCH : at / DEPTH;
            int bk = g.b_trans ? at % DEPTH : at / PATCH, bj = g.b_trans ? at / DEPTH : at % PATCH;
            int k = k0 + ak, i = row + ai;
            a_patch[ak][ai] =
                k < g.k && i < g.m ? to_f32(g.a_trans ? a[k * g.lda + i] : a[i * g.lda + k]) : 0.0f;
            k = k0 + bk;
            int j = col + bj;
            b_patch[bk][bj] =
                k < g.k && j < g.n ? to_f32(g.b_trans ? b[j * g.ldb + k] : b[k * g.ldb + j]) : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++)
#pragma unroll
            for (int y = 0; y < 4; y++)
#pragma unroll
                for (int x = 0; x < 4; x++) sum[y][x] += a_patch[k][ty + y] * b_patch[k][tx + x];
        __syncthreads();
    }
    C *c = (C *)g.c;
#pragma unroll
    for (int y = 0; y < 4; y++)
#pragma unroll
        for (int x = 0; x < 4; x++) {
            int i = row + ty + y, j = col + tx + x;
            if (i >= g.m || j >= g.n) continue;
            float z = sum[y][x];
            if (bias) z += to_f32(bias[j]);
            if (g.add) z += to_f32(c[i * g.ldc + j]);
            if (g.relu) z = z <= 0 ? 0 : z;
            c[i * g.ldc + j] = from_f32<C>(z);
        }
}

static void gemm_any(struct cuda_backend *be, const struct cuda_gemm *g) {
    dim3 grid(cuda_blocks(g->n, PATCH), cuda_blocks(g->m, PATCH));
    if (g->type == DTYPE_F32)
        LAUNCH(be, (gemm_any_kernel<float, float>), grid, 256, 0, *g);
    else if (g->c_type == DTYPE_F32)
        LAUNCH(be, (gemm_any_kernel<bf16, float>), grid, 256, 0, *g);
    else
        LAUNCH(be, (gemm_any_kernel<bf16, bf16>), grid, 256, 0, *g);
}

/* bias and ReLU where the library could not take them. */
template <class T, class C>
static __global__ void epilogue_kernel(C *c, int64_t ld, const T *bias, int m, int n, int relu) {
    int64_t step = (int64_t)gridDim.x * blockDim.x;
    for (int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; at < (int64_t)m * n;
         at += step) {
        int64_t i = at / n, j = at - i * n;
        float z = to_f32(c[i * ld + j]) + (bias ? to_f32(bias[j]) : 0.0f);
        c[i * ld + j] = from_f32<C>(relu && z <= 0 ? 0.0f : z);
    }
}

/* ---- library --------------------------------------------------------------------------------- */

/* The descriptors of one product; on the stack, nothing to release. */
struct call {
    cublasLtMatmulDescOpaque_t op;
    cublasLtMatrixLayoutOpaque_t a, b, c; /* the library's a is our b */
};

static cudaDataType_t data_type(enum dtype type) {
    return type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

static cublasLtEpilogue_t epilogue_of(const struct cuda_gemm *g) {
    if (g->bias) return g->relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS;
    return g->relu ? CUBLASLT_EPILOGUE_RELU : CUBLASLT_EPILOGUE_DEFAULT;
}

template <class T>
static bool set_op(struct call *call, cublasLtMatmulDescAttributes_t attribute, const T &value) {
    return cublasLtMatmulDescSetAttribute(&call->op, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
}

/* Describes g as if it had m rows and depth k. */
static bool describe(struct call *call, const struct cuda_backend *be, const struct cuda_gemm *g,
                     int m, int k) {
    cublasComputeType_t compute =
        g->type == DTYPE_F32 && be->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t on_a = g->b_trans ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t on_b = g->a_trans ? CUBLAS_OP_T : CUBLAS_OP_N;
    cudaDataType_t in = data_type(g->type), out = data_type(g->c_type);
    bool ok = cublasLtMatmulDescInit(&call->op, compute, CUDA_R_32F) == CUBLAS_STATUS_SUCCESS &&
              set_op(call, CUBLASLT_MATMUL_DESC_TRANSA, on_a) &&
              set_op(call, CUBLASLT_MATMUL_DESC_TRANSB, on_b) &&
              set_op(call, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(g));
    if (g->bias)
        ok = ok && set_op(call, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g->bias) &&
             set_op(call, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, in);
    uint64_t n = (uint64_t)g->n, rows = (uint64_t)m, depth = (uint64_t)k;
    return ok &&
           cublasLtMatrixLayoutInit(&call->a, in, g->b_trans ? depth : n, g->b_trans ? n : depth,
                                    g->ldb) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&call->b, in, g->a_trans ? rows : depth,
                                    g->a_trans ? depth : rows, g->lda) == CUBLAS_STATUS_SUCCESS &&
           cublasLtMatrixLayoutInit(&call->c, out, n, rows, g->ldc) == CUBLAS_STATUS_SUCCESS;
}

/* Activations and weights begin at multiples of 64 bytes; more is luck, and would split the
 * cache. */
static uint8_t alignment(const void *ptr) {
    uint8_t align = 64;
    while ((uintptr_t)ptr % align) align /= 2;
    return align;
}

template <class T>
static bool set_preference(cublasLtMatmulPreferenceOpaque_t *p,
                           cublasLtMatmulPreferenceAttributes_t attribute, T value) {
    return cublasLtMatmulPreferenceSetAttribute(p, attribute, &value, sizeof value) ==
           CUBLAS_STATUS_SUCCESS;
}

/* Bytes of workspace that a product is given. On Hopper the library's kernels ask for four: a
 * counter from which blocks take their pieces, and which a launch of its own clears first. What it
 * evens out is worth that, 2 us, only in long products. Split sums need a workspace too, but want
 * one only where there are few pieces. */
static size_t workspace_for(const struct cuda_backend *be, const struct key *key) {
    const double LONG_PRODUCT = 4e10, WAVE = 96.0 * 128 * 128;
    double cells = (double)key->m * key->n;
    bool spare = be->capability == 90 && key->type == DTYPE_BF16 && !key->a_trans &&
                 cells >= WAVE && cells * key->k < LONG_PRODUCT;
    return spare ? 0 : be->blas_workspace_size;
}

static int candidates(cublasLtMatmulHeuristicResult_t *found, const struct cuda_backend *be,
                      struct call *call, const struct key *key, size_t workspace) {
    cublasLtMatmulPreferenceOpaque_t p;
    int n = 0;
    bool ok =
        cublasLtMatmulPreferenceInit(&p) == CUBLAS_STATUS_SUCCESS &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, (uint64_t)workspace) &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                       (uint32_t)CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, (uint32_t)key->b_align) &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, (uint32_t)key->a_align) &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, (uint32_t)key->c_align) &&
        set_preference(&p, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, (uint32_t)key->c_align);
    if (!ok ||
        cublasLtMatmulAlgoGetHeuristic(be->blas, &call->op, &call->a, &call->b, &call->c, &call->c,
                                       &p, CANDIDATES, found, &n) != CUBLAS_STATUS_SUCCESS)
        return 0;
    int usable = 0;
    for (int i = 0; i < n; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS && found[i].workspaceSize <= workspace)
            found[usable++] = found[i];
    return usable;
}

static cublasStatus_t multiply(struct cuda_backend *be, const struct cuda_gemm *g,
                               struct call *call, const struct choice *c, float beta) {
    float one = 1;
    return cublasLtMatmul(be->blas, &call->op, &one, g->b, &call->a, g->a, &call->b, &beta, g->c,
                          &call->c, g->c, &call->c, &c->algo, be->blas_workspace, c->workspace,
                          be->stream);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Rows of activations come in any number; their rounding is fine where patches are few. */
static int rounded(int n) {
    int unit = n <= 128 ? 16 : n <= 1024 ? 64 : n <= 8192 ? 128 : 256;
    return n > (1 << 30) ? n : (n + unit - 1) / unit * unit;
}

static struct key key_of(const struct cuda_gemm *g, bool exact) {
    struct key key;
    memset(&key, 0, sizeof key);
    key.m = exact || g->a_trans ? g->m : rounded(g->m);
    key.k = exact || !g->a_trans ? g->k : rounded(g->k);
    key.n = g->n;
    key.lda = (int32_t)g->lda;
    key.ldb = (int32_t)g->ldb;
    key.ldc = (int32_t)g->ldc;
    key.type = (uint8_t)g->type;
    key.c_type = (uint8_t)g->c_type;
    key.a_trans = g->a_trans != 0;
    key.b_trans = g->b_trans != 0;
    key.add = g->add != 0;
    key.relu = g->relu != 0;
    key.bias = g->bias != NULL;
    key.a_align = alignment(g->a);
    key.b_align = alignment(g->b);
    key.c_align = alignment(g->c);
    key.bias_align = alignment(g->bias); /* the library looks at that address, too */
    key.exact = exact;
    return key;
}

static uint32_t hash_of(const struct key *key) {
    const unsigned char *byte = (const unsigned char *)key;
    uint32_t h = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < sizeof *key; i++) h = (h ^ byte[i]) * 16777619u;
    return h ^ h >> 15;
}

/* The entry of this key, or a fresh one. A full table is emptied: what it held can be asked for
 * again. */
static struct choice *lookup(struct cuda_products *p, const struct key *key) {
    if (p->n > CACHE_SIZE / 2) {
        memset(p->choice, 0, sizeof p->choice);
        p->n = 0;
    }
    for (uint32_t at = hash_of(key);; at++) {
        struct choice *c = &p->choice[at % CACHE_SIZE];
        if (!c->taken) {
            c->key = *key;
            return c;
        }
        if (memcmp(&c->key, key, sizeof *key) == 0) return c;
    }
}

template <class T>
static T config_of(const cublasLtMatmulAlgo_t *algo, cublasLtMatmulAlgoConfigAttributes_t what) {
    T value = 0;
    size_t written;
    return cublasLtMatmulAlgoConfigGetAttribute(algo, what, &value, sizeof value, &written) ==
                   CUBLAS_STATUS_SUCCESS
               ? value
               : T(0);
}

/* Which candidate to take: the heuristic's first, but for three kinds of product where another of
 * its candidates was 5 to 10 % faster on an H200 at every size tried (docs/notes/gpu.md). A rule
 * about shapes, and not a clock, so that runs can be repeated. */
static int preferred(const struct cuda_backend *be, const struct cuda_gemm *g,
                     const cublasLtMatmulHeuristicResult_t *found, int n) {
    /* a vocabulary; patches for most multiprocessors */
    const int LONG = 8192, WAVE = 96 * 128 * 128;
    if (be->capability != 90 || g->type != DTYPE_BF16) return 0;
    int patch = 0; /* any */
    if (!g->a_trans && g->n >= LONG && g->m >= 1024)
        patch = CUBLASLT_MATMUL_TILE_256x128;
    else if (g->a_trans && g->m >= LONG && g->k >= 1024)
        patch = CUBLASLT_MATMUL_TILE_128x128;
    else if (g->a_trans || g->k < LONG || (int64_t)g->m * g->n < WAVE)
        return 0;
    for (int i = 0; i < n; i++)
        if (config_of<int32_t>(&found[i].algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM) <= 1 &&
            (!patch ||
             config_of<uint32_t>(&found[i].algo, CUBLASLT_ALGO_CONFIG_TILE_ID) == (uint32_t)patch))
            return i;
    return 0;
}

static void choose(struct cuda_backend *be, const struct cuda_gemm *g, struct choice *c) {
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    struct call call;
    c->taken = true;
    be->products->n++;
    struct cuda_gemm rounded_shape = *g;
    rounded_shape.m = c->key.m;
    rounded_shape.k = c->key.k;
    if (!describe(&call, be, g, c->key.m, c->key.k)) return;
    c->workspace = workspace_for(be, &c->key);
    int n = candidates(found, be, &call, &c->key, c->workspace);
    if (n == 0 && c->workspace == 0)
        n = candidates(found, be, &call, &c->key, c->workspace = be->blas_workspace_size);
    if (n == 0) return;
    c->algo = found[preferred(be, &rounded_shape, found, n)].algo;
    c->found = true;
}

/* May the kernel chosen for the rounded shape compute the exact one? */
static bool fits(struct cuda_backend *be, const struct cuda_gemm *g, struct choice *c,
                 struct call *call) {
    cublasLtMatmulHeuristicResult_t result;
    if (c->good_m == g->m && c->good_k == g->k) return true;
    if (cublasLtMatmulAlgoCheck(be->blas, &call->op, &call->a, &call->b, &call->c, &call->c,
                                &c->algo, &result) != CUBLAS_STATUS_SUCCESS ||
        result.workspaceSize > be->blas_workspace_size) /* the most it would use */
        return false;
    c->good_m = g->m;
    c->good_k = g->k;
    return true;
}

/* The kernel of g's rounded or exact shape, or NULL. */
static struct choice *choice_for(struct cuda_backend *be, const struct cuda_gemm *g,
                                 struct call *call, bool exact) {
    struct key key = key_of(g, exact);
    struct choice *c = lookup(be->products, &key);
    if (!c->taken) choose(be, g, c);
    return c->found && fits(be, g, c, call) ? c : NULL;
}

/* Computes g with the kernel of its rounded shape or else with that of its exact one;
 * CUBLAS_STATUS_NOT_SUPPORTED: neither does it. A kernel may have promised too much (addresses are
 * only part of the question as far as they are aligned). That it did is not remembered: what
 * computes a product must not depend on the products before it, of which a resumed run has seen
 * others. */
static cublasStatus_t multiply_any(struct cuda_backend *be, const struct cuda_gemm *g,
                                   struct call *call) {
    for (int exact = 0; exact < 2; exact++) {
        struct choice *c = choice_for(be, g, call, exact != 0);
        if (!c) continue;
        cublasStatus_t rc = multiply(be, g, call, c, g->add ? 1.0f : 0.0f);
        if (rc != CUBLAS_STATUS_NOT_SUPPORTED && rc != CUBLAS_STATUS_INVALID_VALUE) return rc;
    }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

static void epilogue(struct cuda_backend *be, const struct cuda_gemm *g) {
    int grid = cuda_grid(be, (int64_t)g->m * g->n, 256, 16);
    if (g->type == DTYPE_F32)
        LAUNCH(be, (epilogue_kernel<float, float>), grid, 256, 0, (float *)g->c, g->ldc,
               (const float *)g->bias, g->m, g->n, g->relu);
    else if (g->c_type == DTYPE_F32)
        LAUNCH(be, (epilogue_kernel<bf16, float>), grid, 256, 0, (float *)g->c, g->ldc,
               (const bf16 *)g->bias, g->m, g->n, g->relu);
    else
        LAUNCH(be, (epilogue_kernel<bf16, bf16>), grid, 256, 0, (bf16 *)g->c, g->ldc,
               (const bf16 *)g->bias, g->m, g->n, g->relu);
}

void cuda_gemm_run(struct cuda_backend *be, const struct cuda_gemm *whole) {
    struct cuda_gemm g = *whole;
    struct call call;
    if (be->base.err.code || cuda_few_rows(be, whole)) return;
    /* The library reads the bias many values at a time, and wants it of the result's type. */
    bool apart = g.bias && ((uintptr_t)g.bias % 16 != 0 || g.c_type != g.type);
    if (apart) {
        g.bias = NULL;
        g.relu = 0;
    }
    bool described = g.lda <= INT32_MAX && g.ldb <= INT32_MAX && g.ldc <= INT32_MAX &&
                     describe(&call, be, &g, g.m, g.k);
    cublasStatus_t rc = described ? multiply_any(be, &g, &call) : CUBLAS_STATUS_NOT_SUPPORTED;
    if (rc == CUBLAS_STATUS_NOT_SUPPORTED) {
        gemm_any(be, whole);
        return;
    }
    if (rc != CUBLAS_STATUS_SUCCESS) {
        backend_fail(&be->base, HEED_EDEVICE, "cuda: a product of %d x %d x %d failed: %s", g.m,
                     g.n, g.k, cublasLtGetStatusString(rc));
        return;
    }
    if (be->sync_each) cuda_launched(be, cudaSuccess, "cublasLtMatmul");
    if (apart) epilogue(be, whole);
}
