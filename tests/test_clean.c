/* test_clean.c — the filters of a corpus: what must go for which reason, and good pairs that look
 * bad and must stay; languages; the table of hashes; aligned lines. */
#include <pthread.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/clean.h"
#include "data/clean_line.h"
#include "data/language.h"
#include "data/seen.h"
#include "test.h"

/* ---- helpers --------------------------------------------------------------------------------- */

static struct clean_options defaults(void) {
    struct clean_options o = {0};
    options_default(clean_rows, &o);
    o.language[0] = "en";
    o.language[1] = "de";
    return o;
}

static struct line line_of(const char *text) {
    return (struct line){.text = text, .size = strlen(text)};
}

static struct pair pair_of(const char *src, const char *tgt) {
    return (struct pair){{line_of(src), line_of(tgt)}};
}

static struct cleaner *cleaner_of(const struct clean_options *o, struct pool **pool, int threads) {
    struct err err;
    struct cleaner *c;
    ASSERT_OK(pool_new(pool, threads, &err), err);
    ASSERT_OK(cleaner_new(&c, o, *pool, &err), err);
    return c;
}

static struct clean_verdict verdict_on(const struct clean_options *o, const struct pair *pair) {
    struct pool *pool;
    struct clean_verdict v;
    struct cleaner *c = cleaner_of(o, &pool, 1);
    cleaner_run(c, &v, pair, 1);
    cleaner_free(c);
    pool_free(pool);
    return v;
}

static const char *name_of(enum clean_reason why) {
    return why == CLEAN_KEPT ? "kept" : clean_reasons[why];
}

static const char *write_file(const char *name, const char *text) {
    static char path[4][512];
    static int next;
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", test_dir(), name);
    FILE *f = fopen(p, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, strlen(text), f), strlen(text));
    assert_int_equal(fclose(f), 0);
    return p;
}

/* ---- what must go ---------------------------------------------------------------------------- */

#define AAAA  "aaaaaaaaaaaaaaaaaaaa"
#define LOREM "eins zwei drei vier fünf sechs sieben acht neun zehn "

static const struct bad {
    const char *src, *tgt;
    enum clean_reason why;
    int side;
} bad[] = {
    {"", "Guten Tag.", CLEAN_EMPTY, 0},
    {"Good day.", " \t \xC2\xA0", CLEAN_EMPTY, 1},
    {"The price is " UTF8_REPLACEMENT "50.", "Der Preis beträgt 50.", CLEAN_BROKEN, 0},
    {"Ring the bell.", "Läute\x07 die Glocke.", CLEAN_BROKEN, 1},
    {"The door is open.", "Die TÃ¼r ist offen.", CLEAN_BROKEN, 1},
    {"Straße is spelt StraÃŸe here.", "Hier steht Straße.", CLEAN_BROKEN, 0},
    {"I donâ€™t know.", "Ich weiß es nicht.", CLEAN_BROKEN, 0},
    {"It is 20Â°C.", "Es hat 20 °C.", CLEAN_BROKEN, 0},
    {"A page\xEE\x80\x82 of symbols.", "Eine Seite voller Symbole.", CLEAN_BROKEN, 0},
    {"\xEF\xBB\xBFThe first line.", "Die erste Zeile.", CLEAN_BROKEN, 0},
    {"Ten times.",
     LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM LOREM
         LOREM LOREM LOREM LOREM "elf",
     CLEAN_LENGTH, 1},
    {"1 + 2 * 3 - 4 / 5 = 6.2 (?)", "Das ist eine Rechnung, die nicht aufgeht.", CLEAN_LETTERS, 0},
    {"--- *** ---", "--- *** ---", CLEAN_LETTERS, 0},
    {"It says " AAAA AAAA AAAA AAAA " there.", "Da steht etwas ganz Langes ohne Leerzeichen.",
     CLEAN_WORD, 0},
    {"See the report of the committee on fisheries, please, for the whole story behind it.",
     "Siehe (http://www.example.org/sides/getDoc.do?type=REPORT&reference=A7-2011-0024&l=DE) "
     "bitte.",
     CLEAN_WORD, 1},
    {"No way!!!!!!!!", "Auf keinen Fall!", CLEAN_REPEATED, 0},
    {"He said so.", "Er sagte sagte sagte sagte es.", CLEAN_REPEATED, 1},
    {"Press the button.", "Drücken Sie <b>den Knopf</b>.", CLEAN_MARKUP, 1},
    {"See <a href=\"x.html\">the page</a>.", "Siehe die Seite.", CLEAN_MARKUP, 0},
    {"The <img src=\"x.png\"> picture", "Das Bild", CLEAN_MARKUP, 0},
    {"Research &amp; development", "Forschung und Entwicklung", CLEAN_MARKUP, 0},
    {"It&#39;s late.", "Es ist spät.", CLEAN_MARKUP, 0},
    {"Copyright and all rights reserved by us", "Copyright and all rights reserved by us",
     CLEAN_COPY, 2},
    {"Yes.", "Darüber haben wir doch gestern Abend schon lange genug gesprochen.", CLEAN_RATIO, 1},
    {"I think the first thing you might want to do is to put some fuel into your car.", "Tanke.",
     CLEAN_RATIO, 0},
    {"The heads of state and government have approved the road map of the Commission.",
     "und Regierungschefs haben den Fahrplan gebilligt.", CLEAN_FRAGMENT, 1},
    {"as I said before, a tax on energy.",
     "Es geht, wie ich bereits in der letzten Woche sagte, um eine Steuer auf Energie.",
     CLEAN_FRAGMENT, 0},
    {"It was built in 1954.", "Es wurde 1945 gebaut.", CLEAN_NUMBERS, 2},
    {"The bill was 25 percent.", "Es waren 35 Prozent.", CLEAN_NUMBERS, 2},
    {"It weighs 1,234 grams.", "Es ist ziemlich schwer.", CLEAN_NUMBERS, 2},
    {"We met there last November.", "Wir trafen uns dort im November 2005.", CLEAN_NUMBERS, 2},
    {"I voted for this report on the fisheries of the Union.",
     "Balsavau už pranešimą dėl Sąjungos žuvininkystės politikos pertvarkymo.", CLEAN_LANGUAGE, 1},
    {"Le rapport que nous allons voter ce matin est le meilleur que nous ayons eu depuis "
     "longtemps.",
     "Der Bericht, über den wir heute abstimmen, ist der beste, den wir seit langem hatten.",
     CLEAN_LANGUAGE, 0},
    {"We have to talk about the future of the whole region very soon.",
     "We should really talk about what this means for all of them.", CLEAN_LANGUAGE, 1},
};

