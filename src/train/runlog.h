/* runlog.h — what a run records about itself: log.jsonl, one JSON object per line, and
 * TensorBoard's files.
 *
 * Lines are appended and reach the file whole. A resumed run cuts the log back to where its
 * checkpoint was taken, so that the log reads as if nothing had happened. A log that cannot be
 * written never stops a run: the first error is kept for runlog_error, and later lines are still
 * tried. */
#ifndef TRAIN_RUNLOG_H
#define TRAIN_RUNLOG_H

#include <stdint.h>

#include "base/err.h"

struct runlog;

struct runlog_train {
    int64_t step, epoch;
    double loss, nll; /* per target token, means since the last line; loss is label-smoothed */
    double guided;    /* per row that learnt from links; NaN: none did */
    double rate, grad_norm;
    double tokens;  /* target tokens seen since the run began */
    double tok_s;   /* target tokens per second since the last line */
    double seconds; /* of training since the run began, all its processes together */
    /* Where there are several: what the slowest worked against the median, and bytes that rank 0
     * gave to others per update. */
    int ranks;
    double slowest, sent;
};

struct runlog_valid {
    int64_t step;
    double loss, nll; /* per target token */
    double guided;    /* per row with links; NaN: none has */
    double seconds;   /* the validation took */
    double bleu;      /* NaN: not measured */
    int best;
};

/* Where the time of this part of the run went, in seconds, and in words. */
struct runlog_times {
    int64_t step;
    const char *text;
    double all, updates, validation, saving, data;
};

/* Opens DIR/log.jsonl at `size` bytes (0: a new run) and a new event file for steps from first_step
 * on. */
int runlog_open(struct runlog **log, const char *dir, int64_t size, int64_t first_step,
                struct err *err);
void runlog_close(struct runlog *log);
int64_t runlog_size(const struct runlog *log);

/* Where log is NULL, as on ranks that keep none, these do nothing. */
void runlog_train(struct runlog *log, const struct runlog_train *line);
void runlog_valid(struct runlog *log, const struct runlog_valid *line);

void runlog_times(struct runlog *log, const struct runlog_times *line);

/* Anything else worth keeping: {"step":..,"event":"skipped","text":".."}. */
void runlog_note(struct runlog *log, int64_t step, const char *event, const char *text);

/* The first failure since the last call, or 0. */
int runlog_error(struct runlog *log, struct err *err);

#endif
