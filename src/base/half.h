/* half.h — IEEE 754 half precision (f16: 1 bit sign, 5 exponent, 10 fraction) to f32 and back.
 *
 * Only a form of storage here: files and caches have it, nothing computes in it. bf16 is
 * backend/mat.h's. */
#ifndef BASE_HALF_H
#define BASE_HALF_H

#include <stdint.h>
#include <string.h>

/* Exact; infinities stay infinite and NaN a NaN. Without branches, so that loops become vectors. */
static inline float f16_load(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, bits = (uint32_t)(h & 0x7fff) << 13;
    float small = (float)(int32_t)(h & 0x3ff) * 0x1p-24f, out; /* below 2^-14 */
    uint32_t special = (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0, tiny;
    memcpy(&tiny, &small, sizeof tiny);
    bits = h & 0x7c00 ? (bits + 0x38000000u) | special : tiny;
    bits |= sign;
    memcpy(&out, &bits, sizeof out);
    return out;
}

/* Rounded to nearest, ties to even; what is too large becomes infinite, NaN stays a NaN. */
static inline uint16_t f16_store(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    uint32_t sign = bits >> 16 & 0x8000, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000u) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
    if (size < 0x38800000u) { /* below 2^-14: a multiple of 2^-24, which the sum's last bits hold */
        float sum;
        memcpy(&sum, &size, sizeof sum);
        sum += 0.5f; /* whose last place is 2^-24 */
        memcpy(&size, &sum, sizeof size);
        return (uint16_t)(sign | (size - 0x3f000000u));
    }
    size += 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | (size - 0x38000000u) >> 13);
}

/* The same, but what is too large becomes the largest number, 65504. */
static inline uint16_t f16_store_limited(float f) {
    return f16_store(f > 65504 ? 65504 : f < -65504 ? -65504 : f);
}

#endif
