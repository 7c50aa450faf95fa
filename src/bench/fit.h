/* fit.h — the exponent of a cost: y = a x^p, fitted by least squares to logarithms; and a straight
 * line. */
#ifndef BENCH_FIT_H
#define BENCH_FIT_H

enum { FIT_LEAST = 3 }; /* points */

struct fit {
    double exponent, factor;
    int n; /* points it is of; 0: there were too few */
};

/* x and y are positive, x not all the same. */
struct fit fit_power(const double *x, const double *y, int n);

/* The first of the points, ascending in x, from which on costs are those of large sizes: every y is
 * at least `times` the first one, most of which is fixed cost. */
int fit_begin(const double *y, int n, double times);

/* y = at_zero + slope x, by least squares; a slope of 0 where there is one x only. */
struct fit_line {
    double at_zero, slope;
};
struct fit_line fit_line(const double *x, const double *y, int n);

#endif
