/* mem.h — host memory: small objects that cannot fail, large blocks that can, and a bump arena.
 *
 * xmalloc and friends serve small host objects; if even those cannot be allocated, the process ends
 * in one place with a message. Large blocks (parameters, activations, workspaces) come from
 * mem_block and their failure is an ordinary error.
 *
 * Every allocation made here is counted: the tests assert that the counter stands still during a
 * training step and a decoding loop. */
#ifndef BASE_MEM_H
#define BASE_MEM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MEM_ALIGN 64 /* a cache line and a 512-bit vector */

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *ptr, size_t size);
char *xstrdup(const char *s);
void xfree(void *ptr);

/* xmalloc for a table that will be written all over. From 1 MiB on it has large pages, and with
 * them up to twice its size: hundreds of small ones take longer to come by than to be filled. */
void *xmalloc_dense(size_t size);

/* A MEM_ALIGN-aligned block of uninitialised bytes, or NULL. Released by mem_block_free. */
void *mem_block(size_t size);
void mem_block_free(void *block);

/* Bytes this process could still use without swapping or being killed: what the system, its control
 * groups and its limits leave. SIZE_MAX when nothing is known. */
size_t mem_available(void);

/* Allocations made through this module since the program began. */
uint64_t mem_count(void);

/* a + b and a * b, saturating at SIZE_MAX: sizes computed from hostile numbers stay comparable. */
static inline size_t size_add(size_t a, size_t b) { return a > SIZE_MAX - b ? SIZE_MAX : a + b; }
static inline size_t size_mul(size_t a, size_t b) {
    size_t r;
    return __builtin_mul_overflow(a, b, &r) ? SIZE_MAX : r;
}

/* A bump arena. It does not own its block: the same carving code runs first over base == NULL,
 * which only measures (`used` grows, addresses are meaningless and must not be read), then over
 * real memory. arena_take is MEM_ALIGN-aligned; past the capacity it is a bug, because the
 * measuring pass was wrong. */
struct arena {
    char *base;
    size_t used, cap;
};

void *arena_take(struct arena *arena, size_t size);

#endif
