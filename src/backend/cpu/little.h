/* little.h — products of blocks so small that packing them would cost more than multiplying:
 * attention over a sentence, one head at a time.
 *
 * gemm.h packs both operands into panels, which pays when a panel is read often. A sentence of 12
 * words has products of 12 x 12 x 64, and five of them backward for every head: there the first
 * operand is broadcast from where it lies, the second read in rows. Only what has to lie otherwise
 * is copied first: bf16 is widened, and a transposed second operand turned.
 *
 * Arithmetic is f32 by fused multiply-adds, depth ascending, then added to the old C: for f32
 * operands the bits of gemm_serial as long as k is at most LITTLE_DEPTH. Products of bf16 operands
 * are exact, too, so that only sums round. */
#ifndef BACKEND_CPU_LITTLE_H
#define BACKEND_CPU_LITTLE_H

#include "backend/cpu/gemm.h"

enum { LITTLE_DEPTH = 512 };

/* C[m,n] = or += A[m,k] B[k,n], all f32, rows of B and C contiguous. Element (i,p) of A is
 * a[i * a_row + p * a_depth]. Nothing beyond the operands is read or written. */
struct little {
    int m, n, k;
    const float *a;
    int64_t a_row, a_depth;
    const float *b;
    int64_t ldb;
    float *c;
    int64_t ldc;
    int add;
};

struct little_kernel {
    void (*multiply)(const struct little *p);
    /* dst [cols, ld], f32, = src [rows, cols] of the type, transposed; ld is at least rows rounded
     * up to 16, and columns of dst from rows on are anything. */
    void (*turn)(float *dst, int64_t ld, const struct gemm_operand *src, int rows, int cols);
};

/* On the calling thread. g has an f32 C, no epilogue, and k at most LITTLE_DEPTH; isa->little is
 * there. The workspace is MEM_ALIGN-aligned and serves any smaller product. */
size_t little_workspace(int m, int n, int k);
void little_run(const struct isa *isa, const struct gemm *g, void *workspace);

#endif