TEST(bad_pairs_go) {
    struct clean_options o = defaults();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pair pair = pair_of(bad[i].src, bad[i].tgt);
        struct clean_verdict v = verdict_on(&o, &pair);
        if (v.why != bad[i].why || v.side != bad[i].side)
            fail_msg("'%s' | '%s': %s, side %d; want %s, side %d", bad[i].src, bad[i].tgt,
                     name_of(v.why), v.side, name_of(bad[i].why), bad[i].side);
    }
}

/* Every reason can be switched off: then the pair stays, or goes for a later reason. */
TEST(keep_switches_off) {
    struct clean_options o = defaults();
    unsigned tried = 0;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pair pair = pair_of(bad[i].src, bad[i].tgt);
        o.keep = clean_reasons[bad[i].why];
        struct clean_verdict v = verdict_on(&o, &pair);
        if (v.why != CLEAN_KEPT && v.why <= bad[i].why)
            fail_msg("'%s' | '%s': %s with --keep %s", bad[i].src, bad[i].tgt, name_of(v.why),
                     o.keep);
        tried |= 1u << bad[i].why;
    }
    assert_int_equal(tried, (1u << CLEAN_EXCLUDED) - 1); /* every reason that a pair alone gives */
    o.keep =
        "empty,broken,length,letters,word,repeated,markup,copy,ratio,fragment,numbers,language";
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct pair pair = pair_of(bad[i].src, bad[i].tgt);
        assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    }
}

TEST(flags_of_lines) {
    struct clean_options o = defaults();
    struct pair pair = pair_of("Fine.", "Gut.");
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    pair.side[1].flags = LINE_REPLACED;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_BROKEN);
    pair.side[1] = (struct line){.text = "", .flags = LINE_TOO_LONG};
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_LENGTH);
    o.min_words = 2;
    pair = pair_of("Fine.", "Sehr gut.");
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_LENGTH);
}

/* ---- what must stay -------------------------------------------------------------------------- */

