/* forecast.c — `heed bench scale --predict`: what an update would take on many GPUs.
 *
 * Updates of four sizes are timed on one rank that talks to nobody, or read from a file that an
 * earlier run printed; the rest is arithmetic (predict.h) with the links that the options give. All
 * of it that is not measured is printed, and that the table is a prediction.
 *
 * Run as several ranks (--ranks, mpirun) it can be proven wrong: the ranks time their updates side
 * by side without a word to each other, then the same ones together, and the prediction for this
 * many stands beside what was measured. Ranks that share cores or memory slow each other down in
 * both. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/mat.h"
#include "backend/ops.h"
#include "base/clock.h"
#include "base/num.h"
#include "bench/bench.h"
#include "bench/fit.h"
#include "bench/predict.h"
#include "cli/cli.h"
#include "cli/options.h"
#include "io/json.h"
#include "train/optimizer.h"

enum { MOST_SIZES = 16, SIZES = 4, MOST_UPDATES = 1000, LEAST_UPDATES = 5, NAME = 40 };
static const int worlds[] = {8, 64, 512};

/* An update of all ranks, and their links at that time. */
struct together {
    double seconds, sent; /* bytes by this rank */
    struct predict_link link[2];
};

struct forecast {
    const struct bench_scale_options *o;
    struct comm *comm;
    struct backend *be;
    struct model *model;
    struct acts *acts;
    struct batch batch;
    void *block;  /* what is exchanged to time links: twice a bucket and a little */
    size_t large; /* bytes of a bucket */
    size_t *count;
    char preset[NAME], device[NAME], dtype[NAME]; /* that were measured */
    struct predict_model what;
    struct predict_step step[MOST_SIZES];
    struct together together[SIZES];
    int n_step;
    struct predict_link link[2];
    int n_thread, n_cpu; /* of all ranks of this machine together; of the machine */
};

/* ---- measuring ------------------------------------------------------------------------------- */

/* What the updates of a while took, each the slowest rank's. */
struct times {
    double gradient[MOST_UPDATES], apply[MOST_UPDATES], total[MOST_UPDATES];
    int n;
    double sent; /* bytes that this rank gave to others */
};

/* Calls of both levels: the smallest ones, and those of a bucket. */
struct calls {
    double small[2][MOST_UPDATES], large[2][MOST_UPDATES];
    int n;
};

static double median(double *x, int n) {
    qsort(x, (size_t)n, sizeof *x, compare_doubles);
    return x[n / 2];
}

static int one_update(struct forecast *f, struct optimizer *opt, double took[2], struct err *err) {
    const struct batch *list[] = {&f->batch};
    struct update update = {list, 1, (int64_t)f->batch.tgt.n_tok * opt->shards.size};
    struct update_report report;
    double begin = clock_seconds();
    int rc = optimizer_gradient(opt, &update, &report, err);
    double half = clock_seconds();
    if (!rc) rc = optimizer_apply(opt, &report, err);
    if (!rc) rc = backend_sync(f->be, err);
    if (!rc) rc = comm_sync(f->comm, err);
    took[0] = half - begin;
    took[1] = clock_seconds() - half;
    return rc;
}

/* One update of all ranks, which begin it together and wait for each other at its end. *now becomes
 * rank 0's clock. */
static int time_update(struct forecast *f, struct optimizer *opt, struct times *t, double *now,
                       struct err *err) {
    double mine[3], *all = xcalloc((size_t)f->comm->size, sizeof mine), most[3] = {0};
    uint64_t before = f->comm->sent;
    int rc = one_update(f, opt, mine, err);
    t->sent += (double)(f->comm->sent - before);
    mine[2] = clock_seconds();
    comm_gather(f->comm, all, mine, sizeof mine);
    if (!rc) rc = comm_check(f->comm, err);
    for (int r = 0; r < f->comm->size; r++) {
        const double *its = all + (ptrdiff_t)3 * r;
        most[0] = fmax(most[0], its[0]);
        most[1] = fmax(most[1], its[1]);
        most[2] = fmax(most[2], its[0] + its[1]);
    }
    *now = all[2];
    t->gradient[t->n] = most[0];
    t->apply[t->n] = most[1];
    t->total[t->n++] = most[2];
    xfree(all);
    return rc;
}

