/* attend_find.c — see attend_find.h. */
#include "cli/attend_find.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "data/depends.h"
#include "data/text.h"
#include "io/json.h"
#include "search/survey.h"
#include "viz/attention.h"

enum { DRAWN_WORDS = 36 }; /* longer sentences make no readable picture */

/* A sentence that is measured. Owns all it has. */
struct item {
    char *text, *target;
    int *parent;
    int n_word;
    struct links links;
    int has_links, from_tree, line;
};

/* A head of the model. */
struct which {
    enum view_kind kind;
    int layer, head; /* from 0 */
};

struct find {
    const struct find_options *options;
    struct survey survey;
    struct item *item;
    int n, room, skipped;
    double fixed[HEADS_MEASURES];
    json_t *figures; /* what was drawn */
};

/* ---- reading --------------------------------------------------------------------------------- */

static struct item *new_item(struct find *f, int line) {
    GROW(f->item, f->n, f->room);
    f->item[f->n] = (struct item){.line = line};
    return &f->item[f->n++];
}

/* As running text has them. */
static void put_word(struct buffer *out, struct tree_text word) {
    static const char *const written[][2] = {{"-LRB-", "("}, {"-RRB-", ")"}, {"-LSB-", "["},
                                             {"-RSB-", "]"}, {"``", "\""},   {"''", "\""}};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (tree_is(word, written[i][0])) {
            buffer_puts(out, written[i][1]);
            return;
        }
    buffer_put(out, word.at, (size_t)word.size);
}

static int add_tree(struct find *f, struct tree *tree, const struct line *line, int number,
                    struct err *err) {
    struct err why;
    struct buffer text = {0};
    int rc = tree_read(tree, line->text, line->size, &why);
    if (!rc) rc = tree_check(tree, &why);
    if (rc) return err_set(err, rc, "%.120s:%d: %.120s", f->options->trees, number, why.msg);
    struct item *item = new_item(f, number);
    for (int i = 0, n = 0; i < tree->n; i++) {
        if (tree->item[i].kind != TREE_LEAF) continue;
        if (n++) buffer_puts(&text, " ");
        put_word(&text, tree->item[i].word);
    }
    buffer_put(&text, "", 1);
    item->text = text.text;
    item->from_tree = 1;
    item->n_word = tree->n_word;
    item->parent = xcalloc((size_t)tree->n_word + 1, sizeof *item->parent);
    depends_of_tree(item->parent, tree);
    return 0;
}

static int enough(const struct find *f, int n) {
    return f->options->lines && n >= f->options->lines;
}

static int read_trees(struct find *f, struct err *err) {
    struct text *file;
    struct line line;
    struct tree tree = {0};
    int rc = text_open(&file, f->options->trees, err);
    if (rc) return rc;
    for (int n = 0; !enough(f, n) && (rc = text_next(file, &line, err)) > 0; n++) {
        rc = add_tree(f, &tree, &line, n + 1, err);
        if (rc) break;
    }
    tree_release(&tree);
    text_close(file);
    return rc < 0 ? rc : 0;
}

/* Files that go line by line with --src-file; one that ends before it is an error. */
struct beside {
    const char *path;
    struct text *file;
};

static int next_beside(struct beside *b, struct line *line, int n, struct err *err) {
    int rc = b->file ? text_next(b->file, line, err) : 1;
    if (rc) return rc < 0 ? rc : 0;
    return err_set(err, HEED_EINVAL, "%.180s ends before line %d of the source", b->path, n);
}

static int read_sentence(struct find *f, const struct line *line, int number, struct beside *tgt,
                         struct beside *links, struct err *err) {
    struct line other;
    struct err why;
    struct item *item = new_item(f, number);
    item->text = xstrdup(line->text);
    int rc = next_beside(tgt, &other, number, err);
    if (!rc && tgt->file) item->target = xstrdup(other.text);
    if (!rc) rc = next_beside(links, &other, number, err);
    if (rc || !links->file) return rc;
    item->has_links = 1;
    rc = links_parse(&item->links, NULL, other.text, other.size, &why);
    return rc ? err_set(err, rc, "%.180s: %.120s", links->path, why.msg) : 0;
}

static int read_texts(struct find *f, struct err *err) {
    const struct find_options *o = f->options;
    struct beside src = {.path = o->src}, tgt = {.path = o->tgt}, links = {.path = o->links};
    struct line line;
    int rc = text_open(&src.file, o->src, err);
    if (!rc && o->tgt) rc = text_open(&tgt.file, o->tgt, err);
    if (!rc && o->links) rc = text_open(&links.file, o->links, err);
    for (int n = 0; !rc && !enough(f, n); n++) {
        rc = text_next(src.file, &line, err);
        if (rc <= 0) break;
        rc = read_sentence(f, &line, n + 1, &tgt, &links, err);
    }
    text_close(src.file);
    text_close(tgt.file);
    text_close(links.file);
    return rc < 0 ? rc : 0;
}

