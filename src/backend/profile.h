/* profile.h — what each op costs. Profiling costs two clock reads, or two events of the device, per
 * op; asking for a cost waits for the device. */
#ifndef BACKEND_PROFILE_H
#define BACKEND_PROFILE_H

#include <stdint.h>

#include "backend/ops.h"

/* What one op cost so far; filled only while profiling is on. */
struct op_cost {
    uint64_t calls, ns;
    double flops; /* multiply and add counted apart; attention counts the pairs that are seen */
};

void backend_profile(struct backend *be, int on); /* on: also resets the counters */
const struct op_cost *backend_cost(struct backend *be, enum op op);

#endif
