/* outlet.c — see outlet.h. */
#include "cli/outlet.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int outlet_is_file(const char *path) { return path && strcmp(path, "-") != 0; }

int outlet_open(struct outlet *o, const char *path, struct err *err) {
    *o = (struct outlet){.fd = STDOUT_FILENO, .name = "standard output"};
    if (!outlet_is_file(path)) return 0;
    int rc = file_writer_open_output(&o->file, path, err);
    o->fd = o->file.fd;
    o->name = path;
    return rc;
}

int outlet_commit(struct outlet *o, struct err *err) {
    return o->file.path ? file_writer_commit(&o->file, err) : 0;
}

char *outlet_close(struct outlet *o) {
    char *part = NULL;
    if (o->file.temp && o->written) {
        part = path_append(o->file.path, ".part");
        xfree(o->file.path);
        o->file.path = xstrdup(part);
        if (file_writer_commit(&o->file, NULL)) {
            xfree(part);
            part = NULL;
        }
    }
    file_writer_abort(&o->file);
    xfree(o->bytes);
    *o = (struct outlet){.fd = -1};
    return part;
}

static char *room_for(struct outlet *o, size_t size) {
    while (o->used + size > o->size) {
        o->size = o->size ? 2 * o->size : 64 << 10;
        o->bytes = xrealloc(o->bytes, o->size);
    }
    return o->bytes + o->used;
}

void outlet_put(struct outlet *o, const char *text, size_t size) {
    if (size == 0) return; /* an empty translation may come before there is any buffer */
    memcpy(room_for(o, size), text, size);
    o->used += size;
}

void outlet_printf(struct outlet *o, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    BUG_ON(n < 0);
    va_start(ap, fmt);
    vsnprintf(room_for(o, (size_t)n + 1), (size_t)n + 1, fmt, ap);
    va_end(ap);
    o->used += (size_t)n;
}

int outlet_flush(struct outlet *o, const volatile int *stop, struct err *err) {
    size_t at = 0, end = o->used;
    o->used = 0;
    while (at < end) {
        if (*stop) { /* what has begun is finished, no more */
            if (at == 0 || o->bytes[at - 1] == '\n')
                return err_set(err, HEED_ECANCELLED, "stopped");
            const char *lf = memchr(o->bytes + at, '\n', end - at);
            if (lf) end = (size_t)(lf - o->bytes) + 1;
        }
        ssize_t n = write(o->fd, o->bytes + at, end - at);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EPIPE) {
            o->closed = 1;
            return err_set(err, HEED_ECANCELLED, "%s was closed", o->name);
        }
        if (n < 0) return err_set(err, HEED_EIO, "%.180s: %s", o->name, strerror(errno));
        at += (size_t)n;
        o->written += (uint64_t)n;
    }
    return 0;
}
