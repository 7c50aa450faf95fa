/* bench_train.c — how fast does a preset train, and where does the time go?
 *
 * Whole updates (forward, loss, backward, Adam) on random sentences. Beside the absolute figures stands
 * the share of the matrix products' own rate, measured in the same run just before and after: on a shared
 * machine the ratio means more than the speed. Model FLOPs count the products of the paper's layers, three
 * passes of them (forward and two backward), without attention's n^2 part, as is the custom. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/rng.h"
#include "cli/bench.h"
#include "cli/options.h"
#include "train/optimizer.h"

enum { N_BATCH = 4, MAX_STEPS = 1000, BOS = 2, FIRST_WORD = 4 };

struct bench {
    const struct bench_train_options *o;
    struct backend *be;
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
    struct batch batch[N_BATCH];
};

struct figures {
    double ms, tgt_per_s, tflops, gemm_tflops;
    int steps;
};

/* ---------------------------------------------------------------------------------- batches ------ */

/* Lengths like those of news text in subwords: log-normal around 25. */
static int draw_length(struct rng *rng, const struct bench_train_options *o) {
    if (o->length) return o->length;
    double x = round(exp(rng_normal(rng) * 0.6 + 3.2));
    return (int)fmin(fmax(x, 4), 128);
}

static int fill_batch(struct batch *b, const struct bench_train_options *o, uint64_t seed,
                      struct err *err) {
    struct rng rng = {.key = seed};
    int32_t *src = xcalloc((size_t)o->tokens, sizeof *src),
            *tgt = xcalloc((size_t)o->tokens, sizeof *tgt);
    int rc = batch_init(b, o->tokens, o->tokens, o->tokens, BOS, err), added = 1;
    while (!rc && added > 0) {
        int room = o->tokens - b->src.n_tok, n = draw_length(&rng, o);
        if (room == 0) break;
        if (n > room) n = room; /* the last sentence fills the batch */
        for (int i = 0; i < n; i++) {
            src[i] = FIRST_WORD +
                     (int32_t)rng_below(&rng, (uint32_t)(o->config.n_vocab_src - FIRST_WORD));
            tgt[i] = FIRST_WORD +
                     (int32_t)rng_below(&rng, (uint32_t)(o->config.n_vocab_tgt - FIRST_WORD));
        }
        added = batch_add(b, src, n, tgt, n, err);
        if (added < 0) rc = added;
    }
    xfree(src);
    xfree(tgt);
    return rc;
}

/* ---------------------------------------------------------------------------------- rates -------- */

static double model_flops(const struct config *c, double n_src, double n_tgt) {
    double d = c->d_model, f = c->d_ff, qk = c->n_head * c->d_k, vv = c->n_head * c->d_v;
    double att = 2 * d * qk + 2 * d * vv, q_o = d * qk + d * vv, ff = 2 * d * f;
    double per_src =
        c->n_layer_enc * (att + ff) + c->n_layer_dec * q_o; /* keys, values of the memory */
    double per_tgt = c->n_layer_dec * (att + q_o + ff) + d * c->n_vocab_tgt;
    return 6 * (n_src * per_src + n_tgt * per_tgt);
}

/* FLOP/s of one product of the model's shapes as the ops run it, weights packed in the call. */
static double product_rate(struct bench *s, int out, int in, struct err *err) {
    int n = s->o->tokens;
    enum dtype type = s->model->type;
    size_t size = dtype_size(type), widest = (size_t)(out > in ? out : in);
    char *block =
        backend_alloc(s->be, ((size_t)n * widest * 2 + (size_t)out * (size_t)in) * size, err);
    if (!block) return 0;
    struct linear_args a = {.y = {.data = block, .ld = out, .rows = n, .cols = out, .type = type},
                            .x = {.data = block + (size_t)n * widest * size,
                                  .ld = in,
                                  .rows = n,
                                  .cols = in,
                                  .type = type},
                            .w = {.data = block + (size_t)n * widest * 2 * size,
                                  .ld = in,
                                  .rows = out,
                                  .cols = in,
                                  .type = type}};
    for (size_t i = 0; i < (size_t)n * widest * 2 + (size_t)out * (size_t)in; i++)
        if (type == DTYPE_F32) /* any ordinary numbers will do; zeros would not */
            ((float *)(void *)block)[i] = 0.5f + (float)(i % 7) / 8;
        else
            ((uint16_t *)(void *)block)[i] = bf16_store(0.5f + (float)(i % 7) / 8);
    double best = 0, end = clock_seconds() + 0.3;
    for (int i = 0; i < 3 || clock_seconds() < end; i++) {
        double start = clock_seconds();
        linear_fwd(s->be, &a);
        if (backend_sync(s->be, err)) break;
        best = fmax(best, 2.0 * n * out * in / (clock_seconds() - start));
    }
    backend_free(s->be, block);
    return best;
}

static double gemm_rate(struct bench *s, struct err *err) {
    const struct config *c = &s->o->config;
    double a = product_rate(s, c->d_ff, c->d_model, err),
           b = product_rate(s, c->d_model, c->d_ff, err);
    return fmax(a, b);
}

/* ---------------------------------------------------------------------------------- steps -------- */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int step(struct bench *s, int i, struct err *err) {
    struct update_report report;
    const struct batch *b = &s->batch[i % N_BATCH];
    return optimizer_update(s->opt, &b, 1, &report, err);
}

