/* translator_search.c — all parts of a run, longest first, batch by batch, through searchers that
 * are made for classes of length when the first sentence of one comes. */
#define _GNU_SOURCE /* qsort_r */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "search/translator_inside.h"

enum {
    ROOM_FIRST = 64,   /* tokens of a sentence in the first class, and */
    ROOM_GROWTH = 4,   /* times as many in each of the next */
    MEMORY_SHARES = 8, /* of what a device has left: one may hold one searcher's cache */
    FEW = 64,          /* searchers for no more sentences do not take it */
    FEW_ON_HOST = 4    /* nor, on a CPU, more memory than small pages are good for */
};

/* ---- rooms ----------------------------------------------------------------------------------- */

void translator_close_rooms(struct translator *t) {
    for (int i = 0; i < (1 + MAX_WIDTHS) * MAX_ROOMS; i++)
        searcher_free(t->room[i / MAX_ROOMS][i % MAX_ROOMS].searcher);
    memset(t->room, 0, sizeof t->room);
}

/* Bytes of a hypothesis of up to `len` tokens: keys and values or states, and a row of logits. */
static size_t hypothesis_bytes(const struct translator *t, int len) {
    size_t sum = 1; /* to divide by */
    for (int m = 0; m < t->engine->n; m++) {
        const struct config *c = &t->engine->model[m]->config;
        enum dtype type = t->engine->model[m]->type;
        size_t row = c->decoder == DECODER_SSRU
                         ? (size_t)c->d_model * dtype_size(dtype_wide(type))
                         : (size_t)c->n_head * (size_t)(c->d_k + c->d_v) * dtype_size(type);
        sum +=
            (size_t)c->n_layer_dec * row * (size_t)len + (size_t)c->n_vocab_tgt * dtype_size(type);
    }
    return sum;
}

/* The most hypotheses of up to `len` tokens in one search. */
static int most_hypotheses(const struct translator *t, int len) {
    if (!backend_device_memory(t->engine->be)) return t->suit.hypotheses;
    size_t fit = backend_available(t->engine->be) / MEMORY_SHARES / hypothesis_bytes(t, len);
    return fit < (size_t)t->suit.hypotheses ? max_int((int)fit, 1) : t->suit.hypotheses;
}

static struct search_caps cut_caps(struct search_caps c, int n_seq) {
    c.n_seq = min_int(c.n_seq, n_seq);
    c.n_tok = min_int(c.n_tok, min_int(c.n_seq, INT32_MAX / c.max_src) * c.max_src);
    return c;
}

/* What a searcher of `width` hypotheses for sentences of least .. max_src tokens has room for. */
static struct search_caps caps_of(const struct translator *t, int width, int least, int max_src) {
    int tokens = t->suit.tokens;
    max_src = min_int(max_src, t->limit);
    int n_seq = max_int(tokens / max_int(least - 1, 1), 1);
    struct search_caps c = {n_seq, max_int(tokens, max_src), max_src};
    int most = max_int(most_hypotheses(t, translator_longest(t, max_src)) / width, 1);
    return cut_caps(c, min_int(t->suit.sentences, most));
}

/* Rooms of the same kind as the part's, by length. */
static struct room *rooms_of(struct translator *t, const struct part *p) {
    int k = 0;
    if (p->width)
        for (k = 1; TERMS_BEAM << (k - 1) < p->width;) k++;
    BUG_ON(k > MAX_WIDTHS);
    return t->room[k];
}

static struct search_marks marks_of(const struct translator *t) {
    struct search_marks marks = engine_marks(t->engine);
    marks.brackets = t->brackets;
    return marks;
}

static int width_of(const struct search_options *o) {
    return max_int(o->sample ? o->n_best : o->beam, 1);
}

/* A full room of a longer class that has room for as many sentences, or NULL. Memory of two would
 * be used in turn; that of one is the same memory. */
static struct room *longer_room(struct room *rooms, int k, int n_seq) {
    for (k++; k < MAX_ROOMS; k++)
        if (rooms[k].searcher && rooms[k].full && rooms[k].caps.n_seq >= n_seq) return &rooms[k];
    return NULL;
}

