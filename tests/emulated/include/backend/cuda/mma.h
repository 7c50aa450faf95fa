/* mma.h — what src/backend/cuda/mma.h says in the words of tensor cores, in plain C++. Which lane
 * holds what is written there; here it is done, from all lanes' registers. */
#ifndef BACKEND_CUDA_MMA_H
#define BACKEND_CUDA_MMA_H

#include "backend/cuda/cuda.h"

/* Addresses of shared memory begin at the block's dynamic shared memory. */
static inline uint32_t shared_address(const void *p) {
    return (uint32_t)((const char *)p - (const char *)emulated_shared());
}

static inline uint32_t emulated_pair(const bf16 *first, const bf16 *second) {
    return (uint32_t)first->bits | (uint32_t)second->bits << 16;
}
static inline float emulated_low(uint32_t pair) { return __uint_as_float(pair << 16); }
static inline float emulated_high(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }

static inline void emulated_ldmatrix(uint32_t (&r)[4], const bf16 *row, int trans) {
    if ((uintptr_t)row % 16) emulated_fault("ldmatrix: a row that is not aligned to 16 bytes");
    const char *all = emulated_exchange(0xffffffffu, &row, sizeof row, "ldmatrix");
    int lane = emulated_self->lane, g = lane / 4, t = lane % 4;
    for (int m = 0; m < 4; m++) {
        const bf16 *rows[8];
        for (int i = 0; i < 8; i++) memcpy(&rows[i], all + (8 * m + i) * 64, sizeof rows[i]);
        r[m] = trans ? emulated_pair(rows[2 * t] + g, rows[2 * t + 1] + g)
                     : emulated_pair(rows[g] + 2 * t, rows[g] + 2 * t + 1);
    }
}
static inline void ldmatrix(uint32_t (&r)[4], const bf16 *row) { emulated_ldmatrix(r, row, 0); }
static inline void ldmatrix_trans(uint32_t (&r)[4], const bf16 *row) {
    emulated_ldmatrix(r, row, 1);
}

static inline void mma_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    struct {
        uint32_t a[4], b[2];
    } mine = {{a[0], a[1], a[2], a[3]}, {b0, b1}}, of[32];
    const char *all = emulated_exchange(0xffffffffu, &mine, sizeof mine, "mma");
    for (int lane = 0; lane < 32; lane++) memcpy(&of[lane], all + lane * 64, sizeof mine);
    int g = emulated_self->lane / 4, t = emulated_self->lane % 4;
    for (int y = 0; y < 2; y++)
        for (int x = 0; x < 2; x++) {
            float sum = 0;
            for (int k = 0; k < 4; k++)                /* lanes along the depth */
                for (int half = 0; half < 2; half++) { /* its first eight, its last eight */
                    uint32_t u = of[4 * g + k].a[2 * half + y];
                    uint32_t v = of[4 * (2 * t + x) + k].b[half];
                    sum += emulated_low(u) * emulated_low(v);
                    sum += emulated_high(u) * emulated_high(v);
                }
            c[2 * y + x] += sum;
        }
}

static inline uint32_t pack_bf16(float first, float second) {
    bf16 x = __float2bfloat16_rn(first), y = __float2bfloat16_rn(second);
    return emulated_pair(&x, &y);
}

static inline void copy16_async(void *to, const void *from, bool valid) {
    if ((uintptr_t)to % 16 || (valid && (uintptr_t)from % 16))
        emulated_fault("a copy that is not aligned to 16 bytes");
    emulated_begin(EMULATED_COPIES, [=]() {
        if (valid)
            memcpy(to, from, 16);
        else
            memset(to, 0, 16);
    });
}
static inline void copies_commit(void) { emulated_commit(EMULATED_COPIES); }
template <int N> static inline void copies_wait(void) { emulated_wait(EMULATED_COPIES, N); }

static inline float exp2_fast(float x) { return exp2f(x); }

#endif
