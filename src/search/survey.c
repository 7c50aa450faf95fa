/* survey.c — see survey.h. */
#include "search/survey.h"

#include <math.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "search/align.h"

void survey_init(struct survey *s, struct engine *engine, const struct engine_tags *tags) {
    const struct config *c = &engine->model[0]->config;
    *s = (struct survey){.look = {.engine = engine, .tags = *tags}, .n_head = c->n_head};
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        s->n_layer[kind] = view_layers(c, kind);
        s->head[kind] =
            xcalloc((size_t)s->n_layer[kind] * (size_t)s->n_head + 1, sizeof *s->head[kind]);
    }
}

void survey_release(struct survey *s) {
    for (int kind = 0; kind < VIEW_KINDS; kind++) xfree(s->head[kind]);
    look_clear(&s->look);
    words_release(&s->words);
    keep_release(&s->keep);
}

/* ---- units ----------------------------------------------------------------------------------- */

static enum heads_unit kind_of(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int n = utf8_decode(&code, text + at, size - at);
        if (n <= 0 || !(unicode_category(code) & (UNICODE_PUNCTUATION | UNICODE_SYMBOL)))
            return HEADS_WORD;
        at += (size_t)n;
    }
    return HEADS_PUNCT;
}

static int add_unit(struct survey *s, struct survey_side *side, enum heads_unit unit,
                    const char *text, size_t size) {
    int i = side->n++;
    side->token[i] = keep_text(&s->keep, text, size);
    side->unit[i] = (char)unit;
    side->form[i] = (int)crc32c(0, text, size);
    return i;
}

static void add_word(struct survey *s, struct survey_side *side, const char *text) {
    const struct span *word = &s->words.word[side->n_word];
    const char *begin = text + word->begin;
    size_t size = (size_t)(word->end - word->begin);
    side->of_word[side->n_word++] = add_unit(s, side, kind_of(begin, size), begin, size);
}

/* Units of a side from s->words, whose first piece is piece `lead` of n. Pieces that belong to no
 * word are marks, named by `mark`. A word without pieces is a unit, too. */
static void make_units(struct survey *s, struct survey_side *side, const char *text,
                       const char *const *mark, int lead, int n) {
    const struct words *w = &s->words;
    size_t most = (size_t)n + (size_t)w->n;
    *side = (struct survey_side){.token = keep_take(&s->keep, most * sizeof *side->token),
                                 .unit = keep_take(&s->keep, most),
                                 .form = keep_take(&s->keep, most * sizeof *side->form),
                                 .of = keep_take(&s->keep, (size_t)n * sizeof *side->of),
                                 .of_word = keep_take(&s->keep, most * sizeof *side->of_word),
                                 .n_piece = n};
    for (int i = 0; i < n; i++) {
        int of = i < lead || i - lead >= w->n_piece ? -1 : w->of[i - lead];
        while (side->n_word <= of) add_word(s, side, text);
        side->of[i] =
            of < 0 ? add_unit(s, side, HEADS_MARK, mark[i], strlen(mark[i])) : side->of_word[of];
    }
    while (side->n_word < w->n) add_word(s, side, text);
}

static const char **pieces(struct survey *s, const struct tokenizer *t, const int32_t *ids, int n) {
    const char **piece = keep_take(&s->keep, ((size_t)n + 1) * sizeof *piece);
    for (int i = 0; i < n; i++) piece[i] = tokenizer_piece(t, ids[i]);
    return piece;
}

static int source_units(struct survey *s, const struct survey_sentence *in, struct err *err) {
    const struct look *l = &s->look;
    const struct tokenizer *t = l->engine->source;
    int n = words_encode(&s->words, in->unit, t, in->text, strlen(in->text));
    if (n < 0) return err_set(err, n, "the source cannot be tokenised");
    make_units(s, &s->src, in->text, pieces(s, t, l->src.ids, l->src.n), l->tags.source >= 0,
               l->src.n);
    if (!in->parent || s->src.n_word == in->n_word) return 0;
    return err_set(err, HEED_EINVAL, "the source has %d words, its tree %d", s->src.n_word,
                   in->n_word);
}

/* What the decoder reads: the begin mark, and all but the last token. */
static int target_units(struct survey *s, struct err *err) {
    const struct look *l = &s->look;
    const struct tokenizer *t = l->engine->target;
    int n = words_of_ids(&s->words, WORDS_WORDS, t, l->tgt.ids, l->tgt.n - 1);
    if (n < 0) return err_set(err, n, "the target cannot be told in words");
    const char **mark = pieces(s, t, l->tgt.ids, l->tgt.n);
    memmove(mark + 1, mark, (size_t)(l->tgt.n - 1) * sizeof *mark);
    mark[0] = tokenizer_bos(t) < 0 ? "<zero>" : tokenizer_piece(t, tokenizer_bos(t));
    make_units(s, &s->tgt, s->words.text, mark, 1, l->tgt.n);
    return 0;
}

