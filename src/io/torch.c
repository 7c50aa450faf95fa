/* torch.c — see torch.h. */
#include "io/torch.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/keep.h"
#include "base/mem.h"
#include "io/pickle.h"
#include "io/zipfile.h"

enum { MAX_TENSORS = 10000, MAX_NAME = 256, MAX_WRAPS = 4 };

static const struct type {
    const char *global, *dtype;
    size_t size;
} types[] = {{"torch FloatStorage", "F32", 4},     {"torch HalfStorage", "F16", 2},
             {"torch BFloat16Storage", "BF16", 2}, {"torch DoubleStorage", "F64", 8},
             {"torch LongStorage", "I64", 8},      {"torch IntStorage", "I32", 4},
             {"torch ShortStorage", "I16", 2},     {"torch CharStorage", "I8", 1},
             {"torch ByteStorage", "U8", 1},       {"torch BoolStorage", "BOOL", 1}};

/* Elements in memory that several tensors may share. */
struct storage {
    const struct pickle_value *key; /* a text */
    const struct type *type;
    int64_t count;
    const char *data;
};

struct torch_file {
    struct file_map map;
    struct zipfile *zip;
    char *where, *prefix; /* prefix: of the members, with its slash */
    struct keep keep;
    struct storage *storage;     /* [room] */
    struct torch_tensor *tensor; /* [room] */
    int n_storage, n_tensor, room;
};

/* A file that is being read. */
struct reader {
    struct torch_file *file;
    const char *bytes;
    size_t size, at;  /* at: behind what is read of the older container */
    const char *name; /* of the tensor in work */
    struct err *err;
};

static int fail(const struct reader *r, const char *what) {
    return err_set(r->err, HEED_EFORMAT, "%.120s: %s", r->file->where, what);
}

static int fail_tensor(const struct reader *r, const char *what) {
    return err_set(r->err, HEED_EFORMAT, "%.120s: tensor '%.80s': %s", r->file->where, r->name,
                   what);
}

static int fail_storage(const struct reader *r, const struct storage *s, const char *what) {
    return err_set(r->err, HEED_EFORMAT, "%.120s: storage '%.*s': %s", r->file->where,
                   s->key->n < 40 ? (int)s->key->n : 40, s->key->bytes, what);
}

/* ---- storages -------------------------------------------------------------------------------- */

static int same_text(const struct pickle_value *a, const struct pickle_value *b) {
    return a->n == b->n && memcmp(a->bytes, b->bytes, a->n) == 0;
}

/* ("storage", torch.FloatStorage, key, device, elements[, None]) -> its place in the list, which it
 * enters when it comes for the first time. */
static int find_storage(struct reader *r, const struct pickle_value *v, struct storage **out) {
    struct torch_file *f = r->file;
    const struct pickle_value *id = v->kind == PICKLE_PERSISTENT ? v->args : NULL;
    if (!id || id->kind != PICKLE_TUPLE || id->n < 5 || !pickle_is_text(id->item[0], "storage") ||
        id->item[2]->kind != PICKLE_STRING || id->item[4]->kind != PICKLE_INT)
        return fail_tensor(r, "its storage is not described as PyTorch does");
    if (id->n > 5 && id->item[5]->kind != PICKLE_NONE)
        return fail_tensor(r, "its storage is a view of another");
    const struct type *type = NULL;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (pickle_is_global(id->item[1], types[i].global)) type = &types[i];
    if (!type) return fail_tensor(r, "a storage of a type that is not read here");
    int64_t count = id->item[4]->integer;
    for (int i = f->n_storage; i-- > 0;) { /* the last ones first: neighbours share */
        struct storage *s = &f->storage[i];
        if (!same_text(s->key, id->item[2])) continue;
        *out = s;
        return s->type == type && s->count == count
                   ? 0
                   : fail_tensor(r, "its storage is described in two ways");
    }
    if (count < 0) return fail_tensor(r, "its storage has a negative size");
    *out = &f->storage[f->n_storage++]; /* at most one for each tensor */
    **out = (struct storage){.key = id->item[2], .type = type, .count = count};
    return 0;
}

/* ---- tensors --------------------------------------------------------------------------------- */

/* What describes a tensor, below _rebuild_parameter: the arguments of _rebuild_tensor_v2, or NULL
 * for anything else. */
