/* bitext.c — see bitext.h.
 *
 * One direction of one call: `encode_all` makes pieces and words of all pairs, `sort_pairs` orders
 * those that can be aligned, `align_some` sends as many through the model as their matrices have
 * room, and `link_one` reads each matrix. */
#define _GNU_SOURCE /* qsort_r */
#include "search/bitext.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/pool.h"
#include "data/words.h"
#include "search/defaults.h"

enum {
    TASK = 32,              /* pairs that a thread takes at a time */
    CHUNK_CELLS = 16 << 20, /* of the matrices that are read together */
    TOKENS_PER_PAIR = 4     /* fewer do not pay for more room */
};

const char *const bitext_unit_names[] = {"words", "tokens", "pieces", NULL};
_Static_assert((int)BITEXT_WORDS == (int)WORDS_WORDS && (int)BITEXT_TOKENS == (int)WORDS_TOKENS,
               "units are handed on");

/* A pair as one model sees it: src is what it reads, tgt what it is forced to write. */
struct sides {
    struct words src, tgt;
    int status; /* of the tokenizer */
    int fits;   /* it has words on both sides, and positions for all pieces */
};

struct way {
    const struct engine *engine;
    struct engine_tags tags;
    struct align_options align;
    struct aligner *aligner;
    struct sides *sides; /* [room] */
    struct links *links; /* [room] */
};

struct scratch { /* of a thread */
    float *words;
    size_t cap_words;
    struct align_link *link;
    int cap_link;
};

struct bitext {
    struct bitext_options options;
    struct way way[BITEXT_WAYS];
    int n_way;
    struct pool *pool;
    struct scratch *scratch; /* [pool_size] */
    struct bitext_result *result;
    int room;
    int *order; /* [room] */
    struct align_pair *pair;
    int cap_pair;
    float *matrix;
    size_t cap_matrix;
    int32_t *said; /* [cap_said] texts behind their tags */
    size_t cap_said;
};

/* A call of one direction, as the threads see it. */
struct job {
    struct bitext *b;
    int which;
    const struct bitext_pair *pair;
    int n;
    int n_choice;
    float threshold;
    struct links *found; /* [n_choice * n] */
    const int *order;    /* of the pairs being aligned */
    int n_order;
};

static struct way *way_of(const struct job *j) { return &j->b->way[j->which]; }
static int is_tag(int32_t tag) { return tag >= 0; }

/* ---- life ------------------------------------------------------------------------------------ */

static int check_tokenizers(const struct bitext *b, struct err *err) {
    if (b->n_way < 2 || b->options.unit != BITEXT_PIECES) return 0;
    const struct engine *to = b->way[BITEXT_FORWARD].engine, *back = b->way[BITEXT_REVERSE].engine;
    if (tokenizer_equal(to->source, back->target) && tokenizer_equal(to->target, back->source))
        return 0;
    return err_set(err, HEED_EINVAL,
                   "links between pieces: the two models have different tokenizers; ask for words");
}

static int make_aligner(struct aligner **aligner, const struct bitext *b, int which,
                        const struct align_options *choice, int n_choice, struct err *err) {
    const struct engine *e = b->way[which].engine;
    int tokens = max_int(b->options.tokens, e->max_len);
    struct aligner_setup setup = {.bos = tokenizer_bos(e->target),
                                  .choice = choice,
                                  .n_choice = n_choice,
                                  .caps = {tokens, tokens, tokens / TOKENS_PER_PAIR + 1},
                                  .pool = b->pool,
                                  .stop = b->options.stop};
    struct err why = {0};
    int rc = aligner_new(aligner, e->model[0], &setup, &why);
    static const char name[] = "alignment_"; /* of the options; the other model's have another */
    int reversed = which == BITEXT_REVERSE && strncmp(why.msg, name, sizeof name - 1) == 0;
    if (!rc) return 0;
    return err_set(err, rc, "%s%s", reversed ? "reverse_" : "",
                   why.msg + (reversed ? sizeof name - 1 : 0));
}

