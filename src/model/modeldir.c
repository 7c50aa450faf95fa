/* modeldir.c — see modeldir.h. */
#include "model/modeldir.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "backend/backend.h"
#include "backend/tile.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "io/json.h"
#include "model/card.h"
#include "model/tilefile.h"

enum { FORMAT_VERSION = 1, TILED_VERSION = 2, CHUNK = 1 << 16 /* values at a time */ };
#define TILED_LAYOUT "tile16"

#define TOKENIZER_FILES                                                                            \
    MODELDIR_TOKENIZER, MODELDIR_TARGET_TOKENIZER, MODELDIR_TOKENS, MODELDIR_TARGET_TOKENS
const char *const modeldir_tokenizer_files[] = {TOKENIZER_FILES, NULL};
const char *const modeldir_files[] = {
    MODELDIR_CONFIG, MODELDIR_WEIGHTS, TOKENIZER_FILES,
    /* CTranslate2's */
    MODELDIR_CTRANSLATE2, MODELDIR_VOCABULARY, "source_vocabulary.json", "target_vocabulary.json",
    "source.spm", "target.spm",
    /* Hugging Face's */
    "generation_config.json", "vocab.json", "target_vocab.json", "tokenizer_config.json", NULL};
enum { N_TOKENIZER_FILE = sizeof modeldir_tokenizer_files / sizeof(char *) - 1 };

/* ---- config ---------------------------------------------------------------------------------- */

/* A field with a default may be absent. */
json_t *config_to_json(const struct config *config) {
    struct config defaults = {0};
    json_t *object = json_out_options(config_rows, config);
    options_default(config_rows, &defaults);
    for (const struct option *o = config_rows; o->name; o++)
        if (o->def && option_equal(o, config, &defaults)) json_object_del(object, o->name);
    return object;
}

/* A number must be a number here, where an options file may also have its text. */
static int set_from_json(struct config *config, const struct option *o, const struct json_in *in,
                         struct err *err) {
    const json_t *value = json_object_get(in->object, o->name);
    struct err why = {0};
    if (o->kind == OPTION_INT && !json_is_integer(value))
        return json_in_expected(in, o->name, "a whole number", err);
    if (o->kind == OPTION_F32 && !json_is_number(value))
        return json_in_expected(in, o->name, "a number", err);
    if (o->kind == OPTION_CHOICE && !json_is_string(value))
        return json_in_expected(in, o->name, "a string", err);
    if (json_in_option(o, config, value, NULL, &why) == 0) return 0;
    return err_set(err, HEED_EFORMAT, "%.100s: %s: %.150s", in->where, o->name, why.msg);
}

int config_from_json(struct config *config, const json_t *object, const char *where,
                     struct err *err) {
    struct json_in in;
    int rc = json_in_begin(&in, object, where, err);
    if (rc) return rc;
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)object, key, value) {
        const struct option *o = option_find(config_rows, key, strlen(key));
        if (!o || strcmp(o->name, key) != 0)
            return err_set(err, HEED_EFORMAT, "%.120s: there is no field '%.60s'", where, key);
        if ((rc = set_from_json(config, o, &in, err))) return rc;
    }
    return 0;
}

static const struct {
    const char *name;
    enum dtype type;
} weights_types[] = {{"f32", DTYPE_F32}, {"bf16", DTYPE_BF16}, {"int8", DTYPE_I8}};
enum { N_WEIGHTS_TYPE = sizeof weights_types / sizeof weights_types[0] };

const char *weights_type_name(enum dtype type) {
    for (int i = 0; i < N_WEIGHTS_TYPE; i++)
        if (weights_types[i].type == type) return weights_types[i].name;
    return "?";
}

/* What binds weights to their tokenizer: the hash of DIR/tokenizer.model as text, "" where there is
 * none; of the hashes of all such files (16 zero bytes for one that is absent), where it is not the
 * only one. */
enum { DIGEST_SIZE = 40 };
#define DIGEST_KIND "xxh128:"

