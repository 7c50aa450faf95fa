/* ranks.h — how a command becomes several processes, and finds out that it is one of them.
 *
 * Ranks are started by mpirun, by srun, or by heed itself: `--ranks N` runs mpirun on this machine
 * with the same command line and waits for it. A rank that is lost (killed, or found silent by the
 * watch of train/watch.h) ends them all with RANKS_LOST, after which --restarts starts them
 * anew. */
#ifndef CLI_RANKS_H
#define CLI_RANKS_H

#include <signal.h>

#include "backend/backend.h"
#include "cli/options.h"
#include "comm/comm.h"
#include "train/watch.h"

enum { RANKS_LOST = 75, RANKS_MOST = 4096 };

struct ranks_options {
    int n;         /* 0: not asked for */
    int restarts;  /* how often to start anew after a rank was lost */
    int transport; /* of transport_names */
};
extern const char *const transport_names[]; /* auto, mpi, nccl */

#define RANKS_ROWS(FIELD)                                                                          \
    ROW(INT, "ranks", FIELD.n, "0",                                                                \
        "run as N processes of this machine, through mpirun; 0: as whoever started it says",       \
        .max = RANKS_MOST, .once = 1),                                                             \
        ROW(CHOICE, "comm", FIELD.transport, "auto",                                               \
            "what ranks talk through; auto: nccl between GPUs if it is there, else mpi",           \
            .choices = transport_names, .once = 1)

/* Remembers the words that the program was called with, for ranks_launch; main's first act. */
void ranks_command(char **argv);

/* Is this process the first of its ranks, or alone, as far as the environment says? */
int ranks_first(void);

/* Should this process say why it fails with `code`? Not what another rank says, too. May wait. */
int ranks_speaks(enum heed_status code);

/* Was this process started as one of several? An error where it was, but in a way that they cannot
 * find each other. */
int ranks_started(struct err *err);

/* Where --ranks asks for processes and this is not one of them yet: starts them, waits, and ends
 * this process as they did; it does not return then, unless they cannot be started. `valid` says
 * which numbers of ranks a restart may take. `orderly`: ranks watch RANKS_STOP (signals.h) and end
 * by themselves; mpirun leaves them a second. The first Ctrl-C or SIGTERM becomes RANKS_STOP
 * then. */
enum { RANKS_STOP = SIGUSR1 };
struct ranks_job {
    int (*valid)(int n);
    int orderly;
};
int ranks_launch(const struct ranks_options *options, const struct ranks_job *job, struct err *err);

/* Opens this rank's communication; a process alone where there are no others. Ranks of different
 * builds are refused. Threads (0: all) and the GPU (cuda: any) of *where become this rank's share
 * of its machine. */
int ranks_open(struct comm **comm, const struct ranks_options *options,
               struct backend_options *where, struct err *err);

/* From now on the comm's device calls are about this backend's memory, which outlives them. */
void ranks_attach(struct comm *comm, struct backend *be);

/* For struct watch_options: says which rank was lost and what to do, once, and ends the process.
 * ctx is the comm. */
void ranks_lost(void *ctx, const struct watch_report *report);

/* agree_all (train/agree.h), after which one of the ranks says why all end. Collective. */
int ranks_agree(struct comm *comm, int rc, struct err *err);

#endif
