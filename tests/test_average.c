/* test_average.c — averaging models: the mean it is, and models that do not belong together. */
#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "faults.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"
#include "train/average.h"
#include "train/target.h"

static const struct backend_options on_cpu = {.device = "cpu", .n_thread = 1};

/* TEST_DIR/name: the toy with weights from a seed. */
static char *make_model(const char *name, struct config config, uint64_t seed, enum dtype type,
                        const char *tokenizer) {
    struct toy toy;
    struct err err = {0};
    char *dir = path_join(test_dir(), name), *weights = path_join(dir, MODELDIR_WEIGHTS),
         *spm = path_join(dir, MODELDIR_TOKENIZER);
    toy_open(&toy, &config, &on_cpu, DTYPE_F32, 16);
    ASSERT_OK(model_draw(toy.model, seed, &err), err);
    ASSERT_OK(dir_make(dir, &err), err);
    if (tokenizer) ASSERT_OK(file_write_all(spm, tokenizer, strlen(tokenizer), &err), err);
    ASSERT_OK(modeldir_init(dir, &toy.model->config, NULL, NULL, &err), err);
    struct weights_options options = {.step = (int64_t)seed, .type = type};
    ASSERT_OK(model_save(toy.model, weights, &options, &err), err);
    toy_close(&toy);
    xfree(weights);
    xfree(spm);
    return dir;
}

static void check_mean(const char *out, char **dir, int n) {
    struct err err = {0};
    struct modeldir mean, part[4];
    ASSERT_OK(modeldir_open(&mean, out, &err), err);
    for (int i = 0; i < n; i++) ASSERT_OK(modeldir_open(&part[i], dir[i], &err), err);
    assert_int_equal(mean.step, part[n - 1].step);
    for (int p = 0; p < mean.table.n_param; p++) {
        size_t count = tensor_count(mean.tensor[p]);
        for (size_t k = 0; k < count; k++) {
            float got, one;
            double sum = 0;
            modeldir_values(&mean, p, k, 1, &got);
            for (int i = 0; i < n; i++) {
                modeldir_values(&part[i], p, k, 1, &one);
                sum += (double)one;
            }
            float want = (float)(sum / n);
            if (memcmp(&got, &want, sizeof got) != 0)
                fail_msg("%s[%zu] is %g, not %g", mean.table.param[p].name, k, (double)got,
                         (double)want);
        }
    }
    for (int i = 0; i < n; i++) modeldir_close(&part[i]);
    modeldir_close(&mean);
}

TEST(is_the_mean) {
    struct err err = {0};
    struct config config = toy_config(), wet = config;
    wet.dropout = 0.3f; /* only training uses it */
    char *dir[] = {make_model("a", config, 1, DTYPE_F32, "spm"),
                   make_model("b", wet, 2, DTYPE_F32, "spm"),
                   make_model("c", config, 3, DTYPE_BF16, "spm")};
    char *out = path_join(test_dir(), "deep/mean"), *spm = path_join(out, MODELDIR_TOKENIZER);
    ASSERT_OK(average_models(out, (const char *const *)dir, 3, &err), err);
    check_mean(out, dir, 3);
    assert_true(file_exists(spm));
    ASSERT_OK(average_models(out, (const char *const *)dir, 1, &err), err); /* again, of one */
    check_mean(out, dir, 1);
    for (int i = 0; i < 3; i++) xfree(dir[i]);
    xfree(out);
    xfree(spm);
}

TEST(refuses_strangers) {
    struct err err = {0};
    struct config config = toy_config(), other = config, pre = config;
    other.d_ff = 24;
    pre.norm = NORM_PRE;
    char *a = make_model("a", config, 1, DTYPE_F32, "spm"),
         *wide = make_model("wide", other, 2, DTYPE_F32, "spm"),
         *norm = make_model("norm", pre, 2, DTYPE_F32, "spm"),
         *words = make_model("words", config, 2, DTYPE_F32, "other"),
         *none = make_model("none", config, 2, DTYPE_F32, NULL);
    char *out = path_join(test_dir(), "out");
    ASSERT_ERR(average_models(out, (const char *[]){a, wide}, 2, &err), err, HEED_EINVAL,
               "d_ff is 56 in");
    ASSERT_ERR(average_models(out, (const char *[]){a, norm}, 2, &err), err, HEED_EINVAL,
               "norm is post in");
    ASSERT_ERR(average_models(out, (const char *[]){a, words}, 2, &err), err, HEED_EINVAL,
               "different tokenizers");
    ASSERT_ERR(average_models(out, (const char *[]){a, none}, 2, &err), err, HEED_EINVAL,
               "different tokenizers");
    ASSERT_ERR(average_models(out, (const char *[]){a, "no/such"}, 2, &err), err, HEED_EIO,
               "no/such");
    assert_false(file_exists(out));
    char *all[] = {a, wide, norm, words, none, out};
    for (int i = 0; i < 6; i++) xfree(all[i]);
}

