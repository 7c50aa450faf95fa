/* pages.c — see pages.h. */
#include "text/pages.h"

#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"
#include "text/markup.h"

struct pages {
    const struct engine *engine;
    struct translator *translator;
    struct translator_options options;
    struct translator *linking; /* for plain texts */
    struct candidate **best;    /* [n] a document's candidates, with their texts */
    int n;
};

struct run {
    struct translator *translator;
    int plain;
    const struct translator_input *in; /* [n] documents */
    int n;
    struct markup **markup;
    struct translator_input *text; /* [n_text] of all documents */
    struct translation *result;
    struct markup_answer *answer;
    int n_text;
};

struct pages *pages_new(const struct engine *engine, struct translator *translator) {
    struct pages *p = xcalloc(1, sizeof *p);
    p->engine = engine;
    p->translator = translator;
    return p;
}

void pages_set(struct pages *p, const struct translator_options *options) { p->options = *options; }

static void clear(struct pages *p) {
    for (int i = 0; i < p->n; i++) {
        for (struct candidate *c = p->best[i]; c && c->text; c++) xfree((char *)(uintptr_t)c->text);
        xfree(p->best[i]);
    }
    xfree(p->best);
    p->best = NULL;
    p->n = 0;
}

void pages_free(struct pages *p) {
    if (!p) return;
    clear(p);
    translator_free(p->linking);
    xfree(p);
}

const struct translator_stats *pages_stats(const struct pages *p) {
    return p->linking ? translator_stats(p->linking) : NULL;
}

static int refuse(const struct translator_input *in, size_t limit, const char *what,
                  struct err *err) {
    return err_set(err, HEED_ELIMIT, "%.80s %llu: %s of more than %zu bytes", in->name,
                   (unsigned long long)in->number, what, limit);
}

static int read_all(struct run *r, struct err *err) {
    const struct sentence_rules *rules = translator_rules(r->translator);
    int64_t total = 0;
    for (int i = 0; i < r->n; i++) {
        if (r->in[i].size > PAGES_MAX) return refuse(&r->in[i], PAGES_MAX, "a document", err);
        r->markup[i] =
            (r->plain ? markup_read_text : markup_read)(r->in[i].text, r->in[i].size, rules);
        total += markup_count(r->markup[i]);
    }
    if (total > INT32_MAX / 2)
        return err_set(err, HEED_ELIMIT, "%lld sentences in one call", (long long)total);
    r->n_text = (int)total;
    r->text = xcalloc((size_t)total + 1, sizeof *r->text);
    r->result = xcalloc((size_t)total + 1, sizeof *r->result);
    r->answer = xcalloc((size_t)total + 1, sizeof *r->answer);
    for (int i = 0, at = 0; i < r->n; i++)
        for (int k = 0; k < markup_count(r->markup[i]); k++, at++) {
            struct translator_input *text = &r->text[at];
            *text = r->in[i];
            text->prefix = NULL;
            text->key = r->in[i].key ^ (uint64_t)(k + 1) << 20;
            text->text = markup_text(r->markup[i], k, &text->size);
            if (text->size > TOKENIZER_MAX_TEXT)
                return refuse(&r->in[i], TOKENIZER_MAX_TEXT, "a sentence", err);
        }
    return 0;
}

/* Candidate k of the document whose n sentences begin at `at`. */
static struct candidate write_candidate(struct run *r, const struct markup *m, int at, int k) {
    struct candidate out = {0};
    int n = markup_count(m);
    for (int i = at; i < at + n; i++) {
        const struct translation *t = &r->result[i];
        const struct candidate *c = &t->best[min_int(k, t->n - 1)];
        r->answer[i] = (struct markup_answer){.text = c->text,
                                              .size = c->size,
                                              .source = t->word,
                                              .n_source = t->n_word,
                                              .target = c->word,
                                              .n_target = c->n_word,
                                              .link = c->link,
                                              .n_link = c->n_link};
        out.score += c->score;
        out.log_prob += c->log_prob;
        out.cut |= c->cut;
        out.n_tok += c->n_tok;
    }
    out.text = markup_write(m, r->answer + at, &out.size);
    return out;
}

static void write_page(struct pages *p, struct run *r, int page, int at, struct translation *out) {
    const struct markup *m = r->markup[page];
    int n = markup_count(m), most = 1;
    const struct translator_input *in = &r->in[page];
    *out = (struct translation){.n = 1};
    if (utf8_clean_prefix(in->text, in->size) < in->size) out->notes |= TRANSLATION_REPLACED;
    for (int i = at; i < at + n; i++) {
        if (!r->result[i].n) {
            out->n = 0; /* the run ended with an error before it */
            return;
        }
        most = max_int(most, r->result[i].n);
        out->notes |= r->result[i].notes;
        out->n_part += r->result[i].n_part;
    }
    struct candidate *best = p->best[page] = xcalloc((size_t)most + 1, sizeof *best);
    for (int k = 0; k < most; k++) best[k] = write_candidate(r, m, at, k);
    out->best = best;
    out->n = most;
}

