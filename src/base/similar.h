/* similar.h — the known word that a mistyped one was probably meant to be. */
#ifndef BASE_SIMILAR_H
#define BASE_SIMILAR_H

#include <stddef.h>

/* Begin with best NULL, try all words: best is the nearest within a third of the length. */
struct similar {
    const char *word;
    size_t length;
    const char *best;
    int distance;
};

void similar_try(struct similar *similar, const char *known);

#endif
