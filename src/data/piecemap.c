/* piecemap.c — see piecemap.h. */
#include "data/piecemap.h"

#include "base/mem.h"

static void allocate(struct piecemap *m, int bits) {
    size_t size = sizeof *m->slot << bits;
    m->bits = bits;
    m->slot = memset(xmalloc_dense(size), 0, size);
}

void piecemap_init(struct piecemap *m, const struct piece *piece, size_t n, bool marks) {
    int bits = 5;
    while ((size_t)1 << bits < 2 * n) bits++;
    *m = (struct piecemap){.piece = piece, .marks = marks};
    allocate(m, bits + marks);
}

void piecemap_release(struct piecemap *m) { xfree(m->slot); }

static size_t next_free(const struct piecemap *m, uint32_t tag) {
    size_t mask = ((size_t)1 << m->bits) - 1, at = tag >> (32 - m->bits);
    while (m->slot[at].value) at = (at + 1) & mask;
    return at;
}

static void put(struct piecemap *m, uint32_t tag, uint32_t value) {
    if (2 * (m->n + 1) > (size_t)1 << m->bits) {
        struct piecemap old = *m;
        allocate(m, old.bits + 1);
        for (size_t i = 0; i < (size_t)1 << old.bits; i++)
            if (old.slot[i].value) m->slot[next_free(m, old.slot[i].tag)] = old.slot[i];
        xfree(old.slot);
    }
    m->slot[next_free(m, tag)] = (struct piecemap_slot){tag, value};
    m->n++;
}

/* Marks that something of this hash goes on. That another text may have it, too, does no harm. */
static void mark(struct piecemap *m, uint64_t hash) {
    uint32_t tag = piecemap_tag(hash);
    size_t mask = ((size_t)1 << m->bits) - 1, at = tag >> (32 - m->bits);
    while (m->slot[at].value && m->slot[at].tag != tag) at = (at + 1) & mask;
    if (m->slot[at].value)
        m->slot[at].value |= PIECEMAP_LONGER;
    else
        put(m, tag, PIECEMAP_LONGER);
}

/* way may be NULL. */
static uint64_t hash_of(const char *text, size_t size, struct piecemap_way *way) {
    uint64_t hash = 0;
    uint32_t n = 0;
    for (size_t at = 0, taken; at < size; at += taken) {
        if (way && piecemap_marks(n)) way->mark[way->n_mark++] = hash;
        hash = piecemap_join(hash, piecemap_char(text + at, size - at, &taken), PIECEMAP_SHIFT);
        n++;
    }
    return hash;
}

int piecemap_find(const struct piecemap *m, const char *text, size_t size) {
    bool longer;
    if (size == 0 || !m->begins[(unsigned char)text[0]]) return -1;
    return piecemap_look(m, hash_of(text, size, NULL), text, size, &longer);
}

static void fetch(const struct piecemap *m, uint64_t hash) {
    __builtin_prefetch(&m->slot[piecemap_tag(hash) >> (32 - m->bits)], 1);
}

void piecemap_approach(const struct piecemap *m, int id, struct piecemap_way *way) {
    const struct piece *p = &m->piece[id];
    way->n_mark = 0;
    way->hash = hash_of(p->text, p->size, m->marks ? way : NULL);
    fetch(m, way->hash);
    for (int i = 0; i < way->n_mark; i++) fetch(m, way->mark[i]);
}

int piecemap_add(struct piecemap *m, int id, const struct piecemap_way *way) {
    const struct piece *p = &m->piece[id];
    bool longer;
    m->begins[(unsigned char)p->text[0]] = true;
    for (int i = 0; i < way->n_mark; i++) mark(m, way->mark[i]);
    int old = piecemap_look(m, way->hash, p->text, p->size, &longer);
    if (old < 0) put(m, piecemap_tag(way->hash), (uint32_t)id + 1);
    return old;
}
