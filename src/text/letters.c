/* letters.c — see letters.h. */
#include "text/letters.h"

#include "base/unicode.h"
#include "base/utf8.h"

int letter_is(uint32_t code) {
    return code >= 'A' && code != 0xFFFD && unicode_category(code) == UNICODE_OTHER &&
           !unicode_is_space(code);
}

int letters_in(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        int n = utf8_decode(&code, text + at, size - at);
        if (n > 0 && letter_is(code)) return 1;
        at += (size_t)(n < 0 ? -n : n);
    }
    return 0;
}
