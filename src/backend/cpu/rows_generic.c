/* rows_generic.c — the row kernels of rows.h for the baseline of the architecture (SSE2 on x86-64):
 * vectors of 16 bytes. */
#define VEC_BYTES 16
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"

const struct row_kernels rows_generic = ROW_KERNELS;
