/* fit.h — the exponent of a cost: y = a x^p, fitted by least squares to logarithms. */
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

#endif
