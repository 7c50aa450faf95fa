/* cmd_inspect.c — `heed inspect DIR`: what is in a model directory or a training run.
 *
 * Everything is gathered into one JSON value first; --json prints that, otherwise it is laid out as
 * text. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "viz/curves.h"

static struct inspect_args {
    struct option_list dir;
    const char *curves;
    int json, log, tensors, quiet;
} args;

#define OPTIONS_OF inspect_args
static const struct option rows[] = {
    ROW(WORDS, "dir", dir, NULL, "a model, by name or directory, or a training run", .arg = "MODEL",
        .min = 1, .max = 1),
    ROW(STRING, "curves", curves, NULL, "draw the learning curves as an SVG", .arg = "FILE",
        .made = 1),
    ROW(FLAG, "log", log, NULL, "losses on a logarithmic axis"),
    ROW(FLAG, "tensors", tensors, NULL, "list every tensor of the model"),
    JSON_ROW(json),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* ---- gathering ------------------------------------------------------------------------------- */

struct summary {
    double sumsq, min, max;
    long long n_bad; /* NaN or infinite */
};

static struct summary summarise(const struct modeldir *md, int i) {
    enum { CHUNK = 4096 };
    float part[CHUNK];
    struct summary s = {.min = INFINITY, .max = -INFINITY};
    size_t n = (size_t)md->table.param[i].rows * (size_t)md->table.param[i].cols;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        modeldir_values(md, i, at, count, part);
        for (size_t k = 0; k < count; k++) {
            double v = (double)part[k];
            if (!isfinite(v)) {
                s.n_bad++;
                continue;
            }
            s.sumsq += v * v;
            s.min = fmin(s.min, v);
            s.max = fmax(s.max, v);
        }
    }
    return s;
}

/* Adds "step", "parameters", "tensors" and "not_finite". */
static void gather_weights(json_t *all, const struct modeldir *md) {
    json_t *tensors = json_array();
    long long n_bad = 0;
    for (int i = 0; i < md->table.n_param; i++) {
        const struct param *p = &md->table.param[i];
        struct summary s = summarise(md, i);
        n_bad += s.n_bad;
        json_array_append_new(
            tensors, json_pack("{s:s, s:s, s:[i, i], s:I, s:o, s:o, s:o, s:I}", "name", p->name,
                               "dtype", md->tensor[i]->dtype, "shape", p->rows, p->cols, "count",
                               (json_int_t)p->rows * p->cols, "norm", json_out_real(sqrt(s.sumsq)),
                               "min", json_out_real(s.min), "max", json_out_real(s.max),
                               "not_finite", (json_int_t)s.n_bad));
    }
    if (md->step >= 0) json_object_set_new(all, "step", json_integer(md->step));
    json_object_set_new(all, "parameters", json_integer((json_int_t)md->table.n_value));
    json_object_set_new(all, "not_finite", json_integer(n_bad));
    json_object_set_new(all, "tensors", tensors);
}

static json_t *valid_json(const struct valid_point *p) {
    return json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)p->step, "loss",
                     json_out_real(p->loss), "nll", json_out_real(p->nll), "ppl",
                     json_out_real(p->ppl));
}

static json_t *bleu_json(const struct valid_point *p) {
    return json_pack("{s:I, s:f}", "step", (json_int_t)p->step, "bleu", p->bleu);
}

static void gather_history(json_t *all, const struct history *h) {
    if (h->n_train) {
        const struct train_point *p = &h->train[h->n_train - 1];
        json_object_set_new(all, "train",
                            json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "step",
                                      (json_int_t)p->step, "epoch", json_out_real(p->epoch), "loss",
                                      json_out_real(p->loss), "nll", json_out_real(p->nll), "ppl",
                                      json_out_real(p->ppl), "lr", json_out_real(p->lr), "tok_s",
                                      json_out_real(p->tok_s)));
    }
    const struct valid_point *best = NULL, *bleu = NULL, *best_bleu = NULL;
    for (int i = 0; i < h->n_valid; i++) {
        const struct valid_point *p = &h->valid[i];
        if (!best || p->loss < best->loss) best = p;
        if (!isfinite(p->bleu)) continue;
        bleu = p;
        if (!best_bleu || p->bleu > best_bleu->bleu) best_bleu = p;
    }
    if (best) json_object_set_new(all, "valid", valid_json(&h->valid[h->n_valid - 1]));
    if (best) json_object_set_new(all, "best_valid", valid_json(best));
    if (bleu) json_object_set_new(all, "bleu", bleu_json(bleu));
    if (bleu) json_object_set_new(all, "best_bleu", bleu_json(best_bleu));
    if (h->n_bad) json_object_set_new(all, "log_lines_unread", json_integer(h->n_bad));
}

