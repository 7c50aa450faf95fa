/* tiled_generic.c — products with tiled weights for any x86-64: 4-lane vectors in 16 registers,
 * four of which are a line. Blocks are of at most three rows (12 registers of sums). No fused
 * multiply-add, so f32 sums round twice per term as those of gemm_generic.c do; the one fma of an
 * I8 element is emulated (fma.h). */
#define VL          4
#define FUSED       0
#define SWAP_PAIRS  2, 3, 0, 1
#define FIRST_PAIRS 0, 1
#include "backend/cpu/tiled_f32.h"
#include "backend/cpu/tiled_pairs.h"

#if defined(__SSE2__)
#include <emmintrin.h>
PAIRS_INLINE ivec i8_madd(ivec a, ivec b) { return (ivec)_mm_madd_epi16((__m128i)a, (__m128i)b); }
PAIRS_INLINE ivec i8_round(fvec v) { return (ivec)_mm_cvtps_epi32((__m128)v); }
#else
PAIRS_INLINE ivec i8_madd(ivec a, ivec b) {
    return (a << 16 >> 16) * (b << 16 >> 16) + (a >> 16) * (b >> 16);
}
PAIRS_INLINE ivec i8_round(fvec v) {
    ivec q = {0};
    for (int i = 0; i < VL; i++) q[i] = (int32_t)__builtin_rintf(v[i]);
    return q;
}
#endif
#include "backend/cpu/tiled_i8.h"

TILED_TABLE(f32_block, 1, 1, 3)
TILED_TABLE(bf16_block, 1, 1, 3)
TILED_TABLE(i8_block, 1, 1, 2)
I8_PEAK(8)

static void f32_run(const struct tiled_part *p) { tiled_walk(p, f32_block_blocks); }
static void bf16_run(const struct tiled_part *p) { tiled_walk(p, bf16_block_blocks); }
static void i8_run(const struct tiled_part *p) { tiled_walk(p, i8_block_blocks); }

const struct tiled_kernel tiled_f32_generic = {
    .in_place = 1, .stage_bytes = 4, .row_unit = 1, .stage = copy_stage, .run = f32_run};
const struct tiled_kernel tiled_bf16_generic = {
    .stage_bytes = 4, .row_unit = 1, .stage = widen_stage, .run = bf16_run};
const struct tiled_kernel tiled_i8_generic = {
    .stage_bytes = I8_WORD / 4, .row_unit = 1, .stage = i8_stage, .run = i8_run, .peak = i8_peak};
