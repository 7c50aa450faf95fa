/* checkpoint.c — see checkpoint.h for the protocol.
 *
 * state.safetensors: tensors m.NAME and v.NAME (F32, shapes of the parameters, in the order of the
 * table) and, where model.safetensors has the average, p.NAME, the parameters that learn; then
 * crc32c (U32): the checksums of this file's header, of every m, every v, every p, and of every
 * weight in model.safetensors. It comes last because the others are streamed: their sums are known
 * after them. The metadata hold step, n_batch and, as state.KEY, the trainer's state. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/modeldir.h"
#include "train/agree.h"

#define STATE_FILE   "state.safetensors"
#define CRC_TENSOR   "crc32c"
#define STATE_PREFIX "state."

enum { CHUNK = 1 << 16 /* values at a time */ };

/* The flat buffers that a state holds, by the first letter of their tensors' names: two, or three
 * with an average. */
static const char flat_letters[] = "mvp";

static int n_flat_of(const struct optimizer *opt) { return opt->avg ? 3 : 2; }

/* The parts of a checkpoint in the order of its files: the weights first. */
static const enum optimizer_part parts[2][4] = {{OPT_PARAMS, OPT_M, OPT_V},
                                                {OPT_AVERAGE, OPT_M, OPT_V, OPT_PARAMS}};
static enum optimizer_part part_of(const struct optimizer *opt, int i) {
    return parts[opt->avg != NULL][i];
}

/* ---- names ----------------------------------------------------------------------------------- */

char *checkpoint_path(const char *dir, int64_t step) {
    char name[40];
    snprintf(name, sizeof name, "ckpt-%08" PRId64, step);
    return path_join(dir, name);
}

static int ends_with(const char *name, const char *suffix) {
    size_t n = strlen(name), m = strlen(suffix);
    return n >= m && strcmp(name + n - m, suffix) == 0;
}

/* "ckpt-00000300" + suffix -> 300; anything else, also another spelling of the number, -> -1. */
static int64_t step_of(const char *name, const char *suffix) {
    char again[48];
    if (strncmp(name, "ckpt-", 5) != 0 || strlen(name) > 32) return -1;
    long long step = strtoll(name + 5, NULL, 10);
    snprintf(again, sizeof again, "ckpt-%08lld%s", step, suffix);
    return step >= 0 && strcmp(name, again) == 0 ? step : -1;
}

/* ---- listing --------------------------------------------------------------------------------- */

static int by_step(const void *a, const void *b) {
    const struct checkpoint *x = a, *y = b;
    return x->step < y->step ? -1 : x->step > y->step;
}

int checkpoint_list(struct checkpoint_list *list, const char *dir, struct err *err) {
    *list = (struct checkpoint_list){0};
    struct dir_names names;
    int rc = dir_read(&names, dir, err);
    if (rc) return rc;
    list->item = xcalloc((size_t)names.n + 1, sizeof *list->item);
    for (int i = 0; i < names.n; i++) {
        int64_t step = step_of(names.name[i], ""), old = step_of(names.name[i], ".old");
        if (step < 0 && old < 0) continue;
        char *proper = checkpoint_path(dir, old), *path = path_join(dir, names.name[i]);
        if ((step >= 0 || !dir_exists(proper)) && dir_exists(path))
            list->item[list->n++] =
                (struct checkpoint){.path = xstrdup(path), .step = step >= 0 ? step : old};
        xfree(path);
        xfree(proper);
    }
    dir_names_release(&names);
    qsort(list->item, (size_t)list->n, sizeof *list->item, by_step);
    return 0;
}

void checkpoint_list_release(struct checkpoint_list *list) {
    for (int i = 0; i < list->n; i++) xfree(list->item[i].path);
    xfree(list->item);
    *list = (struct checkpoint_list){0};
}

/* ---- what is saved --------------------------------------------------------------------------- */

