/* through.h — words and links of a translation that went through a third language.
 *
 * The first model said which word of the text became which word in between, the second which of
 * those became which word of the translation. A word of the text is linked to a word of the
 * translation if some word in between is linked to both. Both halves cut the text in between into
 * words by themselves; words of the two that have most bytes in common are the same. Linear in the
 * words. */
#ifndef SERVE_THROUGH_H
#define SERVE_THROUGH_H

#include "base/keep.h"
#include "serve/desk.h"

/* *second becomes the answer of the whole way: its words and links are from the first one's source
 * on. first->translated and second->word are of the same text, and the first one's links are in the
 * order of their targets, as a task has them. New links lie in keep; all else
 * stays where it is. */
void through_join(struct desk_answer *second, const struct desk_answer *first, struct keep *keep);

#endif