static const char *const good[][2] = {
    {"Go!", "Geh!"},
    {"Where is my book?", "Wo ist mein Buch?"},
    {"I'm 19.", "Ich bin 19."},
    {"It's 7:45.", "Es ist sieben Uhr fünfundvierzig."},
    {"Is this 223-1374?", "Ist dort 223-1374?"},
    {"I have done 4 out of 6 tasks.", "Vier der sechs Aufgaben habe ich erledigt."},
    {"We meet at 3 p.m.", "Wir treffen uns um 15 Uhr."},
    {"The train leaves at 12:05 a.m.", "Der Zug fährt um 0.05 Uhr."},
    {"It starts at 09:00.", "Es beginnt um 9 Uhr."},
    {"More than 1,000 people came.", "Mehr als 1.000 Menschen kamen."},
    {"The sum is 12,345.67 euros.", "Die Summe beträgt 12 345,67 Euro."},
    {"They paid 5 million dollars.", "Sie zahlten 5.000.000 Dollar."},
    {"It cost 1.5 million euros.", "Es kostete 1 500 000 Euro."},
    {"The sum was EUR 1100 million.", "Es waren 1,1 Milliarden Euro."},
    {"It costs 1.5 euros per kilo.", "Es kostet 1,50 Euro pro Kilo."},
    {"On the 21st of May 2004", "Am 21. Mai 2004"},
    {"The meeting is on 10/1/2020.", "Die Sitzung ist am 1.10.2020."},
    {"It began in the 1960s.", "Es begann in den sechziger Jahren."},
    {"The generation of 1968", "Die 68er"},
    {"A hundred and 100 more", "Hundert und noch hundert"},
    {"He lives at 25 Main Street.", "Er wohnt in der Main Street 25."},
    {"SQL Server", "SQL Server"},
    {"Microsoft Dynamics 365 Finance", "Microsoft Dynamics 365 Finance"},
    {"SQL Server Failover Cluster Installation", "SQL Server-Failoverclusterinstallation"},
    {"Use a < b or c > d.", "Verwenden Sie a < b oder c > d."},
    {"There are <a few things> here.", "Hier sind ein paar Dinge."},
    {"Write <b> before the text.", "Schreiben Sie <b> vor den Text."},
    {"SMEs in R&D; and others", "KMU in FuE; und andere"},
    {"The entity &quot; is a quote.", "Die Entität &quot; ist ein Anführungszeichen."},
    {"Hmmm!", "Hmmm!"},
    {"Wait ...... what?", "Warte ...... was?"},
    {"She wrote “IRM\xC3\x83” on the wall.", "Sie schrieb „IRM\xC3\x83“ an die Wand."},
    {"São Paulo and SÃO PAULO", "São Paulo und SÃO PAULO"},
    {"The café “Zoë” costs €5 – 10 £.", "Das Café „Zoë“ kostet 5 € – 10 £."},
    {"It is 20 °C – “nice” …", "Es sind 20 °C – „schön“ …"},
    {"\xF0\x9F\x98\x80 Have fun!", "\xF0\x9F\x98\x80 Viel Spaß!"},
    {"Why were you in Boston?", "Warum warst du in Boston?"},
    {"Tom likes science fiction.", "Tom mag Science-Fiction."},
    {"See File Connection Manager and the SQL Server Management Studio for more information.",
     "Weitere Informationen finden Sie unter File Connection Manager und SQL Server Management "
     "Studio."},
    {"The slogan is to think globally and act locally.",
     "Es gilt auch hier der Spruch „think globally and act locally“."},
    {"Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz is a word.",
     "Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz ist ein Wort."},
    {"It is http://www.example.org/consumers/empowerment/networks_en_and_more_of_it.htm here.",
     "Sie lautet http://www.example.org/consumers/empowerment/networks_en_and_more_of_it.htm."},
    {"Umberto Rossi, Dariusz Maciej Grabowski, Jean Dupont, María Rojo, Heikki Virtanen, Jan de "
     "Vries and Bjarne Hansen",
     "Umberto Rossi, Dariusz Maciej Grabowski, Jean Dupont, María Rojo, Heikki Virtanen, Jan de "
     "Vries, Bjarne Hansen"},
    {"iPhones are expensive.", "iPhones sind teuer."},
    {"strengthening of research", "Stärkung der Forschung"},
};

TEST(good_pairs_stay) {
    struct clean_options o = defaults();
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct pair pair = pair_of(good[i][0], good[i][1]);
        struct clean_verdict v = verdict_on(&o, &pair);
        if (v.why != CLEAN_KEPT)
            fail_msg("'%s' | '%s' dropped: %s, side %d", good[i][0], good[i][1], name_of(v.why),
                     v.side);
    }
}

