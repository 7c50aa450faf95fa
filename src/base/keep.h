/* keep.h — memory that is taken piece by piece and given back as a whole.
 *
 * A list of blocks to take from. Cleared, its blocks are used again; released, they are gone. Begin
 * with {0}. One thread at a time. */
#ifndef BASE_KEEP_H
#define BASE_KEEP_H

#include <stddef.h>

enum { KEEP_BLOCK = 256 << 10 }; /* bytes of a block, unless `block` says otherwise */

struct keep_block;
struct keep {
    struct keep_block *first, *at;
    size_t block; /* 0: KEEP_BLOCK */
};

/* Aligned for everything; its bytes are whatever they were. */
void *keep_take(struct keep *keep, size_t size);
char *keep_text(struct keep *keep, const char *text, size_t size); /* a copy, and a NUL behind it */
void keep_clear(struct keep *keep);
void keep_release(struct keep *keep);

#endif
