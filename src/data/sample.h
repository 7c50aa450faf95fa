/* sample.h — an even sample of a stream of lines, of bounded size (a reservoir).
 *
 * Every line of the stream has the same chance to be in the sample at the end, whatever the
 * stream's length. Two bounds hold: a number of lines, and a number of bytes; when the lines turn
 * out longer than expected, some that were drawn are dropped again at random and the sample stays
 * that small. The same lines and seed give the same sample. */
#ifndef DATA_SAMPLE_H
#define DATA_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"

struct sample_line {
    uint32_t size;
    char text[];
};

struct sample {
    struct sample_line **line; /* n of them, each xmalloc'ed, in no particular order */
    uint64_t n, room, bytes;
    uint64_t max_lines, max_bytes, seen;
    struct rng rng;
};

void sample_init(struct sample *sample, uint64_t max_lines, uint64_t max_bytes, uint64_t seed);
void sample_release(struct sample *sample);
void sample_add(struct sample *sample, const char *text, size_t size);

#endif
