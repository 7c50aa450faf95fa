/* search.c — see search.h. The searcher: batches in, steps of all sentences together, results out.
 *
 * One step of the decoder serves all live hypotheses of all sentences; what a sentence makes of it
 * is in ranker.c. Plain searches on a device leave all of this to it (resident.h): the fast way,
 * without the host.
 *
 * The rows of a step are ordered by sentence, then by slot of the beam. A finished sentence no
 * longer has rows, so the steps get cheaper as sentences end. */
#include "search/search.h"

#include <limits.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/beam.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/step.h"
#include "model/transformer.h"
#include "search/ranker.h"
#include "search/resident.h"

_Static_assert((int)SEARCH_MAX_BEAM == (int)BEAM_MAX, "two names of one limit");
_Static_assert((int)SEARCH_MAX_BANNED + 1 == (int)BEAM_BANNED, "and the unknown mark");

struct searcher {
    struct ranker ranker;
    struct rank_rules rules;
    struct search_caps caps;
    int len; /* tokens of the longest hypothesis there is room for */
    struct acts *encoder[SEARCH_MAX_MODELS];
    struct stepper *stepper[SEARCH_MAX_MODELS];
    struct resident *resident; /* or NULL */
    struct search_stats stats;
    void *block;                  /* owns all that follows */
    struct packed src;            /* the call's sentences */
    int32_t *piece_start;         /* [n_seq + 1] of those that are encoded together */
    struct sentence *sentence;    /* [n_seq] */
    int *active, n_active;        /* [n_seq] sentences not done, ascending */
    int32_t *id, *parent, *owner; /* [hyp] rows of the next step */
    int n_row;                    /* of them */
    struct candidates got;        /* [hyp, k] */
    double *penalty, *live;       /* [len + 1], [hyp] */
    int32_t *sample;              /* [hyp] */
    struct beam_node *node;       /* [n_seq, len, width] */
    struct beam_end *end;         /* [n_seq, n_best] */
    struct beam_head *head;       /* [n_seq] resident only, as the next */
    int32_t *max_len, *lead;      /* [n_seq] */
    struct hypothesis *best;      /* [n_seq, n_best] */
    int32_t *best_id;             /* [n_seq, n_best, len] */
    float *best_log_prob;         /* [n_seq, n_best, len] */
};

/* ---- options --------------------------------------------------------------------------------- */

enum { MANY = INT_MAX };
static const char *const place_names[] = {"auto", "host", "backend", NULL};
static const char *const length_names[] = {"paper", "power", NULL};
static const char *const trees_names[] = {"none", "rows", "words", NULL};