static int gather_checkpoints(json_t *all, const char *dir, char **newest, struct err *err) {
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    if (rc) return rc;
    json_t *steps = json_array();
    for (int i = 0; i < list.n; i++)
        json_array_append_new(steps, json_integer((json_int_t)list.item[i].step));
    if (list.n) json_object_set(all, "checkpoints", steps);
    json_decref(steps);
    *newest = list.n ? xstrdup(list.item[list.n - 1].path) : NULL;
    checkpoint_list_release(&list);
    return 0;
}

/* The last of the epochs asked for; a run that has ended counts one more as begun. */
static double last_epoch(const char *dir) {
    struct config config;
    struct model_notes notes;
    modeldir_read_config(dir, &config, &notes, NULL);
    json_int_t epochs = json_integer_value(json_object_get(notes.training, "epochs"));
    model_notes_release(&notes);
    return epochs > 0 ? (double)epochs : (double)INFINITY;
}

/* A run that has not published a model yet is looked at through its newest checkpoint. */
static int gather(json_t *all, const char *dir, const struct history *h, struct err *err) {
    struct config config;
    struct weights_form form;
    struct modeldir md;
    char *newest = NULL, *published = path_join(dir, MODELDIR_WEIGHTS);
    json_object_set_new(all, "directory", json_out_string(dir));
    struct model_notes notes = {0};
    int rc = modeldir_read_any(dir, &config, &form, &notes, err);
    if (!rc) json_object_set_new(all, "model", config_to_json(&config));
    if (!rc && notes.card) json_object_set(all, "card", notes.card);
    if (!rc && notes.translate) json_object_set(all, "translate", notes.translate);
    if (!rc && notes.tokens) json_object_set(all, "tokens", notes.tokens);
    model_notes_release(&notes);
    if (!rc) rc = gather_checkpoints(all, dir, &newest, err);
    const char *from = file_exists(published) ? dir : newest;
    if (!rc && from && !(rc = modeldir_open_any(&md, from, err))) {
        gather_weights(all, &md);
        modeldir_close(&md);
    }
    if (!rc) gather_history(all, h);
    xfree(newest);
    xfree(published);
    return rc;
}

/* ---- printing -------------------------------------------------------------------------------- */

static double number(const json_t *object, const char *key) {
    const json_t *v = json_object_get(object, key);
    return json_is_number(v) ? json_number_value(v) : (double)NAN;
}

/* An object of texts and numbers, if it is there. */
static void print_fields(const json_t *all, const char *what) {
    json_t *object = json_object_get(all, what), *value;
    const char *key;
    if (object) printf("%s\n", what);
    json_object_foreach(object, key, value) {
        if (json_is_string(value))
            printf("  %-20s %s\n", key, json_string_value(value));
        else if (json_is_boolean(value))
            printf("  %-20s %s\n", key, json_is_true(value) ? "true" : "false");
        else
            printf("  %-20s %.9g\n", key, json_number_value(value));
    }
}

/* Ids with a meaning, and languages by their codes (model/tongues.h). */
static void print_tokens(const json_t *all) {
    json_t *tokens = json_object_get(all, "tokens"), *value,
           *languages = json_object_get(tokens, "languages"),
           *codes = json_object_get(languages, "codes");
    const char *key;
    size_t i;
    if (tokens) printf("tokens\n");
    json_object_foreach(tokens, key, value) {
        if (json_is_integer(value))
            printf("  %-20s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
    }
    json_array_foreach(json_object_get(tokens, "banned"), i, value) {
        printf(i ? ", %" JSON_INTEGER_FORMAT : "  banned               %" JSON_INTEGER_FORMAT,
               json_integer_value(value));
    }
    if (i) printf("\n");
    if (codes) printf("  %-20s %zu:", "languages", json_object_size(codes));
    json_object_foreach(codes, key, value) { printf(" %s", key); }
    if (codes) printf("\n");
}

/* A whole number in groups of digits. */
static const char *whole(const json_t *object, const char *key) {
    return text_grouped((uint64_t)(number(object, key) + 0.5));
}

static void print_tensors(const json_t *all) {
    const json_t *tensors = json_object_get(all, "tensors");
    size_t i;
    json_t *t;
    printf("\n%-22s %16s %12s %11s %11s %11s\n", "tensor", "shape", "count", "norm", "min", "max");
    json_array_foreach(tensors, i, t) {
        const json_t *shape = json_object_get(t, "shape");
        char text[40];
        snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT " x %" JSON_INTEGER_FORMAT,
                 json_integer_value(json_array_get(shape, 0)),
                 json_integer_value(json_array_get(shape, 1)));
        printf("%-22s %16s %12s %11.4g %11.4g %11.4g",
               json_string_value(json_object_get(t, "name")), text, whole(t, "count"),
               number(t, "norm"), number(t, "min"), number(t, "max"));
        if (number(t, "not_finite") > 0) printf("  NOT FINITE: %s", whole(t, "not_finite"));
        printf("\n");
    }
}