/* Limits are limits: at them a pair stays, beyond them it goes; 0 is no limit. */
TEST(limits) {
    struct clean_options o = defaults();
    struct pair pair = pair_of("a b c d e", "a b c d f");
    o.max_words = 5;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    o.max_words = 4;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_LENGTH);
    o.max_words = 0;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    pair = pair_of("one two three", "a b c d e f g h i j"); /* 10 = 2 * 3 + 4 */
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    pair = pair_of("one two three", "a b c d e f g h i j k");
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_RATIO);
    o.word_ratio = 0;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    pair = pair_of("abcde", "aaabbbcccdddeeefffggghhhiiijjj"); /* 30 = 2 * 5 + 20 */
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    pair = pair_of("abcde", "aaabbbcccdddeeefffggghhhiiijjjk");
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_RATIO);
    o.char_ratio = 0;
    o.max_word = 31;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    o.max_word = 30;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_WORD);
    pair = pair_of("one two three four", "one two three four");
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_KEPT);
    o.max_copy = 3;
    assert_int_equal(verdict_on(&o, &pair).why, CLEAN_COPY);
}

/* ---- pairs beside others --------------------------------------------------------------------- */

static void expect_verdicts(const struct clean_options *o, const char *const (*text)[2],
                            const enum clean_reason *want, int n) {
    struct pool *pool;
    struct pair pair[32];
    struct clean_verdict v[32];
    struct cleaner *c = cleaner_of(o, &pool, 2);
    for (int i = 0; i < n; i++) pair[i] = pair_of(text[i][0], text[i][1]);
    cleaner_run(c, v, pair, n / 2); /* what was kept is remembered from window to window */
    cleaner_run(c, v + n / 2, pair + n / 2, n - n / 2);
    for (int i = 0; i < n; i++)
        if (v[i].why != want[i])
            fail_msg("pair %d, '%s' | '%s': %s, want %s", i, text[i][0], text[i][1],
                     name_of(v[i].why), name_of(want[i]));
    cleaner_free(c);
    pool_free(pool);
}

TEST(duplicates) {
    static const char *const text[][2] = {
        {"Come here.", "Komm her."},
        {"Come here.", "Kommt her."},
        {"Come here.", "Komm her."},
        {"COME HERE!", "Komm, her!"},
        {"Version 10", "Fassung 10"},
        {"Version 42", "Fassung 42"},
        {"Version 142", "Fassung 142"},
        {"ÄÖÜ here", "äöü da"},
        {"äöü here", "ÄÖÜ da"},
        {"?", "x!"},
        {"!", "x?"},
        {"Come here.", "Komm her."},
    };
    struct clean_options o = defaults();
    const enum clean_reason both[] = {-1, -1, CLEAN_DUPLICATE, CLEAN_NEAR, -1, CLEAN_NEAR,
                                      -1, -1, CLEAN_NEAR,      -1,         -1, CLEAN_DUPLICATE};
    o.letters = 0;
    expect_verdicts(&o, text, both, 12);
    o.keep = "near-duplicate";
    const enum clean_reason exact[] = {-1, -1, CLEAN_DUPLICATE, -1, -1, -1, -1, -1, -1,
                                       -1, -1, CLEAN_DUPLICATE};
    expect_verdicts(&o, text, exact, 12);
    o.keep = "duplicate";
    const enum clean_reason near[] = {-1, -1, -1,         CLEAN_NEAR, -1, CLEAN_NEAR,
                                      -1, -1, CLEAN_NEAR, -1,         -1, -1};
    expect_verdicts(&o, text, near, 12);
    o.keep = "duplicate,near-duplicate";
    const enum clean_reason none[] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    expect_verdicts(&o, text, none, 12);
}

TEST(times_of_a_side) {
    static const char *const text[][2] = {
        {"Come here.", "Komm her."},      {"Come here!", "Kommt her."},
        {"Come here", "Kommen Sie her."}, {"Get over here.", "Komm her."},
        {"Over here!", "Komm her!"},      {"Bye.", "Tschüs."},
    };
    struct clean_options o = defaults();
    o.max_per[0] = 2;
    const enum clean_reason source[] = {-1, -1, CLEAN_REPEAT_SIDE, -1, -1, -1};
    expect_verdicts(&o, text, source, 6);
    o.max_per[1] = 1;
    const enum clean_reason sides[] = {
        -1, -1, CLEAN_REPEAT_SIDE, CLEAN_REPEAT_SIDE, CLEAN_REPEAT_SIDE, -1};
    expect_verdicts(&o, text, sides, 6);
    o.keep = "repeated-side";
    const enum clean_reason none[] = {-1, -1, -1, -1, -1, -1};
    expect_verdicts(&o, text, none, 6);
}