/* ---- replacing ------------------------------------------------------------------------------- */

/* Every file of the directory is of one model, whose d_ff is returned. */
static int whole(const char *out) {
    struct err err = {0};
    struct modeldir md;
    ASSERT_OK(modeldir_open(&md, out, &err), err);
    int d_ff = md.config.d_ff;
    modeldir_close(&md);
    return d_ff;
}

/* A directory with a model of another shape is replaced as a whole or not at all, whatever call
 * fails or is the last one. */
TEST(replaces_all_or_nothing) {
    struct err err = {0};
    struct config config = toy_config(), other = config;
    int error = strcmp(TEST_ARG, "ENOSPC") == 0 ? ENOSPC : 0, done = 0, n = 0;
    other.d_ff = 24;
    char *a = make_model("a", config, 1, DTYPE_F32, "one");
    const char *from[] = {a};
    char *out = path_join(test_dir(), "out"), *guest = path_join(out, "README");
    for (; !done; n++) {
        assert_true(n < 1000);
        xfree(make_model("out", other, 2, DTYPE_F32, "two"));
        ASSERT_OK(file_write_all(guest, "x", 1, &err), err);
        err = (struct err){0};
        if (error) {
            faults_arm(n + 1, error);
            done = average_models(out, from, 1, &err) == 0;
            faults_disarm();
            int intact = whole(out) == other.d_ff;
            if (!done && strstr(err.msg, "intact") && !intact) fail_msg("not so: %s", err.msg);
            if (!done && (!strstr(err.msg, out) || strstr(err.msg, ".tmp")))
                fail_msg("of what? %s", err.msg);
        } else {
            int status;
            pid_t pid = fork();
            assert_true(pid >= 0);
            if (pid == 0) {
                faults_arm(n + 1, 0);
                _exit(average_models(out, from, 1, &err) ? 1 : 0);
            }
            assert_int_equal(waitpid(pid, &status, 0), pid);
            done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            whole(out);
        }
    }
    assert_true(n > 10); /* the hooks are in the way of something */
    assert_int_equal(whole(out), config.d_ff);
    assert_true(file_exists(guest));
    struct dir_names left;
    ASSERT_OK(dir_read(&left, test_dir(), &err), err);
    for (int i = 0; error && i < left.n; i++) assert_null(strstr(left.name[i], ".tmp"));
    dir_names_release(&left);
    xfree(a);
    xfree(out);
    xfree(guest);
}

static struct file_calls real_calls;
static int no_errno, moves_left;

static int no_exchange(const char *a, const char *b) {
    (void)a, (void)b;
    errno = no_errno;
    return -1;
}

/* One move fails; what has "data" in its name, which may be a mount point, always does. */
static int fail_move(const char *a, const char *b) {
    errno = EBUSY;
    return strstr(a, "/data") || --moves_left == 0 ? -1 : real_calls.rename(a, b);
}

/* A file system that cannot exchange two names, and a link in the place of the directory. */
TEST(replaces_everywhere) {
    static const int why[] = {EINVAL, EXDEV, EBUSY, EPERM};
    struct err err = {0};
    struct config config = toy_config(), other = config;
    other.d_ff = 24;
    char *a = make_model("a", config, 1, DTYPE_F32, "one"),
         *b = make_model("b", other, 2, DTYPE_F32, NULL);
    char *out = path_join(test_dir(), "out"), *link = path_join(test_dir(), "link"),
         *spm = path_join(out, MODELDIR_TOKENIZER);
    real_calls = file_calls;
    for (int i = 0; i < 4; i++) {
        xfree(make_model("out", other, 3, DTYPE_F32, "two"));
        file_calls.exchange = no_exchange;
        no_errno = why[i];
        ASSERT_OK(average_models(out, (const char *[]){a}, 1, &err), err);
        assert_int_equal(whole(out), config.d_ff);
        file_calls = real_calls;
    }
    assert_int_equal(symlink("out", link), 0);
    ASSERT_OK(average_models(link, (const char *[]){b}, 1, &err), err);
    assert_int_equal(whole(out), other.d_ff);
    assert_false(file_exists(spm)); /* that of another model */
    assert_int_equal(chdir(out), 0);
    ASSERT_OK(average_models(".", (const char *[]){a}, 1, &err), err);
    assert_int_equal(whole("."), config.d_ff); /* not in a removed directory */
    assert_int_equal(whole(out), config.d_ff);
    ASSERT_ERR(average_models("/proc/x", (const char *[]){a}, 1, &err), err, HEED_EIO,
               "/proc/x: cannot be created: No such file");
    char *all[] = {a, b, out, link, spm};
    for (int i = 0; i < 5; i++) xfree(all[i]);
}

