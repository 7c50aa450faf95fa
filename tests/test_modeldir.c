/* test_modeldir.c — config.json and model directories: round trips, and every refusal says what and
 * where. */
#include <unistd.h>

#include "base/half.h"
#include "base/mem.h"
#include "io/json.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"

static const struct backend_options on_cpu = {.device = "cpu", .n_thread = 1};

static void write_config(const char *text) {
    struct err err = {0};
    char *path = path_join(test_dir(), "config.json");
    ASSERT_OK(file_write_all(path, text, strlen(text), &err), err);
    xfree(path);
}

static void expect_refused(const char *text, int status, const char *part) {
    struct err err = {0};
    struct config config;
    write_config(text);
    ASSERT_ERR(modeldir_read_config(test_dir(), &config, NULL, &err), err, status, part);
    assert_non_null(strstr(err.msg, "config.json"));
}

/* ---- config ---------------------------------------------------------------------------------- */

TEST(config_round_trip) {
    struct err err = {0};
    struct config config = toy_config(), back;
    config.dropout = 0.1f;
    config.attention_dropout = 0.123456789f;
    config.norm_eps = 1e-6f;
    config.norm = NORM_PRE;
    config.activation = ACT_GELU;
    config.tie = TIE_TARGET;
    ASSERT_OK(config_check(&config, &err), err);
    struct model_notes kept,
        notes = {.training = json_pack("{s:i, s:{s:f}}", "steps", 100, "nested", "lr", 0.5),
                 .card = json_pack("{s:s, s:s}", "source", "en", "licence", "CC-BY-4.0"),
                 .translate = json_pack("{s:i}", "beam", 6)};
    ASSERT_OK(modeldir_write_config(test_dir(), &config, &notes, &err), err);
    ASSERT_OK(modeldir_read_config(test_dir(), &back, &kept, &err), err);
    assert_memory_equal(&config, &back, sizeof config);
    assert_true(json_equal(notes.training, kept.training));
    assert_true(json_equal(notes.card, kept.card));
    assert_true(json_equal(notes.translate, kept.translate));
    model_notes_release(&notes);
    model_notes_release(&kept);
    char *path = path_join(test_dir(), "config.json"), *text;
    size_t size;
    ASSERT_OK(file_read_all(&text, &size, path, 1 << 20, &err), err);
    assert_non_null(strstr(text, "\"dropout\": 0.1,")); /* not 0.100000001490116 */
    assert_non_null(strstr(text, "\"norm\": \"pre\""));
    xfree(text);
    xfree(path);
}

static char *config_text(const struct config *config) {
    struct err err = {0};
    char *path = path_join(test_dir(), "config.json"), *text;
    size_t size;
    ASSERT_OK(modeldir_write_config(test_dir(), config, NULL, &err), err);
    ASSERT_OK(file_read_all(&text, &size, path, 1 << 20, &err), err);
    xfree(path);
    return text;
}

