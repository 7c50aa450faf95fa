/* translate.c — heed_translate and heed_result of heed.h.
 *
 * A translator's results last until its next run; the caller's last until it frees them. So they
 * are copied into one block, which is measured and carved by the same code (base/mem.h). */
#include <limits.h>
#include <string.h>

#include "api/glossary.h"
#include "api/model.h"
#include "api/options.h"
#include "base/mem.h"
#include "base/num.h"
#include "search/defaults.h"
#include "text/pages.h"

_Static_assert((int)HEED_NOTE_REPLACED == (int)TRANSLATION_REPLACED &&
                   (int)HEED_NOTE_SPLIT == (int)TRANSLATION_SPLIT &&
                   (int)HEED_NOTE_CUT == (int)TRANSLATION_CUT &&
                   (int)HEED_NOTE_MISSED == (int)TRANSLATION_MISSED,
               "notes have the same values on both sides");
_Static_assert((int)HEED_ALIGNMENT_PIECES == (int)ALIGNMENT_PIECES &&
                   (int)HEED_ALIGNMENT_WORDS == (int)ALIGNMENT_WORDS,
               "so have units of alignments");
_Static_assert((int)HEED_FORMAT_LINES == (int)FORMAT_LINES &&
                   (int)HEED_FORMAT_TEXT == (int)FORMAT_TEXT &&
                   (int)HEED_FORMAT_HTML == (int)FORMAT_HTML,
               "and formats");
_Static_assert(sizeof(heed_link) == sizeof(struct align_link), "links are copied");

/* ---- options --------------------------------------------------------------------------------- */

/* model may be NULL. What is asked of it when nothing is said (the layer that aligns, a tag) is not
 * spelt out. */
static heed_translate_options defaults(const heed_model *model) {
    struct translator_options t = translator_defaults();
    heed_translate_options o = {.size = sizeof o};
    if (model) t.search = defaults_of(model->session[0].engine).search;
    options_to_api(search_rows, &t.search, &o);
    options_to_api(translator_rows, &t, &o);
    o.alignment_layer--; /* C programs count from 0, the command line from 1 */
    o.alignment_head--;
    return o;
}

void heed_translate_options_init(heed_translate_options *options, size_t size) {
    heed_model_translate_options(NULL, options, size);
}

void heed_model_translate_options(const heed_model *model, heed_translate_options *options,
                                  size_t size) {
    heed_translate_options d = defaults(model);
    api_options_init(options, size, &d, sizeof d);
}

/* The number of a layer or head. */
static int from_one(int from_zero) { return min_int(from_zero, INT_MAX - 1) + 1; }

static struct translator_options internal(const heed_translate_options *o) {
    struct translator_options t = translator_defaults();
    options_from_api(search_rows, &t.search, o);
    options_from_api(translator_rows, &t, o);
    t.align.layer = from_one(o->alignment_layer);
    t.align.head = from_one(o->alignment_head);
    t.refuse_long = t.refuse_long != 0;
    t.glossary = o->glossary ? o->glossary->terms : NULL;
    return t;
}

