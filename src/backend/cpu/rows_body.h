/* rows_body.h — row kernels that work element by element or on sums along a row: see rows.h.
 *
 * Included by rows_<isa>.c. Each kernel with a type argument is a body
 * on a constant `bf` behind a wrapper that picks the constant, so no inner loop tests a type. All
 * of them are bound by memory: a row is read from beyond the caches once, later passes over it find
 * it in L1.
 *
 * Dropout bits are drawn CHUNK columns at a time into a buffer on the stack, about one vector
 * operation per column, and used at once. */
#ifndef BACKEND_CPU_ROWS_BODY_H
#define BACKEND_CPU_ROWS_BODY_H

#include <math.h>

#include "backend/cpu/rows.h"
#include "backend/cpu/vec.h"
#include "backend/tile.h"

enum { CHUNK = 512 }; /* columns; a multiple of the 64 that one vphilox can yield */

/* The draws for columns [col, col + n), col a multiple of 8 and n <= CHUNK; NULL without
 * dropout. */
INLINE const uint16_t *draw(uint16_t *buf, const struct row_drop *d, uint32_t row, uint32_t col,
                            int n) {
    if (!d->threshold) return NULL;
    for (int i = 0; i < n; i += 4 * W)
        vphilox(buf + i, d->seed, (col + (uint32_t)i) / 8, row, d->site, d->step);
    return buf;
}

/* drop(x) for the W columns whose draws are at bits. */
INLINE vf drop(vf x, const uint16_t *bits, const struct row_drop *d) {
    vh h;
    memcpy(&h, bits, sizeof h);
    return vkeep(~vless_int((vi)vwiden(h), splat_int((int32_t)d->threshold)), x * d->scale);
}

/* A step over [begin, end) that leaves lane counts in m and columns in i. */
#define FOR_LANES(i, m, begin, end) for (int i = (begin), m; (m = lanes((end)-i)) > 0; i += W)

INLINE int chunk_end(int begin, int n) { return n - begin < CHUNK ? n : begin + CHUNK; }

/* ---- plain ----------------------------------------------------------------------------------- */

INLINE void convert_body(void *dst, int dst_bf, const void *src, int src_bf, int64_t n,
                         float factor) {
    for (int64_t i = 0; i < n; i += W) {
        int m = n - i < W ? (int)(n - i) : W;
        vstore(dst, i, m, dst_bf, vload(src, i, m, src_bf) * factor);
    }
}

static void convert(void *dst, enum dtype dst_type, const void *src, enum dtype src_type, int64_t n,
                    float factor) {
    int from_bf = src_type == DTYPE_BF16;
    if (dst_type == DTYPE_F16)
        convert_body(dst, F16, src, 0, n, factor);
    else if (dst_type == DTYPE_BF16)
        from_bf ? convert_body(dst, 1, src, 1, n, factor) : convert_body(dst, 1, src, 0, n, factor);
    else
        from_bf ? convert_body(dst, 0, src, 1, n, factor) : convert_body(dst, 0, src, 0, n, factor);
}

INLINE void store_rows_body(const struct mat *dst, int first, int n, const float *src,
                            const float *factor, int step, int bf) {
    for (int r = 0; r < n; r++, src += dst->cols) {
        void *row = mat_row(dst, first + r);
        float f = factor[r * step];
        FOR_LANES(i, m, 0, dst->cols) { vstore(row, i, m, bf, vload(src, i, m, 0) * f); }
    }
}

static void store_rows(const struct mat *dst, int first, int n, const float *src,
                       const float *factor, int step) {
    dst->type == DTYPE_BF16 ? store_rows_body(dst, first, n, src, factor, step, 1)
                            : store_rows_body(dst, first, n, src, factor, step, 0);
}

INLINE void add_rows_body(const struct mat *dst, int first, int n, const float *src, int bf) {
    for (int r = 0; r < n; r++, src += dst->cols) {
        void *row = mat_row(dst, first + r);
        FOR_LANES(i, m, 0, dst->cols) {
            vstore(row, i, m, bf, vload(row, i, m, bf) + vload(src, i, m, 0));
        }
    }
}

static void add_rows(const struct mat *dst, int first, int n, const float *src) {
    dst->type == DTYPE_BF16 ? add_rows_body(dst, first, n, src, 1)
                            : add_rows_body(dst, first, n, src, 0);
}

