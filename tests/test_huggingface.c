/* test_huggingface.c — the reader of Hugging Face's models: what it finds in those of
 * tools/import_models.py, and settings that it refuses. test_import_models.sh compares what they
 * compute. */
#include <unistd.h>

#include "backend/ops.h"
#include "base/file.h"
#include "base/mem.h"
#include "convert/import.h"
#include "io/json.h"
#include "test.h"

#define MODELS "tests/data/import/"

static void open_model(struct import *import, const char *path) {
    struct err err = {0};
    struct import_options options = {.path = path};
    ASSERT_OK(import_open(import, &options, &err), err);
}

static void expect_translate(const struct foreign *m, const char *text) {
    json_t *want;
    struct err err = {0};
    ASSERT_OK(json_in_text(&want, text, strlen(text), "want", &err), err);
    assert_true(json_equal(m->translate, want));
    json_decref(want);
}

TEST(marian) {
    struct import import;
    open_model(&import, MODELS "hf-marian");
    const struct foreign *m = &import.model;
    assert_string_equal(m->format, "Hugging Face, marian");
    assert_int_equal(m->config.norm, NORM_POST);
    assert_int_equal(m->config.tie, TIE_ALL);
    assert_int_equal(m->config.activation, ACT_SILU);
    assert_int_equal(m->config.output_bias, 1);
    assert_int_equal(m->config.n_vocab_src, 83);
    assert_int_equal(m->source.n_token, 83);
    assert_int_equal(m->positions, FOREIGN_TABLE);
    assert_null(m->target.token);
    assert_int_equal(m->start, 82);
    assert_int_equal(m->end, 0);
    assert_int_equal(m->unknown, 1);
    assert_int_equal(m->n_banned, 1);
    assert_int_equal(m->banned[0], 82);
    assert_int_equal(m->languages.n, 2);
    assert_string_equal(m->languages.before_source, "target");
    assert_null(m->languages.before_target);
    assert_string_equal(m->languages.code[1], "xxb");
    assert_string_equal(m->languages.token[1], ">>xxb<<");
    assert_null(m->card.source);
    expect_translate(m, "{\"beam\": 1, \"alpha\": 1.0, \"length_rule\": \"power\","
                        " \"max_length\": 63}");
    import_close(&import);
}

TEST(two_vocabularies) {
    struct import import;
    open_model(&import, MODELS "hf-marian-zip");
    const struct foreign *m = &import.model;
    assert_int_equal(m->config.tie, TIE_TARGET);
    assert_int_equal(m->positions, FOREIGN_HALVES);
    assert_int_not_equal(m->source.n_token, m->target.n_token);
    assert_int_equal(m->target.n_token, m->config.n_vocab_tgt);
    assert_int_equal(m->start, m->target.n_token - 1);
    assert_string_equal(m->card.source, "en");
    assert_string_equal(m->card.target, "de");
    import_close(&import);
}

TEST(marks_elsewhere) {
    struct import import;
    open_model(&import, MODELS "hf-marian-legacy");
    const struct foreign *m = &import.model;
    assert_int_equal(m->end, 18);
    assert_int_equal(m->unknown, m->source.n_token - 2);
    assert_int_equal(m->config.d_ff_dec, 24);
    import_close(&import);
}

/* Pre-norm, languages on both sides. */
static void expect_multilingual(const char *path, const char *code, int n, const char *token) {
    struct import import;
    open_model(&import, path);
    const struct foreign *m = &import.model;
    assert_int_equal(m->config.norm, NORM_PRE);
    assert_int_equal(m->config.output_bias, 0);
    assert_int_equal(m->start, 2);
    assert_int_equal(m->end, 2);
    assert_int_equal(m->unknown, 3);
    assert_int_equal(m->first_position, 2);
    assert_int_equal(m->languages.n, n);
    assert_string_equal(m->languages.code[0], code);
    assert_string_equal(m->languages.token[0], token);
    assert_string_equal(m->languages.before_source, "source");
    assert_string_equal(m->languages.before_target, "target");
    assert_int_equal(m->source.n_token, m->config.n_vocab_src);
    for (int i = 0; i < m->source.n_token; i++) assert_non_null(m->source.token[i]);
    import_close(&import);
}

