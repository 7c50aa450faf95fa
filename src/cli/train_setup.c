/* train_setup.c — from options to something that can train: tokenizer, corpora, model, memory. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/pool.h"
#include "cli/cmd_train.h"
#include "cli/models.h"
#include "cli/train_ranks.h"
#include "model/modeldir.h"
#include "search/defaults.h"
#include "search/engine.h"
#include "train/agree.h"
#include "train/target.h"

/* ---- tags ------------------------------------------------------------------------------------ */

static int is_tag(const char *tag) { return tag && *tag && strcmp(tag, "-") != 0; }

/* The i-th tag that was asked for, the validation text's last; NULL: none. */
static const char *tag_of(const struct train_args *a, int i) {
    const char *tag = i == a->src.n ? a->valid_tag : a->tags.n ? a->tags.item[i] : NULL;
    return is_tag(tag) ? tag : NULL;
}

static int any_tag(const struct train_args *a) {
    int any = 0;
    for (int i = 0; i <= a->src.n; i++) any |= tag_of(a, i) != NULL;
    return any;
}

/* Most tokens of a sentence in a batch. */
static int longest(const struct train_args *a) { return a->max_length + any_tag(a); }

/* All tags, each once, separated by commas: the symbols of a tokenizer that is learnt. NULL: none.
 * xfree. */
static char *tag_symbols(const struct train_args *a) {
    char *all = NULL;
    size_t size = 0;
    for (int i = 0; i <= a->src.n; i++) {
        const char *tag = tag_of(a, i);
        int known = !tag;
        for (int k = 0; k < i && !known; k++)
            known = tag_of(a, k) && strcmp(tag_of(a, k), tag) == 0;
        if (known) continue;
        all = xrealloc(all, size + strlen(tag) + 2);
        size += (size_t)sprintf(all + size, "%s%s", size ? "," : "", tag);
    }
    return all;
}

