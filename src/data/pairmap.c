/* pairmap.c — see pairmap.h. */
#include "data/pairmap.h"

#include <string.h>

#include "base/mem.h"

void pairmap_init(struct pairmap *m, int bits) {
    size_t size = ((size_t)1 << bits) * sizeof *m->entry;
    *m = (struct pairmap){.bits = bits, .entry = xmalloc(size)};
    memset(m->entry, 0xFF, size); /* to = -1 */
}

void pairmap_release(struct pairmap *m) {
    xfree(m->entry);
    *m = (struct pairmap){0};
}

void pairmap_add(struct pairmap *m, struct pair_entry entry) {
    if (2 * (m->n + 1) > (size_t)1 << m->bits) {
        struct pairmap old = *m;
        pairmap_init(m, old.bits + 1);
        m->n = old.n;
        for (size_t i = 0; i < (size_t)1 << old.bits; i++)
            if (old.entry[i].to >= 0)
                *pairmap_find(m, old.entry[i].a, old.entry[i].b) = old.entry[i];
        xfree(old.entry);
    }
    *pairmap_find(m, entry.a, entry.b) = entry;
    m->n++;
}
