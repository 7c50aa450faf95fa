/* test_shards.c — who has which batches and which elements: against trees walked node by node, and
 * slices laid side by side. */
#include <string.h>

#include "test.h"
#include "train/shards.h"

enum { MOST = 24 };

/* Is [first, first + n) a node of the tree over leaves [at, at + k)? */
static int is_node(int at, int k, int first, int n) {
    if (first == at && n == k) return 1;
    if (k == 1) return 0;
    int p = 1;
    while (2 * p < k) p *= 2;
    return first < at + p ? is_node(at, p, first, n) : is_node(at + p, k - p, first, n);
}

/* The rank of every leaf, if the tree is walked: "((00)1)"; with ranks as leaves, "(01)". */
static char *walk(char *out, int at, int k, int own, int leaf) {
    if (k == leaf) return *out++ = (char)('a' + at / own), *out = 0, out;
    int p = leaf;
    while (2 * p < k) p *= 2;
    *out++ = '(';
    out = walk(out, at, p, own, leaf);
    out = walk(out, at + p, k - p, own, leaf);
    *out++ = ')';
    *out = 0;
    return out;
}

TEST(ranks_have_whole_subtrees) {
    for (int n = 1; n <= MOST; n++)
        for (int ranks = 1; ranks <= n + 2; ranks++) {
            int whole = ranks <= n && n % ranks == 0, own = whole ? n / ranks : 0;
            for (int r = 0; whole && r < ranks; r++) whole = is_node(0, n, r * own, own);
            if (shards_valid(n, ranks) != (whole || ranks == 1))
                fail_msg("%d ranks for %d batches: valid %d", ranks, n, shards_valid(n, ranks));
            if (!whole) continue;
            char above[200], alone[200]; /* the tree above the ranks is the tree of the ranks */
            walk(above, 0, n, own, own);
            walk(alone, 0, ranks, 1, 1);
            assert_string_equal(above, alone);
        }
    assert_false(shards_valid(4, 0) || shards_valid(4, -2) || shards_valid(4, 8));
}

TEST(ranks_that_are_valid_are_named) {
    char text[100];
    shards_valid_text(12, text, sizeof text);
    assert_string_equal(text, "1, 3, 6 or 12");
    shards_valid_text(1, text, sizeof text);
    assert_string_equal(text, "1");
    shards_valid_text(8, text, sizeof text);
    assert_string_equal(text, "1, 2, 4 or 8");
    shards_valid_text(4096, text, 9);
    assert_string_equal(text, "1, 2, 4,");
}

TEST(depth_of_waiting_sums) {
    for (int n = 1; n <= MOST; n++) {
        int most = 0;
        for (int i = 0; i < n; i++) {
            int waiting = __builtin_popcount((unsigned)i) + 1;
            if (waiting > most) most = waiting;
        }
        assert_int_equal(shards_depth(n), most);
    }
}

static void check_slices(const struct shards *s) {
    int64_t at = 0, total = 0, least = INT64_MAX, most = 0;
    int64_t each = s->bucket ? s->bucket : SHARD_BUCKET;
    for (int b = 0; b < shards_buckets(s); b++) {
        struct shard_span bucket = shards_bucket(s, b);
        assert_true(bucket.first == b * each && bucket.count > 0);
        assert_true(bucket.count == each || bucket.first + bucket.count == s->n);
        for (int i = 0; i < s->size; i++) {
            struct shard_span slice = shards_slices(s, b, i, 1);
            assert_true(slice.first == at && slice.count >= 0);
            assert_true(slice.first % SHARD_RANGE == 0 || slice.count == 0);
            at += slice.count;
            struct shard_span some = shards_slices(s, b, i / 2, i - i / 2 + 1);
            assert_true(some.first + some.count == at);
        }
        assert_true(at == bucket.first + bucket.count);
    }
    assert_true(at == s->n);
    for (int i = 0; i < s->size; i++) {
        struct shards own = *s;
        own.place = i;
        int64_t offset = 0, n = shards_count(s, i);
        for (int b = 0; b < shards_buckets(s); b++) {
            assert_true(shards_offset(&own, b) == offset);
            offset += shards_own(&own, b).count;
        }
        assert_true(offset == n);
        total += n;
        least = n < least ? n : least;
        most = n > most ? n : most;
    }
    assert_true(total == s->n && shards_most(s) == most);
    assert_true(most - least <= (int64_t)shards_buckets(s) * SHARD_RANGE);
}

TEST(slices_cover_everything_once) {
    static const int64_t sizes[] = {1,        32,           4096,
                                    4097,     70000,        SHARD_BUCKET - 1,
                                    8 * 4096, SHARD_BUCKET, 3 * (int64_t)SHARD_BUCKET + 777777};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int size = 1; size <= MOST; size++)
            check_slices(&(struct shards){.n = sizes[i], .size = size});
        check_slices(&(struct shards){.n = sizes[i], .size = 512});
        check_slices(&(struct shards){.n = sizes[i], .size = 8, .bucket = 12 * SHARD_RANGE});
    }
}

/* What a rank keeps of a model as large as the paper's is its share and no more than 1 % beside. */
TEST(shares_are_fair) {
    for (int size = 2; size <= 64; size *= 2) {
        struct shards s = {.n = 63000000, .size = size};
        assert_true((double)shards_most(&s) <= 1.01 * 63e6 / size);
    }
}

TESTS(T(ranks_have_whole_subtrees), T(ranks_that_are_valid_are_named), T(depth_of_waiting_sums),
      T(slices_cover_everything_once), T(shares_are_fair))
