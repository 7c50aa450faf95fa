/* test_words.c — what a word is, and which word each piece of a tokenizer belongs to. */
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/tokenizer.h"
#include "data/words.h"
#include "test.h"

/* The words with | between them. */
static const char *cut(const char *text, enum words_unit unit) {
    static char out[4096];
    struct span word[256];
    int n = words_split(word, 256, unit, text, strlen(text)), at = 0;
    assert_in_range(n, 0, 256);
    out[0] = 0;
    for (int i = 0; i < n; i++)
        at += snprintf(out + at, sizeof out - (size_t)at, "%s%.*s", i ? "|" : "",
                       word[i].end - word[i].begin, text + word[i].begin);
    return out;
}

#define WORDS(text, expected)  assert_string_equal(cut(text, WORDS_WORDS), expected)
#define TOKENS(text, expected) assert_string_equal(cut(text, WORDS_TOKENS), expected)

TEST(punctuation) {
    WORDS("", "");
    WORDS("  \t ", "");
    WORDS("Where is my book?", "Where|is|my|book|?");
    WORDS("Where is my book ?", "Where|is|my|book|?");
    WORDS("(a), \"b\"; c!", "(|a|)|,|\"|b|\"|;|c|!");
    WORDS("„Ja“, sagte er…", "„|Ja|“|,|sagte|er|…");
    WORDS("what?! no... a--b !!", "what|?|!|no|...|a|--|b|!!");
    WORDS("50% of $5", "50|%|of|$|5");
    WORDS("and/or", "and|/|or");
    WORDS(" words\xC2\xA0over\xE2\x80\x83there\xE2\x80\x8B", "words|over|there");
    WORDS("日本語。英語", "日本語|。|英語");
}

TEST(joiners) {
    WORDS("don't isn\xE2\x80\x99t", "don't|isn\xE2\x80\x99t");
    WORDS("well-known E-Mail-Adresse", "well-known|E-Mail-Adresse");
    WORDS("3.14 1,000.5 12:30 1\xE2\x81\x84"
          "2",
          "3.14|1,000.5|12:30|1\xE2\x81\x84"
          "2");
    WORDS("yes,no a:b 1, 2", "yes|,|no|a|:|b|1|,|2");
    WORDS("heed.h snake_case __x__", "heed.h|snake_case|__|x|__");
    WORDS("a.-b", "a|.|-|b"); /* a joiner stands alone */
    WORDS("-5 to +7", "-|5|to|+|7");
}

TEST(ends) {
    WORDS("the U.S. and z.B. this.", "the|U.S.|and|z.B.|this|.");
    WORDS("Mr. X. at 5. No", "Mr|.|X|.|at|5|.|No");
    WORDS("heed.h. a.bc. 1.2.", "heed.h|.|a.bc|.|1.2|.");
    WORDS("Ein- und Ausgang -", "Ein-|und|Ausgang|-");
    WORDS("Aus-", "Aus-"); /* the end of the text is like a space */
    WORDS("Ein-, 3- x", "Ein|-|,|3|-|x");
    WORDS("it 's we 'll I \xE2\x80\x99m", "it|'s|we|'ll|I|\xE2\x80\x99m");
    WORDS("'So' 's' x's 'said", "'|So|'|'s|'|x's|'|said");
    WORDS("parents' ''", "parents|'|''");
}

TEST(emoji) {
    WORDS("ok\xF0\x9F\x98\x80", "ok|\xF0\x9F\x98\x80");
    WORDS("\xE2\x9D\xA4\xEF\xB8\x8F!", "\xE2\x9D\xA4\xEF\xB8\x8F|!"); /* a selector */
    WORDS("\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBDx", "\xF0\x9F\x91\x8D\xF0\x9F\x8F\xBD|x"); /* a skin */
    WORDS("\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB.",                            /* joined */
          "\xF0\x9F\x91\xA9\xE2\x80\x8D\xF0\x9F\x92\xBB|.");
}

TEST(tokens) {
    TOKENS("Where is my book ?", "Where|is|my|book|?");
    TOKENS(" don't, (really)\xC2\xA0...", "don't,|(really)|...");
    TOKENS("", "");
}

/* Of any bytes: words are in order, not empty, inside the text, free of spaces, and together hold
 * all that is not space. */
