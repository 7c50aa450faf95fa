/* trainer.c — see trainer.h. */
#include "train/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "train/agree.h"
#include "train/saver.h"

enum { MAX_BAD = 10, MAX_REWINDS = 3 }; /* in a row, before the run is given up */

/* Sums over the updates since the last line of the log. */
struct window {
    double loss, nll, tokens, seconds;
    double guided, n_guided;
};

struct trainer {
    struct trainer_options o;
    struct optimizer *opt; /* of o, like batches: they are everywhere */
    struct batches *batches;
    struct comm *comm;   /* NULL: alone */
    int n_own;           /* batches of an update that are this rank's */
    struct batch *batch; /* [n_own] */
    const struct batch **batch_list;
    struct moment *moments; /* [ranks] */
    double busy;            /* seconds that this rank had worked at the last line of the log */
    uint64_t sent;          /* bytes that it gave to others in the n_sent updates since then */
    int n_sent;
    int stopping; /* a rank was asked to stop */
    int aside;    /* checkpoints are written beside the updates */
    int pending;  /* and of the last one the ranks have not agreed yet how that went */
    int failed;   /* rank 0 knows already that it went wrong */
    struct saver saver;
    struct runlog *log;
    struct window window;
    struct train_status status;
    double best_loss;  /* of a validation; infinity: none yet */
    int64_t best_step; /* -1: none yet */
    int64_t n_stale;   /* validations since then */
    int64_t saved_step;
    int64_t spent;    /* what the last checkpoint takes the place of; -1: nothing */
    int64_t log_size; /* of the log at the checkpoint that this part continues from */
    int n_bad, n_rewind;
    char text[256];
};

/* What every rank knows by itself, and all must act on at the same time. */
struct moment {
    double seconds, busy;
    int stop, failed;
};

static void begin_phase(const struct trainer *t, enum watch_phase phase) {
    watch_phase(t->opt->options.watch, t->opt->step, phase);
}

static int is_first(const struct trainer *t) { return agree_first(t->comm); }

static void tell_log_trouble(struct trainer *t) {
    struct err err;
    if (!runlog_error(t->log, &err) || !t->o.listener) return;
    t->status.text = err.msg;
    t->o.listener(t->o.listener_ctx, TRAIN_WARNING, &t->status);
    t->status.text = NULL;
}

static void tell(struct trainer *t, enum train_event event) {
    if (t->o.listener) t->o.listener(t->o.listener_ctx, event, &t->status);
    tell_log_trouble(t);
}

/* Waits for the checkpoint that this rank writes, if it does. */
static int end_saver(struct trainer *t, struct err *err) {
    int begun = t->saver.begun, rc = saver_end(&t->saver, err);
    if (!begun) return 0;
    watch_took(t->opt->options.watch, WATCH_DISK, t->saver.seconds);
    if (!rc) tell(t, TRAIN_SAVED);
    return rc;
}

/* It may be on the disk by now. A failure waits for finish. */
static int look_at_saver(struct trainer *t) {
    return saver_done(&t->saver) && (t->saver.rc || end_saver(t, NULL));
}

/* Time is what rank 0's clock says. */
static void agree_moment(struct trainer *t) {
    struct moment now = {t->status.seconds, watch_busy(t->opt->options.watch) - t->busy,
                         t->o.stop && *t->o.stop, look_at_saver(t)};
    t->stopping = now.stop;
    t->failed = now.failed;
    if (agree_alone(t->comm)) return;
    begin_phase(t, WATCH_WAIT);
    comm_gather(t->comm, t->moments, &now, sizeof now);
    t->status.seconds = t->moments[0].seconds;
    t->failed = t->moments[0].failed;
    for (int r = 0; r < t->comm->size; r++) t->stopping |= t->moments[r].stop;
}

/* t->text says what went wrong, `done` what was done about it. */
static void warn(struct trainer *t, const char *event, const char *done) {
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n, "; %s", done);
    runlog_note(t->log, t->opt->step, event, t->text);
    t->status.text = t->text;
    tell(t, TRAIN_WARNING);
    t->status.text = NULL;
}

/* ---- state ----------------------------------------------------------------------------------- */

