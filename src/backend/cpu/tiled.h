/* tiled.h — products with tiled weights: y = x w^T + b, ReLU included, for any number of rows.
 *
 * Where gemm.h packs both operands anew for products large enough to repay it, here the weights
 * come in the form that kernels read (tiles, laid out once when a model is
 * frozen), so a product with one row of x reads w once, in order, and does nothing else. An element
 * of y depends on its row of x and its row of w alone, in bits: not on the other rows, on threads,
 * or on how the product is cut.
 *
 * Products are f32 for F32 weights (the bits of gemm.h), bf16 for BF16 weights (likewise), and
 * exact integers between two roundings for I8 weights (linear_args in ops.h), then the same on
 * every instruction set. */
#ifndef BACKEND_CPU_TILED_H
#define BACKEND_CPU_TILED_H

#include "backend/cpu/cpu.h"

/* Who takes y where it is not to be stored: piece by piece, while a piece is in the cache of the
 * thread that computed it. Every element is taken once, in pieces of at most TILED_PIECE_ROWS rows
 * from `row` on and TILED_PIECE_COLS columns from `col` on, a multiple of that. */
enum { TILED_PIECE_ROWS = 128, TILED_PIECE_COLS = 512 };
struct tiled_sink {
    void (*take)(void *ctx, const struct mat *piece, int row, int col, int thread);
    void *ctx;
};

struct tiled {
    struct mat y, x; /* [M,N], [M,K], of the act type */
    struct mat w;    /* [N,K] tiled */
    struct mat b;    /* [1,N] of the act type, or absent */
    int relu;
    const struct tiled_sink *sink; /* or NULL; with one, y has a shape and no data */
};

/* Runs on the backend's threads. The workspace is the caller's, MEM_ALIGN-aligned, tiled_workspace
 * bytes (never less for a larger product of the same types). */
size_t tiled_workspace(const struct cpu_backend *be, const struct tiled *t);
void tiled_run(struct cpu_backend *be, const struct tiled *t, void *workspace);

/* The kernel that multiplies so many rows by w. */
const struct tiled_kernel *tiled_kernel_of(const struct isa *isa, enum dtype w_type, int rows);

#endif
