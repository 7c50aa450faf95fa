/* rules.h — text as a SentencePiece file wants it before it is cut into pieces.
 *
 * At every place of the text the longest rule that fits replaces what it fits; where none does, a
 * character stays, and a byte that is no UTF-8 becomes U+FFFD. The user's own pieces pass as they
 * are. Then come spaces: one where there were several, none at the ends, one in front of it all,
 * each U+2581, as the file says.
 *
 * The rules are a double-array trie in the file (rules.c), used in place. rules_init checks every
 * index that could ever be followed, so that nothing is checked again in use. */
#ifndef DATA_RULES_H
#define DATA_RULES_H

#include "data/pieces.h"
#include "data/trie.h"

struct rules {
    struct norm norm;
    bool space_last;
    const struct trie *user;           /* pieces of the user's own; may be NULL */
    const unsigned char *unit, *value; /* of the trie; NULL: no rules */
    uint32_t base;                     /* of its root */
    bool plain[256]; /* an ASCII character that stays as it is if the next is ASCII, too */
};

/* HEED_EFORMAT for rules that are damaged. *user and the file must stay. */
int rules_init(struct rules *rules, const struct norm *norm, bool space_last,
               const struct trie *user, struct err *err);

/* Text, and where it came from. Start from {.mapped}; release it, also after failure. */
struct normal {
    bool mapped;
    char *text;
    uint32_t *from; /* [size + 1] byte of the original, if mapped */
    size_t size, room;
};

/* HEED_ELIMIT when rules make too much of the text, HEED_ENOMEM. */
int rules_apply(const struct rules *rules, struct normal *normal, const char *text, size_t size);
void normal_release(struct normal *normal);

#endif
