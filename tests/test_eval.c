/* test_eval.c — the library under src/eval: tokens, counts against a naive count, scores from known
 * numbers, the definitions of resampling. Agreement with sacreBLEU is test_eval.sh's and
 * test_eval_random.sh's subject. */
#include "test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "base/unicode.h"
#include "base/utf8.h"
#include "eval/bleu.h"
#include "eval/chrf.h"

static struct segment seg(const char *text) { return (struct segment){text, strlen(text)}; }

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Fails unless the tokens of `line` are the words of `want`. */
static void check_tokens(const struct tokens *tokens, const char *line, const char *want) {
    char got[1024] = "";
    size_t n = 0;
    for (size_t i = 0; i < tokens->n; i++) {
        if (i) got[n++] = ' ';
        for (uint32_t k = 0; k < tokens->token[i].length; k++)
            n += (size_t)utf8_encode(got + n, tokens->text.code[tokens->token[i].start + k]);
    }
    got[n] = 0;
    if (strcmp(got, want) != 0) fail_msg("'%s': got '%s', want '%s'", line, got, want);
}

static void check_kind(enum tokenizer_kind kind, int lower, const char *line, const char *want) {
    struct tokens tokens = {0};
    tokens_add(&tokens, seg(line), kind, lower);
    check_tokens(&tokens, line, want);
    tokens_release(&tokens);
}

TEST(tokens_13a) {
    check_kind(TOKENIZE_13A, 0, "Hello, world.", "Hello , world .");
    check_kind(TOKENIZE_13A, 0, "1,234.5 costs 3.", "1,234.5 costs 3 .");
    check_kind(TOKENIZE_13A, 0, "5-6 x-y -7", "5 - 6 x-y -7");
    check_kind(TOKENIZE_13A, 0, "(a/b) \"c\" d's", "( a / b ) \" c \" d's");
    check_kind(TOKENIZE_13A, 0, "&quot;&amp;lt;&gt;", "\" < >");
    check_kind(TOKENIZE_13A, 0, "&amp;quot;", "& quot ;");
    check_kind(TOKENIZE_13A, 0, "a<skipped>b", "ab");
    check_kind(TOKENIZE_13A, 0, "line-\nbreak\nhere", "linebreak here");
    check_kind(TOKENIZE_13A, 0,
               "a\xC2\xA0"
               "b\xE3\x80\x80"
               "c",
               "a b c");
    check_kind(TOKENIZE_13A, 0, "", "");
    check_kind(TOKENIZE_13A, 0, " \t ", "");
    check_kind(TOKENIZE_13A, 1, "ÀB.", "àb .");
}

TEST(tokens_intl) {
    check_kind(TOKENIZE_INTL, 0, "Hello, world!", "Hello , world !");
    check_kind(TOKENIZE_INTL, 0, "1,234.5 in 2020.", "1,234.5 in 2020.");
    check_kind(TOKENIZE_INTL, 0, "3.5 \xE2\x82\xAC \xE2\x89\xA0 4\xC2\xB0", "3.5 € ≠ 4 °");
    check_kind(TOKENIZE_INTL, 0, "«ja»—nein", "« ja » — nein");
    check_kind(TOKENIZE_INTL, 0, "&quot;", "& quot ;");
}

TEST(tokens_char_and_none) {
    check_kind(TOKENIZE_CHAR, 0, "ab 猫.", "a b 猫 .");
    check_kind(TOKENIZE_NONE, 0, " a,b  c ", "a,b c");
    check_kind(TOKENIZE_NONE, 0,
               "b\xFF"
               "d",
               "b\xEF\xBF\xBD"
               "d");
}

TEST(words_of_chrf) {
    struct tokens tokens = {0};
    const char *line = "(hi) \"x y, . a's z";
    tokens_add_words(&tokens, seg(line), 0);
    check_tokens(&tokens, line, "(hi ) \" x y , . a's z");
    tokens_release(&tokens);
}

/* ---- Unicode --------------------------------------------------------------------------------- */

