/* ct2_tokens.c — tokens of CTranslate2's models: vocabularies, marks, languages, and what a package
 * of Argos Translate says about the model in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "convert/ct2_parts.h"

/* ---- vocabularies ---------------------------------------------------------------------------- */

struct tokens {
    const char **token;
    int n, room;
};

static void add_token(struct tokens *t, const char *token) {
    GROW(t->token, t->n, t->room);
    t->token[t->n++] = token;
}

static int read_json(struct tokens *t, struct foreign *m, const char *name, struct err *err) {
    struct ct2 *ct2 = m->reader;
    json_t *list = NULL, *item;
    size_t i;
    int rc = bundle_json(ct2->bundle, name, &list, err);
    if (!rc && !json_is_array(list))
        rc = err_set(err, HEED_EFORMAT, "%.100s: %s is not a list of tokens", ct2->where, name);
    json_array_foreach(list, i, item) {
        if (rc) break;
        if (json_is_string(item))
            add_token(t, keep_text(&m->keep, json_string_value(item), json_string_length(item)));
        else
            rc = err_set(err, HEED_EFORMAT, "%.100s: %s: token %zu is not a text", ct2->where, name,
                         i);
    }
    json_decref(list);
    return rc;
}

/* A carriage return belongs to the token, unless every line has one. */
static int read_text(struct tokens *t, struct foreign *m, const char *name, struct err *err) {
    struct ct2 *ct2 = m->reader;
    const void *data;
    size_t size;
    int rc = bundle_get(ct2->bundle, name, BUNDLE_TEXT, &data, &size, err), returns = 1;
    if (rc) return rc;
    const char *at = data, *end = at + size;
    while (at < end) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (!line) line = end;
        returns &= line > at && line[-1] == '\r';
        add_token(t, keep_text(&m->keep, at, (size_t)(line - at)));
        at = line + 1;
    }
    for (int i = 0; returns && i < t->n; i++) {
        char *token = (char *)(uintptr_t)t->token[i]; /* ours, in m->keep */
        token[strlen(token) - 1] = 0;
    }
    return 0;
}

static int find_token(const char *const *token, int n, const char *wanted) {
    for (int i = 0; wanted && i < n; i++)
        if (strcmp(token[i], wanted) == 0) return i;
    return -1;
}

/* *side stays empty where there is no such file. The unknown token is the last one of a vocabulary
 * that does not have it. */
static int read_vocabulary(struct foreign_side *side, struct foreign *m, const char *kind,
                           const char *unknown, struct err *err) {
    struct ct2 *ct2 = m->reader;
    struct tokens t = {0};
    char json[64], text[64];
    snprintf(json, sizeof json, "%s%s_vocabulary.json", ct2->prefix, kind);
    snprintf(text, sizeof text, "%s%s_vocabulary.txt", ct2->prefix, kind);
    int rc = bundle_has(ct2->bundle, json)   ? read_json(&t, m, json, err)
             : bundle_has(ct2->bundle, text) ? read_text(&t, m, text, err)
                                             : 0;
    if (!rc && t.n) {
        if (find_token(t.token, t.n, unknown) < 0) add_token(&t, unknown);
        const char **kept = keep_take(&m->keep, (size_t)t.n * sizeof *kept);
        memcpy(kept, t.token, (size_t)t.n * sizeof *kept);
        side->token = kept;
        side->n_token = t.n;
    }
    xfree(t.token);
    return rc;
}

/* A special token: in config.json, or a variable of bytes, or as it always was. Kept. */
static const char *special(struct foreign *m, const char *name, const char *otherwise) {
    struct ct2 *ct2 = m->reader;
    const json_t *value = json_object_get(ct2->config, name);
    const struct ct2_variable *v = ct2_find(&ct2->file, name);
    if (ct2->config && ct2->file.version >= 6) return json_string_value(value);
    if (!v || v->type != CT2_I8 || v->rank != 1) return otherwise;
    return keep_text(&m->keep, (const char *)v->data, v->bytes);
}

static int flag(const struct ct2 *ct2, const char *name, const char *old, int otherwise) {
    if (ct2->config && ct2->file.version >= 6)
        return json_is_true(json_object_get(ct2->config, name));
    return ct2_scalar(&ct2->file, old, otherwise) != 0;
}

