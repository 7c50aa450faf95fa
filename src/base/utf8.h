/* utf8.h — UTF-8 as the Unicode standard defines it, checked byte by byte.
 *
 * Overlong forms, surrogates and code points above U+10FFFF are ill-formed. What is ill-formed is
 * cut the way the standard recommends ("maximal subparts"): the bytes that began a character but
 * could not finish it are one bad sequence, any other stray byte is one each. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define UTF8_REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

/* The character at text[0..size), size > 0: its length (1 to 4) with *code set, or, when
 * ill-formed, minus the length of the bad sequence. */
int utf8_decode(uint32_t *code, const char *text, size_t size);

/* Writes `code` (a valid code point) to out[0..4) and returns the length. */
int utf8_encode(char *out, uint32_t code);

/* Length of the longest prefix of text that is well-formed and free of NUL bytes. */
size_t utf8_clean_prefix(const char *text, size_t size);

/* The same for text that is shown as it is: no control characters either, whether they move a
 * cursor, end a line or turn the direction of writing. */
size_t utf8_plain_prefix(const char *text, size_t size);

/* Copies text to out with U+FFFD for every bad sequence and every NUL byte; returns the new length,
 * at most 3 * size. Adds the number of replacements to *n_replaced. */
size_t utf8_clean(char *out, const char *text, size_t size, uint64_t *n_replaced);

#endif
