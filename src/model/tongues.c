/* tongues.c — see tongues.h. */
#include "model/tongues.h"

#include <stdio.h>
#include <string.h>

#include "base/aside.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/json.h"
#include "model/modeldir.h"

/* ---- "tokens" -------------------------------------------------------------------------------- */

/* What it says. Texts are the JSON's. */
struct notes {
    struct tokenizer_marks source, target;
    int says_source; /* the source has marks of its own */
    struct json_in codes;
    const char **hidden; /* [n_hidden] the tokens of languages: owned */
    int n_hidden;
};

/* An id in [least, ...); what the vocabulary has is checked when that is known. */
static int read_id(const struct json_in *in, const char *key, int least, int *id, struct err *err) {
    int64_t value;
    if (!json_in_has(in, key)) return 0;
    int rc = json_in_int(in, key, &value, err);
    if (!rc && (value < least || value > INT32_MAX))
        rc = json_in_expected(in, key, least < 0 ? "an id, or -1" : "an id", err);
    if (!rc) *id = (int)value;
    return rc;
}

static int read_marks(struct notes *n, const struct json_in *in, struct err *err) {
    int rc = read_id(in, "start", -1, &n->target.start, err);
    if (!rc) rc = read_id(in, "end", 0, &n->target.end, err);
    if (!rc) rc = read_id(in, "unknown", 0, &n->target.unknown, err);
    if (!rc) rc = read_id(in, "source_end", -1, &n->source.end, err);
    if (!rc) rc = read_id(in, "source_unknown", 0, &n->source.unknown, err);
    n->says_source = json_in_has(in, "source_end") || json_in_has(in, "source_unknown");
    return rc;
}

static int read_banned(struct tongues *x, const struct json_in *in, const struct config *config,
                       struct err *err) {
    const json_t *list = json_object_get(in->object, "banned");
    if (!list) return 0;
    if (!json_is_array(list) || json_array_size(list) > TONGUES_MAX_BANNED)
        return json_in_expected(in, "banned", "a list of at most 16 ids", err);
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *id = json_array_get(list, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 ||
            json_integer_value(id) >= config->n_vocab_tgt)
            return json_in_expected(in, "banned", "ids of the target vocabulary", err);
        x->banned[x->n_banned++] = (int32_t)json_integer_value(id);
    }
    return 0;
}

static int read_place(const struct json_in *in, const char *key, enum tongues_language *place,
                      struct err *err) {
    const char *text = "";
    int of_target = strcmp(key, "before_target") == 0; /* whose own is not known there */
    if (!json_in_has(in, key)) return 0;
    int rc = json_in_string(in, key, &text, err);
    if (!rc && strcmp(text, "target") == 0)
        *place = TONGUES_TARGET;
    else if (!rc && !of_target && strcmp(text, "source") == 0)
        *place = TONGUES_SOURCE;
    else if (!rc)
        rc = json_in_expected(in, key, of_target ? "\"target\"" : "\"source\" or \"target\"", err);
    return rc;
}

static int read_languages(struct tongues *x, struct notes *n, const struct json_in *in,
                          struct err *err) {
    static const char *const keys[] = {"before_source", "before_target", "codes", NULL};
    const json_t *object, *codes = NULL;
    struct json_in languages;
    if (!json_in_has(in, "languages")) return 0;
    int rc = json_in_object(in, "languages", &object, err);
    if (!rc) rc = json_in_begin(&languages, object, in->where, err);
    if (!rc) rc = json_in_known(&languages, keys, err);
    if (!rc) rc = read_place(&languages, "before_source", &x->before_source, err);
    if (!rc) rc = read_place(&languages, "before_target", &x->before_target, err);
    if (!rc) rc = json_in_object(&languages, "codes", &codes, err);
    if (rc) return rc;
    if (!x->before_source && !x->before_target)
        return json_in_expected(in, "languages", "\"before_source\" or \"before_target\"", err);
    if (json_object_size(codes) < 1 || json_object_size(codes) > TONGUES_MAX_LANGUAGES)
        return json_in_expected(&languages, "codes", "between 1 and 1024 languages", err);
    n->codes = (struct json_in){codes, in->where};
    n->hidden = xmalloc(json_object_size(codes) * sizeof *n->hidden);
    const char *code, *token;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)codes, code, value) {
        size_t size = strlen(code);
        if (size < 1 || size > TONGUES_MAX_CODE || utf8_plain_prefix(code, size) < size)
            return json_in_expected(&languages, "codes", "codes of at most 32 plain bytes", err);
        if ((rc = json_in_string(&n->codes, code, &token, err))) return rc;
        n->hidden[n->n_hidden++] = token;
    }
    return 0;
}

