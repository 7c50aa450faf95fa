/* test_checkpoint.c — checkpoints: bit-exact, whole after a kill at any instant, intact on a full
 * disk. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "faults.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"
#include "train/saver.h"

static const struct backend_options on_cpu = {.device = "cpu", .n_thread = 1};

/* A run directory and a model in it, trained for a few steps so that nothing is zero. */
struct run {
    struct toy toy;
    char *dir;
    struct batch batch;
    int aside; /* save_next writes by a thread */
};

static void train(struct run *run, int steps) {
    struct err err = {0};
    for (int i = 0; i < steps; i++) {
        struct update_report report;
        const struct batch *one = &run->batch;
        ASSERT_OK(optimizer_update(run->toy.opt, &one, 1, &report, &err), err);
    }
}

static void run_open(struct run *run, const char *name, enum dtype type) {
    struct err err = {0};
    struct config config = toy_config();
    config.dropout = 0.1f;
    *run = (struct run){.dir = path_join(test_dir(), name)};
    toy_open(&run->toy, &config, &on_cpu, type, 64);
    ASSERT_OK(modeldir_init(run->dir, &run->toy.model->config, NULL, NULL, &err), err);
    char *tokenizer = path_join(run->dir, MODELDIR_TOKENIZER);
    ASSERT_OK(file_write_all(tokenizer, "not a real tokenizer", 20, &err), err);
    xfree(tokenizer);
    int len[] = {5, 9, 3};
    toy_batch(&run->batch, len, len, 3, config.n_vocab_tgt, 7);
    train(run, 3);
}

/* The same run with another optimizer, which keeps an average, trained for three steps. */
static void keep_average(struct run *run) {
    struct err err = {0};
    struct optimizer_options options = run->toy.opt->options;
    options.ema = 0.7;
    optimizer_free(run->toy.opt);
    ASSERT_OK(optimizer_new(&run->toy.opt, run->toy.model, run->toy.acts, &options, &err), err);
    train(run, 3);
}

static void run_close(struct run *run) {
    batch_release(&run->batch);
    toy_close(&run->toy);
    xfree(run->dir);
}

static size_t flat_bytes(const struct run *run) {
    return run->toy.model->table.n_elem * sizeof(float);
}

/* ---- round trip ------------------------------------------------------------------------------ */

static void set_state(struct state *state) {
    state_set_i64(state, "epoch", -3);
    state_set_u64(state, "rng.key", UINT64_MAX);
    state_set_f64(state, "best", 0.1);
    state_set_f64(state, "nan", NAN);
    state_set_f64(state, "inf", -INFINITY);
    state_set_f64(state, "small", 4.9406564584124654e-324);
    state_set_text(state, "corpus", "caf\xe9 100%\n\"\\");
    state_set_text(state, "empty", "");
}

static void check_state(const struct state *state) {
    struct err err = {0};
    int64_t i = 0;
    uint64_t u = 0;
    double f = 0;
    const char *text = NULL;
    ASSERT_OK(state_get_i64(state, "epoch", &i, &err), err);
    assert_int_equal(i, -3);
    ASSERT_OK(state_get_u64(state, "rng.key", &u, &err), err);
    assert_true(u == UINT64_MAX);
    ASSERT_OK(state_get_f64(state, "best", &f, &err), err);
    assert_true(f == 0.1);
    ASSERT_OK(state_get_f64(state, "nan", &f, &err), err);
    assert_true(isnan(f));
    ASSERT_OK(state_get_f64(state, "inf", &f, &err), err);
    assert_true(f == -INFINITY);
    ASSERT_OK(state_get_f64(state, "small", &f, &err), err);
    assert_true(f == 4.9406564584124654e-324);
    ASSERT_OK(state_get_text(state, "corpus", &text, &err), err);
    assert_string_equal(text, "caf\xe9 100%\n\"\\");
    ASSERT_OK(state_get_text(state, "empty", &text, &err), err);
    assert_string_equal(text, "");
    ASSERT_ERR(state_get_i64(state, "best", &i, &err), err, HEED_EFORMAT, "'best' is f64");
    ASSERT_ERR(state_get_i64(state, "worst", &i, &err), err, HEED_EFORMAT, "'worst' is missing");
}

