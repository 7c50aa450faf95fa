/* cmd_score.c — `heed score`: how probable a model finds given translations. One line out per pair
 * in, in order.
 *
 * Every pair has a score. An empty source is its end mark alone, and so is an empty target, whose
 * score is then that of ending at once. A line with more tokens than the model has positions cannot
 * be scored: the command fails and names the line, or prints `nan` with --skip-long.
 *
 * Pairs are read in blocks, so that memory does not grow with the files; inside a block they are
 * packed into batches as they come, since nothing is padded. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "data/text.h"
#include "io/json.h"
#include "search/engine.h"
#include "search/scorer.h"

enum { BLOCK_PAIRS = 1024, JSON_FLAGS = JSON_COMPACT | JSON_REAL_PRECISION(9) };

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

/* One pair of the block: where its tokens are, and what it has in words and characters. */
struct entry {
    size_t src, tgt;  /* in ids, behind the target's tag; the scores are at tgt, too */
    int n_src, n_tgt; /* 0: it cannot be scored */
    uint64_t words, chars;
};

struct totals {
    uint64_t pairs, skipped, tokens, words, chars;
    double log_prob;
};

struct job {
    struct engine *engine;
    struct scorer *scorer;
    struct text *src, *tgt;
    struct engine_tags tags; /* before every source and target; the latter is not scored */
    struct entry entry[BLOCK_PAIRS];
    struct score_pair pair[BLOCK_PAIRS];
    int n;
    int32_t *ids; /* of the block's pairs, one after another */
    float *score; /* beside ids */
    size_t n_ids, cap_ids;
    struct totals totals;
    struct progress progress;
};

/* ---- reading --------------------------------------------------------------------------------- */

/* Appends the tokens of a line, behind its tag, if it has one, and returns their number, 0 if there
 * are too many for the model. */
static int add_tokens(struct job *j, const struct line *line, int source, struct err *err) {
    const struct tokenizer *tokenizer = source ? j->engine->source : j->engine->target;
    const char *path = source ? args.src : args.tgt;
    int32_t tag = source ? j->tags.source : j->tags.target;
    int cap = j->engine->model[0]->config.max_len, at = tag >= 0;
    char what[240];
    snprintf(what, sizeof what, "%.200s:%llu", path, (unsigned long long)j->totals.pairs + 1);
    if (j->n_ids + (size_t)cap > j->cap_ids) {
        j->cap_ids = 2 * j->cap_ids + (size_t)cap;
        j->ids = xrealloc(j->ids, j->cap_ids * sizeof *j->ids);
        j->score = xrealloc(j->score, j->cap_ids * sizeof *j->score);
    }
    int32_t *ids = j->ids + j->n_ids;
    int n = line->flags & LINE_TOO_LONG
                ? cap + 1
                : tokenizer_encode_end(tokenizer, line->text, line->size, ids + at, cap - at);
    if (n < 0) return err_set(err, n, "%.200s: cannot be tokenised", what);
    if (at) ids[0] = tag;
    n += at;
    if (n <= cap) {
        j->n_ids += (size_t)n;
        return n;
    }
    if (args.skip_long) return 0;
    if (line->flags & LINE_TOO_LONG)
        return err_set(err, HEED_ELIMIT, "%s: longer than %s bytes (--skip-long continues)", what,
                       text_grouped(TEXT_MAX_LINE));
    return err_set(err, HEED_ELIMIT,
                   "%s: %d tokens with the end mark; the model has positions for %d (--skip-long "
                   "continues)",
                   what, n, cap);
}

