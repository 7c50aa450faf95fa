/* stream.c — see stream.h.
 *
 * Draw number d of epoch e, d in [0, n_draw), is first sent through the epoch's own shuffle, which
 * mixes the corpora; the result gives the corpus and j, the number of the draw among that corpus's
 * in this epoch. Over all epochs that corpus has seen g = e * (draws per epoch) + j draws, so it is
 * in its pass g / n_pair, and each pass has its own shuffle. Hence any run of n_pair consecutive
 * draws of a pass visits every pair once, whatever the weight. */
#include "data/stream.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/shuffle.h"

/* What a key is for; part of the order, so never renumbered. */
enum { KEY_EPOCH = 1, KEY_PASS = 2, KEY_TURN = 3 };

/* ---- options --------------------------------------------------------------------------------- */

static int check_options(const struct batches_options *o, struct err *err) {
    if (o->n_source < 1 || !o->source) return err_set(err, HEED_EINVAL, "batches: no corpus given");
    if (o->tokens < 1) return err_set(err, HEED_EINVAL, "tokens: %d is not positive", o->tokens);
    if (o->sentences < 0 || o->pool < 0 || o->pool > 1 << 24)
        return err_set(err, HEED_EINVAL, "batches: at most %d sentences, pools of %d: out of range",
                       o->sentences, o->pool);
    return 0;
}

/* The corpus's share of the epoch: how many draws, and the longest sentence so far. */
static int add_source(struct stream *s, int i, const struct batches_source *from, struct err *err) {
    const struct corpus *corpus = from->corpus;
    double weight = s->shuffled && from->weight != 0 ? from->weight : 1;
    double n_draw = nearbyint(weight * (double)corpus->n_pair);
    if (!(weight > 0) || weight > 1e6)
        return err_set(err, HEED_EINVAL, "weight: %g is not between 0 and 1e6", weight);
    if (n_draw < 1 || n_draw > 0x1p61)
        return err_set(err, HEED_EINVAL, "weight: %g times %lld pairs is %s", weight,
                       (long long)corpus->n_pair, n_draw < 1 ? "less than one pair" : "too many");
    int longest = corpus->max_src > corpus->max_tgt ? corpus->max_src : corpus->max_tgt;
    if (longest > s->tokens)
        return err_set(
            err, HEED_EINVAL,
            "tokens: %d is smaller than the longest sentence (%d); allow more tokens per "
            "batch or a smaller maximum length",
            s->tokens, longest);
    if (longest > s->longest) s->longest = longest;
    s->source[i] = (struct stream_source){
        .corpus = corpus, .n_draw = (uint64_t)n_draw, .first_draw = s->n_draw};
    s->n_draw += (uint64_t)n_draw;
    return 0;
}

static void reserve(struct stream *s) {
    size_t n = (size_t)s->cap_pool;
    s->draw = xcalloc(n, sizeof *s->draw);
    s->order = xcalloc(n, sizeof *s->order);
    s->work = xcalloc(n, sizeof *s->work);
    s->cut = xcalloc(n + 1, sizeof *s->cut);
    s->turn = xcalloc(n, sizeof *s->turn);
    s->count = xcalloc((size_t)s->longest + 2, sizeof *s->count);
    s->src = xcalloc((size_t)s->longest, sizeof *s->src);
    s->tgt = xcalloc((size_t)s->longest, sizeof *s->tgt);
}

int stream_init(struct stream *s, const struct batches_options *o, bool shuffled, struct err *err) {
    *s = (struct stream){.shuffled = shuffled, .seed = o->seed, .tokens = o->tokens};
    int rc = check_options(o, err);
    if (rc) return rc;
    s->sentences = o->sentences && o->sentences < o->tokens ? o->sentences : o->tokens;
    s->n_source = o->n_source;
    s->source = xcalloc((size_t)o->n_source, sizeof *s->source);
    for (int i = 0; i < o->n_source && !rc; i++) rc = add_source(s, i, &o->source[i], err);
    if (rc) {
        stream_release(s);
        return rc;
    }
    uint64_t want = (uint64_t)(o->pool ? o->pool : STREAM_POOL);
    s->n_pool = (s->n_draw + want - 1) / want;
    s->cap_pool = (int)((s->n_draw + s->n_pool - 1) / s->n_pool);
    reserve(s);
    return 0;
}

void stream_release(struct stream *s) {
    xfree(s->source);
    xfree(s->draw);
    xfree(s->order);
    xfree(s->work);
    xfree(s->cut);
    xfree(s->turn);
    xfree(s->count);
    xfree(s->src);
    xfree(s->tgt);
    *s = (struct stream){0};
}

int stream_max_seq(const struct stream *s) {
    return s->sentences < s->cap_pool ? s->sentences : s->cap_pool;
}

/* ---- pool ------------------------------------------------------------------------------------ */

/* Draw d of the epoch: which pair of which corpus, where, and how long. */
static int draw_pair(const struct stream *s, struct draw *draw, uint64_t epoch,
                     const struct shuffle *mix, uint64_t d, struct err *err) {
    uint64_t m = s->shuffled ? shuffle_at(mix, d) : d;
    int i = 0;
    while (m - s->source[i].first_draw >= s->source[i].n_draw) i++;
    const struct stream_source *source = &s->source[i];
    uint64_t n = (uint64_t)source->corpus->n_pair, pair = m - source->first_draw;
    if (s->shuffled) {
        uint64_t g = epoch * source->n_draw + pair;
        struct shuffle pass;
        shuffle_init(&pass, shuffle_key(s->seed, KEY_PASS, g / n, (uint32_t)i), n);
        pair = shuffle_at(&pass, g % n);
    }
    draw->source = i;
    return corpus_find(source->corpus, (int64_t)pair, &draw->place, err);
}

