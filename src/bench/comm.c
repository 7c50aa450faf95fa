/* comm.c — how fast ranks talk to each other.
 *
 * Run as several processes (`mpirun -n 4 heed bench comm`, or --ranks 4). Two tables: words that go
 * from one rank to another and back, or from all to all, for the time a call takes at least; and
 * large messages, for the bytes per second that it has. Exchange and allgather are what an update
 * of ranks consists of: each moves (n - 1) / n of the bytes to and from every rank, on the memory
 * of --device. Rank 0 prints; the time of a call is the slowest rank's, the best of several. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "cli/cli.h"

enum { ROUNDS = 5, MIB = 1 << 20, CALLS = 200 };

struct talk {
    struct comm *comm;
    struct backend *be;
    int json;
    size_t largest;          /* bytes of a message */
    char *host, *all;        /* [largest], [4096 * ranks] */
    void *device, *received; /* [largest] each */
    size_t *count;           /* [ranks] */
};

/* A kind of call, of `size` bytes in all on each rank. */
struct kind {
    const char *name;
    void (*call)(struct talk *t, size_t size);
    int times; /* of one direction */
};

static void ping(struct talk *t, size_t size) {
    comm_move(t->comm, t->host, size, 0, 1);
    comm_move(t->comm, t->host, size, 1, 0);
}
static void gather(struct talk *t, size_t size) { comm_gather(t->comm, t->all, t->host, size); }
static void bcast(struct talk *t, size_t size) { comm_bcast(t->comm, t->host, size, 0); }

/* Equal slices; both levels, as an update does. */
static void cut(struct talk *t, size_t size, enum comm_level level) {
    int n = comm_count(t->comm, level);
    for (int i = 0; i < n; i++)
        t->count[i] = size * (size_t)(i + 1) / (size_t)n - size * (size_t)i / (size_t)n;
}

static void exchange(struct talk *t, size_t size) {
    comm_begin(t->comm);
    cut(t, size, COMM_INSIDE);
    comm_exchange(t->comm, COMM_INSIDE, t->received, t->device, t->count);
    cut(t, size / (size_t)t->comm->inside, COMM_ACROSS);
    comm_exchange(t->comm, COMM_ACROSS, t->received, t->device, t->count);
    comm_end(t->comm);
}

static void allgather(struct talk *t, size_t size) {
    comm_begin(t->comm);
    cut(t, size / (size_t)t->comm->inside, COMM_ACROSS);
    comm_allgather(t->comm, COMM_ACROSS, t->device, t->count);
    cut(t, size, COMM_INSIDE);
    comm_allgather(t->comm, COMM_INSIDE, t->device, t->count);
    comm_end(t->comm);
}

static int wait(struct talk *t, struct err *err) {
    int rc = backend_sync(t->be, err);
    return rc ? rc : comm_sync(t->comm, err);
}

/* Seconds per call: of the slowest rank, the best of ROUNDS. */
static int measure(struct talk *t, const struct kind *kind, size_t size, double *seconds,
                   struct err *err) {
    int rc = 0, n = t->comm->size, calls = size > 1 << 16 ? 1 : CALLS;
    double *all = xcalloc((size_t)n, sizeof *all);
    *seconds = 1e30;
    for (int round = 0; round <= ROUNDS && !rc; round++) {
        double slowest = 0, begin = 0, took = 0;
        comm_gather(t->comm, all, &begin, sizeof begin); /* so that all begin together */
        begin = clock_seconds();
        for (int i = 0; i < calls; i++) kind->call(t, size);
        rc = wait(t, err);
        took = (clock_seconds() - begin) / calls / kind->times;
        comm_gather(t->comm, all, &took, sizeof took);
        for (int r = 0; r < n; r++) slowest = all[r] > slowest ? all[r] : slowest;
        if (round > 0 && slowest < *seconds) *seconds = slowest; /* the first opens connections */
    }
    xfree(all);
    return rc ? rc : comm_check(t->comm, err);
}

static void report(const struct talk *t, const struct kind *kind, size_t size, double seconds) {
    double share = kind->call == exchange || kind->call == allgather
                       ? (double)(t->comm->size - 1) / t->comm->size
                       : 1;
    double rate = share * (double)size / seconds / 1e9;
    if (t->comm->rank > 0) return;
    if (t->json)
        printf("{\"bench\":\"comm\",\"transport\":\"%s\",\"ranks\":%d,\"call\":\"%s\","
               "\"bytes\":%zu,\"us\":%.2f,\"gb_per_s\":%.4f}\n",
               comm_name(t->comm), t->comm->size, kind->name, size, 1e6 * seconds, rate);
    else
        printf("%-12s %12zu %12.1f %12.3f\n", kind->name, size, 1e6 * seconds, rate);
    fflush(stdout);
}

static int run_all(struct talk *t, struct err *err) {
    static const struct kind kinds[] = {{"move", ping, 2},
                                        {"bcast", bcast, 1},
                                        {"gather", gather, 1},
                                        {"exchange", exchange, 1},
                                        {"allgather", allgather, 1}};
    static const size_t sizes[] = {8, 1 << 12, MIB, 8 * MIB, 64 * MIB};
    const struct comm *comm = t->comm;
    int rc = 0;
    if (comm->rank == 0 && !t->json)
        printf("%s, %d ranks, %d on this machine, groups of %d; memory of %s\n"
               "%-12s %12s %12s %12s\n",
               comm_name(comm), comm->size, comm->local_size, comm->inside, backend_name(t->be),
               "call", "bytes", "us", "GB/s a rank");
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !rc; k++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++) {
            double seconds;
            if (sizes[i] > t->largest || (kinds[k].call == gather && sizes[i] > 1 << 12)) continue;
            rc = measure(t, &kinds[k], sizes[i], &seconds, err);
            if (!rc) report(t, &kinds[k], sizes[i], seconds);
        }
    return rc;
}

static int open_memory(struct talk *t, struct err *err) {
    size_t n = (size_t)t->comm->size;
    t->host = xcalloc(1, t->largest);
    t->all = xcalloc(n, 1 << 12);
    t->count = xcalloc(n, sizeof *t->count);
    t->device = backend_alloc(t->be, t->largest, err);
    if (!t->device) return HEED_ENOMEM;
    t->received = backend_alloc(t->be, t->largest + (n << 10), err);
    if (!t->received) return HEED_ENOMEM;
    backend_zero(t->be, t->device, t->largest);
    ranks_attach(t->comm, t->be);
    return wait(t, err);
}

int bench_comm_run(const struct bench_comm_options *o, struct err *err) {
    struct talk t = {.json = o->json, .largest = (size_t)o->largest * MIB};
    struct backend_options where = o->where;
    int rc = ranks_launch(&o->ranks, &(struct ranks_job){0}, err);
    if (!rc) rc = ranks_open(&t.comm, &o->ranks, &where, err);
    if (rc) return rc;
    if (t.comm->size == 1)
        rc = cli_usage(err, "bench comm: one process has nobody to talk to; give --ranks 2, or "
                            "start it with mpirun");
    if (!rc) rc = backend_open(&t.be, &where, err);
    if (!rc) rc = open_memory(&t, err);
    rc = ranks_agree(t.comm, rc, err);
    if (!rc) rc = run_all(&t, err);
    xfree(t.host);
    xfree(t.all);
    xfree(t.count);
    if (t.be) {
        backend_free(t.be, t.device);
        backend_free(t.be, t.received);
    }
    comm_close(t.comm);
    backend_close(t.be);
    return rc;
}
