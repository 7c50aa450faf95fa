/* subword.c — see subword.h.
 *
 * Both methods work on characters as ids: a piece that can be split has a spelling, the pieces of
 * its characters. A sentence falls into units between which nothing can ever be merged: at pieces
 * that are never split, and before a space mark unless some piece has one behind another character
 * (words, normally). Units are independent, and short, so plain loops over them are fast.
 *
 * One map from pairs to numbers serves both. For BPE it maps two neighbours to the piece
 * they make, that is every way to cut a piece in two pieces; for unigram it is a trie over
 * characters, from a node and a character to the next node.
 *
 * The random numbers of a sentence are the words of philox(key; number, block), block after
 * block. */
#include "data/subword.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/utf8.h"
#include "data/pairmap.h"
#include "data/pieces.h"

enum { MAX_SPELLING = 64 }; /* characters; pieces with more are not split */
#define NEVER UINT32_MAX    /* the rank of what cannot be merged */

static const char space_mark[] = "\xE2\x96\x81"; /* U+2581 */
enum { SPACE_MARK = sizeof space_mark - 1 };

/* ---- tables ---------------------------------------------------------------------------------- */

struct subword {
    struct subword_options options;
    enum tokenizer_type type;
    int n;                 /* pieces */
    uint32_t *spelling_at; /* [n + 1] */
    int32_t *spelling;     /* spelling[spelling_at[i] ..): of piece i; of one id: never split */
    uint8_t *edge;         /* [n]: of enum edge */
    struct pairmap map;
    /* bpe */
    uint64_t drop; /* of 2^32: below it a merge is dropped */
    /* unigram */
    int32_t *piece_of; /* [nodes]: the piece spelled by the way to this node, or -1 */
    double *weight;    /* [n]: alpha * score */
    int n_node, deepest;
};

/* What a piece's ends mean for its neighbours. */
enum edge { EDGE_WHOLE = 1, EDGE_SPACE_FIRST = 2, EDGE_SPACE_LAST = 4 };

/* While the tables are made. */
struct making {
    struct subword *s;
    const struct pieces *pieces;
    int32_t *named; /* [1 << bits]: ids of normal pieces by the hash of their text; -1: free */
    int bits;
};

static int32_t *place_of(const struct making *m, const char *text, size_t size) {
    size_t mask = ((size_t)1 << m->bits) - 1, at = (size_t)XXH3_64bits(text, size) & mask;
    while (m->named[at] >= 0) {
        const struct piece *p = &m->pieces->piece[m->named[at]];
        if (p->size == size && memcmp(p->text, text, size) == 0) break;
        at = (at + 1) & mask;
    }
    return &m->named[at];
}

static void name_pieces(struct making *m) {
    m->bits = 4;
    while ((size_t)1 << m->bits < 2 * (size_t)m->pieces->n) m->bits++;
    m->named = xmalloc(((size_t)1 << m->bits) * sizeof *m->named);
    for (size_t i = 0; i < (size_t)1 << m->bits; i++) m->named[i] = -1;
    for (int i = 0; i < m->pieces->n; i++) {
        const struct piece *p = &m->pieces->piece[i];
        if (p->kind == PIECE_NORMAL && p->size) *place_of(m, p->text, p->size) = i;
    }
}

/* The pieces of the characters of a piece, and how many; 0 if it cannot be split. */
static int spell(const struct making *m, int id, int32_t *out) {
    const struct piece *p = &m->pieces->piece[id];
    int n = 0;
    if (p->kind != PIECE_NORMAL) return 0;
    for (size_t at = 0; at < p->size;) {
        uint32_t code;
        int size = utf8_decode(&code, p->text + at, p->size - at);
        int32_t c = size > 0 ? *place_of(m, p->text + at, (size_t)size) : -1;
        if (c < 0 || n == MAX_SPELLING) return 0;
        out[n++] = c;
        at += (size_t)size;
    }
    return n;
}

static bool is_space(const struct piece *p, size_t at) {
    return p->size - at >= SPACE_MARK && memcmp(p->text + at, space_mark, SPACE_MARK) == 0;
}

