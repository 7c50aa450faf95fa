/* cmd_eval.c — `heed eval`: BLEU, chrF and chrF++ of translations against references
 * (docs/eval.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/eval_report.h"
#include "cli/progress.h"

static struct option_list hyp, ref;
static const char *metrics = "bleu,chrf", *tokenize = "13a", *smooth = "exp", *smooth_value;
static int lowercase, effective_order, sentence, confidence, paired, as_json, score_only;
static int samples = 1000, seed = 12345, width = 1, threads;

static const struct option rows[] = {
    {"ref", OPTION_LIST, &ref, "FILE",
     "references, one line per segment; several files: several each", 0, 0},
    {"hyp", OPTION_LIST, &hyp, "FILE", "translations; none: standard input; several: a table", 0,
     0},
    {"metric", OPTION_STRING, &metrics, "NAMES", "of bleu, chrf, chrf++, with commas", 0, 0},
    {"tokenize", OPTION_STRING, &tokenize, "NAME", "BLEU's tokens: 13a, intl, char or none", 0, 0},
    {"lowercase", OPTION_FLAG, &lowercase, NULL, "ignore case, in all metrics", 0, 0},
    {"smooth", OPTION_STRING, &smooth, "NAME", "BLEU's zero counts: exp, floor, add-k or none", 0,
     0},
    {"smooth-value", OPTION_STRING, &smooth_value, "X",
     "what floor and add-k add; 0.1 for floor, 1 for add-k", 0, 0},
    {"effective-order", OPTION_FLAG, &effective_order, NULL,
     "leave out n-grams longer than the text in BLEU", 0, 0},
    {"sentence", OPTION_FLAG, &sentence, NULL,
     "scores of every line, tab-separated; implies --effective-order", 0, 0},
    {"confidence", OPTION_FLAG, &confidence, NULL, "95 % intervals by resampling", 0, 0},
    {"paired", OPTION_FLAG, &paired, NULL,
     "compare each system with the first by paired resampling", 0, 0},
    {"samples", OPTION_INT, &samples, "N", "how often to resample", 2, 10e6},
    {"seed", OPTION_INT, &seed, "N", "seed of the resampling", 0, 1 << 30},
    {"width", OPTION_INT, &width, "N", "digits behind the point", 0, 12},
    {"score-only", OPTION_FLAG, &score_only, NULL, "print numbers alone", 0, 0},
    {"json", OPTION_FLAG, &as_json, NULL, "one JSON object per score", 0, 0},
    {"threads", OPTION_INT, &threads, "N", "threads; 0: as many as there are processors", 0, 1024},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "eval",
                                       .summary = "score translations: BLEU, chrF and chrF++",
                                       .usage = "--ref FILE... [--hyp FILE...] [options]",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

/* ---- options --------------------------------------------------------------------------------- */

static int choose(int *chosen, const char *option, const char *name, const char *const *names,
                  struct err *err) {
    char list[96] = "";
    for (int i = 0; names[i]; i++) {
        if (strcmp(names[i], name) == 0) return *chosen = i, 0;
        size_t at = strlen(list);
        snprintf(list + at, sizeof list - at, "%s%s", at ? ", " : "", names[i]);
    }
    return cli_usage(err, "--%s: '%.60s' is not one of %s", option, name, list);
}

static int bleu_from_options(struct bleu_options *o, struct err *err) {
    int kind = 0, method = 0;
    int rc = choose(&kind, "tokenize", tokenize, tokenize_names, err);
    if (!rc) rc = choose(&method, "smooth", smooth, bleu_smooth_names, err);
    if (rc) return rc;
    *o = (struct bleu_options){.tokenizer = (enum tokenizer_kind)kind,
                               .lowercase = lowercase,
                               .smooth = (enum bleu_smooth)method,
                               .smooth_value = -1,
                               .effective_order = effective_order || sentence};
    if (!smooth_value) return 0;
    if (o->smooth == BLEU_SMOOTH_EXP || o->smooth == BLEU_SMOOTH_NONE)
        return cli_usage(err, "--smooth-value: --smooth %s takes none", smooth);
    char *end;
    errno = 0;
    o->smooth_value = strtod(smooth_value, &end);
    if (end == smooth_value || *end || errno || !(o->smooth_value >= 0 && o->smooth_value <= 1e6))
        return cli_usage(err, "--smooth-value: '%.60s' is not a number from 0 to 1000000",
                         smooth_value);
    return 0;
}