static void print_point(const char *what, const json_t *p, double last) {
    if (!p) return;
    printf("%-12s step %s", what, whole(p, "step"));
    if (json_object_get(p, "bleu")) {
        printf("  %.2f\n", number(p, "bleu"));
        return;
    }
    printf("  loss %.4f  nll %.4f  ppl %.2f", number(p, "loss"), number(p, "nll"),
           number(p, "ppl"));
    if (json_object_get(p, "lr")) printf("  lr %.3g", number(p, "lr"));
    if (isfinite(number(p, "epoch"))) printf("  epoch %g", fmin(number(p, "epoch") + 1, last));
    if (isfinite(number(p, "tok_s"))) printf("  %s tokens/s", whole(p, "tok_s"));
    printf("\n");
}

static void print_all(const json_t *all, double last) {
    static const char *const points[][2] = {{"training", "train"},
                                            {"validation", "valid"},
                                            {"best", "best_valid"},
                                            {"BLEU", "bleu"},
                                            {"best BLEU", "best_bleu"}};
    const json_t *steps = json_object_get(all, "checkpoints"),
                 *tensors = json_object_get(all, "tensors");
    size_t i;
    json_t *step;
    printf("%s\n\n", json_string_value(json_object_get(all, "directory")));
    print_fields(all, "card");
    print_fields(all, "translate");
    print_tokens(all);
    print_fields(all, "model");
    if (tensors && args.tensors) print_tensors(all);
    printf("\n%-12s ", "parameters");
    if (tensors)
        printf("%s in %zu tensors\n", whole(all, "parameters"), json_array_size(tensors));
    else
        printf("no weights yet\n");
    if (json_object_get(all, "step")) printf("%-12s %s\n", "steps done", whole(all, "step"));
    if (steps) {
        printf("%-12s", "checkpoints");
        json_array_foreach(steps, i, step) {
            printf(" %s", text_grouped((uint64_t)json_integer_value(step)));
        }
        printf("\n");
    }
    for (i = 0; i < sizeof points / sizeof *points; i++)
        print_point(points[i][0], json_object_get(all, points[i][1]), last);
}

/* ---- curves ---------------------------------------------------------------------------------- */

/* Columns of the history as arrays: curves want x and y apart. */
struct columns {
    double *x, *loss, *nll, *lr, *tok_s, *valid_x, *valid_loss, *valid_nll, *bleu_x, *bleu;
    int n_bleu; /* not every validation measures it */
};

static void fill_columns(struct columns *c, double *store, const struct history *h) {
    size_t n = (size_t)h->n_train, m = (size_t)h->n_valid;
    double *valid = store + 5 * n;
    *c = (struct columns){.x = store,
                          .loss = store + n,
                          .nll = store + 2 * n,
                          .lr = store + 3 * n,
                          .tok_s = store + 4 * n,
                          .valid_x = valid,
                          .valid_loss = valid + m,
                          .valid_nll = valid + 2 * m,
                          .bleu_x = valid + 3 * m,
                          .bleu = valid + 4 * m};
    for (size_t i = 0; i < n; i++) {
        c->x[i] = (double)h->train[i].step;
        c->loss[i] = h->train[i].loss;
        c->nll[i] = h->train[i].nll;
        c->lr[i] = h->train[i].lr;
        c->tok_s[i] = h->train[i].tok_s;
    }
    for (size_t i = 0; i < m; i++) {
        c->valid_x[i] = (double)h->valid[i].step;
        c->valid_loss[i] = h->valid[i].loss;
        c->valid_nll[i] = h->valid[i].nll;
        if (!isfinite(h->valid[i].bleu)) continue;
        c->bleu_x[c->n_bleu] = c->valid_x[i];
        c->bleu[c->n_bleu++] = h->valid[i].bleu;
    }
}

