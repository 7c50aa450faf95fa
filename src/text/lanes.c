/* lanes.c — see lanes.h.
 *
 * One lock guards everything that lanes share. It is not held while a lane reads, translates or
 * writes: `reading` and the number of the window whose turn it is keep the others away. */
#include "text/lanes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

enum { WINDOW_BATCHES = 32 };

struct lane {
    struct lanes *all;
    struct engine *engine;
    struct translator *translator;
    struct pages *pages; /* around it */
    struct pool *pool;   /* or NULL */
    pthread_t thread;
    struct translator_stats stats; /* when it last wrote */
    int rc;
    struct err err;
    struct feed_line *line; /* [cap] a window */
    char *text;             /* what it consists of, where the feed goes on meanwhile */
    size_t text_room;
    struct translator_input *input; /* [cap] */
    struct translation *result;     /* [cap] */
    int n, cap;
};

struct lanes {
    const struct lanes_setup *setup;
    const struct lanes_writer *writer;
    struct feed *feed;
    struct lane lane[MAX_LANES];
    int n_lane, n_started; /* wanted, and running beside the first */
    int window, most;      /* lines of the next window, and of the largest */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t n_read, n_written; /* windows */
    int reading;                /* somebody is */
    int ended;                  /* nothing more will be read */
    atomic_int failed;          /* nothing more will be written */
    struct translator_stats stats;
};

/* ---- life ------------------------------------------------------------------------------------ */

static int lane_open(struct lane *lane, struct lanes *all, struct engine *engine, struct err *err) {
    int n_thread = all->setup->where->n_thread;
    lane->all = all;
    lane->engine = engine;
    lane->translator = translator_new(engine);
    lane->pages = pages_new(engine, lane->translator);
    pages_set(lane->pages, all->setup->options);
    int rc = translator_set(lane->translator, all->setup->options, err);
    if (!rc && n_thread != 1) rc = pool_new(&lane->pool, n_thread, err);
    if (!rc) translator_share(lane->translator, lane->pool);
    return rc;
}

static void lane_close(struct lane *lane) {
    pages_free(lane->pages);
    translator_free(lane->translator);
    pool_free(lane->pool);
    if (lane->all && lane->engine != lane->all->setup->engine) engine_close(lane->engine);
    xfree(lane->line);
    xfree(lane->text);
    xfree(lane->input);
    xfree(lane->result);
}

int lanes_new(struct lanes **out, const struct lanes_setup *setup, struct err *err) {
    struct lanes *l = *out = xcalloc(1, sizeof *l);
    l->setup = setup;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->n_lane = setup->n_lane ? setup->n_lane : 1 + (backend_device_memory(setup->engine->be) != 0);
    int rc = lane_open(&l->lane[0], l, setup->engine, err);
    if (rc) {
        lanes_free(l);
        *out = NULL;
        return rc;
    }
    int64_t batch = translator_batch(l->lane[0].translator);
    l->most = setup->look_ahead ? setup->look_ahead
                                : (int)min_i64(WINDOW_BATCHES * batch, MAX_LOOK_AHEAD);
    l->window = (int)min_i64(batch, l->most);
    return 0;
}

void lanes_free(struct lanes *l) {
    if (!l) return;
    for (int i = 0; i < MAX_LANES; i++) lane_close(&l->lane[i]);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->changed);
    xfree(l);
}

const struct translator_stats *lanes_stats(const struct lanes *l) { return &l->stats; }
struct pages *lanes_pages(const struct lanes *l) {
    return l->lane[0].pages;
}

/* ---- statistics ------------------------------------------------------------------------------ */

static void stats_add(struct translator_stats *to, const struct translator_stats *s) {
    to->texts += s->texts;
    to->sentences += s->sentences;
    to->batches += s->batches;
    to->src_tokens += s->src_tokens;
    to->tgt_tokens += s->tgt_tokens;
    to->seconds += s->seconds;
    to->preparing += s->preparing;
    to->reading += s->reading;
    search_stats_add(&to->search, &s->search);
    for (int i = 0; i < LATENCY_BUCKETS; i++) to->latency[i] += s->latency[i];
}

static void take_stats(struct lane *lane) {
    struct lanes *l = lane->all;
    lane->stats = *translator_stats(lane->translator);
    const struct translator_stats *more = pages_stats(lane->pages);
    if (more) stats_add(&lane->stats, more);
    memset(&l->stats, 0, sizeof l->stats);
    for (int i = 0; i <= l->n_started; i++) stats_add(&l->stats, &l->lane[i].stats);
}

void lanes_gather(struct lanes *l, struct comm *comm) {
    struct translator_stats *all = xcalloc((size_t)comm->size, sizeof *all);
    comm_gather(comm, all, &l->stats, sizeof l->stats);
    memset(&l->stats, 0, sizeof l->stats);
    for (int r = 0; r < comm->size; r++) stats_add(&l->stats, &all[r]);
    xfree(all);
}

/* ---- windows --------------------------------------------------------------------------------- */

static const char *keep(struct lane *lane, size_t *at, const char *text, size_t size) {
    if (!text) return NULL;
    char *to = lane->text + *at;
    memcpy(to, text, size);
    to[size] = 0;
    *at += size + 1;
    return to;
}

