/* test_html.c — HTML: every byte is kept, tags follow their words, nothing becomes markup. */
#include "base/mem.h"
#include "base/num.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/words.h"
#include "test.h"
#include "text/html.h"
#include "text/markup.h"
#include "text/placeholder.h"

#if __has_include(<gumbo.h>)
#include <gumbo.h>
#endif

/* ---- a translator that we know --------------------------------------------------------------- */

/* Links of a fake translation: the source as it is; with capitals for small letters and the other
 * way round; the source's words in any order. */
enum how { ECHO, TURNED, REVERSED, SHUFFLED, UNALIGNED, EMPTY };

struct fake {
    struct words source, target;
    char *text;
    struct align_link *link;
};

static void fake_translate(struct fake *f, const char *text, size_t size, enum how how,
                           struct rng *rng) {
    words_of_text(&f->source, WORDS_WORDS, text, size);
    int n = f->source.n, *order = xcalloc((size_t)n + 1, sizeof *order);
    f->text = xcalloc(2 * size + 64, 1);
    f->link = xcalloc(2 * size + 1, sizeof *f->link);
    for (int i = 0; i < n; i++) order[i] = how == REVERSED ? n - 1 - i : i;
    for (int i = n - 1; i > 0 && how == SHUFFLED; i--) {
        int j = (int)rng_below(rng, (uint32_t)i + 1), was = order[i];
        order[i] = order[j];
        order[j] = was;
    }
    size_t at = 0;
    if (how == ECHO || how == TURNED || how == UNALIGNED) memcpy(f->text, text, at = size);
    for (size_t i = 0; i < at && how != ECHO; i++)
        if ((f->text[i] | 32) >= 'a' && (f->text[i] | 32) <= 'z') f->text[i] ^= 32;
    for (int i = 0; i < n && (how == REVERSED || how == SHUFFLED); i++) {
        struct span w = f->source.word[order[i]];
        if (i) f->text[at++] = ' ';
        memcpy(f->text + at, text + w.begin, (size_t)(w.end - w.begin));
        at += (size_t)(w.end - w.begin);
    }
    words_of_text(&f->target, WORDS_WORDS, f->text, strlen(f->text));
    for (int j = 0; j < n; j++) f->link[j] = (struct align_link){order[j], j};
    for (int i = 0, j = 0; j < f->target.n && how == TURNED; j++) { /* 'S is two words, 's is one */
        while (i + 1 < n && f->source.word[i + 1].begin <= f->target.word[j].begin) i++;
        f->link[j] = (struct align_link){i, j};
    }
    xfree(order);
}

typedef struct markup *reader(const char *text, size_t size, const struct sentence_rules *rules);

/* The document in the language of `how`; xfree it. words: NULL, or where its words are. */
static char *read_through(reader *read, const char *html, size_t size, enum how how,
                          size_t *out_size, struct markup_words *words) {
    struct markup *m = read(html, size, sentence_rules("en"));
    int n = markup_count(m);
    struct fake *f = xcalloc((size_t)n + 1, sizeof *f);
    struct markup_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    struct rng rng = {.key = size};
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *text = markup_text(m, i, &length);
        fake_translate(&f[i], text, length, how, &rng);
        int links = how == UNALIGNED ? 0 : min_int(f[i].source.n, f[i].target.n);
        if (how == TURNED) links = f[i].target.n;
        answer[i] = (struct markup_answer){
            f[i].text,     strlen(f[i].text), f[i].source.word, f[i].target.word,
            f[i].source.n, f[i].target.n,     f[i].link,        links};
    }
    char *out = markup_write_words(m, answer, out_size, words);
    for (int i = 0; i < n; i++) {
        words_release(&f[i].source);
        words_release(&f[i].target);
        xfree(f[i].text);
        xfree(f[i].link);
    }
    xfree(f);
    xfree(answer);
    markup_free(m);
    return out;
}

static char *through(const char *html, size_t size, enum how how, size_t *out_size) {
    return read_through(markup_read, html, size, how, out_size, NULL);
}

static void expect(const char *html, enum how how, const char *want) {
    size_t size;
    char *out = through(html, strlen(html), how, &size);
    assert_string_equal(out, want);
    assert_int_equal(size, strlen(want));
    xfree(out);
}

