/* test_frozen.c — frozen models: what is written is what is read, it computes what the plain model
 * does, and no file from outside is trusted. */
#include "model/frozen.h"

#include <pthread.h>

#include "backend/cpu/isa.h"
#include "backend/device.h"
#include "backend/tile.h"
#include "base/mem.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "model/tilefile.h"
#include "search/scorer.h"
#include "test.h"
#include "toy.h"

static const struct backend_options on_cpu = {.device = "cpu", .n_thread = 2};
static const enum precision precisions[] = {PRECISION_F32, PRECISION_BF16, PRECISION_INT8};

static char *at(const char *name) { return path_join(test_dir(), name); }

static void disturb(struct model *m) {
    struct err err = {0};
    ASSERT_OK(model_draw(m, 5, &err), err);
    toy_disturb(m);
}

/* A model directory as the trainer writes it, below the test's own. */
static void plain_dir(const char *name, const struct config *config) {
    struct err err = {0};
    struct backend *be;
    struct model *m;
    char *dir = at(name), *weights = path_join(dir, MODELDIR_WEIGHTS);
    ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
    ASSERT_OK(model_new(&m, config, be, DTYPE_F32, &err), err);
    disturb(m);
    ASSERT_OK(modeldir_init(dir, config, NULL, NULL, &err), err);
    ASSERT_OK(model_save(m, weights, &(struct weights_options){.step = 42}, &err), err);
    model_free(m);
    backend_close(be);
    xfree(weights);
    xfree(dir);
}

/* DIR of one name exported to DIR of another. */
static void freeze(const char *to, const char *from, enum precision precision) {
    struct err err = {0};
    struct frozen *f;
    char *a = at(from), *b = at(to);
    ASSERT_OK(frozen_open(&f, a, precision, NULL, 2, &err), err);
    assert_int_equal(frozen_precision(f), precision);
    ASSERT_OK(frozen_write(f, b, NULL, &err), err);
    frozen_close(f);
    xfree(a);
    xfree(b);
}

static struct frozen *open_frozen(const char *name, enum precision precision) {
    struct err err = {0};
    struct frozen *f;
    char *dir = at(name);
    ASSERT_OK(frozen_open(&f, dir, precision, NULL, 1, &err), err);
    xfree(dir);
    return f;
}

static struct config toy_variant(const char *variant) {
    struct err err = {0};
    struct config c = toy_config();
    if (strcmp(variant, "pre") == 0) {
        c.norm = NORM_PRE;
        c.positions = POSITIONS_LEARNED;
        c.tie = TIE_NONE;
        c.n_vocab_src = 29;
        c.activation = ACT_GELU;
        c.d_k = 6;
        c.d_v = 10;
    } else if (strcmp(variant, "target") == 0) {
        c.tie = TIE_TARGET;
        c.n_vocab_src = 50;
        c.d_ff = 1100; /* deeper than the kernels take at once */
        c.activation = ACT_SILU;
    } else if (strcmp(variant, "foreign") == 0) {
        c = toy_foreign_config();
    } else if (strcmp(variant, "ssru") == 0) {
        c = toy_ssru_config();
    }
    ASSERT_OK(config_check(&c, &err), err);
    return c;
}

/* ---- running --------------------------------------------------------------------------------- */

static const int src_len[] = {5, 1, 19}, tgt_len[] = {4, 12, 2};
enum { SENTENCES = 3, TOKENS = 40, TGT_TOKENS = 18, WORDS = 29 };

/* Logits of a small batch by a model of this backend. */
static float *logits_of(struct backend *be, struct model *m) {
    struct err err = {0};
    struct batch batch;
    struct toy toy = {.be = be, .model = m};
    toy_batch(&batch, src_len, tgt_len, SENTENCES, WORDS, 9);
    ASSERT_OK(acts_new(&toy.acts, m, TOKENS, TOKENS, 0, &err), err);
    float *logits = toy_logits(&toy, &batch);
    acts_free(toy.acts);
    batch_release(&batch);
    return logits;
}

static float *frozen_logits(const struct frozen *f, const struct backend_options *where) {
    struct err err = {0};
    struct backend *be;
    struct model *m;
    ASSERT_OK(backend_open(&be, where, &err), err);
    ASSERT_OK(frozen_model(&m, f, be, &err), err);
    float *logits = logits_of(be, m);
    model_free(m);
    backend_close(be);
    return logits;
}

static float *plain_logits(const char *name, const struct backend_options *where, enum dtype type) {
    struct err err = {0};
    struct backend *be;
    struct model *m;
    char *dir = at(name);
    ASSERT_OK(backend_open(&be, where, &err), err);
    ASSERT_OK(model_load(&m, dir, be, type, &err), err);
    float *logits = logits_of(be, m);
    model_free(m);
    backend_close(be);
    xfree(dir);
    return logits;
}

