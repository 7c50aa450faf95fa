/* cpu.h — what the files of the cpu backend share: the backend struct and the kernels of the chosen
 * instruction set.
 *
 * Layers, bottom up: gemm_<isa>.c and rows_<isa>.c (vector code for one instruction set, compiled
 * with that set's flags; they and what they include are the only files with intrinsics) -> gemm.c
 * (blocking, packing, threads for matrix products) -> one file per op noun (linear.c attention.c
 * ...). No kernel knows about threads and no op about instructions. */
#ifndef BACKEND_CPU_CPU_H
#define BACKEND_CPU_CPU_H

#include "backend/cpu/isa.h"
#include "backend/cpu/rows.h"
#include "backend/device.h"
#include "base/pool.h"

struct cpu_backend {
    struct backend base;
    struct pool *pool;
    const struct isa *isa;
};

static inline struct cpu_backend *cpu_of(struct backend *be) { return (struct cpu_backend *)be; }

/* Row-wise ops are cut into blocks of rows. Sums over rows (bias and norm gradients) are taken per
 * block of CPU_SUM_ROWS into the rows of a matrix of partial sums [ceil_div(n, CPU_SUM_ROWS),
 * cols], which cpu_sum_rows then adds to the gradient, top to bottom: the order depends on the data
 * alone. */
enum { CPU_BLOCK_ROWS = 16, CPU_SUM_ROWS = 64 };
void cpu_sum_rows(struct cpu_backend *be, float *sum, const struct mat *x);

#define CPU_OP_DECLARE(slot, args) void cpu_##slot(struct backend *be, const struct args *a);
BACKEND_OPS(CPU_OP_DECLARE)
#undef CPU_OP_DECLARE

#endif
