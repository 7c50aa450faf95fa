/* emoji.c — see emoji.h. */
#include "base/emoji.h"

#include <string.h>

#include "base/utf8.h"

static const char keycap[] = "\xEF\xB8\x8F\xE2\x83\xA3"; /* what makes a key of a digit */

int emoji_is(uint32_t code) {
    return (code >= 0x1F000 && code <= 0x1FAFF) || /* most, tones of skin, and halves of flags */
           (code >= 0x2600 && code <= 0x27BF) ||   /* weather, signs, dingbats */
           code == 0x231A || code == 0x231B || (code >= 0x23E9 && code <= 0x23FA) || /* clocks */
           code == 0x2B1B || code == 0x2B1C || code == 0x2B50 || code == 0x2B55;
}

int emoji_goes_on(uint32_t code) {
    return emoji_is(code) || code == 0x200D || code == 0xFE0E || code == 0xFE0F || code == 0x20E3 ||
           (code >= 0xE0020 && code <= 0xE007F); /* which flag */
}

size_t emoji_at(const char *text, size_t size) {
    size_t at = 0, n_key = sizeof keycap - 1;
    if (size > n_key && memcmp(text + 1, keycap, n_key) == 0 && strchr("0123456789#*", *text))
        at = *text ? 1 + n_key : 0;
    while (at < size && (unsigned char)text[at] >= 0xE2) {
        uint32_t code;
        int n = utf8_decode(&code, text + at, size - at);
        if (n < 0 || !(at ? emoji_goes_on(code) : emoji_is(code))) break;
        at += (size_t)n;
    }
    return at;
}
