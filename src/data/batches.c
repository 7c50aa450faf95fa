/* batches.c — the stream of batches.h: a ring of prepared batches between a thread and the trainer.
 *
 * Each slot of the ring holds a batch and the position after it. The thread owns the slots that are
 * not ready and the stream (stream.h); the consumer owns the batch it took. A slot changes hands
 * under the lock, and its batch by trading structs with the consumer, so ids are written once and
 * never copied. Without prefetch there is one slot, and batches_next fills it itself. */
#define _GNU_SOURCE
#include "data/batches.h"

#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <xxhash.h>

#include "base/mem.h"
#include "data/stream.h"
#include "data/subword.h"

enum { MAX_PREFETCH = 1024 };
static const struct subword_options no_sampling = {-1, -1};

struct slot {
    struct batch batch;
    struct batches_state after;
};

struct batches {
    struct stream stream;       /* the thread's while it runs */
    struct batches_state front; /* position of the next batch to prepare; the thread's */
    struct batches_state taken; /* position after the batch last taken; the consumer's */
    struct batches_epoch epoch;
    struct batches_share share;
    uint64_t origin; /* n_batch where shares begin to be counted */
    int32_t bos;
    struct slot *slot; /* [n_slot] */
    int n_slot;

    bool threaded, running;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following */
    pthread_cond_t filled, freed;
    int first, n_ready; /* slots first .. first + n_ready - 1, around the ring, are ready */
    bool stop;
    int failed; /* why the thread ended */
    struct err err;
};

/* ---- preparing ------------------------------------------------------------------------------- */

/* Moves the front on by one batch, which is filled in, or only counted where `batch` is NULL. */
static int take_front(struct batches *b, struct batch *batch, struct err *err) {
    struct batches_state *front = &b->front;
    struct stream_place place = {front->epoch, front->pool, front->batch};
    struct stream_size size = {0};
    int rc = batch ? stream_fill(&b->stream, &place, batch, err)
                   : stream_skip(&b->stream, &place, &size, err);
    if (rc) return rc;
    if (batch) size = (struct stream_size){batch->n_seq, batch->src.n_tok, batch->tgt.n_tok};
    front->epoch = place.epoch;
    front->pool = place.pool;
    front->batch = place.batch;
    front->n_batch++;
    front->n_pair += (uint64_t)size.n_pair;
    front->n_src_tok += (uint64_t)size.n_src_tok;
    front->n_tgt_tok += (uint64_t)size.n_tgt_tok;
    return 0;
}

/* The number of the front batch within its group. */
static int within_group(const struct batches *b) {
    return (int)((b->front.n_batch - b->origin) % (uint64_t)b->share.every);
}

/* Fills a slot with the next own batch and moves the front on, to the next group after the last. */
static int prepare(struct batches *b, struct slot *slot, struct err *err) {
    int rc = 0;
    while (!rc && within_group(b) < b->share.first) rc = take_front(b, NULL, err);
    if (!rc) rc = take_front(b, &slot->batch, err);
    while (!rc && within_group(b) >= b->share.first + b->share.n) rc = take_front(b, NULL, err);
    slot->after = b->front;
    return rc;
}

static void *prefetch_main(void *arg) {
    struct batches *b = arg;
    /* There are batches ready whenever this thread is woken, so it must not push the trainer's
     * threads off their cores. If that is denied, it competes like any other thread. */
    sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
    pthread_mutex_lock(&b->lock);
    for (;;) {
        while (!b->stop && b->n_ready == b->n_slot) pthread_cond_wait(&b->freed, &b->lock);
        if (b->stop) break;
        struct slot *slot = &b->slot[(b->first + b->n_ready) % b->n_slot];
        pthread_mutex_unlock(&b->lock);
        struct err err;
        int rc = prepare(b, slot, &err);
        pthread_mutex_lock(&b->lock);
        if (rc) {
            b->failed = rc;
            b->err = err;
        } else {
            b->n_ready++;
        }
        pthread_cond_signal(&b->filled);
        if (rc) break;
    }
    pthread_mutex_unlock(&b->lock);
    return NULL;
}

/* The thread takes no signals: they are the trainer's, which saves and stops. */
static int start(struct batches *b, struct err *err) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(&b->thread, NULL, prefetch_main, b);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (rc)
        return err_set(err, HEED_ENOMEM, "batches: cannot start the prefetch thread: %s",
                       strerror(rc));
    b->running = true;
    return 0;
}

/* Ends the thread and forgets what it prepared: the front is again the position of the batch last
 * taken. */
