/* isa.h — the instruction sets of the cpu backend and the kernels each provides.
 *
 * An instruction set is a table of function pointers filled by gemm_<name>.c, tiled_<name>.c,
 * little_<name>.c and rows_<name>.c, which are the only files here compiled with that set's flags.
 * isa.c decides which sets this machine and its operating system can run (CPUID for the processor,
 * XGETBV for the registers the OS saves, arch_prctl for the permission to use AMX) and picks the
 * best, or the one asked for.
 *
 * Four families of kernels. Matrix kernels work on packed panels and differ per set and input type;
 * so do the kernels for products with tiled weights, which read those as they lie, and the ones for
 * products too small to be packed (little.h). Row kernels are loops over contiguous rows, written
 * once on a vector type and compiled per set. All of them are pure functions of their arguments: no
 * threads, no allocation, no state. */
#ifndef BACKEND_CPU_ISA_H
#define BACKEND_CPU_ISA_H

#include <stddef.h>
#include <stdint.h>

#include "backend/mat.h"
#include "base/err.h"

/* A strip of an operand on its way into panels. The operand is seen as `n` vectors (rows of A,
 * columns of B) of `k` elements each; a panel holds mr (nr) of them. */
struct gemm_pack {
    void *dst;       /* first panel, 64-byte aligned */
    size_t stride;   /* bytes from panel to panel */
    const void *src; /* element (p, k) at src[p*ld + k] if along_k, else at src[k*ld + p] */
    int64_t ld;      /* in elements */
    enum dtype type; /* of src: F32 or BF16 for an f32 kernel, BF16 for a bf16 kernel */
    int along_k;     /* an element's neighbour in memory is the next k */
    int n, k;        /* both may be anything; panels are zero-padded to full width and to k_unit */
};

/* Where a finished patch of sums goes, and the epilogue on its way. */
struct gemm_store {
    void *c; /* element (0,0) of the patch */
    int64_t ldc;
    enum dtype type;  /* of c */
    const void *bias; /* of the patch's first column, or NULL */
    enum dtype bias_type;
    int relu;
};

/* Matrix kernel for one input type, f32 accumulation.
 *
 * patch:  t[mr x nr] (contiguous, 64-byte aligned) = or += (add) A panel x B panel over kc steps of
 *         depth, kc a multiple of k_unit, possibly 0. Each element of t sums its terms in one fixed
 *         order that depends on kc alone. Only the first `rows` rows of t are wanted; the others
 *         may be anything. (Columns are always nr: B panels are zero-padded.)
 * into:   the same for a whole patch of an f32 C, rows ldc apart at any address; may be NULL.
 * store:  writes rows x cols of t, after the epilogue, and nothing else.
 * pack:   fills panels of A or B. In a panel, the part for depths [k, k + k_unit) is contiguous and
 *         starts at byte k * width * sizeof(type), so a block of depths is a sub-range of the
 *         panel.
 * peak:   runs the arithmetic instructions of `patch` alone, on registers; returns the FLOPs done.
 * enter, leave: around any calls of patch and peak on a thread (AMX configuration); may be
 *         NULL.
 *
 * A kernel for which packing ahead costs too much has `run` instead of patch and pack: a rectangle
 * of C, epilogue included, from operands as they lie, on the calling thread, in `workspace` bytes
 * (64-byte aligned) that never shrink when a side grows. The same promise of order holds. */
struct gemm; /* gemm.h */
struct gemm_range {
    int row, rows, col, cols;
};
struct gemm_kernel {
    enum dtype type;
    int mr, nr, k_unit;
    int kc; /* depths summed at a time, a multiple of k_unit */
    /* Rows of A that a thread multiplies with all its columns: as many as fit in block_bytes of the
     * core's cache, within bounds, which are multiples of mr. */
    int rows_least, rows_most;
    size_t block_bytes;
    void (*patch)(int kc, int rows, const void *a_panel, const void *b_panel, float *t, int add);
    void (*into)(int kc, const void *a_panel, const void *b_panel, float *c, int64_t ldc, int add);
    void (*store)(const struct gemm_store *to, const float *t, int rows, int cols);
    void (*pack_a)(const struct gemm_pack *p);
    void (*pack_b)(const struct gemm_pack *p);
    void (*run)(const struct gemm *g, struct gemm_range at, void *workspace);
    int (*packs_rows)(const struct gemm *g); /* in run, where not columns; or NULL */
    size_t (*workspace)(int m, int n, int k);
    double (*peak)(int64_t iterations);
    void (*enter)(void), (*leave)(void);
};