/* The position in the data, number by number, under the names a checkpoint keeps. */
#define BATCHES_FIELDS(X)                                                                          \
    X("data_0", data[0])                                                                           \
    X("data_1", data[1])                                                                           \
    X("seed", seed)                                                                                \
    X("tokens", tokens)                                                                            \
    X("sentences", sentences)                                                                      \
    X("pool_size", pool_size)                                                                      \
    X("epoch", epoch)                                                                              \
    X("pool", pool)                                                                                \
    X("batch", batch)                                                                              \
    X("n_batch", n_batch)                                                                          \
    X("n_pair", n_pair)                                                                            \
    X("n_src_tok", n_src_tok)                                                                      \
    X("n_tgt_tok", n_tgt_tok)

/* Which tokenizers a run has: one hash, or two. */
enum { TOKENIZERS_TEXT = 2 * TOKENIZER_HASH_TEXT };
static void tokenizers_text(const struct trainer *t, char text[TOKENIZERS_TEXT]) {
    char target[TOKENIZER_HASH_TEXT];
    tokenizer_hash_text(t->o.tokenizer, text);
    if (!t->o.target || t->o.target == t->o.tokenizer) return;
    tokenizer_hash_text(t->o.target, target);
    snprintf(text + strlen(text), TOKENIZER_HASH_TEXT + 1, "+%s", target);
}

static void state_collect(const struct trainer *t, struct state *state) {
    struct batches_state at;
    char hash[TOKENIZERS_TEXT];
    batches_state(t->batches, &at);
#define PUT_FIELD(name, field) state_set_u64(state, "batches." name, at.field);
    BATCHES_FIELDS(PUT_FIELD)
#undef PUT_FIELD
    tokenizers_text(t, hash);
    state_set_text(state, "tokenizer", hash);
    state_set_f64(state, "best_loss", t->best_loss);
    state_set_i64(state, "best_step", t->best_step);
    state_set_i64(state, "n_stale", t->n_stale);
    state_set_i64(state, "spent", t->spent);
    state_set_i64(state, "log_size", runlog_size(t->log));
    state_set_f64(state, "seconds", t->status.seconds);
    state_set_f64(state, "window.loss", t->window.loss);
    state_set_f64(state, "window.nll", t->window.nll);
    state_set_f64(state, "window.tokens", t->window.tokens);
    state_set_f64(state, "window.seconds", t->window.seconds);
    if (t->opt->model->guided.layer) {
        state_set_f64(state, "window.guided", t->window.guided);
        state_set_f64(state, "window.n_guided", t->window.n_guided);
    }
    if (t->opt->options.cooldown) {
        state_set_i64(state, "cooldown.steps", t->opt->options.steps);
        state_set_i64(state, "cooldown.updates", t->opt->options.cooldown);
    }
}

static int state_batches(const struct state *state, struct batches_state *at, struct err *err) {
    int rc = 0;
#define GET_FIELD(name, field)                                                                     \
    if (!rc) rc = state_get_u64(state, "batches." name, &at->field, err);
    BATCHES_FIELDS(GET_FIELD)
#undef GET_FIELD
    return rc;
}

/* Another tokenizer means other data: allowing the one allows the other. */
static int check_tokenizer(struct trainer *t, const struct state *state, struct err *err) {
    const char *was;
    char is[TOKENIZERS_TEXT];
    int rc = state_get_text(state, "tokenizer", &was, err);
    if (rc) return rc;
    tokenizers_text(t, is);
    if (strcmp(was, is) == 0) return 0;
    if (t->o.new_tokenizer) return t->o.new_data = 1, 0;
    return err_set(
        err, HEED_EINVAL,
        "%s: the run began with another tokenizer (%s, now %s); --new-tokenizer continues with "
        "this one, --overwrite starts over",
        t->o.dir, was, is);
}

static int restore_batches(struct trainer *t, const struct state *state, struct err *err) {
    struct batches_state at = {0};
    struct err why = {0};
    int rc = state_batches(state, &at, err);
    if (rc) return rc;
    rc = batches_restore(t->batches, &at, &why);
    if (rc == HEED_EINVAL && t->o.new_data) return batches_restart_epoch(t->batches, &at, err);
    if (rc)
        return err_set(err, (enum heed_status)rc,
                       "%.60s: %.120s; --new-data continues anyway, --overwrite starts over",
                       t->o.dir, why.msg);
    return 0;
}

