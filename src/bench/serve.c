/* serve.c — what a desk (src/serve) makes of a model: many clients with one sentence each, against
 * translating the same sentences as a file; a short request alone and beside a large job; what a
 * cancelled job still costs. No network: requests are calls.
 *
 * The comparison with a file is the translator's best case, all sentences known beforehand and
 * sorted by length; a desk sees them as they come. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "bench/bench.h"
#include "data/text.h"
#include "search/defaults.h"
#include "serve/desk.h"

struct bench {
    const struct bench_serve_options *o;
    struct desk_text *line; /* [n] */
    int n;
    struct desk *desk;
    atomic_int next, failed;
    int last;     /* sentences of this part */
    double *took; /* [n] seconds */
};

/* ---- sentences ------------------------------------------------------------------------------- */

static int read_lines(struct bench *b, struct err *err) {
    struct text *file;
    struct line line;
    int rc = text_open(&file, b->o->input, err);
    if (rc) return rc;
    b->line = xcalloc((size_t)b->o->sentences, sizeof *b->line);
    while (b->n < b->o->sentences && (rc = text_next(file, &line, err)) > 0)
        if (line.size) {
            char *copy = xmalloc(line.size);
            memcpy(copy, line.text, line.size);
            b->line[b->n++] = (struct desk_text){.text = copy, .size = line.size};
        }
    text_close(file);
    if (rc >= 0 && b->n == 0)
        return err_set(err, HEED_EINVAL, "%.180s: no sentence in it", b->o->input);
    b->took = xcalloc((size_t)b->n, sizeof *b->took);
    return rc < 0 ? rc : 0;
}

/* ---- as a file ------------------------------------------------------------------------------- */

static int as_a_file(const struct bench *b, double *seconds, struct err *err) {
    struct engine *engine;
    struct engine_options from = {
        .dir = &b->o->model, .n = 1, .precision = b->o->precision, .where = b->o->where};
    int rc = engine_open(&engine, &from, err);
    if (rc) return rc;
    struct translator_options options = defaults_of(engine);
    struct translator *t = translator_new(engine);
    struct translator_input *in = xcalloc((size_t)b->n, sizeof *in);
    struct translation *out = xcalloc((size_t)b->n, sizeof *out);
    for (int i = 0; i < b->n; i++)
        in[i] = (struct translator_input){
            .text = b->line[i].text, .size = b->line[i].size, .name = "line", .number = 1};
    rc = translator_set(t, &options, err);
    if (!rc) rc = translator_run(t, in, min_int(b->n, 8), out, NULL, err); /* warm */
    double begin = clock_seconds();
    if (!rc) rc = translator_run(t, in, b->n, out, NULL, err);
    *seconds = clock_seconds() - begin;
    xfree(in);
    xfree(out);
    translator_free(t);
    engine_close(engine);
    return rc;
}

/* ---- clients --------------------------------------------------------------------------------- */

struct client {
    struct bench *bench;
    uint64_t number;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t heard;
    int done;
};

static void hear(void *ctx, struct desk_job *job) {
    struct client *c = ctx;
    (void)job;
    pthread_mutex_lock(&c->lock);
    c->done = 1;
    pthread_cond_signal(&c->heard);
    pthread_mutex_unlock(&c->lock);
}

static void wait_for(struct client *c) {
    pthread_mutex_lock(&c->lock);
    while (!c->done) pthread_cond_wait(&c->heard, &c->lock);
    c->done = 0;
    pthread_mutex_unlock(&c->lock);
}

static struct desk_job *submit(struct client *c, const struct desk_text *text, int n) {
    struct desk_job *job;
    struct desk_order order = {.text = text,
                               .n = n,
                               .source = "x",
                               .target = "y",
                               .format = DESK_LINE,
                               .client = c->number,
                               .done = hear,
                               .ctx = c};
    return desk_submit(c->bench->desk, &order, &job, NULL) == DESK_ACCEPTED ? job : NULL;
}

/* One sentence after another, until all are taken. */
static void *client_main(void *arg) {
    struct client *c = arg;
    struct bench *b = c->bench;
    for (int i; (i = atomic_fetch_add(&b->next, 1)) < b->last;) {
        double begin = clock_seconds();
        struct desk_job *job = submit(c, &b->line[i], 1);
        if (job) wait_for(c);
        b->took[i] = clock_seconds() - begin;
        if (!job || desk_status(job) != DESK_DONE) atomic_fetch_add(&b->failed, 1);
        if (job) desk_release(job);
    }
    return NULL;
}

static struct client *clients_new(struct bench *b, int n) {
    struct client *c = xcalloc((size_t)n, sizeof *c);
    for (int i = 0; i < n; i++) {
        c[i].bench = b;
        c[i].number = (uint64_t)i;
        pthread_mutex_init(&c[i].lock, NULL);
        pthread_cond_init(&c[i].heard, NULL);
    }
    return c;
}

/* The first n sentences by so many clients; the seconds that took. */
static int serve(struct bench *b, int n_client, int n, double *seconds, struct err *err) {
    struct client *c = clients_new(b, n_client);
    int started = 0;
    atomic_store(&b->next, 0);
    b->last = n;
    double begin = clock_seconds();
    while (started < n_client &&
           !pthread_create(&c[started].thread, NULL, client_main, &c[started]))
        started++;
    for (int i = 0; i < started; i++) pthread_join(c[i].thread, NULL);
    *seconds = clock_seconds() - begin;
    xfree(c);
    if (atomic_load(&b->failed))
        return err_set(err, HEED_EINTERNAL, "%d orders failed", atomic_load(&b->failed));
    return started < n_client ? err_set(err, HEED_ENOMEM, "only %d threads", started) : 0;
}

