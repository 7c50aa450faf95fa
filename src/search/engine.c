/* engine.c — see engine.h. */
#include "search/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "search/defaults.h"

/* ---- what is shared -------------------------------------------------------------------------- */

/* The first model's tokenizers are kept, the others' must be the same. */
static int add_tongues(struct ensemble *e, const char *const *dir, int i, struct err *err) {
    struct tongues *tongues;
    int rc = tongues_open(&tongues, dir[i], frozen_config(e->model[i]),
                          frozen_notes(e->model[i])->tokens, err);
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

static int ensemble_open(struct engine *engine, const struct engine_options *o, struct err *err) {
    struct ensemble *e = engine->ensemble = xcalloc(1, sizeof *e);
    if (o->n < 1 || o->n > SEARCH_MAX_MODELS)
        return err_set(err, HEED_EINVAL, "%d models; between 1 and %d can translate together", o->n,
                       SEARCH_MAX_MODELS);
    for (int i = 0; i < o->n; i++) {
        int rc =
            frozen_open(&e->model[i], o->dir[i], o->precision, engine->be, o->where.n_thread, err);
        if (rc) return rc;
        e->n++;
        double begin = clock_seconds();
        if (!o->ids_only && (rc = add_tongues(e, o->dir, i, err))) return rc;
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

int engine_tag(const struct engine *e, const char *token, int32_t *tag, struct err *err) {
    if (!token) token = defaults_of(e).prefix_token;
    *tag = token ? tokenizer_find(e->source, token) : -1;
    if (!token || *tag >= 0) return 0;
    return err_set(err, HEED_EINVAL, "prefix_token: the model's tokenizer has no piece '%.100s'",
                   token);
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
