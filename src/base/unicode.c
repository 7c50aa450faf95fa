/* unicode.c — see unicode.h. Sorted ranges and a binary search; ASCII, which is most text, is
 * answered first. */
#include "base/unicode.h"

#include "base/unicode_tables.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { SIGMA_CASED = 1, SIGMA_PASSED = 2 };
enum { CAPITAL_SIGMA = 0x3A3, SMALL_SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2 };
enum { SHARP_S = 0xDF };
enum { CAPITAL_DOTTED_I = 0x130, COMBINING_DOT_ABOVE = 0x307 };

static unsigned range_value(const struct code_range *range, size_t n, uint32_t code) {
    size_t low = 0;
    while (low < n) {
        size_t mid = low + (n - low) / 2;
        if (range[mid].last < code)
            low = mid + 1;
        else if (range[mid].first > code)
            n = mid;
        else
            return range[mid].value;
    }
    return 0;
}

enum unicode_category unicode_category(uint32_t code) {
    if ((code | 32) - 'a' < 26 || code <= ' ') return UNICODE_OTHER;
    if (code - '0' < 10) return UNICODE_NUMBER;
    return (enum unicode_category)range_value(category_ranges, COUNT(category_ranges), code);
}

int unicode_is_space(uint32_t code) {
    if (code <= ' ') return code == ' ' || (code >= 9 && code <= 13) || code >= 28;
    if (code < 0x1680) return code == 0x85 || code == 0xA0;
    return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
           code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

static uint32_t lower_one(uint32_t code) {
    if (code < 128) return code - 'A' < 26 ? code + 32 : code;
    size_t low = 0, n = COUNT(lower_runs);
    while (low < n) {
        size_t mid = low + (n - low) / 2;
        const struct lower_run *run = &lower_runs[mid];
        if (run->last < code)
            low = mid + 1;
        else if (run->first > code)
            n = mid;
        else
            return (code - run->first) % run->step ? code : code + (uint32_t)run->delta;
    }
    return code;
}

static unsigned near_sigma(uint32_t code) {
    return range_value(sigma_ranges, COUNT(sigma_ranges), code);
}

/* A sigma ends a word when the nearest letter before it is cased and the nearest one after it is
 * not. */
static int is_final(const uint32_t *text, size_t n, size_t at) {
    size_t i = at;
    while (i > 0 && near_sigma(text[i - 1]) == SIGMA_PASSED) i--;
    if (i == 0 || near_sigma(text[i - 1]) != SIGMA_CASED) return 0;
    for (i = at + 1; i < n && near_sigma(text[i]) == SIGMA_PASSED;) i++;
    return i == n || near_sigma(text[i]) != SIGMA_CASED;
}

size_t unicode_lower(uint32_t *out, const uint32_t *in, size_t n) {
    size_t m = 0;
    for (size_t i = 0; i < n; i++) {
        if (in[i] == CAPITAL_SIGMA) {
            out[m++] = is_final(in, n, i) ? FINAL_SIGMA : SMALL_SIGMA;
        } else if (in[i] == CAPITAL_DOTTED_I) {
            out[m++] = 'i';
            out[m++] = COMBINING_DOT_ABOVE;
        } else {
            out[m++] = lower_one(in[i]);
        }
    }
    return m;
}

uint32_t unicode_capital(uint32_t code) {
    if (code < 128) return code - 'a' < 26 ? code - 32 : code;
    for (size_t i = 0; i < COUNT(lower_runs) && code != SHARP_S; i++) {
        const struct lower_run *run = &lower_runs[i];
        uint32_t from = code - (uint32_t)run->delta;
        if (from >= run->first && from <= run->last && (from - run->first) % run->step == 0)
            return from;
    }
    return code;
}