static void expect_same(const struct run *a, const struct run *b) {
    assert_memory_equal(a->toy.model->flat, b->toy.model->flat, flat_bytes(a));
    assert_memory_equal(a->toy.opt->m, b->toy.opt->m, flat_bytes(a));
    assert_memory_equal(a->toy.opt->v, b->toy.opt->v, flat_bytes(a));
    if (a->toy.opt->avg) assert_memory_equal(a->toy.opt->avg, b->toy.opt->avg, flat_bytes(a));
    assert_int_equal(a->toy.opt->step, b->toy.opt->step);
    assert_int_equal(a->toy.opt->n_batch, b->toy.opt->n_batch);
}

TEST(round_trip) {
    struct run a, b;
    struct err err = {0};
    struct state kept = {0}, back = {0};
    enum dtype type = strncmp(TEST_ARG, "bf16", 4) == 0 ? DTYPE_BF16 : DTYPE_F32;
    run_open(&a, "a", type);
    run_open(&b, "b", type);
    if (strstr(TEST_ARG, "ema")) {
        keep_average(&a);
        keep_average(&b);
    }
    set_state(&kept);
    ASSERT_OK(checkpoint_save(a.dir, a.toy.opt, &kept, &err), err);
    char *path = checkpoint_path(a.dir, 3);
    train(&b, 2);
    state_set_i64(&back, "stale", 1);
    ASSERT_OK(checkpoint_load(path, b.toy.opt, &back, &err), err);
    check_state(&back);
    assert_int_not_equal(state_get_i64(&back, "stale", &(int64_t){0}, NULL), 0);
    expect_same(&a, &b);
    train(&a, 4); /* dropout and bf16 copy included: the future is the same, too */
    train(&b, 4);
    expect_same(&a, &b);
    int64_t step = 0;
    struct state only = {0};
    ASSERT_OK(checkpoint_read_state(path, &only, &step, &err), err);
    check_state(&only);
    assert_int_equal(step, 3);
    ASSERT_OK(checkpoint_verify(path, 1, &err), err);
    state_release(&kept);
    state_release(&back);
    state_release(&only);
    xfree(path);
    run_close(&a);
    run_close(&b);
}

static void flip_byte(const char *path, long at) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, at < 0 ? SEEK_END : SEEK_SET);
    int c = fgetc(f);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

/* What is published is the average, and a run goes on with one as it began. */
TEST(average_is_the_model) {
    struct run with, without;
    struct err err = {0};
    struct modeldir md;
    run_open(&with, "with", DTYPE_BF16);
    keep_average(&with);
    run_open(&without, "without", DTYPE_BF16);
    ASSERT_OK(checkpoint_save(with.dir, with.toy.opt, NULL, &err), err);
    ASSERT_OK(checkpoint_save(without.dir, without.toy.opt, NULL, &err), err);
    char *path = checkpoint_path(with.dir, 3), *plain = checkpoint_path(without.dir, 3);
    ASSERT_OK(modeldir_open(&md, path, &err), err);
    int differ = 0;
    for (int i = 0; i < md.table.n_param; i++) {
        const struct param *p = &md.table.param[i];
        size_t n = (size_t)p->rows * (size_t)p->cols;
        float *value = xmalloc(n * sizeof *value);
        modeldir_values(&md, i, 0, n, value);
        assert_memory_equal(value, (float *)with.toy.opt->avg + p->offset, n * sizeof *value);
        differ += memcmp(value, (float *)with.toy.model->flat + p->offset, n * sizeof *value) != 0;
        xfree(value);
    }
    assert_int_equal(differ, md.table.n_param);
    modeldir_close(&md);
    ASSERT_ERR(checkpoint_load(plain, with.toy.opt, NULL, &err), err, HEED_EINVAL,
               "no moving average to go on with");
    ASSERT_ERR(checkpoint_load(path, without.toy.opt, NULL, &err), err, HEED_EINVAL,
               "continue it with --ema");
    char *state_file = path_join(path, "state.safetensors"); /* all of it is under the sums */
    struct stat st;
    assert_int_equal(stat(state_file, &st), 0);
    flip_byte(state_file, st.st_size - st.st_size / 6);
    ASSERT_ERR(checkpoint_verify(path, 1, &err), err, HEED_EFORMAT, "wrong checksum of 'p.");
    xfree(state_file);
    xfree(path);
    xfree(plain);
    run_close(&with);
    run_close(&without);
}

