/* rows_avx512.c — the row kernels of rows.h for AVX-512 (F, BW, DQ, VL), on vectors of 32 bytes
 * all the same: sums then go through the same lanes in the same order on every instruction set.
 * Most row kernels wait for memory, where wider vectors would hardly show. Those that do not,
 * exponentials and attention over a cache, keep two strands of sums, which are one wide register
 * here (vec.h, pairs). */
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"
#include "backend/cpu/rows_ssru.h"

const struct row_kernels rows_avx512 = ROW_KERNELS;