/* Fields with a default are in the file only where they differ, so that older files are whole. */
TEST(config_defaults) {
    struct err err = {0};
    struct config config = toy_config(), foreign = toy_ssru_config(), back;
    char *text = config_text(&config);
    assert_null(strstr(text, "output_bias"));
    assert_null(strstr(text, "embed_norm"));
    assert_null(strstr(text, "d_ff_dec"));
    assert_null(strstr(text, "decoder"));
    assert_null(strstr(text, "mask"));
    assert_null(strstr(text, "score_scale"));
    ASSERT_OK(modeldir_read_config(test_dir(), &back, NULL, &err), err);
    assert_memory_equal(&config, &back, sizeof config);
    xfree(text);
    text = config_text(&foreign);
    assert_non_null(strstr(text, "\"output_bias\": true"));
    assert_non_null(strstr(text, "\"embed_norm\": true"));
    assert_non_null(strstr(text, "\"d_ff_dec\": 72"));
    assert_non_null(strstr(text, "\"decoder\": \"ssru\""));
    ASSERT_OK(modeldir_read_config(test_dir(), &back, NULL, &err), err);
    assert_memory_equal(&foreign, &back, sizeof config);
    xfree(text);
    config.mask = MASK_NONE;
    config.score_scale = SCORE_SCALE_ONE;
    text = config_text(&config);
    assert_non_null(strstr(text, "\"mask\": \"none\""));
    assert_non_null(strstr(text, "\"score_scale\": \"one\""));
    ASSERT_OK(modeldir_read_config(test_dir(), &back, NULL, &err), err);
    assert_memory_equal(&config, &back, sizeof config);
    xfree(text);
    foreign.mask = MASK_NONE;
    assert_int_equal(config_check(&foreign, &err), HEED_ECONFIG);
    assert_non_null(strstr(err.msg, "ssru"));
    foreign.mask = MASK_CAUSAL;
    foreign.d_ff_dec = foreign.d_ff; /* says nothing */
    ASSERT_OK(config_check(&foreign, &err), err);
    assert_int_equal(foreign.d_ff_dec, 0);
    assert_int_equal(config_d_ff(&foreign, 1), foreign.d_ff);
}

/* The toy's config.json with one word replaced by another. */
static void expect_refused_with(const char *what, const char *by, int status, const char *part) {
    struct err err = {0};
    struct config config = toy_config();
    ASSERT_OK(config_check(&config, &err), err);
    ASSERT_OK(modeldir_write_config(test_dir(), &config, NULL, &err), err);
    char *path = path_join(test_dir(), "config.json"), *text;
    size_t size;
    ASSERT_OK(file_read_all(&text, &size, path, 1 << 20, &err), err);
    char *at = strstr(text, what);
    if (!at) fail_msg("no '%s' in the file", what);
    char *changed = xmalloc(size + strlen(by) + 1);
    memcpy(changed, text, (size_t)(at - text));
    strcpy(changed + (at - text), by);
    strcat(changed, at + strlen(what));
    expect_refused(changed, status, part);
    xfree(changed);
    xfree(text);
    xfree(path);
}

TEST(config_refused) {
    expect_refused("", HEED_EFORMAT, "config.json:1:");
    expect_refused("[]", HEED_EFORMAT, "expected an object, got a list");
    expect_refused("{\n\n\"format\" \"heed\"}", HEED_EFORMAT, "config.json:3:");
    expect_refused("{}", HEED_EFORMAT, "format: expected a string, got nothing");
    expect_refused("{\"format\": \"other\"}", HEED_EFORMAT,
                   "format: expected \"heed\", got \"other\"");
    expect_refused_with("\"version\": 1", "\"version\": 3", HEED_EFORMAT,
                        "version 3 is not supported");
    expect_refused_with("\"d_model\": 40", "\"d_model\": \"x\"", HEED_EFORMAT,
                        "d_model: expected a whole number, got \"x\"");
    expect_refused_with("\"d_model\": 40", "\"d_model\": 40.0", HEED_EFORMAT, "got 40.0");
    expect_refused_with("\"d_model\": 40", "\"d_model\": -40", HEED_EFORMAT, "d_model: -40");
    expect_refused_with("\"d_model\": 40", "\"d_model\": 9223372036854775807", HEED_EFORMAT,
                        "d_model: 922337203685477");
    expect_refused_with("\"d_model\": 40", "\"d_modle\": 40", HEED_EFORMAT, "'d_model' is missing");
    expect_refused_with("\"d_model\": 40", "\"d_model\": 40, \"d_modle\": 40", HEED_EFORMAT,
                        "no field 'd_modle'");
    expect_refused_with("\"d_model\": 40", "\"d_model\": 40, \"d_model\": 41", HEED_EFORMAT,
                        "duplicate");
    expect_refused_with("\"norm\": \"post\"", "\"norm\": \"both\"", HEED_EFORMAT,
                        "'both' is not one of post, pre");
    expect_refused_with("\"norm\": \"post\"", "\"norm\": 1", HEED_EFORMAT,
                        "expected a string, got 1");
    expect_refused_with("\"window\": 0", "\"window\": 0, \"output_bias\": 1", HEED_EFORMAT,
                        "output_bias: neither true nor false");
    expect_refused_with("\"window\": 0", "\"window\": 0, \"d_ff_dec\": -1", HEED_EFORMAT,
                        "d_ff_dec: -1");
    expect_refused_with("\"window\": 0", "\"window\": null", HEED_EFORMAT, "got null");
    expect_refused_with("\"format\"", "\"extra\": 1, \"format\"", HEED_EFORMAT, "no field 'extra'");
    expect_refused_with("\"format\"", "\"training\": 1, \"format\"", HEED_EFORMAT,
                        "training: expected an object");
}

