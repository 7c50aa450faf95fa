/* cmd_attend.c — `heed attend`: a picture of what a model looks at, for one sentence and its
 * translation.
 *
 * The pair goes through the model once, with the attention probabilities kept (model/view.h), and
 * becomes an SVG or a page (viz/attention.h). Without a given translation the model makes one
 * first, as heed translate would.
 *
 * Rows of the decoder are named after the token they write, which is the one after their input:
 * that is the question a reader has ("what did it look at when it wrote this?"). */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/cli.h"
#include "data/text.h"
#include "model/transformer.h"
#include "model/view.h"
#include "search/defaults.h"
#include "viz/attention.h"

enum { MAX_CELLS = 1 << 26 }; /* probabilities in one picture: 256 MiB of them */

static struct attend_args {
    const char *dir;
    struct engine_options from;
    const char *src, *tgt, *src_file, *tgt_file, *out;
    struct engine_said said;
    int kind, line, layer, head, quiet;
} args = {.from = {.dir = &args.dir, .n = 1}};
static const char *const kind_names[] = {"enc", "dec", "cross", "auto", NULL};

#define OPTIONS_OF attend_args
static const struct option rows[] = {
    MODEL_ROW(dir),
    ROW(STRING, "src", src, NULL, "a sentence", .arg = "TEXT"),
    ROW(STRING, "tgt", tgt, NULL, "its translation; if not given, the model translates",
        .arg = "TEXT"),
    ROW(STRING, "src_file", src_file, NULL,
        "file with the sentence: plain, gzip, xz, or - for standard input", .arg = "FILE"),
    ROW(STRING, "tgt_file", tgt_file, NULL, "file with its translation", .arg = "FILE"),
    SOURCE_LANG_ROW(said.source_lang),
    TARGET_LANG_ROW(said.target_lang),
    PREFIX_TOKEN_ROW(said.prefix_token),
    ROW(INT, "line", line, "1", "which line of the files, counted from 1", .min = 1,
        .max = 1 << 30),
    ROW(STRING, "out", out, NULL, "picture to write: NAME.svg, or NAME.html to explore",
        .arg = "FILE", .made = 1, .required = 1),
    ROW(CHOICE, "kind", kind, "auto", "which attention; auto: all in a page, cross in an SVG",
        .choices = kind_names),
    ROW(INT, "layer", layer, "0",
        "only this layer, counted from 1; in an SVG it is drawn with lines. 0: all",
        .max = 1 << 20),
    ROW(INT, "head", head, "0", "only this head, counted from 1; 0: all", .max = 1 << 20),
    PRECISION_ROW(from.precision),
    DEVICE_ROWS(from.where, "auto"),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* A sentence and its translation as tokens, end marks included. */
struct sentence {
    char *text;
    int32_t *ids;
    int n;
};

struct job {
    struct engine *engine;
    struct engine_tags tags;
    struct sentence src, tgt;
    struct acts *acts;
    struct view *view;
    float **probs[VIEW_KINDS]; /* per layer [heads, n_query, n_key]; NULL: not wanted */
    const char **src_token, **tgt_token, **in_token;
};

/* ---- sentences ------------------------------------------------------------------------------- */

/* Line --line of a file. */
static int read_line(char **text, int *replaced, const char *path, struct err *err) {
    struct text *file;
    struct line line;
    int rc = text_open(&file, path, err);
    if (rc) return rc;
    int n = 0;
    while ((rc = text_next(file, &line, err)) > 0 && ++n < args.line) continue;
    if (rc == 0)
        rc = err_set(err, HEED_EINVAL, "--line %d: %.180s has only %d line%s", args.line, path, n,
                     PLURAL(n));
    else if (rc > 0 && line.flags & LINE_TOO_LONG)
        rc = err_set(err, HEED_ELIMIT, "%.180s:%d: the line is longer than %s bytes", path,
                     args.line, num_grouped((char[28]){0}, TEXT_MAX_LINE));
    else if (rc > 0)
        *text = xstrdup(line.text), *replaced = (line.flags & LINE_REPLACED) != 0;
    text_close(file);
    return rc < 0 ? rc : 0;
}

/* The text given, or that of the file, if any. */
static int read_text(char **to, const char *text, const char *path, const char *what,
                     struct err *err) {
    size_t size = text ? strlen(text) : 0;
    int rc = 0, replaced = text && utf8_clean_prefix(text, size) < size;
    if (text)
        *to = xstrdup(text);
    else if (path)
        rc = read_line(to, &replaced, path, err);
    if (!rc && replaced && !args.quiet)
        fprintf(stderr, "heed: warning: %s contained bytes that are not UTF-8, read as U+FFFD\n",
                what);
    return rc;
}

/* Behind the tag, if it is not -1. */
static int encode(struct job *j, struct sentence *s, int32_t tag, const char *what,
                  struct err *err) {
    const struct tokenizer *side = s == &j->src ? j->engine->source : j->engine->target;
    int cap = j->engine->model[0]->config.max_len, at = tag >= 0;
    s->ids = xcalloc((size_t)cap, sizeof *s->ids);
    s->n = tokenizer_encode_end(side, s->text, strlen(s->text), s->ids + at, cap - at);
    if (s->n < 0) return err_set(err, s->n, "%s cannot be tokenised", what);
    if (at) s->ids[0] = tag;
    s->n += at;
    if (s->n > cap)
        return err_set(err, HEED_ELIMIT,
                       "%s has %d tokens with the end mark; the model has positions for %d", what,
                       s->n, cap);
    return 0;
}

/* The model's own translation. */
static int translate(struct job *j, struct err *err) {
    const struct tokenizer *t = j->engine->target;
    struct searcher *searcher;
    struct search_options options = defaults_of(j->engine).search;
    struct search_marks marks = engine_marks(j->engine);
    int lead = j->tags.target >= 0;
    struct search_input in = {.src = j->src.ids,
                              .n_src = j->src.n,
                              .prefix = &j->tags.target,
                              .n_prefix = lead,
                              .n_lead = lead};
    struct search_result result;
    struct search_setup setup = {
        .model = j->engine->model, .n_model = 1, .marks = marks, .caps = {1, j->src.n, j->src.n}};
    int rc = searcher_new(&searcher, &setup, &options, err);
    if (rc) return rc;
    rc = searcher_run(searcher, &in, 1, &result, NULL, err);
    int n = rc || !result.n ? 0 : result.best[0].n;
    n = min_int(n, j->engine->model[0]->config.max_len - 1 - lead);
    j->tgt.ids = xcalloc((size_t)n + 2, sizeof *j->tgt.ids);
    j->tgt.ids[0] = j->tags.target;
    if (n) memcpy(j->tgt.ids + lead, result.best[0].ids, (size_t)n * sizeof *j->tgt.ids);
    j->tgt.ids[n + lead] = marks.eos;
    j->tgt.n = n + lead + 1;
    searcher_free(searcher);
    int size = tokenizer_decode(t, j->tgt.ids + lead, n, NULL, 0);
    if (size < 0) size = 0;
    j->tgt.text = xcalloc((size_t)size + 1, 1);
    tokenizer_decode(t, j->tgt.ids + lead, n, j->tgt.text, (size_t)size + 1);
    return rc;
}

static int read_pair(struct job *j, struct err *err) {
    int rc = read_text(&j->src.text, args.src, args.src_file, "the source", err);
    if (!rc) rc = read_text(&j->tgt.text, args.tgt, args.tgt_file, "the target", err);
    if (!rc) rc = engine_open(&j->engine, &args.from, err);
    if (!rc) rc = engine_tags(j->engine, &args.said, &j->tags, err);
    if (!rc) rc = encode(j, &j->src, j->tags.source, "the source", err);
    if (!rc)
        rc =
            j->tgt.text ? encode(j, &j->tgt, j->tags.target, "the target", err) : translate(j, err);
    return rc;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Which layers of which kinds, or an error that names what does not exist. */
static int choose(struct view_options *o, const struct config *c, int svg, struct err *err) {
    int layer = args.layer, head = args.head;
    int only = args.kind < VIEW_KINDS ? args.kind : svg ? VIEW_CROSS : -1;
    if (head > c->n_head)
        return cli_usage(err, "--head %d: the model has %d heads", head, c->n_head);
    if (only == VIEW_DEC && !view_layers(c, VIEW_DEC))
        return cli_usage(err, "--kind dec: the decoder of this model has no self-attention; its "
                              "layers look back by a recurrence (ssru), which has no weights to "
                              "show");
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        o->layer[kind] = only >= 0 && only != kind ? VIEW_NONE : layer ? layer - 1 : VIEW_ALL;
        if (!view_layers(c, kind)) o->layer[kind] = VIEW_NONE;
        if (o->layer[kind] >= view_layers(c, kind))
            return cli_usage(err, "--layer %d: the %s has %d layers", layer,
                             kind == VIEW_ENC ? "encoder" : "decoder", view_layers(c, kind));
    }
    return 0;
}

static int queries_of(const struct job *j, int kind) {
    return kind == VIEW_ENC ? j->src.n : j->tgt.n;
}
static int keys_of(const struct job *j, int kind) { return kind == VIEW_DEC ? j->tgt.n : j->src.n; }

static int check_size(const struct job *j, const struct view_options *o, struct err *err) {
    const struct config *c = &j->engine->model[0]->config;
    double cells = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        int n = o->layer[kind] == VIEW_NONE  ? 0
                : o->layer[kind] == VIEW_ALL ? view_layers(c, kind)
                                             : 1;
        cells += (double)n * c->n_head * queries_of(j, kind) * keys_of(j, kind);
    }
    if (cells <= MAX_CELLS) return 0;
    return err_set(err, HEED_ELIMIT,
                   "%d source and %d target tokens make %.0f probabilities, too many for one "
                   "picture; choose some with --kind and --layer",
                   j->src.n, j->tgt.n, cells);
}