static const char *start_token(struct foreign *m, const char *bos, const char *eos) {
    const struct ct2 *ct2 = m->reader;
    if (ct2->config && ct2->file.version >= 6) return special(m, "decoder_start_token", NULL);
    if (ct2_scalar(&ct2->file, "user_decoder_start_tokens", 0) != 0) return NULL;
    return ct2_scalar(&ct2->file, "with_target_bos", 1) != 0 ? bos : eos;
}

/* Models that came to CTranslate2 from Hugging Face want the end mark, which the tokenizer there
 * has added to their source: they start by a zero embedding or by the end mark. Others mean what
 * they say. */
static int ends_source(const struct ct2 *ct2, const struct foreign *m) {
    return flag(ct2, "add_source_eos", "with_source_eos", 0) || m->start == FOREIGN_ZERO ||
           m->start == m->end;
}

static int read_marks(struct foreign *m, struct err *err) {
    struct ct2 *ct2 = m->reader;
    const char *unknown = special(m, "unk_token", "<unk>"), *bos = special(m, "bos_token", "<s>"),
               *eos = special(m, "eos_token", "</s>"), *start = start_token(m, bos, eos);
    int zero = ct2_setting(ct2, 1, "start_from_zero_embedding", 0) != 0;
    if (!unknown || !eos)
        return err_set(err, HEED_EFORMAT,
                       "%.100s: unk_token or eos_token is missing in config.json", ct2->where);
    int rc = read_vocabulary(&m->source, m, "shared", unknown, err);
    if (!rc && !m->source.token) rc = read_vocabulary(&m->source, m, "source", unknown, err);
    if (!rc) rc = read_vocabulary(&m->target, m, "target", unknown, err);
    const struct foreign_side *side = m->target.token ? &m->target : &m->source;
    if (!rc && !m->source.token)
        rc = err_set(err, HEED_EFORMAT, "%.100s: there is no vocabulary", ct2->where);
    if (rc) return rc;
    if (!zero && !start)
        return err_set(err, HEED_EFORMAT,
                       "%.100s: the first token of translations is the caller's choice "
                       "(decoder_start_token is null), which heed does not support",
                       ct2->where);
    if (flag(ct2, "add_source_bos", "with_source_bos", 0))
        return err_set(err, HEED_EFORMAT,
                       "%.100s: sources begin with '%.40s' (add_source_bos), which heed does not "
                       "support",
                       ct2->where, bos ? bos : "");
    m->unknown = find_token(side->token, side->n_token, unknown);
    m->end = find_token(side->token, side->n_token, eos);
    m->start = zero ? FOREIGN_ZERO : find_token(side->token, side->n_token, start);
    if (m->end < 0 || (!zero && m->start < 0))
        return err_set(err, HEED_EFORMAT, "%.100s: the vocabulary has no token '%.40s'", ct2->where,
                       m->end < 0 ? eos : start);
    m->no_source_end = !ends_source(ct2, m);
    return 0;
}

/* ---- languages ------------------------------------------------------------------------------- */

/* The code in a token of a language: >>deu<< of Marian, __de__ of M2M100, deu_Latn of NLLB. */
enum style { STYLE_MARIAN, STYLE_M2M100, STYLE_NLLB };

