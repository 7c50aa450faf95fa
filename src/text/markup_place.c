/* markup_place.c — see markup.h. Writing a segment: where in its translation each node goes.
 *
 * Every word of the source belongs to the deepest node that has part of it, and every word of the
 * translation to the node of the word that it is aligned to. Then, level by level from the
 * outermost nodes inwards, a node takes the stretch of its parent's words that has most words of
 * its own; a node without any becomes a gap between two words. So stretches nest, and writing them
 * is a walk over a tree. */
#define _GNU_SOURCE /* qsort_r */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "data/passages.h"
#include "text/html.h"
#include "text/markup_parts.h"

enum {
    BRIDGE = 2,     /* words of the parent that may lie between two of a node */
    MOST_HELD = 64, /* of a segment that are looked for in its translation */
    NOWHERE = -1,   /* no node; the segment itself */
    UNKNOWN = -2
};

/* Where a node goes: words [begin, end) of the translation; a gap if they are equal. */
struct place {
    int begin, end, weight;
    int skip; /* it is in the translation already */
};

struct placer {
    const struct markup *m;
    const struct segment *s;
    const char *source;
    const struct node *node;
    int n_node;
    struct buffer text; /* the translation */
    struct span *src, *tgt;
    int n_src, n_tgt;
    int *link;           /* [n_tgt] the word of the source, or -1 */
    int *before;         /* [n_tgt] the word of the source that is before it; UNKNOWN: any */
    int *first, *last;   /* [n_src] of the words that are linked to it; -1: none */
    int *of_src;         /* [n_src] node that a word belongs to */
    int *of;             /* [n_tgt] the same */
    int *own;            /* [n_tgt] the node, of those placed, that a word is in */
    int *child;          /* [n_tgt] the node of the next level that wants it */
    struct place *place; /* [n_node] */
    int *order;          /* [n_node] by parent and place */
    int *children;       /* [n_node + 1] where those of each node begin in order; of none: first */
    int *wrote;          /* [n_tgt] where in out a word is; -1: nowhere */
    int *leaf;           /* [n_node] the same of what is kept */
    struct buffer *out;
    size_t at;          /* bytes of the translation that are written */
    int word;           /* the first word of it that is not */
    int kept_end;       /* where in the source what is kept and was written last ends, */
    size_t behind_kept; /* and where in out; 0: nothing was */
    size_t blanks;      /* white space of the document that was written last */
};

/* ---- words ----------------------------------------------------------------------------------- */

/* What is between two sentences, or around them. */
static void put_between(struct placer *p, int begin, int end, int more) {
    const char *gap = p->source + begin;
    size_t size = (size_t)(end - begin);
    char *room = buffer_room(&p->text, size + 1);
    if (size || more) p->text.size += passages_gap(room, gap, size, p->text.text, p->text.size);
}

static void merge(struct placer *p, const struct markup_answer *answer) {
    const struct span *unit = p->m->unit + p->s->unit;
    for (int u = 0; u < p->s->n_unit; u++)
        p->n_src += answer[u].n_source, p->n_tgt += answer[u].n_target;
    p->src = xcalloc((size_t)p->n_src + 1, sizeof *p->src);
    p->tgt = xcalloc((size_t)p->n_tgt + 1, sizeof *p->tgt);
    p->link = xcalloc((size_t)p->n_tgt + 1, sizeof *p->link);
    p->before = xcalloc((size_t)p->n_tgt + 1, sizeof *p->before);
    p->n_src = p->n_tgt = 0;
    for (int u = 0; u < p->s->n_unit; u++) {
        const struct markup_answer *a = &answer[u];
        put_between(p, u ? unit[u - 1].end : 0, unit[u].begin, a->size > 0);
        int at = (int)p->text.size, from = unit[u].begin;
        buffer_put(&p->text, a->text, a->size);
        for (int j = 0; j < a->n_target; j++) {
            p->tgt[p->n_tgt + j] = (struct span){a->target[j].begin + at, a->target[j].end + at};
            p->link[p->n_tgt + j] = -1;
            p->before[p->n_tgt + j] = UNKNOWN;
        }
        if (a->n_target) p->before[p->n_tgt] = p->n_src - 1;
        for (int i = 0; i < a->n_source; i++)
            p->src[p->n_src + i] =
                (struct span){a->source[i].begin + from, a->source[i].end + from};
        for (int k = 0; k < a->n_link; k++)
            p->link[p->n_tgt + a->link[k].tgt] = p->n_src + a->link[k].src;
        p->n_src += a->n_source;
        p->n_tgt += a->n_target;
    }
    put_between(p, unit[p->s->n_unit - 1].end, p->s->size, 0);
}

