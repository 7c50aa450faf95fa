/* train_setup.c — from options to something that can train: tokenizer, corpora, model, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/ops.h"
#include "cli/cmd_train.h"
#include "model/modeldir.h"

static char *path_in(const char *dir, const char *name) {
    size_t n = strlen(dir) + strlen(name) + 2;
    char *path = xmalloc(n);
    snprintf(path, n, "%s/%s", dir, name);
    return path;
}

int setup_has_run(const char *dir) {
    struct checkpoint_list list;
    if (checkpoint_list(&list, dir, NULL)) return 0;
    int n = list.n;
    checkpoint_list_release(&list);
    return n > 0;
}

/* ---- tokenizer ------------------------------------------------------------------------------- */

static int show_learning(void *ctx, const struct tokenizer_report *r, const char *file) {
    struct progress *p = ctx;
    if (!file)
        progress_note(p, "learning the vocabulary from %s lines", text_grouped(r->sampled));
    else if (progress_due(p, 10))
        progress_line(p, "reading %s: %s lines", file, text_grouped(r->lines));
    return 0;
}

static int learn_tokenizer(struct train_setup *s, const char *path, struct err *err) {
    const struct train_args *a = s->a;
    int n = a->src.n + a->tgt.n;
    const char **input = xcalloc((size_t)n, sizeof *input);
    for (int i = 0; i < a->src.n; i++) input[i] = a->src.item[i];
    for (int i = 0; i < a->tgt.n; i++) input[a->src.n + i] = a->tgt.item[i];
    struct tokenizer_train_options o = {.input = input,
                                        .n_input = n,
                                        .out = path,
                                        .size = a->vocab_size,
                                        .type = a->vocab_type,
                                        .seed = a->seed,
                                        .progress = show_learning,
                                        .progress_ctx = s->progress};
    int rc = dir_make(a->trainer.dir, err);
    if (!rc) rc = tokenizer_train(&o, NULL, err);
    progress_end(s->progress);
    xfree(input);
    return rc;
}

/* The one given; or the run's own; or a new one learnt from the corpora. */
static int get_tokenizer(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int rc = 0, found = 0;
    if (a->tokenizer) {
        s->tokenizer_path = xstrdup(a->tokenizer);
    } else {
        s->tokenizer_path = path_in(a->trainer.dir, MODELDIR_TOKENIZER);
        found = file_exists(s->tokenizer_path) && (!a->overwrite || a->dry_run);
        if (!found) rc = learn_tokenizer(s, s->tokenizer_path, err);
    }
    if (!rc) rc = tokenizer_open(&s->tokenizer, s->tokenizer_path, err);
    if (!rc) rc = tokenizer_check_ends(s->tokenizer, err);
    if (!rc)
        progress_note(s->progress, "tokenizer: %s, %s pieces", s->tokenizer_path,
                      text_grouped((uint64_t)tokenizer_size(s->tokenizer)));
    if (!rc && found && tokenizer_size(s->tokenizer) != a->vocab_size)
        progress_note(s->progress,
                      "warning: the tokenizer was there already: --vocab-size %d does not apply",
                      a->vocab_size);
    return rc;
}

/* ---- corpora --------------------------------------------------------------------------------- */

static int show_corpus(void *ctx, const struct corpus_progress *c) {
    static const char *const what[] = {"checking", "waiting for another build of", "tokenising"};
    struct progress *p = ctx;
    if (progress_due(p, 10))
        progress_line(p, "%s the corpus: %.0f%%, %s pairs", what[c->phase],
                      100 * (double)c->bytes_done / fmax((double)c->bytes_total, 1),
                      text_grouped(c->n_pair));
    return 0;
}

static int get_corpus(struct train_setup *s, struct corpus *corpus, const char *src,
                      const char *tgt, const char *what, struct err *err) {
    const struct train_args *a = s->a;
    char *cache = a->cache ? xstrdup(a->cache) : path_in(a->trainer.dir, "cache");
    struct corpus_report report;
    char text[400];
    int rc = corpus_build(corpus,
                          &(struct corpus_options){.src = src,
                                                   .tgt = tgt,
                                                   .cache_dir = cache,
                                                   .encoder = corpus_encoder_of(s->tokenizer),
                                                   .max_len = a->max_length,
                                                   .ratio = a->ratio,
                                                   .threads = a->where.n_thread,
                                                   .progress = show_corpus,
                                                   .progress_ctx = s->progress},
                          &report, err);
    progress_end(s->progress);
    xfree(cache);
    if (rc) return rc;
    corpus_report_text(&report, text, sizeof text);
    progress_note(s->progress, "%s: %s%s", what, text, report.reused ? " (cached)" : "");
    return 0;
}

