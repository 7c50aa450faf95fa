/* cuda.h — a stand-in for the driver's (../README.md): descriptors of tiles for the copy engine. */
#ifndef EMULATED_CUDA_H
#define EMULATED_CUDA_H

#include <cuda_runtime.h>

typedef uint64_t cuuint64_t;
typedef uint32_t cuuint32_t;
enum CUresult { CUDA_SUCCESS = 0, CUDA_ERROR_INVALID_VALUE = 1 };
enum CUtensorMapDataType { CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 };
enum CUtensorMapInterleave { CU_TENSOR_MAP_INTERLEAVE_NONE };
enum CUtensorMapSwizzle { CU_TENSOR_MAP_SWIZZLE_128B };
enum CUtensorMapL2promotion { CU_TENSOR_MAP_L2_PROMOTION_L2_256B };
enum CUtensorMapFloatOOBfill { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE };

/* A matrix of two-byte numbers, and the box of it that is moved at a time. */
struct alignas(64) CUtensorMap {
    char *at;
    int64_t cols, rows, pitch; /* pitch in bytes */
    int box_cols, box_rows;
};

typedef CUresult (*PFN_cuTensorMapEncodeTiled_v12000)(CUtensorMap *, CUtensorMapDataType,
                                                      cuuint32_t, void *, const cuuint64_t *,
                                                      const cuuint64_t *, const cuuint32_t *,
                                                      const cuuint32_t *, CUtensorMapInterleave,
                                                      CUtensorMapSwizzle, CUtensorMapL2promotion,
                                                      CUtensorMapFloatOOBfill);

#endif
