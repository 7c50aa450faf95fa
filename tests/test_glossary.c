/* test_glossary.c — terms found in texts, judged by a finder that tries everything; how they are
 * written; files of terms with everything that can be wrong with them; and that none of it gets
 * slow where somebody wants it to. */
#include "search/glossary.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/unicode.h"
#include "corpora.h"
#include "data/text.h"
#include "test.h"

static struct tokenizer *tokenizer;
static struct speller *speller;

/* A number in letters, which the tokenizer has pieces for. */
static const char *spelled(int number) {
    static char out[16];
    snprintf(out, sizeof out, "%d", number);
    for (char *p = out; *p; p++) *p = (char)(*p - '0' + 'k');
    return out;
}

static void open_tokenizer(void) {
    static const char *const demo[] = {"demo/train.en.xz", "demo/train.de.xz"};
    struct err err = {0};
    char *out = path_join(test_dir(), "t.model");
    struct tokenizer_train_options o = {.input = demo,
                                        .n_input = 2,
                                        .out = out,
                                        .type = TOKENIZER_BPE,
                                        .size = 500,
                                        .sample = 1000};
    ASSERT_OK(tokenizer_train(&o, NULL, &err), err);
    ASSERT_OK(tokenizer_open(&tokenizer, out, &err), err);
    speller = speller_new(tokenizer);
    xfree(out);
}

static void close_tokenizer(void) {
    speller_free(speller);
    tokenizer_free(tokenizer);
}

static struct glossary *of(const char *const *pair, int n) {
    struct err err = {0};
    struct glossary *g = glossary_new();
    for (int i = 0; i < n; i++)
        ASSERT_OK(glossary_add(g, pair[2 * i], strlen(pair[2 * i]), pair[2 * i + 1],
                               strlen(pair[2 * i + 1]), &err),
                  err);
    return g;
}

/* The terms found, as they are in the glossary: "a|b|c". */
static const char *found(const struct glossary *g, const char *text) {
    static char all[1 << 16];
    struct words words = {0};
    struct keep keep = {0};
    struct glossary_search how = {
        .glossary = g, .speller = speller, .words = &words, .keep = &keep};
    size_t size = 0;
    const struct terms *t = glossary_find(&how, text, strlen(text));
    all[0] = 0;
    for (int i = 0; t && i < t->n; i++) {
        char one[1000];
        const struct term_form *f = &t->term[i].form[0];
        assert_true(tokenizer_decode(tokenizer, f->id, f->n, one, sizeof one) > 0);
        size += (size_t)snprintf(all + size, sizeof all - size, "%s%s", i ? "|" : "", one);
    }
    if (how.missed) snprintf(all + size, sizeof all - size, "%s+%d", size ? "|" : "", how.missed);
    keep_release(&keep);
    words_release(&words);
    return all;
}

TEST(finds_whole_words_and_the_longest_first) {
    static const char *const pair[] = {
        "network",   "Netz",     "network card", "Karte",         "IT",      "Informatik",
        "Tor",       "gate",     "c++",          "C plus",        "don't",   "nicht",
        "Straße",    "road",     "ΟΔΌΣ",         "way",           "card",    "a card",
        "new  York", "the city", "tor",          "a small thing", "ÉCOLE x", "school"};
    open_tokenizer();
    struct glossary *g = of(pair, 12);
    assert_int_equal(glossary_size(g), 12);
    assert_string_equal(found(g, "A network, a Network and NETWORK."), "Netz|Netz|Netz");
    assert_string_equal(found(g, "networks subnetwork network-card"), "");
    assert_string_equal(found(g, "The network card of the network, card by card"),
                        "Karte|Netz|a card|a card");
    assert_string_equal(found(g, "Is it IT or It?"), "Informatik");
    assert_string_equal(found(g, "Ein Tor, TOR und tor, toR"),
                        "gate|a small thing|a small thing|a small thing");
    assert_string_equal(found(g, "C++ and c++, (c++)"), "C plus|C plus|C plus");
    assert_string_equal(found(g, "I don't"), "nicht");
    assert_string_equal(found(g, "die Straße, STRASSE, straße"), "road");
    assert_string_equal(found(g, "ΟΔΌΣ οδός"), "way");
    assert_string_equal(found(g, "new york, new\tYork, new-York, New York"), "the city");
    assert_string_equal(found(g, "École X, ÉCOLE X"), "school");
    assert_string_equal(found(g, ""), "");
    glossary_free(g);
    close_tokenizer();
}