static const struct pickle_value *tensor_args(const struct pickle_value *v) {
    for (int i = 0; i < MAX_WRAPS && v->kind == PICKLE_OBJECT && v->args->n; i++) {
        if (pickle_is_global(v->callable, "torch._utils _rebuild_tensor_v2")) return v->args;
        if (!pickle_is_global(v->callable, "torch._utils _rebuild_parameter")) return NULL;
        v = v->args->item[0];
    }
    return NULL;
}

/* Calls fn for every tensor of the dictionary at the top. */
static int each_tensor(struct reader *r, const struct pickle_value *root,
                       int (*fn)(struct reader *r, const struct pickle_value *args)) {
    int is_dict =
        root->kind == PICKLE_DICT || (root->kind == PICKLE_OBJECT && (root->pairs || !root->n) &&
                                      pickle_is_global(root->callable, "collections OrderedDict"));
    if (!is_dict) return fail(r, "what is saved there is not a dictionary of tensors");
    int rc = 0, n = 0;
    for (size_t i = 0; i + 1 < root->n && !rc; i += 2) {
        const struct pickle_value *key = root->item[i], *args = tensor_args(root->item[i + 1]);
        if (!args || key->kind != PICKLE_STRING) continue;
        if (key->n > MAX_NAME || memchr(key->bytes, 0, key->n))
            return fail(r, "a tensor has an impossible name");
        if (++n > MAX_TENSORS) return fail(r, "too many tensors");
        r->name = keep_text(&r->file->keep, key->bytes, key->n);
        rc = fn(r, args);
    }
    return rc;
}

/* There is memory for each tensor to come, and a storage for each. */
static int note_storage(struct reader *r, const struct pickle_value *args) {
    struct torch_file *f = r->file;
    struct storage *s;
    if (f->n_tensor++ == f->room) {
        f->room = 2 * f->room + 16;
        f->storage = xrealloc(f->storage, (size_t)f->room * sizeof *f->storage);
        f->tensor = xrealloc(f->tensor, (size_t)f->room * sizeof *f->tensor);
    }
    return find_storage(r, args->item[0], &s);
}

/* A tuple of whole numbers that are not negative. */
static int take_sizes(const struct pickle_value *v, int rank, int64_t *out) {
    if (v->kind != PICKLE_TUPLE || v->n != (size_t)rank) return 0;
    for (int i = 0; i < rank; i++) {
        if (v->item[i]->kind != PICKLE_INT || v->item[i]->integer < 0) return 0;
        out[i] = v->item[i]->integer;
    }
    return 1;
}

/* Elements of the storage that the tensor reaches, from its offset on; SIZE_MAX: too many. */
static size_t reach(const struct torch_tensor *t) {
    size_t last = 0, all = 1;
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] == 0) return 0;
    for (int i = 0; i < t->rank; i++) {
        last = size_add(last, size_mul((size_t)t->shape[i] - 1, (size_t)t->stride[i]));
        all = size_mul(all, (size_t)t->shape[i]); /* strides may be 0 */
    }
    return all > SIZE_MAX / 16 ? SIZE_MAX : size_add(last, 1);
}

/* _rebuild_tensor_v2(storage, offset, size, stride, ...) */
static int add_tensor(struct reader *r, const struct pickle_value *args) {
    struct torch_file *f = r->file;
    struct storage *s;
    if (args->n < 4 || args->item[1]->kind != PICKLE_INT || args->item[1]->integer < 0 ||
        args->item[2]->kind != PICKLE_TUPLE || args->item[2]->n > TORCH_MAX_RANK)
        return fail_tensor(r, "it is not described as PyTorch does");
    int rc = find_storage(r, args->item[0], &s);
    if (rc) return rc;
    struct torch_tensor *t = &f->tensor[f->n_tensor++];
    *t = (struct torch_tensor){.name = r->name, .dtype = s->type->dtype};
    t->rank = (int)args->item[2]->n;
    if (!take_sizes(args->item[2], t->rank, t->shape) ||
        !take_sizes(args->item[3], t->rank, t->stride))
        return fail_tensor(r, "its sizes or strides are not tuples of sizes");
    size_t offset = (size_t)args->item[1]->integer;
    if (size_add(offset, reach(t)) > (size_t)s->count)
        return fail_tensor(r, "it reaches beyond the end of its storage");
    t->data = s->data + offset * s->type->size;
    return 0;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct torch_tensor *)a)->name, ((const struct torch_tensor *)b)->name);
}