/* Keys and values as allocated strings, ended by a NULL key. */
static struct metadata *make_metadata(const struct optimizer *opt, const struct state *state) {
    int n_item = state ? state->n_item : 0;
    struct metadata *list = xcalloc((size_t)n_item + 4, sizeof *list);
    char number[24];
    list[0] = (struct metadata){xstrdup("format"), xstrdup("heed")};
    snprintf(number, sizeof number, "%" PRId64, opt->step);
    list[1] = (struct metadata){xstrdup("step"), xstrdup(number)};
    snprintf(number, sizeof number, "%" PRId64, opt->n_batch);
    list[2] = (struct metadata){xstrdup("n_batch"), xstrdup(number)};
    for (int i = 0; i < n_item; i++) {
        char key[80];
        snprintf(key, sizeof key, STATE_PREFIX "%s", state->item[i].key);
        list[3 + i] = (struct metadata){xstrdup(key), state_item_format(&state->item[i])};
    }
    return list;
}

static void free_metadata(struct metadata *list) {
    for (struct metadata *m = list; m && m->key; m++) {
        xfree((void *)(uintptr_t)m->key);
        xfree((void *)(uintptr_t)m->value);
    }
    xfree(list);
}

/* What all ranks took part in has an end for all, also after a failure of this one. */
static int end_gathering(struct optimizer *opt, int rc, struct err *err) {
    struct comm *comm = opt->options.comm;
    if (!agree_alone(comm)) {
        struct err why = {0};
        int back = optimizer_discard(opt, &why);
        if (!rc && back) rc = back, *err = why;
    }
    return agree_with_first(comm, rc, err);
}

struct snapshot {
    const struct param_table *table; /* the model's, which does not change */
    int n_flat;
    float *flat; /* [1 + n_flat][table->n_elem]: the parts in the order of the files */
    int64_t step;
    struct metadata *metadata; /* of the state's file; NULL: nothing was taken yet */
};

size_t snapshot_bytes(const struct model *model, int ema) {
    return (size_t)(ema ? 4 : 3) * model->table.n_elem * sizeof(float);
}

int snapshot_new(struct snapshot **out, const struct optimizer *opt, struct err *err) {
    const struct model *model = opt->model;
    size_t size = snapshot_bytes(model, opt->avg != NULL);
    *out = NULL;
    if (model->type == DTYPE_F64) return err_set(err, HEED_EINVAL, "an f64 model cannot be saved");
    float *flat = mem_block(size);
    if (!flat)
        return err_set(err, HEED_ENOMEM,
                       "--save-aside: no %.1f GiB for a copy of what checkpoints hold", gib(size));
    memset(flat, 0, size); /* touched now, so that it is really there */
    *out = xcalloc(1, sizeof **out);
    **out = (struct snapshot){.table = &model->table, .n_flat = n_flat_of(opt), .flat = flat};
    return 0;
}

void snapshot_free(struct snapshot *s) {
    if (!s) return;
    free_metadata(s->metadata);
    mem_block_free(s->flat);
    xfree(s);
}

int snapshot_take(struct snapshot *s, struct optimizer *opt, const struct state *state,
                  struct err *err) {
    BUG_ON(opt->shown);
    struct model *model = opt->model;
    size_t n = model->table.n_elem;
    for (int i = 0; i < 1 + n_flat_of(opt); i++) {
        const void *flat = optimizer_gather(opt, part_of(opt, i));
        if (s) backend_download(model->be, s->flat + (size_t)i * n, flat, n * sizeof(float));
    }
    int rc = s ? backend_sync(model->be, err) : 0;
    if (s) {
        free_metadata(s->metadata);
        s->metadata = make_metadata(opt, state);
        s->step = opt->step;
    }
    return end_gathering(opt, rc, err);
}

/* ---- saving ---------------------------------------------------------------------------------- */

/* All that writing a checkpoint needs. Its parts come one after the other, from the optimizer or
 * from a copy. */
