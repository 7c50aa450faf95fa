/* setup.c — see setup.h: checks and builds, from the options to batches. */
#include "train/setup.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/pool.h"
#include "search/defaults.h"
#include "train/setup_inside.h"
#include "train/target.h"

void setup_note(const struct setup *s, const char *fmt, ...) {
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = xmalloc((size_t)n + 1);
    va_start(ap, fmt);
    vsnprintf(text, (size_t)n + 1, fmt, ap);
    va_end(ap);
    s->talk->note(s->talk->ctx, text);
    xfree(text);
}

/* ---- model ----------------------------------------------------------------------------------- */

/* Which head learns links, if there are any. */
static int get_guided(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    const struct config *c = &s->config;
    if (!a->links.n) return 0;
    if (a->guided_layer > c->n_layer_dec)
        return err_set(err, HEED_EINVAL, "--guided-layer: %d, but the decoder has %d layer%s",
                       a->guided_layer, c->n_layer_dec, PLURAL(c->n_layer_dec));
    if (a->guided_head > c->n_head)
        return err_set(err, HEED_EINVAL, "--guided-head: %d, but there are %d head%s",
                       a->guided_head, c->n_head, PLURAL(c->n_head));
    int layer = a->guided_layer ? a->guided_layer : c->n_layer_dec > 1 ? c->n_layer_dec - 1 : 1;
    s->guided = (struct guided){layer, a->guided_head, (float)a->guided_weight};
    return 0;
}

/* Does the longest sentence fit into a batch, and into the model? A message begins with the option
 * that was given. */
static int check_tokens(const struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    const char *tag = setup_tagged(a) ? " and a tag" : "";
    if (setup_longest(a) <= a->tokens) return 0;
    if (options_given(s->groups, "tokens"))
        return err_set(err, HEED_EINVAL,
                       "--tokens: %d is smaller than one sentence of --max-length %d%s%s",
                       a->tokens, a->max_length, options_if_default(s->groups, "max_length"), tag);
    return err_set(err, HEED_EINVAL, "--max-length: %d%s is more than --tokens %d (the default)",
                   a->max_length, tag, a->tokens);
}

static int check_positions(const struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    const char *tag = setup_tagged(a) ? " and a tag" : "";
    int room = s->config.max_len;
    if (setup_longest(a) <= room) return 0;
    if (options_given(s->groups, "max_length"))
        return err_set(err, HEED_EINVAL,
                       "--max-length: %d%s is more than the model's --max-len %d%s", a->max_length,
                       tag, room, options_if_default(s->groups, "max_len"));
    return err_set(err, HEED_EINVAL,
                   "--max-len: %d positions are too few for pairs of up to %d tokens%s; give "
                   "--max-length %d to drop longer ones",
                   room, a->max_length, tag, room - setup_tagged(a));
}

/* Before the tokenizer is learnt, its size is what was asked for. */
static int get_config(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    int known = s->src_tokenizer != NULL;
    int n_vocab = known ? tokenizer_size(s->src_tokenizer) : a->vocab_size;
    if (options_given(s->groups, "n_vocab") || options_given(s->groups, "n_vocab_src") ||
        options_given(s->groups, "n_vocab_tgt"))
        return err_set(err, HEED_EINVAL,
                       "--n-vocab: the tokenizer decides the vocabulary (%d pieces)", n_vocab);
    int rc, by_init = a->init && !options_given(s->groups, "preset");
    s->config = s->begun;
    rc = by_init ? config_take(&s->config, s->groups, err)
                 : config_from_preset(&s->config, config_preset_names[a->preset], n_vocab,
                                      s->groups, err);
    if (!rc && s->tongues) s->config.n_vocab_tgt = tokenizer_size(s->tgt_tokenizer);
    if (!rc && s->tongues) rc = config_check(&s->config, err);
    if (!rc && a->init && !s->continues)
        rc = plan_init(a->init, &s->config, a->tokenizer ? s->tokenizer : NULL, err);
    if (!rc) rc = check_positions(s, err);
    if (!rc) rc = get_guided(s, err);
    if (!rc && known && s->continues) rc = plan_shape(s->home, &s->config, err);
    return rc;
}

