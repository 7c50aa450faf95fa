/* rows_avx512.c — the row kernels of rows.h for AVX-512 (F, BW, DQ, VL), on vectors of 32 bytes
 * all the same: sums then go through the same lanes in the same order on every instruction set.
 * Row kernels are a twentieth of a training step and mostly wait for memory, so the wider vectors
 * would hardly show; matrix kernels use them. */
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"
#include "backend/cpu/rows_ssru.h"

const struct row_kernels rows_avx512 = ROW_KERNELS;
