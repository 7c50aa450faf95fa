/* fuzz_html.c — any bytes are a document: its tokens are all of it, a translation has the same tags
 * wherever its words go, and one that repeats the source is the document. The same of plain texts,
 * and of their words. */
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

struct fake {
    struct words source, target;
    char *text;
    struct align_link *link;
};

/* The source with something before it, and links from anywhere to anywhere. */
static struct markup_answer translate(struct fake *f, const char *text, size_t size, size_t turn) {
    words_of_text(&f->source, WORDS_WORDS, text, size);
    f->text = xmalloc(size + 3);
    memcpy(f->text, "x ", 2);
    memcpy(f->text + 2, text, size);
    words_of_text(&f->target, WORDS_WORDS, f->text, size + 2);
    int n = f->source.n, m = f->target.n, links = 0;
    f->link = xcalloc((size_t)m + 1, sizeof *f->link);
    for (int j = 0; j < m && n; j++)
        if ((j + turn) % 5) f->link[links++] = (struct align_link){(int)(j * 7 + turn) % n, j};
    return (struct markup_answer){f->text, size + 2, f->source.word, f->target.word,
                                  n,       m,        f->link,        links};
}

/* Words of a plain text and its translation are in them, one after another. */
static void check_words(const struct markup_words *w, size_t size, size_t out_size) {
    int at = 0;
    for (int i = 0; i < w->n_source; i++) {
        want(w->source[i].begin >= at && w->source[i].end > w->source[i].begin);
        at = w->source[i].end;
    }
    want((size_t)at <= size);
    at = 0;
    for (int i = 0; i < w->n_target; i++) {
        want(w->target[i].at.begin >= at && w->target[i].at.end > w->target[i].at.begin);
        at = w->target[i].at.end;
    }
    want((size_t)at <= out_size);
    for (int i = 0; i < w->n_link; i++)
        want(w->link[i].src < w->n_source && w->link[i].tgt < w->n_target);
}

static void check(const char *html, size_t size, int plain) {
    struct markup *m = (plain ? markup_read_text : markup_read)(html, size, sentence_rules("de"));
    struct markup_words words = {0};
    int n = markup_count(m);
    struct fake *fake = xcalloc((size_t)n + 1, sizeof *fake);
    struct markup_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    size_t out_size, before, after;
    for (int i = 0; i < n; i++) answer[i].text = markup_text(m, i, &answer[i].size);
    char *out = markup_write(m, answer, &out_size);
    want(out_size == size && memcmp(out, html, size) == 0);
    xfree(out);
    for (int i = 0; i < n; i++)
        answer[i] = translate(&fake[i], answer[i].text, answer[i].size, size);
    out = markup_write_words(m, answer, &out_size, plain ? &words : NULL);
    check_words(&words, size, out_size);
    if (!plain) want(count(html, size, &before) == count(out, out_size, &after));
    if (!plain) want(before == after);
    for (int i = 0; i < n; i++) {
        words_release(&fake[i].source);
        words_release(&fake[i].target);
        xfree(fake[i].text);
        xfree(fake[i].link);
    }
    markup_words_release(&words);
    xfree(fake);
    xfree(answer);
    xfree(out);
    markup_free(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 1 << 14) return 0;
    check((const char *)data, size, 0);
    check((const char *)data, size, 1);
    return 0;
}
