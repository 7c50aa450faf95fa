/* pool.c — the pool of pool.h.
 *
 * Work arrives in bursts a few microseconds apart (one per op), so a worker that has nothing to do
 * first spins for a while and only then sleeps on a condition variable; a sleeping worker costs
 * nothing between steps.
 *
 * Tasks are dealt out in equal, contiguous shares, one per thread, and a thread that is done takes
 * from the ends of the others' shares. So the same range of rows goes to the same thread in one job
 * after the other, and stays in its caches, which cores need not share.
 *
 * A share is one atomic word, the ticket: the job's number, the first task that is not handed out,
 * and the end. A thread claims a task by a compare-and-swap on the ticket, so a claim is always of
 * the current job, however late the thread is; having claimed, it may read the job's function,
 * because the job cannot end before that task does. pool_run waits for tasks, not for threads: a
 * worker that lost its processor delays nobody unless it holds a task. */
#define _GNU_SOURCE
#include "base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

enum { SPIN_TRIES = 2000, MAX_THREADS = 1024 };

/* The ticket: job number, end of the share, next task. */
enum { TASK_BITS = 20, MAX_TASKS = (1 << TASK_BITS) - 1 };
static inline uint64_t ticket_make(uint64_t job, int first, int end) {
    return job << 2 * TASK_BITS | (uint64_t)end << TASK_BITS | (uint64_t)first;
}
static inline uint64_t ticket_job(uint64_t t) { return t >> 2 * TASK_BITS; }
static inline int ticket_end(uint64_t t) { return (int)(t >> TASK_BITS & MAX_TASKS); }
static inline int ticket_next(uint64_t t) { return (int)(t & MAX_TASKS); }

/* Far from the next, so that only its thread touches its cache line until others run out of
 * work. */
struct share {
    _Atomic uint64_t ticket;
    char gap[120];
};

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
    struct share *share; /* [n_thread] */
    atomic_int n_sleeping;
    atomic_int n_done; /* finished tasks of the current job */
    atomic_bool stop;
    pool_fn *fn; /* the current job; stable while one of its tasks is claimed and unfinished */
    void *ctx;
    int first; /* number of the job's task 0, when one pool_run needs several jobs */
};

static inline void relax(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Claims a task: the first of the thread's own share, or the last of another's. -1: none is
 * left. */
static int claim(struct pool *pool, int of, int own) {
    _Atomic uint64_t *ticket = &pool->share[of].ticket;
    uint64_t t = atomic_load_explicit(ticket, memory_order_acquire);
    while (ticket_next(t) < ticket_end(t)) {
        uint64_t rest = own ? t + 1 : t - ((uint64_t)1 << TASK_BITS);
        if (atomic_compare_exchange_weak_explicit(ticket, &t, rest, memory_order_acq_rel,
                                                  memory_order_acquire))
            return own ? ticket_next(t) : ticket_end(t) - 1;
    }
    return -1;
}

/* Claims and runs tasks of the current job until none is left to claim. */
static void work(struct pool *pool, int thread) {
    for (int i = 0; i < pool->n_thread; i++) {
        int of = (thread + i) % pool->n_thread, task;
        while ((task = claim(pool, of, i == 0)) >= 0) {
            pool->fn(pool->ctx, pool->first + task, thread);
            atomic_fetch_add_explicit(&pool->n_done, 1, memory_order_release);
        }
    }
}

/* Returns when there is a job other than `seen`. */
static uint64_t wait_for_job(struct pool *pool, int thread, uint64_t seen) {
    _Atomic uint64_t *ticket = &pool->share[thread].ticket;
    uint64_t job;
    for (int i = 0; i < SPIN_TRIES; i++) {
        job = ticket_job(atomic_load_explicit(ticket, memory_order_acquire));
        if (job != seen) return job;
        relax();
    }
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_add(&pool->n_sleeping, 1);
    while ((job = ticket_job(atomic_load(ticket))) == seen)
        pthread_cond_wait(&pool->wake, &pool->lock);
    atomic_fetch_sub(&pool->n_sleeping, 1);
    pthread_mutex_unlock(&pool->lock);
    return job;
}

static void *worker_main(void *arg) {
    struct worker *worker = arg;
    struct pool *pool = worker->pool;
    for (uint64_t seen = 0;;) {
        seen = wait_for_job(pool, worker->index, seen);
        if (atomic_load(&pool->stop)) return NULL;
        work(pool, worker->index);
    }
}

/* Publishes the job fields under new tickets. The sleepers are woken under the lock, so that a
 * worker on its way to sleep either sees its new ticket or is counted in n_sleeping and hears the
 * broadcast. */
static void announce(struct pool *pool, int n_task) {
    int n = pool->n_thread;
    uint64_t job =
        ticket_job(atomic_load_explicit(&pool->share[0].ticket, memory_order_relaxed)) + 1;
    for (int i = 0; i < n; i++)
        atomic_store(&pool->share[i].ticket, ticket_make(job, (int)((int64_t)n_task * i / n),
                                                         (int)((int64_t)n_task * (i + 1) / n)));
    if (atomic_load(&pool->n_sleeping) == 0) return;
    pthread_mutex_lock(&pool->lock);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
}

static void run_job(struct pool *pool, int first, int n_task) {
    pool->first = first;
    atomic_store_explicit(&pool->n_done, 0, memory_order_relaxed);
    announce(pool, n_task);
    work(pool, 0);
    for (int i = 0; atomic_load_explicit(&pool->n_done, memory_order_acquire) != n_task; i++)
        if (i < SPIN_TRIES)
            relax();
        else
            sched_yield();
}

void pool_run(struct pool *pool, pool_fn *fn, void *ctx, int n_task) {
    if (pool->n_thread == 1 || n_task <= 1) {
        for (int i = 0; i < n_task; i++) fn(ctx, i, 0);
        return;
    }
    pool->fn = fn;
    pool->ctx = ctx;
    for (int first = 0; first < n_task; first += MAX_TASKS)
        run_job(pool, first, n_task - first < MAX_TASKS ? n_task - first : MAX_TASKS);
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
    pool->share = xcalloc((size_t)n_thread, sizeof *pool->share);
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
    atomic_store(&pool->stop, true);
    announce(pool, 0);
    for (int i = 1; i <= pool->n_started; i++) pthread_join(pool->worker[i].thread, NULL);
    pthread_mutex_destroy(&pool->lock);
    pthread_cond_destroy(&pool->wake);
    xfree(pool->worker);
    xfree(pool->share);
    xfree(pool);
}
