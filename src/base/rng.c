/* rng.c — the sequential generator over Philox. */
#include "base/rng.h"

#include <math.h>

uint64_t rng_next(struct rng *rng) {
    struct philox r = philox4x32(rng->key, (uint32_t)rng->n, (uint32_t)(rng->n >> 32), 0, 0);
    rng->n++;
    return (uint64_t)r.x[1] << 32 | r.x[0];
}

uint32_t rng_below(struct rng *rng, uint32_t bound) {
    /* Lemire's multiply-shift with rejection: unbiased for every bound. */
    uint32_t reject = -bound % bound;
    for (;;) {
        uint64_t m = (rng_next(rng) & 0xffffffffu) * bound;
        if ((uint32_t)m >= reject) return (uint32_t)(m >> 32);
    }
}

double rng_uniform(struct rng *rng) { return (double)(rng_next(rng) >> 11) * 0x1p-53; }

double rng_normal(struct rng *rng) {
    /* Box-Muller, one of the pair: host code draws normals only to initialise parameters. */
    double u = 1.0 - rng_uniform(rng), v = rng_uniform(rng);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586476925 * v);
}
