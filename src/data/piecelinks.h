/* piecelinks.h — a pair's links between words (links.h) as links between pieces: what guided
 * training learns from.
 *
 * All pieces of a target word are linked to all pieces of the source words it is linked to, so a
 * link joins two ranges of pieces. Links of a pair are ordered by target word;
 * those of one target word have the same target range and their source ranges ascend without
 * overlap. In a cache file they are packed into some four bytes each.
 *
 * Functions own nothing and allocate nothing. */
#ifndef DATA_PIECELINKS_H
#define DATA_PIECELINKS_H

#include <stddef.h>
#include <stdint.h>

#include "data/links.h"

struct piece_link {
    int32_t src, src_end, tgt, tgt_end; /* pieces [src, src_end) and [tgt, tgt_end) */
};

/* A pair may have this many links for each of its tokens, which aligners are far from; it bounds
 * what a batch must have room for. LINK_BYTES is the most that one takes when packed. */
enum { LINKS_PER_TOKEN = 4, LINK_BYTES = 12 };

/* One side of a pair: how many words it has, and the word of each piece, ascending; -1 at the end
 * for pieces that belong to none. */
struct link_side {
    const int *of;
    int n_piece, n_word;
};

/* Links of words, source and target exchanged (links_turn), as links of pieces: their number, at
 * most words->n. Words that no piece belongs to are left out. -1: a word that the sentence does not
 * have. */
int piecelinks_of_words(struct piece_link *link, const struct links *words,
                        const struct link_side *src, const struct link_side *tgt);

/* Packs links into at most n * LINK_BYTES bytes: how many. piecelinks_unpack trusts nothing: 0 if
 * the bytes, of which there may be more, are n links in order within n_src and n_tgt pieces, else
 * -1. */
size_t piecelinks_pack(unsigned char *bytes, const struct piece_link *link, int n);
int piecelinks_unpack(struct piece_link *link, int n, const unsigned char *bytes, size_t size,
                      int n_src, int n_tgt);

/* A text cut into other pieces, as sampled segmentations are: where each of the n_old + 1 edges of
 * the old pieces is among the new ones. Sizes are those of pieces in characters, with equal sums. A
 * new piece lies where its middle does. */
void piecelinks_edges(int32_t *to, const int32_t *old_size, int n_old, const int32_t *new_size,
                      int n_new);

/* Links in the new pieces: how many have pieces left on both sides. NULL: that side is as it
 * was. */
int piecelinks_move(struct piece_link *link, int n, const int32_t *src_to, const int32_t *tgt_to);

#endif
