/* dropout.h — the dropout function of ops.h in code, one element at a time.
 *
 * Whether an element survives is a pure function of its position, so nothing is stored between the
 * forward and the backward pass, and all backends drop the same elements. Vector code draws eight
 * neighbouring columns from one Philox call; this header is what it must agree with. */
#ifndef BACKEND_DROPOUT_H
#define BACKEND_DROPOUT_H

#include "backend/ops.h"
#include "base/rng.h"

/* Is element (row, col) kept? */
static inline int dropout_keep(const struct dropout *d, uint32_t row, uint32_t col) {
    struct philox bits = philox4x32(d->seed, col / 8, row, d->site, d->step);
    uint32_t half = bits.x[col % 8 / 2] >> (col % 2 ? 16 : 0) & 0xffffu;
    return half >= dropout_threshold(d->p);
}

/* What element (row, col) is multiplied by, forward and backward: 0, or the scale of what is
 * kept. */
static inline float dropout_factor(const struct dropout *d, uint32_t row, uint32_t col) {
    if (d->p == 0) return 1;
    return dropout_keep(d, row, col) ? dropout_scale(d->p) : 0;
}

#endif