#define OPTIONS_OF search_options
#define API(FIELD) API_FIELD(heed_translate_options, FIELD)
const struct option search_rows[] = {
    ROW(INT, "beam", beam, "4", "hypotheses kept; 1 is greedy", API(beam), .of_model = 1, .min = 1,
        .max = SEARCH_MAX_BEAM),
    ROW(INT, "nbest", n_best, "1", NULL, API(n_best), .min = 1, .max = SEARCH_MAX_BEAM),
    ROW(F32, "alpha", alpha, "0.6",
        "length penalty: scores are divided by ((5 + length) / 6)^X, or as --length-rule says",
        API(alpha), .of_model = 1, .min = -10, .max = 10),
    ROW(CHOICE, "length_rule", length_rule, "paper",
        "what the length penalty is: the paper's, or length^alpha (power)", API(length_rule),
        .of_model = 1, .choices = length_names),
    ROW(FLAG, "sample", sample, NULL, "draw random translations instead of searching for the best",
        API(sample)),
    ROW(F32, "temperature", temperature, "1", "temperature of sampling", API(temperature),
        .min = 1e-45, .max = 1e38),
    ROW(INT, "top_k", top_k, "0", "sample among the N best tokens; 0: all", API(top_k),
        .max = MANY),
    ROW(F32, "top_p", top_p, "1",
        "sample among the best tokens that together have this probability", API(top_p),
        .min = 1e-45, .max = 1),
    ROW(U64, "seed", seed, "1", "seed of sampling", API(seed)),
    ROW(INT, "min_length", min_len, "0", "fewest tokens of a translation", API(min_length),
        .of_model = 1, .max = MANY),
    ROW(INT, "max_length", max_len, "0",
        "most tokens of a translation, end mark included; 0: the model's positions",
        API(max_length), .of_model = 1, .max = MANY),
    ROW(INT, "max_extra", max_extra, "50",
        "how many tokens longer than its source a translation may be", API(max_extra),
        .of_model = 1, .max = MANY),
    ROW(INT, "force_length", force_len, "0",
        "exactly this many tokens, whatever the model says (for benchmarks); 0: off", .max = MANY),
    ROW(INT, "no_repeat_ngram", no_repeat, "0", "write no sequence of N tokens twice; 0: off",
        API(no_repeat), .of_model = 1, .max = MANY),
    ROW(F32, "repetition_penalty", repetition, "1",
        "make tokens already written less likely; 1: off", API(repetition), .of_model = 1,
        .min = 1e-45, .max = 1e38),
    ROW(FLAG, "no_unknown", ban_unk, NULL, "never write the unknown token", API(no_unknown),
        .of_model = 1),
    ROW(CHOICE, "trees", trees, "none",
        "write whole parse trees and nothing else: rows of brackets, as heed trees linearise, or "
        "with the words of the line in them; if neither is named, words",
        .of_model = 1, .choices = trees_names, .alone = "words"),
    ROW(CHOICE, "place", place, "auto", NULL, .choices = place_names),
    {.name = NULL},
};

struct search_options search_defaults(void) {
    struct search_options o;
    options_default(search_rows, &o);
    return o;
}

int search_check(const struct search_options *o, struct err *err) {
    int rc = options_check(search_rows, o, err);
    if (rc) return rc;
    if (!o->sample && o->n_best > o->beam)
        return err_set(err, HEED_EINVAL, "nbest: %d is more than the beam of %d; raise the beam",
                       o->n_best, o->beam);
    if (o->max_len && o->min_len > o->max_len)
        return err_set(err, HEED_EINVAL,
                       "min_length: %d is more than the greatest length allowed, %d", o->min_len,
                       o->max_len);
    if (o->trees && (o->min_len || o->force_len || o->no_repeat))
        return err_set(err, HEED_EINVAL,
                       "trees: not together with min_length, force_length or no_repeat_ngram, "
                       "which would leave some of them unfinished");
    return 0;
}

int search_terms_beam(const struct search_options *o, const struct terms *terms) {
    int wanted = min_int(terms_weight(terms) + 1, TERMS_MAX_BEAM), width = TERMS_BEAM;
    while (width < max_int(wanted, o->beam)) width *= 2;
    return width;
}

int search_longest(const struct search_options *o, int positions, int n_src) {
    if (o->force_len) return o->force_len;
    int most = o->max_len ? min_int(o->max_len, positions) : positions;
    return (int)min_i64((int64_t)n_src + o->max_extra, most);
}

/* ---- new ------------------------------------------------------------------------------------- */

static int check_caps(struct searcher *s, struct err *err) {
    const struct search_caps *c = &s->caps;
    if (c->n_seq < 1 || c->n_tok < 1 || c->max_src < 1)
        return err_set(err, HEED_EINVAL,
                       "search: room for %d sentences, %d tokens and %d tokens each is wanted; at "
                       "least 1 of everything",
                       c->n_seq, c->n_tok, c->max_src);
    if (c->max_src > s->ranker.positions)
        return err_set(err, HEED_ELIMIT,
                       "search: room for sentences of %d tokens is wanted; the model has positions "
                       "for %d",
                       c->max_src, s->ranker.positions);
    if (s->rules.options.force_len > s->ranker.positions)
        return err_set(err, HEED_ELIMIT,
                       "force_length: %d is more than the %d positions of the model",
                       s->rules.options.force_len, s->ranker.positions);
    s->len = rank_longest(&s->rules, &s->ranker, c->max_src);
    BUG_ON(s->len < 1 || s->rules.k < 1);
    int64_t hyp = (int64_t)c->n_seq * s->rules.beam.width, most = INT32_MAX / s->len;
    if (hyp > most / s->rules.k)
        return err_set(err, HEED_ELIMIT,
                       "search: %d sentences of %d hypotheses of up to %d tokens are too many",
                       c->n_seq, s->rules.beam.width, s->len);
    return 0;
}

