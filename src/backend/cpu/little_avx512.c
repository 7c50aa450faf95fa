/* little_avx512.c — the kernel of little.h for AVX-512.
 *
 * A patch is MR x 32 sums in registers, or MR x 16 where columns are that few. A step of depth
 * loads two vectors of B, then broadcasts an element of A for each row: 14 loads for 28
 * multiply-adds, of which there are two of each per cycle. Rows of A beyond the last are the last
 * once more, and are not stored; columns beyond the last are masked. 14 rows of 16 columns are
 * enough sums under way to hide the latency of one (4 cycles, two units). */
#include "backend/cpu/gemm_store.h"
#include "backend/cpu/gemm_transpose.h"
#include "backend/cpu/little.h"

enum { MR = 14 };

GEMM_INLINE __mmask16 first_lanes(int n) {
    return n >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << n) - 1);
}

/* `rows` rows from i on, vectors of columns from j on, masked by the last one's. */
GEMM_INLINE void patch(const int rows, const struct little *p, int i, int j, const int vectors) {
    __m512 sum[MR][2];
    const float *a[MR], *b = p->b + j;
    const int left = p->m - i, cols = p->n - j;
    const __mmask16 mask[2] = {first_lanes(cols), first_lanes(cols > 16 ? cols - 16 : 0)};
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        a[r] = p->a + (i + (r < left ? r : left - 1)) * p->a_row;
        sum[r][0] = sum[r][1] = _mm512_setzero_ps();
    }
    for (int64_t k = 0; k < p->k; k++, b += p->ldb) {
        __m512 y[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) y[v] = _mm512_maskz_loadu_ps(mask[v], b + 16 * v);
#pragma GCC unroll 16
        for (int r = 0; r < rows; r++) {
            const __m512 x = _mm512_set1_ps(a[r][k * p->a_depth]);
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sum[r][v] = _mm512_fmadd_ps(x, y[v], sum[r][v]);
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < rows; r++) {
        if (r >= left) break;
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            float *c = p->c + (i + r) * p->ldc + j + 16 * v;
            if (p->add) sum[r][v] = _mm512_add_ps(_mm512_maskz_loadu_ps(mask[v], c), sum[r][v]);
            _mm512_mask_storeu_ps(c, mask[v], sum[r][v]);
        }
    }
}

static void multiply(const struct little *p) {
    for (int j = 0; j < p->n; j += 32)
        for (int i = 0; i < p->m; i += MR) {
            const int rows = p->m - i < MR ? p->m - i : MR;
            if (p->n - j > 16) {
                GEMM_EVEN_ROWS(rows, patch, p, i, j, 2)
            } else {
                GEMM_EVEN_ROWS(rows, patch, p, i, j, 1)
            }
        }
}

/* `cols` words of a row: f32, or bf16 widened. */
GEMM_INLINE __m512i load_row(const struct gemm_operand *src, int64_t at, int cols) {
    if (src->type == DTYPE_F32)
        return _mm512_maskz_loadu_epi32(first_lanes(cols), (const float *)src->data + at);
    const __m256i half =
        _mm256_maskz_loadu_epi16(first_lanes(cols), (const uint16_t *)src->data + at);
    return _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16);
}

static void turn(float *dst, int64_t ld, const struct gemm_operand *src, int rows, int cols) {
    for (int i = 0; i < rows; i += 16)
        for (int j = 0; j < cols; j += 16) {
            __m512i r[16];
            const int high = rows - i, wide = cols - j;
#pragma GCC unroll 16
            for (int l = 0; l < 16; l++)
                r[l] =
                    l < high ? load_row(src, (i + l) * src->ld + j, wide) : _mm512_setzero_si512();
            transpose_words(r);
#pragma GCC unroll 16
            for (int l = 0; l < 16; l++)
                if (l < wide) _mm512_storeu_si512(dst + (j + l) * ld + i, r[l]);
        }
}

const struct little_kernel little_avx512 = {.multiply = multiply, .turn = turn};
