/* safetensors.c — see safetensors.h. JSON is jansson's business, which rejects duplicate keys and limits
 * nesting; what the JSON claims is ours to check. */
#include "io/safetensors.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { MAX_HEADER = 100000000 }; /* the format's own limit */

static const struct {
    const char *name;
    size_t size;
} dtypes[] = {{"F32", 4}, {"BF16", 2}, {"F16", 2}, {"F64", 8}, {"I8", 1},  {"U8", 1}, {"BOOL", 1},
              {"I16", 2}, {"U16", 2},  {"I32", 4}, {"U32", 4}, {"I64", 8}, {"U64", 8}};

static size_t dtype_bytes(const char *name) {
    for (size_t i = 0; name && i < sizeof dtypes / sizeof dtypes[0]; i++)
        if (strcmp(dtypes[i].name, name) == 0) return dtypes[i].size;
    return 0;
}

/* ---------------------------------------------------------------------------------- header ------- */

/* The JSON text between the length and the data. */
static int header_bounds(const struct file_map *map, const char *path, size_t *length,
                         struct err *err) {
    uint64_t n = 0;
    if (map->size < 8)
        return err_set(err, HEED_EFORMAT, "%s: %zu bytes are too few for a safetensors file", path,
                       map->size);
    for (int i = 7; i >= 0; i--) n = n << 8 | map->data[i];
    if (n > MAX_HEADER || n > map->size - 8)
        return err_set(err, HEED_EFORMAT, "%s: header of %llu bytes in a file of %zu", path,
                       (unsigned long long)n, map->size);
    if (n == 0 || map->data[8] != '{')
        return err_set(err, HEED_EFORMAT, "%s: the header is not a JSON object", path);
    *length = (size_t)n;
    return 0;
}

/* shape -> t->rank, t->shape and the number of bytes it stands for, or SIZE_MAX. */
static size_t shape_bytes(struct tensor *t, const json_t *shape) {
    if (!json_is_array(shape) || json_array_size(shape) > SAFETENSORS_MAX_RANK) return SIZE_MAX;
    size_t n = dtype_bytes(t->dtype), i;
    json_t *dim;
    json_array_foreach(shape, i, dim) {
        if (!json_is_integer(dim) || json_integer_value(dim) < 0) return SIZE_MAX;
        t->shape[i] = json_integer_value(dim);
        n = size_mul(n, (size_t)t->shape[i]);
    }
    t->rank = (int)json_array_size(shape);
    return n;
}

static int read_tensor(struct tensor *t, const json_t *entry, const unsigned char *data,
                       size_t size, const char *path, struct err *err) {
    t->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype_bytes(t->dtype))
        return err_set(err, HEED_EFORMAT, "%s: tensor '%.60s' has unknown dtype '%.20s'", path,
                       t->name, t->dtype ? t->dtype : "(none)");
    size_t bytes = shape_bytes(t, json_object_get(entry, "shape"));
    if (bytes == SIZE_MAX)
        return err_set(err, HEED_EFORMAT, "%s: tensor '%.60s' has an impossible shape", path,
                       t->name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    json_int_t begin = json_is_integer(first) ? json_integer_value(first) : -1;
    json_int_t end = json_is_integer(last) ? json_integer_value(last) : -1;
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin || (uint64_t)end > size)
        return err_set(err, HEED_EFORMAT, "%s: tensor '%.60s' at [%lld, %lld) of %zu data bytes",
                       path, t->name, (long long)begin, (long long)end, size);
    if ((size_t)(end - begin) != bytes)
        return err_set(err, HEED_EFORMAT, "%s: tensor '%.60s' needs %zu bytes and has %lld", path,
                       t->name, bytes, (long long)(end - begin));
    t->data = data + begin;
    t->size = bytes;
    return 0;
}

static int by_address(const void *a, const void *b) {
    const struct tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size; /* empty ones first */
}

static int check_cover(const struct safetensors *st, const unsigned char *data, size_t size,
                       const char *path, struct err *err) {
    const unsigned char *at = data;
    for (int i = 0; i < st->n_tensor; i++) {
        const struct tensor *t = &st->tensor[i];
        if (t->data != at)
            return err_set(err, HEED_EFORMAT,
                           "%s: tensor '%.60s' leaves a hole or overlaps another", path, t->name);
        at += t->size;
    }
    if (at != data + size)
        return err_set(err, HEED_EFORMAT, "%s: %zu bytes after the last tensor", path,
                       (size_t)(data + size - at));
    return 0;
}

static int read_header(struct safetensors *st, size_t length, const char *path, struct err *err) {
    json_error_t why;
    const unsigned char *data = st->map.data + 8 + length;
    size_t size = st->map.size - 8 - length;
    json_t *root = json_loadb((const char *)st->map.data + 8, length, JSON_REJECT_DUPLICATES, &why);
    st->json = root;
    if (!json_is_object(root))
        return err_set(err, HEED_EFORMAT, "%s: header: %.120s", path,
                       root ? "not an object" : why.text);
    st->tensor = xcalloc(json_object_size(root) + 1, sizeof *st->tensor);
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry) {
        if (strcmp(key, "__metadata__") == 0) continue;
        st->tensor[st->n_tensor].name = key;
        int rc = read_tensor(&st->tensor[st->n_tensor], entry, data, size, path, err);
        if (rc) return rc;
        st->n_tensor++;
    }
    qsort(st->tensor, (size_t)st->n_tensor, sizeof *st->tensor, by_address);
    return check_cover(st, data, size, path, err);
}

/* ---------------------------------------------------------------------------------- interface ---- */

int safetensors_open(struct safetensors *st, const char *path, struct err *err) {
    *st = (struct safetensors){0};
    size_t length = 0;
    int rc = file_map_open(&st->map, path, err);
    if (!rc) rc = header_bounds(&st->map, path, &length, err);
    if (!rc) rc = read_header(st, length, path, err);
    if (rc) safetensors_close(st);
    return rc;
}

void safetensors_close(struct safetensors *st) {
    json_decref(st->json);
    xfree(st->tensor);
    file_map_close(&st->map);
    *st = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *st, const char *name) {
    for (int i = 0; i < st->n_tensor; i++)
        if (strcmp(st->tensor[i].name, name) == 0) return &st->tensor[i];
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *st, const char *key) {
    return json_string_value(json_object_get(json_object_get(st->json, "__metadata__"), key));
}
