/* summary.h — what is in a model directory or a training run, as JSON: configuration, tensors with
 * their norms and ranges, checkpoints, the last and the best losses. */
#ifndef TRAIN_SUMMARY_H
#define TRAIN_SUMMARY_H

#include <jansson.h>

#include "train/history.h"

/* Adds everything to the object *all; h is what the log of dir says. A run that has not published a
 * model yet is looked at through its newest checkpoint. */
int summary_of(json_t *all, const char *dir, const struct history *h, struct err *err);

/* The last of the epochs asked for, or infinity; a run that has ended counts one more as begun. */
double summary_last_epoch(const char *dir);

#endif
