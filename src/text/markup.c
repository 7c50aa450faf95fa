/* markup.c — see markup.h. Reading: tokens become items, items between hard ones become segments.
 *
 * Tags are matched with a stack. Whatever is hard empties it and makes the start tags in it hard,
 * so that a matched pair never has anything hard inside: all tags of a segment nest. */
#include "text/markup.h"

#include <string.h>
#include <strings.h>

#include "base/emoji.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "data/passages.h"
#include "data/words.h"
#include "text/html.h"
#include "text/letters.h"
#include "text/markup_parts.h"
#include "text/placeholder.h"

enum { LONGEST_KEPT = 64 }; /* bytes that the model is shown */

enum role { TEXT, HARD, THING, KEPT, OPEN, CLOSE };

struct item {
    enum role role;
    int first, end; /* tokens */
    int mate;       /* of a tag that is matched */
};

struct reader {
    struct markup *m;
    const char *html;
    const struct sentence_rules *rules;
    struct html_token *token;
    int n_token, room_token;
    struct item *item;
    int n_item, room_item;
    int stack[MARKUP_DEPTH]; /* start tags that are not matched yet; later: nodes */
    int depth;
    struct segment *segment; /* being read */
    struct words words;
    int *cut; /* [n_cut] where spaces go into its text */
    int n_cut, room_cut;
};

/* ---- characters ------------------------------------------------------------------------------ */

int markup_take(const struct markup *m, uint32_t *code, size_t at, size_t end) {
    const char *html = m->html;
    int n = html[at] == '&' && !m->plain ? html_reference(code, html + at, end - at) : 0;
    if (n) return n > 0 && *code == 0xFFFD ? -n : n; /* no character: &#x110000; */
    n = utf8_decode(code, html + at, end - at);
    if (n < 0 || *code == 0) *code = 0xFFFD;
    if (*code < ' ') *code = ' ';
    return n < 0 ? -n : n;
}

static int is_capital(uint32_t code) {
    uint32_t lower[2];
    return unicode_lower(lower, &code, 1) != 1 || lower[0] != code;
}

static int has_letter(const struct markup *m, size_t at, size_t end) {
    while (at < end) {
        uint32_t code = 0;
        int n = markup_take(m, &code, at, end);
        if (n > 0 && letter_is(code)) return 1;
        at += (size_t)(n < 0 ? -n : n);
    }
    return 0;
}

static const char *const blanks[] = {" ", "\n", "\t", "\r", "\f", "\xC2\xA0", "&nbsp;"};
enum { N_BLANKS = sizeof blanks / sizeof *blanks };

/* How many bytes at the beginning of a piece, or at its end, are white space or an emoji. */
static size_t margin(const char *html, struct piece p, int at_end) {
    size_t size = p.end - p.begin, n;
    const char *text = html + p.begin;
    for (int i = 0; i < N_BLANKS; i++) {
        n = strlen(blanks[i]);
        if (n <= size && memcmp(at_end ? text + size - n : text, blanks[i], n) == 0) return n;
    }
    if (!at_end) return emoji_at(text, size);
    uint32_t code;
    for (n = min_size(size, 4); n > 2; n--) /* the last character */
        if (utf8_decode(&code, text + size - n, n) == (int)n) return emoji_goes_on(code) ? n : 0;
    return 0;
}

/* Moves the ends of a piece past white space and emoji. */
static struct piece strip(const char *html, struct piece p) {
    for (size_t n; (n = margin(html, p, 0)) > 0;) p.begin += n;
    for (size_t n; (n = margin(html, p, 1)) > 0;) p.end -= n;
    return p;
}

/* ---- items ----------------------------------------------------------------------------------- */

/* Nothing open can be carried over. */
static void harden(struct reader *r) {
    for (int i = 0; i < r->depth; i++) r->item[r->stack[i]].role = HARD;
    r->depth = 0;
}

/* The text before token `at` (step -1) or behind it (step 1), or NULL; inline tags may lie
 * between. */