/* |a - b| over the spread of b: root mean squares. */
static double distance(const float *a, const float *b, size_t n) {
    double d = 0, mean = 0, spread = 0;
    for (size_t i = 0; i < n; i++) mean += (double)b[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        d += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        spread += ((double)b[i] - mean) * ((double)b[i] - mean);
    }
    return sqrt(d / spread);
}

TEST(computes_the_same) {
    struct config c = toy_variant(TEST_ARG);
    size_t n = (size_t)TGT_TOKENS * (size_t)c.n_vocab_tgt;
    plain_dir("plain", &c);
    static const double bound[] = {1e-6, 0.02, 0.05};
    const struct backend_options on_ref = {.device = "ref"};
    float *want = plain_logits("plain", &on_ref, DTYPE_F32);
    for (int p = 0; p < 3; p++) {
        char tiled[32];
        snprintf(tiled, sizeof tiled, "tiled%d", p);
        freeze(tiled, "plain", precisions[p]);
        struct frozen *direct = open_frozen("plain", precisions[p]),
                      *mapped = open_frozen(tiled, precisions[p]);
        for (int i = -1; i < 0 || isa_table[i]; i++) { /* ref, then every instruction set */
            struct backend_options where = on_ref;
            if (i >= 0 && !isa_usable(isa_table[i])) continue;
            if (i >= 0)
                where = (struct backend_options){
                    .device = "cpu", .n_thread = 2, .isa = isa_table[i]->name};
            float *a = frozen_logits(direct, &where), *b = frozen_logits(mapped, &where);
            assert_memory_equal(a, b, n * sizeof *a);
            double d = distance(a, want, n);
            if (!(d < bound[p]))
                fail_msg("%s on %s: logits differ by %g of their spread",
                         precision_name(precisions[p]), i < 0 ? "ref" : isa_table[i]->name, d);
            if (p == 0 && i >= 0) {
                float *plain = plain_logits("plain", &where, DTYPE_F32);
                assert_memory_equal(a, plain, n * sizeof *a); /* the same sums in the same order */
                xfree(plain);
            }
            xfree(a);
            xfree(b);
        }
        frozen_close(direct);
        frozen_close(mapped);
    }
    xfree(want);
}

/* ---- round trip ------------------------------------------------------------------------------ */

static void assert_same_file(const char *a, const char *b) {
    struct err err = {0};
    char *one, *two, *pa = at(a), *pb = at(b);
    size_t n, m;
    ASSERT_OK(file_read_all(&one, &n, pa, 1 << 24, &err), err);
    ASSERT_OK(file_read_all(&two, &m, pb, 1 << 24, &err), err);
    assert_int_equal(n, m);
    assert_memory_equal(one, two, n);
    xfree(one);
    xfree(two);
    xfree(pa);
    xfree(pb);
}

/* Log-probabilities of the batch above, sentence by sentence. */
static void scores_of(struct model *m, const struct batch *b, float *out) {
    struct err err = {0};
    struct scorer *scorer;
    struct batch_caps caps = {TOKENS, TOKENS, SENTENCES};
    ASSERT_OK(scorer_new(&scorer, m, b->bos, &caps, &err), err);
    for (int s = 0; s < b->n_seq; s++) {
        struct score_pair pair = {b->src.ids + b->src.start[s], b->tgt_out + b->tgt.start[s],
                                  src_len[s], tgt_len[s], out + b->tgt.start[s]};
        ASSERT_OK(scorer_run(scorer, &pair, 1, &err), err);
    }
    scorer_free(scorer);
}

TEST(scores_are_log_softmax_of_the_logits) {
    struct err err = {0};
    struct config c = toy_variant("foreign");
    struct batch b;
    struct backend *be;
    ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
    plain_dir("plain", &c);
    toy_batch(&b, src_len, tgt_len, SENTENCES, WORDS, 9);
    for (int p = 0; p < 3; p++) {
        struct frozen *f = open_frozen("plain", precisions[p]);
        struct model *m;
        float got[TGT_TOKENS];
        ASSERT_OK(frozen_model(&m, f, be, &err), err);
        scores_of(m, &b, got);
        float *z = logits_of(be, m);
        for (int i = 0; i < TGT_TOKENS; i++) {
            const float *row = z + (size_t)i * (size_t)c.n_vocab_tgt;
            double sum = 0;
            for (int k = 0; k < c.n_vocab_tgt; k++) sum += exp((double)row[k]);
            double want = (double)row[b.tgt_out[i]] - log(sum);
            assert_true(fabs((double)got[i] - want) < (p == 1 ? 0.02 : 1e-5));
        }
        xfree(z);
        model_free(m);
        frozen_close(f);
    }
    batch_release(&b);
    backend_close(be);
}

/* What an int8 model holds, row by row, as somebody else would have it. */
struct given {
    const struct modeldir *md;
    int bad_param;
    float bad_scale;
};

