/* cmd_train.c — `heed train`: from parallel text to a model directory, and on from wherever it
 * stopped. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/signals.h"
#include "train/agree.h"
#include "train/setup.h"
#include "train/target.h"
#include "train/valid_bleu.h"

/* ---- options --------------------------------------------------------------------------------- */

static struct train_args {
    struct setup_options run;
    const char *config_file;
    struct ranks_options ranks;
    int dtype, bleu_lines, dry_run, quiet;
} args;
static struct config fields;
enum {
    DEFAULT_STEPS = 100000, /* PAPER: 5.2, for base */
    MANY = 2000000000
};
static const char *const rounding_names[] = {"none", "int8", NULL};
static const char *const aside_names[] = {"auto", "on", "off", NULL};
static const char *const side_names[] = {"both", "src", "tgt", NULL};
static const char *const link_units[] = {"words", "tokens", NULL}; /* enum words_unit */
static const char *const divergence_names[] = {"stop", "skip", "rewind", NULL};

#define OPTIONS_OF train_args
static const struct option rows[] = {
    ROW(LIST, "src", run.src, NULL,
        "source text, one sentence per line: plain, gzip or xz; one file per corpus", .arg = "FILE",
        .required = 1),
    ROW(LIST, "tgt", run.tgt, NULL, "their translations, line by line", .arg = "FILE",
        .required = 1),
    ROW(LIST, "weights", run.weights, NULL,
        "how often each corpus is seen per epoch; 1 if not given", .arg = "X"),
    ROW(LIST, "tags", run.tags, NULL,
        "a piece of the tokenizer (heed vocab --symbols) that every source sentence of the corpus "
        "begins with; - for none; one per corpus",
        .arg = "T"),
    ROW(STRING, "valid_src", run.valid_src, NULL, "source text to validate on", .arg = "FILE"),
    ROW(STRING, "valid_tgt", run.valid_tgt, NULL, "its translation", .arg = "FILE"),
    ROW(STRING, "valid_tag", run.valid_tag, NULL, "a piece that its source sentences begin with",
        .arg = "T"),
    ROW(LIST, "guided_alignment", run.links, NULL,
        "teach one head of the decoder's cross-attention these links between words, lines like "
        "0-0 1-2, source-target from 0; one file per corpus, - for none",
        .arg = "FILE"),
    ROW(STRING, "guided_valid", run.valid_links, NULL, "links of the validation text",
        .arg = "FILE"),
    ROW(CHOICE, "guided_unit", run.link_unit, "words",
        "what links count: words, or tokens between spaces", .choices = link_units),
    ROW(F64, "guided_weight", run.guided_weight, "0.1",
        "weight of a token's links beside the loss of a token", .max = 1e3),
    ROW(INT, "guided_layer", run.guided_layer, "0",
        "the layer that learns links, from 1; 0: the last but one, or the only one",
        .max = 1 << 20),
    ROW(INT, "guided_head", run.guided_head, "1", "the head that does, from 1", .min = 1,
        .max = 1 << 20),
    ROW(STRING, "out", run.trainer.dir, NULL,
        "the run's directory; an unfinished run there is continued", .arg = "DIR", .made = 1,
        .required = 1),
    ROW(STRING, "config", config_file, NULL,
        "options as a JSON object; the command line overrides them", .arg = "FILE"),
    ROW(CHOICE, "preset", run.preset, "base", "the model, see the paper's Table 3",
        .choices = config_preset_names),
    ROW(STRING, "init", run.init, NULL,
        "begin with the weights, the shape and the tokenizer of this model (a name or a "
        "directory), "
        "and fine-tune it",
        .arg = "DIR"),
    ROW(STRING, "source_lang", run.source_lang, NULL,
        "language of the source texts, where the model of --init is for several", .arg = "CODE"),
    ROW(STRING, "target_lang", run.target_lang, NULL, "language of the target texts, likewise",
        .arg = "CODE"),
    ROW(STRING, "tokenizer", run.tokenizer, NULL,
        "a SentencePiece model; learnt from the text if not given", .arg = "FILE"),
    ROW(INT, "vocab_size", run.vocab_size, "8000", "number of pieces if the tokenizer is learnt",
        .min = TOKENIZER_MIN_SIZE, .max = TOKENIZER_MAX_SIZE),
    ROW(CHOICE, "vocab_type", run.vocab_type, "bpe", "kind of pieces if the tokenizer is learnt",
        .choices = tokenizer_type_names),
    ROW(F64, "bpe_dropout", run.subword.bpe_dropout, "0",
        "segment the text anew in every epoch, dropping each merge of a bpe tokenizer at each step "
        "with this probability (0.1 is usual); 0: always the best segmentation",
        .max = 1),
    ROW(F64, "unigram_alpha", run.subword.unigram_alpha, "0",
        "the same for a unigram tokenizer: sample by its probabilities to this power (0.2 is "
        "usual; the smaller, the wilder); 0: always the best segmentation",
        .max = SUBWORD_MAX_ALPHA),
    ROW(CHOICE, "sample_side", run.sample_side, "both", "which side to segment anew",
        .choices = side_names),
    ROW(I64, "steps", run.trainer.max_steps, "0",
        "updates, counted from the run's beginning; 0: no limit", .max = MANY),
    ROW(I64, "epochs", run.trainer.max_epochs, "0", "passes over the data; 0: no limit",
        .max = MANY),
    ROW(F64, "minutes", run.trainer.max_minutes, "0",
        "training time; 0: no limit. Without any limit: 100,000 steps", .max = 1e9),
    ROW(INT, "tokens", run.tokens, "25000", "most source and most target tokens per batch",
        .min = 1, .max = 1 << 24),
    ROW(INT, "accumulate", run.trainer.accumulate, "1", "batches per update", .min = 1,
        .max = 4096),
    ROW(I64, "warmup", run.warmup, "4000", "updates of rising learning rate", .max = MANY),
    ROW(F64, "lr_scale", run.lr_scale, "1", "factor on the paper's learning rate", .min = 1e-9,
        .max = 1e9),
    ROW(I64, "cooldown", run.cooldown, "0",
        "updates before --steps over which the learning rate falls linearly to 0", .max = MANY),
    ROW(F64, "clip", run.clip, "0", "largest norm of the gradient; 0: no clipping", .max = 1e9),
    ROW(F64, "ema", run.ema, "0",
        "decay of a moving average of the weights, which then is what is validated, kept and "
        "published, such as 0.9999; 0: none",
        .max = 1),
    ROW(CHOICE, "rounding", run.rounding, "none",
        "compute with weights rounded as heed quantize will round them, so that they learn to "
        "stand it; with --dtype bf16",
        .choices = rounding_names),
    ROW(U64, "seed", run.seed, "1", "seed of initial weights, dropout and the data's order",
        .max = MANY),
    ROW(INT, "log_every", run.trainer.log_every, "50", "updates between lines of the log", .min = 1,
        .max = MANY),
    ROW(INT, "valid_every", run.trainer.valid_every, "500", "updates between validations", .min = 1,
        .max = MANY),
    ROW(INT, "bleu_every", run.trainer.bleu_every, "0",
        "updates between validations that also translate and measure BLEU; 0: never", .max = MANY),
    ROW(INT, "bleu_lines", bleu_lines, "500", "most validation lines to translate for BLEU",
        .min = 1, .max = 1 << 20),
    ROW(INT, "save_every", run.trainer.save_every, "500", "updates between checkpoints", .min = 1,
        .max = MANY),
    ROW(CHOICE, "save_aside", run.save_aside, "auto",
        "write checkpoints while training goes on; takes memory for a copy of all weights and "
        "moments; auto: on a GPU",
        .choices = aside_names, .once = 1),
    ROW(INT, "keep", run.trainer.keep, "5", "checkpoints kept, beside the best one", .min = 1,
        .max = MANY),
    ROW(INT, "patience", run.trainer.patience, "0",
        "stop after this many validations without improvement; 0: never", .max = MANY),
    ROW(CHOICE, "on_divergence", run.trainer.on_divergence, "stop",
        "stop the run, skip the update, or rewind to the last checkpoint",
        .choices = divergence_names),
    ROW(INT, "max_length", run.max_length, "256",
        "drop pairs with more tokens than this on either side", .min = 2, .max = CORPUS_MAX_LEN),
    ROW(F64, "ratio", run.ratio, "9", "drop pairs whose lengths differ by more than this factor",
        .min = 1, .max = 1e6),
    ROW(STRING, "cache", run.cache, NULL,
        "where to keep tokenised corpora; the run's DIR/cache if not given", .arg = "DIR",
        .made = 1),
    RANKS_ROWS(ranks),
    ROW(INT, "restarts", ranks.restarts, "0",
        "with --ranks: how often to start anew after a rank was lost, with fewer if they did not "
        "last",
        .max = MANY, .once = 1),
    ROW(INT, "prefetch", run.prefetch, "4", "batches prepared ahead by a thread", .max = 64),
    DEVICE_ROWS(run.where, "auto"),
    ROW(CHOICE, "dtype", dtype, "auto", "type to compute in; auto: bf16 on a GPU, else f32",
        .choices = dtype_names),
    ROW(FLAG, "dry_run", dry_run, NULL,
        "print the memory and time the run would take, without training", .once = 1),
    ROW(FLAG, "overwrite", run.overwrite, NULL, "start over, discarding an earlier run", .once = 1),
    ROW(FLAG, "new_data", run.trainer.new_data, NULL,
        "continue even though the data, their order or the batches changed", .once = 1),
    ROW(FLAG, "new_tokenizer", run.trainer.new_tokenizer, NULL,
        "continue even though the tokenizer changed", .once = 1),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {
    {.rows = rows, .values = &args}, MODEL_FIELDS(&fields), {.rows = NULL}};

/* Lists with an entry for each corpus. */
static const struct {
    const char *name, *what, *or_none;
    const struct option_list *list;
} one_each[] = {
    {"weights", "number", "", &args.run.weights},
    {"tags", "tag", ", - for none", &args.run.tags},
    {"guided-alignment", "file", ", or - for a corpus without", &args.run.links},
};

static int check_args(struct err *err) {
    struct trainer_options *o = &args.run.trainer;
    if (!args.run.src.n) return cli_usage(err, "train: --src names no file");
    if (args.run.src.n != args.run.tgt.n)
        return cli_usage(err, "train: %d file%s for --src but %d for --tgt", args.run.src.n,
                         PLURAL(args.run.src.n), args.run.tgt.n);
    for (int i = 0; i < 3; i++)
        if (one_each[i].list->n && one_each[i].list->n != args.run.src.n)
            return cli_usage(err, "--%s: %d %s%s for %d --src file%s; give one for each%s",
                             one_each[i].name, one_each[i].list->n, one_each[i].what,
                             PLURAL(one_each[i].list->n), args.run.src.n, PLURAL(args.run.src.n),
                             one_each[i].or_none);
    if (args.run.valid_links && !(args.run.links.n && args.run.valid_src))
        return cli_usage(err, "--guided-valid: needs --guided-alignment and --valid-src");
    if (!args.run.valid_src != !args.run.valid_tgt)
        return cli_usage(err, "train: --valid-src and --valid-tgt belong together");
    if (o->patience && !args.run.valid_src)
        return cli_usage(err,
                         "--patience: needs validation text; give --valid-src and --valid-tgt");
    if (o->bleu_every && !args.run.valid_src)
        return cli_usage(err,
                         "--bleu-every: needs validation text; give --valid-src and --valid-tgt");
    if (o->bleu_every % o->valid_every)
        return cli_usage(err, "--bleu-every: %d is not a multiple of --valid-every %d%s",
                         o->bleu_every, o->valid_every, options_if_default(groups, "valid_every"));
    if (args.run.ema >= 1)
        return cli_usage(err, "--ema: a decay of 1 would never learn; give less");
    if (args.run.cooldown && !o->max_steps)
        return cli_usage(err, "--cooldown: the run needs an end to cool down to; give --steps");
    if (args.run.cooldown > o->max_steps)
        return cli_usage(err, "--cooldown: %lld updates are more than the run's --steps %lld",
                         (long long)args.run.cooldown, (long long)o->max_steps);
    if (!o->max_steps && !o->max_epochs && o->max_minutes == 0) o->max_steps = DEFAULT_STEPS;
    return 0;
}

/* ---- telling --------------------------------------------------------------------------------- */

static void show_note(void *ctx, const char *text) { progress_note(ctx, "%s", text); }

static int show_learning(void *ctx, const struct tokenizer_report *r, const char *file) {
    struct progress *p = ctx;
    if (!file)
        progress_note(p, "learning the vocabulary from %s lines", text_grouped(r->sampled));
    else if (progress_due(p, 10))
        progress_line(p, "reading %s: %s lines", file, text_grouped(r->lines));
    return 0;
}

static int show_corpus(void *ctx, const struct corpus_progress *c) {
    static const char *const what[] = {"checking", "waiting for another build of", "tokenising"};
    struct progress *p = ctx;
    if (progress_due(p, 10))
        progress_line(p, "%s the corpus: %.0f%%, %s pairs", what[c->phase],
                      100 * (double)c->bytes_done / fmax((double)c->bytes_total, 1),
                      text_grouped(c->n_pair));
    return 0;
}

/* What a line of progress says, in this order. */
enum { STEP, EPOCH, LOSS, PPL, GUIDED, RATE, SPEED, RANKS, LEFT, N_PART, PART_SIZE = 40 };

/* A bar and as much beside it as the terminal has room for: first what matters, then, as long as
 * the bar does not get too small, what is nice to know. */
static void show_parts(struct progress *p, char part[N_PART][PART_SIZE], double fraction) {
    static const int order[N_PART] = {STEP, LOSS, LEFT, SPEED, RANKS, PPL, GUIDED, EPOCH, RATE};
    enum { N_FIRST = 4, BAR_LEAST = 8, BAR_GOOD = 20, BAR_MOST = 32 };
    char bar[BAR_MOST + 1] = "", line[N_PART * (PART_SIZE + 2) + 1] = "";
    int room = progress_columns(STDERR_FILENO) - 1;
    for (int i = 0; i < N_PART; i++) {
        int size = (int)strlen(part[order[i]]) + 2;
        if (size == 2) continue;
        if (size + (i < N_FIRST ? BAR_LEAST : BAR_GOOD) > room)
            part[order[i]][0] = 0;
        else
            room -= size;
    }
    for (int i = 0, at = 0; i < N_PART; i++)
        if (part[i][0]) at += snprintf(line + at, sizeof line - (size_t)at, "  %s", part[i]);
    if (room >= BAR_LEAST) progress_bar(bar, room < BAR_MOST ? room : BAR_MOST, fraction);
    progress_line(p, "%s%s", bar, line);
}

/* "  guided 1.234", or nothing. */
static const char *show_guided(char out[PART_SIZE], double loss) {
    out[0] = 0;
    if (!isnan(loss)) snprintf(out, PART_SIZE, "  guided %.3f", loss);
    return out;
}

/* "  8 ranks 97-104%", how much each worked against the median; or nothing. */
static const char *show_ranks(char out[PART_SIZE], const struct train_status *s) {
    out[0] = 0;
    if (s->ranks > 1)
        snprintf(out, PART_SIZE, "  %d ranks %.0f-%.0f%%", s->ranks, 100 * s->least, 100 * s->most);
    return out;
}

static void show_step(struct progress *p, const struct train_status *s) {
    double done = s->fraction, left = done > 0 ? s->seconds / done * (1 - done) : 0;
    long long step = s->step, total = args.run.trainer.max_steps, epoch = s->epoch + 1;
    if (args.run.trainer.max_epochs && epoch > args.run.trainer.max_epochs)
        epoch--; /* the last one has just ended */
    const char *speed = text_grouped((uint64_t)s->tok_s);
    char guided[PART_SIZE], ranks[PART_SIZE];
    show_guided(guided, s->guided);
    show_ranks(ranks, s);
    if (!p->terminal) {
        progress_line(
            p, "step %lld  epoch %lld  loss %.3f  ppl %.2f%s  lr %.2e  %s tok/s%s  %s left", step,
            epoch, s->loss, exp(s->nll), guided, s->rate, speed, ranks, text_duration(left));
        return;
    }
    char part[N_PART][PART_SIZE];
    snprintf(part[GUIDED], PART_SIZE, "%s", guided[0] ? guided + 2 : "");
    snprintf(part[RANKS], PART_SIZE, "%s", ranks[0] ? ranks + 2 : "");
    snprintf(part[STEP], PART_SIZE, total ? "step %lld/%lld" : "step %lld", step, total);
    snprintf(part[EPOCH], PART_SIZE, "epoch %lld", epoch);
    snprintf(part[LOSS], PART_SIZE, "loss %.3f", s->loss);
    snprintf(part[PPL], PART_SIZE, "ppl %.2f", exp(s->nll));
    snprintf(part[RATE], PART_SIZE, "lr %.2e", s->rate);
    snprintf(part[SPEED], PART_SIZE, "%s tok/s", speed);
    snprintf(part[LEFT], PART_SIZE, "%s left", text_duration(left));
    show_parts(p, part, done);
}

static void listen(void *ctx, enum train_event event, const struct train_status *s) {
    struct progress *p = ctx;
    char bleu[32] = "", guided[PART_SIZE];
    switch (event) {
    case TRAIN_RESUMED:
        progress_note(p, "continuing %s", s->text);
        break;
    case TRAIN_STEP:
        if (p->terminal && progress_due(p, 0)) show_step(p, s);
        break;
    case TRAIN_LOGGED:
        if (!p->terminal) show_step(p, s);
        break;
    case TRAIN_VALIDATING:
        if (p->terminal && progress_due(p, 0))
            progress_line(p, "step %lld  validating", (long long)s->step);
        break;
    case TRAIN_VALIDATED:
        if (!isnan(s->valid_bleu)) snprintf(bleu, sizeof bleu, "  BLEU %.2f", s->valid_bleu);
        progress_note(p, "step %lld  validation loss %.4f  ppl %.2f%s%s%s", (long long)s->step,
                      s->valid_loss, exp(s->valid_nll), show_guided(guided, s->valid_guided), bleu,
                      s->valid_is_best ? "  (best)" : "");
        break;
    case TRAIN_SAVED:
        break;
    case TRAIN_WARNING:
        progress_note(p, "warning: %s", s->text);
        break;
    }
}

/* ---- running --------------------------------------------------------------------------------- */

/* How the run would be divided; what rank 0 sent per update. */
static void say_ranks(const struct setup *s, double sent) {
    int ranks = s->comm->size, own = args.run.trainer.accumulate / ranks;
    if (ranks == 1) return;
    printf("%d ranks (%s): %d batch%s of every update and 1/%d of the optimizer's state each; "
           "each sends %.1f MB per update\n",
           ranks, comm_name(s->comm), own, own == 1 ? "" : "es", ranks, sent / 1e6);
}

static int dry_run(struct setup *s, struct err *err) {
    struct setup_trial trial;
    int rc = setup_try(s, &trial, err);
    if (rc || s->comm->rank > 0) return rc;
    say_ranks(s, trial.sent);
    struct batches_epoch epoch = batches_epoch(s->batches);
    double per_epoch = epoch.n_tgt_tok / trial.tokens * trial.seconds;
    double per_update = trial.seconds / (SETUP_TRIAL_STEPS - 1);
    printf("%s parameters, %.2f GiB of memory%s (training and validation)\n",
           text_grouped(s->model->table.n_value), gib(s->memory.total),
           s->comm->size > 1 ? " per rank" : "");
    printf("%s source and %s target tokens per epoch%s\n", text_grouped((uint64_t)epoch.n_src_tok),
           text_grouped((uint64_t)epoch.n_tgt_tok),
           s->subword ? ", an estimate: sampled segmentations have more" : "");
    printf("%s target tokens/s, %.2f s per update, %s per epoch\n",
           text_grouped((uint64_t)(trial.tokens / trial.seconds)), per_update,
           text_duration(per_epoch));
    int64_t steps = args.run.trainer.max_steps, epochs = args.run.trainer.max_epochs;
    if (steps)
        printf("%s step%s: about %s\n", text_grouped((uint64_t)steps), PLURAL(steps),
               text_duration(per_update * (double)steps));
    if (epochs)
        printf("%lld epoch%s: about %s\n", (long long)epochs, PLURAL(epochs),
               text_duration(per_epoch * (double)epochs));
    return 0;
}

/* Two processes in one directory would remove each other's checkpoints. */
static int lock_dir(int *lock, struct err *err) {
    int rc = dir_make(args.run.trainer.dir, err);
    if (rc) return rc;
    char *path = path_join(args.run.trainer.dir, "lock");
    rc = file_lock(lock, path, err);
    xfree(path);
    return rc;
}

static int write_config(const struct setup *s, struct err *err) {
    json_t *training = options_json(groups);
    int rc = setup_write_config(s, training, err);
    json_decref(training);
    return rc;
}

static void say_end(struct progress *p, enum train_end end, const struct train_status *s) {
    const char *why = end == TRAIN_STOPPED
                          ? args.run.overwrite
                                ? "stopped; run the same command without --overwrite to continue"
                                : "stopped; run the same command again to continue"
                      : end == TRAIN_PATIENCE ? "no further improvement"
                                              : "done";
    progress_note(p, "%s: step %lld, %s of training; the model is in %s", why, (long long)s->step,
                  text_duration(s->seconds), args.run.trainer.dir);
    char times[TRAIN_TIMES_TEXT];
    if (s->times.all > 0) progress_note(p, "%s", train_times_text(times, &s->times));
}

static int train(struct setup *s, struct progress *progress, enum train_end *end, struct err *err) {
    struct trainer *trainer = NULL;
    struct valid_bleu *bleu = NULL;
    struct trainer_options o = args.run.trainer;
    int first = s->comm->rank == 0, rc = 0;
    if (o.bleu_every) rc = valid_bleu_open(&bleu, s, args.bleu_lines, &signals_caught, err);
    rc = ranks_agree(s->comm, rc, err);
    o.opt = s->opt;
    o.batches = s->batches;
    o.valid = s->sweep;
    o.copy = s->copy;
    o.tokenizer = s->src_tokenizer;
    o.target = s->tgt_tokenizer;
    o.listener = first ? listen : NULL;
    o.listener_ctx = progress;
    o.stop = &signals_caught;
    o.bleu = valid_bleu_measure;
    o.bleu_ctx = bleu;
    if (!rc && args.run.overwrite && first) rc = target_clear(o.dir, err);
    rc = agree_with_first(s->comm, rc, err);
    if (!rc) rc = trainer_new(&trainer, &o, err);
    if (!rc) rc = agree_with_first(s->comm, first ? write_config(s, err) : 0, err);
    if (!rc && o.max_steps && s->opt->step >= o.max_steps)
        progress_note(progress,
                      "nothing left to do: the run is at step %lld; --steps %lld counts from its "
                      "beginning",
                      (long long)s->opt->step, (long long)o.max_steps);
    if (!rc) rc = trainer_run(trainer, end, err);
    progress_end(progress);
    if (!rc) say_end(progress, *end, trainer_status(trainer));
    trainer_free(trainer);
    valid_bleu_close(bleu);
    return rc;
}

static int valid_ranks(int n) { return shards_valid(args.run.trainer.accumulate, n); }

/* Everything until the first update. */
static int prepare(struct setup *s, struct progress *progress, int *lock, struct err *err) {
    int rc = setup_check(s, err);
    if (!rc) s->type = options_dtype(args.dtype, s->be);
    if (!rc && args.run.rounding != ROUNDING_NONE && s->type != DTYPE_BF16)
        rc = err_set(err, HEED_EINVAL,
                     "--rounding: it is the bf16 copy of the weights that is rounded, and %s has "
                     "none; give --dtype bf16",
                     dtype_name(s->type));
    if (!rc && !args.dry_run && s->comm->rank == 0) rc = lock_dir(lock, err);
    if ((rc = ranks_agree(s->comm, rc, err))) return rc;
    ranks_attach(s->comm, s->be);
    rc = ranks_agree(s->comm, setup_build(s, err), err);
    progress_end(progress);
    return rc ? rc : ranks_agree(s->comm, setup_guard(s, err), err);
}

/* Opens what ranks talk through, and sees to it that none waits for one that is lost. */
static int join_ranks(struct setup *s, struct err *err) {
    int rc = ranks_open(&s->comm, &args.ranks, &args.run.where, err);
    if (rc) return rc;
    rc = setup_ranks(s->comm, args.run.trainer.accumulate, err);
    if ((rc = ranks_agree(s->comm, rc, err))) return comm_close(s->comm), rc;
    return watch_new(
        &s->watch, s->comm,
        &(struct watch_options){.stop = &signals_caught, .lost = ranks_lost, .ctx = s->comm}, err);
}

/* Ranks that all know that they end do so together; else whoever waits for this one is told. */
static void leave_ranks(struct setup *s, int rc, int together) {
    watch_free(s->watch, rc && !together);
    if (!rc || together || s->comm->size == 1) comm_close(s->comm);
}

static int run(struct err *err) {
    enum train_end end = TRAIN_DONE;
    struct progress progress;
    int rc = check_args(err), lock = -1, together = 1;
    if (!rc) rc = ranks_launch(&args.ranks, &(struct ranks_job){valid_ranks, 1}, err);
    if (rc) return rc;
    if (args.run.init)
        models_find(&args.run.init, args.run.init, NULL); /* a run that continues needs none */
    args.run.models = getenv("HEED_MODELS");
    signal(SIGPIPE, SIG_IGN); /* a closed terminal must not lose a run */
    signal(SIGHUP, SIG_IGN);
    progress_begin(&progress, args.quiet || !ranks_first());
    struct setup_talk talk = {show_note, show_learning, show_corpus, &progress};
    struct setup s = {.a = &args.run, .groups = groups, .talk = &talk};
    rc = join_ranks(&s, err);
    if (rc) return rc;
    rc = prepare(&s, &progress, &lock, err);
    if (!rc && args.dry_run) {
        rc = dry_run(&s, err);
    } else if (!rc) {
        rc = signals_watch(err);
        if (!rc) rc = train(&s, &progress, &end, err);
        together = s.comm->ends;
        if (rc && together) rc = ranks_agree(s.comm, rc, err); /* on who says it */
    }
    int alone = s.comm->size == 1; /* whoever started ranks ends as the signal would have it */
    leave_ranks(&s, rc, together); /* while there is still a backend */
    setup_release(&s);
    file_unlock(lock);
    if (!rc && end == TRAIN_STOPPED && alone) signals_end_by(signals_caught);
    return rc;
}

static const char about[] =
    "A run found in --out is continued from its last checkpoint, and ends with the "
    "same bytes as if it had never been interrupted. Ctrl-C or SIGTERM saves a "
    "checkpoint and ends; a second one ends at once. SIGHUP is ignored: a run outlives "
    "the terminal it was started from. Its log is DIR/log.jsonl; its PID is in DIR/lock.";

const struct command cmd_train = {.name = "train",
                                  .summary = "train a model on parallel text, or continue a run",
                                  .usage = "--src FILE... --tgt FILE... --out DIR [options]",
                                  .about = about,
                                  .groups = groups,
                                  .config = &args.config_file,
                                  .run = run};
