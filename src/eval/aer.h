/* aer.h — alignment error rate: links found against links made by hand.
 *
 * S are the sure links of a reference, P the possible ones with the sure among them, A those found:
 *
 *     precision = |A n P| / |A|     recall = |A n S| / |S|
 *     AER = 1 - (|A n S| + |A n P|) / (|A| + |S|)
 *
 * (Och and Ney 2003), counts summed over all pairs. Without possible links AER is 1 - F1. A rate of
 * nothing is NaN. Adding to counts is all there is to it: nothing fails, nothing is owned. */
#ifndef EVAL_AER_H
#define EVAL_AER_H

#include <stdint.h>

#include "data/links.h"

struct aer {
    uint64_t pairs, found, sure, possible; /* links; possible without the sure */
    uint64_t in_sure, in_possible;         /* of the found; in_possible: in either */
};

/* One pair. A link of both lists is sure. */
void aer_add(struct aer *aer, const struct links *found, const struct links *sure,
             const struct links *possible);

double aer_rate(const struct aer *aer);
double aer_precision(const struct aer *aer);
double aer_recall(const struct aer *aer);

#endif
