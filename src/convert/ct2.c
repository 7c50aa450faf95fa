/* ct2.c — models of CTranslate2, and the packages of Argos Translate around them (foreign.h).
 *
 *     model.bin                 the weights (ct2_file.h)
 *     config.json               version 6: special tokens, epsilon; before, they are variables
 *     shared_vocabulary.json    or .txt; or source_vocabulary and target_vocabulary
 *
 * A package is a zip with all that in model/, a SentencePiece file and metadata.json. Every
 * variable must be one that we know: whatever else a model has changes what it computes. Tokens are
 * the business of ct2_tokens.c. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "convert/ct2_parts.h"
#include "io/json.h"

#define MODEL_FILE "model.bin"

/* ---- names ----------------------------------------------------------------------------------- */

static const char *stack_name(int decoder) { return decoder ? "decoder" : "encoder"; }

/* What a role is called, but for weight or bias, and which of `n` parts stacked in it. */
struct place {
    char name[80];
    int part, n;
};

static void place_in_attention(struct place *p, enum foreign_what what, int cross) {
    const char *name = cross ? "attention" : "self_attention";
    int linear = what == THE_RESULT ? 1 + cross : cross && what != THE_QUERY;
    size_t used = strlen(p->name);
    snprintf(p->name + used, sizeof p->name - used, "/%s/linear_%d", name, linear);
    if (what == THE_RESULT || (cross && what == THE_QUERY)) return;
    p->n = cross ? 2 : 3;
    p->part = what == THE_VALUE ? p->n - 1 : what == THE_KEY ? p->n - 2 : 0;
}

static struct place find_place(const struct ct2 *ct2, const struct foreign_role *r) {
    static const char *const norms[] = {[IN_SELF] = "self_attention",
                                        [IN_CROSS] = "attention",
                                        [IN_FF] = "ffn",
                                        [IN_SSRU] = "ssru"};
    struct place p = {.n = 1};
    const char *stack = stack_name(r->decoder);
    if (r->place == IN_STACK) {
        const char *what = r->what == THE_EMBEDDING    ? "embeddings"
                           : r->what == THE_POSITIONS  ? "position_encodings"
                           : r->what == THE_EMBED_NORM ? "layernorm_embedding"
                           : r->what == THE_OUTPUT     ? "projection"
                                                       : "layer_norm";
        if (r->what == THE_EMBEDDING && !r->decoder) what = ct2->embedding;
        snprintf(p.name, sizeof p.name, "%s/%s", stack, what);
        return p;
    }
    snprintf(p.name, sizeof p.name, "%s/layer_%d", stack, r->layer);
    size_t used = strlen(p.name), room = sizeof p.name - used;
    if (r->what == THE_NORM)
        snprintf(p.name + used, room, "/%s/layer_norm", norms[r->place]);
    else if (r->place == IN_FF)
        snprintf(p.name + used, room, "/ffn/linear_%d", r->what == THE_SECOND);
    else
        place_in_attention(&p, r->what, r->place == IN_CROSS);
    return p;
}

