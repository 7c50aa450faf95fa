/* shuffle.c — see shuffle.h. */
#include "data/shuffle.h"

#include "base/err.h"
#include "base/rng.h"

/* Few elements still get many orders: below this the network would have too few bits to mix. */
enum { MIN_BITS = 6, N_ROUND = 6 };

void shuffle_init(struct shuffle *s, uint64_t key, uint64_t n) {
    BUG_ON(n == 0 || n > UINT64_C(1) << 62);
    int bits = MIN_BITS;
    while (bits < 62 && n > UINT64_C(1) << bits) bits++;
    *s = (struct shuffle){.key = key, .n = n, .n_low = bits / 2, .n_high = bits - bits / 2};
}

static uint64_t mix(uint64_t key, uint64_t half, uint32_t round, int n_bit) {
    struct philox r = philox4x32(key, (uint32_t)half, (uint32_t)(half >> 32), round, 0);
    return ((uint64_t)r.x[1] << 32 | r.x[0]) & ((UINT64_C(1) << n_bit) - 1);
}

uint64_t shuffle_at(const struct shuffle *s, uint64_t i) {
    BUG_ON(i >= s->n);
    if (s->n == 1) return 0;
    do {
        uint64_t low = i & ((UINT64_C(1) << s->n_low) - 1), high = i >> s->n_low;
        for (uint32_t round = 0; round < N_ROUND; round += 2) {
            high ^= mix(s->key, low, round, s->n_high);
            low ^= mix(s->key, high, round + 1, s->n_low);
        }
        i = high << s->n_low | low;
    } while (i >= s->n);
    return i;
}

uint64_t shuffle_key(uint64_t seed, uint32_t what, uint64_t a, uint32_t b) {
    struct philox r = philox4x32(seed, (uint32_t)a, (uint32_t)(a >> 32), b, what);
    return (uint64_t)r.x[1] << 32 | r.x[0];
}
