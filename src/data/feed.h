/* feed.h — lines of several files, a window at a time, for commands that answer while they read.
 *
 * A window is full when it has the wanted number of lines or some MB of text, when the input ends,
 * or when the next line has not been written yet: whoever types a line gets its answer at once, and
 * a file is still read in windows worth sorting. Memory is bounded whatever the input is.
 *
 * Waiting ends when `stop_fd` becomes readable (a signal handler writes there), so that Ctrl-C
 * works in the middle of a wait without a race. */
#ifndef DATA_FEED_H
#define DATA_FEED_H

#include "data/text.h"

enum { FEED_MAX_LINE = 1 << 20 }; /* bytes of a line; longer ones are an error that names it */

struct feed_line {
    const char *text; /* valid until the next feed_fill */
    size_t size;
    const char *prefix; /* of the parallel file, or NULL */
    size_t prefix_size;
    const char *name;             /* "line", or "FILE: line" where there are several files */
    uint64_t number;              /* in its file, from 1 */
    uint64_t total;               /* in all files together, from 0 */
    unsigned flags, prefix_flags; /* enum line_flags */
    const char *end;              /* as in struct line */
};

struct feed;

/* path [n]: "-" is standard input. prefix: a file with a line for each line, or NULL. */
int feed_open(struct feed **feed, const char *const *path, int n, const char *prefix, int stop_fd,
              struct err *err);
void feed_close(struct feed *feed);

/* The next window, of at most max lines: how many, 0 at the end, negative on error. An error comes
 * after the lines before it. HEED_ECANCELLED: stop_fd. */
int feed_fill(struct feed *feed, int max, struct err *err);
const struct feed_line *feed_lines(const struct feed *feed);

#endif
