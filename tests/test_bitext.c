/* test_bitext.c — links of given pairs: what the aligner says of their pieces, words put together
 * by hand, both directions, any batch and number of threads; and choosing. */
#include "base/mem.h"
#include "base/num.h"
#include "data/words.h"
#include "search/bitext.h"
#include "test.h"
#include "toy.h"

enum { N = 9 };
static const char *const src_text[N] = {
    "the cat number 7 sat on mat 8",
    "",
    "cat 1 sat, on mat.",
    "and so did dog 99 and cat 12 and the number 3 on the mat 4, did it?",
    "dog",
    "sat on 17",
    "the cat number 7 sat on mat 8",
    "x y z",
    "so did the cat!"};
static const char *const tgt_text[N] = {"mat 8 sat on the cat number 7",
                                        "cat 1",
                                        "on mat cat 1, sat.",
                                        "dog 99, and so did cat 12",
                                        "the dog number 5 sat on the mat and did so",
                                        "",
                                        "mat 8 sat on the cat number 7",
                                        "z y x",
                                        "so!"};

static void get_pairs(struct bitext_pair pair[N]) {
    for (int p = 0; p < N; p++)
        pair[p] = (struct bitext_pair){src_text[p], tgt_text[p], strlen(src_text[p]),
                                       strlen(tgt_text[p])};
}

static struct engine *open_engine(const char *dir, int n_thread) {
    struct engine *e;
    struct err err = {0};
    struct engine_options o = {
        .dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = n_thread}};
    ASSERT_OK(engine_open(&e, &o, &err), err);
    return e;
}

static const struct align_options first_input = {1, 2, ALIGN_INPUT, 0},
                                  second = {2, 0, ALIGN_OUTPUT, 0};

/* The links of one direction, the long way: one pair at a time, the matrix summed up by hand. */
static void expect_links(struct links *out, const struct engine *e, struct align_options choice,
                         const char *src, const char *tgt, enum bitext_unit unit) {
    struct words a = {0}, b = {0};
    struct aligner *aligner;
    struct err err = {0};
    int32_t eos = tokenizer_eos(e->target);
    enum words_unit words = unit == BITEXT_TOKENS ? WORDS_TOKENS : WORDS_WORDS;
    words_encode(&a, words, e->source, src, strlen(src));
    words_encode(&b, words, e->target, tgt, strlen(tgt));
    links_clear(out);
    int n = a.n_piece + 1, m = b.n_piece + 1;
    if (n > 1 && m > 1) {
        a.ids[n - 1] = b.ids[m - 1] = eos;
        float *p = xcalloc((size_t)(n * m), sizeof *p);
        struct aligner_setup setup = {tokenizer_bos(e->target),    &choice, 1,
                                      {e->max_len, e->max_len, 1}, NULL,    NULL};
        ASSERT_OK(aligner_new(&aligner, e->model[0], &setup, &err), err);
        ASSERT_OK(aligner_run(aligner, &(struct align_pair){a.ids, b.ids, n, m, p}, 1, &err), err);
        int n_row = unit == BITEXT_PIECES ? m - 1 : b.n,
            n_col = unit == BITEXT_PIECES ? n - 1 : a.n;
        for (int j = 0; j < n_row; j++) {
            int best = -1;
            double most = 0;
            for (int i = 0; i < n_col; i++) {
                double sum = 0;
                for (int t = 0; t < m - 1; t++)
                    for (int s = 0; s < n - 1; s++)
                        if ((unit == BITEXT_PIECES ? t : b.of[t]) == j &&
                            (unit == BITEXT_PIECES ? s : a.of[s]) == i)
                            sum += (double)p[t * n + s];
                if (sum > most + 1e-6) most = sum, best = i;
            }
            if (best >= 0) links_add(out, best, j);
        }
        links_sort(out);
        aligner_free(aligner);
        xfree(p);
    }
    words_release(&a);
    words_release(&b);
}

