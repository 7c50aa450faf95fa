/* test_beam.c — the parts of searching that know of no model: beams over made-up languages, draws,
 * constraints, and rows of log-probabilities. */
#include "backend/beam.h"
#include "base/mem.h"
#include "base/rng.h"
#include "search/constraint.h"
#include "search/logprob.h"
#include "search/sample.h"
#include "test.h"

enum { V = 6, EOS = 2, LEN = 9, HUGE_V = 1000 };

/* ---- beams ----------------------------------------------------------------------------------- */

/* A language: the log-probabilities of the next token are a hash of the tokens so far. `coarse`
 * leaves few distinct values, so that nearly everything is a tie. */
struct language {
    uint64_t key;
    int coarse;
    float end; /* added to the logit of the end mark */
};

static void next_token(float *value, const struct language *l, const int32_t *token, int n) {
    uint64_t hash = 1469598103934665603u;
    for (int i = 0; i < n; i++) hash = (hash ^ (uint64_t)(token[i] + 1)) * 1099511628211u;
    for (int v = 0; v < V; v++) {
        struct philox x =
            philox4x32(l->key, (uint32_t)hash, (uint32_t)(hash >> 32), (uint32_t)v, 0);
        value[v] = l->coarse ? (float)(x.x[0] % 3) : 5 * (float)(x.x[0] >> 8) * 0x1p-24f;
    }
    value[EOS] += l->end;
    assert_int_equal(logprob_normalise(value, V), 0);
}

struct arena_of_beam {
    double log_prob[BEAM_MAX], penalty[LEN + 1];
    int32_t sample[BEAM_MAX];
    struct beam_node node[LEN * BEAM_MAX];
    struct beam_end end[BEAM_MAX];
    struct beam_rules rules;
    struct beam beam;
    int steps;
};

static void search_language(struct arena_of_beam *a, const struct language *l, int width,
                            int n_best, double alpha, int run_on) {
    struct beam *b = &a->beam;
    a->rules = (struct beam_rules){.width = width,
                                   .n_best = n_best,
                                   .eos = EOS,
                                   .falling = alpha < 0,
                                   .run_on = run_on,
                                   .penalty = a->penalty};
    for (int n = 0; n <= LEN; n++) /* the paper's rule, and the power of the length */
        a->penalty[n] = pow(l->key % 2 ? fmax(n, 1) : (5.0 + n) / 6.0, alpha);
    *b =
        (struct beam){.log_prob = a->log_prob, .sample = a->sample, .node = a->node, .end = a->end};
    beam_begin(b, LEN);
    for (a->steps = 0; !b->done; a->steps++) {
        float value[BEAM_MAX * V], row[V];
        int32_t id[BEAM_MAX * V], token[LEN];
        for (int h = 0; h < b->n_live; h++) {
            beam_trace(token, NULL, b, &a->rules, h, b->len);
            next_token(row, l, token, b->len);
            logprob_best(value + h * V, id + h * V, V, row, V);
        }
        beam_advance(b, &a->rules, value, id, V);
    }
}

static void same_ends(const struct arena_of_beam *a, const struct arena_of_beam *b) {
    assert_int_equal(a->beam.n_end, b->beam.n_end);
    for (int i = 0; i < a->beam.n_end; i++) {
        const struct beam_end *x = &a->end[i], *y = &b->end[i];
        int32_t s[LEN], t[LEN];
        assert_true(x->score == y->score && x->log_prob == y->log_prob);
        assert_int_equal(x->n, y->n);
        assert_int_equal(x->token, y->token);
        beam_trace(s, NULL, &a->beam, &a->rules, x->hyp, x->n);
        beam_trace(t, NULL, &b->beam, &b->rules, y->hyp, y->n);
        assert_memory_equal(s, t, (size_t)x->n * sizeof *s);
    }
}

/* Stopping early gives what running to the longest length gives, bit for bit, and does stop
 * early. */
