/* serve.c — what a desk (src/serve) makes of a model: many clients with one sentence each, against
 * translating the same sentences as a file; all of them as one list; a short request alone and
 * beside a large job; what a cancelled job still costs. No network: requests are calls.
 *
 * The comparison with a file is the translator's best case, all sentences known beforehand and
 * sorted by length; a desk sees them as they come. On a machine that others use, too, seconds say
 * little; processor time, which is given beside them, says more. */
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
    double *cpu;  /* [n] processor time of all threads meanwhile */
};

/* What a part took. */
struct span_of_time {
    double seconds, cpu;
};
static struct span_of_time now(void) {
    return (struct span_of_time){clock_seconds(), clock_cpu_seconds()};
}
static struct span_of_time since(struct span_of_time t) {
    return (struct span_of_time){clock_seconds() - t.seconds, clock_cpu_seconds() - t.cpu};
}

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
    b->cpu = xcalloc((size_t)b->n, sizeof *b->cpu);
    return rc < 0 ? rc : 0;
}

/* ---- as a file ------------------------------------------------------------------------------- */

static int as_a_file(const struct bench *b, struct span_of_time *took, struct err *err) {
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
    struct span_of_time begin = now();
    if (!rc) rc = translator_run(t, in, b->n, out, NULL, err);
    *took = since(begin);
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
        struct span_of_time begin = now();
        struct desk_job *job = submit(c, &b->line[i], 1);
        if (job) wait_for(c);
        b->took[i] = since(begin).seconds;
        b->cpu[i] = since(begin).cpu;
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

/* The first n sentences by so many clients. */
static int serve(struct bench *b, int n_client, int n, struct span_of_time *took, struct err *err) {
    struct client *c = clients_new(b, n_client);
    int started = 0;
    atomic_store(&b->next, 0);
    b->last = n;
    struct span_of_time begin = now();
    while (started < n_client &&
           !pthread_create(&c[started].thread, NULL, client_main, &c[started]))
        started++;
    for (int i = 0; i < started; i++) pthread_join(c[i].thread, NULL);
    *took = since(begin);
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
    double p50, p99, cpu99;
};

static struct times times_of(struct bench *b, int n) {
    int late = min_int(n - 1, n * 99 / 100);
    qsort(b->took, (size_t)n, sizeof *b->took, by_time);
    qsort(b->cpu, (size_t)n, sizeof *b->cpu, by_time);
    return (struct times){b->took[n / 2], b->took[late], b->cpu[late]};
}

/* n sentences. */
static void print_row(const struct bench *b, const char *what, int n, struct span_of_time took,
                      struct times t) {
    double rate = n / took.seconds, each = 1e3 * took.cpu / n;
    if (b->o->json)
        printf("{\"what\": \"%s\", \"per_second\": %.2f, \"cpu_ms\": %.2f, \"p50_ms\": %.2f, "
               "\"p99_ms\": %.2f}\n",
               what, rate, each, 1e3 * t.p50, 1e3 * t.p99);
    else
        printf("%-26s %10.2f %10.1f %10.1f %10.1f\n", what, rate, each, 1e3 * t.p50, 1e3 * t.p99);
    fflush(stdout);
}

/* A short request at a time beside one job of all sentences many times over, which is cancelled in
 * the end. */
struct company {
    struct span_of_time took;
    struct times times;
    double stop;    /* seconds until the large one heard */
    uint64_t steps; /* meanwhile */
};

static int beside(struct bench *b, int n_short, struct company *out, struct err *err) {
    struct client *big = clients_new(b, 1);
    int n = b->o->bulk;
    struct desk_text *many = xcalloc((size_t)n, sizeof *many);
    big->number = 1u << 20;
    for (int i = 0; i < n; i++) many[i] = b->line[i % b->n];
    struct desk_job *job = submit(big, many, n);
    int rc = job ? 0 : err_set(err, HEED_ELIMIT, "a job of %d sentences is refused", n);
    struct timespec pause = {1, 0};
    nanosleep(&pause, NULL); /* until it is well under way */
    if (!rc) rc = serve(b, 1, n_short, &out->took, err);
    out->times = times_of(b, n_short);
    if (job) {
        uint64_t before = desk_stats(b->desk).steps;
        double begin = clock_seconds();
        if (desk_status(job) != DESK_RUNNING && !rc)
            rc = err_set(err, HEED_EINVAL, "a job of %d sentences ended before the short ones", n);
        desk_cancel(job);
        wait_for(big);
        out->stop = clock_seconds() - begin;
        out->steps = desk_stats(b->desk).steps - before;
        desk_release(job);
    }
    xfree(many);
    xfree(big);
    return rc;
}

/* All sentences as one job. */
static int as_a_list(struct bench *b, struct err *err) {
    struct client *c = clients_new(b, 1);
    struct span_of_time begin = now();
    struct desk_job *job = submit(c, b->line, b->n);
    if (job) wait_for(c);
    struct span_of_time took = since(begin);
    int rc = job && desk_status(job) == DESK_DONE
                 ? 0
                 : err_set(err, HEED_EINTERNAL, "a job of %d sentences failed", b->n);
    if (job) desk_release(job);
    xfree(c);
    if (!rc) print_row(b, "a list", b->n, took, (struct times){0});
    return rc;
}

/* The first n sentences by so many clients, as a row. */
static int row_of(struct bench *b, int n_client, int n, struct span_of_time *took, struct times *t,
                  struct err *err) {
    char name[40];
    int rc = serve(b, n_client, n, took, err);
    if (rc) return rc;
    snprintf(name, sizeof name, "%d client%s", n_client, PLURAL(n_client));
    *t = times_of(b, n);
    print_row(b, name, n, *took, *t);
    return 0;
}

static int measure(struct bench *b, struct span_of_time file, struct err *err) {
    int n_short = min_int(b->n, 60), n_client = b->o->clients;
    struct span_of_time took, all;
    struct times t, alone;
    struct company large = {.steps = 0};
    if (!b->o->json)
        printf("%-26s %10s %10s %10s %10s\n", "", "per second", "cpu ms", "p50 ms", "p99 ms");
    print_row(b, "a file", b->n, file, (struct times){0});
    int rc = serve(b, n_client, min_int(b->n, 2 * n_client), &took, err); /* warm */
    if (!rc) rc = row_of(b, n_client, b->n, &all, &t, err);
    if (!rc) rc = as_a_list(b, err);
    if (!rc) rc = row_of(b, 8, n_short, &took, &t, err);
    if (!rc) rc = row_of(b, 1, n_short, &took, &alone, err);
    if (!rc) rc = beside(b, n_short, &large, err);
    if (rc) return rc;
    print_row(b, "1 client, a large job", n_short, large.took, large.times);
    struct desk_stats s = desk_stats(b->desk);
    printf(b->o->json ? "{\"of_a_file\": %.3f, \"of_a_file_cpu\": %.3f, \"beside_p99\": %.2f, "
                        "\"beside_p99_cpu\": %.2f, \"steps_after_cancel\": %llu, "
                        "\"cancel_ms\": %.2f, \"rows_per_step\": %.1f, \"peak_mb\": %.0f}\n"
                      : "clients as fast as a file: %.3f (processor time %.3f); p99 beside a large "
                        "job: %.2f times (%.2f); after a cancel: %llu steps, %.1f ms; %.1f rows a "
                        "step; %.0f MB\n",
           file.seconds / all.seconds, file.cpu / all.cpu, large.times.p99 / alone.p99,
           large.times.cpu99 / alone.cpu99, (unsigned long long)large.steps, 1e3 * large.stop,
           (double)s.rows / (double)s.steps, bench_peak_mb());
    return 0;
}

int bench_serve_run(const struct bench_serve_options *o, struct err *err) {
    struct bench b = {.o = o};
    struct desk_model model = {.source = "x", .target = "y", .dir = o->model};
    struct desk_options options = {.model = &model,
                                   .n_model = 1,
                                   .where = o->where,
                                   .precision = o->precision,
                                   .seats = o->seats,
                                   .busy_rows = o->busy_rows};
    struct span_of_time file = {0};
    int rc = read_lines(&b, err);
    if (!rc) rc = as_a_file(&b, &file, err);
    if (!rc) rc = desk_open(&b.desk, &options, err);
    if (!rc) rc = measure(&b, file, err);
    desk_close(b.desk);
    for (int i = 0; i < b.n; i++) xfree((char *)(uintptr_t)b.line[i].text);
    xfree(b.line);
    xfree(b.took);
    xfree(b.cpu);
    return rc;
}
