/* cmd_translate.c — `heed translate`: lines in, translations out, in the same order, while they
 * come.
 *
 * One thread reads a window of lines (feed.h), translates it (search/translator.h) and writes it
 * (outlet.h); then the next. The first window is one batch, so that something is seen soon, and
 * windows grow to --look-ahead, so that sorting pays.
 *
 * Ctrl-C and SIGTERM end it behind a whole line, by the signal itself, as scripts expect; so does a
 * reader that goes away (SIGPIPE). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/translate_print.h"
#include "cli/words.h"

/* ---- options --------------------------------------------------------------------------------- */

enum { MANY = 1000000, SEED_MAX = 2000000000 };

/* PAPER: 6.1 for beam, alpha and max_extra. The others are translator_defaults'. */
static struct {
    struct option_list model;
    const char *output, *precision, *prefix, *on_long, *isa, *device;
    int threads, beam, nbest, scores, alignment, layer, head, json, sample, top_k, seed;
    int min_length, max_length, max_extra, force_length, no_repeat, ban_unk;
    int batch_tokens, batch_sentences, look_ahead, max_source, quiet, stats;
    double alpha, temperature, top_p, repetition;
} args = {.precision = "auto",
          .on_long = "split",
          .device = "auto",
          .beam = 4,
          .alpha = 0.6,
          .layer = -1,
          .head = -1,
          .temperature = 1,
          .top_p = 1,
          .seed = 1,
          .max_extra = 50,
          .repetition = 1,
          .batch_tokens = 2048,
          .batch_sentences = 32,
          .look_ahead = 1024};

