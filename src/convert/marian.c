/* marian.c — models of Marian: .npz and .bin with what OPUS-MT, Bergamot and Firefox put beside
 * them.
 *
 * The weights say what model they are in one of their own: `special:model.yml`. How it is run, and
 * which vocabularies it has, is in decoder.yml or config.*.yml beside it, where there is one. A
 * vocabulary is a SentencePiece file (.spm), or a list of tokens (vocab.yml) to which SentencePiece
 * pieces of source.spm and target.spm are looked up.
 *
 * Everything of Marian's that changes what is computed is either taken over or refused by its name;
 * a tensor that no part of our model would take is refused, too. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "convert/foreign.h"
#include "convert/marian_file.h"
#include "convert/marian_vocab.h"
#include "data/tokenizer.h"
#include "io/yaml.h"

enum {
    MAX_LEN = 512, /* positions are computed, so any number would do; training sees fewer */
    NAME = 96
};
#define ALPHA "_QuantMultA" /* ends the name of a factor for activations */

struct reader {
    struct bundle *bundle;
    struct marian_file file;
    json_t *decode; /* decoder.yml; an empty object where there is none */
    int *layer;     /* of the decoder, [n]: tied ones have the number of another; from 1 */
    int ssru;       /* the decoder has SSRUs instead of self-attention */
    int alphas;     /* activations are rounded by factors that the model has */
};

static void marian_close(struct foreign *model) {
    struct reader *r = model->reader;
    marian_file_close(&r->file);
    json_decref(r->decode);
    xfree(r->layer);
    xfree(r);
}

static int refuse(const struct reader *r, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.120s: %s", r->file.where, what);
}

/* ---- decoder.yml ----------------------------------------------------------------------------- */

/* How to run it: decoder.yml of OPUS-MT, config.*.yml of Bergamot. NULL: nobody says. */
static const char *find_decode(const struct bundle *b) {
    const char *name = bundle_main(b);
    if (name && ends_with(name, ".yml")) return name;
    name = bundle_ending(b, "decoder.yml");
    for (int i = 0; i < bundle_count(b) && !name; i++) {
        const char *base = base_name(bundle_name(b, i));
        if (strncmp(base, "config", 6) == 0 && ends_with(base, ".yml")) name = bundle_name(b, i);
    }
    return name;
}

static int read_decode(struct reader *r, const char *name, struct err *err) {
    const void *data;
    size_t size;
    if (!name) return r->decode = json_object(), 0;
    int rc = bundle_get(r->bundle, name, BUNDLE_TEXT, &data, &size, err);
    if (!rc) rc = yaml_in_text(&r->decode, size ? data : "", size, name, err);
    if (!rc && !json_is_object(r->decode))
        rc = err_set(err, HEED_EFORMAT, "%.180s: no settings in it", name);
    return rc;
}

/* The i-th text of a list in decoder.yml, or NULL. */
static const char *listed(const struct reader *r, const char *key, size_t i) {
    return json_string_value(json_array_get(json_object_get(r->decode, key), i));
}

static const char *choose_weights(const struct reader *r, const char *decode, struct err *err) {
    const char *given = bundle_main(r->bundle), *wanted = listed(r, "models", 0);
    size_t n = json_array_size(json_object_get(r->decode, "models"));
    const char *name = NULL;
    if (!wanted || (given && marian_file_is_weights(r->bundle, given))) {
        name = marian_file_find(r->bundle);
        if (!name)
            err_set(err, HEED_EFORMAT, "%.180s: no .npz or .bin of Marian there",
                    bundle_path(r->bundle));
    } else if (n > 1) {
        err_set(err, HEED_EFORMAT, "%.150s: %zu models at once; import one by naming its file",
                decode, n);
    } else {
        name = marian_file_named(r->bundle, wanted);
        if (!name)
            err_set(err, HEED_EFORMAT, "%.100s: its model '%.100s' is not there", decode,
                    base_name(wanted));
    }
    return name;
}

/* ---- settings -------------------------------------------------------------------------------- */

