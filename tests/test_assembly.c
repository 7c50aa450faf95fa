/* test_assembly.c — our parameters from the matrices of other engines: stacked, turned, widened,
 * scaled, zero where there are none; and the models that are refused. */
#include "test.h"

#include "base/half.h"
#include "convert/assembly.h"

/* A model whose value (i, j) of a role is known: value(role, i, j), a whole number that every type
 * holds. How a matrix is stored goes round with its role. */
static int value(const struct foreign_role *r, int i, int j) {
    int seed = r->decoder * 7 + r->layer * 5 + (int)r->place * 11 + (int)r->what * 3 + r->bias * 2;
    return (seed * 13 + i * 17 + j * 29) % 101 - 50;
}

struct fake {
    struct keep keep;
    int wrong; /* what is asked for under this number has a column too many */
    int n;     /* asked for so far */
    int turn;  /* of the types */
};

static int height(const struct config *c, const struct foreign_role *r) {
    switch (r->what) {
    case THE_EMBEDDING:
    case THE_OUTPUT:
        return r->decoder ? c->n_vocab_tgt : c->n_vocab_src;
    case THE_POSITIONS:
        return c->max_len + 3;
    case THE_FIRST:
        return config_d_ff(c, r->decoder);
    default:
        return c->d_model;
    }
}

static uint16_t half(int n) { return f16_store((float)n); }

static void store(char *at, enum foreign_type type, int n) {
    uint16_t bits = type == FOREIGN_F16 ? half(n) : bf16_store((float)n);
    int16_t wide = (int16_t)n;
    float f = (float)n;
    if (type == FOREIGN_F32) memcpy(at, &f, sizeof f);
    if (type == FOREIGN_F16 || type == FOREIGN_BF16) memcpy(at, &bits, sizeof bits);
    if (type == FOREIGN_I16) memcpy(at, &wide, sizeof wide);
    if (type == FOREIGN_I8) *at = (char)n;
}

static int find(const struct foreign *m, const struct foreign_role *r, struct foreign_mat *mat,
                struct err *err) {
    struct fake *f = m->reader;
    const struct config *c = &m->config;
    int norm = r->what == THE_NORM || r->what == THE_FINAL_NORM || r->what == THE_EMBED_NORM;
    int vector = norm || r->bias, tall = height(c, r);
    (void)err;
    if (r->bias && !norm && r->layer == 1) return 0; /* no biases there */
    f->n++;
    mat->rows = vector ? 1 : tall;
    mat->cols = vector ? tall : r->what == THE_SECOND ? config_d_ff(c, r->decoder) : c->d_model;
    if (f->wrong == f->n) mat->cols++;
    mat->type = (enum foreign_type)((f->turn + (int)r->what) % 5);
    mat->transposed = !vector && r->what != THE_POSITIONS && ((int)r->what + f->turn) % 2;
    if (vector) mat->type = FOREIGN_F32;
    int inner = mat->transposed ? mat->rows : mat->cols,
        outer = mat->transposed ? mat->cols : mat->rows;
    mat->ld = inner + 2;
    size_t size = foreign_type_size(mat->type);
    char *data = keep_take(&f->keep, 1 + (size_t)mat->ld * (size_t)outer * size);
    mat->data = ++data; /* not aligned */
    for (int i = 0; i < mat->rows; i++)
        for (int j = 0; j < mat->cols; j++) {
            int64_t at = mat->transposed ? j * mat->ld + i : i * mat->ld + j;
            store(data + (size_t)at * size, mat->type, value(r, i, j));
        }
    if (mat->type != FOREIGN_I8 && mat->type != FOREIGN_I16) return 0;
    float *scale = keep_take(&f->keep, (size_t)mat->rows * sizeof *scale);
    mat->n_scale = mat->rows % 2 ? 1 : mat->rows;
    for (int i = 0; i < mat->n_scale; i++) scale[i] = mat->n_scale == 1 ? 4 : (float)(1 << i % 3);
    mat->scale = scale;
    return 0;
}