/* `what` as the value of "card" or "translate". */
static void expect_note_refused(const char *key, const char *what, const char *part) {
    char text[1024];
    snprintf(text, sizeof text, "\"%s\": %s, \"format\"", key, what);
    expect_refused_with("\"format\"", text, HEED_EFORMAT, part);
}

TEST(card_refused) {
    char text[512], letters[400];
    expect_note_refused("card", "[]", "card: expected an object, got a list");
    expect_note_refused("card", "{\"colour\": \"red\"}", "card: no field 'colour'");
    expect_note_refused("card", "{\"source\": 1}", "source: expected a string, got 1");
    expect_note_refused("card", "{\"source\": \"\"}", "card: source: is empty");
    static const char *const no_tags[] = {"e",      "en_US",        "en-",        "-en",
                                          "en--US", "en-123456789", "englischer", "e1",
                                          "en us",  "../en",        "d\xC3\xA9"};
    for (size_t i = 0; i < sizeof no_tags / sizeof *no_tags; i++) {
        snprintf(text, sizeof text, "{\"target\": \"%s\"}", no_tags[i]);
        expect_note_refused("card", text, "is not a language tag");
    }
    expect_note_refused("card", "{\"licence\": \"a\\u001b[2Jb\"}", "at byte 2 there is a control");
    expect_note_refused("card", "{\"licence\": \"a\\nb\"}", "at byte 2 there is a control");
    expect_note_refused("card", "{\"description\": \"ab\\u202e\"}", "at byte 3 there is a control");
    expect_note_refused("card", "{\"description\": \"\\u009b1m\"}", "at byte 1 there is a control");
    memset(letters, 'x', 301);
    letters[301] = 0;
    snprintf(text, sizeof text, "{\"description\": \"%s\"}", letters);
    expect_note_refused("card", text, "description: 301 bytes; at most 300");
    expect_note_refused("translate", "true", "translate: expected an object, got true");
}