static int measure(struct bench *s, struct figures *f, struct err *err) {
    double *took = xcalloc(MAX_STEPS, sizeof *took);
    double rate = gemm_rate(s, err);
    int n = 0, rc = rate > 0 ? step(s, 0, err) : HEED_ENOMEM;
    double end = clock_seconds() + s->o->seconds;
    while (!rc && n < MAX_STEPS && (n < 3 || clock_seconds() < end)) {
        double start = clock_seconds();
        rc = step(s, n, err);
        took[n++] = clock_seconds() - start;
    }
    if (!rc) {
        qsort(took, (size_t)n, sizeof *took, by_value);
        double seconds = took[n / 2];
        rate = (rate + gemm_rate(s, err)) / 2;
        *f = (struct figures){.ms = 1e3 * seconds,
                              .tgt_per_s = s->o->tokens / seconds,
                              .tflops = model_flops(&s->o->config, s->o->tokens, s->o->tokens) /
                                        seconds / 1e12,
                              .gemm_tflops = rate / 1e12,
                              .steps = n};
    }
    xfree(took);
    return rc;
}

/* ---------------------------------------------------------------------------------- report ------- */

static int print_breakdown(struct bench *s, struct err *err) {
    backend_profile(s->be, 1);
    int rc = step(s, 0, err);
    backend_profile(s->be, 0);
    double total = 0;
    for (int op = 0; op < OP_COUNT; op++) total += (double)backend_cost(s->be, (enum op)op)->ns;
    printf("\n%-16s %8s %10s %8s %12s\n", "op", "calls", "ms", "share", "GFLOP/s");
    for (int op = 0; op < OP_COUNT; op++) {
        const struct op_cost *cost = backend_cost(s->be, (enum op)op);
        if (cost->calls)
            printf("%-16s %8llu %10.1f %7.1f%% %12.1f\n", op_name((enum op)op),
                   (unsigned long long)cost->calls, (double)cost->ns / 1e6,
                   100 * (double)cost->ns / total, cost->flops / (double)cost->ns);
    }
    return rc;
}

static void print_figures(const struct bench *s, const struct figures *f) {
    const struct bench_train_options *o = s->o;
    double share = f->tflops / f->gemm_tflops, peak = bench_peak_mb();
    if (o->on.json) {
        printf("{\"bench\":\"train\",\"preset\":\"%s\",\"device\":\"%s\",\"dtype\":\"%s\","
               "\"tokens\":%d,"
               "\"length\":%d,\"ms_per_step\":%.2f,\"tgt_tokens_per_s\":%.1f,\"tflops\":%.4f,"
               "\"gemm_tflops\":%.4f,\"gemm_share\":%.4f,\"peak_mb\":%.1f}\n",
               o->preset, o->on.device, o->on.dtype, o->tokens, o->length, f->ms, f->tgt_per_s,
               f->tflops, f->gemm_tflops, share, peak);
        return;
    }
    printf("%s, %s %s, %zu parameters, batches of %d + %d tokens, ", o->preset, o->on.device,
           o->on.dtype, s->model->table.n_value, o->tokens, o->tokens);
    if (o->length)
        printf("sentences of %d\n", o->length);
    else
        printf("sentences of mixed length\n");
    printf("%10.1f ms per step (median of %d)\n%10.1f target tokens/s\n%10.4f model TFLOP/s\n"
           "%10.4f TFLOP/s of its matrix products alone; share %.1f%%\n%10.1f MiB peak memory\n",
           f->ms, f->steps, f->tgt_per_s, f->tflops, f->gemm_tflops, 100 * share, peak);
}

static int build(struct bench *s, struct err *err) {
    const struct bench_train_options *o = s->o;
    enum dtype type;
    struct backend_options where = {o->on.device, o->on.threads, o->on.isa};
    struct optimizer_options options = optimizer_defaults;
    int rc = options_dtype(&type, o->on.dtype, err);
    if (o->config.n_vocab_src <= FIRST_WORD || o->config.n_vocab_tgt <= FIRST_WORD)
        return err_set(err, HEED_EINVAL, "n_vocab: %d is too small to draw words from",
                       o->config.n_vocab_tgt);
    if (o->length > o->config.max_len || o->length > o->tokens)
        return err_set(err, HEED_EINVAL,
                       "--length: %d is more than max_len %d or than the token budget %d",
                       o->length, o->config.max_len, o->tokens);
    if (!rc) rc = backend_open(&s->be, &where, err);
    if (!rc) rc = model_new(&s->model, &o->config, s->be, type, err);
    if (!rc) rc = model_draw(s->model, 1, err);
    if (!rc) rc = acts_new(&s->acts, s->model, o->tokens, o->tokens, 1, err);
    if (!rc) rc = optimizer_new(&s->opt, s->model, s->acts, &options, err);
    for (int i = 0; !rc && i < N_BATCH; i++) rc = fill_batch(&s->batch[i], o, (uint64_t)i + 1, err);
    return rc;
}

int bench_train_run(const struct bench_train_options *o, struct err *err) {
    struct bench s = {.o = o};
    struct figures figures;
    int rc = build(&s, err);
    if (!rc) rc = measure(&s, &figures, err);
    if (!rc) print_figures(&s, &figures);
    if (!rc && !o->on.json) rc = print_breakdown(&s, err);
    for (int i = 0; i < N_BATCH; i++) batch_release(&s.batch[i]);
    optimizer_free(s.opt);
    acts_free(s.acts);
    model_free(s.model);
    backend_close(s.be);
    return rc;
}