INLINE void column_sums_body(float *sum, const struct mat *x, int col, int n, int bf) {
    for (int r = 0; r < x->rows; r++) {
        const void *row = mat_row(x, r);
        FOR_LANES(i, m, 0, n) {
            vstore(sum, i, m, 0, vload(sum, i, m, 0) + vload(row, col + i, m, bf));
        }
    }
}

static void column_sums(float *sum, const struct mat *x, int col, int n) {
    x->type == DTYPE_BF16 ? column_sums_body(sum, x, col, n, 1)
                          : column_sums_body(sum, x, col, n, 0);
}

INLINE void row_dots_body(float *out, const struct mat *a, const struct mat *b, int first, int n,
                          int bf) {
    for (int r = 0; r < n; r++) {
        const void *x = mat_row(a, first + r), *y = mat_row(b, first + r);
        vf sum = {0};
        FOR_LANES(i, m, 0, a->cols) sum = vfma(vload(x, i, m, bf), vload(y, i, m, bf), sum);
        out[r] = vsum(sum);
    }
}

static void row_dots(float *out, const struct mat *a, const struct mat *b, int first, int n) {
    a->type == DTYPE_BF16 ? row_dots_body(out, a, b, first, n, 1)
                          : row_dots_body(out, a, b, first, n, 0);
}

/* ---- embed ----------------------------------------------------------------------------------- */

/* Columns [col, end) of a row of a tiled table as f32: a word of 4 bytes from each line. col is a
 * multiple of 4. */
static void tiled_row(float *out, const struct mat *m, int row, int col, int end) {
    const char *word = (const char *)m->data + tiled_at(m, row, col);
    for (int c = col; c < end; word += TILE_LINE_BYTES) {
        float f[4];
        uint16_t half[2];
        int8_t q[4];
        const int n = tiled_depths(m->type);
        switch (m->type) {
        case DTYPE_F32:
            memcpy(f, word, 4);
            break;
        case DTYPE_BF16:
            memcpy(half, word, 4);
            for (int i = 0; i < 2; i++) f[i] = bf16_load(half[i]);
            break;
        default:
            memcpy(q, word, 4);
            for (int i = 0; i < 4; i++) f[i] = (float)q[i] * m->scale[row];
        }
        for (int i = 0; i < n && c < end; i++) *out++ = f[i], c++;
    }
}

INLINE void embed_fwd_body(const struct embed_args *a, int first, int last, int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    uint16_t buf[CHUNK];
    float row[CHUNK];
    const int tiled = a->table.tiled;
    for (int r = first; r < last; r++) {
        void *y = mat_row(&a->y, r);
        const void *pos = mat_row(&a->pos_table, a->pos[r]);
        int id = a->ids[r];
        float scale = id < 0 ? 0 : a->scale;
        const void *token = id < 0 || tiled ? pos : mat_row(&a->table, id); /* times 0: nothing */
        for (int c = 0; c < a->y.cols; c += CHUNK) {
            int end = chunk_end(c, a->y.cols);
            const uint16_t *bits = draw(buf, &d, (uint32_t)r, (uint32_t)c, end - c);
            if (tiled && id >= 0) tiled_row(row, &a->table, id, c, end);
            FOR_LANES(i, m, c, end) {
                vf w = tiled && id >= 0 ? vload(row, i - c, m, 0) : vload(token, i, m, bf);
                vf x = w * scale + vload(pos, i, m, bf);
                if (bits) x = drop(x, bits + (i - c), &d);
                vstore(y, i, m, bf, x);
            }
        }
    }
}

static void embed_fwd_rows(const struct embed_args *a, int first, int last) {
    a->y.type == DTYPE_BF16 ? embed_fwd_body(a, first, last, 1) : embed_fwd_body(a, first, last, 0);
}

