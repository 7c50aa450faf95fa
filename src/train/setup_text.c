/* setup_text.c — see setup.h: what a run reads. Tags, tokenizers, languages, sampled segmentations,
 * corpora. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pool.h"
#include "model/catalog.h"
#include "search/defaults.h"
#include "train/agree.h"
#include "train/setup_inside.h"
#include "train/target.h"

/* ---- tags ------------------------------------------------------------------------------------ */

static int is_tag(const char *tag) { return tag && *tag && strcmp(tag, "-") != 0; }

const char *setup_tag(const struct setup_options *a, int i) {
    const char *tag = i == a->src.n ? a->valid_tag : a->tags.n ? a->tags.item[i] : NULL;
    return is_tag(tag) ? tag : NULL;
}

int setup_tagged(const struct setup_options *a) {
    int any = 0;
    for (int i = 0; i <= a->src.n; i++) any |= setup_tag(a, i) != NULL;
    return any;
}

int setup_longest(const struct setup_options *a) { return a->max_length + setup_tagged(a); }

/* All tags, each once, separated by commas: the symbols of a tokenizer that is learnt. NULL: none.
 * xfree. */
static char *tag_symbols(const struct setup_options *a) {
    char *all = NULL;
    size_t size = 0;
    for (int i = 0; i <= a->src.n; i++) {
        const char *tag = setup_tag(a, i);
        int known = !tag;
        for (int k = 0; k < i && !known; k++)
            known = setup_tag(a, k) && strcmp(setup_tag(a, k), tag) == 0;
        if (known) continue;
        all = xrealloc(all, size + strlen(tag) + 2);
        size += (size_t)sprintf(all + size, "%s%s", size ? "," : "", tag);
    }
    return all;
}