static void check_lower(const char *text, const char *want) {
    struct codes codes = {0}, scratch = {0};
    codes_decode(&codes, &scratch, seg(text), 1);
    char got[256];
    size_t n = 0;
    for (size_t i = 0; i < codes.n; i++) n += (size_t)utf8_encode(got + n, codes.code[i]);
    got[n] = 0;
    assert_string_equal(got, want);
    codes_release(&codes);
    codes_release(&scratch);
}

TEST(lower_case) {
    check_lower("AZaz09[`{", "azaz09[`{");
    check_lower("ÄÖÜẞ ÅŸ", "äöüß åÿ");
    check_lower("ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ. Σ ΑΣ'Β ΑΣ'", "οδυσσευς σοφος. σ ασ'β ας'");
    check_lower("İI", "i\xCC\x87i");
    check_lower("ДЖЁ Ǆǅ 𐐀", "джё ǆǆ 𐐨");
}

TEST(categories_and_spaces) {
    assert_int_equal(unicode_category('a'), UNICODE_OTHER);
    assert_int_equal(unicode_category('$'), UNICODE_SYMBOL);
    assert_int_equal(unicode_category('-'), UNICODE_PUNCTUATION);
    assert_int_equal(unicode_category(0xBD), UNICODE_NUMBER); /* one half */
    assert_int_equal(unicode_category(0x3001), UNICODE_PUNCTUATION);
    assert_int_equal(unicode_category(0x1F600), UNICODE_SYMBOL);
    assert_int_equal(unicode_category(0x10FFFF), UNICODE_OTHER);
    int n = 0;
    for (uint32_t c = 0; c < 0x110000; c++) n += unicode_is_space(c);
    assert_int_equal(n, 29); /* as many as Python's str.isspace() knows */
    assert_false(unicode_is_space(0x200B));
}

/* ---- n-grams --------------------------------------------------------------------------------- */

enum { MAX_TEXT = 40 };

/* How often text[at .. at + order) occurs in other. */
static uint32_t occurrences(const uint32_t *gram, const uint32_t *other, size_t n, size_t order) {
    uint32_t count = 0;
    for (size_t i = 0; i + order <= n; i++)
        count += memcmp(gram, other + i, order * sizeof *gram) == 0;
    return count;
}

/* sum(min(count in hyp, largest count in a reference)), by counting everything for every n-gram. */
static uint64_t naive(const uint32_t *hyp, size_t n, uint32_t ref[][MAX_TEXT], const size_t *length,
                      int n_ref, size_t order) {
    uint64_t match = 0;
    for (size_t i = 0; i + order <= n; i++) {
        if (occurrences(hyp + i, hyp, i + order - 1, order)) continue; /* counted already */
        uint32_t in_hyp = occurrences(hyp + i, hyp, n, order), in_ref = 0;
        for (int r = 0; r < n_ref; r++) {
            uint32_t c = occurrences(hyp + i, ref[r], length[r], order);
            in_ref = c > in_ref ? c : in_ref;
        }
        match += in_hyp < in_ref ? in_hyp : in_ref;
    }
    return match;
}

TEST(counts_are_exact) {
    struct rng rng = {1, 0};
    struct ngrams ngrams = {0};
    for (int round = 0; round < (TEST_SANITIZED ? 500 : 5000); round++) {
        uint32_t hyp[MAX_TEXT], ref[3][MAX_TEXT], alphabet = 1 + rng_below(&rng, 5);
        size_t n = rng_below(&rng, MAX_TEXT + 1), length[3], total = 0;
        int n_ref = 1 + (int)rng_below(&rng, 3), order = 1 + (int)rng_below(&rng, NGRAMS_MAX_ORDER);
        for (size_t i = 0; i < n; i++) hyp[i] = rng_below(&rng, alphabet);
        for (int r = 0; r < n_ref; r++) {
            total += length[r] = rng_below(&rng, MAX_TEXT + 1);
            for (size_t i = 0; i < length[r]; i++) ref[r][i] = rng_below(&rng, alphabet);
        }
        ngrams_begin(&ngrams, total, order);
        for (int r = 0; r < n_ref; r++) ngrams_add(&ngrams, ref[r], length[r], order);
        uint64_t match[NGRAMS_MAX_ORDER];
        ngrams_match(&ngrams, match, hyp, n, order);
        for (int k = 0; k < order; k++)
            assert_int_equal(match[k], naive(hyp, n, ref, length, n_ref, (size_t)k + 1));
    }
    ngrams_release(&ngrams);
}

