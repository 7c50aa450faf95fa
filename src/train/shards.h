/* shards.h — who has which part: the batches of an update and the elements of the flat buffers,
 * divided among ranks. Pure numbers, no memory, nothing that fails.
 *
 * Batches. The gradients of an update's A batches are added in a tree (the op sum). W ranks take
 * A / W batches each, in order of ranks. If A / W is a power of two, the batches of a rank are one
 * subtree and the ranks' sums the leaves of the rest, so the bits do not depend on W; other numbers
 * of ranks are not valid, except 1.
 *
 * Elements. A flat buffer is a row of buckets of so many elements, the last one shorter, and
 * each bucket is cut into as many slices as there are ranks, as even as whole ranges of SHARD_RANGE
 * elements allow. A rank keeps one slice of every bucket, behind each other: a shard. Ranges are
 * those of the op sumsq, so that each rank can do its part of the norm. The slices of a bucket
 * belong to the ranks in the order of their places (shards.place). */
#ifndef TRAIN_SHARDS_H
#define TRAIN_SHARDS_H

#include <stddef.h>
#include <stdint.h>

#include "backend/ops.h"

enum { SHARD_BUCKET = 1 << 23, SHARD_RANGE = SUMSQ_RANGE };

/* ---- batches --------------------------------------------------------------------------------- */

/* Can n_rank ranks share the batches of an update? */
int shards_valid(int n_batch, int n_rank);

/* The numbers of ranks that can, "1, 3, 6 or 12", as many as there is room for. */
void shards_valid_text(int n_batch, char *text, size_t size);

/* Most subtrees that wait while n leaves are added one by one, the new leaf among them. */
int shards_depth(int n);

/* ---- elements -------------------------------------------------------------------------------- */

struct shards {
    int64_t n;       /* elements of a flat buffer */
    int size, place; /* ranks, and which slice of every bucket is this one's */
    int64_t bucket;  /* elements of a bucket, a multiple of SHARD_RANGE; 0: SHARD_BUCKET */
};

struct shard_span {
    int64_t first, count; /* elements */
};

int shards_buckets(const struct shards *s);
struct shard_span shards_bucket(const struct shards *s, int bucket);

/* The slices of places first .. first + n - 1, which lie behind each other. */
struct shard_span shards_slices(const struct shards *s, int bucket, int first, int n);

/* This rank's, and where it begins in the rank's shard. */
struct shard_span shards_own(const struct shards *s, int bucket);
int64_t shards_offset(const struct shards *s, int bucket);

/* Elements of the shard of a place, and the most of any. */
int64_t shards_count(const struct shards *s, int place);
int64_t shards_most(const struct shards *s);

#endif