/* The translator's messages begin with its own names of the options. */
static int set_options(struct translator *t, const struct translator_options *o, struct err *err) {
    int rc = translator_set(t, o, err);
    if (!rc) return 0;
    options_name_api(search_rows, err);
    options_name_api(translator_rows, err);
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

struct answer {
    heed_translation *best; /* [n] */
    size_t n;
    unsigned notes;
    const char *const *source; /* [n_source] */
    size_t n_source;
    const heed_word *word; /* [n_word] */
    size_t n_word;
};

struct heed_result {
    size_t n;
    struct answer *answer; /* [n] */
};

/* One pass of carving; with no memory behind the arena it measures, and nothing is written. */
struct carver {
    struct arena arena;
    const struct tokenizer *source, *target;
    int alignment;
};

static char *carve_bytes(struct carver *c, const void *bytes, size_t size) {
    char *p = arena_take(&c->arena, size);
    if (c->arena.base && size) memcpy(p, bytes, size);
    return p;
}

/* The pieces of ids: pointers, then their texts. */
static const char *const *carve_pieces(struct carver *c, const struct tokenizer *t,
                                       const int32_t *ids, int n) {
    size_t size = 0;
    for (int i = 0; i < n; i++) size += strlen(tokenizer_piece(t, ids[i])) + 1;
    const char **piece = arena_take(&c->arena, ((size_t)n + 1) * sizeof *piece);
    char *text = arena_take(&c->arena, size + 1);
    if (!c->arena.base) return NULL;
    for (int i = 0; i < n; i++) {
        size_t length = strlen(tokenizer_piece(t, ids[i])) + 1;
        memcpy(text, tokenizer_piece(t, ids[i]), length);
        piece[i] = text;
        text += length;
    }
    piece[n] = NULL;
    return piece;
}

/* NULL: there are none. */
static const heed_word *carve_words(struct carver *c, const struct span *in, int n) {
    if (c->alignment != ALIGNMENT_WORDS) return NULL;
    heed_word *word = arena_take(&c->arena, ((size_t)n + 1) * sizeof *word);
    for (int i = 0; i < n && c->arena.base; i++)
        word[i] = (heed_word){(size_t)in[i].begin, (size_t)in[i].end};
    return word;
}

static void carve_candidate(struct carver *c, heed_translation *out, const struct candidate *in) {
    heed_translation t = {.text = carve_bytes(c, in->text, in->size + 1),
                          .score = in->score,
                          .log_prob = in->log_prob,
                          .cut = in->cut,
                          .n_pieces = (size_t)in->n_tok};
    if (c->alignment) {
        t.pieces = carve_pieces(c, c->target, in->ids, in->n_tok);
        t.n_links = (size_t)in->n_link;
        t.links = (const heed_link *)(const void *)carve_bytes(
            c, in->link, (size_t)in->n_link * sizeof(heed_link));
        t.n_words = (size_t)in->n_word;
        t.words = carve_words(c, in->word, in->n_word);
    }
    if (out) *out = t;
}

static heed_result *carve(struct carver *c, const struct translation *in, size_t n) {
    heed_result *r = arena_take(&c->arena, sizeof *r);
    struct answer *answer = arena_take(&c->arena, n * sizeof *answer);
    int real = c->arena.base != NULL;
    for (size_t i = 0; i < n; i++) {
        heed_translation *best = arena_take(&c->arena, (size_t)in[i].n * sizeof *best);
        for (int k = 0; k < in[i].n; k++)
            carve_candidate(c, real ? &best[k] : NULL, &in[i].best[k]);
        const char *const *source =
            c->alignment ? carve_pieces(c, c->source, in[i].src, in[i].n_src) : NULL;
        const heed_word *word = carve_words(c, in[i].word, in[i].n_word);
        if (real)
            answer[i] = (struct answer){.best = best,
                                        .n = (size_t)in[i].n,
                                        .notes = in[i].notes,
                                        .source = source,
                                        .n_source = source ? (size_t)in[i].n_src : 0,
                                        .word = word,
                                        .n_word = word ? (size_t)in[i].n_word : 0};
    }
    if (real) *r = (heed_result){.n = n, .answer = answer};
    return r;
}

static int copy_results(heed_result **result, const struct engine *engine, int alignment,
                        const struct translation *in, size_t n, struct err *err) {
    struct carver c = {.source = engine->source, .target = engine->target, .alignment = alignment};
    carve(&c, in, n);
    c.arena = (struct arena){.base = mem_block(c.arena.used), .cap = c.arena.used};
    if (!c.arena.base)
        return err_set(err, HEED_ENOMEM, "not enough memory for results of %zu bytes", c.arena.cap);
    *result = carve(&c, in, n); /* the first thing in the block, so freeing it frees all */
    return 0;
}

void heed_result_free(heed_result *result) { mem_block_free(result); }

size_t heed_result_size(const heed_result *r) { return r ? r->n : 0; }

size_t heed_result_alternatives(const heed_result *r, size_t text) {
    return text < heed_result_size(r) ? r->answer[text].n : 0;
}

const heed_translation *heed_result_get(const heed_result *r, size_t text, size_t k) {
    return k < heed_result_alternatives(r, text) ? &r->answer[text].best[k] : NULL;
}

unsigned heed_result_notes(const heed_result *r, size_t text) {
    return text < heed_result_size(r) ? r->answer[text].notes : 0;
}

const char *const *heed_result_source(const heed_result *r, size_t text, size_t *n_pieces) {
    int there = text < heed_result_size(r) && r->answer[text].source;
    if (n_pieces) *n_pieces = there ? r->answer[text].n_source : 0;
    return there ? r->answer[text].source : NULL;
}

const heed_word *heed_result_source_words(const heed_result *r, size_t text, size_t *n_words) {
    int there = text < heed_result_size(r) && r->answer[text].word;
    if (n_words) *n_words = there ? r->answer[text].n_word : 0;
    return there ? r->answer[text].word : NULL;
}

/* ---- translating ----------------------------------------------------------------------------- */

static int tell(void *ctx, int done, int total) {
    const heed_translate_options *o = ctx;
    return o->progress ? o->progress(o->progress_context, (size_t)done, (size_t)total) : 0;
}

static int gather(struct translator_input *in, const char *const *texts, size_t n,
                  const heed_translate_options *o, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        if (!texts[i]) return err_set(err, HEED_EINVAL, "text %zu is NULL", i);
        const char *prefix = o->prefix ? o->prefix[i] : NULL;
        in[i] = (struct translator_input){.text = texts[i],
                                          .size = strlen(texts[i]),
                                          .prefix = prefix,
                                          .prefix_size = prefix ? strlen(prefix) : 0,
                                          .key = i,
                                          .name = "text",
                                          .number = i};
    }
    return 0;
}

