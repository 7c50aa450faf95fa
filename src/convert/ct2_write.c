/* ct2_write.c — see ct2_write.h.
 *
 * The variables are listed first, sorted by name as the format wants, and then written in one pass
 * over the mapped weights; a row of a matrix is all that is ever in memory. */
#include "convert/ct2_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "base/newdir.h"
#include "io/json.h"

enum { BINARY_VERSION = 6, SPEC_REVISION = 7 };
#define SPEC_NAME "TransformerSpec"

/* Type ids of the format. */
enum type { TYPE_F32 = 0, TYPE_I8 = 1, TYPE_I16 = 2, TYPE_I32 = 3 };

enum kind {
    KIND_SCALAR,    /* value */
    KIND_PARAM,     /* a parameter of ours */
    KIND_QUANTISED, /* the same in int8 */
    KIND_SCALE,     /* and its scales */
    KIND_SINUSOIDS, /* [max_len, d_model] */
    KIND_ALIAS      /* of `target` */
};

struct variable {
    char name[160], target[64];
    enum kind kind;
    enum type type;
    int value; /* of a scalar */
    int param; /* index in the table */
    int rows, cols;
};

struct export {
    const struct modeldir *md;
    const struct tongues *tongues;
    int int8;
    struct variable *variable;
    size_t n, cap;
};

/* ---- listing --------------------------------------------------------------------------------- */

static struct variable *add(struct export *x, const char *scope, const char *name) {
    if (x->n == x->cap) {
        x->cap = x->cap ? 2 * x->cap : 64;
        x->variable = xrealloc(x->variable, x->cap * sizeof *x->variable);
    }
    struct variable *v = &x->variable[x->n++];
    *v = (struct variable){0};
    snprintf(v->name, sizeof v->name, "%s/%s", scope, name);
    return v;
}

static void add_scalar(struct export *x, const char *scope, const char *name, enum type type,
                       int value) {
    struct variable *v = add(x, scope, name);
    v->kind = KIND_SCALAR;
    v->type = type;
    v->value = value;
}

/* Our parameter `ours` as scope/name. A vector has rows == 1 and rank 1. */
static void add_param(struct export *x, const char *scope, const char *name, const char *ours) {
    const struct param_table *table = &x->md->table;
    const struct param *p = param_table_find(table, ours);
    BUG_ON(!p);
    int quantised = x->int8 && param_is_matrix(p);
    struct variable about = {.kind = quantised ? KIND_QUANTISED : KIND_PARAM,
                             .type = quantised ? TYPE_I8 : TYPE_F32,
                             .param = (int)(p - table->param),
                             .rows = p->rows,
                             .cols = p->cols};
    struct variable *v = add(x, scope, name);
    memcpy(about.name, v->name, sizeof about.name);
    *v = about;
    if (!quantised) return;
    char scale[64];
    snprintf(scale, sizeof scale, "%s_scale", name);
    v = add(x, scope, scale);
    memcpy(about.name, v->name, sizeof about.name);
    about.kind = KIND_SCALE;
    about.type = TYPE_F32;
    *v = about;
}

/* CTranslate2 follows an alias to the scales as well. */
static void add_alias(struct export *x, const char *scope, const char *name, const char *target) {
    struct variable *v = add(x, scope, name);
    v->kind = KIND_ALIAS;
    snprintf(v->target, sizeof v->target, "%s", target);
}

/* A sub-layer of ours, `ours`, and its linear_N there: ours.w_KEY and ours.b_KEY. */
static void add_linear(struct export *x, const char *scope, int n, const char *ours,
                       const char *key) {
    char inner[80], name[64];
    snprintf(inner, sizeof inner, "%s/linear_%d", scope, n);
    snprintf(name, sizeof name, "%s.w_%s", ours, key);
    add_param(x, inner, "weight", name);
    snprintf(name, sizeof name, "%s.b_%s", ours, key);
    add_param(x, inner, "bias", name);
}