static int hash_file(XXH128_hash_t *hash, const char *dir, const char *name, int *n,
                     struct err *err) {
    struct file_map map = {0};
    char *path = path_join(dir, name);
    int there = file_exists(path), rc = there ? file_map_open(&map, path, err) : 0;
    if (there && !rc) *hash = XXH3_128bits(map.data, map.size);
    *n += there;
    file_map_close(&map);
    xfree(path);
    return rc;
}

static int tokenizer_digest(char digest[DIGEST_SIZE], const char *dir, struct err *err) {
    XXH128_hash_t hash = {0}, one;
    XXH128_canonical_t all[N_TOKENIZER_FILE] = {0};
    int n = 0, rc = 0;
    digest[0] = 0;
    for (int i = 0; i < N_TOKENIZER_FILE && !rc; i++) {
        int before = n;
        rc = hash_file(&one, dir, modeldir_tokenizer_files[i], &n, err);
        if (n == before || rc) continue;
        XXH128_canonicalFromHash(&all[i], one);
        hash = i == 0 ? one : XXH3_128bits(all, sizeof all);
    }
    if (n && !rc)
        snprintf(digest, DIGEST_SIZE, DIGEST_KIND "%016llx%016llx", (unsigned long long)hash.high64,
                 (unsigned long long)hash.low64);
    return rc;
}

/* The tokenizer must be the one that the configuration was written beside. */
static int check_tokenizer(const char *dir, const char *digest, struct err *err) {
    char is[DIGEST_SIZE];
    int rc = tokenizer_digest(is, dir, err);
    if (rc || !is[0] || !digest[0] || strcmp(is, digest) == 0) return rc;
    return err_set(err, HEED_EFORMAT,
                   "%.120s: " MODELDIR_TOKENIZER
                   " is not the tokenizer that this model was trained with",
                   dir);
}

void model_notes_release(struct model_notes *notes) {
    json_decref(notes->training);
    json_decref(notes->card);
    json_decref(notes->translate);
    json_decref(notes->tokens);
    *notes = (struct model_notes){0};
}

/* Sets the object of that name, or removes it. */
static void put(json_t *root, const char *key, json_t *object) {
    if (object)
        json_object_set(root, key, object);
    else
        json_object_del(root, key);
}

/* Takes the reference. */
static int write_root(const char *dir, json_t *root, const struct model_notes *notes,
                      struct err *err) {
    char digest[DIGEST_SIZE], *path = path_join(dir, MODELDIR_CONFIG);
    int rc = tokenizer_digest(digest, dir, err);
    if (!rc && digest[0]) json_object_set_new(root, "tokenizer", json_string(digest));
    if (notes) put(root, "card", notes->card);
    if (notes) put(root, "translate", notes->translate);
    if (notes) put(root, "tokens", notes->tokens);
    if (!rc) rc = json_out_file(path, root, err);
    xfree(path);
    json_decref(root);
    return rc;
}

int modeldir_write_config(const char *dir, const struct config *config,
                          const struct model_notes *notes, struct err *err) {
    json_t *root = json_pack("{s:s, s:i, s:o}", "format", "heed", "version", FORMAT_VERSION,
                             "model", config_to_json(config));
    if (notes) put(root, "training", notes->training);
    return write_root(dir, root, notes, err);
}

int modeldir_write_tiled_config(const char *dir, const struct config *config, enum dtype type,
                                const struct model_notes *notes, struct err *err) {
    json_t *root = json_pack("{s:s, s:i, s:{s:s, s:s}, s:o}", "format", "heed", "version",
                             TILED_VERSION, "weights", "layout", TILED_LAYOUT, "type",
                             weights_type_name(type), "model", config_to_json(config));
    return write_root(dir, root, notes, err);
}

