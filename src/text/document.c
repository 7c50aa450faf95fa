/* document.c — see document.h: which format is which, and what they share. */
#define _GNU_SOURCE /* memmem */
#include "text/document.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"
#include "text/document_parts.h"
#include "text/letters.h"

struct document {
    enum document_kind kind;
    const char *bytes;
    size_t size;
    struct flow *flow; /* [n_flow] */
    int *first;        /* [n_flow + 1] the number of each flow's first text */
    int n_flow;
};

/* ---- kinds ----------------------------------------------------------------------------------- */

const char *const document_extensions[] = {".txt", ".srt", ".html", ".htm", NULL};
static const enum document_kind kinds[] = {DOCUMENT_TXT, DOCUMENT_SRT, DOCUMENT_HTML,
                                           DOCUMENT_HTML};

int document_kind(enum document_kind *kind, const char *name, struct err *err) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    char list[128] = "";
    for (int i = 0; document_extensions[i]; i++) {
        if (dot && strcasecmp(dot, document_extensions[i]) == 0) return *kind = kinds[i], 0;
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", document_extensions[i]);
    }
    return err_set(err, HEED_EINVAL,
                   "%.150s: %.40s is no format that can be translated; these are: %s",
                   slash ? slash + 1 : name, dot ? dot : "a name without an extension", list);
}

/* ---- plain text ------------------------------------------------------------------------------ */

static void txt_read(struct flow *f) {
    for (size_t at = 0, end; at < f->size; at = end + 1) {
        const char *newline = memchr(f->bytes + at, '\n', f->size - at);
        end = newline ? (size_t)(newline - f->bytes) : f->size;
        size_t back = end > at && f->bytes[end - 1] == '\r';
        flow_plain(f, at, end - back);
    }
}

static void html_read(struct flow *f) { flow_plain(f, 0, f->size); }

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct format {
    enum text_format format;
    void (*read)(struct flow *flow);
    const struct flow_style *style;
} formats[] = {
    [DOCUMENT_TXT] = {FORMAT_TEXT, txt_read, NULL},
    [DOCUMENT_SRT] = {FORMAT_HTML, srt_read, &srt_style},
    [DOCUMENT_HTML] = {FORMAT_HTML, html_read, NULL},
};

static void number(struct document *d) {
    d->first = xcalloc((size_t)d->n_flow + 1, sizeof *d->first);
    for (int i = 0; i < d->n_flow; i++) d->first[i + 1] = d->first[i] + d->flow[i].n_text;
}

int document_read(struct document **out, enum document_kind kind, const char *bytes, size_t size,
                  struct err *err) {
    *out = NULL;
    if (size > DOCUMENT_MAX)
        return err_set(err, HEED_ELIMIT, "a document of more than %d MiB", DOCUMENT_MAX >> 20);
    if (size > 1 && (memcmp(bytes, "\xFF\xFE", 2) == 0 || memcmp(bytes, "\xFE\xFF", 2) == 0))
        return err_set(err, HEED_EFORMAT, "the text is UTF-16; convert it to UTF-8");
    struct document *d = xcalloc(1, sizeof *d);
    *d = (struct document){.kind = kind, .bytes = bytes, .size = size, .n_flow = 1};
    d->flow = xcalloc(1, sizeof *d->flow);
    d->flow[0] = flow_of(bytes, size);
    formats[kind].read(&d->flow[0]);
    number(d);
    *out = d;
    return 0;
}

void document_free(struct document *d) {
    if (!d) return;
    for (int i = 0; i < d->n_flow; i++) flow_release(&d->flow[i]);
    xfree(d->flow);
    xfree(d->first);
    xfree(d);
}

enum text_format document_format(const struct document *d) { return formats[d->kind].format; }

int document_count(const struct document *d) { return d->first[d->n_flow]; }

const char *document_text(const struct document *d, int i, size_t *size) {
    int k = 0, high = d->n_flow;
    while (k + 1 < high) { /* the last flow that begins at text i or before it */
        int middle = (k + high) / 2;
        if (d->first[middle] <= i)
            k = middle;
        else
            high = middle;
    }
    return flow_get(&d->flow[k], i - d->first[k], size);
}

int document_write(const struct document *d, const struct document_answer *answer, int n,
                   char **out, size_t *size, struct err *err) {
    struct buffer b = {0};
    struct flow_writer w = {.flow = &d->flow[0],
                            .style = formats[d->kind].style,
                            .answer = answer,
                            .n_answer = n,
                            .out = &b,
                            .err = err};
    int rc = flow_write(&w);
    *buffer_room(&b, 1) = 0;
    *out = b.text;
    *size = b.size;
    if (rc) xfree(b.text), *out = NULL;
    return rc;
}
