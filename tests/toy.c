/* toy.c — see toy.h. */
#include "toy.h"

#include "backend/device.h"
#include "data/tokenizer.h"
#include "model/modeldir.h"
#include "model/transformer.h"
#include "test.h"

void check_ok(int rc, const struct err *err) {
    if (rc) fail_msg("status %d: %s", rc, err->msg);
}

struct config toy_config(void) {
    struct config c;
    struct err err;
    check_ok(config_preset(&c, "tiny", &err), &err);
    c.n_layer_enc = c.n_layer_dec = 2;
    c.d_model = 40;
    c.n_head = 5;
    c.d_ff = 56;
    c.n_vocab_src = c.n_vocab_tgt = 33;
    c.max_len = 64;
    check_ok(config_check(&c, &err), &err);
    return c;
}

struct config toy_foreign_config(void) {
    struct config c = toy_config();
    struct err err;
    c.output_bias = c.embed_norm = 1;
    c.d_ff_dec = 72;
    check_ok(config_check(&c, &err), &err);
    return c;
}

struct config toy_ssru_config(void) {
    struct config c = toy_foreign_config();
    c.decoder = DECODER_SSRU;
    return c;
}

void toy_disturb(struct model *m) {
    struct err err = {0};
    float *flat = xcalloc(m->table.n_elem, sizeof *flat);
    struct rng rng = {.key = 77};
    check_ok(model_get(m, flat, &err), &err);
    for (int i = 0; i < m->table.n_param; i++) {
        const struct param *p = &m->table.param[i];
        for (size_t k = 0; k < (size_t)p->rows * (size_t)p->cols; k++)
            flat[p->offset + k] += 0.05f * (float)rng_normal(&rng);
    }
    check_ok(model_set(m, flat, &err), &err);
    xfree(flat);
}

void toy_open(struct toy *toy, const struct config *config, const struct backend_options *where,
              enum dtype type, int tokens) {
    struct err err;
    *toy = (struct toy){0};
    check_ok(backend_open(&toy->be, where, &err), &err);
    check_ok(model_new(&toy->model, config, toy->be, type, &err), &err);
    check_ok(model_draw(toy->model, 11, &err), &err);
    check_ok(acts_new(&toy->acts, toy->model, tokens, tokens, 1, &err), &err);
    struct optimizer_options options = optimizer_defaults;
    options.warmup = 40;
    options.lr_scale = 0.3;
    options.clip = 1;
    options.accumulate = 8;
    check_ok(optimizer_new(&toy->opt, toy->model, toy->acts, &options, &err), &err);
}

void toy_close(struct toy *toy) {
    optimizer_free(toy->opt);
    acts_free(toy->acts);
    model_free(toy->model);
    backend_close(toy->be);
}

void toy_batch(struct batch *batch, const int *src_len, const int *tgt_len, int n, int n_vocab,
               uint64_t seed) {
    struct rng rng = {.key = seed};
    struct err err;
    int n_src = 0, n_tgt = 0;
    for (int i = 0; i < n; i++) {
        n_src += src_len[i];
        n_tgt += tgt_len[i];
    }
    check_ok(batch_init(batch, n_src, n_tgt, n, TOY_BOS, &err), &err);
    int32_t *src = xcalloc((size_t)n_src, sizeof *src), *tgt = xcalloc((size_t)n_tgt, sizeof *tgt);
    for (int s = 0; s < n; s++) {
        for (int i = 0; i < src_len[s]; i++)
            src[i] = 4 + (int32_t)rng_below(&rng, (uint32_t)n_vocab - 4);
        for (int i = 0; i < tgt_len[s]; i++)
            tgt[i] = 4 + (int32_t)rng_below(&rng, (uint32_t)n_vocab - 4);
        assert_int_equal(batch_add(batch, src, src_len[s], tgt, tgt_len[s], &err), 1);
    }
    xfree(src);
    xfree(tgt);
}

