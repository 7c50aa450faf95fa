/* constraint.c — see constraint.h. */
#include "search/constraint.h"

#include <math.h>
#include <string.h>

void constraint_penalise(float *logit, const int32_t *written, int n, float penalty, uint32_t *seen,
                         uint32_t stamp) {
    for (int i = 0; i < n; i++) {
        float *z = &logit[written[i]];
        if (seen[written[i]] == stamp) continue;
        seen[written[i]] = stamp;
        *z = *z > 0 ? *z / penalty : *z * penalty;
    }
}

void constraint_no_repeat(float *log_prob, const int32_t *written, int n, int size) {
    if (n < size) return; /* no n-gram is complete yet */
    const int32_t *tail = written + n - size + 1;
    size_t bytes = (size_t)(size - 1) * sizeof *tail;
    for (int i = 0; i + size <= n; i++)
        if (memcmp(written + i, tail, bytes) == 0) log_prob[written[i + size - 1]] = -INFINITY;
}