/* ---- properties ------------------------------------------------------------------------------ */

struct tags {
    uint64_t sum; /* does not depend on their order */
    int n;
};

/* References that nobody knows: they are carried like tags. */
static int odd_references(const char *text, size_t size) {
    int n = 0;
    for (size_t at = 0; at < size; at++) {
        uint32_t code;
        if (text[at] != '&') continue;
        int k = html_reference(&code, text + at, size - at);
        n += k < 0 || (k > 0 && code == 0xFFFD);
    }
    return n;
}

/* Everything that is not text. Concatenating the tokens must give the document. */
static struct tags tags_of(const char *html, size_t size) {
    struct html scan = html_open(html, size);
    struct tags tags = {0};
    size_t at = 0;
    for (struct html_token t; (t = html_next(&scan)).kind != HTML_END; at = t.end) {
        uint64_t hash = 1469598103934665603u;
        assert_int_equal(t.begin, at);
        assert_true(t.end > t.begin && t.end <= size);
        if (t.kind == HTML_TEXT) {
            tags.n += odd_references(html + t.begin, t.end - t.begin);
            continue;
        }
        for (size_t i = t.begin; i < t.end; i++)
            hash = (hash ^ (unsigned char)html[i]) * 1099511628211u;
        tags.sum += hash;
        tags.n++;
    }
    assert_int_equal(at, size);
    return tags;
}

static uint64_t letter(uint32_t code) {
    if (code >= 'A' && code <= 'Z') code += 32;
    return code > ' ' ? (code + 1) * 0x9E3779B97F4A7C15u >> 7 : 0;
}

/* What is to be read in a document, in any order: letters without case, no white space. */
static uint64_t letters_of(const char *html, size_t size) {
    struct html scan = html_open(html, size);
    uint64_t sum = 0;
    for (struct html_token t; (t = html_next(&scan)).kind != HTML_END;)
        for (size_t at = t.begin; at < t.end && t.kind == HTML_TEXT;) {
            uint32_t code = 0;
            int k = html[at] == '&' ? html_reference(&code, html + at, t.end - at) : 0;
            int odd = k < 0;
            if (!k) k = utf8_decode(&code, html + at, t.end - at);
            if ((k < 0 && !odd) || !code) code = 0xFFFD;
            at += (size_t)(k < 0 ? -k : k);
            if (!odd) sum += letter(code);
        }
    return sum;
}

/* No tag is lost, doubled or made of text; nor is text lost where words keep their order; nor a
 * byte where they stay as they were. */
static void check_kept(const char *html, size_t size, enum how how) {
    size_t n;
    char *out = through(html, size, how, &n);
    struct tags before = tags_of(html, size), after = tags_of(out, n);
    if (before.n != after.n || before.sum != after.sum)
        fail_msg("%d: '%.*s' became '%s'", how, (int)size, html, out);
    if (how == ECHO && (n != size || memcmp(html, out, n) != 0))
        fail_msg("'%.*s' became '%s'", (int)size, html, out);
    if (how == TURNED && letters_of(html, size) != letters_of(out, n))
        fail_msg("'%.*s' became '%s'", (int)size, html, out);
    xfree(out);
}

/* Do all tags but those of <img> match? */
static int is_well_formed(const char *html, size_t size) {
    struct html scan = html_open(html, size);
    struct html_token stack[256];
    int depth = 0;
    for (struct html_token t; (t = html_next(&scan)).kind != HTML_END;) {
        if (t.kind == HTML_OPEN && !(t.element & HTML_VOID)) {
            assert_true(depth < 256);
            stack[depth++] = t;
        }
        if (t.kind == HTML_CLOSE && (!depth || !html_same_name(html, &t, &stack[--depth])))
            return 0;
    }
    return depth == 0;
}

