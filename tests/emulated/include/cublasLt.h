/* cublasLt.h — a stand-in for cuBLASLt (../README.md): what gemm.cu asks of it, computed by plain
 * loops. It knows one kernel for every shape, and none for matrices that are not aligned to four
 * bytes, so that the backend's own way for those is tested, too. */
#ifndef EMULATED_CUBLASLT_H
#define EMULATED_CUBLASLT_H

#include <cuda_runtime.h>

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0,
    CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_NOT_SUPPORTED = 15
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_FAST_TF32 = 77 };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16BF = 14 };
enum cublasLtEpilogue_t {
    CUBLASLT_EPILOGUE_DEFAULT = 1,
    CUBLASLT_EPILOGUE_RELU = 2,
    CUBLASLT_EPILOGUE_BIAS = 4,
    CUBLASLT_EPILOGUE_RELU_BIAS = 6
};
enum cublasLtMatmulDescAttributes_t {
    CUBLASLT_MATMUL_DESC_TRANSA,
    CUBLASLT_MATMUL_DESC_TRANSB,
    CUBLASLT_MATMUL_DESC_EPILOGUE,
    CUBLASLT_MATMUL_DESC_BIAS_POINTER,
    CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE
};
enum cublasLtMatmulPreferenceAttributes_t {
    CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
    CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES
};
enum { CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE = 2 };
enum cublasLtMatmulTile_t { CUBLASLT_MATMUL_TILE_128x128 = 20, CUBLASLT_MATMUL_TILE_256x128 = 24 };
enum cublasLtMatmulAlgoConfigAttributes_t {
    CUBLASLT_ALGO_CONFIG_TILE_ID,
    CUBLASLT_ALGO_CONFIG_SPLITK_NUM
};

struct cublasLtMatmulDescOpaque_t {
    cublasOperation_t on_a, on_b;
    cublasLtEpilogue_t epilogue;
    const void *bias;
    cudaDataType_t bias_type;
};
struct cublasLtMatrixLayoutOpaque_t { /* column-major */
    cudaDataType_t type;
    uint64_t rows, cols;
    int64_t ld;
};
struct cublasLtMatmulPreferenceOpaque_t {
    uint32_t alignment[4];
};
struct cublasLtMatmulAlgo_t {
    int unused;
};
struct cublasLtMatmulHeuristicResult_t {
    cublasLtMatmulAlgo_t algo;
    size_t workspaceSize;
    cublasStatus_t state;
};
typedef struct cublasLtContext *cublasLtHandle_t;

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out);
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle);
size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(cublasStatus_t rc);

cublasStatus_t cublasLtMatmulDescInit(cublasLtMatmulDescOpaque_t *d, cublasComputeType_t compute,
                                      cudaDataType_t scale);
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDescOpaque_t *d,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void *value, size_t size);
cublasStatus_t cublasLtMatrixLayoutInit(cublasLtMatrixLayoutOpaque_t *m, cudaDataType_t type,
                                        uint64_t rows, uint64_t cols, int64_t ld);
cublasStatus_t cublasLtMatmulPreferenceInit(cublasLtMatmulPreferenceOpaque_t *p);
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreferenceOpaque_t *p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void *value, size_t size);
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t *d, cublasLtMatrixLayoutOpaque_t *a,
    cublasLtMatrixLayoutOpaque_t *b, cublasLtMatrixLayoutOpaque_t *c,
    cublasLtMatrixLayoutOpaque_t *result, cublasLtMatmulPreferenceOpaque_t *p, int most,
    cublasLtMatmulHeuristicResult_t *found, int *n);
cublasStatus_t
cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t *d,
                        cublasLtMatrixLayoutOpaque_t *a, cublasLtMatrixLayoutOpaque_t *b,
                        cublasLtMatrixLayoutOpaque_t *c, cublasLtMatrixLayoutOpaque_t *result,
                        const cublasLtMatmulAlgo_t *algo, cublasLtMatmulHeuristicResult_t *found);
cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t what,
                                                    void *value, size_t size, size_t *written);
/* result = alpha op(a) op(b) + beta c, and the epilogue; c is the result here. */
cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDescOpaque_t *d,
                              const void *alpha, const void *a, cublasLtMatrixLayoutOpaque_t *of_a,
                              const void *b, cublasLtMatrixLayoutOpaque_t *of_b, const void *beta,
                              const void *c, cublasLtMatrixLayoutOpaque_t *of_c, void *result,
                              cublasLtMatrixLayoutOpaque_t *of_result,
                              const cublasLtMatmulAlgo_t *algo, void *workspace, size_t size,
                              cudaStream_t s);

#endif