/* The same state gives the same bytes: nothing like a date is in the files. */
TEST(same_bytes) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    static const char *const names[] = {"model.safetensors", "state.safetensors", "config.json"};
    char *data[2][3];
    size_t size[2][3];
    for (int k = 0; k < 2; k++) {
        ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err); /* again: replaces */
        for (int i = 0; i < 3; i++) {
            char *dir = checkpoint_path(run.dir, 3), *path = path_join(dir, names[i]);
            ASSERT_OK(file_read_all(&data[k][i], &size[k][i], path, 1 << 30, &err), err);
            xfree(path);
            xfree(dir);
        }
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(size[0][i], size[1][i]);
        assert_memory_equal(data[0][i], data[1][i], size[0][i]);
        xfree(data[0][i]);
        xfree(data[1][i]);
    }
    struct dir_names left;
    ASSERT_OK(dir_read(&left, run.dir, &err), err);
    assert_int_equal(left.n, 3); /* ckpt-00000003, config.json, tokenizer.model */
    dir_names_release(&left);
    run_close(&run);
}

static void expect_same_file(const char *a, const char *b, const char *name) {
    struct err err = {0};
    char *path[2] = {path_join(a, name), path_join(b, name)}, *data[2];
    size_t size[2];
    for (int i = 0; i < 2; i++)
        ASSERT_OK(file_read_all(&data[i], &size[i], path[i], 1 << 30, &err), err);
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    for (int i = 0; i < 2; i++) xfree(data[i]), xfree(path[i]);
}

/* What was copied is what is written, whatever the optimizer has become meanwhile, and again when
 * the copy is taken anew. */
TEST(copy_has_the_same_bytes) {
    struct run run;
    struct err err = {0};
    struct state kept = {0};
    struct snapshot *copy;
    run_open(&run, "run", strncmp(TEST_ARG, "bf16", 4) == 0 ? DTYPE_BF16 : DTYPE_F32);
    if (strstr(TEST_ARG, "ema")) keep_average(&run);
    set_state(&kept);
    char *beside = path_join(test_dir(), "beside");
    ASSERT_OK(modeldir_init(beside, &run.toy.model->config, NULL, NULL, &err), err);
    ASSERT_OK(modeldir_copy_tokenizers(beside, run.dir, &err), err);
    ASSERT_OK(modeldir_write_config(beside, &run.toy.model->config, NULL, &err), err);
    ASSERT_OK(modeldir_write_config(run.dir, &run.toy.model->config, NULL, &err), err);
    ASSERT_OK(snapshot_new(&copy, run.toy.opt, &err), err);
    for (int k = 0; k < 2; k++) {
        int64_t step = run.toy.opt->step;
        ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, &kept, &err), err);
        ASSERT_OK(snapshot_take(copy, run.toy.opt, &kept, &err), err);
        state_set_i64(&kept, "epoch", k);
        train(&run, 2);
        ASSERT_OK(snapshot_write(copy, beside, &err), err);
        char *one = checkpoint_path(run.dir, step), *other = checkpoint_path(beside, step);
        expect_same_file(one, other, "model.safetensors");
        expect_same_file(one, other, "state.safetensors");
        expect_same_file(one, other, "config.json");
        ASSERT_OK(checkpoint_verify(other, 1, &err), err);
        xfree(one);
        xfree(other);
    }
    assert_int_equal(snapshot_bytes(run.toy.model, strstr(TEST_ARG, "ema") != NULL),
                     flat_bytes(&run) * (strstr(TEST_ARG, "ema") ? 4 : 3));
    snapshot_free(copy);
    state_release(&kept);
    xfree(beside);
    run_close(&run);
}

/* ---- damage ---------------------------------------------------------------------------------- */