/* ---- measuring ------------------------------------------------------------------------------- */

static struct survey_sentence sentence_of(const struct item *item) {
    return (struct survey_sentence){.text = item->text,
                                    .target = item->target,
                                    .unit = item->from_tree ? WORDS_TOKENS : WORDS_WORDS,
                                    .parent = item->parent,
                                    .n_word = item->n_word,
                                    .links = item->has_links ? &item->links : NULL};
}

/* Sentences that are too long, or are not cut into the words that their tree has, are left out. */
static int measure(struct find *f, struct err *err) {
    for (int i = 0; i < f->n; i++) {
        struct survey_sentence s = sentence_of(&f->item[i]);
        struct words words = {0};
        words_of_text(&words, s.unit, s.text, strlen(s.text));
        int rc = survey_add(&f->survey, &s, words.n <= DRAWN_WORDS ? i : -1, err);
        words_release(&words);
        if (rc == HEED_ELIMIT || rc == HEED_EINVAL)
            f->skipped++;
        else if (rc)
            return rc;
    }
    if (!f->survey.n_sentence)
        return err_set(err, HEED_EINVAL, "--find: no sentence of %d could be measured%s%.180s",
                       f->n, f->n ? "; the last: " : "", f->n ? err->msg : "");
    survey_fixed(&f->survey, f->fixed);
    return 0;
}

static const struct heads_sums *sums_of(const struct find *f, struct which w) {
    return &f->survey.head[w.kind][w.layer * f->survey.n_head + w.head];
}

/* The i-th head of all; 0 behind the last. */
static int nth(const struct find *f, int i, struct which *w) {
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int n = f->survey.n_layer[kind] * f->survey.n_head;
        if (i < n) {
            *w = (struct which){(enum view_kind)kind, i / f->survey.n_head, i % f->survey.n_head};
            return 1;
        }
        i -= n;
    }
    return 0;
}

/* The head of a kind with the highest value in a measure, of which it was measured at least three
 * times; 0: there is none. `layer` >= 0: of this layer, other than `but`. */
static int best_head(const struct find *f, enum view_kind kind, enum heads_measure m, int layer,
                     int but, struct which *best) {
    double most = -1;
    struct which w;
    for (int i = 0; nth(f, i, &w); i++) {
        const struct heads_sums *s = sums_of(f, w);
        if (w.kind != kind || s->weight[m] < 3 || (layer >= 0 && w.layer != layer)) continue;
        if ((layer >= 0 && w.head == but) || !(heads_value(s, m) > most)) continue;
        most = heads_value(s, m);
        *best = w;
    }
    return most >= 0;
}

/* ---- printing -------------------------------------------------------------------------------- */

static void name_of(char text[40], struct which w) {
    snprintf(text, 40, "%s %d.%d", attention_kinds[w.kind], w.layer + 1, w.head + 1);
}

static void print_value(double v, int share) {
    if (isnan(v))
        printf(" %8s", "-");
    else
        printf(share ? " %8.1f" : " %8.2f", share ? 100 * v : v);
}

static int is_share(int m) { return m > HEADS_DIAGONAL; }

static void print_table(const struct find *f) {
    struct which w;
    printf("%-10s %-12s", "head", "kind");
    for (int m = 0; m < HEADS_MEASURES; m++) printf(" %8s", heads_names[m]);
    putchar('\n');
    for (int i = 0; nth(f, i, &w); i++) {
        char name[40];
        const struct heads_sums *s = sums_of(f, w);
        name_of(name, w);
        printf("%-10s %-12s", name, heads_kind_names[heads_kind(s, f->fixed)]);
        for (int m = 0; m < HEADS_MEASURES; m++)
            print_value(heads_value(s, (enum heads_measure)m), is_share(m));
        putchar('\n');
    }
    printf("%-10s %-12s", "fixed", "");
    for (int m = 0; m < HEADS_MEASURES; m++) print_value(m >= HEADS_PARENT ? f->fixed[m] : NAN, 1);
    printf("\n\nheads of the encoder by kind:");
    for (int k = 0, any = 0; k < HEADS_KINDS; k++) {
        int n = 0;
        for (int i = 0; i < f->survey.n_layer[VIEW_ENC] * f->survey.n_head; i++)
            n += (int)heads_kind(&f->survey.head[VIEW_ENC][i], f->fixed) == k;
        if (n) printf("%s %d %s", any++ ? "," : "", n, heads_kind_names[k]);
    }
    putchar('\n');
}

