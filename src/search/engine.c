/* engine.c — see engine.h. */
#include "search/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/aside.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "search/defaults.h"

/* ---- what is shared -------------------------------------------------------------------------- */

/* Tokenizers are opened on a thread of their own while the weights are read: both take their time.
 * Where config.json cannot be read, there is no thread, and whoever reads the weights says why. */
struct early {
    const char *dir;
    struct config config;
    struct model_notes notes;
    struct aside aside;
    int rc;
    struct tongues *tongues;
    struct err err;
};

static void open_tongues(void *ctx) {
    struct early *e = ctx;
    e->rc = tongues_open(&e->tongues, e->dir, &e->config, e->notes.tokens, &e->err);
}

static void early_begin(struct early *e, const char *dir) {
    struct weights_form form;
    *e = (struct early){.dir = dir};
    if (modeldir_read_any(dir, &e->config, &form, &e->notes, NULL)) return;
    aside_begin(&e->aside, open_tongues, e);
}

/* Once the weights are read. */
static void early_end(struct early *e) {
    aside_end(&e->aside);
    model_notes_release(&e->notes);
}

/* The first model's tokenizers are kept, the others' must be the same. */
static int add_tongues(struct ensemble *e, const char *const *dir, int i, struct early *early,
                       struct err *err) {
    struct tongues *tongues = early->tongues;
    int rc = early->rc;
    if (rc && err) *err = early->err;
    if (!rc && !tongues)
        rc = err_set(err, HEED_EIO, "%.180s: the model was replaced while it was opened", dir[i]);
    if (!rc && i > 0 && !tongues_equal(e->tongues, tongues))
        rc = err_set(err, HEED_ECONFIG,
                     "%.100s and %.100s have different tokenizers; models that translate together "
                     "must share one",
                     dir[0], dir[i]);
    if (rc || i > 0)
        tongues_free(tongues);
    else
        e->tongues = tongues;
    return rc;
}

/* When the tokenizer is there. */
static int read_defaults(struct ensemble *e, const char *dir, struct err *err) {
    char *path = path_join(dir, MODELDIR_CONFIG);
    e->defaults = xmalloc(sizeof *e->defaults);
    int rc = defaults_read(e->defaults, frozen_notes(e->model[0])->translate,
                           frozen_config(e->model[0]), path, err);
    const char *token = e->defaults->prefix_token;
    if (!rc && token && e->tongues && tokenizer_find(e->tongues->source, token) < 0)
        rc = err_set(err, HEED_EFORMAT,
                     "%.100s: translate: prefix_token: the tokenizer has no piece '%.100s'", path,
                     token);
    struct card card = {0};
    if (!rc) rc = card_from_json(&card, frozen_notes(e->model[0])->card, path, err);
    e->defaults->language = card.source;
    xfree(path);
    return rc;
}

static void ensemble_close(struct ensemble *e) {
    for (int i = 0; i < e->n; i++) frozen_close(e->model[i]);
    tongues_free(e->tongues);
    xfree(e->defaults);
    xfree(e);
}

/* en-de and de-en may share a tokenizer; together they would write half of each. */
static int check_languages(const struct ensemble *e, const char *const *dir, int i,
                           struct err *err) {
    struct card a = {0}, b = {0};
    card_from_json(&a, frozen_notes(e->model[0])->card, "", NULL);
    card_from_json(&b, frozen_notes(e->model[i])->card, "", NULL);
    if (!a.source || !a.target || !b.source || !b.target) return 0; /* who knows */
    if ((card_speaks(a.source, b.source) || card_speaks(b.source, a.source)) &&
        (card_speaks(a.target, b.target) || card_speaks(b.target, a.target)))
        return 0;
    return err_set(err, HEED_ECONFIG,
                   "%.70s translates from %.15s to %.15s, %.70s from %.15s to %.15s: they cannot "
                   "translate together",
                   dir[0], a.source, a.target, dir[i], b.source, b.target);
}

