/* test_ranks.c — what ranks say to each other, against what each of them can work out alone.
 *
 * Run by itself a program is the only rank of its MPI; test_ranks.sh runs it under mpirun, as 2, 3
 * and 4 of them. */
#include <unistd.h>

#include "base/rng.h"
#include "comm/comm.h"
#include "test.h"

static struct comm *comm_here(void) {
    struct comm *comm;
    struct err err = {0};
    if (TEST_SANITIZED) SKIP("MPI is not instrumented, and keeps memory to its end");
    int rc = comm_open(&comm, &(struct comm_options){.name = "mpi"}, &err);
    if (rc && strstr(err.msg, "was not found")) SKIP("built without Open MPI: %s", err.msg);
    ASSERT_OK(rc, err);
    assert_string_equal(comm_name(comm), "mpi");
    const char *want = getenv("TEST_RANKS"), *local = getenv("TEST_LOCAL");
    assert_int_equal(comm->size, want ? atoi(want) : 1);
    assert_int_equal(comm->local_size, local ? atoi(local) : comm->size);
    assert_int_equal(comm->local_rank, comm->rank % comm->local_size);
    return comm;
}

static void leave(struct comm *comm) {
    struct err err = {0};
    ASSERT_OK(comm_sync(comm, &err), err);
    comm_close(comm);
}

/* Byte i of what `rank` says in round `round`. */
static unsigned char said(int rank, int round, size_t i) {
    return (unsigned char)(((size_t)rank * 61 + (size_t)round * 17 + i * 7 + i / 251) ^ (i >> 9));
}

static unsigned char *speech(int rank, int round, size_t size) {
    unsigned char *data = malloc(size + 1);
    for (size_t i = 0; i < size; i++) data[i] = said(rank, round, i);
    return data;
}

static void check(const unsigned char *got, int rank, int round, size_t from, size_t size) {
    for (size_t i = 0; i < size; i++)
        if (got[i] != said(rank, round, from + i))
            fail_msg("round %d: byte %zu of rank %d is %d", round, from + i, rank, got[i]);
}

/* Sizes that all ranks draw alike: nothing, a few bytes, pages, more than one message buffer. */
static size_t draw(struct rng *rng) {
    static const uint32_t most[] = {1, 17, 5000, 300000};
    return rng_below(rng, most[rng_below(rng, 4)]);
}

TEST(host) {
    struct comm *comm = comm_here();
    struct rng rng = {.key = 1};
    uint64_t sent = 0;
    for (int round = 0; round < 20; round++) {
        size_t size = draw(&rng), others = (size_t)comm->size - 1;
        int root = (int)rng_below(&rng, (uint32_t)comm->size);
        sent += others * size * (comm->rank == root ? 3 : 2); /* gather, bcast, moves */
        unsigned char *mine = speech(comm->rank, round, size);
        unsigned char *all = calloc(size + 1, (size_t)comm->size);
        comm_gather(comm, all, mine, size);
        for (int r = 0; r < comm->size; r++) check(all + (size_t)r * size, r, round, 0, size);
        comm_bcast(comm, mine, size, root);
        check(mine, root, round, 0, size);
        free(all);
        free(mine);
        for (int from = 0; from < comm->size; from++)
            for (int to = 0; to < comm->size; to++) {
                unsigned char *moved = speech(comm->rank, round, size);
                comm_move(comm, moved, size, from, to);
                check(moved, comm->rank == to ? from : comm->rank, round, 0, size);
                free(moved);
            }
    }
    assert_int_equal(comm->sent, sent);
    leave(comm);
}

/* A device whose memory the host can read and would misunderstand. */
static int n_copy;
static void veil(unsigned char *to, const unsigned char *from, size_t size) {
    n_copy++;
    for (size_t i = 0; i < size; i++) to[i] = from[i] ^ 0x5a;
}
static void download(void *ctx, void *host, const void *device, size_t size) {
    assert_ptr_equal(ctx, &n_copy);
    veil(host, device, size);
}
static void upload(void *ctx, void *device, const void *host, size_t size) {
    assert_ptr_equal(ctx, &n_copy);
    veil(device, host, size);
}

