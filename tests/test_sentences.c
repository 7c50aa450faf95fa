/* test_sentences.c — where sentences end, by hand-made examples and on any bytes; what of a text is
 * kept when its sentences are translated. */
#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/passages.h"
#include "test.h"

/* The text of a gold line, its marks taken out; ends[] says where sentences are to end. */
static size_t read_gold(const char *line, char *text, char *ends) {
    size_t n = 0;
    memset(ends, 0, strlen(line) + 1);
    for (const char *p = line; *p && *p != '\n'; p++) {
        if (p[0] == '|' && p[1] == '|') {
            ends[n] = 1;
            p++;
        } else if (p[0] == ' ' && strspn(p, " ") && p[strspn(p, " ")] == '|' &&
                   p[strspn(p, " ") + 1] != '|') {
            size_t before = strspn(p, " "), behind = strspn(p + before + 1, " ");
            ends[n] = 1;
            for (size_t i = 0; i < before + behind - 1; i++) text[n++] = ' ';
            p += before + behind;
        } else {
            text[n++] = *p;
        }
    }
    ends[n] = 1;
    return n;
}

static int wrong_ends(const struct sentence_rules *rules, const char *text, size_t n, char *ends) {
    int wrong = 0;
    for (size_t at = 0; at < n;) {
        size_t end = sentence_end(rules, text, n, at);
        assert_true(end > at && end <= n);
        for (size_t i = at + 1; i <= end; i++) wrong += ends[i] != (i == end);
        at = sentence_skip_space(text, n, end);
    }
    return wrong;
}

static int check_gold(const char *language) {
    char path[256], line[1024], text[1024], ends[1024];
    int n_line = 0, n_wrong = 0;
    snprintf(path, sizeof path, "tests/data/sentences/%s.txt", language);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        size_t n = read_gold(line, text, ends);
        if (wrong_ends(sentence_rules(language), text, n, ends)) {
            fprintf(stderr, "%s: %s", language, line);
            n_wrong++;
        }
        n_line++;
    }
    fclose(f);
    assert_int_equal(n_wrong, 0);
    return n_line;
}

TEST(finds_the_ends_of_sentences) {
    assert_true(check_gold("en") >= 100);
    assert_true(check_gold("de") >= 90);
    assert_true(check_gold("any") >= 15);
}

TEST(knows_languages_by_their_tags) {
    assert_ptr_equal(sentence_rules("de-AT"), sentence_rules("de"));
    assert_ptr_equal(sentence_rules("xx"), sentence_rules(NULL));
    assert_ptr_equal(sentence_rules("d"), sentence_rules(NULL));
    assert_ptr_equal(sentence_rules(""), sentence_rules(NULL));
    assert_ptr_not_equal(sentence_rules("de"), sentence_rules("en"));
}

/* ---- passages -------------------------------------------------------------------------------- */

/* The text with every passage in brackets, joined as a translator would. */
static const char *marked(const char *language, const char *text) {
    static char out[4096];
    size_t at = 0, n = 0, last = 0, last_size = 0;
    struct passages p = passages_of(sentence_rules(language), text, strlen(text));
    for (struct passage s; passages_next(&p, &s); at = s.at + s.size) {
        n += passages_gap(out + n, text + at, s.at - at, text + last, last_size);
        n += (size_t)sprintf(out + n, "[%.*s]", (int)s.size, text + s.at);
        last = s.at;
        last_size = s.size;
    }
    strcpy(out + n, text + at);
    return out;
}

