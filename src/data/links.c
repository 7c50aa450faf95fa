/* links.c — see links.h. A pair has a few dozen links: lists in order and a binary search will
 * do. */
#include "data/links.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- lists ----------------------------------------------------------------------------------- */

void links_release(struct links *l) {
    xfree(l->link);
    *l = (struct links){0};
}

void links_clear(struct links *l) { l->n = 0; }

int links_compare(const void *a, const void *b) {
    const struct align_link *x = a, *y = b;
    if (x->src != y->src) return x->src < y->src ? -1 : 1;
    return (x->tgt > y->tgt) - (x->tgt < y->tgt);
}

void links_add(struct links *l, int src, int tgt) {
    if (l->n == l->room) {
        l->room = max_int(16, 2 * l->room);
        l->link = xrealloc(l->link, (size_t)l->room * sizeof *l->link);
    }
    l->link[l->n++] = (struct align_link){src, tgt};
}

void links_sort(struct links *l) {
    int n = 0;
    if (l->n > 1) qsort(l->link, (size_t)l->n, sizeof *l->link, links_compare);
    for (int i = 0; i < l->n; i++)
        if (n == 0 || links_compare(&l->link[n - 1], &l->link[i])) l->link[n++] = l->link[i];
    l->n = n;
}

int links_have(const struct links *l, int src, int tgt) {
    struct align_link key = {src, tgt};
    return l->n && bsearch(&key, l->link, (size_t)l->n, sizeof *l->link, links_compare);
}

void links_turn(struct links *l) {
    for (int i = 0; i < l->n; i++) l->link[i] = (struct align_link){l->link[i].tgt, l->link[i].src};
    links_sort(l);
}

int links_clip(struct links *l, int n_src, int n_tgt) {
    int n = 0, before = l->n;
    for (int i = 0; i < l->n; i++)
        if (l->link[i].src < n_src && l->link[i].tgt < n_tgt) l->link[n++] = l->link[i];
    l->n = n;
    return before - n;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* The number at *at, which moves behind it; -1 if there is none, or too large a one. */
static int read_number(const char *text, size_t size, size_t *at) {
    int value = 0;
    size_t begin = *at;
    for (; *at < size && text[*at] >= '0' && text[*at] <= '9'; ++*at) {
        value = 10 * value + (text[*at] - '0');
        if (value >= LINKS_MAX_WORD) return -1;
    }
    return *at > begin ? value : -1;
}

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

int links_parse(struct links *sure, struct links *possible, const char *text, size_t size,
                struct err *err) {
    links_clear(sure);
    if (possible) links_clear(possible);
    for (size_t at = 0;;) {
        while (at < size && is_space(text[at])) at++;
        if (at == size) break;
        size_t begin = at;
        int src = read_number(text, size, &at);
        char kind = 0;
        if (src >= 0 && at < size) kind = text[at++];
        int tgt = read_number(text, size, &at);
        int good = src >= 0 && tgt >= 0 && (at == size || is_space(text[at]));
        if (!good || (kind != '-' && (kind != '?' || !possible))) {
            while (at < size && !is_space(text[at])) at++;
            return err_set(err, HEED_EFORMAT, "'%.*s' is not a link like 3-4%s",
                           (int)min_size(at - begin, 40), text + begin,
                           possible ? " or 3?4, from 0" : ", from 0");
        }
        links_add(kind == '-' ? sure : possible, src, tgt);
    }
    links_sort(sure);
    if (possible) links_sort(possible);
    return 0;
}

/* ---- two directions -------------------------------------------------------------------------- */

const char *const links_method_names[N_LINKS_METHODS + 1] = {
    "intersection", "union", "grow-diag", "grow-diag-final", "grow-diag-final-and", NULL};

/* Links that grow; words that have one. */
struct growth {
    struct links *links; /* in no order */
    const struct links *a, *b;
};

static int has_src(const struct links *l, int src) {
    for (int i = 0; i < l->n; i++)
        if (l->link[i].src == src) return 1;
    return 0;
}

static int has_tgt(const struct links *l, int tgt) {
    for (int i = 0; i < l->n; i++)
        if (l->link[i].tgt == tgt) return 1;
    return 0;
}

/* By target first: the order in which Moses grows. */
static int by_target(const void *a, const void *b) {
    const struct align_link *x = a, *y = b;
    if (x->tgt != y->tgt) return x->tgt < y->tgt ? -1 : 1;
    return (x->src > y->src) - (x->src < y->src);
}

/* Neighbours of one link that may join: whether any did. */
static int grow_at(const struct growth *g, struct align_link at) {
    static const struct align_link step[] = {{-1, 0},  {0, -1}, {1, 0},  {0, 1},
                                             {-1, -1}, {-1, 1}, {1, -1}, {1, 1}};
    int grown = 0;
    for (int k = 0; k < 8; k++) {
        int src = at.src + step[k].src, tgt = at.tgt + step[k].tgt;
        if (!links_have(g->a, src, tgt) && !links_have(g->b, src, tgt)) continue;
        if (has_src(g->links, src) && has_tgt(g->links, tgt)) continue;
        links_add(g->links, src, tgt);
        grown = 1;
    }
    return grown;
}

static void grow_diag(const struct growth *g) {
    for (int grown = 1; grown;) {
        grown = 0;
        if (g->links->n > 1)
            qsort(g->links->link, (size_t)g->links->n, sizeof *g->links->link, by_target);
        for (int i = 0, n = g->links->n; i < n; i++) grown |= grow_at(g, g->links->link[i]);
    }
}

/* Links of one direction for words that have none. */
static void finish(struct links *out, const struct links *from, int both) {
    for (int i = 0; i < from->n; i++) {
        int src = has_src(out, from->link[i].src), tgt = has_tgt(out, from->link[i].tgt);
        if (both ? !src && !tgt : !src || !tgt)
            links_add(out, from->link[i].src, from->link[i].tgt);
    }
}

void links_symmetrise(struct links *out, enum links_method method, const struct links *a,
                      const struct links *b) {
    links_clear(out);
    for (int i = 0; i < a->n; i++)
        if (method == LINKS_UNION || links_have(b, a->link[i].src, a->link[i].tgt))
            links_add(out, a->link[i].src, a->link[i].tgt);
    for (int i = 0; i < b->n && method == LINKS_UNION; i++)
        links_add(out, b->link[i].src, b->link[i].tgt);
    if (method >= LINKS_GROW_DIAG) grow_diag(&(struct growth){out, a, b});
    for (int k = 0; k < 2 && method >= LINKS_GROW_DIAG_FINAL; k++)
        finish(out, k ? b : a, method == LINKS_GROW_DIAG_FINAL_AND);
    links_sort(out);
}
