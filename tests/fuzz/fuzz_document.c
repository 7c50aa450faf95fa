/* fuzz_document.c — any bytes as a document: with no translation it is the same bytes; texts whose
 * words went elsewhere keep their tags; XML stays XML. The first byte says what the rest is. */
#include "base/mem.h"
#include "data/words.h"
#include "fuzz.h"
#include "text/document_parts.h"
#include "text/markup.h"
#include "text/xml.h"

/* Something before the sentence, and links from anywhere to anywhere. */
static struct markup_answer translate(struct words *w, const char *text, size_t size) {
    char *copy = xmalloc(size + 3);
    memcpy(copy, "x ", 2);
    memcpy(copy + 2, text, size);
    words_of_text(&w[0], WORDS_WORDS, text, size);
    words_of_text(&w[1], WORDS_WORDS, copy, size + 2);
    int n = w[0].n, m = w[1].n, links = 0;
    struct align_link *link = xcalloc((size_t)m + 1, sizeof *link);
    for (int j = 0; j < m && n; j++)
        if ((j + n) % 5) link[links++] = (struct align_link){(int)(j * 7 + n) % n, j};
    return (struct markup_answer){copy, size + 2, w[0].word, w[1].word, n, m, link, links};
}

static struct document_answer through_markup(const char *text, size_t size) {
    struct markup *m = markup_read(text, size, sentence_rules("en"));
    int n = markup_count(m);
    struct words *words = xcalloc(2 * (size_t)n + 1, sizeof *words);
    struct markup_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    struct document_answer out;
    for (int i = 0; i < n; i++) {
        size_t length;
        const char *unit = markup_text(m, i, &length);
        answer[i] = translate(&words[2 * i], unit, length);
    }
    out.text = markup_write(m, answer, &out.size);
    for (int i = 0; i < n; i++) {
        xfree((char *)(uintptr_t)answer[i].text);
        xfree((void *)(uintptr_t)answer[i].link);
        words_release(&words[2 * i]);
        words_release(&words[2 * i + 1]);
    }
    xfree(words);
    xfree(answer);
    markup_free(m);
    return out;
}

/* The flow with its texts translated. */
static void check_flow(const struct flow *f, const struct flow_style *style, int xml) {
    struct document_answer *answer = xcalloc((size_t)f->n_text + 1, sizeof *answer);
    struct err err = {0};
    struct buffer out = {0};
    struct flow_writer w = {.flow = f, .style = style, .out = &out, .err = &err};
    want(flow_write(&w) == 0 && out.size == f->size && !memcmp(out.text, f->bytes, f->size));
    for (int i = 0; i < f->n_text; i++) {
        size_t size;
        const char *text = flow_get(f, i, &size);
        answer[i] = through_markup(text, size);
    }
    out.size = 0;
    w.answer = answer;
    w.n_answer = f->n_text;
    want(flow_write(&w) == 0);
    if (xml) {
        struct xml_token *token;
        want(xml_read(&token, out.text, out.size, &err) >= 0);
        xfree(token);
    }
    for (int i = 0; i < f->n_text; i++) xfree((char *)(uintptr_t)answer[i].text);
    xfree(answer);
    xfree(out.text);
}

static void check_archive(enum document_kind kind, const char *bytes, size_t size) {
    struct document *d;
    struct err err = {0};
    char *out;
    if (document_read(&d, kind, bytes, size, &err)) return;
    want(document_write(d, NULL, 0, &out, &size, &err) == 0);
    xfree(out);
    document_free(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 2 || size > 1 << 14) return 0;
    struct flow f = flow_of((const char *)data + 1, size - 1);
    struct err err = {0};
    switch (data[0] % 6) {
    case 0:
        srt_read(&f);
        check_flow(&f, &srt_style, 0);
        break;
    case 1:
        markdown_read(&f);
        check_flow(&f, &markdown_style, 0);
        break;
    case 2:
        if (!docx_read(&f, &err)) check_flow(&f, &docx_style, 1);
        break;
    case 3:
        if (!odt_read(&f, &err)) check_flow(&f, &odt_style, 1);
        break;
    default:
        check_archive(data[0] & 1 ? DOCUMENT_DOCX : DOCUMENT_ODT, f.bytes, f.size);
    }
    flow_release(&f);
    return 0;
}
