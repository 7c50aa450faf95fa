/* learning.h — the learning curves of a run (train/history.h) as an SVG: losses, BLEU where it was
 * measured, learning rate, speed. */
#ifndef VIZ_LEARNING_H
#define VIZ_LEARNING_H

#include "train/history.h"

/* dir: the run's, for the title and messages. log_scale: of the losses. */
int learning_draw(const char *path, const char *dir, const struct history *h, int log_scale,
                  struct err *err);

#endif