TEST(multilingual) {
    expect_multilingual(MODELS "hf-m2m", "xa", 3, "__xa__");
    expect_multilingual(MODELS "hf-nllb", "xaa_Latn", 2, "xaa_Latn");
    expect_multilingual(MODELS "hf-mbart", "xa_XA", 2, "xa_XA");
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* A copy of the model in the test's directory, one field of one of its files another one: `json`,
 * or removed (""). xfree. */
static char *change(const char *model, const char *file, const char *key, const char *json) {
    struct dir_names names;
    struct err err = {0};
    char *dir = path_join(test_dir(), "model");
    ASSERT_OK(dir_remove(dir, &err), err);
    ASSERT_OK(dir_make(dir, &err), err);
    ASSERT_OK(dir_read(&names, model, &err), err);
    for (int i = 0; i < names.n; i++) {
        char *from = path_join(model, names.name[i]), *to = path_join(dir, names.name[i]);
        ASSERT_OK(file_copy(to, from, &err), err);
        xfree(from);
        xfree(to);
    }
    dir_names_release(&names);
    char *path = path_join(dir, file);
    json_t *all, *value;
    ASSERT_OK(json_in_file(&all, path, &err), err);
    if (*json) {
        value = json_loads(json, JSON_DECODE_ANY, NULL);
        assert_non_null(value);
        json_object_set_new(all, key, value);
    } else {
        json_object_del(all, key);
    }
    ASSERT_OK(json_out_file(path, all, &err), err);
    json_decref(all);
    xfree(path);
    return dir;
}

static void refuse(const char *model, const char *file, const char *key, const char *json,
                   const char *part) {
    struct import import;
    struct err err = {0};
    char *dir = change(model, file, key, json);
    struct import_options options = {.path = dir};
    ASSERT_ERR(import_open(&import, &options, &err), err, HEED_EFORMAT, part);
    import_close(&import);
    xfree(dir);
}

TEST(settings) {
    static const struct {
        const char *key, *json, *part;
    } bad[] = {
        {"model_type", "\"t5\"", "model_type: expected marian, m2m_100 or mbart, got \"t5\""},
        {"activation_function", "\"gelu_new\"", "activation_function: expected relu, gelu"},
        {"d_model", "", "d_model: expected a size, got nothing"},
        {"d_model", "-16", "d_model: expected a size, got -16"},
        {"encoder_layers", "\"1\"", "encoder_layers: expected a size"},
        {"decoder_layers", "0", "model.decoder.layers.0"},
        {"decoder_attention_heads", "4", "as many as encoder_attention_heads, got 4"},
        {"vocab_size", "80", "has the id 80; the model has 80 tokens"},
        {"vocab_size", "100000000", "vocab_size: expected a size"},
        {"forced_bos_token_id", "5", "forced_bos_token_id: expected nothing, got 5"},
        {"no_repeat_ngram_size", "\"x\"", "no_repeat_ngram_size: expected a number"},
        {"dropout", "1", "dropout: expected a number from 0 to below 1, got 1"},
        {"length_penalty", "\"x\"", "length_penalty: expected a number"},
        {"suppress_tokens", "[[1]]", "suppress_tokens: expected a short list of ids"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        refuse(MODELS "hf-marian", "config.json", bad[i].key, bad[i].json, bad[i].part);
    refuse(MODELS "hf-marian", "generation_config.json", "bad_words_ids", "[[1, 2]]",
           "bad_words_ids: expected a list of single ids");
    refuse(MODELS "hf-marian", "generation_config.json", "eos_token_id", "[0, 1]",
           "eos_token_id: expected one id");
    refuse(MODELS "hf-marian", "vocab.json", "<unk>", "", "the vocabulary has no <unk>");
    refuse(MODELS "hf-marian", "vocab.json", "x", "0", "have the same id, 0");
    refuse(MODELS "hf-marian", "vocab.json", "x", "\"0\"", "'x' has the id -1");
    refuse(MODELS "hf-mbart", "tokenizer_config.json", "tokenizer_class", "\"MBartTokenizer\"",
           "tokenizer_class is MBartTokenizer");
    refuse(MODELS "hf-nllb", "tokenizer_config.json", "added_tokens_decoder", "",
           "no tokens of languages");
    refuse(MODELS "hf-m2m", "tokenizer_config.json", "tokenizer_class", "\"SMALL100Tokenizer\"",
           "tokenizer_class is SMALL100Tokenizer");
    refuse(MODELS "hf-m2m", "model.safetensors.index.json", "weight_map",
           "{\"a\": \"../../x.safetensors\"}", "there is no file '../../x.safetensors'");
    refuse(MODELS "hf-m2m", "model.safetensors.index.json", "weight_map", "[]",
           "there is no weight_map");
}

/* Whatever is found can be read to its last element. */
static void touch(const struct foreign *m, const struct foreign_role *role) {
    struct foreign_mat mat = {0};
    struct err err = {0};
    if (m->find(m, role, &mat, &err) || !mat.data) return;
    int64_t last = mat.transposed ? (mat.cols - 1) * mat.ld + mat.rows - 1
                                  : (mat.rows - 1) * mat.ld + mat.cols - 1;
    size_t size = foreign_type_size(mat.type);
    char element[4];
    memcpy(element, (const char *)mat.data + (size_t)last * size, size);
}

static void touch_all(const char *dir) {
    struct import import;
    struct err err = {0};
    struct import_options options = {.path = dir};
    int rc = import_open(&import, &options, &err);
    for (int i = 0; i < 2 * 2 * 4 * (THE_NORM + 1) && !rc; i++) {
        struct foreign_role role = {.decoder = i & 1,
                                    .bias = i >> 1 & 1,
                                    .place = (enum foreign_place)(i >> 2 & 3),
                                    .what = (enum foreign_what)(i >> 4)};
        int outside = role.what <= THE_OUTPUT;
        if (outside == (role.place == IN_STACK) && role.what != THE_CELL && role.what != THE_GATE)
            touch(&import.model, &role);
    }
    import_close(&import);
}

/* A bit turned in one of the files, or the file cut there. */
TEST(damaged) {
    char model[100], *dir;
    struct dir_names names;
    struct err err = {0};
    snprintf(model, sizeof model, MODELS "%s", TEST_ARG);
    dir = change(model, "config.json", "none", "");
    ASSERT_OK(dir_read(&names, dir, &err), err);
    for (int i = 0; i < names.n; i++) {
        char *path = path_join(dir, names.name[i]), *bytes;
        size_t size, step;
        ASSERT_OK(file_read_all(&bytes, &size, path, 1 << 20, &err), err);
        step = size / 30 + 1;
        for (size_t at = 7 * (size_t)i % step; at < size; at += step)
            for (int cut = 0; cut < 2; cut++) {
                FILE *f = fopen(path, "wb"); /* no temporary file, no sync */
                bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
                assert_int_equal(fwrite(bytes, 1, cut ? at : size, f), cut ? at : size);
                assert_int_equal(fclose(f), 0);
                bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
                touch_all(dir);
            }
        ASSERT_OK(file_write_all(path, bytes, size, &err), err);
        xfree(bytes);
        xfree(path);
    }
    dir_names_release(&names);
    xfree(dir);
}

/* A tensor is there, but not where the model has one: as if of another architecture. */
TEST(other_tensors) {
    refuse(MODELS "hf-mbart", "config.json", "model_type", "\"m2m_100\"",
           "'model.decoder.layernorm_embedding.bias', which a m2m_100 model does not");
}

TESTS(T(marian), T(two_vocabularies), T(marks_elsewhere), T(multilingual), T(settings),
      T(other_tensors), TP(damaged, "hf-marian-zip"), TP(damaged, "hf-marian-legacy"),
      TP(damaged, "hf-m2m"), TP(damaged, "hf-mbart"))
