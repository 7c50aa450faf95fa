/* spm_encode.c — see spm.h: text to pieces.
 *
 * Text is normalised, cut into characters, and these are joined to pieces by the file's method:
 *
 *   unigram  the segmentation of the highest sum of scores. best[i] is the best way to character i;
 *            sums are rounded to float at each piece, and of equal ones that with the longer last
 *            piece stays, as the library has it: both decide which of two near ones is taken.
 *   bpe      of all neighbours that make a piece together those of the highest score are joined,
 *            of equal ones the leftmost, until there are none.
 *   word     what lies between spaces.
 *   char     characters.
 *
 * Pieces of the user's own are never part of others: for unigram by a score above all others, for
 * the rest by being taken first. */
#include <string.h>

#include "base/mem.h"
#include "data/spm_model.h"

#define UNKNOWN_PENALTY 10.0f /* below the lowest score */

enum { FROZEN = 4 << 24 }; /* the number of a piece of the user's own; no character has it */

/* A text on its way. */
struct work {
    const struct spm *spm;
    struct normal normal;
    /* characters: their numbers, and the byte each begins with, [n + 1] */
    uint32_t *chars, *begin;
    uint32_t n;
    void *more; /* [n + 1] of what the method needs */
    const struct spm_out *out;
    int n_out;
    uint32_t unknown_begin; /* byte where the run of unknown characters began that is being made */
    bool in_unknown;
};

/* ---- out ------------------------------------------------------------------------------------- */

static void put(struct work *w, int id, uint32_t begin, uint32_t end) {
    const struct spm_out *o = w->out;
    int i = w->n_out++;
    if (i >= o->cap) return;
    o->ids[i] = id;
    if (o->span) o->span[i] = (struct span){(int)w->normal.from[begin], (int)w->normal.from[end]};
}

/* What is unknown is whole: perhaps somebody else knows it. */
static void end_unknown(struct work *w, uint32_t end) {
    const struct spm_finder *f = w->out->finder;
    if (!w->in_unknown) return;
    w->in_unknown = false;
    if (!f || w->n_out > w->out->cap) return;
    int found = f->find(f->ctx, w->normal.text + w->unknown_begin, end - w->unknown_begin);
    if (found >= 0) w->out->ids[w->n_out - 1] = -2 - found;
}

/* Bytes [begin, end) are unknown. */
static void put_unknown(struct work *w, uint32_t begin, uint32_t end) {
    const struct spm *s = w->spm;
    struct span *span = w->out->span;
    if (s->pieces.byte_fallback) {
        for (uint32_t i = begin; i < end; i++)
            put(w, s->byte_id[(unsigned char)w->normal.text[i]], begin, i + 1 < end ? begin : end);
    } else if (!w->in_unknown) {
        put(w, s->unk, begin, end);
        w->in_unknown = true;
        w->unknown_begin = begin;
    } else if (span && w->n_out <= w->out->cap) {
        span[w->n_out - 1].end = (int)w->normal.from[end];
    }
}

/* Bytes [begin, end) are this piece. */
static int put_piece(struct work *w, int id, uint32_t begin, uint32_t end) {
    enum piece_kind kind = w->spm->pieces.piece[id].kind;
    if (kind == PIECE_UNKNOWN) {
        put_unknown(w, begin, end);
        return 0;
    }
    end_unknown(w, begin);
    put(w, id, begin, end);
    return kind == PIECE_CONTROL ? HEED_EINTERNAL : 0;
}

/* Characters [from, to) are what the file calls them. */
static int put_named(struct work *w, uint32_t from, uint32_t to) {
    uint32_t begin = w->begin[from], end = w->begin[to];
    return put_piece(w, spm_id_of(w->spm, w->normal.text + begin, end - begin), begin, end);
}

/* ---- in -------------------------------------------------------------------------------------- */

/* Normalises, and cuts into characters; `each` bytes of w->more for every one. The user's own
 * pieces count as one if `frozen`. */
static int begin_work(struct work *w, const char *text, size_t size, size_t each, bool frozen) {
    int rc = rules_apply(&w->spm->rules, &w->normal, text, size);
    size_t n = w->normal.size;
    if (rc || n == 0) return rc;
    each += 2 * sizeof *w->chars;
    w->more = mem_block((n + 1) * each);
    if (!w->more) return HEED_ENOMEM;
    w->chars = (uint32_t *)((char *)w->more + (n + 1) * (each - 2 * sizeof *w->chars));
    w->begin = w->chars + n + 1;
    frozen = frozen && w->spm->has_user;
    for (size_t at = 0, taken; at < n; at += taken) {
        const char *here = w->normal.text + at;
        w->begin[w->n] = (uint32_t)at;
        if (frozen && (taken = trie_prefix(&w->spm->user, here, n - at, NULL)))
            w->chars[w->n++] = FROZEN;
        else
            w->chars[w->n++] = piecemap_char(here, n - at, &taken);
    }
    w->begin[w->n] = (uint32_t)n;
    return 0;
}

static void end_work(struct work *w) {
    normal_release(&w->normal);
    mem_block_free(w->more);
}