float *toy_logits(struct toy *toy, const struct batch *batch) {
    struct err err;
    struct model *m = toy->model;
    int n = batch->tgt.n_tok, v = m->config.n_vocab_tgt;
    struct mat logits = {.ld = v, .rows = n, .cols = v, .type = m->type};
    struct pass pass = {.model = m, .acts = toy->acts};
    check_ok(acts_load(toy->acts, batch, &err), &err);
    transformer_fwd(&pass);
    logits.data = backend_alloc(toy->be, (size_t)n * (size_t)v * sizeof(double), &err);
    toy->be->committed = 0; /* forming all logits is not part of a planned step */
    transformer_logits(&pass, logits);
    struct mat f32 = logits;
    f32.type = DTYPE_F32;
    f32.data = backend_alloc(toy->be, (size_t)n * (size_t)v * sizeof(float), &err);
    backend_cast(toy->be, &f32, &logits);
    float *host = xcalloc((size_t)n * (size_t)v, sizeof *host);
    backend_download(toy->be, host, f32.data, (size_t)n * (size_t)v * sizeof *host);
    check_ok(backend_sync(toy->be, &err), &err);
    backend_free(toy->be, logits.data);
    backend_free(toy->be, f32.data);
    return host;
}

float *toy_params(struct toy *toy) {
    struct err err;
    float *flat = xcalloc(toy->model->table.n_elem, sizeof *flat);
    check_ok(model_get(toy->model, flat, &err), &err);
    return flat;
}

int model_load(struct model **model, const char *dir, struct backend *be, enum dtype type,
               struct err *err) {
    *model = NULL;
    struct modeldir md;
    int rc = modeldir_open(&md, dir, err);
    if (rc) return rc;
    rc = model_new(model, &md.config, be, type, err);
    if (!rc && (rc = model_load_weights(*model, &md, err))) {
        model_free(*model);
        *model = NULL;
    }
    modeldir_close(&md);
    return rc;
}

const char *model_dir(const char *name, uint64_t seed, int vocabulary) {
    static char dir[4][512];
    static int n;
    struct err err = {0};
    char text[600], token[600], weights[600];
    char *path = dir[n++ % 4];
    snprintf(path, sizeof dir[0], "%s/%s", test_dir(), name);
    snprintf(text, sizeof text, "%s.txt", path);
    snprintf(token, sizeof token, "%s.model", path);
    snprintf(weights, sizeof weights, "%s/%s", path, MODELDIR_WEIGHTS);
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    for (int i = 0; i < 400; i++)
        fprintf(f, "the %c%c cat number %d sat on mat %d, and so did dog %d.\n", 'a' + i % 26,
                'a' + i * 7 % 26, i, i * 3, i * 5);
    fclose(f);
    const char *const input[] = {text};
    ASSERT_OK(tokenizer_train(&(struct tokenizer_train_options){.input = input,
                                                                .n_input = 1,
                                                                .out = token,
                                                                .size = vocabulary,
                                                                .type = TOKENIZER_BPE,
                                                                .threads = 1},
                              NULL, &err),
              err);
    struct config c;
    struct backend *be;
    struct model *model;
    ASSERT_OK(config_preset(&c, "tiny", &err), err);
    c.n_vocab_src = c.n_vocab_tgt = vocabulary;
    c.n_layer_enc = c.n_layer_dec = 2;
    c.d_model = 32;
    c.d_ff = 64;
    c.n_head = 4;
    c.d_k = c.d_v = 8;
    c.max_len = 64;
    ASSERT_OK(config_check(&c, &err), err);
    ASSERT_OK(backend_open(&be, &(struct backend_options){"cpu", 1, NULL}, &err), err);
    ASSERT_OK(model_new(&model, &c, be, DTYPE_F32, &err), err);
    ASSERT_OK(model_draw(model, seed, &err), err);
    ASSERT_OK(modeldir_init(path, &c, NULL, token, &err), err);
    ASSERT_OK(
        model_save(model, weights, &(struct weights_options){.step = 1, .type = DTYPE_F32}, &err),
        err);
    model_free(model);
    backend_close(be);
    return path;
}
