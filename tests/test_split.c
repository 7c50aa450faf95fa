/* test_split.c — where long texts are cut, and that nothing of them is lost. */
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "search/split.h"
#include "test.h"

/* One token per character that is no space: simple enough to check by eye. */
static int count_characters(void *ctx, const char *text, size_t size) {
    int n = 0;
    if (ctx) ++*(int *)ctx;
    for (size_t i = 0; i < size; i++)
        n += ((unsigned char)text[i] & 0xC0u) != 0x80 && text[i] != ' ';
    return n;
}

/* The parts, each in brackets. */
static const char *parts_of(const char *text, int limit) {
    static char out[4096];
    struct err err = {0};
    struct split_part *part;
    struct split_rule rule = {limit, count_characters, NULL, NULL};
    int n = split_text(&part, text, strlen(text), &rule, &err), at = 0;
    ASSERT_OK(n < 0 ? n : 0, err);
    out[0] = 0;
    for (int i = 0; i < n; i++) {
        assert_in_range(part[i].count, 1, limit);
        at += snprintf(out + at, sizeof out - (size_t)at, "[%.*s]", (int)part[i].size,
                       text + part[i].at);
    }
    xfree(part);
    return out;
}

TEST(cuts_by_rank) {
    assert_string_equal(parts_of("One two. Three four! Five?", 9),
                        "[One two.][Three][four!][Five?]");
    assert_string_equal(parts_of("One two. Three four! Five?", 11),
                        "[One two.][Three four!][Five?]");
    assert_string_equal(parts_of("One two. Three four! Five?", 18),
                        "[One two. Three four!][Five?]");
    assert_string_equal(parts_of("He said: \"No.\" Then he left.", 10),
                        "[He said:][\"No.\"][Then he][left.]");
    assert_string_equal(parts_of("first, second; third", 12), "[first,][second; third]");
    assert_string_equal(parts_of("first, second; third", 13), "[first, second;][third]");
    assert_string_equal(parts_of("3.14 is pi. e is 2.71", 9), "[3.14 is pi.][e is 2.71]");
    assert_string_equal(parts_of("We met Dr. Who. He left.", 12), "[We met Dr. Who.][He left.]");
    assert_string_equal(parts_of("abcdefghij kl", 4), "[abcd][efgh][ij kl]");
    assert_string_equal(parts_of("  a b  ", 10), "[a b]");
    assert_string_equal(parts_of("", 10), "");
    assert_string_equal(parts_of("   ", 10), "");
}

TEST(cuts_without_spaces) {
    assert_string_equal(parts_of("今日は。元気？はい！", 5), "[今日は。][元気？][はい！]");
    assert_string_equal(parts_of("「今日は。」元気？", 6), "[「今日は。」][元気？]");
    assert_string_equal(parts_of("äöüäöü", 4), "[äöüä][öü]"); /* never within a character */
    assert_string_equal(parts_of("a\xC2\xA0"
                                 "b\xE3\x80\x80"
                                 "c",
                                 2),
                        "[a][b][c]");
}

/* Any text: parts fit, are in order, and hold every character that is no space. */
TEST(loses_nothing) {
    static const char *const pool[] = {"a",  "word", " ",          ". ", ", ", "! ",
                                       "。", "ä",    "…",          "\"", "12", "   ",
                                       "、", "x",    "longerword", ".",  "\t"};
    struct rng rng = {.key = 5};
    struct err err = {0};
    for (int round = 0; round < 3000; round++) {
        char text[600];
        size_t n = 0;
        int pieces = (int)rng_below(&rng, 60), limit = 1 + (int)rng_below(&rng, 25);
        struct split_part *part;
        for (int i = 0; i < pieces && n < 560; i++) {
            const char *p = pool[rng_below(&rng, sizeof pool / sizeof *pool)];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
        int calls = 0;
        struct split_rule rule = {limit, count_characters, &calls, NULL};
        int n_part = split_text(&part, text, n, &rule, &err);
        ASSERT_OK(n_part < 0 ? n_part : 0, err);
        int sum = 0;
        size_t end = 0;
        for (int i = 0; i < n_part; i++) {
            assert_true(part[i].at >= end);
            end = part[i].at + part[i].size;
            assert_true(end <= n);
            assert_int_equal(utf8_clean_prefix(text + part[i].at, part[i].size), part[i].size);
            int count = count_characters(NULL, text + part[i].at, part[i].size);
            assert_in_range(count, 0, limit);
            sum += count;
        }
        int tabs = 0;
        for (size_t i = 0; i < n; i++) tabs += text[i] == '\t'; /* counted, but may be trimmed */
        assert_in_range(sum, count_characters(NULL, text, n) - tabs,
                        count_characters(NULL, text, n));
        assert_true(calls < 8 * (int)n + 40);
        xfree(part);
    }
}

static int count_too_many(void *ctx, const char *text, size_t size) {
    (void)ctx, (void)text;
    return size ? 5 : 0;
}
static int count_fails(void *ctx, const char *text, size_t size) {
    (void)ctx, (void)text, (void)size;
    return HEED_ENOMEM;
}

TEST(says_why_not) {
    struct err err = {0};
    struct split_part *part;
    struct split_rule rule = {4, count_too_many, NULL, NULL};
    ASSERT_ERR(split_text(&part, "abc", 3, &rule, &err), err, HEED_ELIMIT, "more than 4 tokens");
    assert_null(part);
    rule.count = count_fails;
    ASSERT_ERR(split_text(&part, "abc", 3, &rule, &err), err, HEED_ENOMEM, "");
}

/* A long line without a space must not take time that grows with its square. */
TEST(long_words_are_quick) {
    size_t n = 1 << 20;
    char *text = xmalloc(n);
    struct err err = {0};
    struct split_part *part;
    int calls = 0;
    memset(text, 'a', n);
    int n_part =
        split_text(&part, text, n, &(struct split_rule){100, count_characters, &calls, NULL}, &err);
    ASSERT_OK(n_part < 0 ? n_part : 0, err);
    assert_in_range(n_part, n / 100, n / 100 + 1);
    assert_true(calls < 30 * n_part);
    xfree(part);
    xfree(text);
}

TESTS(T(cuts_by_rank), T(cuts_without_spaces), T(loses_nothing), T(says_why_not),
      T(long_words_are_quick))
