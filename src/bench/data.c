/* data.c — what the way from text to batches costs beside training.
 *
 * Four measurements: tokenising a corpus into a fresh cache, opening that cache again, preparing
 * batches without a thread, and taking prefetched batches while a consumer keeps one core busy for
 * a fixed time per batch, as a training step would. Speed per core counts processor time, so that
 * threads and neighbours on the machine do not blur it. The cache lives in a temporary directory
 * and is removed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "bench/bench.h"
#include "data/batches.h"
#include "data/tokenizer.h"

struct result {
    struct corpus_report report;
    double tokenise_s, tokenise_cpu_s, open_s;
    double batch_s, batch_cpu_s, worst_batch_s, padding;
    double wait_s, worst_wait_s; /* per batch, prefetched */
    uint64_t n_batch, n_batch_tok, n_taken;
};

/* Builds the cache, then opens it again as a second run would. */
static int measure_corpus(struct corpus *corpus, struct result *r,
                          const struct bench_data_options *o, const struct tokenizer *tokenizer,
                          const char *dir, struct err *err) {
    struct corpus_options options = {.src = o->src,
                                     .tgt = o->tgt,
                                     .cache_dir = dir,
                                     .encoder = corpus_encoder_of(tokenizer),
                                     .max_len = o->max_len,
                                     .threads = o->threads};
    double begin = clock_seconds(), cpu = clock_cpu_seconds();
    int rc = corpus_build(corpus, &options, &r->report, err);
    if (rc) return rc;
    r->tokenise_s = clock_seconds() - begin;
    r->tokenise_cpu_s = clock_cpu_seconds() - cpu;
    corpus_close(corpus);
    begin = clock_seconds();
    rc = corpus_build(corpus, &options, NULL, err);
    r->open_s = clock_seconds() - begin;
    return rc;
}

/* What batches are made of. */
struct input {
    const struct corpus *corpus;
    const struct subword *subword; /* NULL: nothing is sampled */
    const struct bench_data_options *o;
};

static int open_stream(struct batches **b, struct batch *batch, const struct input *in,
                       int prefetch, struct err *err) {
    struct batches_source source = {.corpus = in->corpus};
    struct batches_options options = {.source = &source,
                                      .n_source = 1,
                                      .seed = 1,
                                      .tokens = in->o->tokens,
                                      .prefetch = prefetch,
                                      .bos = 1,
                                      .sample_src = in->subword,
                                      .sample_tgt = in->subword,
                                      .sample_len = in->o->max_len,
                                      .sample_threads =
                                          in->o->threads ? in->o->threads : pool_cpu_count()};
    int rc = batches_new(b, &options, err);
    if (!rc) rc = batches_batch_init(*b, batch, err);
    return rc;
}

static void release(struct batches *b, struct batch *batch) {
    batches_free(b);
    if (batch->cap_seq) batch_release(batch);
}

/* Batches for a second, after the first, which loads a pool at once where others load it little by
 * little. */
static int measure_batching(struct result *r, const struct input *in, struct err *err) {
    struct batches *b = NULL;
    struct batch batch = {0};
    struct batches_state first = {0}, state;
    double real = 0, padded = 0, total = 0;
    int rc = open_stream(&b, &batch, in, 0, err);
    if (!rc) rc = batches_next(b, &batch, err);
    if (!rc) batches_state(b, &first);
    state = first;
    double cpu = clock_cpu_seconds();
    while (!rc && total < 1) {
        double begin = clock_seconds();
        rc = batches_next(b, &batch, err);
        double took = clock_seconds() - begin;
        if (rc) break;
        total += took;
        if (took > r->worst_batch_s) r->worst_batch_s = took;
        real += batch.src.n_tok + batch.tgt.n_tok;
        padded += (double)batch.n_seq * (batch.src.max_len + batch.tgt.max_len);
        batches_state(b, &state);
    }
    r->n_batch = state.n_batch - first.n_batch;
    r->n_batch_tok = state.n_src_tok + state.n_tgt_tok - first.n_src_tok - first.n_tgt_tok;
    r->batch_s = total;
    r->batch_cpu_s = clock_cpu_seconds() - cpu;
    r->padding = padded > 0 ? 1 - real / padded : 0;
    release(b, &batch);
    return rc;
}

/* Takes batches between spells of work; the first is not counted, since nothing came before it. */
static int measure_waiting(struct result *r, const struct input *in, struct err *err) {
    enum { N_BATCH = 60, PREFETCH = 8 };
    struct batches *b = NULL;
    struct batch batch = {0};
    int rc = open_stream(&b, &batch, in, PREFETCH, err);
    for (int i = 0; i <= N_BATCH && !rc; i++) {
        double begin = clock_seconds(), took;
        rc = batches_next(b, &batch, err);
        took = clock_seconds() - begin;
        if (i > 0) {
            r->wait_s += took / N_BATCH;
            if (took > r->worst_wait_s) r->worst_wait_s = took;
        }
        double end = clock_seconds() + 1e-3 * in->o->step_ms;
        while (clock_seconds() < end) continue;
    }
    r->n_taken = N_BATCH;
    release(b, &batch);
    return rc;
}

