/* train_ranks.h — what `heed train` does before its ranks can work together: files that only rank 0
 * has come to the others, and ranks that differ are found out before the first update. */
#ifndef CLI_TRAIN_RANKS_H
#define CLI_TRAIN_RANKS_H

#include "cli/cmd_train.h"

/* Can so many ranks share the batches of an update? A usage error names the numbers that do. */
int train_ranks_check(const struct comm *comm, int accumulate, struct err *err);

/* Collective. Configuration and tokenizers that rank 0 has in the directory `dir`, be it a run's or
 * a model's, come to all: on the others they are in the directory `home`, which is made. */
int train_ranks_fetch(struct comm *comm, const char *dir, const char *home, struct err *err);

/* Collective. The same for one file: `path` on rank 0, `name` in `home` on the others. */
int train_ranks_fetch_file(struct comm *comm, const char *path, const char *home, const char *name,
                           struct err *err);

/* Collective. Refuses ranks whose program, processor, data, model or options differ, and names
 * them. */
int train_ranks_guard(const struct train_setup *setup, struct err *err);

#endif