TEST(the_later_of_equal_terms_counts) {
    static const char *const pair[] = {"house", "one", " house ", "two", "House", "three"};
    open_tokenizer();
    struct glossary *g = of(pair, 3);
    assert_int_equal(glossary_size(g), 2);
    assert_string_equal(found(g, "house House HOUSE"), "two|three|two");
    glossary_free(g);
    close_tokenizer();
}

/* ---- everything tried ------------------------------------------------------------------------ */

enum { N_ENTRY = 24, N_WORD = 3, N_TEXT = 24 };

struct slow_entry {
    char word[N_WORD][4];
    int n, number;
};

static void any_word(char out[4], struct rng *rng) {
    static const char *const base[] = {"a", "b", "ab", "ba"};
    strcpy(out, base[rng_below(rng, 4)]);
    for (char *p = out; *p; p++)
        if (rng_below(rng, 3) == 0) *p = (char)(*p - 32);
}

static int all_large(char (*word)[4], int n) {
    size_t size = (size_t)n - 1;
    for (int i = 0; i < n; i++)
        for (const char *p = word[i]; *p; p++, size++)
            if (*p >= 'a') return 0;
    return size > 1;
}

static int same_words(const struct slow_entry *e, char (*word)[4],
                      int (*order)(const char *a, const char *b)) {
    for (int i = 0; i < e->n; i++)
        if (order(e->word[i], word[i]) != 0) return 0;
    return 1;
}

static int in_small(const struct slow_entry *e) {
    for (int i = 0; i < e->n; i++)
        for (const char *p = e->word[i]; *p; p++)
            if (*p < 'a') return 0;
    return 1;
}

/* The entry for n words of the text, as glossary.h has it: the same, else one in small letters,
 * else, for a text in capitals, the newest. */
static const struct slow_entry *slow_match(const struct slow_entry *e, int n_entry, char (*word)[4],
                                           int n) {
    const struct slow_entry *best = NULL;
    for (int i = 0; i < n_entry; i++)
        if (e[i].n == n && same_words(&e[i], word, strcmp)) return &e[i];
    for (int i = 0; i < n_entry; i++)
        if (e[i].n == n && same_words(&e[i], word, strcasecmp) && in_small(&e[i])) return &e[i];
    for (int i = 0; i < n_entry && all_large(word, n); i++)
        if (e[i].n == n && same_words(&e[i], word, strcasecmp)) best = &e[i];
    return best;
}

static void join_words(char *out, char (*word)[4], int n) {
    out[0] = 0;
    for (int i = 0; i < n; i++) strcat(strcat(out, i ? " " : ""), word[i]);
}

TEST(finds_what_the_slow_finder_finds) {
    struct rng rng = {.key = 4};
    int n_found = 0;
    open_tokenizer();
    for (int round = 0; round < 400; round++) {
        struct slow_entry entry[N_ENTRY] = {0};
        struct err err = {0};
        struct glossary *g = glossary_new();
        int n_entry = 0, n_text = 1 + (int)rng_below(&rng, N_TEXT);
        char text[N_TEXT][4], joined[200], want[400] = "";
        for (int i = 0; i < N_ENTRY; i++) {
            struct slow_entry *e = &entry[n_entry], *old = NULL;
            e->n = 1 + (int)rng_below(&rng, N_WORD);
            for (int k = 0; k < e->n; k++) any_word(e->word[k], &rng);
            for (int k = 0; k < n_entry; k++)
                if (entry[k].n == e->n && same_words(&entry[k], e->word, strcmp)) old = &entry[k];
            join_words(joined, e->word, e->n);
            const char *number = spelled(i);
            if (glossary_add(g, joined, strlen(joined), number, strlen(number), &err)) continue;
            (old ? old : e)->number = i;
            n_entry += !old;
        }
        for (int i = 0; i < n_text; i++) any_word(text[i], &rng);
        join_words(joined, text, n_text);
        for (int at = 0, n; at < n_text; at += n) {
            const struct slow_entry *e = NULL;
            for (n = min_int(N_WORD, n_text - at); n > 0 && !e;)
                if (!(e = slow_match(entry, n_entry, text + at, n))) n--;
            if (e)
                sprintf(want + strlen(want), "%s%s", *want ? "|" : "", spelled(e->number)),
                    n_found++;
            else
                n = 1;
        }
        assert_string_equal(found(g, joined), want);
        glossary_free(g);
    }
    assert_true(n_found > 1000);
    close_tokenizer();
}

