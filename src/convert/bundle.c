/* bundle.c — see bundle.h. */
#include "convert/bundle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/json.h"
#include "io/zipfile.h"

enum { MOST_NAMES = 100000 };

struct entry {
    char *name;
    int member;          /* of the zip */
    struct file_map map; /* otherwise, once somebody wanted it */
    int is_open;
};

struct bundle {
    char *path, *dir; /* as given; where the files are, NULL: in the zip */
    char *main;
    struct zipfile *zip;
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
        struct stat st;
        int there = stat(path, &st) == 0;
        if (b->n >= MOST_NAMES)
            rc = err_set(err, HEED_ELIMIT, "%.180s: more than %d files", b->path, MOST_NAMES);
        else if (there && S_ISREG(st.st_mode)) /* whoever opens a pipe waits for ever */
            add_name(b, name), name = NULL;
        else if (there && S_ISDIR(st.st_mode) && depth)
            rc = list_dir(b, name, depth - 1, err);
        xfree(path);
        xfree(name);
    }
    dir_names_release(&names);
    xfree(dir);
    return rc;
}

static int ends_in(const char *name, const char *ending) {
    size_t length = strlen(name), size = strlen(ending);
    return length >= size && strcmp(name + length - size, ending) == 0;
}

/* How long the directory is that all members lie in, its slash included. */
static size_t common_dir(const struct zipfile *zip) {
    const char *first = zipfile_name(zip, 0), *slash = first ? strchr(first, '/') : NULL;
    size_t size = slash ? (size_t)(slash - first) + 1 : 0;
    for (int i = 0; i < zipfile_count(zip) && size; i++)
        if (strncmp(zipfile_name(zip, i), first, size) != 0) size = 0;
    return size;
}

static void list_zip(struct bundle *b) {
    size_t skip = common_dir(b->zip);
    for (int i = 0; i < zipfile_count(b->zip); i++) {
        const char *name = zipfile_name(b->zip, i) + skip;
        if (!*name || ends_in(name, "/")) continue;
        add_name(b, xstrdup(name));
        b->entry[b->n - 1].member = i;
    }
}

/* NumPy and PyTorch pack the weights themselves in zips: such a file is one of a directory's. */
static int is_weights(const struct zipfile *zip) {
    for (int i = 0; i < zipfile_count(zip); i++)
        if (ends_in(zipfile_name(zip, i), ".npy") || ends_in(zipfile_name(zip, i), "/data.pkl"))
            return 1;
    return 0;
}

/* Opens the zip of files at this path, if it is one. */
static int try_zip(struct bundle *b, struct err *err) {
    struct file_map map;
    int rc = file_map_open(&map, b->path, err);
    if (rc) return rc;
    int packed = map.size >= 4 && memcmp(map.data, "PK\3\4", 4) == 0;
    file_map_close(&map);
    if (packed) rc = zipfile_open(&b->zip, b->path, err);
    if (rc || !b->zip || !is_weights(b->zip)) return rc;
    zipfile_close(b->zip);
    b->zip = NULL;
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct entry *)a)->name, ((const struct entry *)b)->name);
}

/* ---- life ------------------------------------------------------------------------------------ */

static int open_any(struct bundle *b, struct err *err) {
    if (dir_exists(b->path)) {
        b->dir = xstrdup(b->path);
        return list_dir(b, "", 1, err);
    }
    struct stat st;
    if (stat(b->path, &st))
        return err_set(err, HEED_EIO, "%.180s: no such file or directory", b->path);
    if (!S_ISREG(st.st_mode))
        return err_set(err, HEED_EIO, "%.180s: neither a file nor a directory", b->path);
    int rc = try_zip(b, err);
    if (rc || b->zip) {
        if (!rc) list_zip(b);
        return rc;
    }
    const char *slash = strrchr(b->path, '/');
    b->dir = path_parent(b->path);
    b->main = xstrdup(slash ? slash + 1 : b->path);
    return list_dir(b, "", 0, err);
}

int bundle_open(struct bundle **out, const char *path, struct err *err) {
    struct bundle *b = xcalloc(1, sizeof *b);
    b->path = xstrdup(path);
    int rc = open_any(b, err);
    if (b->n) qsort(b->entry, (size_t)b->n, sizeof *b->entry, by_name);
    if (rc) bundle_close(b);
    *out = rc ? NULL : b;
    return rc;
}

void bundle_close(struct bundle *b) {
    if (!b) return;
    for (int i = 0; i < b->n; i++) {
        if (b->entry[i].is_open) file_map_close(&b->entry[i].map);
        xfree(b->entry[i].name);
    }
    zipfile_close(b->zip);
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
    for (int i = 0; i < b->n; i++)
        if (ends_in(b->entry[i].name, ending)) return b->entry[i].name;
    return NULL;
}

/* ---- contents -------------------------------------------------------------------------------- */

char *bundle_file(const struct bundle *b, const char *name) {
    return b->zip ? NULL : path_join(b->dir, name);
}

static int get_member(struct bundle *b, int member, size_t limit, const void **data, size_t *size,
                      struct err *err) {
    const char *bytes = NULL;
    int rc = zipfile_view(b->zip, member, limit ? limit : SIZE_MAX, &bytes, size, err);
    *data = bytes;
    return rc;
}

static int get_file(struct bundle *b, struct entry *e, size_t limit, const void **data,
                    size_t *size, struct err *err) {
    char *path = bundle_file(b, e->name);
    int rc = e->is_open ? 0 : file_map_open(&e->map, path, err);
    if (!rc) e->is_open = 1;
    if (!rc && limit && e->map.size > limit)
        rc =
            err_set(err, HEED_ELIMIT, "%.160s: %zu bytes, more than %zu", path, e->map.size, limit);
    *data = e->map.data;
    *size = e->map.size;
    xfree(path);
    return rc;
}

int bundle_get(struct bundle *b, const char *name, size_t limit, const void **data, size_t *size,
               struct err *err) {
    struct entry *e = find(b, name);
    if (!e) return err_set(err, HEED_EFORMAT, "%.140s: there is no file '%.60s'", b->path, name);
    return b->zip ? get_member(b, e->member, limit, data, size, err)
                  : get_file(b, e, limit, data, size, err);
}

const char *bundle_where(const struct bundle *b, const char *name, char where[BUNDLE_WHERE]) {
    snprintf(where, BUNDLE_WHERE, "%.90s/%.60s", b->dir ? b->dir : b->path, name);
    return where;
}

int bundle_json(struct bundle *b, const char *name, json_t **value, struct err *err) {
    const void *data;
    size_t size;
    *value = NULL;
    int rc = bundle_get(b, name, BUNDLE_TEXT, &data, &size, err);
    if (rc) return rc;
    char where[BUNDLE_WHERE];
    return json_in_text(value, size ? data : "", size, bundle_where(b, name, where), err);
}
