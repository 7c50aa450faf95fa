/* cmd_score.c — `heed score`: how probable a model finds given translations. One line out per pair
 * in, in order.
 *
 * Every pair has a score (search/scoring.h) but those that are too long for the model: the command
 * fails and names the line, or prints `nan` with --skip-long. Pairs are read in blocks, so that
 * memory does not grow with the files. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "io/json.h"
#include "search/scoring.h"

enum { JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

static struct score_args {
    const char *dir;
    struct engine_options from;
    const char *src, *tgt;
    struct engine_said said;
    int tokens, normalise, json, token_scores, skip_long, quiet;
} args = {.from = {.dir = &args.dir, .n = 1}};

#define OPTIONS_OF score_args
static const struct option rows[] = {
    MODEL_ROW(dir),
    ROW(STRING, "src", src, NULL, "source text: plain, gzip, xz, or - for standard input",
        .arg = "FILE", .required = 1),
    ROW(STRING, "tgt", tgt, NULL, "its translation, line by line", .arg = "FILE", .required = 1),
    SOURCE_LANG_ROW(said.source_lang),
    TARGET_LANG_ROW(said.target_lang),
    PREFIX_TOKEN_ROW(said.prefix_token),
    ROW(FLAG, "normalise", normalise, NULL,
        "divide by the number of target tokens, the end mark counted"),
    ROW(FLAG, "token_scores", token_scores, NULL,
        "also print each token's log-probability, after a tab"),
    JSON_ROW(json),
    ROW(FLAG, "skip_long", skip_long, NULL,
        "print nan for pairs too long for the model, instead of stopping"),
    ROW(INT, "tokens", tokens, "4096", "target tokens per batch (more if one sentence needs them)",
        .min = 1, .max = 1 << 20),
    PRECISION_ROW(from.precision),
    DEVICE_ROWS(from.where, "auto"),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

struct totals {
    uint64_t pairs, skipped, tokens, words, chars;
    double log_prob;
};

/* A target in words and characters. */
struct count {
    uint64_t words, chars;
};