static void halt(struct batches *b) {
    if (b->running) {
        pthread_mutex_lock(&b->lock);
        b->stop = true;
        pthread_cond_signal(&b->freed);
        pthread_mutex_unlock(&b->lock);
        pthread_join(b->thread, NULL);
    }
    b->running = b->stop = false;
    b->first = b->n_ready = b->failed = 0;
    b->front = b->taken;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* What is sampled enters only if something is. */
static void identify_sampling(XXH3_state_t *hash, const struct batches_options *o) {
    const struct subword *side[2] = {o->sample_src, o->sample_tgt};
    if (!side[0] && !side[1]) return;
    XXH3_128bits_update(hash, &o->sample_len, sizeof o->sample_len);
    for (int i = 0; i < 2; i++) {
        struct subword_options how = side[i] ? subword_options_of(side[i]) : no_sampling;
        XXH3_128bits_update(hash, &how, sizeof how);
    }
}

/* Identifies what there is to draw from: the same pairs in the same numbering. */
static void identify(uint64_t id[2], const struct batches_options *o) {
    XXH3_state_t *hash = XXH3_createState();
    BUG_ON(!hash);
    XXH3_128bits_reset(hash);
    for (int i = 0; i < o->n_source; i++) {
        double weight = o->source[i].weight != 0 ? o->source[i].weight : 1;
        XXH3_128bits_update(hash, o->source[i].corpus->key, CORPUS_KEY_SIZE);
        XXH3_128bits_update(hash, &weight, sizeof weight);
        if (o->source[i].tagged)
            XXH3_128bits_update(hash, &o->source[i].tag, sizeof o->source[i].tag);
    }
    identify_sampling(hash, o);
    XXH128_hash_t h = XXH3_128bits_digest(hash);
    XXH3_freeState(hash);
    id[0] = h.low64;
    id[1] = h.high64;
}

static struct batches_epoch measure(const struct stream *s) {
    struct batches_epoch e = {.n_pair = s->drawer.n_draw, .n_pool = s->drawer.n_pool};
    for (int i = 0; i < s->drawer.n_source; i++) {
        const struct draws_source *source = &s->drawer.source[i];
        const struct corpus *c = source->from.corpus;
        double n = (double)source->n_draw, times = n / (double)c->n_pair;
        e.n_src_tok += times * (double)c->report.n_src_tok + (source->from.tagged ? n : 0);
        e.n_tgt_tok += times * (double)c->report.n_tgt_tok;
    }
    return e;
}

int batches_new(struct batches **out, const struct batches_options *o, struct err *err) {
    *out = NULL;
    if (o->prefetch < 0 || o->prefetch > MAX_PREFETCH)
        return err_set(err, HEED_EINVAL, "prefetch: %d is not between 0 and %d", o->prefetch,
                       MAX_PREFETCH);
    const struct batches_share *share = &o->share;
    if (share->every &&
        (share->first < 0 || share->n < 1 || share->every < share->first + share->n))
        return err_set(err, HEED_EINVAL, "batches: %d from %d on is no share of %d", share->n,
                       share->first, share->every);
    struct batches *b = xcalloc(1, sizeof *b);
    b->share = share->every ? *share : (struct batches_share){1, 0, 1};
    int rc = stream_init(&b->stream, o, true, err);
    if (rc) {
        xfree(b);
        return rc;
    }
    pthread_mutex_init(&b->lock, NULL);
    pthread_cond_init(&b->filled, NULL);
    pthread_cond_init(&b->freed, NULL);
    b->bos = o->bos;
    b->threaded = o->prefetch > 0;
    b->n_slot = b->threaded ? o->prefetch : 1;
    b->slot = xcalloc((size_t)b->n_slot, sizeof *b->slot);
    for (int i = 0; i < b->n_slot && !rc; i++) rc = batches_batch_init(b, &b->slot[i].batch, err);
    if (rc) {
        batches_free(b);
        return rc;
    }
    b->epoch = measure(&b->stream);
    b->taken = (struct batches_state){.seed = o->seed,
                                      .tokens = (uint64_t)o->tokens,
                                      .sentences = (uint64_t)b->stream.sentences,
                                      .pool_size = (uint64_t)b->stream.drawer.cap_pool};
    identify(b->taken.data, o);
    b->front = b->taken;
    *out = b;
    return 0;
}

void batches_free(struct batches *b) {
    if (!b) return;
    halt(b);
    for (int i = 0; i < b->n_slot; i++) batch_release(&b->slot[i].batch);
    xfree(b->slot);
    stream_release(&b->stream);
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->filled);
    pthread_cond_destroy(&b->freed);
    xfree(b);
}

int batches_batch_init(const struct batches *b, struct batch *batch, struct err *err) {
    return stream_batch_init(&b->stream, batch, b->bos, err);
}