TEST(stop_loses_nothing) {
    static const double alphas[] = {-2, -0.5, 0, 1e-17, 0.6, 1, 3};
    static const int widths[][2] = {{2, 1}, {4, 1}, {4, 4}, {7, 3}, {32, 5}};
    struct arena_of_beam *stop = xmalloc(sizeof *stop), *on = xmalloc(sizeof *on);
    int saved = 0, n = 0;
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++)
        for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
            for (uint64_t seed = 0; seed < 40; seed++) {
                struct language l = {seed, seed % 4 == 3, (float)(seed % 3) - 0.5f};
                search_language(stop, &l, widths[w][0], widths[w][1], alphas[a], 0);
                search_language(on, &l, widths[w][0], widths[w][1], alphas[a], 1);
                same_ends(stop, on);
                assert_int_equal(on->steps, LEN);
                saved += LEN - stop->steps;
                n++;
            }
    print_message("%.2f of %d steps saved\n", (double)saved / n, LEN);
    assert_true(saved > n);
    xfree(stop);
    xfree(on);
}

/* The rule of a step, by hand: rank over all hypotheses, ties, ends within the width only. */
TEST(beam_step_by_hand) {
    struct arena_of_beam a;
    struct beam *b = &a.beam;
    a.rules = (struct beam_rules){.width = 2, .n_best = 2, .eos = EOS, .penalty = a.penalty};
    for (int n = 0; n <= LEN; n++) a.penalty[n] = 1;
    *b = (struct beam){.log_prob = a.log_prob, .sample = a.sample, .node = a.node, .end = a.end};
    beam_begin(b, LEN);
    beam_advance(b, &a.rules, (float[]){-1, -1, -2}, (int32_t[]){1, 5, EOS}, 3);
    assert_int_equal(b->n_live, 2);
    assert_int_equal(b->n_end, 0); /* third of two */
    assert_int_equal(a.node[0].token, 1);
    assert_int_equal(a.node[1].token, 5);
    /* -1 each: both bring -1 (end mark and 3), then -2 twice, then -3. */
    beam_advance(b, &a.rules, (float[]){-1, -2, -INFINITY, -1, -2, -4},
                 (int32_t[]){EOS, 4, -1, 3, EOS, 0}, 3);
    assert_int_equal(b->n_end, 1); /* the second end mark comes fourth */
    assert_true(a.end[0].log_prob == -2 && a.end[0].hyp == 0 && a.end[0].n == 1 && !a.end[0].cut);
    assert_int_equal(b->n_live, 2);
    assert_true(a.node[2].token == 3 && a.node[2].parent == 1 && a.log_prob[0] == -2);
    assert_true(a.node[3].token == 4 && a.node[3].parent == 0 && a.log_prob[1] == -3);
    /* Nothing may follow: the live ones end where they are. */
    float none[2] = {-INFINITY, -INFINITY};
    beam_advance(b, &a.rules, none, (int32_t[]){-1, -1}, 1);
    assert_true(b->done && b->n_end == 2);
    assert_true(a.end[0].token == EOS && a.end[1].token == -1 && a.end[1].cut && a.end[1].n == 2);
}

/* Values above 0, which only rounding makes, do not let sums grow. */
TEST(probabilities_above_one_count_as_one) {
    struct arena_of_beam a;
    struct beam *b = &a.beam;
    a.rules = (struct beam_rules){.width = 1, .n_best = 1, .eos = EOS, .penalty = a.penalty};
    for (int n = 0; n <= LEN; n++) a.penalty[n] = 1;
    *b = (struct beam){.log_prob = a.log_prob, .sample = a.sample, .node = a.node, .end = a.end};
    beam_begin(b, LEN);
    beam_advance(b, &a.rules, (float[]){1e-6f}, (int32_t[]){4}, 1);
    assert_true(a.log_prob[0] == 0);
}

/* ---- draws ----------------------------------------------------------------------------------- */

/* Frequencies of many draws against the probabilities `want`: chi-square below its 99.9 %
 * quantile. */
