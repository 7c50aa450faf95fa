/* blas.cc — the stand-in for cuBLASLt: the operands as f32, then plain loops. */
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <vector>

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out) {
    *out = (cublasLtHandle_t)1;
    return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
size_t cublasLtGetVersion(void) { return 130000; }
const char *cublasLtGetStatusString(cublasStatus_t rc) {
    return rc == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
           : rc == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                               : "CUBLAS_STATUS_NOT_SUPPORTED";
}

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t *d, cublasComputeType_t,
                                      cudaDataType_t) {
    *d = {CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, NULL, CUDA_R_32F};
    return CUBLAS_STATUS_SUCCESS;
}

template <class T> static cublasStatus_t set(T *to, const void *value, size_t size) {
    if (size != sizeof *to) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(to, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t *d,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size) {
    switch (what) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&d->on_a, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&d->on_b, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&d->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&d->bias, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
        return set(&d->bias_type, value, size);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t *m, cudaDataType_t type,
                                        uint64_t rows, uint64_t cols, int64_t ld) {
    *m = {type, rows, cols, ld};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t *p) {
    for (uint32_t &alignment : p->alignment) alignment = 256;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t *p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size) {
    int at = (int)what - (int)CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    return at < 0 ? CUBLAS_STATUS_SUCCESS : set(&p->alignment[at], value, size);
}

static size_t size_of(cudaDataType_t type) { return type == CUDA_R_16BF ? 2 : 4; }

static bool known(const cublasLtMatrixLayoutOpaque_t *m, size_t alignment) {
    return alignment % 4 == 0 && (size_t)m->ld * size_of(m->type) % 4 == 0 &&
           m->ld >= (int64_t)m->rows;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDescOpaque_t *,
                                              cublasLtMatrixLayoutOpaque_t *a,
                                              cublasLtMatrixLayoutOpaque_t *b,
                                              cublasLtMatrixLayoutOpaque_t *c,
                                              cublasLtMatrixLayoutOpaque_t *,
                                              cublasLtMatmulPreferenceOpaque_t *p, int most,
                                              cublasLtMatmulHeuristicResult_t *found, int *n) {
    bool knows = most > 0 && known(a, p->alignment[0]) && known(b, p->alignment[1]) &&
                 known(c, p->alignment[2]);
    *n = knows ? 1 : 0;
    if (knows) found[0] = {{0}, 0, CUBLAS_STATUS_SUCCESS};
    return knows ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDescOpaque_t *,
                                       cublasLtMatrixLayoutOpaque_t *a,
                                       cublasLtMatrixLayoutOpaque_t *b,
                                       cublasLtMatrixLayoutOpaque_t *c,
                                       cublasLtMatrixLayoutOpaque_t *, const cublasLtMatmulAlgo_t *,
                                       cublasLtMatmulHeuristicResult_t *found) {
    *found = {{0}, 0, CUBLAS_STATUS_SUCCESS};
    return known(a, 4) && known(b, 4) && known(c, 4) ? CUBLAS_STATUS_SUCCESS
                                                     : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *,
                                                    cublasLtMatmulAlgoConfigAttributes_t what,
                                                    void *value, size_t size, size_t *written) {
    int32_t number = what == CUBLASLT_ALGO_CONFIG_SPLITK_NUM ? 1 : CUBLASLT_MATMUL_TILE_128x128;
    if (size != sizeof number) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(value, &number, size);
    *written = size;
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- products -------------------------------------------------------------------------------- */

static float get(const void *m, cudaDataType_t type, int64_t at) {
    return type == CUDA_R_16BF ? __bfloat162float(((const __nv_bfloat16 *)m)[at])
                               : ((const float *)m)[at];
}

/* op(m), whose rows are `down` and columns `across`, row by row. */
static std::vector<float> plain(const void *m, const cublasLtMatrixLayoutOpaque_t &of,
                                cublasOperation_t op, int64_t down, int64_t across) {
    std::vector<float> x((size_t)(down * across));
    for (int64_t i = 0; i < down; i++)
        for (int64_t j = 0; j < across; j++)
            x[(size_t)(i * across + j)] =
                get(m, of.type, op == CUBLAS_OP_T ? i * of.ld + j : j * of.ld + i);
    return x;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDescOpaque_t *desc, const void *alpha,
                              const void *a, cublasLtMatrixLayoutOpaque_t *layout_a, const void *b,
                              cublasLtMatrixLayoutOpaque_t *layout_b, const void *beta,
                              const void *, cublasLtMatrixLayoutOpaque_t *, void *c,
                              cublasLtMatrixLayoutOpaque_t *layout_c, const cublasLtMatmulAlgo_t *,
                              void *, size_t, cudaStream_t s) {
    cublasLtMatmulDescOpaque_t d = *desc;
    cublasLtMatrixLayoutOpaque_t of_a = *layout_a, of_b = *layout_b, of_c = *layout_c;
    float by = *(const float *)alpha, keep = *(const float *)beta;
    int64_t m = (int64_t)of_c.rows, n = (int64_t)of_c.cols;
    int64_t k = (int64_t)(d.on_a == CUBLAS_OP_T ? of_a.rows : of_a.cols);
    int64_t k_of_b = (int64_t)(d.on_b == CUBLAS_OP_T ? of_b.cols : of_b.rows);
    if (k != k_of_b || (uintptr_t)a % 4 || (uintptr_t)b % 4 || (uintptr_t)c % 4)
        return CUBLAS_STATUS_INVALID_VALUE;
    emulated_queue(s, [=]() {
        /* c^T, a row of it for each of c's columns, gathers rows of op(a)^T. */
        std::vector<float> left =
            plain(a, of_a, d.on_a == CUBLAS_OP_T ? CUBLAS_OP_N : CUBLAS_OP_T, k, m);
        std::vector<float> right =
            plain(b, of_b, d.on_b == CUBLAS_OP_T ? CUBLAS_OP_N : CUBLAS_OP_T, n, k);
        std::vector<float> sum((size_t)m);
        bool relu = d.epilogue & CUBLASLT_EPILOGUE_RELU, bias = d.epilogue & CUBLASLT_EPILOGUE_BIAS;
        for (int64_t j = 0; j < n; j++) {
            for (float &x : sum) x = 0;
            for (int64_t i = 0; i < k; i++) {
                float x = right[(size_t)(j * k + i)];
                const float *row = &left[(size_t)(i * m)];
                for (int64_t r = 0; r < m; r++) sum[(size_t)r] += x * row[r];
            }
            for (int64_t r = 0; r < m; r++) {
                int64_t at = j * of_c.ld + r;
                float z = by * sum[(size_t)r];
                if (keep != 0) z += keep * get(c, of_c.type, at);
                if (bias) z += get(d.bias, d.bias_type, r);
                if (relu && z <= 0) z = 0; /* a NaN stays one */
                if (of_c.type == CUDA_R_16BF)
                    ((__nv_bfloat16 *)c)[at] = __float2bfloat16_rn(z);
                else
                    ((float *)c)[at] = z;
            }
        }
    });
    return CUBLAS_STATUS_SUCCESS;
}
