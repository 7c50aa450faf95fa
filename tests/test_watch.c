/* test_watch.c — ranks that die, stop, hang or fail are noticed, and those that do not are left in
 * peace. test_watch.sh runs `together` under mpirun and does the killing. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "comm/comm.h"
#include "test.h"
#include "train/watch.h"

TEST(straggler) {
    double ratio;
    assert_int_equal(watch_straggler((double[]){1, 1, 1.1, 1}, 4, &ratio), -1);
    assert_int_equal(watch_straggler((double[]){1, 1, 1.5, 1}, 4, &ratio), 2);
    ASSERT_NEAR(ratio, 1.5, 1e-12);
    assert_int_equal(watch_straggler((double[]){2, 1, 1}, 3, &ratio), 0);
    assert_int_equal(watch_straggler((double[]){1, 2}, 2, &ratio), 1); /* of a median of 1.5 */
    assert_int_equal(watch_straggler((double[]){0, 0}, 2, &ratio), -1);
    assert_int_equal(watch_straggler((double[]){5}, 1, &ratio), -1);
    struct watch_spread spread = watch_spread((double[]){2, 1, 3, 2}, 4);
    assert_true(spread.least == 0.5 && spread.most == 1.5 && spread.slowest == 2);
    spread = watch_spread((double[]){0, 0}, 2);
    assert_true(spread.least == 1 && spread.most == 1);
}

TEST(text) {
    char text[WATCH_TEXT];
    struct watch_report r = {.rank = 3, .pid = 4711, .host = "h2", .step = 812, .seconds = 61.2};
    r.phase = WATCH_GRADIENT;
    r.kind = WATCH_SILENT;
    assert_string_equal(watch_text(text, &r), "rank 3 on h2 (pid 4711) is silent since step 812, "
                                              "forward and backward");
    r.kind = WATCH_STUCK;
    assert_string_equal(watch_text(text, &r), "rank 3 on h2 (pid 4711) is stuck in step 812, "
                                              "forward and backward, for 61 s");
    r.kind = WATCH_GONE;
    assert_non_null(strstr(watch_text(text, &r), "is gone, last heard of at step 812"));
}

TEST(alone) {
    struct comm *comm;
    struct watch *watch;
    struct err err = {0};
    ASSERT_OK(comm_open(&comm, NULL, &err), err);
    ASSERT_OK(watch_new(&watch, comm, &(struct watch_options){0}, &err), err);
    assert_null(watch);
    watch_phase(watch, 1, WATCH_GRADIENT);
    watch_took(watch, WATCH_DISK, 1);
    ASSERT_NEAR(watch_busy(watch), 0, 0);
    watch_free(watch, 0);
    comm_close(comm);
}

static struct comm *comm;

/* As src/cli does it: whoever finds out says so, whoever is told does not. */
static void lost(void *ctx, const struct watch_report *report) {
    char text[WATCH_TEXT];
    assert_ptr_equal(ctx, &comm);
    if (!report->told) fprintf(stderr, "LOST by %d: %s\n", comm->rank, watch_text(text, report));
    _exit(report->kind == WATCH_FAILED ? 1 : 75);
}

static void write_pid(void) {
    char path[512];
    snprintf(path, sizeof path, "%s/rank.%d.part", test_dir(), comm->rank);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%d\n", (int)getpid());
    fclose(f);
    char *whole = strdup(path);
    *strstr(whole, ".part") = 0;
    assert_int_equal(rename(path, whole), 0);
    free(whole);
}

/* What the ranks do is in TEST_WATCH: `end` after some steps; `go` on for ever; `hang`: the last
 * rank stops working at step 5; `fail`: it ends with an error there; `disk`: it waits longer than
 * `least` for something of which it has said that it takes its time. */
static void wait_for_disk(struct watch *watch) {
    for (int i = 0; i < 10; i++) { /* as a trainer does; waits that were short mislead nobody */
        watch_phase(watch, 5, WATCH_DISK);
        watch_took(watch, WATCH_DISK, 2);
        watch_phase(watch, 5, WATCH_WAIT);
    }
    watch_phase(watch, 5, WATCH_DISK);
    sleep(13);
}

TEST(together) {
    const char *what = getenv("TEST_WATCH");
    struct err err = {0};
    struct watch *watch;
    if (TEST_SANITIZED) SKIP("MPI is not instrumented, and keeps memory to its end");
    if (!what) what = "end";
    int rc = comm_open(&comm, &(struct comm_options){.name = "mpi"}, &err);
    if (rc && strstr(err.msg, "was not found")) SKIP("built without Open MPI: %s", err.msg);
    ASSERT_OK(rc, err);
    struct watch_options o = {.lost = lost, .ctx = &comm, .least = 10};
    ASSERT_OK(watch_new(&watch, comm, &o, &err), err);
    int last = comm->rank == comm->size - 1, disk = strcmp(what, "disk") == 0;
    int ends = disk || strcmp(what, "end") == 0, odd = last && !ends && strcmp(what, "go");
    for (int step = 1; !ends || step < 40; step++) {
        watch_phase(watch, step, WATCH_GRADIENT);
        if (step == 5 && last && disk) wait_for_disk(watch);
        if (step == 5 && odd && strcmp(what, "fail") == 0) {
            watch_free(watch, 1);
            _exit(1);
        }
        if (step == 5 && odd)
            for (;;) pause();
        usleep(20000);
        watch_phase(watch, step, WATCH_EXCHANGE);
        int all[8];
        comm_gather(comm, all, &step, sizeof step);
        if (step == 10) write_pid();
    }
    double busy = watch_busy(watch);
    if (comm->size > 1 && !(busy > 0.5)) fail_msg("busy for %g s", busy);
    watch_free(watch, 0);
    comm_close(comm);
}

TESTS(T(straggler), T(text), T(alone), T(together))