/* One forced pass that keeps everything chosen. */
static int look(struct job *j, const struct view_options *o, struct err *err) {
    struct model *m = j->engine->model[0];
    struct batch batch;
    int rc = check_size(j, o, err);
    if (!rc) rc = acts_new(&j->acts, m, j->src.n, j->tgt.n, 0, err);
    if (!rc) rc = view_new(&j->view, j->acts, o, err);
    if (rc) return rc;
    rc = batch_init(&batch, j->src.n, j->tgt.n, 1, tokenizer_bos(j->engine->target), err);
    if (rc) return rc;
    rc = batch_add(&batch, j->src.ids, j->src.n, j->tgt.ids, j->tgt.n, err);
    if (rc > 0) rc = acts_load(j->acts, &batch, err);
    if (!rc) rc = view_load(j->view, err);
    if (!rc) transformer_fwd(&(struct pass){.model = m, .acts = j->acts, .view = j->view});
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int l = 0; l < view_layers(&m->config, kind) && !rc && o->layer[kind] != VIEW_NONE;
             l++) {
            if (o->layer[kind] >= 0 && o->layer[kind] != l) continue;
            if (!j->probs[kind])
                j->probs[kind] =
                    xcalloc((size_t)view_layers(&m->config, kind), sizeof *j->probs[kind]);
            j->probs[kind][l] = xcalloc(view_size(j->view, kind), sizeof(float));
            rc = view_read(j->view, kind, l, j->probs[kind][l], err);
        }
    batch_release(&batch);
    return rc;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static const char **tokens_of(const struct job *j, const int32_t *ids, int n, int shifted) {
    const char **token = xcalloc((size_t)n, sizeof *token);
    const struct tokenizer *t = ids == j->src.ids ? j->engine->source : j->engine->target;
    for (int i = shifted; i < n; i++) token[i] = tokenizer_piece(t, ids[i - shifted]);
    if (shifted) token[0] = tokenizer_bos(t) < 0 ? "<zero>" : tokenizer_piece(t, tokenizer_bos(t));
    return token;
}

