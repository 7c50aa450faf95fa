/* hf_tokens.c — see hf_tokens.h. */
#include "convert/hf_tokens.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "io/json.h"

/* A vocabulary that is being filled. */
struct list {
    struct foreign *model;
    struct bundle *bundle;
    const char **token; /* [n], kept; NULL: nobody has named it yet */
    int n;
    int n_given; /* below: vocab.json or the SentencePiece file; from here on: added */
};

static int list_make(struct list *l, struct foreign *m, struct bundle *bundle, int n,
                     struct err *err) {
    if (n < 1 || n > VOCABULARY_MAX_SIZE)
        return err_set(err, HEED_ELIMIT, "%.120s: a vocabulary of %d tokens; at most %d are read",
                       bundle_path(bundle), n, VOCABULARY_MAX_SIZE);
    *l = (struct list){.model = m, .bundle = bundle, .n = n};
    l->token = keep_take(&m->keep, (size_t)n * sizeof *l->token);
    memset(l->token, 0, (size_t)n * sizeof *l->token);
    return 0;
}

/* `name` is the file that says so. */
static int set_token(struct list *l, const char *name, const char *token, int64_t id,
                     struct err *err) {
    if (id < 0 || id >= l->n)
        return err_set(err, HEED_EFORMAT,
                       "%.100s: %s: token '%.40s' has the id %lld; the model has %d tokens",
                       bundle_path(l->bundle), name, token, (long long)id, l->n);
    if (l->token[id] && strcmp(l->token[id], token) == 0) return 0;
    if (l->token[id])
        return err_set(err, HEED_EFORMAT, "%.100s: %s: '%.40s' and '%.40s' have the same id, %lld",
                       bundle_path(l->bundle), name, token, l->token[id], (long long)id);
    l->token[id] = keep_text(&l->model->keep, token, strlen(token));
    return 0;
}

static int find_token(const struct list *l, const char *token) {
    for (int i = 0; i < l->n; i++)
        if (l->token[i] && strcmp(l->token[i], token) == 0) return i;
    return -1;
}

/* Ids without a name get one: a model may have more rows than its tokenizer tokens. */
static void name_rest(struct list *l) {
    char name[24];
    for (int i = 0; i < l->n; i++) {
        if (l->token[i]) continue;
        snprintf(name, sizeof name, "<unused-%d>", i);
        l->token[i] = keep_text(&l->model->keep, name, strlen(name));
    }
}

/* ---- vocab.json ------------------------------------------------------------------------------ */

/* {"token": id, ...} */
static int read_vocabulary(struct list *l, const char *name, struct err *err) {
    json_t *object, *id;
    const char *token;
    int rc = bundle_json(l->bundle, name, &object, err);
    if (!rc && !json_is_object(object))
        rc = err_set(err, HEED_EFORMAT, "%.120s: %s is not an object of tokens and ids",
                     bundle_path(l->bundle), name);
    json_object_foreach(object, token, id) {
        if (rc) break;
        rc = set_token(l, name, token, json_is_integer(id) ? json_integer_value(id) : -1, err);
    }
    l->n_given = (int)json_object_size(object);
    json_decref(object);
    return rc;
}

/* ---- fairseq's order ------------------------------------------------------------------------- */

/* Its marks, then the pieces of the SentencePiece file but for its own three. */
static int read_pieces(struct list *l, const void *data, size_t size, struct err *err) {
    static const char *const theirs[] = {"<unk>", "<s>", "</s>"}, *const marks[] = {"<s>", "<pad>",
                                                                                    "</s>",
                                                                                    "<unk>"};
    const char *name = "sentencepiece.bpe.model";
    struct tokenizer *t;
    int rc = tokenizer_open_memory(&t, data, size, err), n = rc ? 0 : tokenizer_size(t);
    for (int i = 0; i < 3 && !rc; i++)
        if (n < 3 || strcmp(tokenizer_piece(t, i), theirs[i]) != 0)
            rc = err_set(err, HEED_EFORMAT, "%.120s: %s does not begin with <unk> <s> </s>",
                         bundle_path(l->bundle), name);
    for (int i = 0; i < 4 && !rc; i++) rc = set_token(l, name, marks[i], i, err);
    for (int i = 3; i < n && !rc; i++) rc = set_token(l, name, tokenizer_piece(t, i), i + 1, err);
    l->n_given = n + 1;
    tokenizer_free(t);
    return rc;
}

