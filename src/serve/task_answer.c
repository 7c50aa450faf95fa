/* task_answer.c — what is said: see task_inside.h. */
#include <string.h>

#include "base/mem.h"
#include "serve/task_inside.h"

/* ---- partial --------------------------------------------------------------------------------- */

static const struct part_candidate *candidate_of(const struct part *p, int k) {
    return &p->best[min_int(k, p->n - 1)];
}

static void tell(struct document *d, const char *text, size_t size) {
    if (d->told_size + size + 1 > d->told_room) {
        d->told_room = 2 * (d->told_size + size + 64);
        d->told = xrealloc(d->told, d->told_room);
    }
    if (size) memcpy(d->told + d->told_size, text, size);
    d->told_size += size;
    d->told[d->told_size] = 0;
}

/* What parts part i of all from what is told before it. */
static void tell_gap(struct task *t, struct document *d, int i, int has_text) {
    const struct part *p = t->part[i];
    const char *before = p->before;
    size_t size = p->n_before;
    if (d->markup && i == t->unit[p->unit].first)
        before = markup_before(d->markup, p->unit - d->first, &size);
    if (before) {
        char *gap = xmalloc(size + 1);
        tell(d, gap, passages_gap(gap, before, size, d->told, d->told_size));
        xfree(gap);
    } else if (d->told_size && has_text) {
        tell(d, " ", 1);
    }
}

int task_partial(struct task *t, const struct task_facts *f, const struct part *p,
                 const struct carousel_view *view, struct desk_partial *out) {
    struct document *d = &t->document[t->unit[p->unit].document];
    int first = t->unit[d->first].first;
    struct part_candidate now = {.ids = (int32_t *)(uintptr_t)view->ids, .n = view->n};
    char some[2048], settled[2048];
    tell(d, "", 0);
    for (const struct part *q; (q = t->part[first + d->n_told]) != p; d->n_told++) {
        if (!q->n) return 0;
        tell_gap(t, d, first + d->n_told, q->best[0].size > 0);
        tell(d, q->best[0].text, q->best[0].size);
    }
    int n = tokenizer_decode(f->target, now.ids, now.n, some, sizeof some);
    int m = tokenizer_decode(f->target, now.ids, view->n_settled, settled, sizeof settled);
    if (n < 0 || m < 0 || (size_t)n >= sizeof some || (size_t)m >= sizeof settled) return 0;
    size_t before = d->told_size, same = 0;
    tell_gap(t, d, first + d->n_told, n > 0);
    while (same < (size_t)min_int(n, m) && some[same] == settled[same]) same++;
    while (same && same < (size_t)n && (some[same] & 0xC0) == 0x80) same--;
    out->text = (int)(d - t->document);
    out->settled = d->markup ? 0 : d->told_size + same; /* what is kept comes at the end */
    tell(d, some, (size_t)n);
    out->out = d->told;
    out->size = d->told_size;
    d->told_size = before; /* the part itself is not done yet */
    return 1;
}

/* ---- answers --------------------------------------------------------------------------------- */

/* A candidate of a unit, as its parts make it. */
struct joined {
    char *text;
    size_t size;
    float score, log_prob;
    int cut;
    struct desk_word *word;
    int n_word;
    struct align_link *link;
    int n_link;
    struct span *source; /* [n_source] the words of the document */
    int n_source;
};

/* Words and links of a part's candidate behind those that *c has; its text begins at c->size. */
static void join_words(struct joined *c, const struct part_candidate *p) {
    for (int i = 0; i < p->n_link; i++)
        c->link[c->n_link++] = (struct align_link){p->link[i].src, p->link[i].tgt + c->n_word};
    for (int i = 0; i < p->n_word; i++) {
        struct desk_word *w = &c->word[c->n_word++];
        *w = p->word[i];
        w->at.begin += (int)c->size;
        w->at.end += (int)c->size;
    }
}

