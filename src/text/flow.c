/* flow.c — see flow.h. */
#include "text/flow.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/html.h"
#include "text/letters.h"

enum item_kind { ITEM_WORDS, ITEM_OPEN, ITEM_CLOSE, ITEM_MARK };

struct flow_item {
    enum item_kind kind;
    int mark;           /* among the text's */
    struct piece words; /* of flow->words */
};

static const char *const names[] = {[MARK_PAIR] = "b",
                                    [MARK_THING] = "img",
                                    [MARK_KEPT] = "code",
                                    [MARK_BREAK] = "br",
                                    [MARK_HARD] = "hr"};

struct flow flow_of(const char *bytes, size_t size) {
    return (struct flow){.bytes = bytes, .size = size};
}

void flow_release(struct flow *f) {
    xfree(f->text);
    xfree(f->mark);
    xfree(f->texts.text);
    xfree(f->item);
    xfree(f->words.text);
    xfree(f->stack);
}

const char *flow_get(const struct flow *f, int i, size_t *size) {
    const struct flow_text *t = &f->text[i];
    *size = t->plain ? t->of.end - t->of.begin : t->size;
    return t->plain ? f->bytes + t->of.begin : f->texts.text + t->at;
}

/* ---- reading --------------------------------------------------------------------------------- */

static int first_mark(const struct flow *f) {
    const struct flow_text *last = f->n_text ? &f->text[f->n_text - 1] : NULL;
    return last ? last->mark + last->n_mark : 0;
}

static struct flow_text *add_text(struct flow *f) {
    int mark = first_mark(f);
    GROW(f->text, f->n_text, f->room_text);
    struct flow_text *t = &f->text[f->n_text++];
    *t = (struct flow_text){.mark = mark};
    return t;
}

void flow_plain(struct flow *f, size_t begin, size_t end) {
    if (!letters_in(f->bytes + begin, end - begin)) return;
    struct flow_text *t = add_text(f);
    t->of = (struct piece){begin, end};
    t->plain = 1;
}

static struct flow_item *add_item(struct flow *f, enum item_kind kind, int mark) {
    GROW(f->item, f->n_item, f->room_item);
    f->item[f->n_item] = (struct flow_item){.kind = kind, .mark = mark};
    return &f->item[f->n_item++];
}

static int add_mark(struct flow *f, enum mark_kind kind, int tag, struct piece open) {
    GROW(f->mark, f->n_mark, f->room_mark);
    f->mark[f->n_mark] = (struct mark){.kind = kind, .tag = tag, .open = open};
    return f->n_mark++ - first_mark(f);
}

void flow_words(struct flow *f, const char *text, size_t size) {
    struct flow_item *last = f->n_item ? &f->item[f->n_item - 1] : NULL;
    size_t begin = f->words.size;
    if (!size) return;
    buffer_put(&f->words, text, size);
    if (!last || last->kind != ITEM_WORDS) {
        last = add_item(f, ITEM_WORDS, -1);
        last->words.begin = begin;
    }
    last->words.end = f->words.size;
}

void flow_word(struct flow *f, uint32_t code) {
    char bytes[4];
    flow_words(f, bytes, (size_t)utf8_encode(bytes, code));
}

void flow_mark(struct flow *f, enum mark_kind kind, int tag, struct piece mark) {
    add_item(f, ITEM_MARK, add_mark(f, kind, tag, mark));
}

void flow_kept(struct flow *f, struct piece mark, const char *words, size_t size) {
    struct flow_item *item = add_item(f, ITEM_MARK, add_mark(f, MARK_KEPT, 0, mark));
    item->words.begin = f->words.size;
    buffer_put(&f->words, words, size);
    item->words.end = f->words.size;
}

void flow_open(struct flow *f, int tag, struct piece mark) {
    GROW(f->stack, f->n_stack, f->room_stack);
    f->stack[f->n_stack++] = f->n_item;
    add_item(f, ITEM_OPEN, add_mark(f, MARK_PAIR, tag, mark));
}

/* The open pair at a place of the stack. */
static struct mark *open_mark(const struct flow *f, int at) {
    return &f->mark[first_mark(f) + f->item[f->stack[at]].mark];
}

/* Where in the stack the innermost pair of this tag is, not too far down; or -1. */
static int find_open(const struct flow *f, int tag) {
    enum { FAR = 16 };
    for (int i = f->n_stack - 1; i >= 0 && i >= f->n_stack - FAR; i--)
        if (open_mark(f, i)->tag == tag) return i;
    return -1;
}