TEST(excluded_texts) {
    static const char *const text[][2] = {
        {"Where is the dog?", "Wo ist er?"},   {"Who?", "Das Wetter ist schön!"},
        {"Good weather.", "Gutes Wetter."},    {"Call 110 now", "Ruf jetzt an"},
        {"Where is the dogma?", "Wo ist es?"}, {"...", "Pünktchen"},
    };
    struct clean_options o = defaults();
    const char *file[2] = {write_file("a", "\nwhere is the DOG\n...\n\n"),
                           write_file("b", "Das Wetter ist schön.\r\nCall 911 now!")};
    o.exclude = (struct option_list){file, 2};
    o.letters = 0;
    const enum clean_reason want[] = {CLEAN_EXCLUDED, CLEAN_EXCLUDED, -1, CLEAN_EXCLUDED, -1,
                                      CLEAN_EXCLUDED};
    expect_verdicts(&o, text, want, 6);
    o.keep = "excluded";
    const enum clean_reason none[] = {-1, -1, -1, -1, -1, -1};
    expect_verdicts(&o, text, none, 6);
}

TEST(wrong_options) {
    struct err err;
    struct pool *pool;
    struct cleaner *c;
    ASSERT_OK(pool_new(&pool, 1, &err), err);
    struct clean_options o = defaults();
    o.keep = "numbers,nonsense";
    ASSERT_ERR(cleaner_new(&c, &o, pool, &err), err, HEED_EINVAL,
               "keep: 'nonsense' is not one of empty, broken");
    o.keep = NULL;
    o.language[1] = "deutsch";
    ASSERT_ERR(cleaner_new(&c, &o, pool, &err), err, HEED_EINVAL, "tgt_lang: 'deutsch'");
    o = defaults();
    const char *file = "/nonexistent/file";
    o.exclude = (struct option_list){&file, 1};
    ASSERT_ERR(cleaner_new(&c, &o, pool, &err), err, HEED_EIO, "/nonexistent/file");
    pool_free(pool);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { MANY = 3000 };

/* Pairs of all kinds, many of them alike. */
static void make_pairs(struct pair *pair, char (*text)[2][128]) {
    struct rng rng = {.key = 5};
    size_t n_bad = sizeof bad / sizeof *bad, n_good = sizeof good / sizeof *good;
    for (int i = 0; i < MANY; i++) {
        size_t k = rng_below(&rng, (uint32_t)(n_bad + n_good));
        const char *src = k < n_bad ? bad[k].src : good[k - n_bad][0];
        const char *tgt = k < n_bad ? bad[k].tgt : good[k - n_bad][1];
        pair[i] = pair_of(src, tgt);
        if (rng_below(&rng, 2)) continue;
        unsigned number = rng_below(&rng, 1000);
        snprintf(text[i][0], sizeof text[i][0], "%u %.100s", number, "houses");
        snprintf(text[i][1], sizeof text[i][1], "%u %.100s", number, "Häuser");
        pair[i] = pair_of(text[i][0], text[i][1]);
    }
}

TEST(threads_do_not_matter) {
    static struct pair pair[MANY];
    static char text[MANY][2][128];
    static struct clean_verdict one[MANY], many[MANY];
    struct clean_options o = defaults();
    o.keep = "near-duplicate";
    o.max_per[0] = 200;
    make_pairs(pair, text);
    struct pool *pool;
    struct cleaner *c = cleaner_of(&o, &pool, 1);
    cleaner_run(c, one, pair, MANY);
    struct clean_report report = *cleaner_report(c);
    cleaner_free(c);
    pool_free(pool);
    c = cleaner_of(&o, &pool, 5);
    for (int at = 0, n; at < MANY; at += n) {
        n = at % 700 + 1 < MANY - at ? at % 700 + 1 : MANY - at;
        cleaner_run(c, many + at, pair + at, n);
    }
    assert_memory_equal(one, many, sizeof one);
    assert_memory_equal(&report, cleaner_report(c), sizeof report);
    cleaner_free(c);
    pool_free(pool);
    uint64_t dropped = 0;
    for (int i = 0; i < CLEAN_N; i++) {
        dropped += report.n_dropped[i];
        int first = 0;
        while (first < MANY && (int)one[first].why != i) first++;
        assert_int_equal(report.first_dropped[i], first < MANY ? first + 1 : 0);
    }
    assert_int_equal(report.n_read, MANY);
    assert_int_equal(report.n_kept + dropped, MANY);
    assert_true(report.n_dropped[CLEAN_DUPLICATE] > 100 && report.n_kept > 200);
}

/* ---- what a line is -------------------------------------------------------------------------- */

TEST(looks) {
    struct clean_scratch scratch = {0};
    struct clean_line look;
    struct line line = line_of("Über  1,000 \xE2\x82\xAC – no no no!!");
    clean_look(&look, &line, &scratch);
    assert_int_equal(look.words, 7);
    assert_int_equal(look.chars, 19);
    assert_int_equal(look.letters, 10);
    assert_int_equal(look.longest, 5);
    assert_int_equal(look.run, 2);
    assert_int_equal(look.word_run, 2);
    assert_int_equal(look.begins, CLEAN_CAPITAL);
    assert_int_equal(look.n_number, 1);
    assert_int_equal(look.number[0].n, 4);
    assert_memory_equal(look.number[0].digits, "1000", 4);
    uint64_t near = look.near, exact = look.exact;
    line = line_of("über 9.876 $ - No, no, no.");
    clean_look(&look, &line, &scratch);
    assert_true(look.near == near && look.exact != exact);
    assert_int_equal(look.begins, CLEAN_SMALL);
    line = line_of("über 98.76 $ - No, no.");
    clean_look(&look, &line, &scratch);
    assert_true(look.near != near);
    clean_scratch_release(&scratch);
}

/* The rule itself, without the rest: numbers of two lines, and whether they contradict. */
TEST(numbers) {
    static const struct {
        const char *a, *b;
        int disagree;
    } cases[] = {
        {"", "", 0},
        {"7", "sieben", 0},
        {"24", "vierundzwanzig", 0},
        {"1000 1000000", "tausend, eine Million", 0},
        {"365", "", 1},
        {"7", "8", 1},
        {"1", "10", 1},
        {"10", "1", 1},
        {"5", "5000", 0},
        {"5", "500", 1},
        {"1.000.000", "1,000,000", 0},
        {"1'000", "1000", 0},
        {"1000 2", "1.000,2", 0},
        {"3.14", "3,14", 0},
        {"3.14", "3,41", 1},
        {"2.50", "2,5", 0},
        {"2:50", "2:05", 1},
        {"3", "15", 0},
        {"3", "15 7", 0},
        {"3", "16", 1},
        {"12", "24", 0},
        {"0:30", "12:30", 0},
        {"1990", "neunziger", 0},
        {"1991", "einundneunzig", 1},
        {"68", "1968", 0},
        {"68", "1986", 1},
        {"2003 2003 2003", "2003", 0},
        {"007", "7", 0},
        {"1 500 000", "1.5 Mio", 0},
        {"1 500 000", "1.6 Mio", 1},
        {"123456789012345678901234567890", "123456789012345678901234567890", 0},
        {"123456789012345678901234567890", "987654321", 1},
    };
    struct clean_scratch scratch = {0};
    static struct clean_line a, b;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct line x = line_of(cases[i].a), y = line_of(cases[i].b);
        clean_look(&a, &x, &scratch);
        clean_look(&b, &y, &scratch);
        if (clean_numbers_disagree(&a, &b) != cases[i].disagree ||
            clean_numbers_disagree(&b, &a) != cases[i].disagree)
            fail_msg("'%s' and '%s' should %s", cases[i].a, cases[i].b,
                     cases[i].disagree ? "disagree" : "agree");
    }
    /* A table of more numbers than are kept is left alone. */
    char table[8 * (CLEAN_NUMBERS_MAX + 1)] = "";
    for (int i = 0; i <= CLEAN_NUMBERS_MAX; i++) sprintf(table + strlen(table), "; %d", 1111 + i);
    struct line x = line_of(table), y = line_of("nothing");
    clean_look(&a, &x, &scratch);
    clean_look(&b, &y, &scratch);
    assert_int_equal(clean_numbers_disagree(&a, &b), 0);
    clean_scratch_release(&scratch);
}

