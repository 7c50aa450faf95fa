/* tiled_avx512vnni.c — I8 products for AVX-512 with VNNI: vpdpbusd multiplies 4 bytes of each lane
 * by 4 bytes and adds all to the lane's int32, which is exactly the shape of a line of w times a
 * word of x.
 *
 * The instruction takes unsigned bytes on one side, so x is staged as u + 128, and sums begin at
 * -128 times the sum of w's row. Blocks are of at most 14 rows by two tiles: per step 28 vpdpbusd,
 * 14 broadcasts and two loads. Nothing overflows in the end: intermediate sums may wrap around, the
 * last one is below 2^31. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define VL 16
typedef float fvec __attribute__((vector_size(4 * VL)));
typedef int32_t ivec __attribute__((vector_size(4 * VL)));
enum { I8_WORD = 4 };

#define VNNI_INLINE static inline __attribute__((always_inline))

struct i8_line {
    __m512i w;
};

VNNI_INLINE struct i8_line i8_load(const char *from) {
    return (struct i8_line){_mm512_loadu_si512(from)};
}
VNNI_INLINE ivec i8_start(const int32_t *sums) {
    return (ivec)_mm512_slli_epi32(
        _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_loadu_si512(sums)), 7);
}
struct i8_x {
    __m512i u;
};

VNNI_INLINE struct i8_x i8_fetch(const char *from) {
    int32_t word;
    memcpy(&word, from, sizeof word);
    return (struct i8_x){_mm512_set1_epi32(word)};
}
VNNI_INLINE ivec i8_dot(ivec sum, struct i8_x x, struct i8_line line) {
    return (ivec)_mm512_dpbusd_epi32((__m512i)sum, x.u, line.w);
}
#define I8_HIDE(x) __asm__("" : "+v"((x).u))
VNNI_INLINE void i8_put(char *to, ivec q) {
    const __m128i bytes = _mm512_cvtepi32_epi8((__m512i)q);
    _mm_storeu_si128((__m128i *)to, _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
}
VNNI_INLINE ivec i8_round(fvec v) { return (ivec)_mm512_cvtps_epi32((__m512)v); }
#include "backend/cpu/tiled_i8.h"

TILED_TABLE(i8_block, 6, 14, 14)
I8_PEAK(28)

static void i8_run(const struct tiled_part *p) { tiled_walk(p, i8_block_blocks); }

const struct tiled_kernel tiled_i8_avx512vnni = {
    .stage_bytes = 1, .row_unit = 1, .stage = i8_stage, .run = i8_run, .peak = i8_peak};