static size_t items(size_t a, size_t b, size_t size) { return size_mul(size_mul(a, b), size); }

/* Lays all arrays into the arena; over no memory it measures. */
static void carve(struct searcher *s, struct arena *arena) {
    size_t n_seq = (size_t)s->caps.n_seq, n_tok = (size_t)s->caps.n_tok, len = (size_t)s->len;
    size_t hyp = n_seq * (size_t)s->rules.beam.width, n_best = n_seq * (size_t)s->rules.beam.n_best;
    size_t k = (size_t)s->rules.k;
    s->src.ids = arena_take(arena, items(n_tok, 1, sizeof *s->src.ids));
    s->src.pos = arena_take(arena, items(n_tok, 1, sizeof *s->src.pos));
    s->src.start = arena_take(arena, items(n_seq + 1, 1, sizeof *s->src.start));
    s->piece_start = arena_take(arena, items(n_seq + 1, 1, sizeof *s->piece_start));
    s->sentence = arena_take(arena, items(n_seq, 1, sizeof *s->sentence));
    s->active = arena_take(arena, items(n_seq, 1, sizeof *s->active));
    s->id = arena_take(arena, items(hyp, 1, sizeof *s->id));
    s->parent = arena_take(arena, items(hyp, 1, sizeof *s->parent));
    s->owner = arena_take(arena, items(hyp, 1, sizeof *s->owner));
    s->got.value = arena_take(arena, items(hyp, k, sizeof *s->got.value));
    s->got.id = arena_take(arena, items(hyp, k, sizeof *s->got.id));
    s->penalty = arena_take(arena, items(len + 1, 1, sizeof *s->penalty));
    s->live = arena_take(arena, items(hyp, 1, sizeof *s->live));
    s->sample = arena_take(arena, items(hyp, 1, sizeof *s->sample));
    s->node = arena_take(arena, items(hyp, len, sizeof *s->node));
    s->end = arena_take(arena, items(n_best, 1, sizeof *s->end));
    s->head = arena_take(arena, items(n_seq, 1, sizeof *s->head));
    s->max_len = arena_take(arena, items(n_seq, 1, sizeof *s->max_len));
    s->lead = arena_take(arena, items(n_seq, 1, sizeof *s->lead));
    ranker_carve(&s->ranker, arena, s->len);
    s->best = arena_take(arena, items(n_best, 1, sizeof *s->best));
    s->best_id = arena_take(arena, items(n_best, len, sizeof *s->best_id));
    s->best_log_prob = arena_take(arena, items(n_best, len, sizeof *s->best_log_prob));
}

static int reserve(struct searcher *s, struct err *err) {
    struct arena arena = {0};
    carve(s, &arena);
    arena.cap = arena.used;
    if (arena.cap == SIZE_MAX || !(s->block = mem_block(arena.cap)))
        return err_set(err, HEED_ENOMEM,
                       "search: %d sentences of %d hypotheses of up to %d tokens need %.1f MiB of "
                       "bookkeeping: not enough memory",
                       s->caps.n_seq, s->rules.beam.width, s->len, (double)arena.cap / 1048576.0);
    arena.base = s->block;
    arena.used = 0;
    carve(s, &arena);
    return 0;
}

/* Source tokens that are encoded together, unless one sentence has more. Activations of an encoder
 * are wide, and a CPU multiplies no faster by more rows; a device does. */
enum { ENCODE_TOKENS = 256 };

