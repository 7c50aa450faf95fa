/* cmd_inspect.c — `heed inspect DIR`: what is in a model directory or a training run.
 *
 * Everything is gathered into one JSON value first (train/summary.h); --json prints that, otherwise
 * it is laid out as text. */
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
#include "train/summary.h"
#include "viz/learning.h"

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

static int draw(const char *dir, const struct history *h, struct err *err) {
    int rc = learning_draw(args.curves, dir, h, args.log, err);
    int n = h->n_train, m = h->n_valid;
    if (!rc && !args.quiet)
        fprintf(stderr, "wrote %s: learning curves up to step %s\n", args.curves,
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
    if (!rc) rc = summary_of(all, dir, &history, err);
    if (!rc && args.json) {
        char *text = json_dumps(all, JSON_REAL_PRECISION(9));
        puts(text ? text : "{}");
        free(text);
    } else if (!rc) {
        print_all(all, summary_last_epoch(dir));
    }
    if (!rc && history.n_bad && !args.json && !args.quiet)
        fprintf(stderr, "heed: warning: %s:%d: %d line%s could not be read\n", log,
                history.first_bad, history.n_bad, PLURAL(history.n_bad));
    if (!rc && args.curves) rc = draw(dir, &history, err);
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
