/* test_document.c — documents: what of them is translated, and that everything else stays. */
#include "base/mem.h"
#include "base/rng.h"
#include "data/words.h"
#include "test.h"
#include "text/document.h"
#include "text/markup.h"

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
    assert_non_null(strstr(err.msg, "paper.pdf: .pdf is no format that can be translated"));
    assert_non_null(strstr(err.msg, ".txt .srt"));
    assert_int_equal(document_kind(&kind, "dir.txt/README", &err), HEED_EINVAL);
    struct document *d;
    assert_int_equal(document_read(&d, DOCUMENT_TXT, "\xFF\xFE\0a", 4, &err), HEED_EFORMAT);
    assert_null(d);
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

TESTS(T(kinds), T(text), T(subtitles), T(other_tags_are_refused))