/* Seconds of an exchange of `size` bytes for each member of a level, on the slowest rank. */
static int time_call(struct forecast *f, enum comm_level level, size_t size, double *seconds,
                     struct err *err) {
    int n = comm_count(f->comm, level);
    double mine = 0, *all = xcalloc((size_t)f->comm->size, sizeof mine);
    for (int i = 0; i < n; i++) f->count[i] = size;
    comm_gather(f->comm, all, &mine, sizeof mine); /* so that all begin together */
    mine = -clock_seconds();
    comm_begin(f->comm);
    comm_exchange(f->comm, level, (char *)f->block + f->large, f->block, f->count);
    comm_end(f->comm);
    int rc = comm_sync(f->comm, err);
    if (!rc) rc = backend_sync(f->be, err);
    mine += clock_seconds();
    comm_gather(f->comm, all, &mine, sizeof mine);
    *seconds = 0;
    for (int r = 0; r < f->comm->size; r++) *seconds = fmax(*seconds, all[r]);
    xfree(all);
    return rc;
}

static int time_calls(struct forecast *f, struct calls *c, struct err *err) {
    int rc = 0;
    for (int level = 0; level < 2 && !rc; level++) {
        int n = comm_count(f->comm, (enum comm_level)level);
        if (n == 1) continue;
        rc = time_call(f, (enum comm_level)level, sizeof(float), &c->small[level][c->n], err);
        if (!rc)
            rc = time_call(f, (enum comm_level)level, f->large / (size_t)n, &c->large[level][c->n],
                           err);
    }
    c->n++;
    return rc;
}

/* alpha and beta of this many members. */
static void links_of(const struct forecast *f, struct calls *c, struct predict_link link[2]) {
    for (int level = 0; level < 2; level++) {
        int n = comm_count(f->comm, (enum comm_level)level);
        size_t each = f->large / (size_t)n;
        double bytes = (double)each * (n - 1);
        double small = median(c->small[level], c->n), large = median(c->large[level], c->n);
        link[level] =
            (struct predict_link){.alpha = small, .rate = bytes / fmax(large - small, 1e-9)};
    }
}

/* Updates of each rank for itself, and, if there are several, of all together and calls of theirs,
 * alternately for as long as the options say: what else the machine does hits all alike. */
static int time_updates(struct forecast *f, struct optimizer *const opt[2], struct times t[2],
                        struct calls *calls, struct err *err) {
    double now, end = 0;
    int rc = 0;
    memset(t, 0, 2 * sizeof *t);
    calls->n = 0;
    for (int i = -1; !rc && i < MOST_UPDATES; i++) {
        rc = time_update(f, opt[0], &t[0], &now, err);
        if (!rc && opt[1]) rc = time_update(f, opt[1], &t[1], &now, err);
        if (!rc && opt[1]) rc = time_calls(f, calls, err);
        if (i < 0) { /* warms up */
            memset(t, 0, 2 * sizeof *t);
            calls->n = 0;
            end = now + f->o->seconds;
        } else if (i + 1 >= LEAST_UPDATES && now >= end) {
            break;
        }
    }
    return rc;
}

static int measure_size(struct forecast *f, struct times t[2], struct calls *calls,
                        struct err *err) {
    struct optimizer_options options = optimizer_defaults;
    struct optimizer *opt[2] = {NULL, NULL};
    int rc = optimizer_new(&opt[0], f->model, f->acts, &options, err);
    options.comm = f->comm;
    options.accumulate = f->comm->size;
    if (!rc && f->comm->size > 1) rc = optimizer_new(&opt[1], f->model, f->acts, &options, err);
    rc = ranks_agree(f->comm, rc, err);
    if (!rc) rc = time_updates(f, opt, t, calls, err);
    optimizer_free(opt[0]);
    optimizer_free(opt[1]);
    return rc;
}

static int measure(struct forecast *f, struct err *err) {
    struct times *t = xcalloc(2, sizeof *t);
    struct calls *calls = xcalloc(1, sizeof *calls);
    int rc = 0;
    for (int k = SIZES - 1; k >= 0 && !rc; k--) {
        int n_seq = (f->o->tokens >> k) / BENCH_SHORT;
        rc = bench_fill(&f->batch, n_seq, &f->o->config, err);
        if (!rc) rc = measure_size(f, t, calls, err);
        if (rc) break;
        f->step[f->n_step] = (struct predict_step){n_seq * BENCH_SHORT, median(t->gradient, t->n),
                                                   median(t->apply, t->n)};
        if (t[1].n) {
            struct together *all = &f->together[f->n_step];
            all->seconds = median(t[1].total, t[1].n);
            all->sent = t[1].sent / t[1].n;
            links_of(f, calls, all->link);
        }
        f->n_step++;
    }
    xfree(t);
    xfree(calls);
    return rc;
}