/* What the drawing needs of one kind: the layers that were kept, from their first chosen head
 * on. */
static void fill_set(struct attention_set *s, const struct job *j, int kind) {
    int n = view_layers(&j->engine->model[0]->config, kind);
    *s = (struct attention_set){.query = kind == VIEW_ENC ? j->src_token : j->tgt_token,
                                .key = kind == VIEW_DEC ? j->in_token : j->src_token,
                                .n_query = queries_of(j, kind),
                                .n_key = keys_of(j, kind)};
    if (!j->probs[kind]) return;
    int layer = args.layer, head = args.head;
    s->n_layer = layer ? 1 : n;
    s->first_layer = layer ? layer : 1;
    s->probs = (const float *const *)(j->probs[kind] + (layer ? layer - 1 : 0));
    size_t skip = head ? (size_t)(head - 1) * (size_t)s->n_query * (size_t)s->n_key : 0;
    for (int l = 0; l < s->n_layer && skip; l++) /* the chosen head to the front */
        memmove(j->probs[kind][s->first_layer - 1 + l],
                j->probs[kind][s->first_layer - 1 + l] + skip,
                (size_t)s->n_query * (size_t)s->n_key * sizeof(float));
}

static int draw(struct job *j, int svg, struct err *err) {
    struct attention a = {.source = j->src.text,
                          .target = j->tgt.text,
                          .n_head = args.head ? 1 : j->engine->model[0]->config.n_head,
                          .first_head = args.head ? args.head : 1};
    j->src_token = tokens_of(j, j->src.ids, j->src.n, 0);
    j->tgt_token = tokens_of(j, j->tgt.ids, j->tgt.n, 0);
    j->in_token = tokens_of(j, j->tgt.ids, j->tgt.n, 1);
    int shown = 0, n_head = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        fill_set(&a.set[kind], j, kind);
        n_head += a.n_head * a.set[kind].n_layer;
        if (a.set[kind].n_layer) shown = kind;
    }
    struct file_writer w;
    int rc = file_writer_open_output(&w, args.out, err);
    if (rc) return rc;
    if (svg)
        attention_svg(&w, &a, (enum attention_kind)shown);
    else
        attention_html(&w, &a);
    rc = file_writer_commit(&w, err);
    if (!rc && !args.quiet)
        fprintf(stderr, "wrote %s: %d source and %d target tokens, %d head%s\n", args.out, j->src.n,
                j->tgt.n, n_head, PLURAL(n_head));
    return rc;
}

