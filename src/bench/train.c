/* train.c — how fast does a preset train, and where does the time go?
 *
 * Whole updates (forward, loss, backward, Adam) on random sentences. Beside the absolute figures
 * stands the share of the matrix products' own rate, measured in the same run just before and
 * after: on a shared machine the ratio means more than the speed. On a GPU, where shapes matter
 * more, that is the rate of all the products of a step, each timed alone. Model FLOPs count the
 * products of the paper's layers, three passes of them (forward and two backward), without
 * attention's n^2 part, as is customary.
 *
 * Sentences are of one length, of mixed lengths, or bucketed: each batch draws a length from the
 * same log-normal distribution, its source sentences deviate from that by 1 %, their targets from
 * them by 2 %. Batches then differ in size, so whole rounds over them are timed, and tokens
 * counted. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "backend/profile.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "train/optimizer.h"

enum { N_BATCH = 8, MAX_STEPS = 1000, BOS = 2, FIRST_WORD = 4 };

struct bench {
    const struct bench_train_options *o;
    struct backend *be;
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
    struct batch batch[N_BATCH];
    double n_src, n_tgt; /* tokens of an average batch */
    size_t at_first;     /* bytes the device had left when it was opened */
};

struct figures {
    double ms, cpu_ms, tgt_per_s, tflops, gemm_tflops, peak_mb;
    int steps;
};

/* ---- batches --------------------------------------------------------------------------------- */

/* Lengths like those of news text in subwords: log-normal around 25. */
static double draw_length(struct rng *rng, double least, double most) {
    return fmin(fmax(exp(rng_normal(rng) * 0.6 + 3.2), least), most);
}

/* A length that deviates from x by a normal share of it. */
static int near(struct rng *rng, double x, double share) {
    return (int)fmin(fmax(round(x * (1 + share * rng_normal(rng))), 4), 128);
}

/* Tokens that a batch must have room for. */
static int batch_room(const struct bench_train_options *o) {
    return o->bucketed ? o->tokens + o->tokens / 8 + 256 : o->tokens;
}

static void draw_pair(int *n_src, int *n_tgt, const struct bench_train_options *o, int centre,
                      struct rng *rng) {
    if (o->bucketed) {
        *n_src = near(rng, centre, 0.01);
        *n_tgt = near(rng, *n_src, 0.02);
    } else {
        *n_src = *n_tgt = o->length ? o->length : (int)round(draw_length(rng, 4, 128));
    }
}

static void draw_words(int32_t *ids, int n, int n_vocab, struct rng *rng) {
    for (int i = 0; i < n; i++)
        ids[i] = FIRST_WORD + (int32_t)rng_below(rng, (uint32_t)(n_vocab - FIRST_WORD));
}

static int fill_batch(struct batch *b, const struct bench_train_options *o, uint64_t seed,
                      struct err *err) {
    struct rng rng = {.key = seed};
    int cap = batch_room(o), centre = (int)draw_length(&rng, 6, 120);
    int left = o->tokens / centre > 1 ? o->tokens / centre : 1; /* sentences, if bucketed */
    int32_t *src = xcalloc((size_t)cap, sizeof *src), *tgt = xcalloc((size_t)cap, sizeof *tgt);
    int rc = batch_init(b, cap, cap, cap, BOS, err), added = 1;
    while (!rc && added > 0) {
        int room = cap - b->src.n_tok, n, m;
        draw_pair(&n, &m, o, centre, &rng);
        if (room == 0 || (o->bucketed && left-- == 0)) break;
        if (!o->bucketed && n > room) m = n = room; /* the last sentence fills the batch */
        draw_words(src, n, o->config.n_vocab_src, &rng);
        draw_words(tgt, m, o->config.n_vocab_tgt, &rng);
        added = batch_add(b, src, n, tgt, m, err);
        if (added < 0) rc = added;
    }
    xfree(src);
    xfree(tgt);
    return rc;
}

