/* cmd_train.c — `heed train`: from parallel text to a model directory, and on from wherever it
 * stopped. */
#include "cli/cmd_train.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/train_bleu.h"
#include "model/modeldir.h"
#include "train/target.h"

/* ---- options --------------------------------------------------------------------------------- */

static struct train_args args = {.preset = "base",
                                 .vocab_type = "bpe",
                                 .device = "auto",
                                 .dtype = "auto",
                                 .on_divergence = "stop",
                                 .vocab_size = 8000,
                                 .tokens = 25000,
                                 .accumulate = 1,
                                 .warmup = 4000,
                                 .seed = 1,
                                 .log_every = 50,
                                 .valid_every = 500,
                                 .bleu_lines = 500,
                                 .save_every = 500,
                                 .keep = 5,
                                 .max_length = 256,
                                 .prefetch = 4,
                                 .lr_scale = 1,
                                 .ratio = 9};
static struct overrides overrides;
enum {
    DEFAULT_STEPS = 100000,
    MANY = 2000000000,
    DRY_STEPS = 5
}; /* PAPER: 5.2, 100,000 steps for base */

static const struct option rows[] = {
    {"src", OPTION_LIST, &args.src, "FILE",
     "source text, one sentence per line: plain, gzip or xz; several corpora", 0, 0},
    {"tgt", OPTION_LIST, &args.tgt, "FILE", "their translations, line by line", 0, 0},
    {"weights", OPTION_LIST, &args.weights, "X",
     "how often each corpus is seen per epoch; 1 for all if not given", 0, 0},
    {"valid-src", OPTION_STRING, &args.valid_src, "FILE", "source text to validate on", 0, 0},
    {"valid-tgt", OPTION_STRING, &args.valid_tgt, "FILE", "its translation", 0, 0},
    {"out", OPTION_STRING, &args.out, "DIR",
     "the run's directory; one with an earlier part is continued", 0, 0},
    {"config", OPTION_STRING, &args.config_file, "FILE",
     "options as a JSON object; the command line goes first", 0, 0},
    {"preset", OPTION_STRING, &args.preset, "NAME", "tiny, small, base or big", 0, 0},
    {"tokenizer", OPTION_STRING, &args.tokenizer, "FILE",
     "a SentencePiece model; learnt from the text if not given", 0, 0},
    {"vocab-size", OPTION_INT, &args.vocab_size, "N", "pieces, when it is learnt",
     TOKENIZER_MIN_SIZE, TOKENIZER_MAX_SIZE},
    {"vocab-type", OPTION_STRING, &args.vocab_type, "NAME", "bpe, unigram, word or char", 0, 0},
    {"steps", OPTION_INT, &args.steps, "N",
     "updates, counted from the run's beginning; 0: no limit", 0, MANY},
    {"epochs", OPTION_INT, &args.epochs, "N", "passes over the data; 0: no limit", 0, MANY},
    {"minutes", OPTION_FLOAT, &args.minutes, "X",
     "training time; 0: no limit. Without any limit: 100,000 steps", 0, 1e9},
    {"tokens", OPTION_INT, &args.tokens, "N", "source and target tokens per batch, each at most", 1,
     1 << 24},
    {"accumulate", OPTION_INT, &args.accumulate, "N", "batches per update", 1, 4096},
    {"warmup", OPTION_INT, &args.warmup, "N", "updates of rising learning rate", 0, MANY},
    {"lr-scale", OPTION_FLOAT, &args.lr_scale, "X", "factor on the paper's learning rate", 1e-9,
     1e9},
    {"clip", OPTION_FLOAT, &args.clip, "X", "largest norm of the gradient; 0: no clipping", 0, 1e9},
    {"seed", OPTION_INT, &args.seed, "N", "of initial weights, dropout and order", 0, MANY},
    {"log-every", OPTION_INT, &args.log_every, "N", "updates per line of the log", 1, MANY},
    {"valid-every", OPTION_INT, &args.valid_every, "N", "updates between validations", 1, MANY},
    {"bleu-every", OPTION_INT, &args.bleu_every, "N",
     "updates between validations that also translate and measure BLEU; 0: none do", 0, MANY},
    {"bleu-lines", OPTION_INT, &args.bleu_lines, "N",
     "validation lines to translate for that, at most", 1, 1 << 20},
    {"save-every", OPTION_INT, &args.save_every, "N", "updates between checkpoints", 1, MANY},
    {"keep", OPTION_INT, &args.keep, "N", "checkpoints kept, beside the best one", 1, MANY},
    {"patience", OPTION_INT, &args.patience, "N",
     "stop after that many validations without improvement; 0: never", 0, MANY},
    {"on-divergence", OPTION_STRING, &args.on_divergence, "WHAT",
     "stop, skip the update, or rewind to the last checkpoint", 0, 0},
    {"max-length", OPTION_INT, &args.max_length, "N",
     "drop pairs with more tokens than that on a side", 2, CORPUS_MAX_LEN},
    {"ratio", OPTION_FLOAT, &args.ratio, "X",
     "drop pairs whose lengths differ by more than that factor", 1, 1e6},
    {"cache", OPTION_STRING, &args.cache, "DIR",
     "where tokenised corpora are kept; DIR/cache of the run if not given", 0, 0},
    {"prefetch", OPTION_INT, &args.prefetch, "N", "batches prepared ahead by a thread", 0, 64},
    {"device", OPTION_STRING, &args.device, "NAME", "auto, cpu, cuda[:N] or ref", 0, 0},
    {"isa", OPTION_STRING, &args.isa, "NAME", "instruction set of the cpu device", 0, 0},
    {"threads", OPTION_INT, &args.threads, "N", "threads, 0 for all CPUs", 0, 1024},
    {"dtype", OPTION_STRING, &args.dtype, "TYPE", "f32 or bf16; auto: bf16 on a GPU, else f32", 0,
     0},
    {"dry-run", OPTION_FLAG, &args.dry_run, NULL,
     "say what the run would need and take, and train nothing", 0, 0},
    {"overwrite", OPTION_FLAG, &args.overwrite, NULL, "begin anew where there is an earlier run", 0,
     0},
    {"new-data", OPTION_FLAG, &args.new_data, NULL,
     "continue although the data, their order or the batches changed", 0, 0},
    {"new-tokenizer", OPTION_FLAG, &args.new_tokenizer, NULL,
     "continue although the tokenizer changed", 0, 0},
    {"quiet", OPTION_FLAG, &args.quiet, NULL, "say nothing but errors", 0, 0},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};
