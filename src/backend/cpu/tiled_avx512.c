/* tiled_avx512.c — products with tiled weights for AVX-512: 16-lane vectors in 32 registers, so a
 * line is a vector. Blocks are of at most 14 rows by two tiles (28 registers of sums, two of w, one
 * of x); I8, which without VNNI needs two registers for a line, two for x and one for a product, of
 * 12 rows by two. */
#include <immintrin.h>

#define VL          16
#define FUSED       1
#define SWAP_PAIRS  2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13
#define FIRST_PAIRS 0, 1, 4, 5, 8, 9, 12, 13
#include "backend/cpu/tiled_f32.h"
#include "backend/cpu/tiled_pairs.h"

PAIRS_INLINE ivec i8_madd(ivec a, ivec b) {
    return (ivec)_mm512_madd_epi16((__m512i)a, (__m512i)b);
}
PAIRS_INLINE ivec i8_round(fvec v) { return (ivec)_mm512_cvtps_epi32((__m512)v); }
#include "backend/cpu/tiled_i8.h"

TILED_TABLE(f32_block, 6, 14, 14)
TILED_TABLE(bf16_block, 4, 12, 12)
TILED_TABLE(i8_block, 4, 12, 12)
I8_PEAK(24)

static void f32_run(const struct tiled_part *p) { tiled_walk(p, f32_block_blocks); }
static void bf16_run(const struct tiled_part *p) { tiled_walk(p, bf16_block_blocks); }
static void i8_run(const struct tiled_part *p) { tiled_walk(p, i8_block_blocks); }

const struct tiled_kernel tiled_f32_avx512 = {
    .in_place = 1, .stage_bytes = 4, .row_unit = 1, .stage = copy_stage, .run = f32_run};
const struct tiled_kernel tiled_bf16_avx512 = {
    .stage_bytes = 4, .row_unit = 1, .stage = widen_stage, .run = bf16_run};
const struct tiled_kernel tiled_i8_avx512 = {
    .stage_bytes = I8_WORD / 4, .row_unit = 1, .stage = i8_stage, .run = i8_run, .peak = i8_peak};