int bitext_new(struct bitext **out, const struct engine *forward, const struct engine *reverse,
               const struct bitext_options *options, struct err *err) {
    struct bitext *b = xcalloc(1, sizeof *b);
    *out = NULL;
    b->options = *options;
    b->n_way = reverse ? 2 : 1;
    b->way[BITEXT_FORWARD].engine = forward;
    b->way[BITEXT_REVERSE].engine = reverse;
    int rc = pool_new(&b->pool, options->n_thread, err);
    if (!rc) b->scratch = xcalloc((size_t)pool_size(b->pool), sizeof *b->scratch);
    if (!rc) rc = check_tokenizers(b, err);
    for (int i = 0; i < b->n_way && !rc; i++) {
        struct way *w = &b->way[i];
        w->align = defaults_align(w->engine, options->align[i]);
        if (w->engine->tongues && w->engine->tongues->n_code)
            rc = engine_tags(w->engine, &options->said[i], &w->tags, err);
        else
            w->tags = (struct engine_tags){-1, -1};
        if (!rc) rc = make_aligner(&w->aligner, b, i, &w->align, 1, err);
    }
    if (rc) {
        bitext_free(b);
        return rc;
    }
    *out = b;
    return 0;
}

void bitext_free(struct bitext *b) {
    if (!b) return;
    for (int i = 0; i < BITEXT_WAYS; i++) {
        struct way *w = &b->way[i];
        for (int p = 0; p < b->room && w->sides; p++) {
            words_release(&w->sides[p].src);
            words_release(&w->sides[p].tgt);
            links_release(&w->links[p]);
        }
        xfree(w->sides);
        xfree(w->links);
        aligner_free(w->aligner);
    }
    for (int p = 0; p < b->room; p++) links_release(&b->result[p].links);
    for (int i = 0; b->scratch && i < pool_size(b->pool); i++) {
        xfree(b->scratch[i].words);
        xfree(b->scratch[i].link);
    }
    if (b->pool) pool_free(b->pool);
    xfree(b->scratch);
    xfree(b->result);
    xfree(b->order);
    xfree(b->pair);
    xfree(b->matrix);
    xfree(b->said);
    xfree(b);
}

static void *grown(void *old, int before, int now, size_t size) {
    char *p = xrealloc(old, (size_t)now * size);
    memset(p + (size_t)before * size, 0, (size_t)(now - before) * size);
    return p;
}

static void reserve(struct bitext *b, int n) {
    if (n <= b->room) return;
    for (int i = 0; i < b->n_way; i++) {
        struct way *w = &b->way[i];
        w->sides = grown(w->sides, b->room, n, sizeof *w->sides);
        w->links = grown(w->links, b->room, n, sizeof *w->links);
    }
    b->result = grown(b->result, b->room, n, sizeof *b->result);
    b->order = grown(b->order, b->room, n, sizeof *b->order);
    b->room = n;
}

/* ---- pieces and words ------------------------------------------------------------------------ */

static int encode_one(struct words *w, const struct bitext *b, const struct tokenizer *t,
                      const char *text, size_t size) {
    enum words_unit unit = b->options.unit == BITEXT_TOKENS ? WORDS_TOKENS : WORDS_WORDS;
    int n = words_encode(w, unit, t, text, size);
    if (n >= 0) w->ids[n] = tokenizer_eos(t); /* -1: none, and not looked at */
    return n < 0 ? n : 0;
}

static void encode_task(void *ctx, int task, int thread) {
    const struct job *j = ctx;
    const struct engine *e = way_of(j)->engine;
    int turned = j->which == BITEXT_REVERSE; /* it reads the pair's target */
    const struct tokenizer *src = turned ? e->target : e->source;
    const struct tokenizer *tgt = turned ? e->source : e->target;
    (void)thread;
    for (int p = task * TASK; p < min_int((task + 1) * TASK, j->n); p++) {
        const struct bitext_pair *in = &j->pair[p];
        struct sides *s = &way_of(j)->sides[p];
        struct words *first = turned ? &s->tgt : &s->src, *second = turned ? &s->src : &s->tgt;
        s->status = encode_one(first, j->b, src, in->src, in->src_size);
        if (!s->status) s->status = encode_one(second, j->b, tgt, in->tgt, in->tgt_size);
        s->fits = !s->status && s->src.n && s->tgt.n && s->src.n_piece && s->tgt.n_piece &&
                  s->src.n_piece + is_tag(way_of(j)->tags.source) < e->max_len &&
                  s->tgt.n_piece + is_tag(way_of(j)->tags.target) < e->max_len;
    }
}

