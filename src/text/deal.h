/* deal.h — lines translated by several ranks and written by the first, in order.
 *
 * Rank 0 reads windows of lines (lanes.h), the same ones as a process alone would, and deals them
 * out, one per rank and round. Each rank translates its own and hands back what is to be printed.
 * So the output has the same bytes whatever the number of ranks, and only rank 0 needs the text;
 * all need the model. A round lasts as long as its slowest window; windows are large. */
#ifndef TEXT_DEAL_H
#define TEXT_DEAL_H

#include "comm/comm.h"
#include "text/lanes.h"

/* What became of a window: the printed lines, and the notes (enum translation_notes) of those that
 * were translated, the first n_done. */
struct deal_answer {
    const char *bytes;
    size_t size;
    const unsigned char *note;
    int n_done;
};

struct deal_ops {
    void *ctx;
    /* Translates a window on this rank; what *answer points at stays until the next call. After an
     * error it has the lines before it. */
    int (*translate)(void *ctx, const struct feed_line *line, int n, struct deal_answer *answer,
                     struct err *err);
    /* On rank 0, for all windows in order. */
    int (*write)(void *ctx, const struct feed_line *line, int n, const struct deal_answer *answer,
                 struct err *err);
};

/* Until the text ends; the feed is rank 0's, the others' is NULL. The first error, of whichever
 * rank, is rank 0's, after what comes before has been written. */
int deal_run(struct comm *comm, struct lanes *lanes, struct feed *feed, const struct deal_ops *ops,
             struct err *err);

#endif
