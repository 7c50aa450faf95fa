/* cmd_eval.c — `heed eval`: BLEU, chrF and chrF++ of translations against references, PARSEVAL of
 * trees (docs/eval.md). */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/eval_report.h"
#include "cli/progress.h"

static struct eval_args {
    struct option_list hyp, ref;
    const char *metrics, *evalb;
    struct bleu_options bleu;
    struct resampling resampling;
    int sentence, confidence, paired, json, score_only, width, threads;
} args;

#define OPTIONS_OF eval_args
static const struct option rows[] = {
    ROW(LIST, "ref", ref, NULL, "references, one segment per line; several files: several for each",
        .arg = "FILE", .required = 1),
    ROW(LIST, "hyp", hyp, NULL,
        "translations; if not given, standard input; several files: a table", .arg = "FILE"),
    ROW(STRING, "metric", metrics, "bleu,chrf",
        "any of bleu, chrf, chrf++, separated by commas; parseval for trees in brackets",
        .arg = "NAMES", .choices = eval_metric_names),
    ROW(CHOICE, "tokenize", bleu.tokenizer, "13a", "tokenisation for BLEU",
        .choices = tokenize_names),
    ROW(FLAG, "lowercase", bleu.lowercase, NULL, "ignore case, in all metrics"),
    ROW(CHOICE, "smooth", bleu.smooth, "exp", "smoothing of zero counts in BLEU",
        .choices = bleu_smooth_names),
    ROW(F64, "smooth_value", bleu.smooth_value, NULL,
        "what floor and add-k add; 0.1 for floor, 1 for add-k", .max = 1e6),
    ROW(FLAG, "effective_order", bleu.effective_order, NULL,
        "leave out n-grams longer than the text in BLEU"),
    ROW(STRING, "evalb_params", evalb, NULL,
        "for parseval: an EVALB parameter file, which says what to leave out", .arg = "FILE"),
    ROW(FLAG, "sentence", sentence, NULL,
        "scores of each line, tab-separated; implies --effective-order"),
    ROW(FLAG, "confidence", confidence, NULL, "95 % intervals by resampling"),
    ROW(FLAG, "paired", paired, NULL, "compare each system with the first by paired resampling"),
    ROW(INT, "samples", resampling.n_sample, "1000", "how often to resample", .min = 2,
        .max = 10e6),
    ROW(INT, "seed", resampling.seed, "12345", "seed of the resampling", .max = 1 << 30),
    ROW(INT, "width", width, "1", "digits after the decimal point", .max = 12),
    ROW(FLAG, "score_only", score_only, NULL, "print only the numbers"),
    JSON_ROW(json),
    THREADS_ROW(threads),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* ---- options --------------------------------------------------------------------------------- */

/* What was asked for, completed. */
static int check_bleu(struct bleu_options *o, struct err *err) {
    if (args.sentence) o->effective_order = 1;
    if (!options_given(groups, "smooth_value"))
        o->smooth_value = -1;
    else if (o->smooth == BLEU_SMOOTH_EXP || o->smooth == BLEU_SMOOTH_NONE)
        return cli_usage(err, "--smooth-value: --smooth %s does not use one",
                         bleu_smooth_names[o->smooth]);
    return 0;
}

static int add_metrics(struct eval *eval, struct err *err) {
    for (const char *at = args.metrics;;) {
        char name[32];
        struct err why;
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 31 ? length : 31), at);
        int which = 0;
        if (choice_parse(&which, eval_metric_names, name, &why))
            return cli_usage(err, "--metric: %s", why.msg);
        int rc = eval_add(eval, which, &args.bleu, args.evalb, err);
        if (rc) return rc;
        if (!at[length]) return 0;
        at += length + 1;
    }
}

static int check_files(const struct eval *eval, struct err *err) {
    if (eval->n_ref > EVAL_MAX_FILES || eval->n_hyp > EVAL_MAX_FILES)
        return cli_usage(err, "eval: more than %d files for --%s", EVAL_MAX_FILES,
                         eval->n_ref > EVAL_MAX_FILES ? "ref" : "hyp");
    int n_stdin = 0;
    for (int i = 0; i < eval->n_hyp; i++) n_stdin += strcmp(eval->hyp[i], "-") == 0;
    for (int i = 0; i < eval->n_ref; i++) n_stdin += strcmp(eval->ref[i], "-") == 0;
    if (n_stdin > 1)
        return cli_usage(err, "eval: standard input can be read once, not %d times%s", n_stdin,
                         args.hyp.n ? "" : "; --hyp is missing");
    if (args.paired && eval->n_hyp < 2)
        return cli_usage(err, "--paired: needs two or more --hyp files");
    if (args.sentence && eval->n_hyp > 1)
        return cli_usage(err, "--sentence: takes only one --hyp file");
    if (args.sentence && (args.paired || args.confidence))
        return cli_usage(err, "--sentence: cannot be resampled with --%s",
                         args.paired ? "paired" : "confidence");
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static int evaluate(struct eval *eval, struct err *err) {
    struct pool *pool;
    int rc = pool_new(&pool, args.threads, err);
    if (rc) return rc;
    rc = eval_run(eval, pool, err);
    if (!rc && !args.sentence) {
        if (args.json)
            eval_print_json(eval);
        else
            eval_print_text(eval);
    }
    eval_release(eval);
    pool_free(pool);
    return rc;
}

static void say_replaced(const char *path, uint64_t n) {
    fprintf(stderr, "heed: %s: bad UTF-8 sequences and NUL bytes replaced: %s\n", path,
            text_grouped(n));
}

static int run(struct err *err) {
    static const char *const standard_input[] = {"-"};
    struct eval eval = {.hyp = args.hyp.n ? args.hyp.item : standard_input,
                        .n_hyp = args.hyp.n ? args.hyp.n : 1,
                        .ref = args.ref.item,
                        .n_ref = args.ref.n,
                        .resampling = args.paired || args.confidence ? &args.resampling : NULL,
                        .paired = args.paired,
                        .on_replaced = say_replaced,
                        .width = args.width,
                        .score_only = args.score_only};
    if (args.sentence) eval.on_segment = args.json ? eval_print_segment_json : eval_print_segment;
    int rc = check_bleu(&args.bleu, err);
    if (!rc) rc = check_files(&eval, err);
    if (!rc) rc = add_metrics(&eval, err);
    return rc ? rc : evaluate(&eval, err);
}

const struct command cmd_eval = {.name = "eval",
                                 .summary =
                                     "score translations (BLEU, chrF, chrF++) and parse trees",
                                 .usage = "--ref FILE... [--hyp FILE...] [options]",
                                 .groups = groups,
                                 .run = run};
