/* test_base.c — errors, memory, random numbers, threads. */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "base/rng.h"
#include "test.h"

/* ---- err ------------------------------------------------------------------------------------- */

TEST(version_agrees) {
    char want[32];
    snprintf(want, sizeof want, "%d.%d.%d", HEED_VERSION_MAJOR, HEED_VERSION_MINOR,
             HEED_VERSION_PATCH);
    assert_string_equal(HEED_VERSION, want);
    assert_string_equal(heed_version(), want);
}

TEST(status_texts) {
    assert_string_equal(heed_status_text(HEED_OK), "success");
    for (int status = 0; status >= HEED_EINTERNAL; status--)
        assert_string_not_equal(heed_status_text(status), "unknown status");
    assert_string_equal(heed_status_text(1), "unknown status");
    assert_string_equal(heed_status_text(INT32_MIN), "unknown status");
}

TEST(err_carries_message) {
    struct err err = {.code = HEED_OK};
    assert_int_equal(err_set(&err, HEED_EIO, "%s: line %d", "a.txt", 7), HEED_EIO);
    assert_int_equal(err.code, HEED_EIO);
    assert_string_equal(err.msg, "a.txt: line 7");
    assert_int_equal(err_set(NULL, HEED_ENOMEM, "nobody listens"), HEED_ENOMEM);
}

TEST(err_cuts_long_message) {
    struct err err;
    char path[2 * sizeof err.msg];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = 0;
    err_set(&err, HEED_EIO, "%s", path);
    assert_int_equal(strlen(err.msg), sizeof err.msg - 1);
}

