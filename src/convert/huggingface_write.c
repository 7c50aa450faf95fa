/* huggingface_write.c — see huggingface_write.h.
 *
 * Tensors are listed first: which parameter of ours they are rows of (assembly.h has the table),
 * and how many. Then they are written in one pass over the mapped weights. */
#include "convert/huggingface_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/ops.h"
#include "base/buffer.h"
#include "base/half.h"
#include "base/mem.h"
#include "base/newdir.h"
#include "base/num.h"
#include "convert/assembly.h"
#include "convert/hf_names.h"
#include "io/json.h"

#define PAD "<pad>"

/* Tokens of rows that are added have this output bias: no probability, in half precision too. */
static const float never = -1e4f;

enum { CHUNK = 1 << 16 }; /* values at a time */

/* ---- what can be expressed ------------------------------------------------------------------- */

static int check(const struct modeldir *md, const struct tongues *t, struct err *err) {
    const struct config *c = &md->config;
    const char *experiment = config_experiment(c);
    const char *field = experiment                                             ? experiment
                        : c->norm != NORM_POST                                 ? "norm"
                        : c->embed_norm                                        ? "embed_norm"
                        : c->window                                            ? "window"
                        : c->decoder != DECODER_ATTENTION                      ? "decoder"
                        : c->d_k != c->d_v || c->d_k * c->n_head != c->d_model ? "d_k"
                                                                               : NULL;
    if (field) {
        char value[OPTION_TEXT];
        const struct option *o = option_find(config_rows, field, strlen(field));
        return err_set(err, HEED_ECONFIG, "%s: MarianMT has no equivalent of %s", field,
                       option_text(o, c, value));
    }
    if (tokenizer_eos(t->source) < 0)
        return err_set(err, HEED_ECONFIG,
                       "tokens: MarianMT's sources end with the end mark; the model's do not");
    if (t->before_target != TONGUES_NONE || t->before_source == TONGUES_SOURCE)
        return err_set(
            err, HEED_ECONFIG,
            "tokens: MarianMT is told the language of the translation before the source; "
            "the model wants both of them, each before its text");
    return 0;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

struct export {
    const struct modeldir *md;
    const struct tongues *tongues;
    int apart;      /* each side has a vocabulary of its own */
    int extra;      /* rows added to embeddings: a start from the zero vector, 0 or 1 */
    int start, pad; /* ids */
    int half;       /* weights are f16 */
    const char *dir;
};

static int plan(struct export *x, struct err *err) {
    const struct tokenizer *target = x->tongues->target;
    int n = tokenizer_size(target);
    x->apart = !tongues_share(x->tongues);
    x->start = tokenizer_bos(target);
    x->pad = tokenizer_find(target, PAD);
    if (x->start >= 0) { /* padding is masked: any token will do */
        if (x->pad < 0) x->pad = tokenizer_eos(target);
        return 0;
    }
    if (x->apart || x->pad >= 0)
        return err_set(err, HEED_ECONFIG,
                       "tokens: a start from the zero vector needs one vocabulary for both sides "
                       "without a token " PAD ", to which it can be added");
    x->extra = 1;
    x->start = x->pad = n;
    return 0;
}

static int write_json(const struct export *x, const char *name, json_t *value, struct err *err) {
    char *path = path_join(x->dir, name);
    int rc = value ? json_out_file(path, value, err)
                   : err_set(err, HEED_EFORMAT, "%s: a token is not UTF-8", name);
    json_decref(value);
    xfree(path);
    return rc;
}

static int write_vocabulary(const struct export *x, const char *name, const struct tokenizer *t,
                            struct err *err) {
    json_t *map = json_object();
    int bad = 0;
    for (int i = 0; i < tokenizer_size(t); i++)
        bad |= json_object_set_new(map, tokenizer_piece(t, i), json_integer(i));
    if (x->extra) json_object_set_new(map, PAD, json_integer(x->pad));
    if (!bad) return write_json(x, name, map, err);
    json_decref(map);
    return write_json(x, name, NULL, err);
}

static int write_pieces(const struct export *x, const char *name, const struct tokenizer *t,
                        struct err *err) {
    size_t size;
    const void *bytes = tokenizer_bytes(t, &size);
    char *path = path_join(x->dir, name);
    int rc = file_write_all(path, bytes, size, err);
    xfree(path);
    return rc;
}

static int write_tokens(const struct export *x, struct err *err) {
    const struct tongues *t = x->tongues;
    const char *pad = x->extra ? PAD : tokenizer_piece(t->target, x->pad);
    json_t *about = json_pack("{s:s, s:b, s:s, s:s, s:s, s:i}", "tokenizer_class",
                              "MarianTokenizer", "separate_vocabs", x->apart, "unk_token",
                              tokenizer_piece(t->target, tokenizer_unk(t->target)), "eos_token",
                              tokenizer_piece(t->target, tokenizer_eos(t->target)), "pad_token",
                              pad, "model_max_length", x->md->config.max_len);
    static const char *const keys[][2] = {{"source", "source_lang"}, {"target", "target_lang"}};
    for (int k = 0; k < 2 && about; k++) {
        json_t *tag = json_object_get(x->md->notes.card, keys[k][0]);
        if (tag) json_object_set(about, keys[k][1], tag);
    }
    int rc = write_vocabulary(x, "vocab.json", t->source, err);
    if (!rc && x->apart) rc = write_vocabulary(x, "target_vocab.json", t->target, err);
    if (!rc) rc = write_pieces(x, "source.spm", t->source, err);
    if (!rc) rc = write_pieces(x, "target.spm", t->target, err);
    if (rc) json_decref(about);
    return rc ? rc : write_json(x, "tokenizer_config.json", about, err);
}

/* ---- settings -------------------------------------------------------------------------------- */

static int write_config(const struct export *x, struct err *err) {
    static const char *const activation[] = {
        [ACT_RELU] = "relu", [ACT_GELU] = "gelu", [ACT_SILU] = "swish"};
    const struct config *c = &x->md->config;
    json_t *root = json_pack("{s:[s], s:s, s:b}", "architectures", "MarianMTModel", "model_type",
                             "marian", "is_encoder_decoder", 1);
    const struct {
        const char *key;
        int value;
    } numbers[] = {{"vocab_size", c->n_vocab_src + x->extra},
                   {"decoder_vocab_size", c->n_vocab_tgt + x->extra},
                   {"d_model", c->d_model},
                   {"encoder_layers", c->n_layer_enc},
                   {"decoder_layers", c->n_layer_dec},
                   {"encoder_attention_heads", c->n_head},
                   {"decoder_attention_heads", c->n_head},
                   {"encoder_ffn_dim", config_d_ff(c, 0)},
                   {"decoder_ffn_dim", config_d_ff(c, 1)},
                   {"max_position_embeddings", c->max_len},
                   {"pad_token_id", x->pad},
                   {"eos_token_id", tokenizer_eos(x->tongues->target)},
                   {"decoder_start_token_id", x->start}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        json_object_set_new(root, numbers[i].key, json_integer(numbers[i].value));
    const struct {
        const char *key;
        int value;
    } flags[] = {{"scale_embedding", 1},
                 {"share_encoder_decoder_embeddings", c->tie == TIE_ALL},
                 {"tie_word_embeddings", c->tie != TIE_NONE},
                 {"static_position_embeddings", 1},
                 {"normalize_before", 0},
                 {"normalize_embedding", 0}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        json_object_set_new(root, flags[i].key, json_boolean(flags[i].value));
    json_object_set_new(root, "activation_function", json_string(activation[c->activation]));
    json_object_set_new(root, "dropout", json_out_float(c->dropout));
    json_object_set_new(root, "attention_dropout", json_out_float(c->attention_dropout));
    json_object_set_new(root, "activation_dropout", json_out_float(c->activation_dropout));
    json_object_set_new(root, "dtype", json_string(x->half ? "float16" : "float32"));
    return write_json(x, "config.json", root, err);
}

/* Scores there are divided by length^length_penalty. */
static int write_generation(const struct export *x, struct err *err) {
    const json_t *own = x->md->notes.translate, *beam = json_object_get(own, "beam"),
                 *alpha = json_object_get(own, "alpha");
    json_t *root = json_pack(
        "{s:i, s:i, s:i, s:i, s:i, s:f, s:b}", "decoder_start_token_id", x->start, "eos_token_id",
        tokenizer_eos(x->tongues->target), "pad_token_id", x->pad, "max_length",
        min_int(512, x->md->config.max_len), "num_beams", beam ? (int)json_integer_value(beam) : 4,
        "length_penalty", alpha ? json_number_value(alpha) : 1.0, "use_cache", 1);
    json_t *banned = json_array();
    for (int i = 0; i < x->tongues->n_banned; i++)
        json_array_append_new(banned, json_pack("[i]", x->tongues->banned[i]));
    if (x->extra) json_array_append_new(banned, json_pack("[i]", x->pad));
    if (json_array_size(banned)) json_object_set(root, "bad_words_ids", banned);
    json_decref(banned);
    return write_json(x, "generation_config.json", root, err);
}

/* ---- weights --------------------------------------------------------------------------------- */

/* A tensor: rows of a parameter of ours, or something that we compute. */
struct item {
    char name[HF_NAME];
    int param;           /* of the table; -1: there are zeros in its place */
    size_t first, count; /* its values */
    int rows, cols;      /* rows 0: a vector */
    float fill;          /* what follows them, up to rows x cols */
    int sinusoids;       /* it is the table of those */
};

struct items {
    struct item *item;
    int n, room;
};

static struct item *add(struct items *list) {
    GROW(list->item, list->n, list->room);
    list->item[list->n] = (struct item){.param = -1};
    return &list->item[list->n++];
}

static void add_param(struct items *list, const struct export *x, int i) {
    const struct param *p = &x->md->table.param[i];
    const struct config *c = &x->md->config;
    struct foreign_role role[PART_MOST];
    int n = assembly_roles(p->name, role);
    size_t at = 0;
    for (int k = 0; k < n; k++) {
        struct item *item = add(list);
        int vector = p->rows == 1, whole = vector ? p->cols : p->rows;
        int height = n == 1 ? whole : c->n_head * c->d_k; /* d_v is d_k */
        int table = role[k].what == THE_EMBEDDING || role[k].what == THE_OUTPUT;
        hf_name(item->name, &role[k], c->tie);
        item->param = i;
        item->first = at;
        item->rows = vector ? 0 : height;
        item->cols = vector ? height : p->cols;
        item->count = (size_t)height * (size_t)(vector ? 1 : p->cols);
        at += item->count;
        if (table && vector) { /* final_logits_bias [1, vocabulary] */
            item->rows = 1;
            item->cols += x->extra;
            item->fill = never;
        } else if (table) {
            item->rows += x->extra;
        }
    }
}

static void list_items(struct items *list, const struct export *x) {
    const struct config *c = &x->md->config;
    for (int i = 0; i < x->md->table.n_param; i++) add_param(list, x, i);
    for (int k = 0; k < 2 && c->positions == POSITIONS_SINUSOIDAL; k++) {
        struct item *item = add(list);
        hf_name(item->name, &(struct foreign_role){.decoder = k, .what = THE_POSITIONS}, c->tie);
        item->sinusoids = 1;
        item->rows = c->max_len;
        item->cols = c->d_model;
    }
    if (c->output_bias) return;
    struct item *item = add(list);
    hf_name(item->name, &(struct foreign_role){.decoder = 1, .what = THE_OUTPUT, .bias = 1},
            c->tie);
    item->rows = 1;
    item->cols = c->n_vocab_tgt + x->extra;
    item->count = (size_t)c->n_vocab_tgt;
    item->fill = never;
}

/* Values [at, at + n) of a tensor. */
static void item_values(const struct export *x, const struct item *item, size_t at, size_t n,
                        float *out) {
    size_t own = at < item->count ? min_size(n, item->count - at) : 0;
    if (own && item->param >= 0) modeldir_values(x->md, item->param, item->first + at, own, out);
    for (size_t i = item->param >= 0 ? own : 0; i < n; i++) out[i] = i < own ? 0 : item->fill;
}

static int narrow(uint16_t *half, const float *values, size_t n, const char *name,
                  struct err *err) {
    for (size_t i = 0; i < n; i++) {
        half[i] = f16_store(values[i]);
        if (isfinite(values[i]) && !isfinite(f16_load(half[i])))
            return err_set(err, HEED_EFORMAT, "%s has the value %g, which f16 cannot hold", name,
                           (double)values[i]);
    }
    return 0;
}

static int write_item(struct safetensors_writer *w, const struct export *x, const struct item *item,
                      const float *sinusoids, struct err *err) {
    size_t all = (size_t)max_int(item->rows, 1) * (size_t)item->cols;
    float *values = xmalloc(CHUNK * sizeof *values);
    uint16_t *half = xmalloc(CHUNK * sizeof *half);
    int rc = 0;
    for (size_t at = 0; at < all && !rc; at += CHUNK) {
        size_t n = min_size(CHUNK, all - at);
        if (item->sinusoids)
            memcpy(values, sinusoids + at, n * sizeof *values);
        else
            item_values(x, item, at, n, values);
        if (x->half) rc = narrow(half, values, n, item->name, err);
        if (x->half)
            safetensors_write(w, half, n * sizeof *half);
        else
            safetensors_write(w, values, n * sizeof *values);
    }
    xfree(half);
    xfree(values);
    return rc;
}

static int write_weights(const struct export *x, struct err *err) {
    static const struct metadata metadata[] = {{"format", "pt"}, {NULL, NULL}};
    struct items list = {0};
    list_items(&list, x);
    struct tensor_spec *spec = xcalloc((size_t)list.n, sizeof *spec);
    for (int i = 0; i < list.n; i++) {
        spec[i] = (struct tensor_spec){.name = list.item[i].name, .dtype = x->half ? "F16" : "F32"};
        if (list.item[i].rows) spec[i].shape[spec[i].rank++] = list.item[i].rows;
        spec[i].shape[spec[i].rank++] = list.item[i].cols;
    }
    const struct config *c = &x->md->config;
    size_t table = (size_t)c->max_len * (size_t)c->d_model;
    float *sinusoids =
        c->positions == POSITIONS_SINUSOIDAL ? xmalloc(table * sizeof *sinusoids) : NULL;
    if (sinusoids) model_sinusoids(sinusoids, DTYPE_F32, c->max_len, c->d_model);
    struct safetensors_writer w;
    char *path = path_join(x->dir, "model.safetensors");
    int rc = safetensors_create(&w, path, spec, list.n, metadata, err);
    int open = !rc;
    for (int i = 0; i < list.n && !rc; i++) rc = write_item(&w, x, &list.item[i], sinusoids, err);
    if (open && rc) safetensors_abort(&w);
    if (!rc) rc = safetensors_commit(&w, err);
    xfree(path);
    xfree(sinusoids);
    xfree(spec);
    xfree(list.item);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

int huggingface_write(const char *dir, const struct modeldir *md, const struct tongues *tongues,
                      int half, struct err *err) {
    struct export x = {.md = md, .tongues = tongues, .half = half};
    struct newdir new;
    int rc = check(md, tongues, err);
    if (!rc) rc = plan(&x, err);
    if (!rc) rc = newdir_begin(&new, dir, modeldir_files, err);
    if (rc) return rc;
    x.dir = new.temp;
    rc = write_tokens(&x, err);
    if (!rc) rc = write_config(&x, err);
    if (!rc) rc = write_generation(&x, err);
    if (!rc) rc = write_weights(&x, err);
    return newdir_end(&new, rc, err);
}
