/* config.c — the table of config.h and everything that follows from it. */
#include "model/config.h"

#include <limits.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "base/num.h"

static const char *const norm_choice[] = {"post", "pre", NULL};
static const char *const positions_choice[] = {"sinusoidal", "learned", NULL};
static const char *const tie_choice[] = {"all", "target", "none", NULL};
/* Indexed by enum act; a feed-forward layer without any activation is not offered. */
static const char *const activation_choice[] = {"", "relu", "gelu", "silu", NULL};

static const char *const decoder_choice[] = {"attention", "ssru", NULL};
static const char *const mask_choice[] = {"causal", "none", NULL};
static const char *const score_scale_choice[] = {"sqrt", "one", NULL};
static const char *const attention_init_choice[] = {"joint", "each", NULL};

enum { MAX_WIDTH = 1 << 16, MAX_LAYERS = 1000, MAX_VOCAB = 1 << 24, MAX_LEN = 1 << 20 };

#define OPTIONS_OF config
const struct option config_rows[] = {
    ROW(INT, "n_vocab_src", n_vocab_src, NULL, "source vocabulary", .min = 1, .max = MAX_VOCAB),
    ROW(INT, "n_vocab_tgt", n_vocab_tgt, NULL, "target vocabulary", .min = 1, .max = MAX_VOCAB),
    ROW(INT, "n_layer_enc", n_layer_enc, NULL, "encoder layers", .min = 1, .max = MAX_LAYERS),
    ROW(INT, "n_layer_dec", n_layer_dec, NULL, "decoder layers", .min = 1, .max = MAX_LAYERS),
    ROW(INT, "d_model", d_model, NULL, "width of the model", .min = 1, .max = MAX_WIDTH),
    ROW(INT, "d_ff", d_ff, NULL, "width of the feed-forward layers", .min = 1, .max = MAX_WIDTH),
    ROW(INT, "n_head", n_head, NULL, "attention heads", .min = 1, .max = 1024),
    ROW(INT, "d_k", d_k, NULL, "width of a head's keys (0: d_model / n_head)", .max = MAX_WIDTH),
    ROW(INT, "d_v", d_v, NULL, "width of a head's values (0: d_model / n_head)", .max = MAX_WIDTH),
    ROW(F32, "dropout", dropout, NULL, "dropout on sub-layer outputs and embeddings", .max = 1,
        .below = 1),
    ROW(F32, "attention_dropout", attention_dropout, NULL, "dropout on attention weights", .max = 1,
        .below = 1),
    ROW(F32, "activation_dropout", activation_dropout, NULL,
        "dropout inside the feed-forward layers", .max = 1, .below = 1),
    ROW(F32, "label_smoothing", label_smoothing, NULL,
        "probability mass spread over the vocabulary", .max = 1, .below = 1),
    ROW(F32, "norm_eps", norm_eps, NULL, "epsilon of layer normalisation", .min = 1e-12, .max = 1,
        .below = 1),
    ROW(INT, "max_len", max_len, NULL, "longest sentence in tokens, end mark included", .min = 1,
        .max = MAX_LEN),
    ROW(INT, "window", window, NULL,
        "self-attention sees this many neighbours on each side (0: all)", .max = MAX_LEN),
    ROW(CHOICE, "norm", norm, NULL,
        "layer normalisation after (post, the paper) or before (pre) sub-layers",
        .choices = norm_choice),
    ROW(CHOICE, "positions", positions, NULL, "position encodings", .choices = positions_choice),
    ROW(CHOICE, "tie", tie, NULL, "embeddings that share one matrix", .choices = tie_choice),
    ROW(CHOICE, "activation", activation, NULL, "activation of the feed-forward layers",
        .choices = activation_choice),
    ROW(FLAG, "output_bias", output_bias, "0", "a bias for each logit"),
    ROW(FLAG, "embed_norm", embed_norm, "0",
        "layer normalisation after embedding and position, in both stacks"),
    ROW(INT, "d_ff_dec", d_ff_dec, "0",
        "width of the decoder's feed-forward layers (0: as the encoder's)", .max = MAX_WIDTH),
    ROW(CHOICE, "decoder", decoder, "attention",
        "how decoder layers look back: self-attention, or a recurrence (ssru)",
        .choices = decoder_choice),
    ROW(CHOICE, "mask", mask, "causal",
        "none: for an experiment, decoder layers also see the tokens they are to write",
        .choices = mask_choice),
    ROW(CHOICE, "score_scale", score_scale, "sqrt",
        "one: for an experiment, attention's scores are not divided by the root of d_k",
        .choices = score_scale_choice),
    ROW(CHOICE, "attention_init", attention_init, "joint",
        "first weights of queries, keys and values: drawn as one matrix of all three, or each: for "
        "an experiment, as three, which are larger by the root of 2",
        .choices = attention_init_choice),
    {.name = NULL},
};

