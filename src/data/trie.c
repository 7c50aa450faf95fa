/* trie.c — see trie.h. */
#include "data/trie.h"

void trie_init(struct trie *t, bool by_bytes, size_t n_string) {
    int bits = 8;
    while ((size_t)1 << (bits - 2) < n_string)
        bits++; /* a node or two for each, and as many free */
    *t = (struct trie){.by_bytes = by_bytes, .n_node = 1};
    pairmap_init(&t->edges, bits);
}

void trie_release(struct trie *t) { pairmap_release(&t->edges); }

static uint32_t label_of(const struct trie *t, const char *text, size_t size, size_t *taken) {
    if (!t->by_bytes) return trie_label(text, size, taken);
    *taken = 1;
    return (unsigned char)text[0];
}

int trie_add(struct trie *t, const char *text, size_t size, int id) {
    uint32_t node = 0;
    struct pair_entry *e = NULL;
    t->begins[(unsigned char)text[0]] = true;
    for (size_t at = 0, taken; at < size; at += taken) {
        uint32_t label = label_of(t, text + at, size - at, &taken);
        e = pairmap_find(&t->edges, node, label);
        if (e->to < 0) {
            struct pair_entry edge = {node, label, (uint32_t)TRIE_NONE, t->n_node++};
            pairmap_add(&t->edges, edge);
            e = pairmap_find(&t->edges, node, label);
        }
        node = (uint32_t)e->to;
    }
    int old = (int)e->value;
    if (old == TRIE_NONE) e->value = (uint32_t)id;
    return old;
}

int trie_find(const struct trie *t, const char *text, size_t size) {
    int id = TRIE_NONE;
    if (size == 0 || !t->begins[(unsigned char)text[0]]) return TRIE_NONE;
    int32_t node = 0;
    for (size_t at = 0, taken; at < size && node >= 0; at += taken) {
        uint32_t label = label_of(t, text + at, size - at, &taken);
        node = trie_step(t, node, label, &id);
    }
    return node >= 0 ? id : TRIE_NONE;
}

size_t trie_prefix(const struct trie *t, const char *text, size_t size) {
    size_t longest = 0;
    int32_t node = 0;
    int id;
    if (size == 0 || !t->begins[(unsigned char)text[0]]) return 0;
    for (size_t at = 0, taken; at < size; at += taken) {
        uint32_t label = label_of(t, text + at, size - at, &taken);
        node = trie_step(t, node, label, &id);
        if (node < 0) break;
        if (id != TRIE_NONE) longest = at + taken;
    }
    return longest;
}