/* Documents, or texts if `plain`. */
static int run(struct pages *p, struct run r, struct translation *out,
               const struct translator_poll *poll, struct err *err) {
    int n = r.n;
    memset(out, 0, (size_t)n * sizeof *out);
    p->best = xcalloc((size_t)n + 1, sizeof(struct candidate *));
    p->n = n;
    r.markup = xcalloc((size_t)n + 1, sizeof(struct markup *));
    int rc = read_all(&r, err);
    int ran = !rc;
    if (!rc) rc = translator_run(r.translator, r.text, r.n_text, r.result, poll, err);
    for (int i = 0, at = 0; i < n && ran; at += markup_count(r.markup[i]), i++)
        write_page(p, &r, i, at, &out[i]);
    for (int i = 0; i < n; i++) markup_free(r.markup[i]);
    xfree(r.markup);
    xfree(r.text);
    xfree(r.result);
    xfree(r.answer);
    return rc;
}

static int make_linking(struct pages *p, struct err *err) {
    struct translator_options options = p->options;
    options.format = FORMAT_LINES;
    options.alignment = ALIGNMENT_WORDS;
    if (!p->linking) p->linking = translator_new(p->engine);
    return translator_set(p->linking, &options, err);
}

static int is_marked(const struct translator_input *in) {
    return !in->prefix_size && in->size <= TOKENIZER_MAX_TEXT && markup_in_text(in->text, in->size);
}

/* Texts, marked and others. Those that do not fail have results, whichever do. */
static int run_texts(struct pages *p, const struct translator_input *in, int n,
                     struct translation *out, const struct translator_poll *poll, struct err *err) {
    struct translator_input *sorted = xcalloc((size_t)n + 1, sizeof *sorted);
    struct translation *result = xcalloc((size_t)n + 1, sizeof *result);
    char *marked = xcalloc((size_t)n + 1, 1);
    int n_marked = 0;
    for (int i = 0; i < n; i++) n_marked += marked[i] = (char)is_marked(&in[i]);
    int at[2] = {n_marked, 0};
    for (int i = 0; i < n; i++) sorted[at[(int)marked[i]]++] = in[i];
    struct err other = {0};
    struct run r = {.in = sorted, .n = n_marked, .plain = 1};
    int rc = n_marked ? make_linking(p, err) : 0, rest;
    r.translator = p->linking;
    if (!rc && n_marked) rc = run(p, r, result, poll, err);
    rest = n_marked == n ? 0
                         : translator_run(p->translator, sorted + n_marked, n - n_marked,
                                          result + n_marked, poll, &other);
    if (!rc && rest) *err = other, rc = rest;
    at[0] = n_marked, at[1] = 0;
    for (int i = 0; i < n; i++) out[i] = result[at[(int)marked[i]]++];
    xfree(sorted);
    xfree(result);
    xfree(marked);
    return rc;
}

int pages_run(struct pages *p, const struct translator_input *in, int n, struct translation *out,
              const struct translator_poll *poll, struct err *err) {
    const struct translator_options *o = &p->options;
    clear(p);
    if (o->format == FORMAT_HTML)
        return run(p, (struct run){.translator = p->translator, .in = in, .n = n}, out, poll, err);
    if (o->format == FORMAT_TEXT && !o->alignment) return run_texts(p, in, n, out, poll, err);
    return translator_run(p->translator, in, n, out, poll, err);
}

int pages_document(struct pages *p, const struct document *d, struct pages_file *out,
                   const struct translator_poll *poll, struct err *err) {
    int n = document_count(d);
    struct translator_input *in = xcalloc((size_t)n + 1, sizeof *in);
    struct translation *result = xcalloc((size_t)n + 1, sizeof *result);
    struct document_answer *answer = xcalloc((size_t)n + 1, sizeof *answer);
    *out = (struct pages_file){0};
    for (int i = 0; i < n; i++) {
        in[i] = (struct translator_input){
            .key = (uint64_t)i + 1, .name = "text", .number = (uint64_t)i + 1};
        in[i].text = document_text(d, i, &in[i].size);
    }
    int rc = pages_run(p, in, n, result, poll, err);
    for (int i = 0; i < n && !rc; i++) {
        const struct candidate *best = result[i].best;
        BUG_ON(!best);
        answer[i] = (struct document_answer){best->text, best->size};
        out->notes |= result[i].notes;
    }
    if (!rc) rc = document_write(d, answer, n, &out->bytes, &out->size, err);
    xfree(in);
    xfree(result);
    xfree(answer);
    return rc;
}