/* ---- the command ----------------------------------------------------------------------------- */

static void job_release(struct job *j) {
    for (int kind = 0; kind < VIEW_KINDS && j->engine; kind++) {
        for (int l = 0; l < view_layers(&j->engine->model[0]->config, kind) && j->probs[kind]; l++)
            xfree(j->probs[kind][l]);
        xfree(j->probs[kind]);
    }
    view_free(j->view);
    acts_free(j->acts);
    engine_close(j->engine);
    xfree(j->src.text);
    xfree(j->src.ids);
    xfree(j->tgt.text);
    xfree(j->tgt.ids);
    xfree(j->src_token);
    xfree(j->tgt_token);
    xfree(j->in_token);
}

/* 1: SVG, 0: HTML, by the file name's ending. */
static int format_of(const char *path, struct err *err) {
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".svg") == 0) return 1;
    if (dot && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0)) return 0;
    return cli_usage(err, "--out: '%.120s' ends neither in .svg nor in .html", path);
}

static int check_usage(struct err *err) {
    if (!args.src == !args.src_file)
        return cli_usage(err, "attend: give either --src or --src-file");
    if (args.tgt && args.tgt_file)
        return cli_usage(err, "attend: give --tgt or --tgt-file, not both");
    if (args.src_file && args.tgt_file && strcmp(args.src_file, "-") == 0 &&
        strcmp(args.tgt_file, "-") == 0)
        return cli_usage(err,
                         "attend: only one of --src-file and --tgt-file can be standard input");
    if ((args.src_file && file_same(args.out, args.src_file)) ||
        (args.tgt_file && file_same(args.out, args.tgt_file)))
        return cli_usage(err, "--out: %.180s is an input; choose another file", args.out);
    return format_of(args.out, err);
}

static int run(struct err *err) {
    int svg = check_usage(err);
    if (svg < 0) return svg;
    struct job j = {0};
    struct view_options view = {0};
    int rc = read_pair(&j, err);
    if (!rc) rc = choose(&view, &j.engine->model[0]->config, svg, err);
    if (!rc) rc = look(&j, &view, err);
    if (!rc) rc = draw(&j, svg, err);
    job_release(&j);
    return rc;
}

const struct command cmd_attend = {
    .name = "attend",
    .summary = "draw what a model looks at: attention as SVG or HTML",
    .usage = "--model MODEL --src TEXT [--tgt TEXT] --out FILE [options]",
    .groups = groups,
    .run = run};
