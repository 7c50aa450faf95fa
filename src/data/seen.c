/* seen.c — see seen.h. */
#include "data/seen.h"

#include "base/mem.h"

enum { FIRST_CAP = 1 << 12 };

/* The slot of the hash, or the free one where it belongs. */
static size_t slot_of(const struct seen *s, uint64_t hash) {
    size_t i = hash & (s->cap - 1);
    while (s->hash[i] && s->hash[i] != hash) i = (i + 1) & (s->cap - 1);
    return i;
}

static void grow(struct seen *s) {
    struct seen old = *s;
    s->cap = old.cap ? 2 * old.cap : FIRST_CAP;
    s->hash = xcalloc(s->cap, sizeof *s->hash);
    s->value = xcalloc(s->cap, sizeof *s->value);
    for (size_t i = 0; i < old.cap; i++) {
        if (!old.hash[i]) continue;
        size_t slot = slot_of(s, old.hash[i]);
        s->hash[slot] = old.hash[i];
        s->value[slot] = old.value[i];
    }
    seen_release(&old);
}

uint32_t *seen_value(struct seen *s, uint64_t hash) {
    hash += !hash;
    if (s->n >= s->cap - s->cap / 3) grow(s);
    size_t slot = slot_of(s, hash);
    s->n += !s->hash[slot];
    s->hash[slot] = hash;
    return &s->value[slot];
}

const uint32_t *seen_find(const struct seen *s, uint64_t hash) {
    hash += !hash;
    if (!s->cap) return NULL;
    size_t slot = slot_of(s, hash);
    return s->hash[slot] ? &s->value[slot] : NULL;
}

size_t seen_bytes(const struct seen *s) { return s->cap * (sizeof *s->hash + sizeof *s->value); }

void seen_release(struct seen *s) {
    xfree(s->hash);
    xfree(s->value);
    *s = (struct seen){0};
}