/* A setting in words. */
static const char *value_text(char text[NAME], const json_t *value) {
    if (json_is_string(value))
        snprintf(text, NAME, "%.80s", json_string_value(value));
    else if (json_is_array(value))
        snprintf(text, NAME, json_array_size(value) ? "a list" : "");
    else if (json_is_integer(value))
        snprintf(text, NAME, "%lld", (long long)json_integer_value(value));
    else if (json_is_real(value))
        snprintf(text, NAME, "%g", json_real_value(value));
    else
        snprintf(text, NAME, "%s", json_is_true(value) ? "true" : "false");
    return text;
}

static const char *setting(const struct reader *r, const char *key, const char *fallback,
                           char text[NAME]) {
    const json_t *value = json_object_get(r->file.model, key);
    if (!value) snprintf(text, NAME, "%s", fallback);
    return value ? value_text(text, value) : text;
}

static int is_set(const struct reader *r, const char *key) {
    return json_is_true(json_object_get(r->file.model, key));
}

static int refuse_setting(const struct reader *r, const char *key, const char *why,
                          struct err *err) {
    char text[NAME];
    return err_set(err, HEED_EFORMAT, "%.90s: the model has %s %.30s, %s", r->file.where, key,
                   value_text(text, json_object_get(r->file.model, key)), why);
}

static int setting_int(const struct reader *r, const char *key, int fallback, int *value,
                       struct err *err) {
    const json_t *v = json_object_get(r->file.model, key);
    *value = fallback;
    if (!v && fallback >= 0) return 0;
    if (!v)
        return err_set(err, HEED_EFORMAT, "%.120s: special:model.yml has no %s", r->file.where,
                       key);
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > 1 << 30)
        return refuse_setting(r, key, "which is not a number as expected", err);
    *value = (int)json_integer_value(v);
    return 0;
}

/* What must be as it usually is, since ours has nothing of the kind. */
static int check_settings(const struct reader *r, struct err *err) {
    static const struct {
        const char *key, *usual, *other;
    } rules[] = {
        {"type", "transformer", NULL},
        {"transformer-no-projection", "false", NULL},
        {"transformer-pool", "false", NULL},
        {"transformer-rnn-projection", "false", NULL},
        {"transformer-ffn-depth", "2", NULL},
        {"transformer-decoder-ffn-depth", "0", "2"},
        {"transformer-attention-mask", "default", NULL},
        {"transformer-disable-position-embeddings", "false", NULL},
        {"transformer-no-bias", "false", NULL},
        {"transformer-no-affine", "false", NULL},
        {"input-types", "", NULL},
        {"lemma-dim-emb", "0", NULL},
        {"right-left", "false", NULL},
        {"ulr", "false", NULL},
    };
    char text[NAME];
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const char *is = setting(r, rules[i].key, rules[i].usual, text);
        if (strcmp(is, rules[i].usual) != 0 && !(rules[i].other && !strcmp(is, rules[i].other)))
            return refuse_setting(r, rules[i].key, "which cannot be expressed", err);
    }
    return 0;
}

/* The operations around a sub-layer without dropout, of which there is none when translating. */
static const char *operations(const struct reader *r, const char *key, const char *fallback,
                              char text[NAME]) {
    char whole[NAME], *out = text;
    for (const char *at = setting(r, key, fallback, whole); *at; at++)
        if (*at != 'd') *out++ = *at;
    *out = 0;
    return text;
}

static int read_norms(const struct reader *r, struct config *c, struct err *err) {
    char pre[NAME], post[NAME], top[NAME], emb[NAME];
    operations(r, "transformer-preprocess", "", pre);
    operations(r, "transformer-postprocess", "dan", post);
    operations(r, "transformer-postprocess-top", "", top);
    operations(r, "transformer-postprocess-emb", "d", emb);
    if (!strcmp(pre, "") && !strcmp(post, "an") && !strcmp(top, ""))
        c->norm = NORM_POST;
    else if (!strcmp(pre, "n") && !strcmp(post, "a") && !strcmp(top, "n"))
        c->norm = NORM_PRE;
    else
        return err_set(err, HEED_EFORMAT,
                       "%.80s: the operations before, after and above layers are '%.10s', '%.10s' "
                       "and '%.10s'; '', 'dan', '' or 'n', 'da', 'n' can be expressed",
                       r->file.where, pre, post, top);
    c->embed_norm = strcmp(emb, "n") == 0;
    return c->embed_norm || !*emb
               ? 0
               : refuse_setting(r, "transformer-postprocess-emb", "not 'd' or 'n'", err);
}

