/* translate.c — how fast does a model translate, and how far is that from what the machine
 * could do?
 *
 * Sentences are given as ids (--input, a line each) or drawn at random, and go through the searcher
 * in batches, as `heed translate` sends them: no text on either side, so that another engine can be
 * given exactly the same work. Lengths can be forced, which makes the work equal whatever the
 * weights say.
 *
 * The floor is the time below which no program with the same weights can go on this machine: every
 * step reads all decoder weights once (bytes over the measured reading rate) and multiplies every
 * live row by them (operations over the rate of the largest product, measured in the same run); the
 * larger of the two counts, for the encoder and the steps apart. What stands above the floor is
 * attention, norms, search and overhead. A GPU reads as many bytes again and again for it, so that
 * its caches count, too. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "backend/profile.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "data/text.h"
#include "search/engine.h"

enum { UNK = 0, BOS = 1, EOS = 2, FIRST_WORD = 3, MAX_LINE_IDS = 1 << 16 };

struct bench {
    const struct bench_translate_options *o;
    struct engine *engine; /* of a directory; or, with random weights, the two below */
    struct frozen *frozen;
    struct backend *be;
    struct model *model;
    enum precision precision;
    size_t bytes; /* of weights */
    struct searcher *searcher;
    struct search_input *in; /* [n], longest first */
    int32_t **ids;           /* [n] what they point at */
    int n;
    double *took; /* [calls] seconds */
    int calls;
    double device, opened,
        first; /* seconds to an open device, to an open model, and to the end of the first batch */
    double drawing; /* seconds that drawing random weights took before that */
    double seconds;
    double base_mb, peak_mb, own_mb; /* base: before the model is opened */
    int64_t tokens, src_tokens;
};

/* ---- sentences ------------------------------------------------------------------------------- */

static void add_sentence(struct bench *s, const int32_t *ids, int n) {
    if ((s->n & (s->n - 1)) == 0) { /* full at every power of two */
        size_t room = s->n ? 2 * (size_t)s->n : 1;
        s->in = xrealloc(s->in, room * sizeof *s->in);
        s->ids = xrealloc(s->ids, room * sizeof *s->ids);
    }
    int32_t *copy = s->ids[s->n] = xcalloc((size_t)n, sizeof *copy);
    memcpy(copy, ids, (size_t)n * sizeof *copy);
    s->in[s->n] = (struct search_input){.src = copy, .n_src = n, .key = (uint64_t)s->n};
    s->n++;
}

static void draw_sentences(struct bench *s) {
    int n = s->o->length, n_vocab = s->model->config.n_vocab_src;
    int32_t *ids = xcalloc((size_t)n, sizeof *ids);
    struct rng rng = {.key = 7};
    for (int i = 0; i < s->o->sentences; i++) {
        for (int j = 0; j < n - 1; j++)
            ids[j] = FIRST_WORD + (int32_t)rng_below(&rng, (uint32_t)(n_vocab - FIRST_WORD));
        ids[n - 1] = EOS;
        add_sentence(s, ids, n);
    }
    xfree(ids);
}

static int parse_ids(int32_t *ids, const struct line *line, int n_vocab, uint64_t number,
                     struct err *err) {
    int n = 0;
    const char *at = line->text;
    for (;;) {
        at += strspn(at, " \t");
        if (!*at) return n;
        char *end;
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id >= n_vocab || n == MAX_LINE_IDS)
            return err_set(
                err, HEED_EFORMAT,
                "--input: line %llu: '%.20s' is not an id below %d, or there are too many",
                (unsigned long long)number, at, n_vocab);
        ids[n++] = (int32_t)id;
        at = end;
    }
}

static int read_sentences(struct bench *s, struct err *err) {
    struct text *text;
    struct line line;
    int rc = text_open(&text, s->o->input, err);
    if (rc) return rc;
    int32_t *ids = xcalloc(MAX_LINE_IDS, sizeof *ids);
    while (s->n < s->o->sentences && (rc = text_next(text, &line, err)) > 0) {
        int n = parse_ids(ids, &line, s->model->config.n_vocab_src, text_counts(text).lines, err);
        if (n < 0) rc = n;
        if (n < 0) break;
        if (n > 0) add_sentence(s, ids, n);
    }
    xfree(ids);
    text_close(text);
    if (rc < 0) return rc;
    if (s->n == 0) return err_set(err, HEED_EFORMAT, "%.180s: no sentences", s->o->input);
    return 0;
}