static void count_text(struct entry *e, const struct line *line) {
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
    struct entry *e = &j->entry[j->n];
    int lead = j->tags.target >= 0;
    size_t begin = e->src = j->n_ids;
    e->n_src = add_tokens(j, src, 1, err);
    if (e->n_src < 0) return e->n_src;
    e->tgt = j->n_ids + (size_t)lead;
    e->n_tgt = add_tokens(j, tgt, 0, err);
    if (e->n_tgt < 0) return e->n_tgt;
    if (e->n_tgt) e->n_tgt -= lead;
    if (!e->n_src || !e->n_tgt) {
        e->n_src = e->n_tgt = 0;
        j->n_ids = begin;
    }
    count_text(e, tgt);
    j->n++;
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
    j->n_ids = 0;
    while (j->n < BLOCK_PAIRS) {
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

static void print_json(const struct job *j, const struct entry *e, uint64_t line, double sum) {
    json_t *o = json_object();
    json_object_set_new(o, "line", json_integer((json_int_t)line));
    json_object_set_new(o, "log_prob", json_out_real(sum));
    json_object_set_new(o, "tokens", json_integer(e->n_tgt));
    if (args.normalise) json_object_set_new(o, "per_token", json_out_real(sum / e->n_tgt));
    if (args.token_scores) {
        json_t *pieces = json_array(), *scores = json_array();
        for (int i = 0; i < e->n_tgt; i++) {
            const char *piece = tokenizer_piece(j->engine->target, j->ids[e->tgt + (size_t)i]);
            json_array_append_new(pieces, json_out_string(piece));
            json_array_append_new(scores, json_out_real((double)j->score[e->tgt + (size_t)i]));
        }
        json_object_set_new(o, "pieces", pieces);
        json_object_set_new(o, "token_log_probs", scores);
    }
    json_dumpf(o, stdout, JSON_FLAGS);
    putchar('\n');
    json_decref(o);
}

static void print_plain(const struct job *j, const struct entry *e, double sum) {
    if (!e->n_tgt) {
        puts("nan");
        return;
    }
    printf("%.6f", args.normalise ? sum / e->n_tgt : sum);
    for (int i = 0; args.token_scores && i < e->n_tgt; i++)
        printf("%c%.6f", i ? ' ' : '\t', (double)j->score[e->tgt + (size_t)i]);
    putchar('\n');
}

static void print_block(struct job *j) {
    struct totals *t = &j->totals;
    for (int i = 0; i < j->n; i++) {
        const struct entry *e = &j->entry[i];
        double sum = e->n_tgt ? 0 : NAN;
        for (int k = 0; k < e->n_tgt; k++) sum += (double)j->score[e->tgt + (size_t)k];
        if (args.json)
            print_json(j, e, t->pairs - (uint64_t)(j->n - i) + 1, sum);
        else
            print_plain(j, e, sum);
        if (!e->n_tgt) {
            t->skipped++;
            continue;
        }
        t->log_prob += sum;
        t->tokens += (uint64_t)e->n_tgt;
        t->words += e->words + 1; /* the end of a line counts, as the end mark does */
        t->chars += e->chars + 1;
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

static int score_block(struct job *j, struct err *err) {
    int n = 0, lead = j->tags.target >= 0;
    for (int i = 0; i < j->n; i++) {
        const struct entry *e = &j->entry[i];
        size_t tgt = e->tgt - (size_t)lead;
        if (e->n_tgt)
            j->pair[n++] = (struct score_pair){j->ids + e->src, j->ids + tgt, e->n_src,
                                               e->n_tgt + lead, j->score + tgt};
    }
    return scorer_run(j->scorer, j->pair, n, err);
}

static int open_all(struct job *j, struct err *err) {
    int rc = text_open(&j->src, args.src, err);
    if (!rc) rc = text_open(&j->tgt, args.tgt, err);
    if (!rc) rc = engine_open(&j->engine, &args.from, err);
    if (!rc) rc = engine_tags(j->engine, &args.said, &j->tags, err);
    if (rc) return rc;
    int max_len = j->engine->model[0]->config.max_len;
    int cap = args.tokens > max_len ? args.tokens : max_len;
    return scorer_new(&j->scorer, j->engine->model[0], tokenizer_bos(j->engine->target),
                      &(struct batch_caps){cap, cap, cap}, err);
}

static int score(struct job *j, struct err *err) {
    int more, rc = 0;
    do {
        more = read_block(j, err);
        if (more < 0) return more;
        if ((rc = score_block(j, err))) return rc;
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
    scorer_free(j->scorer);
    engine_close(j->engine);
    text_close(j->src);
    text_close(j->tgt);
    xfree(j->ids);
    xfree(j->score);
    xfree(j);
    return rc;
}

const struct command cmd_score = {.name = "score",
                                  .summary =
                                      "log-probability of given translations, and perplexity",
                                  .usage = "--model MODEL --src FILE --tgt FILE [options]",
                                  .groups = groups,
                                  .run = run};