struct saving {
    struct safetensors_writer file;
    const struct param_table *table;
    const struct metadata *metadata; /* of the state's file */
    int64_t step;
    struct optimizer *opt; /* NULL: there is ... */
    const float *copy;     /* ... all of it in the host's memory */
    int n_begun;           /* parts whose turn has come */
    const float *flat;     /* the last of them */
    float *buffer;         /* [CHUNK] */
    uint32_t *crc;         /* [1 + (n_flat + 1) * n_param]: header, m, v, p, weights */
    int n_flat;
};

static void begin_part(struct saving *s) {
    int i = s->n_begun++;
    s->flat = s->opt ? optimizer_gather(s->opt, part_of(s->opt, i))
                     : s->copy + (size_t)i * s->table->n_elem;
}

/* Values of the part: a weights_source. */
static int get_values(void *ctx, size_t offset, size_t count, float *out, struct err *err) {
    const struct saving *s = ctx;
    if (!s->opt) {
        memcpy(out, s->flat + offset, count * sizeof *out);
        return 0;
    }
    backend_download(s->opt->model->be, out, s->flat + offset, count * sizeof *out);
    return backend_sync(s->opt->model->be, err);
}

static int save_flat(struct saving *s, uint32_t *crc, struct err *err) {
    begin_part(s);
    for (int i = 0; i < s->table->n_param; i++) {
        const struct param *p = &s->table->param[i];
        size_t n = (size_t)p->rows * (size_t)p->cols;
        crc[i] = 0;
        for (size_t done = 0; done < n;) {
            size_t count = n - done < CHUNK ? n - done : CHUNK;
            int rc = get_values(s, p->offset + done, count, s->buffer, err);
            if (rc) return rc;
            crc[i] = crc32c(crc[i], s->buffer, count * sizeof(float));
            safetensors_write(&s->file, s->buffer, count * sizeof(float));
            done += count;
        }
    }
    return 0;
}

/* m.NAME, v.NAME, p.NAME, crc32c. Names live in `names`, [n_flat * n_param]. */
static void describe(struct tensor_spec *spec, char (*names)[64], const struct param_table *table,
                     int n_flat) {
    int n = table->n_param;
    for (int i = 0; i < n_flat * n; i++) {
        const struct param *p = &table->param[i % n];
        snprintf(names[i], sizeof names[i], "%c.%s", flat_letters[i / n], p->name);
        spec[i] = (struct tensor_spec){.name = names[i], .dtype = "F32"};
        if (p->rows > 1) spec[i].shape[spec[i].rank++] = p->rows;
        spec[i].shape[spec[i].rank++] = p->cols;
    }
    spec[n_flat * n] = (struct tensor_spec){
        .name = CRC_TENSOR, .dtype = "U32", .rank = 1, .shape = {1 + (n_flat + 1) * n}};
}

/* s->crc already holds the weights' part. */
static int save_state(struct saving *s, const char *path, struct err *err) {
    size_t n = (size_t)s->table->n_param, n_flat = (size_t)s->n_flat;
    struct tensor_spec *spec = xcalloc(n_flat * n + 1, sizeof *spec);
    char(*names)[64] = xcalloc(n_flat * n, sizeof *names);
    describe(spec, names, s->table, s->n_flat);
    int rc = safetensors_create(&s->file, path, spec, (int)(n_flat * n + 1), s->metadata, err);
    xfree(names);
    xfree(spec);
    if (rc) return rc;
    s->crc[0] = s->file.header_crc;
    for (size_t i = 0; i < n_flat && !rc; i++) rc = save_flat(s, s->crc + 1 + i * n, err);
    if (rc) {
        safetensors_abort(&s->file);
        return rc;
    }
    safetensors_write(&s->file, s->crc, (1 + (n_flat + 1) * n) * sizeof *s->crc);
    return safetensors_commit(&s->file, err);
}

