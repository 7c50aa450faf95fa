/* model.c — heed_model of heed.h: weights that all share, and the sessions that use them.
 *
 * A session is a translator: backend, working memory, results. There are at most as many as the
 * model was opened for, each made when the first call finds all others busy. The lock guards who is
 * busy and nothing else: making and using a session happens outside of it. */
#include "api/model.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/options.h"
#include "base/mem.h"
#include "base/pool.h"
#include "model/card.h"
#include "model/catalog.h"
#include "model/modeldir.h"

enum { MAX_SESSIONS = 1024, WAIT_MS = 20 };

static char *copy_of(const char *text) { return text ? xstrdup(text) : NULL; }

/* ---- options --------------------------------------------------------------------------------- */

static const heed_model_options defaults = {
    .size = sizeof defaults, .precision = "auto", .device = "auto", .sessions = 1};

void heed_model_options_init(heed_model_options *options, size_t size) {
    api_options_init(options, size, &defaults, sizeof defaults);
}

static int check(const heed_model_options *o, struct err *err) {
    if (o->sessions < 1 || o->sessions > MAX_SESSIONS)
        return err_set(err, HEED_EINVAL, "sessions: %d is not between 1 and %d", o->sessions,
                       MAX_SESSIONS);
    if (o->threads < 0 || o->threads > 1024)
        return err_set(err, HEED_EINVAL, "threads: %d is not between 0 and 1024", o->threads);
    if (o->n_ensemble >= SEARCH_MAX_MODELS || (o->n_ensemble > 0 && !o->ensemble))
        return err_set(err, HEED_EINVAL, "ensemble: %zu further models; at most %d are allowed",
                       o->n_ensemble, SEARCH_MAX_MODELS - 1);
    for (size_t i = 0; i < o->n_ensemble; i++)
        if (!o->ensemble[i]) return err_set(err, HEED_EINVAL, "ensemble: directory %zu is NULL", i);
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

static void make_translator(struct session *s) {
    s->translator = translator_new(s->engine);
    s->pages = pages_new(s->engine, s->translator);
}

/* The first session: a device that is not there is an error of opening, too. */
static int open_first(heed_model *m, char *const *dir, const heed_model_options *o,
                      struct err *err) {
    struct engine_options options = {.dir = (const char *const *)dir,
                                     .n = 1 + (int)o->n_ensemble,
                                     .where = {m->device, m->n_thread, m->isa}};
    int rc = o->precision ? precision_parse(&options.precision, o->precision, err) : 0;
    if (!rc) rc = engine_open(&m->session[0].engine, &options, err);
    if (!rc) make_translator(&m->session[0]);
    return rc;
}

/* Names become directories. */
static int open_named(heed_model *m, const char *name, const heed_model_options *o,
                      struct err *err) {
    struct catalog catalog;
    char *dir[SEARCH_MAX_MODELS] = {0};
    catalog_init(&catalog, getenv("HEED_MODELS"));
    int rc = catalog_find(&dir[0], &catalog, name, err);
    for (size_t i = 0; i < o->n_ensemble && !rc; i++)
        rc = catalog_find(&dir[1 + i], &catalog, o->ensemble[i], err);
    if (!rc) rc = open_first(m, dir, o, err);
    for (int i = 0; i < SEARCH_MAX_MODELS; i++) xfree(dir[i]);
    catalog_release(&catalog);
    return rc;
}

static int open_model(heed_model **model, const char *name, const heed_model_options *options,
                      struct err *err) {
    heed_model_options o = defaults;
    int rc = api_options_read(&o, sizeof o, options, "heed_model_options", err);
    if (!rc) rc = check(&o, err);
    if (rc) return rc;
    heed_model *m = xcalloc(1, sizeof *m);
    int cpus = pool_cpu_count() / o.sessions;
    m->n_session = o.sessions;
    m->session = xcalloc((size_t)o.sessions, sizeof *m->session);
    m->n_thread = o.threads ? o.threads : cpus > 1 ? cpus : 1;
    m->device = copy_of(o.device);
    m->isa = copy_of(o.isa);
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->freed, &attr);
    pthread_condattr_destroy(&attr);
    rc = open_named(m, name, &o, err);
    if (rc)
        heed_model_close(m);
    else
        *model = m;
    return rc;
}

