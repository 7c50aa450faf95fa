/* piecelinks.c — see piecelinks.h.
 *
 * Packed, a link is a few numbers, seven bits to a byte, low ones first, the highest bit set in all
 * but the last:
 *
 *     0                      the target range of the link before; or
 *     1 + gap, length - 1    a target range that begins `gap` pieces behind the one before
 *     begin, length - 1      the source range; begin counts from the end of the range before it,
 *                            where the target range is the same, else from 0 */
#include "data/piecelinks.h"

#include <stdbool.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The first piece that belongs to `word` or a later one. */
static int32_t first_piece(const struct link_side *side, int32_t word) {
    int low = 0, high = side->n_piece;
    while (low < high) {
        int mid = low + (high - low) / 2;
        if (side->of[mid] < 0 || side->of[mid] >= word)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

int piecelinks_of_words(struct piece_link *link, const struct links *words,
                        const struct link_side *src, const struct link_side *tgt) {
    int n_link = 0;
    for (int i = 0; i < words->n; i++) {
        int from = words->link[i].tgt, to = words->link[i].src;
        if (from >= src->n_word || to >= tgt->n_word) return -1;
        struct piece_link one = {.src = first_piece(src, from),
                                 .src_end = first_piece(src, from + 1),
                                 .tgt = first_piece(tgt, to),
                                 .tgt_end = first_piece(tgt, to + 1)};
        if (one.src == one.src_end || one.tgt == one.tgt_end) continue;
        struct piece_link *last = n_link ? &link[n_link - 1] : NULL;
        if (last && last->tgt == one.tgt && last->src_end == one.src)
            last->src_end = one.src_end; /* neighbours make one range */
        else
            link[n_link++] = one;
    }
    return n_link;
}

/* ---- packing --------------------------------------------------------------------------------- */

static unsigned char *put(unsigned char *to, int32_t value) {
    for (; value >= 0x80; value >>= 7) *to++ = (unsigned char)(0x80 | (value & 0x7f));
    *to++ = (unsigned char)value;
    return to;
}

size_t piecelinks_pack(unsigned char *bytes, const struct piece_link *link, int n) {
    unsigned char *to = bytes;
    struct piece_link last = {.tgt = -1};
    for (int i = 0; i < n; i++) {
        bool same = link[i].tgt == last.tgt;
        to = put(to, same ? 0 : 1 + link[i].tgt - last.tgt_end);
        if (!same) to = put(to, link[i].tgt_end - link[i].tgt - 1);
        to = put(to, link[i].src - (same ? last.src_end : 0));
        to = put(to, link[i].src_end - link[i].src - 1);
        last = link[i];
    }
    return (size_t)(to - bytes);
}

struct packed_links {
    const unsigned char *at, *end;
    bool bad;
};

/* The next number, which is below `limit`. */
static int32_t get(struct packed_links *p, int32_t limit) {
    int32_t value = 0;
    for (int shift = 0; shift < 28 && p->at < p->end; shift += 7) {
        unsigned char c = *p->at++;
        value |= (int32_t)(c & 0x7f) << shift;
        if (c < 0x80 && value < limit) return value;
        if (c < 0x80) break;
    }
    p->bad = true;
    return 0;
}

int piecelinks_unpack(struct piece_link *link, int n, const unsigned char *bytes, size_t size,
                      int n_src, int n_tgt) {
    struct packed_links p = {.at = bytes, .end = bytes + size};
    struct piece_link last = {0};
    for (int i = 0; i < n && !p.bad; i++) {
        int32_t gap = get(&p, n_tgt - last.tgt_end + 1);
        if (gap > 0) {
            last.tgt = last.tgt_end + gap - 1;
            last.tgt_end = last.tgt + 1 + get(&p, n_tgt - last.tgt);
            last.src_end = 0;
        } else if (i == 0) {
            return -1;
        }
        last.src = last.src_end + get(&p, n_src - last.src_end);
        last.src_end = last.src + 1 + get(&p, n_src - last.src);
        link[i] = last;
    }
    return p.bad ? -1 : 0;
}

/* ---- other pieces ---------------------------------------------------------------------------- */

void piecelinks_edges(int32_t *to, const int32_t *old_size, int n_old, const int32_t *new_size,
                      int n_new) {
    int64_t edge = 0, begin = 0; /* of old piece i and new piece k, in characters */
    int k = 0;
    for (int i = 0; i <= n_old; i++) {
        for (; k < n_new && 2 * begin + new_size[k] < 2 * edge; k++) begin += new_size[k];
        to[i] = k;
        if (i < n_old) edge += old_size[i];
    }
}

int piecelinks_move(struct piece_link *link, int n, const int32_t *src_to, const int32_t *tgt_to) {
    int n_left = 0;
    for (int i = 0; i < n; i++) {
        struct piece_link l = link[i];
        if (src_to) l.src = src_to[l.src], l.src_end = src_to[l.src_end];
        if (tgt_to) l.tgt = tgt_to[l.tgt], l.tgt_end = tgt_to[l.tgt_end];
        if (l.src < l.src_end && l.tgt < l.tgt_end) link[n_left++] = l;
    }
    return n_left;
}
