/* bench.h — the benchmarks behind `heed bench`. Each prints a table, or JSON lines, to stdout and returns 0
 * or a negative status with *err filled. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "base/err.h"

struct bench_gemm_options {
    const char *isa;   /* NULL: every usable instruction set */
    const char *dtype; /* "f32", "bf16", or NULL for both */
    int threads;       /* 0: all CPUs the process may use */
    int json;          /* one object per line */
    int min_ms;        /* measure each case at least that long; 0: 100 */
    int m;             /* only products of that many rows; 0: all */
};

int bench_gemm_run(const struct bench_gemm_options *o, struct err *err);

#endif
