/* rows_avx512.c — the row kernels of rows.h for AVX-512 (F, BW, DQ, VL): vectors of 64 bytes. */
#define VEC_BYTES 64
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"

const struct row_kernels rows_avx512 = ROW_KERNELS;
