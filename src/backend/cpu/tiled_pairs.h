/* tiled_pairs.h — I8 products without instructions for them: bytes become 16-bit words, which every
 * x86-64 can multiply and add in pairs (pmaddwd). Hooks of tiled_i8.h for tiled_generic.c,
 * tiled_avx2.c and tiled_avx512.c, which define i8_madd, the vector form of pmaddwd, and
 * HALF_LANES.
 *
 * In a lane of w lie 4 depths: as words, shifting up and down again leaves the even depths 0 and 2,
 * shifting down the odd depths 1 and 3. So x is staged as two lanes of two words, (x0, x2) and (x1,
 * x3), and 4 depths take two multiplications and two additions; the three shifts are shared by all
 * rows of a block. Nothing saturates: a pair of products is at most 2 * 127 * 127. */
#ifndef BACKEND_CPU_TILED_PAIRS_H
#define BACKEND_CPU_TILED_PAIRS_H

#include <stdint.h>
#include <string.h>

typedef float fvec __attribute__((vector_size(4 * VL)));
typedef int32_t ivec __attribute__((vector_size(4 * VL)));
typedef int16_t hvec __attribute__((vector_size(4 * VL)));
typedef int32_t ihalf __attribute__((vector_size(2 * VL)));
enum { I8_WORD = 8 };

#define PAIRS_INLINE static inline __attribute__((always_inline))

PAIRS_INLINE ivec i8_madd(ivec a, ivec b);
PAIRS_INLINE ivec i8_round(fvec v);

struct i8_line {
    ivec even, odd;
};

PAIRS_INLINE struct i8_line i8_load(const char *from) {
    hvec w;
    memcpy(&w, from, sizeof w);
    return (struct i8_line){.even = (ivec)((hvec)(w << 8) >> 8), .odd = (ivec)(w >> 8)};
}

PAIRS_INLINE ivec i8_start(const int32_t *sums) {
    (void)sums;
    return (ivec){0};
}

struct i8_x {
    ivec even, odd;
};

PAIRS_INLINE struct i8_x i8_fetch(const char *from) {
    int32_t even, odd;
    memcpy(&even, from, 4);
    memcpy(&odd, from + 4, 4);
    return (struct i8_x){.even = (ivec){0} + even, .odd = (ivec){0} + odd};
}

PAIRS_INLINE ivec i8_dot(ivec sum, struct i8_x x, struct i8_line w) {
    return sum + i8_madd(w.even, x.even) + i8_madd(w.odd, x.odd);
}

/* Hides the values of the lanes from the compiler. */
#define I8_HIDE(x) __asm__("" : "+x"((x).even), "+x"((x).odd))

/* Lanes 0 1 2 3 of every four become words 0 2 1 3. */
PAIRS_INLINE void i8_put(char *to, ivec q) {
    const ivec pairs = (q & 0xffff) | __builtin_shufflevector(q, q, SWAP_PAIRS) << 16;
    const ihalf out = __builtin_shufflevector(pairs, pairs, FIRST_PAIRS);
    memcpy(to, &out, sizeof out);
}

#endif
