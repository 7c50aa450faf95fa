/* hash_avx2.c — see hash.h. */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/hash.h"

uint64_t hash64_avx2(const void *data, size_t size) { return XXH3_64bits(data, size); }