static int give_rows(void *ctx, int i, int first, int last, const struct frozen_rows *to) {
    const struct given *g = ctx;
    const struct mat *v = &g->md->view[i];
    size_t cols = (size_t)v->cols;
    if (!to->q || i % 2) { /* some are still to be quantised */
        modeldir_values(g->md, i, (size_t)first * cols, (size_t)(last - first) * cols, to->values);
        return 0;
    }
    for (int r = first; r < last; r++) {
        for (int j = 0; j < v->cols; j++)
            to->q[(size_t)(r - first) * cols + (size_t)j] =
                ((const int8_t *)v->data)[tiled_at(v, r, j)];
        to->scale[r - first] = i == g->bad_param ? g->bad_scale : v->scale[r];
        if (to->unit) to->unit[r - first] = v->scale[r] / 2, to->zero[r - first] = (float)-r;
    }
    return 1;
}

/* Numbers that are int8 already come through bit for bit. */
TEST(rows_from_elsewhere) {
    struct err err = {0};
    struct config c = toy_variant("foreign");
    struct modeldir md;
    struct frozen *f;
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    char *dir = at("int8"), *copy = at("copy"), *again = path_join(copy, MODELDIR_WEIGHTS);
    ASSERT_OK(modeldir_open_any(&md, dir, &err), err);
    struct given given = {&md, -1, 0};
    struct frozen_source source = {.rows = give_rows, .ctx = &given};
    ASSERT_OK(frozen_from_rows(&f, &c, &source, 2, &err), err);
    ASSERT_OK(frozen_write(f, copy, NULL, &err), err);
    frozen_close(f);
    struct safetensors st;
    ASSERT_OK(safetensors_open(&st, again, &err), err);
    for (int i = 0; i < st.n_tensor; i++)
        assert_memory_equal(st.tensor[i].data,
                            safetensors_find(&md.weights, st.tensor[i].name)->data,
                            st.tensor[i].size);
    assert_int_equal(st.n_tensor, md.weights.n_tensor);
    safetensors_close(&st);
    static const float bad[] = {0, -1, INFINITY, NAN};
    for (int k = 0; k < 4; k++) {
        given = (struct given){&md, 0, bad[k]};
        ASSERT_ERR(frozen_from_rows(&f, &c, &source, 2, &err), err, HEED_EFORMAT, "tgt_embed");
        assert_null(f);
    }
    modeldir_close(&md);
    xfree(again);
    xfree(dir);
    xfree(copy);
}

/* bad_scale of a third of the matrices, all among those that are int8 already. */
static float give_x_scale(void *ctx, int i) {
    return i % 6 ? 0 : ((const struct given *)ctx)->bad_scale;
}

/* Factors for activations are written, read, copied, and refused if they are no factors. */
TEST(x_scales_survive) {
    struct err err = {0};
    struct config c = toy_variant("foreign");
    struct modeldir md, got;
    struct frozen *f;
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    char *dir = at("int8"), *copy = at("copy"), *odd = at("odd"), *third = at("third");
    ASSERT_OK(modeldir_open_any(&md, dir, &err), err);
    struct given given = {&md, -1, 12.5f};
    struct frozen_source source = {.rows = give_rows, .x_scale = give_x_scale, .ctx = &given};
    ASSERT_OK(frozen_from_rows(&f, &c, &source, 1, &err), err);
    ASSERT_OK(frozen_write(f, copy, NULL, &err), err);
    frozen_close(f);
    freeze("third", "copy", PRECISION_INT8);
    ASSERT_OK(modeldir_open_any(&got, third, &err), err);
    int n = 0;
    for (int i = 0; i < got.table.n_param; i++) {
        const struct mat *v = &got.view[i];
        float want = v->tiled && i % 6 == 0 ? 12.5f : 0;
        assert_true(v->x_scale == want);
        n += want > 0;
        for (int r = 0; want > 0 && r < v->rows; r++)
            assert_true(v->unit[r] == v->scale[r] / 2 && v->zero[r] == (float)-r);
    }
    assert_true(n > 1);
    assert_int_equal(got.weights.n_tensor, md.weights.n_tensor + 3 * n);
    modeldir_close(&got);
    given.bad_scale = INFINITY;
    ASSERT_OK(frozen_from_rows(&f, &c, &source, 1, &err), err);
    ASSERT_OK(frozen_write(f, odd, NULL, &err), err);
    frozen_close(f);
    ASSERT_ERR(modeldir_open_any(&got, odd, &err), err, HEED_EFORMAT, "tgt_embed.x_scale': inf");
    modeldir_close(&md);
    char *paths[] = {dir, copy, odd, third};
    for (int i = 0; i < 4; i++) xfree(paths[i]);
}