/* Up to 1.12.0 Marian's gelu was x sigmoid(1.702 x); ours, and theirs since, is the real one. */
static int read_activation(const struct reader *r, struct config *c, struct err *err) {
    char text[NAME], version[NAME];
    int major = 0, minor = 0, patch = 0;
    setting(r, "transformer-ffn-activation", "swish", text);
    if (!strcmp(text, "relu")) return config_set(c, "activation", "relu", err);
    if (!strcmp(text, "swish")) return config_set(c, "activation", "silu", err);
    if (strcmp(text, "gelu") != 0)
        return refuse_setting(r, "transformer-ffn-activation", "not relu, swish or gelu", err);
    setting(r, "version", "", version);
    if (sscanf(version, "v%d.%d.%d", &major, &minor, &patch) < 2 || major < 1 ||
        (major == 1 && (minor < 12 || (minor == 12 && patch == 0))))
        return refuse_setting(r, "transformer-ffn-activation",
                              "which was an approximation before Marian 1.12.1", err);
    return config_set(c, "activation", "gelu", err);
}

static int read_decoder(struct reader *r, struct config *c, struct err *err) {
    char text[NAME], cell[NAME];
    setting(r, "transformer-decoder-autoreg", "self-attention", text);
    if (!strcmp(text, "self-attention")) return 0;
    if (strcmp(text, "rnn") != 0)
        return refuse_setting(r, "transformer-decoder-autoreg",
                              "not self-attention or rnn (an SSRU)", err);
    if (strcmp(setting(r, "dec-cell", "", cell), "ssru") != 0)
        return refuse_setting(r, "dec-cell", "not ssru", err);
    if (is_set(r, "layer-normalization"))
        return refuse_setting(r, "layer-normalization", "which an SSRU of ours has not", err);
    r->ssru = 1;
    /* Students learn from a teacher's translations, without noise, and bear none: with a dropout of
     * 0.1 those of Firefox lose 6 nats a token. */
    c->dropout = c->label_smoothing = 0;
    return config_set(c, "decoder", "ssru", err);
}

static int read_tied_layers(struct reader *r, int n, struct err *err) {
    const json_t *tied = json_object_get(r->file.model, "transformer-tied-layers");
    size_t given = json_array_size(tied);
    if (given && given != (size_t)n)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: transformer-tied-layers has %zu numbers for %d layers",
                       r->file.where, given, n);
    r->layer = xcalloc((size_t)n, sizeof *r->layer);
    for (int i = 0; i < n; i++) {
        json_int_t of = given ? json_integer_value(json_array_get(tied, (size_t)i)) : i + 1;
        if (of < 1 || of > n)
            return err_set(err, HEED_EFORMAT, "%.120s: transformer-tied-layers: layer %lld of %d",
                           r->file.where, (long long)of, n);
        r->layer[i] = (int)of;
    }
    return 0;
}

/* How many rows the matrix has, or -1. */
static int rows_of(const struct reader *r, const char *name) {
    const struct marian_item *item = marian_file_item(&r->file, name);
    if (!item || item->tensor.rank != 2 || item->tensor.shape[0] > TOKENIZER_MAX_SIZE) return -1;
    return (int)item->tensor.shape[0];
}

/* Embeddings of both stacks are one matrix, or the target's and the output's are. */
static int shares_embeddings(const struct reader *r) {
    return is_set(r, "tied-embeddings-all") || is_set(r, "tied-embeddings-src");
}