/* A directory that has others in it stays, and the files change one by one: after a failure all are
 * the old ones, after a kill it is the old model, the new one or none. */
TEST(replaces_one_by_one) {
    struct err err = {0};
    struct config config = toy_config(), other = config;
    int dies = strcmp(TEST_ARG, "die") == 0, done = 0, n = 0;
    other.d_ff = 24;
    char *a = make_model("a", config, 1, DTYPE_F32, "one"), *out = path_join(test_dir(), "out");
    char *guest = path_join(out, "README"), *data = path_join(out, "data"),
         *settings = path_join(out, MODELDIR_CONFIG);
    real_calls = file_calls;
    for (; !done; n++) {
        assert_true(n < 1000);
        xfree(make_model("out", other, 2, DTYPE_F32, "two"));
        ASSERT_OK(file_write_all(guest, "x", 1, &err), err);
        ASSERT_OK(dir_make(data, &err), err);
        moves_left = n + 4; /* the first three are in temp */
        pid_t pid = dies ? fork() : 0;
        assert_true(pid >= 0);
        if (dies && pid == 0) faults_arm(n + 1, 0);
        if (!dies) file_calls.rename = fail_move;
        if (pid == 0) done = average_models(out, (const char *[]){a}, 1, &err) == 0;
        file_calls = real_calls;
        if (dies && pid == 0) _exit(!done);
        if (dies) {
            int status;
            assert_int_equal(waitpid(pid, &status, 0), pid);
            done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            if (file_exists(settings)) whole(out);
        } else if (!done) {
            assert_int_equal(whole(out), other.d_ff);
            assert_non_null(strstr(err.msg, "out: cannot be replaced: Device or resource busy; "
                                            "what was there before is intact"));
        }
        assert_true(file_exists(guest) && dir_exists(data));
    }
    assert_true(n > 6);
    assert_int_equal(whole(out), config.d_ff);
    struct dir_names left;
    ASSERT_OK(dir_read(&left, out, &err), err);
    if (!dies) assert_int_equal(left.n, 5);
    dir_names_release(&left);
    char *all[] = {a, out, guest, data, settings};
    for (int i = 0; i < 5; i++) xfree(all[i]);
}

/* ---- where ----------------------------------------------------------------------------------- */

TEST(keeps_off_what_is_there) {
    struct err err = {0};
    struct config config = toy_config();
    char *model = make_model("model", config, 1, DTYPE_F32, "spm"),
         *run = make_model("run", config, 2, DTYPE_F32, "spm"),
         *last = make_model("run/ckpt-00000003", config, 2, DTYPE_F32, "spm"),
         *moments = path_join(last, "state.safetensors"), *inner = path_join(run, "mean"),
         *lock = path_join(model, "lock"), *none = path_join(test_dir(), "none");
    const char *from[] = {last, model};
    ASSERT_OK(file_write_all(moments, "", 0, &err), err);
    ASSERT_OK(target_for_model(none, from, 2, 0, &err), err);
    ASSERT_OK(target_for_model(inner, from, 2, 0, &err), err);
    ASSERT_ERR(target_for_model(model, from, 2, 1, &err), err, HEED_EINVAL, "one of the models");
    ASSERT_ERR(target_for_model(last, from + 1, 1, 1, &err), err, HEED_EIO, "training run");
    ASSERT_ERR(target_for_model(run, from, 2, 1, &err), err, HEED_EIO, "training run");
    ASSERT_ERR(target_for_model(moments, from, 2, 1, &err), err, HEED_EIO, "not a directory");
    ASSERT_ERR(target_for_model(model, from, 1, 0, &err), err, HEED_EIO, "--overwrite");
    ASSERT_OK(target_for_model(model, from, 1, 1, &err), err);
    int held;
    ASSERT_OK(file_lock(&held, lock, &err), err);
    ASSERT_ERR(target_for_model(model, from, 1, 1, &err), err, HEED_EIO, "lock");
    file_unlock(held);
    ASSERT_OK(target_for_run(none, 0, &err), err);
    ASSERT_OK(target_for_run(run, 0, &err), err);
    ASSERT_ERR(target_for_run(model, 0, &err), err, HEED_EIO, "finished model");
    ASSERT_OK(target_for_run(model, 1, &err), err);
    ASSERT_OK(target_clear(model, &err), err);
    ASSERT_OK(target_for_run(model, 0, &err), err);
    char *all[] = {model, run, last, moments, inner, lock, none};
    for (int i = 0; i < 7; i++) xfree(all[i]);
}

TESTS(T(is_the_mean), T(refuses_strangers), TP(replaces_all_or_nothing, "ENOSPC"),
      TP(replaces_all_or_nothing, "die"), T(replaces_everywhere), TP(replaces_one_by_one, "EBUSY"),
      TP(replaces_one_by_one, "die"), T(keeps_off_what_is_there))
