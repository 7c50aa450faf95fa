/* config.c — the table of config.h and everything that follows from it. */
#include "model/config.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"

static const char *const norm_choice[] = {"post", "pre", NULL};
static const char *const positions_choice[] = {"sinusoidal", "learned", NULL};
static const char *const tie_choice[] = {"all", "target", "none", NULL};
/* Indexed by enum act; a feed-forward layer without any activation is not offered. */
static const char *const activation_choice[] = {"", "relu", "gelu", "silu", NULL};

#define AT(field) offsetof(struct config, field)
enum { MAX_WIDTH = 1 << 16, MAX_LAYERS = 1000, MAX_VOCAB = 1 << 24, MAX_LEN = 1 << 20 };

const struct config_field config_fields[] = {
    {"n_vocab_src", "source vocabulary", CONFIG_INT, AT(n_vocab_src), 1, MAX_VOCAB, NULL},
    {"n_vocab_tgt", "target vocabulary", CONFIG_INT, AT(n_vocab_tgt), 1, MAX_VOCAB, NULL},
    {"n_layer_enc", "encoder layers", CONFIG_INT, AT(n_layer_enc), 1, MAX_LAYERS, NULL},
    {"n_layer_dec", "decoder layers", CONFIG_INT, AT(n_layer_dec), 1, MAX_LAYERS, NULL},
    {"d_model", "width of the model", CONFIG_INT, AT(d_model), 1, MAX_WIDTH, NULL},
    {"d_ff", "width of the feed-forward layers", CONFIG_INT, AT(d_ff), 1, MAX_WIDTH, NULL},
    {"n_head", "attention heads", CONFIG_INT, AT(n_head), 1, 1024, NULL},
    {"d_k", "width of a head's keys (0: d_model / n_head)", CONFIG_INT, AT(d_k), 0, MAX_WIDTH,
     NULL},
    {"d_v", "width of a head's values (0: d_model / n_head)", CONFIG_INT, AT(d_v), 0, MAX_WIDTH,
     NULL},
    {"dropout", "dropout on sub-layer outputs and embeddings", CONFIG_FLOAT, AT(dropout), 0, 1,
     NULL},
    {"attention_dropout", "dropout on attention weights", CONFIG_FLOAT, AT(attention_dropout), 0, 1,
     NULL},
    {"activation_dropout", "dropout inside the feed-forward layers", CONFIG_FLOAT,
     AT(activation_dropout), 0, 1, NULL},
    {"label_smoothing", "probability mass spread over the vocabulary", CONFIG_FLOAT,
     AT(label_smoothing), 0, 1, NULL},
    {"norm_eps", "epsilon of layer normalisation", CONFIG_FLOAT, AT(norm_eps), 1e-12, 1, NULL},
    {"max_len", "longest sentence in tokens, end mark included", CONFIG_INT, AT(max_len), 1,
     MAX_LEN, NULL},
    {"window", "self-attention sees this many neighbours on each side (0: all)", CONFIG_INT,
     AT(window), 0, MAX_LEN, NULL},
    {"norm", "layer normalisation after (post, the paper) or before (pre) sub-layers",
     CONFIG_CHOICE, AT(norm), 0, 0, norm_choice},
    {"positions", "position encodings", CONFIG_CHOICE, AT(positions), 0, 0, positions_choice},
    {"tie", "embeddings that share one matrix", CONFIG_CHOICE, AT(tie), 0, 0, tie_choice},
    {"activation", "activation of the feed-forward layers", CONFIG_CHOICE, AT(activation), 0, 0,
     activation_choice},
    {NULL, NULL, 0, 0, 0, 0, NULL},
};

const struct config_field *config_field_find(const char *name) {
    for (const struct config_field *f = config_fields; f->name; f++)
        if (strcmp(f->name, name) == 0) return f;
    return NULL;
}

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
    for (int i = 0; config_preset_names[i]; i++) {
        if (strcmp(name, config_preset_names[i]) != 0) continue;
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
    return err_set(err, HEED_ECONFIG, "preset: '%s' is not one of tiny, small, base, big", name);
}

/* ---- setting --------------------------------------------------------------------------------- */

static int set_choice(int *slot, const struct config_field *f, const char *value, struct err *err) {
    char list[160] = "";
    for (int i = 0; f->choice[i]; i++) {
        if (!f->choice[i][0]) continue;
        if (strcmp(value, f->choice[i]) == 0) {
            *slot = i;
            return 0;
        }
        strncat(list, list[0] ? ", " : "", sizeof list - strlen(list) - 1);
        strncat(list, f->choice[i], sizeof list - strlen(list) - 1);
    }
    return err_set(err, HEED_ECONFIG, "%s: '%s' is not one of %s", f->name, value, list);
}

/* The stored value as a double, whatever the kind. */
static double field_value(const struct config *config, const struct config_field *f) {
    const char *at = (const char *)config + f->offset;
    return f->kind == CONFIG_FLOAT ? (double)*(const float *)at : (double)*(const int *)at;
}

static int range_error(const struct config_field *f, double v, struct err *err) {
    if (f->kind == CONFIG_FLOAT)
        return err_set(err, HEED_ECONFIG, "%s: %g is not in [%g, %g)", f->name, v, f->min, f->max);
    return err_set(err, HEED_ECONFIG, "%s: %.0f is not between %.0f and %.0f", f->name, v, f->min,
                   f->max);
}