INLINE void embed_bwd_body(const struct embed_args *a, int col, int n, int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    uint16_t buf[CHUNK];
    for (int r = 0; r < a->dy.rows; r++) {
        const void *dy = mat_row(&a->dy, r);
        int id = a->ids[r];
        float *table = id < 0 ? NULL : mat_row(&a->dtable, id);
        float *pos = mat_empty(&a->dpos) ? NULL : mat_row(&a->dpos, a->pos[r]);
        for (int c = col; c < col + n; c += CHUNK) {
            int end = chunk_end(c, col + n);
            const uint16_t *bits = draw(buf, &d, (uint32_t)r, (uint32_t)c, end - c);
            FOR_LANES(i, m, c, end) {
                vf g = vload(dy, i, m, bf);
                if (bits) g = drop(g, bits + (i - c), &d);
                if (table) vstore(table, i, m, 0, vfma(g, splat(a->scale), vload(table, i, m, 0)));
                if (pos) vstore(pos, i, m, 0, vload(pos, i, m, 0) + g);
            }
        }
    }
}

static void embed_bwd_columns(const struct embed_args *a, int col, int n) {
    a->dy.type == DTYPE_BF16 ? embed_bwd_body(a, col, n, 1) : embed_bwd_body(a, col, n, 0);
}

/* ---- linear ---------------------------------------------------------------------------------- */

INLINE vf act(enum act act, vf z) {
    vf density;
    if (act == ACT_GELU) return z * vnormal(z, &density);
    if (act == ACT_SILU) return z * vsigmoid(z);
    return z; /* ReLU was done by the product */
}

/* act'(z) of the smooth activations. */
INLINE vf act_slope(enum act act, vf z) {
    vf density;
    if (act == ACT_GELU) {
        vf phi = vnormal(z, &density);
        return vfma(z, density, phi);
    }
    vf s = vsigmoid(z);
    return s * vfma(z, 1.0f - s, splat(1.0f));
}

INLINE void linear_fwd_body(const struct linear_args *a, int first, int last, enum act kind,
                            int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    uint16_t buf[CHUNK];
    for (int r = first; r < last; r++) {
        void *y = mat_row(&a->y, r);
        const void *z = kind == ACT_NONE ? y : mat_row(&a->z, r);
        for (int c = 0; c < a->y.cols; c += CHUNK) {
            int end = chunk_end(c, a->y.cols);
            const uint16_t *bits = draw(buf, &d, (uint32_t)r, (uint32_t)c, end - c);
            FOR_LANES(i, m, c, end) {
                vf x = act(kind, vload(z, i, m, bf));
                if (bits) x = drop(x, bits + (i - c), &d);
                vstore(y, i, m, bf, x);
            }
        }
    }
}

INLINE void linear_fwd_kinds(const struct linear_args *a, int first, int last, int bf) {
    switch (a->act) {
    case ACT_GELU:
        linear_fwd_body(a, first, last, ACT_GELU, bf);
        break;
    case ACT_SILU:
        linear_fwd_body(a, first, last, ACT_SILU, bf);
        break;
    default:
        linear_fwd_body(a, first, last, ACT_NONE, bf);
    }
}

static void linear_fwd_rows(const struct linear_args *a, int first, int last) {
    a->y.type == DTYPE_BF16 ? linear_fwd_kinds(a, first, last, 1)
                            : linear_fwd_kinds(a, first, last, 0);
}

INLINE void linear_bwd_body(const struct linear_args *a, int first, int last, float *db,
                            enum act kind, int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    uint16_t buf[CHUNK];
    int writes = kind != ACT_NONE || d.threshold;
    for (int r = first; r < last; r++) {
        void *dy = mat_row(&a->dy, r);
        const void *kept = kind == ACT_RELU   ? mat_row(&a->y, r)
                           : kind == ACT_NONE ? dy
                                              : mat_row(&a->z, r);
        for (int c = 0; c < a->dy.cols; c += CHUNK) {
            int end = chunk_end(c, a->dy.cols);
            /* y is positive exactly where z is and dropout kept it: ReLU need not draw. */
            const uint16_t *bits =
                kind == ACT_RELU ? NULL : draw(buf, &d, (uint32_t)r, (uint32_t)c, end - c);
            FOR_LANES(i, m, c, end) {
                vf g = vload(dy, i, m, bf);
                if (kind == ACT_RELU)
                    g = vkeep(vless(splat(0), vload(kept, i, m, bf)), g * d.scale);
                else if (kind != ACT_NONE)
                    g = g * act_slope(kind, vload(kept, i, m, bf));
                if (bits) g = drop(g, bits + (i - c), &d);
                if (writes) vstore(dy, i, m, bf, g);
                if (db) vstore(db, i, m, 0, vload(db, i, m, 0) + rounded(g, bf));
            }
        }
    }
}

