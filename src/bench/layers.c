/* layers.c — the paper's Table 1, measured: what does a layer cost against the length n of a
 * sequence, the width d and the reach r?
 *
 * One layer of each kind (layer.h), forward: time, sequential operations, memory, and how far a
 * signal has to go. Exponents are fitted to the times of each part (fit.h) from where they are
 * FIXED times that of the smallest size on: below, most of the time is what calling an op costs,
 * about which O() says nothing (against r, FIXED_REACH times: kernels compute whole blocks of
 * keys). Counts and lengths have no fixed cost, so that all points count.
 *
 * With one thread on the cpu device times are the processor's, so that other programs do not make
 * them longer; else they are the clock's. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/fit.h"
#include "bench/layer.h"
#include "cli/options.h"
#include "io/json.h"

enum {
    MAX_POINTS = 24,
    FIXED = 10,
    FIXED_REACH = 4,
    FAR = 8,
    PATH_FROM = 8,
    PATH_TO = 64,
    PATH_REACH = 4,
    TURNS = 3
};

enum against { AGAINST_N, AGAINST_D, AGAINST_R, AGAINST_COUNT };
static const char *const variable[AGAINST_COUNT] = {"n", "d", "r"};

struct point {
    int n, d, batch, r, sequential;
    double seconds, part[LAYER_MAX_PARTS];
    double bytes, scratch; /* of activations; of ops */
};

/* A layer at several sizes, one of n, d and r growing. */
struct series {
    enum layer_kind kind;
    enum against against;
    struct point point[MAX_POINTS];
    int n, cut; /* cut: the next size would have taken too long */
    int parts;  /* that are timed; where it is one, it is timed alone */
};

/* Longest paths at several lengths of sequences. */
struct path {
    const char *layer, *order, *against;
    double x[MAX_POINTS], length[MAX_POINTS]; /* x: log_k n where layers are dilated, else n */
    int n, theory;
};

struct bench {
    const struct bench_layers_options *o;
    struct backend *be;
    enum dtype type;
    double share;  /* seconds of a series */
    int processor; /* times are the processor's */
    struct path path[LAYER_KINDS + 1];
    int n_path;
    json_t *series, *paths, *fits;
};

/* ---- one point ------------------------------------------------------------------------------- */

static double now(const struct bench *b) {
    return b->processor ? clock_cpu_seconds() : clock_seconds();
}

/* The shortest of some turns of at least a millisecond each. */
static int time_part(struct bench *b, struct layer *l, int part, double *best, struct err *err) {
    int times = 1, rc = 0;
    *best = INFINITY;
    const double begin = now(b), end = begin + fmin(0.1, b->o->seconds / 1000);
    for (int turn = 0; !rc && (turn < TURNS || now(b) < end); turn++) {
        const double start = now(b);
        for (int i = 0; i < times; i++) layer_run(l, part);
        rc = backend_sync(b->be, err);
        const double took = (now(b) - start) / times;
        *best = fmin(*best, took);
        if (took * times < 1e-3) times = (int)(1e-3 / took) + 1, turn--;
        if (now(b) - begin > b->share / 4) break;
    }
    return rc;
}

static int measure(struct bench *b, const struct series *s, struct point *p, struct err *err) {
    struct layer_shape shape = {s->kind, p->n, p->d, p->batch, p->r, 0, b->type};
    struct layer *l;
    int rc = layer_new(&l, b->be, &shape, err);
    if (rc) return rc;
    layer_run(l, LAYER_WHOLE); /* memory, caches, threads */
    rc = backend_sync(b->be, err);
    for (int i = 0; i < s->parts && !rc; i++) rc = time_part(b, l, i, &p->part[i], err);
    p->seconds = p->part[0];
    if (s->parts > 1 && !rc) rc = time_part(b, l, LAYER_WHOLE, &p->seconds, err);
    p->bytes = (double)layer_bytes(l);
    p->scratch = (double)layer_scratch(l);
    p->sequential = layer_sequential(l);
    layer_free(l);
    return rc;
}

/* ---- a series -------------------------------------------------------------------------------- */

