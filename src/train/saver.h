/* saver.h — a checkpoint of a run and what follows it: the published weights, and the end of older
 * checkpoints. One can be written by a thread beside the training.
 *
 * The order is the promise: a checkpoint is durable before its weights are published, and only then
 * are older ones removed, so that whoever is killed anywhere finds the one or the others. The
 * thread has all it needs of its own, a copy of the training's state (struct snapshot) and of what
 * is to be done; training must not take another copy before saver_end. */
#ifndef TRAIN_SAVER_H
#define TRAIN_SAVER_H

#include "base/aside.h"
#include "train/checkpoint.h"

struct saver_task {
    const char *dir;
    int64_t step;  /* of the checkpoint */
    int64_t best;  /* of the best validation so far; -1: there was none */
    int64_t spent; /* a checkpoint that has done its work once this one is there; -1: none */
    int keep;      /* checkpoints kept beside the best one */
};

/* What follows a checkpoint that is on the disk. Doing it twice does no harm. */
int saver_follow(const struct saver_task *task, struct err *err);

/* All zero has nothing to do. Stays where it is until the end. */
struct saver {
    const struct snapshot *copy;
    struct saver_task task;
    struct aside aside;
    _Atomic int done;
    int begun, rc;
    struct err err;
    double seconds; /* that it took */
};

/* Begins to write what was copied, and what follows. */
void saver_begin(struct saver *saver, const struct snapshot *copy, const struct saver_task *task);

/* What was begun is done, well or not, and waits for saver_end. */
int saver_done(const struct saver *saver);

/* Waits until what was begun is done, and returns how it ended; at once where nothing was. */
int saver_end(struct saver *saver, struct err *err);

#endif
