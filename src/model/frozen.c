/* frozen.c — see frozen.h.
 *
 * One view per row of the parameter table is all there is; where it points is what differs. A
 * directory that holds the precision asked for is mapped and viewed in place: opening costs the
 * header, the scales and the sinusoids, whatever the size of the model. Anything else is tiled into
 * one block of memory, matrices cut into runs of tiles that a pool works through; what has been
 * read of the source's mapping is given back at once, so that the process never holds two
 * copies.
 *
 * A backend that wants no tiles gets the same runs, straight from the mapping: a pool brings a
 * window of them into the type they will have there, and while it works on the next window the
 * device takes this one. f32 that stays f32 goes there untouched. */
#include "model/frozen.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/tile.h"
#include "base/mem.h"
#include "base/newdir.h"
#include "base/pool.h"
#include "model/modeldir.h"
#include "model/tilefile.h"

struct frozen {
    struct config config;
    struct param_table table;
    enum precision precision;
    enum dtype type;     /* of tiled matrices */
    struct mat *view;    /* [table.n_param]; NULL: no tiles, the weights are as md has them */
    struct mat position; /* [max_len, d_model] sinusoids in act type; absent when learned */
    struct modeldir md;  /* the mapping, where views point into it */
    struct model_notes notes;
    void *block; /* private memory, where they do not */
    size_t bytes;
    int64_t step; /* updates the weights have seen; -1: not known */
    int n_thread; /* for tiling and for bringing weights to a device; 0: all CPUs */
};

/* ---- precision ------------------------------------------------------------------------------- */

const char *const precision_names[] = {"auto", "f32", "bf16", "int8", NULL};

int precision_parse(enum precision *precision, const char *name, struct err *err) {
    int index = 0;
    struct err why;
    if (choice_parse(&index, precision_names, name, &why))
        return err_set(err, HEED_EINVAL, "precision: %s", why.msg);
    *precision = (enum precision)index;
    return 0;
}

const char *precision_name(enum precision precision) { return precision_names[precision]; }

static enum dtype matrix_type(enum precision precision) {
    return precision == PRECISION_INT8   ? DTYPE_I8
           : precision == PRECISION_BF16 ? DTYPE_BF16
                                         : DTYPE_F32;
}

static enum precision automatic(const struct weights_form *form, const struct backend *be) {
    if (form->tiled && form->type == DTYPE_I8) return PRECISION_INT8;
    int plain = be && !backend_wants_tiles(be);
    return plain && form->tiled && form->type == DTYPE_BF16 ? PRECISION_BF16 : PRECISION_F32;
}

/* What a directory of this form is run in, if `wanted` is. */
static int resolve(enum precision *out, enum precision wanted, const struct weights_form *form,
                   const char *dir, struct err *err) {
    int quantised = form->tiled && form->type == DTYPE_I8;
    *out = wanted;
    if (quantised && *out != PRECISION_INT8)
        return err_set(
            err, HEED_EINVAL,
            "%.120s: the weights are int8 and cannot be turned back into %s; use the model "
            "they were made from",
            dir, precision_name(*out));
    return 0;
}

/* ---- tiling ---------------------------------------------------------------------------------- */

/* Where values come from: a mapped directory of either form, a flat buffer laid out as the table
 * says, or whoever has them. */
struct source {
    const struct modeldir *md;
    const float *flat;
    const struct frozen_source *given;
};

/* Rows [first, last) of parameter i, in place or in scratch. first is a multiple of TILE_ROWS. */
static const float *source_rows(const struct source *s, const struct param *p, int i, int first,
                                int last, float *scratch) {
    size_t begin = (size_t)first * (size_t)p->cols;
    size_t count = (size_t)(last - first) * (size_t)p->cols;
    if (s->flat) return s->flat + p->offset + begin;
    if (s->md->view && s->md->view[i].tiled) {
        struct mat part = tile_slice(&s->md->view[i], first, last);
        tile_values(scratch, p->cols, &part, 0, tile_count(part.rows));
        return scratch;
    }
    modeldir_values(s->md, i, begin, count, scratch);
    return scratch;
}

