/* device_radix_sort.cuh — a stand-in for CUB's (../README.md): a stable sort by some bits. */
#ifndef EMULATED_DEVICE_RADIX_SORT_CUH
#define EMULATED_DEVICE_RADIX_SORT_CUH

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

namespace cub {
struct DeviceRadixSort {
    template <class Key, class Value>
    static cudaError_t SortPairs(void *temp, size_t &size, const Key *key, Key *key_sorted,
                                 const Value *value, Value *value_sorted, int n, int begin_bit = 0,
                                 int end_bit = sizeof(Key) * 8, cudaStream_t s = nullptr) {
        const size_t NEED = 512;
        if (!temp) return size = NEED, cudaSuccess;
        if (size < NEED) return cudaErrorInvalidValue;
        return emulated_queue(s, [=]() {
            std::vector<int> order((size_t)n);
            Key mask = (end_bit < (int)sizeof(Key) * 8 ? (Key(1) << end_bit) - 1 : ~Key(0)) >>
                       begin_bit << begin_bit;
            for (int i = 0; i < n; i++) order[(size_t)i] = i;
            std::stable_sort(order.begin(), order.end(),
                             [=](int x, int y) { return (key[x] & mask) < (key[y] & mask); });
            for (int i = 0; i < n; i++) {
                key_sorted[i] = key[order[(size_t)i]];
                value_sorted[i] = value[order[(size_t)i]];
            }
        });
    }
};
} // namespace cub

#endif
