/* gemm_f32.h — the f32 matrix kernel, written once on a vector type and included by gemm_generic.c,
 * gemm_avx2.c and gemm_avx512.c, which define
 *
 *     VL              lanes of a vector
 *     MR              rows of a patch; its columns are NR = 2 VL
 *     transpose(r)    transposes the VL x VL matrix held in vec r[VL]
 *     FUSED           whether products are added by fused multiply-adds
 *     f32_kernel      the name of the table to define
 *
 * Registers. The patch's MR x 2 vectors of sums stay in registers for the whole depth. A step of
 * depth loads two vectors of the B panel, then broadcasts each of the MR values of the A panel and
 * does 2 MR multiply-adds: 2 MR + 2 + 1 registers, which is how MR was chosen (16 registers: 6 x 2
 * + 3; 32 registers: 14 x 2 + 3).
 *
 * Balance. A step reads 4 (MR + NR) bytes and does 2 MR NR operations: at 14 x 32 that is 4.9 FLOP
 * per byte, so even with both panels in the second-level cache (16 or more bytes per cycle) the
 * kernel is bound by the multipliers, at 32 or 64 FLOP per cycle.
 *
 * Few rows. Batches while decoding, and the last panel of any product, fill a panel only in part;
 * the patch function exists for every even number of rows up to MR, on the same panels and with the
 * same sums. */
#include <string.h>

#include "backend/cpu/fma.h"
#include "backend/cpu/gemm_store.h"

/* A block of 168 rows x KC depths is a third of a 1 MiB core cache, its sums another third. */
enum { NR = 2 * VL, KC = 512, BLOCK_ROWS = 168 };

typedef float vec __attribute__((vector_size(4 * VL), may_alias));
typedef float vec_any __attribute__((vector_size(4 * VL), aligned(4), may_alias));
typedef uint32_t vec_u32 __attribute__((vector_size(4 * VL)));
typedef uint16_t vec_bf16 __attribute__((vector_size(2 * VL), aligned(2), may_alias));

static void transpose(vec *r);

/* ---- patch ----------------------------------------------------------------------------------- */

GEMM_INLINE vec madd(vec a, vec b, vec c, const int fused) {
    if (fused) return (vec)F32_FMA(VL, a, b, c);
    return a * b + c;
}

GEMM_INLINE void patch_rows(const int rows, int kc, const float *a, const float *b, float *t,
                            int64_t ldt, int add, const int fused) {
    vec sum[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = (vec){0};
    for (int k = 0; k < kc; k++, a += MR, b += NR) {
        const vec b0 = *(const vec *)b, b1 = *(const vec *)(b + VL);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const vec x = a[i] - (vec){0}; /* a broadcast, no sum */
            sum[i][0] = madd(x, b0, sum[i][0], fused);
            sum[i][1] = madd(x, b1, sum[i][1], fused);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            vec_any *to = (vec_any *)(t + i * ldt + j * VL);
            if (add) sum[i][j] += *to;
            *to = sum[i][j];
        }
}

GEMM_INLINE void any_patch(int kc, int rows, const void *a, const void *b, float *t, int add,
                           const int fused){
    GEMM_EVEN_ROWS(rows, patch_rows, kc, a, b, t, NR, add, fused)}

GEMM_INLINE void any_into(int kc, const void *a, const void *b, float *c, int64_t ldc, int add,
                          const int fused) {
    patch_rows(MR, kc, a, b, c, ldc, add, fused);
}

static void patch(int kc, int rows, const void *a, const void *b, float *t, int add) {
    any_patch(kc, rows, a, b, t, add, FUSED);
}

static void into(int kc, const void *a, const void *b, float *c, int64_t ldc, int add) {
    any_into(kc, a, b, c, ldc, add, FUSED);
}

static void store(const struct gemm_store *to, const float *t, int rows, int cols) {
    gemm_store_patch(to, t, NR, rows, cols);
}

/* ---- packing --------------------------------------------------------------------------------- */

GEMM_INLINE vec load(const void *src, int64_t at, enum dtype type) {
    if (type == DTYPE_F32) return *(const vec_any *)((const float *)src + at);
    const vec_bf16 half = *(const vec_bf16 *)((const uint16_t *)src + at);
    return (vec)(__builtin_convertvector(half, vec_u32) << 16);
}

GEMM_INLINE vec load_part(const void *src, int64_t at, enum dtype type, int count) {
    float part[VL] __attribute__((aligned(64))) = {0};
    for (int i = 0; i < count; i++)
        part[i] = type == DTYPE_F32 ? ((const float *)src)[at + i]
                                    : bf16_load(((const uint16_t *)src)[at + i]);
    return *(vec *)part;
}

/* Neighbours in memory are neighbours in depth: VL x VL blocks are transposed in registers. */
GEMM_INLINE void pack_block(float *panel, const struct gemm_pack *p, int first, int k,
                            const enum dtype type, const int width) {
    const int steps = p->k - k < VL ? p->k - k : VL;
    for (int w = 0; w < width; w += VL) {
        vec r[VL];
        const int slots = width - w < VL ? width - w : VL, at = first + w;
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++) {
            const int64_t from = (at + i) * p->ld + k;
            if (i >= slots || at + i >= p->n)
                r[i] = (vec){0};
            else
                r[i] =
                    steps == VL ? load(p->src, from, type) : load_part(p->src, from, type, steps);
        }
        transpose(r);
#pragma GCC unroll 16
        for (int i = 0; i < VL; i++)
            if (i < steps) memcpy(panel + (k + i) * width + w, &r[i], (size_t)slots * 4);
    }
}

