/* links.h — word alignments: which words of a text became which words of its translation.
 *
 * A link {i, j} joins word i of the source with word j of the target, counted from 0. As text a
 * pair's links are one line, "0-0 1-2 2-1": the format of Pharaoh, which aligners write and tools
 * for translation read. In alignments made by hand `i-j` is sure and `i?j` possible.
 *
 * Links of a pair are kept in ascending order, each once. Lists own their memory, which only grows:
 * start from {0}. Files are hostile; nothing else fails. */
#ifndef DATA_LINKS_H
#define DATA_LINKS_H

#include <stddef.h>

#include "base/err.h"

enum { LINKS_MAX_WORD = 1 << 24 }; /* numbers of words are below */

struct align_link {
    int src, tgt;
};

struct links {
    struct align_link *link; /* [n] */
    int n, room;
};

void links_release(struct links *links);
void links_clear(struct links *links);
int links_compare(const void *a, const void *b); /* for qsort */

/* Adds a link. It need not be in order: links_sort, once all are there. */
void links_add(struct links *links, int src, int tgt);

/* Puts the links in order and drops repetitions. */
void links_sort(struct links *links);

int links_have(const struct links *links, int src, int tgt);

/* The same with source and target exchanged. */
void links_turn(struct links *links);

/* Drops links to words that do not exist: how many. */
int links_clip(struct links *links, int n_src, int n_tgt);

/* One line. Links `i?j` go to possible, or are HEED_EFORMAT where that is NULL. The message says
 * what is wrong with which link, not where the line is from. */
int links_parse(struct links *sure, struct links *possible, const char *text, size_t size,
                struct err *err);

/* ---- two directions -------------------------------------------------------------------------- */

/* A model says for every word it writes where it came from; the model of the opposite direction,
 * asked about the same pair, says it for every word of the source. Both lists have the links in the
 * order source, target.
 *
 *   intersection   links of both: few, and nearly all right
 *   union          links of either
 *   grow-diag      the intersection, and step by step those of the union that touch it, also at
 *                  a corner, and join a word that had no link
 *   grow-diag-final       the same, then links of the first list, then of the second, that join a
 *                  word without any
 *   grow-diag-final-and   the same, but both words must be without any
 *
 * "Touches" is judged word by word in ascending target, then source order, as Moses does. */
enum links_method {
    LINKS_INTERSECTION,
    LINKS_UNION,
    LINKS_GROW_DIAG,
    LINKS_GROW_DIAG_FINAL,
    LINKS_GROW_DIAG_FINAL_AND,
    N_LINKS_METHODS
};
extern const char *const links_method_names[N_LINKS_METHODS + 1]; /* NULL-terminated */

void links_symmetrise(struct links *out, enum links_method method, const struct links *a,
                      const struct links *b);

#endif
