/* test_document.c — documents: what of them is translated, and that everything else stays. */
#include <zip.h>

#include "base/buffer.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/words.h"
#include "test.h"
#include "text/archive.h"
#include "text/document.h"
#include "text/markup.h"
#include "text/xml.h"

/* ---- a translator that turns capitals into small letters and the other way round ------------- */

enum how { ECHO, TURNED, REVERSED };

static void turn(char *text, size_t size) {
    for (size_t i = 0; i < size; i++)
        if ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z') text[i] ^= 32;
}

/* One sentence; what the answer points to is never freed. */
static struct markup_answer answer_of(const char *text, size_t size, enum how how) {
    struct words source = {0}, target = {0};
    words_of_text(&source, WORDS_WORDS, text, size);
    char *out = xcalloc(2 * size + 2, 1);
    size_t at = 0;
    if (how != REVERSED) memcpy(out, text, at = size);
    for (int i = source.n - 1; i >= 0 && how == REVERSED; i--) {
        struct span w = source.word[i];
        if (at) out[at++] = ' ';
        memcpy(out + at, text + w.begin, (size_t)(w.end - w.begin));
        at += (size_t)(w.end - w.begin);
    }
    if (how == TURNED) turn(out, at);
    words_of_text(&target, WORDS_WORDS, out, at);
    struct align_link *link = xcalloc((size_t)target.n + 1, sizeof *link);
    for (int i = 0, j = 0; j < target.n; j++) {
        while (i + 1 < source.n && source.word[i + 1].begin <= target.word[j].begin) i++;
        link[j] = (struct align_link){how == REVERSED ? source.n - 1 - j : i, j};
        if (link[j].src < 0) link[j].src = 0;
    }
    return (struct markup_answer){out,      at,       source.word, target.word,
                                  source.n, target.n, link,        target.n};
}

static struct document_answer translate(const char *text, size_t size, enum text_format format,
                                        enum how how) {
    struct document_answer out;
    if (format == FORMAT_TEXT) {
        char *copy = xmalloc(size + 1);
        memcpy(copy, text, size);
        if (how != ECHO) turn(copy, size);
        return (struct document_answer){copy, size};
    }
    struct markup *m = markup_read(text, size, sentence_rules("en"));
    struct markup_answer *answer = xcalloc((size_t)markup_count(m) + 1, sizeof *answer);
    for (int i = 0; i < markup_count(m); i++) {
        size_t n;
        const char *unit = markup_text(m, i, &n);
        answer[i] = answer_of(unit, n, how);
    }
    out.text = markup_write(m, answer, &out.size);
    for (int i = 0; i < markup_count(m); i++) {
        xfree((char *)(uintptr_t)answer[i].text);
        xfree((void *)(uintptr_t)answer[i].source);
        xfree((void *)(uintptr_t)answer[i].target);
        xfree((void *)(uintptr_t)answer[i].link);
    }
    xfree(answer);
    markup_free(m);
    return out;
}

/* The file in the language of `how`; xfree it. */
static char *through(enum document_kind kind, const char *bytes, size_t size, enum how how,
                     size_t *out_size) {
    struct err err = {0};
    struct document *d;
    char *out;
    ASSERT_OK(document_read(&d, kind, bytes, size, &err), err);
    int n = document_count(d);
    struct document_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *text = document_text(d, i, &length);
        answer[i] = translate(text, length, document_format(d), how);
    }
    ASSERT_OK(document_write(d, answer, n, &out, out_size, &err), err);
    for (int i = 0; i < n; i++) xfree((char *)(uintptr_t)answer[i].text);
    xfree(answer);
    document_free(d);
    return out;
}

static void expect(enum document_kind kind, const char *bytes, enum how how, const char *want) {
    size_t size;
    char *out = through(kind, bytes, strlen(bytes), how, &size);
    assert_string_equal(out, want);
    assert_int_equal(size, strlen(want));
    xfree(out);
    out = through(kind, bytes, strlen(bytes), ECHO, &size);
    assert_string_equal(out, bytes);
    xfree(out);
}

