/* assembly_write.c — the weights of a foreign model as a file of ours (assembly.h).
 *
 * In the plain form a parameter is made in windows of rows, by all threads, and written; the next
 * one takes the same memory. Matrices have the type asked for, everything else is F32. int8 is the
 * business of model/frozen, which is given the source's integers as they are. */
#include "base/half.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "convert/assembly.h"
#include "io/safetensors.h"
#include "model/frozen.h"

enum {
    RUN_VALUES = 1 << 16,   /* what a thread takes at a time */
    WINDOW_VALUES = 1 << 22 /* what is in memory at a time */
};

struct writing {
    const struct assembly *a;
    struct pool *pool;
    enum foreign_dtype dtype;
    const struct foreign_options *options;
    size_t done;    /* values written */
    float *scratch; /* [threads, most] */
    size_t most;    /* values of the largest run */
};

/* ---- which type ------------------------------------------------------------------------------ */

/* The type that all matrices have; f32 holds any other mixture, but for int8. */
static enum foreign_dtype type_of(const struct assembly *a) {
    int n[FOREIGN_I8 + 1] = {0}, all = 0;
    for (int i = 0; i < a->table.n_param; i++)
        for (int k = 0; k < a->param[i].n && param_is_matrix(&a->table.param[i]); k++, all++)
            n[a->param[i].part[k].type]++;
    if (n[FOREIGN_I8]) return DTO_INT8;
    return n[FOREIGN_F16] == all ? DTO_F16 : n[FOREIGN_BF16] == all ? DTO_BF16 : DTO_F32;
}

/* Rows that a thread makes at a time. */
static int run_rows(const struct param *p) {
    return min_int(p->rows, max_int(RUN_VALUES / p->cols, 1));
}

/* ---- plain ----------------------------------------------------------------------------------- */

static enum foreign_dtype plain_type(const struct writing *w, int i) {
    int exact = w->a->param[i].factor == 1;
    return param_is_matrix(&w->a->table.param[i]) && exact ? w->dtype : DTO_F32;
}

struct window {
    struct writing *w;
    int param, first, last;
    enum foreign_dtype type;
    void *out;
};

static void make_plain(void *ctx, int task, int thread) {
    const struct window *v = ctx;
    struct writing *w = v->w;
    const struct param *p = &w->a->table.param[v->param];
    int rows = run_rows(p), first = v->first + task * rows;
    int last = v->last - first < rows ? v->last : first + rows;
    size_t at = (size_t)(first - v->first) * (size_t)p->cols;
    size_t n = (size_t)(last - first) * (size_t)p->cols;
    float *values = w->scratch + (size_t)thread * w->most;
    uint16_t *narrow = (uint16_t *)v->out + at;
    if (v->type == DTO_F32) {
        assembly_rows(w->a, v->param, first, last, (float *)v->out + at);
        return;
    }
    assembly_rows(w->a, v->param, first, last, values);
    for (size_t k = 0; k < n; k++)
        narrow[k] = v->type == DTO_F16 ? f16_store(values[k]) : bf16_store(values[k]);
}

static void write_plain_param(struct writing *w, struct safetensors_writer *file, int i,
                              void *out) {
    const struct param *p = &w->a->table.param[i];
    enum foreign_dtype type = plain_type(w, i);
    int run = run_rows(p), rows = max_int(WINDOW_VALUES / p->cols / run, 1) * run;
    for (int first = 0; first < p->rows; first += rows) {
        int last = p->rows - first < rows ? p->rows : first + rows;
        struct window v = {w, i, first, last, type, out};
        pool_run(w->pool, make_plain, &v, (last - first + run - 1) / run);
        size_t n = (size_t)(last - first) * (size_t)p->cols;
        safetensors_write(file, out, n * (type == DTO_F32 ? 4 : 2));
        w->done += n;
        if (w->options->progress)
            w->options->progress(w->options->progress_ctx,
                                 (double)w->done / (double)w->a->table.n_value);
    }
}

