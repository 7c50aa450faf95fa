/* picture.c — see picture.h. */
#include "viz/picture.h"

#include <string.h>

#include "base/mem.h"
#include "viz/attention.h"

/* Names of rows and columns. */
struct tokens {
    const char **src, **tgt, **in; /* in: the target as the decoder reads it */
};

static const char **tokens_of(const struct look *l, const int32_t *ids, int n, int shifted) {
    const char **token = xcalloc((size_t)n, sizeof *token);
    const struct tokenizer *t = ids == l->src.ids ? l->engine->source : l->engine->target;
    for (int i = shifted; i < n; i++) token[i] = tokenizer_piece(t, ids[i - shifted]);
    if (shifted) token[0] = tokenizer_bos(t) < 0 ? "<zero>" : tokenizer_piece(t, tokenizer_bos(t));
    return token;
}

/* What the drawing needs of one kind: the layers that were kept, from their first chosen head
 * on. */
static void fill_set(struct attention_set *s, const struct look *l, const struct tokens *t,
                     const struct picture *p, int kind) {
    int n = view_layers(&l->engine->model[0]->config, kind);
    *s = (struct attention_set){.query = kind == VIEW_ENC ? t->src : t->tgt,
                                .key = kind == VIEW_DEC ? t->in : t->src,
                                .n_query = look_queries(l, kind),
                                .n_key = look_keys(l, kind)};
    if (!l->probs[kind]) return;
    int layer = p->layer, head = p->head;
    s->n_layer = layer ? 1 : n;
    s->first_layer = layer ? layer : 1;
    s->probs = (const float *const *)(l->probs[kind] + (layer ? layer - 1 : 0));
    size_t skip = head ? (size_t)(head - 1) * (size_t)s->n_query * (size_t)s->n_key : 0;
    for (int i = 0; i < s->n_layer && skip; i++) /* the chosen head to the front */
        memmove(l->probs[kind][s->first_layer - 1 + i],
                l->probs[kind][s->first_layer - 1 + i] + skip,
                (size_t)s->n_query * (size_t)s->n_key * sizeof(float));
}

int picture_write(const char *path, const struct picture *p, const struct look *l, int *n_head,
                  struct err *err) {
    struct attention a = {.source = l->src.text,
                          .target = l->tgt.text,
                          .n_head = p->head ? 1 : l->engine->model[0]->config.n_head,
                          .first_head = p->head ? p->head : 1};
    struct tokens t = {tokens_of(l, l->src.ids, l->src.n, 0), tokens_of(l, l->tgt.ids, l->tgt.n, 0),
                       tokens_of(l, l->tgt.ids, l->tgt.n, 1)};
    int shown = 0;
    *n_head = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        fill_set(&a.set[kind], l, &t, p, kind);
        *n_head += a.n_head * a.set[kind].n_layer;
        if (a.set[kind].n_layer) shown = kind;
    }
    struct file_writer w;
    int rc = file_writer_open_output(&w, path, err);
    if (!rc) {
        if (p->format == PICTURE_SVG)
            attention_svg(&w, &a, (enum attention_kind)shown);
        else if (p->format == PICTURE_JSON)
            attention_json(&w, &a);
        else
            attention_html(&w, &a);
        rc = file_writer_commit(&w, err);
    }
    xfree(t.src);
    xfree(t.tgt);
    xfree(t.in);
    return rc;
}