/* ---- unigram --------------------------------------------------------------------------------- */

/* The best way to a place: its score, and where its last piece begins; once it has been found,
 * where the next piece ends. */
struct way {
    float score;
    int32_t id; /* -1: none yet */
    uint32_t from;
};

static inline void take_way(struct way *way, double score, int id, uint32_t from) {
    if (way->id < 0 || score > (double)way->score) *way = (struct way){(float)score, id, from};
}

/* All pieces that begin at character i. */
static void add_ways(const struct work *w, struct way *way, uint32_t i) {
    const struct spm *s = w->spm;
    const char *text = w->normal.text + w->begin[i];
    float here = way[i].score;
    bool single = false, longer;
    uint64_t hash = 0;
    for (uint32_t to = i + 1; to <= w->n; to++) {
        hash = piecemap_join(hash, w->chars[to - 1], PIECEMAP_SHIFT);
        int id = piecemap_look(&s->text, hash, text, w->begin[to] - w->begin[i], &longer);
        const struct piece *p = &s->pieces.piece[id >= 0 ? id : 0];
        if (id >= 0 && p->kind != PIECE_UNUSED) {
            double score = (double)p->score;
            if (p->kind == PIECE_USER_DEFINED) score = (double)((float)p->size * s->most) - 0.1;
            take_way(&way[to], score + (double)here, id, i);
            single |= to == i + 1;
        }
        if (!longer && piecemap_marks(to - i)) break;
    }
    if (!single) take_way(&way[i + 1], (double)(s->least - UNKNOWN_PENALTY + here), s->unk, i);
}

static int cut_unigram(struct work *w) {
    struct way *way = w->more;
    for (uint32_t i = 1; i <= w->n; i++) way[i].id = -1;
    way[0].score = 0;
    for (uint32_t i = 0; i < w->n; i++) add_ways(w, way, i);
    for (uint32_t at = w->n, next = 0; at > 0;) { /* turn the way round */
        uint32_t from = way[at].from;
        way[at].from = next;
        next = at;
        at = from;
        if (at == 0) way[0].from = next;
    }
    int rc = 0;
    for (uint32_t at = 0; at < w->n && !rc; at = way[at].from) {
        uint32_t to = way[at].from;
        rc = put_piece(w, way[to].id, w->begin[at], w->begin[to]);
    }
    return rc;
}

/* ---- bpe ------------------------------------------------------------------------------------- */

/* Characters that have been joined, by the first of them. */
struct symbol {
    uint64_t hash, shift;   /* of piecemap_join */
    uint32_t n;             /* characters; 0: joined to another */
    uint32_t before, after; /* NOBODY: none */
    int id;                 /* of more than one character */
};

/* Two neighbours that would make a piece. */
struct join {
    float score;
    uint32_t left, n; /* characters of both */
    int id;
};

struct joins {
    struct join *join; /* a heap */
    size_t n, room;
    uint32_t *cut; /* [pieces] of a piece that is not used: how many characters its left part has */
};

#define NOBODY UINT32_MAX

static bool sooner(const struct join *a, const struct join *b) {
    return a->score > b->score || (a->score == b->score && a->left < b->left);
}

static void push(struct joins *j, struct join new) {
    if (j->n == j->room) {
        j->room = j->room ? 2 * j->room : 64;
        j->join = xrealloc(j->join, j->room * sizeof *j->join);
    }
    size_t at = j->n++;
    for (; at > 0 && sooner(&new, &j->join[(at - 1) / 2]); at = (at - 1) / 2)
        j->join[at] = j->join[(at - 1) / 2];
    j->join[at] = new;
}

static struct join pop(struct joins *j) {
    struct join top = j->join[0], last = j->join[--j->n];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < j->n; at = child) {
        if (child + 1 < j->n && sooner(&j->join[child + 1], &j->join[child])) child++;
        if (!sooner(&j->join[child], &last)) break;
        j->join[at] = j->join[child];
    }
    j->join[at] = last;
    return top;
}

/* Notes the pair if it makes a piece. */
static void look_at(const struct work *w, struct joins *j, uint32_t left, uint32_t right) {
    const struct symbol *symbol = w->more;
    bool longer;
    if (left == NOBODY || right == NOBODY) return;
    const struct symbol *l = &symbol[left], *r = &symbol[right];
    if (w->chars[left] == FROZEN || w->chars[right] == FROZEN) return;
    uint32_t begin = w->begin[left], end = w->begin[right + r->n];
    int id = piecemap_look(&w->spm->text, piecemap_join(l->hash, r->hash, r->shift),
                           w->normal.text + begin, end - begin, &longer);
    if (id < 0) return;
    const struct piece *p = &w->spm->pieces.piece[id];
    push(j, (struct join){p->score, left, l->n + r->n, id});
    if (j->cut && p->kind == PIECE_UNUSED) j->cut[id] = l->n;
}