static const struct option rows[] = {
    {"model", OPTION_LIST, &args.model, "DIR",
     "a model directory; repeated: an ensemble of models with one tokenizer", 0, 0},
    {"output", OPTION_STRING, &args.output, "FILE", "where to write; standard output if not given",
     0, 0},
    {"precision", OPTION_STRING, &args.precision, "NAME",
     "f32, bf16, int8, or auto: as the model is stored", 0, 0},
    {"threads", OPTION_INT, &args.threads, "N", "threads, 0 for all CPUs", 0, 1024},
    {"device", OPTION_STRING, &args.device, "NAME", "auto, cpu, cuda or ref", 0, 0},
    {"isa", OPTION_STRING, &args.isa, "NAME", "instruction set of the cpu device", 0, 0},
    {"beam", OPTION_INT, &args.beam, "N", "hypotheses kept; 1 is greedy", 1, SEARCH_MAX_BEAM},
    {"alpha", OPTION_FLOAT, &args.alpha, "X",
     "length penalty: scores are divided by ((5 + length) / 6)^X", -10, 10},
    {"nbest", OPTION_INT, &args.nbest, "N",
     "print the N best: INDEX ||| TEXT ||| SCORE; 0: only the best, as plain text", 0,
     SEARCH_MAX_BEAM},
    {"scores", OPTION_FLAG, &args.scores, NULL, "print TEXT ||| SCORE", 0, 0},
    {"alignment", OPTION_FLAG, &args.alignment, NULL,
     "add ||| I-J ...: source piece I for every target piece J", 0, 0},
    {"alignment-layer", OPTION_INT, &args.layer, "N",
     "of the decoder, from 0; -1: the last but one", -1, 4096},
    {"alignment-head", OPTION_INT, &args.head, "N", "from 0; -1: the mean of all", -1, 4096},
    {"json", OPTION_FLAG, &args.json, NULL, "print a JSON object per line", 0, 0},
    {"sample", OPTION_FLAG, &args.sample, NULL, "draw translations instead of searching the best",
     0, 0},
    {"temperature", OPTION_FLOAT, &args.temperature, "X", "of sampling", 1e-6, 1e6},
    {"top-k", OPTION_INT, &args.top_k, "N", "sample among the N best tokens; 0: all", 0, MANY},
    {"top-p", OPTION_FLOAT, &args.top_p, "X",
     "sample among the best tokens that together have this probability", 1e-9, 1},
    {"seed", OPTION_INT, &args.seed, "N", "of sampling", 0, SEED_MAX},
    {"prefix", OPTION_STRING, &args.prefix, "FILE",
     "what each translation must begin with, line by line", 0, 0},
    {"min-length", OPTION_INT, &args.min_length, "N", "tokens of a translation, at least", 0, MANY},
    {"max-length", OPTION_INT, &args.max_length, "N",
     "and at most, end mark included; 0: what the model has positions for", 0, MANY},
    {"max-extra", OPTION_INT, &args.max_extra, "N",
     "and at most that many more than the source has", 0, MANY},
    {"force-length", OPTION_INT, &args.force_length, "N",
     "exactly that many, whatever the model says (for benchmarks); 0: off", 0, MANY},
    {"no-repeat-ngram", OPTION_INT, &args.no_repeat, "N",
     "write no sequence of N tokens twice; 0: off", 0, 1000},
    {"repetition-penalty", OPTION_FLOAT, &args.repetition, "X",
     "make tokens already written less likely; 1: off", 1e-3, 1e3},
    {"no-unknown", OPTION_FLAG, &args.ban_unk, NULL, "never write the unknown token", 0, 0},
    {"max-source", OPTION_INT, &args.max_source, "N",
     "tokens translated at a time, end mark included; 0: what the model has positions for", 0,
     MANY},
    {"long", OPTION_STRING, &args.on_long, "WHAT",
     "split longer lines at sentence ends, or refuse them", 0, 0},
    {"batch-sentences", OPTION_INT, &args.batch_sentences, "N", "sentences searched together", 1,
     4096},
    {"batch-tokens", OPTION_INT, &args.batch_tokens, "N", "source tokens searched together", 1,
     MANY},
    {"look-ahead", OPTION_INT, &args.look_ahead, "N", "lines read and sorted at a time", 1, MANY},
    {"quiet", OPTION_FLAG, &args.quiet, NULL, "no progress and no warnings", 0, 0},
    {"stats", OPTION_FLAG, &args.stats, NULL,
     "print speed and latency to standard error at the end", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "translate",
                                       .summary = "translate text, one sentence per line",
                                       .usage = "--model DIR [options] [FILE...]",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

static int make_options(struct translator_options *o, enum precision *precision, struct err *err) {
    if (!args.model.n) return cli_usage(err, "translate: --model is missing");
    int rc = precision_parse(precision, args.precision, err);
    if (rc) return rc;
    *o = translator_defaults();
    o->search.beam = args.beam;
    o->search.n_best = args.nbest ? args.nbest : 1;
    o->search.alpha = (float)args.alpha;
    o->search.min_len = args.min_length;
    o->search.max_extra = args.max_extra;
    o->search.max_len = args.max_length;
    o->search.force_len = args.force_length;
    o->search.sample = args.sample;
    o->search.temperature = (float)args.temperature;
    o->search.top_k = args.top_k;
    o->search.top_p = (float)args.top_p;
    o->search.seed = (uint64_t)args.seed;
    o->search.no_repeat = args.no_repeat;
    o->search.repetition = (float)args.repetition;
    o->search.ban_unk = args.ban_unk;
    o->batch_sentences = args.batch_sentences;
    o->batch_tokens = args.batch_tokens;
    o->max_source = args.max_source;
    o->alignment = args.alignment;
    o->align = (struct align_options){args.layer, args.head};
    o->refuse_long = strcmp(args.on_long, "refuse") == 0;
    if (!o->refuse_long && strcmp(args.on_long, "split") != 0)
        return cli_usage(err, "--long: '%s' is not one of split, refuse", args.on_long);
    if (args.nbest > args.beam && !args.sample)
        return cli_usage(err, "--nbest: %d of a beam of %d; raise --beam", args.nbest, args.beam);
    return 0;
}

/* ---- stopping -------------------------------------------------------------------------------- */

static volatile int stop_signal;
static int stop_pipe[2] = {-1, -1};

/* The first signal asks for an end behind a line, the second one gets the usual effect at once. */
static void on_signal(int number) {
    stop_signal = number;
    signal(number, SIG_DFL);
    if (write(stop_pipe[1], "", 1) < 0) return; /* the pipe is full: it is readable already */
}

static int watch_signals(struct err *err) {
    struct sigaction action = {.sa_handler = on_signal};
    if (pipe(stop_pipe)) return err_set(err, HEED_EIO, "no pipe for signals");
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    return 0;
}

static int should_stop(void *ctx, int done, int total) {
    (void)ctx, (void)done, (void)total;
    return stop_signal;
}

/* As if we had never caught it. */
static void end_by(int number) {
    signal(number, SIG_DFL);
    raise(number);
}

/* ---- running --------------------------------------------------------------------------------- */

/* How often something happened, and where first. */
struct tally {
    uint64_t n, first;
    const char *name; /* of the first: "line", "FILE: line" */
};

struct session {
    struct ensemble *ensemble;
    struct translator *translator;
    struct feed *feed;
    struct outlet out;
    struct print_options print;
    struct progress progress;
    struct tally replaced, split, cut;
    struct translator_input *input;
    struct translation *result;
    int cap;
    double load_seconds, begin;
};

static void tally_add(struct tally *t, const struct feed_line *line) {
    if (t->n++ > 0) return;
    t->first = line->number;
    t->name = line->name;
}

static void warn(const struct tally *t, const char *what) {
    if (t->n == 0 || args.quiet) return;
    fprintf(stderr, "heed: warning: %s line%s %s; the first is %s %s\n", text_grouped(t->n),
            t->n == 1 ? "" : "s", what, t->name, text_grouped(t->first));
}

static int session_open(struct session *s, const char *const *path, int n_path, struct err *err) {
    struct translator_options options;
    enum precision precision = PRECISION_AUTO;
    double begin = clock_seconds();
    int rc = make_options(&options, &precision, err);
    if (!rc) rc = watch_signals(err);
    if (!rc)
        rc = ensemble_open(&s->ensemble, args.model.item, args.model.n, precision, args.threads,
                           err);
    if (!rc)
        rc = translator_new(&s->translator, s->ensemble,
                            &(struct backend_options){args.device, args.threads, args.isa}, err);
    if (!rc) rc = translator_set(s->translator, &options, err);
    if (!rc) rc = feed_open(&s->feed, path, n_path, args.prefix, stop_pipe[0], err);
    if (!rc) rc = outlet_open(&s->out, args.output, err);
    if (rc) return rc;
    s->print = (struct print_options){.json = args.json,
                                      .nbest = args.nbest,
                                      .scores = args.scores,
                                      .alignment = args.alignment,
                                      .tokenizer = s->ensemble->tokenizer};
    s->begin = clock_seconds();
    s->load_seconds = s->begin - begin;
    progress_begin(&s->progress, args.quiet);
    return 0;
}

static void session_close(struct session *s) {
    outlet_close(&s->out);
    feed_close(s->feed);
    translator_free(s->translator);
    ensemble_close(s->ensemble);
    xfree(s->input);
    xfree(s->result);
}

/* Translates and writes the window of n lines in the feed. */
static int answer(struct session *s, int n, struct err *err) {
    const struct feed_line *line = feed_lines(s->feed);
    if (n > s->cap) {
        s->cap = n;
        s->input = xrealloc(s->input, (size_t)n * sizeof *s->input);
        s->result = xrealloc(s->result, (size_t)n * sizeof *s->result);
    }
    for (int i = 0; i < n; i++)
        s->input[i] = (struct translator_input){.text = line[i].text,
                                                .size = line[i].size,
                                                .prefix = line[i].prefix,
                                                .prefix_size = line[i].prefix_size,
                                                .key = line[i].total,
                                                .name = line[i].name,
                                                .number = line[i].number};
    static const struct translator_poll poll = {should_stop, NULL};
    int rc = translator_run(s->translator, s->input, n, s->result, &poll, err);
    for (int i = 0; i < n && s->result[i].n > 0; i++) {
        translate_print(&s->out, &s->print, &line[i], &s->result[i]);
        if (line[i].flags & LINE_REPLACED) tally_add(&s->replaced, &line[i]);
        if (s->result[i].notes & TRANSLATION_SPLIT) tally_add(&s->split, &line[i]);
        if (s->result[i].notes & TRANSLATION_CUT) tally_add(&s->cut, &line[i]);
    }
    progress_end(&s->progress);
    int out_rc = outlet_flush(&s->out, &stop_signal, err);
    return out_rc ? out_rc : rc;
}

static void show_progress(struct session *s) {
    const struct translator_stats *st = translator_stats(s->translator);
    if (!s->progress.terminal || isatty(s->out.fd) || !progress_due(&s->progress, 0)) return;
    progress_line(&s->progress, "%s lines  %s tokens/s", text_grouped(st->texts),
                  text_grouped((uint64_t)((double)st->tgt_tokens / (st->seconds + 1e-9))));
}

static int translate(struct session *s, struct err *err) {
    int window = args.batch_sentences < args.look_ahead ? args.batch_sentences : args.look_ahead;
    for (int n; (n = feed_fill(s->feed, window, err)) != 0;) {
        int rc = n < 0 ? n : answer(s, n, err);
        if (rc) return rc;
        if (n == window) window = 2 * window < args.look_ahead ? 2 * window : args.look_ahead;
        show_progress(s);
    }
    return 0;
}

static void print_stats(const struct session *s) {
    const struct translator_stats *st = translator_stats(s->translator);
    double seconds = clock_seconds() - s->begin, search = st->seconds + 1e-9;
    const char *format =
        args.json ? "{\"lines\":%llu,\"sentences\":%llu,\"batches\":%llu,\"source_tokens\":%llu,"
                    "\"target_tokens\":%llu,\"load_seconds\":%.4f,\"seconds\":%.4f,"
                    "\"search_seconds\":%.4f,\"tokens_per_s\":%.1f,\"sentences_per_s\":%.2f,"
                    "\"batch_p50_ms\":%.3f,\"batch_p99_ms\":%.3f}\n"
                  : "%llu lines, %llu sentences in %llu batches, %llu source and %llu target "
                    "tokens\nloaded in %.3f s, ran %.3f s, of which searching %.3f s\n%.1f target "
                    "tokens/s, %.2f sentences/s, batches p50 %.3f ms, p99 %.3f ms\n";
    fprintf(stderr, format, (unsigned long long)st->texts, (unsigned long long)st->sentences,
            (unsigned long long)st->batches, (unsigned long long)st->src_tokens,
            (unsigned long long)st->tgt_tokens, s->load_seconds, seconds, st->seconds,
            (double)st->tgt_tokens / search, (double)st->sentences / search,
            1e3 * translator_latency(st, 0.5), 1e3 * translator_latency(st, 0.99));
}

static int work(const char *const *path, int n_path, struct err *err) {
    struct session s = {.out = {.fd = -1}};
    int rc = session_open(&s, path, n_path, err);
    if (!rc) rc = translate(&s, err);
    progress_end(&s.progress);
    int closed = s.out.closed;
    if (s.feed && !stop_signal && !closed) {
        warn(&s.replaced, "held bytes that are not UTF-8, read as U+FFFD");
        warn(&s.split, "had too many tokens for the model and were split");
        warn(&s.cut, "gave translations that a length limit cut off");
        if (args.stats) print_stats(&s);
    }
    session_close(&s);
    if (stop_signal || closed) end_by(closed ? SIGPIPE : stop_signal);
    return rc;
}

static int run(int argc, char **argv, struct err *err) {
    static const char *const standard_input[] = {"-"};
    char **words = xcalloc((size_t)argc + 1, sizeof *words);
    int n;
    words_split(&command, &argc, argv, words, &n);
    int rc = options_parse(&command, argc, argv, err);
    if (!rc) rc = n ? work((const char *const *)words, n, err) : work(standard_input, 1, err);
    xfree(words);
    return rc > 0 ? 0 : rc;
}

const struct subcommand cmd_translate = {.name = "translate",
                                         .summary = "translate text, one sentence per line",
                                         .run = run,
                                         .commands = commands};