/* Their norm `scope` and our OURSgamma and OURSbeta. */
static void add_norm_pair(struct export *x, const char *scope, const char *ours) {
    char name[64];
    snprintf(name, sizeof name, "%sgamma", ours);
    add_param(x, scope, "gamma", name);
    snprintf(name, sizeof name, "%sbeta", ours);
    add_param(x, scope, "beta", name);
}

/* The norm of a sub-layer. */
static void add_own_norm(struct export *x, const char *scope, const char *ours) {
    char inner[80], name[40];
    snprintf(inner, sizeof inner, "%s/layer_norm", scope);
    snprintf(name, sizeof name, "%s.", ours);
    add_norm_pair(x, inner, name);
}

/* Heads need not be d_model / n_head wide. */
static void add_head_width(struct export *x, const char *scope) {
    const struct config *c = &x->md->config;
    if (c->d_k * c->n_head != c->d_model) add_scalar(x, scope, "head_dim", TYPE_I32, c->d_k);
}

static void add_layer(struct export *x, const char *side, const char *ours, int l, int decoder) {
    char scope[48], name[32];
    snprintf(scope, sizeof scope, "%s/layer_%d/self_attention", side, l);
    snprintf(name, sizeof name, "%s.%d.self", ours, l);
    add_linear(x, scope, 0, name, "qkv");
    add_linear(x, scope, 1, name, "o");
    add_own_norm(x, scope, name);
    add_head_width(x, scope);
    if (decoder) {
        snprintf(scope, sizeof scope, "%s/layer_%d/attention", side, l);
        snprintf(name, sizeof name, "%s.%d.cross", ours, l);
        add_linear(x, scope, 0, name, "q");
        add_linear(x, scope, 1, name, "kv");
        add_linear(x, scope, 2, name, "o");
        add_own_norm(x, scope, name);
        add_head_width(x, scope);
    }
    snprintf(scope, sizeof scope, "%s/layer_%d/ffn", side, l);
    snprintf(name, sizeof name, "%s.%d.ff", ours, l);
    add_linear(x, scope, 0, name, "1");
    add_linear(x, scope, 1, name, "2");
    add_own_norm(x, scope, name);
}

static void add_stack(struct export *x, int decoder) {
    const struct config *c = &x->md->config;
    const char *side = decoder ? "decoder" : "encoder", *ours = decoder ? "dec" : "enc";
    static const int activation[] = {[ACT_RELU] = 0, [ACT_GELU] = 3, [ACT_SILU] = 2};
    add_scalar(x, side, "num_heads", TYPE_I16, c->n_head);
    add_scalar(x, side, "pre_norm", TYPE_I8, c->norm == NORM_PRE);
    add_scalar(x, side, "activation", TYPE_I8, activation[c->activation]);
    add_scalar(x, side, "scale_embeddings", TYPE_I8, 1);
    if (c->norm == NORM_PRE)
        add_norm_pair(x, decoder ? "decoder/layer_norm" : "encoder/layer_norm",
                      decoder ? "dec_norm_" : "enc_norm_");
    if (c->embed_norm)
        add_norm_pair(x, decoder ? "decoder/layernorm_embedding" : "encoder/layernorm_embedding",
                      decoder ? "tgt_embed_norm_" : "src_embed_norm_");
    int n = decoder ? c->n_layer_dec : c->n_layer_enc;
    for (int l = 0; l < n; l++) add_layer(x, side, ours, l, decoder);
}

/* Tied matrices and the one table of sinusoids are stored under the name that sorts first. */
static void add_tables(struct export *x) {
    const struct config *c = &x->md->config;
    const char *target = "decoder/embeddings/weight",
               *encodings = "decoder/position_encodings/encodings";
    add_param(x, "decoder/embeddings", "weight", "tgt_embed");
    if (c->output_bias) add_param(x, "decoder/projection", "bias", "out_bias");
    if (c->tie == TIE_NONE)
        add_param(x, "decoder/projection", "weight", "out");
    else
        add_alias(x, "decoder/projection", "weight", target);
    if (c->tie == TIE_ALL)
        add_alias(x, "encoder/embeddings_0", "weight", target);
    else
        add_param(x, "encoder/embeddings_0", "weight", "src_embed");
    if (c->positions == POSITIONS_LEARNED) {
        add_param(x, "decoder/position_encodings", "encodings", "tgt_pos");
        add_param(x, "encoder/position_encodings", "encodings", "src_pos");
        return;
    }
    struct variable *v = add(x, "decoder/position_encodings", "encodings");
    v->kind = KIND_SINUSOIDS;
    v->rows = c->max_len;
    v->cols = c->d_model;
    add_alias(x, "encoder/position_encodings", "encodings", encodings);
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct variable *)a)->name, ((const struct variable *)b)->name);
}