static void join_all(struct work *w, struct joins *j) {
    struct symbol *symbol = w->more;
    while (j->n > 0) {
        struct join top = pop(j);
        struct symbol *left = &symbol[top.left];
        if (left->n == 0 || left->after == NOBODY) continue;
        struct symbol *right = &symbol[left->after];
        if (left->n + right->n != top.n) continue; /* one of them is another by now */
        left->hash = piecemap_join(left->hash, right->hash, right->shift);
        left->shift *= right->shift;
        left->n = top.n;
        left->id = top.id;
        left->after = right->after;
        right->n = 0;
        if (left->after != NOBODY) symbol[left->after].before = top.left;
        look_at(w, j, left->before, top.left);
        look_at(w, j, top.left, left->after);
    }
}

/* A piece that is not used is taken apart again, the way it was last seen to be made. */
static int put_apart(struct work *w, const struct joins *j, uint32_t from, uint32_t to) {
    for (;;) {
        uint32_t begin = w->begin[from], end = w->begin[to], cut;
        int id = spm_id_of(w->spm, w->normal.text + begin, end - begin);
        if (w->spm->pieces.piece[id].kind != PIECE_UNUSED || !(cut = j->cut[id]))
            return put_piece(w, id, begin, end);
        int rc = put_apart(w, j, from, from + cut);
        if (rc) return rc;
        from += cut;
    }
}

static int put_symbol(struct work *w, const struct joins *j, uint32_t at) {
    const struct symbol *symbol = (const struct symbol *)w->more + at;
    uint32_t begin = w->begin[at], end = w->begin[at + symbol->n];
    if (j->cut) return put_apart(w, j, at, at + symbol->n);
    if (symbol->n == 1 || w->spm->reserved.begins[(unsigned char)w->normal.text[begin]])
        return put_named(w, at, at + symbol->n);
    return put_piece(w, symbol->id, begin, end);
}

/* Characters [from, to), which nothing joins to others. */
static int cut_word(struct work *w, struct joins *j, uint32_t from, uint32_t to) {
    struct symbol *symbol = w->more;
    for (uint32_t i = from; i < to; i++)
        symbol[i] = (struct symbol){.hash = w->chars[i],
                                    .shift = PIECEMAP_SHIFT,
                                    .n = 1,
                                    .before = i > from ? i - 1 : NOBODY,
                                    .after = i + 1 < to ? i + 1 : NOBODY,
                                    .id = -1};
    for (uint32_t i = from; i + 1 < to; i++) look_at(w, j, i, i + 1);
    join_all(w, j);
    int rc = 0;
    for (uint32_t i = from; i != NOBODY && !rc; i = symbol[i].after) rc = put_symbol(w, j, i);
    return rc;
}

/* Where the word that begins at `from` ends: before a space that does not follow another. */
static uint32_t word_end(const struct work *w, uint32_t from) {
    size_t taken;
    uint32_t space = piecemap_char(spm_space, SPM_SPACE, &taken), to = from + 1;
    while (to < w->n && (w->chars[to] != space || w->chars[to - 1] == space)) to++;
    return to;
}

static int cut_bpe(struct work *w) {
    const struct spm *s = w->spm;
    struct joins j = {0};
    bool whole = s->joins_words || s->has_unused;
    if (s->has_unused) j.cut = xcalloc((size_t)s->pieces.n, sizeof *j.cut);
    int rc = 0;
    for (uint32_t at = 0, end; at < w->n && !rc; at = end) {
        end = whole ? w->n : word_end(w, at);
        rc = cut_word(w, &j, at, end);
    }
    xfree(j.join);
    xfree(j.cut);
    return rc;
}

/* ---- words and characters -------------------------------------------------------------------- */

static int cut_words(struct work *w) {
    size_t taken;
    uint32_t space = piecemap_char(spm_space, SPM_SPACE, &taken);
    int rc = 0;
    for (uint32_t at = 0, end; at < w->n && !rc; at = end) {
        for (end = at + 1; end < w->n && w->chars[end] != space;) end++;
        rc = put_named(w, at, end);
    }
    return rc;
}

static int cut_characters(struct work *w) {
    int rc = 0;
    for (uint32_t i = 0; i < w->n && !rc; i++) rc = put_named(w, i, i + 1);
    return rc;
}

int spm_encode(const struct spm *s, const char *text, size_t size, const struct spm_out *out) {
    static const struct {
        int (*cut)(struct work *);
        size_t each;
        bool frozen;
    } method[] = {[TOKENIZER_UNIGRAM] = {cut_unigram, sizeof(struct way), false},
                  [TOKENIZER_BPE] = {cut_bpe, sizeof(struct symbol), true},
                  [TOKENIZER_WORD] = {cut_words, 0, false},
                  [TOKENIZER_CHAR] = {cut_characters, 0, true}};
    struct work w = {.spm = s, .out = out, .normal = {.mapped = out->span != NULL}};
    enum tokenizer_type type = s->pieces.type;
    int rc = begin_work(&w, text, size, method[type].each, method[type].frozen);
    if (!rc && w.n > 0) rc = method[type].cut(&w);
    if (!rc) end_unknown(&w, (uint32_t)w.normal.size);
    end_work(&w);
    return rc ? rc : w.n_out;
}
