/* cmd_vocab.c — `heed vocab`: learns a tokenizer from text files (data/tokenizer.h) and reports
 * what it found. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "data/tokenizer.h"

static struct vocab_args {
    struct option_list input;
    struct tokenizer_train_options train;
    int quiet;
} args;

#define OPTIONS_OF vocab_args
static const struct option rows[] = {
    ROW(LIST, "input", input, NULL, "text files: plain, gzip, xz, or - for standard input",
        .arg = "FILE", .required = 1),
    ROW(STRING, "out", train.out, NULL, "where to write the tokenizer, a SentencePiece model",
        .arg = "FILE", .made = 1, .required = 1),
    ROW(INT, "size", train.size, "8000", "pieces in the vocabulary", .min = TOKENIZER_MIN_SIZE,
        .max = TOKENIZER_MAX_SIZE),
    ROW(CHOICE, "type", train.type, "bpe", "kind of pieces", .choices = tokenizer_type_names),
    ROW(FLAG, "byte_fallback", train.byte_fallback, NULL,
        "spell unknown characters in bytes, which take 256 of the pieces"),
    ROW(FLAG, "split_digits", train.split_digits, NULL,
        "make every digit a piece of its own, so that numbers are spelt and copied"),
    ROW(STRING, "symbols", train.symbols, NULL,
        "pieces of your own, separated by commas (\\, in one): tags (heed train --tags), "
        "placeholders",
        .arg = "A,B,..."),
    ROW(F64, "coverage", train.coverage, "1", "share of the text whose characters get a piece",
        .min = 0.98, .max = 1),
    ROW(STRING, "normalization", train.normalization, "nmt_nfkc",
        "nmt_nfkc, nfkc, nmt_nfkc_cf, nfkc_cf or identity", .arg = "NAME",
        .choices = tokenizer_normalizations),
    ROW(U64, "sample", train.sample, "0",
        "most lines to learn from, drawn evenly; 0: 400,000 for bpe, 500,000 for unigram, else "
        "2,000,000",
        .max = 1e9),
    ROW(U64, "seed", train.seed, "1", "seed of the sample", .max = 1 << 30),
    ROW(INT, "threads", train.threads, "0",
        "number of threads; 0: 16 on any machine, since unigram's result depends on it",
        .max = 1024),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* ---- progress -------------------------------------------------------------------------------- */

static int show(void *ctx, const struct tokenizer_report *r, const char *file) {
    struct progress *p = ctx;
    if (!file)
        progress_line(p, "learning %s pieces from %s lines",
                      text_grouped((uint64_t)args.train.size), text_grouped(r->sampled));
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
    if (args.train.type != TOKENIZER_WORD)
        fprintf(stderr, ", %s of them unknown to the tokenizer (%s times)",
                text_grouped((uint64_t)r->chars_unknown), text_grouped(r->unknown));
    fprintf(stderr, "\n");
    fprintf(stderr, "wrote %s: %s pieces, %s, in %.1f s\n", args.train.out,
            text_grouped((uint64_t)r->pieces), tokenizer_type_names[args.train.type], seconds);
}

/* ---- running --------------------------------------------------------------------------------- */

static int run(struct err *err) {
    struct progress progress;
    struct tokenizer_report report;
    progress_begin(&progress, args.quiet);
    args.train.input = args.input.item;
    args.train.n_input = args.input.n;
    args.train.progress = args.quiet ? NULL : show;
    args.train.progress_ctx = &progress;
    int rc = tokenizer_train(&args.train, &report, err);
    progress_end(&progress);
    if (!rc && !args.quiet) summary(&report, clock_seconds() - progress.begin);
    return rc;
}

const struct command cmd_vocab = {.name = "vocab",
                                  .summary = "learn a vocabulary of subwords from text",
                                  .usage = "--input FILE... --out FILE [options]",
                                  .groups = groups,
                                  .run = run};