static void close_shorter(struct room *rooms, int k) {
    for (int i = 0; i < k; i++) {
        if (!rooms[i].searcher || rooms[i].caps.n_seq > rooms[k].caps.n_seq) continue;
        searcher_free(rooms[i].searcher);
        rooms[i] = (struct room){0};
    }
}

/* The searcher for the first of the n sentences in `order`, which is the longest of its kind: made
 * when first needed, and made larger when more than a few of its length come. On a CPU it serves
 * shorter ones, too, once it has its full size. */
static int find_room(struct translator *t, const int *order, int n, struct room **found,
                     struct err *err) {
    const struct part *first = &t->part[order[0]];
    struct search_options options = t->options.search;
    if (first->width) options.beam = first->width;
    int longest = first->n_said, wanted = 1;
    int max_src = ROOM_FIRST, least = 1, k = 0;
    for (; max_src < longest; k++) {
        least = max_src + 1; /* the shortest that does not fit in the class below */
        max_src = max_src > INT32_MAX / ROOM_GROWTH ? longest : max_src * ROOM_GROWTH;
    }
    BUG_ON(k >= MAX_ROOMS);
    int on_host = !backend_device_memory(t->engine->be), most = on_host ? FEW_ON_HOST : FEW;
    struct room *rooms = rooms_of(t, first), *room = *found = &rooms[k];
    if (room->searcher && room->full) return 0;
    struct search_caps caps = caps_of(t, width_of(&options), least, max_src);
    if (on_host && (*found = longer_room(rooms, k, caps.n_seq))) return 0;
    *found = room;
    while (wanted < n && wanted <= most && t->part[order[wanted]].width == first->width &&
           (on_host || t->part[order[wanted]].n_said >= least))
        wanted++;
    int few = wanted <= most;
    if (room->searcher && few) return 0;
    searcher_free(room->searcher); /* first: both may not fit */
    *room = (struct room){.caps = few ? cut_caps(caps, most) : caps, .full = !few};
    if (on_host && !few) close_shorter(rooms, k);
    struct search_setup setup = {.model = t->engine->model,
                                 .n_model = t->engine->n,
                                 .marks = marks_of(t),
                                 .caps = room->caps};
    int rc = searcher_new(&room->searcher, &setup, &options, err);
    if (rc) room->searcher = NULL;
    return rc;
}

/* ---- batches --------------------------------------------------------------------------------- */

/* How many of its terms the best candidate lacks. */
static int count_missed(const struct part *p) {
    struct terms_read read = {0};
    if (!p->terms) return 0;
    struct terms_view v = terms_view(p->terms, &read, p->best[0].ids, p->best[0].n_tok);
    return p->terms->n - v.n_met;
}

/* The searcher's memory is used again by the next batch: what is worth keeping is copied. */
static void keep_result(struct translator *t, struct part *p, const struct search_result *r) {
    p->n = max_int(r->n, 1);
    p->best = keep_take(&t->keep, (size_t)p->n * sizeof *p->best);
    p->best[0] =
        (struct candidate){.text = "", .cut = 1, .score = -INFINITY, .log_prob = -INFINITY};
    for (int k = 0; k < r->n; k++) {
        const struct hypothesis *h = &r->best[k];
        int32_t *ids = keep_take(&t->keep, ((size_t)h->n + 2) * sizeof *ids);
        *ids = t->tags.target; /* for the aligner, as the end mark */
        ids += t->leads;
        if (h->n > 0) memcpy(ids, h->ids, (size_t)h->n * sizeof *ids);
        ids[h->n] = tokenizer_eos(t->target);
        p->best[k] = (struct candidate){
            .ids = ids, .n_tok = h->n, .score = h->score, .log_prob = h->log_prob, .cut = h->cut};
    }
    if (r->n > 0) t->stats.tgt_tokens += (uint64_t)r->best[0].n;
    p->missed += count_missed(p);
}

