/* metrics.h — what happened, in the text format of Prometheus. The server's thread only. */
#ifndef SERVE_METRICS_H
#define SERVE_METRICS_H

#include "serve/desk.h"
#include "serve/http.h"

struct metrics;
struct metrics *metrics_new(void);
void metrics_free(struct metrics *metrics);

/* A request has ended. Its route must be a constant string. */
void metrics_count(struct metrics *metrics, const struct http_exchange *x);

/* desk may be NULL. xfree. */
char *metrics_text(const struct metrics *metrics, const struct http_stats *http, struct desk *desk,
                   size_t *size);

#endif
