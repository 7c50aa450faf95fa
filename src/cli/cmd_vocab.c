/* cmd_vocab.c — `heed vocab`: learns a tokenizer from text files (data/tokenizer.h) and says what
 * it met. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
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

/* ---- progress -------------------------------------------------------------------------------- */

static int show(void *ctx, const struct tokenizer_report *r, const char *file) {
    struct progress *p = ctx;
    if (!file)
        progress_line(p, "learning %s pieces from %s lines", text_grouped((uint64_t)size),
                      text_grouped(r->sampled));
    else if (progress_due(p, 10) && r->file_end)
        progress_line(p, "reading %s: %.0f%%, %s lines", file,
                      100.0 * (double)r->file_at / (double)r->file_end, text_grouped(r->lines));
    else if (progress_due(p, 10))
        progress_line(p, "reading %s: %s lines", file, text_grouped(r->lines));
    return 0;
}

static void summary(const struct tokenizer_report *r, double seconds) {
    fprintf(stderr, "read %s lines, %.1f MB; learnt from %s of them\n", text_grouped(r->lines),
            (double)r->bytes / 1e6, text_grouped(r->sampled));
    fprintf(stderr, "left out: %s empty, %s over %s bytes, %s with the reserved character U+2585\n",
            text_grouped(r->empty), text_grouped(r->too_long), text_grouped(TOKENIZER_MAX_LINE),
            text_grouped(r->reserved));
    fprintf(stderr, "bad UTF-8 sequences and NUL bytes replaced: %s\n", text_grouped(r->replaced));
    fprintf(stderr, "characters: %s different", text_grouped((uint64_t)r->chars));
    if (strcmp(type, "word") != 0)
        fprintf(stderr, ", %s of them unknown to the tokenizer (%s times)",
                text_grouped((uint64_t)r->chars_unknown), text_grouped(r->unknown));
    fprintf(stderr, "\n");
    fprintf(stderr, "wrote %s: %s pieces, %s, in %.1f s\n", out, text_grouped((uint64_t)r->pieces),
            type, seconds);
}

/* ---- running --------------------------------------------------------------------------------- */

static int run(int argc, char **argv, struct err *err) {
    int rc = options_parse(&command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    if (!input.n) return cli_usage(err, "vocab: --input is missing");
    if (!out) return cli_usage(err, "vocab: --out is missing");
    struct progress progress;
    progress_begin(&progress, quiet);
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
    progress_end(&progress);
    if (!rc && !quiet) summary(&report, clock_seconds() - progress.begin);
    return rc;
}

const struct subcommand cmd_vocab = {.name = "vocab",
                                     .summary = "learn a vocabulary of subwords from text",
                                     .run = run,
                                     .commands = commands};
