/* hash.c — see hash.h. */
#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash64_plain(const void *data, size_t size) { return XXH3_64bits(data, size); }

uint64_t hash64(const void *data, size_t size) {
    return __builtin_cpu_supports("avx2") ? hash64_avx2(data, size) : hash64_plain(data, size);
}
