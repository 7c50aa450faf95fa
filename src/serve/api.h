/* api.h — what `heed serve` answers: LibreTranslate's API and more under /heed/ (docs/serve.md).
 *
 * Everything runs in the server's thread (http.h), but for api_ready, api_reload and what their
 * comments say. One table (routes.h) says what there is. */
#ifndef SERVE_API_H
#define SERVE_API_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/options.h"
#include "serve/access.h"
#include "serve/body.h"
#include "serve/desk.h"
#include "serve/http.h"
#include "serve/keys.h"
#include "serve/languages.h"
#include "serve/limits.h"
#include "serve/metrics.h"
#include "serve/store.h"

struct api_options {
    int char_limit;   /* characters of one text; 0: any */
    int batch_limit;  /* texts of one request; 0: any */
    int alternatives; /* at most */
    int req_limit;    /* requests a minute and client; 0: any */
    int flood;        /* refusals until a client is shut out; 0: never */
    int deadline;     /* seconds for a request; 0: any */
    const char *keys_file;
    int require_key;
    const char *key_url;
    int metrics;
    const char *metrics_token;
    const char *suggest_file;    /* NULL: suggestions are refused */
    const char *source, *target; /* that the page begins with; NULL: auto, and the first there is */
    int page;                    /* serve it */
    int files;                   /* translate them, too */
};

struct api {
    struct api_options options;
    struct http_server *http;
    _Atomic(struct desk *) desk; /* NULL: the models are being opened */
    atomic_int stale;            /* the languages are to be asked for again */
    struct languages languages;
    struct limits *limits;
    struct metrics *metrics;
    struct access *access; /* NULL: no log */
    pthread_mutex_t lock;  /* of keys */
    struct keys *keys;
    struct store store; /* files that were translated */
    int n_upload;       /* files in work */
    double begun;
};

int api_open(struct api **api, const struct api_options *options, struct err *err);
void api_close(struct api *api);

/* For http_options. */
void api_handle(void *ctx, struct http_exchange *x);
void api_log(void *ctx, const struct http_exchange *x);

/* From any thread. The desk is open, or has other models. Reads the keys' file again: on error
 * those before stay. */
void api_ready(struct api *api, struct desk *desk);
int api_reload_keys(struct api *api, struct err *err);

/* ---- for handlers ---------------------------------------------------------------------------- */

const struct languages *api_languages(struct api *api);
struct desk *api_desk(struct api *api);

/* The value as JSON as LibreTranslate writes it: compact, keys sorted, a line end. Takes the
 * reference. */
void api_answer(struct http_exchange *x, int status, json_t *value);
void api_refuse(struct http_exchange *x, int status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* With Retry-After. */
void api_later(struct http_exchange *x, int status, int seconds, const char *message);

json_t *api_text(const char *text, size_t size);

/* Who asks, and may they? 0, or it has been refused. */
struct api_caller {
    uint64_t client;
    int per_minute;
};
int api_admit(struct api *api, struct http_exchange *x, const struct body *body,
              struct api_caller *caller);

/* Room for a request of so many texts, of which one is paid for already; 0, or refused. */
int api_charge(struct api *api, struct http_exchange *x, const struct api_caller *caller,
               int texts);

/* The request's fields; 0, or refused. */
int api_body(struct body *body, struct http_exchange *x);

/* ---- handlers -------------------------------------------------------------------------------- */

void api_translate(struct api *api, struct http_exchange *x);
void api_stream(struct api *api, struct http_exchange *x);
void api_align(struct api *api, struct http_exchange *x);
void api_attention(struct api *api, struct http_exchange *x);
void api_score(struct api *api, struct http_exchange *x);
void api_translate_file(struct api *api, struct http_exchange *x);
void api_download_file(struct api *api, struct http_exchange *x);
void api_detect(struct api *api, struct http_exchange *x);
void api_list_languages(struct api *api, struct http_exchange *x);
void api_settings(struct api *api, struct http_exchange *x);
void api_health(struct api *api, struct http_exchange *x);
void api_metrics(struct api *api, struct http_exchange *x);
void api_suggest(struct api *api, struct http_exchange *x);
void api_spec(struct api *api, struct http_exchange *x);

#endif
