/* metrics.c — see metrics.h. */
#include "serve/metrics.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

enum { ROUTES = 32, STATUSES = 24, BUCKETS = 14 };

static const double bound[BUCKETS] = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                      0.25,  0.5,    1,     2.5,  5,     10,   30};

struct of_route {
    const char *route;
    struct {
        int status;
        uint64_t n;
    } by_status[STATUSES];
    uint64_t bucket[BUCKETS + 1], n;
    double seconds;
};

struct metrics {
    struct of_route route[ROUTES];
};

struct metrics *metrics_new(void) {
    return xcalloc(1, sizeof(struct metrics));
}
void metrics_free(struct metrics *m) { xfree(m); }

void metrics_count(struct metrics *m, const struct http_exchange *x) {
    const char *route = x->route ? x->route : "other";
    int i = 0, k = 0, b = 0;
    while (i < ROUTES - 1 && m->route[i].route && strcmp(m->route[i].route, route) != 0) i++;
    struct of_route *r = &m->route[i];
    if (!r->route) r->route = route;
    int status = x->lost ? 499 : x->status;
    while (k < STATUSES - 1 && r->by_status[k].status && r->by_status[k].status != status) k++;
    r->by_status[k].status = status;
    r->by_status[k].n++;
    if (x->lost) return; /* how long nobody waited says nothing */
    while (b < BUCKETS && x->took > bound[b]) b++;
    r->bucket[b]++;
    r->n++;
    r->seconds += x->took;
}

/* ---- text ------------------------------------------------------------------------------------ */

struct text {
    char *at;
    size_t n, cap;
};

__attribute__((format(printf, 2, 3))) static void say(struct text *t, const char *fmt, ...) {
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (t->n + (size_t)n + 1 > t->cap) {
        t->cap = 2 * (t->n + (size_t)n + 1);
        t->at = xrealloc(t->at, t->cap);
    }
    vsnprintf(t->at + t->n, (size_t)n + 1, fmt, again);
    t->n += (size_t)n;
    va_end(again);
    va_end(args);
}

static void head(struct text *t, const char *name, const char *kind, const char *help) {
    say(t, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind);
}

static void value(struct text *t, const char *name, const char *kind, const char *help, double v) {
    head(t, name, kind, help);
    say(t, "%s %.17g\n", name, v);
}

static void requests(struct text *t, const struct metrics *m) {
    head(t, "heed_http_requests_total", "counter", "Requests by route and status; 499: hung up.");
    for (int i = 0; i < ROUTES && m->route[i].route; i++)
        for (int k = 0; k < STATUSES && m->route[i].by_status[k].n; k++)
            say(t, "heed_http_requests_total{route=\"%s\",status=\"%d\"} %llu\n", m->route[i].route,
                m->route[i].by_status[k].status, (unsigned long long)m->route[i].by_status[k].n);
    head(t, "heed_http_request_seconds", "histogram",
         "From a whole request to the last byte of its answer.");
    for (int i = 0; i < ROUTES && m->route[i].route; i++) {
        const struct of_route *r = &m->route[i];
        uint64_t n = 0;
        for (int b = 0; b < BUCKETS; b++) {
            n += r->bucket[b];
            say(t, "heed_http_request_seconds_bucket{route=\"%s\",le=\"%g\"} %llu\n", r->route,
                bound[b], (unsigned long long)n);
        }
        say(t,
            "heed_http_request_seconds_bucket{route=\"%s\",le=\"+Inf\"} %llu\n"
            "heed_http_request_seconds_sum{route=\"%s\"} %.9g\n"
            "heed_http_request_seconds_count{route=\"%s\"} %llu\n",
            r->route, (unsigned long long)r->n, r->route, r->seconds, r->route,
            (unsigned long long)r->n);
    }
}