TEST(rounds_may_wrap) {
    struct ngrams ngrams = {0};
    struct lexicon lexicon = {0};
    const uint32_t text[] = {1, 2, 3};
    uint64_t match[2];
    ngrams_begin(&ngrams, 3, 2);
    ngrams_add(&ngrams, text, 3, 2);
    ngrams.round = UINT32_MAX;
    lexicon_begin(&lexicon, 3);
    lexicon.round = UINT32_MAX;
    ngrams_begin(&ngrams, 0, 2); /* what the first round wrote must not come back */
    ngrams_match(&ngrams, match, text, 3, 2);
    assert_int_equal(match[0] + match[1], 0);
    lexicon_begin(&lexicon, 3);
    assert_int_equal(lexicon.round, 1);
    ngrams_release(&ngrams);
    lexicon_release(&lexicon);
}

/* ---- scores ---------------------------------------------------------------------------------- */

static const struct bleu_options plain = {.smooth_value = -1};
static const struct chrf_options chrf2 = {6, 0, 2, 0}, chrf_plus = {6, 2, 2, 0};

TEST(bleu_adds_up) {
    struct bleu bleu;
    bleu_init(&bleu, &plain);
    struct segment refs[2] = {seg("the cat is on the mat"), seg("there is a cat on the mat")};
    bleu_add(&bleu, seg("the the the cat sat on the mat"), refs, 2);
    bleu_add(&bleu, seg(""), refs, 1);
    assert_int_equal(bleu.n_segment, 2);
    /* Lengths 8 + 0; the nearer reference of the first has 7 tokens, the second's has 6. */
    const uint64_t want[BLEU_N_STAT] = {8, 13, 5, 3, 1, 0, 8, 7, 6, 5};
    for (int i = 0; i < BLEU_N_STAT; i++) assert_int_equal(bleu.sum[i], want[i]);
    struct bleu_score score;
    bleu_score(&score, bleu.sum, &bleu.options);
    double p = 100.0 * pow(5.0 / 8 * 3 / 7 * 1 / 6 * (0.5 / 5), 0.25);
    ASSERT_NEAR(score.score, exp(1 - 13.0 / 8) * p, 1e-9);
    ASSERT_NEAR(bleu_value(bleu.sum, &bleu.options), score.score, 0);
    bleu_release(&bleu);
}

TEST(closest_reference_length) {
    struct bleu bleu;
    bleu_init(&bleu, &plain);
    uint64_t stat[BLEU_N_STAT];
    struct segment refs[3] = {seg("a b c d e f"), seg("a b"), seg("a b c d e f g")};
    bleu_count(&bleu, stat, seg("w x y z"), refs, 3); /* 6 and 2 are equally near */
    assert_int_equal(stat[BLEU_REF_LEN], 2);
    bleu_count(&bleu, stat, seg("w x y z z z z z"), refs, 3);
    assert_int_equal(stat[BLEU_REF_LEN], 7);
    bleu_release(&bleu);
}

TEST(equal_texts_score_100) {
    static const char *const lines[] = {"a", "Ein ganz normaler Satz.", "猫在垫子上。",
                                        "😀 👍🏽 !", ". . ."};
    struct bleu_options o = plain;
    o.effective_order = 1;
    struct bleu bleu;
    struct chrf chrf;
    chrf_init(&chrf, &chrf_plus);
    for (int kind = 0; kind < N_TOKENIZERS; kind++) {
        o.tokenizer = (enum tokenizer_kind)kind;
        bleu_init(&bleu, &o);
        for (int i = 0; i < 5; i++) {
            struct segment s = seg(lines[i]);
            uint64_t stat[CHRF_MAX_STAT];
            bleu_count(&bleu, stat, s, &s, 1);
            ASSERT_NEAR(bleu_value(stat, &o), 100, 1e-9);
            chrf_count(&chrf, stat, s, &s, 1);
            ASSERT_NEAR(chrf_score(stat, &chrf_plus), 100, 1e-9);
        }
        bleu_release(&bleu);
    }
    chrf_release(&chrf);
}

