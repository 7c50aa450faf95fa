/* cmd_attend.c — `heed attend`: a picture of what a model looks at, for one sentence and its
 * translation.
 *
 * The pair goes through the model once, with the attention probabilities kept (model/view.h), and
 * becomes an SVG or a page (viz/picture.h). Without a given translation the model makes one
 * first, as heed translate would.
 *
 * With --find it is many sentences, and what every head does in them (attend_find.h).
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "cli/attend_find.h"
#include "cli/cli.h"
#include "data/text.h"
#include "search/look.h"
#include "viz/picture.h"

static struct attend_args {
    const char *dir;
    struct engine_options from;
    const char *src, *tgt, *src_file, *tgt_file, *out;
    struct engine_said said;
    int kind, line, layer, head, quiet, with_find;
    struct attend_find find;
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
    ROW(STRING, "out", out, NULL,
        "picture to write: NAME.svg, or NAME.html to explore; NAME.json: the numbers; with --find, "
        "a directory for pictures and heads.json",
        .arg = "FILE", .made = 1),
    ROW(CHOICE, "kind", kind, "auto", "which attention; auto: all in a page, cross in an SVG",
        .choices = kind_names),
    ROW(INT, "layer", layer, "0",
        "only this layer, counted from 1; in an SVG it is drawn with lines. 0: all",
        .max = 1 << 20),
    ROW(INT, "head", head, "0", "only this head, counted from 1; 0: all", .max = 1 << 20),
    ROW(FLAG, "find", with_find, NULL,
        "measure what every head does over all lines of the files, and find the heads that show "
        "it best"),
    ROW(STRING, "trees", find.what.trees, NULL,
        "with --find: constituency trees, one to a line, whose words are sentences, too",
        .arg = "FILE"),
    ROW(STRING, "links", find.what.links, NULL,
        "with --find: links between words of --src-file, such as 3-1 from a pronoun to what it "
        "stands for, counted from 0",
        .arg = "FILE"),
    ROW(INT, "lines", find.what.lines, "200", "with --find: most lines of each file; 0: all",
        .max = 1 << 30),
    ROW(FLAG, "json", find.json, NULL, "with --find: print JSON, no table"),
    PRECISION_ROW(from.precision),
    DEVICE_ROWS(from.where, "auto"),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

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

static int read_pair(struct look *l, struct err *err) {
    char *src = NULL, *tgt = NULL;
    int rc = read_text(&src, args.src, args.src_file, "the source", err);
    if (!rc) rc = read_text(&tgt, args.tgt, args.tgt_file, "the target", err);
    if (!rc) rc = engine_open(&l->engine, &args.from, err);
    if (!rc) rc = engine_tags(l->engine, &args.said, &l->tags, err);
    if (!rc) rc = look_source(l, src, err);
    if (!rc) rc = tgt ? look_target(l, tgt, err) : look_translate(l, err);
    xfree(src);
    xfree(tgt);
    return rc;
}

/* ---- looking --------------------------------------------------------------------------------- */

/* Which layers of which kinds, or an error that names what does not exist. */
static int choose(struct view_options *o, const struct config *c, enum picture_format format,
                  struct err *err) {
    int layer = args.layer, head = args.head;
    int only = args.kind < VIEW_KINDS ? args.kind : format == PICTURE_SVG ? VIEW_CROSS : -1;
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

/* ---- the command ----------------------------------------------------------------------------- */

/* By the file name's ending. */
static int format_of(const char *path, struct err *err) {
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".svg") == 0) return PICTURE_SVG;
    if (dot && strcmp(dot, ".json") == 0) return PICTURE_JSON;
    if (dot && (strcmp(dot, ".html") == 0 || strcmp(dot, ".htm") == 0)) return PICTURE_HTML;
    return cli_usage(err, "--out: '%.120s' ends neither in .svg nor in .html or .json", path);
}

static int check_usage(struct err *err) {
    if (args.find.what.trees || args.find.what.links || args.find.json)
        return cli_usage(err, "attend: --trees, --links and --json go with --find");
    if (!args.out) return cli_usage(err, "--out is missing");
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

static int run_find(struct err *err) {
    struct engine *engine = NULL;
    struct engine_tags tags;
    args.find.what.src = args.src_file;
    args.find.what.tgt = args.tgt_file;
    args.find.what.out = args.out;
    args.find.quiet = args.quiet;
    if (args.src || args.tgt || args.kind != VIEW_KINDS || args.layer || args.head)
        return cli_usage(err, "attend: --find looks at all heads and takes sentences from files: "
                              "no --src, --tgt, --kind, --layer or --head");
    if (!args.src_file && !args.find.what.trees)
        return cli_usage(err, "attend: --find needs sentences: --src-file or --trees");
    int rc = engine_open(&engine, &args.from, err);
    if (!rc) rc = engine_tags(engine, &args.said, &tags, err);
    if (!rc) rc = attend_find(engine, &tags, &args.find, err);
    engine_close(engine);
    return rc;
}

static int run(struct err *err) {
    if (args.with_find) return run_find(err);
    int format = check_usage(err);
    if (format < 0) return format;
    struct look look = {0};
    struct view_options view = {0};
    struct picture picture = {(enum picture_format)format, args.layer, args.head};
    int n_head = 0, rc = read_pair(&look, err);
    if (!rc) rc = choose(&view, &look.engine->model[0]->config, picture.format, err);
    if (!rc) rc = look_run(&look, &view, err);
    if (!rc) rc = picture_write(args.out, &picture, &look, &n_head, err);
    if (!rc && !args.quiet)
        fprintf(stderr, "wrote %s: %d source and %d target tokens, %d head%s\n", args.out,
                look.src.n, look.tgt.n, n_head, PLURAL(n_head));
    struct engine *engine = look.engine;
    if (engine) look_clear(&look);
    engine_close(engine);
    return rc;
}

const struct command cmd_attend = {
    .name = "attend",
    .summary = "draw what a model looks at: attention as SVG or HTML",
    .usage = "--model MODEL --src TEXT [--tgt TEXT] --out FILE [options] | --find --model MODEL "
             "[--trees FILE] [--src-file FILE] [options]",
    .groups = groups,
    .run = run};
