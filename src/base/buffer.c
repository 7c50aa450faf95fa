/* buffer.c — see buffer.h. */
#include "base/buffer.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

char *buffer_room(struct buffer *b, size_t size) {
    if (b->room - b->size < size) {
        b->room = max_size(2 * b->room, b->size + size + 64);
        b->text = xrealloc(b->text, b->room);
    }
    return b->text + b->size;
}

void buffer_put(struct buffer *b, const char *text, size_t size) {
    if (size) memcpy(buffer_room(b, size), text, size);
    b->size += size;
}

void buffer_puts(struct buffer *b, const char *text) { buffer_put(b, text, strlen(text)); }