/* A picture may replace an earlier picture, but no other file. */
static int check_target(const char *path, struct err *err) {
    struct stat st;
    char begin[6] = "";
    if (stat(path, &st) || !S_ISREG(st.st_mode) || !st.st_size) return 0;
    FILE *file = fopen(path, "rb");
    size_t n = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if (file) fclose(file);
    if (n && (strncmp(begin, "<svg", 4) == 0 || strcmp(begin, "<?xml") == 0)) return 0;
    return err_set(err, HEED_EIO,
                   "--curves: %.180s exists and is not an SVG picture; choose another name", path);
}

static int draw(const char *path, const char *dir, const struct history *h, struct err *err) {
    if (!h->n_train && !h->n_valid)
        return err_set(err, HEED_EIO, "%.160s/log.jsonl: no logged steps to draw", dir);
    struct file_writer w;
    int rc = file_writer_open_output(&w, path, err);
    if (rc) return rc;
    size_t size = 5 * (size_t)h->n_train + 5 * (size_t)h->n_valid;
    double *store = xcalloc(size, sizeof *store);
    struct columns c;
    fill_columns(&c, store, h);
    int n = h->n_train, m = h->n_valid, marked = m <= 60;
    struct curve loss[] = {{"training", c.x, c.loss, n, 0},
                           {"validation", c.valid_x, c.valid_loss, m, marked}};
    struct curve nll[] = {{"training", c.x, c.nll, n, 0},
                          {"validation", c.valid_x, c.valid_nll, m, marked}};
    struct curve bleu = {"BLEU", c.bleu_x, c.bleu, c.n_bleu, marked};
    struct curve rate = {"learning rate", c.x, c.lr, n, 0};
    struct curve speed = {"tokens/s", c.x, c.tok_s, n, 0};
    int both = m > 0 ? 2 : 1, n_panel = 0;
    enum scale scale = args.log ? SCALE_LOG : SCALE_LINEAR;
    struct panel panel[5];
    panel[n_panel++] = (struct panel){"loss per token (label-smoothed)", loss, both, 260, scale};
    panel[n_panel++] = (struct panel){"negative log-likelihood per token", nll, both, 180, scale};
    if (c.n_bleu)
        panel[n_panel++] = (struct panel){"BLEU on the validation text", &bleu, 1, 120, 0};
    panel[n_panel++] = (struct panel){"learning rate", &rate, 1, 90, 0};
    panel[n_panel++] = (struct panel){"tokens per second", &speed, 1, 90, 0};
    curves_write(&w, &(struct chart){dir, "step", panel, n_panel, SCALE_LINEAR});
    xfree(store);
    rc = file_writer_commit(&w, err);
    if (!rc && !args.quiet)
        fprintf(stderr, "wrote %s: learning curves up to step %s\n", path,
                text_grouped(
                    (uint64_t)max_i64(n ? h->train[n - 1].step : 0, m ? h->valid[m - 1].step : 0)));
    return rc;
}

/* ---- running --------------------------------------------------------------------------------- */

static int inspect(const char *dir, struct err *err) {
    char *log = path_join(dir, "log.jsonl");
    struct history history;
    json_t *all = json_object();
    int rc = history_read(&history, log, err);
    if (!rc && args.curves) rc = check_target(args.curves, err);
    if (!rc) rc = gather(all, dir, &history, err);
    if (!rc && args.json) {
        char *text = json_dumps(all, JSON_REAL_PRECISION(9));
        puts(text ? text : "{}");
        free(text);
    } else if (!rc) {
        print_all(all, last_epoch(dir));
    }
    if (!rc && history.n_bad && !args.json && !args.quiet)
        fprintf(stderr, "heed: warning: %s:%d: %d line%s could not be read\n", log,
                history.first_bad, history.n_bad, PLURAL(history.n_bad));
    if (!rc && args.curves) rc = draw(args.curves, dir, &history, err);
    if (!rc && number(all, "not_finite") > 0)
        rc = err_set(err, HEED_EFORMAT, "%.160s: %.0f weights are NaN or infinite", dir,
                     number(all, "not_finite"));
    history_release(&history);
    json_decref(all);
    xfree(log);
    return rc;
}

static int run(struct err *err) { return inspect(args.dir.item[0], err); }

const struct command cmd_inspect = {
    .name = "inspect",
    .summary = "show a model's configuration, parameters, steps and curves",
    .usage = "MODEL [--curves FILE.svg] [--tensors] [--json]",
    .groups = groups,
    .run = run};