static int encoded_together(const struct searcher *s) {
    if (backend_device_memory(s->ranker.be)) return s->caps.n_tok;
    return min_int(s->caps.n_tok, max_int(s->caps.max_src, ENCODE_TOKENS));
}

static int open_models(struct searcher *s, struct model *const *models, struct err *err) {
    struct stepper_caps caps = {s->caps.n_seq * s->rules.beam.width, s->len, s->caps.n_tok,
                                s->rules.k, 0};
    for (int m = 0; m < s->ranker.n_model; m++) {
        int rc = acts_new(&s->encoder[m], models[m], encoded_together(s), 0, 0, err);
        if (!rc) rc = stepper_new(&s->stepper[m], models[m], &caps, err);
        if (rc) return rc;
    }
    return ranker_speak(&s->ranker, s->stepper, err);
}

/* The device ranks by itself where it can. */
static int open_resident(struct searcher *s, struct err *err) {
    const struct stepper *stepper = s->stepper[0];
    int wanted =
        s->rules.options.place == SEARCH_BACKEND ||
        (s->rules.options.place == SEARCH_AUTO && backend_device_memory(stepper->model->be));
    if (!wanted || s->rules.full || s->rules.options.trees || stepper->value.type != DTYPE_F32)
        return 0;
    struct resident_rules rules = {.beam = s->rules.beam,
                                   .bos = s->ranker.marks.bos,
                                   .min_len = s->rules.min_len,
                                   .k = s->rules.k,
                                   .n_seq = s->caps.n_seq};
    return resident_new(&s->resident, s->stepper[0], &rules, err);
}

