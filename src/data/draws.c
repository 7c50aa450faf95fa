/* draws.c — see draws.h.
 *
 * Pairs are loaded in blocks, each a task of the threads. A block's ids lie one after another in
 * memory that would hold the longest pairs there can be; what they do not fill is never touched, so
 * the system gives no memory for it. */
#define _GNU_SOURCE
#include "data/draws.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "data/shuffle.h"
#include "data/subword.h"

enum { BLOCK = 32, SAMPLE_THREADS = 1024 };

/* What a thread needs to load a block, and the first thing that went wrong in its blocks. */
struct hand {
    int32_t *src, *tgt; /* [longest]: a pair as the corpus has it */
    struct subword_work *work[2];
    size_t at; /* in the ids of the pool, where the next pair goes */
    int failed, failed_block;
    struct err err;
};

/* ---- life ------------------------------------------------------------------------------------ */

/* The corpus's share of the epoch: how many draws, and the longest sentence so far. */
static int add_source(struct drawer *d, int i, const struct batches_source *from, int tokens,
                      struct err *err) {
    const struct corpus *corpus = from->corpus;
    double weight = d->shuffled && from->weight != 0 ? from->weight : 1;
    double n_draw = nearbyint(weight * (double)corpus->n_pair);
    if (!(weight > 0) || weight > 1e6)
        return err_set(err, HEED_EINVAL, "weight: %g is not between 0 and 1e6", weight);
    if (n_draw < 1 || n_draw > 0x1p61)
        return err_set(err, HEED_EINVAL, "weight: %g times %lld pairs is %s", weight,
                       (long long)corpus->n_pair, n_draw < 1 ? "less than one pair" : "too many");
    int max_src = corpus->max_src, max_tgt = corpus->max_tgt;
    if (d->sample[0] && d->sample_len > max_src) max_src = d->sample_len;
    if (d->sample[1] && d->sample_len > max_tgt) max_tgt = d->sample_len;
    if (from->tagged) max_src++;
    int longest = max_src > max_tgt ? max_src : max_tgt;
    if (longest > tokens)
        return err_set(
            err, HEED_EINVAL,
            "tokens: %d is smaller than the longest sentence (%d); allow more tokens per "
            "batch or a smaller maximum length",
            tokens, longest);
    if (from->tagged && (from->tag < 0 || from->tag >= corpus->n_vocab))
        return err_set(err, HEED_EINVAL, "tag: there is no piece %d", (int)from->tag);
    if (longest > d->longest) d->longest = longest;
    d->source[i] =
        (struct draws_source){.from = *from, .n_draw = (uint64_t)n_draw, .first_draw = d->n_draw};
    d->n_draw += (uint64_t)n_draw;
    return 0;
}

static int add_threads(struct drawer *d, const struct batches_options *o, struct err *err) {
    int n = o->sample_threads ? o->sample_threads : 1;
    int rc = drawer_samples(d) ? pool_new(&d->threads, n, err) : 0;
    if (rc) return rc;
    if (!d->threads) n = 1;
    d->hand = xcalloc((size_t)n, sizeof *d->hand);
    for (int i = 0; i < n; i++) {
        d->hand[i].src = xcalloc((size_t)d->longest, sizeof *d->hand->src);
        d->hand[i].tgt = xcalloc((size_t)d->longest, sizeof *d->hand->tgt);
        for (int k = 0; k < 2; k++)
            if (d->sample[k]) d->hand[i].work[k] = subword_work_new(d->sample[k]);
    }
    return 0;
}

static void add_links(struct drawer *d) {
    bool linked = false;
    for (int i = 0; i < d->n_source; i++) linked |= d->source[i].from.corpus->has_links;
    if (!linked) return;
    size_t n = (size_t)d->longest + 1, most = LINKS_PER_TOKEN * 2 * n;
    d->link = xcalloc(most, sizeof *d->link);
    d->packed = xcalloc(most * LINK_BYTES / 2 + 1, sizeof *d->packed);
    for (int i = 0; i < 2 && drawer_samples(d); i++) {
        d->size[i] = xcalloc(n, sizeof *d->size[i]);
        d->to[i] = xcalloc(n, sizeof *d->to[i]);
    }
}