/* ---- added tokens ---------------------------------------------------------------------------- */

/* A token is a text, or an object whose content is. */
static const char *content(const json_t *token) {
    return json_string_value(json_is_object(token) ? json_object_get(token, "content") : token);
}

static int add_token(struct list *l, const char *name, const json_t *token, int64_t id,
                     struct err *err) {
    const char *text = content(token);
    return text ? set_token(l, name, text, id, err)
                : err_set(err, HEED_EFORMAT, "%.120s: %s: an added token without its text",
                          bundle_path(l->bundle), name);
}

/* "added_tokens_decoder": {"256001": {"content": "ace_Arab", ...}, ...} */
static int read_decoder(struct list *l, const char *name, json_t *decoder, struct err *err) {
    const char *key;
    json_t *token;
    int rc = 0;
    json_object_foreach(decoder, key, token) {
        char *end;
        long long id = strtoll(key, &end, 10);
        if (rc) break;
        rc = add_token(l, name, token, *key && !*end ? id : -1, err);
    }
    return rc;
}

/* "added_tokens": [{"id": 256001, "content": "ace_Arab", ...}, ...] */
static int read_added(struct list *l, const char *name, json_t *added, struct err *err) {
    json_t *token;
    size_t i;
    int rc = 0;
    json_array_foreach(added, i, token) {
        const json_t *id = json_object_get(token, "id");
        if (rc) break;
        rc = add_token(l, name, token, json_is_integer(id) ? json_integer_value(id) : -1, err);
    }
    return rc;
}

/* "additional_special_tokens": [...]: one behind the other, behind the vocabulary. */
static int read_additional(struct list *l, const char *name, json_t *tokens, struct err *err) {
    json_t *token;
    size_t i;
    int rc = 0, at = l->n_given;
    json_array_foreach(tokens, i, token) {
        const char *text = content(token);
        if (rc) break;
        if (!text || find_token(l, text) < 0) rc = add_token(l, name, token, at++, err);
    }
    return rc;
}

/* The first list that has a token behind the vocabulary. */
static const struct {
    const char *file, *key;
    int (*read)(struct list *l, const char *name, json_t *value, struct err *err);
} sources[] = {{"tokenizer_config.json", "added_tokens_decoder", read_decoder},
               {"tokenizer.json", "added_tokens", read_added},
               {"tokenizer_config.json", "additional_special_tokens", read_additional},
               {"tokenizer_config.json", "extra_special_tokens", read_additional},
               {"special_tokens_map.json", "additional_special_tokens", read_additional}};
enum { N_SOURCES = sizeof sources / sizeof *sources };

static int has_added(const struct list *l) {
    for (int i = l->n_given; i < l->n; i++)
        if (l->token[i] && l->token[i][0] != '<') return 1;
    return 0;
}

static int read_all_added(struct list *l, struct err *err) {
    int rc = 0;
    for (int i = 0; i < N_SOURCES && !rc && !has_added(l); i++) {
        json_t *object = NULL;
        if (!bundle_has(l->bundle, sources[i].file)) continue;
        rc = bundle_json(l->bundle, sources[i].file, &object, err);
        json_t *value = json_object_get(object, sources[i].key);
        if (!rc && value) rc = sources[i].read(l, sources[i].file, value, err);
        json_decref(object);
    }
    return rc;
}

/* ---- languages ------------------------------------------------------------------------------- */

/* "__de__" -> "de": what is between the two, or NULL. */
static const char *between(struct foreign *m, const char *token, const char *before,
                           const char *after) {
    size_t n = strlen(token), a = strlen(before), b = strlen(after);
    if (n <= a + b || strncmp(token, before, a) != 0 || strcmp(token + n - b, after) != 0)
        return NULL;
    return keep_text(&m->keep, token + a, n - a - b);
}

