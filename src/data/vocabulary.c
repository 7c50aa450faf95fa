/* vocabulary.c — see vocabulary.h. Lines are cut where they lie; a table of twice their number
 * finds them by hash. */
#include "data/vocabulary.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define XXH_INLINE_ALL /* tokens are short: a call would take longer than the hash */
#include <xxhash.h>

#include "base/mem.h"
#include "base/utf8.h"

/* Slots of the table: an id + 1, or 0 where it is free, and above it some bits of the hash. */
enum { ID_BITS = 21 };
#define ID_OF ((UINT32_C(1) << ID_BITS) - 1)
_Static_assert(VOCABULARY_MAX_SIZE < 1 << ID_BITS, "ids fit in a slot");

struct vocabulary {
    uint32_t *slot;  /* [mask + 1]; the block that also holds: */
    uint32_t *begin; /* [n + 1] in bytes */
    char *bytes;     /* tokens, each with a NUL */
    int n;
    uint32_t mask;
};

static int line_error(const char *name, int line, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.150s: line %d: %s", name, line + 1, what);
}

static bool is_token(const struct vocabulary *v, int id, const char *token, size_t size) {
    const uint32_t *begin = v->begin + id;
    return begin[1] - begin[0] - 1 == size && memcmp(v->bytes + begin[0], token, size) == 0;
}

static uint32_t tag_of(uint64_t hash) { return (uint32_t)(hash >> 32) & ~ID_OF; }

/* Where the token of this hash is in the table, or would be. */
static uint32_t *slot_of(const struct vocabulary *v, uint64_t hash, const char *token,
                         size_t size) {
    uint32_t at = (uint32_t)hash & v->mask, tag = tag_of(hash), s;
    for (; (s = v->slot[at]); at = (at + 1) & v->mask)
        if ((s & ~ID_OF) == tag && is_token(v, (int)(s & ID_OF) - 1, token, size)) break;
    return &v->slot[at];
}

/* Turns newlines into NULs and notes where tokens begin. The bytes end with a newline. */
static int cut(struct vocabulary *v, const char *name, size_t size, struct err *err) {
    size_t clean = utf8_clean_prefix(v->bytes, size);
    for (size_t at = 0; at < size; v->n++) {
        char *end = memchr(v->bytes + at, '\n', size - at);
        size_t length = (size_t)(end - v->bytes) - at;
        if (length == 0) return line_error(name, v->n, "an empty token", err);
        if (length > VOCABULARY_MAX_TOKEN)
            return err_set(err, HEED_ELIMIT, "%.150s: line %d: a token of %zu bytes; at most %d",
                           name, v->n + 1, length, VOCABULARY_MAX_TOKEN);
        if (at + length > clean)
            return line_error(name, v->n, "not UTF-8, or with a NUL byte", err);
        *end = 0;
        v->begin[v->n] = (uint32_t)at;
        at += length + 1;
        v->begin[v->n + 1] = (uint32_t)at;
    }
    return 0;
}

static size_t size_of(const struct vocabulary *v, int id) {
    return v->begin[id + 1] - v->begin[id] - 1;
}

/* Some at a time: their places in the table are fetched while the next are hashed. */
static int enter(struct vocabulary *v, const char *name, struct err *err) {
    enum { SOME = 16 };
    uint64_t hash[SOME];
    for (int first = 0; first < v->n; first += SOME) {
        int n = v->n - first < SOME ? v->n - first : SOME;
        for (int i = 0; i < n; i++) {
            hash[i] = XXH3_64bits(vocabulary_token(v, first + i), size_of(v, first + i));
            __builtin_prefetch(&v->slot[(uint32_t)hash[i] & v->mask], 1);
        }
        for (int i = 0; i < n; i++) {
            int id = first + i;
            uint32_t *slot = slot_of(v, hash[i], vocabulary_token(v, id), size_of(v, id));
            if (*slot)
                return err_set(err, HEED_EFORMAT, "%.150s: line %d: the same token as in line %d",
                               name, id + 1, (int)(*slot & ID_OF));
            *slot = tag_of(hash[i]) | (uint32_t)(id + 1);
        }
    }
    return 0;
}

static size_t count_lines(const char *bytes, size_t size) {
    size_t n = size && bytes[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) n += bytes[i] == '\n';
    return n;
}

/* Room for n tokens of so many bytes in all, and an empty table. */
static void reserve(struct vocabulary *v, size_t n, size_t size) {
    for (v->mask = 15; v->mask < 2 * n;) v->mask = 2 * v->mask + 1;
    size_t n_slot = (size_t)v->mask + 1;
    v->slot = xmalloc_dense((n_slot + n + 1) * sizeof *v->slot + size);
    v->begin = v->slot + n_slot;
    v->bytes = (char *)(v->begin + n + 1);
    memset(v->slot, 0, n_slot * sizeof *v->slot);
}

int vocabulary_read(struct vocabulary **out, const char *name, const void *data, size_t size,
                    struct err *err) {
    *out = NULL;
    if (size == 0) return err_set(err, HEED_EFORMAT, "%.150s: no tokens", name);
    if (size > VOCABULARY_MAX_FILE)
        return err_set(err, HEED_ELIMIT, "%.150s: %zu bytes; at most %d are allowed", name, size,
                       VOCABULARY_MAX_FILE);
    size_t n = count_lines(data, size);
    if (n > VOCABULARY_MAX_SIZE)
        return err_set(err, HEED_ELIMIT, "%.150s: %zu tokens; at most %d are allowed", name, n,
                       VOCABULARY_MAX_SIZE);
    struct vocabulary *v = xcalloc(1, sizeof *v);
    reserve(v, n, size + 1);
    memcpy(v->bytes, data, size);
    if (v->bytes[size - 1] != '\n') v->bytes[size++] = '\n';
    int rc = cut(v, name, size, err);
    if (!rc) rc = enter(v, name, err);
    if (rc) vocabulary_free(v);
    *out = rc ? NULL : v;
    return rc;
}

void vocabulary_free(struct vocabulary *v) {
    if (!v) return;
    xfree(v->slot);
    xfree(v);
}

int vocabulary_size(const struct vocabulary *v) { return v->n; }

const char *vocabulary_token(const struct vocabulary *v, int id) { return v->bytes + v->begin[id]; }

int vocabulary_find(const struct vocabulary *v, const char *token, size_t size) {
    return (int)(*slot_of(v, XXH3_64bits(token, size), token, size) & ID_OF) - 1;
}
