/* bundle.c — see bundle.h. */
#include "convert/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/json.h"

enum { MOST_NAMES = 10000 };

struct entry {
    char *name;
    struct file_map map; /* once somebody wanted it */
    int is_open;
};

struct bundle {
    char *path, *dir; /* as given; where the files are */
    char *main;
    struct entry *entry;
    int n, cap;
};

/* ---- names ----------------------------------------------------------------------------------- */

static void add_name(struct bundle *b, char *name) {
    if (b->n == b->cap) {
        b->cap = b->cap ? 2 * b->cap : 32;
        b->entry = xrealloc(b->entry, (size_t)b->cap * sizeof *b->entry);
    }
    b->entry[b->n++] = (struct entry){.name = name};
}

/* The files of a directory under this prefix, and those of the directories in it. */
static int list_dir(struct bundle *b, const char *prefix, int depth, struct err *err) {
    struct dir_names names;
    char *dir = path_join(b->dir, prefix);
    int rc = dir_read(&names, dir, err);
    for (int i = 0; i < names.n && !rc; i++) {
        char *name = *prefix ? path_join(prefix, names.name[i]) : xstrdup(names.name[i]);
        char *path = path_join(b->dir, name);
        if (b->n >= MOST_NAMES)
            rc = err_set(err, HEED_ELIMIT, "%.180s: more than %d files", b->path, MOST_NAMES);
        else if (!dir_exists(path))
            add_name(b, name), name = NULL;
        else if (depth)
            rc = list_dir(b, name, depth - 1, err);
        xfree(path);
        xfree(name);
    }
    dir_names_release(&names);
    xfree(dir);
    return rc;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* ---- life ------------------------------------------------------------------------------------ */

int bundle_open(struct bundle **out, const char *path, struct err *err) {
    struct bundle *b = xcalloc(1, sizeof *b);
    int rc = 0;
    b->path = xstrdup(path);
    *out = NULL;
    if (dir_exists(path)) {
        b->dir = xstrdup(path);
    } else if (file_exists(path)) {
        const char *slash = strrchr(path, '/');
        b->dir = path_parent(path);
        b->main = xstrdup(slash ? slash + 1 : path);
    } else {
        rc = err_set(err, HEED_EIO, "%.180s: no such file or directory", path);
    }
    if (!rc) rc = list_dir(b, "", b->main ? 0 : 1, err);
    if (b->n) qsort(b->entry, (size_t)b->n, sizeof *b->entry, by_name);
    if (rc)
        bundle_close(b);
    else
        *out = b;
    return rc;
}

void bundle_close(struct bundle *b) {
    if (!b) return;
    for (int i = 0; i < b->n; i++) {
        if (b->entry[i].is_open) file_map_close(&b->entry[i].map);
        xfree(b->entry[i].name);
    }
    xfree(b->entry);
    xfree(b->path);
    xfree(b->dir);
    xfree(b->main);
    xfree(b);
}

const char *bundle_path(const struct bundle *b) { return b->path; }
const char *bundle_main(const struct bundle *b) { return b->main; }
int bundle_count(const struct bundle *b) { return b->n; }
const char *bundle_name(const struct bundle *b, int i) { return b->entry[i].name; }

static struct entry *find(const struct bundle *b, const char *name) {
    struct entry key = {.name = (char *)(uintptr_t)name};
    return b->n ? bsearch(&key, b->entry, (size_t)b->n, sizeof key, by_name) : NULL;
}

int bundle_has(const struct bundle *b, const char *name) { return find(b, name) != NULL; }

const char *bundle_ending(const struct bundle *b, const char *ending) {
    size_t size = strlen(ending);
    for (int i = 0; i < b->n; i++) {
        size_t length = strlen(b->entry[i].name);
        if (length >= size && strcmp(b->entry[i].name + length - size, ending) == 0)
            return b->entry[i].name;
    }
    return NULL;
}

/* ---- contents -------------------------------------------------------------------------------- */

char *bundle_file(const struct bundle *b, const char *name) { return path_join(b->dir, name); }

int bundle_get(struct bundle *b, const char *name, size_t limit, const void **data, size_t *size,
               struct err *err) {
    struct entry *e = find(b, name);
    if (!e) return err_set(err, HEED_EFORMAT, "%.140s: there is no file '%.60s'", b->path, name);
    if (!e->is_open) {
        char *path = bundle_file(b, name);
        int rc = file_map_open(&e->map, path, err);
        xfree(path);
        if (rc) return rc;
        e->is_open = 1;
    }
    if (limit && e->map.size > limit)
        return err_set(err, HEED_ELIMIT, "%.120s: '%.60s' has %zu bytes, more than %zu", b->path,
                       name, e->map.size, limit);
    *data = e->map.data;
    *size = e->map.size;
    return 0;
}

int bundle_json(struct bundle *b, const char *name, json_t **value, struct err *err) {
    const void *data;
    size_t size;
    *value = NULL;
    int rc = bundle_get(b, name, BUNDLE_TEXT, &data, &size, err);
    if (rc) return rc;
    char where[160];
    snprintf(where, sizeof where, "%.90s/%.60s", b->dir, name);
    return json_in_text(value, size ? data : "", size, where, err);
}
