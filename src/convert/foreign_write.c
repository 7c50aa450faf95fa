/* foreign_write.c — a foreign model as a directory of ours (foreign.h): the files around the
 * weights (assembly_write.c).
 *
 * Where the vocabulary is what the tokenizer has, in its order, and the marks are the tokenizer's,
 * nothing is said about them: such a model is as if heed had trained it. */
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/newdir.h"
#include "convert/assembly.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"
#include "model/modeldir.h"

/* ---- vocabularies ---------------------------------------------------------------------------- */

/* What is written of a side, and whether its ids are the tokenizer's own. */
struct side {
    struct tokenizer *tokenizer;
    const void *bytes;
    size_t size;
    const char *const *token;
    int n_token;
    int own_ids;
};

static int own_ids(const struct side *s) {
    if (!s->token) return 1;
    if (tokenizer_size(s->tokenizer) != s->n_token) return 0;
    for (int i = 0; i < s->n_token; i++)
        if (strcmp(tokenizer_piece(s->tokenizer, i), s->token[i]) != 0) return 0;
    return 1;
}

/* A tokenizer most of whose pieces the vocabulary does not know is that of another model. */
static int check_pieces(const struct side *s, struct err *err) {
    int known = 0, n = tokenizer_size(s->tokenizer);
    for (int i = 0; i < s->n_token; i++) known += tokenizer_find(s->tokenizer, s->token[i]) >= 0;
    if (known >= n / 2) return 0;
    return err_set(err, HEED_EFORMAT,
                   "the vocabulary of %d tokens has only %d of the %d pieces of the SentencePiece "
                   "file, which must be that of another model",
                   s->n_token, known, n);
}

static int side_open(struct side *s, const struct foreign_side *from,
                     const struct foreign_side * or, struct err *err) {
    *s = (struct side){.bytes = from->tokenizer, .size = from->tokenizer_size};
    if (!s->bytes) s->bytes = or->tokenizer, s->size = or->tokenizer_size;
    s->token = from->token ? from->token : or->token;
    s->n_token = from->token ? from->n_token : or->n_token;
    if (!s->bytes)
        return err_set(err, HEED_EFORMAT,
                       "the model comes without a SentencePiece file; name one by --tokenizer");
    int rc = tokenizer_open_memory(&s->tokenizer, s->bytes, s->size, err);
    if (rc) return rc;
    s->own_ids = own_ids(s);
    return from->tokenizer && s->token && !s->own_ids ? check_pieces(s, err) : 0;
}

static int side_size(const struct side *s) {
    return s->token ? s->n_token : tokenizer_size(s->tokenizer);
}

static const char *side_token(const struct side *s, int i) {
    return s->token ? s->token[i] : tokenizer_piece(s->tokenizer, i);
}

static int write_vocabulary(const char *dir, const char *name, const struct side *s,
                            struct err *err) {
    struct vocabulary *checked = NULL;
    struct buffer text = {0};
    char *path = path_join(dir, name);
    for (int i = 0; i < side_size(s); i++) {
        buffer_puts(&text, side_token(s, i));
        buffer_put(&text, "\n", 1);
    }
    int rc = vocabulary_read(&checked, name, text.text, text.size, err);
    if (!rc && vocabulary_size(checked) != side_size(s))
        rc = err_set(err, HEED_EFORMAT, "a token of the vocabulary has a newline in it");
    if (!rc) rc = file_write_all(path, text.text, text.size, err);
    vocabulary_free(checked);
    xfree(text.text);
    xfree(path);
    return rc;
}

static int write_tokenizer(const char *dir, const char *name, const struct side *s,
                           struct err *err) {
    char *path = path_join(dir, name);
    int rc = file_write_all(path, s->bytes, s->size, err);
    xfree(path);
    return rc;
}

static int same_tokens(const struct side *a, const struct side *b) {
    if (a->token && a->token == b->token) return 1;
    if (side_size(a) != side_size(b)) return 0;
    for (int i = 0; i < side_size(a); i++)
        if (strcmp(side_token(a, i), side_token(b, i)) != 0) return 0;
    return 1;
}

static int write_sides(const char *dir, const struct side *source, const struct side *target,
                       struct err *err) {
    int one =
        source->size == target->size && memcmp(source->bytes, target->bytes, source->size) == 0;
    int same = same_tokens(source, target);
    int rc = write_tokenizer(dir, MODELDIR_TOKENIZER, source, err);
    if (!rc && !one) rc = write_tokenizer(dir, MODELDIR_TARGET_TOKENIZER, target, err);
    if (source->own_ids && target->own_ids) return rc;
    if (!rc) rc = write_vocabulary(dir, MODELDIR_TOKENS, source, err);
    if (!rc && !same) rc = write_vocabulary(dir, MODELDIR_TARGET_TOKENS, target, err);
    return rc;
}

/* ---- tokens ---------------------------------------------------------------------------------- */

static json_t *languages_json(const struct foreign_languages *l) {
    json_t *object = json_object(), *codes = json_object();
    if (l->before_source)
        json_object_set_new(object, "before_source", json_string(l->before_source));
    if (l->before_target)
        json_object_set_new(object, "before_target", json_string(l->before_target));
    for (int i = 0; i < l->n; i++) json_object_set_new(codes, l->code[i], json_string(l->token[i]));
    json_object_set_new(object, "codes", codes);
    return object;
}

