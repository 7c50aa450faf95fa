/* chart.c — see chart.h. */
#include "viz/chart.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "io/json.h"

enum { MIN_HEIGHT = 40, MAX_HEIGHT = 1000 };

struct chart_file {
    struct chart chart;
    struct panel panel[CHART_MAX_PANELS];
    struct curve curve[CHART_MAX_PANELS][CHART_MAX_CURVES];
};

static const char *const scales[] = {"linear", "log", "log2", NULL};

static int read_scale(const struct json_in *in, const char *key, enum scale *scale,
                      struct err *err) {
    const char *word = NULL;
    int index = SCALE_LINEAR, rc = 0;
    if (json_in_has(in, key)) rc = json_in_string(in, key, &word, err);
    if (word && choice_parse(&index, scales, word, NULL))
        rc = json_in_expected(in, key, "linear, log or log2", err);
    *scale = (enum scale)index;
    return rc;
}

/* A list of 1 to `most` things. */
static int read_list(const struct json_in *in, const char *key, int most, const json_t **list,
                     struct err *err) {
    *list = json_object_get(in->object, key);
    size_t n = json_array_size(*list);
    if (n >= 1 && n <= (size_t)most) return 0;
    char what[64];
    snprintf(what, sizeof what, "a list of 1 to %d of them", most);
    return json_in_expected(in, key, what, err);
}

/* Numbers, or null for a gap. The caller frees them. */
static int read_numbers(const struct json_in *in, const char *key, const double **out, int *n,
                        struct err *err) {
    const json_t *list = json_object_get(in->object, key), *value;
    size_t i, size = json_array_size(list);
    if (!json_is_array(list)) return json_in_expected(in, key, "a list of numbers", err);
    double *number = xcalloc(size + 1, sizeof *number);
    *out = number;
    *n = (int)size; /* files are limited (io/json.h) */
    json_array_foreach(list, i, value) {
        if (!json_is_number(value) && !json_is_null(value))
            return err_set(err, HEED_EFORMAT, "%.120s: %s[%zu] is neither a number nor null",
                           in->where, key, i);
        number[i] = json_is_null(value) ? NAN : json_number_value(value);
    }
    return 0;
}

static int read_curve(struct curve *c, const json_t *value, const char *where, struct err *err) {
    static const char *const known[] = {"name", "x", "y", "marked", NULL};
    struct json_in in;
    int n_y = 0, rc = json_in_begin(&in, value, where, err);
    if (!rc) rc = json_in_known(&in, known, err);
    if (!rc) rc = json_in_string(&in, "name", &c->name, err);
    if (!rc) rc = read_numbers(&in, "x", &c->x, &c->n, err);
    if (!rc) rc = read_numbers(&in, "y", &c->y, &n_y, err);
    if (rc) return rc;
    c->marked = json_is_true(json_object_get(value, "marked"));
    if (n_y != c->n)
        return err_set(err, HEED_EFORMAT, "%.120s: x has %d numbers, y has %d", where, c->n, n_y);
    for (int i = 1; i < c->n; i++)
        if (!(c->x[i] >= c->x[i - 1]))
            return err_set(err, HEED_EFORMAT, "%.120s: x[%d] is less than the number before it",
                           where, i);
    return 0;
}

static int read_panel(struct panel *p, struct curve *curve, const json_t *value, const char *where,
                      struct err *err) {
    static const char *const known[] = {"title", "scale", "height", "curves", NULL};
    struct json_in in;
    const json_t *list = NULL;
    int64_t height = 240;
    int rc = json_in_begin(&in, value, where, err);
    if (!rc) rc = json_in_known(&in, known, err);
    if (!rc) rc = json_in_string(&in, "title", &p->title, err);
    if (!rc) rc = read_scale(&in, "scale", &p->scale, err);
    if (!rc && json_in_has(&in, "height")) rc = json_in_int(&in, "height", &height, err);
    if (!rc && (height < MIN_HEIGHT || height > MAX_HEIGHT))
        rc = json_in_expected(&in, "height", "40 to 1000 pixels", err);
    if (!rc) rc = read_list(&in, "curves", CHART_MAX_CURVES, &list, err);
    if (rc) return rc;
    p->height = (int)height;
    p->curve = curve;
    p->n_curve = (int)json_array_size(list);
    for (int i = 0; i < p->n_curve && !rc; i++) {
        char at[160];
        snprintf(at, sizeof at, "%.110s, curve %d", where, i + 1);
        rc = read_curve(&curve[i], json_array_get(list, (size_t)i), at, err);
    }
    return rc;
}

int chart_read(struct chart_file **file, const json_t *value, const char *where, struct err *err) {
    static const char *const known[] = {"title", "x", "x_scale", "panels", NULL};
    struct chart_file *f = *file = xcalloc(1, sizeof *f);
    struct chart *c = &f->chart;
    struct json_in in;
    const json_t *list = NULL;
    int rc = json_in_begin(&in, value, where, err);
    if (!rc) rc = json_in_known(&in, known, err);
    if (!rc) rc = json_in_string(&in, "title", &c->title, err);
    if (!rc) rc = json_in_string(&in, "x", &c->x_label, err);
    if (!rc) rc = read_scale(&in, "x_scale", &c->x_scale, err);
    if (!rc) rc = read_list(&in, "panels", CHART_MAX_PANELS, &list, err);
    c->panel = f->panel;
    c->n_panel = rc ? 0 : (int)json_array_size(list);
    for (int i = 0; i < c->n_panel && !rc; i++) {
        char at[128];
        snprintf(at, sizeof at, "%.80s: panel %d", where, i + 1);
        rc = read_panel(&f->panel[i], f->curve[i], json_array_get(list, (size_t)i), at, err);
    }
    if (rc) chart_free(f), *file = NULL;
    return rc;
}

const struct chart *chart_of(const struct chart_file *file) { return &file->chart; }

void chart_free(struct chart_file *file) {
    for (int i = 0; i < CHART_MAX_PANELS; i++)
        for (int k = 0; k < CHART_MAX_CURVES; k++) {
            xfree((void *)file->curve[i][k].x);
            xfree((void *)file->curve[i][k].y);
        }
    xfree(file);
}
