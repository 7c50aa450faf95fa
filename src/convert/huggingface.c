/* huggingface.c — translation models as Hugging Face's transformers keeps them (foreign.h): the
 * directory of a MarianMT (OPUS-MT), M2M100, NLLB or mBART-50 model.
 *
 *     config.json               shape, ids; model_type marian, m2m_100 or mbart
 *     generation_config.json    how to search; before it was invented, config.json
 *     weights                   hf_weights.h
 *     vocabulary, tokenizers    hf_tokens.h
 *
 * All three are the paper's Transformer, written three times: Marian normalises after sub-layers,
 * the others before them; mBART also after the embedding. Names of tensors are the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "convert/foreign.h"
#include "convert/hf_names.h"
#include "convert/hf_tokens.h"
#include "convert/hf_weights.h"
#include "io/json.h"

static const struct kind {
    const char *type;
    enum hf_tokens tokens;
    int norm, embed_norm, shares; /* shares: both stacks have one embedding, whatever is said */
} kinds[] = {{"marian", HF_MARIAN, NORM_POST, 0, 0},
             {"m2m_100", HF_M2M100, NORM_PRE, 0, 1},
             {"mbart", HF_FAIRSEQ, NORM_PRE, 1, 1}};

struct hf {
    struct bundle *bundle;
    const struct kind *kind;
    struct hf_weights *weights;
    json_t *config, *generation, *tokenizer; /* the last two may be NULL */
    struct json_in in;                       /* config */
    char where[BUNDLE_WHERE];
};

/* ---- names ----------------------------------------------------------------------------------- */

/* The places that a shared matrix may be stored at. */
static const struct torch_tensor *find_embedding(const struct hf *hf, const char *own) {
    static const char *const shared[] = {"model.shared.weight", "model.decoder.embed_tokens.weight",
                                         "model.encoder.embed_tokens.weight", "lm_head.weight",
                                         NULL};
    const struct torch_tensor *t = hf_weights_find(hf->weights, own);
    for (int i = 0; shared[i] && !t; i++) t = hf_weights_find(hf->weights, shared[i]);
    return t;
}

static const struct torch_tensor *find_tensor(const struct hf *hf, const struct foreign_role *r) {
    char name[HF_NAME];
    hf_name(name, r, TIE_NONE);
    int shared = r->what == THE_EMBEDDING || (r->what == THE_OUTPUT && !r->bias);
    return shared ? find_embedding(hf, name) : hf_weights_find(hf->weights, name);
}

/* ---- matrices -------------------------------------------------------------------------------- */

static int view(struct foreign_mat *mat, const struct hf *hf, const struct torch_tensor *t,
                struct err *err) {
    static const struct {
        const char *name;
        enum foreign_type type;
    } types[] = {{"F32", FOREIGN_F32}, {"F16", FOREIGN_F16}, {"BF16", FOREIGN_BF16}};
    size_t k = 0;
    while (k < 3 && strcmp(types[k].name, t->dtype) != 0) k++;
    if (k == 3)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.80s' has numbers of type %s",
                       hf->where, t->name, t->dtype);
    int64_t rows = t->rank == 2 ? t->shape[0] : 1, cols = t->rank ? t->shape[t->rank - 1] : 0;
    if (t->rank < 1 || t->rank > 2 || rows < 1 || rows > INT32_MAX || cols < 1 || cols > INT32_MAX)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.80s' is neither matrix nor vector",
                       hf->where, t->name);
    int64_t down = t->rank == 2 ? t->stride[0] : cols, along = t->stride[t->rank - 1];
    *mat = (struct foreign_mat){
        .data = t->data, .rows = (int)rows, .cols = (int)cols, .type = types[k].type};
    if (along == 1 || cols == 1)
        mat->ld = down;
    else if (down == 1 || rows == 1)
        mat->ld = along, mat->transposed = 1;
    if (!mat->ld)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.80s' has strides %lld, %lld",
                       hf->where, t->name, (long long)down, (long long)along);
    return 0;
}

static int find(const struct foreign *m, const struct foreign_role *role, struct foreign_mat *mat,
                struct err *err) {
    const struct torch_tensor *t = find_tensor(m->reader, role);
    return t ? view(mat, m->reader, t, err) : 0;
}

