/* eights.h — eight neighbouring numbers at a time on their way through shared memory: asked for
 * long before they are needed, without registers in the meantime. */
#ifndef BACKEND_CUDA_EIGHTS_H
#define BACKEND_CUDA_EIGHTS_H

#include "backend/cuda/mma.h"

/* From global to shared memory, to be waited for as mma.h says. */
template <class T> static __device__ __forceinline__ void ask8(T *to, const T *from) {
#pragma unroll
    for (int i = 0; i < 8; i += 16 / (int)sizeof(T)) copy16_async(to + i, from + i, true);
}

template <class T> static __device__ __forceinline__ void take8(float (&v)[8], const T *from) {
    if constexpr (std::is_same_v<T, bf16>)
        unpack16(v, *(const uint4 *)from);
    else
        load_pack(v, from);
}

#endif
