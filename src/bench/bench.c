/* bench.c — `heed bench gemm|train|translate|serve|scale|data|layers|comm`: the options. What they
 * do is in the files named after them. Nothing but this folder includes bench.h. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
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

double bench_own_mb(void) {
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    double kb = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "RssAnon:", 8) == 0) kb = strtod(line + 8, NULL);
    if (f) fclose(f);
    return kb / 1024.0;
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

static struct bench_gemm_options gemm;
static struct bench_train_options train;
static struct bench_translate_options translate;
static struct bench_serve_options serve;
static struct bench_scale_options scale;
static struct bench_data_options data;
static struct bench_layers_options layers;
static struct bench_comm_options talk;
static struct config fields;

#define DTYPE_ROW(FIELD)                                                                           \
    ROW(CHOICE, "dtype", FIELD, "f32", "type to compute in; auto is f32", .choices = dtype_names)
#define BENCH_ROWS(WHERE, DTYPE, JSON) DEVICE_ROWS(WHERE, "cpu"), JSON_ROW(JSON), DTYPE_ROW(DTYPE)
#define PRESET_ROW                                                                                 \
    ROW(CHOICE, "preset", preset, "base", "the model, see the paper's Table 3",                    \
        .choices = config_preset_names)

#define OPTIONS_OF bench_gemm_options
static const char *const gemm_types[] = {"all", "f32", "bf16", "int8", NULL};
static const struct option gemm_rows[] = {
    ROW(STRING, "isa", isa, NULL, "instruction set; all of this machine if not given",
        .arg = "NAME", .choices = isa_names),
    ROW(CHOICE, "dtype", dtype, "all", "type to compute in; int8 needs --tiled",
        .choices = gemm_types),
    ROW(FLAG, "tiled", tiled, NULL, "products with tiled weights, as frozen models have"),
    THREADS_ROW(threads),
    ROW(INT, "m", m, "0", "rows of x in every product; 0: several numbers of them", .max = 1 << 20),
    ROW(INT, "min_ms", min_ms, "100", "time each case for at least this long", .min = 1,
        .max = 100000),
    JSON_ROW(json),
    {.name = NULL},
};
#undef OPTIONS_OF

#define OPTIONS_OF bench_train_options
static const struct option train_rows[] = {
    PRESET_ROW,
    ROW(INT, "tokens", tokens, "4096", "source and target tokens per batch", .min = 1,
        .max = 1 << 24),
    ROW(INT, "length", length, "32", "tokens per sentence; 0: mixed lengths", .max = 1 << 20),
    ROW(FLAG, "bucketed", bucketed, NULL,
        "one length per batch, with sentences close to it, as in training"),
    ROW(F64, "seconds", seconds, "10", "measure for at least this long", .max = 86400),
    ROW(INT, "accumulate", accumulate, "1",
        "also time updates of N batches, beside their gradients and one pass of Adam", .min = 1,
        .max = 64),
    BENCH_ROWS(on.where, on.dtype, on.json),
    {.name = NULL},
};
#undef OPTIONS_OF

#define OPTIONS_OF bench_translate_options
static const struct option translate_rows[] = {
    ROW(STRING, "model", model, NULL, "a model, by name or directory; else random weights",
        .arg = "MODEL"),
    PRESET_ROW,
    PRECISION_ROW(precision),
    ROW(STRING, "input", input, NULL, "source sentences as ids, one per line", .arg = "FILE"),
    ROW(INT, "sentences", sentences, "256", "how many", .min = 1, .max = 1 << 24),
    ROW(INT, "length", length, "32", "tokens of a random sentence", .min = 2, .max = 1 << 20),
    ROW(INT, "batch", batch, "32", "sentences per batch", .min = 1, .max = 1 << 16),
    DEVICE_ROWS(where, "cpu"),
    JSON_ROW(json),
    {.name = NULL},
};
#undef OPTIONS_OF

#define OPTIONS_OF bench_serve_options
static const struct option serve_rows[] = {
    ROW(STRING, "model", model, NULL, "a model, by name or directory", .arg = "MODEL",
        .required = 1),
    ROW(STRING, "input", input, NULL, "sentences, one per line: plain, gzip or xz", .arg = "FILE",
        .required = 1),
    PRECISION_ROW(precision),
    ROW(INT, "sentences", sentences, "256", "how many of them", .min = 1, .max = 1 << 24),
    ROW(INT, "clients", clients, "64", "that send one sentence after another", .min = 1,
        .max = 1000),
    ROW(INT, "bulk", bulk, "5000", "sentences of the job beside which a short one is sent",
        .min = 1, .max = 1 << 20),
    ROW(INT, "seats", seats, "0", "sentences in work at a time; 0: as suits the device",
        .max = 1 << 16),
    ROW(INT, "busy_rows", busy_rows, "0",
        "hypotheses of others in a step beside short requests; 0: as suits the device",
        .max = 1 << 20),
    DEVICE_ROWS(where, "cpu"),
    JSON_ROW(json),
    {.name = NULL},
};
#undef OPTIONS_OF

#define OPTIONS_OF bench_scale_options
static const struct option scale_rows[] = {
    ROW(FLAG, "predict", predict, NULL,
        "time updates of four sizes, and predict those of 8, 64 and 512 ranks"),
    ROW(STRING, "measured", measured, NULL,
        "predict: from this file, which an earlier --predict --json printed, not by measuring",
        .arg = "FILE"),
    PRESET_ROW,
    ROW(INT, "tokens", tokens, "24576",
        "predict: source and target tokens of the largest batch; also 1/2, 1/4 and 1/8 of them",
        .min = 8 * BENCH_SHORT, .max = 1 << 24),
    ROW(F64, "seconds", seconds, "2", "predict: measure each size for at least this long",
        .max = 86400),
    ROW(INT, "per_machine", per_machine, "8", "predict: ranks of a machine, a power of two",
        .min = 1, .max = 64),
    ROW(F64, "inside", inside, "340", "predict: GB/s that a rank sends within its machine",
        .min = 1e-6, .max = 1e6),
    ROW(F64, "across", across, "42.5", "predict: GB/s that a rank sends to other machines",
        .min = 1e-6, .max = 1e6),
    ROW(F64, "latency", latency, "20", "predict: microseconds of a call", .max = 1e9),
    ROW(F64, "message", message, "1", "predict: microseconds of each further peer of a call",
        .max = 1e9),
    RANKS_ROWS(ranks),
    BENCH_ROWS(on.where, on.dtype, on.json),
    {.name = NULL},
};
#undef OPTIONS_OF

#define OPTIONS_OF bench_data_options
static const struct option data_rows[] = {
    ROW(STRING, "src", src, NULL, "source text: plain, gzip or xz", .arg = "FILE", .required = 1),
    ROW(STRING, "tgt", tgt, NULL, "its translation, line by line", .arg = "FILE", .required = 1),
    ROW(STRING, "tokenizer", tokenizer, NULL, "SentencePiece model (heed vocab)", .arg = "FILE",
        .required = 1),
    ROW(INT, "tokens", tokens, "25000", "source and target tokens per batch", .min = 1,
        .max = 1 << 24),
    ROW(INT, "max_len", max_len, "256", "longest sentence in tokens", .min = 2,
        .max = CORPUS_MAX_LEN),
    ROW(F64, "bpe_dropout", subword.bpe_dropout, "0", "sample segmentations of a bpe tokenizer",
        .max = 1),
    ROW(F64, "unigram_alpha", subword.unigram_alpha, "0",
        "sample segmentations of a unigram tokenizer", .max = SUBWORD_MAX_ALPHA),
    THREADS_ROW(threads),
    ROW(F64, "step_ms", step_ms, "50", "assumed duration of a training step", .min = 0.1,
        .max = 10000),
    JSON_ROW(json),
    {.name = NULL},
};

#undef OPTIONS_OF
#define OPTIONS_OF bench_layers_options
static const struct option layers_rows[] = {
    ROW(INT, "n_max", n_max, "8192", "longest sequence, in tokens", .min = 128, .max = 1 << 20),
    ROW(INT, "d", d, "512", "width where lengths vary: a multiple of 64", .min = 64,
        .max = 1 << 14),
    ROW(INT, "d_max", d_max, "1024", "greatest width", .min = 128, .max = 1 << 14),
    ROW(INT, "n", n, "1024", "tokens where widths vary", .min = 16, .max = 1 << 20),
    ROW(INT, "batch", batch, "128", "sequences that the recurrent layer reads those tokens as",
        .min = 1, .max = 1 << 14),
    ROW(INT, "window", window, "64", "reach r of restricted self-attention", .min = 1,
        .max = 1 << 20),
    ROW(F64, "seconds", seconds, "180", "how long it may take, about; larger sizes are left out",
        .min = 0.1, .max = 86400),
    DTYPE_ROW(dtype),
    DEVICE_ROWS(where, "cpu"),
    ROW(STRING, "json", json, NULL, "write the results to this file, too", .arg = "FILE",
        .made = 1),
    {.name = NULL},
};

#undef OPTIONS_OF
#define OPTIONS_OF bench_comm_options
static const struct option comm_rows[] = {
    RANKS_ROWS(ranks),
    ROW(INT, "largest", largest, "64", "MiB of the largest message", .min = 1, .max = 64),
    DEVICE_ROWS(where, "cpu"),
    JSON_ROW(json),
    {.name = NULL}};

static struct option_group gemm_groups[] = {{.rows = gemm_rows, .values = &gemm}, {.rows = NULL}};
static struct option_group train_groups[] = {
    {.rows = train_rows, .values = &train}, MODEL_FIELDS(&fields), {.rows = NULL}};
static struct option_group translate_groups[] = {{.rows = translate_rows, .values = &translate},
                                                 {.rows = search_rows, .values = &translate.search},
                                                 MODEL_FIELDS(&fields),
                                                 {.rows = NULL}};
static struct option_group serve_groups[] = {{.rows = serve_rows, .values = &serve},
                                             {.rows = NULL}};
static struct option_group scale_groups[] = {
    {.rows = scale_rows, .values = &scale}, MODEL_FIELDS(&fields), {.rows = NULL}};
static struct option_group data_groups[] = {{.rows = data_rows, .values = &data}, {.rows = NULL}};
static struct option_group layers_groups[] = {{.rows = layers_rows, .values = &layers},
                                              {.rows = NULL}};
static struct option_group comm_groups[] = {{.rows = comm_rows, .values = &talk}, {.rows = NULL}};

/* ---- running --------------------------------------------------------------------------------- */