static int fill_model(struct setup *s, struct err *err) {
    struct modeldir md;
    if (!s->a->init || s->continues) return model_draw(s->model, s->a->seed, err);
    int rc = modeldir_open_any(&md, s->a->init, err);
    if (rc) return rc;
    rc = modeldir_verify(&md, s->a->init, s->a->where.n_thread, err);
    if (!rc) rc = model_load_weights(s->model, &md, err);
    modeldir_close(&md);
    return rc;
}

/* Does this rank copy the state to write checkpoints while training goes on? auto: not where that
 * is the memory, and those are the processors, that training needs itself; and no more than half of
 * what the host has left, which the corpora have yet to take from. */
static int saves_aside(const struct setup *s) {
    if (s->comm->rank > 0 || s->a->save_aside == SAVE_OFF) return 0;
    if (s->a->save_aside == SAVE_ON) return 1;
    if (!backend_device_memory(s->be)) return 0;
    if (snapshot_bytes(s->model, s->a->ema > 0) <= mem_available() / 2) return 1;
    setup_note(s, "training waits for checkpoints: the host has no memory for a copy of its state");
    return 0;
}

/* What memory goes to. */
static void note_memory(const struct setup *s) {
    const struct plan_memory *m = &s->memory;
    int own = backend_device_memory(s->be);
    char inside[48] = "", beside[64] = "";
    if (m->copy && !own)
        snprintf(inside, sizeof inside, ", copy for checkpoints %.2f", gib(m->copy));
    if (m->copy && own)
        snprintf(beside, sizeof beside, "; %.2f GiB of the host's for a copy for checkpoints",
                 gib(m->copy));
    setup_note(s,
               "model: %s, %s parameters; memory: %.2f GiB (parameters %.2f, training state "
               "%.2f, activations %.2f, workspace %.2f%s)%s",
               s->a->init ? s->a->init : config_preset_names[s->a->preset],
               GROUPED(s->model->table.n_value), gib(m->total), gib(m->model), gib(m->state),
               gib(m->acts), gib(m->workspace), inside, beside);
}

static int get_model(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    int rc = model_new(&s->model, &s->config, s->be, s->type, err);
    if (!rc) s->model->guided = s->guided;
    if (!rc) s->model->rounds = a->rounding == ROUNDING_INT8;
    if (!rc) rc = fill_model(s, err);
    if (!rc)
        rc = plan_memory(&s->memory, s->model,
                         &(struct plan_run){.tokens = a->tokens,
                                            .max_length = setup_longest(a),
                                            .accumulate = a->trainer.accumulate,
                                            .n_rank = s->comm->size,
                                            .ema = a->ema > 0,
                                            .aside = saves_aside(s),
                                            .room = backend_available(s->be),
                                            .host = mem_available()},
                         err);
    if (rc) return rc;
    note_memory(s);
    if (s->guided.layer)
        setup_note(s, "guided alignment: head %d of decoder layer %d, weight %g", s->guided.head,
                   s->guided.layer, (double)s->guided.weight);
    if (s->model->rounds) setup_note(s, "weights are rounded as int8 will hold them");
    return 0;
}

/* The host may have less left than when it was asked: only who insists is refused. */
static int get_copy(struct setup *s, struct err *err) {
    int rc = snapshot_new(&s->copy, s->opt, err);
    if (rc != HEED_ENOMEM || s->a->save_aside == SAVE_ON) return rc;
    setup_note(s, "training waits for checkpoints: the host has no memory for a copy of its state");
    return 0;
}

static int get_state(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    struct optimizer_options o = optimizer_defaults;
    o.warmup = a->warmup;
    o.cooldown = a->cooldown;
    o.steps = a->trainer.max_steps;
    o.lr_scale = a->lr_scale;
    o.clip = a->clip;
    o.ema = a->ema;
    o.accumulate = a->trainer.accumulate;
    o.comm = s->comm->size > 1 ? s->comm : NULL;
    o.watch = s->watch;
    o.measure = 1;
    o.seed = a->seed;
    int rc = acts_new(&s->acts, s->model, a->tokens, a->tokens, 1, err);
    if (!rc) rc = optimizer_new(&s->opt, s->model, s->acts, &o, err);
    if (!rc && s->memory.copy) rc = get_copy(s, err);
    if (rc) return rc;
    /* Touched now, so that what is reserved is really there. */
    backend_zero(s->be, s->acts->arena.base, acts_bytes(s->acts));
    return backend_sync(s->be, err);
}