/* ---- languages ------------------------------------------------------------------------------- */

static const struct {
    const char *code, *text;
} spoken[] = {
    {"en", "The committee will meet again next week to talk about the budget."},
    {"de", "Der Ausschuss trifft sich nächste Woche wieder, um über den Haushalt zu sprechen."},
    {"fr", "La commission se réunira de nouveau la semaine prochaine pour parler du budget."},
    {"nl", "Wij hebben gisteren met onze vrienden in de stad uitgebreid gegeten en gepraat."},
    {"es", "La comisión se reunirá otra vez la próxima semana para hablar del presupuesto."},
    {"pl", "Komisja spotka się ponownie w przyszłym tygodniu, aby porozmawiać o budżecie."},
    {"ru", "Комитет снова соберётся на следующей неделе, чтобы обсудить бюджет."},
    {"el", "Η επιτροπή θα συναντηθεί ξανά την επόμενη εβδομάδα για τον προϋπολογισμό."},
    {"he", "הוועדה תתכנס שוב בשבוע הבא כדי לדבר על התקציב."},
    {"zh", "委员会下周将再次开会讨论预算问题。"},
    {"ja", "委員会は来週もう一度集まって予算について話し合います。"},
};

TEST(languages) {
    struct language_guess g;
    for (size_t i = 0; i < sizeof spoken / sizeof *spoken; i++) {
        language_detect(&g, spoken[i].text, strlen(spoken[i].text), NULL);
        if (g.n < 1 || strcmp(g.best[0].code, spoken[i].code) != 0 || !g.reliable)
            fail_msg("'%s': %s, want %s", spoken[i].text, g.n ? g.best[0].code : "nothing",
                     spoken[i].code);
        assert_true(g.best[0].share > 0.5 && g.best[0].confidence == g.best[0].share);
        assert_true(g.letters > 0 && language_known(spoken[i].code));
    }
    assert_false(language_known("xx") || language_known("") || language_known("english"));
    assert_true(language_known("zh-Hant") && !language_known("iw")); /* he, today */
}

