/* predict.c — see predict.h. */
#include "bench/predict.h"

#include <math.h>

#include "comm/comm.h"
#include "train/shards.h"

/* `calls` calls of m members that have so many bytes together in all. */
static double calls_of(const struct predict_link *link, int calls, int m, double bytes) {
    if (m == 1) return 0;
    return calls * (link->alpha + (m - 1) * link->message) + bytes * (m - 1) / m / link->rate;
}

/* All buckets through both levels, `size` bytes an element. */
static double through_levels(const struct predict_model *model, const struct predict_link link[2],
                             int ranks, int inside, int size) {
    struct shards shards = {.n = model->n, .size = ranks};
    int calls = shards_buckets(&shards);
    double bytes = (double)model->n * size;
    return calls_of(&link[COMM_INSIDE], calls, inside, bytes) +
           calls_of(&link[COMM_ACROSS], calls, ranks / inside, bytes / inside);
}

static double words_of(const struct predict_model *model, const struct predict_link *link,
                       int ranks) {
    double squares = 8.0 * (double)model->n / SHARD_RANGE;
    return PREDICT_WORDS * ceil(log2(ranks)) * link->alpha +
           squares * (ranks - 1) / ranks / link->rate;
}

/* A level's sum reads as much as the level has and writes a member's share of it. */
static double sums_of(const struct predict_model *model, int ranks, int inside) {
    double n = (double)model->n, across = (double)ranks / inside, passes = 1; /* clearing */
    if (inside > 1) passes += 1 + 1.0 / inside;
    if (across > 1) passes += (1 + 1 / across) / inside;
    return passes * n * model->grad_size / model->sum_rate;
}

struct predict_cost predict_update(const struct predict_model *model,
                                   const struct predict_link link[2],
                                   const struct predict_step *step, int ranks, int inside) {
    struct predict_cost c = {.compute = step->gradient + step->apply / ranks};
    if (ranks > 1) {
        enum comm_level farthest = ranks > inside ? COMM_ACROSS : COMM_INSIDE;
        c.exchange = through_levels(model, link, ranks, inside, model->grad_size);
        c.gather = through_levels(model, link, ranks, inside, model->param_size);
        c.words = words_of(model, &link[farthest], ranks);
        c.sums = sums_of(model, ranks, inside);
    }
    double beside = (1 - model->late) * c.exchange, room = step->gradient * 2 / 3;
    c.total = c.compute + c.exchange + c.gather + c.words + c.sums;
    c.overlapped = c.total - fmin(beside, room);
    return c;
}

double predict_sent(const struct predict_model *model, int ranks) {
    return (double)model->n * (model->grad_size + model->param_size) * (ranks - 1) / ranks;
}