static int restore(struct trainer *t, const struct state *state, struct err *err) {
    int rc = check_tokenizer(t, state, err);
    if (!rc) rc = restore_batches(t, state, err);
    if (!rc) rc = state_get_f64(state, "best_loss", &t->best_loss, err);
    if (!rc) rc = state_get_i64(state, "best_step", &t->best_step, err);
    if (!rc) rc = state_get_i64(state, "n_stale", &t->n_stale, err);
    if (!rc) rc = state_get_i64(state, "log_size", &t->log_size, err);
    if (!rc) rc = state_get_f64(state, "seconds", &t->status.seconds, err);
    if (!rc) rc = state_get_f64(state, "window.loss", &t->window.loss, err);
    if (!rc) rc = state_get_f64(state, "window.nll", &t->window.nll, err);
    if (!rc) rc = state_get_f64(state, "window.tokens", &t->window.tokens, err);
    if (!rc) rc = state_get_f64(state, "window.seconds", &t->window.seconds, err);
    /* Absent where the earlier part was not guided. */
    if (!rc) state_get_f64(state, "window.guided", &t->window.guided, NULL);
    if (!rc) state_get_f64(state, "window.n_guided", &t->window.n_guided, NULL);
    if (!rc) state_get_i64(state, "spent", &t->spent, NULL); /* likewise where it is older */
    return rc;
}

/* Where earlier updates cooled down to another end than this part's, they stay as they are: the run
 * goes on, but one that knew its end from the beginning would have other weights. Says so. */
static void note_cooldown(struct trainer *t, const struct state *state) {
    const struct optimizer_options *o = &t->opt->options;
    int64_t steps = 0, updates = 0, step = t->opt->step;
    if (state_get_i64(state, "cooldown.steps", &steps, NULL) ||
        state_get_i64(state, "cooldown.updates", &updates, NULL))
        return;
    if (step <= steps - updates || (steps == o->steps && updates == o->cooldown)) return;
    size_t n = strlen(t->text);
    snprintf(t->text + n, sizeof t->text - n,
             "; updates %lld to %lld stay as they were, with the falling learning rate of "
             "--steps %lld --cooldown %lld",
             (long long)steps - updates + 1, (long long)step, (long long)steps, (long long)updates);
}

/* What follows the checkpoint of the step that the run is at. */
static struct saver_task task_here(const struct trainer *t) {
    return (struct saver_task){.dir = t->o.dir,
                               .step = t->opt->step,
                               .best = t->best_step,
                               .spent = t->spent,
                               .keep = t->o.keep};
}

/* The last checkpoint, as rank 0 finds it; the others learn whether there is one. */
static int find_last(struct trainer *t, struct checkpoint_found *found, int *there,
                     struct err *err) {
    int rc = is_first(t) ? checkpoint_find_last(found, t->o.dir, err) : 0;
    *there = found->path != NULL;
    if (t->comm) comm_bcast(t->comm, there, sizeof *there, 0);
    return agree_with_first(t->comm, rc, err);
}

/* The run is at what was found and loaded: says so, and tidies up. */
static int settle(struct trainer *t, const struct checkpoint_found *found,
                  const struct state *state, struct err *err) {
    t->saved_step = t->opt->step;
    if (found->n_damaged)
        snprintf(t->text, sizeof t->text, "from step %lld; %d newer checkpoint%s damaged: %.120s",
                 (long long)t->opt->step, found->n_damaged, found->n_damaged == 1 ? " is" : "s are",
                 found->damage.msg);
    else
        snprintf(t->text, sizeof t->text, "from step %lld", (long long)t->opt->step);
    note_cooldown(t, state);
    if (!is_first(t)) return 0;
    /* Damaged ones must not count as newer than what this part will save: pruning keeps the
     * newest. */
    int rc = found->n_damaged ? checkpoint_forget(t->o.dir, found->step, err) : 0;
    /* A kill may have come between a save, its publication and the removal of older ones. */
    struct saver_task task = task_here(t);
    return rc ? rc : saver_follow(&task, err);
}

/* Continues from the last checkpoint, if there is one. */
static int resume(struct trainer *t, struct err *err) {
    struct checkpoint_found found = {0};
    struct state state = {0};
    int there = 0, rc = is_first(t) ? checkpoint_clean(t->o.dir, err) : 0;
    rc = agree_with_first(t->comm, rc, err);
    if (!rc) rc = find_last(t, &found, &there, err);
    if (!rc && !found.path && found.n_damaged)
        rc = err_set(err, HEED_EFORMAT, "%.150s; no checkpoint is intact: --overwrite starts over",
                     found.damage.msg);
    rc = agree_with_first(t->comm, rc, err);
    if (!rc && there) {
        rc = checkpoint_load(found.path, t->opt, &state, err);
        if (!rc) rc = restore(t, &state, err);
        if (!rc) rc = settle(t, &found, &state, err);
    }
    state_release(&state);
    xfree(found.path);
    return agree_with_first(t->comm, rc, err);
}

