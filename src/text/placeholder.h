/* placeholder.h — parts of a text that a translation must have as they are: what programs fill in,
 * {name} {0} {{ x }} ${x} %{x} %s %1$d %(x)s, and addresses: https://a.example/b www.a.example
 * a.example/b name@a.example, /usr/lib/b ~/b C:\b. */
#ifndef TEXT_PLACEHOLDER_H
#define TEXT_PLACEHOLDER_H

#include <stddef.h>

/* The length of the placeholder at text[at] (< size), or 0. What is before it counts: an address
 * does not begin in the middle of a word. */
size_t placeholder_at(const char *text, size_t size, size_t at);

/* Has the text one? */
int placeholder_in(const char *text, size_t size);

#endif
