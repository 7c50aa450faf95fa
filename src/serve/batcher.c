/* batcher.c — see batcher.h. */
#define _GNU_SOURCE /* syscall */
#include "serve/batcher.h"

#include <errno.h>
#include <malloc.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "search/defaults.h"
#include "serve/batcher_inside.h"

enum {
    REST = 1,      /* seconds without work until memory is given back */
    PAUSE = 500000 /* ns for which others wait when an interactive errand has ended */
};

static const struct suit suits_host = {40, 16, 256, 128}, suits_device = {320, 1 << 20, 8192, 8192};
enum { CELLS_PER_ROW = 96, SRC_PER_SEAT = 64 };

/* ---- the model ------------------------------------------------------------------------------- */

void batcher_shut_model(struct batcher *b) {
    extras_free(b->extras);
    carousel_free(b->carousel);
    engine_close(b->engine);
    xfree(b->at);
    xfree(b->order);
    b->extras = NULL;
    b->carousel = NULL;
    b->engine = NULL;
    b->at = b->order = NULL;
    b->n_order = b->n_urgent = b->urgent_rows = b->urgent_cells = 0;
    b->others_rows = b->others_cells = b->share = b->credit = b->entry = b->lately = 0;
}

static void plan_caps(struct batcher *b, int beam) {
    int len = b->engine->max_len, seats = b->suit.seats;
    int most = max_int(beam, DESK_MAX_ALTERNATIVES + 1); /* of any length; terms want more */
    b->caps = (struct carousel_caps){.n_seat = seats,
                                     .n_row = max_int(seats * beam, SEARCH_MAX_BEAM),
                                     .n_cell = max_int(seats * beam * CELLS_PER_ROW, most * len),
                                     .n_src = max_int(seats * SRC_PER_SEAT, len),
                                     .n_pass = max_int(b->suit.pass, len),
                                     .max_src = len,
                                     .max_len = len,
                                     .max_beam = SEARCH_MAX_BEAM};
    if (batcher_bounded(b)) b->caps.n_board = max_int(b->suit.others_pass, len);
}

static int make_carousel(struct batcher *b, struct err *err) {
    const struct engine *e = b->engine;
    struct search_setup setup = {.model = e->model, .n_model = e->n, .marks = engine_marks(e)};
    b->touched = 0;
    return carousel_new(&b->carousel, &setup, &b->caps, err);
}

static int open_carousel(struct batcher *b, struct err *err) {
    const struct engine *e = b->engine;
    struct translator_options defaults = defaults_of(b->engine);
    struct align_options align = defaults_align(b->engine, defaults.align);
    if (defaults.search.trees)
        return err_set(err, HEED_EINVAL,
                       "the model writes parse trees, which are not served; heed translate has "
                       "them");
    b->suit = backend_device_memory(b->engine->be) ? suits_device : suits_host;
    if (b->options.seats) b->suit.seats = b->options.seats;
    if (b->options.busy_rows) b->suit.busy_rows = b->options.busy_rows;
    plan_caps(b, defaults.search.beam);
    b->facts = (struct task_facts){.engine = e,
                                   .source = e->source,
                                   .target = e->target,
                                   .ended = tokenizer_eos(e->source) >= 0};
    int rc = make_carousel(b, err);
    if (rc) return rc;
    b->facts.limit = defaults.max_source ? defaults.max_source : b->engine->max_len;
    b->facts.threshold = align.threshold;
    b->speller = xrealloc(b->speller, ((size_t)b->n_speller + 1) * sizeof(struct speller *));
    b->facts.shares_words = engine_shares_words(b->engine);
    b->facts.speller = b->speller[b->n_speller++] = speller_new(e->target);
    b->align = align;
    b->extras = extras_new(&b->facts, &align);
    b->at = xcalloc((size_t)b->caps.n_seat, sizeof(struct part *));
    b->order = xcalloc((size_t)b->caps.n_seat, sizeof(struct part *));
    return 0;
}

