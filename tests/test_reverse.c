/* test_reverse.c — a model learns to reverse sequences, from nothing: forward, backward, Adam and
 * greedy search have to work together for that.
 *
 * The task needs what attention is for: output i depends on input n - 1 - i, with n different for
 * every sentence. Training data are drawn at random, so the sentences it is tested on were never
 * seen as such; a sentence counts only if every symbol is right and it ends where it should. */
#include "search/search.h"
#include "test.h"
#include "toy.h"

enum {
    FIRST = 4,
    N_SYMBOL = 20,
    LONGEST = 8,
    N_TEST = 200,
    CAP_OUT = LONGEST + 2,
    TOKENS = 512,
    CHECK_EVERY = 50,
    MAX_STEPS = 4000
};

/* Adds random pairs until the batch is full: symbols and their reverse, both with an end mark. */
static void fill(struct batch *b, struct rng *rng, int most) {
    struct err err = {0};
    batch_clear(b);
    for (int s = 0, rc = 1; s < most && rc == 1; s++) {
        int32_t src[LONGEST + 1], tgt[LONGEST + 1];
        int n = 1 + (int)rng_below(rng, LONGEST);
        for (int i = 0; i < n; i++)
            tgt[n - 1 - i] = src[i] = FIRST + (int32_t)rng_below(rng, N_SYMBOL);
        src[n] = tgt[n] = TOY_EOS;
        rc = batch_add(b, src, n + 1, tgt, n + 1, &err);
        if (rc < 0) check_ok(rc, &err);
    }
}

static int count_exact(struct searcher *searcher, const struct batch *test) {
    struct search_input in[N_TEST];
    struct search_result out[N_TEST];
    int exact = 0;
    struct err err = {0};
    for (int s = 0; s < test->n_seq; s++)
        in[s] = (struct search_input){.src = test->src.ids + test->src.start[s],
                                      .n_src = test->src.start[s + 1] - test->src.start[s]};
    ASSERT_OK(searcher_run(searcher, in, test->n_seq, out, NULL, &err), err);
    for (int s = 0; s < test->n_seq; s++) {
        const struct hypothesis *got = out[s].best;
        size_t n = (size_t)(test->tgt.start[s + 1] - test->tgt.start[s] - 1); /* end mark */
        exact += !got->cut && (size_t)got->n == n &&
                 memcmp(got->ids, test->tgt_out + test->tgt.start[s], n * sizeof *got->ids) == 0;
    }
    return exact;
}

/* Greedy, with room for the whole test. */
static struct searcher *open_searcher(struct model *model) {
    struct err err = {0};
    struct searcher *searcher;
    struct search_options options = search_defaults();
    options.beam = 1;
    struct search_setup setup = {&model,
                                 1,
                                 NULL,
                                 {.bos = TOY_BOS, .eos = TOY_EOS, .unk = -1},
                                 {N_TEST, N_TEST * (LONGEST + 1), LONGEST + 1}};
    ASSERT_OK(searcher_new(&searcher, &setup, &options, &err), err);
    return searcher;
}

static struct config small_config(void) {
    struct err err = {0};
    struct config config;
    ASSERT_OK(config_preset(&config, "tiny", &err), err);
    config.n_vocab_src = config.n_vocab_tgt = FIRST + N_SYMBOL;
    config.n_layer_enc = config.n_layer_dec = 2;
    config.d_model = 64;
    config.d_ff = 256;
    config.max_len = CAP_OUT;
    config.dropout = 0;
    ASSERT_OK(config_check(&config, &err), err);
    return config;
}

static int learn(struct toy *toy, struct searcher *searcher, struct batch *train,
                 const struct batch *test) {
    struct err err = {0};
    struct rng rng = {.key = 1};
    struct update_report report;
    const struct batch *one[] = {train};
    int exact = 0;
    while (100 * exact <= 99 * N_TEST && toy->opt->step < MAX_STEPS) {
        fill(train, &rng, TOKENS);
        ASSERT_OK(optimizer_update(toy->opt, one, 1, &report, &err), err);
        if (toy->opt->step % CHECK_EVERY == 0) exact = count_exact(searcher, test);
    }
    print_message("%d of %d exact after %lld updates\n", exact, N_TEST, (long long)toy->opt->step);
    return exact;
}

TEST(reverses) {
    enum dtype type = strcmp(TEST_ARG, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
    struct err err = {0};
    struct rng rng = {.key = 2};
    struct config config = small_config();
    struct optimizer_options options = optimizer_defaults;
    struct toy toy = {0};
    struct searcher *searcher;
    struct batch train, test;
    if (TEST_SANITIZED && type == DTYPE_BF16) SKIP("f32 will do under a sanitizer");
    options.warmup = 300;
    options.lr_scale = 0.25;
    options.seed = 1;
    toy_open(&toy, &config, &(struct backend_options){"cpu", 1, NULL}, type, TOKENS);
    optimizer_free(toy.opt);
    ASSERT_OK(optimizer_new(&toy.opt, toy.model, toy.acts, &options, &err), err);
    searcher = open_searcher(toy.model);
    ASSERT_OK(batch_init(&train, TOKENS, TOKENS, TOKENS, TOY_BOS, &err), err);
    ASSERT_OK(
        batch_init(&test, N_TEST * (LONGEST + 1), N_TEST * (LONGEST + 1), N_TEST, TOY_BOS, &err),
        err);
    fill(&test, &rng, N_TEST);
    assert_int_equal(test.n_seq, N_TEST);
    assert_true(100 * learn(&toy, searcher, &train, &test) > 99 * N_TEST);
    batch_release(&train);
    batch_release(&test);
    searcher_free(searcher);
    toy_close(&toy);
}

TESTS(TPL(reverses, "f32", 120), TPL(reverses, "bf16", 120))