static int add_metric(struct eval *eval, int which, struct err *err) {
    struct eval_metric m = {.kind = which == 0 ? METRIC_BLEU : METRIC_CHRF};
    int rc = bleu_from_options(&m.bleu, err);
    if (rc) return rc;
    m.chrf = (struct chrf_options){6, which == 2 ? 2 : 0, 2, lowercase};
    if (m.kind == METRIC_BLEU) {
        m.n_stat = BLEU_N_STAT;
        snprintf(m.name, sizeof m.name, "BLEU");
        bleu_signature(m.signature, sizeof m.signature, &m.bleu, eval->n_ref, eval->resampling);
    } else {
        m.n_stat = chrf_n_stat(&m.chrf);
        chrf_name(m.name, sizeof m.name, &m.chrf);
        chrf_signature(m.signature, sizeof m.signature, &m.chrf, eval->n_ref, eval->resampling);
    }
    for (int i = 0; i < eval->n_metric; i++)
        if (strcmp(eval->metric[i].name, m.name) == 0)
            return cli_usage(err, "--metric: %s is there twice", m.name);
    eval->metric[eval->n_metric++] = m;
    return 0;
}

static int add_metrics(struct eval *eval, struct err *err) {
    static const char *const names[] = {"bleu", "chrf", "chrf++", NULL};
    for (const char *at = metrics;;) {
        char name[32];
        size_t length = strcspn(at, ",");
        snprintf(name, sizeof name, "%.*s", (int)(length < 31 ? length : 31), at);
        int which = 0, rc = choose(&which, "metric", name, names, err);
        if (!rc) rc = add_metric(eval, which, err);
        if (rc) return rc;
        if (!at[length]) return 0;
        at += length + 1;
    }
}

static int check_files(const struct eval *eval, struct err *err) {
    if (!eval->n_ref) return cli_usage(err, "eval: --ref is missing");
    if (eval->n_ref > EVAL_MAX_FILES || eval->n_hyp > EVAL_MAX_FILES)
        return cli_usage(err, "eval: more than %d files for --%s", EVAL_MAX_FILES,
                         eval->n_ref > EVAL_MAX_FILES ? "ref" : "hyp");
    int n_stdin = 0;
    for (int i = 0; i < eval->n_hyp; i++) n_stdin += strcmp(eval->hyp[i], "-") == 0;
    for (int i = 0; i < eval->n_ref; i++) n_stdin += strcmp(eval->ref[i], "-") == 0;
    if (n_stdin > 1)
        return cli_usage(err, "eval: standard input can be read once, not %d times%s", n_stdin,
                         hyp.n ? "" : "; --hyp is missing");
    if (paired && eval->n_hyp < 2)
        return cli_usage(err, "--paired: needs two or more systems for --hyp");
    if (sentence && eval->n_hyp > 1) return cli_usage(err, "--sentence: takes one --hyp");
    if (sentence && (paired || confidence))
        return cli_usage(err, "--sentence: cannot be resampled with --%s",
                         paired ? "paired" : "confidence");
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

static int evaluate(struct eval *eval, struct err *err) {
    struct pool *pool;
    int rc = pool_new(&pool, threads, err);
    if (rc) return rc;
    rc = eval_run(eval, pool, err);
    if (!rc && !sentence) {
        if (as_json)
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

static int run(int argc, char **argv, struct err *err) {
    static const char *const standard_input[] = {"-"};
    int rc = options_parse(&command, argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    struct resampling resampling = {samples, seed};
    struct eval eval = {.hyp = hyp.n ? hyp.item : standard_input,
                        .n_hyp = hyp.n ? hyp.n : 1,
                        .ref = ref.item,
                        .n_ref = ref.n,
                        .resampling = paired || confidence ? &resampling : NULL,
                        .paired = paired,
                        .on_replaced = say_replaced,
                        .width = width,
                        .score_only = score_only};
    if (sentence) eval.on_segment = as_json ? eval_print_segment_json : eval_print_segment;
    rc = check_files(&eval, err);
    if (!rc) rc = add_metrics(&eval, err);
    return rc ? rc : evaluate(&eval, err);
}

const struct subcommand cmd_eval = {.name = "eval",
                                    .summary = "score translations: BLEU, chrF and chrF++",
                                    .run = run,
                                    .commands = commands};
