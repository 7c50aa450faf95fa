/* runtable.c — see runtable.h. */
#include "train/runtable.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "data/text.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"
#include "train/history.h"

/* ---- the file -------------------------------------------------------------------------------- */

/* Letters, digits, dots, dashes and the like: it becomes the name of a file. */
static int check_name(const char *name, const char *where, struct err *err) {
    size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+=-");
    if (name[0] && name[0] != '.' && name[0] != '-' && !name[n] && n <= 100) return 0;
    return err_set(err, HEED_EFORMAT,
                   "%.120s: name: '%.60s' cannot be a file's name; letters, digits and ._+=- can",
                   where, name);
}

static int add_row(struct runtable *s, const struct runtable_row *row, const char *where,
                   struct err *err) {
    for (int i = 0; i < s->n_row; i++)
        if (strcmp(s->row[i].name, row->name) == 0)
            return err_set(err, HEED_EFORMAT, "%.180s: two rows are called '%s'", where, row->name);
    if (s->n_row == RUNTABLE_MAX_ROWS)
        return err_set(err, HEED_ELIMIT, "%.180s: more than %d rows", where, RUNTABLE_MAX_ROWS);
    GROW(s->row, s->n_row, s->room_row);
    s->row[s->n_row++] = *row;
    return 0;
}

/* The row, once for every seed where it has some. */
static int add_seeds(struct runtable *s, const struct json_in *in, const struct runtable_row *row,
                     struct err *err) {
    const json_t *seeds = json_object_get(in->object, "seeds");
    if (!seeds) {
        struct runtable_row only = *row;
        only.name = xstrdup(row->name);
        only.train = json_incref(row->train);
        int rc = add_row(s, &only, in->where, err);
        if (rc) xfree(only.name), json_decref(only.train);
        return rc;
    }
    if (!json_is_array(seeds)) return json_in_expected(in, "seeds", "an array of numbers", err);
    for (size_t i = 0; i < json_array_size(seeds); i++) {
        const json_t *seed = json_array_get(seeds, i);
        if (!json_is_integer(seed) || json_integer_value(seed) < 0)
            return json_in_expected(in, "seeds", "an array of whole numbers", err);
        char name[160];
        snprintf(name, sizeof name, "%s.%lld", row->name, (long long)json_integer_value(seed));
        struct runtable_row one = {xstrdup(name), row->group, json_copy(row->train), NULL};
        json_object_set_new(one.train, "seed", json_integer(json_integer_value(seed)));
        int rc = add_row(s, &one, in->where, err);
        if (rc) return xfree(one.name), json_decref(one.train), rc;
    }
    return 0;
}

static int read_row(struct runtable *s, const json_t *value, const json_t *common,
                    const char *where, struct err *err) {
    static const char *const known[] = {"name", "group", "train", "seeds", NULL};
    struct json_in in;
    struct runtable_row row = {0};
    const char *name = NULL;
    const json_t *train = NULL;
    int rc = json_in_begin(&in, value, where, err);
    if (!rc) rc = json_in_known(&in, known, err);
    if (!rc) rc = json_in_string(&in, "name", &name, err);
    if (!rc) rc = check_name(name, where, err);
    if (!rc && json_in_has(&in, "group")) rc = json_in_string(&in, "group", &row.group, err);
    if (!rc && json_in_has(&in, "train")) rc = json_in_object(&in, "train", &train, err);
    if (rc) return rc;
    row.name = (char *)name; /* copied by add_seeds */
    row.train = common ? json_copy((json_t *)common) : json_object();
    if (train) json_object_update(row.train, (json_t *)train);
    rc = add_seeds(s, &in, &row, err);
    json_decref(row.train);
    return rc;
}

static int read_rows(struct runtable *s, const struct json_in *in, const json_t *common,
                     struct err *err) {
    const json_t *rows = json_object_get(in->object, "rows");
    if (!json_is_array(rows) || !json_array_size(rows))
        return json_in_expected(in, "rows", "an array of rows", err);
    int rc = 0;
    for (size_t i = 0; i < json_array_size(rows) && !rc; i++) {
        char where[256];
        snprintf(where, sizeof where, "%.200s: row %zu", in->where, i + 1);
        rc = read_row(s, json_array_get(rows, i), common, where, err);
    }
    return rc;
}