TEST(damage_is_found) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err);
    train(&run, 1);
    ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err);
    char *old = checkpoint_path(run.dir, 3), *new = checkpoint_path(run.dir, 4);
    char *state_file = path_join(new, "state.safetensors"),
         *weights = path_join(new, "model.safetensors");
    char *old_state = path_join(old, "state.safetensors");
    float *before = toy_params(&run.toy), *after;

    flip_byte(weights, -5);
    ASSERT_OK(checkpoint_verify(new, 0, &err), err);
    ASSERT_ERR(checkpoint_verify(new, 1, &err), err, HEED_EFORMAT, "model.safetensors: damaged");
    train(&run, 1);
    xfree(before);
    before = toy_params(&run.toy);
    ASSERT_ERR(checkpoint_load(new, run.toy.opt, NULL, &err), err, HEED_EFORMAT, "wrong checksum");
    after = toy_params(&run.toy);
    assert_memory_equal(before, after, flat_bytes(&run));
    assert_int_equal(run.toy.opt->step, 5);
    flip_byte(weights, -5);
    flip_byte(state_file, -50000);
    ASSERT_ERR(checkpoint_load(new, run.toy.opt, NULL, &err), err, HEED_EFORMAT, "wrong checksum");
    flip_byte(state_file, -50000);
    ASSERT_OK(checkpoint_verify(new, 1, &err), err);

    /* The state of another step: told apart by the counters, and were they equal, by the sums. */
    ASSERT_OK(file_copy(state_file, old_state, &err), err);
    ASSERT_ERR(checkpoint_verify(new, 0, &err), err, HEED_EFORMAT, "the state is of step 3");

    struct checkpoint_found found;
    ASSERT_OK(checkpoint_find_last(&found, run.dir, &err), err);
    assert_string_equal(found.path, old);
    assert_int_equal(found.n_damaged, 1);
    assert_non_null(strstr(found.damage.msg, "the state is of step 3"));
    xfree(found.path);
    unlink(state_file);
    ASSERT_ERR(checkpoint_verify(new, 0, &err), err, HEED_EIO, "state.safetensors");
    char *all[] = {old, new, state_file, weights, old_state, (char *)before, (char *)after};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) xfree(all[i]);
    run_close(&run);
}

/* A state file cut at any length is refused (every 97th length: it is large), as is another
 * model's. */
TEST(truncated_state) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err);
    char *path = checkpoint_path(run.dir, 3), *state_file = path_join(path, "state.safetensors");
    struct stat st;
    assert_int_equal(stat(state_file, &st), 0);
    for (long n = st.st_size - 1; n >= 0; n = n > 400 ? n - n / 40 : n - 1) {
        assert_int_equal(truncate(state_file, n), 0);
        if (checkpoint_load(path, run.toy.opt, NULL, &err) == 0) fail_msg("%ld bytes loaded", n);
    }
    xfree(state_file);
    xfree(path);
    run_close(&run);
}

TEST(another_model) {
    struct run run;
    struct toy other;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err);
    struct config config = toy_config();
    config.d_ff = 24;
    toy_open(&other, &config, &on_cpu, DTYPE_F32, 64);
    char *path = checkpoint_path(run.dir, 3);
    ASSERT_ERR(checkpoint_load(path, other.opt, NULL, &err), err, HEED_EFORMAT, "w_1");
    xfree(path);
    toy_close(&other);
    run_close(&run);
}

/* ---- kills ----------------------------------------------------------------------------------- */

/* By a thread, from a copy. */
static int save_aside(const struct run *run, const struct state *state, struct err *err) {
    struct saver saver = {0};
    struct saver_task task = {run->dir, run->toy.opt->step, -1, -1, 2};
    struct snapshot *copy;
    int rc = snapshot_new(&copy, run->toy.opt, err);
    if (!rc) rc = snapshot_take(copy, run->toy.opt, state, err);
    if (!rc) saver_begin(&saver, copy, &task);
    if (!rc) rc = saver_end(&saver, err);
    snapshot_free(copy);
    return rc;
}

/* What the child under test does: a checkpoint of the next step, published, the older ones
 * pruned. */
static int save_next(struct run *run, struct err *err) {
    struct state state = {0};
    state_set_i64(&state, "of_step", run->toy.opt->step);
    int rc = checkpoint_clean(run->dir, err);
    if (run->aside) {
        if (!rc) rc = save_aside(run, &state, err);
    } else {
        if (!rc) rc = checkpoint_save(run->dir, run->toy.opt, &state, err);
        if (!rc) rc = checkpoint_publish(run->dir, run->toy.opt->step, err);
        if (!rc) rc = checkpoint_prune(run->dir, 2, -1, err);
    }
    state_release(&state);
    return rc;
}

