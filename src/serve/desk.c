/* desk.c — see desk.h. */
#define _GNU_SOURCE /* realpath */
#include "serve/desk.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "serve/batcher.h"
#include "serve/registry.h"
#include "serve/through.h"

enum { MAX_JOBS = 1024, MAX_BYTES = 64 << 20, MAX_WORDS = 1 << 16, MAX_WAIT = 60 };
static const double rate_seconds = 10; /* that the measured speed looks back */

/* A model that is open. */
struct station {
    struct desk *desk;
    struct batcher *batcher;
    int refs; /* registries' entries and jobs' legs */
    struct station *next;
};

/* Models by pair, and who holds them: the desk, lists of pairs, and jobs. */
struct catalog {
    struct registry *registry;
    struct station **station;   /* [n] */
    struct glossary **glossary; /* [n]; NULL: none */
    int n, refs;
};

struct desk {
    struct desk_options options;
    char *device, *isa;
    pthread_mutex_t lock; /* of all that follows, and of refs */
    pthread_cond_t idle;
    struct catalog *catalog;
    struct station *stations;
    struct desk_job *jobs; /* that are not done, or whose call back is not over */
    int draining;
    struct desk_stats stats; /* jobs, bytes, turned, ended; and totals of stations that are gone */
    double rate, rated;      /* bytes per second lately, and when that was */
};

struct leg {
    struct errand errand;
    struct desk_job *job;
    struct station *station;
    const struct sentence_rules *rules;
    const struct glossary *glossary; /* the model's own, or NULL */
};

struct desk_job {
    struct desk *desk;
    struct desk_job *next, **link; /* of the desk's */
    struct leg leg[2];
    int n_leg;
    atomic_int refs, status;
    char message[256];
    struct search_options search;
    size_t bytes;
    double submitted;
    struct desk_cost cost;
    struct glossary *glossary; /* of its own terms, or NULL */
    struct catalog *catalog;   /* that it began with */
    struct task_order last;    /* what the second of two legs is asked for */
    void (*done)(void *ctx, struct desk_job *job);
    void (*partial)(void *ctx, struct desk_job *job, const struct desk_partial *partial);
    void *ctx;
    const struct desk_answer *between; /* of the first of two legs, if its links are wanted */
    const struct desk_answer *answer;
    int n_answer;
};

/* ---- stations -------------------------------------------------------------------------------- */

static void station_gone(void *ctx, const struct desk_stats *totals) {
    struct station *s = ctx, **at;
    struct desk *d = s->desk;
    pthread_mutex_lock(&d->lock);
    for (at = &d->stations; *at != s; at = &(*at)->next) continue;
    *at = s->next;
    batcher_add_stats(&d->stats, totals);
    xfree(s);
    pthread_cond_broadcast(&d->idle);
    pthread_mutex_unlock(&d->lock);
}

/* With the lock held. */
static void station_drop(struct station *s) {
    if (--s->refs == 0) batcher_retire(s->batcher);
}

/* Of the first model of a directory, with what all models of it will say. */
static int station_open(struct desk *d, const struct desk_model *m, const struct engine_said *said,
                        int n_said, struct station **out, struct err *err) {
    struct station *s = xcalloc(1, sizeof *s);
    struct batcher_options o = {.dir = m->dir,
                                .where = d->options.where,
                                .precision = d->options.precision,
                                .seats = d->options.seats,
                                .busy_rows = d->options.busy_rows,
                                .said = said,
                                .n_said = n_said,
                                .gone = station_gone,
                                .ctx = s};
    *s = (struct station){.desk = d};
    int rc = batcher_open(&s->batcher, &o, err);
    if (rc) {
        xfree(s);
        return rc;
    }
    pthread_mutex_lock(&d->lock);
    s->next = d->stations;
    d->stations = s;
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return 0;
}

/* ---- catalogs -------------------------------------------------------------------------------- */

/* With the lock held. */
static void catalog_drop(struct catalog *c) {
    if (!c || --c->refs) return;
    for (int i = 0; i < c->n; i++) {
        station_drop(c->station[i]);
        glossary_free(c->glossary[i]);
    }
    registry_free(c->registry);
    xfree(c->glossary);
    xfree(c->station);
    xfree(c);
}

/* Models, and for each the first of those that have the same directory. */
struct roster {
    const struct desk_model *model;
    int *first;
    int n;
};