/* Half and half: both are named. */
TEST(languages_mixed) {
    char text[2048] = "";
    struct language_guess g;
    for (int i = 0; i < 4; i++) strcat(strcat(text, spoken[1].text), " ");
    for (int i = 0; i < 4; i++) strcat(strcat(text, spoken[6].text), " ");
    language_detect(&g, text, strlen(text), NULL);
    assert_int_equal(g.n, 2);
    assert_true(g.best[0].share >= g.best[1].share && g.best[1].share > 0.2);
    assert_true(strcmp(g.best[0].code, "de") == 0 || strcmp(g.best[1].code, "de") == 0);
}

/* A word or two: a guess perhaps, never a sure one without need; nothing: none. */
TEST(languages_unclear) {
    struct language_guess g;
    language_detect(&g, "", 0, NULL);
    assert_int_equal(g.n, 0);
    language_detect(&g, "12345 ... !?", 12, "de");
    assert_int_equal(g.n, 0);
    assert_int_equal(g.reliable, 0);
    language_detect(&g, "Boston", 6, NULL);
    assert_int_equal(g.reliable, 0);
    for (int i = 0; i < g.n; i++) assert_true(g.best[i].confidence <= g.best[i].share / 2);
    language_detect(&g, "Studierst du?", 13, NULL); /* rather a guess than none */
    assert_int_equal(g.reliable, 0);
    assert_true(g.n > 0 && g.best[0].confidence > 0);
}

/* Bytes that are no text, in the middle of one: still seen. */
TEST(languages_dirty) {
    char text[256];
    struct language_guess g;
    snprintf(text, sizeof text,
             "Der Ausschuss\x01\x7F trifft \xFF\xC3( sich nächste Woche\xEF\xBF\xBE "
             "wieder, um über den Haushalt zu sprechen.\xE2\x82");
    language_detect(&g, text, strlen(text), NULL);
    assert_true(g.n >= 1 && g.reliable);
    assert_string_equal(g.best[0].code, "de");
    size_t size = 3 * LANGUAGE_MAX_TEXT;
    char *large = xmalloc(size);
    for (size_t i = 0; i < size; i++) large[i] = spoken[1].text[i % strlen(spoken[1].text)];
    language_detect(&g, large, size, NULL);
    assert_string_equal(g.best[0].code, "de");
    assert_true(g.letters <= LANGUAGE_MAX_TEXT + 2);
    xfree(large);
}

static void *ask_often(void *ctx) {
    int *wrong = ctx;
    for (int round = 0; round < 200; round++) {
        size_t i = (size_t)round % (sizeof spoken / sizeof *spoken);
        struct language_guess g;
        language_detect(&g, spoken[i].text, strlen(spoken[i].text), NULL);
        *wrong += g.n < 1 || strcmp(g.best[0].code, spoken[i].code) != 0;
    }
    return NULL;
}