static int due_at(int64_t step, int every) { return every && step % every == 0; }

/* A checkpoint that exists only because the run was stopped there has done its work once there is a
 * newer one: kept, it would take the place of one that the run keeps when it is left alone, and an
 * average of the last ones would depend on who stopped it when. Its step, or -1. */
static int64_t spent_stop(const struct trainer *t) {
    int64_t step = t->saved_step;
    if (step < 0 || due_at(step, t->o.save_every) || due_at(step, t->o.valid_every)) return -1;
    return step == t->best_step ? -1 : step;
}

/* All ranks should have computed with the same parameters; memory and wires that err, and mistakes,
 * must not get into a checkpoint. */
static int compare_params(struct trainer *t, struct err *err) {
    uint32_t sum = 0;
    char what[64];
    if (agree_alone(t->comm)) return 0;
    int rc = optimizer_checksum(t->opt, &sum, err);
    if (rc) return rc;
    snprintf(what, sizeof what, "parameters of step %lld", (long long)t->opt->step);
    return agree_same(t->comm, sum, what, err);
}

/* Collective, where a checkpoint is pending: waits until it is on the disk. What reads or changes
 * the run's directory, or takes another copy, comes after this. */
static int finish(struct trainer *t, struct err *err) {
    double begin = clock_seconds();
    if (!t->pending) return 0;
    if (t->saver.begun && !saver_done(&t->saver)) begin_phase(t, WATCH_DISK);
    int rc = end_saver(t, err);
    begin_phase(t, WATCH_WAIT);
    rc = agree_with_first(t->comm, rc, err);
    t->pending = 0;
    t->status.times.saving += clock_seconds() - begin;
    return rc;
}

/* Of a checkpoint that is written aside only the copy is done when this returns. */
static int save_here(struct trainer *t, const struct state *state, struct err *err) {
    struct saver_task task = task_here(t);
    int rc;
    if (t->aside) {
        rc = snapshot_take(t->o.copy, t->opt, state, err);
        if (!rc && is_first(t)) saver_begin(&t->saver, t->o.copy, &task);
        t->pending = !rc;
        return rc;
    }
    rc = checkpoint_save(t->o.dir, t->opt, state, err);
    if (!rc && is_first(t)) rc = saver_follow(&task, err);
    return agree_with_first(t->comm, rc, err);
}

static int save(struct trainer *t, struct err *err) {
    struct state state = {0};
    int rc = finish(t, err);
    if (rc || t->saved_step == t->opt->step) return rc;
    double begin = clock_seconds();
    begin_phase(t, WATCH_WAIT);
    if ((rc = compare_params(t, err))) return rc;
    begin_phase(t, is_first(t) ? WATCH_SAVE : WATCH_WAIT);
    t->spent = spent_stop(t);
    if (is_first(t)) state_collect(t, &state);
    rc = save_here(t, &state, err);
    state_release(&state);
    if (rc) return rc;
    t->saved_step = t->opt->step;
    t->n_rewind = 0;
    t->status.times.saving += clock_seconds() - begin;
    if (!t->pending) tell(t, TRAIN_SAVED);
    return 0;
}

/* ---- validation ------------------------------------------------------------------------------ */

static int due(const struct trainer *t, int every) { return due_at(t->opt->step, every); }

/* Losses of the batches in turn: of W ranks each has evaluated every W-th. */
struct losses {
    struct update_report *own;
    int n_own, n;
};

static void add_report(struct update_report *sum, const struct update_report *more) {
    sum->loss += more->loss;
    sum->nll += more->nll;
    sum->n_tok += more->n_tok;
    sum->guided += more->guided;
    sum->n_guided += more->n_guided;
}

/* Adds up all of them in the order of the batches. */
static int add_losses(struct trainer *t, const struct losses *l, struct update_report *sum,
                      struct err *err) {
    int ranks = t->comm ? t->comm->size : 1, most = ceil_div(l->n, ranks);
    struct update_report *all = xcalloc((size_t)most * (size_t)ranks + 1, sizeof *all);
    if (t->comm) comm_gather(t->comm, all, l->own, (size_t)most * sizeof *all);
    const struct update_report *from = t->comm ? all : l->own;
    for (int i = 0; i < l->n; i++) add_report(sum, &from[i % ranks * most + i / ranks]);
    xfree(all);
    return t->comm ? comm_check(t->comm, err) : 0;
}

