/* api.c — see api.h: what all handlers share. */
#include "serve/api.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "io/json.h"

enum { JSON_STYLE = JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(9) };

int api_open(struct api **api, const struct api_options *options, struct err *err) {
    struct api *a = *api = xcalloc(1, sizeof *a);
    a->options = *options;
    atomic_init(&a->desk, NULL);
    atomic_init(&a->stale, 0);
    pthread_mutex_init(&a->lock, NULL);
    a->limits = limits_new(options->req_limit, options->flood);
    a->metrics = metrics_new();
    a->begun = clock_seconds();
    int rc = options->keys_file ? api_reload_keys(a, err) : 0;
    if (!rc) return 0;
    api_close(a);
    *api = NULL;
    return rc;
}

void api_close(struct api *a) {
    if (!a) return;
    languages_release(&a->languages);
    limits_free(a->limits);
    metrics_free(a->metrics);
    keys_free(a->keys);
    store_release(&a->store);
    pthread_mutex_destroy(&a->lock);
    xfree(a);
}

void api_ready(struct api *a, struct desk *desk) {
    atomic_store(&a->desk, desk);
    atomic_store(&a->stale, 1);
}

int api_reload_keys(struct api *a, struct err *err) {
    struct keys *keys;
    if (!a->options.keys_file) return 0;
    int rc = keys_read(&keys, a->options.keys_file, err);
    if (rc) return rc;
    pthread_mutex_lock(&a->lock);
    struct keys *before = a->keys;
    a->keys = keys;
    pthread_mutex_unlock(&a->lock);
    keys_free(before);
    return 0;
}

struct desk *api_desk(struct api *a) {
    return atomic_load(&a->desk);
}

const struct languages *api_languages(struct api *a) {
    struct desk *desk = api_desk(a);
    if (desk && atomic_exchange(&a->stale, 0)) {
        languages_release(&a->languages);
        languages_load(&a->languages, desk);
    }
    return &a->languages;
}

void api_log(void *ctx, const struct http_exchange *x) {
    struct api *a = ctx;
    if (!x->status && !x->head.method[0]) return; /* a connection that ended in mid-request */
    metrics_count(a->metrics, x);
    if (a->access) access_line(a->access, x);
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answer(struct http_exchange *x, int status, const char *headers, json_t *value) {
    size_t size = json_dumpb(value, NULL, 0, JSON_STYLE);
    char *text = xmalloc(size + 1);
    json_dumpb(value, text, size, JSON_STYLE);
    text[size] = '\n';
    json_decref(value);
    http_answer(x, &(struct http_answer){.status = status,
                                         .type = "application/json",
                                         .headers = headers,
                                         .body = text,
                                         .size = size + 1,
                                         .owned = text});
}

void api_answer(struct http_exchange *x, int status, json_t *value) {
    answer(x, status, NULL, value);
}

static json_t *error_of(const char *message) {
    return json_pack("{s:o}", "error", json_out_string(message));
}

void api_refuse(struct http_exchange *x, int status, const char *fmt, ...) {
    char message[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    answer(x, status, NULL, error_of(message));
}

void api_later(struct http_exchange *x, int status, int seconds, const char *message) {
    char headers[48];
    snprintf(headers, sizeof headers, "Retry-After: %d\r\n", seconds);
    answer(x, status, headers, error_of(message));
}

json_t *api_text(const char *text, size_t size) {
    json_t *value = json_stringn(text, size);
    if (value) return value;
    char *clean = xmalloc(3 * size + 1);
    uint64_t n = 0;
    size = utf8_clean(clean, text, size, &n);
    value = json_stringn(clean, size);
    xfree(clean);
    return value;
}

/* ---- callers --------------------------------------------------------------------------------- */

int api_body(struct body *body, struct http_exchange *x) {
    const char *why;
    int rc = body_read(body,
                       &(struct body_source){.type = http_header(&x->head, "content-type"),
                                             .query = x->head.query,
                                             .content = {x->body, x->n_body}},
                       &why);
    if (!rc) return 0;
    body_release(body);
    api_refuse(x, rc, "%s", why);
    return rc;
}

/* Takes a caller's tokens. */
static int take(struct api *a, struct http_exchange *x, const struct api_caller *caller, int cost) {
    int wait, most = caller->per_minute < 0 ? a->options.req_limit : caller->per_minute;
    char message[64];
    switch (
        limits_take(a->limits, caller->client, cost, caller->per_minute, clock_seconds(), &wait)) {
    case LIMITS_OK:
        return 0;
    case LIMITS_SHUT_OUT:
        api_refuse(x, 403, "Too many request limits violations");
        return 403;
    default:
        snprintf(message, sizeof message, "Slowdown: %d per 1 minute", most);
        api_later(x, 429, wait, message);
        return 429;
    }
}

/* The key that was shown: 1 valid, 0 none, -1 not valid. */
static int look_up(struct api *a, const struct body *body, struct api_caller *caller) {
    struct body_text text;
    int rc = body_string(body, "api_key", &text), valid = -1;
    if (rc > 0 || !a->options.keys_file) return 0;
    if (rc < 0) return -1;
    pthread_mutex_lock(&a->lock);
    const struct key *key = keys_find(a->keys, text.text, text.size);
    if (key) {
        char name[2 * DIGEST_SIZE + 1];
        for (int i = 0; i < DIGEST_SIZE; i++)
            snprintf(name + (size_t)i * 2, 3, "%02x", key->digest[i]);
        caller->client = limits_client(a->limits, "", name);
        caller->per_minute = key->per_minute;
        valid = 1;
    }
    pthread_mutex_unlock(&a->lock);
    return valid;
}

int api_admit(struct api *a, struct http_exchange *x, const struct body *body,
              struct api_caller *caller) {
    *caller = (struct api_caller){limits_client(a->limits, x->client, NULL), -1};
    if (limits_is_shut_out(a->limits, caller->client, clock_seconds())) {
        api_refuse(x, 403, "Too many request limits violations");
        return 403;
    }
    int key = look_up(a, body, caller);
    int rc = take(a, x, caller, 1); /* guessing keys costs, too */
    if (rc) return rc;
    if (key < 0) {
        api_refuse(x, 403, "Invalid API key");
        return 403;
    }
    if (key > 0 || !a->options.require_key) return 0;
    if (a->options.key_url)
        api_refuse(x, 400, "Visit %.200s to get an API key", a->options.key_url);
    else
        api_refuse(x, 400, "Please contact the server operator to get an API key");
    return 400;
}

int api_charge(struct api *a, struct http_exchange *x, const struct api_caller *caller, int texts) {
    return texts > 1 ? take(a, x, caller, texts - 1) : 0;
}