static int copy_from(const char *dir, const char *to, const char *name, struct err *err) {
    char *src = path_join(dir, name), *dst = path_join(to, name);
    int rc = file_copy(dst, src, err);
    xfree(src);
    xfree(dst);
    return rc;
}

static int save_weights(struct saving *s, const char *path, struct err *err) {
    struct weights_options options = {.step = s->step,
                                      .type = DTYPE_F32,
                                      .crc = s->crc + 1 +
                                             (size_t)s->n_flat * (size_t)s->table->n_param};
    begin_part(s);
    if (s->opt && s->opt->model->type == DTYPE_F64)
        return err_set(err, HEED_EINVAL, "%.180s: an f64 model cannot be saved", path);
    return weights_write(path, s->table, get_values, s, &options, err);
}

/* Everything of the checkpoint into the directory `temp`. */
static int fill(struct saving *s, const char *temp, const char *dir, struct err *err) {
    size_t n = (size_t)s->table->n_param, n_flat = (size_t)s->n_flat;
    int rc = copy_from(dir, temp, MODELDIR_CONFIG, err);
    if (!rc) rc = modeldir_copy_tokenizers(temp, dir, err);
    if (rc) return rc;
    s->buffer = xmalloc(CHUNK * sizeof(float));
    s->crc = xcalloc(1 + (n_flat + 1) * n, sizeof(uint32_t));
    char *weights = path_join(temp, MODELDIR_WEIGHTS), *path = path_join(temp, STATE_FILE);
    rc = save_weights(s, weights, err);
    if (!rc) rc = save_state(s, path, err);
    if (!rc) rc = dir_sync(temp, err);
    xfree(weights);
    xfree(path);
    xfree(s->buffer);
    xfree(s->crc);
    return rc;
}

/* temp gets its proper name; a checkpoint of the same step steps aside until then. */
static int take_name(const char *temp, const char *path, struct err *err) {
    char *old = path_append(path, ".old");
    int replaces = dir_exists(path), rc = 0;
    if (replaces) {
        rc = dir_remove(old, err);
        if (!rc) rc = file_rename(path, old, err);
    }
    if (!rc && (rc = file_rename(temp, path, err)) && replaces && !dir_exists(path))
        file_rename(old, path, NULL);
    if (!rc && replaces) dir_remove(old, NULL); /* checkpoint_clean removes what is left */
    xfree(old);
    return rc;
}

static int save_files(struct saving *s, const char *dir, struct err *err) {
    char *path = checkpoint_path(dir, s->step), *temp = path_append(path, ".tmp");
    int rc = dir_remove(temp, err);
    if (!rc) rc = dir_make(temp, err);
    if (!rc) rc = fill(s, temp, dir, err);
    if (!rc) rc = take_name(temp, path, err);
    if (rc) dir_remove(temp, NULL);
    xfree(temp);
    xfree(path);
    return rc;
}

int checkpoint_save(const char *dir, struct optimizer *opt, const struct state *state,
                    struct err *err) {
    BUG_ON(opt->shown);
    struct comm *comm = opt->options.comm;
    struct metadata *metadata = make_metadata(opt, state);
    struct saving s = {.table = &opt->model->table,
                       .metadata = metadata,
                       .step = opt->step,
                       .opt = opt,
                       .n_flat = n_flat_of(opt)};
    int rc = agree_first(comm) ? save_files(&s, dir, err) : 0;
    while (!agree_alone(comm) && s.n_begun < 1 + s.n_flat)
        begin_part(&s); /* after a failure, too */
    free_metadata(metadata);
    return end_gathering(opt, rc, err);
}