/* ---- formats --------------------------------------------------------------------------------- */

TEST(kinds) {
    struct err err = {0};
    enum document_kind kind;
    ASSERT_OK(document_kind(&kind, "a/b.c/Letter.TXT", &err), err);
    assert_int_equal(kind, DOCUMENT_TXT);
    ASSERT_OK(document_kind(&kind, "x.htm", &err), err);
    assert_int_equal(kind, DOCUMENT_HTML);
    assert_int_equal(document_kind(&kind, "paper.pdf", &err), HEED_EINVAL);
    assert_non_null(strstr(err.msg, "paper.pdf: .pdf cannot be translated"));
    assert_non_null(strstr(err.msg, ".txt .srt"));
    assert_int_equal(document_kind(&kind, "dir.txt/README", &err), HEED_EINVAL);
    struct document *d;
    assert_int_equal(document_read(&d, DOCUMENT_TXT, "\xFF\xFE\0a", 4, &err), HEED_EFORMAT);
    assert_null(d);
    assert_int_equal(document_read(&d, DOCUMENT_SRT, "a\0\nGr\xFC\xDF", 7, &err), HEED_EFORMAT);
    assert_non_null(strstr(err.msg, "line 2 is not UTF-8"));
}

TEST(text) {
    expect(DOCUMENT_TXT, "\xEF\xBB\xBFOne. Two\r\n\r\n 12 \n\tthree", TURNED,
           "\xEF\xBB\xBFoNE. tWO\r\n\r\n 12 \n\tTHREE");
    expect(DOCUMENT_TXT, "", TURNED, "");
    expect(DOCUMENT_HTML, "<p title='One'>One <b>two</b>\n", REVERSED,
           "<p title='One'><b>two</b> One\n");
}

TEST(subtitles) {
    expect(DOCUMENT_SRT,
           "\xEF\xBB\xBF"
           "1\r\n00:00:01,000 --> 00:00:04,074\r\nI saw it\r\nand left.\r\n\r\n"
           "2\r\n00:00:05,000 --> 00:00:06,000 X1:40\r\n{\\an8}<i>Go</i> & see. <b>Now\r\n\r\n"
           "3\r\n00:00:07,000 --> 00:00:08,000\r\n\r\n4\r\n00:00:09,000 --> 00:00:10,000\r\n- No!",
           TURNED,
           "\xEF\xBB\xBF"
           "1\r\n00:00:01,000 --> 00:00:04,074\r\ni SAW IT\r\nAND LEFT.\r\n\r\n"
           "2\r\n00:00:05,000 --> 00:00:06,000 X1:40\r\n{\\an8}<i>gO</i> & SEE. <b>nOW\r\n\r\n"
           "3\r\n00:00:07,000 --> 00:00:08,000\r\n\r\n4\r\n00:00:09,000 --> 00:00:10,000\r\n- nO!");
    expect(DOCUMENT_SRT, "1\n0 --> 1\none <i>two</i>\n three &lt; four\n", REVERSED,
           "1\n0 --> 1\nfour ; lt & three <i>two</i>\none\n");
}

TEST(other_tags_are_refused) {
    static const char *const bad[] = {
        "<b 0>x",     "x",          "<b 0>x</b><b 0>y</b>", "<b 1>x</b>",         "<img 0>",
        "<b 0>x</i>", "</b>x<b 0>", "<b 0>x</b><p>",        "<b 9999999999>x</b>"};
    const char *srt = "0 --> 1\n<i>x</i>\n";
    struct err err = {0};
    struct document *d;
    char *out;
    size_t size;
    ASSERT_OK(document_read(&d, DOCUMENT_SRT, srt, strlen(srt), &err), err);
    assert_memory_equal(document_text(d, 0, &size), "<b 0>x</b>", 10);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct document_answer answer = {bad[i], strlen(bad[i])};
        assert_int_equal(document_write(d, &answer, 1, &out, &size, &err), HEED_EINVAL);
        assert_null(out);
    }
    ASSERT_OK(document_write(d, NULL, 0, &out, &size, &err), err); /* none: as it was */
    assert_string_equal(out, srt);
    xfree(out);
    document_free(d);
}