/* All tensors; their storages are where they are. */
static int add_tensors(struct reader *r, const struct pickle_value *root) {
    struct torch_file *f = r->file;
    f->n_tensor = 0;
    int rc = each_tensor(r, root, add_tensor);
    if (rc) return rc;
    if (f->n_tensor) qsort(f->tensor, (size_t)f->n_tensor, sizeof *f->tensor, by_name);
    for (int i = 1; i < f->n_tensor; i++) {
        r->name = f->tensor[i].name;
        if (strcmp(f->tensor[i - 1].name, r->name) == 0) return fail_tensor(r, "it is there twice");
    }
    return 0;
}

/* ---- the zip --------------------------------------------------------------------------------- */

/* The member `name` of the directory that everything lies in. */
static int find_member(const struct torch_file *f, const char *name) {
    char *path = path_append(f->prefix, name);
    int at = zipfile_find(f->zip, path);
    xfree(path);
    return at;
}

static int find_zip_storage(struct reader *r, struct storage *s) {
    char name[64] = "data/";
    size_t size, n = s->key->n;
    if (n > 40 || memchr(s->key->bytes, 0, n)) return fail_storage(r, s, "an impossible key");
    memcpy(name + 5, s->key->bytes, n);
    int at = find_member(r->file, name);
    if (at < 0) return fail_storage(r, s, "it is not in the file");
    size_t want = size_mul((size_t)s->count, s->type->size);
    int rc = zipfile_view(r->file->zip, at, SIZE_MAX, &s->data, &size, r->err);
    if (!rc && size != want)
        rc = err_set(r->err, HEED_EFORMAT, "%.120s: %.60s has %zu bytes and needs %zu",
                     r->file->where, name, size, want);
    return rc;
}

static int check_byte_order(struct reader *r) {
    const char *text;
    size_t size;
    int at = find_member(r->file, "byteorder");
    if (at < 0) return 0; /* older files: of machines like this one */
    int rc = zipfile_view(r->file->zip, at, 16, &text, &size, r->err);
    if (rc) return rc;
    return size == 6 && memcmp(text, "little", 6) == 0 ? 0 : fail(r, "its numbers are big-endian");
}

static int read_zip(struct reader *r) {
    struct torch_file *f = r->file;
    const struct pickle_value *root;
    const char *bytes;
    size_t size, used, total = 0;
    int rc = zipfile_open_bytes(&f->zip, r->bytes, r->size, f->where, r->err), at = -1;
    if (rc) return rc;
    for (int i = 0; i < zipfile_count(f->zip) && at < 0; i++) {
        const char *name = zipfile_name(f->zip, i), *slash = strchr(name, '/');
        if (!slash || strcmp(slash, "/data.pkl") != 0) continue;
        at = i;
        f->prefix = xstrdup(name);
        f->prefix[slash + 1 - name] = 0;
    }
    if (at < 0) return fail(r, "a zip archive without a data.pkl: not a checkpoint of PyTorch");
    rc = check_byte_order(r);
    if (!rc) rc = zipfile_view(f->zip, at, PICKLE_MAX_SIZE, &bytes, &size, r->err);
    if (!rc) {
        struct pickle_input in = {bytes, size, f->where};
        rc = pickle_read(&root, &in, &used, &f->keep, r->err);
    }
    if (!rc) rc = each_tensor(r, root, note_storage);
    for (int i = 0; i < f->n_storage && !rc; i++) {
        struct storage *s = &f->storage[i];
        total = size_add(total, size_mul((size_t)s->count, s->type->size));
        if (total > r->size) return fail_storage(r, s, "more data than the file has");
        rc = find_zip_storage(r, s);
    }
    return rc ? rc : add_tensors(r, root);
}

/* ---- the older container --------------------------------------------------------------------- */

static int next_pickle(struct reader *r, const struct pickle_value **v) {
    struct pickle_input in = {r->bytes + r->at, r->size - r->at, r->file->where};
    size_t used;
    int rc = pickle_read(v, &in, &used, &r->file->keep, r->err);
    r->at += used;
    return rc;
}

static int is_little_endian(const struct pickle_value *info) {
    for (size_t i = 0; info->kind == PICKLE_DICT && i + 1 < info->n; i += 2)
        if (pickle_is_text(info->item[i], "little_endian"))
            return info->item[i + 1]->kind == PICKLE_BOOL && info->item[i + 1]->integer;
    return 0;
}

