/* marianbin.c — see marianbin.h. */
#include "io/marianbin.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum { VERSION = 1, HEADER = 4 * sizeof(uint64_t) };

/* What Marian has and had. Those without a type of ours are refused by name: they are laid out for
 * the kernels of one processor. */
static const struct kind {
    uint64_t code;
    const char *name, *dtype;
    int size, intgemm;
} kinds[] = {
    {0x404, "float32", "F32", 4, 0},
    {0x402, "float16", "F16", 2, 0},
    {0x101, "int8", "I8", 1, 0},
    {0x104, "int32", "I32", 4, 0},
    {0x4101, "intgemm8", "I8", 1, 1},
    {0x10001, "intgemm8", "I8", 1, 1},
    {0x4102, "intgemm16", "I16", 2, 1},
    {0x10002, "intgemm16", "I16", 2, 1},
    {0x802, "packed16", NULL, 0, 0},
    {0x1801, "packed8avx2", NULL, 0, 0},
    {0x2801, "packed8avx512", NULL, 0, 0},
    {0x18001, "intgemm8ssse3", NULL, 0, 0},
    {0x11001, "intgemm8avx2", NULL, 0, 0},
    {0x12001, "intgemm8avx512", NULL, 0, 0},
    {0x13001, "intgemm8avx512vnni", NULL, 0, 0},
    {0x14002, "intgemm16sse2", NULL, 0, 0},
    {0x11002, "intgemm16avx2", NULL, 0, 0},
    {0x12002, "intgemm16avx512", NULL, 0, 0},
};

/* The bytes still to be read. */
struct cursor {
    const char *at, *end;
    const char *where;
};

static const char *take(struct cursor *c, uint64_t size) {
    if (size > (uint64_t)(c->end - c->at)) return NULL;
    const char *at = c->at;
    c->at += size;
    return at;
}

static uint64_t u64_at(const char *at) {
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static int ends_early(const struct cursor *c, const char *in, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.150s: the file ends in %s; it is cut short or damaged",
                   c->where, in);
}

static int read_names(struct marianbin *bin, struct cursor *c, const char *header,
                      struct err *err) {
    for (int i = 0; i < bin->n; i++) {
        uint64_t size = u64_at(header + (size_t)i * HEADER);
        if (size < 2 || size > MARIANBIN_MAX_NAME)
            return err_set(err, HEED_EFORMAT, "%.150s: tensor %d has a name of %llu bytes",
                           c->where, i, (unsigned long long)size);
        const char *name = take(c, size);
        if (!name) return ends_early(c, "the names of its tensors", err);
        if (memchr(name, 0, size) != name + size - 1)
            return err_set(err, HEED_EFORMAT, "%.150s: the name of tensor %d does not end",
                           c->where, i);
        bin->item[i].tensor.name = name;
    }
    return 0;
}

static int read_kind(const struct kind **kind, const struct tensor *t, uint64_t code,
                     const struct cursor *c, struct err *err) {
    *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !*kind; i++)
        if (kinds[i].code == code) *kind = &kinds[i];
    if (!*kind)
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s: type 0x%llx is none of Marian's",
                       c->where, t->name, (unsigned long long)code);
    if (!(*kind)->dtype)
        return err_set(err, HEED_EFORMAT,
                       "%.100s: %.60s: %s is laid out for one processor; take the .npz, or a .bin "
                       "of float32 or intgemm8",
                       c->where, t->name, (*kind)->name);
    return 0;
}

static int read_shape(struct tensor *t, struct cursor *c, uint64_t rank, struct err *err) {
    if (rank > SAFETENSORS_MAX_RANK)
        return err_set(err, HEED_EFORMAT, "%.150s: %.60s has %llu dimensions", c->where, t->name,
                       (unsigned long long)rank);
    const char *at = take(c, rank * sizeof(int32_t));
    if (!at) return ends_early(c, "the shapes of its tensors", err);
    t->rank = (int)rank;
    for (int d = 0; d < t->rank; d++) {
        int32_t size;
        memcpy(&size, at + (size_t)d * sizeof size, sizeof size);
        if (size < 0)
            return err_set(err, HEED_EFORMAT, "%.150s: %.60s has a size of %d", c->where, t->name,
                           size);
        t->shape[d] = size;
    }
    return 0;
}