/* ---- writing --------------------------------------------------------------------------------- */

static void check_form(const struct term_form *f, const char *want, int glued) {
    char text[200];
    assert_int_equal(f->glued, glued);
    assert_true(tokenizer_decode(tokenizer, f->id, f->n, text, sizeof text) >= 0);
    assert_string_equal(text, want);
    int spaced = strncmp(tokenizer_piece(tokenizer, f->id[0]), "\xE2\x96\x81", 3) == 0;
    assert_int_equal(spaced, !glued);
}

TEST(a_term_has_forms) {
    static const char *const want[] = {"not that", "Not that", "NOT THAT"};
    struct keep keep = {0};
    struct term term;
    open_tokenizer();
    const char *text = want[0];
    assert_int_equal(speller_term(speller, &term, text, strlen(text), 0, &keep), 4);
    for (int k = 0; k < 4; k++) check_form(&term.form[k], want[k / 2], k % 2);
    assert_int_equal(speller_term(speller, &term, text, strlen(text), 1, &keep), 6);
    for (int k = 0; k < 6; k++) check_form(&term.form[k], want[k / 2], k % 2);
    int longest = 0;
    for (int k = 0; k < 6; k++) longest = max_int(longest, term.form[k].n);
    assert_int_equal(term.weight, longest);
    /* equal forms are one; what has no pieces is left out */
    assert_int_equal(speller_term(speller, &term, "Tom", 3, 0, &keep), 2);
    assert_int_equal(speller_term(speller, &term, "語", 3, 0, &keep), 0);
    char many[SPELLER_MAX + 1];
    memset(many, 'x', sizeof many);
    assert_int_equal(speller_term(speller, &term, many, SPELLER_MAX + 1, 0, &keep), 0);
    speller_term(speller, &term, many, SPELLER_MAX, 0, &keep); /* more pieces than a form has */
    assert_true(term.n == 0 || term.weight <= TERM_PIECES);
    keep_release(&keep);
    struct glossary *g = of((const char *const[]){"house", "語", "cat", "Katze"}, 2);
    assert_string_equal(found(g, "the house"), "+1");
    assert_string_equal(found(g, "the house of the cat"), "Katze|+1");
    char long_text[40 * 8] = "";
    for (int i = 0; i < TERMS_MAX + 7; i++) strcat(long_text, "cat ");
    assert_non_null(strstr(found(g, long_text), "|+7"));
    glossary_free(g);
    close_tokenizer();
}

TEST(says_terms_in_their_places) {
    static const char *const pair[] = {"network card", "a mat", "IT", "thing", "cat", "語"};
    static const struct {
        const char *text, *want;
    } one[] = {{"The network card, a NETWORK  CARD!", "The a mat, a a mat!"},
               {" Network card (IT) ", " A mat (thing) "},
               {"network card IT", "a mat thing"},
               {"IT", "Thing"},
               {"(IT)", "(thing)"},
               {"The cat of IT", "The cat of thing"}};
    open_tokenizer();
    struct glossary *g = of(pair, 3);
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) {
        struct words words = {0};
        struct keep keep = {0};
        struct glossary_search how = {
            .glossary = g, .speller = speller, .words = &words, .keep = &keep};
        assert_non_null(glossary_find(&how, one[i].text, strlen(one[i].text)));
        assert_int_equal(how.n_said, strlen(one[i].want));
        assert_memory_equal(how.said, one[i].want, how.n_said);
        keep_release(&keep);
        words_release(&words);
    }
    glossary_free(g);
    close_tokenizer();
}

