/* test_trainer.c — a run whose checkpoints are written beside the updates: what it leaves on the
 * disk is what a run leaves that waits for them, whoever is slow, killed, full or diverges. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "corpora.h"
#include "data/tokenizer.h"
#include "faults.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"
#include "train/trainer.h"

enum { PAIRS = 120, TOKENS = 160, STEPS = 20, EVERY = 5 };

/* ---- a run ----------------------------------------------------------------------------------- */

struct how {
    const char *name; /* of the directory */
    int aside, steps, every, stop_at;
    double wild; /* factor on the learning rate; 0: none */
    enum divergence divergence;
};
static const struct how usual = {.name = "run", .steps = STEPS, .every = EVERY};

/* What a run has come to, and what was heard of it. */
struct outcome {
    int rc, began; /* step it began at */
    struct err err;
    enum train_end end;
    struct train_status status;
    uint32_t sum; /* of parameters and moments */
    int n_step, n_saved;
};

static atomic_int steps_done, stopped; /* for a thread that writes: how far the training is */
static volatile int stop;
static int stop_at, step_ms; /* an update takes so long at least */
static struct outcome *heard;

static void listen(void *ctx, enum train_event event, const struct train_status *status) {
    (void)ctx;
    if (event == TRAIN_RESUMED) heard->began = (int)status->step;
    if (event == TRAIN_SAVED) heard->n_saved++;
    if (event != TRAIN_STEP) return;
    heard->n_step++;
    steps_done = (int)status->step;
    nanosleep(&(struct timespec){.tv_nsec = 1000000L * step_ms}, NULL);
    if (status->step == stop_at) stop = stopped = 1;
}

/* Of the tokenizer a trainer wants nothing but the name. */
static struct tokenizer *some_tokenizer(void) {
    static const char *made;
    struct tokenizer *tokenizer;
    struct err err = {0};
    if (!made) made = model_dir("named", 1, 80);
    char *path = path_join(made, MODELDIR_TOKENIZER);
    ASSERT_OK(tokenizer_open(&tokenizer, path, &err), err);
    xfree(path);
    return tokenizer;
}

static void open_toy(struct toy *toy, const struct how *how) {
    struct config config = toy_config();
    struct err err = {0};
    config.dropout = 0.1f;
    toy_open(toy, &config, &(struct backend_options){.device = "cpu", .n_thread = 1}, DTYPE_F32,
             TOKENS);
    struct optimizer_options options = toy->opt->options;
    optimizer_free(toy->opt);
    options.accumulate = 1;
    options.measure = 1;
    if (how->wild > 0) options.lr_scale = how->wild, options.warmup = 1, options.clip = 0;
    ASSERT_OK(optimizer_new(&toy->opt, toy->model, toy->acts, &options, &err), err);
}

static uint32_t sum_of(const struct toy *toy) {
    size_t size = toy->model->table.n_elem * sizeof(float);
    uint32_t sum = crc32c(0, toy->model->flat, size);
    sum = crc32c(sum, toy->opt->m, size);
    return crc32c(sum, toy->opt->v, size);
}

/* A process's part of a run, or all of it. */
static struct outcome train(const struct how *how) {
    struct toy toy;
    struct corpus corpus;
    struct trainer *trainer = NULL;
    struct outcome out = {.rc = 0};
    struct err err = {0};
    open_toy(&toy, how);
    struct tokenizer *tokenizer = some_tokenizer();
    corpora_make(&corpus, "t", PAIRS, toy.model->config.n_vocab_src);
    struct batches_source source = {.corpus = &corpus};
    struct trainer_options o = {.dir = corpora_path(how->name),
                                .opt = toy.opt,
                                .tokenizer = tokenizer,
                                .listener = listen,
                                .max_steps = how->steps,
                                .accumulate = 1,
                                .log_every = 5,
                                .valid_every = EVERY,
                                .save_every = how->every,
                                .keep = 3,
                                .on_divergence = how->divergence,
                                .stop = &stop};
    ASSERT_OK(
        batches_new(
            &o.batches,
            &(struct batches_options){
                .source = &source, .n_source = 1, .seed = 1, .tokens = TOKENS, .bos = TOY_BOS},
            &err),
        err);
    ASSERT_OK(sweep_new(&o.valid, &source, TOKENS, TOY_BOS, &err), err);
    if (how->aside) ASSERT_OK(snapshot_new(&o.copy, toy.opt, &err), err);
    heard = &out;
    steps_done = 0;
    stop = stopped = 0;
    stop_at = how->stop_at;
    ASSERT_OK(trainer_new(&trainer, &o, &err), err);
    ASSERT_OK(modeldir_init(o.dir, &toy.model->config, NULL, NULL, &err), err);
    out.rc = trainer_run(trainer, &out.end, &out.err);
    out.status = *trainer_status(trainer);
    out.sum = sum_of(&toy);
    trainer_free(trainer);
    snapshot_free(o.copy);
    sweep_free(o.valid);
    batches_free(o.batches);
    corpus_close(&corpus);
    tokenizer_free(tokenizer);
    toy_close(&toy);
    return out;
}