/* The "model" object: every field without a default must be there. */
static int read_model_fields(struct config *config, const struct json_in *in, struct err *err) {
    const json_t *model;
    int rc = json_in_object(in, "model", &model, err);
    options_default(config_rows, config);
    for (const struct option *o = config_rows; o->name && !rc; o++)
        if (!o->def && !json_object_get(model, o->name))
            rc = err_set(err, HEED_EFORMAT, "%.120s: model: '%s' is missing", in->where, o->name);
    if (!rc) rc = config_from_json(config, model, in->where, err);
    struct err why = {0};
    if (!rc && (rc = config_check(config, &why)))
        return err_set(err, HEED_EFORMAT, "%.100s: %.150s", in->where, why.msg);
    return rc;
}

/* The "weights" object of a tiled model. */
static int read_form(struct weights_form *form, const struct json_in *in, struct err *err) {
    static const char *const keys[] = {"layout", "type", NULL};
    const json_t *object;
    const char *layout = "", *type = "";
    struct json_in weights;
    int rc = json_in_object(in, "weights", &object, err);
    if (!rc) rc = json_in_begin(&weights, object, in->where, err);
    if (!rc) rc = json_in_known(&weights, keys, err);
    if (!rc) rc = json_in_string(&weights, "layout", &layout, err);
    if (!rc) rc = json_in_string(&weights, "type", &type, err);
    if (rc) return rc;
    if (strcmp(layout, TILED_LAYOUT) != 0)
        return json_in_expected(&weights, "layout", "\"" TILED_LAYOUT "\"", err);
    for (int i = 0; i < N_WEIGHTS_TYPE; i++)
        if (strcmp(type, weights_types[i].name) == 0) {
            *form = (struct weights_form){.tiled = 1, .type = weights_types[i].type};
            return 0;
        }
    return json_in_expected(&weights, "type", "\"f32\", \"bf16\" or \"int8\"", err);
}

/* What config.json says. */
struct description {
    struct config config;
    struct weights_form form;
    char tokenizer[DIGEST_SIZE]; /* "": nothing */
    struct model_notes notes;
};

static int read_digest(struct description *d, const struct json_in *in, struct err *err) {
    const char *text = "";
    int rc = json_in_has(in, "tokenizer") ? json_in_string(in, "tokenizer", &text, err) : 0;
    if (!rc && *text &&
        (strncmp(text, DIGEST_KIND, strlen(DIGEST_KIND)) != 0 ||
         strlen(text) != strlen(DIGEST_KIND) + 32))
        rc = json_in_expected(in, "tokenizer", "\"" DIGEST_KIND "\" and 32 digits", err);
    if (!rc) snprintf(d->tokenizer, sizeof d->tokenizer, "%s", text);
    return rc;
}

/* One of the notes, as a copy of its own; NULL where there is none. */
static int read_note(json_t **note, const struct json_in *in, const char *key, struct err *err) {
    const json_t *object;
    if (!json_in_has(in, key)) return 0;
    int rc = json_in_object(in, key, &object, err);
    if (!rc) *note = json_deep_copy(object);
    return rc;
}

static int read_notes(struct model_notes *notes, const struct json_in *in, struct err *err) {
    struct card card;
    int rc = read_note(&notes->training, in, "training", err);
    if (!rc) rc = read_note(&notes->card, in, "card", err);
    if (!rc) rc = read_note(&notes->translate, in, "translate", err);
    if (!rc) rc = read_note(&notes->tokens, in, "tokens", err);
    return rc ? rc : card_from_json(&card, notes->card, in->where, err);
}

static int read_root(struct description *d, const json_t *root, const char *where,
                     struct err *err) {
    static const char *const plain_keys[] = {
        "format", "version", "model", "tokenizer", "training", "card", "translate", "tokens", NULL};
    static const char *const tiled_keys[] = {
        "format", "version", "model", "tokenizer", "weights", "card", "translate", "tokens", NULL};
    struct json_in in;
    const char *format = "";
    int64_t version = 0;
    int rc = json_in_begin(&in, root, where, err);
    if (!rc) rc = json_in_string(&in, "format", &format, err);
    if (!rc && strcmp(format, "heed") != 0) return json_in_expected(&in, "format", "\"heed\"", err);
    if (!rc) rc = json_in_int(&in, "version", &version, err);
    if (!rc && version != FORMAT_VERSION && version != TILED_VERSION)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: version %" PRId64
                       " is not supported; this program reads versions %d and %d",
                       where, version, FORMAT_VERSION, TILED_VERSION);
    if (!rc) rc = json_in_known(&in, version == TILED_VERSION ? tiled_keys : plain_keys, err);
    if (!rc) rc = read_model_fields(&d->config, &in, err);
    if (!rc) rc = read_digest(d, &in, err);
    if (!rc && version == TILED_VERSION) rc = read_form(&d->form, &in, err);
    return rc ? rc : read_notes(&d->notes, &in, err);
}

