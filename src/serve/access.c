/* access.c — see access.h. */
#include "serve/access.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/json.h"
#include "serve/body.h"

enum { MOST_TEXT = 4096 };

struct access {
    char *path; /* NULL: a descriptor that was given */
    int fd, with_texts;
    pthread_mutex_t lock;
};

static int open_log(int *fd, const char *path, struct err *err) {
    *fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0640);
    if (*fd >= 0) return 0;
    return err_set(err, HEED_EIO, "%.200s: %s", path, strerror(errno));
}

int access_open(struct access **access, const char *path, int standard, int with_texts,
                struct err *err) {
    int fd = standard, rc = strcmp(path, "-") == 0 ? 0 : open_log(&fd, path, err);
    *access = NULL;
    if (rc) return rc;
    struct access *a = *access = xcalloc(1, sizeof *a);
    *a = (struct access){.fd = fd, .with_texts = with_texts};
    if (fd != standard) a->path = xstrdup(path);
    pthread_mutex_init(&a->lock, NULL);
    return 0;
}

void access_close(struct access *a) {
    if (!a) return;
    if (a->path) close(a->fd);
    pthread_mutex_destroy(&a->lock);
    xfree(a->path);
    xfree(a);
}

int access_reopen(struct access *a, struct err *err) {
    int fd;
    if (!a->path) return 0;
    int rc = open_log(&fd, a->path, err);
    if (rc) return rc;
    pthread_mutex_lock(&a->lock);
    close(a->fd);
    a->fd = fd;
    pthread_mutex_unlock(&a->lock);
    return 0;
}

static json_t *text_of(const char *text, size_t size) {
    char copy[MOST_TEXT + 1];
    if (size > MOST_TEXT) size = MOST_TEXT;
    memcpy(copy, text, size);
    copy[size] = 0;
    return json_out_string(copy);
}

/* The texts of the request, as far as it has any. */
static void add_texts(json_t *line, const struct http_exchange *x) {
    struct body body;
    const char *why;
    struct body_source from = {.type = http_header(&x->head, "content-type"),
                               .query = x->head.query,
                               .content = {x->body, x->n_body}};
    if (!body_read(&body, &from, &why)) {
        struct body_text q;
        const json_t *list = body.json ? json_object_get(body.json, "q") : NULL;
        if (json_is_array(list))
            json_object_set(line, "q", (json_t *)list);
        else if (body_string(&body, "q", &q) == 0)
            json_object_set_new(line, "q", text_of(q.text, q.size));
    }
    body_release(&body);
}

void access_line(struct access *a, const struct http_exchange *x) {
    char when[40];
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(when + n, sizeof when - n, ".%03dZ", (int)(now.tv_nsec / 1000000));
    json_t *line = json_object();
    json_object_set_new(line, "time", json_string(when));
    json_object_set_new(line, "client", json_string(x->client));
    json_object_set_new(line, "method", text_of(x->head.method, strlen(x->head.method)));
    json_object_set_new(line, "path", text_of(x->head.path, strlen(x->head.path)));
    json_object_set_new(line, "status", json_integer(x->status));
    json_object_set_new(line, "ms", json_integer((json_int_t)(x->took * 1000 + 0.5)));
    json_object_set_new(line, "in", json_integer((json_int_t)x->n_body));
    json_object_set_new(line, "out", json_integer((json_int_t)x->sent));
    if (x->lost) json_object_set_new(line, "lost", json_true());
    if (a->with_texts) add_texts(line, x);
    char *text = json_dumps(line, JSON_COMPACT);
    json_decref(line);
    if (!text) return;
    size_t size = strlen(text);
    text[size] = '\n'; /* in the place of the NUL */
    pthread_mutex_lock(&a->lock);
    ssize_t done = write(a->fd, text, size + 1);
    (void)done; /* a full disk does not stop the server */
    pthread_mutex_unlock(&a->lock);
    free(text);
}
