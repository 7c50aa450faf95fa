/* fit.c — see fit.h. */
#include "bench/fit.h"

#include <math.h>

struct fit fit_power(const double *x, const double *y, int n) {
    double mx = 0, my = 0, xx = 0, xy = 0;
    if (n < FIT_LEAST) return (struct fit){0};
    for (int i = 0; i < n; i++) mx += log(x[i]) / n, my += log(y[i]) / n;
    for (int i = 0; i < n; i++) {
        xx += (log(x[i]) - mx) * (log(x[i]) - mx);
        xy += (log(x[i]) - mx) * (log(y[i]) - my);
    }
    double p = xy / xx;
    return (struct fit){.exponent = p, .factor = exp(my - p * mx), .n = n};
}

int fit_begin(const double *y, int n, double times) {
    int begin = n;
    while (begin > 0 && y[begin - 1] >= times * y[0]) begin--;
    return begin;
}