const struct option config_pairs[] = {
    ROW(INT, "n_layer", n_layer_enc, NULL, "layers of both encoder and decoder", .min = 1,
        .max = MAX_LAYERS, .also = offsetof(struct config, n_layer_dec)),
    ROW(INT, "n_vocab", n_vocab_src, NULL, "source and target vocabulary", .min = 1,
        .max = MAX_VOCAB, .also = offsetof(struct config, n_vocab_tgt)),
    {.name = NULL},
};

/* ---- presets --------------------------------------------------------------------------------- */

const char *const config_preset_names[] = {"tiny", "small", "base", "big", NULL};

int config_preset(struct config *config, const char *name, struct err *err) {
    static const struct {
        int n_layer, d_model, d_ff, n_head;
        float dropout;
    } preset[] = {
        {3, 256, 1024, 4, 0.1f},
        {6, 512, 1024, 4, 0.3f},   /* the usual model for small corpora (IWSLT) */
        {6, 512, 2048, 8, 0.1f},   /* PAPER: Table 3, base */
        {6, 1024, 4096, 16, 0.3f}, /* PAPER: Table 3, big */
    };
    int i = 0;
    struct err why;
    if (choice_parse(&i, config_preset_names, name, &why))
        return err_set(err, HEED_ECONFIG, "preset: %s", why.msg);
    *config = (struct config){
        .n_layer_enc = preset[i].n_layer,
        .n_layer_dec = preset[i].n_layer,
        .d_model = preset[i].d_model,
        .d_ff = preset[i].d_ff,
        .n_head = preset[i].n_head,
        .dropout = preset[i].dropout,
        .label_smoothing = 0.1f,
        .norm_eps = 1e-5f, /* PAPER: unstated; this is what peers and converters assume */
        .max_len = 1024,
        .norm = NORM_POST,
        .positions = POSITIONS_SINUSOIDAL,
        .tie = TIE_ALL,
        .activation = ACT_RELU,
    };
    return 0;
}

/* ---- setting --------------------------------------------------------------------------------- */

int config_set(struct config *config, const char *name, const char *value, struct err *err) {
    const struct option *o = option_find(config_rows, name, strlen(name));
    struct err why;
    if (!o) o = option_find(config_pairs, name, strlen(name));
    if (!o) return err_set(err, HEED_ECONFIG, "%s: there is no such field", name);
    if (option_set(o, config, value, &why) == 0) return 0;
    return err_set(err, HEED_ECONFIG, "%s: %.200s", name, why.msg);
}

/* ---- check ----------------------------------------------------------------------------------- */

static int check_head_width(int *d_head, const char *name, const struct config *config,
                            struct err *err) {
    if (*d_head == 0) {
        if (config->d_model % config->n_head)
            return err_set(err, HEED_ECONFIG,
                           "d_model: %d is not divisible by the number of heads, %d",
                           config->d_model, config->n_head);
        *d_head = config->d_model / config->n_head;
    }
    if ((int64_t)*d_head * config->n_head > MAX_WIDTH)
        return err_set(err, HEED_ECONFIG, "%s: %d in each of %d heads is more than %d", name,
                       *d_head, config->n_head, MAX_WIDTH);
    return 0;
}

