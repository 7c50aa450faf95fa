/* words.c — see words.h. */
#include "data/words.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/unicode.h"
#include "base/utf8.h"

/* ---- characters ------------------------------------------------------------------------------ */

struct reader {
    const char *text;
    int size, at;
};

enum kind { END, SPACE, LETTER, MARK, SYMBOL };

struct character {
    uint32_t code;
    enum kind kind;
    int digit;
};

static enum kind kind_of(uint32_t code, enum unicode_category category) {
    if (unicode_is_space(code) || code == 0x200B || code == 0xFEFF) return SPACE;
    if (category == UNICODE_PUNCTUATION) return MARK;
    return category == UNICODE_SYMBOL ? SYMBOL : LETTER;
}

/* The character at r->at, which becomes the position behind it. */
static struct character take(struct reader *r) {
    struct character c = {.kind = END};
    if (r->at >= r->size) return c;
    int n = utf8_decode(&c.code, r->text + r->at, (size_t)(r->size - r->at));
    r->at += n < 0 ? -n : n;
    if (n < 0) return c.kind = LETTER, c;
    enum unicode_category category = unicode_category(c.code);
    c.kind = kind_of(c.code, category);
    c.digit = category == UNICODE_NUMBER;
    return c;
}

static struct character peek(struct reader r) { return take(&r); }

static int is_apostrophe(uint32_t c) { return c == '\'' || c == 0x2019; }
static int is_hyphen(uint32_t c) { return c == '-' || c == 0x2010 || c == 0x2011; }

static int joins(uint32_t c, int digits) {
    return is_apostrophe(c) || is_hyphen(c) || c == '.' || c == '_' ||
           (digits && (c == ',' || c == ':' || c == 0x2044));
}

/* ---- words ----------------------------------------------------------------------------------- */

/* Moves behind the word whose first letter, `last`, has just been taken. */
static void take_letters(struct reader *r, struct character last) {
    int stops = 0, run = 1, single = !last.digit; /* run: letters since the last joiner */
    for (;;) {
        struct reader ahead = *r;
        struct character c = take(&ahead), next = peek(ahead);
        if (c.kind == LETTER) {
            run++;
        } else if (next.kind == LETTER && joins(c.code, last.digit && next.digit)) {
            stops += c.code == '.';
            single &= c.code == '.' && run == 1;
            run = 0;
        } else {
            int initials = c.code == '.' && stops && single && run == 1;
            int elision = is_hyphen(c.code) && !last.digit && next.kind <= SPACE;
            if (initials || elision) *r = ahead;
            return;
        }
        single &= !c.digit;
        last = c;
        *r = ahead;
    }
}

/* An apostrophe between a space and one of these endings begins a word. */
static int take_ending(struct reader *r) {
    static const char *const ending[] = {"s", "t", "d", "m", "re", "ve", "ll"};
    struct reader ahead = *r;
    struct character c = take(&ahead);
    if (c.kind != LETTER) return 0;
    take_letters(&ahead, c);
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        int n = (int)strlen(ending[i]);
        if (ahead.at - r->at != n || memcmp(r->text + r->at, ending[i], (size_t)n) != 0) continue;
        *r = ahead;
        return 1;
    }
    return 0;
}

static int is_modifier(uint32_t c) {
    return (c >= 0xFE00 && c <= 0xFE0F) || (c >= 0x1F3FB && c <= 0x1F3FF) || c == 0x20E3;
}

/* Moves behind the mark or symbol that has just been taken, its repetitions, and what modifies
 * it: a zero-width joiner (U+200D) puts two emoji together. */
static void take_marks(struct reader *r, struct character first) {
    for (;;) {
        struct reader ahead = *r;
        struct character c = take(&ahead);
        if (first.kind == SYMBOL && c.code == 0x200D && peek(ahead).kind == SYMBOL)
            take(&ahead);
        else if (c.kind == END || (c.code != first.code && !is_modifier(c.code)))
            return;
        *r = ahead;
    }
}

static void take_word(struct reader *r, struct character first, int after_space) {
    if (first.kind == LETTER)
        take_letters(r, first);
    else if (!after_space || !is_apostrophe(first.code) || !take_ending(r))
        take_marks(r, first);
}

