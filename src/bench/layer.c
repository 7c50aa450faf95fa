/* layer.c — see layer.h. */
#include "bench/layer.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/acts.h"

const struct layer_facts layer_facts[LAYER_KINDS] = {
    [LAYER_ATTENTION] = {"self-attention",
                         "n² d",
                         "1",
                         "1",
                         2,
                         {{"attention", "n² d", 2, 1, 0}, {"projections", "n d²", 1, 2, 0}},
                         0,
                         0},
    [LAYER_RECURRENT] = {"recurrent", "n d²", "n", "n", 1, {{"steps", "n d²", 1, 2, 0}}, 1, 1},
    [LAYER_CONV] = {"convolutional", "k n d²", "1", "n/k", 1, {{"taps", "k n d²", 1, 2, 0}}, 0, 1},
    [LAYER_SEPARABLE] = {"separable",
                         "k n d + n d²",
                         "1",
                         "n/k",
                         2,
                         {{"depthwise", "k n d", 1, 1, 0}, {"pointwise", "n d²", 1, 2, 0}},
                         0,
                         1},
    [LAYER_RESTRICTED] = {"restricted",
                          "r n d",
                          "1",
                          "n/r",
                          2,
                          {{"attention", "r n d", 1, 1, 1}, {"projections", "n d²", 1, 2, 0}},
                          0,
                          1},
};

enum { MAX_WEIGHTS = 2, GRANULE = 64 };

struct layer {
    struct layer_shape s;
    struct backend *be;
    void *block;          /* weights, then activations */
    int32_t *ints;        /* tables that ops read: see fill_ints */
    size_t weights, kept; /* of the weights; up to the end of what is no block of rows */
    size_t bytes;         /* of the block */
    struct mat w[MAX_WEIGHTS];
    int rows;             /* N = n * batch */
    struct mat x, y;      /* [N,d] */
    struct mat padded;    /* x and around it the zeros that a kernel reaches */
    struct mat qkv, att;  /* [N,3d], [N,d] */
    struct mat lse;       /* [heads, N] */
    struct mat xh, c;     /* recurrent: [N + batch, 2d] x_t beside h_{t-1}; [N,d] */
    struct mat gate, new; /* [batch,d] */
    struct mat taps;      /* [N, 3d], separable: those of a block of rows */
    struct mat g, state;  /* separable, of a block: logits and c of ssru, [3 rows, d] */
    struct mat mixed, z;  /* its o; [N,d] */
    int *depth;           /* of every GRANULE of the block, while ops are counted and not run */
    int deepest;
};

static int heads(const struct layer *l) { return max_int(1, l->s.d / LAYER_HEAD); }
/* How far the taps of a kernel are from each other; 0 where there are none. */
static int stride(const struct layer *l) {
    return l->s.kind == LAYER_CONV || l->s.kind == LAYER_SEPARABLE ? max_int(1, l->s.dilation) : 0;
}
/* Rows of zeros before the first. */
static int lead(const struct layer *l) { return l->s.dilation ? 2 * stride(l) : stride(l); }

/* ---- ops that can be counted ----------------------------------------------------------------- */

static void granules(const struct layer *l, const struct mat *m, int row, size_t *from,
                     size_t *to) {
    size_t at = (size_t)((const char *)mat_row(m, row) - (const char *)l->block);
    *from = at / GRANULE;
    *to = (at + (size_t)m->cols * dtype_size(m->type) + GRANULE - 1) / GRANULE;
}

/* An op that reads and writes these; either list ends with NULL. True: do not run it. */
static int counted(struct layer *l, const struct mat *const *reads,
                   const struct mat *const *writes) {
    size_t from, to;
    int depth = 0;
    if (!l->depth) return 0;
    for (; *reads; reads++)
        for (int i = 0; !mat_empty(*reads) && i < (*reads)->rows; i++)
            for (granules(l, *reads, i, &from, &to); from < to; from++)
                depth = max_int(depth, l->depth[from]);
    depth++;
    l->deepest = max_int(l->deepest, depth);
    for (; *writes; writes++)
        for (int i = 0; i < (*writes)->rows; i++)
            for (granules(l, *writes, i, &from, &to); from < to; from++) l->depth[from] = depth;
    return 1;
}
#define LIST(...) ((const struct mat *const[]){__VA_ARGS__, NULL})