struct batches_epoch batches_epoch(const struct batches *b) {
    return b->epoch;
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void trade(struct batches *b, struct slot *slot, struct batch *out) {
    struct batch given = *out;
    *out = slot->batch;
    slot->batch = given;
    b->taken = slot->after;
}

static int take_prefetched(struct batches *b, struct batch *out, struct err *err) {
    int rc = b->running ? 0 : start(b, err);
    if (rc) return rc;
    pthread_mutex_lock(&b->lock);
    while (b->n_ready == 0 && !b->failed) pthread_cond_wait(&b->filled, &b->lock);
    if (b->n_ready == 0) {
        rc = b->failed;
        if (err) *err = b->err;
    } else {
        trade(b, &b->slot[b->first], out);
        b->first = (b->first + 1) % b->n_slot;
        b->n_ready--;
    }
    pthread_mutex_unlock(&b->lock);
    pthread_cond_signal(&b->freed);
    return rc;
}

int batches_next(struct batches *b, struct batch *out, struct err *err) {
    const struct batch *like = &b->slot[0].batch;
    BUG_ON(out->cap_src != b->stream.tokens || out->cap_tgt != b->stream.tokens);
    BUG_ON(out->cap_seq != stream_max_seq(&b->stream) || out->bos != like->bos);
    BUG_ON(out->cap_range != like->cap_range);
    if (b->threaded) return take_prefetched(b, out, err);
    int rc = prepare(b, &b->slot[0], err);
    if (!rc) trade(b, &b->slot[0], out);
    return rc;
}

/* ---- position -------------------------------------------------------------------------------- */

void batches_state(const struct batches *b, struct batches_state *state) { *state = b->taken; }

int batches_restore(struct batches *b, const struct batches_state *state, struct err *err) {
    const struct batches_state *here = &b->taken;
    if (memcmp(state->data, here->data, sizeof here->data) != 0)
        return err_set(
            err, HEED_EINVAL,
            "the training data differs from the saved run's in texts, tokenizer, filters, "
            "weights, tags, links or subword sampling");
    const struct {
        const char *what;
        uint64_t is, was;
    } same[] = {{"seed", here->seed, state->seed},
                {"tokens", here->tokens, state->tokens},
                {"sentences per batch", here->sentences, state->sentences},
                {"pairs per pool", here->pool_size, state->pool_size}};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (same[i].is != same[i].was)
            return err_set(err, HEED_EINVAL,
                           "%s: %" PRIu64 ", but the saved run had %" PRIu64
                           ": its batches cannot be continued",
                           same[i].what, same[i].is, same[i].was);
    halt(b);
    int rc = stream_check(&b->stream,
                          &(struct stream_place){state->epoch, state->pool, state->batch}, err);
    if (rc) return rc;
    b->taken = b->front = *state;
    b->origin = state->n_batch;
    return 0;
}

int batches_restart_epoch(struct batches *b, const struct batches_state *state, struct err *err) {
    struct batches_state to = b->taken;
    to.epoch = state->epoch;
    to.pool = to.batch = 0;
    to.n_batch = state->n_batch;
    to.n_pair = state->n_pair;
    to.n_src_tok = state->n_src_tok;
    to.n_tgt_tok = state->n_tgt_tok;
    return batches_restore(b, &to, err);
}

/* ---- sweep ----------------------------------------------------------------------------------- */

struct sweep {
    struct stream stream;
    struct stream_place place;
    struct batch batch;
};

int sweep_new(struct sweep **out, const struct batches_source *source, int tokens, int32_t bos,
              struct err *err) {
    *out = NULL;
    struct sweep *s = xcalloc(1, sizeof *s);
    struct batches_options options = {.source = source, .n_source = 1, .tokens = tokens};
    int rc = stream_init(&s->stream, &options, false, err);
    if (!rc) rc = stream_batch_init(&s->stream, &s->batch, bos, err);
    if (rc) {
        sweep_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void sweep_free(struct sweep *s) {
    if (!s) return;
    batch_release(&s->batch);
    stream_release(&s->stream);
    xfree(s);
}

int sweep_next(struct sweep *s, const struct batch **batch, struct err *err) {
    if (s->place.epoch > 0) return 0;
    int rc = stream_fill(&s->stream, &s->place, &s->batch, err);
    if (rc) return rc;
    *batch = &s->batch;
    return 1;
}

int sweep_skip(struct sweep *s, struct err *err) {
    struct stream_size size;
    if (s->place.epoch > 0) return 0;
    int rc = stream_skip(&s->stream, &s->place, &size, err);
    return rc ? rc : 1;
}

void sweep_rewind(struct sweep *s) { s->place = (struct stream_place){0}; }