/* The losses of this rank's batches; the others are only counted. */
static int evaluate(struct trainer *t, struct losses *l, struct err *err) {
    int ranks = t->comm ? t->comm->size : 1, rank = t->comm ? t->comm->rank : 0, rc;
    const struct batch *batch;
    sweep_rewind(t->o.valid);
    for (;; l->n++) {
        int own = l->n % ranks == rank;
        rc = own ? sweep_next(t->o.valid, &batch, err) : sweep_skip(t->o.valid, err);
        if (rc <= 0) return rc;
        /* Room for one more: a rank whose turn does not come gives zeros. */
        l->own = xrealloc(l->own, (size_t)(l->n_own + 2) * sizeof *l->own);
        memset(&l->own[l->n_own], 0, 2 * sizeof *l->own);
        if (!own) continue;
        if ((rc = optimizer_evaluate(t->opt, batch, &l->own[l->n_own++], err))) return rc;
        tell(t, TRAIN_VALIDATING);
    }
}

static int validate_shown(struct trainer *t, int last, struct err *err) {
    struct update_report sum = {0};
    struct losses losses = {0};
    double begin = clock_seconds();
    begin_phase(t, WATCH_VALIDATE);
    int rc = evaluate(t, &losses, err);
    begin_phase(t, WATCH_WAIT);
    if (!rc) rc = add_losses(t, &losses, &sum, err);
    xfree(losses.own);
    if (rc) return rc;
    double n = (double)sum.n_tok;
    t->status.valid_loss = sum.loss / n;
    t->status.valid_nll = sum.nll / n;
    t->status.valid_guided = sum.n_guided ? sum.guided / (double)sum.n_guided : NAN;
    t->status.valid_is_best = t->status.valid_loss < t->best_loss; /* NaN is no improvement */
    t->n_stale = t->status.valid_is_best ? 0 : t->n_stale + 1;
    if (t->status.valid_is_best) {
        t->best_loss = t->status.valid_loss;
        t->best_step = t->opt->step;
    }
    t->status.valid_bleu = NAN;
    if (t->o.bleu_every && (due(t, t->o.bleu_every) || last)) {
        begin_phase(t, WATCH_VALIDATE);
        if ((rc = t->o.bleu(t->o.bleu_ctx, &t->status.valid_bleu, err))) return rc;
    }
    runlog_valid(t->log, &(struct runlog_valid){.step = t->opt->step,
                                                .loss = t->status.valid_loss,
                                                .nll = t->status.valid_nll,
                                                .guided = t->status.valid_guided,
                                                .bleu = t->status.valid_bleu,
                                                .seconds = clock_seconds() - begin,
                                                .best = t->status.valid_is_best});
    tell(t, TRAIN_VALIDATED);
    return 0;
}

/* What is judged is what a checkpoint publishes: the average, where there is one. */
static int validate(struct trainer *t, int last, struct err *err) {
    double begin = clock_seconds();
    int rc = optimizer_show_average(t->opt, err);
    if (!rc) rc = validate_shown(t, last, err);
    int back = optimizer_hide_average(t->opt, rc ? NULL : err);
    t->status.times.validation += clock_seconds() - begin;
    return rc ? rc : back;
}

/* ---- divergence ------------------------------------------------------------------------------ */

/* No model that learns is worse than this: guessing uniformly costs log V. */
static double hopeless(const struct trainer *t) {
    return 1.5 * log((double)t->opt->model->config.n_vocab_tgt) + 1;
}

static int diverged(struct trainer *t, const struct update_report *r,
                    const struct batches_state *at) {
    double loss = r->loss / (double)r->n_tok;
    const char *what = !isfinite(loss)           ? "the loss is not a number"
                       : !isfinite(r->grad_norm) ? "the gradient is not a number"
                       : loss > hopeless(t)      ? "the loss is worse than guessing"
                                                 : NULL;
    if (!what) return 0;
    snprintf(t->text, sizeof t->text,
             "step %lld, epoch %llu, batch %llu of pool %llu: %s (loss %.4g, gradient norm %.4g)",
             (long long)t->opt->step + 1, (unsigned long long)at->epoch + 1,
             (unsigned long long)at->batch + 1, (unsigned long long)at->pool + 1, what, loss,
             r->grad_norm);
    return 1;
}