TEST(capitals) {
    static const struct {
        uint32_t small, large;
    } pair[] = {{'a', 'A'},          {'z', 'Z'},     {'1', '1'},       {0xE4, 0xC4},
                {0xDF, 0xDF},        {0x3B1, 0x391}, {0x44F, 0x42F},   {0xFF, 0x178},
                {0x131, 0x131},      {0x101, 0x100}, {0x4E00, 0x4E00}, {0x1F600, 0x1F600},
                {0x10FFFF, 0x10FFFF}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++)
        assert_int_equal(unicode_capital(pair[i].small), pair[i].large);
    for (uint32_t code = 0; code < 0x20000; code++) { /* its lower case is what it came from */
        uint32_t large = unicode_capital(code), small[2];
        if (large == code) continue;
        assert_int_equal(unicode_lower(small, &large, 1), 1);
        if (code != 0x3C3 && code != 0x3C2) assert_int_equal(small[0], code);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_file(struct glossary **g, const char *text, size_t size, const char *from,
                     const char *to, struct err *err) {
    const char *path = corpora_write("g.tsv", text, size);
    *err = (struct err){0};
    return glossary_open(g, &(struct glossary_file){path, from, to, 0}, err);
}

static void check_file(const char *text, const char *from, const char *to, const char *probe,
                       const char *want) {
    struct glossary *g;
    struct err err;
    ASSERT_OK(open_file(&g, text, strlen(text), from, to, &err), err);
    assert_string_equal(found(g, probe), want);
    glossary_free(g);
}

static void check_bad(const char *text, size_t size, int code, const char *want) {
    struct glossary *g;
    struct err err;
    int rc = open_file(&g, text, size, "en", "de", &err);
    if (rc != code || !strstr(err.msg, want))
        fail_msg("%d '%s' instead of '%s'", rc, err.msg, want);
    assert_null(g);
}

TEST(reads_files) {
    open_tokenizer();
    check_file("house\tHaus\ncat\tKatze\n", NULL, NULL, "cat house", "Katze|Haus");
    check_file("\xEF\xBB\xBF# mine\r\n\r\n  house \t Haus \tnotes\r\n \t \r\ncat\tKatze", "en",
               "de", "cat house", "Katze|Haus");
    static const char columns[] = "#en\tde\tpt-BR\nhouse\tHaus\tcasa\ncat\tKatze\tgato\n";
    check_file(columns, "en", "de", "cat Katze", "Katze");
    check_file(columns, "de", "en", "cat Katze", "cat");
    check_file(columns, "de-AT", "pt", "Haus", "casa");
    check_file(columns, NULL, NULL, "cat", "Katze");
    check_file("# en\tde\nHaus\thouse\n", "de", "en", "Haus", "house"); /* a comment */
    check_file("", "de", "en", "Haus", "");
    struct glossary *g;
    struct err err;
    const char *path = corpora_write("g.tsv", "house\tHaus\n", 11);
    ASSERT_OK(glossary_open(&g, &(struct glossary_file){path, NULL, NULL, 1}, &err), err);
    assert_string_equal(found(g, "Haus house"), "house");
    glossary_free(g);
    path = corpora_write("g.tsv", columns, strlen(columns));
    assert_int_equal(glossary_open(&g, &(struct glossary_file){path, "de", "en", 1}, &err),
                     HEED_EINVAL);
    assert_non_null(strstr(err.msg, "nothing to reverse"));
    assert_int_equal(glossary_open(&g, &(struct glossary_file){"/nowhere/g", 0, 0, 0}, &err),
                     HEED_EIO);
    close_tokenizer();
}

TEST(says_what_is_wrong_with_a_file) {
    char many[1000];
    int n = sprintf(many, "a\tb\n\n");
    memset(many + n, 'x', 300);
    memcpy(many + n + 300, "\ty\n", 4);
    check_bad(many, (size_t)n + 303, HEED_ELIMIT, ":3: the source term has 300 bytes; 256 is");
    n = sprintf(many, "x\t");
    memset(many + n, 'y', 300);
    check_bad(many, (size_t)n + 300, HEED_ELIMIT, ":1: the target term has 300 bytes; 256 is");
    for (n = 0; n < 99; n += 3) memcpy(many + n, "ab ", 3);
    memcpy(many + n, "\ty", 3);
    check_bad(many, (size_t)n + 2, HEED_ELIMIT, "has 33 words; 32 are the most");
    check_bad("a\tb\nhouse Haus\n", 15, HEED_EFORMAT, ":2: no tab; a line is a term, a tab and");
    check_bad("a\tb\n\tHaus\n", 10, HEED_EFORMAT, ":2: the source term is empty");
    check_bad("house\t \n", 8, HEED_EFORMAT, ":1: the target term is empty");
    check_bad("a\tb\nho\xFFse\tHaus\n", 16, HEED_EFORMAT, ":2: not UTF-8");
    check_bad("a\tb\nhouse\tHa\x1B[2Jus\n", 19, HEED_EFORMAT, "that is not plain UTF-8 text");
    check_bad("a\tb\nhouse\tHa\0us\n", 16, HEED_EFORMAT, ":2: not UTF-8");
    check_bad("#de\tfr\nHaus\tmaison\n", 19, HEED_ECONFIG, "names no column for en");
    check_bad("#fr\tde\ten\na\tb\n", 14, HEED_EFORMAT, ":2: 2 columns; the one that is wanted");
    char *cases = xcalloc(64, 64);
    for (int i = 0, at = 0; i < 16; i++)
        at += sprintf(cases + at, "%c%c%c%c\tx\n", i & 1 ? 'a' : 'A', i & 2 ? 'b' : 'B',
                      i & 4 ? 'c' : 'C', i & 8 ? 'd' : 'D');
    check_bad(cases, strlen(cases), HEED_ELIMIT, ":9: there are 8 terms already that differ");
    xfree(cases);
    char *line = xmalloc(TEXT_MAX_LINE + 10);
    memset(line, 'x', TEXT_MAX_LINE + 10);
    check_bad(line, TEXT_MAX_LINE + 10, HEED_ELIMIT, ":1: more than 65536 bytes");
    xfree(line);
}

/* ---- size ------------------------------------------------------------------------------------ */

/* Seconds to find the terms of a text of n words "a". */
static double time_to_find(const struct glossary *g, int n) {
    struct words words = {0};
    struct keep keep = {0};
    struct glossary_search how = {
        .glossary = g, .speller = speller, .words = &words, .keep = &keep};
    char *text = xmalloc((size_t)n * 2);
    for (int i = 0; i < n; i++) memcpy(text + (size_t)i * 2, "a ", 2);
    double begin = clock_seconds();
    assert_non_null(glossary_find(&how, text, (size_t)n * 2));
    begin = clock_seconds() - begin;
    xfree(text);
    keep_release(&keep);
    words_release(&words);
    return begin;
}

/* 100,000 terms: opened in a moment; and where every word of the text begins the longest of terms
 * and none fits but the shortest, ten times the text takes about ten times as long. */
TEST(many_terms_are_no_trouble) {
    struct err err = {0};
    struct glossary *g = glossary_new();
    char term[100], all[64];
    open_tokenizer();
    double begin = clock_seconds();
    for (int i = 0; i < 100000; i++) {
        int n = snprintf(term, sizeof term, "term %s of many", spelled(i));
        ASSERT_OK(glossary_add(g, term, (size_t)n, term, (size_t)n, &err), err);
    }
    memset(all, 0, sizeof all);
    for (int i = 0; i < GLOSSARY_MAX_WORDS - 1; i++) memcpy(all + (size_t)i * 2, "a ", 2);
    strcat(all, "z");
    ASSERT_OK(glossary_add(g, all, strlen(all), "no", 2, &err), err);
    ASSERT_OK(glossary_add(g, "a", 1, "yes", 3, &err), err);
    double adding = clock_seconds() - begin;
    assert_string_equal(found(g, "term r of many, term ttttt of many, term lkkkkk of many"),
                        "term r of many|term ttttt of many");
    double little = time_to_find(g, 20000), much = time_to_find(g, 200000);
    print_message("adding %.3f s, finding %.4f and %.4f s\n", adding, little, much);
    assert_true(adding < 10 && much < 40 * little + 1);
    glossary_free(g);
    close_tokenizer();
}

TESTS(T(finds_whole_words_and_the_longest_first), T(the_later_of_equal_terms_counts),
      T(finds_what_the_slow_finder_finds), T(a_term_has_forms), T(says_terms_in_their_places),
      T(capitals), T(reads_files), T(says_what_is_wrong_with_a_file), T(many_terms_are_no_trouble))
