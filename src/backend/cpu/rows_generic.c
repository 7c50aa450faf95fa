/* rows_generic.c — the row kernels of rows.h for any x86-64: a vector is two of SSE2. */
#include "backend/cpu/rows_body.h"
#include "backend/cpu/rows_softmax.h"
#include "backend/cpu/rows_ssru.h"

const struct row_kernels rows_generic = ROW_KERNELS;
