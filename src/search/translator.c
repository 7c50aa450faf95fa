/* translator.c — see translator.h: what a translator is told, and a run from texts to translations
 * (translator_inside.h says who does which part of it). */
#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "search/defaults.h"
#include "search/translator_inside.h"

/* What suits a kind of device. A CPU gains nothing beyond; a GPU gains up to thousands of rows
 * (docs/notes/gpu.md), as far as its memory goes (translator_search.c). */
static const struct suit suits_host = {32, 2048, 512}, suits_device = {2048, 65536, 8192};

enum { MANY = INT_MAX };
static const char *const long_names[] = {"split", "refuse", NULL};
static const char *const format_names[] = {"lines", "text", "html", NULL};
static const char *const alignment_names[] = {"none", "pieces", "words", NULL};

#define OPTIONS_OF translator_options
#define API(FIELD) API_FIELD(heed_translate_options, FIELD)
const struct option translator_rows[] = {
    ROW(CHOICE, "format", format, "lines",
        "lines: translate each as a whole; text: as people write it, sentence by sentence, keeping "
        "all white space, blank lines and marks of lists; html: each FILE is a document, whose "
        "tags are kept and follow their words",
        API(format), .choices = format_names),
    ROW(STRING, "language", language, NULL,
        "language of the text, such as de, whose abbreviations --format text and html know; if not "
        "given, the model's",
        API(language), .arg = "LANGUAGE"),
    ROW(CHOICE, "alignment", alignment, "none",
        "add ||| I-J ...: source word I for target word J, or pieces; if neither is named, words",
        API(alignment), .choices = alignment_names, .alone = "words"),
    ROW(INT, "alignment_layer", align.layer, "0",
        "decoder layer to align by, counted from 1; 0: the model's choice, or the usual one",
        API(alignment_layer), .of_model = 1, .max = 1000),
    ROW(INT, "alignment_head", align.head, "0",
        "head to align by, counted from 1; 0: the mean of all, or the model's choice",
        API(alignment_head), .of_model = 1, .max = 1024),
    ROW(CHOICE, "alignment_row", align.row, "auto",
        "align by the decoder's row that has a piece as input, or by that which writes it; auto: "
        "the model's choice, or the usual one",
        .of_model = 1, .choices = align_row_names),
    ROW(F32, "alignment_threshold", align.threshold, "0",
        "give no link to a word if none gets this share of its attention; 0: the model's choice, "
        "or none",
        .of_model = 1, .max = 1),
    SOURCE_LANG_ROW(source_lang, API(source_lang), .of_model = 1),
    TARGET_LANG_ROW(target_lang, API(target_lang), .of_model = 1),
    PREFIX_TOKEN_ROW(prefix_token, API(prefix_token), .of_model = 1),
    ROW(INT, "max_source", max_source, "0",
        "most tokens translated at a time, end mark included; 0: the model's positions",
        API(max_source), .max = MANY),
    ROW(CHOICE, "long", refuse_long, "split", "split longer lines at sentence ends, or refuse them",
        API(refuse_long), .choices = long_names),
    ROW(INT, "batch_sentences", batch_sentences, "0",
        "sentences searched together; 0: as suits the device", API(batch_sentences), .max = MANY),
    ROW(INT, "batch_tokens", batch_tokens, "0",
        "source tokens searched together; 0: as suits the device", API(batch_tokens), .max = MANY),
    {.name = NULL},
};

struct translator_options translator_defaults(void) {
    struct translator_options o = {.search = search_defaults()};
    options_default(translator_rows, &o);
    return o;
}

/* ---- the translator -------------------------------------------------------------------------- */

struct translator *translator_new(const struct engine *engine) {
    struct translator *t = xcalloc(1, sizeof *t);
    t->engine = engine;
    t->source = engine->source;
    t->target = engine->target;
    t->ended = tokenizer_eos(t->source) >= 0;
    translator_share(t, NULL);
    return t;
}

static void drop_threads(struct translator *t) {
    for (int i = 0; i < t->n_thread; i++) keep_release(&t->of_thread[i]);
    xfree(t->of_thread);
}

void translator_share(struct translator *t, struct pool *pool) {
    drop_threads(t);
    t->pool = pool;
    t->n_thread = pool ? pool_size(pool) : 1;
    t->of_thread = xcalloc((size_t)t->n_thread, sizeof *t->of_thread);
}

const struct sentence_rules *translator_rules(const struct translator *t) { return t->rules; }

int translator_batch(const struct translator *t) { return t->suit.sentences; }

/* What depends on the options. */
static void unset(struct translator *t) {
    translator_close_rooms(t);
    aligner_free(t->aligner);
    t->aligner = NULL;
    t->ready = 0;
}

void translator_free(struct translator *t) {
    if (!t) return;
    unset(t);
    drop_threads(t);
    xfree(t->coded);
    keep_release(&t->keep);
    words_release(&t->words);
    words_release(&t->terms_words);
    speller_free(t->speller);
    brackets_free(t->brackets);
    xfree(t->span);
    xfree(t->part);
    xfree(t->order);
    xfree(t->ids);
    xfree(t->pair);
    xfree(t->matrix);
    xfree(t->of_words);
    xfree(t->input);
    xfree(t->result);
    xfree(t);
}

const struct translator_stats *translator_stats(const struct translator *t) { return &t->stats; }

