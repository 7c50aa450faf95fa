/* layer.c — see layer.h. */
#include "bench/layer.h"

#include <limits.h>
#include <math.h>
#include <string.h>

#include "backend/ops.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
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
    void *block;           /* weights, then activations */
    int32_t *ints;         /* tables that ops read: see fill_ints */
    size_t weights, bytes; /* of the weights; of the block */
    struct mat w[MAX_WEIGHTS];
    struct mat x;         /* [n,d], and zeros around it that a kernel may reach */
    struct mat y;         /* [n,d]; recurrent: [1 + n, d], the first row zero */
    struct mat qkv, att;  /* [n,3d], [n,d] */
    struct mat lse;       /* [heads, n] */
    struct mat wx, c;     /* recurrent: [n,2d], [n,d] */
    struct mat gate, new; /* [1,d] */
    struct mat taps;      /* [n, 3d] */
    struct mat mixed, g;  /* separable: o [3n,d], logits [3n,d]; its c is `state` [3n,d] */
    struct mat state;
    int *depth; /* of every GRANULE of the block, while ops are counted and not run */
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
    int n = l->s.n, d = l->s.d;
    struct mat x = mat_rows(l->x, 0, n);
    struct rows rows = {l->ints, 1, n, n};
    struct attention_args a = {.o = l->att,
                               .q = mat_cols(l->qkv, 0, d),
                               .k = mat_cols(l->qkv, d, d),
                               .v = mat_cols(l->qkv, 2 * d, d),
                               .lse = l->lse,
                               .rq = rows,
                               .rk = rows,
                               .n_head = heads(l),
                               .window = l->s.kind == LAYER_RESTRICTED ? l->s.r : 0,
                               .scale = 1 / sqrtf((float)(d / heads(l)))};
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->qkv, .x = x, .w = l->w[0]});
    if (part != 1 && !counted(l, LIST(&a.q, &a.k, &a.v), LIST(&a.o, &a.lse)))
        attention_fwd(l->be, &a);
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->y, .x = l->att, .w = l->w[1]});
}

/* The input's part of all steps. */
static void recurrent_begin(struct layer *l) {
    op_linear(l, &(struct linear_args){.y = l->wx, .x = mat_rows(l->x, 0, l->s.n), .w = l->w[0]});
}

static void recurrent_step(struct layer *l, int t) {
    int d = l->s.d;
    struct mat h = mat_rows(l->y, t, 1), wx = mat_rows(l->wx, t, 1);
    struct ssru_step_args a = {.o = mat_rows(l->y, t + 1, 1),
                               .g = l->gate,
                               .x = l->new,
                               .c = l->c,
                               .index = l->ints,
                               .len = l->ints + l->s.n + t,
                               .index_ld = l->s.n};
    struct mat before = mat_rows(l->c, max_int(t - 1, 0), t > 0), state = mat_rows(l->c, t, 1);
    op_linear(l, &(struct linear_args){
                     .y = l->gate, .x = h, .w = mat_rows(l->w[1], 0, d), .b = mat_cols(wx, 0, d)});
    op_linear(l, &(struct linear_args){.y = l->new,
                                       .x = h,
                                       .w = mat_rows(l->w[1], d, d),
                                       .b = mat_cols(wx, d, d),
                                       .act = ACT_RELU});
    if (!counted(l, LIST(&a.g, &a.x, &before), LIST(&a.o, &state))) ssru_step(l->be, &a);
}

static void run_recurrent(struct layer *l) {
    recurrent_begin(l);
    for (int t = 0; t < l->s.n; t++) recurrent_step(l, t);
}

/* The rows that a kernel covers, side by side. */
static void gather(struct layer *l) {
    for (int t = 0; t < LAYER_TAPS; t++) {
        struct mat to = mat_cols(l->taps, t * l->s.d, l->s.d);
        struct mat from = mat_rows(l->x, (int64_t)t * stride(l), l->s.n);
        op_copy(l, &to, &from);
    }
}

