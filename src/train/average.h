/* average.h — the mean of several models' weights.  PAPER: 6.1, the last 5 or 20 checkpoints.
 *
 * The models must be of one kind: the same configuration but for what only training uses (dropout,
 * label smoothing), and the same tokenizer, byte for byte. Sums are in double precision, in the
 * order given. */
#ifndef TRAIN_AVERAGE_H
#define TRAIN_AVERAGE_H

#include "base/err.h"

/* Writes a complete model directory `out`, as a whole or not at all: config.json and
 * tokenizer.model of the last of the n >= 1 given model directories, and the average of their
 * weights as f32. The file's step is the last's. */
int average_models(const char *out, const char *const *dir, int n, struct err *err);

#endif