int snapshot_write(const struct snapshot *snapshot, const char *dir, struct err *err) {
    BUG_ON(!snapshot->metadata);
    struct saving s = {.table = snapshot->table,
                       .metadata = snapshot->metadata,
                       .step = snapshot->step,
                       .copy = snapshot->flat,
                       .n_flat = snapshot->n_flat};
    return save_files(&s, dir, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A checkpoint opened and checked, nothing loaded. */
struct opened {
    struct modeldir md;
    struct safetensors st;
    int n_flat;
    const struct tensor **flat; /* [n_flat * n_param]: m, v, p */
    const struct tensor *crc;
    int64_t step, n_batch;
};

static void opened_close(struct opened *o) {
    xfree(o->flat);
    safetensors_close(&o->st);
    modeldir_close(&o->md);
    *o = (struct opened){0};
}

static int read_counter(int64_t *value, const struct safetensors *st, const char *key,
                        const char *path, struct err *err) {
    const char *text = safetensors_metadata(st, key);
    char *end = NULL;
    *value = text ? strtoll(text, &end, 10) : -1;
    if (!text || end == text || *end || *value < 0)
        return err_set(err, HEED_EFORMAT, "%.120s: metadata '%s' is '%.30s'", path, key,
                       text ? text : "(missing)");
    return 0;
}

static int match_tensor(struct opened *o, int i, const char *path, struct err *err) {
    int n = o->md.table.n_param;
    const struct param *p = &o->md.table.param[i % n];
    char name[64];
    snprintf(name, sizeof name, "%c.%s", flat_letters[i / n], p->name);
    const struct tensor *t = o->flat[i] = safetensors_find(&o->st, name);
    if (!t) return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' is missing", path, name);
    int fits = p->rows > 1 ? t->rank == 2 && t->shape[0] == p->rows && t->shape[1] == p->cols
                           : t->rank == 1 && t->shape[0] == p->cols;
    if (!fits || strcmp(t->dtype, "F32") != 0)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' does not fit '%s' [%d, %d]", path,
                       name, p->name, p->rows, p->cols);
    return 0;
}

/* Does the state have parameters of its own, those beside it being an average? */
static int has_trained(const struct opened *o) {
    char name[64];
    snprintf(name, sizeof name, "p.%s", o->md.table.param[0].name);
    return safetensors_find(&o->st, name) != NULL;
}

/* The state file against the model beside it. */
static int match_state(struct opened *o, const char *path, struct err *err) {
    int n = o->md.table.n_param;
    o->n_flat = has_trained(o) ? 3 : 2;
    o->flat = xcalloc((size_t)o->n_flat * (size_t)n, sizeof(const struct tensor *));
    for (int i = 0; i < o->n_flat * n; i++) {
        int rc = match_tensor(o, i, path, err);
        if (rc) return rc;
    }
    o->crc = safetensors_find(&o->st, CRC_TENSOR);
    size_t n_crc = 1 + (size_t)(o->n_flat + 1) * (size_t)n;
    if (!o->crc || strcmp(o->crc->dtype, "U32") != 0 || o->crc->size != 4 * n_crc)
        return err_set(err, HEED_EFORMAT, "%.120s: the checksums are missing", path);
    if (o->st.n_tensor != o->n_flat * n + 1)
        return err_set(err, HEED_EFORMAT, "%.120s: %d tensors instead of %d", path, o->st.n_tensor,
                       o->n_flat * n + 1);
    int rc = read_counter(&o->step, &o->st, "step", path, err);
    if (!rc) rc = read_counter(&o->n_batch, &o->st, "n_batch", path, err);
    if (!rc && o->md.step != o->step)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: the state is of step %" PRId64
                       ", but the weights are of step %" PRId64,
                       path, o->step, o->md.step);
    return rc;
}

static int opened_init(struct opened *o, const char *path, struct err *err) {
    *o = (struct opened){0};
    int rc = modeldir_open(&o->md, path, err);
    if (rc) return rc;
    char *file = path_join(path, STATE_FILE);
    rc = safetensors_open(&o->st, file, err);
    if (!rc) rc = match_state(o, file, err);
    xfree(file);
    if (rc) opened_close(o);
    return rc;
}