static int encode_all(struct job *j, struct err *err) {
    pool_run(j->b->pool, encode_task, j, ceil_div(j->n, TASK));
    for (int p = 0; p < j->n; p++)
        if (way_of(j)->sides[p].status)
            return err_set(err, way_of(j)->sides[p].status, "pair %d of %d cannot be tokenised",
                           p + 1, j->n);
    return 0;
}

/* Longest first, so that what needs most memory comes first; as they came where equal. */
static int by_length(const void *a, const void *b, void *ctx) {
    const struct sides *s = ctx;
    int i = *(const int *)a, k = *(const int *)b;
    if (s[i].src.n_piece != s[k].src.n_piece) return s[i].src.n_piece > s[k].src.n_piece ? -1 : 1;
    if (s[i].tgt.n_piece != s[k].tgt.n_piece) return s[i].tgt.n_piece > s[k].tgt.n_piece ? -1 : 1;
    return i < k ? -1 : i > k;
}

static int sort_pairs(const struct job *j) {
    int n = 0;
    for (int p = 0; p < j->n; p++)
        if (way_of(j)->sides[p].fits) j->b->order[n++] = p;
    if (n > 1) qsort_r(j->b->order, (size_t)n, sizeof *j->b->order, by_length, way_of(j)->sides);
    return n;
}

/* ---- aligning -------------------------------------------------------------------------------- */

/* Pieces that the model reads and writes, with their tags and end marks, if any. */
static int read_length(const struct job *j, const struct sides *s) {
    return is_tag(way_of(j)->tags.source) + s->src.n_piece +
           (tokenizer_eos(way_of(j)->engine->source) >= 0);
}
static int written_length(const struct job *j, const struct sides *s) {
    return is_tag(way_of(j)->tags.target) + s->tgt.n_piece + 1;
}

static size_t cells_of(const struct job *j, const struct sides *s) {
    return (size_t)read_length(j, s) * (size_t)written_length(j, s);
}

static struct scratch *scratch_for(struct bitext *b, int thread, const struct sides *s) {
    struct scratch *x = &b->scratch[thread];
    size_t cells = (size_t)s->src.n * (size_t)s->tgt.n;
    int links = max_int(s->tgt.n_piece, s->tgt.n);
    if (cells > x->cap_words) {
        xfree(x->words);
        x->words = xmalloc(cells * sizeof *x->words);
        x->cap_words = cells;
    }
    if (links > x->cap_link) {
        xfree(x->link);
        x->link = xmalloc((size_t)links * sizeof *x->link);
        x->cap_link = links;
    }
    return x;
}

/* A text behind its tag, in memory of the bitext. */
static const int32_t *behind(struct bitext *b, int32_t tag, const struct words *w, size_t *at) {
    if (!is_tag(tag)) return w->ids;
    int32_t *ids = b->said + *at;
    *at += (size_t)w->n_piece + 2;
    ids[0] = tag;
    memcpy(ids + 1, w->ids, ((size_t)w->n_piece + 1) * sizeof *ids);
    return ids;
}

/* The links that one matrix of a pair says, as source, target of the pair. */
static void link_one(const struct job *j, const struct sides *s, const float *matrix,
                     struct scratch *x, struct links *out) {
    int stride = read_length(j, s);
    const float *first =
        matrix + is_tag(way_of(j)->tags.target) * stride + is_tag(way_of(j)->tags.source);
    struct align_matrix m = {first, s->tgt.n_piece, s->src.n_piece, stride};
    if (j->b->options.unit != BITEXT_PIECES) {
        align_to_words(x->words, &m,
                       &(struct align_words){s->src.of, s->tgt.of, s->src.n, s->tgt.n});
        m = (struct align_matrix){x->words, s->tgt.n, s->src.n, s->src.n};
    }
    int n = align_links(x->link, &m, j->threshold);
    links_clear(out);
    for (int i = 0; i < n; i++) links_add(out, x->link[i].src, x->link[i].tgt);
    if (j->which == BITEXT_REVERSE) links_turn(out);
}

