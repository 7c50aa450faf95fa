/* rules.c — see rules.h.
 *
 * In the file: the trie's size in bytes, the trie, then strings that end in NUL, which its values
 * point at. A double-array trie is an array of units. unit[0] is the root; from a node with base q
 * the byte c leads to unit q ^ c if its label is c, and that node's base is (q ^ c) ^ offset; a
 * node where a rule ends has its value at unit[base]. */
#include "data/rules.h"

#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

enum {
    MAX_RULE_PREFIXES = 32,
    MAX_RULE_LENGTH = 256, /* bytes; the longest of the standard rules are below 20 */
    BLOCK = 256,           /* units a trie grows by */
    MAX_NORMAL = 1 << 28   /* bytes; the standard rules make 12 of one at most */
};

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE_MARK = sizeof space_mark - 1 };

/* ---- the trie -------------------------------------------------------------------------------- */

static uint32_t get_unit(const unsigned char *unit, uint32_t at) {
    uint32_t u;
    memcpy(&u, unit + sizeof u * at, sizeof u);
    return u;
}

static uint32_t unit_label(uint32_t unit) { return unit & 0x800000FFu; } /* no byte for a value */
static uint32_t unit_offset(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }
static bool unit_ends(uint32_t unit) { return unit >> 8 & 1; }
static uint32_t unit_value(uint32_t unit) { return unit & 0x7FFFFFFFu; }

/* While the trie is checked. A unit's label says which base alone it can be reached from. */
struct check {
    const unsigned char *unit;
    uint32_t n_unit;
    size_t n_value;
    /* [n_unit] of a base, the first unit reached from it + 1; of that, the next + 1; 0: none */
    uint32_t *first, *next;
    /* [n_unit] per base: rules on the longest way down + 1; 0 not seen, UINT8_MAX being seen */
    uint8_t *prefixes;
};

/* Whether everything below base stays in the trie, ends, and passes few enough rules. */
static bool walk(struct check *c, uint32_t base, int depth) {
    if ((base | (BLOCK - 1)) >= c->n_unit || depth > MAX_RULE_LENGTH) return false;
    if (c->prefixes[base] == UINT8_MAX) return false; /* a circle */
    if (c->prefixes[base]) return true;
    c->prefixes[base] = UINT8_MAX;
    int most = 0;
    for (uint32_t i = c->first[base]; i; i = c->next[i - 1]) {
        uint32_t unit = get_unit(c->unit, i - 1), below = (i - 1) ^ unit_offset(unit);
        if (!walk(c, below, depth + 1)) return false;
        if (unit_ends(unit) && unit_value(get_unit(c->unit, below)) >= c->n_value) return false;
        int n = c->prefixes[below] - 1 + unit_ends(unit);
        if (n > most) most = n;
    }
    if (most > MAX_RULE_PREFIXES) return false;
    c->prefixes[base] = (uint8_t)(most + 1);
    return true;
}

static bool check_trie(struct check *c) {
    c->first = xcalloc(2 * (size_t)c->n_unit, sizeof *c->first);
    c->next = c->first + c->n_unit;
    c->prefixes = xcalloc(c->n_unit, 1);
    for (uint32_t at = 0; at < c->n_unit; at++) {
        uint32_t label = unit_label(get_unit(c->unit, at));
        if (label >= BLOCK) continue;
        c->next[at] = c->first[at ^ label];
        c->first[at ^ label] = at + 1;
    }
    bool ok = walk(c, unit_offset(get_unit(c->unit, 0)), 0);
    xfree(c->first);
    xfree(c->prefixes);
    return ok;
}

static bool open_trie(struct rules *r) {
    struct bytes units, rest = r->norm.rules;
    uint32_t size;
    if (rest.size < sizeof size) return false;
    memcpy(&size, rest.at, sizeof size);
    rest = (struct bytes){rest.at + sizeof size, rest.size - sizeof size};
    if (size == 0 || size % (BLOCK * sizeof(uint32_t)) || !take_bytes(&rest, &units, size))
        return false;
    if (rest.size == 0 || rest.at[rest.size - 1] != 0) return false; /* strings end in NUL */
    struct check check = {
        .unit = units.at, .n_unit = size / (uint32_t)sizeof(uint32_t), .n_value = rest.size};
    r->unit = units.at;
    r->value = rest.at;
    r->base = unit_offset(get_unit(units.at, 0));
    return check_trie(&check);
}

/* Whether no rule is, or begins with, this character and perhaps another of ASCII. */
static bool is_plain(const struct rules *r, uint32_t c) {
    if (r->user && r->user->begins[c]) return false;
    if (!r->unit) return true;
    uint32_t at = r->base ^ c, unit = get_unit(r->unit, at), below = at ^ unit_offset(unit);
    if (unit_label(unit) != c) return true;
    if (unit_ends(unit)) return false;
    for (uint32_t next = 0; next < 128; next++)
        if (unit_label(get_unit(r->unit, below ^ next)) == next) return false;
    return true;
}

int rules_init(struct rules *r, const struct norm *norm, bool space_last, const struct trie *user,
               struct err *err) {
    *r = (struct rules){.norm = *norm, .space_last = space_last, .user = user};
    if (norm->rules.size && !open_trie(r))
        return err_set(err, HEED_EFORMAT, "the normalization rules are damaged");
    for (uint32_t c = 0; c < 128; c++) r->plain[c] = is_plain(r, c);
    return 0;
}

/* ---- applying -------------------------------------------------------------------------------- */

/* What stands for the text's beginning, and how much of the text that is. */
struct step {
    const char *text;
    size_t size, taken;
};