TEST(markdown) {
    expect(DOCUMENT_MD,
           "---\ntitle: Stay\n---\n# One *two* #\n\nThree\nfour **five\nsix** `code` "
           "[text](http://x \"T\")."
           "\n\n```c\nint x;\n```\n\n    code\n\n- item [ ] a\n- [x] done\n  more\n1. first\n\n> "
           "quote\n"
           "> goes on\n\n| Head | `a|b` |\n|---|:-:|\n| Cell | *x* |\n\n[label]: http://stay\n"
           "[^1]: Note\n\n<div>\nHtml <b>text</b>\n</div>\n\nSub\n---\n***\n",
           TURNED,
           "---\ntitle: Stay\n---\n# oNE *TWO* #\n\ntHREE FOUR **FIVE SIX** `code` [TEXT](http://x "
           "\"T\")."
           "\n\n```c\nint x;\n```\n\n    code\n\n- ITEM [ ] A\n- [x] DONE MORE\n1. FIRST\n\n> "
           "QUOTE GOES ON"
           "\n\n| hEAD | `a|b` |\n|---|:-:|\n| cELL | *X* |\n\n[label]: http://stay\n"
           "[^1]: nOTE\n\n<div>\nhTML <b>TEXT</b>\n</div>\n\nsUB\n---\n***\n");
    expect(DOCUMENT_MD,
           "One\\\ntwo  \nThree snake_case \\*x\\* &amp; a_b_ ![i](j) http://x.y/z_.\r\n", TURNED,
           "oNE\\\nTWO  \ntHREE SNAKE_CASE \\*X\\* & A_B_ ![i](j) http://x.y/z_.\r\n");
    expect(DOCUMENT_MD,
           "See [the *docs*](a(b)c) and <kbd>Ctrl</kbd>, <https://x.y>, [Ref], [a][b][^1]",
           REVERSED,
           "[a][b] , [Ref] , <https://x.y> , <kbd>Ctrl</kbd> and [*docs* the](a(b)c) See[^1]");
    expect(DOCUMENT_MD, "x\n> y\nz\n* a\n* b **c\n* 5 * 3 \\# 1\\. q", TURNED,
           "X\n> Y\nZ\n* A\n* B **C\n* 5 \\* 3 # 1. Q");
    expect(DOCUMENT_MD, "a # b", REVERSED, "b # a");
    expect(DOCUMENT_MD, "a #", REVERSED, "\\# a");
}

/* ---- office documents ------------------------------------------------------------------------ */

struct member {
    const char *name, *text;
};

/* An archive of members, up to one without a name; xfree it. */
static char *pack(const struct member *m, size_t *size) {
    zip_error_t error;
    zip_source_t *all = zip_source_buffer_create(NULL, 0, 0, &error);
    zip_t *zip = zip_open_from_source(all, ZIP_TRUNCATE, &error);
    assert_non_null(zip);
    zip_source_keep(all);
    for (zip_uint64_t i = 0; m[i].name; i++) {
        zip_source_t *s = zip_source_buffer(zip, m[i].text, strlen(m[i].text), 0);
        assert_int_equal(zip_file_add(zip, m[i].name, s, ZIP_FL_ENC_UTF_8), i);
        if (i == 0) zip_set_file_compression(zip, 0, ZIP_CM_STORE, 0);
    }
    assert_int_equal(zip_close(zip), 0);
    zip_stat_t st;
    assert_int_equal(zip_source_stat(all, &st), 0);
    char *bytes = xmalloc(st.size + 1);
    assert_int_equal(zip_source_open(all), 0);
    assert_int_equal(zip_source_read(all, bytes, st.size), st.size);
    zip_source_close(all);
    zip_source_free(all);
    *size = st.size;
    return bytes;
}

