/* gemm_avx512bf16.c — the bf16 matrix kernel for processors with vdpbf16ps.
 *
 * The shape of the f32 kernel (14 x 32 patch: 28 registers of sums, two of B, one of A), with every
 * lane a pair of depths: a step covers two depths, broadcasts the 14 pairs of A and does 28
 * vdpbf16ps. It reads 4 (14 + 32) bytes for 4 * 14 * 32 operations, twice the f32 kernel's FLOP per
 * byte.
 *
 * Numbers: per pair, first the odd product is added to the sum, then the even one, each step
 * rounded to nearest; denormal operands and results count as zero. That is the instruction's
 * definition. */
#include "backend/cpu/gemm_pairs.h"

/* Blocks take the bytes they take in the f32 kernel. */
enum { MR = 14, NR = 32, KC = 1024, BLOCK_ROWS = 168 };

GEMM_INLINE void patch_rows(const int rows, int kc, const uint32_t *a, const uint32_t *b, float *t,
                            int64_t ldt, int add) {
    __m512 sum[MR][2];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) sum[i][0] = sum[i][1] = _mm512_setzero_ps();
    for (int k = 0; k < kc; k += 2, a += MR, b += NR) {
        const __m512bh b0 = (__m512bh)_mm512_load_si512(b);
        const __m512bh b1 = (__m512bh)_mm512_load_si512(b + 16);
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++) {
            const __m512bh x = (__m512bh)_mm512_set1_epi32((int)a[i]);
            sum[i][0] = _mm512_dpbf16_ps(sum[i][0], x, b0);
            sum[i][1] = _mm512_dpbf16_ps(sum[i][1], x, b1);
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            float *to = t + i * ldt + j * 16;
            if (add) sum[i][j] = _mm512_add_ps(_mm512_loadu_ps(to), sum[i][j]);
            _mm512_storeu_ps(to, sum[i][j]);
        }
}

static void patch(int kc, int rows, const void *a, const void *b, float *t, int add) {
    GEMM_EVEN_ROWS(rows, patch_rows, kc, a, b, t, NR, add)
}

static void into(int kc, const void *a, const void *b, float *c, int64_t ldc, int add) {
    patch_rows(MR, kc, a, b, c, ldc, add);
}

static void store(const struct gemm_store *to, const float *t, int rows, int cols) {
    gemm_store_patch(to, t, NR, rows, cols);
}

static void pack_a(const struct gemm_pack *p) { pack_pairs(p, MR, 2); }
static void pack_b(const struct gemm_pack *p) { pack_pairs(p, NR, 2); }

/* As many independent vdpbf16ps as a step of `patch` has. The empty asm hides the operands'
 * values. */
static double peak(int64_t iterations) {
    __m512 sum[2 * MR];
    __m512i x = _mm512_set1_epi32(0x3f803f80), y = x;
#pragma GCC unroll 32
    for (int i = 0; i < 2 * MR; i++) sum[i] = _mm512_set1_ps((float)i);
    for (int64_t n = 0; n < iterations; n++) {
        __asm__("" : "+v"(x), "+v"(y));
#pragma GCC unroll 32
        for (int i = 0; i < 2 * MR; i++)
            sum[i] = _mm512_dpbf16_ps(sum[i], (__m512bh)x, (__m512bh)y);
    }
    __m512 all = _mm512_setzero_ps();
#pragma GCC unroll 32
    for (int i = 0; i < 2 * MR; i++) all = _mm512_add_ps(all, sum[i]);
    volatile float keep = all[0];
    (void)keep;
    return (double)iterations * 2 * MR * 16 * 4;
}

const struct gemm_kernel gemm_bf16_avx512bf16 = {
    .type = DTYPE_BF16,
    .mr = MR,
    .nr = NR,
    .k_unit = 2,
    .kc = KC,
    .rows_least = BLOCK_ROWS,
    .rows_most = BLOCK_ROWS,
    .block_bytes = (size_t)BLOCK_ROWS * KC * 2,
    .patch = patch,
    .into = into,
    .store = store,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .peak = peak,
};
