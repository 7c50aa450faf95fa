/* fuzz_passages.c — any bytes are a text: its passages are in order, not empty, within one line,
 * and the text with each of them left as it is is the same text. */
#include "base/unicode.h"
#include "base/utf8.h"
#include "data/passages.h"
#include "fuzz.h"

static int is_space_at(const char *text, size_t size) {
    uint32_t code;
    return utf8_decode(&code, text, size) > 0 && unicode_is_space(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const language[] = {NULL, "en", "de"};
    if (size > 1 << 14) return 0;
    char *text = malloc(size ? size : 1),
         *out = malloc(2 * size + 1); /* the end is where it is checked */
    want(text && out);
    memcpy(text, data, size);
    for (int i = 0; i < 3; i++) {
        struct passages p = passages_of(sentence_rules(language[i]), text, size);
        size_t at = 0, n = 0, added = 0;
        for (struct passage s; passages_next(&p, &s); at = s.at + s.size) {
            want(s.at >= at && s.size > 0 && s.size <= size - s.at);
            want(!memchr(text + s.at, '\n', s.size) && !is_space_at(text + s.at, s.size));
            size_t gap = passages_gap(out + n, text + at, s.at - at, out, n);
            added += gap - (s.at - at);
            memcpy(out + n + gap, text + s.at, s.size);
            n += gap + s.size;
        }
        memcpy(out + n, text + at, size - at);
        want(n + size - at == size + added && p.at == size);
        want(added || memcmp(out, text, size) == 0);
    }
    free(text);
    free(out);
    return 0;
}