/* ---- rates ----------------------------------------------------------------------------------- */

/* Of an update of an average batch: each product once forward and twice backward. */
static double update_flops(const struct bench *s) {
    struct products p = config_products(&s->o->config);
    return 6 * (s->n_src * p.per_src + s->n_tgt * p.per_tgt);
}

/* One product of the model's shapes with all its tensors in one block. */
struct product {
    char *block;
    struct linear_args a;
};

static struct mat part(char **at, int rows, int cols, enum dtype type) {
    struct mat m = {.data = *at, .ld = cols, .rows = rows, .cols = cols, .type = type};
    *at += ((size_t)rows * (size_t)cols * dtype_size(type) + 255) / 256 * 256;
    return m;
}

/* Any ordinary numbers will do; zeros would not. */
static void fill_numbers(struct backend *be, const struct mat *m) {
    size_t n = (size_t)m->rows * (size_t)m->cols, size = dtype_size(m->type);
    char *host = xmalloc(n * size);
    struct rng rng = {.key = n};
    for (size_t i = 0; i < n; i++) {
        float x = (float)(rng_uniform(&rng) - 0.5);
        if (m->type == DTYPE_F32)
            ((float *)(void *)host)[i] = x;
        else
            ((uint16_t *)(void *)host)[i] = bf16_store(x);
    }
    backend_upload(be, m->data, host, n * size);
    backend_sync(be, NULL);
    xfree(host);
}

static int product_open(struct product *p, struct bench *s, int out, int in, int bwd,
                        struct err *err) {
    int n = s->o->tokens;
    enum dtype type = s->model->type;
    size_t small = dtype_size(type), sum = (size_t)n * (size_t)out + (size_t)out * (size_t)in +
                                           (size_t)n * (size_t)in * (bwd ? 2 : 1);
    size_t size = sum * small + (size_t)bwd * (size_t)out * (size_t)in * sizeof(float) + 5 * 256;
    *p = (struct product){.block = backend_alloc(s->be, size, err)};
    if (!p->block) return HEED_ENOMEM;
    char *at = p->block;
    p->a.y = part(&at, n, out, type);
    p->a.x = part(&at, n, in, type);
    p->a.w = part(&at, out, in, type);
    if (bwd) {
        p->a.dy = p->a.y;
        p->a.dx = part(&at, n, in, type);
        p->a.dw = part(&at, out, in, DTYPE_F32);
        backend_zero(s->be, p->a.dw.data, (size_t)out * (size_t)in * sizeof(float));
    }
    fill_numbers(s->be, &p->a.x);
    fill_numbers(s->be, &p->a.w);
    return 0;
}

/* FLOP/s of one product as the ops run it, weights packed in the call. */
static double product_rate(struct bench *s, int out, int in, struct err *err) {
    struct product p;
    if (product_open(&p, s, out, in, 0, err)) return 0;
    double best = 0, end = clock_seconds() + 0.3, flops = 2.0 * s->o->tokens * out * in;
    for (int i = 0; i < 3 || clock_seconds() < end; i++) {
        double start = clock_seconds();
        linear_fwd(s->be, &p.a);
        if (backend_sync(s->be, err)) break;
        best = fmax(best, flops / (clock_seconds() - start));
    }
    backend_free(s->be, p.block);
    return best;
}

/* Seconds that a device needs for a product and its two gradients, many of them queued; negative on
 * error. */
static double product_seconds(struct bench *s, int out, int in, struct err *err) {
    enum { TIMES = 10 };
    struct product p;
    if (product_open(&p, s, out, in, 1, err)) return -1;
    for (int i = -1; i < TIMES; i++) { /* the first one chooses kernels and warms up */
        if (i == 0) backend_profile(s->be, 1);
        linear_fwd(s->be, &p.a);
        linear_bwd(s->be, &p.a);
    }
    double ns = (double)backend_cost(s->be, OP_linear_fwd)->ns +
                (double)backend_cost(s->be, OP_linear_bwd)->ns;
    backend_profile(s->be, 0);
    int rc = backend_sync(s->be, err);
    backend_free(s->be, p.block);
    return rc ? -1 : ns / TIMES / 1e9;
}