static struct foreign fake_model(struct fake *f) {
    struct foreign m = {.config = foreign_config(), .find = find, .reader = f};
    struct config *c = &m.config;
    c->n_vocab_src = 9;
    c->n_vocab_tgt = 11;
    c->n_layer_enc = c->n_layer_dec = 2;
    c->d_model = 8;
    c->d_ff = 12;
    c->d_ff_dec = 10;
    c->n_head = 2;
    c->max_len = 5;
    c->tie = TIE_TARGET;
    c->output_bias = 1;
    m.first_position = 2;
    return m;
}

/* Row r of the parameter is row i of the matrix that this role has. */
static void check_row(const struct assembly *a, const char *name, int r, struct foreign_role role,
                      int i, double factor) {
    const struct param *p = param_table_find(&a->table, name);
    assert_non_null(p);
    float row[64];
    int k = (int)(p - a->table.param);
    assembly_rows(a, k, r, r + 1, row);
    const struct foreign_mat *m = NULL;
    int at = r;
    for (int n = 0; n < a->param[k].n && !m; at -= a->param[k].part[n].rows, n++)
        if (at < a->param[k].part[n].rows) m = &a->param[k].part[n];
    float scale = m->scale ? m->scale[m->n_scale == 1 ? 0 : i] : 1;
    for (int j = 0; j < p->cols; j++) {
        double wanted = value(&role, i, j) / (double)scale * factor;
        if (fabs((double)row[j] - wanted) > 1e-5 * fabs(wanted))
            fail_msg("%s [%d, %d] is %g, not %g", name, r, j, (double)row[j], wanted);
    }
}

static void check_vector(const struct assembly *a, const char *name, int at, int n,
                         struct foreign_role role, int zero) {
    const struct param *p = param_table_find(&a->table, name);
    float row[64];
    assert_non_null(p);
    assembly_rows(a, (int)(p - a->table.param), 0, 1, row);
    for (int j = 0; j < n; j++) assert_float_equal(row[at + j], zero ? 0 : value(&role, 0, j), 0);
}

TEST(stacks_what_readers_find) {
    for (int turn = 0; turn < 5; turn++) {
        struct fake f = {.turn = turn};
        struct foreign m = fake_model(&f);
        struct assembly a;
        struct err err;
        assert_int_equal(assembly_init(&a, &m, &err), 0);
        struct foreign_role q = {0, 1, IN_SELF, THE_QUERY, 0}, k = {0, 1, IN_SELF, THE_KEY, 0},
                            v = {0, 1, IN_SELF, THE_VALUE, 0}, kv = {1, 0, IN_CROSS, THE_VALUE, 0};
        check_row(&a, "enc.1.self.w_qkv", 3, q, 3, 1);
        check_row(&a, "enc.1.self.w_qkv", 8, k, 0, 1);
        check_row(&a, "enc.1.self.w_qkv", 23, v, 7, 1);
        check_row(&a, "dec.0.cross.w_kv", 9, kv, 1, 1);
        check_row(&a, "dec.1.ff.w_1", 9, (struct foreign_role){1, 1, IN_FF, THE_FIRST, 0}, 9, 1);
        check_row(&a, "dec.1.ff.w_2", 7, (struct foreign_role){1, 1, IN_FF, THE_SECOND, 0}, 7, 1);
        check_row(&a, "tgt_embed", 10, (struct foreign_role){1, 0, IN_STACK, THE_EMBEDDING, 0}, 10,
                  1);
        check_row(&a, "src_embed", 8, (struct foreign_role){0, 0, IN_STACK, THE_EMBEDDING, 0}, 8,
                  1);
        check_vector(&a, "out_bias", 0, 11, (struct foreign_role){1, 0, IN_STACK, THE_OUTPUT, 1},
                     0);
        check_vector(&a, "enc.0.self.b_qkv", 8, 8, (struct foreign_role){0, 0, IN_SELF, THE_KEY, 1},
                     0);
        check_vector(&a, "enc.1.self.b_qkv", 8, 8, (struct foreign_role){0, 1, IN_SELF, THE_KEY, 1},
                     1);
        check_vector(&a, "dec.1.ff.beta", 0, 8, (struct foreign_role){1, 1, IN_FF, THE_NORM, 1}, 0);
        assembly_release(&a);
        keep_release(&f.keep);
    }
}