INLINE void linear_bwd_kinds(const struct linear_args *a, int first, int last, float *db, int bf) {
    switch (a->act) {
    case ACT_GELU:
        linear_bwd_body(a, first, last, db, ACT_GELU, bf);
        break;
    case ACT_SILU:
        linear_bwd_body(a, first, last, db, ACT_SILU, bf);
        break;
    case ACT_RELU:
        linear_bwd_body(a, first, last, db, ACT_RELU, bf);
        break;
    default:
        linear_bwd_body(a, first, last, db, ACT_NONE, bf);
    }
}

static void linear_bwd_rows(const struct linear_args *a, int first, int last, float *db) {
    a->dy.type == DTYPE_BF16 ? linear_bwd_kinds(a, first, last, db, 1)
                             : linear_bwd_kinds(a, first, last, db, 0);
}

/* ---- add_norm -------------------------------------------------------------------------------- */

/* Rows that are normalised side by side: the sum of a row waits for its last addition, those of
 * others need not. Without vector instructions there is enough to do meanwhile. */
#ifdef __AVX2__
enum { NORM_ROWS = 4 };
#else
enum { NORM_ROWS = 1 };
#endif

INLINE void rows_at(void **at, const struct mat *m, int row, const int k) {
    for (int j = 0; j < k; j++) at[j] = mat_row(m, row + j);
}

/* r = x + drop(s) of k rows, rounded to the act type: the statistics are of what is kept for the
 * backward pass. The sums of r go to total. */
INLINE void residual(const struct add_norm_args *a, int row, const int k, float *total,
                     const struct row_drop *d, int bf) {
    uint16_t buf[NORM_ROWS][CHUNK];
    const uint16_t *bits[NORM_ROWS];
    void *x[NORM_ROWS], *s[NORM_ROWS], *r[NORM_ROWS];
    int n = a->x.cols;
    vf sum[NORM_ROWS] = {{0}};
    rows_at(x, &a->x, row, k);
    rows_at(s, &a->s, row, k);
    rows_at(r, &a->r, row, k);
    for (int c = 0; c < n; c += CHUNK) {
        int end = chunk_end(c, n);
        for (int j = 0; j < k; j++)
            bits[j] = draw(buf[j], d, (uint32_t)(row + j), (uint32_t)c, end - c);
        FOR_LANES(i, m, c, end) {
            for (int j = 0; j < k; j++) {
                vf v = vload(s[j], i, m, bf);
                if (bits[j]) v = drop(v, bits[j] + (i - c), d);
                v += vload(x[j], i, m, bf);
                vstore(r[j], i, m, bf, v);
                sum[j] += rounded(v, bf);
            }
        }
    }
    for (int j = 0; j < k; j++) total[j] = vsum(sum[j]);
}

INLINE void row_sums(void *const *r, int n, const int k, float *total, int bf) {
    vf sum[NORM_ROWS] = {{0}};
    FOR_LANES(i, m, 0, n) {
        for (int j = 0; j < k; j++) sum[j] += vload(r[j], i, m, bf);
    }
    for (int j = 0; j < k; j++) total[j] = vsum(sum[j]);
}

/* k rows from `row` on. */
INLINE void norm_rows(const struct add_norm_args *a, int row, const int k, const struct row_drop *d,
                      int bf) {
    void *r[NORM_ROWS], *y[NORM_ROWS];
    float total[NORM_ROWS], mean[NORM_ROWS], rstd[NORM_ROWS];
    vf square[NORM_ROWS] = {{0}};
    int n = a->x.cols;
    rows_at(r, mat_empty(&a->s) ? &a->x : &a->r, row, k);
    rows_at(y, &a->y, row, k);
    const void *scale = a->gamma.data, *shift = a->beta.data;
    if (mat_empty(&a->s))
        row_sums(r, n, k, total, bf);
    else
        residual(a, row, k, total, d, bf);
    for (int j = 0; j < k; j++) mean[j] = total[j] / (float)n;
    FOR_LANES(i, m, 0, n) {
        for (int j = 0; j < k; j++) {
            vf v = vkeep(upto(m), vload(r[j], i, m, bf) - mean[j]);
            square[j] = vfma(v, v, square[j]);
        }
    }
    for (int j = 0; j < k; j++) {
        float *stats = mat_row(&a->stats, row + j);
        rstd[j] = 1.0f / sqrtf(vsum(square[j]) / (float)n + a->eps);
        stats[0] = mean[j];
        stats[1] = rstd[j];
    }
    FOR_LANES(i, m, 0, n) {
        vf gamma = vload(scale, i, m, bf), beta = vload(shift, i, m, bf);
        for (int j = 0; j < k; j++) {
            vf rhat = (vload(r[j], i, m, bf) - mean[j]) * rstd[j];
            vstore(y[j], i, m, bf, vfma(rhat, gamma, beta));
        }
    }
}

