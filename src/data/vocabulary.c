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

struct slot {
    uint32_t tag; /* of the token's hash */
    int32_t id;   /* + 1; 0: free */
};

struct vocabulary {
    char *bytes;     /* tokens, each with a NUL */
    uint32_t *begin; /* [n + 1] in bytes */
    int n;
    struct slot *slot; /* [mask + 1] */
    uint32_t mask;
};

static int line_error(const char *name, int line, const char *what, struct err *err) {
    return err_set(err, HEED_EFORMAT, "%.150s: line %d: %s", name, line + 1, what);
}

static bool is_token(const struct vocabulary *v, int id, const char *token, size_t size) {
    const uint32_t *begin = v->begin + id;
    return begin[1] - begin[0] - 1 == size && memcmp(v->bytes + begin[0], token, size) == 0;
}

/* Where the token of this hash is in the table, or would be. */
static struct slot *slot_of(const struct vocabulary *v, uint64_t hash, const char *token,
                            size_t size) {
    uint32_t at = (uint32_t)hash & v->mask, tag = (uint32_t)(hash >> 32);
    for (; v->slot[at].id; at = (at + 1) & v->mask)
        if (v->slot[at].tag == tag && is_token(v, v->slot[at].id - 1, token, size)) break;
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

static int enter(struct vocabulary *v, const char *name, struct err *err) {
    for (v->mask = 15; v->mask < 2 * (uint32_t)v->n;) v->mask = 2 * v->mask + 1;
    v->slot = xcalloc((size_t)v->mask + 1, sizeof *v->slot);
    for (int i = 0; i < v->n; i++) {
        const char *token = vocabulary_token(v, i);
        size_t size = v->begin[i + 1] - v->begin[i] - 1;
        uint64_t hash = XXH3_64bits(token, size);
        struct slot *slot = slot_of(v, hash, token, size);
        if (slot->id)
            return err_set(err, HEED_EFORMAT, "%.150s: line %d: the same token as in line %d", name,
                           i + 1, slot->id);
        *slot = (struct slot){(uint32_t)(hash >> 32), i + 1};
    }
    return 0;
}

static size_t count_lines(const char *bytes, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size; i++) n += bytes[i] == '\n';
    return n;
}

int vocabulary_read(struct vocabulary **out, const char *name, const void *data, size_t size,
                    struct err *err) {
    *out = NULL;
    if (size == 0) return err_set(err, HEED_EFORMAT, "%.150s: no tokens", name);
    if (size > VOCABULARY_MAX_FILE)
        return err_set(err, HEED_ELIMIT, "%.150s: %zu bytes; at most %d are allowed", name, size,
                       VOCABULARY_MAX_FILE);
    struct vocabulary *v = xcalloc(1, sizeof *v);
    v->bytes = xmalloc(size + 1);
    memcpy(v->bytes, data, size);
    if (v->bytes[size - 1] != '\n') v->bytes[size++] = '\n';
    size_t n = count_lines(v->bytes, size);
    int rc = 0;
    if (n > VOCABULARY_MAX_SIZE)
        rc = err_set(err, HEED_ELIMIT, "%.150s: %zu tokens; at most %d are allowed", name, n,
                     VOCABULARY_MAX_SIZE);
    if (!rc) v->begin = xmalloc((n + 1) * sizeof *v->begin);
    if (!rc) rc = cut(v, name, size, err);
    if (!rc) rc = enter(v, name, err);
    if (rc) vocabulary_free(v);
    *out = rc ? NULL : v;
    return rc;
}

void vocabulary_free(struct vocabulary *v) {
    if (!v) return;
    xfree(v->bytes);
    xfree(v->begin);
    xfree(v->slot);
    xfree(v);
}

int vocabulary_size(const struct vocabulary *v) { return v->n; }

const char *vocabulary_token(const struct vocabulary *v, int id) { return v->bytes + v->begin[id]; }

int vocabulary_find(const struct vocabulary *v, const char *token, size_t size) {
    return slot_of(v, XXH3_64bits(token, size), token, size)->id - 1;
}