/* A member of the archive as it is now. */
static void expect_member(const char *bytes, size_t size, int i, const char *name,
                          const char *want) {
    struct err err = {0};
    struct archive *a;
    char *got;
    ASSERT_OK(archive_open(&a, bytes, size, &err), err);
    assert_string_equal(archive_name(a, i), name);
    ASSERT_OK(archive_read(a, i, 1 << 20, &got, &size, &err), err);
    got[size] = 0;
    assert_string_equal(got, want);
    xfree(got);
    archive_free(a);
}

static void expect_part(enum document_kind kind, const char *name, const char *xml, enum how how,
                        const char *want) {
    struct member m[] = {
        {"mimetype", "x"}, {name, xml}, {"other.xml", "<p>Stay</p>"}, {NULL, NULL}};
    size_t size, out_size;
    char *bytes = pack(m, &size), *out = through(kind, bytes, size, how, &out_size);
    expect_member(out, out_size, 0, "mimetype", "x");
    expect_member(out, out_size, 1, name, want);
    expect_member(out, out_size, 2, "other.xml", "<p>Stay</p>");
    xfree(out);
    out = through(kind, bytes, size, ECHO, &out_size);
    assert_int_equal(out_size, size);
    assert_memory_equal(out, bytes, size);
    xfree(out);
    xfree(bytes);
}

#define DOCX(BODY) "<?xml version=\"1.0\"?>\n<w:document><w:body>" BODY "</w:body></w:document>"
#define T_(TEXT)   "<w:t xml:space=\"preserve\">" TEXT "</w:t>"
#define BOLD       "<w:rPr><w:b/></w:rPr>"

static void expect_docx(const char *xml, enum how how, const char *want) {
    expect_part(DOCUMENT_DOCX, "word/document.xml", xml, how, want);
}

TEST(docx) {
    expect_docx(DOCX("<w:p><w:pPr/><w:r><w:t>One &amp; two</w:t></w:r></w:p><w:p/>"), TURNED,
                DOCX("<w:p><w:pPr/><w:r>" T_("oNE &amp; TWO") "</w:r></w:p><w:p/>"));
    /* runs that look the same are one, and others follow their words */
    expect_docx(DOCX("<w:p><w:r><w:t>On</w:t></w:r><w:proofErr/><w:r><w:t xml:space='preserve'>e "
                     "long </w:t></w:r><w:r w:x='1'>" BOLD "<w:t>two</w:t></w:r></w:p>"),
                REVERSED,
                DOCX("<w:p><w:r>" BOLD T_("two") "</w:r><w:r>" T_(" long One") "</w:r><w:proofErr/>"
                                                                               "</w:p>"));
    /* links, breaks, tabs */
    expect_docx(DOCX("<w:p><w:r><w:t>See </w:t></w:r><w:hyperlink r:id='1'><w:r>" BOLD
                     "<w:t>here</w:t></w:r></w:hyperlink><w:r><w:tab/><w:t>or</w:t><w:br/>"
                     "<w:t>there</w:t></w:r></w:p>"),
                TURNED,
                DOCX("<w:p><w:r>" T_("sEE ") "</w:r><w:hyperlink r:id='1'><w:r>" BOLD
                         T_("HERE") "</w:r></w:hyperlink><w:r><w:tab/></w:r><w:r>" T_(
                             "OR") "</w:r><w:r><w:br/>"
                                   "</w:r><w:r>" T_("THERE") "</w:r></w:p>"));
    /* a text box in a paragraph */
    expect_docx(
        DOCX("<w:p><w:r><w:t>Out</w:t></w:r><w:r><w:pict><w:p><w:r><w:t>In</w:t></w:r></w:p>"
             "</w:pict></w:r></w:p>"),
        TURNED,
        DOCX("<w:p><w:r>" T_("oUT") "</w:r><w:r><w:pict><w:p><w:r>" T_(
            "iN") "</w:r></w:p></w:pict></w:r></w:p>"));
    /* a field stays, the text of a link is translated */
#define FIELD(CODE, TEXT)                                                                          \
    "<w:r><w:fldChar w:t=\"begin\"/></w:r><w:r><w:instrText>" CODE                                 \
    "</w:instrText></w:r><w:r><w:fldChar w:t=\"separate\"/></w:r>" TEXT                            \
    "<w:r><w:fldChar w:t=\"end\"/></w:r>"
    expect_docx(
        DOCX("<w:p><w:r><w:t>In </w:t></w:r>" FIELD(
            " REF x ", "<w:r><w:t>Figure 1</w:t></w:r>") "<w:r><w:t> now</w:t></w:r></w:p>"),
        REVERSED,
        DOCX("<w:p><w:r>" T_("now ") "</w:r>" FIELD(
            " REF x ", "<w:r><w:t>Figure 1</w:t></w:r>") "<w:r>" T_(" In") "</w:r></w:p>"));
    expect_docx(DOCX("<w:p>" FIELD("HYPERLINK x", "<w:r><w:t>here</w:t></w:r>") "</w:p>"), TURNED,
                DOCX("<w:p>" FIELD("HYPERLINK x", "<w:r>" T_("HERE") "</w:r>") "</w:p>"));
}

