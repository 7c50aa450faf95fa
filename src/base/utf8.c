/* utf8.c — see utf8.h. */
#include "base/utf8.h"

#include <string.h>

/* What may follow a lead byte: how many bytes, and the range of the first of them, which is where
 * overlong forms, surrogates and too large values show. */
struct lead {
    int length;
    unsigned char low, high;
};

static struct lead lead_of(unsigned char c) {
    if (c < 0x80) return (struct lead){1, 0, 0};
    if (c < 0xC2) return (struct lead){0, 0, 0}; /* a continuation, or C0 C1: always overlong */
    if (c < 0xE0) return (struct lead){2, 0x80, 0xBF};
    if (c == 0xE0) return (struct lead){3, 0xA0, 0xBF};
    if (c == 0xED) return (struct lead){3, 0x80, 0x9F};
    if (c < 0xF0) return (struct lead){3, 0x80, 0xBF};
    if (c == 0xF0) return (struct lead){4, 0x90, 0xBF};
    if (c < 0xF4) return (struct lead){4, 0x80, 0xBF};
    if (c == 0xF4) return (struct lead){4, 0x80, 0x8F};
    return (struct lead){0, 0, 0};
}

int utf8_decode(uint32_t *code, const char *text, size_t size) {
    const unsigned char *p = (const unsigned char *)text;
    struct lead lead = lead_of(p[0]);
    if (lead.length == 1) return *code = p[0], 1;
    if (lead.length == 0) return -1;
    uint32_t value = p[0] & (0x7Fu >> lead.length);
    for (int i = 1; i < lead.length; i++) {
        unsigned char low = i == 1 ? lead.low : 0x80, high = i == 1 ? lead.high : 0xBF;
        if ((size_t)i == size || p[i] < low || p[i] > high) return -i;
        value = value << 6 | (p[i] & 0x3Fu);
    }
    return *code = value, lead.length;
}

int utf8_encode(char *out, uint32_t code) {
    if (code < 0x80) return out[0] = (char)code, 1;
    int length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (int i = length - 1; i > 0; i--, code >>= 6) out[i] = (char)(0x80u | (code & 0x3Fu));
    out[0] = (char)(0xF00u >> length | code);
    return length;
}

/* Bytes at the start of text that are ASCII and not NUL, eight at a time: nearly all of most
 * corpora. */
static size_t ascii_prefix(const char *text, size_t size) {
    const uint64_t high = 0x8080808080808080u, ones = 0x0101010101010101u;
    size_t i = 0;
    for (uint64_t word, bad; i + 8 <= size; i += 8) {
        memcpy(&word, text + i, 8);
        bad = (word | (word - ones)) & high; /* a high bit, or a zero byte that borrowed one */
        if (bad) return i + (size_t)__builtin_ctzll(bad) / 8; /* exact: borrows go upwards */
    }
    while (i < size && text[i] > 0) i++;
    return i;
}

/* Three bytes whose first leaves the others free, as for most of the world's characters. */
static int is_plain_three(const char *text, size_t size) {
    uint32_t c;
    if (size < sizeof c) return 0;
    memcpy(&c, text, sizeof c);
    return (c & 0xC0C0F0) == 0x8080E0 && (c & 0xFF) != 0xE0 && (c & 0xFF) != 0xED;
}

size_t utf8_clean_prefix(const char *text, size_t size) {
    for (size_t i = 0;;) {
        i += ascii_prefix(text + i, size - i);
        if (i == size) return i;
        if (is_plain_three(text + i, size - i)) {
            do i += 3;
            while (is_plain_three(text + i, size - i));
            continue;
        }
        uint32_t code;
        int length = utf8_decode(&code, text + i, size - i);
        if (length < 0 || !code) return i;
        i += (size_t)length;
    }
}

static int is_control(uint32_t code) {
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x200E || code == 0x200F ||
           (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

size_t utf8_plain_prefix(const char *text, size_t size) {
    uint32_t code;
    size_t i = 0;
    for (int n; i < size; i += (size_t)n) {
        n = utf8_decode(&code, text + i, size - i);
        if (n < 0 || is_control(code)) break;
    }
    return i;
}

size_t utf8_clean(char *out, const char *text, size_t size, uint64_t *n_replaced) {
    static const unsigned char replacement[] = {0xEF, 0xBF, 0xBD}; /* without a NUL */
    size_t n = 0;
    while (size > 0) {
        size_t good = utf8_clean_prefix(text, size);
        memcpy(out + n, text, good);
        n += good, text += good, size -= good;
        if (size == 0) break;
        uint32_t code;
        int length = utf8_decode(&code, text, size);
        size_t bad = length < 0 ? (size_t)-length : 1; /* a NUL byte is well-formed, but not text */
        memcpy(out + n, replacement, sizeof replacement);
        n += sizeof replacement, text += bad, size -= bad;
        ++*n_replaced;
    }
    return n;
}
