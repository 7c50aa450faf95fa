/* tokens.c — see tokens.h. */
#include "eval/tokens.h"

#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"
#include "base/utf8.h"

const char *const tokenize_names[N_TOKENIZERS + 1] = {"13a", "intl", "char", "none", NULL};

/* ---- codes ----------------------------------------------------------------------------------- */

void codes_release(struct codes *codes) {
    xfree(codes->code);
    *codes = (struct codes){0};
}

void codes_reserve(struct codes *codes, size_t room) {
    if (codes->code && room <= codes->room) return; /* never NULL, not even for nothing */
    codes->room = room + room / 2 + 64;
    codes->code = xrealloc(codes->code, codes->room * sizeof *codes->code);
}

static void codes_swap(struct codes *a, struct codes *b) {
    struct codes t = *a;
    *a = *b;
    *b = t;
}

static size_t decode(uint32_t *out, const char *text, size_t size) {
    size_t n = 0;
    for (size_t i = 0; i < size;) {
        if ((unsigned char)text[i] < 128) {
            out[n++] = (unsigned char)text[i++];
            continue;
        }
        uint32_t code;
        int length = utf8_decode(&code, text + i, size - i);
        out[n++] = length < 0 ? 0xFFFD : code;
        i += (size_t)(length < 0 ? -length : length);
    }
    return n;
}

void codes_decode(struct codes *codes, struct codes *scratch, struct segment segment, int lower) {
    BUG_ON(segment.size >= SEGMENT_MAX_SIZE);
    codes_reserve(codes, segment.size);
    codes->n = decode(codes->code, segment.text, segment.size);
    if (!lower) return;
    codes_reserve(scratch, 2 * codes->n);
    scratch->n = unicode_lower(scratch->code, codes->code, codes->n);
    codes_swap(codes, scratch);
}

void codes_squeeze(struct codes *codes) {
    size_t n = 0;
    for (size_t i = 0; i < codes->n; i++)
        if (!unicode_is_space(codes->code[i])) codes->code[n++] = codes->code[i];
    codes->n = n;
}

static void strip_end(struct codes *codes) {
    while (codes->n > 0 && unicode_is_space(codes->code[codes->n - 1])) codes->n--;
}

/* ---- 13a ------------------------------------------------------------------------------------- */

/* Replaces every `from` (ASCII) by `to` (at most one character), from left to right. */
static void replace(struct codes *codes, const char *from, const char *to) {
    size_t length = strlen(from), n = 0;
    uint32_t *c = codes->code;
    for (size_t i = 0; i < codes->n;) {
        size_t k = 0;
        while (k < length && i + k < codes->n && c[i + k] == (unsigned char)from[k]) k++;
        if (k < length) {
            c[n++] = c[i++];
        } else {
            if (*to) c[n++] = (unsigned char)*to;
            i += length;
        }
    }
    codes->n = n;
}

static int has(const struct codes *codes, uint32_t code) {
    for (size_t i = 0; i < codes->n; i++)
        if (codes->code[i] == code) return 1;
    return 0;
}

static int is_digit(uint32_t c) { return c - '0' < 10; }
static int is_stop(uint32_t c) { return c == '.' || c == ','; }

/* ASCII punctuation but for ' , - . */
static int is_mark(uint32_t c) {
    return (c >= ' ' && c <= '&') || (c >= '(' && c <= '+') || c == '/' || (c >= ':' && c <= '@') ||
           (c >= '[' && c <= '`') || (c >= '{' && c <= '~');
}

/* " line " with a space on both sides of every mark. */
static void part_marks(struct codes *out, const struct codes *in) {
    codes_reserve(out, 3 * in->n + 6);
    uint32_t *o = out->code;
    *o++ = ' ';
    for (size_t i = 0; i < in->n; i++) {
        uint32_t c = in->code[i];
        if (is_mark(c)) {
            *o++ = ' ', *o++ = c, *o++ = ' ';
        } else {
            *o++ = c;
        }
    }
    *o++ = ' ';
    out->n = (size_t)(o - out->code);
}

/* A substitution of the form (x)(y) -> spaces and x and y, where x and y are one character each.
 * After a match the search goes on behind y, so that one character never plays both parts. */
typedef int pair_fn(uint32_t x, uint32_t y);
enum spacing { X_Y_ = 0, _X_Y = 1 }; /* "x y " or " x y" */

static inline void part_pairs(struct codes *out, const struct codes *in, pair_fn *matches,
                              enum spacing spacing) {
    codes_reserve(out, 2 * in->n);
    const uint32_t *c = in->code;
    uint32_t *o = out->code;
    size_t i = 0, n = in->n;
    while (i + 1 < n) {
        if (!matches(c[i], c[i + 1])) {
            *o++ = c[i++];
            continue;
        }
        if (spacing == _X_Y) *o++ = ' ';
        *o++ = c[i], *o++ = ' ', *o++ = c[i + 1];
        if (spacing == X_Y_) *o++ = ' ';
        i += 2;
    }
    if (i < n) *o++ = c[i];
    out->n = (size_t)(o - out->code);
}

static int stop_behind_other(uint32_t x, uint32_t y) { return is_stop(y) && !is_digit(x); }
static int stop_before_other(uint32_t x, uint32_t y) { return is_stop(x) && !is_digit(y); }
static int dash_behind_digit(uint32_t x, uint32_t y) { return y == '-' && is_digit(x); }