/* Whether a space mark follows another character in it. */
static bool joins_words(const struct piece *p) {
    size_t at = 0;
    while (at < p->size && is_space(p, at)) at += SPACE_MARK;
    for (; at < p->size; at++)
        if (is_space(p, at)) return true;
    return false;
}

static void spell_pieces(struct making *m) {
    struct subword *s = m->s;
    int32_t one[MAX_SPELLING];
    size_t n = 0, cap = 0;
    bool joined = false;
    s->n = m->pieces->n;
    s->edge = xcalloc((size_t)s->n, 1);
    s->spelling_at = xcalloc((size_t)s->n + 1, sizeof *s->spelling_at);
    for (int i = 0; i < s->n; i++) {
        const struct piece *p = &m->pieces->piece[i];
        int k = spell(m, i, one);
        if (k == 0) {
            s->edge[i] = EDGE_WHOLE;
            one[k++] = i;
        } else {
            joined |= joins_words(p);
            if (is_space(p, 0)) s->edge[i] |= EDGE_SPACE_FIRST;
            if (p->size >= SPACE_MARK && is_space(p, p->size - SPACE_MARK))
                s->edge[i] |= EDGE_SPACE_LAST;
        }
        if (n + (size_t)k > cap)
            s->spelling = xrealloc(s->spelling, (cap = 2 * (n + MAX_SPELLING)) * sizeof *one);
        memcpy(s->spelling + n, one, (size_t)k * sizeof *one);
        n += (size_t)k;
        s->spelling_at[i + 1] = (uint32_t)n;
    }
    for (int i = 0; joined && i < s->n; i++) s->edge[i] &= EDGE_WHOLE;
}

int subword_chars(const struct subword *s, int32_t id) {
    return (int)(s->spelling_at[id + 1] - s->spelling_at[id]);
}

static bool is_whole(const struct subword *s, int id) { return s->edge[id] & EDGE_WHOLE; }

struct ranked {
    float score;
    int id;
};

static int by_score(const void *a, const void *b) {
    const struct ranked *x = a, *y = b;
    return x->score != y->score ? (x->score < y->score) - (x->score > y->score)
                                : (x->id > y->id) - (x->id < y->id);
}

/* Every piece that two pieces make; the higher its score, the sooner they are merged. */
static void make_merges(struct making *m) {
    struct subword *s = m->s;
    struct ranked *order = xcalloc((size_t)s->n, sizeof *order);
    for (int i = 0; i < s->n; i++) order[i] = (struct ranked){m->pieces->piece[i].score, i};
    qsort(order, (size_t)s->n, sizeof *order, by_score);
    uint32_t rank = 0;
    pairmap_init(&s->map, 10);
    for (int i = 0; i < s->n; i++) {
        int id = order[i].id;
        const struct piece *p = &m->pieces->piece[id];
        if (i > 0 && order[i].score < order[i - 1].score) rank++; /* equal scores, equal ranks */
        if (is_whole(s, id)) continue;
        size_t cut = 0;
        for (int k = 0; k + 1 < subword_chars(s, id); k++) {
            cut += m->pieces->piece[s->spelling[s->spelling_at[id] + (uint32_t)k]].size;
            int32_t left = *place_of(m, p->text, cut);
            int32_t right = *place_of(m, p->text + cut, p->size - cut);
            if (left >= 0 && right >= 0)
                pairmap_add(&s->map,
                            (struct pair_entry){(uint32_t)left, (uint32_t)right, rank, id});
        }
    }
    xfree(order);
    s->drop = (uint64_t)(s->options.bpe_dropout * 0x1p32);
}