TEST(card_languages) {
    struct err err = {0};
    static const char *const tags[] = {"en", "de-AT", "zh-Hant-TW", "sl-1994", "tlh"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        ASSERT_OK(card_check(&(struct card){.source = tags[i]}, &err), err);
    assert_true(card_speaks("de", "de") && card_speaks("de-AT", "de") && card_speaks("DE", "de"));
    assert_true(card_speaks("de-AT", "de-at") && card_speaks(NULL, NULL) && card_speaks("x", NULL));
    assert_false(card_speaks("de", "de-AT") || card_speaks("den", "de") || card_speaks(NULL, "de"));
    assert_false(card_speaks("", "de"));
}

/* Only the notes change, and what binds the tokenizer stays. */
TEST(annotates) {
    struct err err = {0};
    struct config config = toy_config(), back;
    struct model_notes kept, notes = {.training = json_pack("{s:i}", "steps", 1)},
                             more = {.card = json_pack("{s:s}", "source", "en"),
                                     .translate = json_pack("{s:i}", "beam", 6)};
    char *path = path_join(test_dir(), MODELDIR_CONFIG), *first, *last;
    char *tokenizer = path_join(test_dir(), MODELDIR_TOKENIZER);
    size_t size, n;
    ASSERT_OK(config_check(&config, &err), err);
    ASSERT_OK(file_write_all(tokenizer, "one", 3, &err), err);
    ASSERT_OK(modeldir_write_config(test_dir(), &config, &notes, &err), err);
    ASSERT_OK(file_read_all(&first, &size, path, 1 << 20, &err), err);
    ASSERT_OK(modeldir_annotate(test_dir(), &more, &err), err);
    ASSERT_OK(modeldir_read_config(test_dir(), &back, &kept, &err), err);
    assert_true(json_equal(kept.card, more.card) && json_equal(kept.translate, more.translate));
    assert_true(json_equal(kept.training, notes.training));
    assert_memory_equal(&config, &back, sizeof config);
    ASSERT_OK(file_write_all(tokenizer, "another", 7, &err), err); /* must not be blessed */
    ASSERT_OK(modeldir_annotate(test_dir(), &(struct model_notes){0}, &err), err);
    ASSERT_OK(file_read_all(&last, &n, path, 1 << 20, &err), err);
    assert_string_equal(first, last);
    model_notes_release(&notes);
    model_notes_release(&more);
    model_notes_release(&kept);
    xfree(first);
    xfree(last);
    xfree(path);
    xfree(tokenizer);
}

TEST(json_limits) {
    struct err err = {0};
    json_t *value;
    enum { N = 100000 };
    char *deep = xmalloc(N + 1);
    memset(deep, '[', N);
    ASSERT_ERR(json_in_text(&value, deep, N, "w", &err), err, HEED_EFORMAT, "w:1: nested deeper");
    const char *quoted = "{\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\\\"[[\": 1}";
    ASSERT_OK(json_in_text(&value, quoted, strlen(quoted), "w", &err), err);
    json_decref(value);
    xfree(deep);
    char *path = path_join(test_dir(), "large"), *large = xcalloc(1, JSON_IN_MAX_SIZE + 1);
    ASSERT_OK(file_write_all(path, large, JSON_IN_MAX_SIZE + 1, &err), err);
    ASSERT_ERR(json_in_file(&value, path, &err), err, HEED_ELIMIT, "larger than");
    ASSERT_ERR(json_in_file(&value, "no/such", &err), err, HEED_EIO, "no/such: No such file");
    static const char marked[] = "\xEF\xBB\xBF{}", nul[] = "{\n\"a\": \"b\\u0000\"}";
    ASSERT_OK(file_write_all(path, marked, sizeof marked - 1, &err), err);
    ASSERT_OK(json_in_file(&value, path, &err), err);
    json_decref(value);
    ASSERT_ERR(json_in_text(&value, nul, sizeof nul - 1, "w", &err), err, HEED_EFORMAT,
               "w:2: a string contains the NUL character");
    struct json_in in;
    json_t *object =
        json_pack("{s:s}", "k", "a text that is much too long to be shown in an error");
    ASSERT_OK(json_in_begin(&in, object, "w", &err), err);
    int64_t i;
    ASSERT_ERR(json_in_int(&in, "k", &i, &err), err, HEED_EFORMAT, "got \"a text that");
    assert_non_null(strstr(err.msg, "..."));
    double d;
    ASSERT_ERR(json_in_real(&in, "k", &d, &err), err, HEED_EFORMAT, "w: k: expected a number");
    json_decref(object);
    xfree(large);
    xfree(path);
}

/* ---- weights --------------------------------------------------------------------------------- */

static void save(struct toy *toy, enum dtype type) {
    struct err err = {0};
    char *path = path_join(test_dir(), MODELDIR_WEIGHTS);
    struct weights_options options = {.step = 12, .type = type};
    ASSERT_OK(modeldir_init(test_dir(), &toy->model->config, NULL, NULL, &err), err);
    ASSERT_OK(model_save(toy->model, path, &options, &err), err);
    xfree(path);
}

TEST(weights_round_trip) {
    struct err err = {0};
    struct toy toy;
    struct model *back;
    struct modeldir md;
    struct config config = toy_config();
    int narrow = strcmp(TEST_ARG, "bf16") == 0;
    toy_open(&toy, &config, &on_cpu, DTYPE_F32, 32);
    ASSERT_OK(model_draw(toy.model, 3, &err), err);
    save(&toy, narrow ? DTYPE_BF16 : DTYPE_F32);
    ASSERT_OK(modeldir_open(&md, test_dir(), &err), err);
    assert_int_equal(md.step, 12);
    assert_string_equal(md.tensor[0]->dtype, narrow ? "BF16" : "F32");
    modeldir_close(&md);
    ASSERT_OK(model_load(&back, test_dir(), toy.be, DTYPE_F32, &err), err);
    const float *a = toy.model->flat, *b = back->flat;
    for (size_t i = 0; i < toy.model->table.n_elem; i++) {
        float want = narrow ? bf16_load(bf16_store(a[i])) : a[i];
        if (memcmp(&want, &b[i], sizeof want) != 0)
            fail_msg("value %zu: %g became %g", i, (double)want, (double)b[i]);
    }
    model_free(back);
    toy_close(&toy);
}

/* Imported weights may be F16. */
TEST(weights_in_f16) {
    struct err err = {0};
    struct toy toy;
    struct model *back;
    struct config config = toy_config();
    toy_open(&toy, &config, &on_cpu, DTYPE_F32, 32);
    const struct param_table *table = &toy.model->table;
    const float *flat = toy.model->flat;
    struct tensor_spec *spec = xcalloc((size_t)table->n_param, sizeof *spec);
    for (int i = 0; i < table->n_param; i++)
        spec[i] = (struct tensor_spec){
            table->param[i].name, "F16", 2, {table->param[i].rows, table->param[i].cols}};
    char *path = path_join(test_dir(), MODELDIR_WEIGHTS);
    struct safetensors_writer w;
    ASSERT_OK(modeldir_init(test_dir(), &config, NULL, NULL, &err), err);
    ASSERT_OK(safetensors_create(&w, path, spec, table->n_param, NULL, &err), err);
    for (int i = 0; i < table->n_param; i++)
        for (int64_t k = 0; k < spec[i].shape[0] * spec[i].shape[1]; k++)
            safetensors_write(&w, &(uint16_t){f16_store(flat[table->param[i].offset + (size_t)k])},
                              2);
    ASSERT_OK(safetensors_commit(&w, &err), err);
    ASSERT_OK(model_load(&back, test_dir(), toy.be, DTYPE_F32, &err), err);
    const float *b = back->flat;
    for (size_t i = 0; i < table->n_elem; i++) {
        assert_true(b[i] == f16_load(f16_store(flat[i])));
        assert_true(fabsf(b[i] - flat[i]) <= fabsf(flat[i]) * 0x1p-11f + 0x1p-25f);
    }
    model_free(back);
    xfree(path);
    xfree(spec);
    toy_close(&toy);
}

/* The weights rewritten by `change`, which gets the specs and may alter them. */
static void rewrite(const struct toy *toy, void (*change)(struct tensor_spec *spec, int *n)) {
    struct err err = {0};
    const struct param_table *table = &toy->model->table;
    int n = table->n_param;
    struct tensor_spec *spec = xcalloc((size_t)n + 1, sizeof *spec);
    for (int i = 0; i < n; i++)
        spec[i] = (struct tensor_spec){
            table->param[i].name, "F32", 2, {table->param[i].rows, table->param[i].cols}};
    change(spec, &n);
    char *path = path_join(test_dir(), MODELDIR_WEIGHTS);
    struct safetensors_writer w;
    ASSERT_OK(safetensors_create(&w, path, spec, n, NULL, &err), err);
    char *zeros = xcalloc(1, w.left);
    safetensors_write(&w, zeros, w.left);
    ASSERT_OK(safetensors_commit(&w, &err), err);
    xfree(zeros);
    xfree(path);
    xfree(spec);
}

static void change_nothing(struct tensor_spec *spec, int *n) { (void)spec, (void)n; }
static void drop_last(struct tensor_spec *spec, int *n) { (void)spec, --*n; }
static void rename_first(struct tensor_spec *spec, int *n) { (void)n, spec[0].name = "other"; }
static void add_one(struct tensor_spec *spec, int *n) {
    spec[(*n)++] = (struct tensor_spec){"extra.tensor", "F32", 1, {3}};
}
static void transpose(struct tensor_spec *spec, int *n) {
    (void)n;
    int64_t rows = spec[1].shape[0];
    spec[1].shape[0] = spec[1].shape[1];
    spec[1].shape[1] = rows;
}
static void flatten(struct tensor_spec *spec, int *n) {
    (void)n;
    spec[1].rank = 1;
    spec[1].shape[0] *= spec[1].shape[1];
}
static void make_ints(struct tensor_spec *spec, int *n) { (void)n, spec[1].dtype = "I32"; }

TEST(weights_refused) {
    static const struct {
        void (*change)(struct tensor_spec *, int *);
        const char *part;
    } cases[] = {{drop_last, "tensor 'dec.1.ff.beta' is missing"},
                 {rename_first, "tensor 'tgt_embed' is missing"},
                 {add_one, "the model has no tensor 'extra.tensor'"},
                 {transpose, "'enc.0.self.w_qkv' has shape [40, 120], the model's is [120, 40]"},
                 {flatten, "'enc.0.self.w_qkv' has shape [4800]"},
                 {make_ints, "'enc.0.self.w_qkv' is I32, not F32, BF16 or F16"}};
    struct err err = {0};
    struct toy toy;
    struct modeldir md;
    struct config config = toy_config();
    toy_open(&toy, &config, &on_cpu, DTYPE_F32, 32);
    save(&toy, DTYPE_F32);
    rewrite(&toy, change_nothing); /* vectors as [1, n] are fine, too */
    ASSERT_OK(modeldir_open(&md, test_dir(), &err), err);
    assert_int_equal(md.step, -1);
    modeldir_close(&md);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rewrite(&toy, cases[i].change);
        ASSERT_ERR(modeldir_open(&md, test_dir(), &err), err, HEED_EFORMAT, cases[i].part);
    }
    struct model *model;
    ASSERT_ERR(model_load(&model, "no/such", toy.be, DTYPE_F32, &err), err, HEED_EIO, "no/such");
    assert_null(model);
    toy_close(&toy);
}