struct job {
    struct engine *engine;
    struct scoring *scoring;
    struct text *src, *tgt;
    struct count count[SCORING_PAIRS];
    int n; /* pairs of the block */
    struct totals totals;
    struct progress progress;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Of the pair to come. */
static int check_side(const struct job *j, const struct line *line, const char *path, int n,
                      struct err *err) {
    char what[240];
    int cap = j->engine->model[0]->config.max_len;
    snprintf(what, sizeof what, "%.200s:%llu", path, (unsigned long long)j->totals.pairs + 1);
    if (n < 0) return err_set(err, n, "%.200s: cannot be tokenised", what);
    if (n <= cap || args.skip_long) return 0;
    if (line->flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "%s: longer than %s bytes (--skip-long continues)", what,
                       text_grouped(TEXT_MAX_LINE));
    return err_set(err, HEED_ELIMIT,
                   "%s: %d tokens with the end mark; the model has positions for %d (--skip-long "
                   "continues)",
                   what, n, cap);
}

static void count_text(struct count *e, const struct line *line) {
    int in_word = 0;
    e->words = e->chars = 0;
    for (size_t at = 0; at < line->size; e->chars++) {
        uint32_t code = 0;
        int n = utf8_decode(&code, line->text + at, line->size - at);
        at += (size_t)(n < 0 ? -n : n);
        int space = unicode_is_space(code);
        e->words += !space && !in_word;
        in_word = !space;
    }
}

static int add_pair(struct job *j, const struct line *src, const struct line *tgt,
                    struct err *err) {
    int n[2];
    scoring_add(j->scoring, src, tgt, n);
    int rc = check_side(j, src, args.src, n[0], err);
    if (!rc) rc = check_side(j, tgt, args.tgt, n[1], err);
    if (rc) return rc;
    count_text(&j->count[j->n++], tgt);
    j->totals.pairs++;
    return 0;
}

/* One file has ended before the other: counts the rest of that one, to name both. */
static int mismatch(struct job *j, struct err *err) {
    struct line line;
    int rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        while ((rc = text_next(i ? j->tgt : j->src, &line, err)) > 0) continue;
    if (rc) return rc;
    return err_set(err, HEED_EFORMAT, "%.90s has %s line%s, %.90s has %s", args.src,
                   text_grouped(text_counts(j->src).lines), PLURAL(text_counts(j->src).lines),
                   args.tgt, text_grouped(text_counts(j->tgt).lines));
}

/* Fills the block: 1 when there may be more, 0 at the end of both files. */
static int read_block(struct job *j, struct err *err) {
    j->n = 0;
    scoring_clear(j->scoring);
    while (j->n < SCORING_PAIRS) {
        struct line src, tgt;
        int a = text_next(j->src, &src, err), b = a < 0 ? 0 : text_next(j->tgt, &tgt, err);
        if (a < 0 || b < 0) return a < 0 ? a : b;
        if (a != b) return mismatch(j, err);
        if (!a) return 0;
        int rc = add_pair(j, &src, &tgt, err);
        if (rc) return rc;
    }
    return 1;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void print_json(const struct job *j, const struct scored *e, uint64_t line, double sum) {
    json_t *o = json_object();
    json_object_set_new(o, "line", json_integer((json_int_t)line));
    json_object_set_new(o, "log_prob", json_out_real(sum));
    json_object_set_new(o, "tokens", json_integer(e->n));
    if (args.normalise) json_object_set_new(o, "per_token", json_out_real(sum / e->n));
    if (args.token_scores) {
        json_t *pieces = json_array(), *scores = json_array();
        for (int i = 0; i < e->n; i++) {
            const char *piece = tokenizer_piece(j->engine->target, e->ids[i]);
            json_array_append_new(pieces, json_out_string(piece));
            json_array_append_new(scores, json_out_real((double)e->score[i]));
        }
        json_object_set_new(o, "pieces", pieces);
        json_object_set_new(o, "token_log_probs", scores);
    }
    json_dumpf(o, stdout, JSON_FLAGS);
    putchar('\n');
    json_decref(o);
}

static void print_plain(const struct scored *e, double sum) {
    if (!e->n) {
        puts("nan");
        return;
    }
    printf("%.6f", args.normalise ? sum / e->n : sum);
    for (int i = 0; args.token_scores && i < e->n; i++)
        printf("%c%.6f", i ? ' ' : '\t', (double)e->score[i]);
    putchar('\n');
}

static void print_block(struct job *j) {
    struct totals *t = &j->totals;
    for (int i = 0; i < j->n; i++) {
        struct scored e = scoring_result(j->scoring, i);
        double sum = e.n ? 0 : NAN;
        for (int k = 0; k < e.n; k++) sum += (double)e.score[k];
        if (args.json)
            print_json(j, &e, t->pairs - (uint64_t)(j->n - i) + 1, sum);
        else
            print_plain(&e, sum);
        if (!e.n) {
            t->skipped++;
            continue;
        }
        t->log_prob += sum;
        t->tokens += (uint64_t)e.n;
        t->words += j->count[i].words + 1; /* the end of a line counts, as the end mark does */
        t->chars += j->count[i].chars + 1;
    }
}

static void summary(const struct job *j) {
    const struct totals *t = &j->totals;
    uint64_t replaced = text_counts(j->src).replaced + text_counts(j->tgt).replaced;
    fprintf(stderr, "%s pair%s, %s target token%s: log-probability %.6g", text_grouped(t->pairs),
            PLURAL(t->pairs), text_grouped(t->tokens), PLURAL(t->tokens), t->log_prob);
    if (t->tokens)
        fprintf(stderr, ", perplexity %.6g per token, %.6g per word, %.4g bits per character",
                exp(-t->log_prob / (double)t->tokens), exp(-t->log_prob / (double)t->words),
                -t->log_prob / (double)t->chars / M_LN2);
    fputc('\n', stderr);
    if (t->skipped) fprintf(stderr, "pairs too long for the model: %s\n", text_grouped(t->skipped));
    if (replaced) fprintf(stderr, "bad UTF-8 sequences replaced: %s\n", text_grouped(replaced));
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_all(struct job *j, struct err *err) {
    int rc = text_open(&j->src, args.src, err);
    if (!rc) rc = text_open(&j->tgt, args.tgt, err);
    if (!rc) rc = engine_open(&j->engine, &args.from, err);
    return rc ? rc : scoring_new(&j->scoring, j->engine, &args.said, args.tokens, err);
}

static int score(struct job *j, struct err *err) {
    int more, rc = 0;
    do {
        more = read_block(j, err);
        if (more < 0) return more;
        if ((rc = scoring_run(j->scoring, err))) return rc;
        print_block(j);
        if (progress_due(&j->progress, 60))
            progress_line(&j->progress, "%s pairs", text_grouped(j->totals.pairs));
    } while (more);
    progress_end(&j->progress);
    if (!args.quiet) summary(j);
    return 0;
}

static int run(struct err *err) {
    if (strcmp(args.src, "-") == 0 && strcmp(args.tgt, "-") == 0)
        return cli_usage(err, "score: only one of --src and --tgt can be standard input");
    struct job *j = xcalloc(1, sizeof *j);
    progress_begin(&j->progress, args.quiet);
    int rc = open_all(j, err);
    if (!rc) rc = score(j, err);
    progress_end(&j->progress);
    scoring_free(j->scoring);
    engine_close(j->engine);
    text_close(j->src);
    text_close(j->tgt);
    xfree(j);
    return rc;
}

const struct command cmd_score = {.name = "score",
                                  .summary =
                                      "log-probability of given translations, and perplexity",
                                  .usage = "--model MODEL --src FILE --tgt FILE [options]",
                                  .groups = groups,
                                  .run = run};