TEST(values_survive) {
    struct err err = {0};
    struct config c = toy_variant(TEST_ARG);
    plain_dir("plain", &c);
    freeze("f32", "plain", PRECISION_F32);
    freeze("bf16", "plain", PRECISION_BF16);
    struct modeldir md[3];
    static const char *const names[] = {"plain", "f32", "bf16"};
    for (int k = 0; k < 3; k++) {
        char *dir = at(names[k]);
        ASSERT_OK(modeldir_open_any(&md[k], dir, &err), err);
        assert_memory_equal(&md[k].config, &c, sizeof c);
        assert_int_equal(md[k].step, 42);
        xfree(dir);
    }
    for (int i = 0; i < md[0].table.n_param; i++) {
        const struct param *p = &md[0].table.param[i];
        size_t n = (size_t)p->rows * (size_t)p->cols;
        float *v[3];
        for (int k = 0; k < 3; k++) {
            v[k] = xcalloc(n, sizeof **v);
            modeldir_values(&md[k], i, 0, n, v[k]);
        }
        assert_memory_equal(v[0], v[1], n * sizeof **v);
        for (size_t j = 0; j < n; j++)
            if (v[2][j] != bf16_load(bf16_store(v[0][j]))) fail_msg("%s[%zu]", p->name, j);
        for (int k = 0; k < 3; k++) xfree(v[k]);
    }
    for (int k = 0; k < 3; k++) modeldir_close(&md[k]);
}

/* Writing what was mapped writes the same file; converting in two steps is converting in one. */
TEST(writes_what_it_maps) {
    struct config c = toy_variant("post");
    plain_dir("plain", &c);
    freeze("f32", "plain", PRECISION_F32);
    freeze("f32b", "f32", PRECISION_F32);
    freeze("bf16", "plain", PRECISION_BF16);
    freeze("bf16b", "f32", PRECISION_BF16);
    freeze("int8", "plain", PRECISION_INT8);
    freeze("int8b", "f32", PRECISION_INT8);
    freeze("int8c", "int8", PRECISION_INT8);
    freeze("wide", "bf16", PRECISION_F32);
    freeze("narrow", "wide", PRECISION_BF16);
    assert_same_file("f32/model.safetensors", "f32b/model.safetensors");
    assert_same_file("bf16/model.safetensors", "bf16b/model.safetensors");
    assert_same_file("int8/model.safetensors", "int8b/model.safetensors");
    assert_same_file("int8/model.safetensors", "int8c/model.safetensors");
    assert_same_file("bf16/model.safetensors", "narrow/model.safetensors");
    assert_same_file("int8/config.json", "int8c/config.json");
}

TEST(from_model_is_from_file) {
    struct err err = {0};
    struct config c = toy_variant("post");
    struct backend *be;
    struct model *m;
    struct modeldir md;
    char *dir = at("plain"), *out = at("live");
    plain_dir("plain", &c);
    ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
    ASSERT_OK(model_load(&m, dir, be, DTYPE_F32, &err), err);
    ASSERT_OK(modeldir_open(&md, dir, &err), err);
    for (int p = 0; p < 3; p++) {
        struct frozen *live, *again, *file = open_frozen("plain", precisions[p]);
        ASSERT_OK(frozen_from_model(&live, m, precisions[p], 1, &err), err);
        float *a = frozen_logits(live, &on_cpu), *b = frozen_logits(file, &on_cpu);
        assert_memory_equal(a, b, (size_t)TGT_TOKENS * (size_t)c.n_vocab_tgt * sizeof *a);
        assert_int_equal(frozen_bytes(live), frozen_bytes(file));
        ASSERT_OK(frozen_write(live, out, NULL, &err), err); /* no step: it is not known */
        ASSERT_OK(model_draw(m, 5 + (uint64_t)p, &err), err);
        ASSERT_OK(frozen_refresh(live, m, &err), err);
        ASSERT_OK(frozen_from_model(&again, m, precisions[p], 1, &err), err);
        float *x = frozen_logits(live, &on_cpu), *y = frozen_logits(again, &on_cpu);
        assert_memory_equal(x, y, (size_t)TGT_TOKENS * (size_t)c.n_vocab_tgt * sizeof *a);
        assert_memory_not_equal(a, x, (size_t)TGT_TOKENS * (size_t)c.n_vocab_tgt * sizeof *a);
        ASSERT_OK(model_load_weights(m, &md, &err), err);
        xfree(x);
        xfree(y);
        frozen_close(again);
        xfree(a);
        xfree(b);
        frozen_close(live);
        frozen_close(file);
    }
    modeldir_close(&md);
    model_free(m);
    backend_close(be);
    xfree(dir);
    xfree(out);
}

/* A backend that wants no tiles: the cpu, pretending to be a device. */
static const struct backend_vtable *pretend(struct backend *be) {
    static struct backend_vtable device;
    const struct backend_vtable *own = be->vt;
    device = *own;
    device.device_memory = 1;
    device.wants_tiles = 0;
    be->vt = &device;
    return own;
}

