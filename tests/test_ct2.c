/* test_ct2.c — the reader of CTranslate2's models: what it finds in those of
 * tools/import_models.py, and files that are damaged. test_import_models.sh compares what they
 * compute. */
#include "test.h"

#include "backend/ops.h"
#include "base/mem.h"
#include "convert/assembly.h"
#include "convert/ct2_file.h"
#include "convert/import.h"
#include "damage.h"

#define MODELS "tests/data/import/"

static void open_model(struct import *import, const char *path) {
    struct err err = {0};
    struct import_options options = {.path = path};
    ASSERT_OK(import_open(import, &options, &err), err);
}

TEST(zero_start) {
    struct import import;
    open_model(&import, MODELS "ct2-f32");
    const struct foreign *m = &import.model;
    assert_string_equal(m->format, "CTranslate2, format 6");
    assert_int_equal(m->start, FOREIGN_ZERO);
    assert_int_equal(m->end, 0);
    assert_int_equal(m->unknown, 1);
    assert_int_equal(m->no_source_end, 0);
    assert_int_equal(m->positions, FOREIGN_TABLE);
    assert_int_equal(m->config.max_len, 64);
    assert_int_equal(m->config.tie, TIE_ALL);
    assert_int_equal(m->config.output_bias, 1);
    assert_int_equal(m->config.activation, ACT_SILU);
    assert_int_equal(m->source.n_token, 46);
    assert_null(m->target.token);
    assert_non_null(m->source.tokenizer);
    import_close(&import);
}

TEST(package) {
    struct import import;
    open_model(&import, MODELS "argos.argosmodel");
    const struct foreign *m = &import.model;
    assert_string_equal(m->format, "Argos Translate package");
    assert_string_equal(m->card.source, "de");
    assert_string_equal(m->card.target, "en");
    assert_int_equal(m->start, 1);
    assert_int_equal(m->end, 2);
    assert_int_equal(m->no_source_end, 1);
    assert_int_equal(m->positions, FOREIGN_MARIAN);
    assert_int_equal(m->first_position, 1);
    assert_int_equal(m->config.norm, NORM_PRE);
    assert_int_equal(json_integer_value(json_object_get(m->translate, "beam")), 4);
    import_close(&import);
}

TEST(old_settings) {
    struct import import;
    open_model(&import, MODELS "ct2-int16");
    const struct foreign *m = &import.model;
    assert_int_equal(m->config.n_head, 8); /* TransformerBase */
    assert_int_equal(m->config.norm, NORM_PRE);
    assert_int_equal(m->config.tie, TIE_NONE);
    assert_int_equal(m->source.n_token, 45);
    assert_string_equal(m->source.token[44], "<unk>"); /* not in the file */
    assert_int_equal(m->target.n_token, 41);
    assert_int_equal(m->unknown, 40);
    assert_int_equal(m->no_source_end, 0);
    import_close(&import);
    open_model(&import, MODELS "ct2-f16");
    assert_int_equal(import.model.start, import.model.end); /* no with_target_bos */
    assert_int_equal(import.model.no_source_end, 0);
    assert_float_equal(import.model.embed_scale[1], 1, 0);
    assert_int_equal(import.model.config.embed_norm, 1);
    import_close(&import);
}

/* ---- damage ---------------------------------------------------------------------------------- */

static void read_file(const char *bytes, size_t size) {
    struct ct2_file file;
    struct err err = {0};
    int rc = ct2_file_read(&file, bytes, size, "damaged", &err);
    assert_int_equal(!rc, !err.msg[0]);
    unsigned sum = 0;
    for (int i = 0; i < file.n && !rc; i++) {
        const struct ct2_variable *v = &file.variable[i];
        assert_ptr_equal(ct2_find(&file, v->name), v);
        if (v->bytes) sum += v->data[0] + v->data[v->bytes - 1];
        ct2_scalar(&file, v->name, sum);
    }
    ct2_file_release(&file);
}

TEST(damaged_file) { damage_file(TEST_ARG, read_file); }

static void read_package(const char *bytes, size_t size) {
    char path[200];
    struct import import;
    struct assembly a;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/damaged.argosmodel", test_dir());
    FILE *f = fopen(path, "wb");
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
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

TEST(damaged_package) {
    char *bytes;
    size_t size;
    struct err err = {0};
    ASSERT_OK(file_read_all(&bytes, &size, MODELS "argos.argosmodel", 1 << 20, &err), err);
    for (size_t at = 0; at < size; at += 97) {
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        read_package(bytes, size);
        bytes[at] = (char)(bytes[at] ^ 1 << at % 8);
        read_package(bytes, at);
    }
    xfree(bytes);
}

TESTS(T(zero_start), T(package), T(old_settings), TP(damaged_file, MODELS "ct2-f32/model.bin"),
      TP(damaged_file, MODELS "ct2-int16/model.bin"), T(damaged_package))
