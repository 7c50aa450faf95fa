/* depends.h — which word each word of a sentence depends on, read off its constituency tree.
 *
 * One child of every phrase is its head, found by its label; the head of a phrase is a word in the
 * end, and the heads of all other children depend on that word (Magerman 1995, Collins 1999). The
 * rules prefer words with content, as Universal Dependencies do: a preposition depends on its noun,
 * an auxiliary on its verb, a conjunction on its clause. They know the labels of the Penn Treebank;
 * a phrase of another label has its last child for a head that is no punctuation. */
#ifndef DATA_DEPENDS_H
#define DATA_DEPENDS_H

#include "data/tree.h"

/* on[i], of tree->n_word: the word that word i depends on, or -1: none (one for each root). */
void depends_of_tree(int *on, const struct tree *tree);

/* Is it a tag of punctuation? */
int depends_is_punctuation(struct tree_text tag);

#endif
