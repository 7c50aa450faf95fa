/* average.c — see average.h. Weights are mapped and averaged in chunks: memory does not grow with
 * models. */
#include "train/average.h"

#include <stdlib.h>
#include <string.h>

#include "backend/mat.h"
#include "base/mem.h"
#include "base/newdir.h"
#include "model/modeldir.h"
#include "train/plan.h"

struct averaging {
    struct modeldir *model; /* [n] */
    const char *const *dir;
    int n;
    double *sum; /* [cap] */
    float *part; /* [cap] */
    size_t cap;
};

/* ---- agreement ------------------------------------------------------------------------------- */

static int same_config(const struct averaging *a, int i, struct err *err) {
    const struct config *x = &a->model[0].config, *y = &a->model[i].config;
    char left[OPTION_TEXT], right[OPTION_TEXT];
    const struct option *o = plan_difference(x, y);
    if (!o) return 0;
    return err_set(err, HEED_EINVAL, "%s is %.20s in %.70s and %.20s in %.70s", o->name,
                   option_text(o, x, left), a->dir[0], option_text(o, y, right), a->dir[i]);
}

/* A file of their tokenizers; they also agree if neither has it. */
static int same_file(const char *dir, const char *other, const char *name, struct err *err) {
    char *path[2] = {path_join(dir, name), path_join(other, name)};
    struct file_map map[2] = {{0}, {0}};
    int there[2] = {file_exists(path[0]), file_exists(path[1])}, rc = 0;
    for (int i = 0; i < 2 && !rc; i++)
        if (there[i]) rc = file_map_open(&map[i], path[i], err);
    int equal = there[0] == there[1] && map[0].size == map[1].size &&
                (map[0].size == 0 || memcmp(map[0].data, map[1].data, map[0].size) == 0);
    if (!rc && !equal)
        rc = err_set(err, HEED_EINVAL, "%.110s and %.110s have different tokenizers", dir, other);
    for (int i = 0; i < 2; i++) {
        file_map_close(&map[i]);
        xfree(path[i]);
    }
    return rc;
}

static int same_tokenizer(const struct averaging *a, int i, struct err *err) {
    const json_t *first = a->model[0].notes.tokens, *tokens = a->model[i].notes.tokens;
    int rc = 0;
    for (const char *const *name = modeldir_tokenizer_files; *name && !rc; name++)
        rc = same_file(a->dir[0], a->dir[i], *name, err);
    if (!rc && first != tokens && !json_equal(first, tokens))
        rc = err_set(err, HEED_EINVAL, "%.110s and %.110s have different tokens in config.json",
                     a->dir[0], a->dir[i]);
    return rc;
}

static int open_all(struct averaging *a, struct err *err) {
    for (int i = 0; i < a->n; i++) {
        int rc = modeldir_open(&a->model[i], a->dir[i], err);
        if (!rc) rc = modeldir_verify(&a->model[i], a->dir[i], 0, err);
        if (!rc && i) rc = same_config(a, i, err);
        if (!rc && i) rc = same_tokenizer(a, i, err);
        if (rc) return rc;
    }
    return 0;
}

/* ---- averaging ------------------------------------------------------------------------------- */

/* The parameter that holds element `offset` of the flat buffer. */
static int param_at(const struct param_table *table, size_t offset) {
    int i = 0;
    while (i + 1 < table->n_param && table->param[i + 1].offset <= offset) i++;
    return i;
}

static int average_part(void *ctx, size_t offset, size_t count, float *out, struct err *err) {
    (void)err;
    struct averaging *a = ctx;
    const struct param_table *table = &a->model[0].table;
    int p = param_at(table, offset);
    if (count > a->cap) {
        a->cap = count;
        a->sum = xrealloc(a->sum, count * sizeof *a->sum);
        a->part = xrealloc(a->part, count * sizeof *a->part);
    }
    memset(a->sum, 0, count * sizeof *a->sum);
    for (int i = 0; i < a->n; i++) {
        modeldir_values(&a->model[i], p, offset - table->param[p].offset, count, a->part);
        for (size_t k = 0; k < count; k++) a->sum[k] += (double)a->part[k];
    }
    for (size_t k = 0; k < count; k++) out[k] = (float)(a->sum[k] / a->n);
    return 0;
}

static int write_average(const char *out, struct averaging *a, struct err *err) {
    const struct modeldir *last = &a->model[a->n - 1];
    struct newdir new;
    int rc = newdir_begin(&new, out, modeldir_files, err);
    if (rc) return rc;
    char *weights = path_join(new.temp, MODELDIR_WEIGHTS);
    struct weights_options options = {.step = last->step, .type = DTYPE_F32};
    struct model_notes notes = last->notes;
    notes.training = NULL;
    rc = modeldir_copy_tokenizers(new.temp, a->dir[a->n - 1], err);
    if (!rc) rc = modeldir_init(new.temp, &last->config, &notes, NULL, err);
    if (!rc) rc = weights_write(weights, &last->table, average_part, a, &options, err);
    xfree(weights);
    return newdir_end(&new, rc, err);
}

int average_models(const char *out, const char *const *dir, int n, struct err *err) {
    BUG_ON(n < 1);
    struct averaging a = {.model = xcalloc((size_t)n, sizeof *a.model), .dir = dir, .n = n};
    int rc = open_all(&a, err);
    if (!rc) rc = write_average(out, &a, err);
    for (int i = 0; i < n; i++) modeldir_close(&a.model[i]);
    xfree(a.model);
    xfree(a.sum);
    xfree(a.part);
    return rc;
}
