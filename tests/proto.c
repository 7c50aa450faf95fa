/* proto.c — see proto.h. */
#include "proto.h"

#include <string.h>

#include "base/err.h"

static void put(struct proto *p, const void *data, size_t size) {
    BUG_ON(size > sizeof p->data - p->size);
    memcpy(p->data + p->size, data, size);
    p->size += size;
}

void put_varint(struct proto *p, uint64_t v) {
    unsigned char c;
    for (; v > 127; v >>= 7) put(p, (c = (unsigned char)((v & 127) | 128), &c), 1);
    put(p, (c = (unsigned char)v, &c), 1);
}

void put_bytes(struct proto *p, unsigned field, const void *data, size_t size) {
    put_varint(p, field << 3 | 2);
    put_varint(p, size);
    put(p, data, size);
}

void put_number(struct proto *p, unsigned field, uint64_t v) {
    put_varint(p, field << 3);
    put_varint(p, v);
}

void put_float(struct proto *p, unsigned field, float v) {
    put_varint(p, field << 3 | 5);
    put(p, &v, sizeof v);
}

void put_scored(struct proto *p, const char *text, float score, unsigned type) {
    static _Thread_local struct proto piece;
    piece.size = 0;
    put_bytes(&piece, 1, text, strlen(text));
    put_float(&piece, 2, score);
    put_number(&piece, 3, type);
    put_bytes(p, 1, piece.data, piece.size);
}

void put_piece(struct proto *p, const char *text, unsigned type) { put_scored(p, text, -1, type); }
