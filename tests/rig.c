/* rig.c — see rig.h. */
#include "rig.h"

#include "test.h"

struct config rig_config(int n_vocab) {
    struct config c;
    struct err err;
    check_ok(config_preset(&c, "tiny", &err), &err);
    c.n_layer_enc = 1;
    c.n_layer_dec = 2;
    c.d_model = 24;
    c.n_head = 3;
    c.d_ff = 40;
    c.max_len = 40;
    c.tie = TIE_NONE;
    c.attention_init = ATTENTION_INIT_EACH; /* so random models end sentences sooner or later */
    c.n_vocab_src = c.n_vocab_tgt = n_vocab;
    check_ok(config_check(&c, &err), &err);
    return c;
}

/* Random weights, larger than training begins with, so that distributions have peaks. */
static void draw_model(struct model *model, uint64_t seed) {
    struct err err;
    float *flat = xcalloc(model->table.n_elem, sizeof *flat);
    check_ok(model_draw(model, seed, &err), &err);
    check_ok(model_get(model, flat, &err), &err);
    for (size_t i = 0; i < model->table.n_elem; i++) flat[i] *= 1.6f;
    check_ok(model_set(model, flat, &err), &err);
    xfree(flat);
}

static void open_models(struct rig *rig, const struct config *c, int n_model, enum dtype type,
                        int n_thread, uint64_t seed) {
    struct err err;
    struct backend_options where = {type == DTYPE_F64 ? "ref" : "cpu", n_thread, NULL};
    *rig = (struct rig){.n_model = n_model,
                        .n_vocab = c->n_vocab_tgt,
                        .marks = {.bos = BOS, .eos = EOS, .unk = UNK},
                        .weight = {1, 1}};
    check_ok(backend_open(&rig->toy[0].be, &where, &err), &err);
    for (int m = 0; m < n_model; m++) {
        struct toy *toy = &rig->toy[m];
        toy->be = rig->toy[0].be;
        check_ok(model_new(&toy->model, c, toy->be, type, &err), &err);
        draw_model(toy->model, seed + (uint64_t)m * 1000);
        check_ok(acts_new(&toy->acts, toy->model, RIG_TOKENS, RIG_TOKENS, 0, &err), &err);
        rig->model[m] = toy->model;
    }
}

void rig_open(struct rig *rig, int n_model, int n_vocab, enum dtype type, int n_thread,
              uint64_t seed) {
    struct config c = rig_config(n_vocab);
    open_models(rig, &c, n_model, type, n_thread, seed);
}

void rig_open_as(struct rig *rig, int n_vocab, const char *how, int n_thread, uint64_t seed) {
    struct err err = {0};
    struct config c = rig_config(n_vocab);
    if (strncmp(how, "ssru-", 5) == 0) {
        c.decoder = DECODER_SSRU;
        how += 5;
    }
    const char *dash = strchr(how, '-');
    enum precision precision;
    open_models(rig, &c, 1, strcmp(how, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32, n_thread, seed);
    if (!dash) return;
    ASSERT_OK(precision_parse(&precision, dash + 1, &err), err);
    ASSERT_OK(frozen_from_model(&rig->frozen, rig->toy[0].model, precision, 1, &err), err);
    ASSERT_OK(frozen_model(&rig->model[0], rig->frozen, rig->toy[0].be, &err), err);
}

void rig_close(struct rig *rig) {
    if (rig->frozen) model_free(rig->model[0]);
    frozen_close(rig->frozen);
    for (int m = 0; m < rig->n_model; m++) {
        acts_free(rig->toy[m].acts);
        model_free(rig->toy[m].model);
    }
    backend_close(rig->toy[0].be);
}

struct search_setup rig_setup(const struct rig *rig, int n_seq, int n_tok, int max_src) {
    return (struct search_setup){.model = rig->model,
                                 .n_model = rig->n_model,
                                 .weight = rig->n_model > 1 ? rig->weight : NULL,
                                 .marks = rig->marks,
                                 .caps = {n_seq, n_tok, max_src}};
}

struct searcher *rig_searcher(const struct rig *rig, const struct search_options *options,
                              int n_seq, int n_tok, int max_src) {
    struct searcher *s;
    struct err err = {0};
    struct search_setup setup = rig_setup(rig, n_seq, n_tok, max_src);
    ASSERT_OK(searcher_new(&s, &setup, options, &err), err);
    return s;
}

struct search_input *rig_inputs(int n, int longest, int n_vocab, uint64_t seed) {
    size_t room = (size_t)longest + 1;
    struct search_input *in = xcalloc((size_t)n, sizeof *in + room * sizeof(int32_t));
    int32_t *id = (int32_t *)(in + n);
    struct rng rng = {.key = seed};
    for (int s = 0; s < n; s++, id += room) {
        int len = 1 + (int)rng_below(&rng, (uint32_t)longest);
        for (int i = 0; i < len; i++) id[i] = (int32_t)rng_below(&rng, (uint32_t)n_vocab);
        id[len] = EOS;
        in[s] = (struct search_input){.src = id, .n_src = len + 1, .key = 100 + (uint64_t)s};
    }
    return in;
}

uint64_t rig_fingerprint(const struct search_result *r) {
    uint64_t hash = 1469598103934665603u;
    for (int k = 0; k < r->n; k++) {
        const struct hypothesis *h = &r->best[k];
        for (int i = 0; i < h->n; i++) hash = (hash ^ (uint64_t)h->ids[i]) * 1099511628211u;
        for (int i = 0; i < h->n + !h->cut; i++) {
            uint32_t bits;
            memcpy(&bits, &h->token_log_prob[i], sizeof bits);
            hash = (hash ^ bits) * 1099511628211u;
        }
        uint32_t bits;
        memcpy(&bits, &h->log_prob, sizeof bits);
        hash = (hash ^ bits ^ (uint64_t)h->cut << 40) * 1099511628211u;
        memcpy(&bits, &h->score, sizeof bits);
        hash = (hash ^ bits) * 1099511628211u;
    }
    return hash;
}

void rig_spoil(struct model *model, const char *name, int row) {
    struct err err;
    float *flat = xcalloc(model->table.n_elem, sizeof *flat);
    const struct param *p = param_table_find(&model->table, name);
    assert_non_null(p);
    check_ok(model_get(model, flat, &err), &err);
    flat[p->offset + (size_t)row * (size_t)p->cols] = NAN;
    check_ok(model_set(model, flat, &err), &err);
    xfree(flat);
}
