/* cmd_vocab.c — `heed vocab`: learns a tokenizer from text files (data/tokenizer.h) and says what it met. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "data/tokenizer.h"

static struct option_list input;
static const char *out, *type = "bpe", *normalization = "nmt_nfkc";
static int size = 8000, byte_fallback, sample, seed = 1, threads, quiet;
static double coverage = 1;

static const struct option rows[] = {
    {"input", OPTION_LIST, &input, "FILE", "text files: plain, gzip, xz, or - for standard input",
     0, 0},
    {"out", OPTION_STRING, &out, "FILE", "where to write the tokenizer, a SentencePiece model", 0,
     0},
    {"size", OPTION_INT, &size, "N", "pieces in the vocabulary", TOKENIZER_MIN_SIZE,
     TOKENIZER_MAX_SIZE},
    {"type", OPTION_STRING, &type, "NAME", "bpe, unigram, word or char", 0, 0},
    {"byte-fallback", OPTION_FLAG, &byte_fallback, NULL,
     "spell unknown characters in bytes; 256 pieces of the size", 0, 0},
    {"coverage", OPTION_FLOAT, &coverage, "X", "share of the text whose characters get a piece",
     0.98, 1},
    {"normalization", OPTION_STRING, &normalization, "NAME",
     "nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity", 0, 0},
    {"sample", OPTION_INT, &sample, "N",
     "lines to learn from at most, drawn evenly; 0: 500,000 for unigram, else 2,000,000", 0, 1e9},
    {"seed", OPTION_INT, &seed, "N", "seed of the sample", 0, 1 << 30},
    {"threads", OPTION_INT, &threads, "N",
     "threads; 0: 16 on any machine, as unigram's result depends on it", 0, 1024},
    {"quiet", OPTION_FLAG, &quiet, NULL, "no progress and no summary", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "vocab",
                                       .summary = "learn a vocabulary of subwords from text",
                                       .usage = "--input FILE... --out FILE [options]",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

/* ---------------------------------------------------------------------------------- progress ----- */

enum { TERMINAL_EVERY_MS = 200, PLAIN_EVERY_MS = 10000 };

struct progress {
    int terminal;
    double begin, shown; /* seconds */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* 1234567 as 1,234,567; up to four of them may be in one printf. */
static const char *grouped(uint64_t n) {
    static char text[4][32];
    static int turn;
    char digits[24], *to = text[turn = (turn + 1) % 4];
    int length = snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) to[at++] = ',';
        to[at++] = digits[i];
    }
    to[at] = 0;
    return to;
}

static int show(void *ctx, const struct tokenizer_report *r, const char *file) {
    struct progress *p = ctx;
    double t = now();
    if (file && (t - p->shown) * 1000 < (p->terminal ? TERMINAL_EVERY_MS : PLAIN_EVERY_MS))
        return 0;
    p->shown = t;
    if (p->terminal) fprintf(stderr, "\r\033[K");
    const char *end = p->terminal ? "" : "\n";
    if (!file)
        fprintf(stderr, "learning %s pieces from %s lines%s", grouped((uint64_t)size),
                grouped(r->sampled), end);
    else if (r->file_end)
        fprintf(stderr, "reading %s: %.0f%%, %s lines%s", file,
                100.0 * (double)r->file_at / (double)r->file_end, grouped(r->lines), end);
    else
        fprintf(stderr, "reading %s: %s lines%s", file, grouped(r->lines), end);
    fflush(stderr);
    return 0;
}

static void summary(const struct tokenizer_report *r, double seconds) {
    fprintf(stderr, "read %s lines, %.1f MB; learnt from %s of them\n", grouped(r->lines),
            (double)r->bytes / 1e6, grouped(r->sampled));
    fprintf(stderr, "left out: %s empty, %s over %s bytes, %s with the reserved character U+2585\n",
            grouped(r->empty), grouped(r->too_long), grouped(TOKENIZER_MAX_LINE),
            grouped(r->reserved));
    fprintf(stderr, "bad UTF-8 sequences and NUL bytes replaced: %s\n", grouped(r->replaced));
    fprintf(stderr, "characters: %s different", grouped((uint64_t)r->chars));
    if (strcmp(type, "word") != 0)
        fprintf(stderr, ", %s of them unknown to the tokenizer (%s times)",
                grouped((uint64_t)r->chars_unknown), grouped(r->unknown));
    fprintf(stderr, "\n");
    fprintf(stderr, "wrote %s: %s pieces, %s, in %.1f s\n", out, grouped((uint64_t)r->pieces), type,
            seconds);
}

/* ---------------------------------------------------------------------------------- running ------ */

static int run(int argc, char **argv, struct err *err) {
    int rc = options_parse(&command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    if (!input.n) return cli_usage(err, "vocab: --input is missing");
    if (!out) return cli_usage(err, "vocab: --out is missing");
    struct progress progress = {.terminal = isatty(STDERR_FILENO), .begin = now()};
    progress.shown = progress.begin;
    struct tokenizer_report report;
    struct tokenizer_train_options o = {.input = input.item,
                                        .n_input = input.n,
                                        .out = out,
                                        .size = size,
                                        .byte_fallback = byte_fallback,
                                        .coverage = coverage,
                                        .normalization = normalization,
                                        .sample = (uint64_t)sample,
                                        .seed = (uint64_t)seed,
                                        .threads = threads,
                                        .progress = quiet ? NULL : show,
                                        .progress_ctx = &progress};
    rc = tokenizer_type_parse(&o.type, type, err);
    if (!rc) rc = tokenizer_train(&o, &report, err);
    if (!quiet && progress.terminal) fprintf(stderr, "\r\033[K");
    if (!rc && !quiet) summary(&report, now() - progress.begin);
    return rc;
}

const struct subcommand cmd_vocab = {.name = "vocab",
                                     .summary = "learn a vocabulary of subwords from text",
                                     .run = run,
                                     .commands = commands};