TEST(init_copies_the_tokenizer) {
    struct err err = {0};
    struct config config = toy_config();
    char *tokenizer = path_join(test_dir(), "t.model"), *dir = path_join(test_dir(), "a/b");
    ASSERT_OK(config_check(&config, &err), err);
    ASSERT_OK(file_write_all(tokenizer, "spm", 3, &err), err);
    ASSERT_OK(modeldir_init(dir, &config, NULL, tokenizer, &err), err);
    char *copy = path_join(dir, MODELDIR_TOKENIZER), *text;
    size_t size;
    ASSERT_OK(modeldir_init(dir, &config, NULL, copy, &err), err); /* onto itself */
    ASSERT_OK(file_read_all(&text, &size, copy, 100, &err), err);
    assert_string_equal(text, "spm");
    ASSERT_ERR(modeldir_init(dir, &config, NULL, "no/such", &err), err, HEED_EIO, "no/such");
    xfree(text);
    xfree(copy);
    xfree(dir);
    xfree(tokenizer);
}

TESTS(T(config_round_trip), T(config_defaults), T(config_refused), T(card_refused),
      T(card_languages), T(annotates), T(json_limits), TP(weights_round_trip, "f32"),
      TP(weights_round_trip, "bf16"), T(weights_in_f16), T(weights_refused),
      T(init_copies_the_tokenizer))