/* Bytes per second of the op sum over two rows. */
static int measure_sum(struct forecast *f, struct err *err) {
    int n = (int)min_i64(f->what.n, SHARD_BUCKET);
    size_t size = (size_t)n * sizeof(float);
    double best = 1e30;
    void *block = backend_alloc(f->be, 3 * size, err);
    if (!block) return HEED_ENOMEM;
    backend_zero(f->be, block, 3 * size);
    struct sum_args args = {.out = mat_of(block, 1, n, DTYPE_F32),
                            .x = mat_of((char *)block + size, 2, n, DTYPE_F32)};
    backend_plan(f->be);
    sum(f->be, &args);
    int rc = backend_commit(f->be, err);
    for (int i = 0; !rc && i < LEAST_UPDATES; i++) {
        double begin = clock_seconds();
        sum(f->be, &args);
        rc = backend_sync(f->be, err);
        if (i > 0) best = fmin(best, clock_seconds() - begin);
    }
    f->what.sum_rate = 3 * (double)size / best;
    backend_free(f->be, block);
    return rc;
}

/* The buckets that begin before the parameters of the layers do are finished last. */
static double late_share(const struct param_table *table) {
    const struct param *first = param_table_find(table, "enc.0.self.w_qkv");
    double n = (double)table->n_elem;
    return first ? fmin(ceil((double)first->offset / SHARD_BUCKET) * SHARD_BUCKET, n) / n : 1;
}

static int build(struct forecast *f, struct backend_options *where, struct err *err) {
    const struct bench_scale_options *o = f->o;
    int rc = backend_open(&f->be, where, err), tokens = o->tokens;
    if (rc) return rc;
    enum dtype type = options_dtype(o->on.dtype, f->be);
    if (o->config.max_len < BENCH_SHORT)
        return cli_usage(err, "--max-len: %d is less than the %d tokens of a sentence",
                         o->config.max_len, BENCH_SHORT);
    if (!rc) rc = model_new(&f->model, &o->config, f->be, type, err);
    if (!rc) rc = model_draw(f->model, 1, err);
    if (!rc) rc = acts_new(&f->acts, f->model, tokens, tokens, 1, err);
    if (!rc) rc = batch_init(&f->batch, tokens, tokens, tokens / BENCH_SHORT, 2, err);
    if (rc) return rc;
    ranks_attach(f->comm, f->be);
    const struct param_table *table = &f->model->table;
    f->what = (struct predict_model){.n = (int64_t)table->n_elem,
                                     .grad_size = (int)dtype_size(DTYPE_F32),
                                     .param_size = (int)dtype_size(type),
                                     .late = late_share(table)};
    snprintf(f->preset, NAME, "%s", config_preset_names[o->preset]);
    snprintf(f->device, NAME, "%s", backend_name(f->be));
    snprintf(f->dtype, NAME, "%s", dtype_name(type));
    size_t n = (size_t)f->comm->size;
    f->large = (size_t)min_i64(f->what.n, SHARD_BUCKET) * sizeof(float);
    f->count = xcalloc(n, sizeof *f->count);
    f->block = backend_alloc(f->be, 2 * f->large + 2 * n * sizeof(float), err);
    if (!f->block) return HEED_ENOMEM;
    backend_zero(f->be, f->block, 2 * f->large);
    return measure_sum(f, err);
}

/* ---- an earlier measurement ------------------------------------------------------------------ */

static int read_name(const struct json_in *in, const char *key, char name[NAME], struct err *err) {
    const char *text = NULL;
    int rc = json_in_string(in, key, &text, err);
    if (!rc) snprintf(name, NAME, "%s", text);
    return rc;
}

/* A number above 0. */
static int read_positive(const struct json_in *in, const char *key, double *x, struct err *err) {
    int rc = json_in_real(in, key, x, err);
    return !rc && !(*x > 0) ? json_in_expected(in, key, "a number above 0", err) : rc;
}