TEST(chrf_picks_the_best_reference) {
    struct chrf chrf;
    chrf_init(&chrf, &chrf2);
    struct segment refs[2] = {seg("abc"), seg("a b d")};
    uint64_t sum[CHRF_MAX_STAT], more[CHRF_MAX_STAT];
    chrf_count(&chrf, sum, seg("ab d"), refs, 2);
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < 3; i++) assert_int_equal(sum[3 * k + i], 3 - k);
    for (int k = 9; k < 18; k++) assert_int_equal(sum[k], 0);
    ASSERT_NEAR(chrf_score(sum, &chrf2), 100, 1e-12);
    chrf_count(&chrf, more, seg("zz"), refs, 1); /* orders 1 and 2 count, nothing matches */
    for (int i = 0; i < chrf_n_stat(&chrf2); i++) sum[i] += more[i];
    double p = (3.0 / 5 + 2.0 / 3 + 1) / 3, r = (3.0 / 6 + 2.0 / 4 + 1.0 / 2) / 3;
    ASSERT_NEAR(chrf_score(sum, &chrf2), 100 * 5 * p * r / (4 * p + r), 1e-9);
    chrf_release(&chrf);
}

/* ---- resampling ------------------------------------------------------------------------------ */

TEST(interval_and_p_value) {
    double a[80], b[80];
    for (int i = 0; i < 80; i++) a[(i * 37) % 80] = i; /* 0..79 in another order */
    struct interval interval = bootstrap_interval(a, 80);
    ASSERT_NEAR(interval.mean, 39.5, 1e-12);
    ASSERT_NEAR(interval.half, 0.5 * (77 - 2), 1e-12); /* 80 / 40 = 2 left out on either side */
    for (int i = 0; i < 80; i++) b[i] = a[i] + (i < 8 ? 5 : 1);
    /* Distances 5 (8 times) and 1, mean 1.4; beyond it by more than 3: 8. By more than 3.6:
     * none. */
    ASSERT_NEAR(bootstrap_p_value(a, b, 80, 3), 9.0 / 81, 1e-12);
    ASSERT_NEAR(bootstrap_p_value(a, b, 80, 3.7), 1.0 / 81, 1e-12);
}

static double mean_of(const uint64_t *sum, const void *options) {
    return (double)sum[0] / *(const double *)options;
}

TEST(samples_have_the_right_spread) {
    enum { N = 400, SAMPLES = 4000 };
    struct pool *pool;
    struct err err = {0};
    ASSERT_OK(pool_new(&pool, 2, &err), err);
    uint32_t *stat = xmalloc(N * sizeof *stat);
    for (int i = 0; i < N; i++) stat[i] = i % 2 ? 10 : 0; /* variance 25 */
    double n = N, *scores = xmalloc(2 * SAMPLES * sizeof *scores), var = 0;
    struct bootstrap_series series[2] = {{stat, 1, mean_of, &n, scores},
                                         {stat, 1, mean_of, &n, scores + SAMPLES}};
    struct resampling resampling = {SAMPLES, 3};
    ASSERT_OK(bootstrap_run(series, 2, N, &resampling, pool, &err), err);
    struct interval interval = bootstrap_interval(scores, SAMPLES);
    for (int i = 0; i < SAMPLES; i++) {
        var += pow(scores[i] - interval.mean, 2) / SAMPLES;
        ASSERT_NEAR(scores[SAMPLES + i], scores[i], 0); /* the same draws: paired */
    }
    ASSERT_NEAR(interval.mean, 5, 0.02);
    ASSERT_NEAR(var, 25.0 / N, 0.1 * 25.0 / N);
    ASSERT_NEAR(interval.half, 1.96 * sqrt(25.0 / N), 0.06);
    xfree(stat);
    xfree(scores);
    pool_free(pool);
}

TESTS(T(tokens_13a), T(tokens_intl), T(tokens_char_and_none), T(words_of_chrf), T(lower_case),
      T(categories_and_spaces), T(counts_are_exact), T(rounds_may_wrap), T(bleu_adds_up),
      T(closest_reference_length), T(equal_texts_score_100), T(chrf_picks_the_best_reference),
      T(interval_and_p_value), T(samples_have_the_right_spread))