INLINE void add_norm_fwd_body(const struct add_norm_args *a, int first, int last, int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    int row = first;
    for (; NORM_ROWS > 1 && row + NORM_ROWS <= last; row += NORM_ROWS)
        norm_rows(a, row, NORM_ROWS, &d, bf);
    for (; row < last; row++) norm_rows(a, row, 1, &d, bf);
}

static void add_norm_fwd_rows(const struct add_norm_args *a, int first, int last) {
    a->x.type == DTYPE_BF16 ? add_norm_fwd_body(a, first, last, 1)
                            : add_norm_fwd_body(a, first, last, 0);
}

/* The two row sums that LayerNorm' needs, divided by n: means of t = gamma dy and of t rhat. The
 * parameter gradients are collected on the way. */
INLINE void norm_sums(const struct add_norm_args *a, int row, float mean[2], float *dgamma,
                      float *dbeta, int bf) {
    const void *r = mat_row(mat_empty(&a->r) ? &a->x : &a->r, row), *dy = mat_row(&a->dy, row);
    const float *stats = mat_row(&a->stats, row);
    int n = a->dy.cols;
    vf sum_t = {0}, sum_tr = {0};
    FOR_LANES(i, m, 0, n) {
        vf g = vload(dy, i, m, bf), rhat = (vload(r, i, m, bf) - stats[0]) * stats[1];
        vf t = g * vload(a->gamma.data, i, m, bf);
        sum_t += t;
        sum_tr = vfma(t, rhat, sum_tr);
        vstore(dgamma, i, m, 0, vfma(g, rhat, vload(dgamma, i, m, 0)));
        vstore(dbeta, i, m, 0, vload(dbeta, i, m, 0) + g);
    }
    mean[0] = vsum(sum_t) / (float)n;
    mean[1] = vsum(sum_tr) / (float)n;
}

INLINE void add_norm_bwd_body(const struct add_norm_args *a, int first, int last, float *dgamma,
                              float *dbeta, float *dbias, int bf) {
    const struct row_drop d = row_drop_of(&a->drop);
    uint16_t buf[CHUNK];
    int n = a->dy.cols, has_dr = !mat_empty(&a->dr), has_ds = !mat_empty(&a->ds);
    for (int row = first; row < last; row++) {
        const void *r = mat_row(mat_empty(&a->r) ? &a->x : &a->r, row), *dy = mat_row(&a->dy, row);
        const void *dr = has_dr ? mat_row(&a->dr, row) : NULL;
        void *dx = mat_row(&a->dx, row), *ds = has_ds ? mat_row(&a->ds, row) : NULL;
        const float *stats = mat_row(&a->stats, row);
        float mean[2];
        norm_sums(a, row, mean, dgamma, dbeta, bf);
        for (int c = 0; c < n; c += CHUNK) {
            int end = chunk_end(c, n);
            const uint16_t *bits =
                has_ds ? draw(buf, &d, (uint32_t)row, (uint32_t)c, end - c) : NULL;
            FOR_LANES(i, m, c, end) {
                vf gamma = vload(a->gamma.data, i, m, bf);
                vf t = vfma(vload(dy, i, m, bf), gamma, splat(-mean[0]));
                vf rhat = (vload(r, i, m, bf) - stats[0]) * stats[1];
                vf g = stats[1] * vfma(rhat, splat(-mean[1]), t);
                if (has_dr) g += vload(dr, i, m, bf);
                vstore(dx, i, m, bf, g);
                if (bits) g = drop(g, bits + (i - c), &d);
                if (has_ds) vstore(ds, i, m, bf, g);
                if (dbias) /* as stored: what the product below will see */
                    vstore(dbias, i, m, 0,
                           vload(dbias, i, m, 0) + vload(has_ds ? ds : dx, i, m, bf));
            }
        }
    }
}