int setup_find_tags(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    for (int i = 0; i <= a->src.n && s->src_tokenizer; i++) {
        const char *tag = setup_tag(a, i);
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

/* One for both sides. */
static int open_tokenizer(struct setup *s, const char *path, struct err *err) {
    int rc = tokenizer_open(&s->tokenizer, path, err);
    s->src_tokenizer = s->tgt_tokenizer = s->tokenizer;
    return rc;
}

static int learn_tokenizer(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
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
                                        .progress = s->talk->learning,
                                        .progress_ctx = s->talk->ctx};
    int rc = tokenizer_cached(&s->tokenizer_path, &reused, &o, s->cache, err);
    xfree(input);
    xfree(symbols);
    struct err why = *err;
    if (rc && strncmp(why.msg, "size:", 5) == 0) err_set(err, rc, "vocab_%.200s", why.msg);
    if (!rc) rc = open_tokenizer(s, s->tokenizer_path, err);
    if (!rc)
        setup_note(s, "tokenizer: learnt from the texts, %s pieces%s",
                   GROUPED((uint64_t)tokenizer_size(s->tokenizer)), reused ? " (cached)" : "");
    return rc;
}

/* A run keeps its tokenizer: --vocab-size comes too late. A tokenizer without a run was left by
 * somebody else and must not override what is asked for. */
static int check_size(const struct setup *s, struct err *err) {
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
    setup_note(s, "warning: --vocab-size %d is ignored: the run has a tokenizer already", wanted);
    return 0;
}

/* Where the model of --init was looked for. */
static int say_missing(const struct setup_options *a, struct err *err) {
    struct catalog catalog;
    char *found = NULL;
    catalog_init(&catalog, a->models);
    int rc = catalog_find(&found, &catalog, a->init, err);
    catalog_release(&catalog);
    xfree(found);
    return rc;
}

int setup_find_init(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    struct weights_form form;
    if (s->continues && a->init)
        setup_note(s, "--init is not read again: the run goes on with its own weights");
    if (s->continues) return modeldir_read_config(s->home, &s->begun, &s->notes, err);
    if (!a->init) return 0;
    if (target_contains(a->trainer.dir, a->init))
        return err_set(err, HEED_EINVAL,
                       "--out: the run would replace the model it begins with, %.180s", a->init);
    if (!dir_exists(a->init)) return say_missing(a, err);
    int rc = modeldir_read_any(a->init, &s->begun, &form, &s->notes, err);
    if (!rc && form.tiled)
        setup_note(s, "--init: %s weights become f32", weights_type_name(form.type));
    return rc;
}

/* Tokenizers that are more than one SentencePiece file: of the model in dir. */
static int find_tongues(struct setup *s, const char *dir, struct err *err) {
    int rc = tongues_open(&s->tongues, dir, &s->begun, s->notes.tokens, err);
    if (rc) return rc;
    s->src_tokenizer = s->tongues->source;
    s->tgt_tokenizer = s->tongues->target;
    setup_note(s, "tokenizers: %s, %s source and %s target tokens", dir,
               GROUPED((uint64_t)tokenizer_size(s->src_tokenizer)),
               GROUPED((uint64_t)tokenizer_size(s->tgt_tokenizer)));
    return check_size(s, err);
}

int setup_find_tokenizer(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
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
        setup_note(s, "tokenizer: %s, %s pieces", path,
                   GROUPED((uint64_t)tokenizer_size(s->tokenizer)));
    return rc;
}

int setup_get_tokenizer(struct setup *s, struct err *err) {
    struct comm *comm = s->comm;
    if (s->src_tokenizer) return 0;
    int rc = comm->rank == 0 ? learn_tokenizer(s, err) : 0;
    rc = agree_with_first(comm, rc, err);
    if (rc || comm->size == 1) return rc;
    rc = setup_fetch_file(comm, s->tokenizer_path, s->home, MODELDIR_TOKENIZER, err);
    if (rc || comm->rank == 0) return rc;
    s->tokenizer_path = path_join(s->home, MODELDIR_TOKENIZER);
    return open_tokenizer(s, s->tokenizer_path, err);
}

/* ---- languages ------------------------------------------------------------------------------- */

int setup_find_languages(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    const struct engine e = {
        .source = s->src_tokenizer, .target = s->tgt_tokenizer, .tongues = s->tongues};
    struct translator_options own = {0};
    struct engine_tags tags;
    int rc = defaults_read(&own, s->notes.translate, &s->begun, "--init", err),
        tagged = setup_tagged(a);
    s->said = (struct engine_said){.source_lang = a->source_lang, .target_lang = a->target_lang};
    if (!a->source_lang && !tagged) s->said.source_lang = own.source_lang;
    if (!a->target_lang) s->said.target_lang = own.target_lang;
    for (int i = 0; s->tongues && tagged && !s->said.prefix_token; i++)
        s->said.prefix_token = setup_tag(a, i);
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

int setup_get_subword(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    if (!subword_wanted(&a->subword) || s->subword) return 0;
    if (s->tongues)
        return err_set(err, HEED_EINVAL,
                       "--%s: the model's tokens are not those of one SentencePiece file, which "
                       "sampled segmentations need",
                       a->subword.bpe_dropout > 0 ? "bpe-dropout" : "unigram-alpha");
    return s->tokenizer ? subword_new(&s->subword, s->tokenizer, &a->subword, err)
                        : subword_check(&a->subword, a->vocab_type, err);
}

/* ---- corpora --------------------------------------------------------------------------------- */

/* "-": none. */
static const char *links_of(const struct setup_options *a, int i) {
    const char *path = a->links.n ? a->links.item[i] : "-";
    return strcmp(path, "-") == 0 ? NULL : path;
}

/* What makes ids of the lines of a side. */
static struct corpus_encoder encoder_of(const struct setup *s, int target) {
    struct corpus_encoder e = corpus_encoder_of(target ? s->tgt_tokenizer : s->src_tokenizer);
    e.has_first = s->language[target] >= 0;
    e.first = s->language[target];
    return e;
}

/* texts: source, target and, or NULL, links. */
static int get_corpus(struct setup *s, struct corpus *corpus, const char *const texts[3],
                      const char *what, struct err *err) {
    const struct setup_options *a = s->a;
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
                                                   .progress = s->talk->corpus,
                                                   .progress_ctx = s->talk->ctx},
                          &report, err);
    if (rc) return rc;
    corpus_report_text(&report, text, sizeof text);
    setup_note(s, "%s: %s%s", what, text, report.reused ? " (cached)" : "");
    return 0;
}

int setup_get_corpora(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
    uint64_t linked = 0;
    int rc = 0;
    for (int i = 0; !rc && i < a->src.n; i++) {
        const char *const texts[] = {a->src.item[i], a->tgt.item[i], links_of(a, i)};
        rc = get_corpus(s, &s->corpus[i], texts, "training data", err);
        if (rc) break;
        s->source[s->n_corpus++].corpus = &s->corpus[i];
        linked += s->corpus[i].report.n_linked;
    }
    if (!rc && a->links.n && !linked)
        rc = err_set(err, HEED_EFORMAT,
                     "--guided-alignment: no pair of the training data has links to learn");
    if (!rc && a->valid_src) {
        const char *const texts[] = {a->valid_src, a->valid_tgt, a->valid_links};
        rc = get_corpus(s, &s->valid_corpus, texts, "validation data", err);
        s->has_valid = !rc;
        s->valid_source.corpus = &s->valid_corpus;
    }
    return rc;
}

static int check_text(const struct setup_options *a, const char *path, struct err *err) {
    if (target_holds(a->trainer.dir, path))
        return err_set(err, HEED_EINVAL, "--out: the run would replace its own text, %.180s", path);
    return corpus_check_text(path, err);
}

int setup_check_texts(struct setup *s, struct err *err) {
    const struct setup_options *a = s->a;
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
