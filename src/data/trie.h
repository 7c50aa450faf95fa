/* trie.h — strings and the numbers they stand for: a trie over characters, or over bytes.
 *
 * Edges live in one hash table, since this is quick to build: 32,000 pieces in about a millisecond,
 * where a double array takes twenty.
 *
 * A character is what its first byte says, whether it is good UTF-8 or not, cut off at the end of
 * the text: SentencePiece counts so. */
#ifndef DATA_TRIE_H
#define DATA_TRIE_H

#include <stdbool.h>

#include "data/pairmap.h"

struct trie {
    struct pairmap edges; /* to the next node, with what ends there; node 0 is the root */
    int32_t n_node;
    bool by_bytes;
    bool begins[256]; /* with this byte */
};

enum { TRIE_NONE = -1 };

void trie_init(struct trie *trie, bool by_bytes, size_t n_string);
void trie_release(struct trie *trie);

/* Adds a string for an id >= 0; the id it has already, or TRIE_NONE. */
int trie_add(struct trie *trie, const char *text, size_t size, int id);

/* The id of this string, or TRIE_NONE. */
int trie_find(const struct trie *trie, const char *text, size_t size);

/* How many bytes the longest string has that the text begins with, 0 if there is none. */
size_t trie_prefix(const struct trie *trie, const char *text, size_t size);

/* From a node along a label: the next node, or TRIE_NONE; *id of the string that ends there. */
static inline int32_t trie_step(const struct trie *trie, int32_t node, uint32_t label, int *id) {
    const struct pair_entry *e = pairmap_find(&trie->edges, (uint32_t)node, label);
    *id = (int)e->value;
    return e->to;
}

/* The character at the beginning of a text that is not empty: its label, and its size. Labels of
 * different sizes differ in their highest byte, where those of one byte and of four have a byte of
 * the text or nothing, and the others their size. */
static inline uint32_t trie_label(const char *text, size_t size, size_t *taken) {
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

#endif
