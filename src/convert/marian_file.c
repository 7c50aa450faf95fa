/* marian_file.c — see marian_file.h. */
#include "convert/marian_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "io/npy.h"
#include "io/yaml.h"

/* ---- names ----------------------------------------------------------------------------------- */

const char *marian_file_named(const struct bundle *b, const char *path) {
    for (int i = 0; i < bundle_count(b); i++)
        if (strcmp(base_name(bundle_name(b, i)), base_name(path)) == 0) return bundle_name(b, i);
    return NULL;
}

static int is_bin(struct bundle *b, const char *name) {
    const void *data;
    size_t size;
    return ends_with(name, ".bin") && !bundle_get(b, name, 0, &data, &size, NULL) &&
           marianbin_looks(data, size);
}

int marian_file_is_weights(struct bundle *b, const char *name) {
    return ends_with(name, ".npz") || is_bin(b, name);
}

const char *marian_file_find(struct bundle *b) {
    const char *given = bundle_main(b);
    if (given && marian_file_is_weights(b, given)) return given;
    const char *name = bundle_ending(b, ".npz");
    for (int i = 0; i < bundle_count(b) && !name; i++)
        if (is_bin(b, bundle_name(b, i))) name = bundle_name(b, i);
    return name;
}

/* ---- tensors --------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    const struct marian_item *x = a, *y = b;
    return strcmp(x->tensor.name, y->tensor.name);
}

static int open_npz(struct marian_file *f, const void *data, size_t size, struct keep *keep,
                    struct err *err) {
    int rc = zipfile_open_bytes(&f->npz, data, size, f->where, err);
    if (rc) return rc;
    f->item = xcalloc((size_t)zipfile_count(f->npz) + 1, sizeof *f->item);
    for (int i = 0; i < zipfile_count(f->npz) && !rc; i++) {
        const char *name = zipfile_name(f->npz, i), *bytes;
        size_t length = strlen(name);
        if (ends_with(name, ".npy")) length -= 4;
        name = keep_text(keep, name, length);
        rc = zipfile_view(f->npz, i, SIZE_MAX, &bytes, &size, err);
        if (!rc) rc = npy_read(&f->item[i].tensor, bytes, size, f->where, name, err);
        f->n_item += !rc;
    }
    return rc;
}

static int open_bin(struct marian_file *f, const void *data, size_t size, struct err *err) {
    int rc = marianbin_read(&f->bin, data, size, f->where, err);
    if (rc) return rc;
    f->item = xcalloc((size_t)f->bin.n + 1, sizeof *f->item);
    f->n_item = f->bin.n;
    for (int i = 0; i < f->n_item; i++)
        f->item[i] = (struct marian_item){.tensor = f->bin.item[i].tensor,
                                          .scale = f->bin.item[i].scale,
                                          .turned = f->bin.item[i].turned};
    return 0;
}

struct marian_item *marian_file_item(const struct marian_file *f, const char *name) {
    struct marian_item key = {.tensor.name = name};
    return f->n_item ? bsearch(&key, f->item, (size_t)f->n_item, sizeof key, by_name) : NULL;
}

static int read_settings(struct marian_file *f, struct err *err) {
    struct marian_item *yml = marian_file_item(f, "special:model.yml");
    if (!yml || strcmp(yml->tensor.dtype, "I8") != 0)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: no special:model.yml in it; this is no translation model of Marian",
                       f->where);
    yml->used = 1;
    const char *text = yml->tensor.data;
    int rc =
        yaml_in_text(&f->model, text, strnlen(text, yml->tensor.size), "special:model.yml", err);
    if (!rc && !json_is_object(f->model))
        rc = err_set(err, HEED_EFORMAT, "%.120s: special:model.yml has no settings", f->where);
    return rc;
}

int marian_file_open(struct marian_file *f, struct bundle *b, const char *name, struct keep *keep,
                     struct err *err) {
    const void *data;
    size_t size;
    f->where = xstrdup(name);
    int rc = bundle_get(b, name, 0, &data, &size, err);
    if (!rc && ends_with(name, ".npz"))
        rc = open_npz(f, data, size, keep, err);
    else if (!rc)
        rc = open_bin(f, data, size, err);
    if (rc) return rc;
    if (f->n_item) qsort(f->item, (size_t)f->n_item, sizeof *f->item, by_name);
    for (int i = 1; i < f->n_item; i++)
        if (by_name(&f->item[i - 1], &f->item[i]) == 0)
            return err_set(err, HEED_EFORMAT, "%.120s: %.60s is there twice", f->where,
                           f->item[i].tensor.name);
    return read_settings(f, err);
}

void marian_file_close(struct marian_file *f) {
    zipfile_close(f->npz);
    marianbin_release(&f->bin);
    json_decref(f->model);
    xfree(f->item);
    xfree(f->where);
    *f = (struct marian_file){0};
}