TEST(precision_rules) {
    struct err err = {0};
    struct config c = toy_variant("post");
    char *int8 = at("int8");
    struct frozen *f;
    plain_dir("plain", &c);
    freeze("bf16", "plain", PRECISION_BF16);
    freeze("int8", "plain", PRECISION_INT8);
    static const struct {
        const char *dir;
        enum precision runs_in;
    } automatic[] = {{"plain", PRECISION_F32}, {"bf16", PRECISION_F32}, {"int8", PRECISION_INT8}};
    for (int i = 0; i < 3; i++) {
        f = open_frozen(automatic[i].dir, PRECISION_AUTO);
        assert_int_equal(frozen_precision(f), automatic[i].runs_in);
        frozen_close(f);
        struct backend *be; /* a device computes in bf16 what is stored so */
        char *dir = at(automatic[i].dir);
        ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
        const struct backend_vtable *own = pretend(be);
        ASSERT_OK(frozen_open(&f, dir, PRECISION_AUTO, be, 1, &err), err);
        assert_int_equal(frozen_precision(f), i == 1 ? PRECISION_BF16 : automatic[i].runs_in);
        frozen_close(f);
        be->vt = own;
        backend_close(be);
        xfree(dir);
    }
    ASSERT_ERR(frozen_open(&f, int8, PRECISION_F32, NULL, 1, &err), err, HEED_EINVAL, "int8");
    ASSERT_ERR(frozen_open(&f, int8, PRECISION_BF16, NULL, 1, &err), err, HEED_EINVAL,
               "cannot be turned back into bf16");
    assert_null(f);
    enum precision p;
    ASSERT_ERR(precision_parse(&p, "int4", &err), err, HEED_EINVAL, "'int4' is not one of");
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(precision_parse(&p, precision_name((enum precision)i), &err), err);
        assert_int_equal(p, i);
    }
    xfree(int8);
}

/* ---- refusals -------------------------------------------------------------------------------- */

TEST(cannot_change) {
    struct err err = {0};
    struct config c = toy_variant("post"), config;
    struct frozen *plain;
    struct backend *be;
    struct model *m, *other;
    struct acts *acts;
    struct modeldir md;
    char *dir = at("int8"), *file = at("x.safetensors");
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    struct frozen *f = open_frozen("int8", PRECISION_AUTO);
    ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
    ASSERT_OK(frozen_model(&m, f, be, &err), err);
    float *flat = xcalloc(m->table.n_elem, sizeof *flat);
    ASSERT_ERR(model_set(m, flat, &err), err, HEED_EINVAL, "frozen");
    ASSERT_ERR(model_get(m, flat, &err), err, HEED_EINVAL, "frozen");
    ASSERT_ERR(model_draw(m, 1, &err), err, HEED_EINVAL, "frozen");
    ASSERT_ERR(model_save(m, file, &(struct weights_options){0}, &err), err, HEED_EINVAL, "frozen");
    ASSERT_ERR(acts_new(&acts, m, 10, 10, 1, &err), err, HEED_EINVAL, "w is");
    model_free(m);
    plain = open_frozen("plain", PRECISION_F32);
    ASSERT_OK(frozen_model(&m, plain, be, &err), err);
    ASSERT_ERR(acts_new(&acts, m, 10, 10, 1, &err), err, HEED_EINVAL, "tiled f32");
    ASSERT_ERR(modeldir_open(&md, dir, &err), err, HEED_EFORMAT, "exported int8 model");
    ASSERT_ERR(model_load(&other, dir, be, DTYPE_F32, &err), err, HEED_EFORMAT, "int8");
    ASSERT_ERR(modeldir_read_config(dir, &config, NULL, &err), err, HEED_EFORMAT, "int8");
    xfree(flat);
    model_free(m);
    frozen_close(f);
    frozen_close(plain);
    backend_close(be);
    xfree(dir);
    xfree(file);
}

/* The int8 toy's weights with one thing wrong. */
struct damage {
    const char *tensor; /* or NULL */
    const char *rename; /* the tensor's new name; "" leaves it out */
    const char *dtype;  /* of the same size */
    int64_t rows;       /* replaces the first dimension; the bytes follow */
    float value;        /* of the first element, where not 0 */
    int shift;          /* bytes of an extra tensor before all others */
};

