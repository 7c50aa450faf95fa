/* watch.h — sees to it that ranks which wait for each other do not wait for ever.
 *
 * Every rank has a thread that tells rank 0 each second, over a TCP connection of its own, where
 * the training stands: step, phase, and since when. So a rank is heard whose engine is stuck, and
 * one that was killed, stopped or cut off is missed. Rank 0 decides, and says so to all:
 *
 *   gone     its connection ended without a goodbye: at once
 *   silent   not heard for `silence` seconds; or for some, and the launcher, which may have noticed
 *            first, asks this rank to end (`stop`)
 *   stuck    in one phase for more than `least` seconds and `factor` times the median of those
 *            before; before there is a median, `first` seconds. A rank that only waits for others
 *            is not stuck, unless all do.
 *   failed   it said itself that it ends with an error
 *
 * Rank 0 is watched by the others in the same way. Whoever learns of a loss calls `lost`, once, on
 * the watch's thread, and must expect the other threads to be stuck in communication: below src/cli
 * nobody prints and exits, so that is what `lost` is for.
 *
 * A watch that could not run for a while does not hold that against the others. Strangers who
 * connect are not answered: a secret goes around first, and nobody is let in later. The watch owns
 * its thread and sockets and borrows the comm only while it is made. */
#ifndef TRAIN_WATCH_H
#define TRAIN_WATCH_H

#include <stdint.h>

#include "comm/comm.h"

/* What a rank does. Of a setup nobody can say how long it takes. */
#define WATCH_PHASES(X)                                                                            \
    X(SETUP, "setup")                                                                              \
    X(DATA, "waiting for data")                                                                    \
    X(GRADIENT, "forward and backward")                                                            \
    X(EXCHANGE, "exchange")                                                                        \
    X(UPDATE, "update")                                                                            \
    X(VALIDATE, "validation")                                                                      \
    X(SAVE, "saving")                                                                              \
    X(DISK, "waiting for the disk")                                                                \
    X(WAIT, "waiting for other ranks")
enum watch_phase {
#define WATCH_ENUM(name, text) WATCH_##name,
    WATCH_PHASES(WATCH_ENUM)
#undef WATCH_ENUM
        WATCH_N_PHASE
};

enum watch_kind { WATCH_GONE, WATCH_SILENT, WATCH_STUCK, WATCH_FAILED };

/* Which rank was lost, and what it did when it was last heard of. */
struct watch_report {
    enum watch_kind kind;
    int rank, pid;
    int told; /* rank 0 has said so; else this rank found out by itself */
    char host[64];
    int64_t step;
    enum watch_phase phase;
    double seconds; /* not heard for, or in that phase for */
};
enum { WATCH_TEXT = 256 };
/* "rank 3 on h2 (pid 4711) is silent since step 812, forward and backward" */
const char *watch_text(char text[WATCH_TEXT], const struct watch_report *report);

struct watch_options {
    double silence, least, factor, first; /* 0: 10 s, 60 s, 20, 600 s */
    const volatile int *stop;             /* non-zero: this rank was asked to end; may be NULL */
    void (*lost)(void *ctx, const struct watch_report *report);
    void *ctx;
};

struct watch;

/* Collective. A rank alone needs none and gets NULL, which the others take. */
int watch_new(struct watch **watch, struct comm *comm, const struct watch_options *options,
              struct err *err);
/* Says goodbye, or, where this rank has failed, that the others need not go on. */
void watch_free(struct watch *watch, int failed);

/* This rank is at a step and begins a phase. */
void watch_phase(struct watch *watch, int64_t step, enum watch_phase phase);

/* Something that may be waited for in that phase took so long, whether or not it was waited for:
 * a wait for as long is then no reason to worry. */
void watch_took(struct watch *watch, enum watch_phase phase, double seconds);

/* Seconds that this rank has spent in phases in which it did not wait for others. */
double watch_busy(struct watch *watch);

/* The least and the most of n seconds against their median (1 where that is 0). */
struct watch_spread {
    double least, most;
    int slowest; /* the rank that has the most */
};
struct watch_spread watch_spread(const double *seconds, int n);

/* The rank whose seconds are the most, if they are more than 1.2 times the median of all n; or -1.
 * *ratio is how many times. */
int watch_straggler(const double *seconds, int n, double *ratio);

#endif