static int size_of(const struct point *p, enum against against) {
    return against == AGAINST_N ? p->n : against == AGAINST_D ? p->d : p->r;
}

/* n doubles; widths and reaches double up to 128, then 3/2 of the powers come between them. */
static int next_size(enum against against, int size) {
    if (against == AGAINST_N || size < 128) return 2 * size;
    return size & (size - 1) ? size / 3 * 4 : size / 2 * 3;
}

/* A recurrence reads the tokens of the others as several sequences: products of one row are bound
 * by memory, and so their time tells where caches end, not how many operations there are. */
static struct point first_point(const struct bench *b, const struct series *s) {
    const struct bench_layers_options *o = b->o;
    enum against against = s->against;
    struct point p = {.n = o->n_max, .d = o->d, .batch = 1, .r = o->window};
    if (against == AGAINST_N) p.n = 16;
    if (against == AGAINST_D) p.n = o->n, p.d = 32;
    if (against == AGAINST_D && s->kind == LAYER_RECURRENT) p.batch = o->batch, p.n /= o->batch;
    if (against == AGAINST_R) p.r = 16;
    return p;
}

static int last_size(const struct bench *b, enum against against) {
    const struct bench_layers_options *o = b->o;
    return against == AGAINST_N ? o->n_max : against == AGAINST_D ? o->d_max : o->n_max / 8;
}

/* What the next, larger size may take: costs grow no faster than with the square of a size. */
static double expected(const struct series *s, int size) {
    const struct point *last = &s->point[s->n - 1];
    double ratio = (double)size / size_of(last, s->against);
    return (s->parts > 1 ? 2 : 1) * TURNS * last->seconds * ratio * ratio;
}

static void print_point(const struct series *s, const struct point *p) {
    printf("%8d %12.4f", size_of(p, s->against), 1e3 * p->seconds);
    for (int i = 0; i < s->parts && s->parts > 1; i++) printf(" %14.4f", 1e3 * p->part[i]);
    printf(" %11d %11.3f %11.3f\n", p->sequential, p->bytes / (1 << 20), p->scratch / (1 << 20));
    fflush(stdout);
}

static void print_head(const struct series *s, const struct point *p) {
    const struct layer_facts *f = &layer_facts[s->kind];
    printf("\n%s, O(%s)", f->name, f->order);
    if (s->against != AGAINST_N) printf(", n = %d", p->n);
    if (p->batch > 1) printf(", %d sequences", p->batch);
    if (s->against != AGAINST_D) printf(", d = %d", p->d);
    if (s->kind == LAYER_RESTRICTED && s->against != AGAINST_R) printf(", r = %d", p->r);
    if (s->parts < f->n_part) printf(", %s alone", f->part[0].name);
    printf("\n%8s %12s", variable[s->against], "ms");
    for (int i = 0; i < s->parts && s->parts > 1; i++) printf(" %14s", f->part[i].name);
    printf(" %11s %11s %11s\n", "sequential", "MiB", "scratch");
}