static int draw_length(const struct draw *draw, bool target) {
    return target ? draw->place.n_tgt : draw->place.n_src;
}

/* Stable counting sort of `from` into `to` by one side's length. */
static void sort_by(struct stream *s, uint32_t *to, const uint32_t *from, bool target) {
    memset(s->count, 0, ((size_t)s->longest + 2) * sizeof *s->count);
    for (int i = 0; i < s->n_in_pool; i++) s->count[draw_length(&s->draw[i], target) + 1]++;
    for (int n = 1; n <= s->longest + 1; n++) s->count[n] += s->count[n - 1];
    for (int i = 0; i < s->n_in_pool; i++)
        to[s->count[draw_length(&s->draw[from[i]], target)]++] = from[i];
}

/* Cuts the sorted pool greedily into batches within the budget; returns how many there are. */
static int cut_batches(struct stream *s, int budget) {
    int n = 0, src = 0, tgt = 0;
    for (int i = 0; i < s->n_in_pool; i++) {
        const struct corpus_place *place = &s->draw[s->order[i]].place;
        if (i == 0 || place->n_src > budget - src || place->n_tgt > budget - tgt ||
            i - (int)s->cut[n - 1] == s->sentences) {
            s->cut[n++] = (uint32_t)i;
            src = tgt = 0;
        }
        src += place->n_src;
        tgt += place->n_tgt;
    }
    s->cut[n] = (uint32_t)s->n_in_pool;
    return n;
}

/* Greedy cuts leave a remainder that can be tiny, and a tiny batch makes a noisy step. The smallest
 * budget that needs no more batches spreads the pool over them evenly. */
static void cut_evenly(struct stream *s) {
    int n = cut_batches(s, s->tokens), low = s->longest, high = s->tokens;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (cut_batches(s, middle) <= n)
            high = middle;
        else
            low = middle + 1;
    }
    s->n_batch = cut_batches(s, high);
}

static void shuffle_turns(struct stream *s) {
    for (int i = 0; i < s->n_batch; i++) s->turn[i] = (uint32_t)i;
    if (!s->shuffled) return;
    struct rng rng = {.key = shuffle_key(s->seed, KEY_TURN, s->at_epoch, (uint32_t)s->at_pool)};
    for (int i = s->n_batch - 1; i > 0; i--) {
        uint32_t j = rng_below(&rng, (uint32_t)i + 1), swap = s->turn[i];
        s->turn[i] = s->turn[j];
        s->turn[j] = swap;
    }
}

static int load_pool(struct stream *s, uint64_t epoch, uint64_t pool, struct err *err) {
    if (s->loaded && s->at_epoch == epoch && s->at_pool == pool) return 0;
    s->loaded = false;
    uint64_t even = s->n_draw / s->n_pool, more = s->n_draw % s->n_pool;
    uint64_t first = pool * even + (pool < more ? pool : more);
    s->at_epoch = epoch;
    s->at_pool = pool;
    s->n_in_pool = (int)(even + (pool < more));
    struct shuffle mix;
    shuffle_init(&mix, shuffle_key(s->seed, KEY_EPOCH, epoch, 0), s->n_draw);
    for (int i = 0; i < s->n_in_pool; i++) {
        int rc = draw_pair(s, &s->draw[i], epoch, &mix, first + (uint64_t)i, err);
        if (rc) return rc;
        s->order[i] = (uint32_t)i;
    }
    sort_by(s, s->work, s->order, false);
    sort_by(s, s->order, s->work, true);
    cut_evenly(s);
    shuffle_turns(s);
    s->loaded = true;
    return 0;
}

/* ---- batches --------------------------------------------------------------------------------- */

int stream_check(struct stream *s, const struct stream_place *place, struct err *err) {
    if (place->pool < s->n_pool) {
        int rc = load_pool(s, place->epoch, place->pool, err);
        if (rc) return rc;
        if (place->batch < (uint64_t)s->n_batch) return 0;
    }
    return err_set(err, HEED_EINVAL,
                   "position in the data: there is no batch %llu in pool %llu of epoch %llu",
                   (unsigned long long)place->batch, (unsigned long long)place->pool,
                   (unsigned long long)place->epoch);
}

int stream_fill(struct stream *s, struct stream_place *place, struct batch *out, struct err *err) {
    int rc = stream_check(s, place, err);
    if (rc) return rc;
    batch_clear(out);
    uint32_t turn = s->turn[place->batch];
    for (uint32_t i = s->cut[turn]; i < s->cut[turn + 1]; i++) {
        const struct draw *draw = &s->draw[s->order[i]];
        const struct corpus_place *at = &draw->place;
        rc = corpus_read(s->source[draw->source].corpus, at, s->src, s->tgt, err);
        if (!rc) rc = batch_add(out, s->src, at->n_src, s->tgt, at->n_tgt, err);
        if (rc < 0) return rc;
        BUG_ON(rc == 0);
    }
    if (++place->batch == (uint64_t)s->n_batch) {
        place->batch = 0;
        if (++place->pool == s->n_pool) {
            place->pool = 0;
            place->epoch++;
        }
    }
    return 0;
}
