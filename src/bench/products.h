/* products.h — what the benchmarks of matrix products share. They look inside the cpu backend. */
#ifndef BENCH_PRODUCTS_H
#define BENCH_PRODUCTS_H

#include "backend/cpu/cpu.h"
#include "bench/bench.h"

/* Threads and the instruction set to measure, if one was asked for. pool_free(be->pool) ends it. */
int bench_products_open(struct cpu_backend *be, const struct isa **only,
                        const struct bench_gemm_options *o, struct err *err);

/* Sets be->isa (NULL at first) to the next set to measure; 0 after the last. */
int bench_next_isa(struct cpu_backend *be, const struct isa *only);

/* Random numbers in [-1, 1), from mem_block; data is NULL when memory is short. */
struct mat bench_mat(int rows, int cols, enum dtype type);

#endif