int drawer_init(struct drawer *d, const struct batches_options *o, bool shuffled, struct err *err) {
    *d = (struct drawer){.shuffled = shuffled,
                         .seed = o->seed,
                         .n_source = o->n_source,
                         .sample = {o->sample_src, o->sample_tgt},
                         .sample_len = o->sample_len};
    if (o->sample_threads < 0 || o->sample_threads > SAMPLE_THREADS || o->sample_len < 0)
        return err_set(err, HEED_EINVAL, "batches: %d threads, sampled lengths of %d: out of range",
                       o->sample_threads, o->sample_len);
    d->source = xcalloc((size_t)o->n_source, sizeof *d->source);
    int rc = 0;
    for (int i = 0; i < o->n_source && !rc; i++)
        rc = add_source(d, i, &o->source[i], o->tokens, err);
    if (!rc) rc = add_threads(d, o, err);
    if (!rc) add_links(d);
    if (rc) {
        drawer_release(d);
        return rc;
    }
    uint64_t want = (uint64_t)o->pool;
    d->n_pool = (d->n_draw + want - 1) / want;
    d->cap_pool = (int)((d->n_draw + d->n_pool - 1) / d->n_pool);
    return 0;
}

void drawer_release(struct drawer *d) {
    for (int i = 0; d->hand && i < (d->threads ? pool_size(d->threads) : 1); i++) {
        xfree(d->hand[i].src);
        xfree(d->hand[i].tgt);
        for (int k = 0; k < 2; k++) subword_work_free(d->hand[i].work[k]);
    }
    for (int i = 0; i < 2; i++) {
        xfree(d->size[i]);
        xfree(d->to[i]);
    }
    xfree(d->link);
    xfree(d->packed);
    xfree(d->hand);
    xfree(d->source);
    pool_free(d->threads);
    *d = (struct drawer){0};
}

bool drawer_samples(const struct drawer *d) { return d->sample[0] || d->sample[1]; }

static size_t block_ids(const struct drawer *d) { return 2 * (size_t)d->longest * BLOCK; }

/* Large pages would make memory of what is not touched. */
static void keep_sparse(void *block, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), skip = -(uintptr_t)block % page;
    if (size > skip + page)
        madvise((char *)block + skip, (size - skip) / page * page, MADV_NOHUGEPAGE);
}

int draws_init(struct draws *s, const struct drawer *d, struct err *err) {
    *s = (struct draws){.draw = xcalloc((size_t)d->cap_pool, sizeof *s->draw)};
    if (!drawer_samples(d)) return 0;
    size_t n_block = ((size_t)d->cap_pool + BLOCK - 1) / BLOCK;
    size_t size = size_mul(size_mul(n_block, block_ids(d)), sizeof *s->ids);
    s->ids = mem_block(size);
    if (s->ids) return keep_sparse(s->ids, size), 0;
    draws_release(s);
    return err_set(err, HEED_ENOMEM,
                   "sampled subwords: cannot reserve %.1f GB for sentences of up to %d tokens",
                   1e-9 * (double)size, d->longest);
}

void draws_release(struct draws *s) {
    xfree(s->draw);
    mem_block_free(s->ids);
    *s = (struct draws){0};
}

/* ---- loading --------------------------------------------------------------------------------- */

static uint64_t first_of_pool(const struct drawer *d, uint64_t pool) {
    uint64_t even = d->n_draw / d->n_pool, more = d->n_draw % d->n_pool;
    return pool * even + (pool < more ? pool : more);
}

