/* round_rows.c — weights as int8 will hold them. */
#include <math.h>

#include "backend/ref/ref.h"

/* In f32, as ref.h says. */
void ref_round_rows(const struct round_rows_args *a) {
    for (int i = 0; i < a->w.rows; i++) {
        float most = 0;
        int sick = 0;
        for (int j = 0; j < a->w.cols; j++) {
            float w = (float)get(&a->w, i, j);
            sick |= !isfinite(w);
            most = fmaxf(most, fabsf(w));
        }
        float factor = 127 / most, step = most / 127;
        for (int j = 0; j < a->w.cols && !sick; j++) {
            float w = (float)get(&a->w, i, j);
            put(&a->w, i, j, isfinite(factor) ? (double)(rintf(w * factor) * step) : 0);
        }
    }
}
