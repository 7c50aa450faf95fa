/* test_predict.c — the alpha-beta model of `heed bench scale --predict` (bench/predict.h) beside
 * sums done by hand. */
#include <math.h>

#include "bench/predict.h"
#include "test.h"
#include "train/shards.h"

static const struct predict_step step = {.tokens = 1000, .gradient = 0.3, .apply = 0.04};

static void near(double got, double want, const char *what) {
    if (!(fabs(got - want) <= 1e-12 + 1e-9 * fabs(want)))
        fail_msg("%s: %.15g, want %.15g", what, got, want);
}

static struct predict_model model_of(int64_t n) {
    return (struct predict_model){
        .n = n, .grad_size = 4, .param_size = 2, .late = 0.25, .sum_rate = 1e300};
}

/* Words of nothing and sums that take no time: only bytes are left. */
static const struct predict_link by_bytes[2] = {{0, 0, 100}, {0, 0, 100}};

TEST(alone_is_what_was_measured) {
    struct predict_model m = model_of(1000);
    struct predict_cost c = predict_update(&m, by_bytes, &step, 1, 1);
    near(c.total, 0.34, "total");
    near(c.overlapped, 0.34, "overlapped");
    near(predict_sent(&m, 1), 0, "sent");
}

/* The same bytes leave a rank however ranks lie on machines. */
TEST(bytes_do_not_depend_on_levels) {
    struct predict_model m = model_of(4096000);
    near(predict_sent(&m, 8), 4096000 * 6 * 7 / 8, "sent");
    for (int inside = 1; inside <= 8; inside *= 2) {
        struct predict_cost c = predict_update(&m, by_bytes, &step, 8, inside);
        near(c.exchange, 4.0 * 4096000 * 7 / 8 / 100, "exchange");
        near(c.gather, 2.0 * 4096000 * 7 / 8 / 100, "gather");
        near(c.words, 8.0 * 1000 * 7 / 8 / 100, "words");
        near(c.compute, 0.3 + 0.04 / 8, "compute");
        near(c.total, c.compute + c.exchange + c.gather + c.words, "total");
    }
}

/* Three buckets, the last one of a single element; 16 ranks on machines of 4. */
TEST(calls_and_messages) {
    static const struct predict_link link[2] = {{1, 0.01, 1e300}, {10, 0.1, 1e300}};
    struct predict_model m = model_of(2 * (int64_t)SHARD_BUCKET + 1);
    struct predict_cost c = predict_update(&m, link, &step, 16, 4);
    near(c.exchange, 3 * (1 + 3 * 0.01) + 3 * (10 + 3 * 0.1), "exchange");
    near(c.gather, c.exchange, "gather");
    near(c.words, 3 * 4 * 10, "words");
    c = predict_update(&m, link, &step, 4, 4); /* one machine */
    near(c.exchange, 3 * (1 + 3 * 0.01), "exchange inside");
    near(c.words, 3 * 2 * 1, "words inside");
}

TEST(slower_link_counts_for_its_share) {
    static const struct predict_link link[2] = {{0, 0, 1000}, {0, 0, 10}};
    struct predict_model m = model_of(1000);
    struct predict_cost c = predict_update(&m, link, &step, 16, 8);
    near(c.exchange, 4000.0 * 7 / 8 / 1000 + 4000.0 / 8 / 2 / 10, "exchange");
}

TEST(sums) {
    struct predict_model m = model_of(1000);
    m.sum_rate = 1000;
    /* Clears all; reads all and writes an eighth; reads that eighth and writes half of it. */
    struct predict_cost c = predict_update(&m, by_bytes, &step, 16, 8);
    near(c.sums, 4 * (1 + 1 + 1 / 8.0 + 1 / 8.0 + 1 / 16.0), "two levels");
    c = predict_update(&m, by_bytes, &step, 2, 1);
    near(c.sums, 4 * (1 + 1 + 0.5), "one level");
}

/* What is late stays; the rest hides behind the backward pass as far as that goes. */
TEST(overlap) {
    static const struct predict_link fast[2] = {{0, 0, 1e6}, {0, 0, 1e6}};
    struct predict_model m = model_of(50000);
    struct predict_cost c = predict_update(&m, fast, &step, 2, 1);
    near(c.exchange, 0.1, "exchange");
    near(c.overlapped, c.total - 0.075, "hidden");
    m.n = 500000; /* 0.75 s, of which 0.2 s go beside */
    c = predict_update(&m, fast, &step, 2, 1);
    near(c.overlapped, c.total - 0.2, "not all hidden");
}

TESTS(T(alone_is_what_was_measured), T(bytes_do_not_depend_on_levels), T(calls_and_messages),
      T(slower_link_counts_for_its_share), T(sums), T(overlap))