int survey_look(struct survey *s, const struct survey_sentence *in, struct err *err) {
    struct look *l = &s->look;
    struct view_options all = {.layer = {VIEW_ALL, VIEW_ALL, VIEW_ALL}};
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        if (!s->n_layer[kind]) all.layer[kind] = VIEW_NONE;
    look_clear(l);
    keep_clear(&s->keep);
    int rc = look_source(l, in->text, err);
    if (!rc) rc = in->target ? look_target(l, in->target, err) : look_translate(l, err);
    if (!rc) rc = look_run(l, &all, err);
    if (!rc) rc = source_units(s, in, err);
    return rc ? rc : target_units(s, err);
}

/* ---- measuring ------------------------------------------------------------------------------- */

const struct survey_side *survey_queries(const struct survey *s, enum view_kind kind) {
    return kind == VIEW_ENC ? &s->src : &s->tgt;
}
const struct survey_side *survey_keys(const struct survey *s, enum view_kind kind) {
    return kind == VIEW_DEC ? &s->tgt : &s->src;
}

void survey_matrix(const struct survey *s, enum view_kind kind, int layer, int head, float *out) {
    const struct survey_side *q = survey_queries(s, kind), *k = survey_keys(s, kind);
    size_t skip = (size_t)head * (size_t)q->n_piece * (size_t)k->n_piece;
    align_to_words(out,
                   &(struct align_matrix){.at = s->look.probs[kind][layer] + skip,
                                          .n_row = q->n_piece,
                                          .n_col = k->n_piece,
                                          .stride = k->n_piece},
                   &(struct align_words){k->of, q->of, k->n, q->n});
}

/* Links and parents of words as those of units. */
static void relations(struct survey *s, const struct survey_sentence *in, int *parent,
                      struct links *links) {
    const struct survey_side *src = &s->src;
    for (int i = 0; i < src->n; i++) parent[i] = -1;
    for (int i = 0; in->parent && i < src->n_word; i++)
        if (in->parent[i] >= 0 && in->parent[i] < src->n_word)
            parent[src->of_word[i]] = src->of_word[in->parent[i]];
    for (int i = 0; in->links && i < in->links->n; i++) {
        struct align_link l = in->links->link[i];
        if (l.src < src->n_word && l.tgt < src->n_word)
            links_add(links, src->of_word[l.src], src->of_word[l.tgt]);
    }
    links_sort(links);
}

int survey_add(struct survey *s, const struct survey_sentence *in, int number, struct err *err) {
    int rc = survey_look(s, in, err);
    if (rc) return rc;
    struct links links = {0};
    int *parent = keep_take(&s->keep, (size_t)s->src.n * sizeof *parent);
    size_t side = (size_t)max_int(s->src.n, s->tgt.n);
    float *a = xcalloc(side * side + 1, sizeof *a);
    relations(s, in, parent, &links);
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        const struct survey_side *q = survey_queries(s, kind), *k = survey_keys(s, kind);
        struct heads_sentence h = {.number = number,
                                   .self = kind != VIEW_CROSS,
                                   .causal = kind == VIEW_DEC,
                                   .n_query = q->n,
                                   .n_key = k->n,
                                   .query_unit = q->unit,
                                   .key_unit = k->unit,
                                   .query_form = q->form,
                                   .key_form = k->form};
        if (kind == VIEW_ENC) {
            h.parent = in->parent ? parent : NULL;
            h.links = in->links ? &links : NULL;
            for (int o = -SURVEY_OFFSETS; o <= SURVEY_OFFSETS; o++) {
                heads_fixed(a, &h, o);
                heads_add(&s->fixed[o + SURVEY_OFFSETS], &h, a);
            }
        }
        for (int i = 0; i < s->n_layer[kind] * s->n_head; i++) {
            survey_matrix(s, kind, i / s->n_head, i % s->n_head, a);
            heads_add(&s->head[kind][i], &h, a);
        }
    }
    s->n_sentence++;
    s->n_word += s->src.n_word;
    xfree(a);
    links_release(&links);
    return 0;
}

void survey_fixed(const struct survey *s, double best[HEADS_MEASURES]) {
    for (int m = 0; m < HEADS_MEASURES; m++) {
        best[m] = NAN;
        for (int o = 0; o <= 2 * SURVEY_OFFSETS; o++)
            best[m] = fmax(best[m], heads_value(&s->fixed[o], (enum heads_measure)m));
    }
}
