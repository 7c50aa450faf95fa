/* bench.h — the benchmarks behind `heed bench`. Each prints a table, or JSON lines, to stdout and
 * returns 0 or a negative status with *err filled. */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "backend/backend.h"
#include "base/err.h"
#include "base/pool.h"
#include "cli/ranks.h"
#include "data/batch.h"
#include "data/subword.h"
#include "model/frozen.h"
#include "search/search.h"

struct bench_gemm_options {
    const char *isa; /* NULL: every usable instruction set */
    int dtype;       /* 0: all; 1: f32, 2: bf16, 3: int8, which is tiled only */
    int threads;     /* 0: all CPUs the process may use */
    int json;        /* one object per line */
    int min_ms;      /* measure each case for at least this long; 0: 100 */
    int m;           /* only products with this many rows; 0: all */
    int tiled;       /* products with tiled weights instead: bench_tiled_run */
};

int bench_gemm_run(const struct bench_gemm_options *o, struct err *err);
int bench_tiled_run(const struct bench_gemm_options *o, struct err *err);

/* What a model benchmark runs on. */
struct bench_device {
    struct backend_options where;
    int dtype; /* of dtype_names */
    int json;
};

struct bench_train_options {
    struct bench_device on;
    int preset;           /* of config_preset_names */
    struct config config; /* checked */
    int tokens;           /* source and target tokens per batch, each */
    int length;           /* of every sentence; 0: mixed lengths, log-normal */
    int bucketed;         /* one log-normal length per batch, and others close to it */
    double seconds;       /* measure for at least this long */
    int accumulate;       /* of so many batches, also updates of them all; 1: none */
};

int bench_train_run(const struct bench_train_options *o, struct err *err);

struct bench_scale_options {
    struct bench_device on;
    /* The rest is for bench_forecast_run, the prediction for many ranks. */
    int predict;
    int preset;           /* of config_preset_names */
    struct config config; /* checked */
    int tokens;           /* source and target tokens of the largest batch, each */
    double seconds;       /* measure each size for at least this long */
    const char *measured; /* what an earlier run printed as JSON, or NULL: measure */
    int per_machine;      /* ranks */
    double inside, across, latency, message; /* GB/s and GB/s; us of a call and of a message */
    struct ranks_options ranks;
};

int bench_scale_run(const struct bench_device *on, struct err *err);
int bench_forecast_run(const struct bench_scale_options *o, struct err *err);

struct bench_translate_options {
    struct backend_options where;
    int json;
    const char *model; /* a model directory, or NULL: random weights of `config` */
    int preset;
    struct config config; /* checked */
    enum precision precision;
    const char *input; /* lines of ids; NULL: random sentences of `length` tokens */
    int sentences, length, batch;
    struct search_options search;
};

int bench_translate_run(const struct bench_translate_options *o, struct err *err);

struct bench_serve_options {
    struct backend_options where;
    int json;
    const char *model, *input; /* lines of text */
    enum precision precision;
    int sentences, clients, bulk;
    int seats, busy_rows; /* 0: the desk's own */
};

int bench_serve_run(const struct bench_serve_options *o, struct err *err);

struct bench_data_options {
    const char *src, *tgt, *tokenizer;
    int tokens, max_len, threads, json;
    double step_ms; /* assumed duration of a training step */
    struct subword_options subword;
};

int bench_data_run(const struct bench_data_options *o, struct err *err);

struct bench_comm_options {
    struct backend_options where; /* whose memory travels */
    struct ranks_options ranks;
    int largest; /* MiB of a message */
    int json;
};

int bench_comm_run(const struct bench_comm_options *o, struct err *err);

struct bench_layers_options {
    struct backend_options where;
    int dtype;        /* of dtype_names */
    int n_max, d;     /* lengths up to n_max at width d */
    int n, d_max;     /* widths up to d_max over n tokens */
    int batch;        /* sequences that they are for the recurrent layer */
    int window;       /* reach of restricted self-attention */
    double seconds;   /* of it all, about; longer sequences are left out */
    const char *json; /* a file, or NULL */
};

int bench_layers_run(const struct bench_layers_options *o, struct err *err);

/* Shared by the model benchmarks. */

/* n_seq sentences of BENCH_SHORT random tokens on both sides. */
enum { BENCH_SHORT = 32 };
int bench_fill(struct batch *batch, int n_seq, const struct config *config, struct err *err);

double bench_peak_mb(void); /* largest resident size of this process so far */
double bench_own_mb(void);  /* its memory now without what is mapped from files; 0: not known */

/* Bytes per second at which the pool's threads together read this memory once. */
double bench_read_rate(struct pool *pool, const void *memory, size_t size);

/* A table of what each op cost since profiling was switched on, with shares of `seconds` (0: of all
 * ops together); `rate` is the heading over billions of operations per second. Returns the ops'
 * seconds. */
double bench_print_ops(struct backend *be, double seconds, const char *rate);

#endif
