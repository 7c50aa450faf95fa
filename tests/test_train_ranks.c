/* test_train_ranks.c — updates by ranks of one and of several machines, against those of a process
 * alone, also with messages that go beside the backward pass. Run by itself it is the only rank of
 * its MPI; test_train_ranks.sh runs it as 4 of them. */
#include "base/mem.h"
#include "comm/transport.h"
#include "test.h"
#include "toy.h"

enum { BATCHES = 8, UPDATES = 4, TOKENS = 64 };

static struct comm *comm_here(void) {
    struct comm *comm;
    struct err err = {0};
    if (TEST_SANITIZED) SKIP("MPI is not instrumented, and keeps memory to its end");
    int rc = comm_open(&comm, &(struct comm_options){.name = "mpi"}, &err);
    if (rc && strstr(err.msg, "was not found")) SKIP("built without Open MPI: %s", err.msg);
    ASSERT_OK(rc, err);
    return comm;
}

/* ---- a transport that is late ---------------------------------------------------------------- */

/* MPI as a transport that works beside the backend, and as late as it may: what is exchanged is
 * read, and comes, only at the end. (As early as it may is what MPI itself does.) */
static struct late {
    struct comm head;
    struct comm *mpi;
    struct {
        enum comm_level level;
        void *recv;
        const void *send;
        size_t count[BATCHES];
    } call;
    int begun, waits;
    const struct optimizer *opt; /* whose exchanges they are */
    int n_early;                 /* exchanges that began before its gradients were complete */
} late;

/* The gradients of the lowest layer are the last but those of the embeddings. */
static int lowest_is_zero(const struct optimizer *opt) {
    struct mat w = opt->g[opt->n_row - 1].enc[0].self.w_qkv;
    const float *x = w.data;
    for (int i = 0; i < w.rows * w.cols; i++)
        if (x[i] != 0) return 0;
    return 1;
}

static void late_begin(struct comm *comm) {
    (void)comm;
    assert_false(late.begun);
    late.begun = 1;
}

static void late_exchange(struct comm *comm, enum comm_level level, void *recv, const void *send,
                          const size_t *count) {
    int n = comm_count(comm, level);
    assert_true(late.begun && !late.waits);
    late.waits = 1;
    late.call.level = level;
    late.call.recv = recv;
    late.call.send = send;
    memcpy(late.call.count, count, (size_t)n * sizeof *count);
    memset(recv, 0xff, (size_t)n * count[comm_index(comm, level)]); /* NaN for who looks */
    late.n_early += lowest_is_zero(late.opt);
}

static void late_end(struct comm *comm) {
    (void)comm;
    assert_true(late.begun);
    if (late.waits)
        late.mpi->vt->exchange(late.mpi, late.call.level, late.call.recv, late.call.send,
                               late.call.count);
    late.begun = late.waits = 0;
}

static void late_allgather(struct comm *comm, enum comm_level level, void *data,
                           const size_t *count) {
    (void)comm;
    assert_true(late.begun && !late.waits);
    late.mpi->vt->allgather(late.mpi, level, data, count);
}

static void late_gather(struct comm *comm, void *all, const void *mine, size_t size) {
    (void)comm;
    late.mpi->vt->gather(late.mpi, all, mine, size);
}

static struct comm *late_over(struct comm *mpi) {
    static const struct comm_transport table = {.name = "late",
                                                .gather = late_gather,
                                                .exchange = late_exchange,
                                                .allgather = late_allgather,
                                                .begin = late_begin,
                                                .end = late_end};
    late.head = *mpi;
    late.head.vt = &table;
    late.mpi = mpi;
    return &late.head;
}

/* ---- updates --------------------------------------------------------------------------------- */

/* A part of an optimizer's state, whole. */
static float *part_of(struct toy *toy, enum optimizer_part part) {
    struct err err = {0};
    size_t size = toy->model->table.n_elem * sizeof(float);
    float *out = xmalloc(size);
    backend_download(toy->be, out, optimizer_gather(toy->opt, part), size);
    ASSERT_OK(optimizer_discard(toy->opt, &err), err);
    return out;
}

/* An update moves the gradients as f32 and the parameters as the model has them, all but what every
 * rank keeps. What ranks say beside it is little. */
static void check_sent(struct comm *comm, uint64_t sent, const struct model *model,
                       enum dtype type) {
    double n = (double)model->table.n_elem, share = (double)(comm->size - 1) / comm->size;
    double ideal = n * (double)(sizeof(float) + dtype_size(type)) * share;
    uint64_t *all = xcalloc((size_t)comm->size, sizeof *all);
    double mean = 0;
    comm_gather(comm, all, &sent, sizeof sent);
    for (int r = 0; r < comm->size; r++) mean += (double)all[r] / comm->size;
    xfree(all);
    if (mean > 1.02 * ideal || mean < 0.98 * ideal)
        fail_msg("%.0f bytes sent, not %.0f", mean, ideal);
}

