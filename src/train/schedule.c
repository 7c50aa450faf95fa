/* schedule.c — see schedule.h and docs/math/schedule.md. */
#include "train/schedule.h"

#include <math.h>

double schedule_rate(int d_model, int64_t warmup, double scale, int64_t step) {
    double s = (double)step, decay = 1.0 / sqrt(s);
    double rise = warmup > 0 ? s * pow((double)warmup, -1.5) : decay;
    return scale / sqrt((double)d_model) * fmin(decay, rise);
}

double schedule_cooldown(int64_t steps, int64_t cooldown, int64_t step) {
    if (!cooldown) return 1;
    return fmin(1, (double)(steps - step + 1) / (double)(cooldown + 1));
}

double schedule_average(double decay, int64_t step) {
    return fmax(1 - decay, 9.0 / (10.0 + (double)step));
}
