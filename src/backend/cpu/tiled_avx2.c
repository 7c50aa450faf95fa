/* tiled_avx2.c — products with tiled weights for AVX2 and FMA: 8-lane vectors in 16 registers, two
 * of which are a line. f32 blocks are of at most six rows (12 registers of sums, two of w, one of
 * x), I8 blocks of four (8 of sums, 4 of w's words, two of x and one for a product). */
#include <immintrin.h>

#define VL          8
#define FUSED       1
#define SWAP_PAIRS  2, 3, 0, 1, 6, 7, 4, 5
#define FIRST_PAIRS 0, 1, 4, 5
#include "backend/cpu/tiled_f32.h"
#include "backend/cpu/tiled_pairs.h"

PAIRS_INLINE ivec i8_madd(ivec a, ivec b) {
    return (ivec)_mm256_madd_epi16((__m256i)a, (__m256i)b);
}
PAIRS_INLINE ivec i8_round(fvec v) { return (ivec)_mm256_cvtps_epi32((__m256)v); }
#include "backend/cpu/tiled_i8.h"

TILED_TABLE(f32_block, 1, 3, 6)
TILED_TABLE(bf16_block, 1, 2, 4)
TILED_TABLE(i8_block, 1, 2, 4)
I8_PEAK(8)

static void f32_run(const struct tiled_part *p) { tiled_walk(p, f32_block_blocks); }
static void bf16_run(const struct tiled_part *p) { tiled_walk(p, bf16_block_blocks); }
static void i8_run(const struct tiled_part *p) { tiled_walk(p, i8_block_blocks); }

const struct tiled_kernel tiled_f32_avx2 = {
    .in_place = 1, .stage_bytes = 4, .row_unit = 1, .stage = copy_stage, .run = f32_run};
const struct tiled_kernel tiled_bf16_avx2 = {
    .stage_bytes = 4, .row_unit = 1, .stage = widen_stage, .run = bf16_run};
const struct tiled_kernel tiled_i8_avx2 = {
    .stage_bytes = I8_WORD / 4, .row_unit = 1, .stage = i8_stage, .run = i8_run, .peak = i8_peak};
