/* translator_results.c — tokens become text, and the parts of a text its translation. */
#include <string.h>

#include "base/buffer.h"
#include "data/passages.h"
#include "data/tree.h"
#include "search/translator_inside.h"

static int decode(const struct translator *t, struct keep *keep, struct candidate *c) {
    char some[1024];
    int size = tokenizer_decode(t->target, c->ids, c->n_tok, some, sizeof some);
    if (size < 0) return size;
    char *text = keep_take(keep, (size_t)size + 1);
    if ((size_t)size < sizeof some)
        memcpy(text, some, (size_t)size + 1);
    else
        tokenizer_decode(t->target, c->ids, c->n_tok, text, (size_t)size + 1);
    for (char *p = text; *p; p++)
        if (*p == '\n' || *p == '\r') *p = ' ';
    c->text = text;
    c->size = strlen(text);
    return 0;
}

/* Puts the words of its line into a candidate's tree. */
static int fill_tree(const struct part *p, struct tree *tree, struct keep *keep,
                     struct candidate *c) {
    struct buffer out = {0};
    int rc = tree_read_row(tree, c->text, c->size, NULL);
    if (!rc) rc = tree_fill(tree, p->line, p->n_line, NULL, NULL);
    if (rc) return rc;
    tree_put(&out, tree);
    char *text = keep_take(keep, out.size + 1);
    memcpy(text, out.text, out.size);
    text[out.size] = 0;
    c->text = text;
    c->size = out.size;
    xfree(out.text);
    return 0;
}

struct reading {
    struct translator *t;
    int *rc; /* [tasks] */
};

static void read_parts(void *ctx, int task, int thread) {
    const struct reading *r = ctx;
    const struct translator *t = r->t;
    int last = min_int(t->n_part - task * TASK, TASK) + task * TASK;
    struct keep *keep = &t->of_thread[thread];
    struct tree tree = {0};
    for (int i = task * TASK; i < last; i++)
        for (int k = 0; k < t->part[i].n && t->part[i].best[k].ids && !r->rc[task]; k++) {
            struct candidate *c = &t->part[i].best[k];
            r->rc[task] = decode(t, keep, c);
            if (t->options.search.trees == TREES_WORDS && !r->rc[task])
                r->rc[task] = fill_tree(&t->part[i], &tree, keep, c);
        }
    tree_release(&tree);
}

int translator_read_off(struct translator *t, struct err *err) {
    int n_task = (t->n_part + TASK - 1) / TASK, rc = 0;
    struct reading reading = {t, keep_take(&t->keep, ((size_t)n_task + 1) * sizeof(int))};
    memset(reading.rc, 0, (size_t)n_task * sizeof(int));
    translator_tasks(t, read_parts, &reading, n_task);
    for (int i = 0; i < n_task && !rc; i++) rc = reading.rc[i];
    return rc ? err_set(err, rc, "a translation cannot be turned into text") : 0;
}

/* Appends the links and words of a part's candidate: its tokens, words and bytes come behind those
 * that *c has. Links between words count the source's through the whole text already. */
static void join_links(struct candidate *c, struct align_link *link, struct span *word,
                       const struct candidate *p, int src_at) {
    int tgt_at = word ? c->n_word : c->n_tok;
    for (int j = 0; j < p->n_link; j++)
        link[c->n_link++] =
            (struct align_link){p->link[j].src + (word ? 0 : src_at), p->link[j].tgt + tgt_at};
    for (int j = 0; word && j < p->n_word; j++)
        word[c->n_word++] =
            (struct span){p->word[j].begin + (int)c->size, p->word[j].end + (int)c->size};
}

/* Candidate k of a text of several parts. */
static void join(struct translator *t, struct candidate *c, const struct part *part, int n, int k) {
    size_t size = 0, n_tok = 0, n_link = 0, n_word = 0;
    int src_at = 0;
    for (int i = 0; i < n; i++) {
        const struct candidate *p = &part[i].best[min_int(k, part[i].n - 1)];
        size += p->size + part[i].n_before + part[i].n_after + 1;
        n_tok += (size_t)p->n_tok;
        n_link += (size_t)p->n_link;
        n_word += (size_t)p->n_word;
    }
    char *text = keep_take(&t->keep, size + 1);
    int32_t *ids = keep_take(&t->keep, (n_tok + 1) * sizeof *ids);
    struct align_link *link = keep_take(&t->keep, (n_link + 1) * sizeof *link);
    struct span *word = wants_words(t) ? keep_take(&t->keep, (n_word + 1) * sizeof *word) : NULL;
    *c = (struct candidate){
        .text = text, .ids = ids, .link = t->aligner ? link : NULL, .word = word};
    for (int i = 0; i < n; i++) {
        const struct candidate *p = &part[i].best[min_int(k, part[i].n - 1)];
        if (part[i].before)
            c->size +=
                passages_gap(text + c->size, part[i].before, part[i].n_before, text, c->size);
        else if (c->size > 0 && p->size > 0)
            text[c->size++] = ' ';
        join_links(c, link, word, p, src_at);
        if (p->size > 0) memcpy(text + c->size, p->text, p->size);
        c->size += p->size;
        if (p->n_tok > 0) memcpy(ids + c->n_tok, p->ids, (size_t)p->n_tok * sizeof *ids);
        c->n_tok += p->n_tok;
        c->score += p->score;
        c->log_prob += p->log_prob;
        c->cut |= p->cut;
        src_at += part[i].n_src - t->ended;
    }
    if (part[n - 1].n_after) memcpy(text + c->size, part[n - 1].after, part[n - 1].n_after);
    c->size += part[n - 1].n_after;
    text[c->size] = 0;
}

static void join_sources(struct translator *t, struct translation *out, const struct part *part) {
    int32_t *src;
    for (int i = 0; i < out->n_part; i++) out->n_src += part[i].n_src - t->ended;
    out->src = src = keep_take(&t->keep, ((size_t)out->n_src + 1) * sizeof *src);
    for (int i = 0; i < out->n_part; i++) {
        memcpy(src, part[i].src, (size_t)(part[i].n_src - t->ended) * sizeof *src);
        src += part[i].n_src - t->ended;
    }
}

void translator_assemble(struct translator *t, struct translation *out, const struct part *part) {
    int whole = t->options.format != FORMAT_TEXT; /* nothing is kept around parts */
    if (out->n_part == 0) {
        struct candidate *best = keep_take(&t->keep, sizeof *best);
        size_t size = whole ? 0 : out->size;
        char *text = keep_take(&t->keep, size + 1);
        if (size) memcpy(text, out->text, size);
        text[size] = 0;
        *best = (struct candidate){.text = text, .size = size};
        out->best = best;
        out->n = 1;
        return;
    }
    if (out->n_part == 1 && whole) {
        out->best = part->best;
        out->n = part->n;
        out->src = part->src;
        out->n_src = part->n_src - t->ended;
    } else {
        for (int i = 0; i < out->n_part; i++) out->n = max_int(out->n, part[i].n);
        struct candidate *best = keep_take(&t->keep, (size_t)out->n * sizeof *best);
        for (int k = 0; k < out->n; k++) join(t, &best[k], part, out->n_part, k);
        out->best = best;
        join_sources(t, out, part);
    }
    if (out->best[0].cut) out->notes |= TRANSLATION_CUT;
    for (int i = 0; i < out->n_part; i++)
        if (part[i].missed) out->notes |= TRANSLATION_MISSED;
}
