/* cmd_import.c — `heed import`: a model of another engine becomes one of ours. */
#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "convert/import.h"
#include "model/modeldir.h"
#include "train/target.h"

static struct import_args {
    struct option_list model;
    const char *out, *tokenizer, *target_tokenizer;
    int format, dtype, overwrite, quiet, threads;
} args;
static struct card card;

#define OPTIONS_OF import_args
static const struct option rows[] = {
    ROW(WORDS, "model", model, NULL, "a directory, a zip or the weights: see docs/import.md",
        .arg = "PATH", .min = 1, .max = 1),
    ROW(STRING, "out", out, NULL, "directory to write", .arg = "DIR", .made = 1, .required = 1),
    ROW(CHOICE, "format", format, "auto", "what it is; auto: found by looking",
        .choices = import_format_names),
    ROW(CHOICE, "dtype", dtype, "auto",
        "type of the weights; auto: the one they have, int8 bit for bit",
        .choices = foreign_dtype_names),
    ROW(STRING, "tokenizer", tokenizer, NULL,
        "SentencePiece file for a model that has none, or in place of its own; words: none is "
        "needed, tokens are separated by spaces",
        .arg = "FILE"),
    ROW(STRING, "target_tokenizer", target_tokenizer, NULL,
        "that of the target, if it has one of its own", .arg = "FILE"),
    ROW(FLAG, "overwrite", overwrite, NULL, "replace an existing model"),
    QUIET_ROW(quiet),
    THREADS_ROW(threads),
    {.name = NULL},
};
static struct option_group groups[] = {
    {.rows = rows, .values = &args}, {.rows = card_rows, .values = &card}, {.rows = NULL}};

/* What the user says about the model, in place of what it says itself. */
static void change_card(struct card *own) {
    for (const struct option *o = card_rows; o->name; o++)
        if (option_text(o, &card, NULL)) option_copy(o, own, &card);
}

static void show_architecture(const struct config *c) {
    static const char *const activation[] = {"", "relu", "gelu", "silu"};
    char ff[32];
    int d_ff = config_d_ff(c, 1);
    snprintf(ff, sizeof ff, d_ff == c->d_ff ? "%d" : "%d and %d", c->d_ff, d_ff);
    printf("  %d + %d layers%s, %d wide, %d heads, feed-forward %s (%s), %s-norm%s%s\n",
           c->n_layer_enc, c->n_layer_dec, c->decoder == DECODER_SSRU ? " (SSRU)" : "", c->d_model,
           c->n_head, ff, activation[c->activation], c->norm == NORM_PRE ? "pre" : "post",
           c->output_bias ? ", output bias" : "", c->embed_norm ? ", embedding norm" : "");
}

static void show_tokens(const struct foreign *m) {
    const struct config *c = &m->config;
    printf("  vocabulary: %s", text_grouped((uint64_t)c->n_vocab_src));
    if (m->target.token || c->n_vocab_src != c->n_vocab_tgt)
        printf(" source and %s target", text_grouped((uint64_t)c->n_vocab_tgt));
    printf(" tokens");
    if (m->languages.n == 1) printf("; translations begin with %s", m->languages.token[0]);
    if (m->languages.n > 1) printf("; %d languages", m->languages.n);
    printf("\n");
}

static void show(const struct foreign *m, const struct foreign_report *r, double seconds) {
    char *path = path_join(args.out, MODELDIR_WEIGHTS);
    printf("%s: %s", args.out, m->format);
    if (m->card.source && m->card.target) printf(", %s to %s", m->card.source, m->card.target);
    printf("\n");
    show_architecture(&m->config);
    show_tokens(m);
    printf("  weights: %s parameters, %s", text_grouped(r->n_value), foreign_dtype_names[r->dtype]);
    if (r->kept == r->matrices)
        printf(" kept bit for bit");
    else if (r->kept)
        printf(", %d of %d matrices kept bit for bit", r->kept, r->matrices);
    printf(", %.1f MB in %.1f s\n", (double)file_size(path) / 1e6, seconds);
    xfree(path);
}

static void show_progress(void *ctx, double fraction) {
    char bar[32];
    if (progress_due(ctx, 10))
        progress_line(ctx, "writing %s %3.0f%%", progress_bar(bar, 24, fraction), 100 * fraction);
}

static int run(struct err *err) {
    struct progress progress;
    struct import import;
    struct foreign_report report;
    struct import_options options = {.path = args.model.item[0],
                                     .format = args.format,
                                     .tokenizer = args.tokenizer,
                                     .target_tokenizer = args.target_tokenizer};
    struct foreign_options how = {.dtype = (enum foreign_dtype)args.dtype,
                                  .n_thread = args.threads,
                                  .progress = show_progress,
                                  .progress_ctx = &progress};
    double begin = clock_seconds();
    progress_begin(&progress, args.quiet);
    int rc = target_for_model(args.out, &options.path, 1, args.overwrite, err);
    if (rc) return rc;
    rc = import_open(&import, &options, err);
    if (!rc) change_card(&import.model.card);
    if (!rc) rc = foreign_write(&import.model, args.out, &how, &report, err);
    progress_end(&progress);
    if (!rc && !args.quiet) show(&import.model, &report, clock_seconds() - begin);
    import_close(&import);
    return rc;
}

static const char about[] =
    "Reads models of CTranslate2 (and packages of Argos Translate), Hugging Face (MarianMT, "
    "M2M100, "
    "NLLB, mBART) and Marian (OPUS-MT, Firefox), and writes an ordinary model directory. What a "
    "model has that heed cannot express is an error. Beam and length penalty that the model was "
    "made for become its defaults.";

const struct command cmd_import = {
    .name = "import",
    .summary = "make a model of CTranslate2, Hugging Face or Marian one of heed's",
    .usage = "PATH --out DIR [--format FORMAT] [--dtype TYPE]",
    .about = about,
    .groups = groups,
    .run = run};