static const char *language_of(struct foreign *m, const char *token, enum style style) {
    static const char lower[] = "abcdefghijklmnopqrstuvwxyz",
                      upper[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char *const around[][2] = {{">>", "<<"}, {"__", "__"}};
    size_t n = strlen(token);
    if (style == STYLE_NLLB)
        return n == 8 && strspn(token, lower) == 3 && token[3] == '_' && strchr(upper, token[4]) &&
                       strspn(token + 5, lower) == 3
                   ? token
                   : NULL;
    if (n < 6 || strncmp(token, around[style][0], 2) != 0 ||
        strcmp(token + n - 2, around[style][1]) != 0)
        return NULL;
    if (style == STYLE_M2M100 && strspn(token + 2, lower) != n - 4) return NULL;
    return keep_text(&m->keep, token + 2, n - 4);
}

/* Marian's models are told the target's language before the source; M2M100 and NLLB the source's
 * there, and the target's where the translation begins, after the end mark that they start with. */
static void read_languages(struct foreign *m) {
    const struct foreign_side *s = &m->source;
    for (int style = STYLE_MARIAN; style <= STYLE_NLLB && !m->target.token; style++) {
        if (m->start != (style == STYLE_MARIAN ? FOREIGN_ZERO : m->end)) continue;
        struct tokens code = {0}, token = {0};
        for (int i = 0; i < s->n_token; i++) {
            const char *found = language_of(m, s->token[i], (enum style)style);
            if (found) add_token(&code, found), add_token(&token, s->token[i]);
        }
        if (code.n > 1) {
            size_t size = (size_t)code.n * sizeof *code.token;
            const char **kept = keep_take(&m->keep, 2 * size);
            memcpy(kept, code.token, size);
            memcpy(kept + code.n, token.token, size);
            m->languages =
                (struct foreign_languages){.code = kept, .token = kept + code.n, .n = code.n};
            m->languages.before_source = style == STYLE_MARIAN ? "target" : "source";
            m->languages.before_target = style == STYLE_MARIAN ? NULL : "target";
        }
        xfree(code.token);
        xfree(token.token);
    }
}

/* ---- packages of Argos Translate ------------------------------------------------------------- */

static const char *text_of(struct foreign *m, const json_t *object, const char *key) {
    const json_t *value = json_object_get(object, key);
    size_t size = json_string_length(value);
    return size ? keep_text(&m->keep, json_string_value(value), size) : NULL;
}

/* A language's tag; NULL where what is said is none. */
static const char *language(struct foreign *m, const json_t *about, const char *key) {
    struct card card = {.source = text_of(m, about, key)};
    return card.source && card_check(&card, NULL) == 0 ? card.source : NULL;
}

/* A token that every translation begins with: that of the target's language. */
static int read_prefix(struct foreign *m, const char *prefix, struct err *err) {
    const struct ct2 *ct2 = m->reader;
    const struct foreign_side *side = m->target.token ? &m->target : &m->source;
    if (!m->card.target || find_token(side->token, side->n_token, prefix) < 0)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: metadata.json: target_prefix '%.40s' is not a token of the "
                       "vocabulary, or there is no to_code",
                       bundle_path(ct2->bundle), prefix);
    const char **code = keep_take(&m->keep, 2 * sizeof *code);
    code[0] = m->card.target;
    code[1] = prefix;
    m->languages = (struct foreign_languages){
        .before_target = "target", .code = code, .token = code + 1, .n = 1};
    json_object_set_new(m->translate, "target_lang", json_string(m->card.target));
    return 0;
}

/* What metadata.json says, and how Argos Translate generates: beam 4, scores divided by length to
 * the power of 0.2. */
static int read_package(struct foreign *m, struct err *err) {
    struct ct2 *ct2 = m->reader;
    json_t *about = NULL;
    if (!*ct2->prefix || !bundle_has(ct2->bundle, "metadata.json")) return 0;
    if (bundle_has(ct2->bundle, "bpe.model"))
        return err_set(err, HEED_EFORMAT,
                       "%.120s: a package with BPE and Moses tokens (bpe.model); only those with "
                       "sentencepiece.model can be imported",
                       bundle_path(ct2->bundle));
    int rc = bundle_json(ct2->bundle, "metadata.json", &about, err);
    if (rc) return rc;
    m->format = "Argos Translate package";
    m->card.source = language(m, about, "from_code");
    m->card.target = language(m, about, "to_code");
    m->translate = json_pack("{s:i, s:f, s:s}", "beam", 4, "alpha", 0.2, "length_rule", "power");
    const char *prefix = text_of(m, about, "target_prefix");
    if (prefix) rc = read_prefix(m, prefix, err);
    json_decref(about);
    return rc;
}

int ct2_tokens_read(struct foreign *m, struct err *err) {
    int rc = read_marks(m, err);
    if (!rc) read_languages(m);
    return rc ? rc : read_package(m, err);
}