static int in_range(const struct config_field *f, double v) {
    return v >= f->min && (f->kind == CONFIG_FLOAT ? v < f->max : v <= f->max);
}

static int set_field(struct config *config, const struct config_field *f, const char *value,
                     struct err *err) {
    char *at = (char *)config + f->offset, *end;
    if (f->kind == CONFIG_CHOICE) return set_choice((int *)(void *)at, f, value, err);
    errno = 0;
    double v = strtod(value, &end);
    if (end == value || *end || isnan(v) || (f->kind == CONFIG_INT && v != floor(v)))
        return err_set(err, HEED_ECONFIG, "%s: '%s' is not %s", f->name, value,
                       f->kind == CONFIG_INT ? "a whole number" : "a number");
    if (!in_range(f, v)) return range_error(f, v, err);
    if (f->kind == CONFIG_INT)
        *(int *)(void *)at = (int)v;
    else
        *(float *)(void *)at = (float)v;
    return 0;
}

int config_set(struct config *config, const char *name, const char *value, struct err *err) {
    static const struct {
        const char *name, *first, *second;
    } pair[] = {{"n_layer", "n_layer_enc", "n_layer_dec"},
                {"n_vocab", "n_vocab_src", "n_vocab_tgt"}};
    for (size_t i = 0; i < sizeof pair / sizeof pair[0]; i++)
        if (strcmp(name, pair[i].name) == 0) {
            int rc = config_set(config, pair[i].first, value, err);
            return rc ? rc : config_set(config, pair[i].second, value, err);
        }
    const struct config_field *f = config_field_find(name);
    if (!f) return err_set(err, HEED_ECONFIG, "%s: there is no such field", name);
    return set_field(config, f, value, err);
}

/* ---- check ----------------------------------------------------------------------------------- */

static int check_head_width(int *d_head, const char *name, const struct config *config,
                            struct err *err) {
    if (*d_head == 0) {
        if (config->d_model % config->n_head)
            return err_set(err, HEED_ECONFIG,
                           "d_model: %d is not divisible by n_head %d, and %s is not given",
                           config->d_model, config->n_head, name);
        *d_head = config->d_model / config->n_head;
    }
    if ((int64_t)*d_head * config->n_head > MAX_WIDTH)
        return err_set(err, HEED_ECONFIG, "%s: %d times n_head %d exceeds %d", name, *d_head,
                       config->n_head, MAX_WIDTH);
    return 0;
}

/* Parameters of the largest possible parts, saturating: offsets into the flat buffer are int. */
static int check_total(const struct config *c, struct err *err) {
    size_t d = (size_t)c->d_model, qk = (size_t)c->n_head * (size_t)c->d_k,
           vv = (size_t)c->n_head * (size_t)c->d_v;
    size_t attention = d * (2 * qk + 2 * vv), ff = 2 * d * (size_t)c->d_ff;
    size_t n = size_mul((size_t)c->n_layer_enc, attention + ff);
    n = size_add(n, size_mul((size_t)c->n_layer_dec, 2 * attention + ff));
    n = size_add(n, (size_t)(c->tie == TIE_ALL ? 0 : c->n_vocab_src) * d);
    n = size_add(n, (size_t)c->n_vocab_tgt * (c->tie == TIE_NONE ? 2 : 1) * d);
    n = size_add(n, c->positions == POSITIONS_LEARNED ? 2 * (size_t)c->max_len * d : 0);
    if (n > INT_MAX - (1 << 24))
        return err_set(err, HEED_ECONFIG,
                       "d_model: %d with these layers and vocabularies makes %.3g "
                       "parameters; at most %d are supported",
                       c->d_model, (double)n, INT_MAX);
    return 0;
}

int config_check(struct config *config, struct err *err) {
    for (const struct config_field *f = config_fields; f->name; f++) {
        double v = field_value(config, f);
        if (f->kind == CONFIG_CHOICE) {
            int n = 0;
            while (f->choice[n]) n++;
            if (v < 0 || v >= n || !f->choice[(int)v][0])
                return err_set(err, HEED_ECONFIG, "%s: %.0f names no choice", f->name, v);
        } else if (!in_range(f, v)) {
            return range_error(f, v, err);
        }
    }
    /* Masks have 16 bits: a rate that rounds to 1 would drop everything. */
    if (dropout_threshold(config->dropout) > 65535 ||
        dropout_threshold(config->attention_dropout) > 65535 ||
        dropout_threshold(config->activation_dropout) > 65535)
        return err_set(err, HEED_ECONFIG, "dropout: a rate above 65535/65536 drops everything");
    if (config->tie == TIE_ALL && config->n_vocab_src != config->n_vocab_tgt)
        return err_set(err, HEED_ECONFIG,
                       "tie: 'all' needs one vocabulary, but n_vocab_src is %d and n_vocab_tgt %d",
                       config->n_vocab_src, config->n_vocab_tgt);
    int rc = check_head_width(&config->d_k, "d_k", config, err);
    if (!rc) rc = check_head_width(&config->d_v, "d_v", config, err);
    return rc ? rc : check_total(config, err);
}

struct products config_products(const struct config *c) {
    double d = c->d_model, qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    double self = 2 * d * qk + 2 * d * vv, half = d * qk + d * vv, ff = 2 * d * c->d_ff;
    return (struct products){.per_src = c->n_layer_enc * (self + ff) + c->n_layer_dec * half,
                             .per_tgt = c->n_layer_dec * (self + half + ff) + d * c->n_vocab_tgt};
}