static int ensemble_open(struct engine *engine, const struct engine_options *o, struct err *err) {
    struct ensemble *e = engine->ensemble = xcalloc(1, sizeof *e);
    if (o->n < 1 || o->n > SEARCH_MAX_MODELS)
        return err_set(err, HEED_EINVAL, "%d models; between 1 and %d can translate together", o->n,
                       SEARCH_MAX_MODELS);
    for (int i = 0; i < o->n; i++) {
        struct early early = {0};
        if (!o->ids_only) early_begin(&early, o->dir[i]);
        int rc =
            frozen_open(&e->model[i], o->dir[i], o->precision, engine->be, o->where.n_thread, err);
        if (!rc) e->n++;
        double begin = clock_seconds();
        early_end(&early);
        if (rc) tongues_free(early.tongues);
        if (!rc && !o->ids_only) rc = add_tongues(e, o->dir, i, &early, err);
        if (!rc && !o->ids_only) rc = check_languages(e, o->dir, i, err);
        if (rc) return rc;
        engine->tokenizer_seconds += clock_seconds() - begin;
    }
    return read_defaults(e, o->dir[0], err);
}

/* ---- engines --------------------------------------------------------------------------------- */

static int place_models(struct engine *e, struct err *err) {
    double begin = clock_seconds();
    int rc = 0;
    e->tongues = e->ensemble->tongues;
    if (e->tongues) e->source = e->tongues->source;
    if (e->tongues) e->target = e->tongues->target;
    for (; e->n < e->ensemble->n; e->n++) {
        rc = frozen_model(&e->model[e->n], e->ensemble->model[e->n], e->be, err);
        if (rc) return rc;
        int max_len = e->model[e->n]->config.max_len;
        if (e->n == 0 || max_len < e->max_len) e->max_len = max_len;
    }
    e->placing_seconds = clock_seconds() - begin;
    return 0;
}

int engine_open(struct engine **engine, const struct engine_options *o, struct err *err) {
    struct engine *e = xcalloc(1, sizeof *e);
    double begin = clock_seconds();
    e->owns_ensemble = 1;
    int rc = backend_open(&e->be, &o->where, err);
    double opened = clock_seconds();
    e->device_seconds = opened - begin;
    if (!rc) rc = ensemble_open(e, o, err);
    e->reading_seconds = clock_seconds() - opened - e->tokenizer_seconds;
    if (!rc) rc = place_models(e, err);
    *engine = rc ? NULL : e;
    if (rc) engine_close(e);
    return rc;
}

int engine_again(struct engine **engine, const struct engine *first,
                 const struct backend_options *where, struct err *err) {
    struct engine *e = xcalloc(1, sizeof *e);
    e->ensemble = first->ensemble;
    int rc = backend_open(&e->be, where, err);
    if (!rc) rc = place_models(e, err);
    *engine = rc ? NULL : e;
    if (rc) engine_close(e);
    return rc;
}

struct search_marks engine_marks(const struct engine *e) {
    struct search_marks m = {.bos = tokenizer_bos(e->target),
                             .eos = tokenizer_eos(e->target),
                             .unk = tokenizer_unk(e->target)};
    for (; e->tongues && m.n_banned < e->tongues->n_banned; m.n_banned++)
        m.banned[m.n_banned] = e->tongues->banned[m.n_banned];
    return m;
}