static void op_linear(struct layer *l, const struct linear_args *a) {
    if (!counted(l, LIST(&a->x, &a->w, &a->b), LIST(&a->y))) linear_fwd(l->be, a);
}

static void op_copy(struct layer *l, const struct mat *to, const struct mat *from) {
    if (!counted(l, LIST(from), LIST(to))) backend_cast(l->be, to, from);
}

/* ---- forward --------------------------------------------------------------------------------- */

static void run_attention(struct layer *l, int part) {
    int n = l->s.n, d = l->s.d, d_k = d / heads(l);
    struct rows rows = {l->ints, l->s.batch, l->rows, n};
    struct attention_args a = {.o = l->att,
                               .q = mat_cols(l->qkv, 0, d),
                               .k = mat_cols(l->qkv, d, d),
                               .v = mat_cols(l->qkv, 2 * d, d),
                               .lse = l->lse,
                               .rq = rows,
                               .rk = rows,
                               .n_head = heads(l),
                               .window = l->s.kind == LAYER_RESTRICTED ? l->s.r : 0,
                               .scale = 1 / sqrtf((float)d_k)};
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->qkv, .x = l->x, .w = l->w[0]});
    if (part != 1 && !counted(l, LIST(&a.q, &a.k, &a.v), LIST(&a.o, &a.lse)))
        attention_fwd(l->be, &a);
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->y, .x = l->att, .w = l->w[1]});
}

static void recurrent_step(struct layer *l, int t) {
    int d = l->s.d, m = l->s.batch;
    struct mat xh = mat_rows(l->xh, (int64_t)t * m, m);
    struct ssru_step_args a = {.o = mat_cols(mat_rows(l->xh, (int64_t)(t + 1) * m, m), d, d),
                               .g = l->gate,
                               .x = l->new,
                               .c = l->c,
                               .index = l->ints,
                               .len = l->ints + l->rows + (int64_t)t *m,
                               .index_ld = l->s.n};
    struct mat before = mat_rows(l->c, (int64_t)max_int(t - 1, 0) * m, t > 0 ? m : 0);
    struct mat state = mat_rows(l->c, (int64_t)t * m, m);
    op_linear(l, &(struct linear_args){.y = l->gate, .x = xh, .w = mat_rows(l->w[0], 0, d)});
    op_linear(l, &(struct linear_args){
                     .y = l->new, .x = xh, .w = mat_rows(l->w[0], d, d), .act = ACT_RELU});
    if (!counted(l, LIST(&a.g, &a.x, &before), LIST(&a.o, &state))) ssru_step(l->be, &a);
}

/* The rows that a kernel covers side by side, for rows [first, first + n). */
static void gather(struct layer *l, int first, int n) {
    for (int t = 0; t < LAYER_TAPS; t++) {
        struct mat to = mat_cols(mat_rows(l->taps, 0, n), t * l->s.d, l->s.d);
        struct mat from = mat_rows(l->padded, first + (int64_t)t * stride(l) * l->s.batch, n);
        op_copy(l, &to, &from);
    }
}

static void depthwise(struct layer *l, int first, int n) {
    int d = l->s.d;
    struct ssru_args a = {.o = mat_rows(l->mixed, 0, LAYER_TAPS * n),
                          .g = mat_rows(l->g, 0, LAYER_TAPS * n),
                          .x = mat_of(l->taps.data, LAYER_TAPS * n, d, l->s.type),
                          .c = mat_rows(l->state, 0, LAYER_TAPS * n),
                          .rows = {l->ints, n, LAYER_TAPS * n, LAYER_TAPS}};
    struct mat last = mat_cols(mat_of(l->mixed.data, n, LAYER_TAPS * d, l->s.type), 2 * d, d);
    struct mat z = mat_rows(l->z, first, n);
    gather(l, first, n);
    if (!counted(l, LIST(&a.x), LIST(&a.o, &a.c))) ssru_fwd(l->be, &a);
    op_copy(l, &z, &last);
}

static void run_separable(struct layer *l, int part) {
    for (int i = 0, n; i < l->rows && part != 1; i += n) {
        n = min_int(l->taps.rows, l->rows - i);
        depthwise(l, i, n);
    }
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->y, .x = l->z, .w = l->w[0]});
}

