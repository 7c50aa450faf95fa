/* test_average.c — averaging models: the mean it is, and models that do not belong together. */
#include "base/mem.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"
#include "train/average.h"

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
    ASSERT_OK(modeldir_init(dir, &toy.model->config, NULL, NULL, &err), err);
    struct weights_options options = {.step = (int64_t)seed, .type = type};
    ASSERT_OK(model_save(toy.model, weights, &options, &err), err);
    if (tokenizer) ASSERT_OK(file_write_all(spm, tokenizer, strlen(tokenizer), &err), err);
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
               "norm is \"post\" in");
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

TESTS(T(is_the_mean), T(refuses_strangers))