static int read_notes(struct tongues *x, struct notes *n, const json_t *tokens,
                      const struct config *config, const char *where, struct err *err) {
    static const char *const keys[] = {"start",          "end",    "unknown",   "source_end",
                                       "source_unknown", "banned", "languages", NULL};
    struct json_in in;
    *n = (struct notes){.source = TOKENIZER_FILE_MARKS, .target = TOKENIZER_FILE_MARKS};
    if (!tokens) return 0;
    int rc = json_in_begin(&in, tokens, where, err);
    if (!rc) rc = json_in_known(&in, keys, err);
    if (!rc) rc = read_marks(n, &in, err);
    if (!rc) rc = read_banned(x, &in, config, err);
    return rc ? rc : read_languages(x, n, &in, err);
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* The four files: [side][what], mapped if there, for as long as the tokenizers live. */
enum { SOURCE, TARGET, N_SIDE };
enum { PIECES, TOKENS, N_FILE };
struct tongues_files {
    char *path[N_SIDE][N_FILE];
    struct file_map map[N_SIDE][N_FILE];
    int there[N_SIDE][N_FILE];
};

static int map_files(struct tongues_files *f, const char *dir, struct err *err) {
    static const char *const names[N_SIDE][N_FILE] = {
        {MODELDIR_TOKENIZER, MODELDIR_TOKENS}, {MODELDIR_TARGET_TOKENIZER, MODELDIR_TARGET_TOKENS}};
    int rc = 0;
    for (int side = 0; side < N_SIDE; side++)
        for (int what = 0; what < N_FILE; what++) {
            char *path = f->path[side][what] = path_join(dir, names[side][what]);
            int *there = &f->there[side][what];
            *there = (side == SOURCE && what == PIECES) || file_exists(path);
            if (*there && !rc) rc = file_map_open(&f->map[side][what], path, err);
        }
    return rc;
}

static void unmap_files(struct tongues_files *f) {
    if (!f) return;
    for (int side = 0; side < N_SIDE; side++)
        for (int what = 0; what < N_FILE; what++) {
            file_map_close(&f->map[side][what]);
            xfree(f->path[side][what]);
        }
    xfree(f);
}

/* A file of a side, or the source's where the target has none. A target with pieces of its own and
 * a source without a vocabulary has these pieces as ids, too. */
static int side_with(const struct tongues_files *f, int side, int what) {
    return side == TARGET && f->there[TARGET][what] ? TARGET : SOURCE;
}

static int open_side(struct tokenizer **t, const struct tongues_files *f, int side,
                     const struct notes *n, const struct config *config, struct err *err) {
    int pieces = side_with(f, side, PIECES), tokens = side_with(f, side, TOKENS);
    const struct file_map *model = &f->map[pieces][PIECES], *vocabulary = &f->map[tokens][TOKENS];
    int there = f->there[tokens][TOKENS];
    struct tokenizer_parts parts = {.name = f->path[pieces][PIECES],
                                    .vocabulary_name = f->path[tokens][TOKENS],
                                    .model = model->data,
                                    .n_model = model->size,
                                    .vocabulary = !there ? NULL
                                                  : vocabulary->data
                                                      ? (const void *)vocabulary->data
                                                      : "",
                                    .n_vocabulary = vocabulary->size,
                                    .marks = side == TARGET ? n->target : n->source,
                                    .hidden = n->hidden,
                                    .n_hidden = n->n_hidden};
    int wanted = side == TARGET ? config->n_vocab_tgt : config->n_vocab_src;
    int rc = tokenizer_open_parts(t, &parts, err);
    if (!rc && tokenizer_size(*t) != wanted) /* it would name words the model does not have */
        rc =
            err_set(err, HEED_EFORMAT, "%.180s: %d %s, but the model's vocabularies have %d and %d",
                    there ? parts.vocabulary_name : parts.name, tokenizer_size(*t),
                    there ? "tokens" : "pieces", config->n_vocab_src, config->n_vocab_tgt);
    return rc;
}

/* A side, which takes milliseconds to open: two are opened at the same time. */
struct opening {
    const struct tongues_files *files;
    const struct notes *notes;
    const struct config *config;
    int side;
    struct tokenizer *tokenizer;
    struct err err;
    int rc;
};

static void open_one(void *ctx) {
    struct opening *o = ctx;
    o->rc = open_side(&o->tokenizer, o->files, o->side, o->notes, o->config, &o->err);
    if (!o->rc) o->rc = tokenizer_check_ends(o->tokenizer, &o->err);
}

/* The target's errors come first, wherever time went. */
static int open_both(struct opening o[N_SIDE], struct err *err) {
    struct aside aside;
    aside_begin(&aside, open_one, &o[SOURCE]);
    open_one(&o[TARGET]);
    aside_end(&aside);
    const struct opening *bad = o[TARGET].rc ? &o[TARGET] : &o[SOURCE];
    if (bad->rc && err) *err = bad->err;
    return bad->rc;
}

/* One tokenizer serves both sides where they have the same files and marks. */
static int open_sides(struct tongues *x, const struct tongues_files *f, struct notes *n,
                      const struct config *config, struct err *err) {
    int own_ids =
        f->there[TARGET][TOKENS] || (f->there[TARGET][PIECES] && !f->there[SOURCE][TOKENS]);
    int two = own_ids || f->there[TARGET][PIECES] || n->says_source, rc;
    struct opening o[N_SIDE] = {{f, n, config, SOURCE, NULL, {0}, 0},
                                {f, n, config, TARGET, NULL, {0}, 0}};
    if (!own_ids && n->source.end == TOKENIZER_OF_FILE) n->source.end = n->target.end;
    if (!own_ids && n->source.unknown == TOKENIZER_OF_FILE) n->source.unknown = n->target.unknown;
    if (two) {
        n->source.start = -1; /* sources have none */
        rc = open_both(o, err);
    } else {
        open_one(&o[TARGET]);
        rc = o[TARGET].rc;
        if (rc && err) *err = o[TARGET].err;
    }
    x->target = o[TARGET].tokenizer;
    x->source = two ? o[SOURCE].tokenizer : x->target;
    if (rc || two || config->n_vocab_src == config->n_vocab_tgt) return rc;
    return err_set(err, HEED_EFORMAT,
                   "%.180s: %d pieces, but the model's vocabularies have %d and %d",
                   f->path[SOURCE][PIECES], tokenizer_size(x->source), config->n_vocab_src,
                   config->n_vocab_tgt);
}

/* ---- languages ------------------------------------------------------------------------------- */

static int no_token(const char *code, const char *token, const char *where, struct err *err) {
    return err_set(err, HEED_EFORMAT,
                   "%.100s: tokens: languages: '%.32s' is '%.60s', which is not in the vocabulary",
                   where, code, token);
}

static int find_languages(struct tongues *x, const struct notes *n, const char *where,
                          struct err *err) {
    const char *code;
    json_t *token;
    if (!n->n_hidden) return 0;
    x->code = xcalloc((size_t)n->n_hidden, sizeof *x->code);
    json_object_foreach((json_t *)(uintptr_t)n->codes.object, code, token) {
        struct tongues_code *c = &x->code[x->n_code];
        const char *text = json_string_value(token);
        c->source = x->before_source ? tokenizer_find(x->source, text) : -1;
        c->target = x->before_target ? tokenizer_find(x->target, text) : -1;
        if ((x->before_source && c->source < 0) || (x->before_target && c->target < 0))
            return no_token(code, text, where, err);
        c->code = xstrdup(code);
        x->n_code++;
    }
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int tongues_open(struct tongues **tongues, const char *dir, const struct config *config,
                 const json_t *tokens, struct err *err) {
    struct tongues *x = xcalloc(1, sizeof *x);
    struct notes notes = {0};
    struct tongues_files *files = x->files = xcalloc(1, sizeof *files);
    char *where = path_join(dir, MODELDIR_CONFIG);
    int rc = read_notes(x, &notes, tokens, config, where, err);
    if (!rc) rc = map_files(files, dir, err);
    if (!rc) rc = open_sides(x, files, &notes, config, err);
    for (int i = 0; i < x->n_banned && !rc; i++)
        if (x->banned[i] == tokenizer_eos(x->target))
            rc = err_set(err, HEED_EFORMAT, "%.150s: tokens: banned: %d is the end mark", where,
                         (int)x->banned[i]);
    if (!rc) rc = find_languages(x, &notes, where, err);
    xfree(notes.hidden);
    xfree(where);
    *tongues = rc ? NULL : x;
    if (rc) tongues_free(x);
    return rc;
}

void tongues_free(struct tongues *x) {
    if (!x) return;
    if (x->target != x->source) tokenizer_free(x->target);
    tokenizer_free(x->source);
    for (int i = 0; i < x->n_code; i++) xfree((char *)(uintptr_t)x->code[i].code);
    xfree(x->code);
    unmap_files(x->files);
    xfree(x);
}

int tongues_equal(const struct tongues *a, const struct tongues *b) {
    return tokenizer_equal(a->source, b->source) && tokenizer_equal(a->target, b->target);
}

int tongues_share(const struct tongues *t) {
    int n = tokenizer_size(t->source);
    if (t->source == t->target) return 1;
    if (tokenizer_size(t->target) != n) return 0;
    for (int i = 0; i < n; i++)
        if (strcmp(tokenizer_piece(t->source, i), tokenizer_piece(t->target, i)) != 0) return 0;
    return 1;
}