int searcher_new(struct searcher **out, const struct search_setup *setup,
                 const struct search_options *options, struct err *err) {
    *out = NULL;
    struct ranker ranker;
    int rc = search_check(options, err);
    if (!rc) rc = ranker_init(&ranker, setup, err);
    if (rc) return rc;
    struct searcher *s = xcalloc(1, sizeof *s);
    *s = (struct searcher){.ranker = ranker, .caps = setup->caps};
    rank_settle(&s->rules, &s->ranker, options);
    s->got.k = s->rules.k;
    rc = check_caps(s, err);
    if (!rc) rc = reserve(s, err);
    if (!rc) rc = open_models(s, setup->model, err);
    if (!rc) {
        rank_penalty(&s->rules, s->penalty, s->len);
        rc = open_resident(s, err);
    }
    if (rc) {
        searcher_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void searcher_free(struct searcher *s) {
    if (!s) return;
    resident_free(s->resident);
    for (int m = 0; m < s->ranker.n_model; m++) {
        stepper_free(s->stepper[m]);
        acts_free(s->encoder[m]);
    }
    mem_block_free(s->block);
    xfree(s);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int pack(struct searcher *s, const struct search_input *in, int n_seq, struct err *err) {
    if (n_seq < 0 || n_seq > s->caps.n_seq)
        return err_set(err, HEED_ELIMIT, "search: %d sentences; there is room for %d", n_seq,
                       s->caps.n_seq);
    int n = 0, max = 0;
    s->src.start[0] = 0;
    for (int i = 0; i < n_seq; i++) {
        int rc = rank_check(&s->ranker, &s->rules, &in[i], i, s->caps.max_src, err);
        if (rc) return rc;
        if (in[i].n_src > s->caps.n_tok - n)
            return err_set(err, HEED_ELIMIT,
                           "search: %d source tokens with sentence %d; there is room for %d",
                           n + in[i].n_src, i, s->caps.n_tok);
        memcpy(s->src.ids + n, in[i].src, (size_t)in[i].n_src * sizeof *in[i].src);
        for (int t = 0; t < in[i].n_src; t++) s->src.pos[n + t] = t;
        s->src.start[i + 1] = n += in[i].n_src;
        max = in[i].n_src > max ? in[i].n_src : max;
    }
    s->src.n_tok = n;
    s->src.max_len = max;
    return 0;
}

/* The packed sentences from `first` on that model m's encoder takes together: encodes them, hands
 * them to its stepper and returns the first of the rest, or an error. */
static int encode_piece(struct searcher *s, int m, int first, int n_seq, struct err *err) {
    int at = s->src.start[first], most = encoded_together(s), last = first;
    struct packed piece = {.ids = s->src.ids + at, .pos = s->src.pos + at, .start = s->piece_start};
    for (; last < n_seq && s->src.start[last + 1] - at <= most; last++) {
        int n = s->src.start[last + 1] - s->src.start[last];
        piece.start[last - first] = piece.n_tok;
        piece.start[last - first + 1] = piece.n_tok += n;
        piece.max_len = max_int(piece.max_len, n);
    }
    int rc = acts_load_src(s->encoder[m], &piece, last - first, err);
    if (rc) return rc;
    transformer_encode(&(struct pass){.model = s->stepper[m]->model, .acts = s->encoder[m]});
    stepper_admit(s->stepper[m], s->encoder[m], 0, piece.n_tok, at);
    return last;
}

/* Encodes the packed sentences and puts a beam of one empty hypothesis on each. */
static int begin(struct searcher *s, const struct search_input *in, int n_seq, struct err *err) {
    for (int m = 0; m < s->ranker.n_model; m++) {
        int rc = stepper_begin(s->stepper[m], &s->src, n_seq, err);
        for (int next = 0; !rc && next < n_seq;)
            if ((next = encode_piece(s, m, next, n_seq, err)) < 0) rc = next;
        if (!rc) rc = backend_check(s->ranker.be, err);
        if (rc) return rc;
    }
    size_t width = (size_t)s->rules.beam.width;
    for (int i = 0; i < n_seq; i++) {
        struct sentence *x = &s->sentence[i];
        size_t first = (size_t)i * width;
        *x = (struct sentence){.in = in[i], .number = i, .row = i};
        x->beam.log_prob = s->live + first;
        x->beam.sample = s->sample + first;
        x->beam.node = s->node + first * (size_t)s->len;
        x->beam.end = s->end + (size_t)i * (size_t)s->rules.beam.n_best;
        beam_begin(&x->beam, rank_longest(&s->rules, &s->ranker, in[i].n_src));
        s->active[i] = i;
        s->id[i] = s->ranker.marks.bos;
        s->parent[i] = 0;
        s->owner[i] = i;
    }
    s->n_active = s->n_row = n_seq;
    return 0;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Every active sentence takes its token. */
static int advance(struct searcher *s, struct err *err) {
    struct mat logits[SEARCH_MAX_MODELS] = {0};
    unsigned needs = 0;
    int rc;
    for (int i = 0; i < s->n_active; i++)
        needs |= rank_needs(&s->rules, &s->sentence[s->active[i]]);
    for (int m = 0; needs & RANK_LOGITS && m < s->ranker.n_model; m++)
        logits[m] = stepper_logits(s->stepper[m]);
    rc = needs & RANK_TOPK ? stepper_topk(s->stepper[0], s->got.k, s->got.value, s->got.id, err)
                           : backend_sync(s->ranker.be, err);
    for (int i = 0; !rc && i < s->n_active; i++)
        rc = rank_next(&s->ranker, &s->rules, &s->sentence[s->active[i]], logits, &s->got, err);
    return rc;
}

/* Sentences that are done leave; the live hypotheses of the others are the rows of the next
 * step. */
static void gather(struct searcher *s) {
    int n_active = 0, n_row = 0;
    for (int i = 0; i < s->n_active; i++) {
        struct sentence *x = &s->sentence[s->active[i]];
        const struct beam *b = &x->beam;
        if (b->done) continue;
        const struct beam_node *node = b->node + (size_t)(b->len - 1) * (size_t)s->rules.beam.width;
        int row = x->row; /* in the step just done */
        x->row = n_row;
        for (int h = 0; h < b->n_live; h++, n_row++) {
            s->id[n_row] = node[h].token;
            s->parent[n_row] = row + node[h].parent;
            s->owner[n_row] = s->active[i];
        }
        s->active[n_active++] = s->active[i];
    }
    s->n_active = n_active;
    s->n_row = n_row;
}

static void report(struct searcher *s, struct search_result *out, int n_seq) {
    for (int i = 0; i < n_seq; i++) {
        const struct sentence *x = &s->sentence[i];
        size_t first = (size_t)i * (size_t)s->rules.beam.n_best, len = (size_t)s->len;
        for (int rank = 0; rank < x->beam.n_end; rank++) {
            size_t at = first + (size_t)rank;
            s->best[at] =
                rank_report(&s->rules, x, rank, s->best_id + at * len, s->best_log_prob + at * len);
        }
        out[i] = (struct search_result){s->best + first, x->beam.n_end};
    }
}

static int plain(const struct search_input *in, int n_seq) {
    for (int i = 0; i < n_seq; i++)
        if (in[i].n_prefix > in[i].n_lead || in[i].terms) return 0;
    return 1;
}

/* The device searches, the host reads. An error names the sentence that the host would have met
 * first: the first of those with the fewest tokens. */
static int run_resident(struct searcher *s, int n_seq, const struct search_poll *poll,
                        struct err *err) {
    const struct sentence *sick = NULL;
    for (int i = 0; i < n_seq; i++) {
        const struct sentence *x = &s->sentence[i];
        s->max_len[i] = x->beam.max_len;
        s->lead[i] = x->in.n_lead ? x->in.prefix[0] : -1;
    }
    struct resident_input in = {s->src.start, s->max_len, s->lead, n_seq};
    int rc = resident_run(s->resident, &in, poll, err);
    if (!rc) rc = resident_read(s->resident, s->head, s->node, s->end, n_seq, err);
    s->stats = *resident_stats(s->resident);
    for (int i = 0; !rc && i < n_seq; i++) {
        struct sentence *x = &s->sentence[i];
        x->beam.len = s->head[i].len;
        x->beam.n_live = s->head[i].n_live;
        x->beam.n_end = s->head[i].n_end;
        if (s->head[i].broken && (!sick || x->beam.len < sick->beam.len)) sick = x;
    }
    return rc || !sick ? rc : rank_no_number(sick, err);
}

static int run_on_host(struct searcher *s, const struct search_poll *poll, struct err *err) {
    for (int t = 0; s->n_row > 0; t++) {
        if (poll && poll->call(poll->ctx))
            return err_set(err, HEED_ECANCELLED, "search: cancelled after %d tokens", t);
        int rc = 0;
        s->stats.steps++;
        s->stats.anew++;
        s->stats.rows += (uint64_t)s->n_row;
        s->stats.computed += (uint64_t)s->n_row;
        for (int m = 0; !rc && m < s->ranker.n_model; m++)
            rc = stepper_step(s->stepper[m], s->n_row, s->id, s->parent, s->owner, err);
        if (!rc) rc = advance(s, err);
        if (rc) return rc;
        gather(s);
    }
    return 0;
}

const struct search_stats *searcher_stats(const struct searcher *s) { return &s->stats; }

void search_stats_add(struct search_stats *to, const struct search_stats *s) {
    to->steps += s->steps;
    to->rows += s->rows;
    to->computed += s->computed;
    to->anew += s->anew;
    to->waited += s->waited;
}

int searcher_run(struct searcher *s, const struct search_input *in, int n_seq,
                 struct search_result *out, const struct search_poll *poll, struct err *err) {
    int rc = pack(s, in, n_seq, err);
    s->stats = (struct search_stats){0};
    if (rc || n_seq == 0) return rc;
    if ((rc = begin(s, in, n_seq, err))) return rc;
    rc = s->resident && plain(in, n_seq) ? run_resident(s, n_seq, poll, err)
                                         : run_on_host(s, poll, err);
    if (rc) return rc;
    report(s, out, n_seq);
    return 0;
}
