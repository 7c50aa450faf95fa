/* seen.h — a number for each of many 64-bit hashes: what has been seen, and how often.
 *
 * Open addressing in two arrays, 12 bytes a slot, at most two thirds of them used: 2.2 million
 * hashes take 50 MB. Texts are told apart by their hashes alone; among 10 million of them two are
 * the same by chance once in 370,000 corpora. */
#ifndef DATA_SEEN_H
#define DATA_SEEN_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed is empty. */
struct seen {
    uint64_t *hash; /* [cap], 0: a free slot */
    uint32_t *value;
    size_t n, cap;
};

/* The hash's number, 0 when it is new; valid until the next call. Every hash looked for is kept. */
uint32_t *seen_value(struct seen *seen, uint64_t hash);

/* The same, or NULL when it is not there; adds nothing. */
const uint32_t *seen_find(const struct seen *seen, uint64_t hash);

size_t seen_bytes(const struct seen *seen);
void seen_release(struct seen *seen);

#endif