struct way {
    enum dtype type;
    enum norm norm;
    int bucket, rounds;
};

/* The parts after a few updates by the ranks of comm (NULL: alone). Each rank has its own batches;
 * the report is of all. */
static void learn(float *out[4], struct update_report *report, struct comm *comm, struct way way) {
    static const int src_len[] = {3, 9, 1, 6}, tgt_len[] = {5, 2, 7, 4};
    struct config config = toy_config();
    struct toy toy;
    struct batch batch[BATCHES];
    const struct batch *list[BATCHES];
    struct err err = {0};
    config.dropout = 0.2f;
    config.norm = way.norm;
    toy_open(&toy, &config, &(struct backend_options){.device = "cpu", .n_thread = 1}, way.type,
             TOKENS);
    struct optimizer_options options = toy.opt->options;
    optimizer_free(toy.opt);
    toy.model->rounds = way.rounds;
    model_follow(toy.model);
    options.accumulate = BATCHES;
    options.ema = 0.5;
    options.comm = comm;
    options.bucket = way.bucket;
    ASSERT_OK(optimizer_new(&toy.opt, toy.model, toy.acts, &options, &err), err);
    late.opt = toy.opt;
    int n = comm ? BATCHES / comm->size : BATCHES, first = comm ? comm->rank * n : 0;
    struct update update = {.batch = list + first, .n = n};
    for (int i = 0; i < BATCHES; i++) {
        toy_batch(&batch[i], src_len, tgt_len, 1 + i % 4, config.n_vocab_src, 40 + (uint64_t)i);
        list[i] = &batch[i];
        update.n_tok += batch[i].tgt.n_tok;
    }
    for (int i = 0; i < UPDATES; i++) {
        uint64_t sent = comm ? comm->sent : 0;
        ASSERT_OK(optimizer_gradient(toy.opt, &update, report, &err), err);
        ASSERT_OK(optimizer_apply(toy.opt, report, &err), err);
        if (comm) check_sent(comm, comm->sent - sent, toy.model, way.type);
        ASSERT_OK(optimizer_show_average(toy.opt, &err), err);
        ASSERT_OK(optimizer_hide_average(toy.opt, &err), err);
    }
    for (int i = 0; i < 4; i++) out[i] = part_of(&toy, (enum optimizer_part)i);
    for (int i = 0; i < BATCHES; i++) batch_release(&batch[i]);
    toy_close(&toy);
}

static void check_levels(struct comm *comm, struct way way) {
    float *want[4], *got[4];
    struct update_report alone, all;
    struct config config = toy_config();
    struct param_table table;
    config.norm = way.norm;
    param_table_init(&table, &config);
    size_t size = table.n_elem * sizeof(float);
    learn(want, &alone, NULL, way);
    /* As if the machines had this many ranks. */
    for (int inside = 1; inside <= comm->size; inside *= 2) {
        comm->inside = inside;
        if (late.mpi) late.mpi->inside = inside;
        comm->sent = 0;
        late.n_early = 0;
        learn(got, &all, comm, way);
        assert_memory_equal(&all, &alone, sizeof all);
        for (int i = 0; i < 4; i++) {
            if (memcmp(got[i], want[i], size) != 0) fail_msg("%d inside: part %d", inside, i);
            xfree(got[i]);
        }
        if (comm->size > 1) assert_true(comm->sent > 0);
        if (comm_beside(comm)) assert_true(late.n_early >= 2 * UPDATES);
    }
    for (int i = 0; i < 4; i++) xfree(want[i]);
    param_table_release(&table);
}

TEST(levels) {
    struct comm *comm = comm_here();
    check_levels(comm, (struct way){.type = DTYPE_F32});
    check_levels(comm, (struct way){.type = DTYPE_BF16});
    check_levels(comm, (struct way){.type = DTYPE_BF16, .rounds = 1});
    comm_close(comm);
}

/* Buckets that the backward pass finishes long before its end; of small ones most ranks have
 * nothing. */
TEST(overlap) {
    struct comm *mpi = comm_here(), *comm = late_over(mpi);
    assert_int_equal(comm_beside(comm), comm->size > 1);
    assert_false(comm_beside(mpi));
    check_levels(comm, (struct way){.type = DTYPE_F32, .bucket = SHARD_RANGE});
    check_levels(comm, (struct way){.type = DTYPE_F32, .norm = NORM_PRE, .bucket = SHARD_RANGE});
    check_levels(comm, (struct way){.type = DTYPE_BF16, .bucket = 4 * SHARD_RANGE});
    comm_close(mpi);
}

TESTS(T(levels), T(overlap))
