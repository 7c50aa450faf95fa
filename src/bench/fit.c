/* fit.c — see fit.h. */
#include "bench/fit.h"

#include <math.h>

static double as_it_is(double x) { return x; }

static struct fit_line line_through(const double *x, const double *y, int n, double (*of)(double)) {
    double mx = 0, my = 0, xx = 0, xy = 0;
    for (int i = 0; i < n; i++) mx += of(x[i]) / n, my += of(y[i]) / n;
    for (int i = 0; i < n; i++) {
        xx += (of(x[i]) - mx) * (of(x[i]) - mx);
        xy += (of(x[i]) - mx) * (of(y[i]) - my);
    }
    double slope = xx > 0 ? xy / xx : 0;
    return (struct fit_line){.at_zero = my - slope * mx, .slope = slope};
}

struct fit_line fit_line(const double *x, const double *y, int n) {
    return line_through(x, y, n, as_it_is);
}

struct fit fit_power(const double *x, const double *y, int n) {
    if (n < FIT_LEAST) return (struct fit){0};
    struct fit_line line = line_through(x, y, n, log);
    return (struct fit){.exponent = line.slope, .factor = exp(line.at_zero), .n = n};
}

int fit_begin(const double *y, int n, double times) {
    int begin = n;
    while (begin > 0 && y[begin - 1] >= times * y[0]) begin--;
    return begin;
}