/* Magic number, version, facts about the machine; then what was saved, and the order of its
 * storages. */
static int read_pickles(struct reader *r, const struct pickle_value **root,
                        const struct pickle_value **keys) {
    static const char magic[] = "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    const struct pickle_value *v;
    int rc = next_pickle(r, &v);
    if (rc) return rc;
    if (v->kind != PICKLE_LONG || v->n != 10 || memcmp(v->bytes, magic, 10) != 0)
        return fail(r, "a pickle, but not a checkpoint of PyTorch");
    if ((rc = next_pickle(r, &v))) return rc;
    if (v->kind != PICKLE_INT || v->integer != 1001)
        return fail(r, "a checkpoint of PyTorch in a version that is not known");
    if ((rc = next_pickle(r, &v))) return rc;
    if (!is_little_endian(v)) return fail(r, "its numbers are big-endian");
    if (!(rc = next_pickle(r, root))) rc = next_pickle(r, keys);
    if (!rc && (*keys)->kind != PICKLE_LIST) rc = fail(r, "no list of storages");
    return rc;
}

/* A 64-bit count and the elements, for each storage in the order of their keys. */
static int find_storages(struct reader *r, const struct pickle_value *keys) {
    struct torch_file *f = r->file;
    if (keys->n != (size_t)f->n_storage)
        return fail(r, "storages that belong to nothing that is read here");
    for (size_t k = 0; k < keys->n; k++) {
        struct storage *s = NULL;
        for (int i = 0; i < f->n_storage && keys->item[k]->kind == PICKLE_STRING && !s; i++)
            if (same_text(f->storage[i].key, keys->item[k])) s = &f->storage[i];
        if (!s || s->data) return fail(r, "a storage in the list that is not known, or twice");
        uint64_t count = 0;
        if (r->size - r->at < 8) return fail_storage(r, s, "the file ends before it");
        for (int i = 8; i-- > 0;) count = count << 8 | (unsigned char)r->bytes[r->at + (size_t)i];
        r->at += 8;
        size_t size = size_mul((size_t)s->count, s->type->size);
        if (count != (uint64_t)s->count) return fail_storage(r, s, "its size is told in two ways");
        if (size > r->size - r->at) return fail_storage(r, s, "the file ends inside it");
        s->data = r->bytes + r->at;
        r->at += size;
    }
    return 0;
}

static int read_pickled(struct reader *r) {
    const struct pickle_value *root, *keys;
    int rc = read_pickles(r, &root, &keys);
    if (!rc) rc = each_tensor(r, root, note_storage);
    if (!rc) rc = find_storages(r, keys);
    return rc ? rc : add_tensors(r, root);
}

/* ---- opening --------------------------------------------------------------------------------- */

int torch_open_bytes(struct torch_file **out, const char *bytes, size_t size, const char *where,
                     struct err *err) {
    struct torch_file *f = xcalloc(1, sizeof *f);
    struct reader r = {.file = f, .bytes = bytes, .size = size, .err = err};
    f->where = xstrdup(where);
    *out = NULL;
    int is_zip = size >= 4 && memcmp(bytes, "PK\3\4", 4) == 0;
    int rc = is_zip ? read_zip(&r) : read_pickled(&r);
    if (rc)
        torch_close(f);
    else
        *out = f;
    return rc;
}

int torch_open(struct torch_file **out, const char *path, struct err *err) {
    struct file_map map;
    *out = NULL;
    int rc = file_map_open(&map, path, err);
    if (rc) return rc;
    rc = torch_open_bytes(out, (const char *)map.data, map.size, path, err);
    if (rc)
        file_map_close(&map);
    else
        (*out)->map = map;
    return rc;
}

void torch_close(struct torch_file *f) {
    if (!f) return;
    zipfile_close(f->zip);
    keep_release(&f->keep);
    xfree(f->storage);
    xfree(f->tensor);
    xfree(f->prefix);
    xfree(f->where);
    file_map_close(&f->map);
    xfree(f);
}

int torch_count(const struct torch_file *f) { return f->n_tensor; }

const struct torch_tensor *torch_at(const struct torch_file *f, int i) { return &f->tensor[i]; }

const struct torch_tensor *torch_find(const struct torch_file *f, const char *name) {
    struct torch_tensor key = {.name = name};
    return !f->n_tensor ? NULL : bsearch(&key, f->tensor, (size_t)f->n_tensor, sizeof key, by_name);
}
