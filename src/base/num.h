/* num.h — the smaller and the larger of two numbers, division that rounds up, order, GiB, digits in
 * groups. */
#ifndef BASE_NUM_H
#define BASE_NUM_H

#include <stddef.h>
#include <stdint.h>

static inline int min_int(int a, int b) { return a < b ? a : b; }
static inline int max_int(int a, int b) { return a > b ? a : b; }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }
static inline size_t min_size(size_t a, size_t b) { return a < b ? a : b; }
static inline size_t max_size(size_t a, size_t b) { return a > b ? a : b; }

/* a / b rounded up; b > 0, a >= 0. */
static inline int ceil_div(int a, int b) { return a / b + (a % b != 0); }

/* For qsort. */
static inline int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double gib(size_t bytes) { return (double)bytes / 1073741824.0; }

/* "1 line", "2 lines": the ending for n. */
#define PLURAL(n) ((n) == 1 ? "" : "s")

/* The number with its digits in groups, 157,739: somewhere in out. */
static inline const char *num_grouped(char out[28], uint64_t n) {
    char *at = out + 27;
    *at = 0;
    for (int digits = 0; n || !digits; n /= 10) {
        if (digits && digits % 3 == 0) *--at = ',';
        *--at = (char)('0' + n % 10);
        digits++;
    }
    return at;
}

#endif
