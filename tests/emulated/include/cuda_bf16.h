/* cuda_bf16.h — a stand-in for CUDA's (../README.md). */
#ifndef EMULATED_CUDA_BF16_H
#define EMULATED_CUDA_BF16_H

#include <cuda_runtime.h>

/* No constructors: kernels keep them in shared memory and in unions. */
struct __nv_bfloat16 {
    uint16_t bits;
};
struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 x) {
    return __uint_as_float((unsigned)x.bits << 16);
}
/* To the nearest, ties to even; every NaN becomes 0x7fff, as on the device. */
static inline __nv_bfloat16 __float2bfloat16_rn(float x) {
    unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return {0x7fff};
    return {(uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16)};
}
static inline __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return {__float2bfloat16_rn(x), __float2bfloat16_rn(y)};
}

#endif
