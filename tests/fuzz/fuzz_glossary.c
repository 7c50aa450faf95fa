/* fuzz_glossary.c — any bytes are a file of terms, and a text to find them in: a glossary or one
 * error comes out, and what is found can be searched for. */
#include "base/utf8.h"
#include "fuzz.h"
#include "search/glossary.h"

static struct tokenizer *tokenizer;
static struct speller *speller;

/* Letters as pieces, some umlauts among them. */
static void learn(void) {
    char text[128], model[128];
    struct err err = {0};
    static const char line[] = "The (quick) brown f\xC3\xB6x jumps over 13 lazy d\xC3\xB6gs.\n";
    fuzz_put("input", (const uint8_t *)line, sizeof line - 1);
    fuzz_path(text, sizeof text, "input");
    fuzz_path(model, sizeof model, "config.json"); /* a name that is removed at the end */
    const char *input = text;
    struct tokenizer_train_options o = {
        .input = &input, .n_input = 1, .out = model, .type = TOKENIZER_CHAR, .size = 64};
    want(tokenizer_train(&o, NULL, &err) == 0 && tokenizer_open(&tokenizer, model, &err) == 0);
    speller = speller_new(tokenizer);
}

static void find(const struct glossary *g, const char *text, size_t size) {
    struct words words = {0};
    struct keep keep = {0};
    struct glossary_search how = {
        .glossary = g, .speller = speller, .words = &words, .keep = &keep};
    const struct terms *t = glossary_find(&how, text, size);
    want(how.missed >= 0 && (!t || (t->n > 0 && t->n <= TERMS_MAX)));
    for (int i = 0; t && i < t->n; i++) {
        const struct term *term = &t->term[i];
        want(term->n > 0 && term->n <= TERM_FORMS);
        for (int k = 0; k < term->n; k++) {
            const struct term_form *f = &term->form[k];
            want(f->n > 0 && f->n <= term->weight && term->weight <= TERM_PIECES);
            for (int j = 0; j < f->n; j++)
                want(f->id[j] >= 0 && f->id[j] < tokenizer_size(tokenizer) &&
                     f->id[j] != tokenizer_unk(tokenizer));
        }
        struct terms_read read = {0}; /* what it has is what it is asked for */
        struct terms_view v =
            terms_view(&(struct terms){term, 1, t->edge}, &read, term->form[0].id, term->form[0].n);
        want(v.n_met == 1);
    }
    keep_release(&keep);
    words_release(&words);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char *const language[] = {NULL, "en", "de"};
    char path[128];
    struct err err = {0};
    struct glossary *g;
    if (size > 1 << 16) return 0;
    if (fuzz_enter()) learn();
    fuzz_put("input", data, size);
    fuzz_path(path, sizeof path, "input");
    struct glossary_file file = {path, language[size % 3], language[size / 3 % 3], size % 2 != 0};
    int rc = glossary_open(&g, &file, &err);
    want(rc <= 0 && !g == !!rc && (!rc || strncmp(err.msg, path, strlen(path)) == 0));
    if (g && utf8_clean_prefix((const char *)data, size) == size) find(g, (const char *)data, size);
    glossary_free(g);
    return 0;
}