static const struct html_token *text_beside(const struct reader *r, int at, int step) {
    enum { MOST = 8 };
    for (int i = at + step, n = 0; i >= 0 && i < r->n_token && n < MOST; i += step, n++) {
        const struct html_token *t = &r->token[i];
        if (t->kind == HTML_TEXT) return t;
        if (t->kind == HTML_OTHER ||
            (t->element & (HTML_INLINE | HTML_VOID | HTML_KEEP)) != HTML_INLINE)
            return NULL;
    }
    return NULL;
}

/* Does the sentence go on behind this <br>? */
static int goes_on(const struct reader *r, int at) {
    const struct html_token *before = text_beside(r, at, -1), *behind = text_beside(r, at, 1);
    if (!before || !behind) return 0;
    struct piece a = strip(r->html, (struct piece){before->begin, before->end});
    struct piece b = strip(r->html, (struct piece){behind->begin, behind->end});
    if (a.begin == a.end || b.begin == b.end) return 0;
    size_t last = a.end - 1;
    while (last > a.begin && (r->html[last] & 0xC0) == 0x80) last--;
    uint32_t code = 0, next = 0;
    markup_take(r->m, &code, last, a.end);
    if (markup_take(r->m, &next, b.begin, b.end) < 0) return 0;
    int ended = unicode_category(code) == UNICODE_PUNCTUATION && code != ',';
    return !ended && letter_is(next) && !is_capital(next);
}

/* The token behind the element that begins at token `at` and is not for translation. */
static int kept_end(const struct reader *r, int at) {
    const struct html_token *open = &r->token[at];
    int depth = 1;
    if ((open->element & HTML_VOID) || open->empty) return at + 1;
    for (int i = at + 1; i < r->n_token; i++) {
        const struct html_token *t = &r->token[i];
        if ((t->kind != HTML_OPEN && t->kind != HTML_CLOSE) || !html_same_name(r->html, t, open))
            continue;
        depth += t->kind == HTML_OPEN ? !t->empty : -1;
        if (depth == 0) return i + 1;
    }
    return r->n_token;
}

/* What such an element is in the text around it. One without an end tag cannot move. */
static enum role kept_role(const struct reader *r, int first, int end) {
    const struct html_token *open = &r->token[first], *close = &r->token[end - 1];
    size_t size = 0;
    if (!(open->element & HTML_VOID) && !open->empty &&
        (close->kind != HTML_CLOSE || !html_same_name(r->html, open, close)))
        return HARD;
    if (close->xml) return HARD; /* it opens a <svg> that goes on behind it */
    for (int i = first; i < end; i++) {
        const struct html_token *t = &r->token[i];
        int tag = t->kind == HTML_OPEN || t->kind == HTML_CLOSE;
        int svg = r->token[first].element & HTML_KEEP; /* whatever is inside <svg> */
        if (tag && !(t->element & HTML_INLINE) && (i == first || !svg)) return HARD;
        if (t->kind == HTML_TEXT) size += t->end - t->begin;
    }
    return size > 0 && size <= LONGEST_KEPT ? KEPT : THING;
}

/* The token behind a mark of a footnote, <sup>1</sup> or <sup><a href="#1">[1]</a></sup>, that
 * begins at token `at`; 0 if it is none. It has a place and no words. */
static int footnote_end(const struct reader *r, int at) {
    enum { LONGEST = 6 }; /* tokens */
    const struct html_token *open = &r->token[at];
    if (open->name_size != 3 || strncasecmp(r->html + open->name, "sup", 3) != 0) return 0;
    for (int i = at + 1; i < min_int(r->n_token, at + LONGEST); i++) {
        const struct html_token *t = &r->token[i];
        if (t->kind == HTML_TEXT && has_letter(r->m, t->begin, t->end)) return 0;
        if (t->kind == HTML_CLOSE && html_same_name(r->html, t, open)) return i + 1;
        if (t->kind != HTML_TEXT && !(t->element & HTML_INLINE)) return 0;
    }
    return 0;
}

