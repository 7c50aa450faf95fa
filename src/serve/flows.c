/* flows.c — see flows.h. */
#include "serve/flows.h"

#include "base/mem.h"
#include "base/num.h"

int flows_weight(enum desk_class class) {
    return class == DESK_INTERACTIVE ? 16 : class == DESK_NORMAL ? 4 : 1;
}

static struct flow *find_flow(struct flows *l, const struct errand *e) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i]->client == e->client && l->at[i]->class == e->class) return l->at[i];
    if (l->n == l->cap) {
        l->cap = max_int(2 * l->cap, 16);
        l->at = xrealloc(l->at, (size_t)l->cap * sizeof(struct flow *));
    }
    struct flow *f = xcalloc(1, sizeof *f);
    *f = (struct flow){
        .client = e->client, .class = e->class, .time = l->time, .number = l->count++};
    return l->at[l->n++] = f;
}

void flows_join(struct flows *l, struct errand *e, int first) {
    struct flow *f = e->flow = find_flow(l, e);
    e->turn = NULL;
    if (!f->first) {
        f->first = f->last = e;
    } else if (first) {
        e->turn = f->first;
        f->first = e;
    } else {
        f->last->turn = e;
        f->last = e;
    }
}

void flows_leave(struct flows *l, struct errand *e) {
    struct flow *f = e->flow;
    struct errand **at, *before = NULL;
    if (!f) return;
    for (at = &f->first; *at != e; at = &(*at)->turn) before = *at;
    *at = e->turn;
    if (f->last == e) f->last = before;
    e->flow = NULL;
    e->turn = NULL;
    if (f->first) return;
    int i = 0;
    while (l->at[i] != f) i++;
    l->at[i] = l->at[--l->n];
    xfree(f);
}

/* The errand's next turn is behind those of the others. */
static void rotate(struct flow *f, struct errand *e) {
    struct errand **at = &f->first;
    if (f->last == e) return;
    while (*at != e) at = &(*at)->turn;
    *at = e->turn;
    e->turn = NULL;
    f->last->turn = e;
    f->last = e;
}

void flows_serve(struct flows *l, struct errand *e, double cost) {
    struct flow *f = e->flow;
    l->time = f->time;
    f->time += cost;
    rotate(f, e);
}

int flows_urgent(const struct flows *l) {
    for (int i = 0; i < l->n; i++)
        if (l->at[i]->class == DESK_INTERACTIVE) return 1;
    return 0;
}

static int is_before(const struct flow *a, const struct flow *b) {
    int more = flows_weight(a->class) - flows_weight(b->class);
    if (a->time < b->time || a->time > b->time) return a->time < b->time;
    return more ? more > 0 : a->number < b->number;
}

struct flow *flows_pick(const struct flows *l, struct flow *first, int overtake) {
    struct flow *best = NULL;
    for (int i = 0; i < l->n; i++) {
        struct flow *f = l->at[i];
        if (f->passed_over == l->round) continue;
        if (first && !(f->class == DESK_INTERACTIVE && overtake)) continue;
        if (!best || is_before(f, best)) best = f;
    }
    if (!best && first && first->passed_over != l->round) best = first;
    return best;
}

void flows_release(struct flows *l) { xfree(l->at); }