static void rewrite(const char *from, const char *to, const struct damage *d) {
    struct err err = {0};
    struct safetensors st;
    struct safetensors_writer w;
    char *a = at(from), *b = at(to);
    ASSERT_OK(safetensors_open(&st, a, &err), err);
    struct tensor_spec *spec = xcalloc((size_t)st.n_tensor + 1, sizeof *spec);
    char **bytes = xcalloc((size_t)st.n_tensor + 1, sizeof *bytes);
    size_t *size = xcalloc((size_t)st.n_tensor + 1, sizeof *size);
    int n = 0;
    if (d->shift) {
        spec[n] = (struct tensor_spec){.name = "odd", .dtype = "I8", .rank = 1};
        spec[n].shape[0] = d->shift;
        size[n] = (size_t)d->shift;
        bytes[n++] = xcalloc(1, (size_t)d->shift);
    }
    for (int i = 0; i < st.n_tensor; i++) {
        const struct tensor *t = &st.tensor[i];
        int hit = d->tensor && strcmp(t->name, d->tensor) == 0;
        if (hit && d->rename && !d->rename[0]) continue;
        spec[n] = (struct tensor_spec){.name = t->name, .dtype = t->dtype, .rank = t->rank};
        memcpy(spec[n].shape, t->shape, sizeof spec[n].shape);
        size[n] = t->size;
        if (hit && d->rename) spec[n].name = d->rename;
        if (hit && d->dtype) spec[n].dtype = d->dtype;
        if (hit && d->rows) {
            size[n] = t->size / (size_t)t->shape[0] * (size_t)d->rows;
            spec[n].shape[0] = d->rows;
        }
        bytes[n] = xcalloc(1, size[n]);
        memcpy(bytes[n], t->data, size[n] < t->size ? size[n] : t->size);
        if (hit && d->value != 0) memcpy(bytes[n], &d->value, sizeof d->value);
        n++;
    }
    ASSERT_OK(safetensors_create(&w, b, spec, n, NULL, &err), err);
    for (int i = 0; i < n; i++) safetensors_write(&w, bytes[i], size[i]);
    ASSERT_OK(safetensors_commit(&w, &err), err);
    for (int i = 0; i < n; i++) xfree(bytes[i]);
    xfree(bytes);
    xfree(size);
    xfree(spec);
    safetensors_close(&st);
    xfree(a);
    xfree(b);
}

TEST(hostile_weights) {
    static const struct {
        struct damage damage;
        const char *says;
    } cases[] = {
        {{.tensor = "tgt_embed", .rename = ""}, "tensor 'tgt_embed' is missing"},
        {{.tensor = "tgt_embed.scale", .rename = ""}, "tensor 'tgt_embed.scale' is missing"},
        {{.tensor = "enc.1.ff.w_1.sum", .rename = "x"}, "tensor 'enc.1.ff.w_1.sum' is missing"},
        {{.tensor = "tgt_embed", .dtype = "U8"}, "'tgt_embed' is U8"},
        {{.tensor = "tgt_embed.sum", .dtype = "F32"}, "'tgt_embed.sum' is F32 [48]"},
        {{.tensor = "tgt_embed", .rows = 2}, "is I8 [2, 16, 16, 4], the model's is I8 [3, "},
        {{.tensor = "tgt_embed", .rows = 1000}, "[1000, 16, 16, 4]"},
        {{.tensor = "tgt_embed.scale", .rows = 32}, "F32 [32], the model's is F32 [48]"},
        {{.tensor = "dec.0.cross.b_kv", .rows = 79}, "F32 [79], the model's is F32 [80]"},
        {{.tensor = "dec.0.cross.w_kv.scale", .value = NAN}, "nan in row 0 is not a positive"},
        {{.tensor = "dec.0.cross.w_kv.scale", .value = -1}, "-1 in row 0 is not a positive"},
        {{.tensor = "dec.0.cross.w_kv.scale", .value = INFINITY}, "inf in row 0"},
        {{.shift = 4}, "does not begin at a multiple of 64"},
        {{.shift = 64}, "tensors instead of"},
    };
    struct err err = {0};
    struct config c = toy_variant("post");
    struct frozen *f;
    char *dir = at("int8");
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    freeze("whole", "plain", PRECISION_INT8);
    rewrite("whole/model.safetensors", "int8/model.safetensors", &(struct damage){0});
    ASSERT_OK(frozen_open(&f, dir, PRECISION_AUTO, NULL, 1, &err), err);
    frozen_close(f);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        rewrite("whole/model.safetensors", "int8/model.safetensors", &cases[i].damage);
        ASSERT_ERR(frozen_open(&f, dir, PRECISION_AUTO, NULL, 1, &err), err, HEED_EFORMAT,
                   cases[i].says);
        assert_non_null(strstr(err.msg, "model.safetensors"));
    }
    xfree(dir);
}

TEST(cut_short) {
    struct err err = {0};
    struct config c = toy_variant("post");
    struct frozen *f;
    char *dir = at("bf16"), *path = path_join(dir, MODELDIR_WEIGHTS), *text;
    size_t size;
    plain_dir("plain", &c);
    freeze("bf16", "plain", PRECISION_BF16);
    ASSERT_OK(file_read_all(&text, &size, path, 1 << 24, &err), err);
    for (size_t n = 0; n < size; n += n < 200 ? 7 : 4093) {
        ASSERT_OK(file_write_all(path, text, n, &err), err);
        assert_int_equal(frozen_open(&f, dir, PRECISION_AUTO, NULL, 1, &err), HEED_EFORMAT);
        assert_null(f);
    }
    xfree(text);
    xfree(path);
    xfree(dir);
}

