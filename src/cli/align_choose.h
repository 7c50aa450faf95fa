/* align_choose.h — `heed align --choose`: whose attention aligns best, by the agreement of two
 * models of opposite directions.
 *
 * Two models that read and write each other's language know nothing of each other; where they link
 * the same words, the words belong together. So the layer, row and head of each whose links agree
 * most with the other's (bitext_agreement) align best, and no links made by hand are needed. */
#ifndef CLI_ALIGN_CHOOSE_H
#define CLI_ALIGN_CHOOSE_H

#include "search/bitext.h"

struct align_choose {
    struct bitext *bitext;          /* of two models */
    const struct bitext_pair *pair; /* [n] text to judge by */
    int n;
    const struct links *sure, *possible; /* [n] links made by hand, to print error rates; or NULL */
    const char *const *dir;              /* [BITEXT_WAYS] of the models */
    int store;                           /* write the choice to their config.json */
    int json;
};

/* Prints a table, and the best pair of choices. */
int align_choose(const struct align_choose *job, struct err *err);

#endif
