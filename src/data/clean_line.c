/* clean_line.c — see clean_line.h. */
#include "data/clean_line.h"

#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/unicode.h"
#include "base/utf8.h"

enum kind { SPACE, LETTER, DIGIT, OTHER };

static enum kind kind_of(uint32_t code) {
    if (unicode_is_space(code)) return SPACE;
    switch (unicode_category(code)) {
    case UNICODE_OTHER:
        return LETTER;
    case UNICODE_NUMBER:
        return DIGIT;
    default:
        return OTHER;
    }
}

/* ---- broken characters ----------------------------------------------------------------------- */

/* What no text has: controls but the tab, line separators, U+FFFD, private use, noncharacters, a
 * byte-order mark inside the line. */
static int is_broken(uint32_t code) {
    if (code < 0x20) return code != '\t';
    if (code < 0xA0) return code >= 0x7F;
    return code == 0x2028 || code == 0x2029 || (code >= 0xE000 && code <= 0xF8FF) ||
           code == 0xFEFF || code == 0xFFFD || (code >= 0xFDD0 && code <= 0xFDEF) ||
           (code & 0xFFFE) == 0xFFFE || code >= 0xF0000;
}

/* The byte 0x80 to 0xBF that reads as this character in Latin-1 or Windows-1252? */
static int is_continuation(uint32_t code) {
    static const uint16_t windows[] = {0x20AC, 0x201A, 0x192,  0x201E, 0x2026, 0x2020, 0x2021,
                                       0x2C6,  0x2030, 0x160,  0x2039, 0x152,  0x17D,  0x2018,
                                       0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014, 0x2DC,
                                       0x2122, 0x161,  0x203A, 0x153,  0x17E,  0x178};
    if (code >= 0x80 && code <= 0xBF) return 1;
    for (size_t i = 0; code > 0xFF && i < sizeof windows / sizeof *windows; i++)
        if (windows[i] == code) return 1;
    return 0;
}

/* UTF-8 that was read as Latin-1: "fÃ¼r", "donâ€™t", "20Â°". But a word in capitals may end
 * in one of these letters, and a quotation mark or dash follow. */
static int is_mojibake(const uint32_t *code, size_t i, size_t n) {
    if (i + 1 >= n) return 0;
    if (code[i] == 0xC2 || code[i] == 0xC3) {
        int capital = i > 0 && code[i - 1] - 'A' < 26;
        return is_continuation(code[i + 1]) && !(capital && code[i + 1] > 0xBF);
    }
    return code[i] == 0xE2 && code[i + 1] == 0x20AC;
}

/* ---- markup ---------------------------------------------------------------------------------- */

static int is_name(uint32_t code) { return (code | 32) - 'a' < 26 || code - '0' < 10; }

/* Is one of the words, which spaces separate, the name code[0..n)? */
static int among(const char *words, const uint32_t *code, size_t n) {
    for (const char *w = words; *w; w += strcspn(w, " "), w += *w == ' ') {
        size_t i = 0;
        while (i < n && w[i] && w[i] != ' ' && (code[i] | 32) == (unsigned char)w[i]) i++;
        if (i == n && (!w[i] || w[i] == ' ')) return 1;
    }
    return 0;
}

/* "<br>", "</td>", "<a href=...>", "<img .../>" at code[0], '<'. */
static int is_tag(const uint32_t *code, size_t n) {
    static const char tags[] = "a abbr b big blockquote body br center cite code col dd del div dl "
                               "dt em font form h1 h2 h3 h4 h5 h6 head hr html i iframe img input "
                               "ins kbd label li link meta ol option p pre q s script select small "
                               "span strike strong style sub sup table tbody td th thead title tr "
                               "tt u ul var video";
    size_t at = 1;
    if (at < n && code[at] == '/') at++;
    size_t begin = at;
    while (at < n && is_name(code[at])) at++;
    if (at == begin || at == n || !among(tags, code + begin, at - begin)) return 0;
    if (code[at] == '>' || code[at] == '/') return 1;
    int attribute = 0; /* "<a few" is not a tag, "<a href=few>" is */
    for (; at < n && code[at] != '<'; at++) {
        if (code[at] == '>') return attribute;
        attribute |= code[at] == '=';
    }
    return 0;
}

