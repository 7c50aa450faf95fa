/* lanes.h — windows of lines translated side by side and written in order.
 *
 * A lane is a thread with a translator of its own. While one tokenises, or finishes the last long
 * sentences of a batch, another keeps the device busy. Lanes take turns at reading; what each has
 * read it translates by itself, and writes when all that was read before is written. So which lines
 * share a window, and every translation, is the same whatever the number of lanes; and whoever
 * types a line still gets its answer at once.
 *
 * The first lane is the thread that calls lanes_run, with the engine it was given. The others start
 * when the first window is full, each with an engine and a copy of the weights on the device; a
 * lane that cannot be had is done without. Owns translators, engines but the first, and thread
 * pools. */
#ifndef TEXT_LANES_H
#define TEXT_LANES_H

#include "comm/comm.h"
#include "data/feed.h"
#include "text/pages.h"

enum { MAX_LANES = 8, MAX_LOOK_AHEAD = 1000000 };

struct lanes_setup {
    struct engine *engine;
    const struct translator_options *options;
    const struct backend_options *where; /* that the engine was opened with */
    int n_lane;                          /* 0: two on a device with its own memory, else one */
    int look_ahead;                      /* lines of a window; 0: as many as make 32 batches */
    const struct translator_poll *poll;
};

struct lanes;

/* The setup must outlive it. */
int lanes_new(struct lanes **lanes, const struct lanes_setup *setup, struct err *err);
void lanes_free(struct lanes *lanes);

/* What becomes of a window: result[i] is that of line[i]; those after an error have result[i].n 0.
 * Called for one window at a time, in their order, by any of the lanes. */
struct lanes_writer {
    int (*call)(void *ctx, const struct feed_line *line, const struct translation *result, int n,
                struct err *err);
    void *ctx;
};

/* The first lane's, for what does not come in lines. */
struct pages *lanes_pages(const struct lanes *lanes);

/* All windows of the feed. The first error, of reading, translating or writing, ends it after what
 * comes before has been written. */
int lanes_run(struct lanes *lanes, struct feed *feed, const struct lanes_writer *writer,
              struct err *err);

/* For whoever reads windows, and hands them out, himself (deal.h): the next window of the feed, as
 * feed_fill, and whether it is *full, so that there may be more at once; and one window through the
 * first lane. */
int lanes_fill(struct lanes *lanes, struct feed *feed, int *full, struct err *err);
int lanes_window(struct lanes *lanes, const struct feed_line *line, int n,
                 const struct lanes_writer *writer, struct err *err);

/* All lanes' together, of what has been written; their seconds are added up. For the writer, and
 * when lanes_run has returned. */
const struct translator_stats *lanes_stats(const struct lanes *lanes);
/* From now on they are those of all ranks together. */
void lanes_gather(struct lanes *lanes, struct comm *comm);

#endif