/* ---- what it leaves -------------------------------------------------------------------------- */

static uint32_t file_sum(const char *dir, const char *name) {
    char *path = path_join(dir, name), *data;
    struct err err = {0};
    size_t size;
    ASSERT_OK(file_read_all(&data, &size, path, 1 << 30, &err), err);
    uint32_t sum = crc32c(0, data, size);
    xfree(path);
    xfree(data);
    return sum;
}

/* The same checkpoints, the same weights in each, and the same model published; none but what is
 * whole, and no leavings. */
static void expect_same_runs(const char *a, const char *b) {
    struct checkpoint_list list[2];
    struct err err = {0};
    const char *dir[2] = {corpora_path(a), corpora_path(b)};
    for (int i = 0; i < 2; i++) ASSERT_OK(checkpoint_list(&list[i], dir[i], &err), err);
    assert_int_equal(list[0].n, list[1].n);
    assert_true(list[0].n > 1);
    for (int i = 0; i < list[0].n; i++) {
        assert_int_equal(list[0].item[i].step, list[1].item[i].step);
        assert_int_equal(file_sum(list[0].item[i].path, MODELDIR_WEIGHTS),
                         file_sum(list[1].item[i].path, MODELDIR_WEIGHTS));
        ASSERT_OK(checkpoint_verify(list[1].item[i].path, 1, &err), err);
    }
    assert_int_equal(file_sum(dir[0], MODELDIR_WEIGHTS), file_sum(dir[1], MODELDIR_WEIGHTS));
    for (int i = 0; i < 2; i++) {
        struct dir_names names;
        ASSERT_OK(dir_read(&names, dir[i], &err), err);
        for (int k = 0; k < names.n; k++) assert_null(strstr(names.name[k], ".tmp"));
        dir_names_release(&names);
        checkpoint_list_release(&list[i]);
    }
}

static struct how variant(const char *name, int aside) {
    struct how how = usual;
    how.name = name;
    how.aside = aside;
    return how;
}

static struct outcome straight(void) {
    struct how how = variant("straight", 0);
    struct outcome out = train(&how);
    ASSERT_OK(out.rc, out.err);
    assert_int_equal(out.n_saved, 1 + STEPS / EVERY);
    return out;
}

/* ---- slow disks ------------------------------------------------------------------------------ */

static pthread_t trains;
static int (*real_mkdir)(const char *path, mode_t mode);
static atomic_int n_held, in_vain;

/* A checkpoint does not even begin before the training has made two more updates, where there are
 * as many to come before it waits. */
