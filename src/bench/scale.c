/* scale.c — does cost grow as it should?
 *
 * Two tables. Many short sentences: a training step of n sentences of 32 tokens must cost n times
 * one, so time per token stays flat. One long sentence: attention's time grows with the square of
 * its length, its memory with the length alone, because the n x n weights never exist; memory per
 * token stays flat. */
#include <stdio.h>

#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "base/clock.h"
#include "base/num.h"
#include "base/rng.h"
#include "bench/bench.h"
#include "cli/options.h"
#include "train/optimizer.h"

enum { SHORT = BENCH_SHORT, MAX_SENTENCES = 512, LONGEST = 8192, N_HEAD = 8, D_HEAD = 64 };

/* ---- sentences ------------------------------------------------------------------------------- */

int bench_fill(struct batch *b, int n_seq, const struct config *config, struct err *err) {
    struct rng rng = {.key = 1};
    int32_t ids[SHORT];
    int n_vocab = min_int(config->n_vocab_src, config->n_vocab_tgt);
    batch_clear(b);
    for (int s = 0; s < n_seq; s++) {
        for (int i = 0; i < SHORT; i++) ids[i] = (int32_t)rng_below(&rng, (uint32_t)n_vocab);
        int rc = batch_add(b, ids, SHORT, ids, SHORT, err);
        if (rc < 0) return rc;
    }
    return 0;
}

/* Best of several updates, in seconds. */
static int time_update(struct optimizer *opt, const struct batch *b, double *best,
                       struct err *err) {
    *best = 1e30;
    double end = clock_seconds() + 1;
    for (int i = 0; i < 3 || clock_seconds() < end; i++) {
        struct update_report report;
        double start = clock_seconds();
        int rc = optimizer_update(opt, &b, 1, &report, err);
        if (rc) return rc;
        double took = clock_seconds() - start;
        if (took < *best) *best = took;
    }
    return 0;
}

static int sentences(const struct bench_device *on, struct backend *be, enum dtype type,
                     struct err *err) {
    struct config config;
    struct model *model = NULL;
    struct acts *acts = NULL;
    struct optimizer *opt = NULL;
    struct batch batch = {0};
    int tokens = SHORT * MAX_SENTENCES;
    int rc = config_preset(&config, "tiny", err);
    config.n_vocab_src = config.n_vocab_tgt = 4000;
    if (!rc) rc = config_check(&config, err);
    if (!rc) rc = model_new(&model, &config, be, type, err);
    if (!rc) rc = model_draw(model, 1, err);
    if (!rc) rc = acts_new(&acts, model, tokens, tokens, 1, err);
    if (!rc) rc = optimizer_new(&opt, model, acts, &optimizer_defaults, err);
    if (!rc) rc = batch_init(&batch, tokens, tokens, MAX_SENTENCES, 2, err);
    if (!rc && !on->json)
        printf("sentences of %d tokens, preset tiny\n%10s %12s %14s\n", SHORT, "sentences",
               "ms/update", "us/token");
    for (int n = 32; !rc && n <= MAX_SENTENCES; n *= 2) {
        double seconds;
        if ((rc = bench_fill(&batch, n, &config, err)) ||
            (rc = time_update(opt, &batch, &seconds, err)))
            break;
        double us = 1e6 * seconds / (n * SHORT);
        if (on->json)
            printf("{\"bench\":\"scale\",\"what\":\"sentences\",\"n\":%d,\"ms\":%.3f,"
                   "\"us_per_token\":%.3f}\n",
                   n, 1e3 * seconds, us);
        else
            printf("%10d %12.2f %14.2f\n", n, 1e3 * seconds, us);
        fflush(stdout);
    }
    batch_release(&batch);
    optimizer_free(opt);
    acts_free(acts);
    model_free(model);
    return rc;
}

/* ---- length ---------------------------------------------------------------------------------- */

/* Attention over one sentence of n tokens, forward and backward, on a backend of its own, so that
 * the workspace it reports is the one this length needs. */
struct long_case {
    struct attention_args a;
    int32_t start[2];
    void *block, *start_dev;
    size_t bytes;
};