static int rewind_run(struct trainer *t, struct err *err) {
    struct checkpoint_found found = {0};
    int there, rc = find_last(t, &found, &there, err);
    if (rc) return rc;
    if (!there)
        return err_set(err, HEED_EINTERNAL,
                       "diverged at %.150s; there is no checkpoint to go back to", t->text);
    int64_t n_batch = t->opt->n_batch; /* masks and data go on: repeating them would fail again */
    rc = checkpoint_load(found.path, t->opt, NULL, err);
    t->opt->n_batch = n_batch;
    t->saved_step = t->opt->step;
    xfree(found.path);
    return rc;
}

/* The gradient was not applied. 0: go on. */
static int handle_divergence(struct trainer *t, struct err *err) {
    int rc = optimizer_discard(t->opt, err);
    int ends = t->o.on_divergence != DIVERGENCE_SKIP || t->n_bad + 1 >= MAX_BAD;
    if (!rc && ends) rc = finish(t, err); /* no rank leaves while another one writes */
    if (rc) return rc;
    if (t->o.on_divergence == DIVERGENCE_STOP)
        return err_set(err, HEED_EINTERNAL,
                       "diverged at %.180s; the last checkpoint is of step %lld", t->text,
                       (long long)t->saved_step);
    if (t->o.on_divergence == DIVERGENCE_SKIP) {
        if (++t->n_bad >= MAX_BAD)
            return err_set(err, HEED_EINTERNAL, "diverged %d times in a row, last at %.150s",
                           t->n_bad, t->text);
        warn(t, "skipped", "skipped");
        return 0;
    }
    if (++t->n_rewind > MAX_REWINDS)
        return err_set(err, HEED_EINTERNAL, "diverged again after going back %d times: %.150s",
                       MAX_REWINDS, t->text);
    warn(t, "rewound", "back to the last checkpoint");
    return rewind_run(t, err);
}

/* ---- updates --------------------------------------------------------------------------------- */

static void add_to_window(struct trainer *t, const struct update_report *r, double seconds) {
    t->window.loss += r->loss;
    t->window.nll += r->nll;
    t->window.tokens += (double)r->n_tok;
    t->window.guided += r->guided;
    t->window.n_guided += (double)r->n_guided;
    t->window.seconds += seconds;
    t->status.seconds += seconds;
    t->status.step = t->opt->step;
    t->status.rate = r->rate;
    t->status.grad_norm = r->grad_norm;
    t->status.loss = t->window.loss / t->window.tokens;
    t->status.nll = t->window.nll / t->window.tokens;
    t->status.guided = t->window.n_guided > 0 ? t->window.guided / t->window.n_guided : NAN;
    t->status.tok_s = t->window.tokens / t->window.seconds;
}

/* How unevenly ranks worked since the last line of the log, as all know from the last moment. The
 * slowest makes all wait; returns it if it is a straggler, or -1. */
static int look_at_ranks(struct trainer *t) {
    double ratio;
    if (agree_alone(t->comm)) return -1;
    double *all = xcalloc((size_t)t->comm->size, sizeof *all);
    for (int r = 0; r < t->comm->size; r++) all[r] = t->moments[r].busy;
    struct watch_spread spread = watch_spread(all, t->comm->size);
    int slow = watch_straggler(all, t->comm->size, &ratio);
    xfree(all);
    t->status.least = spread.least;
    t->status.most = spread.most;
    t->status.sent = (double)t->sent / t->n_sent;
    return slow;
}

static void name_straggler(struct trainer *t, int slow) {
    char text[80];
    if (slow < 0 || !is_first(t)) return;
    snprintf(text, sizeof text, "rank %d took %.2f times as long as the others", slow,
             t->status.most);
    runlog_note(t->log, t->opt->step, "straggler", text);
}

static void log_window(struct trainer *t) {
    struct batches_state at;
    batches_state(t->batches, &at);
    int slow = look_at_ranks(t);
    const struct train_status *s = &t->status;
    runlog_train(t->log, &(struct runlog_train){.step = s->step,
                                                .epoch = s->epoch,
                                                .loss = s->loss,
                                                .nll = s->nll,
                                                .guided = s->guided,
                                                .rate = s->rate,
                                                .grad_norm = s->grad_norm,
                                                .tokens = (double)at.n_tgt_tok,
                                                .tok_s = s->tok_s,
                                                .seconds = s->seconds,
                                                .ranks = s->ranks,
                                                .slowest = s->most,
                                                .sent = s->sent});
    tell(t, TRAIN_LOGGED);
    name_straggler(t, slow);
    t->window = (struct window){0};
    t->busy = watch_busy(t->opt->options.watch);
    t->sent = 0;
    t->n_sent = 0;
}