static int hold_mkdir(const char *path, mode_t mode) {
    const char *name = strstr(path, "ckpt-");
    int step = name ? atoi(name + 5) : 0, want = step + 2;
    if (step > 0 && want < STEPS && !pthread_equal(pthread_self(), trains)) {
        n_held++;
        for (int i = 0; i < 5000 && steps_done < want && !stopped; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        if (steps_done < want) in_vain++;
    }
    return real_mkdir(path, mode);
}

static void hold_checkpoints(void) {
    trains = pthread_self();
    real_mkdir = file_calls.mkdir;
    file_calls.mkdir = hold_mkdir;
    n_held = in_vain = 0;
}

TEST(updates_go_on) {
    struct outcome want = straight();
    struct how how = variant("aside", 1);
    hold_checkpoints();
    struct outcome got = train(&how);
    ASSERT_OK(got.rc, got.err);
    file_calls.mkdir = real_mkdir;
    assert_true(n_held >= STEPS / EVERY - 1);
    assert_int_equal(in_vain, 0);
    assert_int_equal(got.sum, want.sum);
    assert_int_equal(got.n_saved, want.n_saved);
    assert_int_equal(got.status.step, STEPS);
    expect_same_runs("straight", "aside");
}

/* The share of a run's time that it can account for. */
static double accounted(const char *dir, int aside) {
    struct how how = variant(dir, aside);
    struct outcome got = train(&how);
    ASSERT_OK(got.rc, got.err);
    const struct train_times *t = &got.status.times;
    double sum = t->updates + t->validation + t->saving + t->data;
    assert_true(t->updates > 0 && t->validation > 0 && t->saving > 0 && t->data > 0);
    if (!(sum <= t->all)) fail_msg("%g s of %g s", sum, t->all);
    assert_true(train(&how).status.times.all == 0); /* it had ended before */
    return sum / t->all;
}

/* What the run says about its time is about all of it. A busy machine may stop a run of half a
 * second anywhere, so the best of some counts. */
TEST(times_add_up) {
    char text[TRAIN_TIMES_TEXT], dir[32];
    for (int aside = 0; aside < 2; aside++) {
        double best = 0;
        for (int i = 0; i < 10 && best <= 0.8; i++) {
            snprintf(dir, sizeof dir, "%s-%d", aside ? "aside" : "straight", i);
            double share = accounted(dir, aside);
            if (share > best) best = share;
        }
        if (!(best > 0.8)) fail_msg("%g of the time", best);
    }
    struct train_times example = {200, 196.2, 2.6, 0.8, 0.4};
    assert_string_equal(train_times_text(text, &example),
                        "98.1 % of the time went to updates, 1.3 % to validation, 0.4 % to "
                        "checkpoints, 0.2 % to waiting for data");
    example.validation = 0;
    assert_null(strstr(train_times_text(text, &example), "validation"));
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Asked to stop while a checkpoint is pending: that one and the last are there, and the run goes on
 * from the last. */
TEST(stops_and_goes_on) {
    struct outcome want = straight();
    struct how how = variant("aside", 1);
    how.stop_at = STEPS - EVERY + 1;
    hold_checkpoints();
    struct outcome got = train(&how);
    file_calls.mkdir = real_mkdir;
    ASSERT_OK(got.rc, got.err);
    assert_int_equal(got.end, TRAIN_STOPPED);
    assert_int_equal(got.status.step, STEPS - EVERY + 1);
    char *pending = checkpoint_path(corpora_path("aside"), STEPS - EVERY);
    assert_true(dir_exists(pending));
    xfree(pending);
    how.stop_at = 0;
    got = train(&how);
    ASSERT_OK(got.rc, got.err);
    assert_int_equal(got.began, STEPS - EVERY + 1);
    assert_int_equal(got.sum, want.sum);
    expect_same_runs("straight", "aside");
}

/* Everything in the folder goes. */
static void empty(const char *dir) {
    struct dir_names names;
    struct err err = {0};
    ASSERT_OK(dir_read(&names, dir, &err), err);
    for (int i = 0; i < names.n; i++) {
        char *path = path_join(dir, names.name[i]);
        if (dir_exists(path))
            ASSERT_OK(dir_remove(path, &err), err);
        else
            unlink(path);
        xfree(path);
    }
    dir_names_release(&names);
}

/* The run is killed at that call, in a process of its own; `hold`: its checkpoints take long.
 * Returns whether it ended before. */
static int killed_at(const struct how *how, int call, int hold) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (hold) hold_checkpoints();
        faults_arm(call, 0);
        _exit(train(how).rc ? 1 : 0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9));
    return WEXITSTATUS(status) == 0;
}

/* Dies at a call that changes the disk, most of them of a thread that writes while updates go on;
 * what is left goes on to the same end. */
TEST(killed_while_pending) {
    struct outcome want = straight();
    int n = 0, finished = 0;
    for (; !finished; n++) {
        struct how how = variant("aside", 1);
        finished = killed_at(&how, 3 + n * (TEST_SANITIZED ? 29 : 11), 1);
        struct outcome got = train(&how);
        ASSERT_OK(got.rc, got.err);
        assert_int_equal(got.sum, want.sum);
        expect_same_runs("straight", "aside");
        empty(corpora_path("aside")); /* the next one begins anew */
    }
    print_message("killed at %d calls\n", n - 1);
    assert_true(n > 5);
}

/* Stopped between two checkpoints, then killed at any call while the next one is saved: that of the
 * stop takes nobody's place. */
