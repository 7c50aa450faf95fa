/* passages.c — see passages.h. */
#include "data/passages.h"

#include <string.h>

#include "base/emoji.h"
#include "base/unicode.h"
#include "base/utf8.h"

struct passages passages_of(const struct sentence_rules *rules, const char *text, size_t size) {
    return (struct passages){.rules = rules, .text = text, .size = size};
}

/* LF, CR, VT, FF, NEL, LS or PS at text[at]? */
static int ends_line(const char *text, size_t size, size_t at) {
    const unsigned char *p = (const unsigned char *)text + at;
    if (*p >= '\n' && *p <= '\r') return 1;
    if (*p == 0xC2) return at + 1 < size && p[1] == 0x85;
    return *p == 0xE2 && at + 2 < size && p[1] == 0x80 && (p[2] == 0xA8 || p[2] == 0xA9);
}

static size_t skip_blanks(const char *text, size_t size, size_t at) {
    while (at < size && text[at] == ' ') at++;
    return at;
}

int passages_go_on(const char *text, size_t size, size_t at) {
    enum { MOST = 8 }; /* emoji in a row, with spaces between */
    uint32_t code = 0;
    size_t before = at, n;
    while (before > 0 && text[before - 1] == ' ') before--;
    if (!before || strchr(".!?:;)\t\n\r", text[before - 1])) return 0;
    for (int i = 0; i < MOST && (n = emoji_at(text + at, size - at)) > 0; i++)
        at = skip_blanks(text, size, at + n);
    return at < size && utf8_decode(&code, text + at, size - at) > 0 &&
           unicode_capital(code) != code;
}

static size_t cell_end(const struct passages *p, size_t begin) {
    const char *text = p->text;
    size_t at = begin, size = p->size;
    while (at < size && text[at] != '\t' && !ends_line(text, size, at)) {
        size_t n = emoji_at(text + at, size - at);
        if (n && !(p->over_emoji && at > begin && passages_go_on(text, size, at))) break;
        at += n ? n : 1;
    }
    return at;
}

/* Behind the mark of a list's item and the blanks after it; or where it was. */
static size_t skip_mark(const char *text, size_t end, size_t at) {
    size_t from = at, n = 0;
    int bracket = text[at] == '(';
    if (strchr("-*+>#", text[at]) && text[at]) {
        while (at < end && text[at] == text[from] && at - from < 6) at++;
    } else if (end - at >= 3 && memcmp(text + at, "\xE2\x80\xA2", 3) == 0) {
        at += 3; /* a bullet */
    } else {
        at += (size_t)bracket;
        while (at < end && text[at] >= '0' && text[at] <= '9' && n < 3) at++, n++;
        int digits = n > 0;
        if (!digits && at < end && (text[at] | 32) >= 'a' && (text[at] | 32) <= 'z') at++, n++;
        if (!n || at == end || !(text[at] == ')' || (text[at] == '.' && digits && !bracket)))
            return from;
        at++;
    }
    size_t behind = sentence_skip_space(text, end, at);
    for (size_t i = at; i < behind; i++)
        if (ends_line(text, end, i)) return from;
    return behind > at && behind < end ? behind : from;
}

static size_t skip_marks(const struct passages *p, size_t at) {
    for (int i = 0; i < 8; i++) {
        size_t behind = skip_mark(p->text, p->size, at);
        if (behind == at) break;
        if (p->text[at] >= '0' && p->text[at] <= '9' &&
            sentence_begins_month(p->rules, p->text + behind, p->size - behind))
            break; /* 3. Oktober */
        at = behind;
    }
    return at;
}

/* Has the line of text[begin], which is behind p->at, begun before p->at? */
static int in_line(const struct passages *p, size_t begin) {
    for (size_t at = p->at; at < begin; at++)
        if (ends_line(p->text, p->size, at)) return 0;
    return p->at > 0;
}

static int has_word(const char *text, size_t size) {
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int n = utf8_decode(&code, text + at, size - at);
        if (n < 0) return 1;
        enum unicode_category category = unicode_category(code);
        if (code >= '0' && category != UNICODE_PUNCTUATION && category != UNICODE_SYMBOL &&
            !unicode_is_space(code) && code != 0x200D && (code & ~0xFu) != 0xFE00)
            return 1;
        at += (size_t)n;
    }
    return 0;
}

int passages_next(struct passages *p, struct passage *passage) {
    while (p->at < p->size) {
        size_t begin = sentence_skip_space(p->text, p->size, p->at);
        if (begin == p->size) break;
        if (begin >= p->end) {
            if (!in_line(p, begin)) begin = skip_marks(p, begin);
            p->end = cell_end(p, begin);
        }
        if (begin == p->end) { /* only emoji end a cell where it begins */
            p->at = p->end = begin + emoji_at(p->text + begin, p->size - begin);
            continue;
        }
        p->at = sentence_end(p->rules, p->text, p->end, begin);
        if (!has_word(p->text + begin, p->at - begin)) continue;
        *passage = (struct passage){begin, p->at - begin};
        return 1;
    }
    p->at = p->size;
    return 0;
}

size_t passages_gap(char *out, const char *gap, size_t size, const char *before, size_t n_before) {
    if (size) {
        memcpy(out, gap, size);
        return size;
    }
    if (!n_before || sentence_ends_wide(before, n_before)) return 0;
    *out = ' ';
    return 1;
}