#define ODT(BODY)                                                                                  \
    "<office:document-content><office:text>" BODY "</office:text></office:document-content>"

TEST(odt) {
    expect_part(DOCUMENT_ODT, "content.xml",
                ODT("<text:h>One\n  &lt;<text:span a='b'>two</text:span></text:h><text:p/>"
                    "<text:p>Three<text:note><text:p>Note</text:p></text:note> four"
                    "<text:tab/>five<text:line-break/>six <text:s/></text:p>"),
                TURNED,
                ODT("<text:h>oNE\n  &lt;<text:span a='b'>TWO</text:span></text:h><text:p/>"
                    "<text:p>tHREE<text:note><text:p>nOTE</text:p></text:note> FOUR"
                    "<text:tab/>FIVE<text:line-break/>SIX <text:s/></text:p>"));
}

/* What is no such file, or wants too much. */
TEST(office_refuses) {
    static const struct {
        struct member m;
        int status;
        const char *what;
    } bad[] = {
        {{"word/document.xml", "<w:p>"}, HEED_EFORMAT, "ends before"},
        {{"word/document.xml", "<w:p></w:q>"}, HEED_EFORMAT, "broken at byte 5"},
        {{"word/document.xml", "<!DOCTYPE x [<!ENTITY a 'b'>]><x/>"}, HEED_EFORMAT, "byte 0"},
        {{"word/document.xml", "<w:p a='"}, HEED_EFORMAT, "broken"},
        {{"../word/document.xml", "<w:p/>"}, HEED_EFORMAT, "leads elsewhere"},
        {{"a/../b", "<w:p/>"}, HEED_EFORMAT, "leads elsewhere"},
        {{"/etc/x", "<w:p/>"}, HEED_EFORMAT, "leads elsewhere"},
        {{"content.xml", "<w:p/>"}, HEED_EFORMAT, "no word/document.xml"}};
    struct err err = {0};
    struct document *d;
    size_t size;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct member m[] = {{"mimetype", "x"}, bad[i].m, {NULL, NULL}};
        char *bytes = pack(m, &size);
        assert_int_equal(document_read(&d, DOCUMENT_DOCX, bytes, size, &err), bad[i].status);
        assert_null(d);
        if (!strstr(err.msg, bad[i].what)) fail_msg("says: %s", err.msg);
        xfree(bytes);
    }
    assert_int_equal(document_read(&d, DOCUMENT_DOCX, "PK", 2, &err), HEED_EFORMAT);
    assert_int_equal(document_read(&d, DOCUMENT_ODT, "", 0, &err), HEED_EFORMAT);
    size_t huge = DOCUMENT_MAX + 1; /* packed, it is small */
    char *xml = xmalloc(huge + 1);
    memset(xml, ' ', huge);
    xml[huge] = 0;
    struct member bomb[] = {
        {"word/document.xml", "<w:p/>"}, {"word/header1.xml", xml}, {NULL, NULL}};
    char *bytes = pack(bomb, &size);
    assert_true(size < 1 << 20);
    assert_int_equal(document_read(&d, DOCUMENT_DOCX, bytes, size, &err), HEED_ELIMIT);
    xfree(bytes);
    xfree(xml);
}

