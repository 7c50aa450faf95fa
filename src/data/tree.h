/* tree.h — constituency trees as treebanks write them, one to a line,
 *
 *     (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .))
 *
 * and as a row of tokens that a model can learn to write (Vinyals et al. 2015), where a word is the
 * token XX, or its tag:
 *
 *     (S (NP XX XX )NP (VP XX )VP XX )S
 *
 * A tree is the row of its items in the order of the line. Labels, tags and words are views of the
 * line, which must stay; the rows belong to the struct, only grow, and serve line after line. Lines
 * are hostile: whatever is not a row of whole brackets is HEED_EFORMAT with the column, and nothing
 * here calls itself, however deep the brackets are. */
#ifndef DATA_TREE_H
#define DATA_TREE_H

#include "base/buffer.h"
#include "base/err.h"

#define TREE_ROOT "ROOT" /* the label of what has none */
#define TREE_WORD "XX"   /* a word whose tag is not told */

struct tree_text {
    const char *at;
    int size;
};
int tree_same(struct tree_text a, struct tree_text b);
int tree_is(struct tree_text text, const char *word);

struct tree_item {
    enum tree_kind { TREE_OPEN, TREE_LEAF, TREE_CLOSE } kind;
    int mate;              /* of a bracket: the index of the other one */
    struct tree_text name; /* the label of the phrase, the tag of the word */
    struct tree_text word;
};

struct tree {
    struct tree_item *item; /* [n] */
    int n, room;
    int n_word, n_root;
    int *stack; /* [room_stack] scratch: the open brackets */
    int room_stack;
};
void tree_release(struct tree *tree);

/* A line of brackets. Several trees in a row are one forest (n_root), phrases may be empty. */
int tree_read(struct tree *tree, const char *line, size_t size, struct err *err);

/* A row of tokens; a word has its token for a tag. HEED_EFORMAT unless every bracket is closed by
 * its label. */
int tree_read_row(struct tree *tree, const char *row, size_t size, struct err *err);

/* Makes one tree of a row of tokens, whatever they are: a bracket that closes nothing is left out,
 * one that closes more than the last closes what is inside; what is open at the end is closed;
 * phrases without words go; surplus words go, and missing ones come at the end, as do those outside
 * of the root. n_word of them in all. Returns how many such changes it took. */
int tree_repair(struct tree *tree, const char *row, size_t size, int n_word);

/* HEED_EFORMAT unless it is one tree with words and without empty phrases. */
int tree_check(const struct tree *tree, struct err *err);

/* What a parser learns from: no empty elements (-NONE-) nor phrases that have nothing else, labels
 * without functions and indices (NP-SBJ-1 is NP), a phrase in a phrase of the same label is one,
 * and the outermost bracket has a label. */
void tree_clean(struct tree *tree);

/* How many words a line has, divided at spaces. */
int tree_words_in(const char *line, size_t size);

/* The words of the tree, in their order, become those of the line, which is divided at spaces;
 * brackets in them are written as -LRB- and -RRB-. Tags become those of the words in `like`; if it
 * is NULL, they stay, but XX becomes the tag that punctuation has. HEED_EFORMAT unless there are as
 * many words. Both lines must stay. */
int tree_fill(struct tree *tree, const char *line, size_t size, const struct tree *like,
              struct err *err);

/* How it is written, without a line end. tags: words are their tags, not XX. */
void tree_put(struct buffer *out, const struct tree *tree);
void tree_put_row(struct buffer *out, const struct tree *tree, int tags);
void tree_put_words(struct buffer *out, const struct tree *tree);

/* Adds the tokens of the tree's row to a list of those that there are, each once and with its NUL:
 * as heed vocab wants them, behind U+2581 for a space, in less than `most` bytes with the NUL. */
int tree_list_symbols(struct buffer *all, const struct tree *tree, int most, struct err *err);

#endif