static int read_tests(struct runtable *s, const struct json_in *in, struct err *err) {
    static const char *const known[] = {"name", "src", "ref", NULL};
    const json_t *tests = json_object_get(in->object, "tests");
    if (!tests) return 0;
    if (!json_is_array(tests)) return json_in_expected(in, "tests", "an array", err);
    s->test = xcalloc(json_array_size(tests) + 1, sizeof *s->test);
    int rc = 0;
    for (size_t i = 0; i < json_array_size(tests) && !rc; i++) {
        char where[256];
        struct json_in test;
        struct runtable_test *t = &s->test[s->n_test];
        snprintf(where, sizeof where, "%.200s: test %zu", in->where, i + 1);
        rc = json_in_begin(&test, json_array_get(tests, i), where, err);
        if (!rc) rc = json_in_known(&test, known, err);
        if (!rc) rc = json_in_string(&test, "name", &t->name, err);
        if (!rc) rc = check_name(t->name, where, err);
        if (!rc) rc = json_in_string(&test, "src", &t->src, err);
        if (!rc) rc = json_in_string(&test, "ref", &t->ref, err);
        for (int k = 0; k < s->n_test && !rc; k++)
            if (strcmp(s->test[k].name, t->name) == 0)
                rc = err_set(err, HEED_EFORMAT, "%s: two tests are called '%s'", where, t->name);
        s->n_test += !rc;
    }
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

static const json_t *tests_of(const struct runtable *s) {
    return json_object_get(s->file, "tests");
}

static int same(const json_t *a, const json_t *b) { return a == b || (a && b && json_equal(a, b)); }

/* Does a result belong to the row as it is now? */
static int belongs(const struct runtable *s, const struct runtable_row *row, const json_t *result) {
    return same(json_object_get(result, "train"), row->train) &&
           same(json_object_get(result, "tests"), tests_of(s)) &&
           same(json_object_get(result, "translate"), s->translate) &&
           json_integer_value(json_object_get(result, "average")) == s->average;
}

static int read_results(struct runtable *s, struct err *err) {
    s->results_path = path_join(s->dir, "results.json");
    if (!file_exists(s->results_path)) {
        s->results = json_array();
        return 0;
    }
    int rc = json_in_file(&s->results, s->results_path, err);
    if (rc) return rc;
    if (!json_is_array(s->results))
        return err_set(err, HEED_EFORMAT, "%.180s: no array of results", s->results_path);
    for (size_t i = 0; i < json_array_size(s->results); i++) {
        const json_t *result = json_array_get(s->results, i);
        const char *name = json_string_value(json_object_get(result, "name"));
        for (int k = 0; k < s->n_row && name; k++) {
            if (strcmp(s->row[k].name, name) != 0) continue;
            if (!belongs(s, &s->row[k], result))
                return err_set(err, HEED_ECONFIG,
                               "row '%s' has a result of other options in %.180s; give the row "
                               "another name, or remove that result and the run",
                               name, s->results_path);
            s->row[k].result = result;
        }
    }
    return 0;
}

static json_t *scores_of(const struct runtable *s, const struct runtable_row *row,
                         const struct runtable_test *t) {
    json_t *scores = json_object();
    char suffix[128];
    struct text *text;
    struct line line;
    struct err err;
    snprintf(suffix, sizeof suffix, ".%s.json", t->name);
    char *path = runtable_path(s, row, suffix);
    if (text_open(&text, path, &err) == 0) {
        while (text_next(text, &line, &err) > 0) {
            json_t *value = NULL;
            if (json_in_text(&value, line.text, line.size, path, &err)) continue;
            const char *name = json_string_value(json_object_get(value, "name"));
            if (name) json_object_set(scores, name, json_object_get(value, "score"));
            json_decref(value);
        }
        text_close(text);
    }
    xfree(path);
    return scores;
}

struct runtable_progress runtable_progress(const struct runtable *s,
                                           const struct runtable_row *row) {
    struct runtable_progress f = {0, NAN, NAN, NAN};
    struct history h = {0};
    struct err err;
    char *dir = runtable_path(s, row, ""), *path = path_join(dir, "log.jsonl");
    if (history_read(&h, path, &err) == 0) {
        if (h.n_train) {
            const struct train_point *p = &h.train[h.n_train - 1];
            f.step = p->step, f.loss = p->loss, f.seconds = p->time;
        }
        if (h.n_valid) f.ppl = h.valid[h.n_valid - 1].ppl;
    }
    history_release(&h);
    xfree(path);
    xfree(dir);
    return f;
}

static json_t *figures_of(const struct runtable *s, const struct runtable_row *row) {
    struct runtable_progress f = runtable_progress(s, row);
    struct config config;
    struct err err;
    json_t *figures = json_object(), *tests = json_object();
    char *dir = runtable_path(s, row, "");
    if (modeldir_read_config(dir, &config, NULL, &err) == 0) {
        struct param_table table;
        param_table_init(&table, &config);
        json_object_set_new(figures, "parameters", json_integer((json_int_t)table.n_value));
        param_table_release(&table);
    }
    json_object_set_new(figures, "steps", json_integer(f.step));
    json_object_set_new(figures, "loss", json_out_real(f.loss));
    json_object_set_new(figures, "valid_ppl", json_out_real(f.ppl));
    json_object_set_new(figures, "seconds", json_out_real(f.seconds));
    for (int i = 0; i < s->n_test; i++)
        json_object_set_new(tests, s->test[i].name, scores_of(s, row, &s->test[i]));
    if (s->n_test) json_object_set_new(figures, "scores", tests);
    if (!s->n_test) json_decref(tests);
    xfree(dir);
    return figures;
}

static int remove_checkpoints(const struct runtable *s, const struct runtable_row *row,
                              struct err *err) {
    char *dir = runtable_path(s, row, "");
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    for (int i = 0; !rc && i < list.n; i++) rc = dir_remove(list.item[i].path, err);
    checkpoint_list_release(&list);
    xfree(dir);
    return rc;
}

int runtable_finish(struct runtable *s, struct runtable_row *row, struct err *err) {
    json_t *result = json_object(), *figures = figures_of(s, row);
    json_object_set_new(result, "name", json_string(row->name));
    if (row->group) json_object_set_new(result, "group", json_string(row->group));
    json_object_update(result, figures);
    json_decref(figures);
    json_object_set(result, "train", row->train);
    json_object_set_new(result, "average", json_integer(s->average));
    if (s->translate) json_object_set(result, "translate", (json_t *)s->translate);
    if (tests_of(s)) json_object_set(result, "tests", (json_t *)tests_of(s));
    json_array_append_new(s->results, result);
    row->result = result;
    int rc = json_out_file(s->results_path, s->results, err);
    return !rc && s->tidy ? remove_checkpoints(s, row, err) : rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

int runtable_open(struct runtable *s, const char *path, struct err *err) {
    static const char *const known[] = {"out",       "train", "rows", "average",
                                        "translate", "tests", "tidy", NULL};
    struct json_in in;
    const json_t *common = NULL;
    int64_t average = 0;
    *s = (struct runtable){0};
    int rc = json_in_file(&s->file, path, err);
    if (!rc) rc = json_in_begin(&in, s->file, path, err);
    if (!rc) rc = json_in_known(&in, known, err);
    if (!rc) rc = json_in_string(&in, "out", &s->dir, err);
    if (!rc && json_in_has(&in, "train")) rc = json_in_object(&in, "train", &common, err);
    if (!rc && json_in_has(&in, "translate"))
        rc = json_in_object(&in, "translate", &s->translate, err);
    if (!rc && json_in_has(&in, "average")) rc = json_in_int(&in, "average", &average, err);
    if (!rc && (average < 0 || average > 1000))
        rc = json_in_expected(&in, "average", "a number from 0 to 1000", err);
    s->tidy = !rc && json_is_true(json_object_get(in.object, "tidy"));
    if (!rc && json_in_has(&in, "tidy") && !json_is_boolean(json_object_get(in.object, "tidy")))
        rc = json_in_expected(&in, "tidy", "true or false", err);
    if (!rc) rc = read_tests(s, &in, err);
    if (!rc) rc = read_rows(s, &in, common, err);
    s->average = (int)average;
    return rc ? rc : read_results(s, err);
}

void runtable_close(struct runtable *s) {
    for (int i = 0; i < s->n_row; i++) {
        xfree(s->row[i].name);
        json_decref(s->row[i].train);
    }
    xfree(s->row);
    xfree(s->test);
    xfree(s->results_path);
    json_decref(s->results);
    json_decref(s->file);
}

char *runtable_path(const struct runtable *s, const struct runtable_row *row, const char *suffix) {
    char *base = path_join(s->dir, row->name), *path = path_append(base, suffix);
    xfree(base);
    return path;
}
