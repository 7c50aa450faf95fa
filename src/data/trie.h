/* trie.h — a trie of strings, for the few that are looked for at every place of a text: which of
 * them does it begin with? */
#ifndef DATA_TRIE_H
#define DATA_TRIE_H

#include <stdbool.h>

#include "data/pairmap.h"

struct trie {
    struct pairmap edges; /* from a node by a byte to the next; value: 1 if a string ends there */
    int32_t n_node;       /* node 0 is the root */
    bool begins[256];     /* some string begins with this byte */
};

void trie_init(struct trie *trie);
void trie_release(struct trie *trie);

void trie_add(struct trie *trie, const char *text, size_t size); /* not empty */

/* How many bytes the longest string has that the text begins with, 0 if there is none; *n strings
 * in all, if that is not NULL. */
size_t trie_prefix(const struct trie *trie, const char *text, size_t size, int *n);

#endif
