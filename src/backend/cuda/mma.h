/* mma.h — the instructions of tensor cores that C++ has no words for, one function each.
 *
 * A warp multiplies 16 x 16 by 16 x 8 bf16 with f32 sums (mma.sync.m16n8k16). With g = lane / 4 and
 * t = lane % 4, a lane holds of
 *     A [16 rows, 16 deep]  a0: (g, 2t..)  a1: (g + 8, 2t..)  a2: (g, 2t + 8..)  a3: (g + 8, 2t +
 *     8..) B [16 deep, 8 columns] b0: (2t.., g)  b1: (2t + 8.., g)
 *     C [16 rows, 8 columns] c0, c1: (g, 2t), (g, 2t + 1)      c2, c3: (g + 8, 2t), (g + 8, 2t + 1)
 * where (i, j..) is a register with two neighbours. C of two products side by side is therefore A
 * of the next product without any exchange between lanes, which attention relies on.
 *
 * ldmatrix fetches four 8 x 8 matrices from shared memory: lanes 8m .. 8m + 7 give the addresses of
 * the eight 16-byte rows of matrix m, and lane l gets elements 2 (l % 4), 2 (l % 4) + 1 of row l /
 * 4 of each; with `trans`, of the transposed matrix. */
#ifndef BACKEND_CUDA_MMA_H
#define BACKEND_CUDA_MMA_H

#include "backend/cuda/cuda.h"

static __device__ __forceinline__ uint32_t shared_address(const void *p) {
    return (uint32_t)__cvta_generic_to_shared(p);
}

static __device__ __forceinline__ void ldmatrix(uint32_t (&r)[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

static __device__ __forceinline__ void ldmatrix_trans(uint32_t (&r)[4], const bf16 *row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"(shared_address(row))
                 : "memory");
}

/* c += a b */
static __device__ __forceinline__ void mma_add(float (&c)[4], const uint32_t (&a)[4], uint32_t b0,
                                               uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* Two neighbours in a register, the first in the low half, as fragments want them. */
static __device__ __forceinline__ uint32_t pack_bf16(float first, float second) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return *reinterpret_cast<uint32_t *>(&pair);
}

/* 16 bytes from global to shared memory without passing through registers; zeros unless `valid`. */
static __device__ __forceinline__ void copy16_async(void *to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                 "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}
static __device__ __forceinline__ void copies_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
/* Waits until at most N of this thread's committed groups are on their way. */
template <int N> static __device__ __forceinline__ void copies_wait(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/* 2^x within 2 ulp; 0 for -inf. */
static __device__ __forceinline__ float exp2_fast(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
