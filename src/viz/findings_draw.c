/* findings_draw.c — see findings.h: the heads and sentences that show best what the paper's figures
 * 3 to 5 show, as pictures. */
#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "io/json.h"
#include "viz/attention.h"
#include "viz/findings.h"

/* What to draw: heads of one layer of the encoder in one sentence. */
struct figure {
    const char *name;
    int item, layer, only; /* only: a query, from 1, or 0 */
    int head[2];           /* -1: none; all heads where both are */
};

static int draw(struct findings *f, const struct figure *g, struct err *err) {
    struct survey *s = &f->survey;
    struct survey_sentence in = findings_sentence(&f->item[g->item]);
    int rc = survey_look(s, &in, err);
    if (rc) return rc;
    size_t cells = (size_t)s->src.n * (size_t)s->src.n;
    float *probs = xcalloc(cells * (size_t)s->n_head, sizeof *probs);
    const float *const layers[] = {probs};
    char *shown = xcalloc((size_t)s->n_head, 1), name[64];
    for (int h = 0; h < s->n_head; h++) {
        survey_matrix(s, VIEW_ENC, g->layer, h, probs + (size_t)h * cells);
        shown[h] = g->head[0] < 0 || h == g->head[0] || h == g->head[1];
    }
    struct attention a = {.source = in.text,
                          .target = "",
                          .n_head = s->n_head,
                          .first_head = 1,
                          .shown = shown,
                          .only = g->only,
                          .set[ATTENTION_ENC] = {.query = s->src.token,
                                                 .key = s->src.token,
                                                 .n_query = s->src.n,
                                                 .n_key = s->src.n,
                                                 .n_layer = 1,
                                                 .first_layer = g->layer + 1,
                                                 .probs = layers}};
    struct file_writer w;
    snprintf(name, sizeof name, "%s.svg", g->name);
    char *path = path_join(f->options->out, name);
    rc = file_writer_open_output(&w, path, err);
    if (!rc) {
        attention_svg(&w, &a, ATTENTION_ENC);
        rc = file_writer_commit(&w, err);
    }
    json_t *o = json_object(), *heads = json_array();
    for (int h = 0; h < s->n_head; h++)
        if (shown[h]) json_array_append_new(heads, json_integer(h + 1));
    json_object_set_new(o, "file", json_string(name));
    json_object_set_new(o, "layer", json_integer(g->layer + 1));
    json_object_set_new(o, "heads", heads);
    json_object_set_new(o, "sentence", json_out_string(in.text));
    if (g->only)
        json_object_set_new(o, "word", json_out_string(findings_unit(&s->src, g->only - 1)));
    json_array_append_new(f->figures, o);
    xfree(path);
    xfree(shown);
    xfree(probs);
    return rc;
}

/* How unlike two heads are: the mean difference of the measures that are shares. */
static double unlike(const struct heads_sums *a, const struct heads_sums *b) {
    double sum = 0;
    for (int m = HEADS_BACK3; m < HEADS_MEASURES; m++) {
        double d = heads_value(a, (enum heads_measure)m) - heads_value(b, (enum heads_measure)m);
        if (isfinite(d)) sum += fabs(d);
    }
    return sum;
}

/* Figure 5: the head that follows the tree best, and the one of its layer that is least like it and
 * does not rest, in one sentence. */
static int draw_structure(struct findings *f, struct err *err) {
    struct findings_head a = {0}, b = {0};
    int up = findings_best_at(f, VIEW_ENC, HEADS_PARENT, -1, -1, &a);
    int down = findings_best_at(f, VIEW_ENC, HEADS_CHILD, -1, -1, &b);
    if (!up || !down) return 0;
    enum heads_measure m = HEADS_PARENT;
    if (heads_value(findings_sums(f, b), HEADS_CHILD) - f->fixed[HEADS_CHILD] >
        heads_value(findings_sums(f, a), HEADS_PARENT) - f->fixed[HEADS_PARENT])
        a = b, m = HEADS_CHILD;
    const struct heads_case *c = &findings_sums(f, a)->best[m];
    int other = -1;
    double most = 0;
    for (int h = 0; h < f->survey.n_head; h++) {
        const struct heads_sums *s = findings_sums(f, (struct findings_head){VIEW_ENC, a.layer, h});
        if (h == a.head || heads_kind(s, f->fixed) == HEADS_RESTS) continue;
        if (unlike(s, findings_sums(f, a)) > most) most = unlike(s, findings_sums(f, a)), other = h;
    }
    if (!(c->value > 0)) return 0;
    int rc = draw(f, &(struct figure){"structure-1", c->sentence, a.layer, 0, {a.head, -1}}, err);
    if (rc || other < 0) return rc;
    return draw(f, &(struct figure){"structure-2", c->sentence, a.layer, 0, {other, -1}}, err);
}

/* The strongest case of any head of the encoder, or NULL. */
static const struct heads_case *strongest_case(const struct findings *f, enum heads_measure m,
                                               struct findings_head *of) {
    const struct heads_case *best = NULL;
    struct findings_head w;
    for (int i = 0; findings_nth(f, i, &w) && w.kind == VIEW_ENC; i++) {
        const struct heads_case *c = &findings_sums(f, w)->best[m];
        if (c->value > (best ? best->value : 0)) best = c, *of = w;
    }
    return best;
}

int findings_draw(struct findings *f, struct err *err) {
    struct findings_head w = {0}, second = {.head = -1};
    int rc = dir_make(f->options->out, err);
    if (rc) return rc;
    f->figures = json_array();
    const struct heads_case *c = strongest_case(f, HEADS_DISTANT, &w);
    if (c) /* figure 3 */
        rc = draw(f, &(struct figure){"far", c->sentence, w.layer, c->query + 1, {-1, -1}}, err);
    if (!rc && findings_best_at(f, VIEW_ENC, HEADS_LINK, -1, -1, &w)) { /* figure 4 */
        c = &findings_sums(f, w)->best[HEADS_LINK];
        int two = findings_best_at(f, VIEW_ENC, HEADS_LINK, w.layer, w.head, &second);
        if (c->value > 0)
            rc = draw(f, &(struct figure){"link", c->sentence, w.layer, 0, {w.head, -1}}, err);
        if (!rc && c->value > 0)
            rc = draw(f,
                      &(struct figure){"link-word",
                                       c->sentence,
                                       w.layer,
                                       c->query + 1,
                                       {w.head, two ? second.head : -1}},
                      err);
    }
    return rc ? rc : draw_structure(f, err);
}
