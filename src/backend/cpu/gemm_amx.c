/* gemm_amx.c — the bf16 matrix kernel for AMX, Intel's matrix registers.
 *
 * Eight registers of 16 rows x 64 bytes. tdpbf16ps multiplies a 16 x 32 one of A by a 32 x 16 one
 * of B (stored as 16 rows of 16 pairs) into 16 x 16 sums: 16384 operations, issued every 16 cycles.
 * A 32 x 32 patch takes four registers of sums (0-3), two of A (4, 5), two of B (6, 7): per 32
 * depths four loads of 1 KiB feed four multiplications, 64 cycles of arithmetic for 4 KiB, so a
 * load port keeps up as long as one of the panels is in the first-level cache.
 *
 * Depth. A panel of KC depths is 16 KiB, so that one of B and a passing one of A fit a first-level
 * cache of 48 KiB together. Share of the peak (2854 GFLOP/s) of one core of a Xeon with such a
 * cache and 2 MiB of second level, B's panel fixed, A's panels passing from the second level:
 *
 *     depths                  128   256   512  1024
 *     sums from zero           61    71    52    53 %
 *     sums loaded from t       55    65    48    53 %
 *
 * So K = 512 in two steps should run at 68 %, the mean of 71 and 65, in one at 52 %, as long as t
 * comes from a cache: a block's rows of A, all depths, stay within half the second level, which
 * lets gemm.c keep the sums of a single column of patches (64 KiB at most). Within that, more rows
 * mean that B is read less often. Sums of whole blocks, 1 MiB, made products slower than 512 depths
 * at a time did.
 *
 * Panels. A: per 32 depths two registers, row after row, so packing an A that lies along k is a
 * plain copy. B: the pairs of gemm_pairs.h, 32 wide, so a register is read with a stride of 128
 * bytes.
 *
 * Numbers: within a register's 32 depths even and odd products are summed apart, then added to the
 * sum (which starts from t when adding); rounded to nearest, denormals count as zero. */
#include "backend/cpu/amx.h"
#include "backend/cpu/gemm_pairs.h"

enum { MR = 32, NR = 32, K_UNIT = 32, KC = 256, REGISTER_BYTES = 1024 };
enum { ROWS_LEAST = 128, ROWS_MOST = 512, BLOCK_BYTES = 1 << 20 };

/* With `both` 32 rows; else 16, half the work, when the lower half of the panel is padding. */
GEMM_INLINE void patch_rows(int kc, const char *a, const char *b, float *t, int add,
                            const int both) {
    const int64_t ldt = NR * 4;
    if (add) {
        amx_load(0, t, ldt);
        amx_load(1, t + 16, ldt);
    }
    if (add && both) {
        amx_load(2, t + 16 * NR, ldt);
        amx_load(3, t + 16 * NR + 16, ldt);
    }
    if (!add) amx_zero_sums();
    for (int k = 0; k < kc; k += K_UNIT, a += 2 * REGISTER_BYTES, b += 2 * REGISTER_BYTES) {
        amx_load(4, a, 64);
        amx_load(6, b, 128);
        amx_multiply(0, 4, 6);
        amx_load(7, b + 64, 128);
        amx_multiply(1, 4, 7);
        if (!both) continue;
        amx_load(5, a + REGISTER_BYTES, 64);
        amx_multiply(2, 5, 6);
        amx_multiply(3, 5, 7);
    }
    amx_store(0, t, ldt);
    amx_store(1, t + 16, ldt);
    if (!both) return;
    amx_store(2, t + 16 * NR, ldt);
    amx_store(3, t + 16 * NR + 16, ldt);
}

static void patch(int kc, int rows, const void *a, const void *b, float *t, int add) {
    if (rows > 16)
        patch_rows(kc, a, b, t, add, 1);
    else
        patch_rows(kc, a, b, t, add, 0);
}

static void store(const struct gemm_store *to, const float *t, int rows, int cols) {
    gemm_store_patch(to, t, NR, rows, cols);
}

/* 16 vectors x 32 depths as one register: its row i is vector i. */
static void pack_register(char *to, const struct gemm_pack *p, int first, int k) {
    const uint16_t *src = p->src;
    const int n = p->n - first, depths = p->k - k;
    __m512i r[16];
    if (p->along_k) {
        load_along_k(r, src + first * p->ld + k, p->ld, n, depths);
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < 16; i++)
            r[i] = n > 0 && depths > 2 * i
                       ? load_pair(src + (k + 2 * i) * p->ld + first, p->ld, n, depths - 2 * i)
                       : _mm512_setzero_si512();
        transpose_words(r);
    }
#pragma GCC unroll 16
    for (int i = 0; i < 16; i++) _mm512_store_si512(to + 64 * i, r[i]);
}

static void pack_a(const struct gemm_pack *p) {
    char *panel = p->dst;
    for (int first = 0; first < p->n; first += MR, panel += p->stride)
        for (int k = 0; k < p->k; k += K_UNIT) {
            char *to = panel + (int64_t)k * MR * 2;
            pack_register(to, p, first, k);
            pack_register(to + REGISTER_BYTES, p, first + 16, k);
        }
}

static void pack_b(const struct gemm_pack *p) { pack_pairs(p, NR, K_UNIT); }

AMX_PEAK(peak, amx_multiply, 32)

#ifndef GEMM_AMX_KERNEL
#define GEMM_AMX_KERNEL gemm_bf16_amx
#endif

const struct gemm_kernel GEMM_AMX_KERNEL = {
    .type = DTYPE_BF16,
    .mr = MR,
    .nr = NR,
    .k_unit = K_UNIT,
    .kc = KC,
    .rows_least = ROWS_LEAST,
    .rows_most = ROWS_MOST,
    .block_bytes = BLOCK_BYTES,
    .patch = patch,
    .store = store,
    .pack_a = pack_a,
    .pack_b = pack_b,
    .peak = peak,
    .enter = amx_enter,
    .leave = amx_leave,
};