static const char *const soup[] = {"<b>",
                                   "\xF0\x9F\x98\x80",
                                   "</b>",
                                   "<i class=\"x\">",
                                   "</i>",
                                   "<p>",
                                   "</p>",
                                   "<br>",
                                   "<img src='a>b'>",
                                   "word",
                                   " ",
                                   "Big",
                                   "\n ",
                                   "&lt;",
                                   "&amp;",
                                   "&nbsp;",
                                   "&unknown;",
                                   "&",
                                   "<",
                                   ">",
                                   "</",
                                   "<!-- c -->",
                                   "<!--",
                                   "-->",
                                   "<code>",
                                   "</code>",
                                   "x.y",
                                   "{name}",
                                   "%s",
                                   "<script>",
                                   "</script>",
                                   "<title>",
                                   "</title>",
                                   "<![CDATA[",
                                   "]]>",
                                   "<a href=\"q\"",
                                   "\"",
                                   "'",
                                   "=",
                                   "/>",
                                   "\xFF",
                                   "\xC3\xA4",
                                   "<span translate=no>",
                                   "</span>",
                                   "<div class=' notranslate y'>",
                                   "</div>",
                                   "&#65;",
                                   "&#x0;",
                                   "<!doctype html>",
                                   "<sup>",
                                   "1",
                                   "</sup>",
                                   ".",
                                   ",",
                                   "<?x",
                                   "\xC2\xA0",
                                   "&ltb>",
                                   "<textarea>"};

TEST(soup_is_kept) {
    struct rng rng = {.key = 1};
    enum { N = sizeof soup / sizeof *soup };
    for (int round = 0; round < (TEST_SANITIZED ? 2000 : 10000); round++) {
        char text[1024];
        size_t size = 0;
        for (int i = 0, n = (int)rng_below(&rng, 24); i < n; i++) {
            const char *s = soup[rng_below(&rng, round % 2 ? N : 24)];
            memcpy(text + size, s, strlen(s));
            size += strlen(s);
            if (rng_below(&rng, 40) == 0) text[size++] = (char)rng_below(&rng, 256);
        }
        for (enum how how = ECHO; how <= EMPTY; how++) check_kept(text, size, how);
    }
}

/* A random tree: of well-formed documents come well-formed ones. */
static size_t grow(char *text, size_t size, int depth, struct rng *rng) {
    static const char *const name[] = {"b", "i", "a", "span", "em", "p", "code"};
    for (int i = 0, n = 1 + (int)rng_below(rng, 4); i < n && size < 3000; i++) {
        const char *tag = name[rng_below(rng, 7)];
        if (depth < 6 && rng_below(rng, 3) == 0) {
            size += (size_t)sprintf(text + size, "<%s>", tag);
            size = grow(text, size, depth + 1, rng);
            size += (size_t)sprintf(text + size, "</%s>", tag);
        } else {
            static const char *const leaf[] = {"one ", "two", " three", "<img>", "{x} ", ", ", "4"};
            size += (size_t)sprintf(text + size, "%s", leaf[rng_below(rng, 7)]);
        }
    }
    return size;
}

TEST(trees_stay_trees) {
    struct rng rng = {.key = 3};
    for (int round = 0; round < (TEST_SANITIZED ? 500 : 3000); round++) {
        char text[8192];
        size_t size = grow(text, 0, 0, &rng), n;
        for (enum how how = ECHO; how <= EMPTY; how++) {
            check_kept(text, size, how);
            char *out = through(text, size, how, &n);
            if (!is_well_formed(out, n))
                fail_msg("%d: '%.*s' became '%s'", how, (int)size, text, out);
            xfree(out);
        }
    }
}

/* ---- as a browser reads it ------------------------------------------------------------------- */

#if __has_include(<gumbo.h>)
/* What gumbo, which builds the tree that browsers do, reads in it; *n_element counts elements. */
static uint64_t gumbo_reads(const GumboNode *node, int *n_element) {
    uint64_t sum = 0;
    if (node->type == GUMBO_NODE_TEXT) {
        const char *text = node->v.text.text;
        for (size_t at = 0, size = strlen(text); at < size;) {
            uint32_t code = 0;
            int n = utf8_decode(&code, text + at, size - at);
            sum += letter(n < 0 ? 0xFFFD : code);
            at += (size_t)(n < 0 ? -n : n);
        }
    }
    const GumboVector *children =
        node->type == GUMBO_NODE_ELEMENT ? &node->v.element.children : NULL;
    GumboTag tag = children ? node->v.element.tag : GUMBO_TAG_UNKNOWN;
    if (tag == GUMBO_TAG_SCRIPT || tag == GUMBO_TAG_STYLE || tag == GUMBO_TAG_TEXTAREA) return 0;
    *n_element += children != NULL;
    for (unsigned i = 0; children && i < children->length; i++)
        sum += gumbo_reads(children->data[i], n_element);
    return sum;
}