/* Which ids they are, once there is a tokenizer. */
static int find_tags(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    for (int i = 0; i <= a->src.n && s->src_tokenizer; i++) {
        const char *tag = tag_of(a, i);
        struct batches_source *source = i < a->src.n ? &s->source[i] : &s->valid_source;
        if (!tag) continue;
        source->tag = tokenizer_find(s->src_tokenizer, tag);
        source->tagged = 1;
        if (source->tag < 0)
            return err_set(err, HEED_EINVAL,
                           "--%s: the tokenizer has no piece '%.80s'; heed vocab --symbols makes "
                           "such pieces",
                           i < a->src.n ? "tags" : "valid-tag", tag);
    }
    return 0;
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

/* One for both sides. */
static int open_tokenizer(struct train_setup *s, const char *path, struct err *err) {
    int rc = tokenizer_open(&s->tokenizer, path, err);
    s->src_tokenizer = s->tgt_tokenizer = s->tokenizer;
    return rc;
}

static int learn_tokenizer(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int n = a->src.n + a->tgt.n, reused = 0;
    const char **input = xcalloc((size_t)n, sizeof *input);
    char *symbols = tag_symbols(a);
    for (int i = 0; i < a->src.n; i++) input[i] = a->src.item[i];
    for (int i = 0; i < a->tgt.n; i++) input[a->src.n + i] = a->tgt.item[i];
    struct tokenizer_train_options o = {.input = input,
                                        .n_input = n,
                                        .size = a->vocab_size,
                                        .type = a->vocab_type,
                                        .seed = a->seed,
                                        .symbols = symbols,
                                        .progress = show_learning,
                                        .progress_ctx = s->progress};
    int rc = tokenizer_cached(&s->tokenizer_path, &reused, &o, s->cache, err);
    progress_end(s->progress);
    xfree(input);
    xfree(symbols);
    struct err why = *err;
    if (rc && strncmp(why.msg, "size:", 5) == 0) err_set(err, rc, "vocab_%.200s", why.msg);
    if (!rc) rc = open_tokenizer(s, s->tokenizer_path, err);
    if (!rc)
        progress_note(s->progress, "tokenizer: learnt from the texts, %s pieces%s",
                      text_grouped((uint64_t)tokenizer_size(s->tokenizer)),
                      reused ? " (cached)" : "");
    return rc;
}

/* A run keeps its tokenizer: --vocab-size comes too late. A tokenizer without a run was left by
 * somebody else and must not override what is asked for. */
static int check_size(const struct train_setup *s, struct err *err) {
    int size = tokenizer_size(s->src_tokenizer), wanted = s->a->vocab_size;
    if (size == wanted || s->a->tokenizer || !options_given(s->groups, "vocab_size")) return 0;
    if (!s->continues && s->a->init)
        return err_set(err, HEED_EINVAL, "--vocab-size: %d, but the model of --init has %d pieces",
                       wanted, size);
    if (!s->continues)
        return err_set(
            err, HEED_EINVAL,
            "--vocab-size: %d, but %.80s has %d pieces; use it with --tokenizer %.80s, or "
            "learn another with --overwrite",
            wanted, s->tokenizer_path, size, s->tokenizer_path);
    progress_note(s->progress,
                  "warning: --vocab-size %d is ignored: the run has a tokenizer already", wanted);
    return 0;
}

/* The model that a run begins with. One that continues has weights of its own; but the shape is not
 * asked for again. */
static int find_init(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    struct weights_form form;
    if (s->continues && a->init)
        progress_note(s->progress,
                      "--init is not read again: the run goes on with its own weights");
    if (s->continues) return modeldir_read_config(s->home, &s->begun, &s->notes, err);
    if (!a->init) return 0;
    if (target_contains(a->trainer.dir, a->init))
        return err_set(err, HEED_EINVAL,
                       "--out: the run would replace the model it begins with, %.180s", a->init);
    const char *found;
    if (!dir_exists(a->init)) return models_find(&found, a->init, err); /* says where it looked */
    int rc = modeldir_read_any(a->init, &s->begun, &form, &s->notes, err);
    if (!rc && form.tiled)
        progress_note(s->progress, "--init: %s weights become f32", weights_type_name(form.type));
    return rc;
}

/* Tokenizers that are more than one SentencePiece file: of the model in dir. */
static int find_tongues(struct train_setup *s, const char *dir, struct err *err) {
    int rc = tongues_open(&s->tongues, dir, &s->begun, s->notes.tokens, err);
    if (rc) return rc;
    s->src_tokenizer = s->tongues->source;
    s->tgt_tokenizer = s->tongues->target;
    progress_note(s->progress, "tokenizers: %s, %s source and %s target tokens", dir,
                  text_grouped((uint64_t)tokenizer_size(s->src_tokenizer)),
                  text_grouped((uint64_t)tokenizer_size(s->tgt_tokenizer)));
    return check_size(s, err);
}

/* The tokenizer that exists already: the one given, the run's or --init's. Otherwise one will be
 * learnt from the corpora. */
static int find_tokenizer(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int of_init = a->init && !s->continues;
    const char *base = s->continues ? s->home : a->init;
    if (base && !a->tokenizer && (s->notes.tokens || modeldir_has_tongues(base)))
        return find_tongues(s, base, err);
    char *path = a->tokenizer ? xstrdup(a->tokenizer)
                              : path_join(of_init ? a->init : s->home, MODELDIR_TOKENIZER);
    if (!a->tokenizer && !of_init && (a->overwrite || !file_exists(path))) return xfree(path), 0;
    s->tokenizer_path = path;
    int rc = open_tokenizer(s, path, err);
    if (!rc) rc = tokenizer_check_ends(s->tokenizer, err);
    if (!rc) rc = check_size(s, err);
    if (!rc)
        progress_note(s->progress, "tokenizer: %s, %s pieces", path,
                      text_grouped((uint64_t)tokenizer_size(s->tokenizer)));
    return rc;
}

/* ---- languages ------------------------------------------------------------------------------- */

/* What stands before the lines of texts of a model for several languages, as options or the model
 * say. Tags do so in the place of the source's. */
static int find_languages(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    const struct engine e = {
        .source = s->src_tokenizer, .target = s->tgt_tokenizer, .tongues = s->tongues};
    struct translator_options own = {0};
    struct engine_tags tags;
    int rc = defaults_read(&own, s->notes.translate, &s->begun, "--init", err), tagged = any_tag(a);
    s->said = (struct engine_said){.source_lang = a->source_lang, .target_lang = a->target_lang};
    if (!a->source_lang && !tagged) s->said.source_lang = own.source_lang;
    if (!a->target_lang) s->said.target_lang = own.target_lang;
    for (int i = 0; s->tongues && tagged && !s->said.prefix_token; i++)
        s->said.prefix_token = tag_of(a, i);
    if (!rc) rc = engine_tags(&e, &s->said, &tags, err);
    s->said.prefix_token = NULL;
    if (rc) return rc;
    s->language[0] = tagged ? -1 : tags.source;
    s->language[1] = tags.target;
    if (tagged && s->tongues && s->tongues->before_source && a->valid_src && !is_tag(a->valid_tag))
        return err_set(err, HEED_EINVAL,
                       "--valid-tag is missing: the model wants a token before every source");
    return 0;
}

/* ---- subwords -------------------------------------------------------------------------------- */

/* Before the tokenizer is learnt, its type is what was asked for. */
static int get_subword(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    if (!subword_wanted(&a->subword) || s->subword) return 0;
    if (s->tongues)
        return err_set(err, HEED_EINVAL,
                       "--%s: the model's tokens are not those of one SentencePiece file, which "
                       "sampled segmentations need",
                       a->subword.bpe_dropout > 0 ? "bpe-dropout" : "unigram-alpha");
    return s->tokenizer ? subword_new(&s->subword, s->tokenizer, &a->subword, err)
                        : subword_check(&a->subword, a->vocab_type, err);
}

/* A GPU wants more tokens than one thread samples; a CPU has better use for its threads. */
static int sample_threads(const struct train_setup *s) {
    enum { MOST = 8 };
    int n = backend_wants_tiles(s->be) ? 1 : pool_cpu_count();
    return n < MOST ? n : MOST;
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

/* "-": none. */
static const char *links_of(const struct train_args *a, int i) {
    const char *path = a->links.n ? a->links.item[i] : "-";
    return strcmp(path, "-") == 0 ? NULL : path;
}

/* What makes ids of the lines of a side. */
static struct corpus_encoder encoder_of(const struct train_setup *s, int target) {
    struct corpus_encoder e = corpus_encoder_of(target ? s->tgt_tokenizer : s->src_tokenizer);
    e.has_first = s->language[target] >= 0;
    e.first = s->language[target];
    return e;
}

/* texts: source, target and, or NULL, links. */
static int get_corpus(struct train_setup *s, struct corpus *corpus, const char *const texts[3],
                      const char *what, struct err *err) {
    const struct train_args *a = s->a;
    struct corpus_report report;
    char text[400];
    struct corpus_encoder target = {0};
    if (s->tgt_tokenizer != s->src_tokenizer || s->language[0] >= 0 || s->language[1] >= 0)
        target = encoder_of(s, 1);
    int rc = corpus_build(corpus,
                          &(struct corpus_options){.src = texts[0],
                                                   .tgt = texts[1],
                                                   .links = texts[2],
                                                   .link_unit = a->link_unit,
                                                   .cache_dir = s->cache,
                                                   .encoder = encoder_of(s, 0),
                                                   .target = target,
                                                   .max_len = a->max_length,
                                                   .ratio = a->ratio,
                                                   .threads = a->where.n_thread,
                                                   .progress = show_corpus,
                                                   .progress_ctx = s->progress},
                          &report, err);
    progress_end(s->progress);
    if (rc) return rc;
    corpus_report_text(&report, text, sizeof text);
    progress_note(s->progress, "%s: %s%s", what, text, report.reused ? " (cached)" : "");
    return 0;
}

static int get_corpora(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int rc = 0;
    for (int i = 0; !rc && i < a->src.n; i++) {
        const char *const texts[] = {a->src.item[i], a->tgt.item[i], links_of(a, i)};
        rc = get_corpus(s, &s->corpus[i], texts, "training data", err);
        if (!rc) s->source[s->n_corpus++].corpus = &s->corpus[i];
    }
    if (!rc && a->valid_src) {
        const char *const texts[] = {a->valid_src, a->valid_tgt, a->valid_links};
        rc = get_corpus(s, &s->valid_corpus, texts, "validation data", err);
        s->has_valid = !rc;
        s->valid_source.corpus = &s->valid_corpus;
    }
    return rc;
}

static int check_text(const struct train_args *a, const char *path, struct err *err) {
    if (target_holds(a->trainer.dir, path))
        return err_set(err, HEED_EINVAL, "--out: the run would replace its own text, %.180s", path);
    return corpus_check_text(path, err);
}

static int check_texts(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int rc = 0;
    for (int i = 0; i < a->src.n && !rc; i++) {
        double *weight = &s->source[i].weight;
        char *end = NULL;
        *weight = a->weights.n ? strtod(a->weights.item[i], &end) : 1;
        if (a->weights.n && (*end || end == a->weights.item[i] || !(*weight > 0 && *weight <= 1e6)))
            return err_set(err, HEED_EINVAL,
                           "--weights: %s is not a number above 0, at most 1,000,000",
                           a->weights.item[i]);
        rc = check_text(a, a->src.item[i], err);
        if (!rc) rc = check_text(a, a->tgt.item[i], err);
        if (!rc && links_of(a, i)) rc = check_text(a, links_of(a, i), err);
    }
    if (!rc && a->valid_src) rc = check_text(a, a->valid_src, err);
    if (!rc && a->valid_src) rc = check_text(a, a->valid_tgt, err);
    if (!rc && a->valid_links) rc = check_text(a, a->valid_links, err);
    return rc;
}

/* ---- model ----------------------------------------------------------------------------------- */

/* Which head learns links, if there are any. */
static int get_guided(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
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
static int check_tokens(const struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    const char *tag = any_tag(a) ? " and a tag" : "";
    if (longest(a) <= a->tokens) return 0;
    if (options_given(s->groups, "tokens"))
        return err_set(err, HEED_EINVAL,
                       "--tokens: %d is smaller than one sentence of --max-length %d%s%s",
                       a->tokens, a->max_length, options_if_default(s->groups, "max_length"), tag);
    return err_set(err, HEED_EINVAL, "--max-length: %d%s is more than --tokens %d (the default)",
                   a->max_length, tag, a->tokens);
}

static int check_positions(const struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    const char *tag = any_tag(a) ? " and a tag" : "";
    int room = s->config.max_len;
    if (longest(a) <= room) return 0;
    if (options_given(s->groups, "max_length"))
        return err_set(err, HEED_EINVAL,
                       "--max-length: %d%s is more than the model's --max-len %d%s", a->max_length,
                       tag, room, options_if_default(s->groups, "max_len"));
    return err_set(err, HEED_EINVAL,
                   "--max-len: %d positions are too few for pairs of up to %d tokens%s; give "
                   "--max-length %d to drop longer ones",
                   room, a->max_length, tag, room - any_tag(a));
}

/* Before the tokenizer is learnt, its size is what was asked for. */
static int get_config(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    int known = s->src_tokenizer != NULL;
    int n_vocab = known ? tokenizer_size(s->src_tokenizer) : a->vocab_size;
    if (options_given(s->groups, "n_vocab") || options_given(s->groups, "n_vocab_src") ||
        options_given(s->groups, "n_vocab_tgt"))
        return err_set(err, HEED_EINVAL,
                       "--n-vocab: the tokenizer decides the vocabulary (%d pieces)", n_vocab);
    int rc, by_init = a->init && !options_given(s->groups, "preset");
    s->config = s->begun;
    rc = by_init
             ? options_fields(&s->config, s->groups, err)
             : options_config(&s->config, config_preset_names[a->preset], n_vocab, s->groups, err);
    if (!rc && s->tongues) s->config.n_vocab_tgt = tokenizer_size(s->tgt_tokenizer);
    if (!rc && s->tongues) rc = config_check(&s->config, err);
    if (!rc && a->init && !s->continues)
        rc = plan_init(a->init, &s->config, a->tokenizer ? s->tokenizer : NULL, err);
    if (!rc) rc = check_positions(s, err);
    if (!rc) rc = get_guided(s, err);
    if (!rc && known && s->continues) rc = plan_shape(s->home, &s->config, err);
    return rc;
}

static int fill_model(struct train_setup *s, struct err *err) {
    struct modeldir md;
    if (!s->a->init || s->continues) return model_draw(s->model, s->a->seed, err);
    int rc = modeldir_open_any(&md, s->a->init, err);
    if (rc) return rc;
    rc = modeldir_verify(&md, s->a->init, s->a->where.n_thread, err);
    if (!rc) rc = model_load_weights(s->model, &md, err);
    modeldir_close(&md);
    return rc;
}

static int get_model(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    const struct plan_memory *m = &s->memory;
    int rc = model_new(&s->model, &s->config, s->be, s->type, err);
    if (!rc) s->model->guided = s->guided;
    if (!rc) rc = fill_model(s, err);
    if (!rc)
        rc = plan_memory(&s->memory, s->model,
                         &(struct plan_run){.tokens = a->tokens,
                                            .max_length = longest(a),
                                            .accumulate = a->trainer.accumulate,
                                            .n_rank = s->comm->size,
                                            .ema = a->ema > 0,
                                            .room = backend_available(s->be)},
                         err);
    if (rc) return rc;
    progress_note(s->progress,
                  "model: %s, %s parameters; memory: %.2f GiB (parameters %.2f, training state "
                  "%.2f, activations %.2f, workspace %.2f)",
                  a->init ? a->init : config_preset_names[a->preset],
                  text_grouped(s->model->table.n_value), gib(m->total), gib(m->model),
                  gib(m->state), gib(m->acts), gib(m->workspace));
    if (s->guided.layer)
        progress_note(s->progress, "guided alignment: head %d of decoder layer %d, weight %g",
                      s->guided.head, s->guided.layer, (double)s->guided.weight);
    return 0;
}

static int get_state(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
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
    if (rc) return rc;
    /* Touched now, so that what is reserved is really there. */
    backend_zero(s->be, s->acts->arena.base, acts_bytes(s->acts));
    return backend_sync(s->be, err);
}

static int get_batches(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
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
    progress_note(s->progress,
                  "an epoch: %s pairs, %s source and %s target tokens, about %.0f updates%s",
                  text_grouped(epoch.n_pair), text_grouped((uint64_t)epoch.n_src_tok),
                  text_grouped((uint64_t)epoch.n_tgt_tok), fmax(updates, 1),
                  s->subword ? " (estimates: sampled segmentations have more tokens)" : "");
    return 0;
}

/* The run's directory is rank 0's: what the others need of it comes to a place of their own. */
static int find_home(struct train_setup *s, struct err *err) {
    const char *dir = s->a->trainer.dir;
    char name[48];
    snprintf(name, sizeof name, "rank-%d.%d", s->comm->rank, (int)getpid());
    s->home = s->comm->rank == 0 ? xstrdup(dir) : path_join(s->cache, name);
    s->continues = s->comm->rank == 0 && !s->a->overwrite && target_has_run(dir);
    comm_bcast(s->comm, &s->continues, sizeof s->continues, 0);
    int rc = comm_check(s->comm, err);
    if (rc || (s->comm->size == 1 || !s->continues)) return rc;
    return train_ranks_fetch(s->comm, dir, s->home, err);
}

/* A tokenizer for all is learnt by one. */
static int get_tokenizer(struct train_setup *s, struct err *err) {
    struct comm *comm = s->comm;
    if (s->src_tokenizer) return 0;
    int rc = comm->rank == 0 ? learn_tokenizer(s, err) : 0;
    rc = agree_with_first(comm, rc, err);
    if (rc || comm->size == 1) return rc;
    rc = train_ranks_fetch_file(comm, s->tokenizer_path, s->home, MODELDIR_TOKENIZER, err);
    if (rc || comm->rank == 0) return rc;
    s->tokenizer_path = path_join(s->home, MODELDIR_TOKENIZER);
    return open_tokenizer(s, s->tokenizer_path, err);
}

/* A typing error must not surface after an hour of tokenising. */
int setup_check(struct train_setup *s, struct err *err) {
    const struct train_args *a = s->a;
    s->cache = a->cache ? xstrdup(a->cache) : path_join(a->trainer.dir, "cache");
    s->corpus = xcalloc((size_t)a->src.n, sizeof *s->corpus);
    s->source = xcalloc((size_t)a->src.n, sizeof *s->source);
    int rc = find_home(s, err); /* what all do together comes first */
    if (!rc) rc = check_tokens(s, err);
    if (!rc && s->comm->rank == 0) rc = target_for_run(a->trainer.dir, a->overwrite, err);
    if (!rc) rc = check_texts(s, err);
    if (!rc) rc = find_init(s, err);
    if (!rc) rc = find_tokenizer(s, err);
    if (!rc) rc = find_tags(s, err);
    if (!rc) rc = find_languages(s, err);
    if (!rc) rc = get_subword(s, err);
    if (!rc) rc = get_config(s, err);
    if (!rc) rc = backend_open(&s->be, &a->where, err);
    if (!rc) s->type = options_dtype(a->dtype, s->be);
    if (!rc && a->cache) rc = dir_make(a->cache, err);
    return rc;
}

/* Memory before the corpora, which take longer. */
int setup_build(struct train_setup *s, struct err *err) {
    int rc = get_tokenizer(s, err);
    if (!rc) rc = find_tags(s, err);
    if (!rc) rc = get_subword(s, err);
    if (!rc) rc = get_config(s, err);
    if (!rc) rc = get_model(s, err);
    if (!rc) rc = get_corpora(s, err);
    if (!rc) rc = get_state(s, err);
    if (!rc) rc = get_batches(s, err);
    return rc;
}

void setup_release(struct train_setup *s) {
    sweep_free(s->sweep);
    batches_free(s->batches);
    subword_free(s->subword);
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