static const struct command command = {.name = "train",
                                       .summary =
                                           "train a model on parallel text, or continue a run",
                                       .usage = "--src FILE... --tgt FILE... --out DIR [options]",
                                       .options = rows,
                                       .overrides = &overrides};
static const struct command *const commands[] = {&command, NULL};

static int check_args(enum divergence *divergence, struct err *err) {
    static const char *const policy[] = {"stop", "skip", "rewind"};
    if (!args.src.n || !args.tgt.n) return cli_usage(err, "train: --src and --tgt are needed");
    if (!args.out) return cli_usage(err, "train: --out is missing");
    if (args.src.n != args.tgt.n)
        return cli_usage(err, "train: %d source files and %d target files", args.src.n, args.tgt.n);
    if (args.weights.n && args.weights.n != args.src.n)
        return cli_usage(err, "train: %d weights for %d corpora", args.weights.n, args.src.n);
    if (!args.valid_src != !args.valid_tgt)
        return cli_usage(err, "train: --valid-src and --valid-tgt belong together");
    if (args.patience && !args.valid_src)
        return cli_usage(err, "--patience: there is nothing to validate on; give --valid-src");
    if (args.bleu_every && !args.valid_src)
        return cli_usage(err, "--bleu-every: there is nothing to translate; give --valid-src");
    if (args.bleu_every % args.valid_every)
        return cli_usage(err, "--bleu-every: %d is not a multiple of --valid-every %d",
                         args.bleu_every, args.valid_every);
    if (args.max_length > args.tokens)
        return cli_usage(err, "--tokens: %d is smaller than one sentence of --max-length %d",
                         args.tokens, args.max_length);
    if (!args.steps && !args.epochs && args.minutes == 0) args.steps = DEFAULT_STEPS;
    for (int i = 0; i < 3; i++)
        if (strcmp(args.on_divergence, policy[i]) == 0) return *divergence = (enum divergence)i, 0;
    return cli_usage(err, "--on-divergence: '%s' is not one of stop, skip, rewind",
                     args.on_divergence);
}