static int read_step(struct forecast *f, const struct json_in *in, struct err *err) {
    double n = 0, tokens = 0, gradient = 0, apply = 0, rate = 0, param = 0, late = 0;
    int rc = read_name(in, "preset", f->preset, err);
    if (!rc) rc = read_name(in, "device", f->device, err);
    if (!rc) rc = read_name(in, "dtype", f->dtype, err);
    if (!rc) rc = read_positive(in, "parameters", &n, err);
    if (!rc) rc = read_positive(in, "bytes_per_parameter", &param, err);
    if (!rc) rc = read_positive(in, "late_share", &late, err);
    if (!rc) rc = read_positive(in, "sum_gb_per_s", &rate, err);
    if (!rc) rc = read_positive(in, "tokens", &tokens, err);
    if (!rc) rc = read_positive(in, "gradient_ms", &gradient, err);
    if (!rc) rc = read_positive(in, "adam_ms", &apply, err);
    if (rc) return rc;
    if (f->n_step == MOST_SIZES || n > 1e13 || tokens > 1e9 || late > 1 || param > 8)
        return err_set(err, HEED_ELIMIT, "%.100s: more than %d lines, or numbers beyond reason",
                       in->where, MOST_SIZES);
    f->what = (struct predict_model){.n = (int64_t)n,
                                     .grad_size = (int)sizeof(float),
                                     .param_size = (int)param,
                                     .late = late,
                                     .sum_rate = 1e9 * rate};
    f->step[f->n_step++] = (struct predict_step){(int)tokens, gradient / 1e3, apply / 1e3};
    return 0;
}

static int read_line(struct forecast *f, const char *text, size_t size, struct err *err) {
    json_t *line = NULL;
    struct json_in in;
    const char *what = "";
    int rc = json_in_text(&line, text, size, f->o->measured, err);
    if (!rc) rc = json_in_begin(&in, line, f->o->measured, err);
    if (!rc && json_in_has(&in, "what")) rc = json_in_string(&in, "what", &what, err);
    if (!rc && strcmp(what, "step") == 0) rc = read_step(f, &in, err);
    json_decref(line);
    return rc;
}

/* The lines that an earlier run has printed with --json. */
static int read_measured(struct forecast *f, struct err *err) {
    char *data = NULL, *at, *end;
    size_t size = 0;
    int rc = file_read_all(&data, &size, f->o->measured, JSON_IN_MAX_SIZE, err);
    if (rc) return rc;
    for (at = data; !rc && at < data + size; at = end + 1) {
        end = memchr(at, '\n', (size_t)(data + size - at));
        if (!end) end = data + size;
        if (end > at) rc = read_line(f, at, (size_t)(end - at), err);
    }
    xfree(data);
    if (!rc && !f->n_step)
        rc = err_set(err, HEED_EFORMAT, "%s: no steps that heed bench scale --predict --json timed",
                     f->o->measured);
    return rc;
}

/* ---- report ---------------------------------------------------------------------------------- */

static void print_steps(const struct forecast *f) {
    double x[MOST_SIZES], y[MOST_SIZES];
    int json = f->o->on.json;
    if (!json)
        printf("%s, %s %s, %lld parameters, sentences of %d tokens\n\n"
               "measured on one rank that talks to nobody%s:\n%10s %14s %10s %14s\n",
               f->preset, f->device, f->dtype, (long long)f->what.n, BENCH_SHORT,
               f->comm->size > 1 ? ", the slowest of those at work" : "", "tokens", "gradient ms",
               "adam ms", "tokens/s");
    for (int i = 0; i < f->n_step; i++) {
        const struct predict_step *s = &f->step[i];
        x[i] = s->tokens;
        y[i] = s->gradient + s->apply;
        if (json)
            printf("{\"bench\":\"scale\",\"what\":\"step\",\"preset\":\"%s\",\"device\":\"%s\","
                   "\"dtype\":\"%s\",\"parameters\":%lld,\"bytes_per_parameter\":%d,"
                   "\"late_share\":%.6f,\"sum_gb_per_s\":%.4f,\"tokens\":%d,\"gradient_ms\":%.4f,"
                   "\"adam_ms\":%.4f}\n",
                   f->preset, f->device, f->dtype, (long long)f->what.n, f->what.param_size,
                   f->what.late, f->what.sum_rate / 1e9, s->tokens, 1e3 * s->gradient,
                   1e3 * s->apply);
        else
            printf("%10d %14.2f %10.2f %14.0f\n", s->tokens, 1e3 * s->gradient, 1e3 * s->apply,
                   s->tokens / y[i]);
    }
    struct fit_line line = fit_line(x, y, f->n_step);
    if (!json && f->n_step > 1)
        printf("about %.2f ms and %.3f ms per 1,000 tokens\n", 1e3 * line.at_zero,
               1e6 * line.slope);
}

