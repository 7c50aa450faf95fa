/* pool.h — a small pool of worker threads.
 *
 * pool_run(pool, fn, ctx, n_task) calls fn(ctx, task, thread) once for every task in [0, n_task)
 * and returns when all are done. Each thread begins with an equal, contiguous share of the tasks,
 * so that data cut alike in one job after the other meets the same caches, and then helps the
 * others; which thread runs which task varies. Code that wants results independent of the number
 * of threads (all of ours) cuts its tasks by data alone and lets each task write its own part.
 * `thread` is in [0, pool_size) and only picks scratch memory. The caller is thread 0. No nesting;
 * one pool_run at a time per pool. Nothing is allocated. */
#ifndef BASE_POOL_H
#define BASE_POOL_H

#include "base/err.h"

struct pool;

typedef void pool_fn(void *ctx, int task, int thread);

/* A pool of n threads (the caller counts as one); n == 0 takes as many as the process may run
 * on. */
int pool_new(struct pool **pool, int n_thread, struct err *err);
void pool_free(struct pool *pool);
int pool_size(const struct pool *pool);
void pool_run(struct pool *pool, pool_fn *fn, void *ctx, int n_task);

/* CPUs this process may run on (its affinity mask). */
int pool_cpu_count(void);

#endif
