/* aer.c — see aer.h. */
#include "eval/aer.h"

#include <math.h>

void aer_add(struct aer *a, const struct links *found, const struct links *sure,
             const struct links *possible) {
    a->pairs++;
    a->found += (uint64_t)found->n;
    a->sure += (uint64_t)sure->n;
    for (int i = 0; i < possible->n; i++)
        a->possible += !links_have(sure, possible->link[i].src, possible->link[i].tgt);
    for (int i = 0; i < found->n; i++) {
        struct align_link l = found->link[i];
        int is_sure = links_have(sure, l.src, l.tgt);
        a->in_sure += is_sure;
        a->in_possible += is_sure || links_have(possible, l.src, l.tgt);
    }
}

static double share(uint64_t part, uint64_t all) {
    return all ? (double)part / (double)all : (double)NAN;
}

double aer_rate(const struct aer *a) {
    return 1 - share(a->in_sure + a->in_possible, a->found + a->sure);
}

double aer_precision(const struct aer *a) { return share(a->in_possible, a->found); }
double aer_recall(const struct aer *a) { return share(a->in_sure, a->sure); }