static void print_assumptions(const struct forecast *f) {
    const struct bench_scale_options *o = f->o;
    if (o->on.json) return;
    printf("\nassumed, not measured:\n"
           "  a rank sends %g GB/s within its machine of %d ranks, %g GB/s to others, and receives "
           "as many\n"
           "  at the same time, whoever else talks; a call takes %g us and %g us for each further "
           "peer\n"
           "  every rank has one batch of an update and is as fast as the one measured; none waits "
           "for data\n"
           "  per parameter %d bytes of gradient are exchanged and %d gathered, in buckets of %d\n"
           "  Adam takes 1 / ranks of its time; sums run at the %.1f GB/s that the op was measured "
           "at\n"
           "  three times an update a few numbers go to all ranks, in log2(ranks) rounds\n"
           "  overlap, through NCCL alone: the exchange goes on beside the backward pass (2/3 of "
           "the gradient's\n"
           "  time), but for the buckets that it finishes last, with %.0f%% of the parameters\n",
           o->inside, o->per_machine, o->across, o->latency, o->message, f->what.grad_size,
           f->what.param_size, SHARD_BUCKET, f->what.sum_rate / 1e9, 100 * f->what.late);
}

static void print_prediction(const struct forecast *f, const struct predict_step *s, int ranks,
                             int inside) {
    struct predict_cost c = predict_update(&f->what, f->link, s, ranks, inside);
    double alone = s->gradient + s->apply, share = alone / c.total, hidden = alone / c.overlapped;
    if (f->o->on.json)
        printf("{\"bench\":\"scale\",\"what\":\"predicted\",\"ranks\":%d,\"inside\":%d,"
               "\"tokens\":%d,\"ms\":%.4f,\"exchange_ms\":%.4f,\"gather_ms\":%.4f,"
               "\"words_ms\":%.4f,\"sums_ms\":%.4f,\"tokens_per_s\":%.0f,\"efficiency\":%.4f,"
               "\"overlapped\":%.4f}\n",
               ranks, inside, s->tokens, 1e3 * c.total, 1e3 * c.exchange, 1e3 * c.gather,
               1e3 * c.words, 1e3 * c.sums, (double)ranks * s->tokens / c.total, share, hidden);
    else
        printf("%10d %6d %10.2f %10.2f %8.2f %8.2f %14.0f %9.1f%% %9.1f%%\n", s->tokens, ranks,
               1e3 * c.total, 1e3 * c.exchange, 1e3 * c.gather, 1e3 * (c.words + c.sums),
               (double)ranks * s->tokens / c.total, 100 * share, 100 * hidden);
}

static void print_predictions(const struct forecast *f) {
    int n_world = (int)(sizeof worlds / sizeof *worlds);
    if (!f->o->on.json)
        printf("\npredicted, not measured; efficiency: tokens/s of a rank among so many against "
               "one alone\n%10s %6s %10s %10s %8s %8s %14s %10s %10s\n",
               "tokens", "ranks", "ms", "exchange", "gather", "other", "tokens/s", "efficiency",
               "overlap");
    for (int i = 0; i < f->n_step; i++)
        for (int w = 0; w < n_world; w++)
            print_prediction(f, &f->step[i], worlds[w], min_int(worlds[w], f->o->per_machine));
}

/* ---- these ranks ----------------------------------------------------------------------------- */

/* An update of these ranks, the way they talk. */
static double predicted(const struct forecast *f, const struct predict_link link[2],
                        const struct predict_step *s) {
    struct predict_cost c = predict_update(&f->what, link, s, f->comm->size, f->comm->inside);
    return comm_beside(f->comm) ? c.overlapped : c.total;
}