/* The same rows will not be asked for again. */
static void source_done(const struct source *s, const struct param *p, int i, int first, int last) {
    if (!s->md) return;
    const struct tensor *t = s->md->tensor[i];
    size_t rows = param_is_matrix(p) && s->md->view ? tiled_rows(p->rows) : (size_t)p->rows;
    size_t row = t->size / rows, end = last == p->rows ? t->size : (size_t)last * row;
    file_map_forget(&s->md->weights.map, (const char *)t->data + (size_t)first * row,
                    end - (size_t)first * row);
}

/* A run of rows of one parameter: whole tiles of a matrix, or all of a vector. */
struct run {
    int param, first, last;
};

enum { RUN_VALUES = 1 << 17 }; /* wanted in a run: 512 KiB of f32 */

struct tiling {
    const struct frozen *f;
    const struct source *source;
    const struct run *run;
    float *scratch; /* [threads, most] */
    size_t most;
};

static int run_rows(const struct param *p) {
    int rows = RUN_VALUES / p->cols / TILE_ROWS * TILE_ROWS;
    if (!param_is_matrix(p) || rows > p->rows) return p->rows;
    return rows ? rows : TILE_ROWS;
}

static void store_plain(const struct mat *to, const float *from) {
    size_t n = (size_t)to->rows * (size_t)to->cols;
    if (to->type == DTYPE_F32) memcpy(to->data, from, n * sizeof *from);
    for (size_t i = 0; to->type == DTYPE_BF16 && i < n; i++)
        ((uint16_t *)to->data)[i] = bf16_store(from[i]);
}

/* The rows as they are given: values in scratch, or NULL where they were int8 and are in place. */
static const float *given_rows(const struct frozen_source *given, const struct run *r,
                               const struct mat *to, float *scratch) {
    struct frozen_rows rows = {.values = scratch};
    if (to->tiled) {
        rows.q = xmalloc((size_t)to->rows * (size_t)to->cols);
        rows.scale = xcalloc((size_t)to->rows, sizeof *rows.scale);
        rows.unit = (float *)(uintptr_t)to->unit;
        rows.zero = (float *)(uintptr_t)to->zero;
    }
    for (size_t i = (size_t)to->rows; rows.unit && i < tiled_rows(to->rows); i++)
        rows.unit[i] = 1, rows.zero[i] = 0;
    int is_int8 = given->rows(given->ctx, r->param, r->first, r->last, &rows);
    if (is_int8) tile_place(to, rows.q, to->cols, rows.scale, 0, tile_count(to->rows));
    xfree(rows.q);
    xfree(rows.scale);
    return is_int8 ? NULL : scratch;
}

static void freeze_run(void *ctx, int task, int thread) {
    const struct tiling *t = ctx;
    struct run r = t->run[task];
    const struct param *p = &t->f->table.param[r.param];
    float *scratch = t->scratch + (size_t)thread * t->most;
    struct mat to = t->f->view[r.param];
    if (to.tiled) to = tile_slice(&to, r.first, r.last);
    int n_tile = tile_count(to.rows);
    const float *from = t->source->given
                            ? given_rows(t->source->given, &r, &to, scratch)
                            : source_rows(t->source, p, r.param, r.first, r.last, scratch);
    if (!from) return;
    if (!to.tiled)
        store_plain(&to, from);
    else
        tile_pack(&to, from, p->cols, 0, n_tile);
    source_done(t->source, p, r.param, r.first, r.last);
}