/* A trie of the spellings; node 0 is its root. */
static void make_trie(struct making *m) {
    struct subword *s = m->s;
    s->weight = xcalloc((size_t)s->n, sizeof *s->weight);
    s->piece_of = xcalloc((size_t)s->spelling_at[s->n] + 1, sizeof *s->piece_of);
    s->piece_of[0] = -1;
    s->n_node = 1;
    pairmap_init(&s->map, 10);
    for (int i = 0; i < s->n; i++) {
        s->weight[i] = s->options.unigram_alpha * (double)m->pieces->piece[i].score;
        if (is_whole(s, i)) continue;
        int node = 0, n = subword_chars(s, i);
        for (int k = 0; k < n; k++) {
            uint32_t c = (uint32_t)s->spelling[s->spelling_at[i] + (uint32_t)k];
            int next = pairmap_find(&s->map, (uint32_t)node, c)->to;
            if (next < 0) {
                next = s->n_node++;
                s->piece_of[next] = -1;
                pairmap_add(&s->map, (struct pair_entry){(uint32_t)node, c, 0, next});
            }
            node = next;
        }
        s->piece_of[node] = i;
        if (n > s->deepest) s->deepest = n;
    }
}

int subword_wanted(const struct subword_options *o) {
    return o->bpe_dropout != 0 || o->unigram_alpha != 0;
}

int subword_check(const struct subword_options *o, enum tokenizer_type type, struct err *err) {
    bool bpe = type == TOKENIZER_BPE, unigram = type == TOKENIZER_UNIGRAM;
    const char *name = tokenizer_type_names[type];
    if (!(o->bpe_dropout >= 0 && o->bpe_dropout <= 1))
        return err_set(err, HEED_EINVAL, "bpe_dropout: %g is not between 0 and 1", o->bpe_dropout);
    if (!(o->unigram_alpha >= 0 && o->unigram_alpha <= SUBWORD_MAX_ALPHA))
        return err_set(err, HEED_EINVAL, "unigram_alpha: %g is not between 0 and %d",
                       o->unigram_alpha, SUBWORD_MAX_ALPHA);
    if (o->bpe_dropout != 0 && !bpe)
        return err_set(err, HEED_EINVAL, "bpe_dropout: the tokenizer is of type %s, not bpe%s",
                       name, unigram ? "; give --unigram-alpha" : "");
    if (o->unigram_alpha != 0 && !unigram)
        return err_set(err, HEED_EINVAL,
                       "unigram_alpha: the tokenizer is of type %s, not unigram%s", name,
                       bpe ? "; give --bpe-dropout" : "");
    return 0;
}

/* What the tables rely on. */
static int check_pieces(const struct pieces *p, struct err *err) {
    for (int i = 0; i < p->n; i++) {
        if (p->piece[i].kind == PIECE_UNUSED)
            return err_set(err, HEED_EINVAL,
                           "tokenizer: piece %d is marked as unused; such tokenizers cannot be "
                           "sampled from",
                           i);
        if (!isfinite(p->piece[i].score))
            return err_set(err, HEED_EFORMAT, "tokenizer: the score of piece %d is not a number",
                           i);
    }
    if (p->type == TOKENIZER_BPE || p->type == TOKENIZER_UNIGRAM) return 0;
    return err_set(err, HEED_EINVAL, "tokenizer: pieces of type %s cannot be sampled",
                   tokenizer_type_names[p->type]);
}

int subword_new(struct subword **out, const struct tokenizer *tokenizer,
                const struct subword_options *options, struct err *err) {
    struct making m = {0};
    *out = NULL;
    if (tokenizer_has_vocabulary(tokenizer))
        return err_set(err, HEED_EINVAL,
                       "tokenizer: ids are a vocabulary's and not those of its pieces; other "
                       "segmentations cannot be sampled");
    m.pieces = tokenizer_pieces(tokenizer);
    int rc = subword_check(options, m.pieces->type, err);
    if (!rc) rc = check_pieces(m.pieces, err);
    if (!rc) {
        m.s = *out = xcalloc(1, sizeof *m.s);
        m.s->options = *options;
        m.s->type = m.pieces->type;
        name_pieces(&m);
        spell_pieces(&m);
        (m.s->type == TOKENIZER_BPE ? make_merges : make_trie)(&m);
    }
    xfree(m.named);
    return rc;
}

void subword_free(struct subword *s) {
    if (!s) return;
    xfree(s->spelling_at);
    xfree(s->spelling);
    xfree(s->edge);
    pairmap_release(&s->map);
    xfree(s->piece_of);
    xfree(s->weight);
    xfree(s);
}

