/* cmd_demo.c — `heed demo`: a Transformer learns to reverse sequences, from nothing, in under a minute.
 *
 * The task needs what attention is for: output i depends on input n - 1 - i, with n different for every
 * sentence. Training data are drawn at random, so the sentences it is tested on were never seen as
 * such; the test counts a sentence only if every symbol is right and it ends where it should. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "cli/bench.h"
#include "cli/cli.h"
#include "search/greedy.h"
#include "train/optimizer.h"

enum {
    EOS = 3,
    BOS = 2,
    FIRST = 4,
    N_SYMBOL = 26,
    SHORTEST = 1,
    LONGEST = 12,
    N_TEST = 200,
    SHOWN = 5
};
enum { TOKENS = 1024, CHECK_EVERY = 50 };

static int threads, seed = 1, max_steps = 4000;
static const char *isa, *dtype = "f32";

static const struct option rows[] = {
    {"threads", OPTION_INT, &threads, "N", "threads, 0 for all CPUs", 0, 1024},
    {"isa", OPTION_STRING, &isa, "NAME", "instruction set", 0, 0},
    {"dtype", OPTION_STRING, &dtype, "TYPE", "f32 or bf16", 0, 0},
    {"seed", OPTION_INT, &seed, "N", "random seed", 0, 1 << 30},
    {"max-steps", OPTION_INT, &max_steps, "N", "give up after that many updates", 1, 1 << 30},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "demo",
                                       .summary =
                                           "train a toy model that reverses sequences, and show it",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

struct demo {
    struct backend *be;
    struct model *model;
    struct acts *acts, *encoder;
    struct optimizer *opt;
    struct batch train, test;
    struct rng rng, test_rng;
    int32_t out[N_TEST * (LONGEST + 2)];
    int out_len[N_TEST];
};

/* ---------------------------------------------------------------------------------- data --------- */

/* Adds random pairs until the batch is full: symbols and their reverse, both with an end mark. */
static int fill(struct batch *b, struct rng *rng, int most, struct err *err) {
    batch_clear(b);
    for (int s = 0; s < most; s++) {
        int32_t src[LONGEST + 1], tgt[LONGEST + 1];
        int n = SHORTEST + (int)rng_below(rng, LONGEST - SHORTEST + 1);
        for (int i = 0; i < n; i++)
            tgt[n - 1 - i] = src[i] = FIRST + (int32_t)rng_below(rng, N_SYMBOL);
        src[n] = tgt[n] = EOS;
        int rc = batch_add(b, src, n + 1, tgt, n + 1, err);
        if (rc <= 0) return rc;
    }
    return 0;
}

static void print_symbols(const int32_t *ids, int n) {
    for (int i = 0; i < n; i++) putchar(ids[i] >= FIRST ? 'a' + (int)ids[i] - FIRST : '?');
}

/* ---------------------------------------------------------------------------------- test --------- */

/* Is the output of sentence s the target without its end mark? */
static int exact(const struct demo *d, int s) {
    const int32_t *want = d->test.tgt_out + d->test.tgt.start[s], *got = d->out + s * (LONGEST + 2);
    int n = d->test.tgt.start[s + 1] - d->test.tgt.start[s] - 1;
    return d->out_len[s] == n && memcmp(got, want, (size_t)n * sizeof *got) == 0;
}

static int score(struct demo *d, int *n_exact, struct err *err) {
    int rc = greedy_search(d->model, d->encoder, &d->test.src, d->test.n_seq, BOS, EOS, LONGEST + 2,
                           d->out, d->out_len, err);
    *n_exact = 0;
    for (int s = 0; !rc && s < d->test.n_seq; s++) *n_exact += exact(d, s);
    return rc;
}

static void show(const struct demo *d) {
    for (int s = 0; s < SHOWN; s++) {
        const int32_t *src = d->test.src.ids + d->test.src.start[s];
        int n = d->test.src.start[s + 1] - d->test.src.start[s] - 1;
        printf("  ");
        print_symbols(src, n);
        printf("%*s -> ", LONGEST - n, "");
        print_symbols(d->out + s * (LONGEST + 2), d->out_len[s]);
        printf("%s\n", exact(d, s) ? "" : "   (wrong)");
    }
}

