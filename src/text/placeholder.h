/* placeholder.h — parts of a text that programs fill in: {name} {0} {{ x }} ${x} %{x} %s %1$d
 * %(x)s. A translation must have them as they are. */
#ifndef TEXT_PLACEHOLDER_H
#define TEXT_PLACEHOLDER_H

#include <stddef.h>

/* The length of the placeholder that text[0..size) begins with, or 0. */
size_t placeholder_at(const char *text, size_t size);

/* Has the text one? */
int placeholder_in(const char *text, size_t size);

#endif