/* Lays all views into the arena; over no memory it only measures. `given` may be NULL. */
static void carve(struct frozen *f, const struct frozen_source *given, struct arena *arena) {
    enum dtype act = tile_act_type(f->type);
    for (int i = 0; i < f->table.n_param; i++) {
        const struct param *p = &f->table.param[i];
        int tiled = param_is_matrix(p);
        struct mat *v = &f->view[i];
        *v = (struct mat){.ld = p->cols, .rows = p->rows, .cols = p->cols, .tiled = tiled};
        v->type = tiled ? f->type : act;
        v->data = arena_take(arena, tiled ? tiled_bytes(p->rows, p->cols, f->type)
                                          : (size_t)p->rows * (size_t)p->cols * dtype_size(act));
        if (!tiled || f->type != DTYPE_I8) continue;
        v->scale = arena_take(arena, tiled_rows(p->rows) * sizeof *v->scale);
        v->sum = arena_take(arena, tiled_rows(p->rows) * sizeof *v->sum);
        v->x_scale = given && given->x_scale ? given->x_scale(given->ctx, i) : 0;
        if (!(v->x_scale > 0)) continue;
        v->unit = arena_take(arena, tiled_rows(p->rows) * sizeof *v->unit);
        v->zero = arena_take(arena, tiled_rows(p->rows) * sizeof *v->zero);
    }
}

static int reserve(struct frozen *f, const struct frozen_source *given, struct err *err) {
    struct arena arena = {0};
    f->view = xcalloc((size_t)f->table.n_param, sizeof *f->view);
    carve(f, given, &arena);
    arena.cap = arena.used;
    arena.used = 0;
    f->block = arena.base = mem_block(arena.cap);
    if (!f->block)
        return err_set(err, HEED_ENOMEM, "cannot allocate %.1f MiB for %s weights",
                       (double)arena.cap / 1048576.0, precision_name(f->precision));
    carve(f, given, &arena);
    return 0;
}

/* All runs, in the order of the table; *most becomes the values of the largest. */
static struct run *list_runs(const struct param_table *table, int *n_run, size_t *most) {
    struct run *run = NULL;
    *most = 0;
    *n_run = 0;
    for (int pass = 0; pass < 2; pass++) {
        int n = 0;
        for (int i = 0; i < table->n_param; i++) {
            const struct param *p = &table->param[i];
            int rows = run_rows(p);
            size_t values = (size_t)rows * (size_t)p->cols;
            if (values > *most) *most = values;
            for (int first = 0; first < p->rows; first += rows, n++)
                if (run)
                    run[n] =
                        (struct run){i, first, p->rows - first < rows ? p->rows : first + rows};
        }
        if (!run) run = xcalloc((size_t)n, sizeof *run);
        *n_run = n;
    }
    return run;
}

/* Quantising marks a row with infinities or NaN by its scale; such a model is not worth running.
 * Scales that were given may be anything. */
static int check_finite(const struct frozen *f, struct err *err) {
    for (int i = 0; i < f->table.n_param; i++)
        for (int r = 0; f->view[i].scale && r < f->view[i].rows; r++) {
            float scale = f->view[i].scale[r];
            if (isnan(scale))
                return err_set(
                    err, HEED_EFORMAT,
                    "row %d of '%s' has values that are not finite, which int8 cannot hold", r,
                    f->table.param[i].name);
            if (!(scale > 0) || !isfinite(scale))
                return err_set(err, HEED_EFORMAT,
                               "row %d of '%s' has the scale %g, not a positive number", r,
                               f->table.param[i].name, (double)scale);
        }
    return 0;
}