TEST(hostile_config) {
    static const struct {
        const char *what, *by, *says;
    } cases[] = {
        {"\"tile16\"", "\"tile32\"", "layout: expected \"tile16\", got \"tile32\""},
        {"\"tile16\"", "16", "layout: expected a string"},
        {"\"int8\"", "\"int4\"", "type: expected \"f32\", \"bf16\" or \"int8\", got \"int4\""},
        {"\"int8\"", "\"bf16\"", "is I8 [3, 16, 16, 4], the model's is BF16 [3, 32, 16, 2]"},
        {"\"version\": 2", "\"version\": 3",
         "version 3 is not supported; this program reads versions 1"},
        {"\"version\": 2", "\"version\": 1", "weights"},
        {"\"weights\"", "\"weight\"", "weight"},
        {"\"d_ff\": 56", "\"d_ff\": 60", "the model's is"},
        {"\"n_vocab_tgt\": 33", "\"n_vocab_tgt\": 2000000", "tie"},
    };
    struct err err = {0};
    struct config c = toy_variant("post");
    struct frozen *f;
    char *dir = at("int8"), *path = path_join(dir, MODELDIR_CONFIG), *text;
    size_t size;
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    ASSERT_OK(file_read_all(&text, &size, path, 1 << 20, &err), err);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char *found = strstr(text, cases[i].what);
        if (!found) fail_msg("no %s in %s", cases[i].what, text);
        struct file_writer w;
        ASSERT_OK(file_writer_open(&w, path, &err), err);
        file_writer_write(&w, text, (size_t)(found - text));
        file_writer_printf(&w, "%s%s", cases[i].by, found + strlen(cases[i].what));
        ASSERT_OK(file_writer_commit(&w, &err), err);
        int rc = frozen_open(&f, dir, PRECISION_AUTO, NULL, 1, &err);
        if (rc >= 0 || !strstr(err.msg, cases[i].says))
            fail_msg("%s: status %d, '%s' lacks '%s'", cases[i].by, rc, err.msg, cases[i].says);
    }
    xfree(text);
    xfree(path);
    xfree(dir);
}

/* A weight that is no number makes no int8 model. */
TEST(not_a_number) {
    struct err err = {0};
    struct config c = toy_variant("post");
    struct frozen *f;
    char *dir = at("plain");
    plain_dir("plain", &c);
    plain_dir("whole", &c);
    rewrite("whole/model.safetensors", "plain/model.safetensors",
            &(struct damage){.tensor = "enc.0.ff.w_2", .value = NAN});
    ASSERT_ERR(frozen_open(&f, dir, PRECISION_INT8, NULL, 1, &err), err, HEED_EFORMAT,
               "'enc.0.ff.w_2'");
    f = open_frozen("plain", PRECISION_F32);
    frozen_close(f);
    xfree(dir);
}

/* ---- sharing --------------------------------------------------------------------------------- */

struct sharer {
    const struct frozen *f;
    struct backend *be;
    struct model *m;
    struct toy toy;
    struct batch batch;
    float *logits;
};

static void *share(void *ctx) {
    struct sharer *s = ctx;
    for (int i = 0; i < 5; i++) {
        xfree(s->logits);
        s->logits = toy_logits(&s->toy, &s->batch);
    }
    return NULL;
}

TEST(threads_share) {
    enum { THREADS = 3 };
    struct err err = {0};
    struct config c = toy_variant("post");
    struct sharer s[THREADS];
    pthread_t thread[THREADS];
    plain_dir("plain", &c);
    freeze("int8", "plain", PRECISION_INT8);
    struct frozen *f = open_frozen("int8", PRECISION_AUTO);
    for (int i = 0; i < THREADS; i++) {
        s[i] = (struct sharer){.f = f};
        ASSERT_OK(backend_open(&s[i].be, &on_cpu, &err), err);
        ASSERT_OK(frozen_model(&s[i].m, f, s[i].be, &err), err);
        s[i].toy = (struct toy){.be = s[i].be, .model = s[i].m};
        ASSERT_OK(acts_new(&s[i].toy.acts, s[i].m, TOKENS, TOKENS, 0, &err), err);
        toy_batch(&s[i].batch, src_len, tgt_len, SENTENCES, WORDS, 9);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, share, &s[i]), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < THREADS; i++) {
        assert_memory_equal(s[i].logits, s[0].logits,
                            (size_t)TGT_TOKENS * (size_t)c.n_vocab_tgt * sizeof(float));
        if (i) xfree(s[i].logits);
        batch_release(&s[i].batch);
        acts_free(s[i].toy.acts);
        model_free(s[i].m);
        backend_close(s[i].be);
    }
    xfree(s[0].logits);
    frozen_close(f);
}

