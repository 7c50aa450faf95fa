/* gemm_generic.c — the f32 matrix kernels for any x86-64: 4-lane vectors in 16 registers, no fused
 * multiply-add. A patch is 4 x 8: eight registers of sums, two of B, and the multiplication needs a
 * register for its product where an FMA would not. The shared body is gemm_f32.h.
 *
 * gemm_fused_generic emulates the fused multiply-add (fma.h) and is an eighth as fast: it is for
 * attention, a small part of the work, which has f32 products in a quantised model, too. */
#define VL         4
#define MR         4
#define FUSED      0
#define f32_kernel gemm_f32_generic
#include "backend/cpu/gemm_f32.h"

static void transpose(vec *r) {
    const vec a = __builtin_shufflevector(r[0], r[1], 0, 4, 1, 5);
    const vec b = __builtin_shufflevector(r[0], r[1], 2, 6, 3, 7);
    const vec c = __builtin_shufflevector(r[2], r[3], 0, 4, 1, 5);
    const vec d = __builtin_shufflevector(r[2], r[3], 2, 6, 3, 7);
    r[0] = __builtin_shufflevector(a, c, 0, 1, 4, 5);
    r[1] = __builtin_shufflevector(a, c, 2, 3, 6, 7);
    r[2] = __builtin_shufflevector(b, d, 0, 1, 4, 5);
    r[3] = __builtin_shufflevector(b, d, 2, 3, 6, 7);
}

static void fused_patch(int kc, int rows, const void *a, const void *b, float *t, int add) {
    any_patch(kc, rows, a, b, t, add, 1);
}

static void fused_into(int kc, const void *a, const void *b, float *c, int64_t ldc, int add) {
    any_into(kc, a, b, c, ldc, add, 1);
}

const struct gemm_kernel gemm_fused_generic = F32_KERNEL(fused_patch, fused_into);
