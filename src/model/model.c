/* model.c — see model.h. */
#include "model/model.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/ops.h"
#include "base/err.h"
#include "base/mem.h"

/* [1, n_elem] view of a flat buffer. */
static struct mat flat_view(const struct model *m, void *data, enum dtype type) {
    return mat_of(data, 1, (int)m->table.n_elem, type);
}

/* ---- positions ------------------------------------------------------------------------------- */

/* Sines and cosines beside each other: what a row of the table is made of. */
struct turn {
    double sine, cosine;
};

/* PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same. */
static struct turn turn_of(int pos, double period) {
    double angle = pos / period; /* compilers make one call of both */
    return (struct turn){sin(angle), cos(angle)};
}

/* The row of the sum of two positions from theirs: floats between which the exact values are. */
static void sum_row(float *low, float *high, const struct turn *a, const struct turn *b,
                    const double *slack, int n_pair) {
    for (int i = 0; i < n_pair; i++) {
        double sine = a[i].sine * b[i].cosine + a[i].cosine * b[i].sine;
        double cosine = a[i].cosine * b[i].cosine - a[i].sine * b[i].sine;
        low[2 * i] = (float)(sine - slack[i]);
        low[2 * i + 1] = (float)(cosine - slack[i]);
        high[2 * i] = (float)(sine + slack[i]);
        high[2 * i + 1] = (float)(cosine + slack[i]);
    }
}

static void exact_sinusoids(void *out, enum dtype type, int n, int d) {
    for (int j = 0; j < d; j += 2) {
        double period = pow(10000.0, (double)j / d);
        for (int pos = 0; pos < n; pos++) {
            struct turn turn = turn_of(pos, period);
            dtype_store(out, type, (int64_t)pos * d + j, turn.sine);
            if (j + 1 < d) dtype_store(out, type, (int64_t)pos * d + j + 1, turn.cosine);
        }
    }
}

enum { STRIDE = 32 };

/* A start-up waits for this, and sines take their time: those of the first STRIDE rows and of every
 * STRIDE-th give nearly all others, to the same bit. Both angles, their sum, what sines are made of
 * them and two products with their sum are each off by half a unit in the last place: together less
 * than (angle + 4) * 2^-52, and the slack is twice that. Where the floats at both of its ends are
 * the same, so is that of the sine itself. */
void model_sinusoids(void *out, enum dtype type, int n, int d) {
    if (type == DTYPE_F64) {
        exact_sinusoids(out, type, n, d);
        return;
    }
    size_t n_pair = ((size_t)d + 1) / 2;
    struct turn *first = xmalloc((STRIDE + 1) * n_pair * sizeof *first);
    struct turn *base = first + STRIDE * n_pair;
    double *period = xmalloc(2 * n_pair * sizeof *period), *slack = period + n_pair;
    float *low = xmalloc(4 * n_pair * sizeof *low), *high = low + 2 * n_pair;
    for (size_t i = 0; i < n_pair; i++) {
        period[i] = pow(10000.0, 2.0 * (double)i / d);
        slack[i] = (n / period[i] + 4) * 0x1p-51;
    }
    for (int pos = 0; pos < n; pos++) {
        struct turn *rest = first + (size_t)(pos % STRIDE) * n_pair;
        for (size_t i = 0; pos < STRIDE && i < n_pair; i++) rest[i] = turn_of(pos, period[i]);
        for (size_t i = 0; pos % STRIDE == 0 && i < n_pair; i++) base[i] = turn_of(pos, period[i]);
        sum_row(low, high, base, rest, slack, (int)n_pair);
        for (size_t j = 0; j < 2 * n_pair; j++) {
            if (low[j] == high[j]) continue;
            struct turn turn = turn_of(pos, period[j / 2]);
            low[j] = (float)(j % 2 ? turn.cosine : turn.sine);
        }
        if (type == DTYPE_F32)
            memcpy((float *)out + (size_t)pos * (size_t)d, low, (size_t)d * sizeof *low);
        else
            for (int j = 0; j < d; j++) dtype_store(out, type, (int64_t)pos * d + j, low[j]);
    }
    xfree(low);
    xfree(period);
    xfree(first);
}

