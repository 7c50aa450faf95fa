/* api_file.c — /translate_file and /download_file: a document (text/document.h) is an errand whose
 * texts are its own. Reading and writing it may take a while, so a thread of its own does that; the
 * server's goes on with others. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/errand.h"
#include "text/document.h"

enum { MOST_AT_A_TIME = 8 };

struct upload {
    struct api *api;
    struct http_exchange *x;
    struct body_text source, target, name, bytes;
    enum document_kind kind;
    struct document *document;
    struct document_answer *answer; /* [n] */
    int n;
    char *out;
    size_t n_out;
    int writing, rc;
    struct err err;
};

static void free_upload(void *more) {
    struct upload *u = more;
    u->api->n_upload--;
    document_free(u->document);
    xfree(u->answer);
    xfree(u->out);
    xfree(u);
}

/* The worker's thread. */
static void *work(void *arg) {
    struct upload *u = arg;
    u->rc = u->writing
                ? document_write(u->document, u->answer, u->n, &u->out, &u->n_out, &u->err)
                : document_read(&u->document, u->kind, u->bytes.text, u->bytes.size, &u->err);
    http_wake(u->x, WAKE_WORKER);
    return NULL;
}

static void start(struct upload *u) {
    pthread_t thread;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attr, work, u)) api_later(u->x, 503, 5, "The server is busy");
    pthread_attr_destroy(&attr);
}

/* ---- answering ------------------------------------------------------------------------------- */

/* The address of a file for whoever asked: where they asked, and not where a proxy did. */
static json_t *address_of(const struct http_exchange *x, const char *name) {
    char text[400];
    const char *host = http_header(&x->head, "host"), *scheme = x->secure ? "https" : "http";
    if (x->trusted) {
        const char *proto = http_header(&x->head, "x-forwarded-proto");
        const char *forwarded = http_header(&x->head, "x-forwarded-host");
        if (proto && strcmp(proto, "https") == 0) scheme = "https";
        if (forwarded) host = forwarded;
    }
    size_t n = host ? strlen(host) : 0;
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.:-_[]";
    if (!n || n > 255 || strspn(host, allowed) < n)
        snprintf(text, sizeof text, "/download_file/%s", name);
    else
        snprintf(text, sizeof text, "%s://%s/download_file/%s", scheme, host, name);
    return json_string(text);
}

static void answer_file(struct upload *u, struct errand *e, char *data, size_t size) {
    struct store_file file = {data, size, u->name.text, u->name.size, e->target};
    const char *name = store_put(&u->api->store, &file, clock_seconds());
    if (name)
        api_answer(u->x, 200, json_pack("{s:o}", "translatedFileUrl", address_of(u->x, name)));
    else
        api_refuse(u->x, 413, "The translated file is too large");
}

static void on_read(struct upload *u, struct errand *e) {
    if (u->rc) {
        api_refuse(u->x, 400, "%s", u->err.msg);
        return;
    }
    e->n = document_count(u->document);
    e->format = document_format(u->document) == FORMAT_HTML ? DESK_HTML : DESK_TEXT;
    e->text = xcalloc((size_t)e->n + 1, sizeof *e->text);
    for (int i = 0; i < e->n; i++)
        e->text[i].text = document_text(u->document, i, &e->text[i].size);
    if (errand_pair(e, u->x, u->source, u->target)) return;
    if (e->n && strcmp(e->source, e->target) != 0) {
        errand_submit(e, u->x);
        return;
    }
    char *same = xmalloc(u->bytes.size + 1);
    memcpy(same, u->bytes.text, u->bytes.size);
    answer_file(u, e, same, u->bytes.size);
}

static void on_translated(struct upload *u, struct errand *e) {
    const char *message = "";
    int status = errand_failure(e, &message);
    if (status == 503) {
        api_later(u->x, 503, 5, message);
    } else if (status) {
        api_refuse(u->x, status, "%s", message);
    } else {
        u->n = e->n;
        u->answer = xcalloc((size_t)e->n, sizeof *u->answer);
        for (int i = 0; i < e->n; i++) {
            const struct desk_candidate *best = desk_answer(e->job, i)->best;
            u->answer[i] = (struct document_answer){best->text, best->size};
        }
        u->writing = 1;
        start(u);
    }
}

static void on_woken(struct http_exchange *x, unsigned what) {
    struct errand *e = x->own;
    struct upload *u = e->more;
    if (what & WAKE_DONE) {
        on_translated(u, e);
    } else if (x->lost) {
        api_later(x, 503, 5, "Nobody waits for it any more");
    } else if (!u->writing) {
        on_read(u, e);
    } else if (u->rc) {
        api_refuse(x, 500, "%s", u->err.msg);
    } else {
        char *out = u->out;
        u->out = NULL;
        answer_file(u, e, out, u->n_out);
    }
}

/* ---- asking ---------------------------------------------------------------------------------- */

/* The file and the languages; 0, or refused. */
static int read_upload(struct errand *e, struct http_exchange *x, struct upload *u) {
    const struct body_field *f = body_field(&e->body, "file");
    int got, rc = api_admit(e->api, x, &e->body, &e->caller);
    if (rc) return rc;
    if (!f || !f->filename.text) return errand_missing(x, 1, "file");
    if ((got = body_string(&e->body, "source", &u->source)))
        return errand_missing(x, got, "source");
    if ((got = body_string(&e->body, "target", &u->target)))
        return errand_missing(x, got, "target");
    if ((rc = errand_terms(e, x))) return rc;
    char name[256];
    size_t n = f->filename.size, skip = n < sizeof name ? 0 : n - sizeof name + 1;
    memcpy(name, f->filename.text + skip, n - skip);
    name[n - skip] = 0;
    if (!n || memchr(name, 0, n - skip)) {
        api_refuse(x, 400, "Invalid request: empty file");
        return 400;
    }
    if (document_kind(&u->kind, name, &u->err)) {
        api_refuse(x, 400, "Invalid request: file format not supported: %s", u->err.msg);
        return 400;
    }
    u->name = f->filename;
    u->bytes = f->value;
    return 0;
}

void api_translate_file(struct api *api, struct http_exchange *x) {
    if (!api->options.files) {
        api_refuse(x, 403, "Files translation are disabled on this server.");
        return;
    }
    struct errand *e = errand_new(api, x, WHOLE_FILE);
    if (!e) return;
    struct upload *u = e->more = xcalloc(1, sizeof *u);
    *u = (struct upload){.api = api, .x = x};
    e->free_more = free_upload;
    x->woken = on_woken;
    int others = api->n_upload++;
    if (read_upload(e, x, u)) return;
    if (!api_desk(api))
        api_later(x, 503, 2, "The models are being loaded");
    else if (others >= MOST_AT_A_TIME)
        api_later(x, 503, 5, "The server is busy");
    else
        start(u);
}

void api_download_file(struct api *api, struct http_exchange *x) {
    const struct stored *s =
        store_get(&api->store, x->head.path + strlen("/download_file/"), clock_seconds());
    char headers[STORE_TITLE + 80];
    if (!s) {
        api_refuse(x, 400, "Invalid filename");
        return;
    }
    char *copy = xmalloc(s->size + 1);
    memcpy(copy, s->data, s->size);
    snprintf(headers, sizeof headers,
             "Content-Disposition: attachment; filename=\"%s\"\r\nCache-Control: no-store\r\n",
             s->title);
    http_answer(x, &(struct http_answer){.status = 200,
                                         .type = "application/octet-stream",
                                         .headers = headers,
                                         .body = copy,
                                         .size = s->size,
                                         .owned = copy});
}
