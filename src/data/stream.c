/* stream.c — see stream.h. */
#include "data/stream.h"

#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/shuffle.h"

/* ---- options --------------------------------------------------------------------------------- */

static int check_options(const struct batches_options *o, struct err *err) {
    if (o->n_source < 1 || !o->source) return err_set(err, HEED_EINVAL, "batches: no corpus given");
    if (o->tokens < 1) return err_set(err, HEED_EINVAL, "tokens: %d is not positive", o->tokens);
    if (o->sentences < 0 || o->pool < 0 || o->pool > 1 << 24)
        return err_set(err, HEED_EINVAL, "batches: at most %d sentences, pools of %d: out of range",
                       o->sentences, o->pool);
    return 0;
}

static void reserve(struct stream *s) {
    size_t n = (size_t)s->drawer.cap_pool;
    s->order = xcalloc(n, sizeof *s->order);
    s->work = xcalloc(n, sizeof *s->work);
    s->cut = xcalloc(n + 1, sizeof *s->cut);
    s->turn = xcalloc(n, sizeof *s->turn);
    s->count = xcalloc((size_t)s->drawer.longest + 2, sizeof *s->count);
}

int stream_init(struct stream *s, const struct batches_options *o, bool shuffled, struct err *err) {
    *s = (struct stream){.tokens = o->tokens};
    int rc = check_options(o, err);
    if (rc) return rc;
    struct batches_options options = *o;
    if (!o->pool) options.pool = STREAM_POOL;
    s->sentences = o->sentences && o->sentences < o->tokens ? o->sentences : o->tokens;
    rc = drawer_init(&s->drawer, &options, shuffled, err);
    if (!rc) rc = draws_init(&s->now, &s->drawer, err);
    if (!rc && drawer_samples(&s->drawer)) rc = draws_init(&s->next, &s->drawer, err);
    if (rc) {
        stream_release(s);
        return rc;
    }
    reserve(s);
    return 0;
}

void stream_release(struct stream *s) {
    drawer_release(&s->drawer);
    draws_release(&s->now);
    draws_release(&s->next);
    xfree(s->order);
    xfree(s->work);
    xfree(s->cut);
    xfree(s->turn);
    xfree(s->count);
    *s = (struct stream){0};
}

int stream_batch_init(const struct stream *s, struct batch *batch, int32_t bos, struct err *err) {
    int rc = batch_init(batch, s->tokens, s->tokens, stream_max_seq(s), bos, err);
    if (!rc && s->drawer.link) batch_init_links(batch);
    return rc;
}

int stream_max_seq(const struct stream *s) {
    int cap = s->drawer.cap_pool;
    return s->sentences < cap ? s->sentences : cap;
}

/* ---- pool ------------------------------------------------------------------------------------ */

static int draw_length(const struct draw *draw, bool target) {
    return target ? draw->n_tgt : draw->n_src;
}

/* Stable counting sort of `from` into `to` by one side's length. */
static void sort_by(struct stream *s, uint32_t *to, const uint32_t *from, bool target) {
    const struct draw *draw = s->now.draw;
    int longest = s->drawer.longest;
    memset(s->count, 0, ((size_t)longest + 2) * sizeof *s->count);
    for (int i = 0; i < s->now.n; i++) s->count[draw_length(&draw[i], target) + 1]++;
    for (int n = 1; n <= longest + 1; n++) s->count[n] += s->count[n - 1];
    for (int i = 0; i < s->now.n; i++)
        to[s->count[draw_length(&draw[from[i]], target)]++] = from[i];
}

/* Cuts the sorted pool greedily into batches within the budget; returns how many there are. */
static int cut_batches(struct stream *s, int budget) {
    int n = 0, src = 0, tgt = 0;
    for (int i = 0; i < s->now.n; i++) {
        const struct draw *draw = &s->now.draw[s->order[i]];
        if (i == 0 || draw->n_src > budget - src || draw->n_tgt > budget - tgt ||
            i - (int)s->cut[n - 1] == s->sentences) {
            s->cut[n++] = (uint32_t)i;
            src = tgt = 0;
        }
        src += draw->n_src;
        tgt += draw->n_tgt;
    }
    s->cut[n] = (uint32_t)s->now.n;
    return n;
}

/* Greedy cuts leave a remainder that can be tiny, and a tiny batch makes a noisy step. The smallest
 * budget that needs no more batches spreads the pool over them evenly. */