TEST(languages_on_threads) {
    pthread_t thread[4];
    int wrong[4] = {0};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, ask_often, &wrong[i]), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 4; i++) assert_int_equal(wrong[i], 0);
}

/* ---- the table of hashes --------------------------------------------------------------------- */

TEST(seen_counts) {
    enum { N = 50000, DIFFERENT = 20000 };
    struct seen s = {0};
    uint32_t *count = xcalloc(DIFFERENT, sizeof *count);
    struct rng rng = {.key = 9};
    assert_null(seen_find(&s, 1));
    for (int i = 0; i < N; i++) {
        uint32_t k = rng_below(&rng, DIFFERENT);
        uint64_t hash = (uint64_t)k << 40; /* the low bits collide, and 0 is one of them */
        if (k % 2) hash = k * 0x9E3779B97F4A7C15u;
        const uint32_t *found = seen_find(&s, hash);
        assert_true(count[k] ? found && *found == count[k] : !found);
        assert_int_equal(*seen_value(&s, hash), count[k]);
        ++*seen_value(&s, hash);
        count[k]++;
    }
    size_t different = 0;
    for (int i = 0; i < DIFFERENT; i++) different += count[i] > 0;
    assert_int_equal(s.n, different);
    assert_true(s.cap >= s.n + s.n / 2 && seen_bytes(&s) == 12 * s.cap);
    seen_release(&s);
    assert_int_equal(s.cap, 0);
    xfree(count);
}

/* ---- aligned lines --------------------------------------------------------------------------- */

TEST(pairs_in_windows) {
    enum { LINES = 20000 };
    struct err err;
    struct pairs *p;
    char path[2][512];
    for (int s = 0; s < 2; s++) {
        snprintf(path[s], sizeof path[s], "%s/side%d", test_dir(), s);
        FILE *f = fopen(path[s], "w");
        assert_non_null(f);
        for (int i = 0; i < LINES; i++) fprintf(f, "%d %s %d\n", s, i % 7 ? "x" : "", i);
        assert_int_equal(fclose(f), 0);
    }
    ASSERT_OK(pairs_open(&p, path[0], path[1], &err), err);
    int total = 0, n, windows = 0;
    while ((n = pairs_fill(p, &err)) > 0) {
        const struct pair *pair = pairs_window(p);
        for (int i = 0; i < n; i++, total++)
            for (int s = 0; s < 2; s++) {
                char want[64];
                snprintf(want, sizeof want, "%d %s %d", s, total % 7 ? "x" : "", total);
                assert_string_equal(pair[i].side[s].text, want);
                assert_int_equal(pair[i].side[s].size, strlen(want));
            }
        windows++;
    }
    assert_int_equal(n, 0);
    assert_int_equal(total, LINES);
    assert_true(windows > 1);
    assert_int_equal(pairs_counts(p, 1).lines, LINES);
    pairs_close(p);
}

TEST(pairs_unequal) {
    struct err err;
    struct pairs *p;
    const char *three = write_file("three", "a\nb\nc\n"), *one = write_file("one", "a\n");
    ASSERT_OK(pairs_open(&p, one, three, &err), err);
    ASSERT_ERR(pairs_fill(p, &err), err, HEED_EFORMAT, "one has 1 line and ");
    assert_non_null(strstr(err.msg, "three has 3"));
    pairs_close(p);
    ASSERT_ERR(pairs_open(&p, one, "/nonexistent/tgt", &err), err, HEED_EIO, "/nonexistent/tgt");
    assert_null(p);
    const char *empty = write_file("empty", "");
    ASSERT_OK(pairs_open(&p, empty, empty, &err), err);
    assert_int_equal(pairs_fill(p, &err), 0);
    assert_int_equal(pairs_fill(p, &err), 0);
    pairs_close(p);
}

TESTS(T(bad_pairs_go), T(keep_switches_off), T(flags_of_lines), T(good_pairs_stay), T(limits),
      T(duplicates), T(times_of_a_side), T(excluded_texts), T(wrong_options),
      T(threads_do_not_matter), T(looks), T(numbers), T(languages), T(languages_mixed),
      T(languages_unclear), T(languages_dirty), T(languages_on_threads), T(seen_counts),
      T(pairs_in_windows), T(pairs_unequal))