static enum role role_of_tag(struct reader *r, int at) {
    const struct html_token *t = &r->token[at];
    if (!(t->element & HTML_INLINE)) return HARD;
    if (t->element & HTML_VOID)
        return t->kind == HTML_OPEN && (!(t->element & HTML_BREAK) || goes_on(r, at)) ? THING
                                                                                      : HARD;
    if (t->kind == HTML_OPEN) return r->depth < MARKUP_DEPTH ? OPEN : HARD;
    const struct item *open = r->depth ? &r->item[r->stack[r->depth - 1]] : NULL;
    return open && html_same_name(r->html, t, &r->token[open->first]) ? CLOSE : HARD;
}

/* The item that begins at token `at`: the token behind it. */
static int read_item(struct reader *r, int at) {
    const struct html_token *t = &r->token[at];
    struct item item = {.role = TEXT, .first = at, .end = at + 1, .mate = -1};
    GROW(r->item, r->n_item, r->room_item);
    if (t->kind == HTML_OTHER) item.role = THING;
    if (t->kind == HTML_OPEN && (t->keep || (t->element & HTML_KEEP))) {
        item.end = kept_end(r, at);
        item.role = kept_role(r, at, item.end);
    } else if (t->kind == HTML_OPEN && footnote_end(r, at)) {
        item.end = footnote_end(r, at);
        item.role = THING;
    } else if (t->kind == HTML_OPEN || t->kind == HTML_CLOSE) {
        item.role = role_of_tag(r, at);
    }
    if (item.role == HARD) harden(r);
    if (item.role == OPEN) r->stack[r->depth++] = r->n_item;
    if (item.role == CLOSE) {
        item.mate = r->stack[--r->depth];
        r->item[item.mate].mate = r->n_item;
    }
    r->item[r->n_item++] = item;
    return item.end;
}