static void print_json(const struct result *r, const struct bench_data_options *o) {
    double n_tok = (double)(r->report.n_src_tok + r->report.n_tgt_tok);
    printf("{\"bench\":\"data\",\"pairs\":%llu,\"kept\":%llu,\"tokens\":%.0f,"
           "\"tokenise_s\":%.4f,\"tokenise_tokens_per_s\":%.0f,"
           "\"tokenise_tokens_per_s_per_core\":%.0f,\"open_s\":%.4f,"
           "\"batch_tokens_per_s\":%.0f,\"batch_tokens_per_s_per_core\":%.0f,\"batch_ms\":%.4f,"
           "\"worst_batch_ms\":%.3f,"
           "\"padding_if_padded\":%.4f,\"step_ms\":%g,\"wait_ms\":%.4f,\"worst_wait_ms\":%.4f,"
           "\"wait_share\":%.6f,\"peak_mb\":%.1f}\n",
           (unsigned long long)r->report.n_read, (unsigned long long)r->report.n_kept, n_tok,
           r->tokenise_s, n_tok / r->tokenise_s, n_tok / r->tokenise_cpu_s, r->open_s,
           (double)r->n_batch_tok / r->batch_s, (double)r->n_batch_tok / r->batch_cpu_s,
           1e3 * r->batch_s / (double)r->n_batch, 1e3 * r->worst_batch_s, r->padding, o->step_ms,
           1e3 * r->wait_s, 1e3 * r->worst_wait_s, r->wait_s / (r->wait_s + 1e-3 * o->step_ms),
           bench_peak_mb());
}

static void print_table(const struct result *r, const struct bench_data_options *o) {
    double n_tok = (double)(r->report.n_src_tok + r->report.n_tgt_tok);
    double batch_s = r->batch_s / (double)r->n_batch, step_s = 1e-3 * o->step_ms;
    char text[512];
    corpus_report_text(&r->report, text, sizeof text);
    printf("corpus       %s\n", text);
    printf("tokenising   %.3g M tokens in %.2f s: %.0f k tokens/s, %.0f k per core and second\n",
           1e-6 * n_tok, r->tokenise_s, 1e-3 * n_tok / r->tokenise_s,
           1e-3 * n_tok / r->tokenise_cpu_s);
    printf("reopening    %.3f s: hash both texts, check the cache\n", r->open_s);
    double batch_tok = 1e-6 * (double)r->n_batch_tok;
    printf("batching     %.1f M tokens/s (%.1f M per core and second), %.2f ms per batch of %d "
           "tokens (longest: %.1f ms), %.1f %% would be padding if batches were padded\n",
           batch_tok / r->batch_s, batch_tok / r->batch_cpu_s, 1e3 * batch_s, o->tokens,
           1e3 * r->worst_batch_s, 100 * r->padding);
    printf("prefetched   the consumer waits %.4f ms per batch (longest: %.3f ms), %.3f %% of a "
           "step of "
           "%g ms\n",
           1e3 * r->wait_s, 1e3 * r->worst_wait_s, 100 * r->wait_s / (r->wait_s + step_s),
           o->step_ms);
    printf("             and preparing takes %.2f %% of one core\n",
           100 * r->batch_cpu_s / (double)r->n_batch / step_s);
    printf("memory       %.1f MB at most\n", bench_peak_mb());
}

static int measure(struct result *r, const struct bench_data_options *o,
                   const struct tokenizer *tokenizer, const char *dir, struct err *err) {
    struct corpus corpus;
    struct subword *subword = NULL;
    int rc = measure_corpus(&corpus, r, o, tokenizer, dir, err);
    if (rc) return rc;
    if (subword_wanted(&o->subword)) rc = subword_new(&subword, tokenizer, &o->subword, err);
    struct input in = {&corpus, subword, o};
    if (!rc) rc = measure_batching(r, &in, err);
    if (!rc) rc = measure_waiting(r, &in, err);
    subword_free(subword);
    corpus_close(&corpus);
    return rc;
}

int bench_data_run(const struct bench_data_options *o, struct err *err) {
    struct tokenizer *tokenizer;
    struct result r = {0};
    const char *tmp = getenv("TMPDIR");
    int rc = tokenizer_open(&tokenizer, o->tokenizer, err);
    if (rc) return rc;
    char *dir = path_join(tmp && *tmp ? tmp : "/tmp", "heed-bench-XXXXXX");
    rc = tokenizer_check_ends(tokenizer, err);
    if (!rc && !mkdtemp(dir))
        rc = err_set(err, HEED_EIO, "%.180s: cannot create the directory", dir);
    if (!rc) {
        rc = measure(&r, o, tokenizer, dir, err);
        dir_remove(dir, NULL);
    }
    if (!rc) (o->json ? print_json : print_table)(&r, o);
    xfree(dir);
    tokenizer_free(tokenizer);
    return rc;
}