static void carve(struct attention_args *a, struct arena *arena, int n, enum dtype type) {
    int d = N_HEAD * D_HEAD;
    struct mat *const all[] = {&a->q, &a->k, &a->v, &a->o, &a->dout, &a->dq, &a->dk, &a->dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) *all[i] = mat_take(arena, n, d, type);
    a->lse = mat_take(arena, N_HEAD, n, DTYPE_F32);
}

static int build(struct long_case *c, struct backend *be, int n, enum dtype type, struct err *err) {
    struct arena arena = {0};
    carve(&c->a, &arena, n, type);
    c->bytes = arena.used;
    c->block = backend_alloc(be, c->bytes, err);
    c->start_dev = backend_alloc(be, sizeof c->start, err);
    if (!c->block || !c->start_dev) return HEED_ENOMEM;
    backend_zero(be, c->block, c->bytes);
    arena = (struct arena){.base = c->block, .cap = c->bytes};
    carve(&c->a, &arena, n, type);
    c->start[0] = 0;
    c->start[1] = n;
    backend_upload(be, c->start_dev, c->start, sizeof c->start);
    c->a.rq = c->a.rk = (struct rows){c->start_dev, 1, n, n};
    c->a.n_head = N_HEAD;
    c->a.causal = 1;
    c->a.scale = 0.125f;
    backend_plan(be);
    attention_fwd(be, &c->a);
    attention_bwd(be, &c->a);
    return backend_commit(be, err);
}

static int time_op(struct backend *be, void (*op)(struct backend *, const struct attention_args *),
                   const struct attention_args *a, double *best, struct err *err) {
    *best = 1e30;
    for (int i = 0; i < 3; i++) {
        double start = clock_seconds();
        op(be, a);
        int rc = backend_sync(be, err);
        if (rc) return rc;
        double took = clock_seconds() - start;
        if (took < *best) *best = took;
    }
    return 0;
}

static int one_length(const struct bench_device *on, int n, enum dtype type, struct err *err) {
    struct backend *be;
    struct long_case c = {0};
    double fwd = 0, bwd = 0;
    int rc = backend_open(&be, &on->where, err);
    if (rc) return rc;
    rc = build(&c, be, n, type, err);
    if (!rc) rc = time_op(be, attention_fwd, &c.a, &fwd, err);
    if (!rc) rc = time_op(be, attention_bwd, &c.a, &bwd, err);
    double kb = (double)(c.bytes + backend_workspace(be)) / 1024, pairs = 0.5 * n * (n + 1.0);
    if (!rc && on->json)
        printf("{\"bench\":\"scale\",\"what\":\"length\",\"n\":%d,\"fwd_ms\":%.3f,\"bwd_ms\":%.3f,"
               "\"fwd_ns_per_pair\":%.3f,\"bwd_ns_per_pair\":%.3f,\"kb_per_token\":%.3f}\n",
               n, 1e3 * fwd, 1e3 * bwd, 1e9 * fwd / pairs, 1e9 * bwd / pairs, kb / n);
    else if (!rc)
        printf("%10d %12.2f %12.2f %14.2f %14.2f %14.1f %14.1f\n", n, 1e3 * fwd, 1e3 * bwd,
               1e9 * fwd / pairs, 1e9 * bwd / pairs, kb / 1024, kb / n);
    fflush(stdout);
    backend_free(be, c.block);
    backend_free(be, c.start_dev);
    backend_close(be);
    return rc;
}

int bench_scale_run(const struct bench_device *on, struct err *err) {
    enum dtype type = options_dtype(on->dtype, NULL);
    struct backend *be = NULL;
    int rc = backend_open(&be, &on->where, err);
    if (!rc) rc = sentences(on, be, type, err);
    backend_close(be);
    if (!rc && !on->json)
        printf("\ncausal attention over one sentence, %d heads of %d\n%10s %12s %12s %14s %14s "
               "%14s %14s\n",
               N_HEAD, D_HEAD, "tokens", "fwd ms", "bwd ms", "fwd ns/pair", "bwd ns/pair",
               "memory MiB", "KiB/token");
    for (int n = 128; !rc && n <= LONGEST; n *= 2) rc = one_length(on, n, type, err);
    return rc;
}