/* FLOP/s of all the products of a step and nothing else. */
static double all_products_rate(struct bench *s, struct err *err) {
    const struct config *c = &s->o->config;
    int qk = c->n_head * c->d_k, vv = c->n_head * c->d_v, d = c->d_model,
        ssru = c->decoder == DECODER_SSRU ? 2 * c->n_layer_dec : 0,
        both = c->n_layer_enc + (ssru ? 0 : c->n_layer_dec), ff = config_d_ff(c, 0),
        ff_dec = config_d_ff(c, 1);
    const struct {
        int out, in, times;
    } list[] = {{2 * qk + vv, d, both},       {d, vv, both + c->n_layer_dec},
                {qk, d, c->n_layer_dec},      {d, d, ssru},
                {qk + vv, d, c->n_layer_dec}, {ff, d, c->n_layer_enc},
                {d, ff, c->n_layer_enc},      {ff_dec, d, c->n_layer_dec},
                {d, ff_dec, c->n_layer_dec},  {c->n_vocab_tgt, d, 1}};
    double seconds = 0, flops = 0;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (!list[i].times) continue;
        double one = product_seconds(s, list[i].out, list[i].in, err);
        if (one < 0) return 0;
        seconds += list[i].times * one;
        flops += 6.0 * s->o->tokens * list[i].out * list[i].in * list[i].times;
    }
    return flops / seconds;
}

/* The rate that the share refers to. A CPU's products all run at much the same rate, and take
 * long. */