/* The data of one tensor, which are at least as many bytes as it needs: Marian rounds up. */
static int read_data(struct marianbin_tensor *item, const struct kind *kind, struct cursor *c,
                     uint64_t bytes, struct err *err) {
    struct tensor *t = &item->tensor;
    t->size = (size_t)kind->size;
    for (int d = 0; d < t->rank; d++) t->size = size_mul(t->size, (size_t)t->shape[d]);
    if (bytes < size_add(t->size, kind->intgemm ? sizeof item->scale : 0))
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s has %llu bytes, fewer than its shape says",
                       c->where, t->name, (unsigned long long)bytes);
    const char *data = take(c, bytes);
    if (!data) return ends_early(c, t->name, err);
    t->data = data;
    t->dtype = kind->dtype;
    if (!kind->intgemm) return 0;
    memcpy(&item->scale, data + t->size, sizeof item->scale);
    if (!(item->scale > 0 && item->scale <= 3e38f))
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s is to be divided by %g", c->where, t->name,
                       (double)item->scale);
    if (t->rank == 2 && !strstr(t->name, "Wemb")) {
        int64_t rows = t->shape[0];
        t->shape[0] = t->shape[1];
        t->shape[1] = rows;
        item->turned = 1;
    }
    return 0;
}

static int read_tensors(struct marianbin *bin, struct cursor *c, const char *header,
                        struct err *err) {
    int rc = read_names(bin, c, header, err);
    for (int i = 0; i < bin->n && !rc; i++)
        rc = read_shape(&bin->item[i].tensor, c, u64_at(header + (size_t)i * HEADER + 16), err);
    if (rc) return rc;
    const char *padding = take(c, sizeof(uint64_t));
    if (!padding || !take(c, u64_at(padding))) return ends_early(c, "the padding", err);
    for (int i = 0; i < bin->n; i++) {
        struct marianbin_tensor *item = &bin->item[i];
        const char *h = header + (size_t)i * HEADER;
        const struct kind *kind;
        rc = read_kind(&kind, &item->tensor, u64_at(h + 8), c, err);
        if (!rc) rc = read_data(item, kind, c, u64_at(h + 24), err);
        if (rc) return rc;
    }
    if (c->at != c->end)
        return err_set(err, HEED_EFORMAT, "%.150s: %zu bytes follow the last tensor", c->where,
                       (size_t)(c->end - c->at));
    return 0;
}

static int by_name(const void *a, const void *b) {
    const struct marianbin_tensor *x = a, *y = b;
    return strcmp(x->tensor.name, y->tensor.name);
}

int marianbin_looks(const void *bytes, size_t size) {
    return size >= 2 * sizeof(uint64_t) && u64_at(bytes) == VERSION &&
           u64_at((const char *)bytes + 8) <= MARIANBIN_MAX_TENSORS;
}

int marianbin_read(struct marianbin *bin, const void *bytes, size_t size, const char *where,
                   struct err *err) {
    *bin = (struct marianbin){0};
    if (!marianbin_looks(bytes, size))
        return err_set(err, HEED_EFORMAT, "%.180s: not a .bin of Marian, version %d", where,
                       VERSION);
    struct cursor c = {(const char *)bytes + 16, (const char *)bytes + size, where};
    uint64_t n = u64_at((const char *)bytes + 8);
    const char *header = take(&c, n * HEADER);
    if (!header) return ends_early(&c, "the list of its tensors", err);
    bin->n = (int)n;
    bin->item = xcalloc(n + 1, sizeof *bin->item);
    int rc = read_tensors(bin, &c, header, err);
    if (!rc) qsort(bin->item, (size_t)bin->n, sizeof *bin->item, by_name);
    for (int i = 1; i < bin->n && !rc; i++)
        if (by_name(&bin->item[i - 1], &bin->item[i]) == 0)
            rc = err_set(err, HEED_EFORMAT, "%.120s: %.60s is there twice", where,
                         bin->item[i].tensor.name);
    if (rc) marianbin_release(bin);
    return rc;
}

void marianbin_release(struct marianbin *bin) {
    xfree(bin->item);
    *bin = (struct marianbin){0};
}

const struct marianbin_tensor *marianbin_find(const struct marianbin *bin, const char *name) {
    struct marianbin_tensor key = {.tensor.name = name};
    return bin->n ? bsearch(&key, bin->item, (size_t)bin->n, sizeof key, by_name) : NULL;
}
