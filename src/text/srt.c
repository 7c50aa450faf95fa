/* srt.c — SubRip: a number, a line of times, lines of text, a blank line.
 *
 * The lines of one subtitle are one text, with breaks in it: sentences go on in the next line. Tags
 * and {\an8} are marks. What is no subtitle stays as it is. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "base/utf8.h"
#include "text/document_parts.h"
#include "text/html.h"

/* The line at `at`, its end left out; *next is where the next one begins. */
static struct piece line_at(const struct flow *f, size_t at, size_t *next) {
    const char *end = memchr(f->bytes + at, '\n', f->size - at);
    struct piece line = {at, end ? (size_t)(end - f->bytes) : f->size};
    *next = line.end + (end != NULL);
    if (line.end > line.begin && f->bytes[line.end - 1] == '\r') line.end--;
    return line;
}

static int is_blank(const struct flow *f, struct piece p) {
    for (; p.begin < p.end; p.begin++)
        if (f->bytes[p.begin] != ' ' && f->bytes[p.begin] != '\t') return 0;
    return 1;
}

/* 00:01:02,345 --> 00:01:04,567 and perhaps a place. */
static int is_times(const struct flow *f, struct piece p) {
    const char *t = f->bytes + p.begin;
    return p.end - p.begin > 3 && (*t == ' ' || (*t >= '0' && *t <= '9')) &&
           memmem(t, p.end - p.begin, "-->", 3);
}

/* A positive number for the name of a tag; two names may have the same, which does no harm. */
static int tag_of(const struct flow *f, const struct html_token *t) {
    unsigned hash = 7;
    for (int i = 0; i < t->name_size; i++)
        hash = hash * 31 + ((unsigned char)f->bytes[t->name + (size_t)i] | 32u);
    return (int)(hash % 1000003) + 1;
}

/* Words, in which {\...} is a mark. */
static void read_words(struct flow *f, struct piece p) {
    for (size_t at = p.begin, from = at; from < p.end; from = at) {
        const char *open = memmem(f->bytes + from, p.end - from, "{\\", 2);
        at = open ? (size_t)(open - f->bytes) : p.end;
        const char *close = open ? memchr(open, '}', p.end - at) : NULL;
        if (!close) at = p.end;
        flow_words(f, f->bytes + from, at - from);
        if (!close) break;
        flow_mark(f, MARK_THING, 0, (struct piece){at, (size_t)(close - f->bytes) + 1});
        at = (size_t)(close - f->bytes) + 1;
    }
}

static void read_line(struct flow *f, struct piece line) {
    struct html scan = html_open(f->bytes + line.begin, line.end - line.begin);
    for (struct html_token t; (t = html_next(&scan)).kind != HTML_END;) {
        struct piece p = {line.begin + t.begin, line.begin + t.end};
        int inline_tag = (t.element & HTML_INLINE) && !(t.element & HTML_VOID);
        t.name += line.begin;
        if (t.kind == HTML_TEXT)
            read_words(f, p);
        else if (t.kind == HTML_OPEN && inline_tag)
            flow_open(f, tag_of(f, &t), p);
        else if (t.kind == HTML_CLOSE && inline_tag)
            flow_close(f, tag_of(f, &t), p);
        else
            flow_mark(f, MARK_THING, 0, p);
    }
}

void srt_read(struct flow *f) {
    for (size_t at = 0, next; at < f->size; at = next) {
        if (!is_times(f, line_at(f, at, &next))) continue;
        struct piece of = {next, next};
        for (at = next; at < f->size; at = next) {
            struct piece line = line_at(f, at, &next);
            if (is_blank(f, line)) break;
            if (at > of.begin) flow_mark(f, MARK_BREAK, 0, (struct piece){of.end, at});
            read_line(f, line);
            of.end = line.end;
        }
        flow_end(f, of);
        next = at;
        if (at == of.begin && at < f->size) line_at(f, at, &next); /* no text */
    }
}

static void put_words(struct flow_writer *w, const char *text, size_t size) {
    buffer_put(w->out, text, size);
}

const struct flow_style srt_style = {.words = put_words, .mark = flow_raw_mark};
