/* facts.h — what must be the same on all ranks, as text: a rank that differs is refused before it
 * can do harm. */
#ifndef TRAIN_FACTS_H
#define TRAIN_FACTS_H

#include "comm/comm.h"

struct fact {
    const char *name;
    char text[128];
};

/* Collective. Refuses ranks of which one of the n facts is another than rank 0's, and names the
 * first. */
int facts_same(struct comm *comm, const struct fact *fact, int n, struct err *err);

/* The fact that is this program: its version and a checksum of it and of the plug-ins it has
 * loaded. */
void fact_program(struct fact *fact);

#endif
