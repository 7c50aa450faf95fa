/* test_oracle.c — the whole model against PyTorch: logits, scores, loss, every gradient, ten
 * training losses.
 *
 * The numbers come from tools/oracle.py, which uses PyTorch's own Transformer layers in float64.
 * ref in f64 must agree to the precision of the file (f32); the other backends to that of their
 * arithmetic. */
#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "backend/device.h"
#include "gpu.h"
#include "io/safetensors.h"
#include "model/transformer.h"
#include "search/scorer.h"
#include "test.h"
#include "train/optimizer.h"

static const char *const fields[] = {
    "n_layer_enc", "n_layer_dec", "d_model",     "d_ff",
    "n_head",      "max_len",     "n_vocab_src", "n_vocab_tgt",
    "norm",        "tie",         "activation",  "positions",
    "norm_eps",    "dropout",     "window",      "label_smoothing"};

struct oracle {
    struct safetensors file;
    struct config config;
    struct backend *be;
    struct model *model;
    struct batch batch;
    struct acts *acts;
    struct optimizer *opt;
};

static void ok(int rc, const struct err *err) {
    if (rc) fail_msg("%s", err->msg);
}

static const struct tensor *get(const struct oracle *o, const char *name) {
    const struct tensor *t = safetensors_find(&o->file, name);
    if (!t) fail_msg("no tensor %s", name);
    return t;
}

static void load_config(struct oracle *o) {
    struct err err;
    ok(config_preset(&o->config, "tiny", &err), &err);
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        ok(config_set(&o->config, fields[i], safetensors_metadata(&o->file, fields[i]), &err),
           &err);
    ok(config_check(&o->config, &err), &err);
}

static void load_params(struct oracle *o) {
    struct err err;
    const struct param_table *table = &o->model->table;
    float *flat = xcalloc(table->n_elem, sizeof *flat);
    for (int i = 0; i < table->n_param; i++) {
        const struct param *p = &table->param[i];
        const struct tensor *t = get(o, p->name);
        assert_int_equal(t->size, (size_t)p->rows * (size_t)p->cols * sizeof *flat);
        memcpy(flat + p->offset, t->data, t->size);
    }
    ok(model_set(o->model, flat, &err), &err);
    xfree(flat);
}

static void load_batch(struct oracle *o) {
    struct err err;
    const struct tensor *src = get(o, "src"), *tgt = get(o, "tgt");
    const int32_t *src_len = get(o, "src_len")->data, *tgt_len = get(o, "tgt_len")->data;
    const int32_t *s = src->data, *t = tgt->data;
    int n = (int)get(o, "src_len")->shape[0];
    ok(batch_init(&o->batch, (int)src->shape[0], (int)tgt->shape[0], n,
                  atoi(safetensors_metadata(&o->file, "bos")), &err),
       &err);
    for (int i = 0; i < n; i++) {
        assert_int_equal(batch_add(&o->batch, s, src_len[i], t, tgt_len[i], &err), 1);
        s += src_len[i];
        t += tgt_len[i];
    }
}

static void oracle_open(struct oracle *o, const char *which, const char *device, const char *isa,
                        enum dtype type) {
    struct err err;
    char path[256];
    *o = (struct oracle){0};
    snprintf(path, sizeof path, "tests/data/oracle_%s.safetensors", which);
    ok(safetensors_open(&o->file, path, &err), &err);
    load_config(o);
    ok(backend_open(&o->be, &(struct backend_options){.device = device, .isa = isa, .n_thread = 2},
                    &err),
       &err);
    ok(model_new(&o->model, &o->config, o->be, type, &err), &err);
    load_params(o);
    load_batch(o);
    ok(acts_new(&o->acts, o->model, o->batch.src.n_tok, o->batch.tgt.n_tok, 1, &err), &err);
    struct optimizer_options options = optimizer_defaults;
    options.warmup = atoi(safetensors_metadata(&o->file, "warmup"));
    ok(optimizer_new(&o->opt, o->model, o->acts, &options, &err), &err);
}

static void oracle_close(struct oracle *o) {
    optimizer_free(o->opt);
    acts_free(o->acts);
    batch_release(&o->batch);
    model_free(o->model);
    backend_close(o->be);
    safetensors_close(&o->file);
}

/* ||got - want|| / ||want||, got of any type; both small is agreement, too. */
static double distance(const struct oracle *o, const void *data, enum dtype type,
                       const struct tensor *want, double floor) {
    size_t n = want->size / sizeof(float);
    void *host = xcalloc(n, sizeof(double));
    struct err err;
    backend_download(o->be, host, data, n * dtype_size(type));
    ok(backend_sync(o->be, &err), &err);
    double diff = 0, norm = 0;
    for (size_t i = 0; i < n; i++) {
        double w = ((const float *)want->data)[i];
        double g = dtype_load(host, type, (int64_t)i);
        diff += (g - w) * (g - w);
        norm += w * w;
    }
    xfree(host);
    return sqrt(diff) / (sqrt(norm) + floor);
}

static void check_logits(struct oracle *o, const struct pass *pass, double tolerance) {
    struct err err;
    const struct tensor *want = get(o, "logits");
    enum dtype type = o->model->type;
    struct mat logits = {.ld = o->config.n_vocab_tgt,
                         .rows = o->batch.tgt.n_tok,
                         .cols = o->config.n_vocab_tgt,
                         .type = type};
    logits.data = backend_alloc(o->be, want->size * 2, &err);
    o->be->committed = 0; /* forming the logits is not part of a planned step */
    transformer_logits(pass, logits);
    double d = distance(o, logits.data, type, want, 0);
    backend_free(o->be, logits.data);
    if (!(d <= tolerance)) fail_msg("logits differ by %.3g", d);
}