/* ---- report ---------------------------------------------------------------------------------- */

static int by_time(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

struct times {
    double p50, p99;
};

static struct times times_of(struct bench *b, int n) {
    qsort(b->took, (size_t)n, sizeof *b->took, by_time);
    return (struct times){b->took[n / 2], b->took[min_int(n - 1, n * 99 / 100)]};
}

static void print_row(const struct bench *b, const char *what, double rate, struct times t) {
    if (b->o->json)
        printf("{\"what\": \"%s\", \"per_second\": %.2f, \"p50_ms\": %.2f, \"p99_ms\": %.2f}\n",
               what, rate, 1e3 * t.p50, 1e3 * t.p99);
    else
        printf("%-28s %10.2f %10.1f %10.1f\n", what, rate, 1e3 * t.p50, 1e3 * t.p99);
    fflush(stdout);
}

/* A short request at a time beside one job of all sentences many times over, which is cancelled in
 * the end. */
static int beside(struct bench *b, int n_short, struct times *t, double *stop, uint64_t *steps,
                  struct err *err) {
    struct client *big = clients_new(b, 1);
    int n = b->o->bulk;
    struct desk_text *many = xcalloc((size_t)n, sizeof *many);
    double seconds;
    big->number = 1u << 20;
    for (int i = 0; i < n; i++) many[i] = b->line[i % b->n];
    struct desk_job *job = submit(big, many, n);
    int rc = job ? 0 : err_set(err, HEED_ELIMIT, "a job of %d sentences is refused", n);
    struct timespec pause = {1, 0};
    nanosleep(&pause, NULL); /* until it is well under way */
    if (!rc) rc = serve(b, 1, n_short, &seconds, err);
    *t = times_of(b, n_short);
    if (job) {
        uint64_t before = desk_stats(b->desk).steps;
        double begin = clock_seconds();
        if (desk_status(job) != DESK_RUNNING && !rc)
            rc = err_set(err, HEED_EINVAL, "a job of %d sentences ended before the short ones", n);
        desk_cancel(job);
        wait_for(big);
        *stop = clock_seconds() - begin;
        *steps = desk_stats(b->desk).steps - before;
        desk_release(job);
    }
    xfree(many);
    xfree(big);
    return rc;
}

static int measure(struct bench *b, double file, struct err *err) {
    int n_short = min_int(b->n, 60), few = min_int(b->o->clients, 8);
    double seconds;
    struct times alone, t;
    if (!b->o->json) printf("%-28s %10s %10s %10s\n", "", "per second", "p50 ms", "p99 ms");
    print_row(b, "a file", b->n / file, (struct times){0});
    int rc = serve(b, b->o->clients, min_int(b->n, 2 * b->o->clients), &seconds, err); /* warm */
    if (!rc) rc = serve(b, b->o->clients, b->n, &seconds, err);
    if (rc) return rc;
    char name[40];
    snprintf(name, sizeof name, "%d clients", b->o->clients);
    print_row(b, name, b->n / seconds, times_of(b, b->n));
    double ratio = file / seconds;
    if ((rc = serve(b, few, n_short, &seconds, err))) return rc;
    snprintf(name, sizeof name, "%d clients", few);
    print_row(b, name, n_short / seconds, times_of(b, n_short));
    if ((rc = serve(b, 1, n_short, &seconds, err))) return rc;
    alone = times_of(b, n_short);
    print_row(b, "one client", n_short / seconds, alone);
    double stop = 0;
    uint64_t steps = 0;
    if ((rc = beside(b, n_short, &t, &stop, &steps, err))) return rc;
    print_row(b, "one beside a large job", 0, t);
    struct desk_stats s = desk_stats(b->desk);
    printf(b->o->json ? "{\"of_a_file\": %.3f, \"beside_p99\": %.2f, \"steps_after_cancel\": %llu, "
                        "\"cancel_ms\": %.2f, \"rows_per_step\": %.1f, \"peak_mb\": %.0f}\n"
                      : "clients/file %.3f; p99 beside a large job %.2f times that alone; %llu "
                        "steps and %.1f ms after a cancel; %.1f rows a step; %.0f MB\n",
           ratio, t.p99 / alone.p99, (unsigned long long)steps, 1e3 * stop,
           (double)s.rows / (double)s.steps, bench_peak_mb());
    return 0;
}

int bench_serve_run(const struct bench_serve_options *o, struct err *err) {
    struct bench b = {.o = o};
    struct desk_model model = {"x", "y", o->model};
    struct desk_options options = {.model = &model,
                                   .n_model = 1,
                                   .where = o->where,
                                   .precision = o->precision,
                                   .seats = o->seats,
                                   .busy_rows = o->busy_rows};
    double file = 0;
    int rc = read_lines(&b, err);
    if (!rc) rc = as_a_file(&b, &file, err);
    if (!rc) rc = desk_open(&b.desk, &options, err);
    if (!rc) rc = measure(&b, file, err);
    desk_close(b.desk);
    for (int i = 0; i < b.n; i++) xfree((char *)(uintptr_t)b.line[i].text);
    xfree(b.line);
    xfree(b.took);
    return rc;
}