int words_split(struct span *word, int cap, enum words_unit unit, const char *text, size_t size) {
    BUG_ON(size > TOKENIZER_MAX_TEXT);
    struct reader r = {text, (int)size, 0};
    int n = 0, end = 0;
    for (;;) {
        int at = r.at;
        struct character c = take(&r);
        if (c.kind == END) return n;
        if (c.kind == SPACE) continue;
        if (unit == WORDS_TOKENS)
            for (struct reader ahead = r; take(&ahead).kind > SPACE;) r = ahead;
        else
            take_word(&r, c, at == 0 || at > end);
        end = r.at;
        if (n < cap) word[n] = (struct span){at, end};
        n++;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

void words_map(int *of, const struct span *piece, int n_piece, const struct span *word,
               int n_word) {
    int w = 0;
    for (int i = 0; i < n_piece; i++) {
        int most = 0;
        while (w < n_word && word[w].end <= piece[i].begin) w++;
        of[i] = w < n_word ? w : -1;
        for (int k = w; k < n_word && word[k].begin < piece[i].end; k++) {
            int common =
                min_int(word[k].end, piece[i].end) - max_int(word[k].begin, piece[i].begin);
            if (common > most) most = common, of[i] = k;
        }
    }
}

static void reserve_words(struct words *w, int n) {
    if (n <= w->room_word) return;
    w->room_word = max_int(n, 2 * w->room_word);
    w->word = xrealloc(w->word, (size_t)w->room_word * sizeof *w->word);
}

static void reserve_pieces(struct words *w, int n) {
    if (n <= w->room_piece) return;
    w->room_piece = max_int(n, 2 * w->room_piece);
    w->of = xrealloc(w->of, (size_t)w->room_piece * sizeof *w->of);
    w->piece = xrealloc(w->piece, (size_t)w->room_piece * sizeof *w->piece);
    w->ids = xrealloc(w->ids, (size_t)w->room_piece * sizeof *w->ids);
}

static void reserve_text(struct words *w, size_t size) {
    if (size <= w->room_text) return;
    w->room_text = max_size(size, 2 * w->room_text);
    w->text = xrealloc(w->text, w->room_text);
}

void words_release(struct words *w) {
    xfree(w->word);
    xfree(w->of);
    xfree(w->piece);
    xfree(w->ids);
    xfree(w->text);
    *w = (struct words){0};
}

void words_of_text(struct words *w, enum words_unit unit, const char *text, size_t size) {
    w->n_piece = 0;
    w->n = words_split(w->word, w->room_word, unit, text, size);
    if (w->n <= w->room_word) return;
    reserve_words(w, w->n);
    words_split(w->word, w->n, unit, text, size);
}

int words_encode(struct words *w, enum words_unit unit, const struct tokenizer *tokenizer,
                 const char *text, size_t size) {
    int n = tokenizer_encode_spans(tokenizer, text, size, w->ids, w->piece, w->room_piece);
    if (n >= w->room_piece) {
        reserve_pieces(w, n + 1);
        n = tokenizer_encode_spans(tokenizer, text, size, w->ids, w->piece, w->room_piece);
    }
    if (n < 0) return n;
    words_of_text(w, unit, text, size);
    w->n_piece = n;
    words_map(w->of, w->piece, n, w->word, w->n);
    return n;
}

int words_of_ids(struct words *w, enum words_unit unit, const struct tokenizer *tokenizer,
                 const int32_t *ids, int n) {
    reserve_pieces(w, n);
    int size = tokenizer_decode_spans(tokenizer, ids, n, w->text, w->room_text, w->piece);
    if (size >= 0 && (size_t)size >= w->room_text) {
        reserve_text(w, (size_t)size + 1);
        size = tokenizer_decode_spans(tokenizer, ids, n, w->text, w->room_text, w->piece);
    }
    if (size < 0) return size;
    if (size > TOKENIZER_MAX_TEXT) return HEED_ELIMIT;
    words_of_text(w, unit, w->text, (size_t)size);
    w->n_piece = n;
    words_map(w->of, w->piece, n, w->word, w->n);
    for (int i = 0; i < n; i++)
        if (tokenizer_is_control(tokenizer, ids[i])) w->of[i] = -1;
    return w->n;
}