/* Neighbours in memory are neighbours in the panel: rows are copied. Several panels are filled side
 * by side, a few depths at a time, so that whole cache lines and few pages are read in turn. */
GEMM_INLINE void copy_row(float *to, const struct gemm_pack *p, int64_t from, int count,
                          const enum dtype type) {
    if (type == DTYPE_F32)
        memcpy(to, (const float *)p->src + from, (size_t)count * 4);
    else
        for (int i = 0; i < count; i++) to[i] = bf16_load(((const uint16_t *)p->src)[from + i]);
}

GEMM_INLINE void pack_rows(const struct gemm_pack *p, const enum dtype type, const int width) {
    for (int k0 = 0; k0 < p->k; k0 += GEMM_PACK_DEPTHS) {
        char *panel = p->dst;
        const int k1 = p->k - k0 < GEMM_PACK_DEPTHS ? p->k : k0 + GEMM_PACK_DEPTHS;
        gemm_expect_rows(p, k0 + GEMM_PACK_DEPTHS);
        for (int first = 0; first < p->n; first += width, panel += p->stride) {
            const int count = p->n - first;
            for (int k = k0; k < k1; k++) {
                float *to = (float *)panel + (int64_t)k * width;
                if (count >= width) {
                    copy_row(to, p, k * p->ld + first, width, type);
                } else {
                    memset(to, 0, (size_t)width * 4);
                    copy_row(to, p, k * p->ld + first, count, type);
                }
            }
        }
    }
}

GEMM_INLINE void pack(const struct gemm_pack *p, const enum dtype type, const int width) {
    if (!p->along_k) {
        pack_rows(p, type, width);
        return;
    }
    char *panel = p->dst;
    for (int first = 0; first < p->n; first += width, panel += p->stride)
        for (int k = 0; k < p->k; k += VL) pack_block((float *)panel, p, first, k, type, width);
}

static void pack_a(const struct gemm_pack *p) {
    if (p->type == DTYPE_F32)
        pack(p, DTYPE_F32, MR);
    else
        pack(p, DTYPE_BF16, MR);
}

static void pack_b(const struct gemm_pack *p) {
    if (p->type == DTYPE_F32)
        pack(p, DTYPE_F32, NR);
    else
        pack(p, DTYPE_BF16, NR);
}

/* ---- peak ------------------------------------------------------------------------------------ */

/* As many independent multiply-adds as a step of `patch` has, each waiting for its own last result
 * only. x and y converge to a fixed point, so no operand ever turns infinite or denormal. */
static double peak(int64_t iterations) {
    vec sum[2 * MR], x = (vec){0} + 0.5f, y = (vec){0} + 1.0f;
#pragma GCC unroll 32
    for (int i = 0; i < 2 * MR; i++) sum[i] = (vec){0} + (float)i;
    for (int64_t n = 0; n < iterations; n++) {
#pragma GCC unroll 32
        for (int i = 0; i < 2 * MR; i++) sum[i] = madd(sum[i], x, y, FUSED);
    }
    vec all = (vec){0};
#pragma GCC unroll 32
    for (int i = 0; i < 2 * MR; i++) all += sum[i];
    volatile float keep = all[0];
    (void)keep;
    return (double)iterations * 2 * MR * VL * 2;
}

#define F32_KERNEL(patch_fn, into_fn)                                                              \
    {                                                                                              \
        .type = DTYPE_F32, .mr = MR, .nr = NR, .k_unit = 1, .kc = KC, .rows_least = BLOCK_ROWS,    \
        .rows_most = BLOCK_ROWS, .block_bytes = (size_t)BLOCK_ROWS * KC * 4, .patch = (patch_fn),  \
        .into = (into_fn), .store = store, .pack_a = pack_a, .pack_b = pack_b, .peak = peak        \
    }

const struct gemm_kernel f32_kernel = F32_KERNEL(patch, into);