/* ---- what is refused ------------------------------------------------------------------------- */

static int ends_in(const char *name, const char *const *list) {
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return 1;
    return 0;
}

/* Whether a tensor is one that `find` looks for, or one that no program reads. */
static int is_known(const struct hf *hf, const struct config *c, const char *name) {
    static const char *const outside[] = {"lm_head.weight", "final_logits_bias",
                                          "model.shared.weight", NULL};
    static const char *const stack[] = {"embed_tokens.weight",
                                        "embed_positions.weight",
                                        "embed_positions.weights",
                                        "embed_positions._float_tensor",
                                        "version",
                                        NULL};
    static const char *const norms[] = {"layer_norm.weight", "layer_norm.bias", NULL};
    static const char *const embed_norms[] = {"layernorm_embedding.weight",
                                              "layernorm_embedding.bias", NULL};
    static const char *const layer[] = {"self_attn.q_proj",
                                        "self_attn.k_proj",
                                        "self_attn.v_proj",
                                        "self_attn.out_proj",
                                        "self_attn_layer_norm",
                                        "fc1",
                                        "fc2",
                                        "final_layer_norm",
                                        "encoder_attn.q_proj",
                                        "encoder_attn.k_proj",
                                        "encoder_attn.v_proj",
                                        "encoder_attn.out_proj",
                                        "encoder_attn_layer_norm",
                                        NULL};
    if (ends_in(name, outside)) return 1;
    int decoder = strncmp(name, "model.decoder.", 14) == 0;
    if (!decoder && strncmp(name, "model.encoder.", 14) != 0) return 0;
    name += 14;
    if (ends_in(name, stack) || (hf->kind->norm == NORM_PRE && ends_in(name, norms)) ||
        (hf->kind->embed_norm && ends_in(name, embed_norms)))
        return 1;
    if (strncmp(name, "layers.", 7) != 0) return 0;
    char *rest, part[40];
    long n = strtol(name + 7, &rest, 10);
    const char *dot = strrchr(rest, '.');
    if (n < 0 || n >= (decoder ? c->n_layer_dec : c->n_layer_enc) || *rest != '.' || dot == rest ||
        dot - rest > 39 || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return 0;
    snprintf(part, sizeof part, "%.*s", (int)(dot - rest - 1), rest + 1);
    return ends_in(part, layer) && (decoder || strncmp(part, "encoder_", 8) != 0);
}

static int check_tensors(const struct hf *hf, const struct config *c, struct err *err) {
    for (int i = 0; i < hf_weights_count(hf->weights); i++) {
        const char *name = hf_weights_at(hf->weights, i)->name;
        if (!is_known(hf, c, name))
            return err_set(err, HEED_EFORMAT,
                           "%.100s: the weights have '%.80s', which a %s model does not", hf->where,
                           name, hf->kind->type);
    }
    return 0;
}

/* ---- settings -------------------------------------------------------------------------------- */

static int refuse(const struct hf *hf, const char *key, const char *why, struct err *err) {
    char what[120];
    snprintf(what, sizeof what, "%s", why);
    return json_in_expected(&hf->in, key, what, err);
}

static const json_t *setting(const struct hf *hf, const char *key) {
    const json_t *value = json_object_get(hf->config, key);
    return json_is_null(value) ? NULL : value;
}

/* A size. */
static int whole(const struct hf *hf, const char *key, int64_t otherwise, int *out,
                 struct err *err) {
    const json_t *value = setting(hf, key);
    int64_t n = json_is_integer(value) ? json_integer_value(value) : value ? -1 : otherwise;
    if (n < 0 || n > 1 << 24) return refuse(hf, key, "a size", err);
    *out = (int)n;
    return 0;
}

static int flag(const struct hf *hf, const char *key, int otherwise) {
    const json_t *value = setting(hf, key);
    return value ? json_is_true(value) : otherwise;
}

/* How to generate: in a file of its own, or among the rest. */
static const json_t *generation(const struct hf *hf, const char *key) {
    const json_t *value = json_object_get(hf->generation, key);
    return value && !json_is_null(value) ? value : setting(hf, key);
}

/* An id, or a list of one. */
static int generation_id(const struct hf *hf, const char *key, int *out, struct err *err) {
    const json_t *value = generation(hf, key);
    if (json_array_size(value) == 1) value = json_array_get(value, 0);
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        json_integer_value(value) > INT32_MAX)
        return refuse(hf, key, "one id", err);
    *out = (int)json_integer_value(value);
    return 0;
}

