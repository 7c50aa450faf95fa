/* scoring.c — see scoring.h. */
#include "search/scoring.h"

#include "base/mem.h"
#include "base/num.h"
#include "search/scorer.h"

/* Where the tokens of a pair are. */
struct entry {
    size_t src, tgt;  /* in ids, behind the target's tag; the scores are at tgt, too */
    int n_src, n_tgt; /* 0: it cannot be scored */
};

struct scoring {
    const struct engine *engine;
    struct scorer *scorer;
    struct engine_tags tags;
    int max_len;
    struct entry entry[SCORING_PAIRS];
    struct score_pair pair[SCORING_PAIRS];
    int n;
    int32_t *ids; /* of the block's pairs, one after another */
    float *score; /* beside ids */
    size_t n_ids, cap_ids;
};

int scoring_new(struct scoring **scoring, const struct engine *engine,
                const struct engine_said *said, int tokens, struct err *err) {
    struct scoring *s = *scoring = xcalloc(1, sizeof *s);
    s->engine = engine;
    s->max_len = engine->model[0]->config.max_len;
    int cap = max_int(tokens, s->max_len), rc = engine_tags(engine, said, &s->tags, err);
    if (!rc)
        rc = scorer_new(&s->scorer, engine->model[0], tokenizer_bos(engine->target),
                        &(struct batch_caps){cap, cap, cap}, err);
    if (!rc) return 0;
    scoring_free(s);
    *scoring = NULL;
    return rc;
}

void scoring_free(struct scoring *s) {
    if (!s) return;
    scorer_free(s->scorer);
    xfree(s->ids);
    xfree(s->score);
    xfree(s);
}

void scoring_clear(struct scoring *s) {
    s->n = 0;
    s->n_ids = 0;
}

/* Appends the tokens of a line behind its tag, if it has one, unless they are too many. */
static int add_tokens(struct scoring *s, const struct tokenizer *tokenizer, int32_t tag,
                      const struct line *line) {
    int cap = s->max_len, at = tag >= 0;
    if (s->n_ids + (size_t)cap > s->cap_ids) {
        s->cap_ids = 2 * s->cap_ids + (size_t)cap;
        s->ids = xrealloc(s->ids, s->cap_ids * sizeof *s->ids);
        s->score = xrealloc(s->score, s->cap_ids * sizeof *s->score);
    }
    int32_t *ids = s->ids + s->n_ids;
    int n = line->flags & LINE_TOO_LONG
                ? cap + 1
                : tokenizer_encode_end(tokenizer, line->text, line->size, ids + at, cap - at);
    if (n < 0) return n;
    if (at) ids[0] = tag;
    n += at;
    if (n <= cap) s->n_ids += (size_t)n;
    return n;
}

void scoring_add(struct scoring *s, const struct line *src, const struct line *tgt, int n_tok[2]) {
    BUG_ON(s->n == SCORING_PAIRS);
    struct entry *e = &s->entry[s->n++];
    int lead = s->tags.target >= 0;
    size_t begin = s->n_ids;
    n_tok[0] = add_tokens(s, s->engine->source, s->tags.source, src);
    size_t middle = s->n_ids;
    n_tok[1] = add_tokens(s, s->engine->target, s->tags.target, tgt);
    *e = (struct entry){begin, middle + (size_t)lead, n_tok[0], n_tok[1] - lead};
    for (int i = 0; i < 2; i++)
        if (n_tok[i] < 0 || n_tok[i] > s->max_len) {
            *e = (struct entry){0};
            s->n_ids = begin;
        }
}

int scoring_run(struct scoring *s, struct err *err) {
    int n = 0, lead = s->tags.target >= 0;
    for (int i = 0; i < s->n; i++) {
        const struct entry *e = &s->entry[i];
        if (!e->n_tgt) continue;
        size_t tgt = e->tgt - (size_t)lead;
        s->pair[n++] = (struct score_pair){s->ids + e->src, s->ids + tgt, e->n_src, e->n_tgt + lead,
                                           s->score + tgt};
    }
    return scorer_run(s->scorer, s->pair, n, err);
}

struct scored scoring_result(const struct scoring *s, int i) {
    const struct entry *e = &s->entry[i];
    return (struct scored){s->ids + e->tgt, s->score + e->tgt, e->n_tgt};
}