static uint64_t read_by_gumbo(const char *html, size_t size, int *n_element) {
    GumboOutput *out = gumbo_parse_with_options(&kGumboDefaultOptions, html, size);
    *n_element = 0;
    uint64_t sum = gumbo_reads(out->root, n_element);
    gumbo_destroy_output(&kGumboDefaultOptions, out);
    return sum;
}

/* The scanner takes the same bytes for text as gumbo does, and a translation has the same text and,
 * where tags match, the same elements. */
TEST(gumbo_reads_the_same) {
    struct rng rng = {.key = 11};
    enum { N = sizeof soup / sizeof *soup };
    for (int round = 0; round < (TEST_SANITIZED ? 500 : 5000); round++) {
        char text[8192];
        size_t size = 0, n;
        int tree = round % 2, before, after;
        for (int i = 0, k = (int)rng_below(&rng, 24); i < k && !tree; i++) {
            const char *s = soup[rng_below(&rng, N)];
            if ((unsigned char)*s == 0xFF || !strcmp(s, "&unknown;"))
                continue; /* matters of taste */
            memcpy(text + size, s, strlen(s));
            size += strlen(s);
        }
        if (tree) size = grow(text, 0, 0, &rng);
        text[size] = 0;
        if (strstr(text, "<a>") || strstr(text, "<p>")) tree = 0; /* these must not nest */
        uint64_t want = read_by_gumbo(text, size, &before);
        if (letters_of(text, size) != want) fail_msg("text in '%.*s'", (int)size, text);
        char *out = through(text, size, TURNED, &n);
        uint64_t got = read_by_gumbo(out, n, &after);
        if (got != want || (tree && before != after))
            fail_msg("'%.*s' became '%s'", (int)size, text, out);
        xfree(out);
    }
}
#else
TEST(gumbo_reads_the_same) { SKIP("no gumbo.h (libgumbo-dev) to compare with"); }
#endif

/* ---- hostile documents ----------------------------------------------------------------------- */

TEST(hostile) {
    static const char *const unit[] = {
        "<b>",   "<b>x ",  "</b>",    "<b>x</b>",  "<",        "<b ",       "<!--", "&",
        "&lt",   "<code>", "<sup>",   "<![CDATA[", "&#1;",     "{",         "%",    "a ",
        "<br>a", "<a b='", "</title", "&x;",       " ",        "&nbsp;",    "\xFF", "<p>x",
        "{x} ",  "<svg>",  "--",      "{{",        "x<i></i>", "<script>a", "&amp;"};
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++) {
        size_t n = strlen(unit[k]), times = TEST_SANITIZED ? 20000 : 100000;
        char *text = xmalloc(n * times + 16);
        for (size_t i = 0; i < times; i++) memcpy(text + i * n, unit[k], n);
        check_kept(text, n * times, TURNED);
        check_kept(text, n * times, REVERSED);
        memcpy(text + n * times, "word", 5); /* something to translate */
        check_kept(text, n * times + 4, TURNED);
        xfree(text);
    }
    check_kept("a\0<b>c\0d</b>", 12, TURNED);
    static const char page[] = "<p>Some <b>words</b> of <i>a page</i> go on. See {x} &amp; <br>";
    size_t n = sizeof page - 1, times = (TEST_SANITIZED ? 1 << 20 : 5 << 20) / n;
    char *text = xmalloc(n * times);
    for (size_t i = 0; i < times; i++) memcpy(text + i * n, page, n);
    check_kept(text, n * times, TURNED);
    for (size_t i = 0; i < n * times; i += n) /* all of it in one block */
        memcpy(text + i, "   ", 3), memset(text + i + n - 4, ' ', 4);
    check_kept(text, n * times, REVERSED);
    xfree(text);
}

