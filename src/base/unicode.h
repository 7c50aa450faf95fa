/* unicode.h — the little that evaluation needs to know about characters, by code point.
 *
 * Scores must agree with a program written in Python, so each function does exactly what Python
 * does: space is what str.split() splits at, lower case is str.lower(), categories are those of the
 * regex module. The tables are made from these by tools/unicode_tables.py; unicode_tables.h names
 * the versions. Characters that are newer than the tables have no category and no case. */
#ifndef BASE_UNICODE_H
#define BASE_UNICODE_H

#include <stddef.h>
#include <stdint.h>

enum unicode_category {
    UNICODE_OTHER = 0,
    UNICODE_PUNCTUATION = 1, /* P* */
    UNICODE_SYMBOL = 2,      /* S* */
    UNICODE_NUMBER = 4,      /* N* */
};

enum unicode_category unicode_category(uint32_t code);

int unicode_is_space(uint32_t code);

/* Writes in[0..n) in lower case to out, which has room for 2 * n (one character becomes two), and
 * returns how many. A capital sigma depends on its neighbours, which is why this takes a text and
 * not a character. */
size_t unicode_lower(uint32_t *out, const uint32_t *in, size_t n);

/* The capital of a small letter: the first character whose lower case it is; itself where there is
 * none. The sharp s has none. */
uint32_t unicode_capital(uint32_t code);

#endif