static int get_weight(const struct train_args *a, int i, double *weight, struct err *err) {
    char *end;
    *weight = 1;
    if (!a->weights.n) return 0;
    *weight = strtod(a->weights.item[i], &end);
    if (*end || end == a->weights.item[i] || !(*weight > 0 && *weight <= 1e6))
        return err_set(err, HEED_EINVAL, "--weights: '%s' is not a positive number",
                       a->weights.item[i]);
    return 0;
}

static int get_corpora(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int n = a->src.n, rc = 0;
    s->corpus = xcalloc((size_t)n, sizeof *s->corpus);
    s->source = xcalloc((size_t)n, sizeof *s->source);
    for (int i = 0; !rc && i < n; i++) {
        rc = get_weight(a, i, &s->source[i].weight, err);
        if (!rc)
            rc = get_corpus(s, &s->corpus[i], a->src.item[i], a->tgt.item[i], "training data", err);
        if (!rc) s->source[s->n_corpus++].corpus = &s->corpus[i];
    }
    if (!rc && a->valid_src) {
        rc = get_corpus(s, &s->valid_corpus, a->valid_src, a->valid_tgt, "validation data", err);
        s->has_valid = !rc;
    }
    return rc;
}

/* ---- model ----------------------------------------------------------------------------------- */

/* The model's shape must be that of the run so far; what only training uses may change. */
static int check_shape(const struct train_setup *s, struct err *err) {
    static const char *const free_fields[] = {"dropout", "attention_dropout", "activation_dropout",
                                              "label_smoothing"};
    struct config was;
    int rc = modeldir_read_config(s->a->trainer.dir, &was, NULL, err);
    if (rc) return rc;
    for (const struct option *o = config_rows; o->name; o++) {
        int may_change = 0;
        char a[OPTION_TEXT], b[OPTION_TEXT];
        for (size_t i = 0; i < sizeof free_fields / sizeof free_fields[0]; i++)
            may_change |= strcmp(o->name, free_fields[i]) == 0;
        if (may_change || option_equal(o, &was, &s->config)) continue;
        return err_set(
            err, HEED_EINVAL, "%s: the run began with %s %s, not %s; --overwrite starts over",
            s->a->trainer.dir, o->name, option_text(o, &was, a), option_text(o, &s->config, b));
    }
    return 0;
}

