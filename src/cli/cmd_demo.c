/* cmd_demo.c — `heed demo`: what a model makes of some sentences, one most probable token after another.
 *
 * `make demo` (demo/run.sh) trains a small translator with `heed train` and lets this command show it.
 * Without --show it is a filter, one line in and one line out, empty lines included; with it, it draws
 * lines at random, prints them beside their translations and counts how many equal the references.
 *
 * All lines are kept in memory, and there is no beam: this is a demonstration, not the translator. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "cli/cli.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "model/modeldir.h"
#include "search/search.h"

enum {
    MAX_LINES = 1 << 20,
    BATCH_LINES = 128,
    BATCH_SRC = 2048 /* source tokens of a batch; one sentence alone may need more */
};

static const char *dir, *input = "-", *reference, *isa, *dtype = "f32";
static int show, seed = 1, threads;

static const struct option rows[] = {
    {"model", OPTION_STRING, &dir, "DIR", "a model directory, such as heed train writes", 0, 0},
    {"input", OPTION_STRING, &input, "FILE",
     "sentences, one per line: plain, gzip, xz, or - for standard input", 0, 0},
    {"reference", OPTION_STRING, &reference, "FILE", "their translations, to compare with", 0, 0},
    {"show", OPTION_INT, &show, "N",
     "show N lines drawn at random and a summary of all; 0: print every translation", 0, MAX_LINES},
    {"seed", OPTION_INT, &seed, "N", "of the lines that are shown", 0, 1 << 30},
    {"threads", OPTION_INT, &threads, "N", "threads, 0 for all CPUs", 0, 1024},
    {"isa", OPTION_STRING, &isa, "NAME", "instruction set", 0, 0},
    {"dtype", OPTION_STRING, &dtype, "TYPE", "f32 or bf16", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "demo",
                                       .summary = "translate sentences, or show some translations",
                                       .usage = "--model DIR [options] [<FILE]",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

/* ---------------------------------------------------------------------------------- lines -------- */

struct lines {
    char **text;
    int n;
};

static void lines_add(struct lines *lines, const char *text) {
    if ((lines->n & (lines->n - 1)) == 0) /* full at every power of two */
        lines->text =
            xrealloc(lines->text, (size_t)(lines->n ? 2 * lines->n : 1) * sizeof *lines->text);
    lines->text[lines->n++] = xstrdup(text);
}

static void lines_release(struct lines *lines) {
    for (int i = 0; i < lines->n; i++) xfree(lines->text[i]);
    xfree(lines->text);
}

static int lines_read(struct lines *lines, const char *path, struct err *err) {
    struct text *text;
    struct line line;
    int rc = text_open(&text, path, err);
    if (rc) return rc;
    while ((rc = text_next(text, &line, err)) > 0 && lines->n < MAX_LINES)
        lines_add(lines, line.text);
    text_close(text);
    if (rc > 0) rc = err_set(err, HEED_ELIMIT, "%.200s: more than %d lines", path, MAX_LINES);
    return rc;
}

/* ---------------------------------------------------------------------------------- translating -- */

struct translator {
    struct tokenizer *tokenizer;
    struct backend *be;
    struct model *model;
    struct searcher *searcher;
    struct batch batch;       /* only its source side is used */
    int32_t *ids;             /* [max_len] one source sentence */
    int line[BATCH_LINES];    /* where the batch's sentences come from */
    int n_cut;                /* lines that were too long for the model */
    struct lines translation; /* [source.n], filled batch by batch */
};

static int at_most(int n, int most) { return n < most ? n : most; }
static int at_least(int n, int least) { return n > least ? n : least; }

static int open_searcher(struct translator *t, int max_len, int tokens, struct err *err) {
    struct search_marks marks = {tokenizer_bos(t->tokenizer), tokenizer_eos(t->tokenizer), -1};
    struct search_options options = search_defaults();
    options.beam = 1;
    return searcher_new(&t->searcher, &t->model, NULL, 1, &marks, &options,
                        &(struct search_caps){BATCH_LINES, tokens, max_len}, err);
}

static int open_tokenizer(struct translator *t, struct err *err) {
    char path[4096];
    const struct config *c = &t->model->config;
    if (snprintf(path, sizeof path, "%s/%s", dir, MODELDIR_TOKENIZER) >= (int)sizeof path)
        return err_set(err, HEED_ELIMIT, "--model: the path is too long");
    int rc = tokenizer_open(&t->tokenizer, path, err);
    if (!rc) rc = tokenizer_check_ends(t->tokenizer, err);
    int size = rc ? 0 : tokenizer_size(t->tokenizer);
    if (!rc && (size != c->n_vocab_src || size != c->n_vocab_tgt))
        rc = err_set(err, HEED_EFORMAT, "%.180s: %d pieces, but the model has %d and %d", path,
                     size, c->n_vocab_src, c->n_vocab_tgt);
    return rc;
}

static int translator_open(struct translator *t, struct err *err) {
    enum dtype type;
    int rc = options_dtype(&type, dtype, err);
    if (!rc) rc = backend_open(&t->be, &(struct backend_options){"cpu", threads, isa}, err);
    if (!rc) rc = model_load(&t->model, dir, t->be, type, err);
    if (!rc) rc = open_tokenizer(t, err);
    if (rc) return rc;
    int max_len = t->model->config.max_len, tokens = at_least(max_len, BATCH_SRC);
    t->ids = xcalloc((size_t)max_len, sizeof *t->ids);
    rc = open_searcher(t, max_len, tokens, err);
    if (!rc)
        rc = batch_init(&t->batch, tokens, BATCH_LINES, BATCH_LINES, tokenizer_bos(t->tokenizer),
                        err);
    return rc;
}

static void translator_close(struct translator *t) {
    lines_release(&t->translation);
    batch_release(&t->batch);
    searcher_free(t->searcher);
    model_free(t->model);
    backend_close(t->be);
    tokenizer_free(t->tokenizer);
    xfree(t->ids);
}

/* The text of ids as translation number `line`. */
static int keep(struct translator *t, int line, const int32_t *ids, int n, struct err *err) {
    int size = tokenizer_decode(t->tokenizer, ids, n, NULL, 0);
    if (size < 0) return err_set(err, size, "line %d: its translation is no text", line + 1);
    char *text = xmalloc((size_t)size + 1);
    tokenizer_decode(t->tokenizer, ids, n, text, (size_t)size + 1);
    for (char *c = text; *c; c++) /* a line stays a line, whatever the tokenizer can spell */
        if (*c == '\n' || *c == '\r') *c = ' ';
    xfree(t->translation.text[line]);
    t->translation.text[line] = text;
    return 0;
}

/* Translates the sentences collected in the batch. */
static int flush(struct translator *t, struct err *err) {
    const struct packed *src = &t->batch.src;
    struct search_input in[BATCH_LINES];
    struct search_result out[BATCH_LINES];
    for (int i = 0; i < t->batch.n_seq; i++)
        in[i] = (struct search_input){.src = src->ids + src->start[i],
                                      .n_src = src->start[i + 1] - src->start[i]};
    int rc = searcher_run(t->searcher, in, t->batch.n_seq, out, NULL, NULL, err);
    for (int i = 0; !rc && i < t->batch.n_seq; i++)
        rc = keep(t, t->line[i], out[i].best->ids, out[i].best->n, err);
    batch_clear(&t->batch);
    return rc;
}

/* Puts the n tokens of t->ids, from the given line, into the batch, after making room if need be. */
static int collect(struct translator *t, int line, int n, struct err *err) {
    const struct batch *b = &t->batch;
    int32_t eos = tokenizer_eos(t->tokenizer);
    int rc = batch_add(&t->batch, t->ids, n, &eos, 1, err);
    if (rc == 0 && (rc = flush(t, err)) == 0) rc = batch_add(&t->batch, t->ids, n, &eos, 1, err);
    if (rc < 0) return rc;
    t->line[b->n_seq - 1] = line;
    return 0;
}

static int translate(struct translator *t, const struct lines *source, struct err *err) {
    int room = t->model->config.max_len - 1; /* the end mark */
    for (int i = 0; i < source->n; i++) lines_add(&t->translation, "");
    for (int i = 0; i < source->n; i++) {
        const char *text = source->text[i];
        int n = tokenizer_encode(t->tokenizer, text, strlen(text), t->ids, room);
        if (n < 0) return err_set(err, n, "line %d cannot be tokenised", i + 1);
        if (n == 0) continue; /* nothing in, nothing out */
        t->n_cut += n > room;
        n = at_most(n, room);
        t->ids[n] = tokenizer_eos(t->tokenizer);
        int rc = collect(t, i, n + 1, err);
        if (rc) return rc;
    }
    return flush(t, err);
}

/* ---------------------------------------------------------------------------------- showing ------ */

static void show_line(const struct lines *source, const struct lines *got, const struct lines *want,
                      int i) {
    int same = want->n && strcmp(got->text[i], want->text[i]) == 0;
    printf("  %s\n    -> %s%s\n", source->text[i], got->text[i],
           same ? "   (as the reference)" : "");
    if (want->n && !same) printf("       (reference: %s)\n", want->text[i]);
}

static void show_some(const struct lines *source, const struct lines *got,
                      const struct lines *want) {
    struct rng rng = {.key = (uint64_t)seed};
    int *left = xcalloc((size_t)source->n + 1, sizeof *left), n = source->n, exact = 0;
    for (int i = 0; i < n; i++) left[i] = i;
    for (int k = 0; k < show && n > 0; k++) {
        int at = (int)rng_below(&rng, (uint32_t)n);
        show_line(source, got, want, left[at]);
        left[at] = left[--n];
    }
    xfree(left);
    for (int i = 0; i < want->n; i++) exact += strcmp(got->text[i], want->text[i]) == 0;
    if (want->n)
        printf(
            "Of all %d sentences %d are translated exactly as the reference, one of several right "
            "ways.\n",
            source->n, exact);
}

static int demonstrate(struct translator *t, struct lines *source, struct lines *want,
                       struct err *err) {
    int rc = lines_read(source, input, err);
    if (!rc && reference) rc = lines_read(want, reference, err);
    if (!rc && reference && want->n != source->n)
        rc = err_set(err, HEED_EFORMAT, "%.100s has %d lines, %.100s has %d", input, source->n,
                     reference, want->n);
    if (!rc) rc = translator_open(t, err);
    if (!rc) rc = translate(t, source, err);
    if (rc) return rc;
    if (t->n_cut)
        fprintf(stderr, "heed: warning: %d lines were cut to the model's %d tokens\n", t->n_cut,
                t->model->config.max_len);
    if (show)
        show_some(source, &t->translation, want);
    else
        for (int i = 0; i < t->translation.n; i++) puts(t->translation.text[i]);
    return 0;
}

static int run(int argc, char **argv, struct err *err) {
    int rc = options_parse(&command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    if (!dir) return cli_usage(err, "demo: --model is missing");
    struct translator t = {0};
    struct lines source = {0}, want = {0};
    rc = demonstrate(&t, &source, &want, err);
    translator_close(&t);
    lines_release(&source);
    lines_release(&want);
    return rc;
}

const struct subcommand cmd_demo = {.name = "demo",
                                    .summary = "translate sentences, or show some translations",
                                    .run = run,
                                    .commands = commands};
