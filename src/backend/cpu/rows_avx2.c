/* rows_avx2.c — the row kernels of rows.h for AVX2 and FMA. */
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"
#include "backend/cpu/rows_ssru.h"

const struct row_kernels rows_avx2 = ROW_KERNELS;