static int is_norm(enum foreign_what what) {
    return what == THE_NORM || what == THE_FINAL_NORM || what == THE_EMBED_NORM;
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int set_type(struct foreign_mat *mat, const struct ct2 *ct2, const struct ct2_variable *v,
                    struct err *err) {
    static const int types[CT2_TYPES] = {
        [CT2_F32] = FOREIGN_F32, [CT2_I8] = FOREIGN_I8,   [CT2_I16] = FOREIGN_I16,
        [CT2_I32] = -1,          [CT2_F16] = FOREIGN_F16, [CT2_BF16] = FOREIGN_BF16};
    static const float int16_scale = 1000; /* of the first models, which do not have it */
    char name[120];
    if (types[v->type] < 0)
        return err_set(err, HEED_EFORMAT, "%.100s: '%s' is int32", ct2->where, v->name);
    mat->type = (enum foreign_type)types[v->type];
    if (v->type != CT2_I8 && v->type != CT2_I16) return 0;
    snprintf(name, sizeof name, "%.100s_scale", v->name);
    const struct ct2_variable *scale = ct2_find(&ct2->file, name);
    if (!scale && v->type == CT2_I16) {
        mat->scale = &int16_scale;
        mat->n_scale = 1;
        return 0;
    }
    if (!scale || scale->type != CT2_F32 || scale->rank > 1)
        return err_set(err, HEED_EFORMAT, "%.100s: '%s' has no scales of type f32", ct2->where,
                       v->name);
    mat->scale = (const float *)(const void *)scale->data;
    mat->n_scale = (int)(scale->bytes / sizeof(float));
    return 0;
}

/* A matrix or vector, or its part: rows stacked in it come in equal heights. */
static int view(struct foreign_mat *mat, const struct ct2 *ct2, const struct ct2_variable *v,
                const struct place *place, struct err *err) {
    size_t cols = v->rank ? v->shape[v->rank - 1] : 0, rows = v->rank == 2 ? v->shape[0] : 1;
    size_t *stacked = v->rank == 2 ? &rows : &cols;
    if (v->rank < 1 || v->rank > 2 || rows > INT32_MAX || cols > INT32_MAX || !v->bytes ||
        *stacked % (size_t)place->n)
        return err_set(err, HEED_EFORMAT, "%.100s: '%s' has a shape that is not understood",
                       ct2->where, v->name);
    int rc = set_type(mat, ct2, v, err);
    if (rc) return rc;
    if (mat->n_scale > 1 && (v->rank != 2 || (size_t)mat->n_scale != rows))
        return err_set(err, HEED_EFORMAT, "%.100s: '%s' has %d scales for %zu rows", ct2->where,
                       v->name, mat->n_scale, rows);
    mat->data = v->data;
    *stacked /= (size_t)place->n;
    mat->rows = (int)rows;
    mat->cols = (int)cols;
    mat->data = v->data + (size_t)place->part * (v->bytes / (size_t)place->n);
    if (mat->n_scale > 1) {
        mat->n_scale /= place->n;
        mat->scale += (size_t)place->part * (size_t)mat->n_scale;
    }
    return 0;
}

static int find(const struct foreign *m, const struct foreign_role *role, struct foreign_mat *mat,
                struct err *err) {
    const struct ct2 *ct2 = m->reader;
    struct place place = find_place(ct2, role);
    const char *suffix = is_norm(role->what)           ? role->bias ? "beta" : "gamma"
                         : role->bias                  ? "bias"
                         : role->what == THE_POSITIONS ? "encodings"
                                                       : "weight";
    char name[96];
    snprintf(name, sizeof name, "%s/%s", place.name, suffix);
    const struct ct2_variable *v = ct2_find(&ct2->file, name);
    return v ? view(mat, ct2, v, &place, err) : 0;
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* Variables of a layer and of a stack. */
static const char *const layer_names[] = {"self_attention/linear_0",
                                          "self_attention/linear_1",
                                          "attention/linear_0",
                                          "attention/linear_1",
                                          "attention/linear_2",
                                          "ffn/linear_0",
                                          "ffn/linear_1",
                                          "self_attention/layer_norm",
                                          "attention/layer_norm",
                                          "ffn/layer_norm",
                                          "self_attention/head_dim",
                                          "attention/head_dim",
                                          NULL};
static const char *const stack_names[] = {"embeddings",
                                          "embeddings_0",
                                          "position_encodings",
                                          "layernorm_embedding",
                                          "layer_norm",
                                          "projection",
                                          NULL};
static const char *const part_names[] = {"weight", "weight_scale", "bias", "gamma",
                                         "beta",   "encodings",    NULL};
/* Those that are read, or that do not matter here: the last three change alibi, which must be
 * off. */
static const char *const scalar_names[] = {"num_heads",
                                           "pre_norm",
                                           "activation",
                                           "scale_embeddings",
                                           "embeddings_merge",
                                           "alignment_layer",
                                           "alignment_heads",
                                           "start_from_zero_embedding",
                                           "embeddings/multiply_by_sqrt_depth",
                                           "with_source_bos",
                                           "with_source_eos",
                                           "with_target_bos",
                                           "user_decoder_start_tokens",
                                           "unk_token",
                                           "bos_token",
                                           "eos_token",
                                           "scale_alibi",
                                           "alibi_use_positive_positions",
                                           "num_source_embeddings",
                                           "version",
                                           "revision",
                                           NULL};

static int listed(const char *const *list, const char *name, size_t size) {
    for (; *list; list++)
        if (strlen(*list) == size && strncmp(*list, name, size) == 0) return 1;
    return 0;
}

static int is_known(const char *name) {
    const char *rest = name;
    int in_layer = 0;
    if (strncmp(name, "encoder/", 8) == 0 || strncmp(name, "decoder/", 8) == 0) rest += 8;
    if (listed(scalar_names, rest, strlen(rest))) return 1;
    if (rest == name) return 0;
    if (strncmp(rest, "layer_", 6) == 0 && rest[6] >= '0' && rest[6] <= '9') {
        in_layer = 1;
        rest += 6 + strspn(rest + 6, "0123456789") + 1;
    }
    const char *slash = strrchr(rest, '/');
    if (in_layer && listed(layer_names, rest, strlen(rest))) return 1; /* head_dim */
    if (!slash || !listed(part_names, slash + 1, strlen(slash + 1))) return 0;
    return listed(in_layer ? layer_names : stack_names, rest, (size_t)(slash - rest));
}

static const char *reason(const char *name) {
    static const char *const reasons[][2] = {
        {"relative_", "relative positions"},
        {"rotary_", "rotary positions"},
        {"alibi", "linear attention biases (ALiBi)"},
        {"linear_0_noact", "gated feed-forward layers"},
        {"weight_zero", "weights quantised by AWQ"},
        {"num_heads_kv", "grouped attention heads"},
        {"multi_query", "grouped attention heads"},
        {"use_residual", "RMS normalisation"},
        {"sliding_window", "a sliding window of attention"},
        {"embeddings_1", "several embeddings for a source token"},
        {"conv", "convolutions"},
        {"scale_outputs", "scaled logits"},
        {"project_in", "embeddings narrower than the model"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++)
        if (strstr(name, reasons[i][0])) return reasons[i][1];
    return NULL;
}

/* A flag that is off says that something is not there. */
static int check_variables(const struct ct2 *ct2, struct err *err) {
    const struct ct2_file *f = &ct2->file;
    for (int i = 0; i < f->n; i++) {
        const char *name = f->variable[i].name, *why = reason(name);
        if (is_known(name) || (f->variable[i].rank == 0 && ct2_scalar(f, name, 1) == 0)) continue;
        if (why)
            return err_set(err, HEED_EFORMAT,
                           "%.90s: the model has %s, which heed does not ('%.60s')", ct2->where,
                           why, name);
        return err_set(err, HEED_EFORMAT,
                       "%.90s: the model has '%.100s', which heed has no equivalent of", ct2->where,
                       name);
    }
    return 0;
}

/* ---- shape ----------------------------------------------------------------------------------- */

double ct2_setting(const struct ct2 *ct2, int decoder, const char *name, double otherwise) {
    char whole[64];
    snprintf(whole, sizeof whole, "%s/%s", stack_name(decoder), name);
    return ct2_scalar(&ct2->file, whole, ct2_scalar(&ct2->file, name, otherwise));
}

static int same_in_both(const struct ct2 *ct2, const char *name, double otherwise, double *value,
                        struct err *err) {
    *value = ct2_setting(ct2, 0, name, otherwise);
    if (ct2_setting(ct2, 1, name, otherwise) == *value) return 0;
    return err_set(err, HEED_EFORMAT, "%.100s: %s is %g in the encoder and %g in the decoder",
                   ct2->where, name, *value, ct2_setting(ct2, 1, name, otherwise));
}

static int need(const struct ct2_variable **v, const struct ct2 *ct2, const char *name, int rank,
                struct err *err) {
    *v = ct2_find(&ct2->file, name);
    if (*v && (*v)->rank == rank && (*v)->shape[0] && (*v)->shape[0] <= INT32_MAX &&
        (rank < 2 || ((*v)->shape[1] && (*v)->shape[1] <= INT32_MAX)))
        return 0;
    return err_set(err, HEED_EFORMAT, "%.100s: there is no matrix '%s'", ct2->where, name);
}

static int count_layers(const struct ct2 *ct2, int decoder) {
    char name[80];
    int n = 0;
    for (;; n++) {
        snprintf(name, sizeof name, "%s/layer_%d/ffn/linear_0/weight", stack_name(decoder), n);
        if (!ct2_find(&ct2->file, name)) return n;
    }
}

static int has_either(const struct ct2 *ct2, const char *name, int *both, struct err *err) {
    int has[2];
    for (int k = 0; k < 2; k++) {
        char whole[80];
        snprintf(whole, sizeof whole, "%s/%s", stack_name(k), name);
        has[k] = ct2_find(&ct2->file, whole) != NULL;
    }
    *both = has[0];
    if (has[0] == has[1]) return 0;
    return err_set(err, HEED_EFORMAT, "%.100s: only one of encoder and decoder has '%s'",
                   ct2->where, name);
}

/* Equal bytes, or the same. */
static int same_matrix(const struct ct2 *ct2, const char *one, const char *other) {
    char scale[2][96];
    const struct ct2_variable *a = ct2_find(&ct2->file, one), *b = ct2_find(&ct2->file, other);
    if (!a || !b || a->bytes != b->bytes || a->type != b->type || a->shape[0] != b->shape[0])
        return 0;
    if (a->data != b->data && memcmp(a->data, b->data, a->bytes) != 0) return 0;
    snprintf(scale[0], sizeof scale[0], "%s_scale", one);
    snprintf(scale[1], sizeof scale[1], "%s_scale", other);
    if (!ct2_find(&ct2->file, scale[0])) return 1;
    return same_matrix(ct2, scale[0], scale[1]);
}

static int read_norms(struct config *c, const struct ct2 *ct2, struct err *err) {
    double pre;
    int closed, rc = same_in_both(ct2, "pre_norm", 1, &pre, err);
    c->norm = pre != 0 ? NORM_PRE : NORM_POST;
    if (!rc) rc = has_either(ct2, "layernorm_embedding/gamma", &c->embed_norm, err);
    if (!rc) rc = has_either(ct2, "layer_norm/gamma", &closed, err);
    if (!rc && closed != (c->norm == NORM_PRE))
        rc = err_set(err, HEED_EFORMAT, "%.120s: %s-norm layers %s a final norm", ct2->where,
                     closed ? "post" : "pre", closed ? "with" : "without");
    if (!rc && !ct2_find(&ct2->file, "encoder/layer_0/ffn/layer_norm/beta"))
        rc = err_set(err, HEED_EFORMAT,
                     "%.120s: the model has RMS normalisation, which heed does not", ct2->where);
    return rc;
}

static int read_activation(struct config *c, const struct ct2 *ct2, struct err *err) {
    static const int ours[] = {ACT_RELU, -1, ACT_SILU, ACT_GELU};
    double theirs;
    int rc = same_in_both(ct2, "activation", 0, &theirs, err);
    if (rc) return rc;
    int i = theirs >= 0 && theirs < 4 ? (int)theirs : 1;
    if (ours[i] < 0)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: activation %g; heed has relu (0), swish (2) and gelu (3)",
                       ct2->where, theirs);
    c->activation = ours[i];
    return 0;
}

static int read_widths(struct config *c, struct ct2 *ct2, struct err *err) {
    const struct ct2_variable *src, *tgt, *ff_enc, *ff_dec;
    char name[48];
    double heads, head_dim = 0;
    ct2->embedding =
        ct2_find(&ct2->file, "encoder/embeddings_0/weight") ? "embeddings_0" : "embeddings";
    snprintf(name, sizeof name, "encoder/%s/weight", ct2->embedding);
    int rc = need(&src, ct2, name, 2, err);
    if (!rc) rc = need(&tgt, ct2, "decoder/embeddings/weight", 2, err);
    if (!rc) rc = need(&ff_enc, ct2, "encoder/layer_0/ffn/linear_0/weight", 2, err);
    if (!rc) rc = need(&ff_dec, ct2, "decoder/layer_0/ffn/linear_0/weight", 2, err);
    if (!rc)
        rc = same_in_both(ct2, "num_heads", strcmp(ct2->file.spec, "TransformerBig") == 0 ? 16 : 8,
                          &heads, err);
    if (!rc) rc = same_in_both(ct2, "layer_0/self_attention/head_dim", 0, &head_dim, err);
    if (rc) return rc;
    c->n_vocab_src = (int)src->shape[0];
    c->n_vocab_tgt = (int)tgt->shape[0];
    c->d_model = (int)tgt->shape[1];
    c->d_ff = (int)ff_enc->shape[0];
    c->d_ff_dec = (int)ff_dec->shape[0];
    c->n_head = heads > 0 && heads < 1024 ? (int)heads : 0;
    c->d_k = c->d_v = head_dim > 0 && head_dim < 65536 ? (int)head_dim : 0;
    c->n_layer_enc = count_layers(ct2, 0);
    c->n_layer_dec = count_layers(ct2, 1);
    int tied = same_matrix(ct2, "decoder/embeddings/weight", "decoder/projection/weight");
    c->tie = !tied                                                 ? TIE_NONE
             : same_matrix(ct2, "decoder/embeddings/weight", name) ? TIE_ALL
                                                                   : TIE_TARGET;
    c->output_bias = ct2_find(&ct2->file, "decoder/projection/bias") != NULL;
    return 0;
}

static double embed_scale(const struct ct2 *ct2, int decoder, int d_model) {
    char name[64];
    snprintf(name, sizeof name, "%s/scale_embeddings", stack_name(decoder));
    const struct ct2_variable *v = ct2_find(&ct2->file, name);
    if (!v) {
        snprintf(name, sizeof name, "%s/embeddings/multiply_by_sqrt_depth", stack_name(decoder));
        v = ct2_find(&ct2->file, name);
    }
    double value = v ? ct2_scalar(&ct2->file, name, 1) : 1;
    if (!v || v->type == CT2_I8) return value != 0 ? sqrt((double)d_model) : 1;
    return value;
}

static int read_positions(struct foreign *m, const struct ct2 *ct2, struct err *err) {
    int stored, rc = has_either(ct2, "position_encodings/encodings", &stored, err);
    if (rc) return rc;
    m->positions = stored ? FOREIGN_TABLE : FOREIGN_MARIAN;
    m->first_position = stored ? 0 : 1;
    m->config.max_len = 1024; /* CTranslate2 computes as many as it needs */
    for (int k = 0; k < 2 && stored; k++) {
        char name[64];
        snprintf(name, sizeof name, "%s/position_encodings/encodings", stack_name(k));
        const struct ct2_variable *v = ct2_find(&ct2->file, name);
        int rows = v->rank == 2 && v->shape[0] < 1 << 20 ? (int)v->shape[0] : 0;
        if (k == 0 || rows < m->config.max_len) m->config.max_len = rows;
    }
    return 0;
}

static int read_shape(struct foreign *m, struct ct2 *ct2, struct err *err) {
    static const char *const specs[] = {"", "TransformerBase", "TransformerBig", "TransformerSpec",
                                        NULL};
    m->config = foreign_config();
    if (!listed(specs, ct2->file.spec, strlen(ct2->file.spec)))
        return err_set(err, HEED_EFORMAT,
                       "%.100s: '%.40s' is not a translation model (TransformerSpec)", ct2->where,
                       ct2->file.spec);
    int rc = check_variables(ct2, err);
    if (!rc) rc = read_widths(&m->config, ct2, err);
    if (!rc) rc = read_norms(&m->config, ct2, err);
    if (!rc) rc = read_activation(&m->config, ct2, err);
    if (!rc) rc = read_positions(m, ct2, err);
    for (int k = 0; k < 2 && !rc; k++) m->embed_scale[k] = embed_scale(ct2, k, m->config.d_model);
    return rc;
}

/* ---- opening --------------------------------------------------------------------------------- */

static const char *find_prefix(const struct bundle *bundle) {
    return bundle_has(bundle, MODEL_FILE)            ? ""
           : bundle_has(bundle, "model/" MODEL_FILE) ? "model/"
                                                     : NULL;
}

static int looks(struct bundle *bundle) {
    static const char *const kinds[] = {"shared", "target", NULL};
    const char *prefix = find_prefix(bundle);
    char name[64];
    for (int i = 0; prefix && kinds[i]; i++) {
        snprintf(name, sizeof name, "%s%s_vocabulary.json", prefix, kinds[i]);
        if (bundle_has(bundle, name)) return 1;
        snprintf(name, sizeof name, "%s%s_vocabulary.txt", prefix, kinds[i]);
        if (bundle_has(bundle, name)) return 1;
    }
    return 0;
}

static void close_ct2(struct foreign *m) {
    struct ct2 *ct2 = m->reader;
    ct2_file_release(&ct2->file);
    json_decref(ct2->config);
    xfree(ct2);
}

static int read_config(struct foreign *m, struct err *err) {
    struct ct2 *ct2 = m->reader;
    char name[32];
    double eps = 1e-5;
    struct json_in in;
    snprintf(name, sizeof name, "%sconfig.json", ct2->prefix);
    if (!bundle_has(ct2->bundle, name)) {
        if (ct2->file.version < 6) return 0;
        return err_set(err, HEED_EFORMAT, "%.120s: there is no config.json", ct2->where);
    }
    int rc = bundle_json(ct2->bundle, name, &ct2->config, err);
    if (!rc) rc = json_in_begin(&in, ct2->config, ct2->where, err);
    const json_t *given = json_object_get(ct2->config, "layer_norm_epsilon");
    if (!rc && given && !json_is_null(given))
        rc = json_in_real(&in, "layer_norm_epsilon", &eps, err);
    m->config.norm_eps = (float)eps;
    return rc;
}

static int open_ct2(struct foreign *m, struct bundle *bundle, struct err *err) {
    const char *prefix = find_prefix(bundle);
    const void *data;
    size_t size;
    char name[32], *where = keep_take(&m->keep, BUNDLE_WHERE), *format = keep_take(&m->keep, 64);
    if (!prefix)
        return err_set(err, HEED_EFORMAT, "%.180s: there is no " MODEL_FILE, bundle_path(bundle));
    struct ct2 *ct2 = xcalloc(1, sizeof *ct2);
    *ct2 = (struct ct2){.bundle = bundle, .prefix = prefix, .where = where};
    m->reader = ct2;
    m->close = close_ct2;
    m->find = find;
    snprintf(name, sizeof name, "%s" MODEL_FILE, prefix);
    bundle_where(bundle, name, where);
    int rc = bundle_get(bundle, name, 0, &data, &size, err);
    if (!rc) rc = ct2_file_read(&ct2->file, data, size, where, err);
    if (!rc) rc = read_shape(m, ct2, err);
    if (!rc) rc = read_config(m, err);
    snprintf(format, 64, "CTranslate2, format %u", ct2->file.version);
    m->format = format;
    if (!rc) rc = ct2_tokens_read(m, err);
    if (!rc) rc = foreign_tokenizers(m, bundle, "", err);
    if (!rc && *prefix && !m->source.tokenizer) rc = foreign_tokenizers(m, bundle, prefix, err);
    return rc;
}

const struct foreign_reader ct2_reader = {"ctranslate2", looks, open_ct2};
