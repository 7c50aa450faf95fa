/* marian_file.h — the tensors of a model of Marian, from an .npz or a .bin.
 *
 * Names of files in a configuration were written on another machine, so only what follows the last
 * slash counts. Tensors point into the bundle, which must live as long; what is taken besides
 * belongs to the struct. */
#ifndef CONVERT_MARIAN_FILE_H
#define CONVERT_MARIAN_FILE_H

#include <jansson.h>
#include <string.h>

#include "base/keep.h"
#include "convert/bundle.h"
#include "io/marianbin.h"
#include "io/zipfile.h"

/* One tensor. */
struct marian_item {
    struct tensor tensor;
    float scale; /* as in io/marianbin.h */
    int turned, used;
};

struct marian_file {
    char *where;              /* begins messages: the path of the file */
    struct zipfile *npz;      /* or NULL, */
    struct marianbin bin;     /* or empty */
    struct marian_item *item; /* by name */
    int n_item;
    json_t *model; /* special:model.yml: the settings, an object */
};

/* The file of the bundle that has the weights, or NULL; that was given, if it is one. */
const char *marian_file_find(struct bundle *bundle);
int marian_file_is_weights(struct bundle *bundle, const char *name);

/* The file of this name, wherever it lies in the bundle; or NULL. */
const char *marian_file_named(const struct bundle *bundle, const char *path);

/* Opens the weights. Names of tensors are taken from keep. To be closed, after an error too; an
 * empty file ({0}) may be closed. */
int marian_file_open(struct marian_file *file, struct bundle *bundle, const char *name,
                     struct keep *keep, struct err *err);
void marian_file_close(struct marian_file *file);

struct marian_item *marian_file_item(const struct marian_file *file, const char *name);

static inline int ends_with(const char *name, const char *ending) {
    size_t n = strlen(name), m = strlen(ending);
    return n >= m && strcmp(name + n - m, ending) == 0;
}

static inline const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

#endif
