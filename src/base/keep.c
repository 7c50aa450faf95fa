/* keep.c — see keep.h. */
#include "base/keep.h"

#include <string.h>

#include "base/mem.h"

struct keep_block {
    struct keep_block *next;
    size_t size, used;
    max_align_t data[];
};

void *keep_take(struct keep *k, size_t size) {
    size = (size + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    while (k->at && k->at->size - k->at->used < size && k->at->next) {
        k->at = k->at->next;
        k->at->used = 0;
    }
    if (!k->at || k->at->size - k->at->used < size) {
        size_t least = k->block ? k->block : KEEP_BLOCK, room = size > least ? size : least;
        struct keep_block *b = xmalloc(sizeof *b + room);
        *b = (struct keep_block){.size = room};
        if (k->at)
            k->at->next = b;
        else
            k->first = b;
        k->at = b;
    }
    void *p = (char *)k->at->data + k->at->used;
    k->at->used += size;
    return p;
}

char *keep_text(struct keep *k, const char *text, size_t size) {
    char *copy = keep_take(k, size + 1);
    if (size) memcpy(copy, text, size);
    copy[size] = 0;
    return copy;
}

void keep_clear(struct keep *k) {
    k->at = k->first;
    if (k->at) k->at->used = 0;
}

void keep_release(struct keep *k) {
    for (struct keep_block *b = k->first, *next; b; b = next) {
        next = b->next;
        xfree(b);
    }
    k->first = k->at = NULL;
}