int flow_is_open(const struct flow *f, int tag) { return find_open(f, tag) >= 0; }

void flow_close(struct flow *f, int tag, struct piece mark) {
    int at = find_open(f, tag);
    if (at < 0) {
        flow_mark(f, MARK_THING, tag, mark);
        return;
    }
    while (f->n_stack > at + 1) open_mark(f, --f->n_stack)->kind = MARK_THING;
    open_mark(f, at)->close = mark;
    f->n_stack = at;
    add_item(f, ITEM_CLOSE, f->item[f->stack[at]].mark);
}

static void put_item(struct flow *f, const struct flow_item *item) {
    const char *words = f->words.text + item->words.begin;
    size_t size = item->words.end - item->words.begin;
    struct buffer *out = &f->texts;
    char tag[32];
    if (item->kind == ITEM_CLOSE) buffer_puts(out, "</b>");
    if (item->kind == ITEM_OPEN || item->kind == ITEM_MARK) {
        enum mark_kind kind = f->mark[first_mark(f) + item->mark].kind;
        snprintf(tag, sizeof tag, "<%s %d>", names[kind], item->mark);
        buffer_puts(out, tag);
    }
    if (size) out->size += html_escape(buffer_room(out, 6 * size), words, size);
    if (item->kind == ITEM_MARK && f->mark[first_mark(f) + item->mark].kind == MARK_KEPT)
        buffer_puts(out, "</code>");
}