/* The signal that ends a child which calls fn(arg), or 0. */
static int killed_by(void (*fn)(void *), void *arg) {
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (!freopen("/dev/null", "w", stderr)) _exit(1);
        fn(arg);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void bug_on(void *cond) { BUG_ON(*(int *)cond); }

TEST(bug_aborts) {
    assert_int_equal(killed_by(bug_on, &(int){1}), SIGABRT);
    assert_int_equal(killed_by(bug_on, &(int){0}), 0);
}

/* ---- mem ------------------------------------------------------------------------------------- */

TEST(sizes_saturate) {
    assert_true(size_add(2, 3) == 5);
    assert_true(size_add(SIZE_MAX, 0) == SIZE_MAX);
    assert_true(size_add(SIZE_MAX - 1, 1) == SIZE_MAX);
    assert_true(size_add(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(size_add(SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1) == SIZE_MAX);
    assert_true(size_mul(6, 7) == 42);
    assert_true(size_mul(SIZE_MAX, 0) == 0);
    assert_true(size_mul(SIZE_MAX, 1) == SIZE_MAX);
    assert_true(size_mul((size_t)1 << 32, (size_t)1 << 32) == SIZE_MAX);
}

TEST(allocations_are_counted) {
    uint64_t before = mem_count();
    char *s = xstrdup("abc");
    int *zero = xcalloc(3, sizeof *zero);
    void *grown = xrealloc(xmalloc(1), 100);
    void *block = mem_block(1);
    assert_string_equal(s, "abc");
    assert_true(zero[0] == 0 && zero[1] == 0 && zero[2] == 0);
    assert_int_equal(mem_count() - before, 5);
    xfree(s);
    xfree(zero);
    xfree(grown);
    mem_block_free(block);
    assert_int_equal(mem_count() - before, 5);
    xfree(NULL);
    mem_block_free(NULL);
}

TEST(blocks_are_aligned) {
    for (size_t size = 0; size < 300; size += 7) {
        char *block = mem_block(size);
        assert_non_null(block);
        assert_int_equal((uintptr_t)block % MEM_ALIGN, 0);
        memset(block, 1, size);
        mem_block_free(block);
    }
}

TEST(huge_block_is_an_error) {
    assert_null(mem_block(SIZE_MAX));
    assert_null(mem_block(SIZE_MAX / 2 + 1));
}

/* Of a file that is there. */
static int written(const char *dir, const char *file, const char *text) {
    char *path = path_join(dir, file);
    FILE *f = fopen(path, "r+e"); /* only the kernel makes such files */
    xfree(path);
    if (!f) return 0;
    int ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

/* The least of what a process in the group `dir`, and in one within it that has no limit of its
 * own, believes to have; SIZE_MAX if no such groups can be made here. */
static size_t available_within(const char *dir, const char *limit, const char *bytes) {
    char *inner = path_join(dir, "inner");
    size_t found = SIZE_MAX;
    int result[2];
    if (mkdir(dir, 0755) == 0 && written(dir, limit, bytes) && mkdir(inner, 0755) == 0) {
        assert_int_equal(pipe(result), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            size_t n = written(inner, "cgroup.procs", "0") ? mem_available() : SIZE_MAX;
            _exit(write(result[1], &n, sizeof n) != (ssize_t)sizeof n);
        }
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(read(result[0], &found, sizeof found), sizeof found);
        close(result[0]), close(result[1]);
    }
    rmdir(inner);
    rmdir(dir);
    xfree(inner);
    return found;
}

/* As in a job of Slurm, whose limit is that of a group around the process's own. */
TEST(available_memory_is_the_groups) {
    char unified[64], old[64];
    snprintf(unified, sizeof unified, "/sys/fs/cgroup/heed-test-%d", (int)getpid());
    snprintf(old, sizeof old, "/sys/fs/cgroup/memory/heed-test-%d", (int)getpid());
    size_t limit = 64 << 20, there = mem_available(),
           found = available_within(unified, "memory.max", "67108864");
    if (found == SIZE_MAX) found = available_within(old, "memory.limit_in_bytes", "67108864");
    if (found == SIZE_MAX) SKIP("no control group can be made here");
    assert_true(there > limit);
    assert_true(found > limit / 2 && found <= limit);
}

enum { N_PIECE = 50 };

static void carve(struct arena *arena, char *piece[N_PIECE], size_t size[N_PIECE]) {
    struct rng rng = {.key = 1};
    for (int i = 0; i < N_PIECE; i++) {
        size[i] = rng_below(&rng, 1000);
        piece[i] = arena_take(arena, size[i]);
    }
}

TEST(arena_measures_what_it_carves) {
    struct arena arena = {0};
    char *piece[N_PIECE];
    size_t size[N_PIECE];
    carve(&arena, piece, size);
    for (int i = 0; i < N_PIECE; i++) assert_null(piece[i]);
    size_t measured = arena.used;

    char *base = mem_block(measured);
    arena = (struct arena){.base = base, .cap = measured};
    carve(&arena, piece, size);
    assert_int_equal(arena.used, measured);
    for (int i = 0; i < N_PIECE; i++) {
        assert_int_equal((uintptr_t)piece[i] % MEM_ALIGN, 0);
        assert_true(piece[i] >= (i ? piece[i - 1] + size[i - 1] : base));
        assert_true(piece[i] + size[i] <= base + measured);
        memset(piece[i], i, size[i]);
    }
    mem_block_free(base);
}

TEST(arena_saturates) {
    struct arena arena = {0};
    arena_take(&arena, SIZE_MAX - 10);
    arena_take(&arena, 100);
    assert_true(arena.used == SIZE_MAX);
    arena_take(&arena, 1);
    assert_true(arena.used == SIZE_MAX);
}

static void take_65(void *arena) { arena_take(arena, 65); }

TEST(arena_past_the_end_is_a_bug) {
    struct arena arena = {.base = mem_block(64), .cap = 64};
    assert_int_equal(killed_by(take_65, &arena), SIGABRT);
    mem_block_free(arena.base);
}

/* ---- rng ------------------------------------------------------------------------------------- */

static void assert_philox(struct philox got, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
    assert_int_equal(got.x[0], a);
    assert_int_equal(got.x[1], b);
    assert_int_equal(got.x[2], c);
    assert_int_equal(got.x[3], d);
}

/* Known answers of Philox4x32-10 from the authors' Random123 distribution. */
TEST(philox_known_answers) {
    assert_philox(philox4x32(0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8);
    assert_philox(philox4x32(~0ull, ~0u, ~0u, ~0u, ~0u), 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
                  0x6d5451fd);
    assert_philox(philox4x32(0x299f31d0a4093822, 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344),
                  0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1);
}

TEST(rng_is_its_state) {
    struct rng a = {.key = 42};
    rng_next(&a);
    struct rng b = a;
    for (int i = 0; i < 100; i++) assert_true(rng_next(&a) == rng_next(&b));
    struct rng other = {.key = 43, .n = a.n};
    assert_true(rng_next(&a) != rng_next(&other));

    /* the counter carries into its upper word */
    struct rng wrap = {.key = 42, .n = 0xffffffff}, zero = {.key = 42};
    rng_next(&wrap);
    assert_true(rng_next(&wrap) != rng_next(&zero));
}

TEST(rng_below_stays_below) {
    struct rng rng = {.key = 7};
    const uint32_t bounds[] = {1, 2, 3, 10, 1u << 31, (1u << 31) + 1, UINT32_MAX};
    for (size_t b = 0; b < sizeof bounds / sizeof *bounds; b++)
        for (int i = 0; i < 1000; i++) assert_true(rng_below(&rng, bounds[b]) < bounds[b]);
}

TEST(rng_below_is_uniform) {
    enum { BINS = 10, N = 100000 };
    struct rng rng = {.key = 8};
    int count[BINS] = {0};
    for (int i = 0; i < N; i++) count[rng_below(&rng, BINS)]++;
    double chi2 = 0;
    for (int i = 0; i < BINS; i++) chi2 += pow(count[i] - N / BINS, 2) / (N / BINS);
    assert_true(chi2 < 27.9); /* 9 degrees of freedom, 0.1 % */

    /* A bound of 3/4 of the range: without rejection the lower values come twice as often. */
    uint32_t bound = 3u << 30;
    int low = 0;
    for (int i = 0; i < N; i++) low += rng_below(&rng, bound) < bound / 3;
    ASSERT_NEAR((double)low / N, 1.0 / 3, 0.006);
    int third = 0;
    for (int i = 0; i < N; i++) third += rng_below(&rng, bound) % 3 == 0;
    ASSERT_NEAR((double)third / N, 1.0 / 3, 0.006);
}

TEST(rng_uniform_moments) {
    enum { N = 100000 };
    struct rng rng = {.key = 9};
    double sum = 0, sum2 = 0;
    for (int i = 0; i < N; i++) {
        double u = rng_uniform(&rng);
        assert_true(u >= 0 && u < 1);
        sum += u;
        sum2 += u * u;
    }
    ASSERT_NEAR(sum / N, 0.5, 0.005);
    ASSERT_NEAR(sum2 / N, 1.0 / 3, 0.005);
}

TEST(rng_normal_moments) {
    enum { N = 200000 };
    struct rng rng = {.key = 10};
    double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
    for (int i = 0; i < N; i++) {
        double x = rng_normal(&rng);
        assert_true(isfinite(x));
        m1 += x;
        m2 += x * x;
        m3 += x * x * x;
        m4 += x * x * x * x;
    }
    ASSERT_NEAR(m1 / N, 0, 0.01);
    ASSERT_NEAR(m2 / N, 1, 0.015);
    ASSERT_NEAR(m3 / N, 0, 0.04);
    ASSERT_NEAR(m4 / N, 3, 0.1);
}

/* ---- pool ------------------------------------------------------------------------------------ */

enum { MAX_TASK = 1000 };

struct tally {
    int n_thread;
    atomic_int task[MAX_TASK]; /* how often each ran */
    atomic_int bad_thread;
    int in_use[64]; /* not atomic: a thread index is used by one thread at a time */
};

static void count_task(void *ctx, int task, int thread) {
    struct tally *tally = ctx;
    if (thread < 0 || thread >= tally->n_thread || tally->in_use[thread]++ != 0)
        atomic_fetch_add(&tally->bad_thread, 1);
    atomic_fetch_add(&tally->task[task], 1);
    tally->in_use[thread]--;
}

TEST(pool_runs_every_task_once) {
    for (int n_thread = 1; n_thread <= 8; n_thread++) {
        struct pool *pool;
        struct err err;
        ASSERT_OK(pool_new(&pool, n_thread, &err), err);
        assert_int_equal(pool_size(pool), n_thread);
        const int sizes[] = {0, 1, 2, 7, 8, 9, MAX_TASK};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct tally tally = {.n_thread = n_thread};
            pool_run(pool, count_task, &tally, sizes[s]);
            assert_int_equal(atomic_load(&tally.bad_thread), 0);
            for (int i = 0; i < MAX_TASK; i++)
                assert_int_equal(atomic_load(&tally.task[i]), i < sizes[s]);
        }
        pool_free(pool);
    }
}

/* Tasks that wait for each other. */
struct meeting {
    atomic_int arrived, strange;
    int n_thread;
};

static void meet(void *ctx, int task, int thread) {
    struct meeting *m = ctx;
    if (task != thread) atomic_fetch_add(&m->strange, 1);
    atomic_fetch_add(&m->arrived, 1);
    while (atomic_load(&m->arrived) < m->n_thread) sched_yield();
}

/* Task i is all of thread i's share: if none can end before all have begun, each runs its own, job
 * after job. A thread that is late may still be looking for work of the job before, and take what
 * it finds: rare, but less so on a machine that is busy. */
TEST(pool_deals_the_same_shares) {
    enum { THREADS = 4, JOBS = 100 };
    struct pool *pool;
    struct err err;
    int own = 0;
    ASSERT_OK(pool_new(&pool, THREADS, &err), err);
    for (int job = 0; job < JOBS; job++) {
        struct meeting m = {.n_thread = THREADS};
        pool_run(pool, meet, &m, THREADS);
        own += atomic_load(&m.strange) == 0;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL); /* let the late ones finish */
    }
    print_message("%d of %d jobs\n", own, JOBS);
    assert_true(own > JOBS / 4); /* 1 in 24 if threads took what comes */
    pool_free(pool);
}

static void wait_for_the_others(void *ctx, int task, int thread) {
    struct meeting *m = ctx;
    (void)thread;
    while (task == 0 && atomic_load(&m->arrived) < m->n_thread) sched_yield();
    atomic_fetch_add(&m->arrived, 1);
}

/* The first task of thread 0 ends after all others: somebody else must have taken the rest of its
 * share. */
TEST(pool_takes_over_what_is_left) {
    struct pool *pool;
    struct err err;
    ASSERT_OK(pool_new(&pool, 2, &err), err);
    struct meeting m = {.n_thread = 9};
    pool_run(pool, wait_for_the_others, &m, 10);
    assert_int_equal(atomic_load(&m.arrived), 10);
    pool_free(pool);
}

static void add_square(void *ctx, int task, int thread) {
    (void)thread;
    ((int64_t *)ctx)[task] += (int64_t)task * task;
}

/* Plain memory is handed from job to job: ThreadSanitizer sees whether the pool orders the
 * accesses. */
TEST(pool_orders_many_small_jobs) {
    enum { JOBS = TEST_SANITIZED ? 200 : 1000, TASKS = 5 };
    for (int n_thread = 2; n_thread <= 4; n_thread += 2) {
        struct pool *pool;
        struct err err;
        ASSERT_OK(pool_new(&pool, n_thread, &err), err);
        int64_t sum[TASKS] = {0};
        for (int job = 0; job < JOBS; job++) {
            pool_run(pool, add_square, sum, TASKS);
            sum[0]++;
        }
        for (int i = 0; i < TASKS; i++)
            assert_int_equal(sum[i], (int64_t)JOBS * i * i + (i ? 0 : JOBS));
        pool_free(pool);
    }
}

/* Long enough between jobs for the workers to fall asleep; the next job must wake them. */
TEST(pool_wakes_sleepers) {
    struct pool *pool;
    struct err err;
    ASSERT_OK(pool_new(&pool, 4, &err), err);
    for (int job = 0; job < 20; job++) {
        usleep(10000);
        struct tally tally = {.n_thread = 4};
        pool_run(pool, count_task, &tally, 16);
        for (int i = 0; i < 16; i++) assert_int_equal(atomic_load(&tally.task[i]), 1);
    }
    usleep(10000);
    pool_free(pool);
}

/* Tasks that wait for each other end only if that many threads are really there. */
TEST(pool_has_its_threads) {
    struct pool *pool;
    struct err err;
    ASSERT_OK(pool_new(&pool, 6, &err), err);
    struct meeting meeting = {.n_thread = 6};
    pool_run(pool, meet, &meeting, 6);
    assert_int_equal(atomic_load(&meeting.arrived), 6);
    pool_free(pool);
}

TEST(pool_allocates_nothing_running) {
    struct pool *pool;
    struct err err;
    ASSERT_OK(pool_new(&pool, 3, &err), err);
    uint64_t before = mem_count();
    int64_t sum[8] = {0};
    for (int job = 0; job < 100; job++) pool_run(pool, add_square, sum, 8);
    assert_int_equal(mem_count(), before);
    pool_free(pool);
}

TEST(pool_comes_and_goes) {
    for (int i = 0; i < (TEST_SANITIZED ? 50 : 300); i++) {
        struct pool *pool;
        struct err err;
        ASSERT_OK(pool_new(&pool, 1 + i % 8, &err), err);
        pool_free(pool);
    }
    pool_free(NULL);
}

TEST(pool_refuses_bad_sizes) {
    struct err err;
    struct pool *pool = (struct pool *)&err;
    ASSERT_ERR(pool_new(&pool, -1, &err), err, HEED_EINVAL, "-1");
    assert_null(pool);
    ASSERT_ERR(pool_new(&pool, 100000, &err), err, HEED_EINVAL, "100000");
    assert_null(pool);
    assert_int_equal(pool_new(&pool, -1, NULL), HEED_EINVAL);
}

TEST(pool_default_size) {
    struct pool *pool;
    struct err err;
    ASSERT_OK(pool_new(&pool, 0, &err), err);
    assert_true(pool_cpu_count() >= 1);
    assert_int_equal(pool_size(pool), pool_cpu_count());
    pool_free(pool);
}

TEST(digits_are_grouped) {
    char out[28];
    assert_string_equal(num_grouped(out, 0), "0");
    assert_string_equal(num_grouped(out, 999), "999");
    assert_string_equal(num_grouped(out, 157739), "157,739");
    assert_string_equal(num_grouped(out, UINT64_MAX), "18,446,744,073,709,551,615");
}

TESTS(T(version_agrees), T(status_texts), T(err_carries_message), T(err_cuts_long_message),
      T(bug_aborts), T(sizes_saturate), T(allocations_are_counted), T(blocks_are_aligned),
      T(huge_block_is_an_error), T(available_memory_is_the_groups),
      T(arena_measures_what_it_carves), T(arena_saturates), T(arena_past_the_end_is_a_bug),
      T(philox_known_answers), T(rng_is_its_state), T(rng_below_stays_below),
      T(rng_below_is_uniform), T(rng_uniform_moments), T(rng_normal_moments),
      T(pool_runs_every_task_once), T(pool_deals_the_same_shares), T(pool_takes_over_what_is_left),
      T(pool_orders_many_small_jobs), T(pool_wakes_sleepers), T(pool_has_its_threads),
      T(pool_allocates_nothing_running), T(pool_comes_and_goes), T(pool_refuses_bad_sizes),
      T(pool_default_size), T(digits_are_grouped))
