/* pairmap.h — a hash table from pairs of numbers to numbers. Two uses: the piece that two pieces
 * make, and tries, where a node and a label lead to the next node. */
#ifndef DATA_PAIRMAP_H
#define DATA_PAIRMAP_H

#include <stddef.h>
#include <stdint.h>

struct pair_entry {
    uint32_t a, b, value;
    int32_t to; /* -1: the place is free */
};

struct pairmap {
    struct pair_entry *entry; /* [1 << bits], at least half of them free */
    size_t n;
    int bits;
};

/* Room for 2^(bits - 1) pairs; grows by itself. */
void pairmap_init(struct pairmap *map, int bits);
void pairmap_release(struct pairmap *map);

/* A pair that is not there yet. Pointers of pairmap_find are void afterwards. */
void pairmap_add(struct pairmap *map, struct pair_entry entry);

/* Where the pair is, or the free place where it belongs. */
static inline struct pair_entry *pairmap_find(const struct pairmap *map, uint32_t a, uint32_t b) {
    uint64_t hash = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    hash ^= hash >> 32;
    size_t mask = ((size_t)1 << map->bits) - 1;
    size_t at = (size_t)(hash * UINT64_C(0xD6E8FEB86659FD93) >> (64 - map->bits));
    while (map->entry[at].to >= 0 && (map->entry[at].a != a || map->entry[at].b != b))
        at = (at + 1) & mask;
    return &map->entry[at];
}

#endif
