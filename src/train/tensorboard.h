/* tensorboard.h — scalars for TensorBoard: event files, written without TensorFlow.
 *
 * A file is a sequence of records (length, masked crc32c of the length, data, masked crc32c of the
 * data); the data are protobuf `Event` messages. Every process that opens a run's directory begins
 * a new file, events.out.tfevents.SECONDS.HOST, and TensorBoard joins them. A run that resumes at
 * step s says so, and TensorBoard then drops what the killed process had logged for s and later.
 *
 * Nothing here may stop a training run: writing errors are sticky and surface at flush and close,
 * and the caller decides (a warning). Records reach the file whole, in one write per flush. */
#ifndef TRAIN_TENSORBOARD_H
#define TRAIN_TENSORBOARD_H

#include <stdint.h>

#include "base/err.h"

struct tensorboard;

/* Begins a new event file in dir (which exists). first_step > 0: a run resumed there, whose next
 * scalars have steps >= first_step. */
int tensorboard_open(struct tensorboard **tb, const char *dir, int64_t first_step, struct err *err);

/* One value under a tag ("train/loss"). Buffered; flushed on its own when some 60 kB have
 * gathered. */
void tensorboard_scalar(struct tensorboard *tb, const char *tag, int64_t step, double value);

int tensorboard_flush(struct tensorboard *tb, struct err *err);

/* Flushes and frees in every case; NULL is fine. Returns the first error of the file's life. */
int tensorboard_close(struct tensorboard *tb, struct err *err);

#endif