struct subword_options subword_options_of(const struct subword *s) {
    return s->options;
}

/* ---- random numbers -------------------------------------------------------------------------- */

struct rolls {
    struct subword_dice dice;
    uint32_t block, used;
    struct philox now;
};

static inline uint32_t roll(struct rolls *r) {
    if (r->used == 4) {
        uint64_t number = r->dice.number;
        r->now = philox4x32(r->dice.key, (uint32_t)number, (uint32_t)(number >> 32), r->block++, 0);
        r->used = 0;
    }
    return r->now.x[r->used++];
}

static double roll_uniform(struct rolls *r) {
    uint64_t high = roll(r);
    return (double)((high << 32 | roll(r)) >> 11) * 0x1p-53;
}

/* ---- sampling -------------------------------------------------------------------------------- */

/* A way from one place of the unit to a later one. */
struct step {
    double sum; /* log of the weight of all ways to its beginning, and of itself */
    int32_t piece;
    int from, next; /* next: of the steps to the same place, -1: none */
};

struct subword_work {
    const struct subword *tables;
    struct rolls rolls;
    int32_t unit[SUBWORD_MAX_CHARS]; /* characters, and then pieces */
    int n;
    /* bpe: of unit[i] and unit[i + 1] */
    uint32_t rank[SUBWORD_MAX_CHARS];
    int32_t into[SUBWORD_MAX_CHARS];
    /* unigram */
    double most[SUBWORD_MAX_CHARS + 1], sum[SUBWORD_MAX_CHARS + 1];
    int last[SUBWORD_MAX_CHARS + 1]; /* step to this place, -1: none */
    struct step *step;
};

struct subword_work *subword_work_new(const struct subword *s) {
    struct subword_work *w = xcalloc(1, sizeof *w);
    w->tables = s;
    if (s->deepest) w->step = xcalloc((size_t)SUBWORD_MAX_CHARS * s->deepest, sizeof *w->step);
    return w;
}

void subword_work_free(struct subword_work *w) {
    if (w) xfree(w->step);
    xfree(w);
}

static inline void look_up(const struct subword *s, struct subword_work *w, int i) {
    const struct pair_entry *e =
        pairmap_find(&s->map, (uint32_t)w->unit[i], (uint32_t)w->unit[i + 1]);
    w->rank[i] = e->to >= 0 ? e->value : NEVER;
    w->into[i] = e->to;
}

/* Merges come by rank, and of one rank from the left. */
static inline uint64_t turn_of(uint32_t rank, int at) {
    return (uint64_t)rank << 32 | (uint32_t)at;
}

/* The possible merge that comes after `last`, or, if that is -1, the first of all; -1: none. */
static int next_merge(const struct subword_work *w, int last) {
    uint64_t begin = last < 0 ? 0 : turn_of(w->rank[last], last) + 1, none = turn_of(NEVER, 0);
    uint64_t best = none;
    for (int i = 0; i + 1 < w->n; i++) {
        uint64_t turn = turn_of(w->rank[i], i);
        if (turn >= begin && turn < best) best = turn;
    }
    return best < none ? (int)(uint32_t)best : -1;
}

/* Merges until nothing is left to merge or all that is left has been dropped at once. What is
 * applied at a step is the first possible merge that is not dropped; those behind it need no
 * dice. */
static void merge_unit(const struct subword *s, struct subword_work *w) {
    for (int i = 0; i + 1 < w->n; i++) look_up(s, w, i);
    while (w->n > 1) {
        int at = next_merge(w, -1);
        while (at >= 0 && roll(&w->rolls) < s->drop) at = next_merge(w, at);
        if (at < 0) break;
        w->unit[at] = w->into[at];
        w->n--;
        size_t rest = (size_t)(w->n - at - 1);
        memmove(w->unit + at + 1, w->unit + at + 2, rest * sizeof *w->unit);
        memmove(w->rank + at, w->rank + at + 1, rest * sizeof *w->rank);
        memmove(w->into + at, w->into + at + 1, rest * sizeof *w->into);
        if (at > 0) look_up(s, w, at - 1);
        if (at + 1 < w->n) look_up(s, w, at);
    }
}