static int make_sinusoids(struct model *m, struct err *err) {
    int n = m->config.max_len, d = m->config.d_model;
    size_t size = (size_t)n * (size_t)d * dtype_size(m->type);
    m->sinusoids = backend_alloc(m->be, size, err);
    if (!m->sinusoids) return HEED_ENOMEM;
    void *host = mem_block(size);
    if (!host) return err_set(err, HEED_ENOMEM, "cannot allocate %d x %d position encodings", n, d);
    model_sinusoids(host, m->type, n, d);
    backend_upload(m->be, m->sinusoids, host, size);
    int rc = backend_sync(m->be, err);
    mem_block_free(host);
    m->src_pos = m->tgt_pos = mat_of(m->sinusoids, n, d, m->type);
    return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

static int create(struct model **out, const struct config *config, struct backend *be,
                  enum dtype type, int frozen, struct err *err) {
    *out = NULL;
    struct model *m = xcalloc(1, sizeof *m);
    m->config = *config;
    m->be = be;
    m->type = type;
    param_table_init(&m->table, config);
    enum dtype wide = dtype_wide(type);
    size_t flat_size = m->table.n_elem * dtype_size(wide);
    size_t copy_size = m->table.n_elem * dtype_size(type);
    int rc = HEED_ENOMEM;
    if (!frozen) {
        if (!(m->flat = backend_alloc(be, flat_size, err))) goto fail;
        backend_zero(be, m->flat, flat_size);
    }
    if (frozen || type != wide) {
        if (!(m->copy = backend_alloc(be, copy_size, err))) goto fail;
        backend_zero(be, m->copy, copy_size);
    }
    params_init(&m->w, config, m->copy ? m->copy : m->flat, type);
    m->src_pos = m->w.src_pos;
    m->tgt_pos = m->w.tgt_pos;
    if (config->positions == POSITIONS_SINUSOIDAL && (rc = make_sinusoids(m, err))) goto fail;
    *out = m;
    return 0;
fail:
    model_free(m);
    return rc;
}

int model_new(struct model **out, const struct config *config, struct backend *be, enum dtype type,
              struct err *err) {
    return create(out, config, be, type, 0, err);
}

int model_new_frozen(struct model **out, const struct config *config, struct backend *be,
                     enum dtype type, struct err *err) {
    return create(out, config, be, type, 1, err);
}

void model_free(struct model *m) {
    if (!m) return;
    backend_free(m->be, m->flat);
    backend_free(m->be, m->copy);
    backend_free(m->be, m->sinusoids);
    params_release(&m->w);
    param_table_release(&m->table);
    xfree(m);
}

void model_follow(struct model *m) {
    if (!m->copy) return;
    struct mat src = flat_view(m, m->flat, DTYPE_F32), dst = flat_view(m, m->copy, DTYPE_BF16);
    backend_cast(m->be, &dst, &src);
    model_round(m);
}

void model_round(struct model *m) {
    if (!m->rounds) return;
    BUG_ON(!m->copy);
    for (int i = 0; i < m->table.n_param; i++) {
        const struct param *p = &m->table.param[i];
        struct round_rows_args args = {
            mat_of((char *)m->copy + p->offset * dtype_size(m->type), p->rows, p->cols, m->type)};
        if (param_is_matrix(p)) round_rows(m->be, &args);
    }
}

static int refuse_frozen(const struct model *m, struct err *err) {
    if (m->flat) return 0;
    return err_set(err, HEED_EINVAL, "the model is frozen: its parameters cannot be set or read");
}

int model_set(struct model *m, const float *flat, struct err *err) {
    int frozen = refuse_frozen(m, err);
    if (frozen) return frozen;
    size_t n = m->table.n_elem;
    if (m->type != DTYPE_F64) {
        backend_upload(m->be, m->flat, flat, n * sizeof *flat);
        model_follow(m);
        return backend_sync(m->be, err);
    }
    double *wide = mem_block(n * sizeof *wide);
    if (!wide) return err_set(err, HEED_ENOMEM, "cannot allocate %zu parameters", n);
    for (size_t i = 0; i < n; i++) wide[i] = flat[i];
    backend_upload(m->be, m->flat, wide, n * sizeof *wide);
    int rc = backend_sync(m->be, err);
    mem_block_free(wide);
    return rc;
}

int model_get(struct model *m, float *flat, struct err *err) {
    int frozen = refuse_frozen(m, err);
    if (frozen) return frozen;
    size_t n = m->table.n_elem;
    if (m->type != DTYPE_F64) {
        backend_download(m->be, flat, m->flat, n * sizeof *flat);
        return backend_sync(m->be, err);
    }
    double *wide = mem_block(n * sizeof *wide);
    if (!wide) return err_set(err, HEED_ENOMEM, "cannot allocate %zu parameters", n);
    backend_download(m->be, wide, m->flat, n * sizeof *wide);
    int rc = backend_sync(m->be, err);
    for (size_t i = 0; i < n; i++) flat[i] = (float)wide[i];
    mem_block_free(wide);
    return rc;
}

int model_draw(struct model *m, uint64_t seed, struct err *err) {
    int frozen = refuse_frozen(m, err);
    if (frozen) return frozen;
    float *flat = mem_block(m->table.n_elem * sizeof *flat);
    if (!flat) return err_set(err, HEED_ENOMEM, "cannot allocate %zu parameters", m->table.n_elem);
    params_draw(flat, &m->table, seed);
    int rc = model_set(m, flat, err);
    mem_block_free(flat);
    return rc;
}

size_t model_bytes(const struct config *config, enum dtype type) {
    struct param_table table;
    param_table_init(&table, config);
    size_t wide = dtype_size(dtype_wide(type)), own = dtype_size(type);
    size_t bytes = size_mul(table.n_elem, wide + (own != wide ? own : 0));
    if (config->positions == POSITIONS_SINUSOIDAL)
        bytes = size_add(bytes, size_mul((size_t)config->max_len * (size_t)config->d_model, own));
    param_table_release(&table);
    return bytes;
}