/* ---- examples -------------------------------------------------------------------------------- */

TEST(tags_follow_words) {
    expect("<p>one <b>two</b> three</p>", TURNED, "<p>ONE <b>TWO</b> THREE</p>");
    expect("<p>one <b>two</b> three</p>", REVERSED, "<p>three <b>two</b> one</p>");
    expect("<a href=x>one</a> two three", REVERSED, "three two <a href=x>one</a>");
    expect("<b>one <i>two</i></b> three", REVERSED, "three <b><i>two</i> one</b>");
    expect("un<b>believ</b>able x", TURNED, "<b>UNBELIEVABLE</b> X");
    expect("one <img src=\"a\"> two", REVERSED, "<img src=\"a\"> two one");
    expect("one <b>two</b> three", EMPTY, "<b></b>");
    expect("  <b>  all of it </b>\n", REVERSED, "  <b>  it of all </b>\n");
    expect("<p>a<div>b</div>c<li>d", REVERSED, "<p>a<div>b</div>c<li>d");
    expect("one<br>two", REVERSED, "two one<br>");
    expect("One.<br>Two three", REVERSED, ". One<br>three Two");
    expect("one <b>two <i>three</b> four</i>", REVERSED, "one <b>two <i>three</b> four</i>");
    expect("word<sup><a href=\"#1\">[1]</a></sup> next", REVERSED,
           "next word<sup><a href=\"#1\">[1]</a></sup>");
}

TEST(text_stays_text) {
    expect("x &lt;b&gt; &amp;amp; y", TURNED, "X &lt;B&gt; &amp;AMP; Y");
    expect("a < b &copy &eacute;t&#233; &#x20AC;", TURNED,
           "A &lt; B \xC2\xA9 \xC3\xA9T\xC3\xA9 &#x20AC;");
    expect("M&uuml;ller  ate &lt;\n 3 &amp 4 < 5", REVERSED,
           "5 &lt; 4 &amp; 3 &lt; ate M&uuml;ller");
    expect("One  two.\n  <b>Three\n\tfour.\n</b> \n Five", TURNED,
           "oNE  TWO.\n  <b>tHREE\n\tFOUR.\n</b> \n fIVE");
    expect("Go  on.\n  Stop it.\t Now", REVERSED, ". on Go\n  . it Stop\t Now");
    expect("10&nbsp;km", TURNED, "10&nbsp;KM");
    expect("a  < b &copy\n&eacute;t&#233;", ECHO, "a  < b &copy\n&eacute;t&#233;");
    expect("12 &nbsp; &middot; 3&lt;4", REVERSED, "12 &nbsp; &middot; 3&lt;4"); /* no letter */
    expect("a &CircleDot; b", REVERSED, "&CircleDot; b a");
    expect("a &#x110000; b &#0; c &#xD800 d", TURNED, "A &#x110000; B &#0; C &#xD800 D");
    expect("<title>a <b> b</title>", TURNED, "<title>A &lt;B&gt; B</title>");
    expect("a<![CDATA[ x > b ]]> c", TURNED, "A<![CDATA[ x > B ]]&gt; C");
    expect("a <svg><style/><![CDATA[ x > b ]]></svg> c d", REVERSED,
           "d <svg><style/><![CDATA[ x > b ]]></svg> c a");
    expect("<p title='two one'>one two<!-- three four -->", REVERSED,
           "<p title='two one'>two one<!-- three four -->");
}

TEST(what_is_kept) {
    expect("run <code>ls -l /tmp</code> now", REVERSED, "now <code>ls -l /tmp</code> run");
    expect("a <span translate=\"no\">b <i>c</i></span> d", TURNED,
           "A <span translate=\"no\">b <i>c</i></span> D");
    expect("<p class='a notranslate'>one two</p>three four", REVERSED,
           "<p class='a notranslate'>one two</p>four three");
    expect("<pre>one two</pre><script>one two</script><textarea>one two</textarea>", REVERSED,
           "<pre>one two</pre><script>one two</script><textarea>one two</textarea>");
    expect("one <code>a</code> two <code>b</code>{c}", EMPTY, "<code>a</code> <code>b</code>{c}");
    expect("hi {name} there", REVERSED, "there {name} hi");
    expect("in%s's, un<code>x</code>do", TURNED, "IN%s'S, UN<code>x</code>DO");
    expect("see %1$s and {{ x }} here", REVERSED, "here {{ x }} and %1$s see");
}