static int is_mark(const char *text, struct span word) {
    uint32_t code = 0;
    int n = utf8_decode(&code, text + word.begin, (size_t)(word.end - word.begin));
    return n > 0 && (unicode_category(code) == UNICODE_PUNCTUATION ||
                     unicode_category(code) == UNICODE_SYMBOL);
}

/* Links between a mark and a word are noise. */
static void read_links(struct placer *p) {
    for (int i = 0; i < p->n_src; i++) p->first[i] = p->last[i] = -1;
    for (int j = 0; j < p->n_tgt; j++) {
        int i = p->link[j];
        if (i >= 0 && is_mark(p->text.text, p->tgt[j]) != is_mark(p->source, p->src[i]))
            i = p->link[j] = -1;
        if (i < 0) continue;
        if (p->first[i] < 0) p->first[i] = j;
        p->last[i] = j;
    }
}

/* The first word of the source that ends behind a byte of it. */
static int word_behind(const struct placer *p, int byte) {
    int low = 0, high = p->n_src;
    while (low < high) {
        int at = (low + high) / 2;
        if (p->src[at].end > byte)
            high = at;
        else
            low = at + 1;
    }
    return low;
}

static int depth_of(const struct placer *p, int node) { return node < 0 ? 0 : p->node[node].depth; }

static int ancestor(const struct placer *p, int node, int depth) {
    while (depth_of(p, node) > depth) node = p->node[node].parent;
    return node;
}

static int common_ancestor(const struct placer *p, int a, int b) {
    a = ancestor(p, a, depth_of(p, b));
    b = ancestor(p, b, depth_of(p, a));
    while (a != b) a = p->node[a].parent, b = p->node[b].parent;
    return a;
}

static void own_source(struct placer *p) {
    for (int i = 0; i < p->n_src; i++) p->of_src[i] = NOWHERE;
    for (int k = 0; k < p->n_node; k++) {
        const struct node *n = &p->node[k];
        if (n->kind == NODE_THING) continue;
        for (int i = word_behind(p, n->begin); i < p->n_src && p->src[i].begin < n->end; i++)
            if (depth_of(p, p->of_src[i]) < n->depth) p->of_src[i] = k;
    }
}