/* Parameters of the largest possible parts, saturating: offsets into the flat buffer are int. */
static int check_total(const struct config *c, struct err *err) {
    size_t d = (size_t)c->d_model, qk = (size_t)c->n_head * (size_t)c->d_k,
           vv = (size_t)c->n_head * (size_t)c->d_v;
    size_t attention = d * (2 * qk + 2 * vv);
    size_t n = size_mul((size_t)c->n_layer_enc, attention + 2 * d * (size_t)config_d_ff(c, 0));
    size_t back = c->decoder == DECODER_SSRU ? 2 * d * d : attention;
    n = size_add(
        n, size_mul((size_t)c->n_layer_dec, back + attention + 2 * d * (size_t)config_d_ff(c, 1)));
    n = size_add(n, (size_t)(c->tie == TIE_ALL ? 0 : c->n_vocab_src) * d);
    n = size_add(n, (size_t)c->n_vocab_tgt * (c->tie == TIE_NONE ? 2 : 1) * d);
    n = size_add(n, c->positions == POSITIONS_LEARNED ? 2 * (size_t)c->max_len * d : 0);
    n = size_add(n, c->output_bias ? (size_t)c->n_vocab_tgt : 0);
    if (n > INT_MAX - (1 << 24))
        return err_set(err, HEED_ECONFIG,
                       "d_model: %d with these layers and vocabularies makes %s "
                       "parameters; at most %s are supported",
                       c->d_model, num_grouped((char[28]){0}, n),
                       num_grouped((char[28]){0}, INT_MAX - (1 << 24)));
    return 0;
}

int config_check(struct config *config, struct err *err) {
    struct err why;
    if (options_check(config_rows, config, &why)) return err_set(err, HEED_ECONFIG, "%s", why.msg);
    /* Masks have 16 bits: a rate that rounds to 1 would drop everything. */
    if (dropout_threshold(config->dropout) > 65535 ||
        dropout_threshold(config->attention_dropout) > 65535 ||
        dropout_threshold(config->activation_dropout) > 65535)
        return err_set(err, HEED_ECONFIG, "dropout: a rate above 65535/65536 drops everything");
    if (config->tie == TIE_ALL && config->n_vocab_src != config->n_vocab_tgt)
        return err_set(
            err, HEED_ECONFIG,
            "tie: 'all' needs one vocabulary, but there are %d source and %d target pieces",
            config->n_vocab_src, config->n_vocab_tgt);
    if (config->mask == MASK_NONE && config->decoder == DECODER_SSRU)
        return err_set(err, HEED_ECONFIG,
                       "mask: 'none' takes the mask from the decoder's self-attention, which a "
                       "decoder of kind ssru does not have");
    if (config->d_ff_dec == config->d_ff) config->d_ff_dec = 0;
    int rc = check_head_width(&config->d_k, "d_k", config, err);
    if (!rc) rc = check_head_width(&config->d_v, "d_v", config, err);
    return rc ? rc : check_total(config, err);
}

int config_take(struct config *config, const struct option_group *groups, struct err *err) {
    for (const struct option_group *g = groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++)
            if ((g->rows == config_rows || g->rows == config_pairs) && g->given & option_bit(g, o))
                option_copy(o, config, g->values);
    return config_check(config, err);
}

int config_from_preset(struct config *config, const char *preset, int n_vocab,
                       const struct option_group *groups, struct err *err) {
    int rc = config_preset(config, preset, err);
    if (rc) return rc;
    config->n_vocab_src = config->n_vocab_tgt = n_vocab;
    return config_take(config, groups, err);
}

const char *config_experiment(const struct config *c) {
    return c->mask != MASK_CAUSAL               ? "mask"
           : c->score_scale != SCORE_SCALE_SQRT ? "score_scale"
                                                : NULL;
}

struct products config_products(const struct config *c) {
    double d = c->d_model, qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    double self = 2 * d * qk + 2 * d * vv, half = d * qk + d * vv;
    double ff = 2 * d * config_d_ff(c, 0), ff_dec = 2 * d * config_d_ff(c, 1);
    double back = c->decoder == DECODER_SSRU ? 2 * d * d : self;
    return (struct products){.per_src = c->n_layer_enc * (self + ff) + c->n_layer_dec * half,
                             .per_tgt =
                                 c->n_layer_dec * (back + half + ff_dec) + d * c->n_vocab_tgt};
}
