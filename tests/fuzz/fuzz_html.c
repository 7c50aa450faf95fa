/* fuzz_html.c — any bytes are a document: its tokens are all of it, and a translation that repeats
 * the words has the same tags. */
#include "base/mem.h"
#include "data/words.h"
#include "fuzz.h"
#include "text/html.h"
#include "text/markup.h"

/* The number of tags and other things that are not text. */
static int count(const char *html, size_t size, size_t *bytes) {
    struct html scan = html_open(html, size);
    size_t at = 0;
    int n = 0;
    *bytes = 0;
    for (struct html_token t; (t = html_next(&scan)).kind != HTML_END; at = t.end) {
        want(t.begin == at && t.end > t.begin && t.end <= size);
        if (t.kind != HTML_TEXT) *bytes += t.end - t.begin, n++;
    }
    want(at == size);
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *html = (const char *)data;
    if (size > 1 << 14) return 0;
    struct markup *m = markup_read(html, size);
    int n = markup_count(m);
    struct words *words = xcalloc((size_t)n + 1, sizeof *words);
    struct align_link **link = xcalloc((size_t)n + 1, sizeof *link);
    struct markup_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *text = markup_text(m, i, &length);
        words_of_text(&words[i], WORDS_WORDS, text, length);
        int k = words[i].n;
        link[i] = xcalloc((size_t)k + 1, sizeof **link);
        for (int j = 0; j < k; j++) link[i][j] = (struct align_link){(int)(j * 7 + size) % k, j};
        answer[i] =
            (struct markup_answer){text, length, words[i].word, words[i].word, k, k, link[i], k};
    }
    size_t out_size, before, after;
    char *out = markup_write(m, answer, &out_size);
    want(count(html, size, &before) == count(out, out_size, &after));
    want(before == after);
    for (int i = 0; i < n; i++) {
        words_release(&words[i]);
        xfree(link[i]);
    }
    xfree(words);
    xfree(link);
    xfree(answer);
    xfree(out);
    markup_free(m);
    return 0;
}
