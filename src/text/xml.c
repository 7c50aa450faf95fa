/* xml.c — see xml.h. */
#define _GNU_SOURCE /* memmem */
#include "text/xml.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/html.h"

struct reader {
    const char *bytes;
    size_t size;
    struct xml_token *token;
    int n, room;
    int *open; /* [n_open] start tags that are not closed yet */
    int n_open, room_open;
};

static int starts(const struct reader *r, size_t at, const char *what) {
    size_t n = strlen(what);
    return r->size - at >= n && memcmp(r->bytes + at, what, n) == 0;
}

/* Behind the next `what`, or 0. */
static size_t behind(const struct reader *r, size_t at, const char *what) {
    const char *found = memmem(r->bytes + at, r->size - at, what, strlen(what));
    return found ? (size_t)(found - r->bytes) + strlen(what) : 0;
}

static int is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* A tag: 0 if it is none. */
static size_t read_tag(const struct reader *r, struct xml_token *t) {
    size_t at = t->of.begin + 1;
    char quote = 0;
    t->kind = XML_OPEN;
    if (at < r->size && r->bytes[at] == '/') t->kind = XML_CLOSE, at++;
    size_t name = at;
    while (at < r->size && !is_space(r->bytes[at]) && !strchr("/><\"'=&", r->bytes[at])) at++;
    if (at == name || at - name > 1000) return 0;
    t->name = (unsigned short)(name - t->of.begin);
    t->length = (unsigned short)(at - name);
    for (; at < r->size && (quote || r->bytes[at] != '>'); at++) {
        char c = r->bytes[at];
        if (c == '<') return 0;
        if (quote ? c == quote : c == '"' || c == '\'') quote = quote ? 0 : c;
    }
    if (at >= r->size) return 0;
    if (t->kind == XML_OPEN && r->bytes[at - 1] == '/') t->kind = XML_EMPTY;
    return at + 1;
}

/* Where the token ends; 0 if it does not. */
static size_t read_token(const struct reader *r, struct xml_token *t) {
    size_t at = t->of.begin;
    const char *next = memchr(r->bytes + at, '<', r->size - at);
    t->kind = XML_TEXT;
    if (!next) return r->size;
    if (next > r->bytes + at) return (size_t)(next - r->bytes);
    t->kind = XML_OTHER;
    if (starts(r, at, "<?")) return behind(r, at, "?>");
    if (starts(r, at, "<!--")) return behind(r, at + 4, "-->");
    if (starts(r, at, "<![CDATA[")) return t->kind = XML_CDATA, behind(r, at, "]]>");
    return starts(r, at, "<!") ? 0 : read_tag(r, t);
}

/* Finds the start tag of the end tag that comes next. */
static int match(struct reader *r, struct xml_token *t) {
    if (!r->n_open) return 0;
    struct xml_token *open = &r->token[t->mate = (uint32_t)r->open[--r->n_open]];
    open->mate = (uint32_t)r->n;
    return open->length == t->length && memcmp(r->bytes + open->of.begin + open->name,
                                               r->bytes + t->of.begin + t->name, t->length) == 0;
}

static int read_all(struct reader *r, struct err *err) {
    for (size_t at = 0; at < r->size;) {
        struct xml_token t = {.of = {at, 0}};
        if (r->n == XML_MOST)
            return err_set(err, HEED_ELIMIT, "more than %d tags and texts", XML_MOST);
        at = t.of.end = read_token(r, &t);
        if (!at || (t.kind == XML_CLOSE && !match(r, &t)))
            return err_set(err, HEED_EFORMAT, "the XML is broken at byte %zu", t.of.begin);
        if (t.kind == XML_OPEN) {
            GROW(r->open, r->n_open, r->room_open);
            r->open[r->n_open++] = r->n;
        }
        GROW(r->token, r->n, r->room);
        r->token[r->n++] = t;
    }
    return r->n_open ? err_set(err, HEED_EFORMAT, "the XML ends before its elements do") : 0;
}

int xml_read(struct xml_token **token, const char *bytes, size_t size, struct err *err) {
    struct reader r = {.bytes = bytes, .size = size};
    int rc = read_all(&r, err);
    xfree(r.open);
    if (rc) xfree(r.token);
    *token = rc ? NULL : r.token;
    return rc ? rc : r.n;
}

int xml_is(const char *bytes, const struct xml_token *t, const char *name) {
    return strlen(name) == t->length && memcmp(bytes + t->of.begin + t->name, name, t->length) == 0;
}

void xml_decode(struct buffer *out, const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        int n = text[at] == '&' ? html_reference(&code, text + at, size - at) : 0;
        if (n <= 0) {
            const char *next = memchr(text + at + 1, '&', size - at - 1);
            n = (int)(next ? (size_t)(next - text) - at : size - at);
            buffer_put(out, text + at, (size_t)n);
        } else {
            out->size += (size_t)utf8_encode(buffer_room(out, 4), code);
        }
        at += (size_t)n;
    }
}

void xml_escape(struct buffer *out, const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        int n = utf8_decode(&code, text + at, size - at);
        if (n < 0 || code == 0xFFFE || code == 0xFFFF) code = 0xFFFD;
        if (code < ' ' && code != '\t' && code != '\n') code = ' ';
        if (code == '&' || code == '<' || code == '>')
            buffer_puts(out, code == '&' ? "&amp;" : code == '<' ? "&lt;" : "&gt;");
        else
            out->size += (size_t)utf8_encode(buffer_room(out, 4), code);
        at += (size_t)(n < 0 ? -n : n);
    }
}