int flow_end(struct flow *f, struct piece of) {
    int letters = 0, first = first_mark(f);
    for (int i = 0; i < f->n_stack; i++) open_mark(f, i)->kind = MARK_THING;
    for (int i = 0; i < f->n_item && !letters; i++) {
        const struct flow_item *item = &f->item[i];
        if (item->kind == ITEM_WORDS)
            letters =
                letters_in(f->words.text + item->words.begin, item->words.end - item->words.begin);
    }
    size_t at = f->texts.size;
    for (int i = 0; i < f->n_item && letters; i++) put_item(f, &f->item[i]);
    f->n_item = f->n_stack = 0;
    f->words.size = 0;
    if (!letters) {
        f->n_mark = first;
        return 0;
    }
    struct flow_text *t = add_text(f);
    t->of = of;
    t->at = at;
    t->size = f->texts.size - at;
    t->n_mark = f->n_mark - first;
    return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void write_text(struct flow_writer *w, int i);

/* The first text that begins at a byte or behind it. */
static int find_text(const struct flow *f, size_t at) {
    int low = 0, high = f->n_text;
    while (low < high) {
        int middle = (low + high) / 2;
        if (f->text[middle].of.begin < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Bytes of the flow; text i is the first that may lie in them. */
static void copy_from(struct flow_writer *w, struct piece range, int i) {
    const struct flow *f = w->flow;
    size_t at = range.begin;
    while (i < f->n_text && f->text[i].of.begin < range.end) {
        struct piece of = f->text[i].of;
        if (of.end > range.end) {
            i++; /* the text that this is a mark of */
            continue;
        }
        buffer_put(w->out, f->bytes + at, of.begin - at);
        write_text(w, i);
        at = of.end;
        i = max_int(i + 1, find_text(f, of.end));
    }
    buffer_put(w->out, f->bytes + at, range.end - at);
}

void flow_copy(struct flow_writer *w, struct piece range) {
    copy_from(w, range, find_text(w->flow, range.begin));
}

void flow_raw_mark(struct flow_writer *w, const struct mark *mark, enum mark_side side) {
    flow_copy(w, side == MARK_OPEN ? mark->open : mark->close);
}

/* A translation that is being written. */
struct fragment {
    const char *html;
    const struct flow_text *text;
    int *open; /* [n_mark] pairs that are, innermost last */
    int n_open, n_seen;
    char *seen; /* [n_mark] */
    struct buffer words;
};

/* The mark that a start tag has the number of, or -1. */
static int mark_of(const struct flow *f, const struct fragment *g, const struct html_token *t) {
    const char *at = g->html + t->name, *end = g->html + t->end;
    int n = 0, digits = 0;
    for (at += t->name_size; at < end && *at == ' ';) at++;
    for (; at < end && *at >= '0' && *at <= '9' && digits < 9; at++, digits++)
        n = 10 * n + (*at - '0');
    if (!digits || n >= g->text->n_mark) return -1;
    const char *name = names[f->mark[g->text->mark + n].kind];
    int same = strlen(name) == (size_t)t->name_size &&
               memcmp(name, g->html + t->name, (size_t)t->name_size) == 0;
    return same ? n : -1;
}

/* Decodes a token's text into g->words. */
static void read_words(struct fragment *g, const struct html_token *t) {
    g->words.size = 0;
    for (size_t at = t->begin; at < t->end;) {
        uint32_t code = 0;
        const char *from = g->html + at;
        int n = *from == '&' ? html_reference(&code, from, t->end - at) : 0;
        char *room = buffer_room(&g->words, 4);
        if (n > 0) {
            g->words.size += (size_t)utf8_encode(room, code);
            at += (size_t)n;
        } else {
            *room = *from;
            g->words.size++;
            at++;
        }
    }
}

static void put_words(struct flow_writer *w, struct fragment *g, const struct html_token *t) {
    size_t skip = 0;
    read_words(g, t);
    while (w->after_break && skip < g->words.size && g->words.text[skip] == ' ') skip++;
    if (skip == g->words.size) return;
    w->after_break = 0;
    w->style->words(w, g->words.text + skip, g->words.size - skip);
}

static int put_start(struct flow_writer *w, struct fragment *g, const struct html_token *t) {
    int n = mark_of(w->flow, g, t);
    if (n < 0 || g->seen[n]) return 0;
    const struct mark *m = &w->flow->mark[g->text->mark + n];
    struct buffer *out = w->out;
    if (m->kind == MARK_BREAK)
        while (out->size > w->begin && out->text[out->size - 1] == ' ') out->size--;
    w->style->mark(w, m, MARK_OPEN);
    if (m->kind != MARK_PAIR) w->after_break = m->kind == MARK_BREAK;
    if (m->kind == MARK_PAIR) g->open[g->n_open++] = n;
    g->seen[n] = 1;
    g->n_seen++;
    return 1;
}

/* One token; of <code N>, all up to its end. Is it as it should be? */
static int put_token(struct flow_writer *w, struct fragment *g, struct html *scan,
                     const struct html_token *t) {
    if (t->kind == HTML_TEXT) {
        put_words(w, g, t);
        return 1;
    }
    if (t->kind == HTML_CLOSE) {
        if (!g->n_open || t->name_size != 1 || g->html[t->name] != 'b') return 0;
        w->style->mark(w, &w->flow->mark[g->text->mark + g->open[--g->n_open]], MARK_CLOSE);
        return 1;
    }
    if (t->kind != HTML_OPEN || !put_start(w, g, t)) return 0;
    if (!(t->element & HTML_KEEP)) return 1;
    for (struct html_token in; (in = html_next(scan)).kind != HTML_END;)
        if (in.kind != HTML_TEXT) return in.kind == HTML_CLOSE && html_same_name(g->html, &in, t);
    return 0;
}

static void write_fragment(struct flow_writer *w, int i, const struct document_answer *answer) {
    const struct flow_text *text = &w->flow->text[i];
    struct html scan = html_open(answer->text, answer->size);
    struct fragment g = {.html = answer->text, .text = text};
    int good = 1;
    g.open = xcalloc((size_t)text->n_mark + 1, sizeof *g.open);
    g.seen = xcalloc((size_t)text->n_mark + 1, 1);
    w->begin = w->out->size;
    w->after_break = 0;
    w->text = text;
    w->run = -1;
    for (struct html_token t; good && (t = html_next(&scan)).kind != HTML_END;)
        good = put_token(w, &g, &scan, &t);
    if ((!good || g.n_open || g.n_seen != text->n_mark) && !w->rc)
        w->rc = err_set(w->err, HEED_EINVAL, "the translation of text %d has other tags than it",
                        w->first + i);
    xfree(g.open);
    xfree(g.seen);
    xfree(g.words.text);
}

static void write_text(struct flow_writer *w, int i) {
    const struct flow_text *t = &w->flow->text[i];
    const struct document_answer *a = w->first + i < w->n_answer ? &w->answer[w->first + i] : NULL;
    size_t size;
    const char *text = flow_get(w->flow, i, &size);
    if (!a || (a->size == size && memcmp(a->text, text, size) == 0)) {
        copy_from(w, t->of, i + 1);
    } else if (t->plain) {
        buffer_put(w->out, a->text, a->size);
    } else { /* a text in a mark of this one is written in the middle of it */
        struct flow_writer inner = *w;
        write_fragment(&inner, i, a);
        w->rc = inner.rc;
    }
}

int flow_write(struct flow_writer *w) {
    flow_copy(w, (struct piece){0, w->flow->size});
    return w->rc;
}