/* The last checkpoint is one of [low, high], whole, and state and weights are of that step. */
static int64_t check_last(const struct run *run, int64_t low, int64_t high) {
    struct checkpoint_found found;
    struct err err = {0};
    struct state state = {0};
    ASSERT_OK(checkpoint_find_last(&found, run->dir, &err), err);
    if (!found.path) fail_msg("no checkpoint left");
    if (found.n_damaged) fail_msg("damaged: %s", found.damage.msg);
    ASSERT_OK(checkpoint_verify(found.path, 1, &err), err);
    int64_t of_step = -1, step = -1;
    ASSERT_OK(checkpoint_read_state(found.path, &state, &step, &err), err);
    ASSERT_OK(state_get_i64(&state, "of_step", &of_step, &err), err);
    assert_int_equal(of_step, found.step);
    assert_int_equal(step, found.step);
    if (found.step < low || found.step > high)
        fail_msg("step %lld is not in [%lld, %lld]", (long long)found.step, (long long)low,
                 (long long)high);
    char *published = path_join(run->dir, "model.safetensors");
    struct safetensors st;
    if (file_exists(published)) {
        ASSERT_OK(safetensors_open(&st, published, &err), err);
        safetensors_close(&st);
    }
    xfree(published);
    int64_t result = found.step;
    xfree(found.path);
    state_release(&state);
    return result;
}

static bool child_finishes(pid_t pid) {
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    assert_true((WIFEXITED(status) && WEXITSTATUS(status) == 9) || WIFSIGNALED(status));
    return false;
}

/* Dies at every single call that changes the disk, one after another: `next` saves a new step,
 * `same` saves the step that is already there. */
TEST(killed_at_every_call) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    run.aside = strstr(TEST_ARG, "aside") != NULL;
    ASSERT_OK(save_next(&run, &err), err);
    int64_t first = run.toy.opt->step;
    if (strncmp(TEST_ARG, "next", 4) == 0) train(&run, 1);
    int n = 0;
    bool finished = false;
    while (!finished) {
        n++;
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            faults_arm(n, 0);
            _exit(save_next(&run, &err) ? 1 : 0);
        }
        finished = child_finishes(pid);
        check_last(&run, first, run.toy.opt->step);
    }
    assert_true(n > 30); /* the hooks are in the way of something */
    assert_int_equal(check_last(&run, first, run.toy.opt->step), run.toy.opt->step);
    ASSERT_OK(checkpoint_clean(run.dir, &err), err);
    struct dir_names left;
    ASSERT_OK(dir_read(&left, run.dir, &err), err);
    for (int i = 0; i < left.n; i++) assert_null(strstr(left.name[i], ".tmp"));
    dir_names_release(&left);
    run_close(&run);
}

/* Fails at every single call instead: an error each time, and the old checkpoint stays. */
TEST(failing_at_every_call) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    ASSERT_OK(save_next(&run, &err), err);
    int64_t first = run.toy.opt->step;
    train(&run, 1);
    int error = strncmp(TEST_ARG, "ENOSPC", 6) == 0 ? ENOSPC : EIO, rc = -1;
    struct snapshot *copy = NULL; /* of the f32 model; NULL: not wanted */
    if (strstr(TEST_ARG, "aside")) ASSERT_OK(snapshot_new(&copy, run.toy.opt, &err), err);
    for (int n = 1; rc; n++) {
        assert_true(n < 1000);
        faults_arm(n, error);
        err = (struct err){0};
        struct state kept = {0};
        state_set_i64(&kept, "of_step", run.toy.opt->step);
        if (copy) {
            rc = snapshot_take(copy, run.toy.opt, &kept, &err);
            if (!rc) rc = snapshot_write(copy, run.dir, &err);
        } else {
            rc = checkpoint_save(run.dir, run.toy.opt, &kept, &err);
        }
        state_release(&kept);
        faults_disarm();
        if (rc) {
            assert_int_equal(rc, HEED_EIO);
            assert_non_null(strstr(err.msg, run.dir));
            if (!strstr(err.msg, "directory") && !strstr(err.msg, "disk may not have it yet"))
                assert_non_null(strstr(err.msg, error == ENOSPC ? "intact" : "Input/output"));
        }
        check_last(&run, first, run.toy.opt->step);
    }
    snapshot_free(copy);
    run_close(&run);
}

