/* buffer.h — a text that grows. Start from {0}; xfree its text. */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stddef.h>

/* A part of a text: its bytes [begin, end). */
struct piece {
    size_t begin, end;
};

struct buffer {
    char *text;
    size_t size, room;
};

char *buffer_room(struct buffer *buffer, size_t size); /* for so many more bytes */
void buffer_put(struct buffer *buffer, const char *text, size_t size);
void buffer_puts(struct buffer *buffer, const char *text); /* up to its NUL */

/* Makes room in an array for one more than n. */
#define GROW(array, n, room)                                                                       \
    do {                                                                                           \
        if ((n) < (room)) break;                                                                   \
        (room) = (room) ? 2 * (room) : 16;                                                         \
        (array) = xrealloc((array), (size_t)(room) * sizeof *(array));                             \
    } while (0)

#endif