static void cut_evenly(struct stream *s) {
    int n = cut_batches(s, s->tokens), low = s->drawer.longest, high = s->tokens;
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
    if (!s->drawer.shuffled) return;
    struct rng rng = {
        .key = shuffle_key(s->drawer.seed, KEY_TURN, s->now.epoch, (uint32_t)s->now.pool)};
    for (int i = s->n_batch - 1; i > 0; i--) {
        uint32_t j = rng_below(&rng, (uint32_t)i + 1), swap = s->turn[i];
        s->turn[i] = s->turn[j];
        s->turn[j] = swap;
    }
}

static bool is_pool(const struct draws *draws, uint64_t epoch, uint64_t pool) {
    return draws->draw && draws->n && draws->epoch == epoch && draws->pool == pool;
}

static int load_pool(struct stream *s, uint64_t epoch, uint64_t pool, struct err *err) {
    if (s->loaded && is_pool(&s->now, epoch, pool)) return 0;
    s->loaded = false;
    if (is_pool(&s->next, epoch, pool)) {
        struct draws swap = s->now;
        s->now = s->next;
        s->next = swap;
        s->next.n = 0;
    } else {
        draws_begin(&s->now, &s->drawer, epoch, pool);
    }
    int rc = draws_load(&s->now, &s->drawer, s->now.n, err);
    if (rc) return rc;
    for (int i = 0; i < s->now.n; i++) s->order[i] = (uint32_t)i;
    sort_by(s, s->work, s->order, false);
    sort_by(s, s->order, s->work, true);
    cut_evenly(s);
    shuffle_turns(s);
    s->loaded = true;
    return 0;
}

/* When `done` batches of the loaded pool are filled, as large a share of the pool that comes next
 * is loaded. */
static int load_ahead(struct stream *s, uint64_t done, struct err *err) {
    uint64_t epoch = s->now.epoch, pool = s->now.pool + 1;
    if (pool == s->drawer.n_pool) {
        pool = 0;
        epoch++;
    }
    if (!is_pool(&s->next, epoch, pool)) draws_begin(&s->next, &s->drawer, epoch, pool);
    uint64_t share = (uint64_t)s->next.n * done / (uint64_t)s->n_batch;
    return draws_load(&s->next, &s->drawer, (int)share, err);
}

/* ---- batches --------------------------------------------------------------------------------- */

int stream_check(struct stream *s, const struct stream_place *place, struct err *err) {
    if (place->pool < s->drawer.n_pool) {
        int rc = load_pool(s, place->epoch, place->pool, err);
        if (rc) return rc;
        if (place->batch < (uint64_t)s->n_batch) return 0;
    }
    return err_set(err, HEED_EINVAL,
                   "position in the data: there is no batch %llu in pool %llu of epoch %llu",
                   (unsigned long long)place->batch, (unsigned long long)place->pool,
                   (unsigned long long)place->epoch);
}

/* The batch at the place was dealt with. */
static int move_on(struct stream *s, struct stream_place *place, struct err *err) {
    int rc = drawer_samples(&s->drawer) ? load_ahead(s, place->batch + 1, err) : 0;
    if (rc) return rc;
    if (++place->batch == (uint64_t)s->n_batch) {
        place->batch = 0;
        if (++place->pool == s->drawer.n_pool) {
            place->pool = 0;
            place->epoch++;
        }
    }
    return 0;
}

int stream_skip(struct stream *s, struct stream_place *place, struct stream_size *size,
                struct err *err) {
    *size = (struct stream_size){0};
    int rc = stream_check(s, place, err);
    if (rc) return rc;
    uint32_t turn = s->turn[place->batch];
    for (uint32_t i = s->cut[turn]; i < s->cut[turn + 1]; i++) {
        const struct draw *draw = &s->now.draw[s->order[i]];
        size->n_pair++;
        size->n_src_tok += draw->n_src;
        size->n_tgt_tok += draw->n_tgt;
    }
    return move_on(s, place, err);
}

int stream_fill(struct stream *s, struct stream_place *place, struct batch *out, struct err *err) {
    int rc = stream_check(s, place, err);
    if (rc) return rc;
    batch_clear(out);
    uint32_t turn = s->turn[place->batch];
    for (uint32_t i = s->cut[turn]; i < s->cut[turn + 1]; i++) {
        const struct draw *draw = &s->now.draw[s->order[i]];
        const int32_t *src, *tgt;
        rc = draws_read(&s->now, &s->drawer, draw, &src, &tgt, err);
        if (!rc) rc = batch_add(out, src, draw->n_src, tgt, draw->n_tgt, err);
        if (rc < 0) return rc;
        BUG_ON(rc == 0);
        if ((rc = draws_links(&s->now, &s->drawer, draw, err)) < 0) return rc;
        batch_link(out, s->drawer.link, rc);
    }
    return move_on(s, place, err);
}