static const char *language_of(const struct list *l, int id, enum hf_tokens kind) {
    const char *token = l->token[id];
    if (kind == HF_MARIAN) return between(l->model, token, ">>", "<<");
    if (kind == HF_FAIRSEQ) return id < l->n_given || token[0] == '<' ? NULL : token;
    const char *code = between(l->model, token, "__", "__");
    return code && strspn(code, "abcdefghijklmnopqrstuvwxyz") == strlen(code) ? code : NULL;
}

static void find_languages(struct list *l, enum hf_tokens kind) {
    struct foreign_languages *out = &l->model->languages;
    const char **code = xcalloc((size_t)l->n, 2 * sizeof *code), **token = code + l->n;
    int n = 0;
    for (int i = 0; i < l->n; i++) {
        code[n] = language_of(l, i, kind);
        token[n] = l->token[i];
        n += code[n] != NULL;
    }
    if (n) {
        const char **kept = keep_take(&l->model->keep, 2 * (size_t)n * sizeof *kept);
        memcpy(kept, code, (size_t)n * sizeof *kept);
        memcpy(kept + n, token, (size_t)n * sizeof *kept);
        *out = (struct foreign_languages){.code = kept, .token = kept + n, .n = n};
        out->before_source = kind == HF_MARIAN ? "target" : "source";
        out->before_target = kind == HF_MARIAN ? NULL : "target";
    }
    xfree(code);
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int get_tokenizer(struct foreign_side *side, struct bundle *bundle, const char *name,
                         struct err *err) {
    if (!bundle_has(bundle, name)) return 0; /* the user may name one */
    return bundle_get(bundle, name, BUNDLE_TEXT, &side->tokenizer, &side->tokenizer_size, err);
}

static void give(struct foreign_side *side, struct list *l) {
    name_rest(l);
    side->token = l->token;
    side->n_token = l->n;
}

static int find_unknown(struct foreign *m, const struct list *l, struct err *err) {
    m->unknown = find_token(l, "<unk>");
    return m->unknown >= 0 ? 0
                           : err_set(err, HEED_EFORMAT, "%.120s: the vocabulary has no <unk>",
                                     bundle_path(l->bundle));
}

static int read_marian(struct foreign *m, struct bundle *bundle, struct err *err) {
    struct list l;
    int rc = get_tokenizer(&m->source, bundle, "source.spm", err);
    if (!rc) rc = get_tokenizer(&m->target, bundle, "target.spm", err);
    if (!rc) rc = list_make(&l, m, bundle, m->config.n_vocab_src, err);
    if (!rc) rc = read_vocabulary(&l, "vocab.json", err);
    if (rc) return rc;
    give(&m->source, &l);
    find_languages(&l, HF_MARIAN);
    if (bundle_has(bundle, "target_vocab.json")) {
        rc = list_make(&l, m, bundle, m->config.n_vocab_tgt, err);
        if (!rc) rc = read_vocabulary(&l, "target_vocab.json", err);
        if (!rc) give(&m->target, &l);
    }
    return rc ? rc : find_unknown(m, &l, err);
}

static int read_multilingual(struct foreign *m, struct bundle *bundle, enum hf_tokens kind,
                             struct err *err) {
    const char *name = "sentencepiece.bpe.model";
    struct list l;
    int rc = get_tokenizer(&m->source, bundle, name, err);
    if (!rc) rc = list_make(&l, m, bundle, m->config.n_vocab_tgt, err);
    if (rc) return rc;
    if (kind == HF_FAIRSEQ && !m->source.tokenizer)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: there is no %s, which this model's vocabulary is made of",
                       bundle_path(bundle), name);
    rc = kind == HF_FAIRSEQ ? read_pieces(&l, m->source.tokenizer, m->source.tokenizer_size, err)
                            : read_vocabulary(&l, "vocab.json", err);
    if (!rc) rc = read_all_added(&l, err);
    if (rc) return rc;
    give(&m->source, &l);
    find_languages(&l, kind);
    if (!m->languages.n)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: no tokens of languages in tokenizer_config.json, tokenizer.json or "
                       "special_tokens_map.json",
                       bundle_path(bundle));
    return find_unknown(m, &l, err);
}

int hf_tokens_read(struct foreign *m, struct bundle *bundle, enum hf_tokens kind, struct err *err) {
    return kind == HF_MARIAN ? read_marian(m, bundle, err)
                             : read_multilingual(m, bundle, kind, err);
}
