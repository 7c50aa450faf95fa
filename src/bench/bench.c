/* bench.c — `heed bench gemm|train|translate|scale|data`: the options. What they do is in the files
 * named after them. Nothing but this folder includes bench.h. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "backend/ops.h"
#include "backend/profile.h"
#include "base/clock.h"
#include "bench/bench.h"
#include "cli/cli.h"
#include "data/corpus.h"

/* ---- shared ---------------------------------------------------------------------------------- */

double bench_peak_mb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss / 1024.0;
}

int bench_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct reading {
    const uint64_t *words;
    size_t share; /* of a task, in words */
};

static void read_task(void *ctx, int task, int thread) {
    const struct reading *r = ctx;
    const uint64_t *at = r->words + (size_t)task * r->share;
    uint64_t sum[8] = {0}, all = 0;
    (void)thread;
    for (size_t i = 0; i + 8 <= r->share; i += 8)
        for (int k = 0; k < 8; k++) sum[k] += at[i + (size_t)k];
    for (int k = 0; k < 8; k++) all += sum[k];
    volatile uint64_t keep = all; /* so that nothing is optimised away */
    (void)keep;
}

double bench_read_rate(struct pool *pool, const void *memory, size_t size) {
    int n = 8 * pool_size(pool);
    struct reading r = {.words = memory, .share = size / sizeof(uint64_t) / (size_t)n};
    double start = clock_seconds();
    pool_run(pool, read_task, &r, n);
    return (double)r.share * sizeof(uint64_t) * n / (clock_seconds() - start);
}

double bench_print_ops(struct backend *be, double seconds, const char *rate) {
    double total = 0;
    for (int op = 0; op < OP_COUNT; op++) total += (double)backend_cost(be, (enum op)op)->ns / 1e9;
    printf("\n%-16s %8s %10s %8s %12s\n", "op", "calls", "ms", "share", rate);
    for (int op = 0; op < OP_COUNT; op++) {
        const struct op_cost *cost = backend_cost(be, (enum op)op);
        double ns = (double)cost->ns;
        if (cost->calls)
            printf("%-16s %8llu %10.1f %7.1f%% %12.1f\n", op_name((enum op)op),
                   (unsigned long long)cost->calls, ns / 1e6,
                   100 * ns / 1e9 / (seconds > 0 ? seconds : total), cost->flops / ns);
    }
    return total;
}

/* ---- options --------------------------------------------------------------------------------- */

static struct bench_gemm_options gemm = {.min_ms = 100};
static struct bench_device on = {.device = "cpu", .dtype = "f32"};
static struct bench_train_options train = {
    .preset = "base", .tokens = 4096, .length = 32, .seconds = 10};
static const char *translate_preset = "base";
static struct bench_translate_options translate = {
    .precision = "auto", .sentences = 256, .length = 32, .batch = 32, .beam = 4, .alpha = 0.6};
static struct bench_data_options data = {.tokens = 25000, .max_len = 256, .step_ms = 50};
static struct overrides overrides;

#define DEVICE_OPTIONS                                                                             \
    {"device", OPTION_STRING, &on.device, "NAME", "auto, cpu, cuda[:N] or ref", 0, 0},             \
        {"isa", OPTION_STRING, &on.isa, "NAME", "instruction set of the cpu device", 0, 0},        \
        {"threads", OPTION_INT, &on.threads, "N", "threads, 0 for all CPUs", 0, 1024},             \
        {"dtype", OPTION_STRING, &on.dtype, "TYPE", "f32 or bf16", 0, 0}, {                        \
        "json", OPTION_FLAG, &on.json, NULL, "one JSON object per line", 0, 0                      \
    }

