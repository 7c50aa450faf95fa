/* isa.h — the instruction sets of the cpu backend and the kernels each provides.
 *
 * An instruction set is a table of function pointers filled by kernels_<name>.c. isa.c decides which sets
 * this machine and its operating system can run (CPUID for the processor, XGETBV for the registers the OS
 * saves, arch_prctl for the permission to use AMX tiles) and picks the best, or the one asked for.
 *
 * Two families of kernels. Matrix kernels work on packed panels and differ per set and input type. Row
 * kernels are loops over contiguous rows, written once in rows_body.h on a vector type and compiled per
 * set. All of them are pure functions of their arguments: no threads, no allocation, no state. */
#ifndef BACKEND_CPU_ISA_H
#define BACKEND_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

/* Matrix kernel for one input type (f32 or bf16), f32 accumulation. See gemm.h for the panel layout.
 *
 * tile:   c[mr x nr] (f32, row stride ldc) = or += A panel x B panel over kc steps of depth. Each element of
 *         c sums its kc terms in one fixed order that depends on kc alone. kc is a multiple of k_unit.
 *         Always a full mr x nr tile: panels are zero-padded, edges are handled by the caller.
 * pack_a: a panel of up to mr rows: rows x kc elements of `src` (trans == 0: element (i,k) at
 *         src[i*ld + k]; trans == 1: at src[k*ld + i]), zero-padded to mr rows and to kc_pad (kc rounded up to
 *         k_unit). src is of src_type (f32 or bf16), converted to the kernel's type.
 * pack_b: a panel of up to nr columns, likewise (trans == 0: element (k,j) at src[k*ld + j];
 *         trans == 1: at src[j*ld + k]). */
struct gemm_kernel {
    enum dtype type;
    int mr, nr, k_unit;
    void (*tile)(int kc, const void *a_panel, const void *b_panel, float *c, int64_t ldc, int add);
    void (*pack_a)(void *panel, const void *src, int64_t ld, enum dtype src_type, int trans,
                   int rows, int kc);
    void (*pack_b)(void *panel, const void *src, int64_t ld, enum dtype src_type, int trans,
                   int cols, int kc);
    double (*peak)(
        int64_t
            iterations); /* register-only loop of the same instructions; returns the FLOPs done */
};

struct row_kernels; /* rows.h */

struct isa {
    const char *name;
    const struct gemm_kernel *gemm_f32, *gemm_bf16;
    const struct row_kernels *rows;
    int (*enter)(void); /* per-thread set-up (AMX tile configuration), or NULL */
};

/* All sets this build knows, worst first, ended by NULL; isa_usable says whether this machine runs one. */
extern const struct isa *const isa_table[];
int isa_usable(const struct isa *isa);

/* name NULL or "auto": the best usable one. Otherwise that one, or an error that lists what there is. */
int isa_select(const struct isa **isa, const char *name, struct err *err);

#endif
