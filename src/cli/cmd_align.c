/* cmd_align.c — `heed align`: which words of given translations came from which words of their
 * source (search/bitext.h). One line out per pair in, in order.
 *
 * With --gold the links are not printed but compared with links made by hand (eval/aer.h); with
 * --choose all that the models could be asked are compared with each other (align_choose.h). */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/align_choose.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/translate_print.h"
#include "data/pairs.h"
#include "eval/aer.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "train/target.h"

enum {
    CPU_TOKENS = 4096,
    GPU_TOKENS = 32768,
    CHOOSE_PAIRS = 1000 /* enough to tell layers apart */
};

static struct align_args {
    const char *dir[BITEXT_WAYS];
    enum precision precision;
    struct backend_options where;
    struct bitext_options bitext;
    struct engine_said said;
    const char *src, *tgt, *gold, *output;
    int gold_reversed, choose, store, json, quiet;
} args;

#define OPTIONS_OF align_args
static const struct option rows[] = {
    MODEL_ROW(dir[BITEXT_FORWARD]),
    ROW(STRING, "reverse", dir[BITEXT_REVERSE], NULL,
        "the model of the opposite direction; asked too, it makes links better", .arg = "MODEL"),
    ROW(STRING, "src", src, NULL, "source text: plain, gzip, xz, or - for standard input",
        .arg = "FILE", .required = 1),
    ROW(STRING, "tgt", tgt, NULL, "its translation, line by line", .arg = "FILE", .required = 1),
    SOURCE_LANG_ROW(said.source_lang),
    TARGET_LANG_ROW(said.target_lang),
    ROW(STRING, "output", output, NULL, "where to write; standard output if not given, or -",
        .arg = "FILE"),
    ROW(CHOICE, "units", bitext.unit, "words",
        "link words, tokens (what spaces separate), or the tokenizer's pieces; with --gold, tokens",
        .choices = bitext_unit_names),
    ROW(CHOICE, "symmetrise", bitext.method, "grow-diag-final-and",
        "how the links of both directions are put together", .choices = links_method_names),
    ROW(INT, "alignment_layer", bitext.align[BITEXT_FORWARD].layer, "0",
        "decoder layer to align by, counted from 1; 0: the model's choice, or the usual one",
        .max = 1000),
    ROW(INT, "alignment_head", bitext.align[BITEXT_FORWARD].head, "0",
        "head to align by, counted from 1; 0: the mean of all, or the model's choice", .max = 1024),
    ROW(CHOICE, "alignment_row", bitext.align[BITEXT_FORWARD].row, "auto",
        "align by the decoder's row that has a piece as input, or by that which writes it; auto: "
        "the model's choice, or the usual one",
        .choices = align_row_names),
    ROW(F32, "alignment_threshold", bitext.align[BITEXT_FORWARD].threshold, "0",
        "give no link to a word if none gets this share of its attention; 0: the model's choice, "
        "or none",
        .max = 1),
    ROW(INT, "reverse_layer", bitext.align[BITEXT_REVERSE].layer, "0", "the same of --reverse",
        .max = 1000),
    ROW(INT, "reverse_head", bitext.align[BITEXT_REVERSE].head, "0", "the same of --reverse",
        .max = 1024),
    ROW(CHOICE, "reverse_row", bitext.align[BITEXT_REVERSE].row, "auto", "the same of --reverse",
        .choices = align_row_names),
    ROW(F32, "reverse_threshold", bitext.align[BITEXT_REVERSE].threshold, "0",
        "the same of --reverse", .max = 1),
    ROW(STRING, "gold", gold, NULL,
        "links made by hand, I-J sure and I?J possible: print the error rate, no links",
        .arg = "FILE"),
    ROW(FLAG, "gold_reversed", gold_reversed, NULL, "they are target-source"),
    ROW(FLAG, "choose", choose, NULL,
        "print how far every layer and head of both models agrees with the other model"),
    ROW(FLAG, "store", store, NULL, "with --choose: the best ones become the models' choice"),
    ROW(INT, "tokens", bitext.tokens, "0",
        "target pieces per batch (more if one sentence needs them); 0: 4,096, on a GPU 32,768",
        .max = 1 << 20),
    JSON_ROW(json),
    PRECISION_ROW(precision),
    DEVICE_ROWS(where, "auto"),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

struct job {
    struct engine *engine[BITEXT_WAYS];
    struct bitext *bitext;
    struct pairs *pairs;
    struct text *gold;
    struct links sure, possible;
    struct aer aer;
    struct outlet out;
    struct bitext_pair *pair; /* [cap] of a window */
    int cap;
    uint64_t n, links, too_long, outside; /* pairs so far; their links; links of --gold */
    struct progress progress;
};

/* ---- writing --------------------------------------------------------------------------------- */

static void print_json(struct job *j, const struct bitext_pair *pair,
                       const struct bitext_result *r) {
    json_t *root = json_object();
    json_object_set_new(root, "line", json_integer((json_int_t)j->n + 1));
    json_object_set_new(root, "alignment", print_links(r->links.link, r->links.n));
    json_object_set_new(root, "source_words", print_words(pair->src, r->src_word, r->n_src));
    json_object_set_new(root, "words", print_words(pair->tgt, r->tgt_word, r->n_tgt));
    if (r->too_long) json_object_set_new(root, "too_long", json_true());
    char *text = json_dumps(root, JSON_COMPACT);
    BUG_ON(!text);
    outlet_put(&j->out, text, strlen(text));
    free(text);
    json_decref(root);
}

static void print_result(struct job *j, const struct bitext_pair *pair,
                         const struct bitext_result *r) {
    if (args.json) print_json(j, pair, r);
    for (int i = 0; i < r->links.n && !args.json; i++)
        outlet_printf(&j->out, "%s%d-%d", i ? " " : "", r->links.link[i].src, r->links.link[i].tgt);
    outlet_put(&j->out, "\n", 1);
}

/* Rates that are a share of nothing are none. */
static void print_rates(struct job *j) {
    const struct aer *a = &j->aer;
    const double rate[] = {aer_rate(a), aer_precision(a), aer_recall(a)};
    char text[3][16];
    for (int i = 0; i < 3; i++) {
        snprintf(text[i], sizeof text[i], "%s", args.json ? "null" : "-");
        if (!isnan(rate[i])) snprintf(text[i], sizeof text[i], "%.*f", args.json ? 6 : 4, rate[i]);
    }
    if (args.json)
        outlet_printf(&j->out,
                      "{\"pairs\":%llu,\"links\":%llu,\"sure\":%llu,\"possible\":%llu,"
                      "\"aer\":%s,\"precision\":%s,\"recall\":%s}\n",
                      (unsigned long long)a->pairs, (unsigned long long)a->found,
                      (unsigned long long)a->sure, (unsigned long long)a->possible, text[0],
                      text[1], text[2]);
    else
        outlet_printf(&j->out,
                      "AER %s  precision %s  recall %s  (%llu pair%s, %llu link%s; %llu sure, %llu "
                      "possible)\n",
                      text[0], text[1], text[2], (unsigned long long)a->pairs, PLURAL(a->pairs),
                      (unsigned long long)a->found, PLURAL(a->found), (unsigned long long)a->sure,
                      (unsigned long long)a->possible);
}

/* ---- gold ------------------------------------------------------------------------------------ */

/* The links of the next pair. */
static int next_gold(struct job *j, int n_src, int n_tgt, struct err *err) {
    struct line line;
    struct err why = {0};
    int rc = text_next(j->gold, &line, err);
    if (rc < 0) return rc;
    if (rc == 0)
        return err_set(err, HEED_EFORMAT, "%.120s has %llu line%s; there are more pairs", args.gold,
                       (unsigned long long)j->n, PLURAL(j->n));
    if (line.flags & LINE_TOO_LONG)
        return err_set(err, HEED_EFORMAT, "%.120s:%llu: the line is longer than %d bytes",
                       args.gold, (unsigned long long)j->n + 1, TEXT_MAX_LINE);
    rc = links_parse(&j->sure, &j->possible, line.text, line.size, &why);
    if (rc)
        return err_set(err, rc, "%.120s:%llu: %.120s", args.gold, (unsigned long long)j->n + 1,
                       why.msg);
    if (args.gold_reversed) links_turn(&j->sure), links_turn(&j->possible);
    j->outside +=
        (uint64_t)(links_clip(&j->sure, n_src, n_tgt) + links_clip(&j->possible, n_src, n_tgt));
    return 0;
}

static int end_gold(struct job *j, struct err *err) {
    struct line line;
    int rc = text_next(j->gold, &line, err);
    if (rc <= 0) return rc;
    return err_set(err, HEED_EFORMAT, "%.120s has more lines than the %llu pairs", args.gold,
                   (unsigned long long)j->n);
}

/* ---- the command ----------------------------------------------------------------------------- */

/* The models that have languages are told them, each in its direction. */
static int choose_languages(const struct job *j, struct err *err) {
    const struct engine_said *said = &args.said;
    int told = !said->source_lang && !said->target_lang;
    for (int i = 0; i < BITEXT_WAYS && j->engine[i]; i++) told |= j->engine[i]->tongues->n_code > 0;
    args.bitext.said[BITEXT_FORWARD] = *said;
    args.bitext.said[BITEXT_REVERSE] =
        (struct engine_said){.source_lang = said->target_lang, .target_lang = said->source_lang};
    if (told) return 0;
    return err_set(err, HEED_EINVAL, "%s: the model has no languages to choose from; leave it out",
                   said->source_lang ? "source_lang" : "target_lang");
}

/* Two models of one direction would agree on anything. */
static int check_directions(const struct job *j, struct err *err) {
    struct card card[BITEXT_WAYS] = {0};
    for (int i = 0; i < BITEXT_WAYS && j->engine[i]; i++)
        card_from_json(&card[i], frozen_notes(j->engine[i]->ensemble->model[0])->card, "", NULL);
    const struct card *a = &card[BITEXT_FORWARD], *b = &card[BITEXT_REVERSE];
    if (!a->source || !a->target || !b->source || !b->target) return 0; /* who knows */
    if (strcmp(a->source, b->source) != 0 || strcmp(a->target, b->target) != 0) return 0;
    return err_set(err, HEED_EINVAL,
                   "reverse: %.100s translates from %.20s to %.20s, as --model does; it must be "
                   "the opposite direction",
                   args.dir[BITEXT_REVERSE], b->source, b->target);
}

static int open_models(struct job *j, struct err *err) {
    int rc = 0;
    for (int i = 0; i < BITEXT_WAYS && args.dir[i] && !rc; i++) {
        struct engine_options o = {
            .dir = &args.dir[i], .n = 1, .precision = args.precision, .where = args.where};
        rc = engine_open(&j->engine[i], &o, err);
    }
    if (!rc) rc = check_directions(j, err);
    if (rc) return rc;
    if (!args.bitext.tokens)
        args.bitext.tokens = backend_device_memory(j->engine[0]->be) ? GPU_TOKENS : CPU_TOKENS;
    if ((rc = choose_languages(j, err))) return rc;
    args.bitext.n_thread = args.where.n_thread;
    args.bitext.stop = &signals_caught;
    if (args.gold && !options_given(groups, "units")) args.bitext.unit = BITEXT_TOKENS;
    return bitext_new(&j->bitext, j->engine[0], j->engine[1], &args.bitext, err);
}

static int check_options(struct err *err) {
    if (strcmp(args.src, "-") == 0 && strcmp(args.tgt, "-") == 0)
        return cli_usage(err, "align: only one of --src and --tgt can be standard input");
    if (args.choose && !args.dir[BITEXT_REVERSE])
        return cli_usage(err, "--choose: compares two models; --reverse is missing");
    static const char *const of_two[] = {"symmetrise", "reverse_layer", "reverse_head",
                                         "reverse_row", "reverse_threshold"};
    static const char *const chosen[] = {
        "symmetrise",    "alignment_layer",     "alignment_head",
        "alignment_row", "alignment_threshold", "reverse_layer",
        "reverse_head",  "reverse_row",         "reverse_threshold"};
    for (int i = 0; i < 5 && !args.dir[BITEXT_REVERSE]; i++)
        if (options_given(groups, of_two[i]))
            return err_set(err, HEED_EINVAL, "%s: needs --reverse, a second model", of_two[i]);
    for (int i = 0; i < 9 && args.choose; i++)
        if (options_given(groups, chosen[i]))
            return err_set(err, HEED_EINVAL, "%s: --choose tries all layers, rows and heads",
                           chosen[i]);
    if (args.choose && args.output)
        return cli_usage(err, "--output: is for links; --choose prints its table");
    if (args.store && !args.choose) return cli_usage(err, "--store: needs --choose");
    if (args.gold_reversed && !args.gold) return cli_usage(err, "--gold-reversed: needs --gold");
    const char *const inputs[] = {args.src, args.tgt, args.gold};
    for (int i = 0; i < 3 && outlet_is_file(args.output); i++)
        if (inputs[i] && file_same(inputs[i], args.output))
            return cli_usage(err, "--output: %.150s is also an input; choose another file",
                             args.output);
    for (int i = 0; i < BITEXT_WAYS && outlet_is_file(args.output); i++)
        if (args.dir[i] && target_holds(args.dir[i], args.output))
            return cli_usage(err, "--output: %.150s is a file of the model; choose another file",
                             args.output);
    return 0;
}

static int open_all(struct job *j, struct err *err) {
    int rc = check_options(err);
    if (!rc) rc = signals_watch(err);
    if (!rc) rc = pairs_open(&j->pairs, args.src, args.tgt, err);
    if (!rc && args.gold) rc = text_open(&j->gold, args.gold, err);
    if (!rc) rc = open_models(j, err);
    if (!rc) rc = outlet_open(&j->out, args.output, err);
    return rc;
}

/* The window as the aligner wants it. */
static void take_window(struct job *j, const struct pair *in, int n) {
    if (n > j->cap) {
        j->cap = n;
        j->pair = xrealloc(j->pair, (size_t)n * sizeof *j->pair);
    }
    for (int i = 0; i < n; i++) {
        j->pair[i] = (struct bitext_pair){in[i].side[0].text, in[i].side[1].text,
                                          in[i].side[0].size, in[i].side[1].size};
        j->too_long += ((in[i].side[0].flags | in[i].side[1].flags) & LINE_TOO_LONG) != 0;
    }
}

/* --choose: by the first pairs. */
static int choose(struct job *j, struct err *err) {
    int n = min_int(pairs_fill(j->pairs, err), CHOOSE_PAIRS), rc = 0;
    if (n < 0) return n;
    if (n == 0) return err_set(err, HEED_EFORMAT, "%.150s: no text to choose by", args.src);
    take_window(j, pairs_window(j->pairs), n);
    struct links *sure = xcalloc((size_t)n, sizeof *sure),
                 *possible = xcalloc((size_t)n, sizeof *sure);
    for (; j->n < (uint64_t)n && args.gold && !rc; j->n++) {
        rc = next_gold(j, LINKS_MAX_WORD, LINKS_MAX_WORD, err);
        sure[j->n] = j->sure, possible[j->n] = j->possible;
        j->sure = j->possible = (struct links){0};
    }
    if (!rc)
        rc = align_choose(&(struct align_choose){.bitext = j->bitext,
                                                 .pair = j->pair,
                                                 .n = n,
                                                 .sure = args.gold ? sure : NULL,
                                                 .possible = possible,
                                                 .dir = args.dir,
                                                 .store = args.store,
                                                 .json = args.json},
                          err);
    for (int i = 0; i < n; i++) links_release(&sure[i]), links_release(&possible[i]);
    xfree(sure);
    xfree(possible);
    return rc;
}

static int align_window(struct job *j, int n, struct err *err) {
    const struct bitext_result *result;
    int rc = bitext_run(j->bitext, j->pair, n, &result, err);
    for (int i = 0; i < n && !rc; i++, j->n++) {
        const struct bitext_result *r = &result[i];
        j->too_long += (uint64_t)r->too_long;
        j->links += (uint64_t)r->links.n;
        if (!args.gold) {
            print_result(j, &j->pair[i], r);
        } else if (!(rc = next_gold(j, r->n_src, r->n_tgt, err))) {
            aer_add(&j->aer, &r->links, &j->sure, &j->possible);
        }
    }
    return rc ? rc : outlet_flush(&j->out, &signals_caught, err);
}

static int align(struct job *j, struct err *err) {
    int n, rc = 0;
    while ((n = pairs_fill(j->pairs, err)) > 0) {
        if (signals_caught) return err_set(err, HEED_ECANCELLED, "stopped");
        take_window(j, pairs_window(j->pairs), n);
        if ((rc = align_window(j, n, err))) return rc;
        if (progress_due(&j->progress, 60))
            progress_line(&j->progress, "%s pairs", text_grouped(j->n));
    }
    if (n < 0) return n;
    if (args.gold) {
        if ((rc = end_gold(j, err))) return rc;
        print_rates(j);
        rc = outlet_flush(&j->out, &signals_caught, err);
    }
    return rc ? rc : outlet_commit(&j->out, err);
}

static void summary(const struct job *j) {
    double seconds = clock_seconds() - j->progress.begin;
    if (!args.gold)
        fprintf(stderr, "%s pair%s, %s link%s in %.1f s\n", text_grouped(j->n), PLURAL(j->n),
                text_grouped(j->links), PLURAL(j->links), seconds);
    if (j->too_long)
        fprintf(stderr, "heed: warning: pairs without links, too long for the model: %s\n",
                text_grouped(j->too_long));
    uint64_t replaced = pairs_counts(j->pairs, 0).replaced + pairs_counts(j->pairs, 1).replaced;
    if (replaced)
        fprintf(stderr, "heed: warning: bad UTF-8 sequences replaced: %s\n",
                text_grouped(replaced));
    if (j->outside)
        fprintf(stderr, "heed: warning: %s: links to words that do not exist, left out: %s\n",
                args.gold, text_grouped(j->outside));
}

static void close_all(struct job *j) {
    char *part = outlet_close(&j->out);
    if (part && !args.quiet)
        fprintf(stderr, "heed: the links that were finished are in %s\n", part);
    xfree(part);
    bitext_free(j->bitext);
    for (int i = 0; i < BITEXT_WAYS; i++) engine_close(j->engine[i]);
    pairs_close(j->pairs);
    text_close(j->gold);
    links_release(&j->sure);
    links_release(&j->possible);
    xfree(j->pair);
}

static int run(struct err *err) {
    struct job j = {.out = {.fd = -1}};
    progress_begin(&j.progress, args.quiet);
    int rc = open_all(&j, err);
    if (!rc) rc = args.choose ? choose(&j, err) : align(&j, err);
    progress_end(&j.progress);
    if (!rc && !args.quiet && !args.choose) summary(&j);
    int closed = j.out.closed;
    close_all(&j);
    if (signals_caught || closed) signals_end_by(closed ? SIGPIPE : signals_caught);
    return rc;
}

static const char about[] =
    "One line out for every pair in, in order: I-J links word I of the source to word J of the "
    "target, both counted from 0. A pair that is too long for a model has none.";

const struct command cmd_align = {
    .name = "align",
    .summary = "link the words of given translations to those of their source",
    .usage = "--model MODEL [--reverse MODEL] --src FILE --tgt FILE [options]",
    .about = about,
    .groups = groups,
    .run = run};
