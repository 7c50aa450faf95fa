/* translator_links.c — which word or piece of a source became which of its translation: one more
 * pass of the decoder over what was found (align.h). */
#include "search/defaults.h"
#include "search/translator_inside.h"

enum { ALIGN_SEQ = 32, ALIGN_TOKENS = 16384 };

int translator_open_links(struct translator *t, struct err *err) {
    const struct translator_options *o = &t->options;
    struct align_options align = defaults_align(t->engine, o->align);
    t->threshold = align.threshold;
    /* one more for the row that reads the last token of what a limit cut */
    int longest = translator_longest(t, t->limit) + 1,
        tokens = min_int(t->suit.tokens, ALIGN_TOKENS);
    struct aligner_setup setup = {
        .bos = tokenizer_bos(t->target),
        .choice = &align,
        .n_choice = 1,
        .caps = {max_int(t->limit, tokens), max_int(longest, tokens), ALIGN_SEQ}};
    return aligner_new(&t->aligner, t->engine->model[0], &setup, err);
}

/* What of a candidate is aligned: its tag, its tokens, and the end mark, which one cut at the
 * model's last position has no place for. */
static int aligned_rows(const struct translator *t, const struct candidate *c) {
    return min_int(t->leads + c->n_tok + 1, t->engine->model[0]->config.max_len);
}

/* One pair per candidate of the batch; their matrices lie one after another in t->matrix. */
static int collect_pairs(struct translator *t, const int *order, int n) {
    size_t need = 0, at = 0;
    int n_pair = 0;
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        n_pair += p->n;
        for (int k = 0; k < p->n; k++)
            need += (size_t)aligned_rows(t, &p->best[k]) * (size_t)part_length(t, p);
    }
    if (n_pair > t->cap_pair) {
        t->cap_pair = n_pair;
        t->pair = xrealloc(t->pair, (size_t)n_pair * sizeof *t->pair);
    }
    if (need > t->cap_matrix) {
        xfree(t->matrix);
        t->matrix = xmalloc(need * sizeof *t->matrix);
        t->cap_matrix = need;
    }
    n_pair = 0;
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        for (int k = 0; k < p->n && p->best[k].ids; k++) {
            t->pair[n_pair++] = (struct align_pair){.src = part_ids(t, p),
                                                    .tgt = p->best[k].ids - t->leads,
                                                    .n_src = part_length(t, p),
                                                    .n_tgt = aligned_rows(t, &p->best[k]),
                                                    .out = t->matrix + at};
            at += (size_t)aligned_rows(t, &p->best[k]) * (size_t)part_length(t, p);
        }
    }
    return n_pair;
}

static void keep_links(struct translator *t, struct candidate *c, const struct align_matrix *m,
                       int src_at) {
    struct align_link *link = keep_take(&t->keep, ((size_t)m->n_row + 1) * sizeof *link);
    c->n_link = align_links(link, m, t->threshold);
    c->link = link;
    for (int i = 0; i < c->n_link; i++) link[i].src += src_at;
}

/* The links of a candidate out of the matrix of its tokens, end marks and tags left out. */
static int link_candidate(struct translator *t, const struct part *p, struct candidate *c,
                          const float *matrix, struct err *err) {
    int length = part_length(t, p);
    struct align_matrix m = {matrix + t->leads * length + t->tagged, c->n_tok, p->n_src - t->ended,
                             length};
    if (!wants_words(t)) {
        keep_links(t, c, &m, 0);
        return 0;
    }
    int n = words_of_ids(&t->words, WORDS_WORDS, t->target, c->ids, c->n_tok), n_src = 0;
    if (n < 0) return err_set(err, n, "a translation cannot be turned into words");
    for (int i = 0; i < m.n_col; i++) n_src = max_int(n_src, p->word[i] + 1);
    c->word = translator_keep_words(t);
    c->n_word = n;
    size_t cells = (size_t)n * (size_t)n_src;
    if (cells > t->cap_of_words) {
        xfree(t->of_words);
        t->cap_of_words = cells;
        t->of_words = xmalloc(cells * sizeof *t->of_words);
    }
    align_to_words(t->of_words, &m, &(struct align_words){p->word, t->words.of, n_src, n});
    keep_links(t, c, &(struct align_matrix){t->of_words, n, n_src, n_src}, p->word_at);
    return 0;
}

int translator_link(struct translator *t, const int *order, int n, struct err *err) {
    int rc = aligner_run(t->aligner, t->pair, collect_pairs(t, order, n), err);
    const struct align_pair *pair = t->pair;
    for (int i = 0; i < n && !rc; i++) {
        const struct part *p = &t->part[order[i]];
        for (int k = 0; k < p->n && p->best[k].ids && !rc; k++, pair++)
            rc = link_candidate(t, p, &p->best[k], pair->out, err);
    }
    return rc;
}