TEST(any_bytes) {
    static const char *const part[] = {"a", "Z",    "7",    "'",    ".",    ",",    "-", " ",
                                       ":", "\xC3", "\xBC", "\xE2", "\x9D", "\x99", "_", "\xFF"};
    struct rng rng = {.key = 3};
    for (int round = 0; round < 20000; round++) {
        char text[200];
        int size = 0;
        for (uint32_t n = rng_below(&rng, 24); n > 0; n--) {
            const char *p = part[rng_below(&rng, sizeof part / sizeof *part)];
            memcpy(text + size, p, strlen(p));
            size += (int)strlen(p);
        }
        for (int unit = WORDS_WORDS; unit <= WORDS_TOKENS; unit++) {
            struct span word[200];
            int n = words_split(word, 200, (enum words_unit)unit, text, (size_t)size), at = 0;
            assert_int_equal(n, words_split(NULL, 0, (enum words_unit)unit, text, (size_t)size));
            for (int i = 0; i <= n; i++) {
                int end = i < n ? word[i].begin : size;
                for (; at < end; at++) assert_int_equal(text[at], ' ');
                assert_int_equal(at, end);
                if (i == n) break;
                assert_true(word[i].begin < word[i].end && word[i].end <= size);
                assert_null(memchr(text + at, ' ', (size_t)(word[i].end - at)));
                at = word[i].end;
            }
        }
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

TEST(map) {
    /* "Wo is t  mein?" with words at 0-2, 3-6, 8-12, 12-13 */
    const struct span word[] = {{0, 2}, {3, 6}, {8, 12}, {12, 13}};
    const struct span piece[] = {
        {0, 0},   /* an empty one: of the word it begins */
        {0, 2},   /* a word */
        {2, 5},   /* a space and the beginning of a word */
        {5, 6},   /* its end */
        {6, 8},   /* spaces: of the next word */
        {8, 13},  /* two words: of the one it has most of */
        {12, 13}, /* the last */
        {13, 13}, /* behind it */
    };
    const int expected[] = {0, 0, 1, 1, 2, 2, 3, -1};
    int of[8];
    words_map(of, piece, 8, word, 4);
    for (int i = 0; i < 8; i++) assert_int_equal(of[i], expected[i]);
    words_map(of, (const struct span[]){{0, 2}}, 1, (const struct span[]){{0, 1}, {1, 2}}, 2);
    assert_int_equal(of[0], 0); /* a tie */
    words_map(of, piece, 2, word, 0);
    assert_int_equal(of[0], -1);
    assert_int_equal(of[1], -1);
}

static struct tokenizer *learn(int size, int byte_fallback) {
    static const char *const line[] = {"Where is my book? It's on the well-known table, isn't it?",
                                       "Wo ist mein Buch? Es ist auf dem bekannten Tisch, nicht?",
                                       "They said: \"3.14 is not 3,14!\" (Really...)"};
    char *path = path_join(test_dir(), "c"), *out = path_join(test_dir(), "t.model");
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 300; i++) fprintf(f, "%s\n", line[i % 3]);
    assert_int_equal(fclose(f), 0);
    struct err err = {0};
    struct tokenizer *t;
    struct tokenizer_train_options o = {.input = (const char *const *)&path,
                                        .n_input = 1,
                                        .out = out,
                                        .size = size,
                                        .type = TOKENIZER_BPE,
                                        .byte_fallback = byte_fallback};
    ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&t, out, &err), err);
    xfree(path);
    xfree(out);
    return t;
}

/* Every word is made of exactly the pieces that are mapped to it. */
static void check_pieces(const struct tokenizer *t, const char *text) {
    struct words w = {0}, again = {0};
    int32_t ids[300];
    int n = words_encode(&w, WORDS_WORDS, t, text, strlen(text));
    assert_in_range(n, 1, 299);
    assert_int_equal(n, w.n_piece);
    assert_int_equal(tokenizer_encode_end(t, text, strlen(text), ids, 300), n + 1);
    assert_memory_equal(ids, w.ids, (size_t)n * sizeof *ids);
    for (int k = 0; k < w.n; k++) {
        int at = w.word[k].begin;
        for (int i = 0; i < n; i++) {
            if (w.of[i] != k) continue;
            int begin = w.piece[i].begin;
            while (begin < at && text[begin] == ' ') begin++;
            assert_int_equal(begin, at);
            at = w.piece[i].end;
        }
        assert_int_equal(at, w.word[k].end);
    }
    /* From ids alone, end mark included, it is the same. */
    assert_int_equal(words_of_ids(&again, WORDS_WORDS, t, ids, n + 1), w.n);
    assert_string_equal(again.text, text);
    assert_memory_equal(again.word, w.word, (size_t)w.n * sizeof *w.word);
    assert_memory_equal(again.of, w.of, (size_t)n * sizeof *w.of);
    assert_int_equal(again.of[n], -1);
    words_release(&w);
    words_release(&again);
}

TEST(pieces) {
    struct tokenizer *t = learn(90, 0);
    check_pieces(t, "Where is my book?");
    check_pieces(t, "Where is my book ?");
    check_pieces(t, "\"Wo ist mein Buch?\" It's 3.14, isn't it (well-known)...");
    check_pieces(t, "m");
    tokenizer_free(t);
    t = learn(320, 1);
    check_pieces(t, "Where is my b\xC3\xBCk?"); /* two pieces for one character */
    check_pieces(t, "\xE6\xBC\xA2\xE5\xAD\x97 \xF0\x9F\x98\x80!");
    tokenizer_free(t);
}

/* What normalisation changes still has its bytes in the text as given. */
TEST(normalised) {
    struct tokenizer *t = learn(90, 0);
    const char *text = "  my \xEF\xBD\x82ook  \xE2\x80\xA6 it"; /* a full-width b, an ellipsis */
    struct words w = {0};
    int n = words_encode(&w, WORDS_WORDS, t, text, strlen(text));
    assert_true(n > 0);
    assert_int_equal(w.n, 4);
    int seen[4] = {0};
    for (int i = 0, last = 0; i < n; i++) {
        assert_in_range(w.of[i], last, 3);
        last = w.of[i];
        seen[last]++;
    }
    for (int k = 0; k < 4; k++) assert_true(seen[k] > 0);
    assert_int_equal(words_of_ids(&w, WORDS_WORDS, t, w.ids, n), 4);
    int32_t bad = 90;
    assert_int_equal(words_of_ids(&w, WORDS_WORDS, t, &bad, 1), HEED_EINVAL);
    assert_int_equal(words_of_ids(&w, WORDS_WORDS, t, NULL, 0), 0);
    words_of_text(&w, WORDS_TOKENS, "a b?", 4);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.n_piece, 0);
    words_release(&w);
    tokenizer_free(t);
}

TESTS(T(punctuation), T(joiners), T(ends), T(emoji), T(tokens), T(any_bytes), T(map), T(pieces),
      T(normalised))