/* F32 first, so that all of it is aligned. */
static int write_plain(struct writing *w, const char *path, struct err *err) {
    static const char *const name[] = {[DTO_F32] = "F32", [DTO_F16] = "F16", [DTO_BF16] = "BF16"};
    const struct metadata metadata[] = {
        {"format", "heed"}, {SAFETENSORS_CHECKSUMS, ""}, {NULL, NULL}};
    const struct param_table *table = &w->a->table;
    struct tensor_spec *spec = xcalloc((size_t)table->n_param, sizeof *spec);
    int *order = xcalloc((size_t)table->n_param, sizeof *order), n = 0;
    struct safetensors_writer file;
    for (int wide = 1; wide >= 0; wide--)
        for (int i = 0; i < table->n_param; i++) {
            const struct param *p = &table->param[i];
            if ((plain_type(w, i) == DTO_F32) != wide) continue;
            spec[n] = (struct tensor_spec){.name = p->name, .dtype = name[plain_type(w, i)]};
            if (p->rows > 1) spec[n].shape[spec[n].rank++] = p->rows;
            spec[n].shape[spec[n].rank++] = p->cols;
            order[n++] = i;
        }
    void *out = mem_block(max_size(w->most, WINDOW_VALUES) * sizeof(float));
    int rc = out ? safetensors_create(&file, path, spec, n, metadata, err)
                 : err_set(err, HEED_ENOMEM, "cannot allocate memory for weights");
    if (!rc) {
        for (int k = 0; k < n; k++) write_plain_param(w, &file, order[k], out);
        rc = safetensors_commit(&file, err);
    }
    mem_block_free(out);
    xfree(order);
    xfree(spec);
    return rc;
}

/* ---- int8 ------------------------------------------------------------------------------------ */

static int give_rows(void *ctx, int i, int first, int last, const struct frozen_rows *to) {
    const struct assembly *a = ctx;
    int cols = a->table.param[i].cols, kept = to->q && assembly_is_int8(a, i);
    for (int r = first; r < last && kept; r++) {
        int8_t *q = to->q + (size_t)(r - first) * (size_t)cols;
        int32_t sum = 0;
        assembly_int8(a, i, r, q, &to->scale[r - first]);
        for (int j = 0; to->unit && j < cols; j++) sum += q[j];
        if (to->unit) assembly_leave(a, i, r, sum, &to->unit[r - first], &to->zero[r - first]);
    }
    if (!kept) assembly_rows(a, i, first, last, to->values);
    return kept;
}

static float give_x_scale(void *ctx, int i) { return assembly_x_scale(ctx, i); }

static int write_tiles(const struct assembly *a, const char *path, int n_thread, struct err *err) {
    struct frozen *frozen = NULL;
    struct frozen_source source = {give_rows, give_x_scale, (void *)(uintptr_t)a};
    int rc = frozen_from_rows(&frozen, &a->config, &source, n_thread, err);
    if (!rc) rc = frozen_write_weights(frozen, path, err);
    frozen_close(frozen);
    return rc;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static void count(struct foreign_report *report, const struct writing *w) {
    const struct param_table *table = &w->a->table;
    *report = (struct foreign_report){.dtype = w->dtype, .n_value = table->n_value};
    for (int i = 0; i < table->n_param; i++) {
        if (!param_is_matrix(&table->param[i])) continue;
        report->matrices++;
        report->kept += w->dtype == DTO_INT8 && assembly_is_int8(w->a, i);
    }
}

int assembly_write(const struct assembly *a, const char *path,
                   const struct foreign_options *options, struct foreign_report *report,
                   struct err *err) {
    struct writing w = {
        .a = a, .options = options, .dtype = options->dtype ? options->dtype : type_of(a)};
    count(report, &w);
    if (w.dtype == DTO_INT8) return write_tiles(a, path, options->n_thread, err);
    for (int i = 0; i < a->table.n_param; i++) {
        const struct param *p = &a->table.param[i];
        w.most = max_size(w.most, (size_t)run_rows(p) * (size_t)p->cols);
    }
    int rc = pool_new(&w.pool, options->n_thread, err);
    if (rc) return rc;
    w.scratch = mem_block(size_mul((size_t)pool_size(w.pool), w.most * sizeof *w.scratch));
    rc = w.scratch ? write_plain(&w, path, err)
                   : err_set(err, HEED_ENOMEM, "cannot allocate memory for converting weights");
    mem_block_free(w.scratch);
    pool_free(w.pool);
    return rc;
}
