/* tilefile.c — see tilefile.h. */
#include "model/tilefile.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/tile.h"
#include "base/mem.h"

static const char *file_type(enum dtype type) {
    return type == DTYPE_I8 ? "I8" : type == DTYPE_BF16 ? "BF16" : "F32";
}

/* ---- layout ---------------------------------------------------------------------------------- */

/* What a parameter is in the file: the tensor of its name and, for I8, those beside it. */
enum part {
    PART_VALUES,
    PART_SCALE,
    PART_SUM,
    PART_X_SCALE, /* this and what follows: all or none */
    PART_UNIT,
    PART_ZERO,
    PART_COUNT
};
static const char *const part_suffix[PART_COUNT] = {"",         ".scale", ".sum",
                                                    ".x_scale", ".unit",  ".zero"};

enum { NAME_SIZE = sizeof(((struct param *)NULL)->name) + 8 };

static void part_name(char name[NAME_SIZE], const struct param *p, enum part part) {
    snprintf(name, NAME_SIZE, "%s%s", p->name, part_suffix[part]);
}

/* The tensor that must be there; the name is the caller's. */
static struct tensor_spec part_spec(const struct param *p, enum part part, enum dtype type) {
    struct tensor_spec spec = {.rank = 1, .dtype = part == PART_SUM ? "I32" : "F32"};
    if (part != PART_VALUES) {
        spec.shape[0] = part == PART_X_SCALE ? 1 : (int64_t)tiled_rows(p->rows);
    } else if (param_is_matrix(p)) {
        spec = (struct tensor_spec){.rank = 4, .dtype = file_type(type)};
        spec.shape[0] = (int64_t)tiled_rows(p->rows) / TILE_ROWS;
        spec.shape[1] = (int64_t)tiled_lines(p->cols, type);
        spec.shape[2] = TILE_ROWS;
        spec.shape[3] = (int64_t)(4 / dtype_size(type));
    } else {
        spec.dtype = file_type(tile_act_type(type));
        spec.rank = 0;
        if (p->rows > 1) spec.shape[spec.rank++] = p->rows;
        spec.shape[spec.rank++] = p->cols;
    }
    return spec;
}

static int part_exists(const struct param *p, enum part part, enum dtype type) {
    return part == PART_VALUES || (type == DTYPE_I8 && param_is_matrix(p));
}

/* The same where there is a view, which says whether there is what need not be. */
static int view_has(const struct mat *view, const struct param *p, enum part part,
                    enum dtype type) {
    return part_exists(p, part, type) && (part < PART_X_SCALE || view->x_scale > 0);
}

int tilefile_tensors(const struct param_table *table, const struct mat *view, enum dtype type) {
    int n = 0;
    for (int i = 0; i < table->n_param; i++)
        for (int part = 0; part < PART_COUNT; part++)
            n += view_has(&view[i], &table->param[i], (enum part)part, type);
    return n;
}

/* ---- reading --------------------------------------------------------------------------------- */

struct file {
    const struct safetensors *st;
    const char *path;
    enum dtype type; /* of matrices */
};

static int match_part(const void **data, const struct file *file, const struct param *p,
                      enum part part, struct err *err) {
    const char *path = file->path;
    enum dtype type = file->type;
    char name[NAME_SIZE], is[64], wanted[64];
    part_name(name, p, part);
    struct tensor_spec spec = part_spec(p, part, type);
    const struct tensor *t = safetensors_find(file->st, name);
    if (!t && part == PART_X_SCALE) return 0;
    if (!t) return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' is missing", path, name);
    tensor_shape_text(is, sizeof is, t->shape, t->rank);
    tensor_shape_text(wanted, sizeof wanted, spec.shape, spec.rank);
    if (strcmp(t->dtype, spec.dtype) != 0 || strcmp(is, wanted) != 0)
        return err_set(err, HEED_EFORMAT, "%.70s: tensor '%s' is %s %s, the model's is %s %s", path,
                       name, t->dtype, is, spec.dtype, wanted);
    int small = part == PART_X_SCALE || (part == PART_VALUES && !param_is_matrix(p));
    size_t align = small ? dtype_size(tile_act_type(type)) : (size_t)TILE_LINE_BYTES;
    if ((uintptr_t)t->data % align)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' does not begin at a multiple of %zu",
                       path, name, align);
    *data = t->data;
    return 0;
}