static int tile_all(struct frozen *f, const struct source *source, struct err *err) {
    struct pool *pool = NULL;
    struct tiling t = {.f = f, .source = source};
    int n_run, rc = f->block ? 0 : reserve(f, NULL, err);
    if (rc || (rc = pool_new(&pool, f->n_thread, err))) return rc;
    struct run *run = list_runs(&f->table, &n_run, &t.most);
    t.run = run;
    t.scratch = mem_block(size_mul(size_mul((size_t)pool_size(pool), t.most), sizeof *t.scratch));
    if (t.scratch)
        pool_run(pool, freeze_run, &t, n_run);
    else
        rc = err_set(err, HEED_ENOMEM, "cannot allocate memory for tiling weights");
    mem_block_free(t.scratch);
    xfree(run);
    pool_free(pool);
    return rc ? rc : check_finite(f, err);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void begin(struct frozen *f, const struct config *config, enum precision precision) {
    f->config = *config;
    f->precision = precision;
    f->type = matrix_type(precision);
    param_table_init(&f->table, config);
}

/* The type of all weights where there are no tiles. */
static enum dtype plain_type(const struct frozen *f) {
    return f->precision == PRECISION_F32 ? DTYPE_F32 : DTYPE_BF16;
}

/* What remains once the views are there. */
static int finish(struct frozen *f, struct err *err) {
    if (!f->view) {
        f->bytes = f->table.n_value * dtype_size(plain_type(f));
        return 0;
    }
    for (int i = 0; i < f->table.n_param; i++) {
        const struct mat *v = &f->view[i];
        f->bytes += v->tiled ? tiled_bytes(v->rows, v->cols, v->type)
                             : (size_t)v->rows * (size_t)v->cols * dtype_size(v->type);
        if (v->scale) f->bytes += tiled_rows(v->rows) * (sizeof *v->scale + sizeof *v->sum);
        if (v->unit) f->bytes += tiled_rows(v->rows) * (sizeof *v->unit + sizeof *v->zero);
    }
    if (f->config.positions != POSITIONS_SINUSOIDAL) return 0;
    enum dtype act = tile_act_type(f->type);
    int n = f->config.max_len, d = f->config.d_model;
    f->position = (struct mat){.ld = d, .rows = n, .cols = d, .type = act};
    f->position.data = mem_block((size_t)n * (size_t)d * dtype_size(act));
    if (!f->position.data)
        return err_set(err, HEED_ENOMEM, "cannot allocate %d x %d position encodings", n, d);
    model_sinusoids(f->position.data, act, n, d);
    return 0;
}

int frozen_open(struct frozen **out, const char *dir, enum precision precision,
                const struct backend *be, int n_thread, struct err *err) {
    *out = NULL;
    struct frozen *f = xcalloc(1, sizeof *f);
    int rc = modeldir_open_any(&f->md, dir, err);
    if (!rc) rc = modeldir_verify(&f->md, dir, n_thread, err);
    if (!rc && precision == PRECISION_AUTO) precision = automatic(&f->md.form, be);
    if (!rc) rc = resolve(&precision, precision, &f->md.form, dir, err);
    if (!rc) {
        const struct weights_form *form = &f->md.form;
        begin(f, &f->md.config, precision);
        f->step = f->md.step;
        f->notes = f->md.notes;
        f->md.notes = (struct model_notes){0};
        f->n_thread = n_thread;
        if (be && !backend_wants_tiles(be)) {
            /* as they are */
        } else if (form->tiled && form->type == f->type) {
            f->view = f->md.view;
            f->md.view = NULL;
        } else {
            rc = tile_all(f, &(struct source){.md = &f->md}, err);
            modeldir_close(&f->md);
        }
    }
    if (!rc) rc = finish(f, err);
    if (rc)
        frozen_close(f);
    else
        *out = f;
    return rc;
}

int frozen_from_model(struct frozen **out, struct model *model, enum precision precision,
                      int n_thread, struct err *err) {
    *out = NULL;
    struct frozen *f = xcalloc(1, sizeof *f);
    begin(f, &model->config, precision == PRECISION_AUTO ? PRECISION_F32 : precision);
    f->step = -1;
    f->n_thread = n_thread;
    int rc = frozen_refresh(f, model, err);
    if (!rc) rc = finish(f, err);
    if (rc)
        frozen_close(f);
    else
        *out = f;
    return rc;
}

int frozen_from_rows(struct frozen **out, const struct config *config,
                     const struct frozen_source *given, int n_thread, struct err *err) {
    *out = NULL;
    struct frozen *f = xcalloc(1, sizeof *f);
    begin(f, config, PRECISION_INT8);
    f->step = -1;
    f->n_thread = n_thread;
    int rc = reserve(f, given, err);
    if (!rc) rc = tile_all(f, &(struct source){.given = given}, err);
    if (!rc) rc = finish(f, err);
    if (rc)
        frozen_close(f);
    else
        *out = f;
    return rc;
}

int frozen_refresh(struct frozen *f, struct model *model, struct err *err) {
    float *copy = NULL;
    int rc = 0;
    struct source source = {.flat = model->flat};
    if (!model->flat || model->type == DTYPE_F64 || backend_device_memory(model->be)) {
        size_t size = model->table.n_elem * sizeof *copy;
        if (!(copy = mem_block(size)))
            rc = err_set(err, HEED_ENOMEM, "cannot allocate %zu bytes for weights", size);
        else
            rc = model_get(model, copy, err);
        source.flat = copy;
    } else {
        rc = backend_sync(model->be, err);
    }
    if (!rc) rc = tile_all(f, &source, err);
    mem_block_free(copy);
    return rc;
}

void frozen_close(struct frozen *f) {
    if (!f) return;
    modeldir_close(&f->md);
    model_notes_release(&f->notes);
    mem_block_free(f->block);
    mem_block_free(f->position.data);
    param_table_release(&f->table);
    xfree(f->view);
    xfree(f);
}

const struct config *frozen_config(const struct frozen *f) { return &f->config; }
const struct model_notes *frozen_notes(const struct frozen *f) { return &f->notes; }
enum precision frozen_precision(const struct frozen *f) { return f->precision; }
void frozen_rest(const struct frozen *f) {
    const struct file_map *map = &f->md.weights.map;
    if (map->data) file_map_forget(map, map->data, map->size);
}

size_t frozen_bytes(const struct frozen *f) { return f->bytes; }

/* ---- model ----------------------------------------------------------------------------------- */

enum { WINDOW = 16 }; /* runs on their way at a time: 8 MiB of f32 */

struct upload {
    const struct frozen *f;
    struct source source;
    const struct run *run; /* of this window */
    enum dtype type;       /* wanted */
    size_t most;           /* values of the largest run */
    float *scratch;        /* [threads, most] */
    char *out;             /* [WINDOW, most] of the type */
    const void *ready[WINDOW];
    _Atomic int sick; /* a parameter that cannot be rounded to int8, plus 1 */
};

/* What int8 keeps of the values: the way to tiles and back, of a run that a cache holds. */
static void round_to_int8(struct upload *u, const struct run *r, float *values) {
    const struct param *p = &u->f->table.param[r->param];
    int rows = r->last - r->first;
    size_t padded = tiled_rows(rows), size = tiled_bytes(rows, p->cols, DTYPE_I8);
    char *block = xmalloc(size + padded * (sizeof(float) + sizeof(int32_t)));
    float *scale = (float *)(void *)(block + size);
    int32_t *sum = (int32_t *)(scale + padded);
    struct mat m = {.data = block,
                    .ld = p->cols,
                    .rows = rows,
                    .cols = p->cols,
                    .type = DTYPE_I8,
                    .tiled = 1,
                    .scale = scale,
                    .sum = sum};
    tile_pack(&m, values, p->cols, 0, tile_count(rows));
    tile_values(values, p->cols, &m, 0, tile_count(rows));
    for (int i = 0; i < rows; i++)
        if (!isfinite(scale[i])) u->sick = r->param + 1;
    xfree(block);
}

/* F32 in the file and wanted: the device may read it where it lies. */
static const void *in_place(const struct upload *u, const struct run *r) {
    const struct modeldir *md = u->source.md;
    const struct tensor *t = md->tensor[r->param];
    if (u->type != DTYPE_F32 || (md->view && md->view[r->param].tiled) ||
        strcmp(t->dtype, "F32") != 0)
        return NULL;
    size_t cols = (size_t)u->f->table.param[r->param].cols;
    return (const char *)t->data + (size_t)r->first * cols * sizeof(float);
}

static void prepare_run(void *ctx, int task, int thread) {
    struct upload *u = ctx;
    const struct run *r = &u->run[task];
    const struct param *p = &u->f->table.param[r->param];
    float *scratch = u->scratch + (size_t)thread * u->most;
    if ((u->ready[task] = in_place(u, r))) return;
    const float *from = source_rows(&u->source, p, r->param, r->first, r->last, scratch);
    int quantised = u->f->md.form.tiled && u->f->md.form.type == DTYPE_I8;
    if (u->f->precision == PRECISION_INT8 && !quantised && param_is_matrix(p))
        round_to_int8(u, r, scratch);
    struct mat to = {.data = u->out + (size_t)task * u->most * dtype_size(u->type),
                     .rows = r->last - r->first,
                     .cols = p->cols,
                     .type = u->type};
    store_plain(&to, from);
    u->ready[task] = to.data;
}

static void upload_window(struct upload *u, struct model *m, struct pool *pool, int n) {
    pool_run(pool, prepare_run, u, n);
    for (int i = 0; i < n; i++) {
        const struct run *r = &u->run[i];
        const struct param *p = &u->f->table.param[r->param];
        size_t first = p->offset + (size_t)r->first * (size_t)p->cols, size = dtype_size(u->type);
        backend_upload(m->be, (char *)m->copy + first * size, u->ready[i],
                       (size_t)(r->last - r->first) * (size_t)p->cols * size);
    }
}

static int copy_to_device(struct model **out, const struct frozen *f, struct backend *be,
                          struct err *err) {
    struct upload u = {.f = f, .source = {.md = &f->md}, .type = plain_type(f)};
    struct pool *pool;
    int n_run, rc = pool_new(&pool, f->n_thread, err);
    if (rc) return rc;
    struct run *run = list_runs(&f->table, &n_run, &u.most);
    u.scratch = mem_block(size_mul((size_t)pool_size(pool), u.most * sizeof *u.scratch));
    u.out = mem_block(size_mul(WINDOW, u.most * dtype_size(u.type)));
    if (!u.scratch || !u.out)
        rc = err_set(err, HEED_ENOMEM, "cannot allocate memory for bringing weights to a device");
    if (!rc) rc = model_new_frozen(out, &f->config, be, u.type, err);
    for (int first = 0; !rc && first < n_run; first += WINDOW) {
        u.run = run + first;
        upload_window(&u, *out, pool, n_run - first < WINDOW ? n_run - first : WINDOW);
    }
    if (!rc) rc = backend_sync(be, err);
    if (!rc && u.sick)
        rc = err_set(err, HEED_EFORMAT,
                     "'%s' has values that are not finite, which int8 cannot hold",
                     f->table.param[u.sick - 1].name);
    if (rc) {
        model_free(*out);
        *out = NULL;
    }
    mem_block_free(u.scratch);
    mem_block_free(u.out);
    xfree(run);
    pool_free(pool);
    return rc;
}

int frozen_model(struct model **out, const struct frozen *f, struct backend *be, struct err *err) {
    *out = NULL;
    if (!f->view != !backend_wants_tiles(be))
        return err_set(err, HEED_EDEVICE, "the weights were opened for another kind of device");
    if (!f->view) return copy_to_device(out, f, be, err);
    struct model *m = xcalloc(1, sizeof *m);
    m->config = f->config;
    m->be = be;
    m->type = tile_act_type(f->type);
    param_table_init(&m->table, &f->config);
    params_view(&m->w, &f->config, f->view);
    m->src_pos = m->tgt_pos = f->position;
    if (f->config.positions == POSITIONS_LEARNED) {
        m->src_pos = m->w.src_pos;
        m->tgt_pos = m->w.tgt_pos;
    }
    *out = m;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

int frozen_write_weights(const struct frozen *f, const char *path, struct err *err) {
    BUG_ON(!f->view);
    return tilefile_write(path, &f->table, f->view, f->type, f->step, err);
}

int frozen_write(const struct frozen *f, const char *dir, const char *from, struct err *err) {
    struct newdir new;
    int rc = newdir_begin(&new, dir, modeldir_files, err);
    if (rc) return rc;
    char *path = path_join(new.temp, MODELDIR_WEIGHTS);
    if (from) rc = modeldir_copy_tokenizers(new.temp, from, err);
    if (!rc) rc = frozen_write_weights(f, path, err);
    if (!rc) rc = modeldir_write_tiled_config(new.temp, &f->config, f->type, &f->notes, err);
    xfree(path);
    return newdir_end(&new, rc, err);
}