void draws_begin(struct draws *s, const struct drawer *d, uint64_t epoch, uint64_t pool) {
    s->epoch = epoch;
    s->pool = pool;
    s->n = (int)(first_of_pool(d, pool + 1) - first_of_pool(d, pool));
    s->n_loaded = 0;
}

/* Draw number `number` of the epoch: which pair of which corpus, where, and how long. */
static int find_pair(struct draw *draw, const struct drawer *d, uint64_t epoch,
                     const struct shuffle *mix, uint64_t number, struct err *err) {
    uint64_t m = d->shuffled ? shuffle_at(mix, number) : number;
    int i = 0;
    while (m - d->source[i].first_draw >= d->source[i].n_draw) i++;
    const struct draws_source *source = &d->source[i];
    uint64_t n = (uint64_t)source->from.corpus->n_pair, pair = m - source->first_draw;
    if (d->shuffled) {
        uint64_t g = epoch * source->n_draw + pair;
        struct shuffle pass;
        shuffle_init(&pass, shuffle_key(d->seed, KEY_PASS, g / n, (uint32_t)i), n);
        pair = shuffle_at(&pass, g % n);
    }
    int rc = corpus_find(source->from.corpus, (int64_t)pair, &draw->place, err);
    draw->source = i;
    draw->n_src = draw->place.n_src + (source->from.tagged ? 1 : 0);
    draw->n_tgt = draw->place.n_tgt;
    return rc;
}

/* One side's ids to out, sampled if it is to be and not too long then; returns how many. */
static int put_side(const struct drawer *d, struct hand *hand, int side, struct subword_dice dice,
                    int n, int32_t *out) {
    const int32_t *ids = side ? hand->tgt : hand->src;
    const struct subword *sample = d->sample[side];
    int made = sample ? subword_sample(hand->work[side], dice, ids, n, out, d->sample_len) : 0;
    if (made) return made;
    memcpy(out, ids, (size_t)n * sizeof *out);
    return n;
}

/* Reads the pair and puts it where it goes. */
static int put_pair(struct draws *s, const struct drawer *d, struct hand *hand, struct draw *draw,
                    uint64_t number, struct err *err) {
    const struct batches_source *from = &d->source[draw->source].from;
    int rc = corpus_read(from->corpus, &draw->place, hand->src, hand->tgt, err);
    if (rc) return rc;
    size_t at = draw->ids = hand->at;
    if (from->tagged) s->ids[at++] = from->tag;
    for (int side = 0; side < 2; side++) {
        uint64_t key = shuffle_key(d->seed, KEY_SUBWORD, s->epoch, (uint32_t)side);
        int n = side ? draw->place.n_tgt : draw->place.n_src;
        at += (size_t)put_side(d, hand, side, (struct subword_dice){key, number}, n, s->ids + at);
        if (side == 0) draw->n_src = (int32_t)(at - draw->ids);
    }
    draw->n_tgt = (int32_t)(at - draw->ids) - draw->n_src;
    hand->at = at;
    return 0;
}

struct loading {
    struct draws *draws;
    struct drawer *drawer;
    struct shuffle mix;
    int first; /* block */
};

static void load_block(void *ctx, int task, int thread) {
    struct loading *l = ctx;
    struct draws *s = l->draws;
    struct hand *hand = &l->drawer->hand[thread];
    int block = l->first + task, rc = 0;
    struct err err;
    hand->at = (size_t)block * block_ids(l->drawer);
    for (int i = block * BLOCK; i < (block + 1) * BLOCK && i < s->n && !rc; i++) {
        uint64_t number = first_of_pool(l->drawer, s->pool) + (uint64_t)i;
        rc = find_pair(&s->draw[i], l->drawer, s->epoch, &l->mix, number, &err);
        if (!rc && s->ids) rc = put_pair(s, l->drawer, hand, &s->draw[i], number, &err);
    }
    if (rc && (!hand->failed || block < hand->failed_block)) {
        hand->failed = rc;
        hand->failed_block = block;
        hand->err = err;
    }
}