TEST(begins_positions_where_sentences_do) {
    struct fake f = {.turn = 4}; /* f32 */
    struct foreign m = fake_model(&f);
    struct assembly a;
    struct err err;
    assert_int_equal(assembly_init(&a, &m, &err), 0);
    assert_int_equal(a.config.positions, POSITIONS_LEARNED);
    float row[8];
    const struct param *p = param_table_find(&a.table, "tgt_pos");
    struct foreign_role role = {1, 0, IN_STACK, THE_POSITIONS, 0};
    assembly_rows(&a, (int)(p - a.table.param), 1, 2, row);
    assert_float_equal(row[3], value(&role, 3, 3), 0);
    assembly_release(&a);
    keep_release(&f.keep);
}

static void first_row(struct foreign *m, const char *name, int r, float row[8]) {
    struct assembly a;
    struct err err;
    assert_int_equal(assembly_init(&a, m, &err), 0);
    const struct param *p = param_table_find(&a.table, name);
    assert_non_null(p);
    assembly_rows(&a, (int)(p - a.table.param), r, r + 1, row);
    assembly_release(&a);
}

TEST(computes_positions) {
    struct fake f = {0};
    struct foreign m = fake_model(&f);
    float row[8];
    m.positions = FOREIGN_HALVES;
    m.first_position = 0;
    first_row(&m, "src_pos", 3, row); /* 3 / 10000^(2 i / 8) */
    assert_float_equal(row[1], sin(0.3), 1e-6);
    assert_float_equal(row[4 + 2], cos(0.03), 1e-6);
    m.positions = FOREIGN_MARIAN;
    m.first_position = 2;
    first_row(&m, "tgt_pos", 3, row); /* 5 * 10000^(-i / 3) */
    assert_float_equal(row[0], sin(5), 1e-6);
    assert_float_equal(row[4 + 3], cos(5e-4), 1e-6);
    keep_release(&f.keep);
}

TEST(unties_what_is_scaled_differently) {
    struct fake f = {.turn = 0};
    struct foreign m = fake_model(&f);
    struct assembly a;
    struct err err;
    m.embed_scale[0] = sqrt(8);
    m.embed_scale[1] = 1;
    assert_int_equal(assembly_init(&a, &m, &err), 0);
    assert_int_equal(a.config.tie, TIE_NONE);
    struct foreign_role role = {1, 0, IN_STACK, THE_EMBEDDING, 0};
    check_row(&a, "tgt_embed", 4, role, 4, 1 / sqrt(8));
    check_row(&a, "out", 4, role, 4, 1);
    check_row(&a, "src_embed", 4, (struct foreign_role){0, 0, IN_STACK, THE_EMBEDDING, 0}, 4, 1);
    assembly_release(&a);
    keep_release(&f.keep);
}

TEST(keeps_int8) {
    struct fake f = {.turn = FOREIGN_I8 - THE_FIRST % 5};
    struct foreign m = fake_model(&f);
    struct assembly a;
    struct err err;
    assert_int_equal(assembly_init(&a, &m, &err), 0);
    const struct param *p = param_table_find(&a.table, "enc.0.ff.w_1");
    int i = (int)(p - a.table.param);
    struct foreign_role role = {0, 0, IN_FF, THE_FIRST, 0};
    assert_true(assembly_is_int8(&a, i));
    for (int r = 0; r < p->rows; r++) {
        int8_t q[8];
        float scale;
        assembly_int8(&a, i, r, q, &scale);
        assert_float_equal(scale, 1.0 / (1 << r % 3), 0);
        for (int j = 0; j < 8; j++) assert_int_equal(q[j], value(&role, r, j));
    }
    assembly_release(&a);
    keep_release(&f.keep);
}

TEST(refuses_wrong_shapes) {
    struct fake f = {0};
    struct foreign m = fake_model(&f);
    struct assembly a;
    struct err err;
    assert_int_equal(assembly_init(&a, &m, &err), 0);
    assembly_release(&a);
    for (int wrong = 1, n = f.n; wrong <= n; wrong++) {
        f.n = 0;
        f.wrong = wrong;
        assert_int_equal(assembly_init(&a, &m, &err), HEED_EFORMAT);
        assert_non_null(strstr(err.msg, "but must be ["));
    }
    keep_release(&f.keep);
}

TESTS(T(stacks_what_readers_find), T(begins_positions_where_sentences_do), T(computes_positions),
      T(unties_what_is_scaled_differently), T(keeps_int8), T(refuses_wrong_shapes))
