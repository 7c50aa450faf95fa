/* proto.c — see proto.h. A field is a key (number << 3 | wire type) and a value; messages and
 * strings carry their length. */
#include "data/proto.h"

/* Of at most so many bits, seven to a byte. */
static int take_varint(struct bytes *b, uint64_t *value, int bits) {
    *value = 0;
    for (int shift = 0; shift < bits && b->size > 0; shift += 7) {
        unsigned char c = *b->at++;
        b->size--;
        *value |= (uint64_t)(c & 0x7F) << shift;
        if (c < 0x80) return 1;
    }
    return 0;
}

int take_bytes(struct bytes *b, struct bytes *part, uint64_t size) {
    if (size > b->size) return 0;
    *part = (struct bytes){b->at, (size_t)size};
    b->at += size;
    b->size -= (size_t)size;
    return 1;
}

int take_field(struct bytes *b, struct field *f) {
    uint64_t key, size;
    *f = (struct field){0};
    if (!take_varint(b, &key, 32) || (key & UINT32_MAX) < 8) return 0;
    f->number = (uint32_t)key >> 3;
    f->wire = (enum wire)(key & 7);
    switch (f->wire) {
    case WIRE_VARINT:
        return take_varint(b, &f->value, 64);
    case WIRE_64:
        return take_bytes(b, &f->bytes, 8);
    case WIRE_BYTES:
        return take_varint(b, &size, 32) && take_bytes(b, &f->bytes, size);
    case WIRE_32:
        return take_bytes(b, &f->bytes, 4);
    default:
        return 0;
    }
}