static double gemm_rate(struct bench *s, struct err *err) {
    const struct config *c = &s->o->config;
    if (backend_device_memory(s->be)) return all_products_rate(s, err);
    double a = product_rate(s, c->d_ff, c->d_model, err),
           b = product_rate(s, c->d_model, c->d_ff, err);
    return fmax(a, b);
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int step(struct bench *s, int i, struct err *err) {
    struct update_report report;
    const struct batch *b = &s->batch[i % N_BATCH];
    return optimizer_update(s->opt, &b, 1, &report, err);
}

/* Everything is reserved before the first step, so a device's memory can be read off at any
 * time. */
static double peak_mb(const struct bench *s) {
    if (!backend_device_memory(s->be)) return bench_peak_mb();
    return (double)(s->at_first - backend_available(s->be)) / 1048576.0;
}

/* Seconds of a step: the median, or the mean of whole rounds where batches differ. */
static double typical(const struct bench *s, double *took, int n) {
    double sum = 0;
    if (!s->o->bucketed) {
        qsort(took, (size_t)n, sizeof *took, compare_doubles);
        return took[n / 2];
    }
    n -= n % N_BATCH;
    for (int i = 0; i < n; i++) sum += took[i];
    return sum / n;
}

static int measure(struct bench *s, struct figures *f, struct err *err) {
    double *took = xcalloc(MAX_STEPS, sizeof *took);
    double peak = peak_mb(s), rate = gemm_rate(s, err);
    int n = 0, rc = rate > 0 ? step(s, 0, err) : HEED_ENOMEM;
    double end = clock_seconds() + s->o->seconds;
    int least = s->o->bucketed ? N_BATCH : 3;
    for (int i = 1; !rc && s->o->bucketed && i < N_BATCH; i++) rc = step(s, i, err);
    double cpu = clock_cpu_seconds();
    while (!rc && n < MAX_STEPS && (n < least || clock_seconds() < end)) {
        double start = clock_seconds();
        rc = step(s, n, err);
        took[n++] = clock_seconds() - start;
    }
    cpu = clock_cpu_seconds() - cpu;
    if (!rc) {
        double seconds = typical(s, took, n);
        rate = (rate + gemm_rate(s, err)) / 2;
        *f = (struct figures){.ms = 1e3 * seconds,
                              .cpu_ms = 1e3 * cpu / n,
                              .tgt_per_s = s->n_tgt / seconds,
                              .tflops = update_flops(s) / seconds / 1e12,
                              .gemm_tflops = rate / 1e12,
                              .peak_mb = fmax(peak, backend_device_memory(s->be) ? 0 : peak_mb(s)),
                              .steps = n};
    }
    xfree(took);
    return rc;
}

/* ---- updates of several batches -------------------------------------------------------------- */

/* What the tree costs in which the gradients of an update are added up (train/optimizer.h): the
 * update of all batches, and beside it, alternately, what it consists of otherwise: the gradient of
 * each, begun at zero like any, and one pass of Adam. */
struct tree {
    double ms, plain_ms; /* medians */
};

/* `plain`: seconds of n updates of one batch each, of their n passes of Adam only one. */
static int time_singly(struct bench *s, int n, double *plain, struct err *err) {
    int rc = 0;
    *plain = 0;
    for (int i = 0; i < n && !rc; i++) {
        struct update_report report;
        const struct batch *b = &s->batch[i % N_BATCH];
        double begin = clock_seconds();
        rc = optimizer_gradient(s->opt, &(struct update){&b, 1, b->tgt.n_tok}, &report, err);
        double half = clock_seconds();
        if (!rc) rc = optimizer_apply(s->opt, &report, err);
        if (!rc) rc = backend_sync(s->be, err);
        *plain += half - begin + (clock_seconds() - half) / n;
    }
    return rc;
}

static int measure_tree(struct bench *s, struct tree *tree, struct err *err) {
    enum { MOST = 100, LEAST = 3 };
    int n = s->o->accumulate, count = 0, rc = 0;
    const struct batch **list = xcalloc((size_t)n, sizeof(const struct batch *));
    double took[MOST], plain[MOST], end = clock_seconds() + s->o->seconds;
    for (int i = 0; i < n; i++) list[i] = &s->batch[i % N_BATCH];
    while (!rc && count < MOST && (count < LEAST || clock_seconds() < end)) {
        struct update_report report;
        double begin = clock_seconds();
        rc = optimizer_update(s->opt, list, n, &report, err);
        if (!rc) rc = backend_sync(s->be, err);
        took[count] = clock_seconds() - begin;
        if (!rc) rc = time_singly(s, n, &plain[count++], err);
    }
    xfree(list);
    if (rc) return rc;
    qsort(took, (size_t)count, sizeof *took, compare_doubles);
    qsort(plain, (size_t)count, sizeof *plain, compare_doubles);
    *tree = (struct tree){1e3 * took[count / 2], 1e3 * plain[count / 2]};
    return 0;
}

static void print_tree(const struct bench *s, const struct tree *tree) {
    int n = s->o->accumulate;
    if (s->o->on.json)
        printf("{\"bench\":\"train\",\"accumulate\":%d,\"ms_per_update\":%.2f,"
               "\"plain_ms\":%.2f}\n",
               n, tree->ms, tree->plain_ms);
    else
        printf("%10.1f ms per update of %d batches: %+.2f%% of their gradients and one Adam pass\n",
               tree->ms, n, 100 * (tree->ms / tree->plain_ms - 1));
}

/* ---- report ---------------------------------------------------------------------------------- */

static int print_breakdown(struct bench *s, struct err *err) {
    backend_profile(s->be, 1);
    int rc = step(s, 0, err);
    backend_profile(s->be, 0);
    bench_print_ops(s->be, 0, "GFLOP/s");
    return rc;
}

static void print_figures(const struct bench *s, const struct figures *f) {
    const struct bench_train_options *o = s->o;
    double share = f->tflops / f->gemm_tflops, peak = f->peak_mb;
    if (o->on.json) {
        printf("{\"bench\":\"train\",\"preset\":\"%s\",\"device\":\"%s\",\"dtype\":\"%s\","
               "\"tokens\":%d,"
               "\"length\":%d,\"bucketed\":%s,\"ms_per_step\":%.2f,"
               "\"cpu_ms_per_step\":%.2f,\"tgt_tokens_per_s\":%.1f,"
               "\"tflops\":%.4f,"
               "\"gemm_tflops\":%.4f,\"gemm_share\":%.4f,\"peak_mb\":%.1f}\n",
               config_preset_names[o->preset], o->on.where.device, dtype_names[o->on.dtype],
               o->tokens, o->length, o->bucketed ? "true" : "false", f->ms, f->cpu_ms, f->tgt_per_s,
               f->tflops, f->gemm_tflops, share, peak);
        return;
    }
    printf("%s, %s %s, %zu parameters, batches of %d + %d tokens, ", config_preset_names[o->preset],
           o->on.where.device, dtype_names[o->on.dtype], s->model->table.n_value, o->tokens,
           o->tokens);
    if (o->bucketed)
        printf("sentences bucketed by length\n");
    else if (o->length)
        printf("sentences of %d\n", o->length);
    else
        printf("sentences of mixed length\n");
    printf("%10.1f ms per step (%s of %d)\n%10.1f target tokens/s\n%10.4f model TFLOP/s\n"
           "%10.4f TFLOP/s of its matrix products alone; share %.1f%%\n%10.1f MiB peak memory\n",
           f->ms, o->bucketed ? "mean" : "median", f->steps, f->tgt_per_s, f->tflops,
           f->gemm_tflops, 100 * share, peak);
}

static int build(struct bench *s, struct err *err) {
    const struct bench_train_options *o = s->o;
    struct optimizer_options options = optimizer_defaults;
    options.accumulate = o->accumulate;
    if (o->config.n_vocab_src <= FIRST_WORD || o->config.n_vocab_tgt <= FIRST_WORD)
        return err_set(err, HEED_EINVAL, "n_vocab: %d is too small to draw tokens from",
                       o->config.n_vocab_tgt);
    if (o->length > o->config.max_len || o->length > o->tokens)
        return err_set(err, HEED_EINVAL,
                       "--length: %d is more than max_len %d or than the token budget %d",
                       o->length, o->config.max_len, o->tokens);
    int rc = backend_open(&s->be, &o->on.where, err);
    if (!rc) s->at_first = backend_available(s->be);
    if (!rc) rc = model_new(&s->model, &o->config, s->be, options_dtype(o->on.dtype, NULL), err);
    if (!rc) rc = model_draw(s->model, 1, err);
    if (!rc) rc = acts_new(&s->acts, s->model, batch_room(o), batch_room(o), 1, err);
    if (!rc) rc = optimizer_new(&s->opt, s->model, s->acts, &options, err);
    for (int i = 0; !rc && i < N_BATCH; i++) {
        rc = fill_batch(&s->batch[i], o, (uint64_t)i + 1, err);
        s->n_src += (double)s->batch[i].src.n_tok / N_BATCH;
        s->n_tgt += (double)s->batch[i].tgt.n_tok / N_BATCH;
    }
    return rc;
}

int bench_train_run(const struct bench_train_options *o, struct err *err) {
    struct bench s = {.o = o};
    struct figures figures = {0};
    struct tree tree = {0};
    int rc = build(&s, err), several = o->accumulate > 1;
    if (!rc) rc = measure(&s, &figures, err);
    if (!rc && several) rc = measure_tree(&s, &tree, err);
    if (!rc) print_figures(&s, &figures);
    if (!rc && several) print_tree(&s, &tree);
    if (!rc && !o->on.json) rc = print_breakdown(&s, err);
    for (int i = 0; i < N_BATCH; i++) batch_release(&s.batch[i]);
    optimizer_free(s.opt);
    acts_free(s.acts);
    model_free(s.model);
    backend_close(s.be);
    return rc;
}