static void connections(struct text *t, const struct http_stats *h) {
    value(t, "heed_http_connections", "gauge", "Connections that are open.", h->connections);
    value(t, "heed_http_connections_idle", "gauge", "Those between two requests.", h->idle);
    value(t, "heed_http_active", "gauge", "Requests being received, answered or sent.", h->active);
    value(t, "heed_http_accepted_total", "counter", "Connections accepted.", (double)h->accepted);
    value(t, "heed_http_turned_away_total", "counter", "Connections refused for want of room.",
          (double)h->turned_away);
    value(t, "heed_http_refused_total", "counter", "Requests that were malformed or too large.",
          (double)h->refused);
    value(t, "heed_http_timeouts_total", "counter", "Connections closed for being too slow.",
          (double)h->timeouts);
    value(t, "heed_http_hangups_total", "counter", "Clients that left before their answer.",
          (double)h->hangups);
    value(t, "heed_http_received_bytes_total", "counter", "Bytes received.", (double)h->bytes_in);
    value(t, "heed_http_sent_bytes_total", "counter", "Bytes sent.", (double)h->bytes_out);
    value(t, "heed_http_buffered_bytes", "gauge", "Bodies of requests in memory.",
          (double)h->buffered);
}

static void translation(struct text *t, struct desk *desk) {
    static const char *const ended[] = {"running",  "done",    "cancelled",
                                        "deadline", "refused", "failed"};
    static const char *const turned[] = {"accepted", "full", "draining", "wrong"};
    struct desk_stats s = desk_stats(desk);
    value(t, "heed_jobs", "gauge", "Translations accepted and not done.", s.jobs);
    value(t, "heed_queued_bytes", "gauge", "Bytes of their texts.", (double)s.queued_bytes);
    value(t, "heed_sentences_in_work", "gauge", "Sentences in the running searches.", s.seated);
    value(t, "heed_engines", "gauge", "Models that are running.", s.engines);
    head(t, "heed_jobs_total", "counter", "Translations by how they ended.");
    for (int i = DESK_DONE; i <= DESK_FAILED; i++)
        say(t, "heed_jobs_total{end=\"%s\"} %llu\n", ended[i], (unsigned long long)s.ended[i]);
    head(t, "heed_orders_total", "counter", "Translations asked for, by what became of them.");
    for (int i = 0; i <= DESK_WRONG; i++)
        say(t, "heed_orders_total{turn=\"%s\"} %llu\n", turned[i], (unsigned long long)s.turned[i]);
    value(t, "heed_sentences_total", "counter", "Sentences translated.", (double)s.sentences);
    value(t, "heed_source_tokens_total", "counter", "Tokens read.", (double)s.src_tokens);
    value(t, "heed_target_tokens_total", "counter", "Tokens written.", (double)s.tgt_tokens);
    value(t, "heed_encoder_passes_total", "counter", "Passes of the encoder.", (double)s.passes);
    value(t, "heed_busy_seconds_total", "counter", "Seconds that engines were busy.", s.seconds);
    head(t, "heed_step_rows", "histogram", "Rows of a step of the decoder: the batch size.");
    uint64_t n = 0;
    for (int i = 0; i < DESK_BUCKETS; i++) {
        n += s.rows_of[i];
        if (i < DESK_BUCKETS - 1)
            say(t, "heed_step_rows_bucket{le=\"%d\"} %llu\n", 1 << i, (unsigned long long)n);
    }
    say(t, "heed_step_rows_bucket{le=\"+Inf\"} %llu\nheed_step_rows_sum %llu\n",
        (unsigned long long)n, (unsigned long long)s.rows);
    say(t, "heed_step_rows_count %llu\n", (unsigned long long)n);
}

static void process(struct text *t) {
    long pages = 0, dummy = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%ld %ld", &dummy, &pages) != 2) pages = 0;
    if (f) fclose(f);
    value(t, "process_resident_memory_bytes", "gauge", "Memory of the process.",
          (double)pages * (double)sysconf(_SC_PAGESIZE));
}

char *metrics_text(const struct metrics *m, const struct http_stats *http, struct desk *desk,
                   size_t *size) {
    struct text t = {0};
    requests(&t, m);
    connections(&t, http);
    if (desk) translation(&t, desk);
    process(&t);
    *size = t.n;
    return t.at;
}
