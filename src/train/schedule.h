/* schedule.h — the paper's learning rate. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdint.h>

/* PAPER: 5.3, equation 3:  scale * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), step >= 1.
 * warmup 0 starts at the decaying branch. */
double schedule_rate(int d_model, int64_t warmup, double scale, int64_t step);

#endif
