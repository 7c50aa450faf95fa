/* test_train_ranks.c — updates by ranks of one and of several machines, against those of a process
 * alone. Run by itself it is the only rank of its MPI; test_train_ranks.sh runs it as 4 of them. */
#include "base/mem.h"
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

/* The parts after a few updates by the ranks of comm (NULL: alone). Each rank has its own batches;
 * the report is of all. */
static void learn(float *out[4], struct update_report *report, struct comm *comm, enum dtype type) {
    static const int src_len[] = {3, 9, 1, 6}, tgt_len[] = {5, 2, 7, 4};
    struct config config = toy_config();
    struct toy toy;
    struct batch batch[BATCHES];
    const struct batch *list[BATCHES];
    struct err err = {0};
    config.dropout = 0.2f;
    toy_open(&toy, &config, &(struct backend_options){.device = "cpu", .n_thread = 1}, type,
             TOKENS);
    struct optimizer_options options = toy.opt->options;
    optimizer_free(toy.opt);
    options.accumulate = BATCHES;
    options.ema = 0.5;
    options.comm = comm;
    ASSERT_OK(optimizer_new(&toy.opt, toy.model, toy.acts, &options, &err), err);
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
        if (comm) check_sent(comm, comm->sent - sent, toy.model, type);
        ASSERT_OK(optimizer_show_average(toy.opt, &err), err);
        ASSERT_OK(optimizer_hide_average(toy.opt, &err), err);
    }
    for (int i = 0; i < 4; i++) out[i] = part_of(&toy, (enum optimizer_part)i);
    for (int i = 0; i < BATCHES; i++) batch_release(&batch[i]);
    toy_close(&toy);
}

static void check_levels(struct comm *comm, enum dtype type) {
    float *want[4], *got[4];
    struct update_report alone, all;
    struct config config = toy_config();
    struct param_table table;
    param_table_init(&table, &config);
    size_t size = table.n_elem * sizeof(float);
    learn(want, &alone, NULL, type);
    /* As if the machines had this many ranks. */
    for (int inside = 1; inside <= comm->size; inside *= 2) {
        comm->inside = inside;
        comm->sent = 0;
        learn(got, &all, comm, type);
        assert_memory_equal(&all, &alone, sizeof all);
        for (int i = 0; i < 4; i++) {
            if (memcmp(got[i], want[i], size) != 0) fail_msg("%d inside: part %d", inside, i);
            xfree(got[i]);
        }
        if (comm->size > 1) assert_true(comm->sent > 0);
    }
    for (int i = 0; i < 4; i++) xfree(want[i]);
    param_table_release(&table);
}

TEST(levels) {
    struct comm *comm = comm_here();
    check_levels(comm, DTYPE_F32);
    check_levels(comm, DTYPE_BF16);
    comm_close(comm);
}

TESTS(T(levels))