/* An element whose words became nothing that is known of takes a word that nobody has. */
TEST(lost_elements) {
    expect("one <a>two</a> three", UNALIGNED, "ONE <a>TWO</a> THREE");
    expect("<a>one</a> <b>two</b> <i><u>six</u></i>.", UNALIGNED,
           "<a>ONE</a> <b>TWO</b> <i><u>SIX</u></i>.");
    expect("one <a>!</a> two", UNALIGNED, "ONE <a></a>! TWO");
}

/* White space beside tags stays on its side of them. */
TEST(blanks_beside_tags) {
    expect("<p>one\n<b>\ttwo </b>six\n  <i>ten</i>\n</p>", TURNED,
           "<p>ONE\n<b>\tTWO </b>SIX\n  <i>TEN</i>\n</p>");
    expect("<u> <b> one</b>  <i>two\n</i> </u>x", TURNED, "<u> <b> ONE</b>  <i>TWO\n</i> </u>X");
    expect("one <b>two  </b> <i>six</i> ten", REVERSED, "ten <i>six</i> <b>two  </b> one");
}

/* An emoji is a picture: at the ends it stays, elsewhere it goes where its neighbours go. */
TEST(emoji) {
    expect("one \xF0\x9F\x98\x80 two", TURNED, "ONE \xF0\x9F\x98\x80 TWO");
    expect("\xF0\x9F\x8E\x89 one two \xE2\x9D\xA4\xEF\xB8\x8F", REVERSED,
           "\xF0\x9F\x8E\x89 two one \xE2\x9D\xA4\xEF\xB8\x8F");
    expect("<p>\xF0\x9F\x98\x80 <a>one two</a> \xF0\x9F\x98\x80</p>", REVERSED,
           "<p>\xF0\x9F\x98\x80 <a>two one</a> \xF0\x9F\x98\x80</p>");
    expect("one <b>six \xF0\x9F\x98\x80 ten</b> two &#128512; six", TURNED,
           "ONE <b>SIX \xF0\x9F\x98\x80 TEN</b> TWO &#128512; SIX");
    const char *text = "I \xF0\x9F\x91\xA8\xE2\x80\x8D\xF0\x9F\x91\xA9 you";
    struct markup *m = markup_read(text, strlen(text), sentence_rules("en"));
    size_t size;
    assert_memory_equal(markup_text(m, 0, &size), "I you", 5);
    assert_int_equal(size, 5);
    markup_free(m);
}

/* Each sentence is a text of its own; what is around them is placed in all at once. */
TEST(sentences) {
    expect("One two. Three four!", REVERSED, ". two One ! four Three");
    expect("<p>One <b>two. Three</b> four!</p>", TURNED, "<p>oNE <b>TWO. tHREE</b> FOUR!</p>");
    expect("One two.\n <b>Three four.</b> Five", REVERSED, ". two One\n <b>. four Three</b> Five");
    expect("Ask Dr. Who. Then go", REVERSED, ". Who . Dr Ask go Then");
    expect("*** Stop! *** ...", TURNED, "*** sTOP! *** ...");
    expect("One.<img> Two.", TURNED, "oNE.<img> tWO.");
    expect("<a>One two</a> | <a>Three</a> | four", REVERSED,
           "<a>two One</a> | <a>Three</a> | four");
    expect("| one | two six <b>| ten</b> |", REVERSED, "| one | six two <b>ten |</b> |");
    expect("one <i>|</i> six | <code>|</code> ten", TURNED,
           "ONE <i>|</i> SIX | <code>|</code> TEN");
    expect("Run <code>a. B</code> now. Then stop.", TURNED,
           "rUN <code>a. B</code> NOW. tHEN STOP.");
    expect("Dear {{ x. }} Sir &odd; hi", TURNED, "dEAR {{ x. }} sIR &odd; HI");
    expect("\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82Ok", TURNED,
           "\xE4\xBD\xA0\xE5\xA5\xBD\xE3\x80\x82oK");
    const char *text = "<p>One two. Three <b>four!</b></p><li>Five. *** Six";
    struct markup *m = markup_read(text, strlen(text), sentence_rules("en"));
    size_t size;
    assert_int_equal(markup_count(m), 4);
    assert_memory_equal(markup_text(m, 3, &size), "*** Six", 7);
    assert_memory_equal(markup_text(m, 1, &size), "Three four!", 11);
    assert_int_equal(size, 11);
    markup_free(m);
}