static void run_separable(struct layer *l, int part) {
    int n = l->s.n, d = l->s.d;
    struct ssru_args a = {.o = l->mixed,
                          .g = l->g,
                          .x = mat_of(l->taps.data, LAYER_TAPS * n, d, l->s.type),
                          .c = l->state,
                          .rows = {l->ints, n, LAYER_TAPS * n, LAYER_TAPS}};
    if (part != 1) {
        gather(l);
        if (!counted(l, LIST(&a.x), LIST(&a.o, &a.c))) ssru_fwd(l->be, &a);
    }
    struct mat z = mat_cols(mat_of(l->mixed.data, n, LAYER_TAPS * d, l->s.type), 2 * d, d);
    if (part != 0) op_linear(l, &(struct linear_args){.y = l->y, .x = z, .w = l->w[0]});
}

void layer_run(struct layer *l, int part) {
    switch (l->s.kind) {
    case LAYER_ATTENTION:
    case LAYER_RESTRICTED:
        run_attention(l, part);
        break;
    case LAYER_RECURRENT:
        run_recurrent(l);
        break;
    case LAYER_SEPARABLE:
        run_separable(l, part);
        break;
    default:
        gather(l);
        op_linear(l, &(struct linear_args){.y = l->y, .x = l->taps, .w = l->w[0]});
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void carve_weights(struct layer *l, struct arena *arena) {
    int d = l->s.d;
    enum dtype type = l->s.type;
    switch (l->s.kind) {
    case LAYER_RECURRENT:
        l->w[0] = mat_take(arena, 2 * d, d, type);
        l->w[1] = mat_take(arena, 2 * d, d, type);
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
    int n = l->s.n, d = l->s.d;
    enum dtype type = l->s.type, wide = dtype_wide(type);
    l->x = mat_take(arena, n + (LAYER_TAPS - 1) * stride(l), d, type);
    l->y = mat_take(arena, n + (l->s.kind == LAYER_RECURRENT), d, type);
    switch (l->s.kind) {
    case LAYER_RECURRENT:
        l->wx = mat_take(arena, n, 2 * d, type);
        l->c = mat_take(arena, n, d, wide);
        l->gate = mat_take(arena, 1, d, type);
        l->new = mat_take(arena, 1, d, type);
        break;
    case LAYER_SEPARABLE:
        l->mixed = mat_take(arena, LAYER_TAPS * n, d, type);
        l->g = mat_take(arena, LAYER_TAPS * n, d, type);
        l->state = mat_take(arena, LAYER_TAPS * n, d, wide);
        l->taps = mat_take(arena, n, LAYER_TAPS * d, type);
        break;
    case LAYER_CONV:
        l->taps = mat_take(arena, n, LAYER_TAPS * d, type);
        break;
    default:
        l->qkv = mat_take(arena, n, 3 * d, type);
        l->att = mat_take(arena, n, d, type);
        l->lse = mat_take(arena, heads(l), n, wide);
    }
}

/* Random numbers of mean 0 that keep the size of what they multiply. */
static void draw(struct layer *l, const struct mat *m, struct rng *rng) {
    int64_t count = (int64_t)m->rows * m->cols;
    size_t size = (size_t)count * dtype_size(m->type);
    void *host = xcalloc(1, size);
    double scale = 2 * sqrt(3.0 / m->cols);
    for (int64_t i = 0; i < count; i++)
        dtype_store(host, m->type, i, scale * (rng_uniform(rng) - 0.5));
    backend_upload(l->be, m->data, host, size);
    if (backend_device_memory(l->be)) backend_sync(l->be, NULL); /* before the host's copy goes */
    xfree(host);
}

/* The logits of the separable kernel for every row: nothing is before the first tap. */
static void fill_gates(struct layer *l) {
    struct mat all = mat_of(l->g.data, l->s.n, LAYER_TAPS * l->s.d, l->s.type);
    int d = l->s.d;
    void *host = xcalloc((size_t)d, dtype_size(l->s.type));
    for (int j = 0; j < d; j++) dtype_store(host, l->s.type, j, -100);
    for (int i = 0; i < l->s.n; i++) {
        backend_upload(l->be, mat_row(&all, i), host, (size_t)d * dtype_size(l->s.type));
        for (int t = 1; t < LAYER_TAPS; t++) {
            struct mat to = mat_cols(mat_rows(all, i, 1), t * d, d);
            struct mat from = mat_rows(l->w[1], t - 1, 1);
            backend_cast(l->be, &to, &from);
        }
    }
    backend_sync(l->be, NULL);
    xfree(host);
}

/* Recurrent: index of every token, then lengths 1 ... n. Others: where sequences begin. */
static int fill_ints(struct layer *l, struct err *err) {
    int n = l->s.n, steps = l->s.kind == LAYER_RECURRENT, triples = l->s.kind == LAYER_SEPARABLE;
    size_t count = steps ? 2 * (size_t)n : triples ? (size_t)n + 1 : 2;
    int32_t *host = xcalloc(count, sizeof *host);
    for (size_t i = 0; i < count; i++)
        host[i] = steps     ? (int32_t)(i < (size_t)n ? i : i - (size_t)n + 1)
                  : triples ? LAYER_TAPS * (int32_t)i
                            : n * (int32_t)i;
    l->ints = backend_alloc(l->be, count * sizeof *host, err);
    if (l->ints) backend_upload(l->be, l->ints, host, count * sizeof *host);
    int rc = l->ints ? backend_sync(l->be, err) : HEED_ENOMEM;
    xfree(host);
    return rc;
}

int layer_new(struct layer **layer, struct backend *be, const struct layer_shape *shape,
              struct err *err) {
    struct layer *l = *layer = xcalloc(1, sizeof *l);
    struct arena arena = {0};
    struct rng rng = {.key = 1};
    l->s = *shape;
    l->be = be;
    BUG_ON(shape->n < 1 || shape->d < 32 || shape->d % 32 || shape->d % heads(l));
    for (int pass = 0; pass < 2; pass++) { /* how much, and where */
        carve_weights(l, &arena);
        l->weights = arena.used;
        carve(l, &arena);
        if (pass) break;
        l->bytes = arena.used;
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
        if (!mat_empty(&l->w[i])) draw(l, &l->w[i], &rng);
    struct mat x = layer_x(l);
    draw(l, &x, &rng);
    if (l->s.kind == LAYER_SEPARABLE) fill_gates(l);
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

size_t layer_bytes(const struct layer *l) { return l->bytes - l->weights; }

size_t layer_scratch(struct layer *l) {
    backend_plan(l->be);
    layer_run(l, LAYER_WHOLE);
    return backend_dismiss(l->be);
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
    return mat_rows(l->x, lead(l), l->s.n);
}
struct mat layer_y(const struct layer *l) {
    return mat_rows(l->y, l->s.kind == LAYER_RECURRENT, l->s.n);
}
struct mat layer_weight(const struct layer *l, int i) {
    return l->w[i];
}

int layer_read(struct layer *l, const struct mat *view, void *out, struct err *err) {
    backend_download(l->be, out, view->data,
                     (size_t)view->rows * (size_t)view->cols * dtype_size(view->type));
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
    struct mat x = layer_x(l), y = layer_y(l);
    int steps = l->s.kind == LAYER_RECURRENT, n = l->s.n;
    layer_run(l, LAYER_WHOLE);
    int rc = layer_read(l, &y, p->before, err);
    if (rc) return rc;
    if (!steps || first) change(p, &x, j);
    if (!steps) {
        layer_run(l, LAYER_WHOLE);
    } else if (first) {
        recurrent_begin(l);
        recurrent_step(l, j);
    } else {
        change(p, &y, j);
        if (j + 1 < n) recurrent_step(l, j + 1);
    }
    rc = layer_read(l, &y, p->after, err);
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