int modeldir_check_files(const char *dir, struct err *err) {
    int rc = 0;
    for (int i = 0; modeldir_files[i] && !rc; i++) {
        struct stat st;
        char *path = path_join(dir, modeldir_files[i]);
        if (!stat(path, &st) && !S_ISREG(st.st_mode))
            rc = err_set(err, HEED_EIO, "%.180s: not a regular file", path);
        xfree(path);
    }
    return rc;
}

/* config.json as it is (a new reference, if wanted) and what it says, to be released. */
static int read_config(const char *dir, struct description *d, json_t **kept, struct err *err) {
    *d = (struct description){0};
    char *path = path_join(dir, MODELDIR_CONFIG), *foreign = path_join(dir, MODELDIR_CTRANSLATE2);
    json_t *root = NULL;
    int rc = modeldir_check_files(dir, err);
    if (!rc) rc = json_in_file(&root, path, err);
    int theirs = file_exists(foreign) || json_object_get(root, "model_type");
    if (!rc && !json_object_get(root, "format") && theirs)
        rc = err_set(err, HEED_EFORMAT,
                     "%.120s: a model of %s; heed import makes a heed model of it", dir,
                     file_exists(foreign) ? "CTranslate2" : "Hugging Face");
    if (!rc) rc = read_root(d, root, path, err);
    if (kept) *kept = json_incref(root);
    json_decref(root);
    xfree(path);
    xfree(foreign);
    return rc;
}

static int refuse_tiled(const char *dir, const struct weights_form *form, struct err *err) {
    if (!form->tiled) return 0;
    return err_set(
        err, HEED_EFORMAT,
        "%.120s: an exported %s model can be run and fine-tuned, but not averaged or changed; use "
        "the model it was exported from",
        dir, weights_type_name(form->type));
}

int modeldir_read_any(const char *dir, struct config *config, struct weights_form *form,
                      struct model_notes *notes, struct err *err) {
    struct description d;
    int rc = read_config(dir, &d, NULL, err);
    *config = d.config;
    *form = d.form;
    if (notes)
        *notes = d.notes;
    else
        model_notes_release(&d.notes);
    return rc;
}

int modeldir_read_config(const char *dir, struct config *config, struct model_notes *notes,
                         struct err *err) {
    struct weights_form form;
    int rc = modeldir_read_any(dir, config, &form, notes, err);
    return rc ? rc : refuse_tiled(dir, &form, err);
}

int modeldir_annotate(const char *dir, const struct model_notes *notes, struct err *err) {
    struct description d;
    json_t *root = NULL;
    char *path = path_join(dir, MODELDIR_CONFIG);
    int rc = read_config(dir, &d, &root, err);
    if (!rc) {
        put(root, "card", notes->card);
        put(root, "translate", notes->translate);
        rc = json_out_file(path, root, err);
    }
    model_notes_release(&d.notes);
    json_decref(root);
    xfree(path);
    return rc;
}

static int copy_to(const char *path, const char *source, struct err *err) {
    int rc = 0;
    char *from = realpath(source, NULL), *to = realpath(path, NULL);
    if (!from || !to || strcmp(from, to) != 0) rc = file_copy(path, source, err);
    free(from);
    free(to);
    return rc;
}

int modeldir_copy_tokenizer(const char *dir, const char *tokenizer, struct err *err) {
    char *path = path_join(dir, MODELDIR_TOKENIZER);
    int rc = copy_to(path, tokenizer, err);
    xfree(path);
    return rc;
}