static void part_13a(struct codes *a, struct codes *b) {
    if (has(a, '<')) replace(a, "<skipped>", "");
    if (has(a, '\n')) {
        replace(a, "-\n", "");
        replace(a, "\n", " ");
    }
    if (has(a, '&')) {
        replace(a, "&quot;", "\"");
        replace(a, "&amp;", "&");
        replace(a, "&lt;", "<");
        replace(a, "&gt;", ">");
    }
    part_marks(b, a);
    part_pairs(a, b, stop_behind_other, X_Y_);
    part_pairs(b, a, stop_before_other, _X_Y);
    part_pairs(a, b, dash_behind_digit, X_Y_);
}

/* ---- intl ------------------------------------------------------------------------------------ */

static int punctuation_behind_other(uint32_t x, uint32_t y) {
    return unicode_category(y) == UNICODE_PUNCTUATION && unicode_category(x) != UNICODE_NUMBER;
}

static int punctuation_before_other(uint32_t x, uint32_t y) {
    return unicode_category(x) == UNICODE_PUNCTUATION && unicode_category(y) != UNICODE_NUMBER;
}

static void part_symbols(struct codes *out, const struct codes *in) {
    codes_reserve(out, 3 * in->n);
    uint32_t *o = out->code;
    for (size_t i = 0; i < in->n; i++) {
        uint32_t c = in->code[i];
        if (unicode_category(c) == UNICODE_SYMBOL) {
            *o++ = ' ', *o++ = c, *o++ = ' ';
        } else {
            *o++ = c;
        }
    }
    out->n = (size_t)(o - out->code);
}

static void part_intl(struct codes *a, struct codes *b) {
    part_pairs(b, a, punctuation_behind_other, X_Y_);
    part_pairs(a, b, punctuation_before_other, _X_Y);
    part_symbols(b, a);
    codes_swap(a, b);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

void tokens_release(struct tokens *tokens) {
    codes_release(&tokens->text);
    codes_release(&tokens->scratch[0]);
    codes_release(&tokens->scratch[1]);
    xfree(tokens->token);
    *tokens = (struct tokens){0};
}

void tokens_clear(struct tokens *tokens) {
    tokens->n = 0;
    tokens->text.n = 0;
}

/* Appends a token; the text has room. */
static void push(struct tokens *tokens, const uint32_t *code, size_t length) {
    if (tokens->n == tokens->room) {
        tokens->room = 2 * tokens->room + 64;
        tokens->token = xrealloc(tokens->token, tokens->room * sizeof *tokens->token);
    }
    tokens->token[tokens->n++] = (struct token){(uint32_t)tokens->text.n, (uint32_t)length};
    memcpy(tokens->text.code + tokens->text.n, code, length * sizeof *code);
    tokens->text.n += length;
}

/* Finds the next word of codes at or behind *at: its length, or 0 at the end. */
static size_t next_word(const struct codes *codes, size_t *at) {
    while (*at < codes->n && unicode_is_space(codes->code[*at])) ++*at;
    size_t end = *at;
    while (end < codes->n && !unicode_is_space(codes->code[end])) end++;
    return end - *at;
}

static void push_words(struct tokens *tokens, const struct codes *codes) {
    codes_reserve(&tokens->text, tokens->text.n + codes->n);
    for (size_t at = 0, length; (length = next_word(codes, &at)); at += length)
        push(tokens, codes->code + at, length);
}

static void push_chars(struct tokens *tokens, const struct codes *codes) {
    codes_reserve(&tokens->text, tokens->text.n + codes->n);
    for (size_t i = 0; i < codes->n; i++)
        if (!unicode_is_space(codes->code[i])) push(tokens, codes->code + i, 1);
}

size_t tokens_add(struct tokens *tokens, struct segment line, enum tokenizer_kind kind, int lower) {
    struct codes *a = &tokens->scratch[0], *b = &tokens->scratch[1];
    size_t before = tokens->n;
    codes_decode(a, b, line, lower);
    strip_end(
        a); /* before intl and not after: a number's last full stop may be followed by space */
    if (kind == TOKENIZE_13A) part_13a(a, b);
    if (kind == TOKENIZE_INTL) part_intl(a, b);
    if (kind == TOKENIZE_CHAR)
        push_chars(tokens, a);
    else
        push_words(tokens, a);
    return tokens->n - before;
}

static int is_ascii_punctuation(uint32_t c) {
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
}

size_t tokens_add_words(struct tokens *tokens, struct segment line, int lower) {
    struct codes *a = &tokens->scratch[0];
    size_t before = tokens->n;
    codes_decode(a, &tokens->scratch[1], line, lower);
    codes_reserve(&tokens->text, tokens->text.n + a->n);
    for (size_t at = 0, length; (length = next_word(a, &at)); at += length) {
        const uint32_t *word = a->code + at;
        size_t cut = length;
        if (length > 1 && is_ascii_punctuation(word[length - 1]))
            cut = length - 1;
        else if (length > 1 && is_ascii_punctuation(word[0]))
            cut = 1;
        push(tokens, word, cut);
        if (cut < length) push(tokens, word + cut, length - cut);
    }
    return tokens->n - before;
}
