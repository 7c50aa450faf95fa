/* mem.c — see mem.h. */
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t n_alloc;

static void *counted(void *ptr, int wanted) {
    BUG_ON(!ptr && wanted); /* out of memory for a small object: nothing sensible is left to do */
    atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
    return ptr;
}

void *xmalloc(size_t size) { return counted(malloc(size), size != 0); }
void *xcalloc(size_t count, size_t size) { return counted(calloc(count, size), count && size); }
void *xrealloc(void *ptr, size_t size) { return counted(realloc(ptr, size), size != 0); }
void xfree(void *ptr) { free(ptr); }

char *xstrdup(const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(xmalloc(n), s, n);
}

void *mem_block(size_t size) {
    if (size > SIZE_MAX / 2) return NULL;
    atomic_fetch_add_explicit(&n_alloc, 1, memory_order_relaxed);
    size = (size + MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    return aligned_alloc(MEM_ALIGN, size ? size : MEM_ALIGN);
}

void mem_block_free(void *block) { free(block); }

uint64_t mem_count(void) { return atomic_load_explicit(&n_alloc, memory_order_relaxed); }

void *arena_take(struct arena *arena, size_t size) {
    size_t begin = size_add(arena->used, MEM_ALIGN - 1) & ~(size_t)(MEM_ALIGN - 1);
    arena->used = begin < arena->used ? SIZE_MAX : size_add(begin, size); /* saturated stays so */
    if (!arena->base) return NULL;
    BUG_ON(arena->used > arena->cap);
    return arena->base + begin;
}