static int read_config(struct reader *r, struct foreign *m, struct err *err) {
    struct config *c = &m->config;
    *c = foreign_config();
    int rc = check_settings(r, err), shared = shares_embeddings(r);
    if (!rc) rc = setting_int(r, "enc-depth", -1, &c->n_layer_enc, err);
    if (!rc) rc = setting_int(r, "dec-depth", -1, &c->n_layer_dec, err);
    if (!rc) rc = setting_int(r, "dim-emb", -1, &c->d_model, err);
    if (!rc) rc = setting_int(r, "transformer-dim-ffn", -1, &c->d_ff, err);
    if (!rc) rc = setting_int(r, "transformer-decoder-dim-ffn", 0, &c->d_ff_dec, err);
    if (!rc) rc = setting_int(r, "transformer-heads", -1, &c->n_head, err);
    if (!rc) rc = read_norms(r, c, err);
    if (!rc) rc = read_activation(r, c, err);
    if (!rc) rc = read_decoder(r, c, err);
    if (rc) return rc;
    if (json_array_size(json_object_get(r->file.model, "dim-vocabs")) != 2)
        return refuse_setting(r, "dim-vocabs", "not one number for each side", err);
    if (c->n_layer_dec > 1000) return refuse_setting(r, "dec-depth", "which is too many", err);
    c->n_vocab_src = rows_of(r, shared ? "Wemb" : "encoder_Wemb");
    c->n_vocab_tgt = rows_of(r, shared ? "Wemb" : "decoder_Wemb");
    if (c->n_vocab_src < 0 || c->n_vocab_tgt < 0)
        return refuse(r, shared ? "no embeddings Wemb" : "no encoder_Wemb, decoder_Wemb", err);
    int output = is_set(r, "tied-embeddings-all") || is_set(r, "tied-embeddings");
    c->tie = !output ? TIE_NONE : shared ? TIE_ALL : TIE_TARGET;
    c->d_k = c->d_v = 0;
    c->norm_eps = 1e-6f;
    c->max_len = MAX_LEN;
    c->output_bias = !is_set(r, "output-omit-bias");
    m->positions = FOREIGN_MARIAN;
    if (is_set(r, "transformer-train-position-embeddings") ||
        is_set(r, "transformer-train-positions")) {
        m->positions = FOREIGN_TABLE;
        m->embed_scale[0] = m->embed_scale[1] = 1;
        c->max_len = rows_of(r, "Wpos");
        if (c->max_len < 1) return refuse(r, "positions are learnt, but there is no Wpos", err);
    }
    return read_tied_layers(r, c->n_layer_dec, err);
}

/* ---- matrices -------------------------------------------------------------------------------- */

/* Behind "encoder_" or "encoder_l3_"; norms have other names before a sub-layer and after it. */
static const struct part {
    enum foreign_place place;
    enum foreign_what what;
    const char *weight, *bias;
    const char *weight_pre, *bias_pre; /* with pre-norm, if they differ */
} parts[] = {
    {IN_STACK, THE_EMBED_NORM, "emb_ln_scale_pre", "emb_ln_bias_pre", NULL, NULL},
    {IN_STACK, THE_FINAL_NORM, "top_ln_scale", "top_ln_bias", NULL, NULL},
    {IN_SELF, THE_QUERY, "self_Wq", "self_bq", NULL, NULL},
    {IN_SELF, THE_KEY, "self_Wk", "self_bk", NULL, NULL},
    {IN_SELF, THE_VALUE, "self_Wv", "self_bv", NULL, NULL},
    {IN_SELF, THE_RESULT, "self_Wo", "self_bo", NULL, NULL},
    {IN_SELF, THE_NORM, "self_Wo_ln_scale", "self_Wo_ln_bias", "self_Wo_ln_scale_pre",
     "self_Wo_ln_bias_pre"},
    {IN_CROSS, THE_QUERY, "context_Wq", "context_bq", NULL, NULL},
    {IN_CROSS, THE_KEY, "context_Wk", "context_bk", NULL, NULL},
    {IN_CROSS, THE_VALUE, "context_Wv", "context_bv", NULL, NULL},
    {IN_CROSS, THE_RESULT, "context_Wo", "context_bo", NULL, NULL},
    {IN_CROSS, THE_NORM, "context_Wo_ln_scale", "context_Wo_ln_bias", "context_Wo_ln_scale_pre",
     "context_Wo_ln_bias_pre"},
    {IN_FF, THE_FIRST, "ffn_W1", "ffn_b1", NULL, NULL},
    {IN_FF, THE_SECOND, "ffn_W2", "ffn_b2", NULL, NULL},
    {IN_FF, THE_NORM, "ffn_ffn_ln_scale", "ffn_ffn_ln_bias", "ffn_ffn_ln_scale_pre",
     "ffn_ffn_ln_bias_pre"},
    {IN_SSRU, THE_CELL, "rnn_W", NULL, NULL, NULL},
    {IN_SSRU, THE_GATE, "rnn_Wf", "rnn_bf", NULL, NULL},
    {IN_SSRU, THE_NORM, "rnn_ffn_ln_scale", "rnn_ffn_ln_bias", "rnn_ln_scale_pre",
     "rnn_ln_bias_pre"},
};