/* Nobody is aboard. Much work has touched memory all over; new memory has not been touched yet. */
static void freshen(struct batcher *b) {
    struct err err = {0};
    extras_free(b->extras);
    carousel_free(b->carousel);
    b->extras = extras_new(&b->facts, &b->align);
    if (make_carousel(b, &err))
        batcher_shut_model(b); /* the next errand opens the model anew, or says why not */
    malloc_trim(0);
}

int batcher_open_model(struct batcher *b, struct err *err) {
    const char *dir = b->dir;
    struct engine_options from = {
        .dir = &dir, .n = 1, .precision = b->options.precision, .where = b->options.where};
    int rc = engine_open(&b->engine, &from, err);
    for (int i = 0; i < (rc ? 0 : b->engine->ensemble->n); i++)
        frozen_rest(b->engine->ensemble->model[i]); /* perhaps nobody asks for these languages */
    struct engine_tags tags;
    for (int i = 0; i < b->options.n_said && !rc; i++)
        rc = engine_tags(b->engine, &b->options.said[i], &tags, err);
    b->options.n_said = 0; /* they need not last, and are not looked at twice */
    if (!rc) rc = open_carousel(b, err);
    if (rc) batcher_shut_model(b);
    return rc;
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Who does not want to wait any more, or not at all. */
static void sweep(struct batcher *b) {
    double now = 0;
    for (struct errand *e = b->all, *next; e; e = next) {
        next = e->next;
        if (atomic_load_explicit(&e->cancelled, memory_order_acquire)) {
            batcher_end(b, e, DESK_CANCELLED, "");
        } else if (e->deadline > 0) {
            if (now <= 0) now = clock_seconds();
            if (now > e->deadline) batcher_end(b, e, DESK_DEADLINE, "");
        }
    }
}

/* An interactive errand has ended, and nothing but others is left. Its client may have the next at
 * hand, and whoever takes the answer there wants a processor: for a moment nobody goes on. With the
 * lock. */
static void pause_after(struct batcher *b) {
    struct timespec until;
    int answered = b->answered;
    b->answered = 0;
    if (!answered || !b->all || b->n_urgent || flows_urgent(&b->flows)) return;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += PAUSE;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    while (!b->inbox && !b->retired)
        if (pthread_cond_timedwait(&b->wake, &b->lock, &until) == ETIMEDOUT) return;
}

static int is_idle(const struct batcher *b) { return !b->inbox && !b->all && !b->retired; }

/* Waits for something to do; if it takes long, memory is given back. With the lock. */
static void rest(struct batcher *b) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += REST;
    while (is_idle(b) && b->touched && b->carousel) {
        if (pthread_cond_timedwait(&b->wake, &b->lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&b->lock);
        freshen(b);
        pthread_mutex_lock(&b->lock);
    }
    while (is_idle(b)) pthread_cond_wait(&b->wake, &b->lock);
}

/* Takes what has come; waits if there is nothing else to do. 0: it never will again. */
static int take_in(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    b->stats = b->now;
    b->stats.seated = b->n_order;
    pause_after(b);
    rest(b);
    struct errand *in = b->inbox;
    int goes_on = in || b->all;
    b->inbox = NULL;
    b->inbox_end = &b->inbox;
    atomic_store_explicit(&b->wanted, 0, memory_order_relaxed);
    pthread_mutex_unlock(&b->lock);
    struct err err = {0};
    if (in && !b->engine) batcher_open_model(b, &err);
    for (struct errand *next; in; in = next) {
        next = in->next;
        if (b->engine)
            batcher_begin(b, in);
        else
            in->ended(in, DESK_FAILED, err.msg);
    }
    return goes_on;
}

static void turn(struct batcher *b) {
    double began = clock_seconds();
    sweep(b);
    if (b->carousel) batcher_admit(b);
    if (b->carousel) batcher_board(b);
    if (b->carousel) batcher_look_again(b);
    if (b->carousel && (b->n_urgent || !batcher_bounded(b) || !batcher_wanted(b))) {
        batcher_hold(b);
        batcher_step(b);
    }
    if (b->carousel) batcher_tell(b);
    b->now.seconds += clock_seconds() - began;
}

static void free_batcher(struct batcher *b) {
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake);
    pthread_cond_destroy(&b->opened);
    for (int i = 0; i < b->n_speller; i++) speller_free(b->speller[i]);
    xfree(b->speller);
    flows_release(&b->flows);
    xfree(b->dir);
    xfree(b);
}