/* How much of the run is done, by the limit that will end it first. */
static double fraction_done(const struct trainer *t) {
    struct batches_state at;
    double f = NAN;
    batches_state(t->batches, &at);
    if (t->o.max_steps) f = fmax(isnan(f) ? 0 : f, (double)t->opt->step / (double)t->o.max_steps);
    if (t->o.max_minutes) f = fmax(isnan(f) ? 0 : f, t->status.seconds / 60 / t->o.max_minutes);
    if (t->o.max_epochs) {
        struct batches_epoch epoch = batches_epoch(t->batches);
        double within = epoch.n_pool ? (double)at.pool / (double)epoch.n_pool : 0;
        f = fmax(isnan(f) ? 0 : f, ((double)at.epoch + within) / (double)t->o.max_epochs);
    }
    return f;
}

static int one_update(struct trainer *t, struct err *err) {
    struct update_report report;
    struct batches_state at, after;
    double begin = clock_seconds();
    uint64_t sent = t->comm ? t->comm->sent : 0;
    int rc = 0;
    batches_state(t->batches, &at);
    begin_phase(t, WATCH_DATA);
    for (int i = 0; i < t->n_own && !rc; i++) rc = batches_next(t->batches, &t->batch[i], err);
    batches_state(t->batches, &after);
    double ready = clock_seconds();
    t->status.times.data += ready - begin;
    struct update update = {t->batch_list, t->n_own, (int64_t)(after.n_tgt_tok - at.n_tgt_tok)};
    if (!rc) rc = optimizer_gradient(t->opt, &update, &report, err);
    if (rc) return rc;
    if (diverged(t, &report, &at)) return handle_divergence(t, err);
    if ((rc = optimizer_apply(t->opt, &report, err))) return rc;
    t->n_bad = 0;
    add_to_window(t, &report, clock_seconds() - begin);
    agree_moment(t);
    t->status.times.updates += clock_seconds() - ready;
    t->sent += t->comm ? t->comm->sent - sent : 0;
    t->n_sent++;
    look_at_ranks(t);
    t->status.epoch = (int64_t)after.epoch;
    t->status.fraction = fraction_done(t);
    tell(t, TRAIN_STEP);
    return 0;
}

/* Has a limit been reached? Looked at before an update, so that a resumed run does not
 * overshoot. */
static int limit_reached(const struct trainer *t) {
    struct batches_state at;
    batches_state(t->batches, &at);
    return (t->o.max_steps && t->opt->step >= t->o.max_steps) ||
           (t->o.max_epochs && (int64_t)at.epoch >= t->o.max_epochs) ||
           (t->o.max_minutes > 0 && t->status.seconds >= 60 * t->o.max_minutes);
}

static int out_of_patience(const struct trainer *t) {
    return t->o.patience && t->n_stale >= t->o.patience;
}

/* Is there an update to do? */
static int goes_on(struct trainer *t) {
    agree_moment(t);
    return !limit_reached(t) && !out_of_patience(t) && !t->stopping && !t->failed;
}

static void log_times(struct trainer *t) {
    const struct train_times *times = &t->status.times;
    char text[TRAIN_TIMES_TEXT];
    runlog_times(t->log, &(struct runlog_times){.step = t->opt->step,
                                                .text = train_times_text(text, times),
                                                .all = times->all,
                                                .updates = times->updates,
                                                .validation = times->validation,
                                                .saving = times->saving,
                                                .data = times->data});
    tell_log_trouble(t);
}