/* Neighbours often have the same, by the same pointer. */
static void find_twins(struct roster *r) {
    char **path = xcalloc((size_t)r->n, sizeof(char *));
    for (int i = 0; i < r->n; i++) {
        const char *dir = r->model[i].dir;
        int again = i && dir == r->model[i - 1].dir;
        r->first[i] = again ? r->first[i - 1] : i;
        if (again || !(path[i] = realpath(dir, NULL))) continue;
        for (int k = i - 1; k >= 0; k--)
            if (path[k] && strcmp(path[k], path[i]) == 0) r->first[i] = r->first[k];
    }
    for (int i = 0; i < r->n; i++) xfree(path[i]);
    xfree(path);
}

/* Opens the directory of model i, for all that have it. */
static int open_shared(struct desk *d, const struct roster *r, int i, struct station **out,
                       struct err *err) {
    struct engine_said *said = xcalloc((size_t)r->n, sizeof *said);
    int n_said = 0;
    for (int k = i; k < r->n; k++)
        if (r->first[k] == i) said[n_said++] = r->model[k].said;
    int rc = station_open(d, &r->model[i], said, n_said, out, err);
    xfree(said);
    return rc;
}

static int read_glossary(struct glossary **glossary, const struct desk_model *m, struct err *err) {
    struct glossary_file file = {m->glossary, m->source, m->target, 0};
    return glossary_open(glossary, &file, err);
}

static int catalog_open(struct desk *d, const struct desk_model *model, int n, struct catalog **out,
                        struct err *err) {
    struct catalog *c = xcalloc(1, sizeof *c);
    size_t room = (size_t)max_int(n, 0) + 1;
    struct roster roster = {model, xcalloc(room, sizeof *roster.first), n};
    int rc = n < 1 ? err_set(err, HEED_EINVAL, "no model to translate with") : 0;
    if (!rc) find_twins(&roster);
    c->station = xcalloc(room, sizeof(struct station *));
    c->glossary = xcalloc(room, sizeof(struct glossary *));
    c->refs = 1;
    for (int i = 0; i < n && !rc; i++) {
        int first = roster.first[i];
        struct station *s = first < i ? c->station[first] : NULL;
        if (!s) rc = open_shared(d, &roster, i, &s, err);
        if (rc) break;
        pthread_mutex_lock(&d->lock);
        s->refs++;
        pthread_mutex_unlock(&d->lock);
        c->station[c->n++] = s;
        if (model[i].glossary) rc = read_glossary(&c->glossary[i], &model[i], err);
    }
    xfree(roster.first);
    if (!rc) c->registry = registry_new(model, (void *const *)c->station, n);
    if (rc) {
        pthread_mutex_lock(&d->lock);
        catalog_drop(c);
        pthread_mutex_unlock(&d->lock);
        return rc;
    }
    *out = c;
    return 0;
}

/* ---- the desk -------------------------------------------------------------------------------- */

static void desk_free(struct desk *d) {
    pthread_mutex_lock(&d->lock);
    while (d->stations) pthread_cond_wait(&d->idle, &d->lock);
    pthread_mutex_unlock(&d->lock);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->idle);
    xfree(d->device);
    xfree(d->isa);
    xfree(d);
}

int desk_open(struct desk **out, const struct desk_options *options, struct err *err) {
    struct desk *d = xcalloc(1, sizeof *d);
    pthread_condattr_t attr;
    *out = NULL;
    d->options = *options;
    d->options.model = NULL;
    if (!d->options.max_jobs) d->options.max_jobs = MAX_JOBS;
    if (!d->options.max_bytes) d->options.max_bytes = MAX_BYTES;
    if (options->where.device) d->options.where.device = d->device = xstrdup(options->where.device);
    if (options->where.isa) d->options.where.isa = d->isa = xstrdup(options->where.isa);
    d->rated = clock_seconds();
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->idle, &attr);
    pthread_condattr_destroy(&attr);
    int rc = catalog_open(d, options->model, options->n_model, &d->catalog, err);
    if (rc) {
        desk_free(d);
        return rc;
    }
    *out = d;
    return 0;
}

void desk_close(struct desk *d) {
    if (!d) return;
    pthread_mutex_lock(&d->lock);
    d->draining = 1;
    for (struct desk_job *j = d->jobs; j; j = j->next) desk_cancel(j);
    while (d->jobs) pthread_cond_wait(&d->idle, &d->lock);
    catalog_drop(d->catalog);
    pthread_mutex_unlock(&d->lock);
    desk_free(d);
}

int desk_reload(struct desk *d, const struct desk_model *model, int n_model, struct err *err) {
    struct catalog *fresh, *old;
    int rc = catalog_open(d, model, n_model, &fresh, err);
    if (rc) return rc;
    pthread_mutex_lock(&d->lock);
    old = d->catalog;
    d->catalog = fresh;
    catalog_drop(old);
    pthread_mutex_unlock(&d->lock);
    return 0;
}