/* The source's id of the token that the target has under this one; -1: it has none. */
static int source_id(const struct side *source, const struct side *target, int id) {
    for (int i = 0; i < side_size(source); i++)
        if (strcmp(side_token(source, i), side_token(target, id)) == 0) return i;
    return -1;
}

/* The "tokens" of config.json; NULL: nothing to say. */
static json_t *tokens_json(const struct foreign *m, const struct side *source,
                           const struct side *target) {
    const struct tokenizer *t = target->tokenizer;
    int own = source->own_ids && target->own_ids && !m->n_banned && !m->languages.n;
    if (own && m->start >= 0 && m->start == tokenizer_bos(t) && m->end == tokenizer_eos(t) &&
        m->unknown == tokenizer_unk(t) && !m->no_source_end)
        return NULL;
    json_t *object =
        json_pack("{s:i, s:i, s:i}", "start", m->start, "end", m->end, "unknown", m->unknown);
    json_t *banned = json_array();
    int apart = !same_tokens(source, target);
    if (apart || m->no_source_end)
        json_object_set_new(
            object, "source_end",
            json_integer(m->no_source_end ? -1 : source_id(source, target, m->end)));
    if (apart)
        json_object_set_new(object, "source_unknown",
                            json_integer(source_id(source, target, m->unknown)));
    for (int i = 0; i < m->n_banned; i++) json_array_append_new(banned, json_integer(m->banned[i]));
    if (m->n_banned) json_object_set(object, "banned", banned);
    json_decref(banned);
    if (m->languages.n) json_object_set_new(object, "languages", languages_json(&m->languages));
    return object;
}

static int check_ids(const struct foreign *m, const struct side *source, const struct side *target,
                     struct err *err) {
    int n_src = side_size(source), n_tgt = side_size(target);
    const struct config *c = &m->config;
    if (n_src != c->n_vocab_src || n_tgt != c->n_vocab_tgt)
        return err_set(err, HEED_EFORMAT,
                       "the vocabularies have %d and %d tokens, but the model has %d source and %d "
                       "target embeddings",
                       n_src, n_tgt, c->n_vocab_src, c->n_vocab_tgt);
    if (m->start < FOREIGN_ZERO || m->start >= n_tgt || m->end < 0 || m->end >= n_tgt ||
        m->unknown < 0 || m->unknown >= n_tgt)
        return err_set(err, HEED_EFORMAT,
                       "start, end or unknown (%d, %d, %d) is not a token of the vocabulary",
                       m->start, m->end, m->unknown);
    int end = m->no_source_end ? 0 : source_id(source, target, m->end);
    if (end < 0 || source_id(source, target, m->unknown) < 0)
        return err_set(err, HEED_EFORMAT, "the vocabulary of the source has no token '%.60s'",
                       side_token(target, end < 0 ? m->end : m->unknown));
    return 0;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int write_config(const char *dir, const struct foreign *m, const struct assembly *a,
                        json_t *tokens, enum foreign_dtype dtype, struct err *err) {
    struct model_notes notes = {
        .card = card_to_json(&m->card), .translate = json_incref(m->translate), .tokens = tokens};
    int rc = dtype == DTO_INT8 ? modeldir_write_tiled_config(dir, &a->config, DTYPE_I8, &notes, err)
                               : modeldir_write_config(dir, &a->config, &notes, err);
    model_notes_release(&notes);
    return rc;
}

/* Both sides, which must go together. */
static int open_sides(const struct foreign *m, struct side *source, struct side *target,
                      struct err *err) {
    struct err why;
    int rc = side_open(source, &m->source, &m->source, &why);
    if (!rc) rc = side_open(target, &m->target, &m->source, &why);
    if (!rc) rc = check_ids(m, source, target, &why);
    if (rc) err_set(err, (enum heed_status)rc, "%.120s: %s", m->path, why.msg);
    return rc;
}

static int write_all(const char *dir, const struct foreign *m, const struct assembly *a,
                     const struct foreign_options *options, struct foreign_report *report,
                     struct err *err) {
    struct side source = {0}, target = {0};
    char *weights = path_join(dir, MODELDIR_WEIGHTS);
    int rc = card_check(&m->card, err);
    if (!rc) rc = open_sides(m, &source, &target, err);
    if (!rc) rc = write_sides(dir, &source, &target, err);
    if (!rc) rc = assembly_write(a, weights, options, report, err);
    if (!rc) rc = write_config(dir, m, a, tokens_json(m, &source, &target), report->dtype, err);
    tokenizer_free(source.tokenizer);
    tokenizer_free(target.tokenizer);
    xfree(weights);
    return rc;
}

int foreign_write(struct foreign *m, const char *dir, const struct foreign_options *options,
                  struct foreign_report *report, struct err *err) {
    struct foreign_report local;
    struct assembly a;
    struct newdir new;
    int rc = assembly_init(&a, m, err);
    if (rc) return rc;
    rc = newdir_begin(&new, dir, modeldir_files, err);
    if (!rc)
        rc = newdir_end(&new, write_all(new.temp, m, &a, options, report ? report : &local, err),
                        err);
    assembly_release(&a);
    return rc;
}