/* Scores of the given translations are the log-softmax of PyTorch's logits at their tokens. */
static void check_scores(struct oracle *o, double tolerance) {
    struct err err;
    struct scorer *scorer;
    const struct batch *b = &o->batch;
    int v = o->config.n_vocab_tgt;
    float got[64];
    assert_in_range(b->tgt.n_tok, 1, 64);
    ok(scorer_new(&scorer, o->model, b->bos, &(struct batch_caps){b->src.n_tok, b->tgt.n_tok, 2},
                  &err),
       &err);
    for (int s = 0; s < b->n_seq; s++) {
        int src = b->src.start[s], tgt = b->tgt.start[s];
        struct score_pair pair = {b->src.ids + src, b->tgt_out + tgt, b->src.start[s + 1] - src,
                                  b->tgt.start[s + 1] - tgt, got + tgt};
        ok(scorer_run(scorer, &pair, 1, &err), &err);
    }
    for (int i = 0; i < b->tgt.n_tok; i++) {
        const float *z = (const float *)get(o, "logits")->data + (size_t)i * (size_t)v;
        double sum = 0;
        for (int k = 0; k < v; k++) sum += exp((double)z[k]);
        double want = (double)z[b->tgt_out[i]] - log(sum);
        if (!(fabs((double)got[i] - want) <= tolerance))
            fail_msg("token %d: log-probability %.9g, PyTorch %.9g", i, (double)got[i], want);
    }
    scorer_free(scorer);
}

static void check_gradients(struct oracle *o, double tolerance) {
    const struct param_table *table = &o->model->table;
    enum dtype wide = dtype_wide(o->model->type);
    for (int i = 0; i < table->n_param; i++) {
        char name[64];
        snprintf(name, sizeof name, "grad.%s", table->param[i].name);
        const char *at = (const char *)o->opt->grads + table->param[i].offset * dtype_size(wide);
        /* floor: gradients that cancel to nothing (the bias of keys) are compared in absolute
         * terms */
        double d = distance(o, at, wide, get(o, name), 0.01);
        if (!(d <= tolerance)) fail_msg("%s differs by %.3g", name, d);
    }
}

static void compare(const char *which, const char *device, const char *isa, enum dtype type) {
    static const double tolerance[DTYPE_COUNT] = {
        [DTYPE_F32] = 2e-5, [DTYPE_BF16] = 3e-2, [DTYPE_F64] = 1e-6};
    struct oracle o;
    struct err err;
    double tol = tolerance[type];
    oracle_open(&o, which, device, isa, type);
    const double *losses = get(&o, "losses")->data;
    int n_tok = o.batch.tgt.n_tok;

    struct pass pass = {
        .model = o.model, .acts = o.acts, .grads = o.opt->g, .grad_scale = 1.0f / (float)n_tok};
    ok(acts_load(o.acts, &o.batch, &err), &err);
    transformer_fwd(&pass);
    transformer_loss(&pass);
    transformer_bwd(&pass);
    double totals[3];
    backend_download(o.be, totals, o.acts->totals.data, sizeof totals);
    ok(backend_sync(o.be, &err), &err);
    if (!(fabs(totals[0] / n_tok - losses[0]) <= tol)) fail_msg("loss %.9g", totals[0] / n_tok);
    check_gradients(&o, tol * 10);
    check_logits(&o, &pass, tol);
    check_scores(&o, tol * 5);

    backend_zero(o.be, o.opt->grads, optimizer_bytes(o.model, 1, 1, 0) / 3);
    const struct batch *batches[] = {&o.batch};
    for (int64_t i = 0; i < get(&o, "losses")->shape[0]; i++) {
        struct update_report report;
        ok(optimizer_update(o.opt, batches, 1, &report, &err), &err);
        double loss = report.loss / n_tok;
        /* Each update starts from slightly other parameters, so differences grow with the steps; in
         * bf16, at this learning rate, only the first few losses can be held to the arithmetic's
         * precision. */
        double allowed = type != DTYPE_BF16 ? tol * 20 : i < 3 ? tol * 2 : 0.4 * losses[i];
        if (!(fabs(loss - losses[i]) <= allowed))
            fail_msg("step %d: loss %.9g, PyTorch %.9g", (int)i + 1, loss, losses[i]);
    }
    oracle_close(&o);
}

TEST(ref_f64) { compare(TEST_ARG, "ref", NULL, DTYPE_F64); }
TEST(ref_f32) { compare(TEST_ARG, "ref", NULL, DTYPE_F32); }

static void compare_isas(const char *which, enum dtype type) {
    int n = 0;
    for (int i = 0; isa_table[i]; i++)
        if (isa_usable(isa_table[i])) {
            compare(which, "cpu", isa_table[i]->name, type);
            n++;
        }
    assert_true(n > 0);
}
TEST(cpu_f32) { compare_isas(TEST_ARG, DTYPE_F32); }
TEST(cpu_bf16) { compare_isas(TEST_ARG, DTYPE_BF16); }

static void compare_cuda(const char *which, enum dtype type) {
    gpu_needed();
    compare(which, "cuda", NULL, type);
}
TEST(cuda_f32) { compare_cuda(TEST_ARG, DTYPE_F32); }
TEST(cuda_bf16) { compare_cuda(TEST_ARG, DTYPE_BF16); }

TESTS(TP(ref_f64, "post"), TP(ref_f64, "pre"), TP(ref_f32, "post"), TP(ref_f32, "pre"),
      TP(cpu_f32, "post"), TP(cpu_f32, "pre"), TP(cpu_bf16, "post"), TP(cpu_bf16, "pre"),
      TP(cuda_f32, "post"), TP(cuda_f32, "pre"), TP(cuda_bf16, "post"), TP(cuda_bf16, "pre"))
