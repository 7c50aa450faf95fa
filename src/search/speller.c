/* speller.c — see speller.h. */
#include "search/speller.h"

#include <string.h>

#include "base/mem.h"
#include "base/unicode.h"
#include "base/utf8.h"

#define SPACE "\xE2\x96\x81" /* U+2581, as tokenizers write it */
enum { SPACE_SIZE = sizeof SPACE - 1 };

struct speller {
    const struct tokenizer *tokenizer;
    uint8_t *edge; /* [pieces] */
};

static int is_mark(uint32_t code) {
    return unicode_category(code) & (UNICODE_PUNCTUATION | UNICODE_SYMBOL);
}

/* Marks behind which there is a space before the next word. */
static int closes(uint32_t code) {
    static const uint32_t list[] = {'.',  ',',   ';',   ':',    '!',    '?',    ')',
                                    ']',  '}',   '%',   0x2026, 0x3001, 0x3002, 0x37E,
                                    0xB7, 0x61F, 0x60C, 0xFF0C, 0xFF1F, 0xFF01, 0x2047};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (code == list[i]) return 1;
    return 0;
}

/* The bytes of a tokenizer that falls back to them, "<0xE4>", are as good as letters. */
static uint8_t edge_of(const struct tokenizer *tokenizer, int id) {
    const char *piece = tokenizer_piece(tokenizer, id);
    size_t size = strlen(piece), last = size;
    uint32_t code = 0;
    uint8_t edge = 0;
    if (tokenizer_is_control(tokenizer, id) || size == 0) return TERM_PARTS | TERM_OPENS;
    if (size == 6 && strncmp(piece, "<0x", 3) == 0 && piece[5] == '>') return 0;
    if (strncmp(piece, SPACE, SPACE_SIZE) == 0 ||
        (utf8_decode(&code, piece, size) > 0 && is_mark(code)))
        edge |= TERM_PARTS;
    do last--;
    while (last > 0 && (piece[last] & 0xC0) == 0x80);
    if (strcmp(piece + last, SPACE) == 0 ||
        (utf8_decode(&code, piece + last, size - last) > 0 && is_mark(code) && !closes(code)))
        edge |= TERM_OPENS;
    return edge;
}

struct speller *speller_new(const struct tokenizer *tokenizer) {
    struct speller *s = xcalloc(1, sizeof *s);
    int n = tokenizer_size(tokenizer);
    s->tokenizer = tokenizer;
    s->edge = xmalloc((size_t)n);
    for (int i = 0; i < n; i++) s->edge[i] = edge_of(tokenizer, i);
    return s;
}

void speller_free(struct speller *s) {
    if (!s) return;
    xfree(s->edge);
    xfree(s);
}

const uint8_t *speller_edge(const struct speller *s) { return s->edge; }

size_t speller_capitals(char *out, const char *text, size_t size, int only_first) {
    size_t n = 0;
    for (size_t at = 0; at < size;) {
        uint32_t code;
        int length = utf8_decode(&code, text + at, size - at);
        BUG_ON(length < 0);
        n += (size_t)utf8_encode(out + n, only_first && at ? code : unicode_capital(code));
        at += (size_t)length;
    }
    return n;
}

/* One form: the pieces of the text behind a bracket, and behind a space if it is not glued. */
static void add_form(const struct speller *s, struct term *term, const char *text, size_t size,
                     int glued, struct keep *keep) {
    char line[2 * SPELLER_MAX + 2] = "( ";
    int32_t id[TERM_PIECES + 4];
    struct span span[TERM_PIECES + 4];
    size_t before = glued ? 1 : 2;
    int first = 0;
    memcpy(line + before, text, size);
    int n = tokenizer_encode_spans(s->tokenizer, line, before + size, id, span, TERM_PIECES + 4);
    if (n < 1 || n > TERM_PIECES + 4) return;
    while (first < n && span[first].end <= 1) first++;
    n -= first;
    if (n < 1 || n > TERM_PIECES || span[first].begin != 1) return;
    for (int i = 0; i < n; i++)
        if (id[first + i] == tokenizer_unk(s->tokenizer)) return;
    for (int k = 0; k < term->n; k++)
        if (term->form[k].n == n && term->form[k].glued == glued &&
            memcmp(term->form[k].id, id + first, (size_t)n * sizeof *id) == 0)
            return;
    int32_t *kept = keep_take(keep, (size_t)n * sizeof *kept);
    memcpy(kept, id + first, (size_t)n * sizeof *kept);
    term->form[term->n++] = (struct term_form){kept, n, glued};
    if (n > term->weight) term->weight = n;
}

int speller_term(const struct speller *s, struct term *term, const char *text, size_t size,
                 int capitals, struct keep *keep) {
    char other[2 * SPELLER_MAX];
    *term = (struct term){.n = 0};
    if (size == 0 || size > SPELLER_MAX) return 0;
    for (int way = 0; way < (capitals ? 3 : 2); way++) {
        size_t n = way ? speller_capitals(other, text, size, way == 1) : size;
        for (int glued = 0; glued < 2; glued++)
            add_form(s, term, way ? other : text, n, glued, keep);
    }
    return term->n;
}
