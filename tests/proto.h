/* proto.h — a protocol buffer, written by hand: SentencePiece files as nobody would learn them. */
#ifndef TESTS_PROTO_H
#define TESTS_PROTO_H

#include <stddef.h>
#include <stdint.h>

struct proto {
    unsigned char data[1 << 19];
    size_t size;
};

void put_varint(struct proto *proto, uint64_t value);
void put_bytes(struct proto *proto, unsigned field, const void *data, size_t size);
void put_number(struct proto *proto, unsigned field, uint64_t value);
void put_float(struct proto *proto, unsigned field, float value);

enum { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER = 4, UNUSED = 5, BYTE = 6 };

void put_piece(struct proto *proto, const char *text, unsigned type); /* of score -1 */
void put_scored(struct proto *proto, const char *text, float score, unsigned type);

#endif
