/* document.c — see document.h: which format is which, and what they share. */
#include "text/document.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "text/archive.h"
#include "text/document_parts.h"

struct document {
    enum document_kind kind;
    const char *bytes;
    size_t size;
    struct flow *flow; /* [n_flow] */
    int *first;        /* [n_flow + 1] the number of each flow's first text */
    int n_flow;
    struct archive *archive; /* that the flows are members of, or NULL */
    int *member;             /* [n_flow] */
    char **part;             /* [n_flow] their bytes */
};

/* ---- kinds ----------------------------------------------------------------------------------- */

const char *const document_extensions[] = {".txt",      ".srt",  ".html", ".htm", ".md",
                                           ".markdown", ".docx", ".odt",  NULL};
static const enum document_kind kinds[] = {DOCUMENT_TXT, DOCUMENT_SRT, DOCUMENT_HTML, DOCUMENT_HTML,
                                           DOCUMENT_MD,  DOCUMENT_MD,  DOCUMENT_DOCX, DOCUMENT_ODT};

int document_kind(enum document_kind *kind, const char *name, struct err *err) {
    const char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    char list[128] = "";
    for (int i = 0; document_extensions[i]; i++) {
        if (dot && strcasecmp(dot, document_extensions[i]) == 0) return *kind = kinds[i], 0;
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", i ? " " : "", document_extensions[i]);
    }
    return err_set(err, HEED_EINVAL,
                   "%.150s: %.40s cannot be translated; the formats that can are: %s",
                   slash ? slash + 1 : name, dot ? dot : "a file without an extension", list);
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

/* ---- office documents ------------------------------------------------------------------------ */

static const char *const docx_parts[] = {
    "word/document", "word/header",   "word/footer", "word/footnotes",
    "word/endnotes", "word/comments", NULL};
static const char *const odt_parts[] = {"content", "styles", NULL};

/* ---- all of them ----------------------------------------------------------------------------- */

static const struct format {
    enum text_format format;
    void (*read)(struct flow *flow); /* of a file that is one flow; else: */
    int (*read_part)(struct flow *flow, struct err *err);
    const char *const *parts; /* the members that have texts; one begins as the first does */
    const struct flow_style *style;
} formats[] = {
    [DOCUMENT_TXT] = {FORMAT_TEXT, txt_read, NULL, NULL, NULL},
    [DOCUMENT_SRT] = {FORMAT_HTML, srt_read, NULL, NULL, &srt_style},
    [DOCUMENT_HTML] = {FORMAT_HTML, html_read, NULL, NULL, NULL},
    [DOCUMENT_MD] = {FORMAT_HTML, markdown_read, NULL, NULL, &markdown_style},
    [DOCUMENT_DOCX] = {FORMAT_HTML, NULL, docx_read, docx_parts, &docx_style},
    [DOCUMENT_ODT] = {FORMAT_HTML, NULL, odt_read, odt_parts, &odt_style},
};

static struct flow *add_flow(struct document *d, const char *bytes, size_t size) {
    size_t n = (size_t)d->n_flow + 1;
    d->flow = xrealloc(d->flow, n * sizeof *d->flow);
    d->member = xrealloc(d->member, n * sizeof *d->member);
    d->part = xrealloc(d->part, n * sizeof *d->part);
    d->part[d->n_flow] = NULL;
    d->flow[d->n_flow] = flow_of(bytes, size);
    return &d->flow[d->n_flow++];
}

/* Is this one of the parts, which end in .xml and may have a number before that? 1: the first. */
static int which_part(const char *name, const char *const *parts) {
    for (int i = 0; parts[i]; i++) {
        size_t n = strlen(parts[i]);
        if (strncmp(name, parts[i], n) != 0) continue;
        n += strspn(name + n, "0123456789");
        if (strcmp(name + n, ".xml") == 0) return i + 1;
    }
    return 0;
}

static int read_archive(struct document *d, struct err *err) {
    const struct format *f = &formats[d->kind];
    size_t left = DOCUMENT_MAX, size;
    int rc = archive_open(&d->archive, d->bytes, d->size, err), found = 0;
    for (int i = 0; !rc && i < archive_count(d->archive); i++) {
        const char *name = archive_name(d->archive, i);
        int which = which_part(name, f->parts);
        char *bytes;
        if (!which) continue;
        found |= which == 1;
        if ((rc = archive_read(d->archive, i, left, &bytes, &size, err))) break;
        left -= size;
        struct err inner = {0};
        struct flow *flow = add_flow(d, bytes, size);
        d->part[d->n_flow - 1] = bytes;
        d->member[d->n_flow - 1] = i;
        rc = f->read_part(flow, &inner);
        if (rc) err_set(err, rc, "%.100s: %.150s", name, inner.msg);
    }
    if (!rc && !found) rc = err_set(err, HEED_EFORMAT, "there is no %s.xml in it", f->parts[0]);
    return rc;
}

/* Of other encodings only what is ASCII would be translated, and the rest lost. */
static int check_utf8(const struct document *d, struct err *err) {
    size_t at = 0, line = 1;
    while ((at += utf8_clean_prefix(d->bytes + at, d->size - at)) < d->size && !d->bytes[at])
        at++; /* a NUL does no harm */
    if (at == d->size) return 0;
    for (size_t i = 0; i < at; i++) line += d->bytes[i] == '\n';
    return err_set(err, HEED_EFORMAT,
                   "line %zu is not UTF-8; convert the file, for example with iconv -f "
                   "WINDOWS-1252 -t UTF-8",
                   line);
}

static int read_file(struct document *d, struct err *err) {
    if (d->size > 1 &&
        (memcmp(d->bytes, "\xFF\xFE", 2) == 0 || memcmp(d->bytes, "\xFE\xFF", 2) == 0))
        return err_set(err, HEED_EFORMAT, "the text is UTF-16; convert it to UTF-8");
    int rc = check_utf8(d, err);
    if (rc) return rc;
    formats[d->kind].read(add_flow(d, d->bytes, d->size));
    return 0;
}

int document_read(struct document **out, enum document_kind kind, const char *bytes, size_t size,
                  struct err *err) {
    *out = NULL;
    if (size > DOCUMENT_MAX)
        return err_set(err, HEED_ELIMIT, "a document of more than %d MiB", DOCUMENT_MAX >> 20);
    struct document *d = xcalloc(1, sizeof *d);
    *d = (struct document){.kind = kind, .bytes = bytes, .size = size};
    int rc = formats[kind].read ? read_file(d, err) : read_archive(d, err);
    if (rc) {
        document_free(d);
        return rc;
    }
    d->first = xcalloc((size_t)d->n_flow + 1, sizeof *d->first);
    for (int i = 0; i < d->n_flow; i++) d->first[i + 1] = d->first[i] + d->flow[i].n_text;
    *out = d;
    return 0;
}

void document_free(struct document *d) {
    if (!d) return;
    for (int i = 0; i < d->n_flow; i++) {
        flow_release(&d->flow[i]);
        xfree(d->part[i]);
    }
    archive_free(d->archive);
    xfree(d->flow);
    xfree(d->first);
    xfree(d->member);
    xfree(d->part);
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

/* ---- writing --------------------------------------------------------------------------------- */

/* One flow, translated. */
static int write_flow(const struct document *d, int k, const struct document_answer *answer, int n,
                      struct buffer *out, struct err *err) {
    struct flow_writer w = {.flow = &d->flow[k],
                            .style = formats[d->kind].style,
                            .answer = answer,
                            .n_answer = n,
                            .first = d->first[k],
                            .out = out,
                            .err = err};
    return flow_write(&w);
}

/* The members that have changed; if none has, the archive as it was. */
static int write_archive(const struct document *d, struct buffer *part, char **out, size_t *size,
                         struct err *err) {
    struct archive_change *change = xcalloc((size_t)d->n_flow + 1, sizeof *change);
    struct buffer copy = {0};
    int n = 0, rc = 0;
    for (int i = 0; i < d->n_flow; i++) {
        const struct flow *f = &d->flow[i];
        if (part[i].size == f->size && (!f->size || !memcmp(part[i].text, f->bytes, f->size)))
            continue;
        change[n++] = (struct archive_change){d->member[i], part[i].text, part[i].size};
    }
    if (n) {
        rc = archive_write(d->archive, change, n, out, size, err);
    } else {
        buffer_put(&copy, d->bytes, d->size);
        *buffer_room(&copy, 1) = 0;
        *out = copy.text;
        *size = copy.size;
    }
    xfree(change);
    return rc;
}

int document_write(const struct document *d, const struct document_answer *answer, int n,
                   char **out, size_t *size, struct err *err) {
    struct buffer *part = xcalloc((size_t)d->n_flow + 1, sizeof *part);
    int rc = 0;
    *out = NULL;
    for (int i = 0; i < d->n_flow && !rc; i++) rc = write_flow(d, i, answer, n, &part[i], err);
    if (!rc && d->archive) {
        rc = write_archive(d, part, out, size, err);
    } else if (!rc) {
        *buffer_room(&part[0], 1) = 0;
        *out = part[0].text;
        *size = part[0].size;
        part[0].text = NULL;
    }
    for (int i = 0; i < d->n_flow; i++) xfree(part[i].text);
    xfree(part);
    return rc;
}