static const char *unit_text(const struct survey_side *side, int i) {
    return i >= 0 && i < side->n ? side->token[i] : "";
}

/* The best head of each measure and kind, and the case that shows it best. */
static json_t *best_json(struct find *f, struct which w, int m, struct err *err) {
    const struct heads_sums *s = sums_of(f, w);
    const struct heads_case *c = &s->best[m];
    char name[40];
    name_of(name, w);
    json_t *o = json_object();
    json_object_set_new(o, "measure", json_string(heads_names[m]));
    json_object_set_new(o, "head", json_string(name));
    json_object_set_new(o, "value", json_out_real(heads_value(s, (enum heads_measure)m)));
    if (!(c->value > 0)) return o;
    const struct item *item = &f->item[c->sentence];
    json_object_set_new(o, "file", json_string(item->from_tree ? "trees" : "src"));
    json_object_set_new(o, "line", json_integer(item->line));
    json_object_set_new(o, "sentence", json_out_string(item->text));
    if (c->query < 0) return o;
    struct survey_sentence in = sentence_of(item);
    if (survey_look(&f->survey, &in, err)) return o;
    json_object_set_new(o, "query", json_out_string(unit_text(&f->survey.src, c->query)));
    json_object_set_new(o, "key", json_out_string(unit_text(&f->survey.src, c->key)));
    json_object_set_new(o, "attention", json_out_real(c->value));
    return o;
}

static json_t *find_best(struct find *f, struct err *err) {
    json_t *all = json_array();
    struct which w;
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int m = 0; m < HEADS_MEASURES; m++)
            if (best_head(f, (enum view_kind)kind, (enum heads_measure)m, -1, -1, &w))
                json_array_append_new(all, best_json(f, w, m, err));
    return all;
}

static json_t *measures_json(const struct heads_sums *s) {
    json_t *o = json_object();
    for (int m = 0; m < HEADS_MEASURES; m++)
        json_object_set_new(o, heads_names[m],
                            json_out_real(heads_value(s, (enum heads_measure)m)));
    return o;
}

static json_t *to_json(struct find *f, json_t *best) {
    json_t *root = json_object(), *heads = json_array(), *fixed = json_object();
    struct which w;
    json_object_set_new(root, "sentences", json_integer(f->survey.n_sentence));
    json_object_set_new(root, "skipped", json_integer(f->skipped));
    json_object_set_new(root, "words", json_integer(f->survey.n_word));
    for (int m = HEADS_PARENT; m < HEADS_MEASURES; m++)
        json_object_set_new(fixed, heads_names[m], json_out_real(f->fixed[m]));
    json_object_set_new(root, "fixed", fixed);
    for (int i = 0; nth(f, i, &w); i++) {
        const struct heads_sums *s = sums_of(f, w);
        json_t *o = json_object();
        json_object_set_new(o, "attention", json_string(attention_kinds[w.kind]));
        json_object_set_new(o, "layer", json_integer(w.layer + 1));
        json_object_set_new(o, "head", json_integer(w.head + 1));
        json_object_set_new(o, "kind", json_string(heads_kind_names[heads_kind(s, f->fixed)]));
        json_object_set_new(o, "measures", measures_json(s));
        json_array_append_new(heads, o);
    }
    json_object_set_new(root, "heads", heads);
    json_object_set(root, "best", best);
    if (f->figures) json_object_set(root, "figures", f->figures);
    return root;
}

/* Of the measures that a figure could be about. */
static void print_best(const json_t *best) {
    size_t i;
    json_t *o;
    printf("\nbest at\n");
    json_array_foreach((json_t *)best, i, o) {
        printf("  %-9s %-10s %7.3f", json_string_value(json_object_get(o, "measure")),
               json_string_value(json_object_get(o, "head")),
               json_number_value(json_object_get(o, "value")));
        if (json_object_get(o, "line"))
            printf("  %s line %d", json_string_value(json_object_get(o, "file")),
                   (int)json_integer_value(json_object_get(o, "line")));
        if (json_object_get(o, "query"))
            printf(": %s -> %s %.2f", json_string_value(json_object_get(o, "query")),
                   json_string_value(json_object_get(o, "key")),
                   json_number_value(json_object_get(o, "attention")));
        putchar('\n');
    }
}

/* ---- drawing --------------------------------------------------------------------------------- */

/* What to draw: heads of one layer of the encoder in one sentence. */
struct figure {
    const char *name;
    int item, layer, only; /* only: a query, from 1, or 0 */
    int head[2];           /* -1: none; all heads where both are */
};