static void join(struct task *t, const struct unit *u, int k, struct joined *c) {
    size_t size = u->size - u->after, n_word = 0, n_link = 0;
    *c = (struct joined){.source = u->word, .n_source = u->n_word};
    if (!u->n_part) {
        c->size = task_is_text(t, u) ? u->size : 0;
        c->text = keep_text(&t->keep, u->text, c->size);
        return;
    }
    for (int i = 0; i < u->n_part; i++) {
        const struct part *part = t->part[u->first + i];
        const struct part_candidate *p = candidate_of(part, k);
        size += p->size + part->n_before + 1;
        n_word += (size_t)p->n_word;
        n_link += (size_t)p->n_link;
    }
    c->text = keep_take(&t->keep, size + 1);
    c->word = keep_take(&t->keep, (n_word + 1) * sizeof *c->word);
    c->link = keep_take(&t->keep, (n_link + 1) * sizeof *c->link);
    for (int i = 0; i < u->n_part; i++) {
        const struct part *part = t->part[u->first + i];
        const struct part_candidate *p = candidate_of(part, k);
        if (part->before)
            c->size +=
                passages_gap(c->text + c->size, part->before, part->n_before, c->text, c->size);
        else if (c->size > 0 && p->size > 0)
            c->text[c->size++] = ' ';
        join_words(c, p);
        if (p->size) memcpy(c->text + c->size, p->text, p->size);
        c->size += p->size;
        c->score += p->score;
        c->log_prob += p->log_prob;
        c->cut |= p->cut;
    }
    if (u->after < u->size) memcpy(c->text + c->size, u->text + u->after, u->size - u->after);
    c->size += u->size - u->after;
    c->text[c->size] = 0;
}

/* The words of a text that has been written, as they are in it; `of` has those of its units. */
static void take_words(struct task *t, const struct markup_words *w, const struct joined *of,
                       struct joined *out) {
    out->n_source = w->n_source;
    out->source = keep_take(&t->keep, ((size_t)w->n_source + 1) * sizeof *out->source);
    if (w->n_source) memcpy(out->source, w->source, (size_t)w->n_source * sizeof *out->source);
    out->n_link = w->n_link;
    out->link = keep_take(&t->keep, ((size_t)w->n_link + 1) * sizeof *out->link);
    if (w->n_link) memcpy(out->link, w->link, (size_t)w->n_link * sizeof *out->link);
    out->n_word = w->n_target;
    out->word = keep_take(&t->keep, ((size_t)w->n_target + 1) * sizeof *out->word);
    for (int i = 0; i < w->n_target; i++) {
        const struct markup_word *word = &w->target[i];
        float sure = word->word < 0 ? 1 : of[word->answer].word[word->word].confidence;
        out->word[i] = (struct desk_word){word->at, sure};
    }
}

static void write_page(struct task *t, const struct document *d, int k, struct joined *out) {
    struct markup_answer *answer = xcalloc((size_t)d->n_unit + 1, sizeof *answer);
    struct joined *of = xcalloc((size_t)d->n_unit + 1, sizeof *of);
    struct markup_words words = {0};
    *out = (struct joined){0};
    for (int i = 0; i < d->n_unit; i++) {
        const struct unit *u = &t->unit[d->first + i];
        struct joined c;
        join(t, u, k, &c);
        of[i] = c;
        struct span *target = keep_take(&t->keep, ((size_t)c.n_word + 1) * sizeof *target);
        for (int j = 0; j < c.n_word; j++) target[j] = c.word[j].at;
        answer[i] = (struct markup_answer){.text = c.text,
                                           .size = c.size,
                                           .source = u->word,
                                           .n_source = u->n_word,
                                           .target = target,
                                           .n_target = c.n_word,
                                           .link = c.link,
                                           .n_link = c.n_link};
        out->score += c.score;
        out->log_prob += c.log_prob;
        out->cut |= c.cut;
    }
    int worded = t->extras & DESK_WORDS;
    char *page = markup_write_words(d->markup, answer, &out->size, worded ? &words : NULL);
    out->text = keep_text(&t->keep, page, out->size);
    if (worded) take_words(t, &words, of, out);
    markup_words_release(&words);
    xfree(page);
    xfree(of);
    xfree(answer);
}

static int says_new(const struct desk_candidate *best, int n, const struct joined *c) {
    for (int i = 0; i < n; i++)
        if (best[i].size == c->size && memcmp(best[i].text, c->text, c->size) == 0) return 0;
    return 1;
}

