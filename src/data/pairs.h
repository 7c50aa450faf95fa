/* pairs.h — line i of one text beside line i of another, a window at a time.
 *
 * What a line is, and what odd files become, is said in text.h. Two texts with different numbers of
 * lines are an error that names both numbers. A window holds some thousand pairs or some MB,
 * whatever the files hold; what it points at is valid until the next one is filled. */
#ifndef DATA_PAIRS_H
#define DATA_PAIRS_H

#include "data/text.h"

struct pair {
    struct line side[2]; /* source, target */
};

struct pairs;

/* "-" is standard input, for one of the two. */
int pairs_open(struct pairs **pairs, const char *src, const char *tgt, struct err *err);
void pairs_close(struct pairs *pairs);

/* The next window: how many pairs, 0 at the end, negative on error. */
int pairs_fill(struct pairs *pairs, struct err *err);
const struct pair *pairs_window(const struct pairs *pairs);

/* Of one side, 0 or 1, so far. */
struct text_counts pairs_counts(const struct pairs *pairs, int side);

#endif