/* ---- shape ----------------------------------------------------------------------------------- */

static int read_activation(struct config *c, const struct hf *hf, struct err *err) {
    static const struct {
        const char *name;
        int act;
    } acts[] = {{"relu", ACT_RELU}, {"gelu", ACT_GELU}, {"swish", ACT_SILU}, {"silu", ACT_SILU}};
    const char *name = json_string_value(setting(hf, "activation_function"));
    for (size_t i = 0; name && i < sizeof acts / sizeof *acts; i++)
        if (strcmp(acts[i].name, name) == 0) {
            c->activation = acts[i].act;
            return 0;
        }
    return refuse(hf, "activation_function", "relu, gelu, swish or silu", err);
}

static int read_sizes(struct config *c, const struct hf *hf, struct err *err) {
    const struct {
        const char *key;
        int otherwise, *out;
    } sizes[] = {{"vocab_size", -1, &c->n_vocab_src},
                 {"d_model", -1, &c->d_model},
                 {"encoder_layers", -1, &c->n_layer_enc},
                 {"decoder_layers", -1, &c->n_layer_dec},
                 {"encoder_ffn_dim", -1, &c->d_ff},
                 {"decoder_ffn_dim", -1, &c->d_ff_dec},
                 {"encoder_attention_heads", -1, &c->n_head},
                 {"max_position_embeddings", 1024, &c->max_len}};
    int heads = 0, rc = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && !rc; i++)
        rc = whole(hf, sizes[i].key, sizes[i].otherwise, sizes[i].out, err);
    if (!rc) rc = whole(hf, "decoder_vocab_size", c->n_vocab_src, &c->n_vocab_tgt, err);
    if (!rc) rc = whole(hf, "decoder_attention_heads", c->n_head, &heads, err);
    if (!rc && heads != c->n_head)
        rc = refuse(hf, "decoder_attention_heads", "as many as encoder_attention_heads", err);
    c->d_k = c->d_v = 0;
    return rc;
}

/* For those who train it further. */
static int read_dropout(struct config *c, const struct hf *hf, struct err *err) {
    const struct {
        const char *key;
        float *out;
    } rates[] = {{"dropout", &c->dropout},
                 {"attention_dropout", &c->attention_dropout},
                 {"activation_dropout", &c->activation_dropout}};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        const json_t *value = setting(hf, rates[i].key);
        double rate = value ? json_number_value(value) : 0;
        if ((value && !json_is_number(value)) || rate < 0 || rate >= 1)
            return refuse(hf, rates[i].key, "a number from 0 to below 1", err);
        *rates[i].out = (float)rate;
    }
    return 0;
}

/* Is there a bias of the output that is not zero? */
static int has_bias(const struct hf *hf) {
    const struct torch_tensor *t = hf_weights_find(hf->weights, "final_logits_bias");
    if (!t || t->rank < 1 || t->stride[t->rank - 1] != 1) return t != NULL;
    size_t item = strcmp(t->dtype, "F32") == 0 ? 4 : 2, n = (size_t)t->shape[t->rank - 1] * item;
    for (size_t i = 0; i < n; i++)
        if (((const char *)t->data)[i]) return 1;
    return 0;
}

static int read_shape(struct foreign *m, struct hf *hf, struct err *err) {
    struct config *c = &m->config;
    *c = foreign_config();
    c->norm = hf->kind->norm;
    c->embed_norm = hf->kind->embed_norm;
    c->norm_eps = 1e-5f; /* PyTorch's */
    int rc = read_sizes(c, hf, err);
    if (!rc) rc = read_activation(c, hf, err);
    if (!rc) rc = read_dropout(c, hf, err);
    if (!rc) rc = check_tensors(hf, c, err);
    if (rc) return rc;
    int share = hf->kind->shares || flag(hf, "share_encoder_decoder_embeddings", 1);
    c->tie = !flag(hf, "tie_word_embeddings", 1) ? TIE_NONE : share ? TIE_ALL : TIE_TARGET;
    c->output_bias = has_bias(hf);
    if (!flag(hf, "scale_embedding", 0)) m->embed_scale[0] = m->embed_scale[1] = 1;
    return 0;
}