static void check_draws(const float *log_prob, int n, const struct sample_rule *rule,
                        const double *want, uint64_t seed) {
    enum { DRAWS = 20000 };
    static const double quantile[] = {0, 10.83, 13.82, 16.27, 18.47, 20.52, 22.46, 24.32, 26.12};
    int count[16] = {0}, df = -1;
    float weight[16];
    int32_t order[16];
    double chi = 0;
    for (int i = 0; i < DRAWS; i++) {
        double u = sample_uniform(seed, (uint64_t)i, 3, 7);
        assert_true(u >= 0 && u < 1);
        count[sample_token(log_prob, n, rule, u, weight, order)]++;
    }
    for (int v = 0; v < n; v++) {
        double e = want[v] * DRAWS;
        if (want[v] == 0) assert_int_equal(count[v], 0);
        if (want[v] > 0) {
            chi += (count[v] - e) * (count[v] - e) / e;
            df++;
        }
    }
    if (df > 0 && chi > quantile[df]) fail_msg("chi-square %.2f with %d degrees", chi, df);
}

TEST(draws_follow_the_distribution) {
    const double p[6] = {0.05, 0.3, 0.02, 0.3, 0.13, 0.2};
    float lp[6], forbidden[6];
    double want[6], sum = 0;
    for (int v = 0; v < 6; v++) forbidden[v] = lp[v] = (float)log(p[v]);
    check_draws(lp, 6, &(struct sample_rule){1, 0, 1}, p, 1);
    for (int v = 0; v < 6; v++) sum += want[v] = pow(p[v], 1 / 0.5);
    for (int v = 0; v < 6; v++) want[v] /= sum;
    check_draws(lp, 6, &(struct sample_rule){0.5f, 0, 1}, want, 2);
    check_draws(lp, 6, &(struct sample_rule){1, 3, 1}, (double[]){0, 0.375, 0, 0.375, 0, 0.25}, 3);
    check_draws(lp, 6, &(struct sample_rule){1, 1, 1}, (double[]){0, 1, 0, 0, 0, 0}, 4);
    check_draws(lp, 6, &(struct sample_rule){1, 0, 0.55f}, (double[]){0, 0.5, 0, 0.5, 0, 0}, 5);
    check_draws(lp, 6, &(struct sample_rule){1, 0, 1e-6f}, (double[]){0, 1, 0, 0, 0, 0}, 6);
    /* Of the three best, 0.6 of their sum needs two: 0.375 alone does not reach it. */
    check_draws(lp, 6, &(struct sample_rule){1, 3, 0.6f}, (double[]){0, 0.5, 0, 0.5, 0, 0}, 7);
    check_draws(lp, 6, &(struct sample_rule){1, 99, 1}, p, 8);
    forbidden[1] = forbidden[4] = -INFINITY;
    for (int v = 0; v < 6; v++) want[v] = forbidden[v] < -1e9f ? 0 : p[v] / 0.57;
    check_draws(forbidden, 6, &(struct sample_rule){1, 0, 1}, want, 9);
    check_draws(forbidden, 6, &(struct sample_rule){1, 5, 1}, want, 10);
    check_draws(lp, 6, &(struct sample_rule){1e-6f, 0, 1}, (double[]){0, 0.5, 0, 0.5, 0, 0}, 11);
}

TEST(nothing_to_draw) {
    float lp[3] = {-INFINITY, -INFINITY, -INFINITY}, weight[3];
    int32_t order[3];
    assert_int_equal(sample_token(lp, 3, &(struct sample_rule){1, 0, 1}, 0.5, weight, order), -1);
    assert_int_equal(sample_token(lp, 3, &(struct sample_rule){1, 2, 0.5f}, 0.5, weight, order),
                     -1);
}

/* The heap's order is that of a full sort: the k best and no others are ever drawn. */
TEST(top_k_of_many) {
    static float lp[HUGE_V], weight[HUGE_V], value[50];
    static int32_t order[HUGE_V], id[50];
    struct rng rng = {.key = 5};
    for (int v = 0; v < HUGE_V; v++) lp[v] = -(float)rng_below(&rng, 40); /* ties */
    logprob_best(value, id, 50, lp, HUGE_V);
    int hit[50] = {0};
    for (int i = 0; i < 5000; i++) {
        int32_t got = sample_token(lp, HUGE_V, &(struct sample_rule){30, 50, 1}, rng_uniform(&rng),
                                   weight, order);
        int at = 0;
        while (at < 50 && id[at] != got) at++;
        assert_true(at < 50);
        hit[at] = 1;
    }
    for (int i = 0; i < 50; i++) assert_true(hit[i]);
}