/* Whoever has little to do, as the thread that speaks HTTP, is not to wait until this one has had
 * its time slice when it wakes up: Linux (6.12 and later) lets those go first whose slice is
 * shorter. The backend's threads inherit it. It is a wish, and no matter where it is not known. */
static void let_others_in(void) {
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t slice, deadline, period; /* ns */
    } a = {.size = sizeof a};             /* sched_attr(2), which this libc has no header for */
    if (syscall(SYS_sched_getattr, 0, &a, sizeof a, 0) || !a.slice) return;
    a.slice *= 2;
    if (syscall(SYS_sched_setattr, 0, &a, 0)) return;
}

static void *thread_main(void *arg) {
    struct batcher *b = arg;
    struct err err = {0};
    let_others_in();
    int rc = batcher_open_model(b, &err);
    pthread_mutex_lock(&b->lock);
    b->open = rc ? -1 : 1;
    b->err = err;
    pthread_cond_signal(&b->opened);
    pthread_mutex_unlock(&b->lock);
    if (rc) return NULL; /* whoever opens it joins */
    while (take_in(b)) turn(b);
    struct batcher_options o = b->options;
    struct desk_stats totals = b->now;
    batcher_shut_model(b);
    if (o.gone) o.gone(o.ctx, &totals);
    free_batcher(b);
    return NULL;
}

int batcher_open(struct batcher **out, const struct batcher_options *options, struct err *err) {
    struct batcher *b = xcalloc(1, sizeof *b);
    pthread_t thread;
    *out = NULL;
    b->options = *options;
    b->dir = xstrdup(options->dir);
    b->inbox_end = &b->inbox;
    b->linking_end = &b->linking;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&b->opened, NULL);
    if (pthread_create(&thread, NULL, thread_main, b)) {
        free_batcher(b);
        return err_set(err, HEED_ENOMEM, "%.150s: no thread can be started for it", options->dir);
    }
    pthread_mutex_lock(&b->lock);
    while (!b->open) pthread_cond_wait(&b->opened, &b->lock);
    int failed = b->open < 0;
    if (failed && err) *err = b->err;
    pthread_mutex_unlock(&b->lock);
    if (!failed) {
        pthread_detach(thread);
        *out = b;
        return 0;
    }
    pthread_join(thread, NULL);
    int code = b->err.code;
    free_batcher(b);
    return code;
}

void batcher_retire(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    b->retired = 1;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock); /* from here on it may be gone */
}

void batcher_put(struct batcher *b, struct errand *e) {
    e->next = NULL;
    *b->inbox_end = e;
    b->inbox_end = &e->next;
    if (e->class == DESK_INTERACTIVE) atomic_store_explicit(&b->wanted, 1, memory_order_relaxed);
    pthread_cond_signal(&b->wake);
}

void batcher_give(struct batcher *b, struct errand *e) {
    pthread_mutex_lock(&b->lock);
    batcher_put(b, e);
    pthread_mutex_unlock(&b->lock);
}

void batcher_add_stats(struct desk_stats *to, const struct desk_stats *s) {
    to->sentences += s->sentences;
    to->src_tokens += s->src_tokens;
    to->tgt_tokens += s->tgt_tokens;
    to->steps += s->steps;
    to->rows += s->rows;
    to->passes += s->passes;
    for (int i = 0; i < DESK_BUCKETS; i++) to->rows_of[i] += s->rows_of[i];
    to->seconds += s->seconds;
}

void batcher_stats(struct batcher *b, struct desk_stats *s) {
    pthread_mutex_lock(&b->lock);
    batcher_add_stats(s, &b->stats);
    s->seated += b->stats.seated;
    s->engines++;
    pthread_mutex_unlock(&b->lock);
}
