/* safetensors.c — see safetensors.h. The syntax of the header is io/json's business, which rejects
 * duplicate keys and limits nesting; what the header claims is checked here. */
#include "io/safetensors.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/crc32c.h"
#include "base/half.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "io/json.h"

enum { MAX_HEADER = 100000000 }; /* the format's own limit */
enum { DATA_ALIGN = 64 };        /* of what we write, so that mapped tensors can be used in place */

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

/* ---- header ---------------------------------------------------------------------------------- */

/* The JSON text between the length and the data. */
static int header_bounds(const struct file_map *map, const char *path, size_t *length,
                         struct err *err) {
    uint64_t n = 0;
    if (map->size < 8)
        return err_set(err, HEED_EFORMAT, "%.120s: %zu byte%s: too short for a safetensors file",
                       path, map->size, PLURAL(map->size));
    for (int i = 7; i >= 0; i--) n = n << 8 | map->data[i];
    if (n > MAX_HEADER || n > map->size - 8)
        return err_set(err, HEED_EFORMAT, "%.120s: header of %llu bytes in a file of %zu", path,
                       (unsigned long long)n, map->size);
    if (n == 0 || map->data[8] != '{')
        return err_set(err, HEED_EFORMAT, "%.120s: the header is not a JSON object", path);
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
        if (n == SIZE_MAX) return SIZE_MAX; /* even if a zero follows */
    }
    t->rank = (int)json_array_size(shape);
    return n;
}

static int read_tensor(struct tensor *t, const json_t *entry, const unsigned char *data,
                       size_t size, const char *path, struct err *err) {
    t->dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype_bytes(t->dtype))
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.60s' has unknown dtype '%.20s'", path,
                       t->name, t->dtype ? t->dtype : "(none)");
    size_t bytes = shape_bytes(t, json_object_get(entry, "shape"));
    if (bytes == SIZE_MAX)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.60s' has an impossible shape", path,
                       t->name);
    const json_t *offsets = json_object_get(entry, "data_offsets");
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    json_int_t begin = json_is_integer(first) ? json_integer_value(first) : -1;
    json_int_t end = json_is_integer(last) ? json_integer_value(last) : -1;
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.60s' cannot be at [%lld, %lld)", path,
                       t->name, (long long)begin, (long long)end);
    if ((uint64_t)end > size)
        return err_set(err, HEED_EFORMAT,
                       "%.120s: cut off: tensor '%.60s' is at [%lld, %lld), but there are only "
                       "%zu bytes of data",
                       path, t->name, (long long)begin, (long long)end, size);
    if ((size_t)(end - begin) != bytes)
        return err_set(err, HEED_EFORMAT, "%.120s: tensor '%.60s' needs %zu bytes and has %lld",
                       path, t->name, bytes, (long long)(end - begin));
    t->data = data + begin;
    t->size = bytes;
    return 0;
}

static int by_address(const void *a, const void *b) {
    const struct tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->size < y->size ? -1 : x->size > y->size; /* empty ones first */
}

static int by_name(const void *a, const void *b) {
    const struct tensor *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int check_cover(const struct safetensors *st, const unsigned char *data, size_t size,
                       const char *path, struct err *err) {
    const unsigned char *at = data;
    for (int i = 0; i < st->n_tensor; i++) {
        const struct tensor *t = &st->tensor[i];
        if (t->data != at)
            return err_set(err, HEED_EFORMAT,
                           "%.120s: tensor '%.60s' leaves a hole or overlaps another", path,
                           t->name);
        at += t->size;
    }
    if (at != data + size)
        return err_set(err, HEED_EFORMAT, "%.120s: %zu bytes after the last tensor", path,
                       (size_t)(data + size - at));
    return 0;
}

static int check_metadata(json_t *metadata, const char *path, struct err *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(metadata))
        return err_set(err, HEED_EFORMAT, "%.120s: __metadata__ is not an object", path);
    json_object_foreach(metadata, key, value) {
        if (!json_is_string(value))
            return err_set(err, HEED_EFORMAT, "%.120s: metadata '%.60s' is not a string", path,
                           key);
    }
    return 0;
}

