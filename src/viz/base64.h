/* base64.h — bytes as text, for data inside pages and pictures. Streams: any pieces, then the
 * end. */
#ifndef VIZ_BASE64_H
#define VIZ_BASE64_H

#include "base/file.h"

struct base64 {
    struct file_writer *w;
    unsigned char left[3]; /* bytes that do not yet make a group */
    int n_left;
};

void base64_write(struct base64 *b, const void *data, size_t size);
void base64_end(struct base64 *b);

#endif