static int run_gemm(struct err *err) {
    return gemm.tiled ? bench_tiled_run(&gemm, err) : bench_gemm_run(&gemm, err);
}

static int run_translate(struct err *err) {
    int rc = translate.model
                 ? 0
                 : config_from_preset(&translate.config, config_preset_names[translate.preset],
                                      32000, translate_groups, err);
    return rc ? rc : bench_translate_run(&translate, err);
}

enum { N_VOCAB = 37000 }; /* PAPER: 5.1 */

static int run_train(struct err *err) {
    int rc = config_from_preset(&train.config, config_preset_names[train.preset], N_VOCAB,
                                train_groups, err);
    return rc ? rc : bench_train_run(&train, err);
}

static int run_serve(struct err *err) { return bench_serve_run(&serve, err); }

static int run_scale(struct err *err) {
    if (!scale.predict) return bench_scale_run(&scale.on, err);
    if (scale.per_machine & (scale.per_machine - 1))
        return cli_usage(err, "--per-machine: %d is not a power of two", scale.per_machine);
    int rc = config_from_preset(&scale.config, config_preset_names[scale.preset], N_VOCAB,
                                scale_groups, err);
    return rc ? rc : bench_forecast_run(&scale, err);
}

static int run_data(struct err *err) { return bench_data_run(&data, err); }