static struct step next_step(const struct rules *r, const char *text, size_t size) {
    size_t n = r->user ? trie_prefix(r->user, text, size, NULL) : 0;
    if (n) return (struct step){text, n, n};
    if (r->unit) {
        uint32_t base = r->base, value = 0;
        for (size_t i = 0; i < size; i++) {
            uint32_t c = (unsigned char)text[i], at = base ^ c, unit = get_unit(r->unit, at);
            if (unit_label(unit) != c) break;
            base = at ^ unit_offset(unit);
            if (!unit_ends(unit)) continue;
            n = i + 1;
            value = unit_value(get_unit(r->unit, base));
        }
        const char *made = (const char *)r->value + value;
        if (n) return (struct step){made, strlen(made), n};
    }
    uint32_t code;
    int length = utf8_decode(&code, text, size);
    if (length > 0) return (struct step){text, (size_t)length, (size_t)length};
    return (struct step){UTF8_REPLACEMENT, sizeof UTF8_REPLACEMENT - 1, 1};
}

static int grow(struct normal *n, size_t more) {
    size_t room = 2 * n->size + more + 64;
    if (n->size + more > MAX_NORMAL) return HEED_ELIMIT;
    char *text = mem_block(room);
    uint32_t *from = text && n->mapped ? mem_block(room * sizeof *from) : NULL;
    if (!text || (n->mapped && !from)) {
        mem_block_free(text);
        return HEED_ENOMEM;
    }
    if (n->size) memcpy(text, n->text, n->size);
    if (n->size && n->mapped) memcpy(from, n->from, n->size * sizeof *from);
    mem_block_free(n->text);
    mem_block_free(n->from);
    n->text = text;
    n->from = from;
    n->room = room;
    return 0;
}

/* Makes room for what `size` bytes can become, and for one more entry of the map. */
static inline int reserve(struct normal *n, size_t size) {
    size_t most = SPACE_MARK * size + 1;
    return most <= n->room - n->size ? 0 : grow(n, most);
}

/* There is room. */
static inline void put(struct normal *n, const char *text, size_t size, size_t at) {
    memcpy(n->text + n->size, text, size);
    for (size_t i = 0; n->mapped && i < size; i++) n->from[n->size + i] = (uint32_t)at;
    n->size += size;
}

static void put_space(const struct rules *r, struct normal *n, size_t at) {
    if (r->norm.marked_spaces)
        put(n, space_mark, SPACE_MARK, at);
    else
        put(n, " ", 1, at);
}

/* Takes what needs no rule, from `at`; *spaced: it follows a space that swallows others. Returns
 * where it ends. */
static size_t put_plain(const struct rules *r, struct normal *n, const char *text, size_t size,
                        size_t at, bool *spaced) {
    for (; at < size && r->plain[(unsigned char)text[at]]; at++) {
        if (at + 1 < size && (unsigned char)text[at + 1] > 127) break;
        if (text[at] != ' ') {
            n->text[n->size] = text[at];
            if (n->mapped) n->from[n->size] = (uint32_t)at;
            n->size++;
            *spaced = false;
        } else if (!*spaced) {
            put_space(r, n, at);
            *spaced = r->norm.single_spaces;
        }
    }
    return at;
}

static void put_step(const struct rules *r, struct normal *n, struct step s, size_t at,
                     bool *spaced) {
    for (; *spaced && s.size > 0 && *s.text == ' '; s.size--) s.text++;
    if (s.size == 0) return;
    for (size_t i = 0; i < s.size; i++)
        if (s.text[i] == ' ')
            put_space(r, n, at);
        else
            put(n, s.text + i, 1, at);
    *spaced = r->norm.single_spaces && s.text[s.size - 1] == ' ';
}

/* Spaces at the end go; returns where in the original the rest ends. */
static size_t trim(const struct rules *r, struct normal *n, size_t end) {
    const char *space = r->norm.marked_spaces ? space_mark : " ";
    size_t size = strlen(space);
    while (n->size >= size && memcmp(n->text + n->size - size, space, size) == 0) {
        n->size -= size;
        if (n->mapped) end = n->from[n->size];
    }
    return end;
}

int rules_apply(const struct rules *r, struct normal *n, const char *text, size_t size) {
    size_t at = 0;
    bool spaced = r->norm.single_spaces;
    n->size = 0;
    while (spaced && at < size) {
        struct step s = next_step(r, text + at, size - at);
        if (s.size != 1 || *s.text != ' ') break;
        at += s.taken;
    }
    int rc = reserve(n, size - at + 1);
    if (!rc && n->mapped) n->from[0] = (uint32_t)at;
    if (rc || at == size) return rc;
    if (r->norm.space_first && !r->space_last) put_space(r, n, at);
    while (at < size) {
        if ((rc = reserve(n, size - at + 1))) return rc;
        at = put_plain(r, n, text, size, at, &spaced);
        if (at == size) break;
        struct step s = next_step(r, text + at, size - at);
        if ((rc = reserve(n, s.size + 1))) return rc;
        put_step(r, n, s, at, &spaced);
        at += s.taken;
    }
    if (r->norm.single_spaces) at = trim(r, n, at);
    if ((rc = reserve(n, 1))) return rc;
    if (r->norm.space_first && r->space_last) put_space(r, n, at);
    if (n->mapped) n->from[n->size] = (uint32_t)at;
    return 0;
}

void normal_release(struct normal *n) {
    mem_block_free(n->text);
    mem_block_free(n->from);
    *n = (struct normal){0};
}