static void link_task(void *ctx, int task, int thread) {
    const struct job *j = ctx;
    for (int i = task * TASK; i < min_int((task + 1) * TASK, j->n_order); i++) {
        int p = j->order[i];
        const struct sides *s = &way_of(j)->sides[p];
        struct scratch *x = scratch_for(j->b, thread, s);
        for (int c = 0; c < j->n_choice; c++)
            link_one(j, s, j->b->pair[i].out + (size_t)c * cells_of(j, s), x,
                     &j->found[(size_t)c * (size_t)j->n + (size_t)p]);
    }
}

/* Room for the matrices of the next pairs: how many have it. */
static int gather(const struct job *j, const int *order, int n) {
    struct bitext *b = j->b;
    const struct sides *sides = way_of(j)->sides;
    struct engine_tags tags = way_of(j)->tags;
    size_t cells = 0, at = 0, said = 0;
    int k = 0;
    for (; k < n; k++) {
        size_t more = cells_of(j, &sides[order[k]]) * (size_t)j->n_choice;
        if (k && cells + more > CHUNK_CELLS) break;
        cells += more;
        said += (size_t)(sides[order[k]].src.n_piece + sides[order[k]].tgt.n_piece) + 4;
    }
    if ((is_tag(tags.source) || is_tag(tags.target)) && said > b->cap_said) {
        b->said = xrealloc(b->said, said * sizeof *b->said);
        b->cap_said = said;
    }
    said = 0;
    if (cells > b->cap_matrix) {
        xfree(b->matrix);
        b->matrix = xmalloc(cells * sizeof *b->matrix);
        b->cap_matrix = cells;
    }
    if (k > b->cap_pair) {
        b->pair = xrealloc(b->pair, (size_t)k * sizeof *b->pair);
        b->cap_pair = k;
    }
    for (int i = 0; i < k; i++) {
        const struct sides *s = &sides[order[i]];
        const int32_t *src = behind(b, tags.source, &s->src, &said);
        const int32_t *tgt = behind(b, tags.target, &s->tgt, &said);
        b->pair[i] =
            (struct align_pair){src, tgt, read_length(j, s), written_length(j, s), b->matrix + at};
        at += cells_of(j, s) * (size_t)j->n_choice;
    }
    return k;
}

static int align_all(struct job *j, struct aligner *aligner, struct err *err) {
    int rc = encode_all(j, err);
    if (rc) return rc;
    for (int i = 0; i < j->n_choice * j->n; i++) links_clear(&j->found[i]);
    int n = sort_pairs(j);
    for (int done = 0, k; done < n; done += k) {
        k = gather(j, j->b->order + done, n - done);
        if ((rc = aligner_run(aligner, j->b->pair, k, err))) return rc;
        j->order = j->b->order + done;
        j->n_order = k;
        pool_run(j->b->pool, link_task, j, ceil_div(k, TASK));
    }
    return 0;
}

/* ---- results --------------------------------------------------------------------------------- */

/* Both directions together. */
static void result_task(void *ctx, int task, int thread) {
    const struct job *j = ctx;
    const struct bitext *b = j->b;
    (void)thread;
    for (int p = task * TASK; p < min_int((task + 1) * TASK, j->n); p++) {
        const struct sides *s = &b->way[0].sides[p];
        struct bitext_result *r = &b->result[p];
        int pieces = b->options.unit == BITEXT_PIECES;
        r->src_word = pieces ? s->src.piece : s->src.word;
        r->tgt_word = pieces ? s->tgt.piece : s->tgt.word;
        r->n_src = pieces ? s->src.n_piece : s->src.n;
        r->n_tgt = pieces ? s->tgt.n_piece : s->tgt.n;
        r->too_long = 0;
        for (int i = 0; i < b->n_way; i++)
            r->too_long |= !b->way[i].sides[p].fits && r->n_src && r->n_tgt;
        links_clear(&r->links);
        if (r->too_long) continue;
        const struct links *a = &b->way[0].links[p], *other = &b->way[b->n_way - 1].links[p];
        links_symmetrise(&r->links, b->options.method, a, other);
    }
}

