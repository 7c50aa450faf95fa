/* proto.h — the fields of a protocol buffer, one after another, as far as SentencePiece's files
 * need them. Everything is checked against the bytes there are; nothing is copied. */
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

/* Takes `size` bytes from the front of *bytes; 0 when there are fewer. */
int take_bytes(struct bytes *bytes, struct bytes *part, uint64_t size);

/* Takes the next field; 0 when it is malformed. Groups are: nobody writes them in these files. */
int take_field(struct bytes *bytes, struct field *field);

#endif