static void same_links(const struct links *a, const struct links *b) {
    assert_int_equal(a->n, b->n);
    for (int i = 0; i < a->n; i++) assert_int_equal(links_compare(&a->link[i], &b->link[i]), 0);
}

/* Both directions, each by its own model and tokenizer, put together. */
static void check_run(enum bitext_unit unit, enum links_method method, int tokens, int n_thread) {
    const char *there = model_dir("there", 1, 300);
    struct engine *forward = open_engine(there, n_thread);
    struct engine *reverse =
        open_engine(unit == BITEXT_PIECES ? there : model_dir("back", 2, 320), n_thread);
    struct bitext_options o = {.unit = unit,
                               .method = method,
                               .align = {first_input, second},
                               .tokens = tokens,
                               .n_thread = n_thread};
    struct bitext *b;
    struct bitext_pair pair[N];
    const struct bitext_result *result;
    struct err err = {0};
    struct links f = {0}, r = {0}, want = {0};
    int some = 0;
    get_pairs(pair);
    ASSERT_OK(bitext_new(&b, forward, reverse, &o, &err), err);
    for (int round = 0; round < 2; round++) { /* memory is used again */
        int n = round ? N : N / 2;
        ASSERT_OK(bitext_run(b, pair, n, &result, &err), err);
        for (int p = 0; p < n; p++) {
            expect_links(&f, forward, first_input, src_text[p], tgt_text[p], unit);
            expect_links(&r, reverse, second, tgt_text[p], src_text[p], unit);
            links_turn(&r);
            links_symmetrise(&want, method, &f, &r);
            same_links(&result[p].links, &want);
            some += want.n;
            assert_false(result[p].too_long);
        }
    }
    assert_true(some > N); /* not all of them are empty */
    assert_int_equal(result[2].n_src, unit == BITEXT_WORDS    ? 7
                                      : unit == BITEXT_TOKENS ? 5
                                                              : result[2].n_src);
    bitext_free(b);
    engine_close(forward);
    engine_close(reverse);
    links_release(&f);
    links_release(&r);
    links_release(&want);
}

TEST(both_directions) {
    check_run(BITEXT_WORDS, LINKS_UNION, 64, 1);
    check_run(BITEXT_WORDS, LINKS_GROW_DIAG, 4096, 2);
    check_run(BITEXT_TOKENS, LINKS_INTERSECTION, 1, 2);
    check_run(BITEXT_PIECES, LINKS_UNION, 256, 1);
}

/* One model alone: target words have at most one link. */
TEST(one_direction) {
    struct engine *e = open_engine(model_dir("m", 3, 300), 1);
    struct bitext_options o = {.unit = BITEXT_WORDS, .align = {second}, .tokens = 512};
    struct bitext_pair pair[N];
    const struct bitext_result *result;
    struct bitext *b;
    struct err err = {0};
    struct links want = {0};
    get_pairs(pair);
    ASSERT_OK(bitext_new(&b, e, NULL, &o, &err), err);
    ASSERT_OK(bitext_run(b, pair, N, &result, &err), err);
    for (int p = 0; p < N; p++) {
        expect_links(&want, e, second, src_text[p], tgt_text[p], BITEXT_WORDS);
        same_links(&result[p].links, &want);
        assert_true(want.n <= result[p].n_tgt);
    }
    bitext_free(b);
    engine_close(e);
    links_release(&want);
}