/* ---- any bytes ------------------------------------------------------------------------------- */

static const char *const soup[] = {
    "a ",    "Word",   " ",    "\n",        "\n\n",     "*",    "**",    "_",  "`",   "``",
    "[",     "](x)",   "]",    "![",        "<b>",      "</b>", "<i",    ">",  "> ",  "- ",
    "1. ",   "|",      "|-",   "# ",        "```",      "\\",   "&amp;", "&",  "{x}", "http://x ",
    "<!--",  "-->",    "  \n", "0 --> 1\n", "{\\a}",    "~~",   "---\n", ". ", "]: ", "[^1]",
    "<kbd>", "</kbd>", "<p>",  "\xC2\xA0",  "\xC3\xA4", "\t",   "    "};

static const char *const xml_soup[] = {"<w:p>",
                                       "</w:p>",
                                       "<w:r>",
                                       "</w:r>",
                                       "<w:t>",
                                       "</w:t>",
                                       "<w:rPr><w:b/></w:rPr>",
                                       "<w:br/>",
                                       "<w:tab/>",
                                       "<w:hyperlink>",
                                       "</w:hyperlink>",
                                       "<w:fldChar w=\"begin\"/>",
                                       "<w:instrText>",
                                       "</w:instrText>",
                                       "<w:fldChar w=\"end\"/>",
                                       "<text:p>",
                                       "</text:p>",
                                       "<text:span>",
                                       "</text:span>",
                                       "<text:note>",
                                       "</text:note>",
                                       "<text:s/>",
                                       "one ",
                                       "Two",
                                       "&amp;",
                                       "&#1;",
                                       "&x;",
                                       "<!-- c -->",
                                       "<![CDATA[x]]>"};

/* Pieces one after another; of XML, with its elements closed. */
static size_t stir(char *text, const char *const *pool, uint32_t n, int xml, struct rng *rng) {
    const char *open[64];
    size_t size = 0;
    int depth = 0;
    for (uint32_t i = 0, pieces = rng_below(rng, 40); i < pieces && depth < 60; i++) {
        const char *p = pool[rng_below(rng, n)];
        int closes = xml && p[0] == '<' && p[1] == '/';
        if (closes && !depth) continue;
        if (closes)
            size += (size_t)sprintf(text + size, "</%s", open[--depth] + 1);
        else
            size += (size_t)sprintf(text + size, "%s", p);
        if (xml && p[0] == '<' && !closes && p[1] != '!' && p[strlen(p) - 2] != '/' &&
            !strstr(p, "rPr"))
            open[depth++] = p;
    }
    while (depth) size += (size_t)sprintf(text + size, "</%s", open[--depth] + 1);
    return size;
}

/* Nothing is lost of what stays as it is, and tags of translations are always those of texts. */
static void check_any(enum document_kind kind, const char *text, size_t size) {
    size_t n;
    char *out = through(kind, text, size, ECHO, &n);
    if (n != size || memcmp(out, text, n) != 0)
        fail_msg("'%.*s' became '%s'", (int)size, text, out);
    xfree(out);
    for (enum how how = TURNED; how <= REVERSED; how++) xfree(through(kind, text, size, how, &n));
}