/* The feed's lines become the lane's: another lane may read on. */
static void take_window(struct lane *lane, const struct feed_line *from, int n) {
    size_t size = 0, at = 0;
    if (n > lane->cap) {
        lane->cap = n;
        lane->line = xrealloc(lane->line, (size_t)n * sizeof *lane->line);
        lane->input = xrealloc(lane->input, (size_t)n * sizeof *lane->input);
        lane->result = xrealloc(lane->result, (size_t)n * sizeof *lane->result);
    }
    lane->n = n;
    memcpy(lane->line, from, (size_t)n * sizeof *lane->line);
    if (lane->all->n_lane == 1) return;
    for (int i = 0; i < n; i++) size += from[i].size + from[i].prefix_size + 2;
    if (size > lane->text_room) {
        xfree(lane->text);
        lane->text = xmalloc(lane->text_room = size);
    }
    for (int i = 0; i < n; i++) {
        lane->line[i].text = keep(lane, &at, from[i].text, from[i].size);
        lane->line[i].prefix = keep(lane, &at, from[i].prefix, from[i].prefix_size);
    }
}

/* Nobody waits for a window that will not be written. */
static int should_stop(void *ctx, int done, int total) {
    const struct lanes *l = ctx;
    return l->failed || l->setup->poll->call(l->setup->poll->ctx, done, total);
}

static int translate(struct lane *lane) {
    for (int i = 0; i < lane->n; i++) {
        const struct feed_line *line = &lane->line[i];
        lane->input[i] = (struct translator_input){.text = line->text,
                                                   .size = line->size,
                                                   .prefix = line->prefix,
                                                   .prefix_size = line->prefix_size,
                                                   .key = line->total,
                                                   .name = line->name,
                                                   .number = line->number};
    }
    struct translator_poll poll = {should_stop, lane->all};
    return pages_run(lane->pages, lane->input, lane->n, lane->result, &poll, &lane->err);
}

/* ---- taking turns ---------------------------------------------------------------------------- */

static void *run_another(void *lane);

/* Starts the other lanes; fewer where there is no thread to be had. Locked. */
static void start(struct lanes *l) {
    while (l->n_started < l->n_lane - 1) {
        struct lane *lane = &l->lane[l->n_started + 1];
        lane->all = l;
        if (pthread_create(&lane->thread, NULL, run_another, lane)) return;
        l->n_started++;
    }
}

/* A window that was full is followed by one of twice the size. */
static int grow(struct lanes *l, int n) {
    if (n != l->window) return 0;
    l->window = min_int(2 * n, l->most);
    return 1;
}

/* Reads the next window: 1, 0 at the end, or negative. *number is its number, unless it is the
 * end. */
static int read_window(struct lane *lane, uint64_t *number) {
    struct lanes *l = lane->all;
    pthread_mutex_lock(&l->lock);
    while (l->reading && !l->ended) pthread_cond_wait(&l->changed, &l->lock);
    int ended = l->ended, window = l->window, n = 0;
    l->reading = 1;
    pthread_mutex_unlock(&l->lock);
    if (ended) return 0;
    if ((n = feed_fill(l->feed, window, &lane->err)) > 0) take_window(lane, feed_lines(l->feed), n);
    pthread_mutex_lock(&l->lock);
    *number = l->n_read++;
    l->reading = 0;
    l->ended |= n <= 0;
    if (grow(l, n)) start(l);
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return n > 0 ? 1 : n;
}

/* Writes window `number`, of whose translation rc came out, when its turn has come. Non-zero: that
 * is the end. */
static int write_window(struct lane *lane, uint64_t number, int rc) {
    struct lanes *l = lane->all;
    pthread_mutex_lock(&l->lock);
    while (l->n_written != number && !l->failed) pthread_cond_wait(&l->changed, &l->lock);
    int failed = l->failed;
    if (!failed) take_stats(lane);
    pthread_mutex_unlock(&l->lock);
    if (failed) return 1; /* something before it */
    int write_rc = l->writer->call(l->writer->ctx, lane->line, lane->result, lane->n, &lane->err);
    lane->rc = write_rc ? write_rc : rc;
    pthread_mutex_lock(&l->lock);
    l->n_written++;
    if (lane->rc) l->failed = l->ended = 1;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return lane->rc != 0;
}

static void run(struct lane *lane) {
    uint64_t number;
    for (int rc; (rc = read_window(lane, &number)) != 0;) {
        if (rc < 0)
            lane->n = 0;
        else
            rc = translate(lane);
        if (write_window(lane, number, rc)) return;
    }
}

static void *run_another(void *arg) {
    struct lane *lane = arg;
    const struct lanes_setup *setup = lane->all->setup;
    struct engine *engine;
    struct err err;
    if (engine_again(&engine, setup->engine, setup->where, &err)) return NULL;
    if (lane_open(lane, lane->all, engine, &err) == 0) run(lane);
    return NULL;
}

int lanes_fill(struct lanes *l, struct feed *feed, int *full, struct err *err) {
    int n = feed_fill(feed, l->window, err);
    *full = grow(l, n);
    return n;
}

int lanes_window(struct lanes *l, const struct feed_line *line, int n,
                 const struct lanes_writer *writer, struct err *err) {
    struct lane *lane = &l->lane[0];
    take_window(lane, line, n);
    int rc = translate(lane);
    take_stats(lane);
    int write_rc = writer->call(writer->ctx, lane->line, lane->result, n, err);
    if (!write_rc && rc) *err = lane->err;
    return write_rc ? write_rc : rc;
}

int lanes_run(struct lanes *l, struct feed *feed, const struct lanes_writer *writer,
              struct err *err) {
    l->feed = feed;
    l->writer = writer;
    run(&l->lane[0]);
    for (int i = 1; i <= l->n_started; i++) pthread_join(l->lane[i].thread, NULL);
    for (int i = 0; i <= l->n_started; i++) {
        if (!l->lane[i].rc) continue;
        *err = l->lane[i].err;
        return l->lane[i].rc;
    }
    return 0;
}