static int draw(struct find *f, const struct figure *g, struct err *err) {
    struct survey *s = &f->survey;
    struct survey_sentence in = sentence_of(&f->item[g->item]);
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
    if (g->only) json_object_set_new(o, "word", json_out_string(unit_text(&s->src, g->only - 1)));
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
static int draw_structure(struct find *f, struct err *err) {
    struct which a = {0}, b = {0};
    int up = best_head(f, VIEW_ENC, HEADS_PARENT, -1, -1, &a);
    int down = best_head(f, VIEW_ENC, HEADS_CHILD, -1, -1, &b);
    if (!up || !down) return 0;
    enum heads_measure m = HEADS_PARENT;
    if (heads_value(sums_of(f, b), HEADS_CHILD) - f->fixed[HEADS_CHILD] >
        heads_value(sums_of(f, a), HEADS_PARENT) - f->fixed[HEADS_PARENT])
        a = b, m = HEADS_CHILD;
    const struct heads_case *c = &sums_of(f, a)->best[m];
    int other = -1;
    double most = 0;
    for (int h = 0; h < f->survey.n_head; h++) {
        const struct heads_sums *s = sums_of(f, (struct which){VIEW_ENC, a.layer, h});
        if (h == a.head || heads_kind(s, f->fixed) == HEADS_RESTS) continue;
        if (unlike(s, sums_of(f, a)) > most) most = unlike(s, sums_of(f, a)), other = h;
    }
    if (!(c->value > 0)) return 0;
    int rc = draw(f, &(struct figure){"structure-1", c->sentence, a.layer, 0, {a.head, -1}}, err);
    if (rc || other < 0) return rc;
    return draw(f, &(struct figure){"structure-2", c->sentence, a.layer, 0, {other, -1}}, err);
}

/* The strongest case of any head of the encoder, or NULL. */
static const struct heads_case *strongest_case(const struct find *f, enum heads_measure m,
                                               struct which *of) {
    const struct heads_case *best = NULL;
    struct which w;
    for (int i = 0; nth(f, i, &w) && w.kind == VIEW_ENC; i++) {
        const struct heads_case *c = &sums_of(f, w)->best[m];
        if (c->value > (best ? best->value : 0)) best = c, *of = w;
    }
    return best;
}

static int draw_all(struct find *f, struct err *err) {
    struct which w = {0}, second = {.head = -1};
    int rc = dir_make(f->options->out, err);
    if (rc) return rc;
    f->figures = json_array();
    const struct heads_case *c = strongest_case(f, HEADS_DISTANT, &w);
    if (c) /* figure 3 */
        rc = draw(f, &(struct figure){"far", c->sentence, w.layer, c->query + 1, {-1, -1}}, err);
    if (!rc && best_head(f, VIEW_ENC, HEADS_LINK, -1, -1, &w)) { /* figure 4 */
        c = &sums_of(f, w)->best[HEADS_LINK];
        int two = best_head(f, VIEW_ENC, HEADS_LINK, w.layer, w.head, &second);
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

/* ---- the search ------------------------------------------------------------------------------ */

static int report(struct find *f, struct err *err) {
    int rc = f->options->out ? draw_all(f, err) : 0;
    if (rc) return rc;
    json_t *best = find_best(f, err), *root = to_json(f, best);
    if (f->options->json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        print_table(f);
        print_best(best);
    }
    if (f->options->out) {
        char *path = path_join(f->options->out, "heads.json");
        rc = json_out_file(path, root, err);
        xfree(path);
    }
    if (!f->options->quiet)
        fprintf(stderr, "%d sentence%s, %d words%s\n", f->survey.n_sentence,
                PLURAL(f->survey.n_sentence), (int)f->survey.n_word,
                f->skipped ? "; some were too long for the model or had other words than their tree"
                           : "");
    json_decref(best);
    json_decref(root);
    return rc;
}

int attend_find(struct engine *engine, const struct engine_tags *tags,
                const struct find_options *options, struct err *err) {
    struct find f = {.options = options};
    survey_init(&f.survey, engine, tags);
    int rc = options->trees ? read_trees(&f, err) : 0;
    if (!rc && options->src) rc = read_texts(&f, err);
    if (!rc) rc = measure(&f, err);
    if (!rc) rc = report(&f, err);
    for (int i = 0; i < f.n; i++) {
        xfree(f.item[i].text);
        xfree(f.item[i].target);
        xfree(f.item[i].parent);
        links_release(&f.item[i].links);
    }
    xfree(f.item);
    json_decref(f.figures);
    survey_release(&f.survey);
    return rc;
}
