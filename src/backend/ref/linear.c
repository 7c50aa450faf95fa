/* linear.c — y = drop(act(x w^T + b)), and its reverse.        PAPER: 3.3 for the ReLU. */
#include <float.h>
#include <math.h>

#include "backend/dropout.h"
#include "backend/ref/ref.h"

/* Phi(z), the standard normal distribution function; erfc keeps the digits of the left tail. */
static double normal_cdf(double z) { return 0.5 * erfc(-z * M_SQRT1_2); }
static double normal_pdf(double z) { return 0.5 * M_2_SQRTPI * M_SQRT1_2 * exp(-0.5 * z * z); }
static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static double act_fwd(enum act act, double z) {
    switch (act) {
    case ACT_RELU:
        return z <= 0 ? 0 : z; /* a NaN stays one */
    case ACT_GELU:
        return z * normal_cdf(z);
    case ACT_SILU:
        return z * sigmoid(z);
    default:
        return z;
    }
}

static double act_bwd(enum act act, double z) {
    switch (act) {
    case ACT_RELU:
        return z > 0;
    case ACT_GELU:
        return normal_cdf(z) + z * normal_pdf(z);
    case ACT_SILU:
        return sigmoid(z) * (1 + z * (1 - sigmoid(z)));
    default:
        return 1;
    }
}

static double product(const struct linear_args *a, int i, int j) {
    return dot(&a->x, i, &a->w, j) + (mat_empty(&a->b) ? 0 : get(&a->b, 0, j));
}

/* The same with int8 weights. Every f32 operation here is part of the contract. */
static double product_i8(const struct linear_args *a, int i, int j) {
    const struct mat *w = &a->w;
    float most = 0, bias = mat_empty(&a->b) ? 0 : (float)get(&a->b, 0, j);
    for (int k = 0; k < a->x.cols; k++) {
        float size = fabsf((float)get(&a->x, i, k));
        if (!(size <= FLT_MAX)) return NAN;
        if (size > most) most = size;
    }
    float factor = w->x_scale > 0 ? w->x_scale : 127 / most;
    int32_t sum = 0, all = 0;
    for (int k = 0; k < a->x.cols && factor <= FLT_MAX; k++) {
        const int8_t *q = (const int8_t *)w->data + tiled_at(w, j, k);
        float u = rintf((float)get(&a->x, i, k) * factor);
        sum += (int32_t)fmaxf(fminf(u, 127), -127) * *q;
        all += *q;
    }
    if (w->x_scale > 0) return (float)(sum + 127 * all) * w->unit[j] + (w->zero[j] + bias);
    return fmaf((float)sum, most / 127 * w->scale[j], bias);
}

void ref_linear_fwd(const struct linear_args *a) {
    int quantised = a->w.type == DTYPE_I8;
    for (int i = 0; i < a->y.rows; i++)
        for (int j = 0; j < a->y.cols; j++) {
            double z = quantised ? product_i8(a, i, j) : product(a, i, j);
            if (act_keeps_z(a->act)) {
                put(&a->z, i, j, z);
                z = get(&a->z, i, j); /* the z that the backward pass will see */
            }
            put(&a->y, i, j, dropout_factor(&a->drop, i, j) * act_fwd(a->act, z));
        }
}

void ref_linear_bwd(const struct linear_args *a) {
    int n = a->dy.rows, n_out = a->w.rows, n_in = a->w.cols;
    const struct mat *dz = &a->dy; /* in place */
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n_out; j++) {
            /* Where y = drop(relu(z)) is positive so is z; where dropout zeroed it nothing
             * flows. */
            double z = act_keeps_z(a->act)  ? get(&a->z, i, j)
                       : a->act == ACT_RELU ? get(&a->y, i, j)
                                            : 0;
            double dy = dropout_factor(&a->drop, i, j) * get(&a->dy, i, j);
            put(dz, i, j, act_bwd(a->act, z) * dy);
        }
    for (int i = 0; i < n && !mat_empty(&a->dx); i++)
        for (int k = 0; k < n_in; k++) {
            double sum = a->dx_add ? get(&a->dx, i, k) : 0;
            for (int j = 0; j < n_out; j++) sum += get(dz, i, j) * get(&a->w, j, k);
            if (a->x_act == ACT_RELU) sum *= get(&a->x, i, k) > 0 ? dropout_scale(a->x_p) : 0;
            put(&a->dx, i, k, sum);
        }
    for (int k = 0; k < n_in && !mat_empty(&a->dx_sum); k++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += get(&a->dx, i, k);
        add(&a->dx_sum, 0, k, sum);
    }
    for (int j = 0; j < n_out; j++)
        for (int k = 0; k < n_in; k++) {
            double sum = 0;
            for (int i = 0; i < n; i++) sum += get(dz, i, j) * get(&a->x, i, k);
            add(&a->dw, j, k, sum);
        }
    for (int j = 0; j < n_out && !mat_empty(&a->db); j++) {
        double sum = 0;
        for (int i = 0; i < n; i++) sum += get(dz, i, j);
        add(&a->db, 0, j, sum);
    }
}