/* What the tensor of a role is called, "" where it has none. */
static void name_of(char name[NAME], const struct reader *r, const struct foreign *m,
                    const struct foreign_role *role) {
    const char *stack = role->decoder ? "decoder" : "encoder", *text = NULL;
    *name = 0;
    switch (role->what) {
    case THE_EMBEDDING:
        snprintf(name, NAME, "%s%sWemb", shares_embeddings(r) ? "" : stack,
                 shares_embeddings(r) ? "" : "_");
        return;
    case THE_POSITIONS:
        snprintf(name, NAME, "Wpos");
        return;
    case THE_OUTPUT:
        snprintf(name, NAME, "decoder_ff_logit_out_%s",
                 role->bias                                                     ? "b"
                 : marian_file_item(&r->file, "decoder_ff_logit_out_W") != NULL ? "W"
                                                                                : "Wt");
        return;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !text; i++) {
        const struct part *p = &parts[i];
        if (p->place != role->place || p->what != role->what) continue;
        int pre = m->config.norm == NORM_PRE && p->weight_pre;
        text = role->bias ? (pre ? p->bias_pre : p->bias) : pre ? p->weight_pre : p->weight;
        if (!text) return;
    }
    BUG_ON(!text);
    if (role->place == IN_STACK)
        snprintf(name, NAME, "%s_%s", stack, text);
    else
        snprintf(name, NAME, "%s_l%d_%s", stack,
                 role->decoder ? r->layer[role->layer] : role->layer + 1, text);
}

/* Matrices of Marian are [in, out], but for embeddings, positions and _Wt. */
static int is_turned(const struct foreign_role *role, const char *name) {
    return role->what != THE_EMBEDDING && role->what != THE_POSITIONS && !ends_with(name, "_Wt");
}

static int is_vector(const struct foreign_role *role) {
    return role->bias || role->what == THE_NORM || role->what == THE_EMBED_NORM ||
           role->what == THE_FINAL_NORM;
}

static int type_of(enum foreign_type *type, const struct marian_item *item) {
    static const struct {
        const char *dtype;
        enum foreign_type type;
        int scaled;
    } types[] = {{"F32", FOREIGN_F32, 0},
                 {"F16", FOREIGN_F16, 0},
                 {"I8", FOREIGN_I8, 1},
                 {"I16", FOREIGN_I16, 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].dtype, item->tensor.dtype) == 0 && types[i].scaled == (item->scale > 0))
            return *type = types[i].type, 1;
    return 0;
}

/* NAME_QuantMultA, by which Marian multiplies what a matrix is multiplied with before it rounds;
 * 0: there is none. Itself it may be quantised. */
static int find_alpha(float *alpha, const struct reader *r, const char *name, struct err *err) {
    char full[NAME + 16];
    snprintf(full, sizeof full, "%s" ALPHA, name);
    const struct marian_item *item = r->alphas ? marian_file_item(&r->file, full) : NULL;
    *alpha = 0;
    if (!item) return 0;
    if (strcmp(item->tensor.dtype, "F32") == 0 && item->tensor.size == sizeof *alpha)
        memcpy(alpha, item->tensor.data, sizeof *alpha);
    else if (strcmp(item->tensor.dtype, "I8") == 0 && item->tensor.size == 1 && item->scale > 0)
        *alpha = (float)*(const int8_t *)item->tensor.data * (1 / item->scale);
    else
        return err_set(err, HEED_EFORMAT, "%.120s: %s is not one number", r->file.where, full);
    if (*alpha > 0 && isfinite(*alpha) && isfinite(1 / *alpha)) return 0;
    return err_set(err, HEED_EFORMAT, "%.120s: %s is %g, not a positive number", r->file.where,
                   full, (double)*alpha);
}