int trainer_run(struct trainer *t, enum train_end *end, struct err *err) {
    *end = out_of_patience(t) ? TRAIN_PATIENCE : TRAIN_DONE;
    if (t->saved_step >= 0 && (limit_reached(t) || out_of_patience(t))) return 0;
    double begin = clock_seconds();
    int rc = is_first(t) ? runlog_open(&t->log, t->o.dir, t->log_size, t->opt->step + 1, err) : 0;
    rc = agree_with_first(t->comm, rc, err);
    if (rc) return rc;
    if (t->opt->step > 0) runlog_note(t->log, t->opt->step, "resumed", t->text);
    t->busy = watch_busy(t->opt->options.watch);
    /* The first checkpoint is of the untrained model: a full or read-only disk shows now and not
     * after hours, and a run that diverges early has something to go back to. */
    if (t->saved_step < 0) rc = save(t, err);
    if (!rc) rc = finish(t, err);
    while (!rc && goes_on(t)) {
        int64_t before = t->opt->step;
        rc = one_update(t, err);
        if (rc || t->opt->step <= before) continue; /* skipped or rewound */
        if (due(t, t->o.log_every) || limit_reached(t)) log_window(t);
        int last = limit_reached(t);
        if (t->o.valid && (due(t, t->o.valid_every) || last)) rc = validate(t, last, err);
        if (!rc &&
            (due(t, t->o.save_every) || (t->o.valid && t->best_step == t->opt->step) || last))
            rc = save(t, err);
    }
    if (!rc) rc = save(t, err);
    if (!rc) rc = finish(t, err);
    if (rc && t->saver.begun) { /* whatever failed: a checkpoint that was begun is whole */
        begin_phase(t, WATCH_DISK);
        saver_end(&t->saver, NULL);
    }
    t->status.times.all = clock_seconds() - begin;
    if (!rc) log_times(t);
    if (t->stopping && !limit_reached(t)) *end = TRAIN_STOPPED;
    if (out_of_patience(t)) *end = TRAIN_PATIENCE;
    return rc;
}

const char *train_times_text(char text[TRAIN_TIMES_TEXT], const struct train_times *times) {
    double percent = times->all > 0 ? 100 / times->all : 0;
    char validation[40] = "";
    if (times->validation > 0)
        snprintf(validation, sizeof validation, "%.1f %% to validation, ",
                 percent * times->validation);
    snprintf(text, TRAIN_TIMES_TEXT,
             "%.1f %% of the time went to updates, %s%.1f %% to checkpoints, %.1f %% to waiting "
             "for data",
             percent * times->updates, validation, percent * times->saving, percent * times->data);
    return text;
}

const struct train_status *trainer_status(const struct trainer *t) { return &t->status; }

/* ---- life ------------------------------------------------------------------------------------ */

int trainer_new(struct trainer **out, const struct trainer_options *options, struct err *err) {
    *out = NULL;
    struct trainer *t = xcalloc(1, sizeof *t);
    *t = (struct trainer){.o = *options,
                          .opt = options->opt,
                          .comm = options->opt->options.comm,
                          .batches = options->batches,
                          .aside = options->copy != NULL,
                          .best_loss = INFINITY,
                          .best_step = -1,
                          .saved_step = -1,
                          .spent = -1};
    t->status.valid_loss = t->status.valid_nll = t->status.valid_bleu = t->status.fraction = NAN;
    t->status.guided = t->status.valid_guided = NAN;
    size_t ranks = t->comm ? (size_t)t->comm->size : 1;
    t->status.ranks = (int)ranks;
    t->status.least = t->status.most = 1;
    t->n_own = options->accumulate / (int)ranks;
    t->moments = xcalloc(ranks, sizeof *t->moments);
    t->batch = xcalloc((size_t)t->n_own, sizeof *t->batch);
    t->batch_list = xcalloc((size_t)t->n_own, sizeof(const struct batch *));
    int rc = 0;
    for (int i = 0; i < t->n_own && !rc; i++) {
        rc = batches_batch_init(t->batches, &t->batch[i], err);
        t->batch_list[i] = &t->batch[i];
    }
    if (t->comm) comm_bcast(t->comm, &t->aside, sizeof t->aside, 0);
    if (!rc) rc = resume(t, err);
    if (rc) {
        trainer_free(t);
        return rc;
    }
    t->status.step = t->opt->step;
    t->status.fraction = fraction_done(t);
    if (t->opt->step > 0) {
        t->status.text = t->text;
        tell(t, TRAIN_RESUMED);
        t->status.text = NULL;
    }
    *out = t;
    return 0;
}

void trainer_free(struct trainer *t) {
    if (!t) return;
    saver_end(&t->saver, NULL);
    for (int i = 0; i < t->n_own; i++) batch_release(&t->batch[i]);
    xfree(t->moments);
    xfree(t->batch);
    xfree(t->batch_list);
    runlog_close(t->log);
    xfree(t);
}