/* Marian's sinusoids may be stored; mBART learns its positions, and has two rows before the first;
 * M2M100 computes them, and counts from the id of padding. */
static int read_positions(struct foreign *m, const struct hf *hf, struct err *err) {
    int stored = hf_weights_find(hf->weights, "model.encoder.embed_positions.weight") &&
                 hf_weights_find(hf->weights, "model.decoder.embed_positions.weight"),
        pad = 0;
    if (hf->kind->tokens == HF_MARIAN) {
        m->positions = stored ? FOREIGN_TABLE : FOREIGN_HALVES;
        return 0;
    }
    if (hf->kind->embed_norm) {
        m->positions = FOREIGN_TABLE;
        m->first_position = 2;
        return 0;
    }
    int rc = whole(hf, "pad_token_id", 1, &pad, err);
    m->positions = FOREIGN_MARIAN;
    m->first_position = pad + 1;
    return rc;
}

/* ---- generation ------------------------------------------------------------------------------ */

/* [[id], [id], ...]; longer sequences have no equivalent. */
static int read_banned(struct foreign *m, const struct hf *hf, struct err *err) {
    const json_t *list = generation(hf, "bad_words_ids");
    json_t *words;
    size_t i;
    json_array_foreach(list, i, words) {
        const json_t *id = json_array_get(words, 0);
        if (json_array_size(words) != 1 || !json_is_integer(id) || m->n_banned == FOREIGN_BANNED)
            return refuse(hf, "bad_words_ids", "a list of single ids", err);
        m->banned[m->n_banned++] = (int)json_integer_value(id);
    }
    const json_t *suppressed = generation(hf, "suppress_tokens");
    json_array_foreach(suppressed, i, words) {
        if (!json_is_integer(words) || m->n_banned == FOREIGN_BANNED)
            return refuse(hf, "suppress_tokens", "a short list of ids", err);
        m->banned[m->n_banned++] = (int)json_integer_value(words);
    }
    return 0;
}

/* Scores are divided by length^length_penalty; max_length counts the start token, too. */
static int read_search(struct foreign *m, const struct hf *hf, struct err *err) {
    static const struct {
        const char *theirs, *ours;
    } same[] = {{"num_beams", "beam"},
                {"no_repeat_ngram_size", "no_repeat_ngram"},
                {"repetition_penalty", "repetition_penalty"}};
    json_t *out = m->translate = json_object();
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const json_t *value = generation(hf, same[i].theirs);
        if (value && !json_is_number(value)) return refuse(hf, same[i].theirs, "a number", err);
        if (value) json_object_set(out, same[i].ours, (json_t *)(uintptr_t)value);
    }
    const json_t *penalty = generation(hf, "length_penalty"), *most = generation(hf, "max_length");
    if (penalty && !json_is_number(penalty)) return refuse(hf, "length_penalty", "a number", err);
    json_object_set_new(out, "alpha", json_real(penalty ? json_number_value(penalty) : 1));
    json_object_set_new(out, "length_rule", json_string("power"));
    if (json_is_integer(most) && json_integer_value(most) > 1 &&
        json_integer_value(most) <= m->config.max_len)
        json_object_set_new(out, "max_length", json_integer(json_integer_value(most) - 1));
    return 0;
}

