/* feed.c — see feed.h. */
#include "data/feed.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"

enum { WINDOW_BYTES = 4 << 20 };

struct feed {
    const char *const *path;
    char **name; /* [n_path] what messages call lines of each file */
    int n_path, at, stop_fd;
    struct text *text, *prefix; /* text: of path[at], once it is open */
    uint64_t number, total;
    struct feed_line *line;
    /* [2 cap] of the lines' texts and prefixes in bytes, which moves while it grows */
    size_t *offset;
    int n, cap;
    char *bytes;
    size_t used, size;
    struct err err; /* the first error, reported once the lines before it are done */
};

int feed_open(struct feed **feed, const char *const *path, int n, const char *prefix, int stop_fd,
              struct err *err) {
    struct feed *f = xcalloc(1, sizeof *f);
    f->path = path;
    f->n_path = n;
    f->stop_fd = stop_fd;
    f->name = xcalloc((size_t)n, sizeof *f->name);
    for (int i = 0; i < n; i++) {
        const char *file = strcmp(path[i], "-") == 0 ? "standard input" : path[i];
        size_t size = strlen(file) + sizeof ": line";
        f->name[i] = xmalloc(size);
        snprintf(f->name[i], size, "%s%s", n > 1 ? file : "", n > 1 ? ": line" : "line");
    }
    int rc = prefix ? text_open(&f->prefix, prefix, err) : 0;
    if (rc) {
        feed_close(f);
        return rc;
    }
    *feed = f;
    return 0;
}

void feed_close(struct feed *f) {
    if (!f) return;
    text_close(f->text);
    text_close(f->prefix);
    for (int i = 0; i < f->n_path; i++) xfree(f->name[i]);
    xfree(f->name);
    xfree(f->line);
    xfree(f->offset);
    xfree(f->bytes);
    xfree(f);
}

const struct feed_line *feed_lines(const struct feed *f) { return f->line; }

/* ---- waiting --------------------------------------------------------------------------------- */

/* Until fd can be read, or the stop comes. */
static int wait_for(struct feed *f, int fd, struct err *err) {
    struct pollfd p[2] = {{.fd = fd, .events = POLLIN}, {.fd = f->stop_fd, .events = POLLIN}};
    while (poll(p, 2, -1) < 0)
        if (errno != EINTR) return err_set(err, HEED_EIO, "waiting for input: %s", strerror(errno));
    return p[1].revents ? err_set(err, HEED_ECANCELLED, "stopped") : 0;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static size_t put_bytes(struct feed *f, const char *text, size_t size) {
    while (f->used + size + 1 > f->size) {
        f->size = f->size ? 2 * f->size : 64 << 10;
        f->bytes = xrealloc(f->bytes, f->size);
    }
    size_t at = f->used;
    memcpy(f->bytes + at, text, size);
    f->bytes[at + size] = 0;
    f->used += size + 1;
    return at;
}

static void add(struct feed *f, const struct line *line, const struct line *prefix) {
    if (f->n == f->cap) {
        f->cap = f->cap ? 2 * f->cap : 64;
        f->line = xrealloc(f->line, (size_t)f->cap * sizeof *f->line);
        f->offset = xrealloc(f->offset, 2 * (size_t)f->cap * sizeof *f->offset);
    }
    f->line[f->n] = (struct feed_line){.size = line->size,
                                       .prefix_size = prefix ? prefix->size : 0,
                                       .name = f->name[f->at],
                                       .number = f->number,
                                       .total = f->total++,
                                       .flags = line->flags,
                                       .prefix_flags = prefix ? prefix->flags : 0,
                                       .end = line->end};
    f->offset[2 * f->n] = put_bytes(f, line->text, line->size);
    f->offset[2 * f->n + 1] = prefix ? put_bytes(f, prefix->text, prefix->size) : SIZE_MAX;
    f->n++;
}

static int open_next(struct feed *f, struct err *err) {
    const char *path = f->path[f->at];
    int rc = strcmp(path, "-") == 0 ? wait_for(f, STDIN_FILENO, err) : 0;
    if (!rc) rc = text_open(&f->text, path, err);
    if (!rc) text_max_line(f->text, FEED_MAX_LINE);
    f->number = 0;
    return rc;
}

/* Adds one line: 1, 0 at the end of the file, negative on error. */
static int take_line(struct feed *f, struct err *err) {
    struct line line, prefix = {0};
    int rc = text_next(f->text, &line, err);
    if (rc <= 0) return rc;
    f->number++;
    if (line.flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "%.150s %llu: longer than %s bytes", f->name[f->at],
                       (unsigned long long)f->number, num_grouped((char[28]){0}, FEED_MAX_LINE));
    if (!f->prefix) return add(f, &line, NULL), 1;
    rc = text_next(f->prefix, &prefix, err);
    if (rc < 0) return rc;
    if (rc == 0)
        return err_set(err, HEED_EFORMAT,
                       "%.150s %llu: the prefix file has no line for it; it ends after %llu",
                       f->name[f->at], (unsigned long long)f->number, (unsigned long long)f->total);
    if (prefix.flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "%.150s %llu: its prefix is longer than %s bytes",
                       f->name[f->at], (unsigned long long)f->number,
                       num_grouped((char[28]){0}, TEXT_MAX_LINE));
    add(f, &line, &prefix);
    return 1;
}

/* All files are read: are all prefixes? */
static int check_prefixes(struct feed *f, struct err *err) {
    struct line line;
    int rc = f->prefix ? text_next(f->prefix, &line, err) : 0;
    if (rc > 0)
        rc = err_set(err, HEED_EFORMAT,
                     "the prefix file has more lines than the input, which has %llu",
                     (unsigned long long)f->total);
    return rc;
}

/* Adds lines until the window is full: 0 when it is or the input has ended. */
static int fill(struct feed *f, int max, struct err *err) {
    while (f->n < max && f->used < WINDOW_BYTES) {
        int rc = 0;
        if (f->at == f->n_path) return f->n ? 0 : check_prefixes(f, err);
        if (!f->text) {
            if (f->n && strcmp(f->path[f->at], "-") == 0) return 0; /* it may be a long wait */
            if ((rc = open_next(f, err))) return rc;
        }
        if (!text_ready(f->text)) {
            if (f->n) return 0;
            if ((rc = wait_for(f, text_fd(f->text), err))) return rc;
            continue;
        }
        rc = take_line(f, err);
        if (rc < 0) return rc;
        if (rc == 0) {
            text_close(f->text);
            f->text = NULL;
            f->at++;
        }
    }
    return 0;
}

int feed_fill(struct feed *f, int max, struct err *err) {
    f->n = 0;
    f->used = 0;
    if (f->err.code) return err_set(err, f->err.code, "%s", f->err.msg);
    int rc = fill(f, max, &f->err);
    if (rc && f->n == 0) return err_set(err, rc, "%s", f->err.msg);
    for (int i = 0; i < f->n; i++) {
        f->line[i].text = f->bytes + f->offset[2 * i];
        if (f->offset[2 * i + 1] != SIZE_MAX) f->line[i].prefix = f->bytes + f->offset[2 * i + 1];
    }
    return f->n;
}