static void check_xml(enum document_kind kind, const char *name, const char *xml) {
    struct member m[] = {{name, xml}, {NULL, NULL}};
    struct err err = {0};
    struct xml_token *token;
    size_t size, out_size;
    char *bytes = pack(m, &size);
    check_any(kind, bytes, size);
    for (enum how how = TURNED; how <= REVERSED; how++) {
        char *out = through(kind, bytes, size, how, &out_size), *got;
        struct archive *a;
        ASSERT_OK(archive_open(&a, out, out_size, &err), err);
        ASSERT_OK(archive_read(a, 0, 1 << 24, &got, &out_size, &err), err);
        int rc = xml_read(&token, got, out_size, &err);
        if (rc < 0) fail_msg("'%s' became '%.*s'", xml, (int)out_size, got);
        xfree(token);
        xfree(got);
        archive_free(a);
        xfree(out);
    }
    xfree(bytes);
}

TEST(soup_is_kept) {
    struct rng rng = {.key = 7};
    static char text[8192];
    for (int round = 0; round < (TEST_SANITIZED ? 500 : 5000); round++) {
        size_t size = stir(text, soup, sizeof soup / sizeof *soup, 0, &rng);
        check_any(DOCUMENT_MD, text, size);
        check_any(DOCUMENT_SRT, text, size);
        check_any(DOCUMENT_TXT, text, size);
        if (round % 4) continue;
        size = (size_t)sprintf(text, "<w:x>");
        size += stir(text + size, xml_soup, sizeof xml_soup / sizeof *xml_soup, 1, &rng);
        sprintf(text + size, "</w:x>");
        check_xml(DOCUMENT_DOCX, "word/document.xml", text);
        check_xml(DOCUMENT_ODT, "content.xml", text);
    }
}

TEST(hostile) {
    static const char *const unit[] = {"[",    "[a](",     "*a ",   "`",    "`` ` ", "<b",
                                       "<b\n", "![",       "a\n",   "> ",   "- ",    "|a",
                                       "<!--", "{\\a",     "\\\n",  "    ", "```\n", "a  ",
                                       "[a]:", "http://x", "a\n\n", "~~a",  "<kbd>", "_a"};
    for (size_t k = 0; k < sizeof unit / sizeof *unit; k++) {
        size_t n = strlen(unit[k]), times = TEST_SANITIZED ? 5000 : 50000;
        char *text = xmalloc(n * times + 16), *out;
        size_t begin = (size_t)sprintf(text, "0 --> 1\na "), size;
        for (size_t i = 0; i < times; i++) memcpy(text + begin + i * n, unit[k], n);
        for (enum document_kind kind = DOCUMENT_TXT; kind <= DOCUMENT_MD; kind++) {
            out = through(kind, text, begin + n * times, TURNED, &size);
            xfree(out);
        }
        xfree(text);
    }
    static const char *const xml[] = {
        "<w:p>",     "<w:r>",       "<w:p><w:r><w:t>a", "<w:r><w:fldChar w=\"begin\"/>",
        "<text:p>a", "<text:span>a"};
    for (size_t k = 0; k < sizeof xml / sizeof *xml; k++) {
        const char *u = xml[k];
        size_t n = strlen(u), times = TEST_SANITIZED ? 2000 : 20000;
        struct buffer b = {0};
        buffer_puts(&b, "<w:d><w:p><text:p>");
        for (size_t i = 0; i < times; i++) buffer_put(&b, u, n);
        const char *tag[3];
        int tags = 0;
        for (const char *p = u; (p = strchr(p, '<')); p++)
            if (!strstr(p, "/>") || p[3] == 'r') tag[tags++] = p;
        for (size_t i = 0; i < times; i++)
            for (int t = tags - 1; t >= 0; t--) {
                buffer_puts(&b, "</");
                buffer_put(&b, tag[t] + 1, (size_t)(strchr(tag[t], '>') - tag[t]));
            }
        buffer_put(&b, "</text:p></w:p></w:d>", 22);
        check_xml(DOCUMENT_DOCX, "word/document.xml", b.text);
        check_xml(DOCUMENT_ODT, "content.xml", b.text);
        xfree(b.text);
    }
}

TESTS(T(kinds), T(text), T(subtitles), T(markdown), T(other_tags_are_refused), T(docx), T(odt),
      T(office_refuses), TL(soup_is_kept, 120), TL(hostile, 120))