/* ---- options --------------------------------------------------------------------------------- */

int translator_longest(const struct translator *t, int n_src) {
    return search_longest(&t->options.search, t->engine->max_len, n_src);
}

static int limit_of(const struct translator *t, const struct translator_options *o) {
    return o->max_source ? o->max_source : t->engine->max_len;
}

static int check_options(const struct translator *t, const struct translator_options *o, int tagged,
                         struct err *err) {
    int rc = search_check(&o->search, err);
    if (!rc) rc = options_check(translator_rows, o, err);
    if (rc) return rc;
    if (o->search.force_len > t->engine->max_len)
        return err_set(err, HEED_EINVAL,
                       "force_length: %d is more than the %d tokens the model has positions for",
                       o->search.force_len, t->engine->max_len);
    if (o->search.min_len > t->engine->max_len)
        return err_set(err, HEED_EINVAL,
                       "min_length: %d is more than the %d tokens the model has positions for",
                       o->search.min_len, t->engine->max_len);
    if (o->search.trees && (o->format || o->alignment || o->glossary))
        return err_set(err, HEED_EINVAL,
                       "trees: lines become trees one by one; not together with format, alignment "
                       "or a glossary");
    int least = 1 + t->ended + tagged, limit = limit_of(t, o);
    if (limit < least || limit > t->engine->max_len)
        return err_set(
            err, HEED_EINVAL,
            "max_source: %d is not between %d and the %d tokens the model has positions for", limit,
            least, t->engine->max_len);
    return 0;
}

int translator_set(struct translator *t, const struct translator_options *given, struct err *err) {
    struct translator_options options = *given;
    struct engine_said said = {given->prefix_token, given->source_lang, given->target_lang};
    struct engine_tags tags;
    int rc = engine_tags(t->engine, &said, &tags, err);
    if (rc) return rc;
    const char *language = options.language ? options.language : options.source_lang;
    const struct sentence_rules *rules =
        sentence_rules(language ? language : defaults_of(t->engine).language);
    /* the caller's; what stays are ids and rules */
    options.prefix_token = options.language = options.source_lang = options.target_lang = NULL;
    if (options.glossary && options.search.sample)
        return err_set(err, HEED_EINVAL, "glossary: terms can be searched for, not sampled");
    if (options.glossary && !t->speller) t->speller = speller_new(t->target);
    if (t->ready) t->options.glossary = options.glossary; /* changes nothing else */
    if (t->ready && options_equal(search_rows, &t->options.search, &options.search) &&
        options_equal(translator_rows, &t->options, &options) && tags.source == t->tags.source &&
        tags.target == t->tags.target && rules == t->rules)
        return 0;
    if ((rc = check_options(t, given, tags.source >= 0, err))) return rc;
    if (options.search.trees && !t->brackets) rc = brackets_new(&t->brackets, t->target, err);
    if (rc) return rc;
    unset(t);
    t->options = options;
    t->suit = backend_device_memory(t->engine->be) ? suits_device : suits_host;
    if (options.batch_sentences) t->suit.sentences = options.batch_sentences;
    if (options.batch_tokens) t->suit.tokens = options.batch_tokens;
    t->rules = rules;
    t->tags = tags;
    t->tagged = tags.source >= 0;
    t->leads = tags.target >= 0;
    t->limit = limit_of(t, &options);
    t->max_tok = t->limit - t->ended - t->tagged;
    xfree(t->ids);
    t->ids = xcalloc((size_t)t->engine->max_len, sizeof *t->ids);
    xfree(t->span);
    t->span = xcalloc((size_t)t->engine->max_len, sizeof *t->span);
    if (options.alignment) rc = translator_open_links(t, err);
    t->ready = !rc;
    return rc;
}

/* ---- a run ----------------------------------------------------------------------------------- */

void translator_tasks(struct translator *t, pool_fn *fn, void *ctx, int n) {
    if (t->pool && n > 1) {
        pool_run(t->pool, fn, ctx, n);
        return;
    }
    for (int task = 0; task < n; task++) fn(ctx, task, 0);
}

int translator_run(struct translator *t, const struct translator_input *in, int n,
                   struct translation *out, const struct translator_poll *poll, struct err *err) {
    BUG_ON(!t->ready);
    struct job job = {.poll = poll};
    int rc = 0, good = 0;
    double begin = clock_seconds();
    keep_clear(&t->keep);
    translator_code(t, in, n);
    t->n_part = 0;
    for (int i = 0; i < n; i++) out[i] = (struct translation){0};
    for (; good < n && !rc; good += !rc)
        rc = translator_prepare(t, good, &in[good], &out[good], err);
    if (rc) { /* what comes before the bad one is still translated */
        t->n_part -= out[good].n_part;
        out[good] = (struct translation){0};
    }
    t->stats.preparing += clock_seconds() - begin;
    int search_rc = translator_search(t, &job, err);
    begin = clock_seconds();
    if (!search_rc) search_rc = translator_read_off(t, err);
    if (search_rc) return search_rc;
    const struct part *part = t->part;
    for (int i = 0; i < good; i++) {
        translator_assemble(t, &out[i], part);
        part += out[i].n_part;
    }
    t->stats.reading += clock_seconds() - begin;
    t->stats.texts += (uint64_t)good;
    return rc;
}
