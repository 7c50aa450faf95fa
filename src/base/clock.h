/* clock.h — time that only goes forward, in seconds from an arbitrary moment, and time of the
 * processors that all threads of this process have used. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <time.h>

static inline double clock_read(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline double clock_seconds(void) { return clock_read(CLOCK_MONOTONIC); }
static inline double clock_cpu_seconds(void) { return clock_read(CLOCK_PROCESS_CPUTIME_ID); }

#endif