static int longer_first(const void *a, const void *b) {
    const struct search_input *x = a, *y = b;
    return x->n_src != y->n_src ? y->n_src - x->n_src : (x->key > y->key) - (x->key < y->key);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

/* Random weights, drawn where they will run. Drawing takes seconds that are no part of opening a
 * model, so they are not counted. */
static int draw_model(struct bench *s, struct err *err) {
    double begin = clock_seconds();
    struct model *drawn = NULL;
    int tiles = backend_wants_tiles(s->be);
    if (s->precision == PRECISION_AUTO) s->precision = PRECISION_F32;
    enum dtype type = tiles || s->precision == PRECISION_F32 ? DTYPE_F32 : DTYPE_BF16;
    int rc = model_new(&drawn, &s->o->config, s->be, type, err);
    if (!rc) rc = model_draw(drawn, 1, err);
    if (!rc && tiles) {
        rc = frozen_from_model(&s->frozen, drawn, s->precision, s->o->where.n_thread, err);
        model_free(drawn);
        if (!rc) rc = frozen_model(&s->model, s->frozen, s->be, err);
        if (!rc) s->bytes = frozen_bytes(s->frozen);
    } else {
        s->model = drawn;
    }
    s->drawing = clock_seconds() - begin;
    return rc;
}

static int open_model(struct bench *s, struct err *err) {
    const struct bench_translate_options *o = s->o;
    struct engine_options from = {
        .dir = &o->model, .n = 1, .precision = o->precision, .where = o->where, .ids_only = 1};
    double begin = clock_seconds();
    int rc;
    s->precision = o->precision;
    if (o->model) {
        if ((rc = engine_open(&s->engine, &from, err))) return rc;
        const struct frozen *frozen = s->engine->ensemble->model[0];
        s->be = s->engine->be;
        s->model = s->engine->model[0];
        s->precision = frozen_precision(frozen);
        s->bytes = frozen_bytes(frozen);
        s->device = s->engine->device_seconds;
    } else {
        rc = backend_open(&s->be, &from.where, err);
        s->device = clock_seconds() - begin;
        if (!rc) rc = draw_model(s, err);
    }
    s->opened = clock_seconds() - begin - s->drawing;
    return rc;
}

static int open_searcher(struct bench *s, struct err *err) {
    const struct bench_translate_options *o = s->o;
    struct search_caps caps = {.n_seq = o->batch};
    for (int i = 0; i < s->n; i += o->batch) {
        int tokens = 0;
        for (int k = i; k < s->n && k < i + o->batch; k++) tokens += s->in[k].n_src;
        if (caps.n_tok < tokens) caps.n_tok = tokens;
    }
    caps.max_src = s->in[0].n_src;
    struct search_setup setup = {.model = &s->model,
                                 .n_model = 1,
                                 .marks = {.bos = BOS, .eos = EOS, .unk = UNK},
                                 .caps = caps};
    return searcher_new(&s->searcher, &setup, &o->search, err);
}

/* ---- running --------------------------------------------------------------------------------- */

static int run_batch(struct bench *s, int first, struct err *err) {
    int n = s->n - first < s->o->batch ? s->n - first : s->o->batch;
    struct search_result *out = xcalloc((size_t)n, sizeof *out);
    double start = clock_seconds();
    int rc = searcher_run(s->searcher, s->in + first, n, out, NULL, err);
    double seconds = clock_seconds() - start;
    if (!rc) {
        s->took[s->calls++] = seconds;
        s->seconds += seconds;
        for (int i = 0; i < n; i++) {
            s->tokens += out[i].best[0].n;
            s->src_tokens += s->in[first + i].n_src;
        }
    }
    xfree(out);
    return rc;
}

static void forget(struct bench *s) {
    s->calls = 0;
    s->seconds = 0;
    s->tokens = s->src_tokens = 0;
}

static int run_all(struct bench *s, struct err *err) {
    forget(s);
    for (int i = 0; i < s->n; i += s->o->batch) {
        int rc = run_batch(s, i, err);
        if (rc) return rc;
    }
    return 0;
}

/* ---- floor ----------------------------------------------------------------------------------- */

enum { TRIALS = 5, DEVICE_CALLS = 20 }; /* what is queued on a device at a time, to be timed */

/* Bytes per second that the threads read together from as much memory as the weights take. */
static double reading_rate(const struct bench *s) {
    struct pool *pool;
    struct err err;
    size_t size = s->bytes;
    char *memory = mem_block(size);
    double best = 0;
    if (!memory || pool_new(&pool, s->o->where.n_thread, &err)) return mem_block_free(memory), 0;
    memset(memory, 1, size);
    for (int i = 0; i < TRIALS; i++) best = fmax(best, bench_read_rate(pool, memory, size));
    pool_free(pool);
    mem_block_free(memory);
    return best;
}

/* Bytes per second that a device reads of `size` bytes, summing their squares. */
static double device_reading_rate(struct backend *be, double size, struct err *err) {
    int cols = (int)fmin(size / sizeof(float), 1 << 30), parts = (cols - 1) / SUMSQ_RANGE + 1;
    size_t sums = (size_t)parts * sizeof(double), numbers = (size_t)cols * sizeof(float);
    double best = 0;
    char *block = backend_alloc(be, sums + numbers, err);
    if (!block) return 0;
    backend_zero(be, block, sums + numbers);
    struct sumsq_args sum = {
        .out = {.data = block, .ld = parts, .rows = 1, .cols = parts, .type = DTYPE_F64},
        .x = {.data = block + sums, .ld = cols, .rows = 1, .cols = cols, .type = DTYPE_F32}};
    for (int i = 0; i < TRIALS && !backend_sync(be, err); i++) {
        double start = clock_seconds();
        for (int call = 0; call < DEVICE_CALLS; call++) sumsq(be, &sum);
        if (backend_sync(be, err)) break;
        best = fmax(best, DEVICE_CALLS * (double)numbers / (clock_seconds() - start));
    }
    backend_free(be, block);
    return best;
}

/* Operations per second of the output projection at many rows, as the model runs it. */
static double product_rate(struct backend *be, const struct bench *s, struct err *err) {
    int on_device = backend_device_memory(be) > 0;
    int rows = on_device ? 4096 : 512, calls = on_device ? DEVICE_CALLS : 1;
    double best = 0;
    struct mat w = s->model->w.out;
    enum dtype type = s->model->type;
    size_t x_size = (size_t)rows * (size_t)w.cols * dtype_size(type);
    size_t y_size = (size_t)rows * (size_t)w.rows * dtype_size(type);
    char *block = backend_alloc(be, x_size + y_size, err);
    if (!block) return 0;
    struct mat x = {.data = block, .ld = w.cols, .rows = rows, .cols = w.cols, .type = type};
    struct mat y = {.data = block + x_size, .ld = w.rows, .rows = rows, .cols = w.rows};
    y.type = type;
    char *host = xcalloc(1, x_size); /* ordinary numbers: zeros could be cheaper */
    for (size_t i = 0; i < x_size; i += 4) memcpy(host + i, &(uint32_t){0x3f803f80u + i % 61}, 4);
    backend_upload(be, block, host, x_size);
    xfree(host);
    for (int i = 0; i < TRIALS && !backend_sync(be, err); i++) {
        double start = clock_seconds();
        for (int call = 0; call < calls; call++)
            linear_fwd(be, &(struct linear_args){.x = x, .y = y, .w = w});
        if (backend_sync(be, err)) break;
        best = fmax(best, 2.0 * calls * rows * w.rows * w.cols / (clock_seconds() - start));
    }
    backend_free(be, block);
    return best;
}

struct floor {
    double read_rate, product_rate; /* measured */
    double seconds;                 /* of one pass over the sentences; 0: not measured */
};

/* Measured on a backend of its own: the searcher's has no room for so many rows. */
static int floor_of(struct floor *f, const struct bench *s, struct err *err) {
    struct backend *be;
    struct products p = config_products(&s->model->config);
    double bytes = s->precision == PRECISION_INT8 ? 1 : s->precision == PRECISION_BF16 ? 2 : 4;
    int n_batch = (s->n + s->o->batch - 1) / s->o->batch;
    double steps = (double)s->tokens / s->n * n_batch;
    double rows = (double)s->tokens * s->o->search.beam;
    int rc = backend_open(&be, &s->o->where, err);
    if (rc) return rc;
    f->read_rate = backend_device_memory(be) ? device_reading_rate(be, bytes * p.per_tgt, err)
                                             : reading_rate(s);
    f->product_rate = product_rate(be, s, err);
    rc = backend_sync(be, err);
    backend_close(be);
    if (rc) return rc;
    if (f->product_rate <= 0 || f->read_rate <= 0)
        return err_set(err, HEED_ENOMEM, "bench translate: not enough memory to measure the floor");
    f->seconds =
        2 * p.per_src * (double)s->src_tokens / f->product_rate +
        fmax(2 * p.per_tgt * rows / f->product_rate, bytes * p.per_tgt * steps / f->read_rate);
    return 0;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void print_figures(struct bench *s, const struct floor *f) {
    const struct bench_translate_options *o = s->o;
    qsort(s->took, (size_t)s->calls, sizeof *s->took, compare_doubles);
    double p50 = s->took[s->calls / 2], p99 = s->took[(s->calls * 99 + 99) / 100 - 1];
    const char *precision = precision_name(s->precision);
    if (o->json) {
        printf("{\"bench\":\"translate\",\"engine\":\"heed\",\"isa\":\"%s\",\"precision\":\"%s\","
               "\"threads\":%d,"
               "\"batch\":%d,\"beam\":%d,\"sentences\":%d,\"tokens\":%lld,\"tokens_per_s\":%.1f,"
               "\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"open_ms\":%.2f,\"first_ms\":%.2f,"
               "\"base_mb\":%.1f,\"peak_mb\":%.1f,\"own_mb\":%.1f",
               o->where.isa ? o->where.isa : "auto", precision, o->where.n_thread, o->batch,
               o->search.beam, s->n, (long long)s->tokens, (double)s->tokens / s->seconds,
               1e3 * p50, 1e3 * p99, 1e3 * s->opened, 1e3 * s->first, s->base_mb, s->peak_mb,
               s->own_mb);
        if (f->seconds > 0) printf(",\"over_floor\":%.3f", s->seconds / f->seconds);
        printf("}\n");
        return;
    }
    printf("%s, %d sentences in batches of %d, beam %d\n", precision, s->n, o->batch,
           o->search.beam);
    printf("%10.1f target tokens/s (%lld tokens in %.2f s)\n", (double)s->tokens / s->seconds,
           (long long)s->tokens, s->seconds);
    printf("%10.2f ms per batch (median), %.2f ms the slowest in a hundred\n", 1e3 * p50,
           1e3 * p99);
    printf("%10.2f ms to open the model (%.2f the device), %.2f ms to the end of the first batch\n",
           1e3 * s->opened, 1e3 * s->device, 1e3 * s->first);
    char opening[256];
    if (s->engine) printf("%14s%s\n", "", engine_opening(s->engine, opening, sizeof opening));
    printf("%10.1f MiB peak memory; %.1f at the end are not mapped from files\n", s->peak_mb,
           s->own_mb);
    if (f->seconds > 0)
        printf("%10.2f times the floor of %.2f s (weights read at %.1f GB/s, multiplied at %.1f "
               "GOP/s)\n",
               s->seconds / f->seconds, f->seconds, f->read_rate / 1e9, f->product_rate / 1e9);
}

static int print_breakdown(struct bench *s, struct err *err) {
    backend_profile(s->be, 1);
    int rc = run_all(s, err);
    backend_profile(s->be, 0);
    double total = bench_print_ops(s->be, s->seconds, "GOP/s");
    printf("%-16s %8s %10.1f %7.1f%%\n", "search", "", 1e3 * (s->seconds - total),
           100 * (1 - total / s->seconds));
    return rc;
}

static int measure(struct bench *s, double began, struct err *err) {
    s->took = xcalloc((size_t)s->n, sizeof *s->took);
    int rc = run_batch(s, 0, err);
    s->first = clock_seconds() - began - s->drawing;
    if (!rc) rc = run_all(s, err);
    s->peak_mb = bench_peak_mb(); /* before the floor is measured, which takes memory */
    s->own_mb = bench_own_mb();
    if (rc) return rc;
    struct floor floor = {0};
    if ((rc = floor_of(&floor, s, err))) return rc;
    print_figures(s, &floor);
    return s->o->json ? 0 : print_breakdown(s, err);
}

int bench_translate_run(const struct bench_translate_options *o, struct err *err) {
    struct bench s = {.o = o, .base_mb = bench_peak_mb()};
    double began = clock_seconds();
    int rc = open_model(&s, err);
    if (!rc && s.model->config.n_vocab_src <= FIRST_WORD)
        rc = err_set(err, HEED_EINVAL, "n_vocab: %d is too small to draw tokens from",
                     s.model->config.n_vocab_src);
    if (!rc && o->input)
        rc = read_sentences(&s, err);
    else if (!rc)
        draw_sentences(&s);
    if (!rc) {
        qsort(s.in, (size_t)s.n, sizeof *s.in, longer_first);
        rc = open_searcher(&s, err);
    }
    if (!rc) rc = measure(&s, began, err);
    searcher_free(s.searcher);
    if (!s.engine) {
        model_free(s.model);
        frozen_close(s.frozen);
        backend_close(s.be);
    }
    engine_close(s.engine);
    for (int i = 0; i < s.n; i++) xfree(s.ids[i]);
    xfree(s.ids);
    xfree(s.in);
    xfree(s.took);
    return rc;
}
