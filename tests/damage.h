/* damage.h — files that are cut short or have a bit turned, one after another.
 *
 * `read` is given each in a block of exactly its size, so that a sanitizer sees the first byte too
 * many. It must neither crash nor hang; what it makes of the bytes is its own affair. */
#ifndef TESTS_DAMAGE_H
#define TESTS_DAMAGE_H

#include <stddef.h>

typedef void damage_reader(const char *bytes, size_t size);

/* Cut at every byte; one bit of every byte turned, another one each time. Long files are damaged
 * at 4,096 places. */
void damage_all(const char *bytes, size_t size, damage_reader *read);

/* The same for a file of the tree, which is read whole first. */
void damage_file(const char *path, damage_reader *read);

#endif