/* A rectangle of y = x w^T + b with w tiled: `rows` rows of x against `tiles` tiles of w. */
struct tiled_part {
    char *x; /* staged; its first row, and bytes from row to row */
    int64_t ldx;
    const char *w; /* its first tile, and bytes from tile to tile; aligned as 4-byte words are */
    int64_t ldw;
    int lines; /* of a tile that hold depths at all */
    int rows, tiles;
    int cols;             /* of y: 16 per tile, less at the end of w */
    struct gemm_store to; /* y's part, bias and ReLU */
    float *factor;        /* I8: a_i / 127 of each row of x; with an x_scale 1 or NaN */
    const float *scale;   /* I8: of each row of w, or its unit; as sum */
    const float *zero;    /* I8 with an x_scale only */
    const int32_t *sum;
};

/* Kernel for tiled weights of one type. x is staged first: copied into rows of whole lines in the
 * form that the kernel multiplies (quantised, widened, padded with zeros), which costs one pass
 * over x per product.
 *
 * stage:  rows [first, last) of x into dst (their own place; rows ld bytes apart, counted from row
 *         0); for I8 also factor, and x->x_scale is that of w. Rows from x->rows on are padding.
 * run:    the rectangle. An element's arithmetic depends on its row of x and its row of w alone.
 * pass:   may be NULL. The same from the part's rows of x as they lie, with x->x_scale that of w:
 *         they are staged a few at a time, beside the multiplications of those before, into
 *         2 * row_unit rows at p->x, with as many factors at p->factor, both of them scratch.
 * peak, enter, leave: as of gemm_kernel; around any calls of run and pass. */
struct tiled_kernel {
    int in_place;    /* x may be multiplied where it lies, too */
    int stage_bytes; /* of a staged element */
    int row_unit;    /* staged rows are padded to a multiple of it, and parts begin at one */
    void (*stage)(void *dst, int64_t ld, float *factor, const struct mat *x, int first, int last);
    void (*run)(const struct tiled_part *p);
    void (*pass)(const struct tiled_part *p, const struct mat *x);
    double (*peak)(int64_t iterations);
    void (*enter)(void), (*leave)(void);
};

struct row_kernels;   /* rows.h */
struct little_kernel; /* little.h */

/* Sets without bf16 instructions use their f32 kernel for bf16 operands: packing widens them, which
 * is exact, so the products are exact too and only the sums round. */
struct isa {
    const char *name;
    unsigned needs; /* features of processor and OS, see isa.c */
    const struct gemm_kernel *gemm_f32, *gemm_bf16;
    const struct gemm_kernel *gemm_fused; /* gemm_f32, or one that sums by fused multiply-adds as
                                             other sets do */
    const struct tiled_kernel *tiled_f32, *tiled_bf16, *tiled_i8;
    const struct tiled_kernel *tiled_i8_few; /* for few_rows or fewer, where another is faster */
    int few_rows;
    const struct row_kernels *rows;
    const struct little_kernel *little; /* or NULL */
    int little_bf16; /* attention in bf16 takes it for sentences up to this length */
};

extern const struct gemm_kernel gemm_f32_generic, gemm_fused_generic, gemm_f32_avx2,
    gemm_f32_avx512;
extern const struct gemm_kernel gemm_bf16_avx512bf16, gemm_bf16_amx;
extern const struct tiled_kernel tiled_f32_generic, tiled_f32_avx2, tiled_f32_avx512;
extern const struct tiled_kernel tiled_bf16_generic, tiled_bf16_avx2, tiled_bf16_avx512,
    tiled_bf16_avx512bf16, tiled_bf16_amx;
extern const struct tiled_kernel tiled_i8_generic, tiled_i8_avx2, tiled_i8_avx512,
    tiled_i8_avx512vnni, tiled_i8_amx;
extern const struct little_kernel little_avx512;

/* All sets this build knows, worst first, ended by NULL; isa_usable says whether this machine runs
 * one. */
extern const struct isa *const isa_table[];
int isa_usable(const struct isa *isa);

/* name NULL or "auto": the best usable one. Otherwise that one, or an error that lists what there
 * is. */
int isa_select(const struct isa **isa, const char *name, struct err *err);

#endif
