/* rng.h — counter-based random numbers (Philox4x32-10, Salmon et al. 2011).
 *
 * A random number is a pure function of (key, counter), so nothing has to be stored to draw it
 * again: dropout masks are recomputed in the backward pass, parameters are initialised in any
 * order, and all backends see the same bits. `struct rng` is the sequential generator for host code
 * on top of it. */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdint.h>

#define PHILOX_M0 0xD2511F53u
#define PHILOX_M1 0xCD9E8D57u
#define PHILOX_W0 0x9E3779B9u
#define PHILOX_W1 0xBB67AE85u

struct philox {
    uint32_t x[4];
};

static inline struct philox philox4x32(uint64_t key, uint32_t c0, uint32_t c1, uint32_t c2,
                                       uint32_t c3) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)PHILOX_M0 * c0, p1 = (uint64_t)PHILOX_M1 * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += PHILOX_W0;
        k1 += PHILOX_W1;
    }
    return (struct philox){{c0, c1, c2, c3}};
}

/* Sequential generator: counter `n` under `key`; copying the struct copies the stream. */
struct rng {
    uint64_t key, n;
};

uint64_t rng_next(struct rng *rng);
uint32_t rng_below(struct rng *rng, uint32_t bound); /* uniform in [0, bound), bound > 0 */
double rng_uniform(struct rng *rng);                 /* [0, 1), 53 bits */
double rng_normal(struct rng *rng);                  /* mean 0, variance 1 */

#endif
