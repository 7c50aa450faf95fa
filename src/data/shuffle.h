/* shuffle.h — a random order of [0, n) that takes no memory.
 *
 * shuffle_at(s, i) for i = 0 .. n-1 visits every number below n exactly once, in an order that
 * depends on the key alone. It is a Feistel network whose round function is Philox, on the smallest
 * power of two that holds n; values that fall outside [0, n) are sent through again until they come
 * out inside, which keeps it a bijection and takes fewer than two passes on average. Any place of
 * the order is found at once: that is what makes a position in a shuffled corpus a single
 * number. */
#ifndef DATA_SHUFFLE_H
#define DATA_SHUFFLE_H

#include <stdint.h>

struct shuffle {
    uint64_t key, n;
    int n_low, n_high; /* bits of the two halves */
};

/* n in [1, 2^62]. */
void shuffle_init(struct shuffle *shuffle, uint64_t key, uint64_t n);
uint64_t shuffle_at(const struct shuffle *shuffle, uint64_t i); /* i < n */

/* What a key is for; part of the order, so never renumbered. */
enum { KEY_EPOCH = 1, KEY_PASS = 2, KEY_TURN = 3, KEY_SUBWORD = 4 };

/* An independent key for each (what, a, b) under one seed. */
uint64_t shuffle_key(uint64_t seed, uint32_t what, uint64_t a, uint32_t b);

#endif
