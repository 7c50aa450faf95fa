/* markdown.c — Markdown as people write it: CommonMark's blocks, tables and front matter.
 *
 * Blocks are found line by line. The lines of a paragraph are one text, and one line in the
 * translation, unless they end in a hard break. Of a text, emphasis and links are pairs of marks;
 * code, addresses and images are kept. Blocks of HTML are texts of their own. What is written is
 * escaped where it could mean something. */
#define _GNU_SOURCE /* memmem */
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "text/document_parts.h"
#include "text/html.h"
#include "text/markdown_inline.h"

enum { LONGEST_TAG = 4000 };

struct line {
    struct piece all;  /* without its end */
    struct piece text; /* without indentation and the marks of quotations */
    size_t next;
    int indent; /* columns before the text, behind marks of quotations */
    int quotes; /* how many of those there are */
};

struct reader {
    struct flow *flow;
    const char *bytes;
    size_t size;
    struct markdown_lines para; /* the paragraph that is being read */
    int blank;                  /* the line before was, or there is none */
    int list;                   /* columns that a list's items are indented by; -1: no list */
    int quotes;                 /* of the line before */
};

static int is_blank(char c) { return c == ' ' || c == '\t'; }
static int is_digit(char c) { return c >= '0' && c <= '9'; }

/* ---- lines ----------------------------------------------------------------------------------- */

static struct line line_at(const struct reader *r, size_t at) {
    const char *newline = memchr(r->bytes + at, '\n', r->size - at);
    struct line l = {.all = {at, newline ? (size_t)(newline - r->bytes) : r->size}};
    l.next = l.all.end + (newline != NULL);
    if (l.all.end > at && r->bytes[l.all.end - 1] == '\r') l.all.end--;
    for (; at < l.all.end; at++) {
        char c = r->bytes[at];
        if (c == '>' && l.indent < 4)
            l.indent = 0, l.quotes++;
        else if (is_blank(c))
            l.indent += c == '\t' ? 4 : 1;
        else
            break;
    }
    l.text = (struct piece){at, l.all.end};
    while (l.text.end > at && is_blank(r->bytes[l.text.end - 1])) l.text.end--;
    return l;
}

static int is_empty(const struct line *l) { return l->text.begin == l->text.end; }

/* How often a line's first character is repeated. */
static size_t run_of(const struct reader *r, const struct line *l) {
    size_t at = l->text.begin;
    while (at < l->text.end && r->bytes[at] == r->bytes[l->text.begin]) at++;
    return at - l->text.begin;
}

/* --- *** ___ and what underlines a heading: === --- */
static int is_rule(const struct reader *r, const struct line *l) {
    char first = is_empty(l) ? 0 : r->bytes[l->text.begin];
    if (!first || !strchr("-*_=", first)) return 0;
    size_t n = 0;
    for (size_t at = l->text.begin; at < l->text.end; at++) {
        if (!is_blank(r->bytes[at]) && r->bytes[at] != first) return 0;
        n += r->bytes[at] == first;
    }
    return n >= 3 || (!r->blank && (first == '=' || first == '-') && n == run_of(r, l));
}

/* The fence that a line begins, or 0. */
static size_t fence_of(const struct reader *r, const struct line *l) {
    char c = is_empty(l) ? 0 : r->bytes[l->text.begin];
    size_t n = c == '`' || c == '~' ? run_of(r, l) : 0;
    return n >= 3 ? n : 0;
}

/* Behind the block of code that a line begins. */
static size_t fenced_end(const struct reader *r, const struct line *open) {
    size_t n = fence_of(r, open);
    for (size_t at = open->next; at < r->size;) {
        struct line l = line_at(r, at);
        at = l.next;
        if (fence_of(r, &l) >= n && r->bytes[l.text.begin] == r->bytes[open->text.begin] &&
            run_of(r, &l) == l.text.end - l.text.begin)
            return at;
    }
    return r->size;
}

/* Behind the front matter, or 0. */
static size_t front_end(const struct reader *r) {
    struct line first = line_at(r, 0);
    size_t n = first.all.end;
    if (n != 3 || (memcmp(r->bytes, "---", 3) != 0 && memcmp(r->bytes, "+++", 3) != 0)) return 0;
    for (size_t at = first.next; at < r->size;) {
        struct line l = line_at(r, at);
        const char *t = r->bytes + l.all.begin;
        at = l.next;
        if (l.all.end - l.all.begin == 3 && (!memcmp(t, r->bytes, 3) || !memcmp(t, "...", 3)))
            return at;
    }
    return 0;
}