static int get_config(struct train_setup *s, struct err *err) {
    int n_vocab = tokenizer_size(s->tokenizer);
    if (options_given(s->groups, "n_vocab") || options_given(s->groups, "n_vocab_src") ||
        options_given(s->groups, "n_vocab_tgt"))
        return err_set(err, HEED_EINVAL, "--n-vocab: the tokenizer decides that (%d)", n_vocab);
    int rc = options_config(&s->config, config_preset_names[s->a->preset], n_vocab, s->groups, err);
    if (!rc && s->a->max_length > s->config.max_len)
        rc = err_set(err, HEED_EINVAL, "--max-length: %d is more than the model's max_len %d",
                     s->a->max_length, s->config.max_len);
    if (!rc && setup_has_run(s->a->trainer.dir) && !s->a->overwrite) rc = check_shape(s, err);
    return rc;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static double gib(size_t bytes) { return (double)bytes / 1073741824.0; }

/* Left free: batches in stock, a thread's stack, buffers for checkpoints and text. */
static const size_t spare = (size_t)64 << 20;

/* The tokens per batch that would fit into `room` bytes, since need grows with them; 0: not even a
 * sentence. */
static int fitting_tokens(struct train_setup *s, size_t fixed, size_t room) {
    int low = s->a->max_length - 1, high = s->a->tokens;
    while (high - low > 1) {
        int mid = low + (high - low) / 2;
        struct acts_need need;
        if (acts_measure(&need, s->model, mid, mid, 1, NULL)) return 0;
        if (fixed + need.acts + need.workspace <= room)
            low = mid;
        else
            high = mid;
    }
    int even = low / 100 * 100;
    return low < s->a->max_length ? 0 : even < s->a->max_length ? low : even;
}

/* All memory is reserved before the first update, validation included (it runs in the same
 * activations). */
static int check_memory(struct train_setup *s, struct err *err) {
    struct acts_need need;
    size_t room = backend_available(s->be);
    int tokens = s->a->tokens, rc = acts_measure(&need, s->model, tokens, tokens, 1, err);
    if (rc) return rc;
    s->need_model = model_bytes(&s->config, s->type);
    s->need_state = optimizer_bytes(s->model);
    s->need_acts = need.acts;
    s->need_workspace = need.workspace;
    room = room > spare ? room - spare : 0;
    size_t fixed = s->need_state, total = fixed + need.acts + need.workspace;
    if (total <= room) return 0;
    int fits = fitting_tokens(s, fixed, room);
    if (fits > 0)
        return err_set(
            err, HEED_ENOMEM,
            "--tokens %d needs %.1f GiB more memory, %.1f are available; --tokens %d would fit "
            "(with --accumulate %d for the same batch)",
            tokens, gib(total), gib(room), fits, (tokens + fits - 1) / fits);
    return err_set(err, HEED_ENOMEM,
                   "training this model needs %.1f GiB more memory and room for a sentence of "
                   "--max-length %d, whatever the batch; %.1f are available",
                   gib(fixed), s->a->max_length, gib(room));
}

static int get_model(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    struct optimizer_options o = optimizer_defaults;
    o.warmup = a->warmup;
    o.lr_scale = a->lr_scale;
    o.clip = a->clip;
    o.measure = 1;
    o.seed = a->seed;
    int rc = model_new(&s->model, &s->config, s->be, s->type, err);
    if (!rc) rc = model_draw(s->model, a->seed, err);
    if (!rc) rc = check_memory(s, err);
    if (!rc) rc = acts_new(&s->acts, s->model, a->tokens, a->tokens, 1, err);
    if (!rc) rc = optimizer_new(&s->opt, s->model, s->acts, &o, err);
    if (rc) return rc;
    backend_zero(s->be, s->acts->arena.base,
                 acts_bytes(s->acts)); /* touch it now: reserved is reserved */
    progress_note(s->progress,
                  "model: %s, %s parameters; memory: %.2f GiB (parameters %.2f, training state "
                  "%.2f, activations %.2f, workspace %.2f)",
                  config_preset_names[a->preset], text_grouped(s->model->table.n_value),
                  gib(s->need_model + s->need_state + s->need_acts + s->need_workspace),
                  gib(s->need_model), gib(s->need_state), gib(s->need_acts),
                  gib(s->need_workspace));
    return backend_sync(s->be, err);
}

static int get_batches(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int32_t bos = tokenizer_bos(s->tokenizer);
    int rc = batches_new(&s->batches,
                         &(struct batches_options){.source = s->source,
                                                   .n_source = s->n_corpus,
                                                   .seed = a->seed,
                                                   .tokens = a->tokens,
                                                   .prefetch = a->prefetch,
                                                   .bos = bos},
                         err);
    if (!rc && s->has_valid) rc = sweep_new(&s->sweep, &s->valid_corpus, a->tokens, bos, err);
    if (rc) return rc;
    struct batches_epoch epoch = batches_epoch(s->batches);
    double updates = epoch.n_tgt_tok / ((double)a->tokens * a->trainer.accumulate);
    progress_note(s->progress,
                  "an epoch: %s pairs, %s source and %s target tokens, about %.0f updates",
                  text_grouped(epoch.n_pair), text_grouped((uint64_t)epoch.n_src_tok),
                  text_grouped((uint64_t)epoch.n_tgt_tok), fmax(updates, 1));
    return 0;
}

/* The device comes first: a slip of the pen must not show after an hour of tokenising. */
int setup_build(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int rc = backend_open(&s->be, &a->where, err);
    if (!rc) s->type = options_dtype(a->dtype, s->be);
    if (!rc) rc = get_tokenizer(s, err);
    if (!rc) rc = get_config(s, err);
    if (!rc) rc = get_corpora(s, err);
    if (!rc) rc = get_model(s, err);
    if (!rc) rc = get_batches(s, err);
    return rc;
}

void setup_release(struct train_setup *s) {
    sweep_free(s->sweep);
    batches_free(s->batches);
    optimizer_free(s->opt);
    acts_free(s->acts);
    model_free(s->model);
    backend_close(s->be);
    if (s->has_valid) corpus_close(&s->valid_corpus);
    for (int i = 0; i < s->n_corpus; i++) corpus_close(&s->corpus[i]);
    xfree(s->corpus);
    xfree(s->source);
    tokenizer_free(s->tokenizer);
    xfree(s->tokenizer_path);
}