/* The first failure of all threads, which is forgotten. */
static int take_failure(struct drawer *d, int n_hand, struct err *err) {
    const struct hand *first = NULL;
    for (int i = 0; i < n_hand; i++)
        if (d->hand[i].failed && (!first || d->hand[i].failed_block < first->failed_block))
            first = &d->hand[i];
    int rc = first ? first->failed : 0;
    if (first && err) *err = first->err;
    for (int i = 0; i < n_hand; i++) d->hand[i].failed = 0;
    return rc;
}

int draws_load(struct draws *s, struct drawer *d, int n, struct err *err) {
    int first = s->n_loaded / BLOCK, last = ((n < s->n ? n : s->n) + BLOCK - 1) / BLOCK;
    if (s->n_loaded == s->n || last <= first) return 0;
    struct loading l = {.draws = s, .drawer = d, .first = first};
    shuffle_init(&l.mix, shuffle_key(d->seed, KEY_EPOCH, s->epoch, 0), d->n_draw);
    if (d->threads)
        pool_run(d->threads, load_block, &l, last - first);
    else
        for (int i = 0; i < last - first; i++) load_block(&l, i, 0);
    int rc = take_failure(d, d->threads ? pool_size(d->threads) : 1, err);
    if (!rc) s->n_loaded = last * BLOCK < s->n ? last * BLOCK : s->n;
    return rc;
}

int draws_read(const struct draws *s, struct drawer *d, const struct draw *draw,
               const int32_t **src, const int32_t **tgt, struct err *err) {
    if (s->ids) {
        *src = s->ids + draw->ids;
        *tgt = *src + draw->n_src;
        return 0;
    }
    const struct batches_source *from = &d->source[draw->source].from;
    int32_t *to = d->hand[0].src;
    if (from->tagged) *to++ = from->tag;
    *src = d->hand[0].src;
    *tgt = d->hand[0].tgt;
    return corpus_read(from->corpus, &draw->place, to, d->hand[0].tgt, err);
}

/* Where the edges between the pieces of one side went: NULL if it is as in the corpus. */
static const int32_t *moved(const struct drawer *d, int side, const int32_t *old, int n_old,
                            const int32_t *new, int n_new) {
    const struct subword *sample = d->sample[side];
    if (!sample) return NULL;
    for (int i = 0; i < n_old; i++) d->size[0][i] = subword_chars(sample, old[i]);
    for (int i = 0; i < n_new; i++) d->size[1][i] = subword_chars(sample, new[i]);
    piecelinks_edges(d->to[side], d->size[0], n_old, d->size[1], n_new);
    return d->to[side];
}

int draws_links(const struct draws *s, struct drawer *d, const struct draw *draw, struct err *err) {
    const struct batches_source *from = &d->source[draw->source].from;
    const struct corpus_place *at = &draw->place;
    int tag = from->tagged ? 1 : 0, n = at->n_link, rc = 0;
    if (n == 0) return 0;
    if ((rc = corpus_read_links(from->corpus, at, d->link, d->packed, err))) return rc;
    if (s->ids) {
        struct hand *hand = &d->hand[0];
        const int32_t *src = s->ids + draw->ids + tag, *tgt = s->ids + draw->ids + draw->n_src;
        if ((rc = corpus_read(from->corpus, at, hand->src, hand->tgt, err))) return rc;
        const int32_t *src_to = moved(d, 0, hand->src, at->n_src, src, draw->n_src - tag);
        const int32_t *tgt_to = moved(d, 1, hand->tgt, at->n_tgt, tgt, draw->n_tgt);
        n = piecelinks_move(d->link, n, src_to, tgt_to);
    }
    for (int i = 0; i < n; i++) d->link[i].src += tag, d->link[i].src_end += tag;
    return n;
}