static int marian_find(const struct foreign *m, const struct foreign_role *role,
                       struct foreign_mat *mat, struct err *err) {
    const struct reader *r = m->reader;
    char name[NAME];
    *mat = (struct foreign_mat){0};
    name_of(name, r, m, role);
    if (!*name) return 0;
    const struct marian_item *item = marian_file_item(&r->file, name);
    if (!item) return err_set(err, HEED_EFORMAT, "%.120s: there is no %s", r->file.where, name);
    const struct tensor *t = &item->tensor;
    int64_t rows = t->rank == 2 ? t->shape[0] : 1, cols = t->rank ? t->shape[t->rank - 1] : 1;
    if (t->rank < 1 || t->rank > 2 || rows > 1 << 30 || cols > 1 << 30)
        return err_set(err, HEED_EFORMAT, "%.120s: %s is not a matrix", r->file.where, name);
    if (!type_of(&mat->type, item))
        return err_set(err, HEED_EFORMAT, "%.120s: %s has the type %.10s, which is no weight's",
                       r->file.where, name, t->dtype);
    mat->data = t->data;
    mat->rows = (int)rows, mat->cols = (int)cols;
    if (is_vector(role)) {
        if (rows != 1)
            return err_set(err, HEED_EFORMAT, "%.120s: %s has %d rows instead of one",
                           r->file.where, name, mat->rows);
    } else if (is_turned(role, name) != item->turned) {
        mat->transposed = 1;
        mat->rows = (int)cols, mat->cols = (int)rows;
    }
    if (item->scale > 0) mat->scale = &item->scale, mat->n_scale = 1;
    return mat->type == FOREIGN_I8 ? find_alpha(&mat->x_scale, r, name, err) : 0;
}

/* Marks what a model of this configuration takes. */
static void use(const struct reader *r, const struct foreign *m, struct foreign_role role) {
    char name[NAME];
    for (role.bias = 0; role.bias < 2; role.bias++) {
        name_of(name, r, m, &role);
        struct marian_item *item = *name ? marian_file_item(&r->file, name) : NULL;
        if (item) item->used = 1;
    }
}

static int check_used(const struct reader *r, const struct foreign *m, struct err *err) {
    const struct config *c = &m->config;
    for (int decoder = 0; decoder < 2; decoder++) {
        use(r, m, (struct foreign_role){.decoder = decoder, .what = THE_EMBEDDING});
        int ssru = decoder && r->ssru;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            const struct part *p = &parts[i];
            if ((p->what == THE_EMBED_NORM && !c->embed_norm) ||
                (p->what == THE_FINAL_NORM && c->norm != NORM_PRE) ||
                (p->place == IN_SSRU && !ssru) || (p->place == IN_SELF && ssru) ||
                (p->place == IN_CROSS && !decoder))
                continue;
            int layers = p->place == IN_STACK ? 1 : decoder ? c->n_layer_dec : c->n_layer_enc;
            for (int layer = 0; layer < layers; layer++)
                use(r, m, (struct foreign_role){decoder, layer, p->place, p->what, 0});
        }
    }
    use(r, m, (struct foreign_role){.decoder = 1, .what = THE_OUTPUT});
    if (m->positions == FOREIGN_TABLE) use(r, m, (struct foreign_role){.what = THE_POSITIONS});
    for (int i = 0; i < r->file.n_item; i++) {
        const char *name = r->file.item[i].tensor.name;
        if (!r->file.item[i].used && strncmp(name, "special:", 8) != 0 && !ends_with(name, ALPHA))
            return err_set(err, HEED_EFORMAT,
                           "%.100s: the tensor %.60s has no place in a model of ours",
                           r->file.where, name);
    }
    return 0;
}

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* source.spm and target.spm of OPUS-MT make the pieces of vocab.yml. */
static const char *const piece_files[2] = {"source.spm", "target.spm"};

static int is_vocab(const char *base, const char *kind) {
    return (ends_with(base, ".spm") || ends_with(base, "vocab.yml")) && strstr(base, kind) &&
           strcmp(base, piece_files[0]) != 0 && strcmp(base, piece_files[1]) != 0;
}

/* The vocabulary of a side (0: the source) where no configuration names it, or NULL. */
static const char *guess_vocab(const struct bundle *b, int side) {
    static const char *const kinds[2][3] = {{"src", "source", "vocab"}, {"trg", "target", "vocab"}};
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < bundle_count(b); i++)
            if (is_vocab(base_name(bundle_name(b, i)), kinds[side][k])) return bundle_name(b, i);
    return NULL;
}