static int read_header(struct safetensors *st, size_t length, const char *path, struct err *err) {
    const unsigned char *data = st->map.data + 8 + length;
    size_t size = st->map.size - 8 - length;
    json_t *root;
    int rc = json_in_text(&root, (const char *)st->map.data + 8, length, path, err);
    if (rc) return rc;
    st->json = root;
    st->header_size = 8 + length;
    st->tensor = xcalloc(json_object_size(root) + 1, sizeof *st->tensor);
    const char *key;
    json_t *entry;
    json_object_foreach(root, key, entry) {
        if (strcmp(key, "__metadata__") == 0) {
            if ((rc = check_metadata(entry, path, err))) return rc;
            continue;
        }
        st->tensor[st->n_tensor].name = key;
        if ((rc = read_tensor(&st->tensor[st->n_tensor], entry, data, size, path, err))) return rc;
        st->n_tensor++;
    }
    qsort(st->tensor, (size_t)st->n_tensor, sizeof *st->tensor, by_address);
    st->by_name = xcalloc((size_t)st->n_tensor, sizeof(const struct tensor *));
    for (int i = 0; i < st->n_tensor; i++) st->by_name[i] = &st->tensor[i];
    qsort(st->by_name, (size_t)st->n_tensor, sizeof(const struct tensor *), by_name);
    return check_cover(st, data, size, path, err);
}

/* ---- reading --------------------------------------------------------------------------------- */

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
    xfree(st->by_name);
    file_map_close(&st->map);
    *st = (struct safetensors){0};
}

