/* ngrams.c — see ngrams.h. */
#include "eval/ngrams.h"

#include <string.h>

#include "base/mem.h"

/* The smallest table that n entries fill at most half. */
static int bits_for(size_t n) {
    int bits = 6;
    while (((size_t)1 << bits) < 2 * n) bits++;
    return bits;
}

/* The top `bits` bits of a product see all bits of the key. */
static inline size_t place(uint64_t key, int bits) {
    return (size_t)(((key ^ key >> 32) * 0x9E3779B97F4A7C15u) >> (64 - bits));
}

/* ---- n-grams --------------------------------------------------------------------------------- */

void ngrams_release(struct ngrams *ngrams) {
    xfree(ngrams->gram);
    xfree(ngrams->seen);
    xfree(ngrams->at);
    *ngrams = (struct ngrams){0};
}

void ngrams_begin(struct ngrams *ngrams, size_t n_symbol, int order) {
    BUG_ON(order < 1 || order > NGRAMS_MAX_ORDER || n_symbol >> 28);
    ngrams->bits = bits_for(n_symbol * (size_t)order);
    size_t need = (size_t)1 << ngrams->bits;
    if (need > ngrams->room || ++ngrams->round == 0) {
        if (need > ngrams->room) ngrams->room = need;
        xfree(ngrams->gram);
        xfree(ngrams->seen);
        ngrams->gram = xcalloc(ngrams->room, sizeof *ngrams->gram);
        ngrams->seen = xcalloc(ngrams->room, sizeof *ngrams->seen);
        ngrams->round = 1;
    }
    ngrams->reference = 0;
}

static void reserve_positions(struct ngrams *ngrams, size_t n) {
    if (n <= ngrams->at_room) return;
    ngrams->at_room = n + n / 2 + 64;
    ngrams->at = xrealloc(ngrams->at, ngrams->at_room * sizeof *ngrams->at);
}

/* Where the key is, or would be. */
static inline size_t find_gram(const struct ngrams *ngrams, uint64_t key) {
    size_t mask = ((size_t)1 << ngrams->bits) - 1, i = place(key, ngrams->bits);
    while (ngrams->gram[i].round == ngrams->round && ngrams->gram[i].key != key) i = (i + 1) & mask;
    return i;
}

/* The first reference simply counts; a later one counts beside and only raises the count. */
static inline void count_gram(struct ngrams *ngrams, size_t slot) {
    struct gram *gram = &ngrams->gram[slot];
    if (ngrams->reference == 0) {
        gram->left++;
        return;
    }
    struct gram_seen *seen = &ngrams->seen[slot];
    if (seen->reference != ngrams->reference) *seen = (struct gram_seen){ngrams->reference, 0};
    if (++seen->count > gram->left) gram->left = seen->count;
}

void ngrams_add(struct ngrams *ngrams, const uint32_t *symbol, size_t n, int order) {
    reserve_positions(ngrams, n);
    for (size_t i = 0; i < n; i++) ngrams->at[i] = 0;
    for (int k = 0; k < order; k++) {
        for (size_t i = 0; i + (size_t)k < n; i++) {
            uint64_t key = (uint64_t)ngrams->at[i] << 32 | symbol[i + (size_t)k];
            size_t slot = find_gram(ngrams, key);
            struct gram *gram = &ngrams->gram[slot];
            if (gram->round != ngrams->round) {
                *gram = (struct gram){key, ngrams->round, 0};
                ngrams->seen[slot].reference = 0;
            }
            count_gram(ngrams, slot);
            ngrams->at[i] = (uint32_t)slot + 1;
        }
    }
    ngrams->reference++;
}

void ngrams_match(struct ngrams *ngrams, uint64_t *match, const uint32_t *symbol, size_t n,
                  int order) {
    reserve_positions(ngrams, n);
    for (size_t i = 0; i < n; i++) ngrams->at[i] = 0;
    for (int k = 0; k < order; k++) {
        match[k] = 0;
        for (size_t i = 0; i + (size_t)k < n; i++) {
            if (k > 0 && ngrams->at[i] == 0) continue;
            uint64_t key = (uint64_t)ngrams->at[i] << 32 | symbol[i + (size_t)k];
            size_t slot = find_gram(ngrams, key);
            struct gram *gram = &ngrams->gram[slot];
            int found = gram->round == ngrams->round;
            ngrams->at[i] = found ? (uint32_t)slot + 1 : 0;
            if (!found || gram->left == 0) continue;
            gram->left--;
            match[k]++;
        }
    }
}

/* ---- words ----------------------------------------------------------------------------------- */

void lexicon_release(struct lexicon *lexicon) {
    xfree(lexicon->lexeme);
    *lexicon = (struct lexicon){0};
}

void lexicon_begin(struct lexicon *lexicon, size_t n_token) {
    lexicon->bits = bits_for(n_token);
    size_t need = (size_t)1 << lexicon->bits;
    if (need > lexicon->room || ++lexicon->round == 0) {
        if (need > lexicon->room) lexicon->room = need;
        xfree(lexicon->lexeme);
        lexicon->lexeme = xcalloc(lexicon->room, sizeof *lexicon->lexeme);
        lexicon->round = 1;
    }
    lexicon->n = 0;
}

static uint32_t hash_word(const uint32_t *code, size_t n) {
    uint64_t h = n;
    for (size_t i = 0; i < n; i++) h = (h ^ code[i]) * 0x9E3779B97F4A7C15u;
    return (uint32_t)(h >> 32);
}

static size_t find_word(const struct lexicon *lexicon, const struct tokens *known,
                        const uint32_t *word, size_t length, uint32_t hash) {
    size_t mask = ((size_t)1 << lexicon->bits) - 1, i = place(hash, lexicon->bits);
    for (;; i = (i + 1) & mask) {
        const struct lexeme *l = &lexicon->lexeme[i];
        if (l->round != lexicon->round) return i;
        if (l->hash == hash && l->length == length &&
            memcmp(known->text.code + l->start, word, length * sizeof *word) == 0)
            return i;
    }
}

void lexicon_add(struct lexicon *lexicon, uint32_t *symbol, const struct tokens *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct token t = tokens->token[i];
        const uint32_t *word = tokens->text.code + t.start;
        uint32_t hash = hash_word(word, t.length);
        struct lexeme *l = &lexicon->lexeme[find_word(lexicon, tokens, word, t.length, hash)];
        if (l->round != lexicon->round)
            *l = (struct lexeme){hash, lexicon->round, t.start, t.length, ++lexicon->n};
        symbol[i] = l->symbol;
    }
}

void lexicon_find(const struct lexicon *lexicon, uint32_t *symbol, const struct tokens *known,
                  const struct tokens *tokens, size_t n) {
    for (size_t i = 0; i < n; i++) {
        struct token t = tokens->token[i];
        const uint32_t *word = tokens->text.code + t.start;
        uint32_t hash = hash_word(word, t.length);
        const struct lexeme *l = &lexicon->lexeme[find_word(lexicon, known, word, t.length, hash)];
        symbol[i] = l->round == lexicon->round ? l->symbol : 0;
    }
}
