/* test_marian.c — the reader of Marian's models: what it finds in those of tools/import_models.py,
 * vocabularies that only look like YAML, and files that are damaged. test_import_models.sh compares
 * what they compute, test_import_marian.sh has what is refused. */
#include "test.h"

#include "backend/ops.h"
#include "base/mem.h"
#include "convert/assembly.h"
#include "convert/import.h"
#include "convert/marian_vocab.h"
#include "damage.h"
#include "io/marianbin.h"

#define MODELS "tests/data/import/"

static void open_model(struct import *import, const char *path) {
    struct err err = {0};
    struct import_options options = {.path = path};
    ASSERT_OK(import_open(import, &options, &err), err);
}

TEST(student) {
    struct import import;
    open_model(&import, MODELS "bergamot");
    const struct foreign *m = &import.model;
    assert_string_equal(m->format, "Marian");
    assert_string_equal(m->card.source, "de");
    assert_string_equal(m->card.target, "en");
    assert_int_equal(m->start, FOREIGN_ZERO);
    assert_int_equal(m->end, 0);
    assert_int_equal(m->unknown, 1);
    assert_int_equal(m->n_banned, 1);
    assert_int_equal(m->banned[0], 1);
    assert_int_equal(m->positions, FOREIGN_MARIAN);
    assert_int_equal(m->config.decoder, DECODER_SSRU);
    assert_int_equal(m->config.tie, TIE_ALL);
    assert_int_equal(m->config.activation, ACT_RELU);
    assert_float_equal(m->config.norm_eps, 1e-6, 1e-9);
    assert_int_equal(json_integer_value(json_object_get(m->translate, "beam")), 1);
    assert_string_equal(json_string_value(json_object_get(m->translate, "length_rule")), "power");
    /* [out, in] in the file already; one scale for all. */
    struct foreign_mat mat;
    struct foreign_role role = {.decoder = 1, .layer = 1, .place = IN_SSRU, .what = THE_GATE};
    assert_int_equal(m->find(m, &role, &mat, NULL), 0);
    assert_int_equal(mat.type, FOREIGN_I8);
    assert_int_equal(mat.n_scale, 1);
    assert_int_equal(mat.transposed, 0);
    assert_true(mat.x_scale > 1);
    role = (struct foreign_role){.decoder = 1, .what = THE_EMBEDDING};
    assert_int_equal(m->find(m, &role, &mat, NULL), 0);
    assert_true(mat.x_scale > 1); /* which is quantised itself */
    import_close(&import);
}

TEST(zip) {
    struct import import;
    open_model(&import, MODELS "opus-mt.zip");
    const struct foreign *m = &import.model;
    assert_int_equal(m->languages.n, 2);
    assert_string_equal(m->languages.code[1], "xxb");
    assert_string_equal(m->languages.token[1], ">>xxb<<");
    assert_string_equal(m->languages.before_source, "target");
    assert_non_null(m->source.token);
    assert_null(m->target.token);         /* one vocabulary, */
    assert_non_null(m->target.tokenizer); /* two ways to make its pieces */
    assert_int_equal(json_integer_value(json_object_get(m->translate, "beam")), 6);
    import_close(&import);
}