/* "&amp;", "&#39;", "&#x2F;" at code[0], '&'. */
static int is_entity(const uint32_t *code, size_t n) {
    static const char names[] =
        "amp lt gt quot apos nbsp copy reg trade euro laquo raquo ldquo rdquo bdquo lsquo rsquo "
        "ndash mdash hellip bull middot shy deg auml ouml uuml szlig agrave aacute acirc aring "
        "aelig ccedil egrave eacute ecirc igrave iacute icirc ntilde ograve oacute ocirc ugrave "
        "uacute ucirc";
    size_t at = 1;
    int number = at < n && code[at] == '#';
    at += (size_t)number;
    size_t begin = at;
    while (at < n && is_name(code[at])) at++;
    if (at == begin || at == n || code[at] != ';') return 0;
    return number ? code[begin] - '0' < 10 || code[begin] == 'x'
                  : among(names, code + begin, at - begin);
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* Digits of scripts other than ours are compared as they are. */
static int is_digit(uint32_t code) { return code - '0' < 10; }

/* May it stand between groups of three digits? */
static int groups(uint32_t code) {
    return code == '.' || code == ',' || code == '\'' || code == ' ' || code == 0xA0 ||
           code == 0x2019 || code == 0x2009 || code == 0x202F;
}

static size_t digits_at(const uint32_t *code, size_t at, size_t n) {
    size_t end = at;
    while (end < n && is_digit(code[end])) end++;
    return end - at;
}

/* The number that begins at code[at]; returns where it ends. */
static size_t take_number(struct clean_line *look, const uint32_t *code, size_t at, size_t n) {
    int point = at > 1 && (code[at - 1] == '.' || code[at - 1] == ',') && is_digit(code[at - 2]);
    struct clean_number number = {.decimal = point};
    size_t length = digits_at(code, at, n);
    int grouped = length <= 3 && code[at] != '0';
    for (;;) {
        for (; length; at++, length--) {
            if ((number.n || code[at] != '0') && number.n < CLEAN_DIGITS_MAX)
                number.digits[number.n++] = (char)code[at];
        }
        if (!grouped || at >= n || !groups(code[at]) || digits_at(code, at + 1, n) != 3) break;
        length = 3;
        at++;
    }
    if (look->n_number < CLEAN_NUMBERS_MAX) look->number[look->n_number] = number;
    look->n_number++;
    return at;
}

/* ---- one walk -------------------------------------------------------------------------------- */

static size_t decode(uint32_t *code, const struct line *line) {
    size_t n = 0;
    for (size_t at = 0; at < line->size; n++) {
        int length = utf8_decode(&code[n], line->text + at, line->size - at);
        BUG_ON(length < 0); /* text.h delivers UTF-8 */
        at += (size_t)length;
    }
    return n;
}

/* A letter that has no small form is small itself, or its script has no case: Latin, Greek and
 * Cyrillic have. */
static enum clean_case case_of(uint32_t code) {
    uint32_t lower[2];
    if (kind_of(code) != LETTER || code >= 0x530) return CLEAN_NO_CASE;
    unicode_lower(lower, &code, 1);
    return lower[0] == code ? CLEAN_SMALL : CLEAN_CAPITAL;
}

/* A word has ended: is it the same as the one before? */
struct words {
    size_t at, length, before, before_length, run;
};

static void end_word(struct clean_line *look, struct words *w, const uint32_t *code) {
    if (!w->length) return;
    int again = w->length == w->before_length &&
                memcmp(code + w->at, code + w->before, w->length * sizeof *code) == 0;
    w->run = again ? w->run + 1 : 1;
    if (w->run > look->word_run) look->word_run = w->run;
    if (w->length > look->longest) look->longest = w->length;
    look->words++;
    w->before = w->at;
    w->before_length = w->length;
    w->length = 0;
}

/* Everything but the numbers and the hashes. */
static void walk(struct clean_line *look, const uint32_t *code, size_t n) {
    struct words w = {0};
    size_t run = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t c = code[i];
        enum kind kind = kind_of(c);
        look->broken |= is_broken(c) || (c >= 0xC2 && c <= 0xE2 && is_mojibake(code, i, n));
        run = i > 0 && c == code[i - 1] ? run + 1 : 1;
        if (kind == SPACE) {
            end_word(look, &w, code);
            continue;
        }
        if (!w.length++) w.at = i;
        look->chars++;
        look->letters += kind == LETTER;
        if (kind != DIGIT && run > look->run) look->run = run;
        if (c == '<') look->markup += is_tag(code + i, n - i);
        if (c == '&') look->markup += is_entity(code + i, n - i);
    }
    end_word(look, &w, code);
}

/* Without case, punctuation, symbols and spaces, digits masked; lower[0..2 n) is room for it. Where
 * nothing is left, the line as it is. */
static uint64_t near_hash(const uint32_t *code, size_t n, uint32_t *lower) {
    size_t m = unicode_lower(lower, code, n), k = 0;
    for (size_t i = 0; i < m; i++) {
        enum kind kind = kind_of(lower[i]);
        if (kind == LETTER) lower[k++] = lower[i];
        if (kind == DIGIT) lower[k++] = '0';
    }
    return k ? XXH3_64bits(lower, k * sizeof *lower) : XXH3_64bits(code, n * sizeof *code);
}

void clean_look(struct clean_line *look, const struct line *line, struct clean_scratch *s) {
    if (line->size > s->cap) {
        clean_scratch_release(s);
        s->cap = 2 * line->size;
        s->code = xmalloc(s->cap * sizeof *s->code);
        s->lower = xmalloc(2 * s->cap * sizeof *s->lower);
    }
    memset(look, 0, offsetof(struct clean_line, number));
    look->broken = (line->flags & LINE_REPLACED) != 0;
    size_t n = decode(s->code, line);
    walk(look, s->code, n);
    look->begins = n ? case_of(s->code[0]) : CLEAN_NO_CASE;
    for (size_t i = 0; i < n;) i = is_digit(s->code[i]) ? take_number(look, s->code, i, n) : i + 1;
    look->exact = XXH3_64bits(line->text, line->size);
    look->near = near_hash(s->code, n, s->lower);
}

void clean_scratch_release(struct clean_scratch *s) {
    xfree(s->code);
    xfree(s->lower);
    *s = (struct clean_scratch){0};
}
