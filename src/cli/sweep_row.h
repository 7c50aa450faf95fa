/* sweep_row.h — a row of `heed sweep` (train/runtable.h) in a process of its own, which runs heed
 * train, average, translate and eval by turns; what they print goes to OUT/NAME.log. */
#ifndef CLI_SWEEP_ROW_H
#define CLI_SWEEP_ROW_H

#include <sys/types.h>

#include "train/runtable.h"

/* The process and what it runs are a group of their own: what the terminal sends does not reach
 * them. SIGTERM ends the process once what it runs has saved. */
int sweep_row_start(pid_t *pid, const struct runtable *table, const struct runtable_row *row,
                    const char *device, struct err *err);

#endif