static int run_series(struct bench *b, struct series *s, struct err *err) {
    struct point p = first_point(b, s);
    const double begin = now(b);
    int last = last_size(b, s->against), rc = 0;
    print_head(s, &p);
    for (int size = size_of(&p, s->against); size <= last && s->n < MAX_POINTS;
         size = next_size(s->against, size)) {
        *(s->against == AGAINST_N ? &p.n : s->against == AGAINST_D ? &p.d : &p.r) = size;
        if (s->n && now(b) - begin + expected(s, size) > b->share) {
            printf("%8d and more: beyond --seconds\n", size);
            s->cut = 1;
            break;
        }
        if ((rc = measure(b, s, &p, err))) break;
        s->point[s->n++] = p;
        print_point(s, &p);
    }
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

static json_t *series_json(const struct series *s) {
    json_t *points = json_array();
    for (int i = 0; i < s->n; i++) {
        const struct point *p = &s->point[i];
        json_t *parts = json_object();
        for (int k = 0; k < s->parts; k++)
            json_object_set_new(parts, layer_facts[s->kind].part[k].name,
                                json_out_real(p->part[k]));
        json_array_append_new(
            points,
            json_pack("{si si si si sf so si sf sf}", "n", p->n, "d", p->d, "batch", p->batch, "r",
                      s->kind == LAYER_RESTRICTED ? p->r : 0, "seconds", p->seconds, "parts", parts,
                      "sequential", p->sequential, "bytes", p->bytes, "scratch", p->scratch));
    }
    return json_pack("{ss ss ss so sb}", "layer", layer_facts[s->kind].name, "order",
                     layer_facts[s->kind].order, "against", variable[s->against], "points", points,
                     "cut", s->cut);
}

/* One line of the last table. `from`: the first point that counts. */
struct exponent {
    const char *layer, *what, *order, *against;
    int theory;
    const double *x, *y;
    int n, from;
};

static void add_exponent(struct bench *b, const struct exponent *e) {
    struct fit fit = fit_power(e->x + e->from, e->y + e->from, e->n - e->from);
    json_t *line = json_pack("{ss ss ss ss si}", "layer", e->layer, "what", e->what, "order",
                             e->order, "against", e->against, "theory", e->theory);
    printf("%-15s %-12s O(%s)%*s %-8s", e->layer, e->what, e->order,
           10 - (int)strlen(e->order) + (strstr(e->order, "²") != NULL), "", e->against);
    if (fit.n) {
        printf(" %9.2f %7d %8g ... %-7g\n", fit.exponent, e->theory, e->x[e->from], e->x[e->n - 1]);
        json_object_set_new(line, "exponent", json_out_real(fit.exponent));
        json_object_set_new(line, "factor", json_out_real(fit.factor));
        json_object_set_new(line, "from", json_out_real(e->x[e->from]));
        json_object_set_new(line, "to", json_out_real(e->x[e->n - 1]));
    } else {
        printf(" %9s %7d   mostly fixed cost up to %g\n", "-", e->theory, e->x[e->n - 1]);
    }
    json_array_append_new(b->fits, line);
}

static void fit_series(struct bench *b, const struct series *s) {
    BUG_ON(s->n < 1);
    const struct layer_facts *f = &layer_facts[s->kind];
    double x[MAX_POINTS] = {0}, y[MAX_POINTS] = {0};
    struct exponent e = {.layer = f->name, .against = variable[s->against], .x = x, .y = y};
    e.n = s->n;
    for (int i = 0; i < s->n; i++) x[i] = size_of(&s->point[i], s->against);
    for (int k = 0; k < s->parts; k++) {
        const struct layer_part *part = &f->part[k];
        for (int i = 0; i < s->n; i++) y[i] = s->point[i].part[k];
        e.what = part->name, e.order = part->order;
        e.theory = s->against == AGAINST_N ? part->n : s->against == AGAINST_D ? part->d : part->r;
        e.from = fit_begin(y, s->n, s->against == AGAINST_R ? FIXED_REACH : FIXED);
        while (part->r && s->against == AGAINST_N && e.from < s->n &&
               x[e.from] < FAR * s->point[0].r)
            e.from++; /* shorter ones see all of themselves, or most */
        add_exponent(b, &e);
    }
    if (s->against == AGAINST_R) return;
    for (int i = 0; i < s->n; i++) y[i] = s->point[i].bytes;
    e.what = "memory", e.order = "n d", e.theory = 1, e.from = 0;
    add_exponent(b, &e);
    if (s->against != AGAINST_N) return;
    for (int i = 0; i < s->n; i++) y[i] = s->point[i].sequential;
    e.what = "sequential", e.order = f->sequential, e.theory = f->sequential_n, e.from = 0;
    add_exponent(b, &e);
}

/* ---- paths ----------------------------------------------------------------------------------- */

static int run_path(struct bench *b, enum layer_kind kind, int dilated, struct err *err) {
    const struct layer_facts *f = &layer_facts[kind];
    struct path *p = &b->path[b->n_path++];
    json_t *lengths = json_array();
    int rc = 0;
    *p = (struct path){f->name, f->path, "n", .theory = f->path_n};
    if (dilated) *p = (struct path){"dilated", "log_k n", "log_k n", .theory = 1};
    printf("%-15s", p->layer);
    for (int n = PATH_FROM; n <= PATH_TO && !rc; n *= 2) {
        struct layer_shape shape = {kind, n, 32, 1, PATH_REACH, 0, b->type};
        int length = 0;
        rc = layer_path(&length, b->be, &shape, dilated, err);
        p->x[p->n] = dilated ? log(n) / log(LAYER_TAPS) : n;
        p->length[p->n++] = length;
        printf(" %7d", length);
        json_array_append_new(lengths, json_pack("{si si}", "n", n, "length", length));
    }
    printf("   O(%s)\n", p->order);
    json_array_append_new(b->paths, json_pack("{ss ss so}", "layer", p->layer, "order", p->order,
                                              "lengths", lengths));
    return rc;
}

static int run_paths(struct bench *b, struct err *err) {
    int rc = 0;
    printf("\nlongest path between two positions, r = %d\n%-15s", PATH_REACH, "n");
    for (int n = PATH_FROM; n <= PATH_TO; n *= 2) printf(" %7d", n);
    printf("\n");
    for (int kind = 0; kind < LAYER_KINDS && !rc; kind++) {
        rc = run_path(b, (enum layer_kind)kind, 0, err);
        if (!rc && kind == LAYER_CONV) rc = run_path(b, (enum layer_kind)kind, 1, err);
    }
    return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

static int run_all(struct bench *b, struct err *err) {
    enum { N_SERIES = 2 * LAYER_KINDS + 1 };
    struct series *s = xcalloc(N_SERIES, sizeof *s);
    int rc = 0;
    const double end = now(b) + b->o->seconds;
    /* from the last to the first: what one leaves of its time goes to those after it, and attention
     * over the longest sequences can use most */
    for (int i = N_SERIES - 1; i >= 0 && !rc; i--) {
        s[i].kind = i == N_SERIES - 1 ? LAYER_RESTRICTED : (enum layer_kind)(i % LAYER_KINDS);
        s[i].against = (enum against)(i / LAYER_KINDS);
        s[i].parts = s[i].against == AGAINST_R ? 1 : layer_facts[s[i].kind].n_part;
        b->share = (end - now(b)) / (i + 1);
        rc = run_series(b, &s[i], err);
    }
    for (int i = 0; i < N_SERIES; i++) json_array_append_new(b->series, series_json(&s[i]));
    if (!rc) rc = run_paths(b, err);
    if (!rc)
        printf("\n%-15s %-12s %-13s %-8s %9s %7s   %s\n", "layer", "what", "order", "against",
               "exponent", "theory", "fitted over");
    for (int i = 0; i < N_SERIES && !rc; i++) fit_series(b, &s[i]);
    for (int i = 0; i < b->n_path && !rc; i++) {
        const struct path *p = &b->path[i];
        add_exponent(b, &(struct exponent){p->layer, "path", p->order, p->against, p->theory, p->x,
                                           p->length, p->n, 0});
    }
    xfree(s);
    return rc;
}

int bench_layers_run(const struct bench_layers_options *o, struct err *err) {
    struct bench b = {.o = o, .series = json_array(), .paths = json_array(), .fits = json_array()};
    int rc = backend_open(&b.be, &o->where, err);
    if (!rc) {
        b.type = options_dtype(o->dtype, b.be);
        b.processor = strcmp(backend_name(b.be), "cpu") == 0 && o->where.n_thread == 1;
        printf("one layer, forward, %s on %s; times are the %s\n", dtype_name(b.type),
               backend_name(b.be), b.processor ? "processor's" : "clock's");
        rc = run_all(&b, err);
    }
    if (!rc && o->json) {
        json_t *all =
            json_pack("{ss ss ss ss si si sO sO sO}", "bench", "layers", "device",
                      backend_name(b.be), "dtype", dtype_name(b.type), "clock",
                      b.processor ? "processor" : "wall", "kernel", LAYER_TAPS, "path_reach",
                      PATH_REACH, "series", b.series, "paths", b.paths, "fits", b.fits);
        rc = json_out_file(o->json, all, err);
        json_decref(all);
    }
    json_decref(b.series);
    json_decref(b.paths);
    json_decref(b.fits);
    backend_close(b.be);
    return rc;
}