static int check_format(const heed_translate_options *o, struct err *err) {
    if (o->format == HEED_FORMAT_HTML && (o->alignment || o->prefix))
        return err_set(err, HEED_EINVAL, "format: HTML does not go with %s",
                       o->prefix ? "prefix" : "alignment");
    return 0;
}

static int translate(heed_model *m, const char *const *texts, size_t n, heed_translate_options *o,
                     heed_result **result, struct err *err) {
    struct session *s = NULL;
    int html = o->format == HEED_FORMAT_HTML;
    struct translator_options options = internal(o);
    struct translator_poll poll = {tell, o};
    struct translator_input *in = xcalloc(n + 1, sizeof *in);
    struct translation *out = xcalloc(n + 1, sizeof *out);
    int rc = check_format(o, err);
    if (!rc) rc = gather(in, texts, n, o, err);
    if (html) options.alignment = ALIGNMENT_WORDS;
    if (!rc) rc = model_take_session(m, &s, o->progress, o->progress_context, err);
    if (!rc) rc = set_options(s->translator, &options, err);
    if (!rc) pages_set(s->pages, &options);
    if (!rc) rc = pages_run(s->pages, in, (int)n, out, &poll, err);
    if (!rc) rc = copy_results(result, s->engine, o->alignment, out, n, err);
    if (s) model_give_session(m, s);
    xfree(in);
    xfree(out);
    return rc;
}

int heed_translate(heed_model *model, const char *const *texts, size_t n,
                   const heed_translate_options *options, heed_result **result, heed_error *error) {
    struct err err = {0};
    heed_translate_options o = defaults(model);
    if (result) *result = NULL;
    int rc = result ? 0 : err_set(&err, HEED_EINVAL, "the pointer to the result is NULL");
    if (!rc) rc = api_options_read(&o, sizeof o, options, "heed_translate_options", &err);
    if (!rc && (!model || (n > 0 && !texts)))
        rc = err_set(&err, HEED_EINVAL, "%s is NULL", model ? "texts" : "the model");
    if (!rc && min_int(o.alignment_layer, o.alignment_head) < -1)
        rc = err_set(&err, HEED_EINVAL,
                     "alignment_layer: %d and alignment_head: %d; -1 is the least",
                     o.alignment_layer, o.alignment_head);
    if (!rc && n > INT_MAX / 2) rc = err_set(&err, HEED_ELIMIT, "%zu texts in one call", n);
    if (!rc) rc = translate(model, texts, n, &o, result, &err);
    return api_error(error, rc, &err);
}