int desk_drain(struct desk *d, double seconds) {
    double end = clock_seconds() + seconds;
    struct timespec t = {.tv_sec = (time_t)floor(end)};
    t.tv_nsec = (long)((end - floor(end)) * 1e9);
    pthread_mutex_lock(&d->lock);
    d->draining = 1;
    int rc = 0;
    while (d->jobs && !rc) rc = pthread_cond_timedwait(&d->idle, &d->lock, &t);
    int empty = !d->jobs;
    pthread_mutex_unlock(&d->lock);
    return empty;
}

struct desk_pairs desk_pairs(struct desk *d) {
    struct desk_pairs p = {.desk = d};
    pthread_mutex_lock(&d->lock);
    struct catalog *c = p.held = d->catalog;
    c->refs++;
    pthread_mutex_unlock(&d->lock);
    p.n = registry_pairs(c->registry, &p.pair);
    return p;
}

void desk_pairs_free(struct desk_pairs *p) {
    if (!p->desk) return;
    pthread_mutex_lock(&p->desk->lock);
    catalog_drop(p->held);
    pthread_mutex_unlock(&p->desk->lock);
    xfree(p->pair);
    *p = (struct desk_pairs){0};
}

struct desk_stats desk_stats(struct desk *d) {
    pthread_mutex_lock(&d->lock);
    struct desk_stats s = d->stats;
    for (struct station *at = d->stations; at; at = at->next) batcher_stats(at->batcher, &s);
    pthread_mutex_unlock(&d->lock);
    return s;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

static void job_drop(struct desk_job *j) {
    if (atomic_fetch_sub_explicit(&j->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < 2; i++) task_free(j->leg[i].errand.task);
    glossary_free(j->glossary);
    xfree(j);
}

/* Bytes per second, as an average that forgets. With the lock held. */
static double rate_after(struct desk *d, size_t bytes) {
    double now = clock_seconds();
    d->rate = d->rate * exp((d->rated - now) / rate_seconds) + (double)bytes / rate_seconds;
    d->rated = now;
    return d->rate;
}

static int retry_after(struct desk *d) {
    double rate = rate_after(d, 0), wait = rate > 0 ? (double)d->stats.queued_bytes / rate : 5;
    return wait < 1 ? 1 : wait > MAX_WAIT ? MAX_WAIT : (int)ceil(wait);
}

/* Words and links of both halves as those of the whole way. */
static void join_halves(struct desk_job *j) {
    struct keep *keep = task_keep(j->leg[1].errand.task);
    size_t size = (size_t)j->n_answer * sizeof *j->answer;
    struct desk_answer *whole = keep_take(keep, size);
    memcpy(whole, j->answer, size);
    for (int i = 0; i < j->n_answer; i++) through_join(&whole[i], &j->between[i], keep);
    j->answer = whole;
}

static void finish(struct desk_job *j, enum desk_status status, const char *message) {
    struct desk *d = j->desk;
    struct leg *last = &j->leg[j->n_leg - 1];
    if (status == DESK_DONE) j->answer = task_finish(last->errand.task, &j->n_answer);
    if (status == DESK_DONE && j->between) join_halves(j);
    size_t n = strlen(message);
    n = n < sizeof j->message ? n : sizeof j->message - 1;
    memcpy(j->message, message, n);
    j->message[n] = 0;
    j->cost.total = clock_seconds() - j->submitted;
    atomic_store_explicit(&j->status, status, memory_order_release);
    pthread_mutex_lock(&d->lock);
    d->stats.jobs--;
    d->stats.queued_bytes -= j->bytes;
    d->stats.ended[status]++;
    if (status == DESK_DONE) rate_after(d, j->bytes);
    pthread_mutex_unlock(&d->lock);
    j->done(j->ctx, j);
    pthread_mutex_lock(&d->lock);
    if ((*j->link = j->next)) j->next->link = j->link;
    for (int i = 0; i < j->n_leg; i++) station_drop(j->leg[i].station);
    catalog_drop(j->catalog);
    if (!d->jobs) pthread_cond_broadcast(&d->idle);
    pthread_mutex_unlock(&d->lock);
    job_drop(j);
}

/* What the first model wrote is what the second one reads. */
static void go_on(struct desk_job *j) {
    int n;
    struct errand *first = &j->leg[0].errand;
    const struct desk_answer *a = task_finish(first->task, &n);
    struct desk_text *text = xcalloc((size_t)n, sizeof *text);
    for (int i = 0; i < n; i++)
        text[i] = (struct desk_text){.text = a[i].best[0].text, .size = a[i].best[0].size};
    struct task_order order = j->last;
    order.text = text;
    order.n = n;
    order.rules = j->leg[1].rules;
    j->leg[1].errand.task = task_new(&order);
    xfree(text);
    if (order.extras & DESK_WORDS) {
        j->between = a;
    } else {
        task_free(first->task);
        first->task = NULL;
    }
    batcher_give(j->leg[1].station->batcher, &j->leg[1].errand);
}

static struct leg *leg_of(struct errand *e) {
    return (struct leg *)((char *)e - offsetof(struct leg, errand));
}

static void leg_ended(struct errand *e, enum desk_status status, const char *message) {
    struct leg *leg = leg_of(e);
    struct desk_job *j = leg->job;
    if (leg == j->leg && e->cost.waited > 0) j->cost.waited = e->cost.waited - j->submitted;
    j->cost.src_tokens += e->cost.src_tokens;
    j->cost.tgt_tokens += e->cost.tgt_tokens;
    j->cost.sentences += e->cost.sentences;
    if (status == DESK_DONE && leg == j->leg && j->n_leg == 2)
        go_on(j);
    else
        finish(j, status, message);
}

static void leg_partial(struct errand *e, const struct desk_partial *partial) {
    struct desk_job *j = leg_of(e)->job;
    j->partial(j->ctx, j, partial);
}

/* What is wrong with an order, whatever the models. */
static int check_order(const struct desk *d, const struct desk_order *o, size_t *bytes,
                       struct err *err) {
    if (o->n < 1 || !o->source || !o->target || !o->done)
        return err_set(err, HEED_EINVAL, "an order needs a text, two languages and a call back");
    if (o->alternatives < 0 || o->alternatives > DESK_MAX_ALTERNATIVES)
        return err_set(err, HEED_EINVAL, "%d alternatives; between 0 and %d are possible",
                       o->alternatives, DESK_MAX_ALTERNATIVES);
    if (o->format == DESK_HTML && o->extras & (DESK_WORDS | DESK_PARTIAL | DESK_SCORE))
        return err_set(err, HEED_EINVAL,
                       "words, partial texts and scores are for plain text, not for HTML");
    *bytes = 0;
    for (int i = 0; i < o->n; i++) {
        if (o->text[i].size > DESK_MAX_TEXT)
            return err_set(err, HEED_ELIMIT, "text %d has %zu bytes; at most %d are translated",
                           i + 1, o->text[i].size, DESK_MAX_TEXT);
        *bytes += o->text[i].size + (o->extras & DESK_SCORE ? o->text[i].given_size : 0) + 64;
        if (*bytes > d->options.max_bytes)
            return err_set(err, HEED_ELIMIT, "the texts have more than %zu bytes",
                           d->options.max_bytes);
    }
    if (o->extras & DESK_WORDS && *bytes > MAX_WORDS)
        return err_set(err, HEED_ELIMIT, "words are aligned in texts of up to %d bytes", MAX_WORDS);
    return 0;
}

static int take_terms(struct desk_job *j, const struct desk_order *o, struct err *err) {
    if (!o->n_term) return 0;
    if (o->n_term < 0 || o->n_term > DESK_MAX_TERMS)
        return err_set(err, HEED_ELIMIT, "%d terms; at most %d are possible", o->n_term,
                       DESK_MAX_TERMS);
    j->glossary = glossary_new();
    for (int i = 0; i < o->n_term; i++) {
        const struct desk_term *t = &o->term[i];
        struct err why = {0};
        int rc = glossary_add(j->glossary, t->source, strlen(t->source), t->target,
                              strlen(t->target), &why);
        if (rc) return err_set(err, rc, "term %d: %.200s", i + 1, why.msg);
    }
    return 0;
}

/* Takes a place in the queue, and the stations that will be needed. */
static enum desk_turn reserve(struct desk *d, const struct desk_order *o, struct desk_job *j,
                              struct desk_refusal *no) {
    struct registry_step path[2];
    if (d->draining || d->stats.jobs >= d->options.max_jobs ||
        d->stats.queued_bytes + j->bytes > d->options.max_bytes) {
        no->retry_after = retry_after(d);
        err_set(&no->err, HEED_ELIMIT, "%s",
                d->draining ? "the server is shutting down" : "the server is busy");
        return d->draining ? DESK_DRAINING : DESK_FULL;
    }
    j->n_leg = registry_find(d->catalog->registry, o->source, o->target, path);
    if (!j->n_leg) {
        err_set(&no->err, HEED_EINVAL, "there is no model from %.20s to %.20s", o->source,
                o->target);
        return DESK_WRONG;
    }
    if (j->n_leg == 2 && o->extras & (DESK_SCORE | DESK_ATTENTION)) {
        err_set(&no->err, HEED_EINVAL,
                "from %.20s to %.20s is translated through a third language: there are no scores "
                "and no attention",
                o->source, o->target);
        return DESK_WRONG;
    }
    if (j->n_leg == 2 && j->glossary) {
        err_set(&no->err, HEED_EINVAL,
                "from %.20s to %.20s is translated through a third language, which has no terms",
                o->source, o->target);
        return DESK_WRONG;
    }
    for (int i = 0; i < j->n_leg; i++) {
        j->leg[i].station = path[i].server;
        j->leg[i].errand.said = path[i].said;
        j->leg[i].rules = sentence_rules(path[i].source);
        j->leg[i].glossary = d->catalog->glossary[path[i].model];
        j->leg[i].station->refs++;
    }
    j->catalog = d->catalog;
    j->catalog->refs++;
    if ((j->next = d->jobs)) j->next->link = &j->next;
    d->jobs = j;
    j->link = &d->jobs;
    d->stats.jobs++;
    d->stats.queued_bytes += j->bytes;
    return DESK_ACCEPTED;
}

static enum desk_class class_of(const struct desk_order *o, size_t bytes) {
    if (o->class != DESK_AUTO) return o->class;
    return bytes <= DESK_SHORT ? DESK_INTERACTIVE : bytes < DESK_LONG ? DESK_NORMAL : DESK_BULK;
}

static void set_out(struct desk_job *j, const struct desk_order *o) {
    struct task_order what = {.text = o->text,
                              .n = o->n,
                              .format = o->format,
                              .n_best = o->alternatives + 1,
                              .extras = o->extras,
                              .rules = j->leg[0].rules,
                              .glossary = j->glossary ? j->glossary : j->leg[0].glossary};
    j->last = what;
    j->last.glossary = j->leg[1].glossary;
    if (j->n_leg == 2) {
        what.n_best = 1;
        what.extras &= DESK_WORDS;
    }
    if (o->search) j->search = *o->search;
    for (int i = 0; i < j->n_leg; i++) {
        struct errand *e = &j->leg[i].errand;
        j->leg[i].job = j;
        e->search = o->search ? &j->search : NULL;
        e->client = o->client;
        e->class = class_of(o, j->bytes);
        e->deadline = o->deadline;
        e->ended = leg_ended;
        e->partial = o->partial ? leg_partial : NULL;
    }
    j->leg[0].errand.task = task_new(&what);
}

enum desk_turn desk_submit(struct desk *d, const struct desk_order *o, struct desk_job **out,
                           struct desk_refusal *refusal) {
    struct desk_refusal no = {.retry_after = 1};
    struct desk_job *j = xcalloc(1, sizeof *j);
    *out = NULL;
    j->desk = d;
    j->submitted = clock_seconds();
    enum desk_turn turn = DESK_WRONG;
    int rc = check_order(d, o, &j->bytes, &no.err);
    if (!rc) rc = take_terms(j, o, &no.err);
    pthread_mutex_lock(&d->lock);
    if (!rc) turn = reserve(d, o, j, &no);
    d->stats.turned[turn]++;
    pthread_mutex_unlock(&d->lock);
    if (turn != DESK_ACCEPTED) {
        glossary_free(j->glossary);
        xfree(j);
        if (refusal) *refusal = no;
        return turn;
    }
    atomic_init(&j->refs, 2); /* the caller's and ours */
    atomic_init(&j->status, DESK_RUNNING);
    j->done = o->done;
    j->partial = o->partial;
    j->ctx = o->ctx;
    set_out(j, o);
    *out = j;
    batcher_give(j->leg[0].station->batcher, &j->leg[0].errand);
    return DESK_ACCEPTED;
}

void desk_cancel(struct desk_job *j) {
    for (int i = 0; i < 2; i++)
        atomic_store_explicit(&j->leg[i].errand.cancelled, 1, memory_order_release);
}

void desk_release(struct desk_job *j) {
    desk_cancel(j);
    job_drop(j);
}

enum desk_status desk_status(const struct desk_job *j) {
    return (enum desk_status)atomic_load_explicit(&j->status, memory_order_acquire);
}

const char *desk_message(const struct desk_job *j) { return j->message; }
int desk_count(const struct desk_job *j) { return j->n_answer; }
const struct desk_answer *desk_answer(const struct desk_job *j, int i) {
    BUG_ON(i < 0 || i >= j->n_answer);
    return &j->answer[i];
}
struct desk_cost desk_cost(const struct desk_job *j) {
    return j->cost;
}