/* ---- plain texts ----------------------------------------------------------------------------- */

static void expect_text(const char *text, enum how how, const char *want) {
    size_t size;
    char *out = read_through(markup_read_text, text, strlen(text), how, &size, NULL);
    assert_true(markup_in_text(text, strlen(text)));
    assert_string_equal(out, want);
    assert_int_equal(size, strlen(want));
    xfree(out);
}

TEST(plain_texts) {
    expect_text("hi {name} there", REVERSED, "there {name} hi");
    expect_text("\n - Pay %1$s &amp; <b>go</b>  now.  ${x} is  it!\n\n", TURNED,
                "\n - pAY %1$s &AMP; <B>GO</B>  NOW.  ${x} IS  IT!\n\n");
    expect_text("Dear {{ x }} sir. And %(n)s too?", EMPTY, "{{ x }} %(n)s");
    expect_text("%s: %d, {}\n{x}\none {x}", TURNED, "%s: %d, {}\n{x}\nONE {x}");
    expect_text("Ask a.b@c.example or see https://d.example/e_f?g#h.", TURNED,
                "aSK a.b@c.example OR SEE https://d.example/e_f?g#h.");
    expect_text("un%s's \xFF one", TURNED, "UN%s'S \xEF\xBF\xBD ONE");
    expect_text("I \xF0\x9F\x8D\x95 you. Good \xF0\x9F\x8D\x95 Bye", REVERSED,
                ". \xF0\x9F\x8D\x95 you I Good \xF0\x9F\x8D\x95 Bye");
    static const char *const nothing[] = {"", "50% off {a b}", "A. \xF0\x9F\x8D\x95 b",
                                          "one \xF0\x9F\x8D\x95\ntwo", "\xF0\x9F\x8D\x95 one"};
    for (size_t i = 0; i < sizeof nothing / sizeof *nothing; i++)
        assert_false(markup_in_text(nothing[i], strlen(nothing[i])));
}

static int count(const char *text, const char *what) {
    int n = 0;
    while ((text = strstr(text, what))) n++, text += strlen(what);
    return n;
}

/* Words lie in the text one after another, and links are between words that are there. */
static void check_words(const char *text, size_t size, enum how how) {
    struct markup_words w = {0};
    size_t n;
    char *out = read_through(markup_read_text, text, size, how, &n, &w);
    for (int i = 0; i < w.n_source; i++)
        assert_true(w.source[i].begin >= (i ? w.source[i - 1].end : 0) &&
                    w.source[i].end > w.source[i].begin && (size_t)w.source[i].end <= size);
    for (int i = 0; i < w.n_target; i++)
        assert_true(w.target[i].at.begin >= (i ? w.target[i - 1].at.end : 0) &&
                    w.target[i].at.end > w.target[i].at.begin && (size_t)w.target[i].at.end <= n);
    for (int i = 0; i < w.n_link; i++) {
        assert_true(w.link[i].src < w.n_source && w.link[i].tgt < w.n_target);
        struct span a = w.source[w.link[i].src], b = w.target[w.link[i].tgt].at;
        if (how != REVERSED || w.target[w.link[i].tgt].word < 0) continue; /* of which it is part */
        assert_int_equal(b.end - b.begin, a.end - a.begin);
        assert_memory_equal(text + a.begin, out + b.begin, (size_t)(b.end - b.begin));
    }
    markup_words_release(&w);
    xfree(out);
}