static int read_generation(struct foreign *m, const struct hf *hf, struct err *err) {
    int rc = generation_id(hf, "decoder_start_token_id", &m->start, err);
    if (!rc) rc = generation_id(hf, "eos_token_id", &m->end, err);
    if (!rc && hf->kind->tokens == HF_MARIAN && generation(hf, "forced_bos_token_id"))
        rc = refuse(hf, "forced_bos_token_id", "nothing", err);
    if (!rc) rc = read_banned(m, hf, err);
    return rc ? rc : read_search(m, hf, err);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Which tokenizer, by its class: an M2M100 model may be NLLB, and others of both kinds put
 * languages elsewhere than before the source and the translation. */
static int read_tokens(struct foreign *m, const struct hf *hf, struct err *err) {
    enum hf_tokens tokens = hf->kind->tokens;
    const char *name = json_string_value(json_object_get(hf->tokenizer, "tokenizer_class"));
    if (!name) name = json_string_value(setting(hf, "tokenizer_class"));
    if (tokens == HF_MARIAN) return hf_tokens_read(m, hf->bundle, tokens, err);
    int mbart = hf->kind->embed_norm,
        nllb = name ? strncmp(name, "Nllb", 4) == 0 : !bundle_has(hf->bundle, "vocab.json");
    const char *wanted = mbart ? "MBart50" : nllb ? "Nllb" : "M2M100";
    if ((mbart && !name) || (name && strncmp(name, wanted, strlen(wanted)) != 0))
        return err_set(err, HEED_EFORMAT,
                       "%.120s: tokenizer_class is %.40s; %s is one whose languages are known",
                       hf->where, name ? name : "not given",
                       mbart ? "MBart50Tokenizer" : "M2M100Tokenizer or NllbTokenizer");
    return hf_tokens_read(m, hf->bundle, nllb ? HF_FAIRSEQ : tokens, err);
}

/* Languages of a model that has one pair of them. */
static void read_card(struct foreign *m, const struct hf *hf) {
    static const char *const keys[] = {"source_lang", "target_lang"};
    const char **out[] = {&m->card.source, &m->card.target};
    for (int k = 0; k < 2 && !m->languages.n; k++) {
        const char *tag = json_string_value(json_object_get(hf->tokenizer, keys[k]));
        size_t n = tag ? strlen(tag) : 0;
        if ((n == 2 || n == 3) && strspn(tag, "abcdefghijklmnopqrstuvwxyz") == n)
            *out[k] = keep_text(&m->keep, tag, n);
    }
}

static int read_json(json_t **value, struct bundle *bundle, const char *name, struct err *err) {
    return bundle_has(bundle, name) ? bundle_json(bundle, name, value, err) : 0;
}

static const char *type_of(const json_t *config) {
    return json_string_value(json_object_get(config, "model_type"));
}

static int looks(struct bundle *bundle) {
    json_t *config = NULL;
    if (!hf_weights_present(bundle) || read_json(&config, bundle, "config.json", NULL)) return 0;
    int found = type_of(config) != NULL;
    json_decref(config);
    return found;
}

static int find_kind(struct hf *hf, struct err *err) {
    const char *type = type_of(hf->config);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (type && strcmp(kinds[i].type, type) == 0) hf->kind = &kinds[i];
    return hf->kind ? 0 : refuse(hf, "model_type", "marian, m2m_100 or mbart", err);
}

static void close_hf(struct foreign *m) {
    struct hf *hf = m->reader;
    hf_weights_close(hf->weights);
    json_decref(hf->config);
    json_decref(hf->generation);
    json_decref(hf->tokenizer);
    xfree(hf);
}

static int open_hf(struct foreign *m, struct bundle *bundle, struct err *err) {
    struct hf *hf = xcalloc(1, sizeof *hf);
    char *format = keep_take(&m->keep, 64);
    hf->bundle = bundle;
    m->reader = hf;
    m->close = close_hf;
    m->find = find;
    bundle_where(bundle, "config.json", hf->where);
    int rc = bundle_json(bundle, "config.json", &hf->config, err);
    if (!rc) rc = json_in_begin(&hf->in, hf->config, hf->where, err);
    if (!rc) rc = find_kind(hf, err);
    if (!rc) rc = read_json(&hf->generation, bundle, "generation_config.json", err);
    if (!rc) rc = read_json(&hf->tokenizer, bundle, "tokenizer_config.json", err);
    if (!rc) rc = hf_weights_open(&hf->weights, bundle, err);
    if (!rc) rc = read_shape(m, hf, err);
    if (!rc) rc = read_positions(m, hf, err);
    if (!rc) rc = read_generation(m, hf, err);
    if (!rc) rc = read_tokens(m, hf, err);
    if (rc) return rc;
    read_card(m, hf);
    snprintf(format, 64, "Hugging Face, %s", hf->kind->type);
    m->format = format;
    return 0;
}

const struct foreign_reader huggingface_reader = {"huggingface", looks, open_hf};