TEST(streams_differ) {
    assert_true(sample_uniform(1, 2, 3, 4) == sample_uniform(1, 2, 3, 4));
    double base = sample_uniform(1, 2, 3, 4);
    assert_true(base != sample_uniform(2, 2, 3, 4) && base != sample_uniform(1, 3, 3, 4));
    assert_true(base != sample_uniform(1, 2, 4, 4) && base != sample_uniform(1, 2, 3, 5));
    assert_true(base != sample_uniform(1, 2 | (uint64_t)1 << 40, 3, 4));
}

/* ---- rows ------------------------------------------------------------------------------------ */

TEST(constraints_by_hand) {
    uint32_t seen[4] = {0};
    float z[4] = {2, -2, 0, 5};
    constraint_penalise(z, (int32_t[]){0, 1, 0, 0, 2}, 5, 2, seen, 1);
    assert_true(z[0] == 1 && z[1] == -4 && z[2] == 0 && z[3] == 5);
    constraint_penalise(z, (int32_t[]){3}, 1, 0.5f, seen, 2);
    assert_true(z[3] == 10 && z[0] == 1);

    static const int32_t written[] = {0, 1, 2, 3, 1, 2}; /* 1 2 was followed by 3 */
    float lp[5] = {-1, -1, -1, -1, -1};
    constraint_no_repeat(lp, written, 6, 3);
    assert_true(lp[3] == -INFINITY && lp[0] == -1 && lp[1] == -1 && lp[2] == -1);
    constraint_no_repeat(lp, written, 6, 4); /* 3 1 2 is new */
    assert_true(lp[0] == -1 && lp[1] == -1 && lp[2] == -1 && lp[4] == -1);
    constraint_no_repeat(lp, written, 6, 7);
    assert_true(lp[4] == -1);
    constraint_no_repeat(lp, written, 6, 1);
    for (int v = 0; v < 4; v++) assert_true(lp[v] == -INFINITY);
    assert_true(lp[4] == -1);
    constraint_no_repeat(lp, written, 0, 1);
    assert_true(lp[4] == -1);
}

TEST(rows_by_hand) {
    float z[3] = {1, 3, -INFINITY}, value[4], out[3];
    int32_t id[4];
    assert_int_equal(logprob_normalise(z, 3), 0);
    ASSERT_NEAR(z[0], -log(1 + exp(2)), 1e-6);
    ASSERT_NEAR(z[1], -log(1 + exp(-2)), 1e-6);
    assert_true(z[2] == -INFINITY);
    logprob_best(value, id, 3, z, 3);
    assert_true(id[0] == 1 && id[1] == 0 && id[2] == -1 && value[2] == -INFINITY);
    logprob_best(value, id, 4, (float[]){-1, -2, -1, -3, -1, -2}, 6);
    assert_true(id[0] == 0 && id[1] == 2 && id[2] == 4 && id[3] == 1);
    float rows[6] = {logf(0.5f), logf(0.5f), -INFINITY, logf(0.1f), logf(0.9f), -INFINITY};
    logprob_mean(out, rows, (float[]){0.25f, 0.75f}, 2, 3);
    ASSERT_NEAR(out[0], log(0.2), 1e-6);
    ASSERT_NEAR(out[1], log(0.8), 1e-6);
    assert_true(out[2] == -INFINITY);
    /* Far below what a probability can hold. */
    logprob_mean(out, (float[]){-500, -501}, (float[]){0.5f, 0.5f}, 2, 1);
    ASSERT_NEAR(out[0], -500 + log(0.5 + 0.5 * exp(-1)), 1e-4);
}

TEST(rows_without_numbers) {
    assert_int_equal(logprob_normalise((float[]){0, NAN}, 2), -1);
    assert_int_equal(logprob_normalise((float[]){0, INFINITY}, 2), -1);
    assert_int_equal(logprob_normalise((float[]){-INFINITY, -INFINITY}, 2), -1);
}

TESTS(T(stop_loses_nothing), T(beam_step_by_hand), T(probabilities_above_one_count_as_one),
      T(draws_follow_the_distribution), T(nothing_to_draw), T(top_k_of_many), T(streams_differ),
      T(constraints_by_hand), T(rows_by_hand), T(rows_without_numbers))
