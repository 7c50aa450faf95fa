/* shards.c — see shards.h. */
#include "train/shards.h"

#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/num.h"

/* ---- batches --------------------------------------------------------------------------------- */

int shards_valid(int n_batch, int n_rank) {
    if (n_rank == 1) return 1;
    if (n_rank < 1 || n_batch % n_rank != 0) return 0;
    int own = n_batch / n_rank;
    return own > 0 && (own & (own - 1)) == 0;
}

void shards_valid_text(int n_batch, char *text, size_t size) {
    int list[32] = {1}, n = 1;
    for (int i = 2; i <= n_batch; i++)
        if (shards_valid(n_batch, i)) list[n++] = i;
    size_t at = 0;
    *text = 0;
    for (int i = 0; i < n && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%d",
                               i == 0       ? ""
                               : i == n - 1 ? " or "
                                            : ", ",
                               list[i]);
}

int shards_depth(int n) {
    int depth = 1;
    for (; n > 1; n /= 2) depth++;
    return depth;
}

/* ---- elements -------------------------------------------------------------------------------- */

static int64_t bucket_size(const struct shards *s) { return s->bucket ? s->bucket : SHARD_BUCKET; }

int shards_buckets(const struct shards *s) {
    return (int)((s->n + bucket_size(s) - 1) / bucket_size(s));
}

struct shard_span shards_bucket(const struct shards *s, int bucket) {
    int64_t first = bucket * bucket_size(s);
    return (struct shard_span){first, min_i64(bucket_size(s), s->n - first)};
}

struct shard_span shards_slices(const struct shards *s, int bucket, int first, int n) {
    struct shard_span b = shards_bucket(s, bucket);
    int64_t n_range = (b.count + SHARD_RANGE - 1) / SHARD_RANGE;
    int64_t begin = min_i64(n_range * first / s->size * SHARD_RANGE, b.count);
    int64_t end = min_i64(n_range * (first + n) / s->size * SHARD_RANGE, b.count);
    return (struct shard_span){b.first + begin, end - begin};
}

struct shard_span shards_own(const struct shards *s, int bucket) {
    return shards_slices(s, bucket, s->place, 1);
}

int64_t shards_offset(const struct shards *s, int bucket) {
    int64_t at = 0;
    for (int b = 0; b < bucket; b++) at += shards_own(s, b).count;
    return at;
}

int64_t shards_count(const struct shards *s, int place) {
    int64_t sum = 0;
    for (int b = 0; b < shards_buckets(s); b++) sum += shards_slices(s, b, place, 1).count;
    return sum;
}

int64_t shards_most(const struct shards *s) {
    int64_t most = 0;
    for (int i = 0; i < s->size; i++) most = max_i64(most, shards_count(s, i));
    return most;
}