void layer_run(struct layer *l, int part) {
    switch (l->s.kind) {
    case LAYER_ATTENTION:
    case LAYER_RESTRICTED:
        run_attention(l, part);
        break;
    case LAYER_RECURRENT:
        for (int t = 0; t < l->s.n; t++) recurrent_step(l, t);
        break;
    case LAYER_SEPARABLE:
        run_separable(l, part);
        break;
    default:
        gather(l, 0, l->rows);
        op_linear(l, &(struct linear_args){.y = l->y, .x = l->taps, .w = l->w[0]});
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void carve_weights(struct layer *l, struct arena *arena) {
    int d = l->s.d;
    enum dtype type = l->s.type;
    switch (l->s.kind) {
    case LAYER_RECURRENT:
        l->w[0] = mat_take(arena, 2 * d, 2 * d, type);
        break;
    case LAYER_CONV:
        l->w[0] = mat_take(arena, d, LAYER_TAPS * d, type);
        break;
    case LAYER_SEPARABLE:
        l->w[0] = mat_take(arena, d, d, type);
        l->w[1] = mat_take(arena, LAYER_TAPS - 1, d, type);
        break;
    default:
        l->w[0] = mat_take(arena, 3 * d, d, type);
        l->w[1] = mat_take(arena, d, d, type);
    }
}

static void carve(struct layer *l, struct arena *arena) {
    int n = l->rows, d = l->s.d, m = l->s.batch;
    /* elements of a block: a few hundred KiB, or what keeps a GPU busy */
    int block = min_int(n, max_int(1, (backend_device_memory(l->be) ? 1 << 22 : 1 << 15) / d));
    enum dtype type = l->s.type, wide = dtype_wide(type);
    if (l->s.kind == LAYER_RECURRENT) {
        l->xh = mat_take(arena, n + m, 2 * d, type);
        l->x = mat_cols(mat_rows(l->xh, 0, n), 0, d);
        l->y = mat_cols(mat_rows(l->xh, m, n), d, d);
        l->c = mat_take(arena, n, d, wide);
        l->gate = mat_take(arena, m, d, type);
        l->new = mat_take(arena, m, d, type);
        return;
    }
    l->padded = mat_take(arena, n + (LAYER_TAPS - 1) * stride(l) * m, d, type);
    l->x = mat_rows(l->padded, (int64_t)lead(l) * m, n);
    l->y = mat_take(arena, n, d, type);
    if (l->s.kind == LAYER_SEPARABLE) {
        l->z = mat_take(arena, n, d, type);
        l->kept = arena->used;
        l->taps = mat_take(arena, block, LAYER_TAPS * d, type);
        l->g = mat_take(arena, LAYER_TAPS * block, d, type);
        l->mixed = mat_take(arena, LAYER_TAPS * block, d, type);
        l->state = mat_take(arena, LAYER_TAPS * block, d, wide);
    } else if (l->s.kind == LAYER_CONV) {
        l->taps = mat_take(arena, n, LAYER_TAPS * d, type);
    } else {
        l->qkv = mat_take(arena, n, 3 * d, type);
        l->att = mat_take(arena, n, d, type);
        l->lse = mat_take(arena, heads(l), n, wide);
    }
}

/* In [-1, 1), quickly: there are many to draw. */
static double uniform(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (double)(int32_t)*state * 0x1p-31;
}

/* A view as pieces without gaps: its rows, or all of it. */
static int pieces(const struct mat *m, size_t *size) {
    int whole = m->ld == m->cols;
    *size = (size_t)m->cols * dtype_size(m->type) * (whole ? (size_t)m->rows : 1);
    return whole ? 1 : m->rows;
}

/* From the host, where rows lie without gaps. */
static void put_rows(struct layer *l, const struct mat *m, const void *host) {
    size_t size;
    for (int i = 0, n = pieces(m, &size); i < n; i++)
        backend_upload(l->be, mat_row(m, i), (const char *)host + (size_t)i * size, size);
    if (backend_device_memory(l->be)) backend_sync(l->be, NULL); /* before the host's copy goes */
}

/* Random numbers of mean 0 that keep the size of what they multiply. */
static void draw(struct layer *l, const struct mat *m, uint32_t *state) {
    int64_t count = (int64_t)m->rows * m->cols;
    void *host = xcalloc((size_t)count, dtype_size(m->type));
    double scale = sqrt(3.0 / m->cols);
    for (int64_t i = 0; i < count; i++) dtype_store(host, m->type, i, scale * uniform(state));
    put_rows(l, m, host);
    xfree(host);
}

/* The logits of the separable kernel, drawn here, for every row of a block: nothing is before the
 * first tap. */
static void fill_gates(struct layer *l, uint32_t *state) {
    int d = l->s.d, n = l->taps.rows;
    struct mat all = mat_of(l->g.data, n, LAYER_TAPS * d, l->s.type);
    size_t size = dtype_size(l->s.type);
    void *host = xcalloc((size_t)n * LAYER_TAPS * (size_t)d, size);
    for (int j = 0; j < LAYER_TAPS * d; j++) {
        double logit = j < d ? -100 : 2 * uniform(state);
        for (int i = 0; i < n; i++)
            dtype_store(host, l->s.type, (int64_t)i * LAYER_TAPS * d + j, logit);
    }
    put_rows(l, &all, host);
    put_rows(l, &l->w[1], (char *)host + (size_t)d * size);
    xfree(host);
}

/* Recurrent: row of token t of sequence b, [batch,n]; then lengths, t + 1 for each row. Others:
 * where sequences begin, which are three rows each where there are taps. */
static int fill_ints(struct layer *l, struct err *err) {
    int n = l->s.n, m = l->s.batch, taps = l->s.kind == LAYER_SEPARABLE;
    int steps = l->s.kind == LAYER_RECURRENT;
    int64_t count = steps ? 2 * (int64_t)l->rows : (taps ? l->taps.rows : m) + 1;
    int32_t *host = xcalloc((size_t)count, sizeof *host);
    for (int64_t i = 0; i < count; i++) {
        int64_t start = i * (taps ? LAYER_TAPS : n), row = i % n * m + i / n;
        host[i] = (int32_t)(!steps ? start : i < l->rows ? row : (i - l->rows) / m + 1);
    }
    l->ints = backend_alloc(l->be, (size_t)count * sizeof *host, err);
    if (l->ints) backend_upload(l->be, l->ints, host, (size_t)count * sizeof *host);
    int rc = l->ints ? backend_sync(l->be, err) : HEED_ENOMEM;
    xfree(host);
    return rc;
}

int layer_new(struct layer **layer, struct backend *be, const struct layer_shape *shape,
              struct err *err) {
    struct layer *l = *layer = xcalloc(1, sizeof *l);
    struct arena arena = {0};
    uint32_t state = 7;
    l->s = *shape;
    l->s.batch = max_int(1, shape->batch);
    l->rows = l->s.n * l->s.batch;
    l->be = be;
    BUG_ON(shape->n < 1 || shape->d < 32 || shape->d % 32 || shape->d % heads(l));
    for (int pass = 0; pass < 2; pass++) { /* how much, and where */
        carve_weights(l, &arena);
        l->weights = arena.used;
        carve(l, &arena);
        if (pass) break;
        l->bytes = arena.used;
        if (l->s.kind != LAYER_SEPARABLE) l->kept = l->bytes;
        l->block = backend_alloc(be, l->bytes, err);
        if (!l->block) {
            layer_free(l);
            *layer = NULL;
            return HEED_ENOMEM;
        }
        arena = (struct arena){.base = l->block, .cap = l->bytes};
    }
    backend_zero(be, l->block, l->bytes);
    for (int i = 0; i < MAX_WEIGHTS; i++)
        if (!mat_empty(&l->w[i])) draw(l, &l->w[i], &state);
    draw(l, &l->x, &state);
    if (l->s.kind == LAYER_SEPARABLE) fill_gates(l, &state);
    int rc = fill_ints(l, err);
    if (rc) layer_free(l), *layer = NULL;
    return rc;
}

void layer_free(struct layer *l) {
    if (!l) return;
    backend_free(l->be, l->block);
    backend_free(l->be, l->ints);
    xfree(l);
}

size_t layer_bytes(const struct layer *l) { return l->kept - l->weights; }

size_t layer_scratch(struct layer *l) {
    backend_plan(l->be);
    layer_run(l, LAYER_WHOLE);
    return l->bytes - l->kept + backend_dismiss(l->be);
}

/* ---- looking --------------------------------------------------------------------------------- */

int layer_sequential(struct layer *l) {
    l->depth = xcalloc(l->bytes / GRANULE + 1, sizeof *l->depth);
    l->deepest = 0;
    layer_run(l, LAYER_WHOLE);
    xfree(l->depth);
    l->depth = NULL;
    return l->deepest;
}

struct mat layer_x(const struct layer *l) {
    return l->x;
}
struct mat layer_y(const struct layer *l) {
    return l->y;
}
struct mat layer_weight(const struct layer *l, int i) {
    return l->w[i];
}

int layer_read(struct layer *l, const struct mat *view, void *out, struct err *err) {
    size_t size;
    for (int i = 0, n = pieces(view, &size); i < n; i++)
        backend_download(l->be, (char *)out + (size_t)i * size, mat_row(view, i), size);
    return backend_sync(l->be, err);
}

/* ---- paths ----------------------------------------------------------------------------------- */

/* Rows of y, before and after one row was changed. */
struct poke {
    struct layer *l;
    size_t row; /* bytes */
    char *before, *after, *one;
};

static void change(struct poke *p, const struct mat *m, int i) {
    struct mat row = mat_rows(*m, i, 1);
    backend_download(p->l->be, p->one, row.data, p->row);
    backend_sync(p->l->be, NULL);
    for (int j = 0; j < m->cols; j++)
        dtype_store(p->one, m->type, j, dtype_load(p->one, m->type, j) + 1);
    backend_upload(p->l->be, row.data, p->one, (size_t)m->cols * dtype_size(m->type));
    backend_sync(p->l->be, NULL);
}

/* Marks the positions that have the signal of position j one hop later. The first hop of a
 * recurrence brings x_j into the state, the others hand the state on. */
static int hop(struct poke *p, int j, int first, unsigned char *reached, struct err *err) {
    struct layer *l = p->l;
    int steps = l->s.kind == LAYER_RECURRENT, n = l->s.n;
    layer_run(l, LAYER_WHOLE);
    int rc = layer_read(l, &l->y, p->before, err);
    if (rc) return rc;
    if (!steps || first) change(p, &l->x, j);
    if (!steps) {
        layer_run(l, LAYER_WHOLE);
    } else if (first) {
        recurrent_step(l, j);
    } else {
        change(p, &l->y, j);
        if (j + 1 < n) recurrent_step(l, j + 1);
    }
    rc = layer_read(l, &l->y, p->after, err);
    for (int i = 0; i < n; i++)
        if ((!steps || first || i != j) &&
            memcmp(p->before + (size_t)i * p->row, p->after + (size_t)i * p->row, p->row) != 0)
            reached[i] = 1;
    return rc;
}

/* One hop on from every position that was reached. */
static int hops(struct backend *be, const struct layer_shape *shape, int first,
                unsigned char *reached, struct err *err) {
    int n = shape->n;
    struct poke p = {.row = (size_t)shape->d * dtype_size(shape->type)};
    int rc = layer_new(&p.l, be, shape, err);
    if (rc) return rc;
    p.before = xcalloc((size_t)n, p.row);
    p.after = xcalloc((size_t)n, p.row);
    p.one = xcalloc((size_t)shape->d, sizeof(double));
    unsigned char *next = xcalloc((size_t)n, 1);
    for (int j = 0; j < n && !rc; j++)
        if (reached[j]) rc = hop(&p, j, first, next, err);
    memcpy(reached, next, (size_t)n);
    xfree(next);
    xfree(p.before);
    xfree(p.after);
    xfree(p.one);
    layer_free(p.l);
    return rc;
}

int layer_path(int *length, struct backend *be, const struct layer_shape *shape, int dilated,
               struct err *err) {
    struct layer_shape s = *shape;
    unsigned char *reached = xcalloc((size_t)s.n, 1);
    int rc = 0;
    reached[0] = 1;
    if (dilated) s.dilation = 1;
    for (*length = 0; !rc && (!*length || !reached[s.n - 1]) && *length <= s.n; ++*length) {
        rc = hops(be, &s, *length == 0, reached, err);
        s.dilation *= LAYER_TAPS;
    }
    if (!rc && !reached[s.n - 1])
        rc = err_set(err, HEED_EINVAL, "%s: no signal from position 1 to %d in %d layers",
                     layer_facts[s.kind].name, s.n, *length);
    xfree(reached);
    return rc;
}
