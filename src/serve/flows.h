/* flows.h — whose turn it is, of those who want the same model.
 *
 * Errands of one client and class, of which something waits, are a flow. A flow has a clock, which
 * what it is served moves on; the flow that is furthest behind is next, and one that was empty
 * begins at the time of the last that was served. So flows get equal shares of what they are
 * charged, whatever they ask for, a newcomer is served at once, and nobody starves. Errands of a
 * flow take turns. Of flows at the same time the one of greater weight is first, then the older
 * one.
 *
 * Owns the flows; errands are the caller's, and must have left when it is released. One thread. */
#ifndef SERVE_FLOWS_H
#define SERVE_FLOWS_H

#include "serve/batcher.h"

struct flow {
    uint64_t client;
    enum desk_class class;
    double time;
    uint64_t number;             /* of all flows there have been */
    struct errand *first, *last; /* taking turns */
    uint64_t passed_over;        /* in this round: its head does not fit */
};

/* Begin with {0}. Who is passed over in a round is not picked in it: round++ begins the next. */
struct flows {
    struct flow **at;
    int n, cap;
    double time; /* of the flow served last */
    uint64_t round, count;
};
void flows_release(struct flows *flows);

/* What a class gets of the others' share. */
int flows_weight(enum desk_class class);

/* Something of the errand waits: at the end of its flow's turns, or first. Then nothing does. */
void flows_join(struct flows *flows, struct errand *errand, int first);
void flows_leave(struct flows *flows, struct errand *errand);

/* It had its turn. */
void flows_serve(struct flows *flows, struct errand *errand, double cost);

int flows_urgent(const struct flows *flows); /* does something interactive wait? */

/* The flow that is next, of those not passed over in this round; NULL: none. `first`, if not NULL,
 * goes before all, but where `overtake` is set not before interactive ones. */
struct flow *flows_pick(const struct flows *flows, struct flow *first, int overtake);

#endif