/* The i-th stored checksum; the file need not be aligned. */
static uint32_t stored_crc(const struct opened *o, int i) {
    uint32_t crc;
    memcpy(&crc, (const char *)o->crc->data + 4 * (size_t)i, sizeof crc);
    return crc;
}

static int check_sums(const struct opened *o, const char *path, struct err *err) {
    int n = o->md.table.n_param, in_state = o->n_flat * n;
    if (crc32c(0, o->st.map.data, o->st.header_size) != stored_crc(o, 0))
        return err_set(err, HEED_EFORMAT,
                       "%.120s/" STATE_FILE ": damaged: wrong checksum of the header", path);
    for (int i = 0; i < in_state + n; i++) {
        const struct tensor *t = i < in_state ? o->flat[i] : o->md.tensor[i - in_state];
        if (crc32c(0, t->data, t->size) != stored_crc(o, 1 + i))
            return err_set(err, HEED_EFORMAT, "%.120s/%s: damaged: wrong checksum of '%.60s'", path,
                           i < in_state ? STATE_FILE : MODELDIR_WEIGHTS, t->name);
    }
    return 0;
}

struct reading {
    struct state *state;
    struct err *err;
};

static int read_item(void *ctx, const char *key, const char *value) {
    struct reading *r = ctx;
    size_t n = strlen(STATE_PREFIX);
    return strncmp(key, STATE_PREFIX, n) == 0 ? state_parse(r->state, key + n, value, r->err) : 0;
}

static int read_items(const struct safetensors *st, struct state *state, struct err *err) {
    return safetensors_metadata_each(st, read_item, &(struct reading){state, err});
}

/* *to becomes *from, whose memory it takes over. */
static void state_move(struct state *to, struct state *from) {
    state_release(to);
    *to = *from;
    *from = (struct state){0};
}

int checkpoint_read_state(const char *path, struct state *state, int64_t *step, struct err *err) {
    struct opened o;
    struct state found = {0};
    int rc = opened_init(&o, path, err);
    if (rc) return rc;
    if (crc32c(0, o.st.map.data, o.st.header_size) != stored_crc(&o, 0))
        rc = err_set(err, HEED_EFORMAT,
                     "%.120s/" STATE_FILE ": damaged: wrong checksum of the header", path);
    if (!rc) rc = read_items(&o.st, &found, err);
    if (!rc && step) *step = o.step;
    opened_close(&o);
    if (!rc) state_move(state, &found);
    state_release(&found);
    return rc;
}

int checkpoint_verify(const char *path, int deep, struct err *err) {
    struct opened o;
    int rc = opened_init(&o, path, err);
    if (rc) return rc;
    if (deep) rc = check_sums(&o, path, err);
    opened_close(&o);
    return rc;
}

/* ---- loading --------------------------------------------------------------------------------- */

/* A part of rank 0's, parameter by parameter: from `tensor` [n_param] of a file, or, where that is
 * NULL, from its model. It comes to all. */
static void deal(struct optimizer *opt, enum optimizer_part part, const struct tensor **tensor) {
    struct model *model = opt->model;
    struct comm *comm = opt->options.comm;
    float *buffer = xmalloc(CHUNK * sizeof *buffer);
    for (int i = 0; i < model->table.n_param; i++) {
        const struct param *p = &model->table.param[i];
        size_t n = (size_t)p->rows * (size_t)p->cols, count;
        for (size_t done = 0; done < n; done += count) {
            count = min_size(n - done, CHUNK);
            if (agree_first(comm) && tensor)
                memcpy(buffer, (const float *)tensor[i]->data + done, count * sizeof *buffer);
            else if (agree_first(comm))
                backend_download(model->be, buffer, (float *)model->flat + p->offset + done,
                                 count * sizeof *buffer);
            if (comm) comm_bcast(comm, buffer, count * sizeof *buffer, 0);
            optimizer_set(opt, part, p->offset + done, count, buffer);
        }
    }
    xfree(buffer);
}