static void add_norm_bwd_rows(const struct add_norm_args *a, int first, int last, float *dgamma,
                              float *dbeta, float *dbias) {
    a->dy.type == DTYPE_BF16 ? add_norm_bwd_body(a, first, last, dgamma, dbeta, dbias, 1)
                             : add_norm_bwd_body(a, first, last, dgamma, dbeta, dbias, 0);
}

/* ---- adam ------------------------------------------------------------------------------------ */

/* Two rows, which is what accumulating gradients adds at a time. */
INLINE void sum_two(const struct sum_args *a, int64_t first, int64_t n) {
    const float *x = a->x.data, *y = x + a->x.ld;
    for (int64_t i = first; i < first + n; i += W) {
        int l = first + n - i < W ? (int)(first + n - i) : W;
        vstore(a->out.data, i, l, 0, vload(x, i, l, 0) + vload(y, i, l, 0));
    }
}

/* Trees that wait for their right half, as the ones of a binary counter: after row r, those of the
 * ones of r + 1. */
static void sum_elements(const struct sum_args *a, int64_t first, int64_t n) {
    const float *x = a->x.data;
    vf part[SUM_DEPTH];
    if (a->x.rows == 2) {
        sum_two(a, first, n);
        return;
    }
    for (int64_t i = first; i < first + n; i += W) {
        int l = first + n - i < W ? (int)(first + n - i) : W, depth = 0;
        for (int r = 0; r < a->x.rows; r++) {
            part[depth++] = vload(x + r * a->x.ld, i, l, 0);
            for (int c = r + 1; c % 2 == 0; c /= 2, depth--) part[depth - 2] += part[depth - 1];
        }
        for (; depth > 1; depth--) part[depth - 2] += part[depth - 1];
        vstore(a->out.data, i, l, 0, part[0]);
    }
}

INLINE double sumsq_body(const void *x, int64_t n, int bf) {
    vd acc[4] = {{0}};
    int64_t i = 0;
    for (; i + 2 * W <= n; i += 2 * W) {
        vsquares(acc, vload(x, i, W, bf));
        vsquares(acc + 2, vload(x, i + W, W, bf));
    }
    for (; i < n; i += W) vsquares(acc, vload(x, i, n - i < W ? (int)(n - i) : W, bf));
    vd all = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    double sum = 0;
    for (int l = 0; l < W / 2; l++) sum += all[l];
    return sum;
}

static double sumsq_elements(const void *x, enum dtype type, int64_t n) {
    return type == DTYPE_BF16 ? sumsq_body(x, n, 1) : sumsq_body(x, n, 0);
}

static void adam_elements(const struct adam_args *a, const struct adam_factors *f, int64_t first,
                          int64_t n) {
    float *p = a->p.data, *g = a->g.data, *mo = a->m.data, *ve = a->v.data;
    for (int64_t i = first; i < first + n; i += W) {
        int l = first + n - i < W ? (int)(first + n - i) : W;
        vf grad = vload(g, i, l, 0) * f->clip;
        vf mean = vfma(vload(mo, i, l, 0), splat(f->beta1), grad * f->beta1_rest);
        vf var = vfma(vload(ve, i, l, 0), splat(f->beta2), grad * grad * f->beta2_rest);
        vf next = vload(p, i, l, 0) - f->rate * mean / (vsqrt(var * f->inv_bias2) + f->eps);
        vstore(mo, i, l, 0, mean);
        vstore(ve, i, l, 0, var);
        vstore(p, i, l, 0, next);
        if (!mat_empty(&a->copy)) vstore(a->copy.data, i, l, 1, next);
        if (!mat_empty(&a->avg)) {
            vf avg = vload(a->avg.data, i, l, 0);
            vstore(a->avg.data, i, l, 0, vfma(next - avg, splat(a->avg_weight), avg));
        }
        if (a->clear) vstore(g, i, l, 0, (vf){0});
    }
}

#endif