static const char *config_path(int argc, char **argv) {
    for (int i = 0; i < argc; i++) {
        if (strncmp(argv[i], "--config=", 9) == 0) return argv[i] + 9;
        if (strcmp(argv[i], "--config") == 0 && i + 1 < argc) return argv[i + 1];
    }
    return NULL;
}

/* The file first, so that the command line wins. */
static int parse(int argc, char **argv, struct err *err) {
    const char *path = config_path(argc, argv);
    int rc = path ? options_file(&command, path, argc, argv, err) : 0;
    return rc ? rc : options_parse(&command, argc, argv, err);
}

/* ---- telling --------------------------------------------------------------------------------- */

static void show_step(struct progress *p, const struct train_status *s) {
    char bar[32], head[80] = "", tail[48] = "";
    double left =
        isnan(s->fraction) || s->fraction <= 0 ? 0 : s->seconds / s->fraction * (1 - s->fraction);
    if (p->terminal) /* a narrow one cuts the end off: what matters most comes first */
        snprintf(head, sizeof head, "%s %s left  ", progress_bar(bar, 22, s->fraction),
                 text_duration(left));
    else
        snprintf(tail, sizeof tail, "  %s left", text_duration(left));
    progress_line(p, "%sstep %lld  epoch %lld  loss %.3f  ppl %.2f  lr %.2e  %s tok/s%s", head,
                  (long long)s->step, (long long)s->epoch + 1, s->loss, exp(s->nll), s->rate,
                  text_grouped((uint64_t)s->tok_s), tail);
}

static void listen(void *ctx, enum train_event event, const struct train_status *s) {
    struct progress *p = ctx;
    char bleu[32] = "";
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
        progress_note(p, "step %lld  validation loss %.4f  ppl %.2f%s%s", (long long)s->step,
                      s->valid_loss, exp(s->valid_nll), bleu, s->valid_is_best ? "  (best)" : "");
        break;
    case TRAIN_SAVED:
        break;
    case TRAIN_WARNING:
        progress_note(p, "warning: %s", s->text);
        break;
    }
}

/* ---- stopping -------------------------------------------------------------------------------- */

static volatile int stop_signal;

/* The first signal asks for an orderly end, the second one gets the usual effect at once. */
static void on_signal(int number) {
    stop_signal = number;
    signal(number, SIG_DFL);
}

static void watch_signals(void) {
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    signal(SIGPIPE, SIG_IGN); /* a closed terminal must not lose a run */
    signal(SIGHUP, SIG_IGN);
}

/* ---- running --------------------------------------------------------------------------------- */

/* A few updates on real batches, timed and thrown away. */
static int dry_run(struct train_setup *s, struct err *err) {
    struct batch batch = {0};
    struct update_report report;
    const struct batch *one[] = {&batch};
    int rc = batches_batch_init(s->batches, &batch, err);
    double seconds = 0, tokens = 0;
    for (int i = 0; i < DRY_STEPS && !rc; i++) {
        rc = batches_next(s->batches, &batch, err);
        double begin = clock_seconds();
        if (!rc) rc = optimizer_update(s->opt, one, 1, &report, err);
        if (i == 0) continue; /* first touch of everything */
        seconds += clock_seconds() - begin;
        tokens += (double)report.n_tok;
    }
    batch_release(&batch);
    if (rc) return rc;
    struct batches_epoch epoch = batches_epoch(s->batches);
    double per_epoch = epoch.n_tgt_tok / tokens * seconds;
    double per_update = seconds / (DRY_STEPS - 1) * args.accumulate;
    printf("%s parameters, %.2f GiB of memory (training and validation)\n",
           text_grouped(s->model->table.n_value),
           (double)(s->need_model + s->need_state + s->need_acts + s->need_workspace) /
               1073741824.0);
    printf("%.0f source and %.0f target tokens per epoch\n", epoch.n_src_tok, epoch.n_tgt_tok);
    printf("%.0f target tokens/s, %.2f s per update, %s per epoch\n", tokens / seconds, per_update,
           text_duration(per_epoch));
    if (args.steps)
        printf("%d steps: about %s\n", args.steps, text_duration(per_update * args.steps));
    if (args.epochs)
        printf("%d epochs: about %s\n", args.epochs, text_duration(per_epoch * args.epochs));
    return 0;
}

