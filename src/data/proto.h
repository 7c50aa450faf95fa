/* proto.h — the fields of a protocol buffer, one after another, as far as SentencePiece's files
 * need them. Everything is checked against the bytes there are; nothing is copied.
 *
 * A field is a key (number << 3 | wire type) and a value; messages and strings carry their
 * length. */
#ifndef DATA_PROTO_H
#define DATA_PROTO_H

#include <stddef.h>
#include <stdint.h>

struct bytes {
    const unsigned char *at;
    size_t size;
};

/* How a field is written. One that is not written as its kind should be is a stranger's. */
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct field {
    uint32_t number;
    enum wire wire;
    uint64_t value;     /* of a varint */
    struct bytes bytes; /* of a string, a message or a number of fixed size */
};

/* Of at most so many bits, seven to a byte. */
static inline int take_varint(struct bytes *b, uint64_t *value, int bits) {
    *value = 0;
    for (int shift = 0; shift < bits && b->size > 0; shift += 7) {
        unsigned char c = *b->at++;
        b->size--;
        *value |= (uint64_t)(c & 0x7F) << shift;
        if (c < 0x80) return 1;
    }
    return 0;
}

/* Takes `size` bytes from the front of *b; 0 when there are fewer. */
static inline int take_bytes(struct bytes *b, struct bytes *part, uint64_t size) {
    if (size > b->size) return 0;
    *part = (struct bytes){b->at, (size_t)size};
    b->at += size;
    b->size -= (size_t)size;
    return 1;
}

/* Takes the next field; 0 when it is malformed. Groups are: nobody writes them in these files. */
static inline int take_field(struct bytes *b, struct field *f) {
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

#endif