TEST(plain_soup_is_kept) {
    static const char *const held[] = {"{name}", "%s", "${x}", "{{ y }}", "\xF0\x9F\x8D\x95"};
    static const char *const bits[] = {"word", "Big",      "two", ".", "\n", "  ", "&lt;",
                                       "<b>",  "\xC3\xA4", ",",   "!", "7",  "|"};
    enum { N_HELD = sizeof held / sizeof *held, N_BITS = sizeof bits / sizeof *bits };
    struct rng rng = {.key = 2};
    for (int round = 0; round < (TEST_SANITIZED ? 1000 : 5000); round++) {
        char text[1024] = "";
        for (int i = 0, n = 1 + (int)rng_below(&rng, 16); i < n; i++) {
            int keep = rng_below(&rng, 4) == 0;
            strcat(text, keep ? held[rng_below(&rng, N_HELD)] : bits[rng_below(&rng, N_BITS)]);
            if (keep || rng_below(&rng, 3)) strcat(text, " ");
        }
        for (enum how how = ECHO; how <= EMPTY; how++) {
            size_t size;
            char *out = read_through(markup_read_text, text, strlen(text), how, &size, NULL);
            if (how == ECHO) assert_string_equal(out, text);
            for (int i = 0; i < N_HELD; i++)
                if (count(text, held[i]) != count(out, held[i]))
                    fail_msg("%d: '%s' became '%s'", how, text, out);
            xfree(out);
            check_words(text, strlen(text), how);
        }
    }
}

TEST(placeholders) {
    static const struct {
        const char *text;
        size_t size;
    } cases[] = {{"{name}", 6}, {"{}", 2},    {"{{x}} y", 5}, {"${a.b}!", 6}, {"%s", 2},
                 {"%1$d,", 4},  {"%5.2f", 5}, {"%(n)s", 5},   {"%ld", 3},     {"%{x}", 4},
                 {"% d", 0},    {"%", 0},     {"{a b}", 0},   {"{x", 0},      {"%super", 0},
                 {"{{}}", 0},   {"$5", 0},    {"%%", 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(placeholder_at(cases[i].text, strlen(cases[i].text), 0), cases[i].size);
}

/* The first placeholder of a text, "" where there is none. */
TEST(addresses) {
    static const char *const cases[][2] = {
        {"see https://a.example/b?c=1&d=2#e.", "https://a.example/b?c=1&d=2#e"},
        {"(http://localhost:9090/status)", "http://localhost:9090/status"},
        {"https://a.example/x_(y), z", "https://a.example/x_(y)"},
        {"\xE2\x80\x9Ehttps://a.example\xE2\x80\x9C!", "https://a.example"},
        {"https://a.example/K\xC3\xA4se ist", "https://a.example/K\xC3\xA4se"},
        {"auf www.alte-karten.example, das", "www.alte-karten.example"},
        {"bei suppen.example/rezepte/eins.", "suppen.example/rezepte/eins"},
        {"an r.b+x@see-post.example!", "r.b+x@see-post.example"},
        {"in /srv/log/fehler_7.txt.", "/srv/log/fehler_7.txt"},
        {"nach ~/Dokumente/ablage.", "~/Dokumente/ablage"},
        {"D:\\Daten\\config.xml und", "D:\\Daten\\config.xml"},
        {"ftp://a", "ftp://a"},
        {"and/or, km/h, 1/2/3, either/or/both", ""},
        {"The end.Then it began. e.g. Tom", ""},
        {"http:// nothing, @name, a@b, user@", ""},
        {"5 / 7, C: yes, ~ 3, www. no", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = cases[i][0];
        size_t size = strlen(text), at = 0, n = 0;
        while (at < size && !(n = placeholder_at(text, size, at))) at++;
        if (n != strlen(cases[i][1]) || memcmp(text + at, cases[i][1], n) != 0)
            fail_msg("'%s': '%.*s'", text, (int)n, text + at);
    }
}

TESTS(T(soup_is_kept), T(trees_stay_trees), T(gumbo_reads_the_same), TL(hostile, 120),
      T(tags_follow_words), T(text_stays_text), T(what_is_kept), T(lost_elements),
      T(blanks_beside_tags), T(emoji), T(sentences), T(plain_texts), T(plain_soup_is_kept),
      T(placeholders), T(addresses))
