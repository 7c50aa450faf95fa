/* piecemap.h — which piece is spelled so? A hash table over the spellings of pieces.
 *
 * Hashes are sums over characters that can be put together: of a text from its front, character by
 * character, and of two neighbours from theirs. A table is quick to fill: a trie of the same pieces
 * has three to six times as many nodes, each somewhere else in memory.
 *
 * What a trie has in advance, that a search ends where nothing goes on so, a table has if it is
 * made with marks: for prefixes of 2, 4, 8, ... characters it says whether longer pieces begin with
 * them.
 *
 * A character is what its first byte says, whether it is good UTF-8 or not, cut off at the end of
 * the text: SentencePiece counts so. */
#ifndef DATA_PIECEMAP_H
#define DATA_PIECEMAP_H

#include <string.h>

#include "data/pieces.h"

/* Value: the piece's id + 1, or 0, and whether longer pieces begin so. 0 is a free place. */
enum { PIECEMAP_ID = 0x7FFFFFFF };
#define PIECEMAP_LONGER 0x80000000u

struct piecemap_slot {
    uint32_t tag, value;
};

struct piecemap {
    const struct piece *piece;
    struct piecemap_slot *slot; /* [1 << bits], at least half of them free */
    size_t n;
    int bits;
    bool marks;
    bool begins[256]; /* some piece begins with this byte */
};

/* For about n of the pieces. */
void piecemap_init(struct piecemap *map, const struct piece *piece, size_t n, bool marks);
void piecemap_release(struct piecemap *map);

/* A piece on its way into the map: hashes of its prefixes that are to be marked, and its own. */
struct piecemap_way {
    uint64_t mark[26]; /* [n_mark] */
    int n_mark;
    uint64_t hash;
};

/* What adding the piece will look at is fetched from memory meanwhile. */
void piecemap_approach(const struct piecemap *map, int id, struct piecemap_way *way);
/* The piece that is spelled like this one, or -1: it was added. */
int piecemap_add(struct piecemap *map, int id, const struct piecemap_way *way);

/* The piece spelled so, or -1. */
int piecemap_find(const struct piecemap *map, const char *text, size_t size);

/* The character at the beginning of a text that is not empty: a number, and its size. Characters of
 * different sizes differ in the highest byte of their numbers, where those of four bytes have their
 * first and the others 0, 2 or 3. */
static inline uint32_t piecemap_char(const char *text, size_t size, size_t *taken) {
    const unsigned char *b = (const unsigned char *)text;
    size_t n = b[0] < 0xC0 ? 1 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    *taken = n = n < size ? n : size;
    switch (n) {
    case 1:
        return b[0];
    case 2:
        return 2u << 24 | (uint32_t)b[0] << 8 | b[1];
    case 3:
        return 3u << 24 | (uint32_t)b[0] << 16 | (uint32_t)b[1] << 8 | b[2];
    default:
        return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
}

/* The hash of a text and of another behind it, whose length n has shift^n: start from 0 and 1. */
#define PIECEMAP_SHIFT UINT64_C(0x9E3779B97F4A7C15)
static inline uint64_t piecemap_join(uint64_t hash, uint64_t next, uint64_t shift) {
    return hash * shift + next;
}

static inline uint32_t piecemap_tag(uint64_t hash) {
    return (uint32_t)(hash * UINT64_C(0xD6E8FEB86659FD93) >> 32);
}

/* The piece of this hash and spelling, or -1; *longer: longer ones may begin so. */
static inline int piecemap_look(const struct piecemap *map, uint64_t hash, const char *text,
                                size_t size, bool *longer) {
    uint32_t tag = piecemap_tag(hash);
    size_t mask = ((size_t)1 << map->bits) - 1, at = tag >> (32 - map->bits);
    *longer = false;
    for (const struct piecemap_slot *s; (s = &map->slot[at])->value; at = (at + 1) & mask) {
        if (s->tag != tag) continue;
        int id = (int)(s->value & PIECEMAP_ID) - 1;
        *longer |= (s->value & PIECEMAP_LONGER) != 0;
        if (id < 0) continue;
        const struct piece *p = &map->piece[id];
        if (p->size == size && memcmp(p->text, text, size) == 0) return id;
    }
    return -1;
}

/* Whether a search from the front may end where it sees no mark. */
static inline bool piecemap_marks(uint32_t n_char) {
    return n_char > 1 && (n_char & (n_char - 1)) == 0;
}

#endif