static void list_variables(struct export *x) {
    add_stack(x, 0);
    add_stack(x, 1);
    add_tables(x);
    add_scalar(x, "encoder", "embeddings_merge", TYPE_I8, 0);
    add_scalar(x, "encoder", "multi_query_attention", TYPE_I8, 0);
    add_scalar(x, "decoder", "start_from_zero_embedding", TYPE_I8,
               tokenizer_bos(x->tongues->target) < 0);
    add_scalar(x, "decoder", "alibi", TYPE_I8, 0);
    add_scalar(x, "decoder", "alibi_use_positive_positions", TYPE_I8, 0);
    add_scalar(x, "decoder", "scale_alibi", TYPE_I8, 0);
    /* As search/align.h: the last layer but one, the mean of all heads (0). */
    int layers = x->md->config.n_layer_dec;
    add_scalar(x, "decoder", "alignment_layer", TYPE_I16, layers > 1 ? layers - 2 : 0);
    add_scalar(x, "decoder", "alignment_heads", TYPE_I16, 0);
    qsort(x->variable, x->n, sizeof *x->variable, by_name);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void write_number(struct file_writer *w, uint32_t value, int bytes) {
    unsigned char b[4];
    for (int i = 0; i < bytes; i++) b[i] = (unsigned char)(value >> 8 * i);
    file_writer_write(w, b, (size_t)bytes);
}

/* Length (its NUL counted), text, NUL. */
static void write_string(struct file_writer *w, const char *text) {
    write_number(w, (uint32_t)strlen(text) + 1, 2);
    file_writer_write(w, text, strlen(text) + 1);
}

static int type_size(enum type type) { return type == TYPE_I8 ? 1 : type == TYPE_I16 ? 2 : 4; }

/* CTranslate2's rule: 127 / max |row|, 1 for a row of zeros; tiny rows stay within f32. NaN for
 * rows with values that are not numbers. */
static float row_scale(const float *row, int n) {
    float most = 0;
    for (int j = 0; j < n; j++) {
        if (!isfinite(row[j])) return NAN;
        most = fmaxf(most, fabsf(row[j]));
    }
    if (most == 0) return 1;
    return 127.0f / fmaxf(most, 127.0f / 3.40282347e38f);
}

static int write_rows(struct file_writer *w, const struct export *x, const struct variable *v,
                      struct err *err) {
    size_t n = (size_t)v->cols;
    float *row = xmalloc(n * sizeof *row);
    int8_t *q = xmalloc(n);
    int rc = 0;
    const struct mat *own = x->md->view ? &x->md->view[v->param] : NULL;
    int kept = own && own->tiled && own->type == DTYPE_I8;
    for (int i = 0; i < v->rows && !rc; i++) {
        modeldir_values(x->md, v->param, (size_t)i * n, n, row);
        float scale = v->kind == KIND_PARAM ? 1
                      : kept                ? 1 / own->scale[i]
                                            : row_scale(row, v->cols);
        if (isnan(scale)) {
            rc = err_set(err, HEED_EFORMAT,
                         "row %d of '%s' has values that are not finite, which int8 cannot hold", i,
                         x->md->table.param[v->param].name);
        } else if (v->kind == KIND_PARAM) {
            file_writer_write(w, row, n * sizeof *row);
        } else if (v->kind == KIND_SCALE) {
            file_writer_write(w, &scale, sizeof scale);
        } else {
            for (size_t j = 0; j < n; j++) q[j] = (int8_t)lrintf(row[j] * scale);
            file_writer_write(w, q, n);
        }
    }
    xfree(q);
    xfree(row);
    return rc;
}

static void write_sinusoids(struct file_writer *w, const struct variable *v) {
    size_t n = (size_t)v->rows * (size_t)v->cols;
    float *table = xmalloc(n * sizeof *table);
    model_sinusoids(table, DTYPE_F32, v->rows, v->cols);
    file_writer_write(w, table, n * sizeof *table);
    xfree(table);
}

static int variable_rank(const struct variable *v) {
    if (v->kind == KIND_SCALAR) return 0;
    return v->kind == KIND_SCALE || (v->kind == KIND_PARAM && v->rows == 1) ? 1 : 2;
}

static uint64_t variable_bytes(const struct variable *v) {
    uint64_t n = v->kind == KIND_SCALAR  ? 1
                 : v->kind == KIND_SCALE ? (uint64_t)v->rows
                                         : (uint64_t)v->rows * (uint64_t)v->cols;
    return n * (uint64_t)type_size(v->type);
}

static int write_variable(struct file_writer *w, const struct export *x, const struct variable *v,
                          struct err *err) {
    int rank = variable_rank(v);
    write_string(w, v->name);
    write_number(w, (uint32_t)rank, 1);
    if (rank == 2 || v->kind == KIND_SCALE) write_number(w, (uint32_t)v->rows, 4);
    if (rank && v->kind != KIND_SCALE) write_number(w, (uint32_t)v->cols, 4);
    write_number(w, (uint32_t)v->type, 1);
    write_number(w, (uint32_t)variable_bytes(v), 4);
    if (v->kind == KIND_SCALAR)
        write_number(w, (uint32_t)v->value, type_size(v->type));
    else if (v->kind == KIND_SINUSOIDS)
        write_sinusoids(w, v);
    else
        return write_rows(w, x, v, err);
    return 0;
}

static int write_model(const char *path, const struct export *x, struct err *err) {
    uint32_t n_alias = 0;
    for (size_t i = 0; i < x->n; i++) {
        n_alias += x->variable[i].kind == KIND_ALIAS;
        if (variable_bytes(&x->variable[i]) > UINT32_MAX)
            return err_set(err, HEED_ELIMIT,
                           "%.120s: '%s' is 4 GiB or larger, too large for the format", path,
                           x->variable[i].name);
    }
    struct file_writer w;
    int rc = file_writer_open(&w, path, err);
    if (rc) return rc;
    write_number(&w, BINARY_VERSION, 4);
    write_string(&w, SPEC_NAME);
    write_number(&w, SPEC_REVISION, 4);
    write_number(&w, (uint32_t)x->n - n_alias, 4);
    for (size_t i = 0; i < x->n && !rc; i++)
        if (x->variable[i].kind != KIND_ALIAS) rc = write_variable(&w, x, &x->variable[i], err);
    if (rc) {
        file_writer_abort(&w);
        return rc;
    }
    write_number(&w, n_alias, 4);
    for (size_t i = 0; i < x->n; i++)
        if (x->variable[i].kind == KIND_ALIAS) {
            write_string(&w, x->variable[i].name);
            write_string(&w, x->variable[i].target);
        }
    return file_writer_commit(&w, err);
}

/* ---- the rest -------------------------------------------------------------------------------- */

static int check(const struct export *x, struct err *err) {
    const struct config *c = &x->md->config;
    const struct weights_form *form = &x->md->form;
    const char *experiment = config_experiment(c);
    if (experiment)
        return err_set(err, HEED_ECONFIG,
                       "%s: CTranslate2 has no equivalent of this experiment; only models as in "
                       "the paper can be exported",
                       experiment);
    if (c->window)
        return err_set(err, HEED_ECONFIG,
                       "window: CTranslate2 has no local attention; the model's window is %d",
                       c->window);
    if (c->decoder == DECODER_SSRU)
        return err_set(
            err, HEED_ECONFIG,
            "decoder: CTranslate2 has no recurrent decoder layers; the model's are ssru");
    if (c->d_k != c->d_v)
        return err_set(err, HEED_ECONFIG,
                       "d_v: CTranslate2 needs keys and values of the same width, not %d and %d",
                       c->d_k, c->d_v);
    if (form->tiled && form->type == DTYPE_I8 && !x->int8)
        return err_set(err, HEED_EINVAL,
                       "the weights are int8 and cannot become f32 again; --precision int8 keeps "
                       "them");
    return tokenizer_check_ends(x->tongues->target, err);
}

static int write_vocabulary(const char *dir, const char *name, const struct tokenizer *t,
                            struct err *err) {
    json_t *list = json_array();
    char *path = path_join(dir, name);
    int rc = 0;
    for (int i = 0; i < tokenizer_size(t) && !rc; i++)
        if (json_array_append_new(list, json_string(tokenizer_piece(t, i))))
            rc = err_set(err, HEED_EFORMAT, "%.120s: piece %d is not UTF-8", path, i);
    if (!rc) rc = json_out_file(path, list, err);
    json_decref(list);
    xfree(path);
    return rc;
}

static int write_pieces(const char *dir, const char *name, const struct tokenizer *t,
                        struct err *err) {
    size_t size;
    const void *bytes = tokenizer_bytes(t, &size);
    char *path = path_join(dir, name);
    int rc = file_write_all(path, bytes, size, err);
    xfree(path);
    return rc;
}

static int write_texts(const char *dir, const struct tongues *t, struct err *err) {
    int rc, one = t->source == t->target;
    if (tongues_share(t)) {
        rc = write_vocabulary(dir, MODELDIR_VOCABULARY, t->source, err);
    } else {
        rc = write_vocabulary(dir, "source_vocabulary.json", t->source, err);
        if (!rc) rc = write_vocabulary(dir, "target_vocabulary.json", t->target, err);
    }
    if (!rc) rc = write_pieces(dir, one ? MODELDIR_TOKENIZER : "source.spm", t->source, err);
    if (!rc && !one) rc = write_pieces(dir, "target.spm", t->target, err);
    return rc;
}

/* Where translations start from the zero vector, any token will do to name that start. */
static int write_settings(const char *dir, const struct export *x, struct err *err) {
    const struct tokenizer *t = x->tongues->target;
    const char *eos = tokenizer_piece(t, tokenizer_eos(t));
    const char *bos = tokenizer_bos(t) < 0 ? eos : tokenizer_piece(t, tokenizer_bos(t));
    char *path = path_join(dir, "config.json");
    json_t *root = json_pack(
        "{s:b, s:b, s:s, s:s, s:s, s:o, s:b, s:s}", "add_source_bos", 0, "add_source_eos",
        tokenizer_eos(x->tongues->source) >= 0, "bos_token", bos, "decoder_start_token", bos,
        "eos_token", eos, "layer_norm_epsilon", json_out_float(x->md->config.norm_eps),
        "multi_query_attention", 0, "unk_token", tokenizer_piece(t, tokenizer_unk(t)));
    int rc = root ? json_out_file(path, root, err)
                  : err_set(err, HEED_EFORMAT, "%.120s: a special piece is not UTF-8", path);
    json_decref(root);
    xfree(path);
    return rc;
}

int ctranslate2_write(const char *dir, const struct modeldir *md, const struct tongues *tongues,
                      int int8, struct err *err) {
    struct export x = {.md = md, .tongues = tongues, .int8 = int8};
    struct newdir new;
    int rc = check(&x, err);
    if (!rc) rc = newdir_begin(&new, dir, modeldir_files, err);
    if (rc) return rc;
    list_variables(&x);
    char *model = path_join(new.temp, MODELDIR_CTRANSLATE2);
    rc = write_texts(new.temp, tongues, err);
    if (!rc) rc = write_settings(new.temp, &x, err);
    if (!rc) rc = write_model(model, &x, err);
    xfree(model);
    xfree(x.variable);
    return newdir_end(&new, rc, err);
}
