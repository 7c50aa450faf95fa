/* base64.c — see base64.h. */
#include "viz/base64.h"

static void put_group(struct base64 *b, int n) {
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    unsigned v = (unsigned)b->left[0] << 16 | (unsigned)b->left[1] << 8 | b->left[2];
    char out[4] = {digit[v >> 18], digit[v >> 12 & 63], digit[v >> 6 & 63], digit[v & 63]};
    if (n < 3) out[3] = '=';
    if (n < 2) out[2] = '=';
    file_writer_write(b->w, out, sizeof out);
    b->n_left = 0;
    b->left[0] = b->left[1] = b->left[2] = 0;
}

void base64_write(struct base64 *b, const void *data, size_t size) {
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++) {
        b->left[b->n_left++] = p[i];
        if (b->n_left == 3) put_group(b, 3);
    }
}

void base64_end(struct base64 *b) {
    if (b->n_left) put_group(b, b->n_left);
}