static void answer_document(struct task *t, const struct document *d, struct desk_answer *a) {
    int most = 1;
    a->replaced = d->replaced;
    for (int i = d->first; i < d->first + d->n_unit; i++) {
        a->n_sentence += t->unit[i].n_part;
        for (int p = 0; p < t->unit[i].n_part; p++)
            most = max_int(most, t->part[t->unit[i].first + p]->n);
    }
    struct desk_candidate *best = keep_take(&t->keep, (size_t)most * sizeof *best);
    for (int k = 0; k < most; k++) {
        struct joined c;
        if (d->markup)
            write_page(t, d, k, &c);
        else
            join(t, &t->unit[d->first], k, &c);
        if (says_new(best, a->n, &c))
            best[a->n++] = (struct desk_candidate){c.text, c.size, c.score, c.log_prob, c.cut};
        if (k || !(t->extras & DESK_WORDS)) continue;
        a->source = d->text;
        a->source_size = d->size;
        a->word = c.source;
        a->n_word = c.n_source;
        a->translated = c.word;
        a->n_translated = c.n_word;
        a->link = c.link;
        a->n_link = c.n_link;
    }
    a->best = best;
}

static struct desk_answer *answers(struct task *t) {
    if (t->answer) return t->answer;
    size_t size = (size_t)t->n_document * sizeof *t->answer;
    t->answer = keep_take(&t->keep, size);
    memset(t->answer, 0, size);
    return t->answer;
}

const struct desk_answer *task_finish(struct task *t, int *n) {
    struct desk_answer *a = answers(t);
    for (int i = 0; i < t->n_document && !(t->extras & DESK_SCORE); i++)
        answer_document(t, &t->document[i], &a[i]);
    a[0].attention = t->attention;
    *n = t->n_document;
    return a;
}

void task_attention(struct task *t, const struct desk_attention *attention) {
    t->attention = attention;
}

/* ---- given translations ---------------------------------------------------------------------- */

/* A text with room for a tag before it. */
static int encode_whole(struct task *t, const struct task_facts *f, int source,
                        const struct document *d, int32_t **ids) {
    const struct tokenizer *side = source ? f->source : f->target;
    int most = task_max_tok(t, f);
    task_make_room(t, most);
    int n = tokenizer_encode(side, source ? d->text : d->given, source ? d->size : d->given_size,
                             t->ids, most);
    if (n < 0 || n > most) return n < 0 ? n : HEED_ELIMIT;
    *ids = keep_take(&t->keep, ((size_t)n + 2) * sizeof **ids);
    memcpy(*ids + 1, t->ids, (size_t)n * sizeof **ids);
    (*ids)++[0] = source ? t->tags.source : t->tags.target;
    (*ids)[n] = tokenizer_eos(side);
    return n + (tokenizer_eos(side) >= 0);
}

int task_pair(struct task *t, const struct task_facts *f, int i, struct task_pair *pair,
              struct err *err) {
    const struct document *d = &t->document[i];
    int tagged = task_is_tagged(t);
    if (d->size > TASK_PIECE || d->given_size > TASK_PIECE)
        return err_set(err, HEED_ELIMIT,
                       "text %d or its translation has more than the %d bytes that can be scored",
                       i + 1, TASK_PIECE);
    pair->n_src = encode_whole(t, f, 1, d, &pair->src);
    pair->n_tgt = encode_whole(t, f, 0, d, &pair->tgt);
    int bad = min_int(pair->n_src, pair->n_tgt);
    if (bad < 0)
        return err_set(err, bad,
                       "text %d or its translation has more than the %d tokens that the model "
                       "takes, or cannot be tokenised",
                       i + 1, task_max_tok(t, f));
    pair->src -= tagged;
    pair->n_src += tagged;
    return 0;
}

void task_scored(struct task *t, const struct task_facts *f, int i, const struct task_pair *pair,
                 const float *log_prob) {
    const struct document *d = &t->document[i];
    struct desk_answer *a = &answers(t)[i];
    struct desk_candidate *best = keep_take(&t->keep, sizeof *best);
    *best = (struct desk_candidate){.text = d->given, .size = d->given_size};
    for (int k = 0; k < pair->n_tgt; k++) best->log_prob += log_prob[k];
    best->score = best->log_prob;
    *a = (struct desk_answer){.best = best,
                              .n = 1,
                              .n_sentence = 1,
                              .replaced = d->replaced,
                              .source = d->text,
                              .source_size = d->size,
                              .n_piece = pair->n_tgt};
    if (words_encode(&t->words, WORDS_WORDS, f->target, d->given, d->given_size) != pair->n_tgt - 1)
        return;
    a->n_translated = t->words.n;
    a->translated = task_sure_words(t, log_prob);
}