/* Both predictions: with the links that were given and with those that were measured. */
static void print_beside(const struct forecast *f, const struct predict_step *s,
                         const struct together *t) {
    int ranks = f->comm->size, inside = f->comm->inside;
    double given = predicted(f, f->link, s), found = predicted(f, t->link, s);
    double share = t->sent / predict_sent(&f->what, ranks);
    if (f->o->on.json)
        printf("{\"bench\":\"scale\",\"what\":\"measured\",\"ranks\":%d,\"inside\":%d,"
               "\"tokens\":%d,\"predicted_ms\":%.4f,\"by_links_ms\":%.4f,\"measured_ms\":%.4f,"
               "\"inside_gb_per_s\":%.4f,\"across_gb_per_s\":%.4f,\"sent_bytes\":%.0f,"
               "\"sent_share\":%.5f,\"threads\":%d,\"cpus\":%d}\n",
               ranks, inside, s->tokens, 1e3 * given, 1e3 * found, 1e3 * t->seconds,
               inside > 1 ? t->link[COMM_INSIDE].rate / 1e9 : 0,
               ranks > inside ? t->link[COMM_ACROSS].rate / 1e9 : 0, t->sent, share, f->n_thread,
               f->n_cpu);
    else
        printf("%10d %12.2f %12.2f %+9.1f%% %12.2f %+9.1f%% %14.0f %8.4f\n", s->tokens,
               1e3 * t->seconds, 1e3 * given, 100 * (given / t->seconds - 1), 1e3 * found,
               100 * (found / t->seconds - 1), t->sent, share);
}

static void print_links(const struct forecast *f) {
    static const char *const name[] = {"within a machine", "to others"};
    const struct predict_link *link = f->together[f->n_step - 1].link;
    for (int level = 0; level < 2; level++)
        if (comm_count(f->comm, (enum comm_level)level) > 1)
            printf("  a rank sends %.3f GB/s %s; a call takes %.0f us\n", link[level].rate / 1e9,
                   name[level], 1e6 * link[level].alpha);
}

static void print_comparison(const struct forecast *f) {
    if (!f->o->on.json) {
        printf("\nthese %d ranks, %d on a machine, talking through %s, measured:\n", f->comm->size,
               f->comm->inside, comm_name(f->comm));
        print_links(f);
        if (f->n_thread > f->n_cpu)
            printf("  %d threads of theirs share %d CPUs of this machine, among them those that "
                   "carry messages:\n  a prediction holds for ranks that have CPUs of their own, "
                   "not for these\n",
                   f->n_thread, f->n_cpu);
        printf("an update as it was measured, predicted by what was assumed, and by these links;\n"
               "bytes that rank 0 sent in it, and their share of %d x parameters x (ranks - 1) / "
               "ranks\n%10s %12s %12s %10s %12s %10s %14s %8s\n",
               f->what.grad_size + f->what.param_size, "tokens", "measured ms", "assumed ms",
               "off by", "by links ms", "off by", "bytes sent", "share");
    }
    for (int i = 0; i < f->n_step; i++) print_beside(f, &f->step[i], &f->together[i]);
}

static void report(const struct forecast *f) {
    print_steps(f);
    print_assumptions(f);
    print_predictions(f);
    if (f->comm->size > 1) print_comparison(f);
}

int bench_forecast_run(const struct bench_scale_options *o, struct err *err) {
    struct forecast f = {.o = o};
    struct backend_options where = o->on.where;
    int rc = ranks_launch(&o->ranks, &(struct ranks_job){0}, err);
    if (!rc) rc = ranks_open(&f.comm, &o->ranks, &where, err);
    if (rc) return rc;
    for (int i = 0; i < 2; i++)
        f.link[i] = (struct predict_link){.alpha = o->latency / 1e6,
                                          .message = o->message / 1e6,
                                          .rate = 1e9 * (i == COMM_INSIDE ? o->inside : o->across)};
    f.n_thread = f.comm->local_size * where.n_thread;
    f.n_cpu = (int)sysconf(_SC_NPROCESSORS_ONLN); /* however they are bound */
    if (o->measured && f.comm->size > 1)
        rc = cli_usage(err, "--measured: %d ranks measure for themselves", f.comm->size);
    else
        rc = o->measured ? read_measured(&f, err) : build(&f, &where, err);
    rc = ranks_agree(f.comm, rc, err);
    if (!rc && !o->measured) rc = measure(&f, err);
    if (!rc && f.comm->rank == 0) report(&f);
    if (f.be) backend_free(f.be, f.block);
    xfree(f.count);
    batch_release(&f.batch);
    acts_free(f.acts);
    model_free(f.model);
    comm_close(f.comm);
    backend_close(f.be);
    return rc;
}