TEST(what_does_not_fit) {
    struct engine *e = open_engine(model_dir("m", 3, 300), 1);
    struct engine *other = open_engine(model_dir("other", 4, 310), 1);
    struct bitext_options o = {.unit = BITEXT_PIECES, .tokens = 64};
    struct bitext *b;
    struct err err = {0};
    ASSERT_ERR(bitext_new(&b, e, other, &o, &err), err, HEED_EINVAL, "different tokenizers");
    assert_null(b);
    o.unit = BITEXT_WORDS;
    o.align[1].layer = 9;
    ASSERT_ERR(bitext_new(&b, e, other, &o, &err), err, HEED_EINVAL, "no such layer");
    o.align[1].layer = 0;
    ASSERT_OK(bitext_new(&b, e, other, &o, &err), err);
    char *big = xcalloc(4 * (size_t)e->max_len + 1, 1); /* one word, and piece, per position */
    for (int i = 0; i < e->max_len; i++) memcpy(big + 2 * i, "7 ", 2);
    const struct bitext_result *result;
    struct bitext_pair pair[3] = {
        {"cat", "mat", 3, 3}, {big, "mat", strlen(big), 3}, {"cat", big, 3, strlen(big)}};
    ASSERT_OK(bitext_run(b, pair, 3, &result, &err), err);
    assert_true(result[0].links.n > 0 && !result[0].too_long);
    for (int p = 1; p < 3; p++) assert_true(result[p].links.n == 0 && result[p].too_long);
    ASSERT_OK(bitext_run(b, pair, 0, &result, &err), err);
    bitext_free(b);
    engine_close(e);
    engine_close(other);
    xfree(big);
}

/* ---- choosing -------------------------------------------------------------------------------- */

/* Every choice says what an aligner of that choice alone says. */
TEST(compared) {
    struct engine *e = open_engine(model_dir("m", 3, 300), 1);
    struct engine *back = open_engine(model_dir("back", 4, 310), 1);
    struct bitext_options o = {.unit = BITEXT_WORDS, .tokens = 64};
    struct bitext_choices choices[BITEXT_WAYS];
    struct bitext_pair pair[N];
    struct bitext *b;
    struct err err = {0};
    struct links want = {0};
    get_pairs(pair);
    ASSERT_OK(bitext_new(&b, e, back, &o, &err), err);
    ASSERT_OK(bitext_compare(choices, b, pair, N, &err), err);
    for (int way = 0; way < 2; way++) {
        const struct engine *engine = way ? back : e;
        const struct config *c = &engine->model[0]->config;
        assert_int_equal(choices[way].n, c->n_layer_dec * 2 * (c->n_head + 1));
        for (int k = 0; k < choices[way].n; k++)
            for (int p = 0; p < N; p++) {
                const char *src = way ? tgt_text[p] : src_text[p];
                const char *tgt = way ? src_text[p] : tgt_text[p];
                expect_links(&want, engine, choices[way].choice[k], src, tgt, BITEXT_WORDS);
                if (way) links_turn(&want);
                same_links(&choices[way].links[k * N + p], &want);
            }
    }
    assert_true(choices[0].choice[0].head == 0 && choices[0].choice[0].row == ALIGN_INPUT);
    for (int way = 0; way < 2; way++) bitext_choices_release(&choices[way], N);
    bitext_free(b);
    engine_close(e);
    engine_close(back);
    links_release(&want);
}

TEST(agreement) {
    struct links a[2] = {{0}}, b[2] = {{0}};
    assert_true(bitext_agreement(a, b, 2) == 0);
    links_add(&a[0], 0, 0);
    links_add(&a[0], 1, 1);
    links_add(&a[1], 0, 1);
    links_add(&b[0], 1, 1);
    links_add(&b[1], 0, 0);
    ASSERT_NEAR(bitext_agreement(a, b, 2), 2.0 / 5, 1e-12); /* 1-1 of the first pair */
    ASSERT_NEAR(bitext_agreement(b, a, 2), 2.0 / 5, 1e-12);
    ASSERT_NEAR(bitext_agreement(a, a, 2), 1, 1e-12);
    for (int i = 0; i < 2; i++) links_release(&a[i]), links_release(&b[i]);
}

TESTS(T(both_directions), T(one_direction), T(what_does_not_fit), T(compared), T(agreement))
