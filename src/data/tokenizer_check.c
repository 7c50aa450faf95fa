/* tokenizer_check.c — see tokenizer_check.h.
 *
 * The file is a ModelProto: repeated piece = 1, normalizer = 3, denormalizer = 5, and more that
 * does not matter here. */
#include "data/tokenizer_check.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/proto.h"
#include "data/tokenizer.h"

enum {
    FIELD_PIECE = 1,
    FIELD_NORMALIZER = 3,
    FIELD_DENORMALIZER = 5,
    PIECE_TEXT = 1,
    PIECE_TYPE = 3,
    NORMALIZER_CHARSMAP = 2,
    USER_DEFINED = 4, /* a type of piece */
    MAX_USER_PREFIXES = 64,
    MAX_RULE_PREFIXES = 32,
    MAX_RULE_LENGTH = 256, /* bytes; the longest of the standard rules are below 20 */
    BLOCK = 256            /* units a trie grows by */
};

static int malformed(struct err *err) {
    return err_set(err, HEED_EFORMAT, "not a SentencePiece model, or a damaged one");
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* A double-array trie: unit[0] is the root; from a node with base q the byte c leads to unit q ^ c
 * if its label is c, and that node's base is (q ^ c) ^ offset; a node with a leaf has its value at
 * unit[base]. */
struct trie {
    uint32_t *unit;
    /* per base: leaves on the longest way down + 1; 0 not seen, UINT8_MAX being seen */
    uint8_t *prefixes;
    uint32_t n_unit;
    size_t n_value;
};

static uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

/* Whether everything below base stays in the trie, ends, and passes few enough leaves. */
static int walk(struct trie *t, uint32_t base, int depth) {
    if ((base | (BLOCK - 1)) >= t->n_unit || depth > MAX_RULE_LENGTH) return 0;
    if (t->prefixes[base] == UINT8_MAX) return 0; /* a circle */
    if (t->prefixes[base]) return 1;
    t->prefixes[base] = UINT8_MAX;
    int most = 0;
    for (uint32_t c = 0; c < BLOCK; c++) {
        uint32_t unit = t->unit[base ^ c];
        if ((unit & 0x800000FFu) != c) continue;
        uint32_t below = base ^ c ^ unit_offset(unit);
        int leaf = unit >> 8 & 1;
        if (!walk(t, below, depth + 1)) return 0;
        if (leaf && (t->unit[below] & 0x7FFFFFFFu) >= t->n_value) return 0;
        int n = t->prefixes[below] - 1 + leaf;
        if (n > most) most = n;
    }
    if (most > MAX_RULE_PREFIXES) return 0;
    t->prefixes[base] = (uint8_t)(most + 1);
    return 1;
}

/* The table of normalisation: the trie's size, the trie, then the strings its values point at. */
static int check_charsmap(struct bytes map) {
    if (map.size == 0) return 1;
    uint32_t trie_size;
    if (map.size < sizeof trie_size) return 0;
    memcpy(&trie_size, map.at, sizeof trie_size);
    struct bytes trie, rest = {map.at + sizeof trie_size, map.size - sizeof trie_size};
    if (trie_size == 0 || trie_size % (BLOCK * sizeof(uint32_t)) ||
        !take_bytes(&rest, &trie, trie_size))
        return 0;
    if (rest.size == 0 || rest.at[rest.size - 1] != 0) return 0; /* strings end in NUL */
    struct trie t = {.n_unit = trie_size / (uint32_t)sizeof(uint32_t), .n_value = rest.size};
    t.unit = xmalloc(trie_size);
    t.prefixes = xcalloc(t.n_unit, 1);
    memcpy(t.unit, trie.at, trie_size);
    int ok = walk(&t, unit_offset(t.unit[0]), 0);
    xfree(t.unit);
    xfree(t.prefixes);
    return ok;
}

static int check_normalizer(struct bytes b, struct err *err) {
    struct field f;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return malformed(err);
        if (f.number == NORMALIZER_CHARSMAP && !check_charsmap(f.bytes))
            return err_set(err, HEED_EFORMAT, "the normalization rules are damaged");
    }
    return 0;
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static int compare(const void *a, const void *b) {
    const struct bytes *x = a, *y = b;
    size_t n = x->size < y->size ? x->size : y->size;
    int order = n ? memcmp(x->at, y->at, n) : 0;
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* In sorted order the prefixes of a string are the ones above it that are still open. */
static int check_prefixes(struct bytes *list, size_t n, struct err *err) {
    size_t open[MAX_USER_PREFIXES + 1] = {0}, depth = 0;
    if (n > 1) qsort(list, n, sizeof *list, compare);
    for (size_t i = 0; i < n; i++) {
        while (depth > 0) {
            const struct bytes *top = &list[open[depth - 1]];
            if (top->size <= list[i].size && memcmp(top->at, list[i].at, top->size) == 0) break;
            depth--;
        }
        open[depth++] = i;
        if (depth > MAX_USER_PREFIXES)
            return err_set(err, HEED_EFORMAT, "more than %d user-defined pieces begin alike",
                           MAX_USER_PREFIXES);
    }
    return 0;
}

/* A piece's text and whether a user defined it. */
static int read_piece(struct bytes b, struct bytes *text, int *user_defined) {
    struct field f;
    *user_defined = 0;
    *text = (struct bytes){(const unsigned char *)"", 0};
    while (b.size > 0) {
        if (!take_field(&b, &f)) return 0;
        if (f.number == PIECE_TEXT && f.bytes.at) *text = f.bytes;
        if (f.number == PIECE_TYPE) *user_defined = f.value == USER_DEFINED;
    }
    return 1;
}

/* `user` has room for all pieces. */
static int check_fields(struct bytes b, struct bytes *user, size_t *n_user, struct err *err) {
    struct field f;
    size_t n_piece = 0;
    while (b.size > 0) {
        if (!take_field(&b, &f)) return malformed(err);
        int rc = 0, user_defined;
        if (f.number == FIELD_NORMALIZER || f.number == FIELD_DENORMALIZER)
            rc = check_normalizer(f.bytes, err);
        if (rc) return rc;
        if (f.number != FIELD_PIECE) continue;
        if (++n_piece > TOKENIZER_MAX_SIZE)
            return err_set(err, HEED_ELIMIT, "more than %d pieces", TOKENIZER_MAX_SIZE);
        if (!f.bytes.at || !read_piece(f.bytes, &user[*n_user], &user_defined))
            return malformed(err);
        *n_user += (size_t)user_defined;
    }
    return n_piece ? check_prefixes(user, *n_user, err) : malformed(err);
}

int tokenizer_check(const unsigned char *data, size_t size, struct err *err) {
    size_t n_user = 0, room = size / 2 + 1; /* a piece takes two bytes at least */
    if (room > TOKENIZER_MAX_SIZE) room = TOKENIZER_MAX_SIZE;
    struct bytes *user = xmalloc(room * sizeof *user);
    int rc = check_fields((struct bytes){data, size}, user, &n_user, err);
    xfree(user);
    return rc;
}
