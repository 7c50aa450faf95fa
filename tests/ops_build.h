/* ops_build.h — between ops.c and ops_cases.c: how a case's tensors are made. */
#ifndef TESTS_OPS_BUILD_H
#define TESTS_OPS_BUILD_H

#include "base/rng.h"
#include "ops.h"

/* A tensor of the test's type, without values; tensor_wide makes it the type of statistics. */
struct tensor *tensor_new(struct op_test *test, const char *name, enum role role, enum axis axis,
                          int rows, int cols);
struct tensor *tensor_wide(struct tensor *t);

/* Allocates; gives inputs and accumulators normal values, outputs and padding NaN. */
void tensor_fill(struct op_test *test, struct tensor *t, double mean, double deviation);

#endif