static void own_target(struct placer *p) {
    for (int j = 0; j < p->n_tgt; j++) p->of[j] = p->link[j] < 0 ? UNKNOWN : p->of_src[p->link[j]];
    for (int j = 0, before = NOWHERE, end; j < p->n_tgt; j = end + 1) {
        for (end = j; end < p->n_tgt && p->of[end] == UNKNOWN;) end++;
        int behind = end < p->n_tgt ? p->of[end] : NOWHERE;
        int between = common_ancestor(p, before, behind);
        while (j < end) p->of[j++] = between;
        before = behind;
    }
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static int occurs(const char *text, size_t size, const char *what, size_t n, size_t *last) {
    int count = 0;
    for (const char *at = text; (at = memmem(at, size - (size_t)(at - text), what, n)); at += n) {
        *last = (size_t)(at - text);
        count++;
    }
    return count;
}

/* The model has copied a node's text, once, and the source has it once, too: it is there. */
static void find_copy(struct placer *p, int k) {
    const struct node *n = &p->node[k];
    const char *what = p->source + n->begin;
    size_t size = (size_t)(n->end - n->begin), at = 0, same = 0;
    if (occurs(p->source, (size_t)p->s->size, what, size, &same) != 1) return;
    if (!p->text.size || occurs(p->text.text, p->text.size, what, size, &at) != 1) return;
    int begin = (int)at, end = (int)(at + size), exact = 0;
    for (int j = 0; j < p->n_tgt; j++) exact += (p->tgt[j].begin == begin) + (p->tgt[j].end == end);
    if (exact != 2) return;
    p->place[k].skip = n->kind == NODE_HELD && !n->glued;
    for (int j = 0; j < p->n_tgt; j++) {
        int in = p->tgt[j].begin >= begin && p->tgt[j].end <= end;
        if (in) p->of[j] = p->place[k].skip ? n->parent : k;
        if (!in && p->of[j] == k) p->of[j] = n->parent;
    }
}

static void find_copies(struct placer *p) {
    for (int k = 0, n = 0; k < p->n_node && n < MOST_HELD; k++) {
        if (p->node[k].kind != NODE_KEPT && p->node[k].kind != NODE_HELD) continue;
        find_copy(p, k);
        n++;
    }
}

/* ---- places ---------------------------------------------------------------------------------- */

/* A stretch of words that a node wants: the longest wins, the first of several. */
static void offer(struct placer *p, int node, struct place stretch) {
    if (node < 0 || p->place[node].skip || stretch.weight <= p->place[node].weight) return;
    p->place[node] = stretch;
}

static void place_stretches(struct placer *p, int depth) {
    int node = NOWHERE;
    struct place run = {0};
    for (int j = 0; j < p->n_tgt; j++) {
        int want = depth_of(p, p->of[j]) >= depth ? ancestor(p, p->of[j], depth) : NOWHERE;
        if (want >= 0 && (p->node[want].parent != p->own[j] || p->place[want].skip)) want = NOWHERE;
        p->child[j] = want;
        int bridge = node >= 0 && p->node[node].kind == NODE_ELEMENT ? BRIDGE : 0;
        int ends = node >= 0 && (p->own[j] != p->node[node].parent || (want >= 0 && want != node) ||
                                 j - run.end > bridge);
        if (ends) {
            offer(p, node, run);
            node = NOWHERE;
        }
        if (want < 0) continue;
        if (node < 0) run = (struct place){.begin = j}, node = want;
        run.end = j + 1;
        run.weight++;
    }
    offer(p, node, run);
    for (int k = 0; k < p->n_node; k++)
        for (int j = p->place[k].begin; p->node[k].depth == depth && j < p->place[k].end; j++)
            p->own[j] = k;
}

/* Does a node follow a word without a space? */
static int is_glued(const struct placer *p, const struct node *n) {
    return (n->glued & GLUED_BEFORE) || (n->begin > 0 && p->source[n->begin - 1] != ' ');
}

/* The gap where a node without words goes, before its parent has a say. */
static int gap_of(const struct placer *p, const struct node *n) {
    int w = word_behind(p, n->begin);
    if (w < p->n_src && p->src[w].begin < n->begin) w++; /* in the middle of a word: behind it */
    int before = w > 0 ? p->last[w - 1] : -1, behind = w < p->n_src ? p->first[w] : -1;
    int glued = is_glued(p, n);
    if (before >= 0 && (glued || behind < 0)) return before + 1;
    if (behind >= 0) return behind;
    return p->n_src ? (int)((int64_t)w * p->n_tgt / p->n_src) : 0;
}

/* Has a node a word of the source? */
static int is_worded(const struct placer *p, const struct node *n) {
    for (int i = word_behind(p, n->begin); i < p->n_src && p->src[i].begin < n->end; i++)
        if (!is_mark(p->source, p->src[i])) return 1;
    return 0;
}

/* The word nearest to a gap, of those of the parent that nobody has: one without a link, if it is
 * beside the gap; -1: none. */
static int free_word(const struct placer *p, int gap, struct place in, int parent) {
    int found = -1, least = INT_MAX;
    for (int j = in.begin; j < in.end; j++) {
        int far = j < gap ? 2 * (gap - 1 - j) + 1 : 2 * (j - gap); /* behind rather than before */
        if (p->link[j] < 0 && far < 2) far -= 2;
        if (p->own[j] != parent || is_mark(p->text.text, p->tgt[j]) || far >= least) continue;
        found = j;
        least = far;
    }
    return found;
}

/* An element with words that nothing is linked to takes a word beside the place where it was: a
 * link around nothing cannot be followed. */
static void place_lost(struct placer *p, int depth) {
    enum { MOST = 64 }; /* each looks at all words */
    for (int k = 0, n_lost = 0; k < p->n_node && n_lost < MOST; k++) {
        const struct node *n = &p->node[k];
        if (n->depth != depth || n->kind != NODE_ELEMENT || p->place[k].weight) continue;
        if (!is_worded(p, n)) continue;
        struct place all = {.end = p->n_tgt}, in = n->parent < 0 ? all : p->place[n->parent];
        int j = free_word(p, min_int(max_int(gap_of(p, n), in.begin), in.end), in, n->parent);
        n_lost++;
        if (j < 0) continue;
        p->place[k] = (struct place){.begin = j, .end = j + 1, .weight = 1};
        p->own[j] = k;
    }
}

static void place_gaps(struct placer *p, int depth) {
    for (int k = 0; k < p->n_node; k++) {
        const struct node *n = &p->node[k];
        if (n->depth != depth || p->place[k].weight) continue;
        struct place all = {.end = p->n_tgt};
        const struct place *in = n->parent < 0 ? &all : &p->place[n->parent];
        int gap = min_int(max_int(gap_of(p, n), in->begin), in->end);
        int c = gap > 0 && gap < p->n_tgt && p->own[gap - 1] == p->own[gap] ? p->own[gap] : NOWHERE;
        if (in->begin < gap && gap < in->end && depth_of(p, c) == depth) {
            struct place other = p->place[c]; /* a sibling */
            gap = gap - other.begin < other.end - gap ? other.begin : other.end;
        }
        p->place[k].begin = p->place[k].end = gap;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b, void *ctx) {
    const struct placer *p = ctx;
    int i = *(const int *)a, j = *(const int *)b;
    const struct place *x = &p->place[i], *y = &p->place[j];
    if (p->node[i].parent != p->node[j].parent) return p->node[i].parent - p->node[j].parent;
    if (x->begin != y->begin) return x->begin - y->begin;
    if ((x->begin == x->end) != (y->begin == y->end)) return x->begin == x->end ? -1 : 1;
    return i - j;
}

static void sort_nodes(struct placer *p) {
    for (int k = 0; k < p->n_node; k++) p->order[k] = k;
    qsort_r(p->order, (size_t)p->n_node, sizeof *p->order, by_place, p);
    for (int k = 0, at = 0; k <= p->n_node; k++) {
        while (at < p->n_node && p->node[p->order[at]].parent < k - 1) at++;
        p->children[k] = at;
    }
}

static void put_escaped(struct placer *p, const char *text, size_t size) {
    if (p->m->plain)
        buffer_put(p->out, text, size);
    else
        p->out->size += html_escape(buffer_room(p->out, 6 * size), text, size);
}

static void put_text(struct placer *p, size_t to) {
    if (to <= p->at) return;
    put_escaped(p, p->text.text + p->at, to - p->at);
    p->at = to;
}

/* Where in the document the last character of the segment's text[0..end) ends. */
static size_t raw_end(const struct markup *m, const struct segment *s, int end) {
    uint32_t code;
    size_t from = m->from[s->text + (size_t)end - 1];
    int n = from == (uint32_t)NOT_THERE ? 0 : markup_take(m, &code, from, s->of.end);
    return from + (size_t)(n < 0 ? -n : n);
}

/* The white space between two words of the document is kept where they stay neighbours, and between
 * sentences. */
static void put_space(struct placer *p, int j) {
    int starts = p->before[j] != UNKNOWN; /* a sentence */
    int a = starts ? p->before[j] : j ? p->link[j - 1] : -1, b = starts ? a + 1 : p->link[j];
    size_t end = (size_t)p->tgt[j].begin;
    if (!j || a < 0 || b != a + 1 || b == p->n_src) return;
    if (p->at != (size_t)p->tgt[j - 1].end || end != p->at + 1 || p->text.text[p->at] != ' ')
        return;
    size_t begin = raw_end(p->m, p->s, p->src[a].end),
           to = p->m->from[p->s->text + (size_t)p->src[b].begin];
    if (to <= begin || to > p->s->of.end) return;
    for (size_t i = begin; i < to; i++)
        if (!p->m->html[i] || !strchr(" \t\n\r\f", p->m->html[i])) return;
    buffer_put(p->out, p->m->html + begin, to - begin);
    p->at = end;
}

/* A word that the model has copied, with the references that the document has in it. */
static void put_copy(struct placer *p, int j) {
    struct span t = p->tgt[j], s = p->src[max_int(p->link[j], 0)];
    int size = t.end - t.begin, refs = 0;
    if (p->m->plain || p->link[j] < 0 || p->at != (size_t)t.begin || s.end - s.begin != size ||
        memcmp(p->text.text + t.begin, p->source + s.begin, (size_t)size) != 0)
        return;
    const uint32_t *from = p->m->from + p->s->text;
    size_t begin = from[s.begin], at = begin;
    for (int i = s.begin, n; i < s.end; at += (size_t)n) { /* all in one piece? */
        uint32_t code;
        char bytes[4];
        if (from[i] != at) return;
        n = markup_take(p->m, &code, at, p->s->of.end);
        int is_ref = p->m->html[at] == '&';
        if (n <= 0 || code == 0xFFFD || strchr("<>", p->m->html[at])) return;
        if (is_ref && p->m->html[at + (size_t)n - 1] != ';') return;
        refs += is_ref;
        i += utf8_encode(bytes, code);
    }
    if (!refs) return; /* it is no different */
    buffer_put(p->out, p->m->html + begin, at - begin);
    p->at = (size_t)t.end;
}

/* Writes the translation up to a byte of it. */
static void flush(struct placer *p, size_t to) {
    while (p->word < p->n_tgt && (size_t)p->tgt[p->word].end <= p->at) p->word++;
    for (; p->word < p->n_tgt && (size_t)p->tgt[p->word].begin < to; p->word++) {
        put_space(p, p->word);
        put_text(p, min_size(to, (size_t)p->tgt[p->word].begin));
        if ((size_t)p->tgt[p->word].end > to) break;
        if (p->at == (size_t)p->tgt[p->word].begin) p->wrote[p->word] = (int)p->out->size;
        put_copy(p, p->word);
        put_text(p, (size_t)p->tgt[p->word].end);
    }
    put_text(p, to);
}

static void put_piece(struct placer *p, struct piece piece) {
    buffer_put(p->out, p->m->html + piece.begin, piece.end - piece.begin);
}

static int in_word(char c) {
    return (c & 0x80) || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* All of a thing, or what is kept. Behind it the translation goes on at byte `next`. What has words
 * is kept apart from the words beside it, or something else that is kept, if it was. */
static void put_leaf(struct placer *p, const struct node *n, size_t next) {
    size_t size = (size_t)(n->end - n->begin);
    int worded = n->kind >= NODE_KEPT;
    char before = p->out->size ? p->out->text[p->out->size - 1] : ' ';
    char behind = next < p->text.size ? p->text.text[next] : ' ';
    int apart = !(n->glued & GLUED_BEFORE) && (!n->begin || !in_word(p->source[n->begin - 1]));
    int beside = p->behind_kept && p->behind_kept == p->out->size && p->kept_end != n->begin;
    if (worded && (beside || (apart && in_word(before)))) buffer_put(p->out, " ", 1);
    p->leaf[n - p->node] = (int)p->out->size;
    if (n->kind == NODE_HELD)
        put_escaped(p, p->source + n->begin, size);
    else
        put_piece(p, n->open);
    if (worded) p->kept_end = n->end, p->behind_kept = p->out->size;
    int glued = n->glued & GLUED_BEHIND;
    apart = !glued && (n->end >= p->s->size || !in_word(p->source[n->end]));
    if (worded && apart && in_word(behind)) buffer_put(p->out, " ", 1);
    p->at = max_size(p->at, next);
    if (glued && p->at < p->text.size && p->text.text[p->at] == ' ') p->at++;
}

static void put_children(struct placer *p, int node);

/* A node in a gap, with the spaces around it that it had. */
static void put_gap(struct placer *p, int k) {
    const struct node *n = &p->node[k];
    int gap = p->place[k].begin, glued = is_glued(p, n);
    if (gap > 0) flush(p, (size_t)p->tgt[gap - 1].end);
    if (!glued || gap == 0) flush(p, gap < p->n_tgt ? (size_t)p->tgt[gap].begin : p->text.size);
    char before = p->out->size ? p->out->text[p->out->size - 1] : ' ';
    if (n->begin > 0 && !glued && before != ' ' && before != '>') buffer_put(p->out, " ", 1);
    if (n->kind == NODE_ELEMENT) {
        put_piece(p, n->open);
        put_children(p, k);
        put_piece(p, n->close);
    } else {
        put_leaf(p, n, p->at);
    }
    char last = p->out->text[p->out->size - 1];
    int space = n->space && last != ' ';
    if (space && p->at < p->text.size && p->text.text[p->at] != ' ') buffer_put(p->out, " ", 1);
}

static int is_blank(char c) { return c && strchr(" \t\n\r\f", c); }

/* The white space of the document before (step -1) or behind a byte, which stays in the segment. */
static struct piece blanks(const struct placer *p, size_t at, int step) {
    struct piece found = {at, at};
    const char *html = p->m->html;
    while (step > 0 && found.end < p->s->of.end && is_blank(html[found.end])) found.end++;
    while (step < 0 && found.begin > p->s->of.begin && is_blank(html[found.begin - 1]))
        found.begin--;
    return found;
}

/* Writes white space of the document instead of the one space that comes next in the translation,
 * or at its ends, if that is where it was (`edge`); 1 if this is done, or was before. */
static int put_blanks(struct placer *p, struct piece raw, int edge) {
    const char *text = p->text.text;
    int inside = p->at > 0 && p->at < p->text.size;
    if (raw.begin == raw.end) return 0;
    if (raw.begin == p->blanks) return 1;
    if (!inside && !edge) return 0;
    if (inside && (text[p->at] != ' ' || (p->at + 1 < p->text.size && text[p->at + 1] == ' ')))
        return 0;
    put_piece(p, raw);
    p->blanks = raw.begin;
    p->at += (size_t)inside;
    return 1;
}

/* Those before a tag and behind it. */
static void put_tag(struct placer *p, struct piece tag, int edge_before, int edge_behind) {
    struct piece before = blanks(p, tag.begin, -1), behind = blanks(p, tag.end, 1);
    int spaced = put_blanks(p, before, edge_before);
    put_piece(p, tag);
    if (spaced && behind.begin < behind.end && behind.begin != p->blanks)
        put_piece(p, behind), p->blanks = behind.begin;
    else
        put_blanks(p, behind, edge_behind);
}

/* An element around words. White space beside its tags is where it was. */
static void put_element(struct placer *p, int k) {
    const struct node *n = &p->node[k];
    const struct place *place = &p->place[k];
    size_t begin = (size_t)p->tgt[place->begin].begin;
    struct piece before = blanks(p, n->open.begin, -1), behind = blanks(p, n->open.end, 1);
    flush(p, begin - (begin > 0 && p->text.text[begin - 1] == ' '));
    if (before.begin == before.end && behind.begin == behind.end) flush(p, begin);
    put_tag(p, n->open, 0, n->begin == 0);
    flush(p, begin);
    put_children(p, k);
    flush(p, (size_t)p->tgt[place->end - 1].end);
    put_tag(p, n->close, n->end == p->s->size, 0);
}

static void put_stretch(struct placer *p, int k) {
    const struct node *n = &p->node[k];
    const struct place *place = &p->place[k];
    size_t begin = (size_t)p->tgt[place->begin].begin;
    if ((n->glued & GLUED_BEFORE) && begin > p->at && p->text.text[begin - 1] == ' ')
        flush(p, begin - 1), p->at = begin;
    if (n->kind == NODE_ELEMENT) {
        put_element(p, k);
    } else {
        flush(p, begin);
        put_leaf(p, n, (size_t)p->tgt[place->end - 1].end);
    }
}

static void put_children(struct placer *p, int node) {
    for (int i = p->children[node + 1]; i < p->n_node; i++) {
        int k = p->order[i];
        if (p->node[k].parent != node) return;
        if (p->place[k].skip) continue;
        if (p->place[k].weight)
            put_stretch(p, k);
        else
            put_gap(p, k);
    }
}

/* ---- words of a plain text ------------------------------------------------------------------- */

static void add_source(struct markup_words *w, const struct markup *m, const struct segment *s,
                       const struct markup_answer *a) {
    for (int i = 0; i < a->n_source; i++) {
        struct span word = a->source[i];
        GROW(w->source, w->n_source, w->room_source);
        w->source[w->n_source++] =
            (struct span){(int)m->from[s->text + (size_t)word.begin], (int)raw_end(m, s, word.end)};
    }
}

static void add_target(struct markup_words *w, size_t at, int size, int answer, int word) {
    GROW(w->target, w->n_target, w->room_target);
    w->target[w->n_target++] = (struct markup_word){{(int)at, (int)at + size}, answer, word};
}

static void add_link(struct markup_words *w, int src, int tgt) {
    GROW(w->link, w->n_link, w->room_link);
    w->link[w->n_link++] = (struct align_link){src, tgt};
}

void markup_same(size_t shift, const struct markup *m, const struct segment *s,
                 const struct markup_answer *a, struct markup_words *w) {
    int source = w->n_source, target = w->n_target;
    add_source(w, m, s, a);
    for (int j = 0; j < a->n_target; j++) {
        size_t at = m->from[s->text + (size_t)a->target[j].begin];
        add_target(w, at + shift, (int)(raw_end(m, s, a->target[j].end) - at), s->unit, j);
    }
    for (int k = 0; k < a->n_link; k++)
        add_link(w, a->link[k].src + source, a->link[k].tgt + target);
}

/* What was written, in its order: words of the translation, and what is kept instead of some. */
static void tell_words(const struct placer *p, const struct markup_answer *a,
                       struct markup_words *w) {
    int source = w->n_source, *at = xcalloc((size_t)p->n_tgt + 1, sizeof *at);
    add_source(w, p->m, p->s, a);
    for (int j = 0, i = 0; j <= p->n_tgt; j++) {
        if (j < p->n_tgt && p->wrote[j] < 0) continue;
        for (; i < p->n_node; i++) { /* before the word */
            int k = p->order[i];
            const struct node *n = &p->node[k];
            if (p->leaf[k] < 0 || n->kind == NODE_THING) continue;
            if (j < p->n_tgt && p->leaf[k] > p->wrote[j]) break;
            for (int v = word_behind(p, n->begin); v < p->n_src && p->src[v].begin < n->end; v++)
                add_link(w, source + v, w->n_target);
            add_target(w, (size_t)p->leaf[k], n->end - n->begin, p->s->unit, -1);
        }
        at[j] = w->n_target;
        if (j < p->n_tgt)
            add_target(w, (size_t)p->wrote[j], p->tgt[j].end - p->tgt[j].begin, p->s->unit, j);
    }
    for (int k = 0; k < a->n_link; k++)
        if (p->wrote[a->link[k].tgt] >= 0) add_link(w, a->link[k].src + source, at[a->link[k].tgt]);
    xfree(at);
}

void markup_place(struct buffer *out, const struct markup *m, const struct segment *s,
                  const struct markup_answer *answer, struct markup_words *told) {
    struct placer p = {.m = m,
                       .s = s,
                       .source = m->text + s->text,
                       .node = m->node + s->node,
                       .n_node = s->n_node,
                       .out = out,
                       .blanks = SIZE_MAX};
    int deepest = 0;
    merge(&p, answer);
    int **words[] = {&p.of, &p.own, &p.child, &p.wrote},
        **sources[] = {&p.first, &p.last, &p.of_src};
    int **nodes[] = {&p.order, &p.children, &p.leaf};
    for (int i = 0; i < 4; i++) *words[i] = xcalloc((size_t)p.n_tgt + 1, sizeof(int));
    for (int i = 0; i < 3; i++) *sources[i] = xcalloc((size_t)p.n_src + 1, sizeof(int));
    for (int i = 0; i < 3; i++) *nodes[i] = xcalloc((size_t)p.n_node + 1, sizeof(int));
    p.place = xcalloc((size_t)p.n_node + 1, sizeof *p.place);
    read_links(&p);
    own_source(&p);
    own_target(&p);
    find_copies(&p);
    for (int j = 0; j < p.n_tgt; j++) p.own[j] = NOWHERE, p.wrote[j] = -1;
    for (int k = 0; k < p.n_node; k++) deepest = max_int(deepest, p.node[k].depth), p.leaf[k] = -1;
    for (int depth = 1; depth <= deepest; depth++) {
        place_stretches(&p, depth);
        place_lost(&p, depth);
        place_gaps(&p, depth);
    }
    sort_nodes(&p);
    put_children(&p, NOWHERE);
    flush(&p, p.text.size);
    if (told) tell_words(&p, answer, told);
    for (int i = 0; i < 4; i++) xfree(*words[i]);
    for (int i = 0; i < 3; i++) xfree(*sources[i]), xfree(*nodes[i]);
    xfree(p.place);
    xfree(p.src);
    xfree(p.tgt);
    xfree(p.link);
    xfree(p.before);
    xfree(p.text.text);
}