int modeldir_copy_tokenizers(const char *dir, const char *from, struct err *err) {
    int rc = 0;
    for (int i = 0; i < N_TOKENIZER_FILE && !rc; i++) {
        char *path = path_join(dir, modeldir_tokenizer_files[i]),
             *source = path_join(from, modeldir_tokenizer_files[i]);
        if (file_exists(source))
            rc = copy_to(path, source, err);
        else if (file_exists(path) && remove(path))
            rc = err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
        xfree(path);
        xfree(source);
    }
    return rc;
}

int modeldir_has_tongues(const char *dir) {
    int has = 0;
    for (int i = 1; i < N_TOKENIZER_FILE && !has; i++) {
        char *path = path_join(dir, modeldir_tokenizer_files[i]);
        has = file_exists(path);
        xfree(path);
    }
    return has;
}

int modeldir_init(const char *dir, const struct config *config, const struct model_notes *notes,
                  const char *tokenizer, struct err *err) {
    int rc = dir_make(dir, err);
    if (!rc && tokenizer) rc = modeldir_copy_tokenizer(dir, tokenizer, err);
    return rc ? rc : modeldir_write_config(dir, config, notes, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A vector is [n] in the file; [1, n] is understood too. */
static int shape_fits(const struct tensor *t, const struct param *p) {
    if (t->rank == 2) return t->shape[0] == p->rows && t->shape[1] == p->cols;
    return t->rank == 1 && p->rows == 1 && t->shape[0] == p->cols;
}

static int match_tensor(const struct tensor **out, const struct safetensors *st,
                        const struct param *p, const char *path, struct err *err) {
    const struct tensor *t = safetensors_find(st, p->name);
    char shape[80];
    if (!t) return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' is missing", path, p->name);
    tensor_shape_text(shape, sizeof shape, t->shape, t->rank);
    if (!shape_fits(t, p))
        return err_set(err, HEED_EFORMAT,
                       "%.100s: tensor '%s' has shape %s, the model's is [%d, %d]", path, p->name,
                       shape, p->rows, p->cols);
    if (!tensor_is_float(t))
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%s' is %s, not F32, BF16 or F16", path,
                       p->name, t->dtype);
    *out = t;
    return 0;
}

static int match_plain(struct modeldir *md, const char *path, struct err *err) {
    const struct param_table *table = &md->table;
    for (int i = 0; i < table->n_param; i++) {
        int rc = match_tensor(&md->tensor[i], &md->weights, &table->param[i], path, err);
        if (rc) return rc;
    }
    for (int i = 0; i < md->weights.n_tensor; i++)
        if (!param_table_find(table, md->weights.tensor[i].name))
            return err_set(err, HEED_EFORMAT, "%.120s: the model has no tensor '%.60s'", path,
                           md->weights.tensor[i].name);
    return 0;
}

static int match_tiled(struct modeldir *md, const char *path, struct err *err) {
    const struct param_table *table = &md->table;
    md->view = xcalloc((size_t)table->n_param, sizeof *md->view);
    for (int i = 0; i < table->n_param; i++) {
        const struct param *p = &table->param[i];
        int rc = tilefile_match(&md->view[i], &md->weights, p, md->form.type, path, err);
        if (rc) return rc;
        md->tensor[i] = safetensors_find(&md->weights, p->name);
    }
    int n = tilefile_tensors(table, md->view, md->form.type); /* all of them have been found */
    if (md->weights.n_tensor != n)
        return err_set(err, HEED_EFORMAT, "%.120s: %d tensors instead of %d", path,
                       md->weights.n_tensor, n);
    return 0;
}

static int read_step(struct modeldir *md, const char *path, struct err *err) {
    const char *text = safetensors_metadata(&md->weights, "step");
    char *end;
    md->step = -1;
    if (!text) return 0;
    long long step = strtoll(text, &end, 10);
    if (end == text || *end || step < 0)
        return err_set(err, HEED_EFORMAT, "%.120s: metadata 'step' is '%.30s'", path, text);
    md->step = step;
    return 0;
}

int modeldir_open_any(struct modeldir *md, const char *dir, struct err *err) {
    *md = (struct modeldir){0};
    if (!dir_exists(dir)) return err_set(err, HEED_EIO, "%.180s: no such model directory", dir);
    struct description d;
    int rc = read_config(dir, &d, NULL, err);
    md->notes = d.notes;
    if (!rc) rc = check_tokenizer(dir, d.tokenizer, err);
    if (rc) {
        modeldir_close(md);
        return rc;
    }
    md->config = d.config;
    md->form = d.form;
    param_table_init(&md->table, &md->config);
    md->tensor = xcalloc((size_t)md->table.n_param, sizeof(const struct tensor *));
    char *path = path_join(dir, MODELDIR_WEIGHTS);
    rc = safetensors_open(&md->weights, path, err);
    if (!rc) rc = md->form.tiled ? match_tiled(md, path, err) : match_plain(md, path, err);
    if (!rc) rc = read_step(md, path, err);
    xfree(path);
    if (rc) modeldir_close(md);
    return rc;
}

int modeldir_open(struct modeldir *md, const char *dir, struct err *err) {
    int rc = modeldir_open_any(md, dir, err);
    if (!rc && (rc = refuse_tiled(dir, &md->form, err))) modeldir_close(md);
    return rc;
}

void modeldir_close(struct modeldir *md) {
    xfree(md->tensor);
    xfree(md->view);
    safetensors_close(&md->weights);
    param_table_release(&md->table);
    model_notes_release(&md->notes);
    *md = (struct modeldir){0};
}

int modeldir_verify(const struct modeldir *md, const char *dir, int n_thread, struct err *err) {
    char *path = path_join(dir, MODELDIR_WEIGHTS);
    int rc = safetensors_verify(&md->weights, path, n_thread, err);
    xfree(path);
    return rc;
}

void modeldir_values(const struct modeldir *md, int i, size_t first, size_t count, float *out) {
    if (!md->view || !md->view[i].tiled) {
        tensor_values(md->tensor[i], first, count, out);
        return;
    }
    const struct mat *m = &md->view[i];
    BUG_ON(first + count > (size_t)m->rows * (size_t)m->cols);
    for (size_t k = first; k < first + count; k++)
        out[k - first] =
            (float)tile_value(m, (int)(k / (size_t)m->cols), (int)(k % (size_t)m->cols));
}

/* ---- model ----------------------------------------------------------------------------------- */

/* Same tensors, same shapes? What does not change them (dropout, smoothing) may differ. */
static int same_table(const struct param_table *a, const struct param_table *b, struct err *err) {
    for (int i = 0; i < a->n_param || i < b->n_param; i++) {
        const struct param *p = i < a->n_param ? &a->param[i] : NULL,
                           *q = i < b->n_param ? &b->param[i] : NULL;
        if (p && q && strcmp(p->name, q->name) == 0 && p->rows == q->rows && p->cols == q->cols)
            continue;
        return err_set(err, HEED_EFORMAT,
                       "weights of another model: '%s' [%d, %d], not '%s' [%d, %d]",
                       q ? q->name : "", q ? q->rows : 0, q ? q->cols : 0, p ? p->name : "",
                       p ? p->rows : 0, p ? p->cols : 0);
    }
    return 0;
}

static void load_param(float *to, const struct modeldir *md, int i) {
    const struct param *p = &md->table.param[i];
    if (md->view && md->view[i].tiled)
        tile_values(to, p->cols, &md->view[i], 0, tile_count(p->rows));
    else
        modeldir_values(md, i, 0, (size_t)p->rows * (size_t)p->cols, to);
}

int model_load_weights(struct model *model, const struct modeldir *md, struct err *err) {
    int rc = same_table(&model->table, &md->table, err);
    if (rc) return rc;
    size_t size = model->table.n_elem * sizeof(float);
    float *flat = mem_block(size);
    if (!flat) return err_set(err, HEED_ENOMEM, "cannot allocate %zu bytes for weights", size);
    memset(flat, 0, size);
    for (int i = 0; i < model->table.n_param; i++)
        load_param(flat + model->table.param[i].offset, md, i);
    rc = model_set(model, flat, err);
    mem_block_free(flat);
    return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

static void describe(struct tensor_spec *spec, const struct param_table *table, const char *dtype) {
    for (int i = 0; i < table->n_param; i++) {
        const struct param *p = &table->param[i];
        spec[i] = (struct tensor_spec){.name = p->name, .dtype = dtype};
        if (p->rows > 1) spec[i].shape[spec[i].rank++] = p->rows;
        spec[i].shape[spec[i].rank++] = p->cols;
    }
}

struct writing {
    struct safetensors_writer file;
    weights_source *source;
    void *ctx;
    enum dtype type;
    float *buffer; /* [CHUNK] */
};

/* One parameter in chunks: got, narrowed if need be, summed up, written. */
static int write_param(struct writing *w, const struct param *p, uint32_t *crc, struct err *err) {
    size_t n = (size_t)p->rows * (size_t)p->cols;
    float *buffer = w->buffer;
    *crc = 0;
    for (size_t done = 0; done < n;) {
        size_t count = n - done < CHUNK ? n - done : CHUNK, size = count * sizeof(float);
        int rc = w->source(w->ctx, p->offset + done, count, buffer, err);
        if (rc) return rc;
        if (w->type == DTYPE_BF16) {
            uint16_t *narrow = (uint16_t *)(void *)buffer; /* never ahead of what is to be read */
            for (size_t i = 0; i < count; i++) {
                uint16_t half = bf16_store(buffer[i]);
                memcpy(&narrow[i], &half, sizeof half);
            }
            size = count * sizeof *narrow;
        }
        *crc = crc32c(*crc, buffer, size);
        safetensors_write(&w->file, buffer, size);
        done += count;
    }
    return 0;
}

int weights_write(const char *path, const struct param_table *table, weights_source *source,
                  void *ctx, const struct weights_options *options, struct err *err) {
    BUG_ON(options->type != DTYPE_F32 && options->type != DTYPE_BF16);
    char step[24];
    snprintf(step, sizeof step, "%" PRId64, options->step);
    struct metadata metadata[] = {{"format", "heed"},
                                  {SAFETENSORS_CHECKSUMS, ""},
                                  {options->step >= 0 ? "step" : NULL, step},
                                  {NULL, NULL}};
    struct tensor_spec *spec = xcalloc((size_t)table->n_param, sizeof *spec);
    describe(spec, table, options->type == DTYPE_F32 ? "F32" : "BF16");
    struct writing w = {.source = source, .ctx = ctx, .type = options->type};
    int rc = safetensors_create(&w.file, path, spec, table->n_param, metadata, err);
    xfree(spec);
    if (rc) return rc;
    w.buffer = xmalloc(CHUNK * sizeof *w.buffer);
    for (int i = 0; i < table->n_param && !rc; i++) {
        uint32_t crc;
        rc = write_param(&w, &table->param[i], &crc, err);
        if (options->crc) options->crc[i] = crc;
    }
    xfree(w.buffer);
    if (!rc) return safetensors_commit(&w.file, err);
    safetensors_abort(&w.file);
    return rc;
}

static int from_model(void *ctx, size_t offset, size_t count, float *out, struct err *err) {
    struct model *m = ctx;
    backend_download(m->be, out, (const float *)m->flat + offset, count * sizeof *out);
    return backend_sync(m->be, err);
}

int model_save(struct model *model, const char *path, const struct weights_options *options,
               struct err *err) {
    if (model->type == DTYPE_F64)
        return err_set(err, HEED_EINVAL, "%.180s: an f64 model cannot be saved", path);
    if (!model->flat)
        return err_set(err, HEED_EINVAL, "%.180s: the model is frozen: frozen_write saves it",
                       path);
    return weights_write(path, &model->table, from_model, model, options, err);
}