TEST(stopped_then_killed) {
    int aside = strcmp(TEST_ARG, "aside") == 0, finished = 0, wrong = 0;
    straight();
    for (int n = 1; !finished; n += TEST_SANITIZED ? 7 : 1) {
        struct how how = variant("aside", aside);
        how.stop_at = STEPS - 3;
        struct outcome got = train(&how);
        ASSERT_OK(got.rc, got.err);
        how.stop_at = 0;
        finished = killed_at(&how, n, 0);
        got = train(&how);
        ASSERT_OK(got.rc, got.err);
        struct checkpoint_list list;
        struct err err = {0};
        ASSERT_OK(checkpoint_list(&list, corpora_path("aside"), &err), err);
        int same = 1;
        for (int i = 0; i < list.n; i++) same &= list.item[i].step % EVERY == 0;
        if (!same) {
            print_message("killed at call %d:", n);
            for (int i = 0; i < list.n; i++) print_message(" %d", (int)list.item[i].step);
            print_message("\n");
            wrong++;
        }
        checkpoint_list_release(&list);
        empty(corpora_path("aside"));
    }
    assert_int_equal(wrong, 0);
}

static int (*whole_mkdir)(const char *path, mode_t mode);
static const char *has_no_room;
static int full_mkdir(const char *path, mode_t mode) {
    if (strstr(path, has_no_room)) return errno = ENOSPC, -1;
    return whole_mkdir(path, mode);
}

static struct outcome train_where_full(const struct how *how, const char *what) {
    whole_mkdir = file_calls.mkdir;
    has_no_room = what;
    file_calls.mkdir = full_mkdir;
    struct outcome out = train(how);
    file_calls.mkdir = whole_mkdir;
    assert_int_equal(out.rc, HEED_EIO);
    assert_non_null(strstr(out.err.msg, what));
    assert_non_null(strstr(out.err.msg, strerror(ENOSPC)));
    return out;
}

/* A disk that is full at some checkpoint: the run ends with the message, before the next one is due
 * where training goes on meanwhile, and what was there is whole. The first checkpoint and the last
 * are waited for. */
TEST(full_disk_ends_it) {
    struct how how = variant("aside", 1);
    struct checkpoint_found found;
    struct err err = {0};
    struct outcome got = train_where_full(&how, "ckpt-00000000.tmp");
    assert_int_equal(got.n_step, 0);
    how.steps = 1000;
    step_ms = 50;
    got = train_where_full(&how, "ckpt-00000010.tmp");
    step_ms = 0;
    assert_in_range(got.status.step, 10, 10 + EVERY - 1);
    ASSERT_OK(checkpoint_find_last(&found, corpora_path("aside"), &err), err);
    assert_int_equal(found.n_damaged, 0);
    assert_int_equal(found.step, EVERY);
    xfree(found.path);
    how.stop_at = EVERY + 2; /* the last one of a run that is stopped, or at its end */
    got = train_where_full(&how, "ckpt-00000007.tmp");
    assert_int_equal(got.status.step, how.stop_at);
    how.stop_at = 0;
    how.steps = STEPS;
    got = train_where_full(&how, "ckpt-00000020.tmp");
    assert_int_equal(got.status.step, STEPS);
    got = train(&how); /* once there is room again, it goes on as if nothing had been */
    ASSERT_OK(got.rc, got.err);
    assert_int_equal(got.sum, straight().sum);
    expect_same_runs("straight", "aside");
}

static int nap_mkdir(const char *path, mode_t mode) {
    if (!pthread_equal(pthread_self(), trains))
        nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
    return real_mkdir(path, mode);
}

/* Diverges right after a step whose checkpoint is still to be written: that is the one to go back
 * to. */
TEST(rewinds_to_what_is_pending) {
    hold_checkpoints();
    file_calls.mkdir = nap_mkdir;
    for (int aside = 0; aside < 2; aside++) {
        struct how how = variant(aside ? "aside" : "straight", aside);
        how.every = 1;
        how.wild = 1e6;
        how.divergence = DIVERGENCE_REWIND;
        struct outcome got = train(&how);
        assert_int_equal(got.rc, HEED_EINTERNAL);
        assert_non_null(strstr(got.err.msg, "after going back 3 times: step 2"));
        assert_int_equal(got.n_step, 1);
        assert_int_equal(got.status.step, 1);
        how.divergence = DIVERGENCE_STOP;
        got = train(&how);
        assert_int_equal(got.rc, HEED_EINTERNAL);
        assert_non_null(strstr(got.err.msg, "the last checkpoint is of step 1"));
    }
    file_calls.mkdir = real_mkdir;
    expect_same_runs("straight", "aside");
}

TESTS(T(updates_go_on), T(times_add_up), T(stops_and_goes_on), TL(killed_while_pending, 120),
      TPL(stopped_then_killed, "here", 120), TPL(stopped_then_killed, "aside", 120),
      T(full_disk_ends_it), T(rewinds_to_what_is_pending))