static struct piece piece_of(const struct reader *r, const struct item *item) {
    return (struct piece){r->token[item->first].begin, r->token[item->end - 1].end};
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static struct node *add_node(struct reader *r, enum node_kind kind, struct piece open) {
    struct markup *m = r->m;
    GROW(m->node, m->n_node, m->room_node);
    struct node *n = &m->node[m->n_node++];
    *n = (struct node){.kind = kind,
                       .parent = r->depth ? r->stack[r->depth - 1] : -1,
                       .depth = r->depth + 1,
                       .open = open,
                       .begin = r->segment->size,
                       .end = r->segment->size};
    r->segment->n_node++;
    return n;
}

static void grow_text(struct markup *m, size_t size) {
    if (m->room_text - m->n_text >= size) return;
    m->room_text = 2 * m->room_text + size;
    m->text = xrealloc(m->text, m->room_text);
    m->from = xrealloc(m->from, m->room_text * sizeof *m->from);
}

/* Adds a character, which is at `from` in the document. */
static void put(struct reader *r, uint32_t code, size_t from) {
    struct markup *m = r->m;
    struct segment *s = r->segment;
    if (code == ' ' && (s->size == 0 || m->text[s->text + s->size - 1] == ' ')) {
        struct node *last = s->n_node ? &m->node[m->n_node - 1] : NULL;
        if (last && last->begin == s->size) last->space = 1;
        return;
    }
    grow_text(m, 4);
    int n = utf8_encode(m->text + m->n_text, code);
    for (int i = 0; i < n; i++) m->from[m->n_text + (size_t)i] = (uint32_t)from;
    m->n_text += (size_t)n;
    s->size += n;
}

/* Finds the placeholders in the segment's text from `at` on. */
static void hold(struct reader *r, int at) {
    while (at < r->segment->size) {
        const char *text = r->m->text + r->segment->text;
        int n = (int)placeholder_at(text, (size_t)r->segment->size, (size_t)at);
        if (n) {
            struct node *held = add_node(r, NODE_HELD, (struct piece){0, 0});
            held->begin = at;
            held->end = at + n;
        }
        at += n ? n : 1;
    }
}

/* Behind the emoji at html[at], or `at` where there is none. */
static size_t skip_emoji(const struct markup *m, size_t at, size_t end) {
    uint32_t code = 0;
    for (size_t from = at; at < end;) {
        int n = markup_take(m, &code, at, end);
        if (n <= 0 || !(at > from ? emoji_goes_on(code) : emoji_is(code))) break;
        at += (size_t)n;
    }
    return at;
}

/* The text of a token; the reader's nodes get what it has besides words. */
static void put_text(struct reader *r, struct piece p, int kept) {
    int begin = r->segment->size;
    for (size_t at = p.begin; at < p.end;) {
        uint32_t code = 0;
        int n = markup_take(r->m, &code, at, p.end);
        if (!kept && n > 0 && emoji_is(code)) /* a picture */
            n = -(int)(skip_emoji(r->m, at, p.end) - at);
        if (n > 0) {
            /* what is written of the kept is the document's */
            put(r, kept && unicode_is_space(code) ? ' ' : code, at);
        } else if (!kept) {
            hold(r, begin);
            begin = r->segment->size;
            add_node(r, NODE_THING, (struct piece){at, at + (size_t)-n});
        } else {
            for (size_t i = at; i < at + (size_t)-n; i++) put(r, (unsigned char)r->html[i], i);
        }
        at += (size_t)(n < 0 ? -n : n);
    }
    if (!kept) hold(r, begin);
}

static void put_kept(struct reader *r, const struct item *item) {
    int node = r->m->n_node, begin = r->segment->size;
    add_node(r, NODE_KEPT, piece_of(r, item));
    for (int i = item->first; i < item->end; i++)
        if (r->token[i].kind == HTML_TEXT)
            put_text(r, (struct piece){r->token[i].begin, r->token[i].end}, 1);
    struct node *n = &r->m->node[node];
    n->end = r->segment->size;
    if (n->end == begin) n->kind = NODE_THING;
}

static void put_item(struct reader *r, const struct item *item) {
    struct markup *m = r->m;
    struct piece p = piece_of(r, item);
    switch (item->role) {
    case TEXT:
        put_text(r, p, 0);
        break;
    case KEPT:
        put_kept(r, item);
        break;
    case OPEN:
        add_node(r, NODE_ELEMENT, p);
        r->stack[r->depth++] = r->segment->n_node - 1;
        break;
    case CLOSE: {
        struct node *n = &m->node[r->segment->node + r->stack[--r->depth]];
        n->end = r->segment->size;
        n->close = p;
        break;
    }
    default:
        add_node(r, NODE_THING, p);
        if (r->token[item->first].element & HTML_BREAK) put(r, ' ', p.begin);
    }
}

/* ---- what is kept, apart from words ---------------------------------------------------------- */

static int is_leaf(const struct node *n) { return n->kind >= NODE_KEPT; }

/* A space goes here, if this is inside a word. *w is the first word that may be behind it. */
static int cut_at(struct reader *r, int at, int *w) {
    while (*w < r->words.n && r->words.word[*w].end <= at) ++*w;
    if (*w == r->words.n || r->words.word[*w].begin >= at) return 0;
    GROW(r->cut, r->n_cut, r->room_cut);
    if (!r->n_cut || r->cut[r->n_cut - 1] != at) r->cut[r->n_cut++] = at;
    return 1;
}

/* How many cuts are before a byte, or at it. */
static int cuts_before(const struct reader *r, int at) {
    int low = 0, high = r->n_cut;
    while (low < high) {
        int middle = (low + high) / 2;
        if (r->cut[middle] <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The segment's text with a space at every cut. */
static void insert_spaces(struct reader *r) {
    struct markup *m = r->m;
    struct segment *s = r->segment;
    grow_text(m, (size_t)r->n_cut);
    char *text = m->text + s->text;
    uint32_t *from = m->from + s->text;
    for (int k = r->n_cut, end = s->size; k > 0; end = r->cut[--k]) {
        int at = r->cut[k - 1];
        memmove(text + at + k, text + at, (size_t)(end - at));
        memmove(from + at + k, from + at, (size_t)(end - at) * sizeof *from);
        text[at + k - 1] = ' ';
        from[at + k - 1] = (uint32_t)NOT_THERE;
    }
    s->size += r->n_cut;
    m->n_text += (size_t)r->n_cut;
    for (struct node *n = m->node + s->node; n < m->node + m->n_node; n++) {
        int empty = n->begin == n->end;
        n->end += empty ? 0 : cuts_before(r, n->end - 1);
        n->begin += cuts_before(r, n->begin);
        if (empty) n->end = n->begin;
    }
}

/* Sees to it that no word has a part of what is kept and something else. */
static void part_leaves(struct reader *r) {
    struct markup *m = r->m;
    const struct segment *s = r->segment;
    int leaves = 0, w = 0;
    for (int i = 0; i < s->n_node; i++) leaves += is_leaf(&m->node[s->node + i]);
    if (!leaves || s->size > TOKENIZER_MAX_TEXT) return;
    words_of_text(&r->words, WORDS_WORDS, m->text + s->text, (size_t)s->size);
    r->n_cut = 0;
    for (int i = 0; i < s->n_node; i++) {
        struct node *n = &m->node[s->node + i];
        if (!is_leaf(n)) continue;
        if (cut_at(r, n->begin, &w)) n->glued |= GLUED_BEFORE;
        if (cut_at(r, n->end, &w)) n->glued |= GLUED_BEHIND;
    }
    if (r->n_cut) insert_spaces(r);
}

/* ---- segments -------------------------------------------------------------------------------- */

static int is_blank(const struct reader *r, const struct item *item) {
    struct piece p = piece_of(r, item);
    if (item->role == TEXT) p = strip(r->html, p);
    return item->role == THING || (item->role == TEXT && p.begin == p.end);
}

static void add_unit(struct reader *r, size_t begin, size_t end) {
    struct markup *m = r->m;
    if (m->n_unit == m->room_unit) {
        m->room_unit = m->room_unit ? 2 * m->room_unit : 16;
        m->unit = xrealloc(m->unit, (size_t)m->room_unit * sizeof *m->unit);
        m->segment_of = xrealloc(m->segment_of, (size_t)m->room_unit * sizeof *m->segment_of);
    }
    m->segment_of[m->n_unit] = m->n_segment - 1;
    m->unit[m->n_unit++] = (struct span){(int)begin, (int)end};
    r->segment->n_unit++;
}

/* The sentences of a segment's text. None ends inside what is kept; one without a letter belongs to
 * the next, or at the end to the one before, but for bars, which stay between them unless they have
 * tags of their own. */
static void add_units(struct reader *r) {
    struct markup *m = r->m;
    struct segment *s = r->segment;
    const struct node *node = m->node + s->node, *end_node = node + s->n_node;
    const char *text = m->text + s->text;
    size_t size = (size_t)s->size, at = sentence_skip_space(text, size, 0), begin = at, kept = 0;
    int words = 0;
    s->unit = m->n_unit;
    while (at < size) {
        size_t end = sentence_end(r->rules, text, size, at);
        int bar = at == begin && kept <= at && sentence_is_bar(text + at, end - at);
        words |= letters_in(text + at, end - at);
        for (; node < end_node && (size_t)node->begin < end; node++) {
            if (is_leaf(node)) kept = max_size(kept, (size_t)node->end);
            bar = bar && (size_t)node->begin < at;
        }
        at = sentence_skip_space(text, size, end);
        if (bar) begin = at;
        if (bar || (at < size && (kept > end || !words))) continue;
        BUG_ON(!words && !s->n_unit); /* a segment has a letter */
        if (words)
            add_unit(r, begin, end);
        else
            m->unit[m->n_unit - 1].end = s->size;
        begin = at;
        words = 0;
    }
}

static struct segment *begin_segment(struct reader *r, struct piece of) {
    struct markup *m = r->m;
    GROW(m->segment, m->n_segment, m->room_segment);
    struct segment *s = r->segment = &m->segment[m->n_segment++];
    *s = (struct segment){.of = of, .text = m->n_text, .node = m->n_node};
    r->depth = 0;
    return s;
}

/* Has the segment a letter that is not kept? */
static int has_words(const struct reader *r) {
    const struct segment *s = r->segment;
    const char *text = r->m->text + s->text;
    int at = 0;
    for (int i = 0; i < s->n_node; i++) {
        const struct node *n = &r->m->node[s->node + i];
        if (!is_leaf(n)) continue;
        if (letters_in(text + at, (size_t)(n->begin - at))) return 1;
        at = n->end;
    }
    return letters_in(text + at, (size_t)(s->size - at));
}

/* Its text is read. 0: there is nothing to translate in it, and it is no segment. */
static int end_segment(struct reader *r) {
    struct markup *m = r->m;
    struct segment *s = r->segment;
    while (s->size && m->text[s->text + (size_t)s->size - 1] == ' ') s->size--, m->n_text--;
    for (int i = 0; i < s->n_node; i++) {
        struct node *n = &m->node[s->node + i];
        n->begin = min_int(n->begin, s->size);
        n->end = min_int(n->end, s->size);
        if (n->begin == n->end && n->kind == NODE_KEPT) n->kind = NODE_THING;
    }
    if (!has_words(r)) {
        m->n_text = s->text;
        m->n_node = s->node;
        m->n_segment--;
        return 0;
    }
    part_leaves(r);
    return 1;
}

/* Items [first, end), none of them hard. What is at the ends and need not move stays out. */
static void read_segment(struct reader *r, int first, int end) {
    int words = 0;
    for (;;) {
        while (first < end && is_blank(r, &r->item[first])) first++;
        while (first < end && is_blank(r, &r->item[end - 1])) end--;
        if (first >= end || r->item[first].role != OPEN || r->item[first].mate != end - 1) break;
        first++, end--;
    }
    for (int i = first; i < end && !words; i++) {
        struct piece p = piece_of(r, &r->item[i]);
        words = r->item[i].role == TEXT && has_letter(r->m, p.begin, p.end);
    }
    if (!words) return;
    struct piece from = piece_of(r, &r->item[first]), to = piece_of(r, &r->item[end - 1]);
    if (r->item[first].role == TEXT) from = strip(r->html, from);
    if (r->item[end - 1].role == TEXT) to = strip(r->html, to);
    struct segment *s = begin_segment(r, (struct piece){from.begin, to.end});
    for (int i = first; i < end; i++) {
        struct piece p = piece_of(r, &r->item[i]);
        if (r->item[i].role == TEXT)
            put_text(r, (struct piece){max_size(p.begin, s->of.begin), min_size(p.end, s->of.end)},
                     0);
        else
            put_item(r, &r->item[i]);
    }
    if (end_segment(r)) add_units(r);
}

/* A sentence of a plain text. */
static void read_sentence(struct reader *r, const struct passage *one) {
    struct piece p = {one->at, one->at + one->size};
    struct segment *s = begin_segment(r, p);
    put_text(r, p, 0);
    if (!end_segment(r)) return;
    s->unit = r->m->n_unit;
    add_unit(r, 0, (size_t)s->size);
}

/* ---- the document ---------------------------------------------------------------------------- */

static struct reader begin(const char *html, size_t size, const struct sentence_rules *rules) {
    struct markup *m = xcalloc(1, sizeof *m);
    *m = (struct markup){.html = html, .size = size};
    /* Never NULL: places in them are counted from their beginning, also where they are empty. */
    grow_text(m, 4096);
    GROW(m->node, m->n_node, m->room_node);
    return (struct reader){.m = m, .html = html, .rules = rules};
}

static struct markup *end(struct reader *r) {
    words_release(&r->words);
    xfree(r->cut);
    xfree(r->token);
    xfree(r->item);
    return r->m;
}

struct markup *markup_read(const char *html, size_t size, const struct sentence_rules *rules) {
    struct reader r = begin(html, size, rules);
    struct html scan = html_open(html, size);
    for (;;) {
        GROW(r.token, r.n_token, r.room_token);
        r.token[r.n_token] = html_next(&scan);
        if (r.token[r.n_token].kind == HTML_END) break;
        r.n_token++;
    }
    for (int at = 0; at < r.n_token;) at = read_item(&r, at);
    harden(&r);
    for (int first = 0, i = 0; i <= r.n_item; i++) {
        if (i < r.n_item && r.item[i].role != HARD) continue;
        if (i > first) read_segment(&r, first, i);
        first = i + 1;
    }
    return end(&r);
}

int markup_in_text(const char *text, size_t size) {
    if (placeholder_in(text, size)) return 1;
    for (size_t at = 0, n; at < size; at += n ? n : 1)
        if ((n = emoji_at(text + at, size - at)) && passages_go_on(text, size, at)) return 1;
    return 0;
}

struct markup *markup_read_text(const char *text, size_t size, const struct sentence_rules *rules) {
    struct reader r = begin(text, size, rules);
    struct passages all = passages_of(rules, text, size);
    r.m->plain = all.over_emoji = 1;
    for (struct passage one; passages_next(&all, &one);) read_sentence(&r, &one);
    return end(&r);
}

void markup_free(struct markup *m) {
    if (!m) return;
    xfree(m->text);
    xfree(m->from);
    xfree(m->segment);
    xfree(m->node);
    xfree(m->unit);
    xfree(m->segment_of);
    xfree(m);
}

int markup_count(const struct markup *m) { return m->n_unit; }

const char *markup_text(const struct markup *m, int i, size_t *size) {
    *size = (size_t)(m->unit[i].end - m->unit[i].begin);
    return m->text + m->segment[m->segment_of[i]].text + m->unit[i].begin;
}

const char *markup_before(const struct markup *m, int i, size_t *size) {
    const struct segment *s = &m->segment[m->segment_of[i]];
    size_t from = s > m->segment ? s[-1].of.end : 0;
    *size = s->of.begin - from;
    return m->html + from;
}

/* Did all sentences come out as they went in? */
static int is_same(const struct markup *m, const struct segment *s,
                   const struct markup_answer *answer) {
    int same = 1;
    for (int u = 0; u < s->n_unit && same; u++) {
        size_t size;
        const char *text = markup_text(m, s->unit + u, &size);
        same = answer[u].size == size && memcmp(answer[u].text, text, size) == 0;
    }
    return same;
}

char *markup_write(const struct markup *m, const struct markup_answer *answer, size_t *size) {
    return markup_write_words(m, answer, size, NULL);
}

char *markup_write_words(const struct markup *m, const struct markup_answer *answer, size_t *size,
                         struct markup_words *words) {
    struct buffer out = {0};
    size_t at = 0;
    for (int i = 0; i < m->n_segment; i++) {
        const struct segment *s = &m->segment[i];
        int same = is_same(m, s, answer + s->unit);
        size_t to = same ? s->of.end : s->of.begin;
        if (same && !words) continue;
        buffer_put(&out, m->html + at, to - at);
        at = s->of.end;
        if (same)
            markup_same(out.size - at, m, s, answer + s->unit, words);
        else
            markup_place(&out, m, s, answer + s->unit, words);
    }
    buffer_put(&out, m->html + at, m->size - at);
    *buffer_room(&out, 1) = 0;
    *size = out.size;
    return out.text;
}

void markup_words_release(struct markup_words *words) {
    xfree(words->source);
    xfree(words->target);
    xfree(words->link);
}
