/* gemm.h — matrix products on the CPU: C[M,N] = or += A[M,K] B[K,N], with an epilogue.
 *
 * Both operands are packed into panels that a micro-kernel reads in order: A in panels of mr rows,
 * B in panels of nr columns, both zero-padded at the edges, so the kernel has no edge cases and
 * every element of C sums its K terms in an order that depends on K alone: blocks of the kernel's
 * kc depths, ascending, each joined to the running sum (which starts from the old C when adding);
 * within a block the kernel's fixed order. That is why a row of C depends neither on the other
 * rows, nor on threads.
 *
 * Products run in bf16 when both operands are BF16, else in f32. Sums are f32 always. */
#ifndef BACKEND_CPU_GEMM_H
#define BACKEND_CPU_GEMM_H

#include "backend/cpu/cpu.h"

/* Logical element (i,j) of the operand is data[i * ld + j], or data[j * ld + i] when trans is
 * set. */
struct gemm_operand {
    const void *data;
    int64_t ld;
    enum dtype type; /* F32 or BF16 */
    int trans;
};

struct gemm {
    int m, n, k;           /* none negative; k == 0 leaves the epilogue of 0, or of the old c */
    struct gemm_operand a; /* [m,k] */
    struct gemm_operand b; /* [k,n] */
    void *c;               /* [m,n], overlapping no operand */
    int64_t ldc;
    enum dtype c_type; /* F32 or BF16 */
    int add;           /* c += instead of c =; a BF16 c is read, summed in f32 and rounded once */
    /* Epilogue, applied to the finished sum: + bias[j], then max(0, .) if relu. */
    const void *bias; /* [n] of bias_type, or NULL */
    enum dtype bias_type;
    int relu;
};

/* c = op(a) op(b), an operand being transposed where its flag is set; the caller adds whatever else
 * the product should do. Over no memory, as in a plan, a product of no memory. */
static inline struct gemm gemm_of(const struct mat *c, const struct mat *a, int a_trans,
                                  const struct mat *b, int b_trans) {
    return (struct gemm){.m = a_trans ? a->cols : a->rows,
                         .n = b_trans ? b->rows : b->cols,
                         .k = a_trans ? a->rows : a->cols,
                         .a = {a->data, a->ld, a->type, a_trans},
                         .b = {b->data, b->ld, b->type, b_trans},
                         .c = c->data,
                         .ldc = c->ld,
                         .c_type = c->type};
}

/* Runs on the backend's threads. The workspace is the caller's, MEM_ALIGN-aligned, gemm_workspace
 * bytes (depends on the shape, types and number of threads, not on addresses; never less for a
 * larger m, n or k). */
size_t gemm_workspace(const struct cpu_backend *be, const struct gemm *g);
void gemm_run(struct cpu_backend *be, const struct gemm *g, void *workspace);

/* On the calling thread alone, for small products inside a task (attention's blocks, where little.h
 * is not faster). Same bits as
 * gemm_run, but f32 sums are by fused multiply-adds on every instruction set, so that a quantised
 * model, whose other products are exact, says the same on all. The workspace serves all types and
 * any smaller product. */
size_t gemm_serial_workspace(const struct isa *isa, int m, int n, int k);
void gemm_serial(const struct isa *isa, const struct gemm *g, void *workspace);

#endif
