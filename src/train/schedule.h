/* schedule.h — the paper's learning rate, and a way down from it at the end of a run. */
#ifndef TRAIN_SCHEDULE_H
#define TRAIN_SCHEDULE_H

#include <stdint.h>

/* PAPER: 5.3, equation 3:  scale * d_model^-0.5 * min(step^-0.5, step * warmup^-1.5), step >= 1.
 * warmup 0 starts at the decaying branch. */
double schedule_rate(int d_model, int64_t warmup, double scale, int64_t step);

/* The factor on it at update `step` of a run of `steps`, whose last `cooldown` updates take it
 * linearly to 0:  min(1, (steps - step + 1) / (cooldown + 1)).
 * So update steps - cooldown is the last with the full rate, update `steps` still moves by
 * 1 / (cooldown + 1) of it, and 0 would come next. cooldown 0 is 1 everywhere; otherwise
 * 1 <= step <= steps and cooldown <= steps. */
double schedule_cooldown(int64_t steps, int64_t cooldown, int64_t step);

/* The weight of the parameters of update `step` in their moving average,
 *     avg += weight (p - avg),  weight = 1 - min(decay, (1 + step) / (10 + step)).
 * Until the second term reaches the decay it is an average over about the last ninth of the run, so
 * that the random beginning is soon forgotten; afterwards over about 1 / (1 - decay) updates. */
double schedule_average(double decay, int64_t step);

#endif