TEST(keeps_what_is_between_sentences) {
    static const char *const want[] = {
        "[One.] [Two.]",
        "  [One.]   [Two.]  \n\n\t[Three]\r\n",
        "[Dear Ann,]\r\n\r\n[I am well.] [Are you?]\r\n-- \r\n[Bob]",
        "- [first]\n- [second]\n  * [third]\n",
        "1. [First.]\n2) [Second.]\na) [Third.]\n(b) [Fourth.]\n",
        "\xE2\x80\xA2 [point]\n> > [quoted]\n## [Heading]\n",
        "1.\t[First]\t[cell]\t\t[last]\n",
        "---\n[text]\n***\n",
        "[He is here.] ... [Yes.]\n",
        "[Home] | [News] | [Contact us]\n| [a] | [b|c] |\n", /* bars */
        "[Start] \xE2\x80\xBA [Help] \xC2\xB7 [v1] |",
        "[A line\xC2\xA0with odd\xE2\x80\x89spaces.]\xC2\xA0[Two.]\xE2\x80\xA8[Three.]",
        "[-5 degrees]\n[*bold*]\n[#tag]\n[3.5 is more.]\n",
        "\xF0\x9F\x8E\x89 [We won]\xF0\x9F\x98\x80[yes] \xE2\x9D\xA4\xEF\xB8\x8F!\n- "
        "\xF0\x9F\x98\x80 [one]", /* emoji */
        "1\xEF\xB8\x8F\xE2\x83\xA3 [First] \xF0\x9F\x87\xA9\xF0\x9F\x87\xAA",
        "[no newline]",
        "",
        "\n",
        " \t \r\n \n",
        "-",
        "- ",
        "-\n[x]",
        "1.",
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char text[512];
        size_t n = 0;
        for (const char *p = want[i]; *p; p++)
            if (*p != '[' && *p != ']') text[n++] = *p;
        text[n] = 0;
        if (strcmp(text, "1.") == 0) continue; /* below */
        assert_string_equal(marked("en", text), want[i]);
    }
    assert_string_equal(marked("en", "1."), "[1.]");
    assert_string_equal(marked("de", "3. Oktober\n3. Ostern\n"), "[3. Oktober]\n3. [Ostern]\n");
}

TEST(puts_a_space_where_a_language_has_none) {
    char out[8];
    assert_int_equal(passages_gap(out, "", 0, "One.", 4), 1);
    assert_int_equal(out[0], ' ');
    assert_int_equal(passages_gap(out, "", 0, "\xE3\x80\x82", 3), 0);
    assert_int_equal(passages_gap(out, "", 0, "", 0), 0);
    assert_int_equal(passages_gap(out, "\n\n", 2, "One.", 4), 2);
}

/* Any bytes: passages are in order, neither empty nor beginning or ending with a space. */
TEST(takes_any_bytes) {
    static const char *const pool[] = {"a",           "Word",
                                       " ",           ".",
                                       ". ",          "! ",
                                       "\n",          "。",
                                       "ä",           "…",
                                       "\"",          "12",
                                       "\r\n",        "1. ",
                                       "- ",          "z. B",
                                       "\t",          "(",
                                       "\xC3",        "\x80",
                                       "I. ",         "\xF0\x9F\x98\x80",
                                       "\xE2\x80\x8D"};
    struct rng rng = {.key = 7};
    for (int round = 0; round < 5000; round++) {
        char text[600];
        size_t n = 0, at = 0;
        int pieces = (int)rng_below(&rng, 80);
        for (int i = 0; i < pieces; i++) {
            const char *p = pool[rng_below(&rng, sizeof pool / sizeof *pool)];
            memcpy(text + n, p, strlen(p));
            n += strlen(p);
        }
        struct passages p = passages_of(sentence_rules(round & 1 ? "de" : "en"), text, n);
        for (struct passage s; passages_next(&p, &s); at = s.at + s.size) {
            assert_true(s.at >= at && s.size > 0 && s.at + s.size <= n);
            assert_null(memchr(text + s.at, '\n', s.size));
            assert_null(memchr(text + s.at, '\t', s.size));
            assert_true(text[s.at] != ' ' && text[s.at + s.size - 1] != ' ');
        }
        assert_int_equal(p.at, n);
    }
}

/* Megabytes of what would take forever if anything looked back or ahead without a limit. */
TEST(takes_linear_time) {
    static const char *const unit[] = {"a",   ". ", ".",     " ",  "\x80",      "a. b ",
                                       "\"",  "1.", ".    ", "- ", ".\xC2\xA0", "[1",
                                       "I. ", "\n", "(",     "\t", "。「",      ". \xC2\xBB"};
    enum { SIZE = 1 << 20 };
    char *text = xmalloc(SIZE);
    for (size_t u = 0; u < sizeof unit / sizeof *unit; u++) {
        size_t length = strlen(unit[u]);
        for (size_t i = 0; i < SIZE; i++) text[i] = unit[u][i % length];
        struct passages p = passages_of(sentence_rules("de"), text, SIZE);
        size_t n = 0;
        for (struct passage s; passages_next(&p, &s);) n++;
        assert_true(n <= SIZE / 2);
    }
    xfree(text);
}

TESTS(T(finds_the_ends_of_sentences), T(knows_languages_by_their_tags),
      T(keeps_what_is_between_sentences), T(puts_a_space_where_a_language_has_none),
      T(takes_any_bytes), T(takes_linear_time))
