/* signals.h — SIGINT, SIGTERM, SIGHUP, SIGPIPE and SIGUSR1 (which mpirun and Slurm pass on to
 * ranks) ask for an orderly end.
 *
 * The first one is recorded for loops to check, and wakes those who wait; a second one has its
 * usual effect at once. SIGHUP and SIGPIPE stay ignored where they are (nohup). */
#ifndef CLI_SIGNALS_H
#define CLI_SIGNALS_H

#include "base/err.h"

extern volatile int signals_caught; /* the signal's number; 0: none yet */

int signals_watch(struct err *err);

/* Becomes readable when a signal comes. */
int signals_fd(void);

/* For those whom a signal need not end: from now on the second one, too, is only recorded. What was
 * caught is forgotten when it has been answered. */
void signals_watch_every(void);
void signals_answered(void);

/* From now on a mapped file that can no longer be read ends the program with a message that names
 * it, and exit status 1, instead of SIGBUS; a file that may not grow (SIGXFSZ) is an error like any
 * other. */
void signals_explain(void);

/* Ends the process by the signal, as if it had never been caught, so that a calling script stops,
 * too. */
void signals_end_by(int number);

/* signals_caught, for struct translator_poll. */
int signals_poll(void *ctx, int done, int total);

#endif