/* ---- paragraphs ------------------------------------------------------------------------------ */

static void end_paragraph(struct reader *r) {
    struct markdown_lines *p = &r->para;
    if (p->n) {
        struct piece *last = &p->line[p->n - 1];
        while (last->end > last->begin && is_blank(r->bytes[last->end - 1])) last->end--;
        markdown_inline(r->flow, p);
        flow_end(r->flow, (struct piece){p->line[0].begin, p->line[p->n - 1].end});
    }
    p->n = 0;
}

static void add_line(struct reader *r, struct piece text) {
    struct markdown_lines *p = &r->para;
    GROW(p->line, p->n, p->room);
    p->line[p->n++] = text;
}

static void add_alone(struct reader *r, struct piece text) {
    end_paragraph(r);
    add_line(r, text);
    end_paragraph(r);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* |---|:--:| */
static int is_delimiter_row(const struct reader *r, const struct line *l) {
    int bars = 0, dashes = 0;
    for (size_t at = l->text.begin; at < l->text.end; at++) {
        char c = r->bytes[at];
        if (c != '|' && c != '-' && c != ':' && !is_blank(c)) return 0;
        bars += c == '|';
        dashes += c == '-';
    }
    return bars && dashes;
}

static int has_bar(const struct reader *r, const struct line *l) {
    return memchr(r->bytes + l->text.begin, '|', l->text.end - l->text.begin) != NULL;
}

static void read_cell(struct reader *r, size_t begin, size_t end) {
    while (begin < end && is_blank(r->bytes[begin])) begin++;
    while (begin < end && is_blank(r->bytes[end - 1])) end--;
    if (begin < end) add_alone(r, (struct piece){begin, end});
}

static void read_row(struct reader *r, const struct line *l) {
    size_t from = l->text.begin;
    int code = 0;
    for (size_t at = from; at < l->text.end; at++) {
        if (r->bytes[at] == '\\') {
            at++;
        } else if (r->bytes[at] == '`') {
            code = !code;
        } else if (r->bytes[at] == '|' && !code) {
            read_cell(r, from, at);
            from = at + 1;
        }
    }
    read_cell(r, from, l->text.end);
}

/* Behind the table whose first line this is, or 0. */
static size_t read_table(struct reader *r, const struct line *first) {
    if (first->next >= r->size || !has_bar(r, first)) return 0;
    struct line l = line_at(r, first->next);
    if (!is_delimiter_row(r, &l)) return 0;
    end_paragraph(r);
    read_row(r, first);
    size_t at = l.next;
    while (at < r->size) {
        l = line_at(r, at);
        if (is_empty(&l) || !has_bar(r, &l)) break;
        read_row(r, &l);
        at = l.next;
    }
    return at;
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Behind a list's mark and the box of a task, or the same place. */
static size_t item_text(const struct reader *r, struct piece text) {
    const char *b = r->bytes;
    size_t at = text.begin, digits = 0;
    if (strchr("-*+", b[at])) {
        at++;
    } else {
        while (at < text.end && is_digit(b[at]) && digits < 9) at++, digits++;
        if (!digits || at >= text.end || (b[at] != '.' && b[at] != ')')) return text.begin;
        at++;
    }
    if (at >= text.end || !is_blank(b[at])) return text.begin;
    while (at < text.end && is_blank(b[at])) at++;
    if (text.end - at > 3 && b[at] == '[' && b[at + 2] == ']' && is_blank(b[at + 3])) at += 4;
    while (at < text.end && is_blank(b[at])) at++;
    return at;
}

static struct piece heading_text(const struct reader *r, struct piece text) {
    const char *b = r->bytes;
    size_t at = text.begin, end = text.end;
    while (at < text.end && b[at] == '#') at++;
    if (at - text.begin > 6 || (at < text.end && !is_blank(b[at]))) return (struct piece){0, 0};
    while (at < text.end && is_blank(b[at])) at++;
    while (end > at && b[end - 1] == '#') end--;
    if (end < text.end && end > at && !is_blank(b[end - 1])) end = text.end;
    while (end > at && is_blank(b[end - 1])) end--;
    return (struct piece){at, end};
}

/* [label]: address, or the beginning of a note, of which the text is behind *at. */
static int is_definition(const struct reader *r, struct piece text, size_t *at) {
    const char *b = r->bytes;
    if (b[text.begin] != '[') return 0;
    const char *close = memmem(b + text.begin, text.end - text.begin, "]:", 2);
    if (!close || memchr(b + text.begin + 1, '[', (size_t)(close - b) - text.begin - 1)) return 0;
    *at = (size_t)(close - b) + 2;
    while (*at < text.end && is_blank(b[*at])) ++*at;
    return 1;
}

/* Behind the block of HTML that begins in this line, or 0. */
static size_t html_end(const struct reader *r, const struct line *l) {
    if (r->bytes[l->text.begin] != '<' || l->indent > 3) return 0;
    const char *from = r->bytes + l->text.begin;
    size_t room = r->size - l->text.begin;
    int long_one = room > 1 && (from[1] == '!' || from[1] == '?'); /* a comment may be */
    struct html scan = html_open(from, long_one ? room : min_size(room, LONGEST_TAG));
    struct html_token t = html_next(&scan);
    if (!long_one && t.kind == HTML_OTHER) return 0;
    int is_tag = t.kind == HTML_OPEN || t.kind == HTML_CLOSE;
    if (t.kind == HTML_TEXT || (is_tag && (t.element & HTML_INLINE))) return 0;
    char behind = is_tag ? r->bytes[t.name + (size_t)t.name_size + l->text.begin] : ' ';
    if (is_tag && !is_blank(behind) && !strchr("/>\r\n", behind)) return 0; /* <https://...> */
    size_t least = t.kind == HTML_OTHER ? l->text.begin + t.end : 0, at = l->all.begin;
    while (at < r->size) {
        struct line next = line_at(r, at);
        if (is_empty(&next) && at >= least) break;
        at = next.next;
    }
    return at;
}

/* A line that is not empty and no code: what begins with it. */
static size_t read_block(struct reader *r, const struct line *l) {
    size_t end = html_end(r, l), at;
    struct piece text = l->text;
    if (end) {
        end_paragraph(r);
        flow_plain(r->flow, l->all.begin, end);
        return end;
    }
    if (is_rule(r, l)) {
        end_paragraph(r);
        return l->next;
    }
    if ((end = read_table(r, l))) return end;
    for (int i = 0; i < 8 && (at = item_text(r, text)) > text.begin; i++) {
        end_paragraph(r);
        r->list = l->indent;
        text.begin = at;
        if (at == text.end) return l->next;
    }
    struct piece heading = heading_text(r, text);
    if (r->bytes[text.begin] == '#' && heading.end) {
        add_alone(r, heading);
        return l->next;
    }
    if (is_definition(r, text, &at)) {
        end_paragraph(r);
        if (r->bytes[text.begin + 1] != '^') return l->next;
        text.begin = at;
    }
    if (text.begin < text.end) add_line(r, (struct piece){text.begin, l->all.end});
    return l->next;
}

static size_t read_line(struct reader *r, size_t at) {
    struct line l = line_at(r, at);
    if (l.quotes != r->quotes) end_paragraph(r);
    r->quotes = l.quotes;
    int code = l.indent >= (r->list < 0 ? 4 : r->list + 6) && r->blank;
    if (is_empty(&l)) {
        end_paragraph(r);
        r->blank = 1;
        return l.next;
    }
    if (fence_of(r, &l)) {
        end_paragraph(r);
        r->blank = 1;
        return fenced_end(r, &l);
    }
    if (code) {
        end_paragraph(r);
        return l.next;
    }
    if (r->blank && l.indent == 0) r->list = -1;
    at = read_block(r, &l);
    r->blank = 0;
    return at;
}

void markdown_read(struct flow *f) {
    struct reader r = {.flow = f, .bytes = f->bytes, .size = f->size, .blank = 1, .list = -1};
    int mark = r.size > 2 && memcmp(r.bytes, "\xEF\xBB\xBF", 3) == 0; /* of the byte order */
    size_t at = mark ? 3 : front_end(&r);
    r.para.budget = 8 * r.size + 65536;
    while (at < r.size) at = read_line(&r, at);
    end_paragraph(&r);
    xfree(r.para.line);
}