TEST(tied_layers) {
    struct import import;
    struct foreign_mat first, second;
    open_model(&import, MODELS "marian-bin-f16");
    const struct foreign *m = &import.model;
    struct foreign_role role = {.decoder = 1, .place = IN_FF, .what = THE_FIRST};
    assert_int_equal(m->find(m, &role, &first, NULL), 0);
    role.layer = 1;
    assert_int_equal(m->find(m, &role, &second, NULL), 0);
    assert_ptr_equal(first.data, second.data);
    assert_int_equal(first.type, FOREIGN_F16);
    assert_int_equal(first.rows, 24);
    assert_int_equal(first.transposed, 1);
    assert_int_equal(m->config.max_len, 64);
    assert_int_equal(m->positions, FOREIGN_TABLE);
    assert_int_equal(m->config.embed_norm, 1);
    import_close(&import);
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

static int read_yml(struct marian_vocab *vocab, const char *text, struct keep *keep,
                    struct err *err) {
    return marian_vocab_yml(vocab, text, strlen(text), "v.yml", keep, err);
}

TEST(vocabulary) {
    static const char text[] = "</s>: 0\n<unk>: 1\nnull: 3\n'it''s': 2\n\"\\\"\\\\\": 4\n"
                               "? \"\\xA0\"\n: 5\na: b: 6\r\n\\\": 7\n\"\\u00e4\": 8\n'''': 9\n";
    static const char *const want[] = {"</s>",     "<unk>", "it's", "null", "\"\\",
                                       "\xc2\xa0", "a: b",  "\\\"", "ä",    "'"};
    struct keep keep = {0};
    struct err err = {0};
    struct marian_vocab vocab;
    ASSERT_OK(read_yml(&vocab, text, &keep, &err), err);
    assert_int_equal(vocab.n, 10);
    for (int i = 0; i < vocab.n; i++) assert_string_equal(vocab.token[i], want[i]);
    keep_release(&keep);
}

TEST(bad_vocabulary) {
    static const char *const bad[][2] = {
        {"a: 0\nb: 2\n", "no token has the id 1"},
        {"a: 0\nb: 0\n", "v.yml:2: an id that is there already"},
        {"a: 0\nb\n", "v.yml:2: not a token and its id"},
        {"a: 0\n? b\n", "v.yml:2: a token without an id"},
        {"a: 0\n\"\\q\": 1\n", "v.yml:2: not well quoted"},
        {"a: 0\n\"\\n\": 1\n", "v.yml:2: not well quoted"},
        {"a: 0\n'': 1\n", "v.yml:2: not a token"},
        {"a: 999999999\n", "v.yml:1: an id that is too large"},
        {"", "a vocabulary without a token"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct keep keep = {0};
        struct err err = {0};
        struct marian_vocab vocab;
        assert_int_equal(read_yml(&vocab, bad[i][0], &keep, &err), HEED_EFORMAT);
        if (!strstr(err.msg, bad[i][1])) fail_msg("'%s' instead of '%s'", err.msg, bad[i][1]);
        keep_release(&keep);
    }
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void read_bin(const char *bytes, size_t size) {
    struct marianbin bin;
    struct err err = {0};
    int rc = marianbin_read(&bin, bytes, size, "damaged", &err);
    assert_int_equal(!rc, !err.msg[0]);
    unsigned sum = 0;
    for (int i = 0; i < bin.n; i++) {
        const struct tensor *t = &bin.item[i].tensor;
        const unsigned char *data = t->data;
        if (t->size) sum += data[0] + data[t->size - 1];
        assert_ptr_equal(marianbin_find(&bin, t->name), &bin.item[i]);
    }
    marianbin_release(&bin);
    assert_true(sum + 1 > 0);
}

TEST(damaged_bin) { damage_file(TEST_ARG, read_bin); }

/* The whole model with one file of it damaged, to the last number of every parameter. */
static void read_model(const char *path) {
    struct import import;
    struct assembly a;
    struct err err = {0};
    int rc = import_open(&import, &(struct import_options){.path = path}, &err);
    if (!rc && !(rc = assembly_init(&a, &import.model, &err))) {
        for (int i = 0; i < a.table.n_param; i++) {
            const struct param *p = &a.table.param[i];
            float *row = xmalloc((size_t)p->cols * sizeof *row);
            assembly_rows(&a, i, p->rows - 1, p->rows, row);
            xfree(row);
        }
        assembly_release(&a);
    }
    assert_int_equal(!rc, !err.msg[0]);
    import_close(&import);
}

static void put(const char *path, const char *bytes, size_t size) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* Cuts and turned bits every so many bytes of `file`, which is a model or lies in one. */
static void damage_model(const char *from, const char *model, const char *file, size_t step) {
    char *bytes, path[200], whole[200];
    size_t size;
    struct err err = {0};
    ASSERT_OK(file_read_all(&bytes, &size, from, 1 << 20, &err), err);
    snprintf(path, sizeof path, "%s/%s", test_dir(), file);
    snprintf(whole, sizeof whole, "%s/%s", test_dir(), model);
    for (size_t at = 0; at < size; at += step) {
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        put(path, bytes, size);
        read_model(whole);
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        put(path, bytes, at);
        read_model(whole);
    }
    put(path, bytes, size);
    read_model(whole);
    xfree(bytes);
}

static void copy(const char *from, const char *to) {
    char path[200];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/%s", test_dir(), to);
    ASSERT_OK(file_copy(path, from, &err), err);
}

TEST(damaged_zip) { damage_model(MODELS "opus-mt.zip", "damaged.zip", "damaged.zip", 211); }

TEST(damaged_npz) {
    char path[200];
    snprintf(path, sizeof path, "%s/npz", test_dir());
    ASSERT_OK(dir_make(path, &(struct err){0}), (struct err){0});
    copy(MODELS "marian-npz/vocab.spm", "npz/vocab.spm");
    copy(MODELS "marian-npz/model.npz", "npz/model.npz");
    damage_model(MODELS "marian-npz/decoder.yml", "npz", "npz/decoder.yml", 3);
    damage_model(MODELS "marian-npz/vocab.spm", "npz", "npz/vocab.spm", 11);
    damage_model(MODELS "marian-npz/model.npz", "npz", "npz/model.npz", 211);
}

TESTS(T(student), T(zip), T(tied_layers), T(vocabulary), T(bad_vocabulary),
      TP(damaged_bin, MODELS "marian-bin-f16/model.bin"),
      TP(damaged_bin, MODELS "bergamot/model.deen.intgemm.alphas.bin"), T(damaged_npz),
      T(damaged_zip))