/* What tiles stand for, in the layout of the table. */
static float *values_of(const struct frozen *tiles) {
    struct err err = {0};
    struct modeldir md;
    char *dir = at("values");
    ASSERT_OK(frozen_write(tiles, dir, NULL, &err), err);
    ASSERT_OK(modeldir_open_any(&md, dir, &err), err);
    float *flat = xcalloc(md.table.n_elem, sizeof *flat);
    for (int i = 0; i < md.table.n_param; i++) {
        const struct param *p = &md.table.param[i];
        modeldir_values(&md, i, 0, (size_t)p->rows * (size_t)p->cols, flat + p->offset);
    }
    modeldir_close(&md);
    xfree(dir);
    return flat;
}

/* It gets a copy, straight from a file of any form, with the numbers that tiles stand for. */
TEST(copied_to_a_device) {
    struct err err = {0};
    struct config c = toy_variant("post");
    static const char *const form[] = {"plain", "f32", "bf16", "int8"};
    plain_dir("plain", &c);
    for (int p = 0; p < 3; p++) freeze(form[1 + p], "plain", precisions[p]);
    for (int k = 0; k < 4; k++)
        for (int p = k < 3 ? 0 : 2; p < 3; p++) {
            struct backend *be;
            struct model *m, *other;
            struct frozen *f, *tiles = open_frozen(form[k], precisions[p]);
            char *dir = at(form[k]);
            ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
            const struct backend_vtable *own = pretend(be);
            ASSERT_OK(frozen_open(&f, dir, precisions[p], be, 1, &err), err);
            ASSERT_OK(frozen_model(&m, f, be, &err), err);
            ASSERT_ERR(frozen_model(&other, tiles, be, &err), err, HEED_EDEVICE, "another kind");
            assert_null(m->flat);
            assert_int_equal(m->type, precisions[p] == PRECISION_F32 ? DTYPE_F32 : DTYPE_BF16);
            be->vt = own;
            ASSERT_ERR(frozen_model(&other, f, be, &err), err, HEED_EDEVICE, "another kind");
            float *want = values_of(tiles), *got = xcalloc(m->table.n_elem, sizeof *got);
            for (size_t i = 0; i < m->table.n_elem; i++)
                got[i] = m->type == DTYPE_F32 ? ((float *)m->copy)[i]
                                              : bf16_load(((uint16_t *)m->copy)[i]);
            for (size_t i = 0; i < m->table.n_elem && m->type == DTYPE_BF16; i++)
                want[i] = bf16_load(bf16_store(want[i]));
            assert_memory_equal(got, want, m->table.n_elem * sizeof *got);
            xfree(logits_of(be, m)); /* and it runs */
            xfree(got);
            xfree(want);
            xfree(dir);
            model_free(m);
            backend_close(be);
            frozen_close(f);
            frozen_close(tiles);
        }
}

/* What has no int8 is refused on the way to a device, too. */
TEST(not_a_number_on_a_device) {
    struct err err = {0};
    struct config c = toy_variant("post");
    struct backend *be;
    struct frozen *f;
    struct model *m;
    char *dir = at("plain");
    plain_dir("plain", &c);
    plain_dir("whole", &c);
    rewrite("whole/model.safetensors", "plain/model.safetensors",
            &(struct damage){.tensor = "enc.0.ff.w_2", .value = NAN});
    ASSERT_OK(backend_open(&be, &on_cpu, &err), err);
    const struct backend_vtable *own = pretend(be);
    ASSERT_OK(frozen_open(&f, dir, PRECISION_INT8, be, 1, &err), err);
    ASSERT_ERR(frozen_model(&m, f, be, &err), err, HEED_EFORMAT, "'enc.0.ff.w_2'");
    assert_null(m);
    frozen_close(f);
    be->vt = own;
    backend_close(be);
    xfree(dir);
}

TESTS(T(rows_from_elsewhere), T(x_scales_survive), T(scores_are_log_softmax_of_the_logits),
      TP(computes_the_same, "post"), TP(computes_the_same, "pre"), TP(computes_the_same, "target"),
      TP(computes_the_same, "foreign"), TP(computes_the_same, "ssru"), TP(values_survive, "post"),
      TP(values_survive, "pre"), TP(values_survive, "target"), TP(values_survive, "foreign"),
      TP(values_survive, "ssru"), T(writes_what_it_maps), T(from_model_is_from_file),
      T(precision_rules), T(cannot_change), T(hostile_weights), T(cut_short), T(hostile_config),
      T(not_a_number), T(threads_share), T(copied_to_a_device), T(not_a_number_on_a_device))