int heed_model_open(heed_model **model, const char *name, const heed_model_options *options,
                    heed_error *error) {
    struct err err = {0};
    if (model) *model = NULL;
    int rc = model && name ? open_model(model, name, options, &err)
                           : err_set(&err, HEED_EINVAL, "%s is NULL",
                                     model ? "the name" : "the pointer to the model");
    return api_error(error, rc, &err);
}

void heed_model_close(heed_model *m) {
    if (!m) return;
    for (int i = m->n_session - 1; i >= 0; i--) { /* the first has what the others share */
        pages_free(m->session[i].pages);
        translator_free(m->session[i].translator);
        engine_close(m->session[i].engine);
    }
    pthread_cond_destroy(&m->freed);
    pthread_mutex_destroy(&m->lock);
    xfree(m->session);
    xfree(m->device);
    xfree(m->isa);
    xfree(m);
}

void heed_model_describe(const heed_model *m, heed_model_info *info, size_t size) {
    if (!m || !info) return;
    const struct engine *first = m->session[0].engine;
    const struct ensemble *shared = first->ensemble;
    const struct config *c = frozen_config(shared->model[0]);
    struct card card;
    card_from_json(&card, frozen_notes(shared->model[0])->card, "", NULL);
    heed_model_info all = {.size = size,
                           .models = shared->n,
                           .vocabulary = c->n_vocab_src,
                           .encoder_layers = c->n_layer_enc,
                           .decoder_layers = c->n_layer_dec,
                           .d_model = c->d_model,
                           .d_ff = c->d_ff,
                           .heads = c->n_head,
                           .max_tokens = first->max_len,
                           .precision = precision_name(frozen_precision(shared->model[0])),
                           .source = card.source ? card.source : "",
                           .target = card.target ? card.target : "",
                           .licence = card.licence ? card.licence : ""};
    for (int i = 0; i < shared->n; i++) all.weight_bytes += frozen_bytes(shared->model[i]);
    memcpy(info, &all, size < sizeof all ? size : sizeof all);
    if (size > sizeof all) memset((char *)info + sizeof all, 0, size - sizeof all);
}

/* ---- sessions -------------------------------------------------------------------------------- */

/* An idle session, the ones that exist first; NULL when all are busy. Under the lock. */
static struct session *find_idle(heed_model *m) {
    for (int made = 1; made >= 0; made--)
        for (int i = 0; i < m->n_session; i++)
            if (!m->session[i].busy && !m->session[i].translator == !made) return &m->session[i];
    return NULL;
}

static void wait_a_little(heed_model *m) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += WAIT_MS * 1000000L;
    if (until.tv_nsec >= 1000000000L) {
        until.tv_nsec -= 1000000000L;
        until.tv_sec++;
    }
    pthread_cond_timedwait(&m->freed, &m->lock, &until);
}

int model_take_session(heed_model *m, struct session **taken, heed_progress *progress,
                       void *context, struct err *err) {
    struct session *s;
    int cancelled = 0;
    pthread_mutex_lock(&m->lock);
    while (!(s = find_idle(m)) && !cancelled) {
        if (!progress) {
            pthread_cond_wait(&m->freed, &m->lock);
            continue;
        }
        wait_a_little(m);
        pthread_mutex_unlock(&m->lock); /* it may take its time */
        cancelled = progress(context, 0, 0);
        pthread_mutex_lock(&m->lock);
    }
    if (s) s->busy = 1;
    pthread_mutex_unlock(&m->lock);
    if (!s) return err_set(err, HEED_ECANCELLED, "cancelled while waiting for a session");
    int rc = 0;
    if (!s->translator) {
        struct backend_options where = {m->device, m->n_thread, m->isa};
        rc = engine_again(&s->engine, m->session[0].engine, &where, err);
        if (!rc) make_translator(s);
    }
    if (rc)
        model_give_session(m, s);
    else
        *taken = s;
    return rc;
}

void model_give_session(heed_model *m, struct session *session) {
    pthread_mutex_lock(&m->lock);
    session->busy = 0;
    pthread_cond_signal(&m->freed);
    pthread_mutex_unlock(&m->lock);
}