static int check_scales(const float *scale, const struct param *p, enum part part, const char *path,
                        struct err *err) {
    size_t n = part == PART_X_SCALE ? 1 : tiled_rows(p->rows);
    int any = part == PART_ZERO;
    for (size_t i = 0; scale && i < n; i++)
        if (!isfinite(scale[i]) || !(scale[i] > 0 || any))
            return err_set(err, HEED_EFORMAT,
                           "%.120s: tensor '%s%s': %g in row %zu is not a %snumber", path, p->name,
                           part_suffix[part], (double)scale[i], i, any ? "" : "positive ");
    return 0;
}

int tilefile_match(struct mat *view, const struct safetensors *st, const struct param *p,
                   enum dtype type, const char *path, struct err *err) {
    const void *data[PART_COUNT] = {NULL};
    for (int part = 0; part < PART_COUNT; part++) {
        if (!part_exists(p, (enum part)part, type)) continue;
        if (part > PART_X_SCALE && !data[PART_X_SCALE]) continue;
        int rc = match_part(&data[part], &(struct file){st, path, type}, p, (enum part)part, err);
        if (rc) return rc;
    }
    int tiled = param_is_matrix(p);
    *view = (struct mat){.data = (void *)(uintptr_t)data[PART_VALUES],
                         .ld = p->cols,
                         .rows = p->rows,
                         .cols = p->cols,
                         .type = tiled ? type : tile_act_type(type),
                         .tiled = tiled,
                         .scale = data[PART_SCALE],
                         .sum = data[PART_SUM],
                         .unit = data[PART_UNIT],
                         .zero = data[PART_ZERO]};
    static const enum part numbers[] = {PART_SCALE, PART_X_SCALE, PART_UNIT, PART_ZERO};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        int rc = check_scales(data[numbers[k]], p, numbers[k], path, err);
        if (rc) return rc;
    }
    if (data[PART_X_SCALE]) view->x_scale = *(const float *)data[PART_X_SCALE];
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* A tensor to be written. Tiles come first, then scales and sums: their sizes are multiples of 64,
 * so all of them stay aligned. Vectors of any size and single numbers end the file. */
struct item {
    char name[NAME_SIZE];
    const void *data;
    size_t size;
};

static struct item make_item(const struct param *p, enum part part, const struct mat *view) {
    struct item item = {.data = part == PART_SCALE     ? (const void *)view->scale
                                : part == PART_SUM     ? (const void *)view->sum
                                : part == PART_X_SCALE ? (const void *)&view->x_scale
                                : part == PART_UNIT    ? (const void *)view->unit
                                : part == PART_ZERO    ? (const void *)view->zero
                                                       : view->data};
    part_name(item.name, p, part);
    item.size = part == PART_X_SCALE  ? sizeof view->x_scale
                : part != PART_VALUES ? tiled_rows(p->rows) * 4
                : view->tiled         ? tiled_bytes(p->rows, p->cols, view->type)
                                      : (size_t)p->rows * (size_t)p->cols * dtype_size(view->type);
    return item;
}

static int list_items(struct item *item, struct tensor_spec *spec, const struct param_table *table,
                      const struct mat *view, enum dtype type) {
    static const struct {
        enum part part;
        int matrix;
    } order[] = {{PART_VALUES, 1}, {PART_SCALE, 1},  {PART_SUM, 1},    {PART_UNIT, 1},
                 {PART_ZERO, 1},   {PART_VALUES, 0}, {PART_X_SCALE, 1}};
    int n = 0;
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        for (int i = 0; i < table->n_param; i++) {
            const struct param *p = &table->param[i];
            if (param_is_matrix(p) != order[k].matrix ||
                !view_has(&view[i], p, order[k].part, type))
                continue;
            item[n] = make_item(p, order[k].part, &view[i]);
            spec[n] = part_spec(p, order[k].part, type);
            spec[n].name = item[n].name;
            n++;
        }
    return n;
}

int tilefile_write(const char *path, const struct param_table *table, const struct mat *view,
                   enum dtype type, int64_t step, struct err *err) {
    size_t most = (size_t)tilefile_tensors(table, view, type);
    struct item *item = xcalloc(most, sizeof *item);
    struct tensor_spec *spec = xcalloc(most, sizeof *spec);
    int n = list_items(item, spec, table, view, type);
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, step);
    struct metadata metadata[] = {{"format", "heed"},
                                  {SAFETENSORS_CHECKSUMS, ""},
                                  {step >= 0 ? "step" : NULL, text},
                                  {NULL, NULL}};
    struct safetensors_writer w;
    int rc = safetensors_create(&w, path, spec, n, metadata, err);
    if (!rc) {
        for (int i = 0; i < n; i++) safetensors_write(&w, item[i].data, item[i].size);
        rc = safetensors_commit(&w, err);
    }
    xfree(spec);
    xfree(item);
    return rc;
}