static const char *find_vocab(const struct reader *r, int side, struct err *err) {
    const char *wanted = listed(r, "vocabs", (size_t)side);
    const char *name = wanted ? marian_file_named(r->bundle, wanted) : guess_vocab(r->bundle, side);
    if (!name && wanted)
        err_set(err, HEED_EFORMAT, "%.120s: the vocabulary '%.80s' is not there",
                bundle_path(r->bundle), base_name(wanted));
    else if (!name)
        err_set(err, HEED_EFORMAT, "%.120s: no vocabulary of the %s (.spm, vocab.yml) there",
                bundle_path(r->bundle), side ? "target" : "source");
    return name;
}

/* What the vocabulary of a side says of itself. */
struct marks {
    int size, end, unknown;
};

static int find_token(const struct foreign_side *side, const char *token) {
    for (int i = 0; i < side->n_token; i++)
        if (strcmp(side->token[i], token) == 0) return i;
    return -1;
}

/* A SentencePiece file whose ids are those of the model. */
static int read_pieces(struct marks *marks, struct foreign_side *side, const struct reader *r,
                       const char *name, struct err *err) {
    struct tokenizer *tokenizer;
    int rc = bundle_get(r->bundle, name, BUNDLE_TEXT, &side->tokenizer, &side->tokenizer_size, err);
    if (!rc) rc = tokenizer_open_memory(&tokenizer, side->tokenizer, side->tokenizer_size, err);
    if (rc) return rc;
    *marks = (struct marks){tokenizer_size(tokenizer), tokenizer_eos(tokenizer),
                            tokenizer_unk(tokenizer)};
    tokenizer_free(tokenizer);
    return 0;
}

/* A list of tokens, and the SentencePiece file of this side. */
static int read_list(struct marks *marks, struct foreign *m, int side, const char *name,
                     struct err *err) {
    const struct reader *r = m->reader;
    struct foreign_side *s = side ? &m->target : &m->source;
    const char *pieces = bundle_ending(r->bundle, piece_files[side]);
    const void *data;
    size_t size;
    if (!pieces)
        return err_set(err, HEED_EFORMAT,
                       bundle_ending(r->bundle, side ? "target.bpe" : "source.bpe")
                           ? "%.120s: words are split by BPE codes, which cannot be read; models "
                             "with %s can"
                           : "%.120s: there is no %s to split words by",
                       bundle_path(r->bundle), piece_files[side]);
    int rc = bundle_get(r->bundle, pieces, BUNDLE_TEXT, &s->tokenizer, &s->tokenizer_size, err);
    if (!rc) rc = bundle_get(r->bundle, name, BUNDLE_TEXT, &data, &size, err);
    if (!rc) {
        int yml = ends_with(name, ".yml") || ends_with(name, ".yaml");
        struct marian_vocab vocab = {0};
        rc = (yml ? marian_vocab_yml : marian_vocab_text)(&vocab, size ? data : "", size, name,
                                                          &m->keep, err);
        s->token = vocab.token, s->n_token = vocab.n;
    }
    if (!rc) *marks = (struct marks){s->n_token, find_token(s, "</s>"), find_token(s, "<unk>")};
    return rc;
}

static int read_side(struct marks *marks, struct foreign *m, int side, struct err *err) {
    const struct reader *r = m->reader;
    int rows = side ? m->config.n_vocab_tgt : m->config.n_vocab_src;
    const char *name = find_vocab(r, side, err);
    if (!name) return HEED_EFORMAT;
    int rc = ends_with(name, ".spm")
                 ? read_pieces(marks, side ? &m->target : &m->source, r, name, err)
                 : read_list(marks, m, side, name, err);
    if (!rc && marks->size != rows)
        rc = err_set(err, HEED_EFORMAT, "%.120s: %d tokens, but the model has embeddings for %d",
                     name, marks->size, rows);
    if (!rc && (marks->end < 0 || marks->unknown < 0))
        rc = err_set(err, HEED_EFORMAT, "%.180s: it has no %s", name,
                     marks->end < 0 ? "</s>" : "<unk>");
    return rc;
}

static int same_list(const struct foreign_side *a, const struct foreign_side *b) {
    if (a->n_token != b->n_token) return 0;
    for (int i = 0; i < a->n_token; i++)
        if (strcmp(a->token[i], b->token[i]) != 0) return 0;
    return 1;
}