static const struct option gemm_rows[] = {
    {"isa", OPTION_STRING, &gemm.isa, "NAME", "instruction set; all of this machine if not given",
     0, 0},
    {"dtype", OPTION_STRING, &gemm.dtype, "TYPE", "f32, bf16, or int8 (tiled); all if not given", 0,
     0},
    {"tiled", OPTION_FLAG, &gemm.tiled, NULL, "products with tiled weights, as frozen models have",
     0, 0},
    {"threads", OPTION_INT, &gemm.threads, "N", "threads, 0 for all CPUs", 0, 1024},
    {"m", OPTION_INT, &gemm.m, "ROWS", "only products of that many rows, 0 for all", 0, 1 << 20},
    {"min-ms", OPTION_INT, &gemm.min_ms, "N", "time each case for at least that long", 1, 100000},
    {"json", OPTION_FLAG, &gemm.json, NULL, "one JSON object per line", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct option train_rows[] = {
    {"preset", OPTION_STRING, &train.preset, "NAME", "tiny, small, base or big", 0, 0},
    {"tokens", OPTION_INT, &train.tokens, "N", "source and target tokens per batch", 1, 1 << 24},
    {"length", OPTION_INT, &train.length, "N", "tokens per sentence, 0 for mixed lengths", 0,
     1 << 20},
    {"bucketed", OPTION_FLAG, &train.bucketed, NULL,
     "a length per batch, its sentences close to it, as training has them", 0, 0},
    {"seconds", OPTION_FLOAT, &train.seconds, "X", "measure for at least that long", 0, 86400},
    DEVICE_OPTIONS,
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct option translate_rows[] = {
    {"model", OPTION_STRING, &translate.model, "DIR", "a model directory; else random weights", 0,
     0},
    {"preset", OPTION_STRING, &translate_preset, "NAME", "of the random model", 0, 0},
    {"precision", OPTION_STRING, &translate.precision, "P", "auto, f32, bf16 or int8", 0, 0},
    {"input", OPTION_STRING, &translate.input, "FILE", "source sentences as ids, a line each", 0,
     0},
    {"sentences", OPTION_INT, &translate.sentences, "N", "how many", 1, 1 << 24},
    {"length", OPTION_INT, &translate.length, "N", "tokens of a random sentence", 2, 1 << 20},
    {"batch", OPTION_INT, &translate.batch, "N", "sentences per batch", 1, 1 << 16},
    {"beam", OPTION_INT, &translate.beam, "N", "hypotheses per sentence", 1, 64},
    {"alpha", OPTION_FLOAT, &translate.alpha, "X", "length penalty", 0, 10},
    {"force-length", OPTION_INT, &translate.force, "N",
     "tokens of every translation, 0 for as they come", 0, 1 << 20},
    DEVICE_OPTIONS,
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct option scale_rows[] = {
    DEVICE_OPTIONS,
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct option data_rows[] = {
    {"src", OPTION_STRING, &data.src, "FILE", "source text: plain, gzip or xz", 0, 0},
    {"tgt", OPTION_STRING, &data.tgt, "FILE", "target text, line by line its translation", 0, 0},
    {"tokenizer", OPTION_STRING, &data.tokenizer, "FILE", "SentencePiece model (heed vocab)", 0, 0},
    {"tokens", OPTION_INT, &data.tokens, "N", "source and target tokens per batch", 1, 1 << 24},
    {"max-len", OPTION_INT, &data.max_len, "N", "longest sentence in tokens", 2, CORPUS_MAX_LEN},
    {"threads", OPTION_INT, &data.threads, "N", "threads that tokenise, 0 for all CPUs", 0, 1024},
    {"step-ms", OPTION_FLOAT, &data.step_ms, "X", "how long a training step is taken to last", 0.1,
     10000},
    {"json", OPTION_FLAG, &data.json, NULL, "one JSON object", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct command gemm_command = {
    .name = "bench gemm",
    .summary = "matrix products at the model's shapes, beside what the registers could do",
    .options = gemm_rows};
static const struct command train_command = {
    .name = "bench train",
    .summary = "training steps of a preset, beside the rate of its matrix products",
    .options = train_rows,
    .overrides = &overrides};
static const struct command translate_command = {
    .name = "bench translate",
    .summary = "translation by beam search, beside what memory and multipliers allow",
    .options = translate_rows,
    .overrides = &overrides};
static const struct command scale_command = {
    .name = "bench scale",
    .summary = "how cost grows with the number and the length of sentences",
    .options = scale_rows};
static const struct command data_command = {
    .name = "bench data",
    .summary = "tokenising and batching, and what they cost beside a training step",
    .usage = "--src FILE --tgt FILE --tokenizer FILE [options]",
    .options = data_rows};
static const struct command *const commands[] = {&gemm_command,  &train_command, &translate_command,
                                                 &scale_command, &data_command,  NULL};

/* ---- running --------------------------------------------------------------------------------- */

static int run_gemm(struct err *err) {
    return gemm.tiled ? bench_tiled_run(&gemm, err) : bench_gemm_run(&gemm, err);
}

static int config_of(struct config *config, const char *preset, const char *n_vocab,
                     struct err *err) {
    struct overrides with_vocab = {.n = 1, .item = {{"n_vocab", n_vocab}}};
    for (int i = 0; i < overrides.n && with_vocab.n < MAX_OVERRIDES; i++)
        with_vocab.item[with_vocab.n++] = overrides.item[i];
    return options_config(config, preset, &with_vocab, err);
}

static int run_translate(struct err *err) {
    int rc = translate.model ? 0 : config_of(&translate.config, translate_preset, "32000", err);
    translate.on = on;
    return rc ? rc : bench_translate_run(&translate, err);
}

static int run_train(struct err *err) {
    int rc = config_of(&train.config, train.preset, "37000", err); /* PAPER: 5.1 */
    train.on = on;
    return rc ? rc : bench_train_run(&train, err);
}

static int run_scale(struct err *err) { return bench_scale_run(&on, err); }

static int run_data(struct err *err) {
    if (!data.src || !data.tgt || !data.tokenizer)
        return cli_usage(err, "bench data: --src, --tgt and --tokenizer are needed");
    return bench_data_run(&data, err);
}

static int run(int argc, char **argv, struct err *err) {
    static int (*const runs[])(struct err *) = {run_gemm, run_train, run_translate, run_scale,
                                                run_data};
    const char *what = argc > 0 ? argv[0] : "";
    if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0) {
        for (int i = 0; commands[i]; i++) options_help(commands[i]);
        return 0;
    }
    for (int i = 0; commands[i]; i++) {
        if (strcmp(commands[i]->name + strlen("bench "), what) != 0) continue;
        int rc = options_parse(commands[i], argc - 1, argv + 1, err);
        return rc > 0 ? 0 : rc < 0 ? rc : runs[i](err);
    }
    return cli_usage(err, "bench: '%s' is not one of gemm, train, translate, scale, data", what);
}

const struct subcommand cmd_bench = {
    .name = "bench",
    .summary = "measure this machine: gemm, train, translate, scale, data",
    .run = run,
    .commands = commands};