/* Two processes in one directory would remove each other's checkpoints. */
static int lock_dir(int *lock, struct err *err) {
    int rc = dir_make(args.out, err);
    if (rc) return rc;
    char *path = path_join(args.out, "lock");
    rc = file_lock(lock, path, err);
    xfree(path);
    return rc;
}

static int write_config(struct train_setup *s, struct err *err) {
    json_t *training = options_json(&command);
    int rc = modeldir_init(args.out, &s->config, training, s->tokenizer_path, err);
    json_decref(training);
    return rc;
}

static void say_end(struct progress *p, enum train_end end, const struct train_status *s) {
    const char *why = end == TRAIN_STOPPED
                          ? args.overwrite
                                ? "stopped; the same command without --overwrite continues"
                                : "stopped; the same command continues"
                      : end == TRAIN_PATIENCE ? "no improvement any more"
                                              : "done";
    progress_note(p, "%s: step %lld, %s of training; the model is %s", why, (long long)s->step,
                  text_duration(s->seconds), args.out);
}

static int train(struct train_setup *s, enum divergence divergence, enum train_end *end,
                 struct err *err) {
    unsigned char hash[TOKENIZER_HASH_SIZE];
    struct trainer *trainer = NULL;
    struct train_bleu *bleu = NULL;
    tokenizer_hash(s->tokenizer, hash);
    struct trainer_options o = {.dir = args.out,
                                .max_steps = args.steps,
                                .max_epochs = args.epochs,
                                .max_minutes = args.minutes,
                                .accumulate = args.accumulate,
                                .log_every = args.log_every,
                                .valid_every = args.valid_every,
                                .save_every = args.save_every,
                                .keep = args.keep,
                                .patience = args.patience,
                                .on_divergence = divergence,
                                .new_data = args.new_data,
                                .new_tokenizer = args.new_tokenizer,
                                .tokenizer_hash = hash,
                                .stop = &stop_signal,
                                .bleu_every = args.bleu_every,
                                .bleu = train_bleu_measure};
    int rc = args.bleu_every ? train_bleu_open(&bleu, s, args.bleu_lines, &stop_signal, err) : 0;
    o.bleu_ctx = bleu;
    if (!rc && args.overwrite) rc = target_clear(args.out, err);
    if (!rc) rc = trainer_new(&trainer, &o, s->opt, s->batches, s->sweep, listen, s->progress, err);
    if (!rc) rc = write_config(s, err);
    if (!rc && args.steps && s->opt->step >= args.steps)
        progress_note(s->progress,
                      "%lld of %d steps are done already; --steps counts from the run's beginning",
                      (long long)s->opt->step, args.steps);
    if (!rc) rc = trainer_run(trainer, end, err);
    progress_end(s->progress);
    if (!rc) say_end(s->progress, *end, trainer_status(trainer));
    trainer_free(trainer);
    train_bleu_close(bleu);
    return rc;
}

static int run(int argc, char **argv, struct err *err) {
    enum divergence divergence = DIVERGENCE_STOP;
    enum train_end end = TRAIN_DONE;
    struct progress progress;
    int rc = parse(argc, argv, err);
    if (rc) return rc > 0 ? 0 : rc;
    if ((rc = check_args(&divergence, err))) return rc;
    progress_begin(&progress, args.quiet);
    struct train_setup s = {.a = &args, .overrides = &overrides, .progress = &progress};
    int lock = -1;
    rc = target_for_run(args.out, args.overwrite, err);
    if (!rc && !args.dry_run) rc = lock_dir(&lock, err);
    if (!rc) rc = setup_build(&s, err);
    progress_end(&progress);
    if (!rc && args.dry_run) {
        rc = dry_run(&s, err);
    } else if (!rc) {
        watch_signals();
        rc = train(&s, divergence, &end, err);
    }
    setup_release(&s);
    file_unlock(lock);
    if (!rc &&
        end == TRAIN_STOPPED) { /* end as the signal would have ended us: scripts must not go on */
        fflush(stdout);
        signal(stop_signal, SIG_DFL);
        raise(stop_signal);
    }
    return rc;
}

const struct subcommand cmd_train = {.name = "train",
                                     .summary = "train a model on parallel text, or continue a run",
                                     .run = run,
                                     .commands = commands};
