/* findings.c — see findings.h: reading, measuring, and what comes of it as JSON. */
#include "viz/findings.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "data/depends.h"
#include "data/text.h"
#include "io/json.h"
#include "viz/attention.h"

enum { DRAWN_WORDS = 36 }; /* longer sentences make no readable picture */

void findings_init(struct findings *f, struct engine *engine, const struct engine_tags *tags,
                   const struct findings_options *options) {
    *f = (struct findings){.options = options};
    survey_init(&f->survey, engine, tags);
}

void findings_release(struct findings *f) {
    for (int i = 0; i < f->n; i++) {
        xfree(f->item[i].text);
        xfree(f->item[i].target);
        xfree(f->item[i].parent);
        links_release(&f->item[i].links);
    }
    xfree(f->item);
    json_decref(f->figures);
    survey_release(&f->survey);
}

/* ---- reading --------------------------------------------------------------------------------- */

static struct findings_item *new_item(struct findings *f, int line) {
    GROW(f->item, f->n, f->room);
    f->item[f->n] = (struct findings_item){.line = line};
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

static int add_tree(struct findings *f, struct tree *tree, const struct line *line, int number,
                    struct err *err) {
    struct err why;
    struct buffer text = {0};
    int rc = tree_read(tree, line->text, line->size, &why);
    if (!rc) rc = tree_check(tree, &why);
    if (rc) return err_set(err, rc, "%.120s:%d: %.120s", f->options->trees, number, why.msg);
    struct findings_item *item = new_item(f, number);
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

static int enough(const struct findings *f, int n) {
    return f->options->lines && n >= f->options->lines;
}

static int read_trees(struct findings *f, struct err *err) {
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

static int read_sentence(struct findings *f, const struct line *line, int number,
                         struct beside *tgt, struct beside *links, struct err *err) {
    struct line other;
    struct err why;
    struct findings_item *item = new_item(f, number);
    item->text = xstrdup(line->text);
    int rc = next_beside(tgt, &other, number, err);
    if (!rc && tgt->file) item->target = xstrdup(other.text);
    if (!rc) rc = next_beside(links, &other, number, err);
    if (rc || !links->file) return rc;
    item->has_links = 1;
    rc = links_parse(&item->links, NULL, other.text, other.size, &why);
    return rc ? err_set(err, rc, "%.180s: %.120s", links->path, why.msg) : 0;
}

static int read_texts(struct findings *f, struct err *err) {
    const struct findings_options *o = f->options;
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

int findings_read(struct findings *f, struct err *err) {
    int rc = f->options->trees ? read_trees(f, err) : 0;
    return !rc && f->options->src ? read_texts(f, err) : rc;
}

/* ---- measuring ------------------------------------------------------------------------------- */

struct survey_sentence findings_sentence(const struct findings_item *item) {
    return (struct survey_sentence){.text = item->text,
                                    .target = item->target,
                                    .unit = item->from_tree ? WORDS_TOKENS : WORDS_WORDS,
                                    .parent = item->parent,
                                    .n_word = item->n_word,
                                    .links = item->has_links ? &item->links : NULL};
}

int findings_measure(struct findings *f, struct err *err) {
    for (int i = 0; i < f->n; i++) {
        struct survey_sentence s = findings_sentence(&f->item[i]);
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
        return err_set(err, HEED_EINVAL, "find: no sentence of %d could be measured%s%.180s", f->n,
                       f->n ? "; the last: " : "", f->n ? err->msg : "");
    survey_fixed(&f->survey, f->fixed);
    return 0;
}

const struct heads_sums *findings_sums(const struct findings *f, struct findings_head w) {
    return &f->survey.head[w.kind][w.layer * f->survey.n_head + w.head];
}

int findings_nth(const struct findings *f, int i, struct findings_head *w) {
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int n = f->survey.n_layer[kind] * f->survey.n_head;
        if (i < n) {
            *w = (struct findings_head){(enum view_kind)kind, i / f->survey.n_head,
                                        i % f->survey.n_head};
            return 1;
        }
        i -= n;
    }
    return 0;
}

int findings_best_at(const struct findings *f, enum view_kind kind, enum heads_measure m, int layer,
                     int but, struct findings_head *best) {
    double most = -1;
    struct findings_head w;
    for (int i = 0; findings_nth(f, i, &w); i++) {
        const struct heads_sums *s = findings_sums(f, w);
        if (w.kind != kind || s->weight[m] < 3 || (layer >= 0 && w.layer != layer)) continue;
        if ((layer >= 0 && w.head == but) || !(heads_value(s, m) > most)) continue;
        most = heads_value(s, m);
        *best = w;
    }
    return most >= 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void findings_name(char text[40], struct findings_head w) {
    snprintf(text, 40, "%s %d.%d", attention_kinds[w.kind], w.layer + 1, w.head + 1);
}

const char *findings_unit(const struct survey_side *side, int i) {
    return i >= 0 && i < side->n ? side->token[i] : "";
}

static json_t *best_json(struct findings *f, struct findings_head w, int m, struct err *err) {
    const struct heads_sums *s = findings_sums(f, w);
    const struct heads_case *c = &s->best[m];
    char name[40];
    findings_name(name, w);
    json_t *o = json_object();
    json_object_set_new(o, "measure", json_string(heads_names[m]));
    json_object_set_new(o, "head", json_string(name));
    json_object_set_new(o, "value", json_out_real(heads_value(s, (enum heads_measure)m)));
    if (!(c->value > 0)) return o;
    const struct findings_item *item = &f->item[c->sentence];
    json_object_set_new(o, "file", json_string(item->from_tree ? "trees" : "src"));
    json_object_set_new(o, "line", json_integer(item->line));
    json_object_set_new(o, "sentence", json_out_string(item->text));
    if (c->query < 0) return o;
    struct survey_sentence in = findings_sentence(item);
    if (survey_look(&f->survey, &in, err)) return o;
    json_object_set_new(o, "query", json_out_string(findings_unit(&f->survey.src, c->query)));
    json_object_set_new(o, "key", json_out_string(findings_unit(&f->survey.src, c->key)));
    json_object_set_new(o, "attention", json_out_real(c->value));
    return o;
}

json_t *findings_best(struct findings *f, struct err *err) {
    json_t *all = json_array();
    struct findings_head w;
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int m = 0; m < HEADS_MEASURES; m++)
            if (findings_best_at(f, (enum view_kind)kind, (enum heads_measure)m, -1, -1, &w))
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

json_t *findings_json(const struct findings *f, json_t *best) {
    json_t *root = json_object(), *heads = json_array(), *fixed = json_object();
    struct findings_head w;
    json_object_set_new(root, "sentences", json_integer(f->survey.n_sentence));
    json_object_set_new(root, "skipped", json_integer(f->skipped));
    json_object_set_new(root, "words", json_integer(f->survey.n_word));
    for (int m = HEADS_PARENT; m < HEADS_MEASURES; m++)
        json_object_set_new(fixed, heads_names[m], json_out_real(f->fixed[m]));
    json_object_set_new(root, "fixed", fixed);
    for (int i = 0; findings_nth(f, i, &w); i++) {
        const struct heads_sums *s = findings_sums(f, w);
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
