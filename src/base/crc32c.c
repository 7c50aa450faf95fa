/* crc32c.c — see crc32c.h. Eight bytes at a time through eight tables ("slicing by 8"): table k is
 * what a byte does to the checksum when k more bytes follow it. Built on first use; about 1.5
 * GB/s. */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void build(void) {
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t c = byte;
        for (int bit = 0; bit < 8; bit++) c = c >> 1 ^ (c & 1 ? 0x82F63B78u : 0);
        table[0][byte] = c;
    }
    for (int k = 1; k < 8; k++)
        for (int byte = 0; byte < 256; byte++)
            table[k][byte] = table[k - 1][byte] >> 8 ^ table[0][table[k - 1][byte] & 255];
}

uint32_t crc32c(uint32_t crc, const void *data, size_t size) {
    pthread_once(&once, build);
    const unsigned char *p = data;
    uint32_t c = ~crc;
    for (; size >= 8; size -= 8, p += 8) {
        uint64_t x; /* little-endian, like every machine we build for */
        memcpy(&x, p, sizeof x);
        x ^= c;
        c = table[7][x & 255] ^ table[6][x >> 8 & 255] ^ table[5][x >> 16 & 255] ^
            table[4][x >> 24 & 255] ^ table[3][x >> 32 & 255] ^ table[2][x >> 40 & 255] ^
            table[1][x >> 48 & 255] ^ table[0][x >> 56];
    }
    for (; size; size--) c = c >> 8 ^ table[0][(c ^ *p++) & 255];
    return ~c;
}