/* log of the sum of the weights of all ways to a place. */
static double sum_to(const struct subword_work *w, int place) {
    return w->most[place] + log(w->sum[place]);
}

/* All steps of the unit, and the weight of all ways to every place. */
static void filter_forward(const struct subword *s, struct subword_work *w) {
    int n_step = 0;
    for (int i = 0; i <= w->n; i++) {
        w->last[i] = -1;
        w->most[i] = -INFINITY;
        w->sum[i] = 0;
    }
    w->most[0] = 0;
    w->sum[0] = 1;
    for (int i = 0; i < w->n; i++) {
        double here = sum_to(w, i); /* finite: every character is a piece */
        int node = 0;
        for (int j = i; j < w->n; j++) {
            node = pairmap_find(&s->map, (uint32_t)node, (uint32_t)w->unit[j])->to;
            if (node < 0) break;
            int32_t piece = s->piece_of[node];
            if (piece < 0) continue;
            double x = here + s->weight[piece], *most = &w->most[j + 1], *sum = &w->sum[j + 1];
            if (x <= *most) {
                *sum += exp(x - *most);
            } else {
                *sum = *sum * exp(*most - x) + 1;
                *most = x;
            }
            w->step[n_step] = (struct step){x, piece, i, w->last[j + 1]};
            w->last[j + 1] = n_step++;
        }
    }
}

static void sample_unit(const struct subword *s, struct subword_work *w) {
    filter_forward(s, w);
    int n = 0, at = w->n;
    while (at > 0) {
        double u = roll_uniform(&w->rolls), all = sum_to(w, at);
        const struct step *step = &w->step[w->last[at]];
        while ((u -= exp(step->sum - all)) >= 0 && step->next >= 0) step = &w->step[step->next];
        w->unit[SUBWORD_MAX_CHARS - ++n] = step->piece; /* behind what is still to be read: */
        at = step->from;                                /* n pieces have at least n characters */
    }
    memmove(w->unit, w->unit + SUBWORD_MAX_CHARS - n, (size_t)n * sizeof *w->unit);
    w->n = n;
}

/* Ids [from, to) to the unit; false if there is no room. */
static bool spell_unit(const struct subword *s, struct subword_work *w, const int32_t *ids, int n) {
    w->n = 0;
    for (int i = 0; i < n; i++) {
        int k = subword_chars(s, ids[i]);
        if (k > SUBWORD_MAX_CHARS - w->n) return false;
        const int32_t *spelling = s->spelling + s->spelling_at[ids[i]];
        for (int j = 0; j < k; j++) w->unit[w->n + j] = spelling[j];
        w->n += k;
    }
    return true;
}

/* Where the unit that begins at ids[i] ends. */
static int unit_end(const struct subword *s, const int32_t *ids, int n, int i) {
    if (is_whole(s, ids[i])) return i + 1;
    for (i++; i < n && !is_whole(s, ids[i]); i++)
        if (s->edge[ids[i]] & EDGE_SPACE_FIRST && !(s->edge[ids[i - 1]] & EDGE_SPACE_LAST)) break;
    return i;
}

int subword_sample(struct subword_work *w, struct subword_dice dice, const int32_t *ids, int n,
                   int32_t *out, int cap) {
    const struct subword *s = w->tables;
    int n_out = 0;
    w->rolls = (struct rolls){.dice = dice, .used = 4};
    for (int i = 0, end; i < n; i = end) {
        end = unit_end(s, ids, n, i);
        const int32_t *made = ids + i;
        int n_made = end - i;
        if (spell_unit(s, w, made, n_made) && w->n > 1) {
            (s->type == TOKENIZER_BPE ? merge_unit : sample_unit)(s, w);
            made = w->unit;
            n_made = w->n;
        }
        if (n_made > cap - n_out) return 0;
        memcpy(out + n_out, made, (size_t)n_made * sizeof *out);
        n_out += n_made;
    }
    return n_out;
}
