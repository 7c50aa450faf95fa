/* fuzz_clean.c — any bytes are a pair of lines: they are looked at, judged and, if kept, known the
 * second time; and any bytes are a text in some language or none. */
#include "base/mem.h"
#include "base/utf8.h"
#include "data/clean.h"
#include "data/clean_line.h"
#include "data/language.h"
#include "fuzz.h"

/* As text.h would deliver it; xfree(line.text). */
static struct line line_of(const char *text, size_t size) {
    uint64_t replaced = 0;
    char *clean = xmalloc(3 * size + 1);
    size_t n = utf8_clean(clean, text, size, &replaced);
    clean[n] = 0;
    return (struct line){.text = clean, .size = n, .flags = replaced ? LINE_REPLACED : 0};
}

static void check_look(const struct pair *pair) {
    static struct clean_line look[2];
    struct clean_scratch scratch = {0};
    for (int s = 0; s < 2; s++) {
        const struct clean_line *l = &look[s];
        clean_look(&look[s], &pair->side[s], &scratch);
        want(l->words <= l->chars && l->letters <= l->chars && l->chars <= pair->side[s].size);
        want(l->longest <= l->chars && l->run <= l->chars && l->word_run <= l->words);
        want(!l->words == !l->chars && !l->words == !l->longest);
        for (int i = 0; i < l->n_number && i < CLEAN_NUMBERS_MAX; i++)
            want(l->number[i].n >= 0 && l->number[i].n <= CLEAN_DIGITS_MAX &&
                 (!l->number[i].n || l->number[i].digits[0] != '0'));
    }
    want(clean_numbers_disagree(&look[0], &look[1]) == clean_numbers_disagree(&look[1], &look[0]));
    want(!clean_numbers_disagree(&look[0], &look[0]));
    clean_scratch_release(&scratch);
}

static void check_verdict(const struct pair *pair) {
    static struct pool *pool;
    struct clean_options o = {0};
    struct cleaner *cleaner;
    struct clean_verdict v[2];
    struct pair twice[2] = {*pair, *pair};
    want(pool || pool_new(&pool, 1, NULL) == 0);
    options_default(clean_rows, &o);
    o.language[0] = "en";
    o.language[1] = "de";
    want(cleaner_new(&cleaner, &o, pool, NULL) == 0);
    cleaner_run(cleaner, v, twice, 2);
    want(v[0].why >= CLEAN_KEPT && v[0].why < CLEAN_EXCLUDED && v[0].side >= 0 && v[0].side <= 2);
    want(v[1].why == (v[0].why == CLEAN_KEPT ? CLEAN_DUPLICATE : v[0].why));
    const struct clean_report *r = cleaner_report(cleaner);
    want(r->n_read == 2 && r->n_kept == (v[0].why == CLEAN_KEPT));
    cleaner_free(cleaner);
}

static void check_language(const char *text, size_t size) {
    struct language_guess g;
    language_detect(&g, text, size, NULL);
    want(g.n >= 0 && g.n <= LANGUAGE_MAX && (g.n || !g.reliable));
    for (int i = 0; i < g.n; i++) {
        const struct language *l = &g.best[i];
        want(l->share > 0 && l->share <= 1 && l->confidence <= l->share);
        want(language_known(l->code) && (!i || l->share <= g.best[i - 1].share));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const char *text = (const char *)data, *lf = size ? memchr(text, '\n', size) : NULL;
    size_t first = lf ? (size_t)(lf - text) : size, second = lf ? size - first - 1 : 0;
    if (size > 1 << 16) return 0;
    struct pair pair = {{line_of(text, first), line_of(text + size - second, second)}};
    check_look(&pair);
    check_verdict(&pair);
    check_language(text, size);
    for (int s = 0; s < 2; s++) xfree((void *)(uintptr_t)pair.side[s].text);
    return 0;
}