/* Rank 0's model has the weights beside the state already: those of its average, if it has one. */
static int deal_parts(struct optimizer *opt, const struct opened *o, struct err *err) {
    struct model *model = opt->model;
    struct comm *comm = opt->options.comm;
    int n = model->table.n_param;
    if (!agree_alone(comm)) deal(opt, OPT_PARAMS, NULL);
    if (opt->avg) optimizer_take_average(opt);
    for (int i = 0; i < n_flat_of(opt); i++)
        deal(opt, part_of(opt, i + 1), agree_first(comm) ? o->flat + (ptrdiff_t)i * n : NULL);
    model_follow(model);
    backend_zero(model->be, opt->grads, model->table.n_elem * sizeof(float));
    int rc = backend_sync(model->be, err);
    return rc || !comm ? rc : comm_check(comm, err);
}

/* What rank 0 read comes to all. */
static int deal_state(struct comm *comm, struct state *state, struct err *err) {
    int n = state->n_item, rc = 0;
    if (agree_alone(comm)) return 0;
    comm_bcast(comm, &n, sizeof n, 0);
    const struct state_item *item = comm->rank == 0 ? state->item : NULL;
    for (int i = 0; i < n && !comm->err.code && !rc; i++) {
        char *value = item ? state_item_format(&item[i]) : NULL;
        char *key = item ? xstrdup(item[i].key) : NULL;
        size_t size[2] = {key ? strlen(key) + 1 : 0, value ? strlen(value) + 1 : 0};
        comm_bcast(comm, size, sizeof size, 0);
        if (!key) key = xcalloc(size[0] + 1, 1), value = xcalloc(size[1] + 1, 1);
        comm_bcast(comm, key, size[0], 0);
        comm_bcast(comm, value, size[1], 0);
        if (comm->rank != 0) rc = state_parse(state, key, value, err);
        xfree(key);
        xfree(value);
    }
    return rc ? rc : comm_check(comm, err);
}

static int check_average(const struct optimizer *opt, const struct opened *o, const char *path,
                         struct err *err) {
    if (o->n_flat == n_flat_of(opt)) return 0;
    if (opt->avg)
        return err_set(err, HEED_EINVAL,
                       "%.120s: the run has no moving average to go on with: leave --ema out, or "
                       "start over with --overwrite",
                       path);
    return err_set(err, HEED_EINVAL,
                   "%.120s: the run keeps a moving average of its weights: continue it with --ema, "
                   "or start over with --overwrite",
                   path);
}

/* Rank 0's part: everything that can fail. */
static int load_files(struct opened *o, const char *path, struct optimizer *opt,
                      struct state *found, struct err *err) {
    if (opt->model->type == DTYPE_F64)
        return err_set(err, HEED_EINVAL, "%.180s: an f64 model cannot continue from it", path);
    int rc = opened_init(o, path, err);
    if (!rc) rc = check_average(opt, o, path, err);
    if (!rc) rc = check_sums(o, path, err);
    if (!rc) rc = read_items(&o->st, found, err);
    return rc ? rc : model_load_weights(opt->model, &o->md, err);
}

int checkpoint_load(const char *path, struct optimizer *opt, struct state *state, struct err *err) {
    struct comm *comm = opt->options.comm;
    struct opened o = {0};
    struct state found = {0};
    int rc = agree_first(comm) ? load_files(&o, path, opt, &found, err) : 0;
    rc = agree_with_first(comm, rc, err);
    if (!rc) rc = deal_state(comm, &found, err);
    if (!rc) rc = deal_parts(opt, &o, err);
    if (!rc) {
        int64_t counter[2] = {o.step, o.n_batch};
        if (comm) comm_bcast(comm, counter, sizeof counter, 0);
        opt->step = counter[0];
        opt->n_batch = counter[1];
        if (state) state_move(state, &found);
    }
    state_release(&found);
    opened_close(&o);
    return rc;
}

