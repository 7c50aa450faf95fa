/* through.c — see through.h. */
#include "serve/through.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"

static int common(struct span a, struct span b) {
    return min_int(a.end, b.end) - max_int(a.begin, b.begin);
}

/* same[i]: the word of the first half that word i of the second is, or -1. Words are in the order
 * of the text. */
static void match(int *same, const struct desk_answer *second, const struct desk_answer *first) {
    int k = 0;
    for (int i = 0; i < second->n_word; i++) {
        struct span word = second->word[i];
        int best = 0;
        same[i] = -1;
        while (k < first->n_translated && first->translated[k].at.end <= word.begin) k++;
        for (int j = k; j < first->n_translated && first->translated[j].at.begin < word.end; j++)
            if (common(first->translated[j].at, word) > best) {
                best = common(first->translated[j].at, word);
                same[i] = j;
            }
    }
}

void through_join(struct desk_answer *second, const struct desk_answer *first, struct keep *keep) {
    int *same = xcalloc((size_t)second->n_word + 1, sizeof *same);
    int *from = xcalloc((size_t)first->n_translated + 1, sizeof *from); /* links of each, from */
    struct links all = {0};
    match(same, second, first);
    for (int k = first->n_link - 1; k >= 0; k--) from[first->link[k].tgt] = k;
    for (int i = 0; i < second->n_link; i++) {
        int middle = same[second->link[i].src];
        for (int k = middle < 0 ? first->n_link : from[middle];
             k < first->n_link && first->link[k].tgt == middle; k++)
            links_add(&all, first->link[k].src, second->link[i].tgt);
    }
    links_sort(&all);
    struct align_link *link = keep_take(keep, (size_t)all.n * sizeof *link + 1);
    if (all.n) memcpy(link, all.link, (size_t)all.n * sizeof *link);
    second->link = link;
    second->n_link = all.n;
    second->source = first->source;
    second->source_size = first->source_size;
    second->word = first->word;
    second->n_word = first->n_word;
    second->replaced = first->replaced;
    links_release(&all);
    xfree(same);
    xfree(from);
}