/* A GPU wants more tokens than one thread samples; a CPU has better use for its threads. */
static int sample_threads(const struct setup *s) {
    enum { MOST = 8 };
    int n = backend_wants_tiles(s->be) ? 1 : pool_cpu_count();
    return n < MOST ? n : MOST;
}

static int get_batches(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    int32_t bos = tokenizer_bos(s->tgt_tokenizer);
    const struct subword *src = a->sample_side == SAMPLE_TGT ? NULL : s->subword;
    const struct subword *tgt = a->sample_side == SAMPLE_SRC ? NULL : s->subword;
    int own = a->trainer.accumulate / s->comm->size;
    int rc = batches_new(
        &s->batches,
        &(struct batches_options){.source = s->source,
                                  .n_source = s->n_corpus,
                                  .seed = a->seed,
                                  .tokens = a->tokens,
                                  .prefetch = a->prefetch,
                                  .bos = bos,
                                  .sample_src = src,
                                  .sample_tgt = tgt,
                                  .sample_len = a->max_length,
                                  .sample_threads = sample_threads(s),
                                  .share = {a->trainer.accumulate, s->comm->rank * own, own}},
        err);
    if (!rc && s->has_valid) rc = sweep_new(&s->sweep, &s->valid_source, a->tokens, bos, err);
    if (rc) return rc;
    struct batches_epoch epoch = batches_epoch(s->batches);
    double updates = epoch.n_tgt_tok / ((double)a->tokens * a->trainer.accumulate);
    setup_note(s, "an epoch: %s pairs, %s source and %s target tokens, about %.0f updates%s",
               GROUPED(epoch.n_pair), GROUPED((uint64_t)epoch.n_src_tok),
               GROUPED((uint64_t)epoch.n_tgt_tok), fmax(updates, 1),
               s->subword ? " (estimates: sampled segmentations have more tokens)" : "");
    return 0;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The run's directory is rank 0's: what the others need of it comes to a place of their own. */
static int find_home(struct setup *s, struct err *err) {
    const char *dir = s->a->trainer.dir;
    char name[48];
    snprintf(name, sizeof name, "rank-%d.%d", s->comm->rank, (int)getpid());
    s->home = s->comm->rank == 0 ? xstrdup(dir) : path_join(s->cache, name);
    s->continues = s->comm->rank == 0 && !s->a->overwrite && target_has_run(dir);
    comm_bcast(s->comm, &s->continues, sizeof s->continues, 0);
    int rc = comm_check(s->comm, err);
    if (rc || (s->comm->size == 1 || !s->continues)) return rc;
    return setup_fetch(s->comm, dir, s->home, err);
}

/* A typing error must not surface after an hour of tokenising. */
int setup_check(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    s->cache = a->cache ? xstrdup(a->cache) : path_join(a->trainer.dir, "cache");
    s->corpus = xcalloc((size_t)a->src.n, sizeof *s->corpus);
    s->source = xcalloc((size_t)a->src.n, sizeof *s->source);
    int rc = find_home(s, err); /* what all do together comes first */
    if (!rc) rc = check_tokens(s, err);
    if (!rc && s->comm->rank == 0) rc = target_for_run(a->trainer.dir, a->overwrite, err);
    if (!rc) rc = setup_check_texts(s, err);
    if (!rc) rc = setup_find_init(s, err);
    if (!rc) rc = setup_find_tokenizer(s, err);
    if (!rc) rc = setup_find_tags(s, err);
    if (!rc) rc = setup_find_languages(s, err);
    if (!rc) rc = setup_get_subword(s, err);
    if (!rc) rc = get_config(s, err);
    if (!rc) rc = backend_open(&s->be, &a->where, err);
    if (!rc && a->cache) rc = dir_make(a->cache, err);
    return rc;
}

/* Memory before the corpora, which take longer. */
int setup_build(struct setup *s, struct err *err) {
    int rc = setup_get_tokenizer(s, err);
    if (!rc) rc = setup_find_tags(s, err);
    if (!rc) rc = setup_get_subword(s, err);
    if (!rc) rc = get_config(s, err);
    if (!rc) rc = get_model(s, err);
    if (!rc) rc = setup_get_corpora(s, err);
    if (!rc) rc = get_state(s, err);
    if (!rc) rc = get_batches(s, err);
    return rc;
}

void setup_release(struct setup *s) {
    sweep_free(s->sweep);
    batches_free(s->batches);
    subword_free(s->subword);
    snapshot_free(s->copy);
    optimizer_free(s->opt);
    acts_free(s->acts);
    model_free(s->model);
    backend_close(s->be);
    if (s->has_valid) corpus_close(&s->valid_corpus);
    for (int i = 0; i < s->n_corpus; i++) corpus_close(&s->corpus[i]);
    xfree(s->corpus);
    xfree(s->source);
    tokenizer_free(s->tokenizer);
    tongues_free(s->tongues);
    model_notes_release(&s->notes);
    xfree(s->tokenizer_path);
    if (s->home && strcmp(s->home, s->a->trainer.dir) != 0) dir_remove(s->home, NULL);
    xfree(s->home);
    xfree(s->cache);
}

/* ---- with it --------------------------------------------------------------------------------- */

int setup_write_config(const struct setup *s, json_t *training, struct err *err) {
    const char *dir = s->a->trainer.dir;
    struct model_notes notes = {.training = json_incref(training),
                                .card = json_incref(s->notes.card),
                                .translate = json_deep_copy(s->notes.translate),
                                .tokens = json_incref(s->notes.tokens)};
    /* A head that has learnt links is the one to read alignments from; and where it is not sure,
     * there is none (docs/align.md). */
    struct align_options learnt = {s->guided.layer, s->guided.head, ALIGN_INPUT, 0.4F};
    int rc = s->guided.layer ? defaults_set_align(&notes.translate, &learnt, err) : 0;
    if (!rc && s->tongues && !s->continues) rc = modeldir_copy_tokenizers(dir, s->a->init, err);
    if (!rc) rc = modeldir_init(dir, &s->config, &notes, s->tokenizer_path, err);
    model_notes_release(&notes);
    return rc;
}

/* One update on this rank's next batches. */
static int try_update(struct setup *s, struct batch *batch, struct update_report *report,
                      struct err *err) {
    struct batches_state before, after;
    int n = s->a->trainer.accumulate / s->comm->size, rc = 0;
    const struct batch **list = xcalloc((size_t)n, sizeof(const struct batch *));
    batches_state(s->batches, &before);
    for (int i = 0; i < n && !rc; i++) {
        rc = batches_next(s->batches, &batch[i], err);
        list[i] = &batch[i];
    }
    batches_state(s->batches, &after);
    struct update update = {list, n, (int64_t)(after.n_tgt_tok - before.n_tgt_tok)};
    if (!rc) rc = optimizer_gradient(s->opt, &update, report, err);
    if (!rc) rc = optimizer_apply(s->opt, report, err);
    xfree(list);
    return rc;
}

int setup_try(struct setup *s, struct setup_trial *trial, struct err *err) {
    *trial = (struct setup_trial){.seconds = 0};
    uint64_t sent = s->comm->sent;
    int n = s->a->trainer.accumulate / s->comm->size, rc = 0;
    struct batch *batch = xcalloc((size_t)n, sizeof *batch);
    for (int i = 0; i < n && !rc; i++) rc = batches_batch_init(s->batches, &batch[i], err);
    for (int i = 0; i < SETUP_TRIAL_STEPS && !rc; i++) {
        struct update_report report = {0};
        double begin = clock_seconds();
        rc = try_update(s, batch, &report, err);
        if (i == 0) continue; /* first touch of everything */
        trial->seconds += clock_seconds() - begin;
        trial->tokens += (double)report.n_tok;
    }
    trial->sent = (double)(s->comm->sent - sent) / SETUP_TRIAL_STEPS;
    for (int i = 0; i < n; i++) batch_release(&batch[i]);
    xfree(batch);
    return rc;
}