static void save_forever(struct run *run) {
    struct err err = {0};
    for (;;) {
        run->toy.opt->step++; /* saves do not care how the step came about */
        if (save_next(run, &err)) _exit(1);
    }
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* SIGKILL at random instants while a child does nothing but save. */
TEST(killed_at_random) {
    struct run run;
    struct err err = {0};
    struct rng rng = {.key = now_ns()};
    run_open(&run, "run", DTYPE_F32);
    run.aside = strcmp(TEST_ARG, "aside") == 0;
    ASSERT_OK(save_next(&run, &err), err);
    int64_t last = run.toy.opt->step;
    for (int i = 0; i < 40; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) save_forever(&run);
        struct timespec nap = {.tv_nsec = 1000 * (long)rng_below(&rng, 60000)};
        nanosleep(&nap, NULL);
        kill(pid, SIGKILL);
        assert_false(child_finishes(pid));
        last = check_last(&run, last, INT64_MAX);
        run.toy.opt->step = last;
    }
    print_message("40 kills, %lld checkpoints\n", (long long)last);
    run_close(&run);
}

/* ---- bad disks ------------------------------------------------------------------------------- */

TEST(full_disk) {
    struct run run;
    struct err err = {0};
    char *disk = path_join(test_dir(), "disk"), *inside = path_join("disk", "run");
    assert_int_equal(mkdir(disk, 0777), 0);
    if (geteuid() != 0 || mount("none", disk, "tmpfs", 0, "size=1400k"))
        SKIP("cannot mount a small tmpfs here");
    run_open(&run, inside, DTYPE_F32);
    int rc = 0, saved = 0;
    while (!rc && saved < 100) {
        struct state kept = {0};
        state_set_i64(&kept, "of_step", run.toy.opt->step);
        rc = checkpoint_save(run.dir, run.toy.opt, &kept, &err);
        state_release(&kept);
        if (!rc) saved++, train(&run, 1);
    }
    print_message("after %d checkpoints: %s\n", saved, err.msg);
    int has_text = strstr(err.msg, "no space left") != NULL;
    if (rc == HEED_EIO && has_text && saved) check_last(&run, 2 + saved, 2 + saved);
    char *temp = checkpoint_path(run.dir, run.toy.opt->step);
    int is_left = file_exists(temp);
    xfree(temp);
    run_close(&run);
    umount2(disk, MNT_DETACH);
    assert_true(rc == HEED_EIO && has_text && saved > 0 && !is_left);
    xfree(disk);
    xfree(inside);
}

TEST(read_only_directory) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    ASSERT_OK(save_next(&run, &err), err);
    train(&run, 1);
    if (geteuid() == 0) { /* root may write anywhere but on a read-only mount */
        if (mount(run.dir, run.dir, NULL, MS_BIND, NULL)) SKIP("cannot mount here");
        if (mount(NULL, run.dir, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL)) {
            umount2(run.dir, MNT_DETACH);
            SKIP("cannot mount read-only here");
        }
    } else {
        assert_int_equal(chmod(run.dir, 0555), 0);
    }
    int rc = save_next(&run, &err);
    int64_t last = check_last(&run, 3, 3);
    if (geteuid() == 0)
        umount2(run.dir, MNT_DETACH);
    else
        chmod(run.dir, 0777);
    assert_int_equal(rc, HEED_EIO);
    assert_non_null(strstr(err.msg, run.dir));
    assert_int_equal(last, 3);
    run_close(&run);
}

/* ---- keeping --------------------------------------------------------------------------------- */

