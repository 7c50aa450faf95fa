/* server.c — see server.h. */
#include "serve/server.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "search/glossary.h"
#include "serve/tls.h"

struct held {
    struct tls *tls;
    struct held *next;
};

struct server {
    struct server_options options;
    struct held *tls; /* the first is in use: sessions may hold the others */
    char *headers, *token;
    struct access *access;
    struct api *api;
    struct http_server *http;
    struct desk *desk;
};

/* ---- checking -------------------------------------------------------------------------------- */

/* The model whose terms "en-de=FILE" has. */
static int find_model(const struct server *s, const char *word, const char **path,
                      struct err *err) {
    char code[2][LANGUAGES_CODE];
    size_t size;
    const char *named = pairs_before(word, &size, path);
    if (!named && s->options.pairs.n == 1) return 0;
    if (!named)
        return err_set(err, HEED_EINVAL, "glossary: name the languages, as in en-de=%.120s", word);
    if (pairs_parse(code, named, size))
        return err_set(err, HEED_EINVAL, "glossary: '%.*s' is not a pair of languages like en-de",
                       (int)(size > 60 ? 60 : size), named);
    int i = pairs_model(&s->options.pairs, code[0], code[1]);
    if (i >= 0) return i;
    return err_set(err, HEED_EINVAL, "glossary: there is no model for %s-%s", code[0], code[1]);
}

/* Each is read once to see that it can be. */
static int find_glossaries(struct server *s, struct err *err) {
    const struct server_options *o = &s->options;
    for (int i = 0; i < o->n_glossary; i++) {
        const char *path;
        struct glossary *g;
        int k = find_model(s, o->glossary[i], &path, err);
        if (k < 0) return k;
        struct desk_model *m = &s->options.pairs.model[k];
        if (m->glossary)
            return err_set(err, HEED_EINVAL, "glossary: two for %s-%s: %.90s and %.90s", m->source,
                           m->target, m->glossary, path);
        m->glossary = path;
        int rc = glossary_open(&g, &(struct glossary_file){path, m->source, m->target, 0}, err);
        if (rc) return rc;
        glossary_free(g);
    }
    return 0;
}

/* A language that the page is to begin with: which models have it on that side? */
static int check_language(const struct server *s, const char *option, const char *word, int side,
                          struct err *err) {
    char code[LANGUAGES_CODE];
    if (!word || (!side && strcmp(word, "auto") == 0)) return 0;
    int found = languages_code(code, word, strlen(word)) ? -1 : 0;
    for (int i = 0; i < s->options.pairs.n && !found; i++) {
        const struct desk_model *m = &s->options.pairs.model[i];
        found = strcmp(side ? m->target : m->source, code) == 0;
    }
    if (found > 0) return 0;
    return err_set(err, HEED_EINVAL, "%s: no model translates %s '%.40s'", option,
                   side ? "into" : "from", word);
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Lines that every answer has. */
static char *headers_of(const char *origin) {
    static const char fixed[] = "X-Content-Type-Options: nosniff\r\n";
    size_t cap = sizeof fixed + strlen(origin) + 320;
    char *headers = xcalloc(cap, 1);
    int none = strcmp(origin, "none") == 0;
    snprintf(headers, cap, "%s%s%s%s", fixed,
             none ? "" : "Access-Control-Allow-Origin: ", none ? "" : origin,
             none ? ""
                  : "\r\nAccess-Control-Allow-Methods: GET, POST\r\n"
                    "Access-Control-Allow-Headers: Authorization, Content-Type\r\n"
                    "Access-Control-Expose-Headers: Retry-After\r\n"
                    "Access-Control-Max-Age: 1728000\r\n");
    return headers;
}

static int read_token(struct server *s, struct err *err) {
    size_t size;
    if (!s->options.metrics_token) return 0;
    int rc = file_read_all(&s->token, &size, s->options.metrics_token, 4096, err);
    if (rc) return rc;
    s->token[strcspn(s->token, "\r\n")] = 0;
    if (!*s->token) return err_set(err, HEED_EFORMAT, "%.200s is empty", s->options.metrics_token);
    s->options.api.metrics_token = s->token;
    s->options.api.metrics = 1;
    return 0;
}

static int open_tls(struct server *s, struct err *err) {
    if (!s->options.tls_cert) return 0;
    struct held *held = xcalloc(1, sizeof *held);
    int rc = tls_open(&held->tls, s->options.tls_cert, s->options.tls_key, err);
    if (rc) {
        xfree(held);
        return rc;
    }
    held->next = s->tls;
    s->tls = held;
    return 0;
}

static int open_http(struct server *s, struct err *err) {
    struct http_options o = s->options.http;
    o.tls = s->tls ? s->tls->tls : NULL;
    o.headers = s->headers;
    o.ctx = s->api;
    o.handle = api_handle;
    o.log = api_log;
    int rc = http_open(&s->http, &o, err);
    if (rc) return rc;
    s->api->http = s->http;
    s->api->access = s->access;
    return http_start(s->http, err);
}

int server_open(struct server **server, const struct server_options *options, struct err *err) {
    struct server *s = *server = xcalloc(1, sizeof *s);
    const struct server_options *o = &s->options;
    s->options = *options;
    s->headers = headers_of(o->cors);
    int rc = find_glossaries(s, err);
    if (!rc) rc = check_language(s, "frontend_source", o->api.source, 0, err);
    if (!rc) rc = check_language(s, "frontend_target", o->api.target, 1, err);
    if (!rc) rc = read_token(s, err);
    if (!rc) rc = tls_load(err); /* keys are compared by it, too */
    if (!rc) rc = open_tls(s, err);
    if (!rc && o->access_log)
        rc = access_open(&s->access, o->access_log, o->log_fd, o->log_texts, err);
    if (!rc) rc = api_open(&s->api, &o->api, err);
    return rc ? rc : open_http(s, err);
}

int server_ready(struct server *s, struct err *err) {
    s->options.desk.model = s->options.pairs.model;
    s->options.desk.n_model = s->options.pairs.n;
    int rc = desk_open(&s->desk, &s->options.desk, err);
    if (!rc) api_ready(s->api, s->desk);
    return rc;
}

void server_close(struct server *s) {
    if (!s) return;
    if (s->http && s->api) http_seal(s->http);
    desk_close(s->desk);
    http_close(s->http);
    api_close(s->api);
    access_close(s->access);
    for (struct held *next; s->tls; s->tls = next) {
        next = s->tls->next;
        tls_free(s->tls->tls);
        xfree(s->tls);
    }
    pairs_release(&s->options.pairs);
    xfree(s->headers);
    xfree(s->token);
    xfree(s);
}

const char *server_where(const struct server *s, int i) { return http_where(s->http, i); }

int server_secret(const struct server *s) { return s->tls != NULL; }

int server_drain(struct server *s, double seconds) { return http_drain(s->http, seconds); }

int server_reload(struct server *s, void (*kept)(const char *what, const struct err *why)) {
    struct err err = {0};
    int bad = 0;
    if (api_reload_keys(s->api, &err)) bad++, kept("API keys", &err);
    if (s->access && access_reopen(s->access, &err)) bad++, kept("log", &err);
    if (s->options.tls_cert) {
        if (open_tls(s, &err))
            bad++, kept("certificate", &err);
        else
            http_set_tls(s->http, s->tls->tls);
    }
    if (desk_reload(s->desk, s->options.pairs.model, s->options.pairs.n, &err))
        bad++, kept("models", &err);
    api_ready(s->api, s->desk);
    return bad;
}