/* Tokens like >>deu<< choose the language of the translation. */
static void read_languages(struct foreign *m) {
    struct foreign_languages *l = &m->languages;
    size_t room = (size_t)m->source.n_token * sizeof(char *);
    if (!room) return;
    const char **code = keep_take(&m->keep, room), **token = keep_take(&m->keep, room);
    for (int i = 0; i < m->source.n_token; i++) {
        const char *text = m->source.token[i];
        size_t size = strlen(text);
        if (size < 6 || strncmp(text, ">>", 2) != 0 || !ends_with(text, "<<")) continue;
        code[l->n] = keep_text(&m->keep, text + 2, size - 4);
        token[l->n++] = text;
    }
    l->code = code, l->token = token;
    if (l->n) l->before_source = "target";
}

static int read_vocabularies(struct foreign *m, struct err *err) {
    const struct reader *r = m->reader;
    struct marks source, target;
    int rc = read_side(&source, m, 0, err);
    if (!rc) rc = read_side(&target, m, 1, err);
    if (rc) return rc;
    if (source.end != target.end || source.unknown != target.unknown)
        return refuse(r, "</s> and <unk> have other ids in the source than in the target", err);
    m->start = FOREIGN_ZERO;
    m->end = target.end;
    m->unknown = target.unknown;
    if (!json_is_true(json_object_get(r->decode, "allow-unk")))
        m->banned[m->n_banned++] = target.unknown;
    if (m->target.tokenizer == m->source.tokenizer) m->target.tokenizer = NULL;
    if (same_list(&m->source, &m->target)) m->target.token = NULL, m->target.n_token = 0;
    read_languages(m);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* How Marian would search: scores are divided by length^normalize, the end mark counted. Where its
 * translations are cut (max-length-factor) has no counterpart: ours may be so many tokens longer
 * than the source. */
static int read_search(struct foreign *m, struct err *err) {
    const struct reader *r = m->reader;
    const json_t *beam = json_object_get(r->decode, "beam-size");
    const json_t *power = json_object_get(r->decode, "normalize");
    const json_t *penalty = json_object_get(r->decode, "word-penalty");
    m->translate = json_object();
    if (json_is_number(penalty) && json_number_value(penalty) != 0)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: translations would be scored with a word penalty of %g, which "
                       "cannot be expressed",
                       r->file.where, json_number_value(penalty));
    if (json_is_integer(beam) && json_integer_value(beam) > 0)
        json_object_set_new(m->translate, "beam", json_integer(json_integer_value(beam)));
    if (json_is_number(power)) {
        json_object_set_new(m->translate, "alpha", json_real(json_number_value(power)));
        json_object_set_new(m->translate, "length_rule", json_string("power"));
    }
    return 0;
}

/* Models of Bergamot and Firefox are called model.enpt.intgemm.alphas.bin. */
static void read_card(struct foreign *m) {
    const char *name = base_name(((struct reader *)m->reader)->file.where);
    if (strncmp(name, "model.", 6) != 0 || strspn(name + 6, "abcdefghijklmnopqrstuvwxyz") != 4 ||
        name[10] != '.')
        return;
    m->card.source = keep_text(&m->keep, name + 6, 2);
    m->card.target = keep_text(&m->keep, name + 8, 2);
}

static int marian_open(struct foreign *m, struct bundle *bundle, struct err *err) {
    struct reader *r = m->reader = xcalloc(1, sizeof *r);
    const char *decode = find_decode(bundle), *name;
    m->close = marian_close;
    m->find = marian_find;
    m->format = "Marian";
    r->bundle = bundle;
    int rc = read_decode(r, decode, err);
    if (rc) return rc;
    const char *products = json_string_value(json_object_get(r->decode, "gemm-precision"));
    r->alphas = !products || strstr(products, "Alpha") != NULL;
    name = choose_weights(r, decode, err);
    if (!name) return HEED_EFORMAT;
    rc = marian_file_open(&r->file, bundle, name, &m->keep, err);
    if (!rc) rc = read_config(r, m, err);
    if (!rc) rc = check_used(r, m, err);
    if (!rc) rc = read_vocabularies(m, err);
    if (!rc) rc = read_search(m, err);
    if (!rc) read_card(m);
    return rc;
}

static int marian_looks(struct bundle *bundle) { return marian_file_find(bundle) != NULL; }

const struct foreign_reader marian_reader = {"marian", marian_looks, marian_open};
