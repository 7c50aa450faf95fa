/* test_label.c — hostile text in pictures (viz/label.h), and bytes as text (viz/base64.h). */
#include "base/mem.h"
#include "test.h"
#include "viz/base64.h"
#include "viz/label.h"

static void shows(const char *text, const char *want, int cells) {
    char label[LABEL_SIZE];
    int got = label_make(label, text, LABEL_TOKEN);
    if (strcmp(label, want) != 0) fail_msg("'%s' became '%s', want '%s'", text, label, want);
    assert_int_equal(got, cells);
}

TEST(labels_are_harmless) {
    shows("", "", 0);
    shows("\xE2\x96\x81the", "\xE2\x96\x81the", 4);
    shows("\x01\t\n\x7f", "\xE2\x90\x81\xE2\x90\x89\xE2\x90\x8A\xE2\x90\xA1", 4); /* pictures */
    shows("\xE2\x80\xAE"
          "abc",
          "U+202Eabc", 9);                            /* right-to-left override */
    shows("\xC2\x85", "U+0085", 6);                   /* C1 */
    shows("\xEF\xBF\xBF", "U+FFFF", 6);               /* XML forbids it */
    shows("\xF4\x8F\xBF\xBF", "U+10FFFF", 8);         /* and this */
    shows("\xFF", "\xEF\xBF\xBD", 1);                 /* not UTF-8 */
    shows("\xE6\x97\xA5", "\xE6\x97\xA5", 2);         /* wide */
    shows("\xD7\xA9\xD7\x9C", "\xD7\xA9\xD7\x9C", 2); /* Hebrew stays as it is */
    shows("<b>&'\"", "<b>&'\"", 6);                   /* escaping is another matter */
}

TEST(long_labels_end) {
    char text[4000], label[LABEL_SIZE];
    for (int i = 0; i + 3 < (int)sizeof text; i += 3) memcpy(text + i, "\xE2\x80\xAE", 4);
    assert_int_equal(label_make(label, text, LABEL_TITLE), 6 * LABEL_TITLE + 1);
    assert_int_equal(strlen(label), 6 * LABEL_TITLE + 3);
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = 0;
    assert_int_equal(label_make(label, text, LABEL_TOKEN), LABEL_TOKEN + 1);
    text[LABEL_TOKEN] = 0;
    assert_int_equal(label_make(label, text, LABEL_TOKEN), LABEL_TOKEN); /* just fits */
}

TEST(long_labels_break_at_words) {
    assert_int_equal(label_fit("", 10), 0);
    assert_int_equal(label_fit("a short line", 20), 12);
    assert_int_equal(label_fit("two words", 6), 4);
    assert_int_equal(label_fit("unbreakable", 6), 6);
    assert_int_equal(label_fit("ALL IN CAPITALS", 6), 4); /* which are wider */
    assert_int_equal(label_fit("\xE6\x97\xA5\xE6\x9C\xAC\xE8\xAA\x9E", 4), 6);
    assert_int_equal(label_fit("\xE6\x97\xA5", 1), 3); /* never nothing */
}

/* What `write` puts into a file. */
static char *written(void (*write)(struct file_writer *w, const char *text), const char *text) {
    struct err err;
    struct file_writer w;
    char *path = path_join(test_dir(), "out"), *data;
    size_t size;
    ASSERT_OK(file_writer_open(&w, path, &err), err);
    write(&w, text);
    ASSERT_OK(file_writer_commit(&w, &err), err);
    ASSERT_OK(file_read_all(&data, &size, path, 1 << 20, &err), err);
    xfree(path);
    return data;
}

static void check(void (*write)(struct file_writer *w, const char *text), const char *text,
                  const char *want) {
    char *got = written(write, text);
    assert_string_equal(got, want);
    xfree(got);
}

TEST(escapes) {
    check(label_xml, "<a b='c' d=\"e\">&", "&lt;a b=&#39;c&#39; d=&quot;e&quot;&gt;&amp;");
    check(label_json, "</script>\"\\'&\xC3\xA9",
          "\\u003c/script\\u003e\\u0022\\u005c\\u0027\\u0026\xC3\xA9");
    check(label_json, "\x01\x7f", "\\u0001\\u007f");
}

static void in_pieces(struct file_writer *w, const char *text) {
    struct base64 b = {.w = w};
    for (size_t n = strlen(text), at = 0, k = 1; at < n; at += k, k = k % 5 + 1)
        base64_write(&b, text + at, at + k < n ? k : n - at);
    base64_end(&b);
}

TEST(base64_as_in_rfc_4648) {
    check(in_pieces, "", "");
    check(in_pieces, "f", "Zg==");
    check(in_pieces, "fo", "Zm8=");
    check(in_pieces, "foo", "Zm9v");
    check(in_pieces, "foob", "Zm9vYg==");
    check(in_pieces, "fooba", "Zm9vYmE=");
    check(in_pieces, "foobar", "Zm9vYmFy");
    check(in_pieces, "\xFB\xFF\xBF~?", "+/+/fj8=");
}

TESTS(T(labels_are_harmless), T(long_labels_end), T(long_labels_break_at_words), T(escapes),
      T(base64_as_in_rfc_4648))
