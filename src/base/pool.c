/* pool.c — the pool of pool.h.
 *
 * Work arrives in bursts a few microseconds apart (one per op), so a worker that has nothing to do
 * first spins for a while and only then sleeps on a condition variable; a sleeping worker costs nothing
 * between steps. `generation` counts jobs: a worker knows there is a new one when it has moved on.
 * The job fields are written before `generation` is released and read after it is acquired. */
#define _GNU_SOURCE
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

enum { SPIN_TRIES = 20000, MAX_THREADS = 1024 };

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    int n_thread;
    int n_started; /* workers that exist; fewer than n_thread - 1 only while pool_new fails */
    struct worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_uint generation;
    atomic_int n_sleeping;
    atomic_int n_busy; /* workers that have not finished the current job */
    atomic_int next;   /* next task to hand out */
    bool stop;
    pool_fn *fn;
    void *ctx;
    int n_task;
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

static void work(struct pool *pool, int thread) {
    for (;;) {
        int task = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed);
        if (task >= pool->n_task) return;
        pool->fn(pool->ctx, task, thread);
    }
}

static unsigned wait_for_job(struct pool *pool, unsigned seen) {
    for (int i = 0; i < SPIN_TRIES; i++) {
        unsigned now = atomic_load_explicit(&pool->generation, memory_order_acquire);
        if (now != seen) return now;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    unsigned now;
    while ((now = atomic_load(&pool->generation)) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
    return now;
}

static void *worker_main(void *arg) {
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    unsigned seen = 0;
    for (;;) {
        seen = wait_for_job(pool, seen);
        if (pool->stop) return NULL;
        work(pool, worker->index);
        atomic_fetch_sub_explicit(&pool->n_busy, 1, memory_order_release);
    }
}

/* Makes the job fields visible. The sleepers are woken under the lock, so that a worker on its way to
 * sleep either sees the new generation or is counted in n_sleeping and hears the broadcast. */
static void announce(struct pool *pool) {
    atomic_fetch_add(&pool->generation, 1);
    if (atomic_load(&pool->n_sleeping) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

void pool_run(struct pool *pool, pool_fn *fn, void *ctx, int n_task) {
    if (pool->n_thread == 1 || n_task <= 1) {
        for (int i = 0; i < n_task; i++) fn(ctx, i, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    pool->n_task = n_task;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    atomic_store_explicit(&pool->n_busy, pool->n_started, memory_order_relaxed);
    announce(pool);
    work(pool, 0);
    for (int i = 0; atomic_load_explicit(&pool->n_busy, memory_order_acquire) != 0; i++)
        if (i < SPIN_TRIES)
            relax();
        else
            sched_yield();
}

int pool_cpu_count(void) {
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
    int n = CPU_COUNT(&set);
    return n > 0 ? n : 1;
}

int pool_size(const struct pool *pool) { return pool->n_thread; }

int pool_new(struct pool **out, int n_thread, struct err *err) {
    *out = NULL;
    if (n_thread < 0 || n_thread > MAX_THREADS)
        return err_set(err, HEED_EINVAL, "threads: %d is not between 1 and %d", n_thread,
                       MAX_THREADS);
    if (n_thread == 0) n_thread = pool_cpu_count();
    if (n_thread > MAX_THREADS) n_thread = MAX_THREADS;
    struct pool *pool = xcalloc(1, sizeof *pool);
    pool->n_thread = n_thread;
    pool->worker = xcalloc((size_t)n_thread, sizeof *pool->worker);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->wake, NULL);
    for (int i = 1; i < n_thread; i++) {
        struct worker *worker = &pool->worker[i];
        worker->pool = pool;
        worker->index = i;
        int rc = pthread_create(&worker->thread, NULL, worker_main, worker);
        if (rc) {
            pool_free(pool);
            return err_set(err, HEED_ENOMEM, "threads: cannot start thread %d of %d: %s", i + 1,
                           n_thread, strerror(rc));
        }
        pool->n_started++;
    }
    *out = pool;
    return 0;
}

void pool_free(struct pool *pool) {
    if (!pool) return;
    pool->stop = true;
    announce(pool);
    for (int i = 1; i <= pool->n_started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    xfree(pool->worker);
    xfree(pool);
}