int bitext_run(struct bitext *b, const struct bitext_pair *pair, int n,
               const struct bitext_result **result, struct err *err) {
    struct job j = {.b = b, .pair = pair, .n = n, .n_choice = 1};
    int rc = 0;
    reserve(b, n);
    for (j.which = 0; j.which < b->n_way && !rc; j.which++) {
        j.found = way_of(&j)->links;
        j.threshold = way_of(&j)->align.threshold;
        rc = align_all(&j, way_of(&j)->aligner, err);
    }
    if (rc) return rc;
    pool_run(b->pool, result_task, &j, ceil_div(n, TASK));
    *result = b->result;
    return 0;
}

/* ---- choosing -------------------------------------------------------------------------------- */

static void list_choices(struct bitext_choices *c, const struct config *config) {
    c->n = config->n_layer_dec * 2 * (config->n_head + 1);
    c->choice = xcalloc((size_t)c->n, sizeof *c->choice);
    int at = 0;
    for (int layer = 1; layer <= config->n_layer_dec; layer++)
        for (int row = ALIGN_INPUT; row <= ALIGN_OUTPUT; row++)
            for (int head = 0; head <= config->n_head; head++)
                c->choice[at++] = (struct align_options){layer, head, (enum align_row)row, 0};
}

int bitext_compare(struct bitext_choices choices[BITEXT_WAYS], struct bitext *b,
                   const struct bitext_pair *pair, int n, struct err *err) {
    struct job j = {.b = b, .pair = pair, .n = n};
    int rc = 0;
    memset(choices, 0, BITEXT_WAYS * sizeof *choices);
    reserve(b, n);
    for (j.which = 0; j.which < b->n_way && !rc; j.which++) {
        struct bitext_choices *c = &choices[j.which];
        struct aligner *aligner = NULL;
        list_choices(c, &way_of(&j)->engine->model[0]->config);
        c->links = xcalloc((size_t)c->n * (size_t)n + 1, sizeof *c->links);
        j.n_choice = c->n;
        j.found = c->links;
        rc = make_aligner(&aligner, b, j.which, c->choice, c->n, err);
        if (!rc) rc = align_all(&j, aligner, err);
        aligner_free(aligner);
    }
    for (int i = 0; i < BITEXT_WAYS && rc; i++) bitext_choices_release(&choices[i], n);
    return rc;
}

void bitext_choices_release(struct bitext_choices *c, int n_pair) {
    for (int i = 0; c->links && i < c->n * n_pair; i++) links_release(&c->links[i]);
    xfree(c->links);
    xfree(c->choice);
    *c = (struct bitext_choices){0};
}

double bitext_agreement(const struct links *a, const struct links *b, int n) {
    int64_t all = 0, common = 0;
    for (int p = 0; p < n; p++) {
        all += a[p].n + b[p].n;
        for (int i = 0; i < a[p].n; i++)
            common += links_have(&b[p], a[p].link[i].src, a[p].link[i].tgt);
    }
    return all ? 2.0 * (double)common / (double)all : 0;
}

static void better(struct bitext_standing *s, double agreement, int with) {
    if (agreement > s->agreement) *s = (struct bitext_standing){agreement, with};
}

void bitext_rank(struct bitext_standing *const standing[BITEXT_WAYS],
                 const struct bitext_choices choices[BITEXT_WAYS], int n_pair) {
    for (int f = 0; f < choices[BITEXT_FORWARD].n; f++)
        for (int r = 0; r < choices[BITEXT_REVERSE].n; r++) {
            double a = bitext_agreement(choices[BITEXT_FORWARD].links + (size_t)f * (size_t)n_pair,
                                        choices[BITEXT_REVERSE].links + (size_t)r * (size_t)n_pair,
                                        n_pair);
            better(&standing[BITEXT_FORWARD][f], a, r);
            better(&standing[BITEXT_REVERSE][r], a, f);
        }
}

int bitext_best(const struct bitext_standing *standing, int n) {
    int best = 0;
    for (int c = 1; c < n; c++)
        if (standing[c].agreement > standing[best].agreement) best = c;
    return best;
}
