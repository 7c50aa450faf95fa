/* hash.h — XXH3 of large blocks, with the vectors that the processor has.
 *
 * The values are those of the library's XXH3_64bits, which keeps to what every processor can do and
 * takes twice as long. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t size);

/* What hash64 calls, compiled for one instruction set each. */
uint64_t hash64_plain(const void *data, size_t size);
uint64_t hash64_avx2(const void *data, size_t size);

#endif
