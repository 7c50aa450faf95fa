/* agree.h — one outcome for all ranks, where only some of them could fail. */
#ifndef TRAIN_AGREE_H
#define TRAIN_AGREE_H

#include "comm/comm.h"

/* Is this rank the first of all, or alone (comm NULL)? The one that reads and writes the run's
 * files. */
static inline int agree_first(const struct comm *comm) { return !comm || comm->rank == 0; }
static inline int agree_alone(const struct comm *comm) { return !comm || comm->size == 1; }

/* Collective. What rank 0 came to, of which the others knew nothing: rc and *err of rank 0 come to
 * all, and comm->ends is set if that is a failure. A rank that failed where rank 0 did not keeps
 * its own error. */
int agree_with_first(struct comm *comm, int rc, struct err *err);

/* Collective. After what ranks do each for itself: the first failure of any becomes everybody's, so
 * that all can end in order; comm->ends is set then, and *first is the rank that failed, else it is
 * left as it is. */
int agree_all(struct comm *comm, int rc, int *first, struct err *err);

/* Collective. The same number on all ranks? HEED_EINTERNAL names those that have another than most,
 * or than rank 0 where there is no majority; `what` is what differs. */
int agree_same(struct comm *comm, uint32_t number, const char *what, struct err *err);

#endif
