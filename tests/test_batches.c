/* test_batches.c — the order of training batches: shuffling, weights, budgets, resuming,
 * prefetching. */
#include <stdbool.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "corpora.h"
#include "data/batches.h"
#include "data/shuffle.h"
#include "data/subword.h"
#include "data/tokenizer.h"
#include "test.h"

/* ---- shuffle --------------------------------------------------------------------------------- */

static void check_bijection(uint64_t key, uint64_t n) {
    struct shuffle s;
    shuffle_init(&s, key, n);
    unsigned char *seen = xcalloc(n, 1);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = shuffle_at(&s, i);
        if (at >= n || seen[at]++) fail_msg("n %lu: place %lu gives %lu", n, i, at);
    }
    xfree(seen);
}

TEST(shuffle_visits_everything_once) {
    for (uint64_t n = 1; n <= 600; n++)
        for (uint64_t key = 0; key < 5; key++) check_bijection(key, n);
    static const uint64_t sizes[] = {1023, 1024, 1025, 4097, 65535, 65536, 65537, 99991, 300000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_bijection(77 + i, sizes[i]);
}

/* Where elements land is uniform: chi-square over (element, place) counts of many keys. */
TEST(shuffle_is_uniform) {
    enum { KEYS = 20000, MAX = 11 };
    for (uint64_t n = 2; n <= MAX; n += 3) {
        int count[MAX][MAX] = {{0}}, follows[MAX][MAX] = {{0}};
        for (uint64_t key = 0; key < KEYS; key++) {
            struct shuffle s;
            shuffle_init(&s, shuffle_key(key, 1, n, 0), n);
            for (uint64_t i = 0; i < n; i++) {
                count[i][shuffle_at(&s, i)]++;
                if (i > 0) follows[shuffle_at(&s, i - 1)][shuffle_at(&s, i)]++;
            }
        }
        double want = (double)KEYS / (double)n, pair = want, chi = 0, chi_pair = 0;
        for (uint64_t i = 0; i < n; i++)
            for (uint64_t j = 0; j < n; j++) {
                chi += (count[i][j] - want) * (count[i][j] - want) / want;
                if (i != j) chi_pair += (follows[i][j] - pair) * (follows[i][j] - pair) / pair;
            }
        double freedom = (double)(n * n);
        assert_true(chi < freedom + 6 * sqrt(2 * freedom));
        assert_true(chi_pair < freedom + 6 * sqrt(2 * freedom));
    }
}

TEST(shuffle_depends_on_key) {
    int same = 0;
    struct shuffle a, b;
    shuffle_init(&a, 1, 100000);
    shuffle_init(&b, 2, 100000);
    for (uint64_t i = 0; i < 1000; i++) same += shuffle_at(&a, i) == shuffle_at(&b, i);
    assert_true(same < 5);
    shuffle_init(&a, 1, UINT64_C(1) << 62);
    assert_true(shuffle_at(&a, 5) < UINT64_C(1) << 62);
}

/* ---- order ----------------------------------------------------------------------------------- */

enum { VOCAB = 60000, TOKENS = 400, MAX_LEN = 24, TAG = 5 };

static struct batches *open_stream(const struct batches_source *source, int n, uint64_t seed,
                                   int pool, int prefetch) {
    struct batches_options o = {.source = source,
                                .n_source = n,
                                .seed = seed,
                                .tokens = TOKENS,
                                .pool = pool,
                                .prefetch = prefetch,
                                .bos = 1};
    struct batches *b;
    struct err err;
    ASSERT_OK(batches_new(&b, &o, &err), err);
    return b;
}

static void next(struct batches *b, struct batch *batch) {
    struct err err;
    ASSERT_OK(batches_next(b, batch, &err), err);
}

static struct batch room(const struct batches *b) {
    struct batch batch;
    struct err err;
    ASSERT_OK(batches_batch_init(b, &batch, &err), err);
    return batch;
}

static uint64_t digest(const struct batch *b) {
    uint64_t h = (uint64_t)b->n_seq;
    for (int i = 0; i < b->src.n_tok; i++) h = h * 0x100000001b3u + (uint32_t)b->src.ids[i];
    for (int i = 0; i < b->tgt.n_tok; i++) h = h * 0x100000001b3u + (uint32_t)b->tgt_out[i];
    for (int i = 0; i <= b->n_seq; i++) h = h * 31 + (uint32_t)b->tgt.start[i];
    return h;
}

/* Takes one epoch and counts how often each pair came, by the number it begins with; checks
 * budgets. */
static uint64_t count_epoch(struct batches *b, int *count, int n) {
    struct batch batch = room(b);
    struct batches_state state;
    uint64_t order = 0, epoch;
    batches_state(b, &state);
    epoch = state.epoch;
    while (state.epoch == epoch) {
        next(b, &batch);
        batches_state(b, &state);
        assert_true(batch.n_seq > 0 && batch.src.n_tok <= TOKENS && batch.tgt.n_tok <= TOKENS);
        for (int s = 0; s < batch.n_seq; s++) {
            int pair = batch.src.ids[batch.src.start[s]];
            assert_int_equal(pair, batch.tgt_out[batch.tgt.start[s]]);
            assert_int_equal(batch.tgt.ids[batch.tgt.start[s]], 1);
            assert_int_equal(batch.tgt_out[batch.tgt.start[s + 1] - 1], VOCAB - 1);
            assert_true(pair < n);
            count[pair]++;
        }
        order = order * 31 + digest(&batch);
    }
    assert_true(state.epoch == epoch + 1 && state.pool == 0 && state.batch == 0);
    batch_release(&batch);
    return order;
}

TEST(epoch_has_every_pair_once) {
    enum { N = 1500 };
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    assert_int_equal(c.n_pair, N);
    struct batches *b =
        open_stream(&(struct batches_source){.corpus = &c, .weight = 0}, 1, 7, 400, 0);
    assert_int_equal(batches_epoch(b).n_pair, N);
    assert_int_equal(batches_epoch(b).n_pool, 4);
    uint64_t order[3];
    for (int e = 0; e < 3; e++) {
        int count[N] = {0};
        order[e] = count_epoch(b, count, N);
        for (int i = 0; i < N; i++) assert_int_equal(count[i], 1);
    }
    assert_true(order[0] != order[1] && order[1] != order[2]);
    struct batches_state s;
    batches_state(b, &s);
    assert_int_equal(s.n_pair, 3 * N);
    assert_int_equal(s.n_src_tok, 3 * c.report.n_src_tok);
    assert_int_equal(s.n_tgt_tok, 3 * c.report.n_tgt_tok);
    ASSERT_NEAR(batches_epoch(b).n_tgt_tok, (double)c.report.n_tgt_tok, 0.5);
    batches_free(b);
    corpus_close(&c);
}

TEST(seed_decides_order) {
    enum { N = 300 };
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    uint64_t order[3];
    static const uint64_t seeds[3] = {5, 5, 6};
    for (int i = 0; i < 3; i++) {
        int count[N] = {0};
        struct batches *b = open_stream(&(struct batches_source){.corpus = &c, .weight = 1}, 1,
                                        seeds[i], 100, 2 * i);
        order[i] = count_epoch(b, count, N);
        batches_free(b);
    }
    assert_true(order[0] == order[1] && order[0] != order[2]);
    corpus_close(&c);
}

/* Draws per pair over one and two epochs, for two corpora of which the second has the given weight.
 * The first corpus begins its pairs with 0 .. A-1, the second with 0 .. B-1 as well, so count them
 * by target. */
static void check_weight(double weight, int want_first, int want_both, int tolerance) {
    enum { N = 400 };
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    struct batches_source source[1] = {{.corpus = &c, .weight = weight}};
    struct batches *b = open_stream(source, 1, 3, 150, 1);
    int count[N] = {0}, sum = 0;
    count_epoch(b, count, N);
    for (int i = 0; i < N; i++) {
        assert_true(abs(count[i] - want_first) <= tolerance);
        sum += count[i];
    }
    assert_int_equal(sum, (int)lrint(weight * N));
    count_epoch(b, count, N);
    for (int i = 0; i < N; i++) assert_int_equal(count[i], want_both);
    batches_free(b);
    corpus_close(&c);
}

TEST(weight_two_is_everything_twice) { check_weight(2, 2, 4, 0); }
TEST(weight_half_is_another_half_each_epoch) { check_weight(0.5, 0, 1, 1); }
TEST(weight_one_and_a_half) { check_weight(1.5, 1, 3, 1); }

TEST(corpora_are_mixed) {
    enum { A = 600, B = 200 };
    struct corpus c[2];
    corpora_make(&c[0], "a", A, VOCAB);
    corpora_make(&c[1], "b", B, VOCAB);
    struct batches_source source[2] = {{.corpus = &c[0], .weight = 1},
                                       {.corpus = &c[1], .weight = 3}};
    struct batches *b = open_stream(source, 2, 3, 150, 0);
    int count[A] = {0};
    count_epoch(b, count, A);
    for (int i = 0; i < A; i++) assert_int_equal(count[i], i < B ? 4 : 1);
    batches_free(b);
    for (int i = 0; i < 2; i++) corpus_close(&c[i]);
}

/* How much of each batch would be padding, were there any; and that no batch is a small rest. */
TEST(neighbours_are_alike) {
    enum { N = 25000 };
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    struct batches_options o = {.source = &(struct batches_source){.corpus = &c, .weight = 1},
                                .n_source = 1,
                                .tokens = 2000};
    struct batches *b;
    struct err err;
    ASSERT_OK(batches_new(&b, &o, &err), err);
    struct batch batch = room(b);
    struct batches_state s;
    double real = 0, padded = 0;
    int smallest = INT32_MAX, n = 0;
    do {
        next(b, &batch);
        batches_state(b, &s);
        real += batch.src.n_tok + batch.tgt.n_tok;
        padded += (double)batch.n_seq * (batch.src.max_len + batch.tgt.max_len);
        int size = batch.src.n_tok > batch.tgt.n_tok ? batch.src.n_tok : batch.tgt.n_tok;
        if (size < smallest) smallest = size;
        n++;
    } while (s.epoch == 0);
    assert_true(n > 200 && smallest > 1000);
    assert_true(1 - real / padded < 0.10);
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
}

TEST(sentences_are_limited) {
    struct corpus c;
    corpora_make(&c, "a", 500, VOCAB);
    struct batches_options o = {.source = &(struct batches_source){.corpus = &c, .weight = 1},
                                .n_source = 1,
                                .tokens = TOKENS,
                                .sentences = 7};
    struct batches *b;
    struct err err;
    ASSERT_OK(batches_new(&b, &o, &err), err);
    struct batch batch = room(b);
    for (int i = 0; i < 100; i++) {
        next(b, &batch);
        assert_true(batch.n_seq <= 7);
    }
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* The demo's text, its tokenizer, and its corpus. */
struct sampled {
    struct tokenizer *tokenizer;
    struct subword *subword;
    struct corpus corpus;
};

static void sampled_make(struct sampled *s, double dropout) {
    const char *const input[] = {"demo/train.en.xz", "demo/train.de.xz"};
    const char *out = corpora_path("t.model");
    struct err err = {0};
    struct tokenizer_train_options train = {
        .input = input, .n_input = 2, .out = out, .size = 800, .type = TOKENIZER_BPE};
    ASSERT_OK(tokenizer_train(&train, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&s->tokenizer, out, &err), err);
    ASSERT_OK(subword_new(&s->subword, s->tokenizer, &(struct subword_options){dropout, 0}, &err),
              err);
    struct corpus_options o = {.src = "demo/valid.en.xz",
                               .tgt = "demo/valid.de.xz",
                               .cache_dir = corpora_path("cache"),
                               .encoder = corpus_encoder_of(s->tokenizer),
                               .max_len = MAX_LEN};
    ASSERT_OK(corpus_build(&s->corpus, &o, NULL, &err), err);
}

static void sampled_release(struct sampled *s) {
    corpus_close(&s->corpus);
    subword_free(s->subword);
    tokenizer_free(s->tokenizer);
}

/* tagged: the corpus twice, the second time behind piece 5. */
static struct batches *open_sampled(const struct sampled *s, int sides, int threads, int prefetch,
                                    bool tagged) {
    const struct batches_source source[] = {{.corpus = &s->corpus},
                                            {.corpus = &s->corpus, .tagged = 1, .tag = TAG}};
    struct batches_options o = {.source = source,
                                .n_source = tagged ? 2 : 1,
                                .seed = 3,
                                .tokens = TOKENS,
                                .pool = 70,
                                .prefetch = prefetch,
                                .bos = 1,
                                .sample_src = sides & 1 ? s->subword : NULL,
                                .sample_tgt = sides & 2 ? s->subword : NULL,
                                .sample_len = MAX_LEN,
                                .sample_threads = threads};
    struct batches *b;
    struct err err;
    ASSERT_OK(batches_new(&b, &o, &err), err);
    return b;
}

/* A number for a sentence's text, whatever its pieces. */
static uint64_t text_digest(const struct sampled *s, const int32_t *ids, int n) {
    char text[4096];
    uint64_t h = 7;
    assert_in_range(tokenizer_decode(s->tokenizer, ids, n, text, sizeof text), 0, 4095);
    for (const char *c = text; *c; c++) h = h * 0x100000001b3u + (unsigned char)*c;
    return h * h; /* so that sums tell texts apart */
}

/* How a sentence of a packed side lies in it. */
static void check_place(const struct packed *p, int i) {
    int begin = p->start[i], end = p->start[i + 1];
    assert_true(end > begin && end - begin <= p->max_len);
    for (int k = begin; k < end; k++) assert_int_equal(p->pos[k], k - begin);
}

/* Every sentence from position 0 to its end mark, the target also shifted behind its start. */
static void check_packing(const struct sampled *s, const struct batch *b) {
    int eos = tokenizer_eos(s->tokenizer), bos = 1;
    assert_true(b->src.start[0] == 0 && b->tgt.start[0] == 0);
    assert_int_equal(b->src.start[b->n_seq], b->src.n_tok);
    assert_int_equal(b->tgt.start[b->n_seq], b->tgt.n_tok);
    for (int i = 0; i < b->n_seq; i++) {
        int begin = b->tgt.start[i], end = b->tgt.start[i + 1], src_end = b->src.start[i + 1];
        check_place(&b->src, i);
        check_place(&b->tgt, i);
        for (int k = b->src.start[i]; k < src_end; k++)
            assert_int_equal(b->src.ids[k] == eos, k == src_end - 1);
        for (int k = begin; k < end; k++) {
            assert_int_equal(b->tgt.ids[k], k > begin ? b->tgt_out[k - 1] : bos);
            assert_int_equal(b->tgt_out[k] == eos, k == end - 1);
        }
    }
}

/* One epoch: sum over pairs of numbers for their texts; pieces counted; budgets checked. */
struct epoch_sum {
    uint64_t text, order;
    int n_pair, n_tagged, n_src, n_tgt;
};

static struct epoch_sum sum_epoch(const struct sampled *s, struct batches *b) {
    struct batch batch = room(b);
    struct batches_state state;
    struct epoch_sum sum = {0};
    batches_state(b, &state);
    for (uint64_t epoch = state.epoch; state.epoch == epoch; batches_state(b, &state)) {
        next(b, &batch);
        assert_true(batch.src.n_tok <= TOKENS && batch.tgt.n_tok <= TOKENS);
        assert_true(batch.src.max_len <= MAX_LEN + 1 && batch.tgt.max_len <= MAX_LEN);
        check_packing(s, &batch);
        sum.order = sum.order * 31 + digest(&batch);
        sum.n_src += batch.src.n_tok;
        sum.n_tgt += batch.tgt.n_tok;
        sum.n_pair += batch.n_seq;
        for (int i = 0; i < batch.n_seq; i++) {
            const int32_t *src = batch.src.ids + batch.src.start[i];
            const int32_t *tgt = batch.tgt_out + batch.tgt.start[i];
            int n_src = batch.src.start[i + 1] - batch.src.start[i];
            int n_tgt = batch.tgt.start[i + 1] - batch.tgt.start[i];
            if (src[0] == TAG) sum.n_tagged++, src++, n_src--;
            sum.text += text_digest(s, src, n_src) * (text_digest(s, tgt, n_tgt) | 1);
        }
    }
    batch_release(&batch);
    return sum;
}

/* The text stays, its pieces do not; threads and prefetching change nothing. */
TEST(sampling_changes_pieces_alone) {
    struct sampled s;
    sampled_make(&s, 0.2);
    for (int tagged = 0; tagged < 2; tagged++) {
        struct epoch_sum usual, sampled[3];
        struct batches *b = open_sampled(&s, 0, 1, 0, tagged);
        usual = sum_epoch(&s, b);
        batches_free(b);
        assert_int_equal(usual.n_pair, (tagged + 1) * s.corpus.n_pair);
        assert_int_equal(usual.n_tagged, tagged * s.corpus.n_pair);
        for (int sides = 1; sides <= 3; sides++)
            for (int threads = 1; threads <= 8; threads += 7)
                for (int prefetch = 0; prefetch <= 3; prefetch += 3) {
                    b = open_sampled(&s, sides, threads, prefetch, tagged);
                    for (int e = 0; e < 3; e++) {
                        struct epoch_sum sum = sum_epoch(&s, b);
                        assert_true(sum.text == usual.text && sum.n_pair == usual.n_pair);
                        assert_int_equal(sum.n_tagged, usual.n_tagged);
                        assert_int_equal(sum.n_src > usual.n_src * 11 / 10, sides & 1);
                        assert_int_equal(sum.n_tgt > usual.n_tgt * 11 / 10, sides >> 1);
                        if (!(sides & 1)) assert_int_equal(sum.n_src, usual.n_src);
                        if (!(sides & 2)) assert_int_equal(sum.n_tgt, usual.n_tgt);
                        if (threads == 1 && prefetch == 0) sampled[e] = sum;
                        assert_memory_equal(&sum, &sampled[e], sizeof sum);
                    }
                    assert_true(sampled[0].n_src + sampled[0].n_tgt !=
                                sampled[1].n_src + sampled[1].n_tgt);
                    batches_free(b);
                }
    }
    sampled_release(&s);
}

/* With nothing dropped, what is sampled is what is read: the two ways to a batch agree. */
TEST(sampling_nothing_is_reading) {
    struct sampled s;
    sampled_make(&s, 0);
    for (int tagged = 0; tagged < 2; tagged++) {
        struct epoch_sum sum[2];
        for (int sides = 0; sides <= 3; sides += 3) {
            struct batches *b = open_sampled(&s, sides, 2, 0, tagged);
            sum[sides > 0] = sum_epoch(&s, b);
            batches_free(b);
        }
        sum[0].order = sum[1].order; /* the longest that is possible enters the cutting */
        assert_memory_equal(&sum[0], &sum[1], sizeof *sum);
    }
    sampled_release(&s);
}

/* A sentence that would get too long stays as it was. */
TEST(sampled_sentences_stay_short) {
    struct sampled s;
    sampled_make(&s, 1);
    struct batches *b = open_sampled(&s, 3, 1, 0, false);
    struct batch batch = room(b);
    int best = 0, spelled = 0;
    for (int i = 0; i < 20; i++) {
        next(b, &batch);
        assert_true(batch.src.max_len <= MAX_LEN && batch.tgt.max_len <= MAX_LEN);
        for (int k = 0; k < batch.src.n_tok; k++) {
            int chars = subword_chars(s.subword, batch.src.ids[k]);
            best += chars > 1;
            spelled += chars == 1;
        }
    }
    assert_true(best > 10 && spelled > 100);
    batch_release(&batch);
    batches_free(b);
    sampled_release(&s);
}

TEST(sampled_resume_is_exact) {
    enum { STEPS = 60 };
    struct sampled s;
    sampled_make(&s, 0.1);
    struct batches *b = open_sampled(&s, 3, 2, 2, true);
    struct batch batch = room(b);
    struct batches_state saved[STEPS];
    uint64_t want[STEPS];
    struct err err;
    for (int i = 0; i < STEPS; i++) {
        batches_state(b, &saved[i]);
        next(b, &batch);
        want[i] = digest(&batch);
    }
    assert_true(saved[STEPS - 1].epoch >= 1);
    for (int i = 0; i < STEPS - 2; i += 3) {
        struct batches *fresh = i % 2 ? open_sampled(&s, 3, 1, 0, true) : b;
        ASSERT_OK(batches_restore(fresh, &saved[i], &err), err);
        for (int k = i; k < i + 3 && k < STEPS; k++) {
            next(fresh, &batch);
            assert_true(digest(&batch) == want[k]);
        }
        if (fresh != b) batches_free(fresh);
    }
    struct subword *same = s.subword, *other;
    ASSERT_OK(subword_new(&other, s.tokenizer, &(struct subword_options){0.11, 0}, &err), err);
    for (int i = 0; i < 4; i++) {
        s.subword = i == 0 ? other : same; /* another amount, side, tag */
        struct batches *x = open_sampled(&s, i == 1 ? 1 : i == 2 ? 0 : 3, 1, 0, i < 3);
        ASSERT_ERR(batches_restore(x, &saved[3], &err), err, HEED_EINVAL, "links or subword");
        batches_free(x);
    }
    subword_free(other);
    batch_release(&batch);
    batches_free(b);
    sampled_release(&s);
}

/* ---- resuming -------------------------------------------------------------------------------- */

/* Saves at every position of two and a half epochs, resumes there and compares what follows. */
TEST(resume_is_exact_everywhere) {
    enum { N = 120, STEPS = 40, AHEAD = 6 };
    int prefetch = atoi(TEST_ARG);
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 0.9};
    struct batches *b = open_stream(&source, 1, 11, 50, prefetch);
    struct batch batch = room(b);
    struct batches_state saved[STEPS + AHEAD + 1];
    uint64_t want[STEPS + AHEAD];
    for (int i = 0; i < STEPS + AHEAD; i++) {
        batches_state(b, &saved[i]);
        assert_int_equal(saved[i].n_batch, i);
        next(b, &batch);
        want[i] = digest(&batch);
    }
    batches_state(b, &saved[STEPS + AHEAD]);
    assert_true(saved[STEPS].epoch >= 2);
    struct err err;
    for (int i = 0; i < STEPS; i++) {
        struct batches *fresh = i % 2 ? open_stream(&source, 1, 11, 50, prefetch) : b;
        ASSERT_OK(batches_restore(fresh, &saved[i], &err), err);
        for (int k = i; k < i + AHEAD; k++) {
            struct batches_state now;
            batches_state(fresh, &now);
            assert_memory_equal(&now, &saved[k], sizeof now);
            next(fresh, &batch);
            assert_true(digest(&batch) == want[k]);
        }
        if (fresh != b) batches_free(fresh);
    }
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
}

/* Shares of a stream are its batches, each once, and they know where the whole stream is; also when
 * they begin in the middle of a group. */
TEST(shares_are_the_whole_stream) {
    enum { EVERY = 6, GROUPS = 9 };
    int prefetch = atoi(TEST_ARG);
    struct corpus c;
    corpora_make(&c, "a", 120, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 0.9};
    struct batches *b = open_stream(&source, 1, 11, 50, 0);
    struct batch batch = room(b);
    struct batches_state begin, after[GROUPS], now;
    uint64_t want[GROUPS * EVERY];
    struct err err;
    for (int i = 0; i < 4; i++) next(b, &batch);
    batches_state(b, &begin);
    for (int i = 0; i < GROUPS * EVERY; i++) {
        next(b, &batch);
        want[i] = digest(&batch);
        batches_state(b, &after[i / EVERY]);
    }
    for (int own = 1; own <= EVERY; own++)
        for (int first = 0; first + own <= EVERY; first += own) {
            struct batches_options o = {.source = &source,
                                        .n_source = 1,
                                        .seed = 11,
                                        .tokens = TOKENS,
                                        .pool = 50,
                                        .prefetch = prefetch,
                                        .bos = 1,
                                        .share = {EVERY, first, own}};
            struct batches *part;
            ASSERT_OK(batches_new(&part, &o, &err), err);
            ASSERT_OK(batches_restore(part, &begin, &err), err);
            for (int g = 0; g < GROUPS; g++) {
                for (int i = 0; i < own; i++) {
                    next(part, &batch);
                    assert_true(digest(&batch) == want[g * EVERY + first + i]);
                }
                batches_state(part, &now);
                assert_memory_equal(&now, &after[g], sizeof now);
            }
            batches_free(part);
        }
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
}

TEST(foreign_states_are_refused) {
    struct corpus c, d;
    corpora_make(&c, "a", 120, VOCAB);
    corpora_make(&d, "b", 121, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 1}, other = {.corpus = &d, .weight = 1},
                          heavier = {.corpus = &c, .weight = 2};
    struct batches *b = open_stream(&source, 1, 1, 50, 2);
    struct batches_state saved, bad;
    struct err err;
    batches_state(b, &saved);

    struct batches *x = open_stream(&other, 1, 1, 50, 0);
    ASSERT_ERR(batches_restore(x, &saved, &err), err, HEED_EINVAL,
               "data differs from the saved run's");
    saved.epoch = 4;
    saved.n_batch = 99;
    ASSERT_OK(batches_restart_epoch(x, &saved, &err), err);
    batches_state(x, &bad);
    assert_true(bad.epoch == 4 && bad.n_batch == 99 && bad.data[0] != saved.data[0]);
    batches_free(x);
    x = open_stream(&heavier, 1, 1, 50, 0);
    ASSERT_ERR(batches_restore(x, &saved, &err), err, HEED_EINVAL,
               "weights, tags, links or subword sampling");
    batches_free(x);
    x = open_stream(&source, 1, 2, 50, 0);
    ASSERT_ERR(batches_restore(x, &saved, &err), err, HEED_EINVAL, "seed: 2, but");
    batches_free(x);
    bad = saved;
    bad.tokens = 401;
    ASSERT_ERR(batches_restore(b, &bad, &err), err, HEED_EINVAL, "tokens: 400, but");
    bad = saved;
    bad.pool = 3;
    ASSERT_ERR(batches_restore(b, &bad, &err), err, HEED_EINVAL, "pool 3");
    bad = saved;
    bad.batch = UINT64_MAX;
    ASSERT_ERR(batches_restore(b, &bad, &err), err, HEED_EINVAL, "no batch");
    bad = saved;
    bad.epoch = UINT64_MAX;
    ASSERT_OK(batches_restore(b, &bad, &err), err);
    struct batch batch = room(b);
    next(b, &batch);
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
    corpus_close(&d);
}

/* A refused restore costs nothing: the stream goes on where it was, prepared batches or not. */
TEST(refused_restore_changes_nothing) {
    enum { BEFORE = 3, AFTER = 8 };
    struct corpus c;
    corpora_make(&c, "a", 120, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 1};
    uint64_t got[2][AFTER];
    for (int round = 0; round < 2; round++) {
        struct batches *b = open_stream(&source, 1, 1, 50, 4);
        struct batch batch = room(b);
        for (int i = 0; i < BEFORE; i++) next(b, &batch);
        usleep(20000); /* the thread is ahead now */
        struct batches_state bad;
        struct err err;
        batches_state(b, &bad);
        bad.batch = 1000;
        if (round) ASSERT_ERR(batches_restore(b, &bad, &err), err, HEED_EINVAL, "no batch 1000");
        for (int i = 0; i < AFTER; i++) {
            next(b, &batch);
            got[round][i] = digest(&batch);
        }
        batch_release(&batch);
        batches_free(b);
    }
    assert_memory_equal(got[0], got[1], sizeof got[0]);
    corpus_close(&c);
}

TEST(impossible_options_are_refused) {
    struct corpus c;
    corpora_make(&c, "a", 200, VOCAB);
    int longest = c.max_src > c.max_tgt ? c.max_src : c.max_tgt;
    struct batches_source source = {.corpus = &c, .weight = 1};
    struct batches_options o = {.source = &source, .n_source = 1, .tokens = longest};
    struct batches *b;
    struct sweep *s;
    struct err err;
    ASSERT_OK(batches_new(&b, &o, &err), err);
    batches_free(b);
    o.tokens = longest - 1;
    ASSERT_ERR(batches_new(&b, &o, &err), err, HEED_EINVAL, "smaller than the longest sentence (");
    assert_null(b);
    ASSERT_ERR(sweep_new(&s, &(struct batches_source){.corpus = &c}, longest - 1, 1, &err), err,
               HEED_EINVAL, "longest sentence");
    o.tokens = 0;
    ASSERT_ERR(batches_new(&b, &o, &err), err, HEED_EINVAL, "tokens: 0");
    o.tokens = longest;
    o.prefetch = -1;
    ASSERT_ERR(batches_new(&b, &o, &err), err, HEED_EINVAL, "prefetch");
    o.prefetch = 0;
    static const double weights[] = {-1, NAN, INFINITY, 1e-9};
    for (size_t i = 0; i < sizeof weights / sizeof *weights; i++) {
        source.weight = weights[i];
        ASSERT_ERR(batches_new(&b, &o, &err), err, HEED_EINVAL, "weight");
    }
    o.n_source = 0;
    ASSERT_ERR(batches_new(&b, &o, &err), err, HEED_EINVAL, "no corpus");
    batches_free(NULL);
    sweep_free(NULL);
    corpus_close(&c);
}

/* ---- prefetch -------------------------------------------------------------------------------- */

TEST(prefetch_allocates_nothing_and_stops) {
    struct corpus c;
    corpora_make(&c, "a", 1000, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 1};
    for (int round = 0; round < 20; round++) {
        struct batches *b = open_stream(&source, 1, 1, 300, 1 + round % 4);
        struct batch held[3];
        for (int i = 0; i < 3; i++) held[i] = room(b);
        next(b, &held[0]);
        uint64_t before = mem_count();
        for (int i = 0; i < 5 * round; i++) next(b, &held[i % 3]);
        assert_int_equal(mem_count(), before);
        if (round % 5 == 0) usleep(2000); /* let it fill the ring and sleep */
        batches_free(b);
        for (int i = 0; i < 3; i++) batch_release(&held[i]);
    }
    corpus_close(&c);
}

TEST(held_batches_stay_whole) {
    struct corpus c;
    corpora_make(&c, "a", 1000, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 1};
    struct batches *b = open_stream(&source, 1, 1, 300, 2);
    struct batch held[4];
    uint64_t was[4];
    for (int i = 0; i < 4; i++) {
        held[i] = room(b);
        next(b, &held[i]);
        was[i] = digest(&held[i]);
    }
    struct batch other = room(b);
    for (int i = 0; i < 50; i++) next(b, &other);
    for (int i = 0; i < 4; i++) {
        assert_true(digest(&held[i]) == was[i]);
        batch_release(&held[i]);
    }
    batch_release(&other);
    batches_free(b);
    corpus_close(&c);
}

/* The cache is cut short under the running thread: prepared batches come, then the error, and it
 * stays. */
TEST(thread_errors_reach_the_consumer) {
    struct corpus c;
    corpora_make(&c, "a", 1000, VOCAB);
    struct batches_source source = {.corpus = &c, .weight = 1};
    struct batches *b = open_stream(&source, 1, 1, 300, 2);
    struct batch batch = room(b);
    next(b, &batch);
    char command[3000];
    snprintf(command, sizeof command, "truncate -s 1 %s/*.corpus", corpora_path("cache"));
    assert_int_equal(system(command), 0);
    struct err err;
    int rc = 0, n = 0;
    while (!rc && n++ < 100) rc = batches_next(b, &batch, &err);
    assert_true(rc == HEED_EIO && strstr(err.msg, "cut short"));
    ASSERT_ERR(batches_next(b, &batch, &err), err, HEED_EIO, "cut short");
    struct batches_state s;
    batches_state(b, &s);
    assert_int_equal(s.n_batch, n);
    batch_release(&batch);
    batches_free(b);
    corpus_close(&c);
}

/* ---- sweep ----------------------------------------------------------------------------------- */

TEST(sweep_sees_everything_in_fixed_order) {
    enum { N = 700 };
    struct corpus c;
    corpora_make(&c, "a", N, VOCAB);
    struct sweep *s;
    struct err err;
    ASSERT_OK(sweep_new(&s, &(struct batches_source){.corpus = &c}, TOKENS, 1, &err), err);
    uint64_t order[2] = {0};
    for (int round = 0; round < 2; round++) {
        int count[N] = {0}, rc, longest = 0;
        const struct batch *batch;
        while ((rc = sweep_next(s, &batch, &err)) > 0) {
            assert_true(batch->src.n_tok <= TOKENS && batch->tgt.n_tok <= TOKENS);
            assert_true(batch->tgt.max_len >= longest);
            longest = batch->tgt.max_len;
            for (int i = 0; i < batch->n_seq; i++) count[batch->src.ids[batch->src.start[i]]]++;
            order[round] = order[round] * 31 + digest(batch);
        }
        assert_int_equal(rc, 0);
        for (int i = 0; i < N; i++) assert_int_equal(count[i], 1);
        sweep_rewind(s);
    }
    assert_true(order[0] == order[1]);
    sweep_free(s);
    corpus_close(&c);
}

TESTS(T(shuffle_visits_everything_once), T(shuffle_is_uniform), T(shuffle_depends_on_key),
      T(epoch_has_every_pair_once), T(seed_decides_order), T(weight_two_is_everything_twice),
      T(weight_half_is_another_half_each_epoch), T(weight_one_and_a_half), T(corpora_are_mixed),
      T(neighbours_are_alike), T(sentences_are_limited), TP(resume_is_exact_everywhere, "0"),
      TP(resume_is_exact_everywhere, "1"), TP(resume_is_exact_everywhere, "4"),
      TP(shares_are_the_whole_stream, "0"), TP(shares_are_the_whole_stream, "3"),
      T(foreign_states_are_refused), T(refused_restore_changes_nothing),
      T(sampling_changes_pieces_alone), T(sampling_nothing_is_reading),
      T(sampled_sentences_stay_short), T(sampled_resume_is_exact),
      T(impossible_options_are_refused), T(prefetch_allocates_nothing_and_stops),
      T(held_batches_stay_whole), T(thread_errors_reach_the_consumer),
      T(sweep_sees_everything_in_fixed_order))