const struct tensor *safetensors_find(const struct safetensors *st, const char *name) {
    for (int low = 0, high = st->n_tensor; low < high;) {
        int middle = (low + high) / 2, order;
        const struct tensor *t = st->by_name[middle];
        if ((order = strcmp(name, t->name)) == 0) return t;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *safetensors_metadata(const struct safetensors *st, const char *key) {
    return json_string_value(json_object_get(json_object_get(st->json, "__metadata__"), key));
}

int safetensors_metadata_each(const struct safetensors *st,
                              int (*fn)(void *ctx, const char *key, const char *value), void *ctx) {
    json_t *metadata = json_object_get(st->json, "__metadata__"), *value;
    const char *key;
    int rc = 0;
    json_object_foreach(metadata, key, value) {
        if ((rc = fn(ctx, key, json_string_value(value)))) break;
    }
    return rc;
}

void tensor_shape_text(char *text, size_t size, const int64_t *shape, int rank) {
    size_t at = (size_t)snprintf(text, size, "[");
    for (int i = 0; i < rank && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, i ? ", %" PRId64 : "%" PRId64, shape[i]);
    if (at < size) snprintf(text + at, size - at, "]");
}

size_t tensor_count(const struct tensor *t) { return t->size / dtype_bytes(t->dtype); }

int tensor_is_float(const struct tensor *t) {
    return strcmp(t->dtype, "F32") == 0 || strcmp(t->dtype, "BF16") == 0 ||
           strcmp(t->dtype, "F16") == 0;
}

void tensor_values(const struct tensor *t, size_t first, size_t count, float *out) {
    BUG_ON(!tensor_is_float(t) || count > tensor_count(t) || first > tensor_count(t) - count);
    if (!count) return;
    if (strcmp(t->dtype, "F32") == 0) {
        memcpy(out, (const char *)t->data + first * sizeof *out, count * sizeof *out);
        return;
    }
    const unsigned char *at = (const unsigned char *)t->data + 2 * first;
    if (t->dtype[0] == 'F') {
        for (size_t i = 0; i < count; i++) {
            uint16_t h;
            memcpy(&h, at + 2 * i, sizeof h);
            out[i] = f16_load(h);
        }
        return;
    }
    for (size_t i = 0; i < count; i++) { /* bf16 is the upper half of an f32 */
        uint32_t bits = (uint32_t)at[2 * i] << 16 | (uint32_t)at[2 * i + 1] << 24;
        memcpy(&out[i], &bits, sizeof bits);
    }
}

/* ---- checksums ------------------------------------------------------------------------------- */

enum { DIGITS = 16 };

static void hash_text(char text[DIGITS + 1], uint64_t hash) {
    snprintf(text, DIGITS + 1, "%016llx", (unsigned long long)hash);
}

struct verifying {
    const struct safetensors *st;
    const char *wanted;
    _Atomic int damaged; /* a tensor's index plus 1 */
};

static void verify_tensor(void *ctx, int task, int thread) {
    struct verifying *v = ctx;
    const struct tensor *t = &v->st->tensor[task];
    char text[DIGITS + 1];
    (void)thread;
    hash_text(text, hash64(t->data, t->size));
    if (memcmp(text, v->wanted + (size_t)task * DIGITS, DIGITS) != 0) v->damaged = task + 1;
}

int safetensors_verify(const struct safetensors *st, const char *path, int n_thread,
                       struct err *err) {
    struct verifying v = {.st = st, .wanted = safetensors_metadata(st, SAFETENSORS_CHECKSUMS)};
    struct pool *pool;
    if (!v.wanted) return 0;
    if (strlen(v.wanted) != (size_t)st->n_tensor * DIGITS)
        return err_set(err, HEED_EFORMAT, "%.120s: checksums of %zu tensors, but there are %d",
                       path, strlen(v.wanted) / DIGITS, st->n_tensor);
    int rc = pool_new(&pool, n_thread, err);
    if (rc) return rc;
    pool_run(pool, verify_tensor, &v, st->n_tensor);
    pool_free(pool);
    if (!v.damaged) return 0;
    return err_set(err, HEED_EFORMAT,
                   "%.120s: tensor '%.60s' is damaged: it does not have the checksum it was "
                   "written with",
                   path, st->tensor[v.damaged - 1].name);
}

/* Of a file that is being written. */
struct checksums {
    XXH3_state_t *state;
    uint64_t *size; /* [n] bytes of each tensor */
    int n, at;      /* at: the one whose bytes come now */
    uint64_t done;  /* of its bytes */
    char *text;     /* [n * DIGITS] */
    uint64_t place; /* of the text in the file */
};

static struct checksums *checksums_new(const struct tensor_spec *spec, int n) {
    struct checksums *c = xcalloc(1, sizeof *c);
    c->state = XXH3_createState();
    BUG_ON(!c->state);
    XXH3_64bits_reset(c->state);
    c->size = xcalloc((size_t)n + 1, sizeof *c->size);
    c->text = xcalloc((size_t)n + 1, DIGITS);
    c->n = n;
    memset(c->text, '0', (size_t)n * DIGITS);
    for (int i = 0; i < n; i++) {
        c->size[i] = dtype_bytes(spec[i].dtype);
        for (int k = 0; k < spec[i].rank; k++) c->size[i] *= (uint64_t)spec[i].shape[k];
    }
    return c;
}

static void checksums_free(struct checksums *c) {
    if (!c) return;
    XXH3_freeState(c->state);
    xfree(c->size);
    xfree(c->text);
    xfree(c);
}

/* The tensors that end where c->done is. */
static void checksums_settle(struct checksums *c) {
    for (; c->at < c->n && c->done == c->size[c->at]; c->at++, c->done = 0) {
        char text[DIGITS + 1];
        hash_text(text, XXH3_64bits_digest(c->state));
        memcpy(c->text + (size_t)c->at * DIGITS, text, DIGITS);
        XXH3_64bits_reset(c->state);
    }
}

static void checksums_add(struct checksums *c, const char *data, size_t size) {
    while (size) {
        checksums_settle(c);
        uint64_t left = c->size[c->at] - c->done;
        size_t n = size < left ? size : (size_t)left;
        XXH3_64bits_update(c->state, data, n);
        c->done += n;
        data += n;
        size -= n;
    }
}

/* ---- writing --------------------------------------------------------------------------------- */

/* {"__metadata__": {...}, "name": {"dtype", "shape", "data_offsets"}, ...} and the size of the
 * data. */
static json_t *make_header(const struct tensor_spec *spec, int n, const struct metadata *metadata,
                           struct safetensors_writer *w) {
    json_t *root = json_object();
    if (metadata && metadata->key) {
        json_t *map = json_object();
        for (; metadata->key; metadata++) {
            int sums = strcmp(metadata->key, SAFETENSORS_CHECKSUMS) == 0;
            if (sums) w->checksums = checksums_new(spec, n);
            json_object_set_new(map, metadata->key,
                                sums ? json_stringn(w->checksums->text, (size_t)n * DIGITS)
                                     : json_string(metadata->value));
        }
        json_object_set_new(root, "__metadata__", map);
    }
    uint64_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t bytes = dtype_bytes(spec[i].dtype);
        BUG_ON(!bytes || at % bytes || json_object_get(root, spec[i].name));
        json_t *shape = json_array();
        for (int k = 0; k < spec[i].rank; k++) {
            json_array_append_new(shape, json_integer(spec[i].shape[k]));
            bytes = size_mul(bytes, (size_t)spec[i].shape[k]);
        }
        json_int_t begin = (json_int_t)at, end = begin + (json_int_t)bytes;
        json_t *entry = json_pack("{s:s, s:o, s:[I, I]}", "dtype", spec[i].dtype, "shape", shape,
                                  "data_offsets", begin, end);
        BUG_ON(json_object_set_new(root, spec[i].name, entry));
        at += bytes;
    }
    w->left = at;
    return root;
}

int safetensors_create(struct safetensors_writer *w, const char *path,
                       const struct tensor_spec *spec, int n, const struct metadata *metadata,
                       struct err *err) {
    *w = (struct safetensors_writer){.file = {.fd = -1}};
    json_t *root = make_header(spec, n, metadata, w);
    char *text = json_dumps(root, JSON_COMPACT);
    json_decref(root);
    BUG_ON(!text);
    size_t length = strlen(text),
           padded = (8 + length + DATA_ALIGN - 1) / DATA_ALIGN * DATA_ALIGN - 8;
    unsigned char *header = xmalloc(8 + padded);
    for (int i = 0; i < 8; i++) header[i] = (unsigned char)((uint64_t)padded >> 8 * i);
    memset(header + 8, ' ', padded);
    for (size_t i = 0; i < length; i++) header[8 + i] = (unsigned char)text[i];
    if (w->checksums) { /* the metadata come first, so this is theirs */
        const char *at = strstr(text, "\"" SAFETENSORS_CHECKSUMS "\":\"");
        BUG_ON(!at);
        w->checksums->place = 8 + (uint64_t)(at - text) + strlen(SAFETENSORS_CHECKSUMS) + 4;
    }
    free(text);
    w->header_crc = crc32c(0, header, 8 + padded);
    int rc = padded > MAX_HEADER
                 ? err_set(err, HEED_ELIMIT,
                           "%.120s: a header of %zu bytes is too long for the format", path, padded)
                 : file_writer_open(&w->file, path, err);
    if (!rc) file_writer_write(&w->file, header, 8 + padded);
    xfree(header);
    if (rc) checksums_free(w->checksums);
    return rc;
}

void safetensors_write(struct safetensors_writer *w, const void *data, size_t size) {
    BUG_ON(size > w->left);
    w->left -= size;
    if (w->checksums) checksums_add(w->checksums, data, size);
    file_writer_write(&w->file, data, size);
}

int safetensors_commit(struct safetensors_writer *w, struct err *err) {
    struct checksums *c = w->checksums;
    BUG_ON(w->left);
    if (c) {
        checksums_settle(c);
        file_writer_patch(&w->file, c->place, c->text, (size_t)c->n * DIGITS);
    }
    checksums_free(c);
    return file_writer_commit(&w->file, err);
}

void safetensors_abort(struct safetensors_writer *w) {
    checksums_free(w->checksums);
    file_writer_abort(&w->file);
}
