/* fuzz_links.c — any bytes are a line of links and a text: links that are read are in order and in
 * range, both directions keep together what they promise, and words hold all that is not space.
 *
 * The first line is one direction, the second the other, the rest is text. */
#include "base/unicode.h"
#include "base/utf8.h"
#include "data/links.h"
#include "data/words.h"
#include "fuzz.h"

static void check_order(const struct links *l) {
    for (int i = 0; i < l->n; i++) {
        want(l->link[i].src >= 0 && l->link[i].src < LINKS_MAX_WORD);
        want(l->link[i].tgt >= 0 && l->link[i].tgt < LINKS_MAX_WORD);
        want(i == 0 || links_compare(&l->link[i - 1], &l->link[i]) < 0);
    }
}

static void check_together(const struct links *a, const struct links *b) {
    struct links all = {0}, out = {0};
    links_symmetrise(&all, LINKS_UNION, a, b);
    for (int m = 0; m < N_LINKS_METHODS; m++) {
        links_symmetrise(&out, (enum links_method)m, a, b);
        check_order(&out);
        for (int i = 0; i < out.n; i++) want(links_have(&all, out.link[i].src, out.link[i].tgt));
        for (int i = 0; i < a->n; i++)
            want(!links_have(b, a->link[i].src, a->link[i].tgt) ||
                 links_have(&out, a->link[i].src, a->link[i].tgt));
    }
    links_release(&all);
    links_release(&out);
}

static void check_words(const char *text, size_t size) {
    struct words w = {0};
    for (int unit = WORDS_WORDS; unit <= WORDS_TOKENS; unit++) {
        int at = 0;
        words_of_text(&w, (enum words_unit)unit, text, size);
        for (int i = 0; i <= w.n; i++) {
            int end = i < w.n ? w.word[i].begin : (int)size;
            while (at < end) { /* what is between words is space */
                uint32_t code;
                int n = utf8_decode(&code, text + at, size - (size_t)at);
                want(n > 0 && (unicode_is_space(code) || code == 0x200B || code == 0xFEFF));
                at += n;
            }
            want(at == end);
            if (i < w.n) want(w.word[i].end > at), at = w.word[i].end;
        }
    }
    words_release(&w);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *end = text + size;
    struct links a = {0}, possible = {0}, b = {0};
    int good = 0;
    if (size > 1 << 12) return 0;
    for (int i = 0; i < 2; i++) {
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t n = (size_t)((stop ? stop : end) - text);
        struct err err = {0};
        good += links_parse(i ? &b : &a, i ? &possible : NULL, text, n, &err) == 0;
        text = stop ? stop + 1 : end;
    }
    if (good == 2) {
        check_order(&a);
        check_order(&b);
        check_order(&possible);
        check_together(&a, &b);
    }
    check_words(text, (size_t)(end - text));
    links_release(&a);
    links_release(&b);
    links_release(&possible);
    return 0;
}