/* ---------------------------------------------------------------------------------- training ----- */

static int train(struct demo *d, struct err *err) {
    int tty = isatty(STDERR_FILENO), n_exact = 0, rc = 0;
    double begin = bench_now();
    while (!rc && d->opt->step < max_steps) {
        struct update_report report;
        const struct batch *b = &d->train;
        if ((rc = fill(&d->train, &d->rng, TOKENS, err)) ||
            (rc = optimizer_update(d->opt, &b, 1, &report, err)))
            break;
        if (d->opt->step % CHECK_EVERY) continue;
        if ((rc = score(d, &n_exact, err))) break;
        fprintf(stderr, "%sstep %5lld  loss %.3f  rate %.2e  %d of %d sequences exact  %.1f s%s",
                tty ? "\r\033[K" : "", (long long)d->opt->step, report.loss / (double)report.n_tok,
                report.rate, n_exact, d->test.n_seq, bench_now() - begin, tty ? "" : "\n");
        if (100 * n_exact > 99 * d->test.n_seq) break;
    }
    if (tty) fprintf(stderr, "\n");
    if (rc) return rc;
    printf("%d of %d unseen sequences reversed exactly after %lld updates, %.1f s:\n", n_exact,
           d->test.n_seq, (long long)d->opt->step, bench_now() - begin);
    show(d);
    if (100 * n_exact <= 99 * d->test.n_seq)
        return err_set(err, HEED_EINTERNAL, "demo: only %d of %d exact after %d updates", n_exact,
                       d->test.n_seq, max_steps);
    return 0;
}

static int build(struct demo *d, struct err *err) {
    struct config config;
    enum dtype type;
    struct optimizer_options options = optimizer_defaults;
    options.warmup = 300;
    options.lr_scale = 0.25;
    options.seed = (uint64_t)seed;
    d->rng.key = (uint64_t)seed;
    d->test_rng.key = ~(uint64_t)seed;
    int rc = bench_dtype(&type, dtype, err);
    if (!rc) rc = config_preset(&config, "tiny", err);
    if (rc) return rc;
    config.n_vocab_src = config.n_vocab_tgt = FIRST + N_SYMBOL;
    config.n_layer_enc = config.n_layer_dec = 2;
    config.d_model = 64;
    config.d_ff = 256;
    config.max_len = LONGEST + 2;
    config.dropout = 0;
    rc = config_check(&config, err);
    if (!rc)
        rc = backend_open(
            &d->be, &(struct backend_options){.device = "cpu", .n_thread = threads, .isa = isa},
            err);
    if (!rc) rc = model_new(&d->model, &config, d->be, type, err);
    if (!rc) rc = model_draw(d->model, (uint64_t)seed, err);
    if (!rc) rc = acts_new(&d->acts, d->model, TOKENS, TOKENS, 1, err);
    if (!rc) rc = acts_new(&d->encoder, d->model, N_TEST * (LONGEST + 1), 0, 0, err);
    if (!rc) rc = optimizer_new(&d->opt, d->model, d->acts, &options, err);
    if (!rc) rc = batch_init(&d->train, TOKENS, TOKENS, TOKENS, BOS, err);
    if (!rc)
        rc = batch_init(&d->test, N_TEST * (LONGEST + 1), N_TEST * (LONGEST + 1), N_TEST, BOS, err);
    return rc ? rc : fill(&d->test, &d->test_rng, N_TEST, err);
}

static int run(int argc, char **argv, struct err *err) {
    int rc = options_parse(&command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    struct demo *d = xcalloc(1, sizeof *d);
    rc = build(d, err);
    if (!rc) {
        printf("A Transformer of %zu parameters learns to reverse up to %d letters.\n",
               d->model->table.n_value, LONGEST);
        fflush(stdout);
        rc = train(d, err);
    }
    batch_release(&d->train);
    batch_release(&d->test);
    optimizer_free(d->opt);
    acts_free(d->acts);
    acts_free(d->encoder);
    model_free(d->model);
    backend_close(d->be);
    xfree(d);
    return rc;
}

const struct subcommand cmd_demo = {.name = "demo",
                                    .summary =
                                        "train a toy model that reverses sequences, and show it",
                                    .run = run,
                                    .commands = commands};