int checkpoint_find_last(struct checkpoint_found *found, const char *dir, struct err *err) {
    *found = (struct checkpoint_found){.step = -1};
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    if (rc) return rc;
    for (int i = list.n - 1; i >= 0 && !found->path; i--) {
        struct err why = {0};
        if (checkpoint_verify(list.item[i].path, 1, &why) == 0) {
            found->path = xstrdup(list.item[i].path);
            found->step = list.item[i].step;
        } else if (found->n_damaged++ == 0) {
            found->damage = why;
        }
    }
    checkpoint_list_release(&list);
    return 0;
}

/* ---- keeping --------------------------------------------------------------------------------- */

/* A temporary file of base/file: NAME.PID-N.tmp. */
static int is_temp_file(const char *name) {
    const char *at = name + strlen(name) - (ends_with(name, ".tmp") ? 4 : 0);
    if (!*at) return 0;
    while (at > name && strchr("0123456789-link", at[-1])) at--;
    return at > name && at[-1] == '.' && at[0] >= '0' && at[0] <= '9' && strchr(at, '-');
}

static int clean_one(const char *dir, const char *name, struct err *err) {
    int64_t old = step_of(name, ".old");
    char *path = path_join(dir, name), *proper = checkpoint_path(dir, old);
    int rc = 0;
    if (step_of(name, ".tmp") >= 0 || (old >= 0 && dir_exists(proper)))
        rc = dir_remove(path, err);
    else if (old >= 0)
        rc = file_rename(path, proper, err);
    else if (is_temp_file(name) && !dir_exists(path) && file_calls.unlink(path))
        rc = err_set(err, HEED_EIO, "%.180s: cannot be removed", path);
    xfree(proper);
    xfree(path);
    return rc;
}

int checkpoint_clean(const char *dir, struct err *err) {
    struct dir_names names;
    int rc = dir_read(&names, dir, err);
    for (int i = 0; i < names.n && !rc; i++) rc = clean_one(dir, names.name[i], err);
    dir_names_release(&names);
    return rc;
}

/* Renamed first: a kill on the way leaves rubbish that is known as such, not half a checkpoint. */
static int remove_checkpoint(const char *path, struct err *err) {
    char *temp = path_append(path, ".tmp");
    int rc = dir_remove(temp, err);
    if (!rc) rc = file_rename(path, temp, err);
    if (!rc) rc = dir_remove(temp, err);
    xfree(temp);
    return rc;
}

int checkpoint_prune(const char *dir, int keep_last, int64_t keep_best, struct err *err) {
    BUG_ON(keep_last < 1);
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    for (int i = 0; i < list.n - keep_last && !rc; i++)
        if (list.item[i].step != keep_best) rc = remove_checkpoint(list.item[i].path, err);
    checkpoint_list_release(&list);
    return rc;
}

int checkpoint_drop(const char *dir, int64_t step, struct err *err) {
    char *path = checkpoint_path(dir, step);
    int rc = dir_exists(path) ? remove_checkpoint(path, err) : 0;
    xfree(path);
    return rc;
}

int checkpoint_forget(const char *dir, int64_t after, struct err *err) {
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    for (int i = list.n - 1; i >= 0 && !rc && list.item[i].step > after; i--)
        rc = remove_checkpoint(list.item[i].path, err); /* newest first: a kill leaves no gap */
    checkpoint_list_release(&list);
    return rc;
}

int checkpoint_publish(const char *dir, int64_t step, struct err *err) {
    char *from = checkpoint_path(dir, step), *src = path_join(from, MODELDIR_WEIGHTS),
         *dst = path_join(dir, MODELDIR_WEIGHTS);
    int rc = file_link(dst, src, err);
    xfree(from);
    xfree(src);
    xfree(dst);
    return rc;
}
