/* markdown_inline.c — see markdown_inline.h. */
#define _GNU_SOURCE /* memmem */
#include "text/markdown_inline.h"

#include <string.h>
#include <strings.h>

#include "base/num.h"
#include "text/document_parts.h"
#include "text/html.h"

enum {
    REACH = 4000, /* bytes in which a bracket or run of backticks must be closed */
    LINKS = 16,   /* links in links */
    TAG_LINK = 1,
    TAG_EMPHASIS = 2, /* and behind it */
    TAG_HTML = 1000,  /* and behind it */
};

struct reader {
    struct flow *flow;
    const char *bytes;
    struct markdown_lines *lines;
    int line;
    size_t at;
    size_t words, end;         /* where the line's words end, and the paragraph */
    struct piece close[LINKS]; /* of links that are open */
    int n_close;
};

static int is_blank(char c) { return c == ' ' || c == '\t'; }
static int is_space(char c) { return is_blank(c) || c == '\n' || c == '\r'; }
static int is_mark(char c) { return c && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", c); }
static int is_word(char c) { return !is_space(c) && !is_mark(c) && c; }

static size_t line_end(const struct reader *r) { return r->lines->line[r->line].end; }

/* How far a search may go. */
static size_t reach(const struct reader *r) {
    return min_size(r->end, r->at + min_size(REACH, r->lines->budget));
}

static void spend(struct reader *r, size_t at) {
    size_t cost = at > r->at ? at - r->at : 0;
    r->lines->budget -= min_size(cost, r->lines->budget);
}

static size_t run_at(const struct reader *r, size_t at) {
    size_t end = at;
    while (end < r->end && r->bytes[end] == r->bytes[at]) end++;
    return end - at;
}

/* ---- marks ----------------------------------------------------------------------------------- */

/* `code`: behind it, or 0. */
static size_t read_code(struct reader *r) {
    size_t n = run_at(r, r->at), from = r->at + n, last = reach(r);
    for (size_t at = from; at < last; at++) {
        if (r->bytes[at] != '`') continue;
        size_t k = run_at(r, at);
        if (k == n) {
            spend(r, at);
            flow_kept(r->flow, (struct piece){r->at, at + n}, r->bytes + from, at - from);
            return at + n;
        }
        at += k - 1;
    }
    spend(r, last);
    flow_words(r->flow, r->bytes + r->at, n);
    return r->at + n;
}

/* The bracket that closes the one at `at`, or 0. */
static size_t bracket_end(struct reader *r, size_t at, char open, char close) {
    int depth = 0;
    size_t last = reach(r), end = 0;
    for (; at < last && !end; at++) {
        char c = r->bytes[at];
        if (c == '\\') at++;
        if (c == open) depth++;
        if (c == close && --depth == 0) end = at;
    }
    spend(r, at);
    return end;
}

/* What a link is to: behind (address "title") or [label] at `at`; or `at`. */
static size_t target_end(struct reader *r, size_t at) {
    char c = at < r->end ? r->bytes[at] : 0;
    size_t end = c == '('   ? bracket_end(r, at, '(', ')')
                 : c == '[' ? bracket_end(r, at, '[', ']')
                            : 0;
    return end ? end + 1 : at;
}

/* [words](address), [words][label], [label], [^note]: behind what is read of it. */
static size_t read_bracket(struct reader *r) {
    size_t close = bracket_end(r, r->at, '[', ']');
    if (!close) {
        flow_words(r->flow, "[", 1);
        return r->at + 1;
    }
    size_t end = target_end(r, close + 1);
    if (r->bytes[r->at + 1] == '^') {
        flow_mark(r->flow, MARK_THING, 0, (struct piece){r->at, close + 1});
        return close + 1;
    }
    if (end == close + 1 || r->n_close == LINKS) {
        flow_kept(r->flow, (struct piece){r->at, end}, r->bytes + r->at + 1, close - r->at - 1);
        return end;
    }
    flow_open(r->flow, TAG_LINK, (struct piece){r->at, r->at + 1});
    r->close[r->n_close++] = (struct piece){close, end};
    return r->at + 1;
}

static size_t read_image(struct reader *r) {
    size_t close = bracket_end(r, r->at + 1, '[', ']');
    size_t end = close ? target_end(r, close + 1) : 0;
    if (!end || end == close + 1) {
        flow_words(r->flow, "!", 1);
        return r->at + 1;
    }
    flow_mark(r->flow, MARK_THING, 0, (struct piece){r->at, end});
    return end;
}

/* * ** _ __ ~~ */
static size_t read_emphasis(struct reader *r) {
    size_t n = run_at(r, r->at), begin = r->lines->line[r->line].begin;
    char c = r->bytes[r->at], before = r->at > begin ? r->bytes[r->at - 1] : ' ';
    char behind = r->at + n < line_end(r) ? r->bytes[r->at + n] : ' ';
    int opens = !is_space(behind) && !(c == '_' && is_word(before));
    int closes = !is_space(before) && !(c == '_' && is_word(behind));
    int tag = TAG_EMPHASIS + (c == '_' ? 1 : c == '~' ? 2 : 0) + 3 * (int)min_size(n, 100);
    struct piece mark = {r->at, r->at + n};
    if ((c == '~' && n < 2) || (!opens && !closes))
        flow_words(r->flow, r->bytes + r->at, n);
    else if (closes && (!opens || flow_is_open(r->flow, tag)))
        flow_close(r->flow, tag, mark);
    else
        flow_open(r->flow, tag, mark);
    return mark.end;
}

/* The element behind its start tag t, whose content is not translated. */
static size_t kept_end(const struct reader *r, struct html *scan, const struct html_token *t) {
    for (struct html_token in; (in = html_next(scan)).kind != HTML_END;)
        if (in.kind == HTML_CLOSE && html_same_name(r->bytes + r->at, &in, t))
            return r->at + in.end;
    return 0;
}

static int tag_of(const struct reader *r, const struct html_token *t) {
    int hash = 7;
    for (int i = 0; i < min_int(t->name_size, 16); i++)
        hash = (hash * 31 + (r->bytes[r->at + t->name + (size_t)i] | 32)) % 1000003;
    return TAG_HTML + hash;
}

/* A tag of HTML, or <https://example.org>. */
static size_t read_angle(struct reader *r) {
    struct html scan = html_open(r->bytes + r->at, reach(r) - r->at);
    struct html_token t = html_next(&scan);
    struct piece mark = {r->at, r->at + t.end};
    const char *name_end = r->bytes + r->at + t.name + t.name_size;
    spend(r, mark.end);
    if (t.kind == HTML_TEXT || t.kind == HTML_END || r->bytes[mark.end - 1] != '>') {
        flow_words(r->flow, "<", 1);
        return r->at + 1;
    }
    int is_tag = t.kind == HTML_OPEN || t.kind == HTML_CLOSE;
    int address = is_tag && (memchr(r->bytes + r->at, '@', t.end) || name_end[-1] == ':') &&
                  !memchr(r->bytes + r->at, ' ', t.end);
    if (address) {
        flow_kept(r->flow, mark, r->bytes + r->at + 1, t.end - 2);
    } else if (t.kind == HTML_OPEN && (t.keep || (t.element & HTML_KEEP))) {
        size_t end = kept_end(r, &scan, &t), behind = r->at + t.end;
        spend(r, end ? end : reach(r));
        const char *close = end ? memrchr(r->bytes + behind, '<', end - behind) : NULL;
        if (close) mark.end = end;
        flow_kept(r->flow, mark, close ? r->bytes + behind : "",
                  close ? (size_t)(close - r->bytes) - behind : 0);
    } else if (is_tag && (t.element & HTML_INLINE) && !(t.element & HTML_VOID)) {
        if (t.kind == HTML_OPEN)
            flow_open(r->flow, tag_of(r, &t), mark);
        else
            flow_close(r->flow, tag_of(r, &t), mark);
    } else {
        flow_mark(r->flow, t.element & HTML_BREAK ? MARK_BREAK : MARK_THING, 0, mark);
    }
    return mark.end;
}

/* https://example.org/a_b, as it stands in the text; or 0. */
static size_t read_address(struct reader *r) {
    size_t end = r->at, last = line_end(r);
    if (strncasecmp(r->bytes + r->at, "http", min_size(4, last - r->at)) != 0 || last - r->at < 9)
        return 0;
    if (memcmp(r->bytes + r->at + 4, "://", 3) != 0 && memcmp(r->bytes + r->at + 4, "s://", 4) != 0)
        return 0;
    while (end < last && !is_space(r->bytes[end]) && !strchr("<>|)]", r->bytes[end])) end++;
    while (strchr(".,;:!?*_'\"", r->bytes[end - 1])) end--;
    flow_kept(r->flow, (struct piece){r->at, end}, r->bytes + r->at, end - r->at);
    return end;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* From the end of a line to the next: a space, or a break if it ends in \ or two blanks. */
static void next_line(struct reader *r, size_t text_end) {
    const struct piece *line = &r->lines->line[r->line];
    if (r->line + 1 == r->lines->n) {
        r->at = r->end;
        return;
    }
    size_t next = line[1].begin;
    if (line->end - text_end >= 2 || (text_end < line->end && r->bytes[text_end] == '\\'))
        flow_mark(r->flow, MARK_BREAK, 0, (struct piece){text_end, next});
    else
        flow_words(r->flow, " ", 1);
    r->line++;
    r->at = next;
}

/* Where the words of a line end: before blanks, or a \ that is a break. */
static size_t words_end(const struct reader *r) {
    size_t end = line_end(r), begin = r->lines->line[r->line].begin;
    int last = r->line + 1 == r->lines->n;
    while (end > begin && is_blank(r->bytes[end - 1])) end--;
    if (!last && end == line_end(r) && end > begin && r->bytes[end - 1] == '\\') end--;
    return end;
}

static size_t read_escape(struct reader *r) {
    int escaped = r->at + 1 < line_end(r) && is_mark(r->bytes[r->at + 1]);
    flow_words(r->flow, r->bytes + r->at + escaped, 1);
    return r->at + 1 + (size_t)escaped;
}

static size_t read_reference(struct reader *r) {
    uint32_t code;
    int n = html_reference(&code, r->bytes + r->at, line_end(r) - r->at);
    if (n > 0 && r->bytes[r->at + (size_t)n - 1] == ';') {
        flow_word(r->flow, code);
        return r->at + (size_t)n;
    }
    flow_words(r->flow, "&", 1);
    return r->at + 1;
}

static size_t read_mark(struct reader *r) {
    size_t end;
    switch (r->bytes[r->at]) {
    case '\\':
        return read_escape(r);
    case '`':
        return read_code(r);
    case '!':
        if (r->at + 1 < r->end && r->bytes[r->at + 1] == '[') return read_image(r);
        break;
    case '[':
        return read_bracket(r);
    case '*':
    case '_':
    case '~':
        return read_emphasis(r);
    case '<':
        return read_angle(r);
    case '&':
        return read_reference(r);
    case 'h':
    case 'H':
        if ((end = read_address(r))) return end;
        break;
    }
    size_t at = r->at + 1;
    while (at < r->words && !strchr("\\`![]*_~<&hH", r->bytes[at])) at++;
    flow_words(r->flow, r->bytes + r->at, at - r->at);
    return at;
}

void markdown_inline(struct flow *flow, struct markdown_lines *lines) {
    struct reader r = {.flow = flow,
                       .bytes = flow->bytes,
                       .lines = lines,
                       .at = lines->line[0].begin,
                       .end = lines->line[lines->n - 1].end};
    r.words = words_end(&r);
    while (r.at < r.end) {
        int line = r.line;
        while (r.line + 1 < lines->n && r.at >= lines->line[r.line + 1].begin) r.line++;
        if (r.line > line) r.words = words_end(&r);
        struct piece close = r.n_close ? r.close[r.n_close - 1] : (struct piece){r.end, r.end};
        if (r.at >= close.begin) {
            r.n_close--;
            if (r.at > close.begin) continue; /* it was inside of something else */
            flow_close(flow, TAG_LINK, close);
            r.at = close.end;
        } else if (r.at >= r.words) {
            next_line(&r, r.words);
            r.words = words_end(&r);
        } else {
            r.at = read_mark(&r);
        }
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Could text[0..size), at the beginning of a block, be taken for its mark? */
static size_t looks_like_block(const char *text, size_t size) {
    size_t n = 0;
    if (size && strchr("#>+-=|", text[0])) return 1;
    while (n < size && n < 9 && text[n] >= '0' && text[n] <= '9') n++;
    return n && n < size && (text[n] == '.' || text[n] == ')') ? n + 1 : 0;
}

static void put_words(struct flow_writer *w, const char *text, size_t size) {
    size_t block = w->out->size == w->begin || w->after_break ? looks_like_block(text, size) : 0;
    for (size_t i = 0; i < size; i++) {
        char c = text[i], before = i ? text[i - 1] : ' ', behind = i + 1 < size ? text[i + 1] : ' ';
        int escape = c && strchr("\\`*[]<|", c) != NULL;
        if (c == '_') escape = !is_word(before) || !is_word(behind);
        if (c == '~') escape = before == '~' || behind == '~';
        if (block && i + 1 == block) escape = 1;
        if (c == '&' && (is_word(behind) || behind == '#')) {
            buffer_puts(w->out, "&amp;");
            continue;
        }
        if (escape) buffer_put(w->out, "\\", 1);
        buffer_put(w->out, &c, 1);
    }
}

const struct flow_style markdown_style = {.words = put_words, .mark = flow_raw_mark};