/* Both device calls on a level: rank r says slices, whose owners get them. */
static void slices(struct comm *comm, struct rng *rng, int round, int veiled) {
    for (enum comm_level level = COMM_INSIDE; level <= COMM_ACROSS; level++) {
        int n = comm_count(comm, level), own = comm_index(comm, level);
        int step = level == COMM_INSIDE ? 1 : comm->inside, first = comm->rank - own * step;
        size_t count[8], at[8], all = 0;
        for (int i = 0; i < n; all += count[i++]) {
            count[i] = draw(rng);
            at[i] = all;
        }
        unsigned char *send = speech(comm->rank, round, all), *recv = malloc((size_t)n * all + 1);
        memset(recv, 1, (size_t)n * all + 1);
        if (veiled) veil(send, send, all);
        uint64_t before = comm->sent;
        comm_begin(comm);
        comm_exchange(comm, level, recv, send, count);
        comm_end(comm);
        assert_int_equal(comm->sent - before, n > 1 ? all - count[own] : 0);
        if (veiled && n > 1) veil(recv, recv, (size_t)n * count[own]);
        for (int i = 0; i < n && n > 1; i++)
            check(recv + (size_t)i * count[own], first + i * step, round, at[own], count[own]);
        if (n == 1) assert_int_equal(recv[0], 1);

        before = comm->sent;
        for (size_t i = 0; i < all; i++)
            if (i < at[own] || i >= at[own] + count[own]) send[i] = 1;
        comm_allgather(comm, level, send, count);
        assert_int_equal(comm->sent - before, (uint64_t)(n - 1) * count[own]);
        if (veiled) veil(send, send, all);
        for (int i = 0; i < n; i++) check(send + at[i], first + i * step, round, at[i], count[i]);
        free(send);
        free(recv);
    }
}

TEST(device) {
    struct comm *comm = comm_here();
    struct rng rng = {.key = 2};
    int local = comm->local_size;
    assert_int_equal(comm->inside, local & (local - 1) ? 1 : local);
    for (int veiled = 0; veiled < 2; veiled++) {
        if (veiled) comm_attach(comm, &(struct comm_device){&n_copy, download, upload, NULL});
        /* As if the machines had this many ranks. */
        for (int inside = 1; inside <= comm->size; inside++) {
            if (comm->size % inside) continue;
            comm->inside = inside;
            n_copy = 0;
            for (int round = 0; round < 10; round++) slices(comm, &rng, round, veiled);
            if (veiled && comm->size > 1) assert_true(n_copy > 10);
        }
    }
    leave(comm);
}

/* A rank that counts otherwise than its peers is noticed by whoever gets less or more. */
TEST(counts) {
    struct comm *comm = comm_here();
    struct err err = {0};
    char send[64] = {0}, recv[64 * 4];
    size_t count[4] = {8, 8, 8, 8};
    if (comm->size > 1) {
        comm->inside = 1;
        if (comm->rank == 1) count[1] = 12;
        comm_exchange(comm, COMM_ACROSS, recv, send, count);
        if (comm->rank == 1) {
            ASSERT_ERR(comm_check(comm, &err), err, HEED_EINTERNAL, "exchange: rank ");
            if (!strstr(err.msg, "sent 8 bytes to rank 1, which expects 12"))
                fail_msg("%s", err.msg);
            comm_exchange(comm, COMM_ACROSS, recv, send, count); /* would wait for ever */
            comm->err = (struct err){0};
        }
        char word[16] = "";
        if (comm->rank == 0) comm_move(comm, word, 8, 0, 1);
        if (comm->rank == 1) {
            comm_move(comm, word, 6, 0, 1);
            ASSERT_ERR(comm_check(comm, &err), err, HEED_EIO, "receive");
            comm->err = (struct err){0};
        }
    }
    leave(comm);
}

/* The last rank ends while the others wait for it: by itself, or with all of them. */
TEST(ends) {
    struct comm *comm = comm_here();
    const char *how = getenv("TEST_ENDS");
    char word[8];
    comm_bcast(comm, word, sizeof word, 0);
    if (comm->rank == comm->size - 1) {
        if (!how || strcmp(how, "abort") == 0) comm_abort(comm, 75);
        if (comm->size > 1) _exit(3);
    }
    comm_bcast(comm, word, sizeof word, comm->size - 1);
    if (comm->size > 1) fail_msg("rank %d got an answer", comm->rank);
    leave(comm);
}

TESTS(T(host), T(device), T(counts), T(ends))