static int run_comm(struct err *err) { return bench_comm_run(&talk, err); }

static int run_layers(struct err *err) {
    if (layers.d % 64)
        return err_set(err, HEED_EINVAL, "--d: %d is not a multiple of 64", layers.d);
    if (layers.n % layers.batch)
        return err_set(err, HEED_EINVAL, "--n: %d is not a multiple of --batch, %d", layers.n,
                       layers.batch);
    return bench_layers_run(&layers, err);
}

static const struct command gemm_command = {
    .name = "bench gemm",
    .summary = "matrix products at the model's shapes, against what the registers could do",
    .groups = gemm_groups,
    .run = run_gemm};
static const struct command train_command = {
    .name = "bench train",
    .summary = "training steps of a preset, against the rate of its matrix products",
    .groups = train_groups,
    .run = run_train};
static const struct command translate_command = {
    .name = "bench translate",
    .summary = "translation by beam search, against what memory and multipliers allow",
    .groups = translate_groups,
    .run = run_translate};
static const struct command serve_command = {
    .name = "bench serve",
    .summary =
        "many clients with a sentence each, against a file; short requests beside large jobs",
    .usage = "--model MODEL --input FILE [options]",
    .groups = serve_groups,
    .run = run_serve};
static const struct command scale_command = {
    .name = "bench scale",
    .summary = "how cost grows with sentences and their length; --predict: with ranks",
    .groups = scale_groups,
    .run = run_scale};
static const struct command data_command = {
    .name = "bench data",
    .summary = "tokenising and batching, and what they cost next to a training step",
    .usage = "--src FILE --tgt FILE --tokenizer FILE [options]",
    .groups = data_groups,
    .run = run_data};
static const struct command layers_command = {
    .name = "bench layers",
    .summary = "the paper's Table 1: what self-attention, recurrence and convolution cost",
    .groups = layers_groups,
    .run = run_layers};
static const struct command comm_command = {
    .name = "bench comm",
    .summary = "what ranks have to say to each other, and how long it takes",
    .usage = "--ranks N [options]",
    .groups = comm_groups,
    .run = run_comm};
static const struct command *const commands[] = {
    &gemm_command,   &train_command, &translate_command,
    &serve_command,  &scale_command, &data_command,
    &layers_command, &comm_command,  NULL};

const struct command cmd_bench = {
    .name = "bench",
    .summary = "measure this machine: gemm, train, translate, serve, scale, data, layers, comm",
    .sub = commands};