static int bucket_of(double seconds) {
    double k = log(seconds / 1e-6) / log(1.02); /* from a microsecond to ten minutes */
    return k < 0 ? 0 : k >= LATENCY_BUCKETS ? LATENCY_BUCKETS - 1 : (int)k;
}

double translator_latency(const struct translator_stats *stats, double share) {
    uint64_t sum = 0;
    int k = 0;
    if (!stats->batches) return 0;
    for (; k < LATENCY_BUCKETS - 1; k++) {
        sum += stats->latency[k];
        if ((double)sum >= share * (double)stats->batches && sum > 0) break;
    }
    return 1e-6 * pow(1.02, k + 0.5);
}

static int poll_job(void *ctx) {
    const struct job *job = ctx;
    return job->poll ? job->poll->call(job->poll->ctx, job->done, job->total) : 0;
}

/* Searches the n parts that order[0..n) names. */
static int search_batch(struct translator *t, struct searcher *searcher, const int *order, int n,
                        struct job *job, struct err *err) {
    if (n > t->cap_batch) {
        t->cap_batch = n;
        t->input = xrealloc(t->input, (size_t)n * sizeof *t->input);
        t->result = xrealloc(t->result, (size_t)n * sizeof *t->result);
    }
    for (int i = 0; i < n; i++) {
        const struct part *p = &t->part[order[i]];
        t->input[i] = (struct search_input){.src = p->said,
                                            .n_src = p->n_said,
                                            .prefix = p->prefix,
                                            .n_prefix = p->n_prefix,
                                            .n_lead = t->leads,
                                            .key = p->key,
                                            .terms = p->terms,
                                            .n_word = p->n_word};
        t->stats.src_tokens += (uint64_t)p->n_said;
    }
    double begin = clock_seconds();
    struct search_poll poll = {poll_job, job};
    int rc = searcher_run(searcher, t->input, n, t->result, &poll, err);
    double seconds = clock_seconds() - begin;
    if (rc) return rc;
    t->stats.seconds += seconds;
    search_stats_add(&t->stats.search, searcher_stats(searcher));
    t->stats.batches++;
    t->stats.sentences += (uint64_t)n;
    t->stats.latency[bucket_of(seconds)]++;
    for (int i = 0; i < n; i++) keep_result(t, &t->part[order[i]], &t->result[i]);
    if (t->aligner) rc = translator_link(t, order, n, err);
    job->done += n;
    return rc;
}

/* Those without terms first; longest first, and in the order of the texts where they are equally
 * long. */
static int by_length(const void *a, const void *b, void *ctx) {
    const struct part *part = ctx;
    int i = *(const int *)a, k = *(const int *)b;
    if (part[i].width != part[k].width) return part[i].width < part[k].width ? -1 : 1;
    if (part[i].n_said != part[k].n_said) return part[i].n_said > part[k].n_said ? -1 : 1;
    return i < k ? -1 : i > k;
}

int translator_search(struct translator *t, struct job *job, struct err *err) {
    if (t->n_part > t->cap_order) {
        t->cap_order = t->cap_part;
        t->order = xrealloc(t->order, (size_t)t->cap_order * sizeof *t->order);
    }
    for (int i = 0; i < t->n_part; i++) t->order[i] = i;
    if (t->n_part > 1) qsort_r(t->order, (size_t)t->n_part, sizeof *t->order, by_length, t->part);
    job->total = t->n_part;
    for (int i = 0, n; i < t->n_part; i += n) {
        struct room *room;
        int tokens = 0;
        int rc = find_room(t, t->order + i, t->n_part - i, &room, err);
        if (rc) return rc;
        for (n = 0; i + n < t->n_part && n < room->caps.n_seq; n++) {
            if (t->part[t->order[i + n]].width != t->part[t->order[i]].width) break;
            tokens += t->part[t->order[i + n]].n_said;
            if (tokens > room->caps.n_tok) break;
        }
        rc = search_batch(t, room->searcher, t->order + i, n, job, err);
        if (rc) return rc;
    }
    return 0;
}