TEST(prune_publish_forget) {
    struct run run;
    struct err err = {0};
    struct checkpoint_list list;
    struct modeldir md;
    run_open(&run, "run", DTYPE_F32);
    for (int i = 0; i < 6; i++, train(&run, 1))
        ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err); /* steps 3..8 */
    ASSERT_OK(checkpoint_publish(run.dir, 4, &err), err);
    ASSERT_OK(checkpoint_publish(run.dir, 4, &err), err);
    ASSERT_OK(checkpoint_prune(run.dir, 2, 5, &err), err);
    ASSERT_OK(checkpoint_list(&list, run.dir, &err), err);
    assert_int_equal(list.n, 3);
    assert_int_equal(list.item[0].step, 5);
    assert_int_equal(list.item[1].step, 7);
    assert_int_equal(list.item[2].step, 8);
    checkpoint_list_release(&list);
    ASSERT_OK(modeldir_open(&md, run.dir, &err), err); /* survives its checkpoint */
    assert_int_equal(md.step, 4);
    modeldir_close(&md);
    struct dir_names names;
    ASSERT_OK(dir_read(&names, run.dir, &err), err);
    assert_int_equal(names.n, 6);
    dir_names_release(&names);
    ASSERT_OK(checkpoint_forget(run.dir, 5, &err), err);
    struct checkpoint_found found;
    ASSERT_OK(checkpoint_find_last(&found, run.dir, &err), err);
    assert_int_equal(found.step, 5);
    xfree(found.path);
    ASSERT_OK(checkpoint_find_last(&found, "no/such/run", &err), err);
    assert_null(found.path);
    run_close(&run);
}

/* A run as the trainer leaves it, in TEST_DIR/run: test_inspect.sh looks at it through the command
 * line. */
TEST(writes_a_run) {
    struct run run;
    struct err err = {0};
    run_open(&run, "run", DTYPE_F32);
    for (int i = 0; i < 3; i++, train(&run, 1))
        ASSERT_OK(checkpoint_save(run.dir, run.toy.opt, NULL, &err), err); /* steps 3..5 */
    ASSERT_OK(checkpoint_publish(run.dir, 5, &err), err);
    struct model *model = NULL;
    ASSERT_OK(model_load(&model, run.dir, run.toy.be, DTYPE_F32, &err), err);
    assert_non_null(model);
    model_free(model);
    run_close(&run);
}

/* Only our own leavings go; what a user put there stays. */
TEST(clean_keeps_the_rest) {
    struct err err = {0};
    static const char *const stay[] = {"notes.tmp", "x.1-a.tmp", "ckpt-3.tmp", "ckpt-00000003",
                                       "log.jsonl"};
    static const char *const go[] = {"model.safetensors.17-0.tmp", "config.json.17-12.tmp",
                                     "model.safetensors.9-link.tmp"};
    for (int i = 0; i < 5; i++) {
        char *path = path_join(test_dir(), stay[i]);
        ASSERT_OK(file_write_all(path, "x", 1, &err), err);
        xfree(path);
    }
    for (int i = 0; i < 3; i++) {
        char *path = path_join(test_dir(), go[i]);
        ASSERT_OK(file_write_all(path, "x", 1, &err), err);
        xfree(path);
    }
    ASSERT_OK(checkpoint_clean(test_dir(), &err), err);
    struct dir_names names;
    ASSERT_OK(dir_read(&names, test_dir(), &err), err);
    assert_int_equal(names.n, 5);
    dir_names_release(&names);
}

TESTS(TP(round_trip, "f32"), TP(round_trip, "bf16"), TP(round_trip, "bf16-ema"),
      TP(round_trip, "f32-ema"), T(average_is_the_model), T(same_bytes),
      TP(copy_has_the_same_bytes, "f32"), TP(copy_has_the_same_bytes, "bf16"),
      TP(copy_has_the_same_bytes, "f32-ema"), TP(copy_has_the_same_bytes, "bf16-ema"),
      T(damage_is_found), T(truncated_state), T(another_model), TP(killed_at_every_call, "next"),
      TP(killed_at_every_call, "same"), TP(killed_at_every_call, "next-aside"),
      TP(killed_at_every_call, "same-aside"), TP(failing_at_every_call, "ENOSPC"),
      TP(failing_at_every_call, "ENOSPC-aside"), TP(failing_at_every_call, "EIO"),
      TPL(killed_at_random, "here", 120), TPL(killed_at_random, "aside", 120), T(full_disk),
      T(read_only_directory), T(prune_publish_forget), T(writes_a_run), T(clean_keeps_the_rest))
