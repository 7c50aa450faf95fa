/* trie.c — see trie.h. */
#include "data/trie.h"

void trie_init(struct trie *t) {
    *t = (struct trie){.n_node = 1};
    pairmap_init(&t->edges, 5);
}

void trie_release(struct trie *t) { pairmap_release(&t->edges); }

void trie_add(struct trie *t, const char *text, size_t size) {
    uint32_t node = 0;
    t->begins[(unsigned char)text[0]] = true;
    for (size_t i = 0; i < size; i++) {
        uint32_t c = (unsigned char)text[i];
        struct pair_entry *e = pairmap_find(&t->edges, node, c);
        if (e->to < 0) {
            pairmap_add(&t->edges, (struct pair_entry){node, c, 0, t->n_node++});
            e = pairmap_find(&t->edges, node, c);
        }
        if (i + 1 == size) e->value = 1;
        node = (uint32_t)e->to;
    }
}

size_t trie_prefix(const struct trie *t, const char *text, size_t size, int *n) {
    size_t longest = 0;
    uint32_t node = 0;
    if (n) *n = 0;
    if (size == 0 || !t->begins[(unsigned char)text[0]]) return 0;
    for (size_t i = 0; i < size; i++) {
        const struct pair_entry *e = pairmap_find(&t->edges, node, (unsigned char)text[i]);
        if (e->to < 0) break;
        if (e->value) longest = i + 1;
        if (e->value && n) ++*n;
        node = (uint32_t)e->to;
    }
    return longest;
}