/* Some of the codes, and how many there are. */
static const char *list_codes(const struct tongues *x, char *text, size_t size) {
    size_t at = 0;
    for (int i = 0; i < x->n_code && i < 8; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s", i ? ", " : "", x->code[i].code);
    if (x->n_code > 8) snprintf(text + at, size - at, ", ... (%d in all)", x->n_code);
    return text;
}

/* The language of that code. `name` is the option. A model with only one need not be told. */
static int find_language(const struct tongues *x, const char *name, const char *code,
                         const struct tongues_code **found, struct err *err) {
    char list[8 * (TONGUES_MAX_CODE + 2) + 32];
    int which = !code && x->n_code == 1 ? 0 : -1;
    for (int i = 0; i < x->n_code && code; i++)
        if (strcmp(x->code[i].code, code) == 0) which = i;
    if (which >= 0) return *found = &x->code[which], 0;
    if (!code)
        return err_set(err, HEED_EINVAL, "%s: not given, but the model has %d languages: %.200s",
                       name, x->n_code, list_codes(x, list, sizeof list));
    return err_set(err, HEED_EINVAL, "%s: the model does not know '%.40s'; it knows %.200s", name,
                   code, list_codes(x, list, sizeof list));
}

/* Languages that a model does not ask for are not silently ignored. */
static int check_wanted(const struct tongues *x, const char *name, const char *code, int wanted,
                        struct err *err) {
    if (!code || wanted) return 0;
    return err_set(err, HEED_EINVAL,
                   x->n_code ? "%s: the model is not told this language; leave it out"
                             : "%s: the model has no languages to choose from; leave it out",
                   name);
}

static int find_tags(const struct tongues *x, const struct engine_said *said,
                     struct engine_tags *tags, struct err *err) {
    static const struct tongues none;
    const struct tongues_code *source = NULL, *target = NULL;
    if (!x) x = &none;
    int before = said->prefix_token ? TONGUES_NONE : (int)x->before_source;
    int wants_source = before == TONGUES_SOURCE;
    int wants_target = before == TONGUES_TARGET || x->before_target;
    int rc = check_wanted(x, "source_lang", said->source_lang, wants_source, err);
    if (!rc) rc = check_wanted(x, "target_lang", said->target_lang, wants_target, err);
    if (!rc && wants_source) rc = find_language(x, "source_lang", said->source_lang, &source, err);
    if (!rc && wants_target) rc = find_language(x, "target_lang", said->target_lang, &target, err);
    if (rc) return rc;
    const struct tongues_code *first = wants_source ? source : target;
    if (before && first) tags->source = first->source;
    if (x->before_target && target) tags->target = target->target;
    return 0;
}

int engine_tags(const struct engine *e, const struct engine_said *given, struct engine_tags *tags,
                struct err *err) {
    struct translator_options own = defaults_of(e);
    struct engine_said said = *given;
    int chosen = said.source_lang || said.target_lang;
    *tags = (struct engine_tags){-1, -1};
    if (!said.prefix_token && !chosen) said.prefix_token = own.prefix_token;
    if (!said.source_lang) said.source_lang = said.prefix_token ? NULL : own.source_lang;
    if (!said.target_lang) said.target_lang = own.target_lang;
    int rc = find_tags(e->tongues, &said, tags, err);
    if (rc || !said.prefix_token) return rc;
    tags->source = tokenizer_find(e->source, said.prefix_token);
    if (tags->source >= 0) return 0;
    return err_set(err, HEED_EINVAL, "prefix_token: the model's tokenizer has no piece '%.100s'",
                   said.prefix_token);
}

int engine_shares_words(const struct engine *e) {
    int all = 1;
    for (int i = 0; i < e->n; i++) all &= e->model[i]->config.tie == TIE_ALL;
    return all;
}

const char *engine_opening(const struct engine *e, char *text, size_t size) {
    const struct backend_lap *lap;
    int n = backend_laps(e->be, &lap);
    size_t at = (size_t)snprintf(text, size, "device %.1f ms", 1e3 * e->device_seconds);
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s %.1f%s", i ? ", " : " (", lap[i].part,
                               1e3 * lap[i].seconds, i == n - 1 ? ")" : "");
    if (at < size)
        snprintf(text + at, size - at, ", reading %.1f ms, tokenizer %.1f ms, placing %.1f ms",
                 1e3 * e->reading_seconds, 1e3 * e->tokenizer_seconds, 1e3 * e->placing_seconds);
    return text;
}

void engine_close(struct engine *e) {
    if (!e) return;
    for (int i = 0; i < e->n; i++) model_free(e->model[i]);
    if (e->be) backend_close(e->be);
    if (e->owns_ensemble && e->ensemble) ensemble_close(e->ensemble);
    xfree(e);
}
