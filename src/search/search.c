/* search.c — see search.h. The searcher: batches in, steps of all sentences together, results out.
 *
 * One step of the decoder serves all live hypotheses of all sentences; what a sentence makes of it
 * is in beam.c. Between the two lie the candidates, found in one of two ways:
 *
 * - fast: the backend's topk hands over the k best tokens of each hypothesis. For one model whose
 *   distribution nobody changes; forbidding the end mark or the unknown mark only strikes out
 *   candidates.
 * - full: a hypothesis' logits come to the host row by row. For ensembles, sampling, the repetition
 *   penalty and no_repeat, and for the tokens of a forced prefix, which may be anywhere in the
 *   vocabulary.
 *
 * Which way a row goes depends on the options and its own sentence alone, so that the bits of a
 * result do not depend on the neighbours. Forbidding a token leaves the other probabilities as they
 * are.
 *
 * Plain searches on a device leave all of this to it (resident.h): the fast way, without the host.
 *
 * The rows of a step are ordered by sentence, then by slot of the beam. A finished sentence no
 * longer has rows, so the steps get cheaper as sentences end. */
#include "search/search.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/beam.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/step.h"
#include "model/transformer.h"
#include "search/constraint.h"
#include "search/logprob.h"
#include "search/resident.h"
#include "search/sample.h"

_Static_assert((int)SEARCH_MAX_BEAM == (int)BEAM_MAX, "two names of one limit");

/* What one sentence of the running call adds to its beam. */
struct sentence {
    const struct search_input *in;
    struct beam beam;
    int row; /* of the first live hypothesis in the current step */
};

struct searcher {
    struct search_options options;
    struct search_marks marks;
    struct search_caps caps;
    struct beam_rules rules;
    struct sample_rule sampling;
    int n_model, n_vocab;
    int max_positions; /* of the model that has the fewest */
    int len;           /* tokens of the longest hypothesis there is room for */
    int full;          /* every row goes the full way */
    int k;             /* candidates per hypothesis */
    int32_t min_len;   /* below this many tokens the end mark is forbidden */
    float weight[SEARCH_MAX_MODELS];
    struct acts *encoder[SEARCH_MAX_MODELS];
    struct stepper *stepper[SEARCH_MAX_MODELS];
    struct resident *resident; /* or NULL */
    struct search_stats stats;
    void *block;                     /* owns all that follows */
    struct packed src;               /* the call's sentences */
    struct sentence *sentence;       /* [n_seq] */
    int *active, n_active;           /* [n_seq] sentences not done, ascending */
    int32_t *id, *parent, *owner;    /* [hyp] rows of the next step */
    int n_row;                       /* of them */
    float *value;                    /* [hyp, k] candidates */
    int32_t *top;                    /* [hyp, k] */
    double *penalty, *live;          /* [len + 1], [hyp] */
    int32_t *sample;                 /* [hyp] */
    struct beam_node *node;          /* [n_seq, len, width] */
    struct beam_end *end;            /* [n_seq, n_best] */
    struct beam_head *head;          /* [n_seq] resident only, as the next */
    int32_t *max_len;                /* [n_seq] */
    void *raw;                       /* [V] one row as the model has it */
    float *row, *log_prob, *weights; /* [n_model, V], [V], [V] */
    int32_t *order, *written;        /* [V], [len] */
    uint32_t *seen, stamp;           /* [V] */
    struct hypothesis *best;         /* [n_seq, n_best] */
    int32_t *best_id;                /* [n_seq, n_best, len] */
    float *best_log_prob;            /* [n_seq, n_best, len] */
};

/* ---- options --------------------------------------------------------------------------------- */

enum { MANY = INT_MAX };
static const char *const place_names[] = {"auto", "host", "backend", NULL};

#define OPTIONS_OF search_options
#define API(FIELD) API_FIELD(heed_translate_options, FIELD)
const struct option search_rows[] = {
    ROW(INT, "beam", beam, "4", "hypotheses kept; 1 is greedy", API(beam), .of_model = 1, .min = 1,
        .max = SEARCH_MAX_BEAM),
    ROW(INT, "nbest", n_best, "1", NULL, API(n_best), .min = 1, .max = SEARCH_MAX_BEAM),
    ROW(F32, "alpha", alpha, "0.6", "length penalty: scores are divided by ((5 + length) / 6)^X",
        API(alpha), .of_model = 1, .min = -10, .max = 10),
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
    return 0;
}

int search_longest(const struct search_options *o, int positions, int n_src) {
    if (o->force_len) return o->force_len;
    int most = o->max_len ? min_int(o->max_len, positions) : positions;
    return (int)min_i64((int64_t)n_src + o->max_extra, most);
}

/* ---- new ------------------------------------------------------------------------------------- */

static int check_models(struct model *const *models, const float *weights, int n, struct err *err) {
    if (n < 1 || n > SEARCH_MAX_MODELS)
        return err_set(err, HEED_EINVAL, "search: %d models; it must be from 1 to %d", n,
                       SEARCH_MAX_MODELS);
    const struct config *first = &models[0]->config;
    for (int m = 0; m < n; m++) {
        const struct config *c = &models[m]->config;
        BUG_ON(models[m]->be != models[0]->be);
        if (c->n_vocab_src != first->n_vocab_src || c->n_vocab_tgt != first->n_vocab_tgt)
            return err_set(err, HEED_ECONFIG,
                           "search: model %d has vocabularies of %d and %d, the first of %d and %d",
                           m + 1, c->n_vocab_src, c->n_vocab_tgt, first->n_vocab_src,
                           first->n_vocab_tgt);
        if (weights && !(weights[m] > 0 && isfinite(weights[m])))
            return err_set(err, HEED_EINVAL,
                           "search: the weight of model %d is %g; it must be above 0", m + 1,
                           (double)weights[m]);
    }
    return 0;
}

static int check_marks(const struct search_marks *k, int n_vocab, struct err *err) {
    if (k->bos >= 0 && k->bos < n_vocab && k->eos >= 0 && k->eos < n_vocab && k->unk >= -1 &&
        k->unk < n_vocab)
        return 0;
    return err_set(err, HEED_EINVAL,
                   "search: begin, end and unknown mark are %d, %d and %d; the vocabulary has %d",
                   (int)k->bos, (int)k->eos, (int)k->unk, n_vocab);
}

static int longest(const struct searcher *s, int n_src) {
    return search_longest(&s->options, s->max_positions, n_src);
}

static int check_caps(struct searcher *s, struct err *err) {
    const struct search_caps *c = &s->caps;
    if (c->n_seq < 1 || c->n_tok < 1 || c->max_src < 1)
        return err_set(err, HEED_EINVAL,
                       "search: room for %d sentences, %d tokens and %d tokens each is wanted; at "
                       "least 1 of everything",
                       c->n_seq, c->n_tok, c->max_src);
    if (c->max_src > s->max_positions)
        return err_set(err, HEED_ELIMIT,
                       "search: room for sentences of %d tokens is wanted; the model has positions "
                       "for %d",
                       c->max_src, s->max_positions);
    if (s->options.force_len > s->max_positions)
        return err_set(err, HEED_ELIMIT,
                       "force_length: %d is more than the %d positions of the model",
                       s->options.force_len, s->max_positions);
    s->len = longest(s, c->max_src);
    int64_t hyp = (int64_t)c->n_seq * s->rules.width, most = INT32_MAX / s->len;
    if (hyp > most / s->k)
        return err_set(err, HEED_ELIMIT,
                       "search: %d sentences of %d hypotheses of up to %d tokens are too many",
                       c->n_seq, s->rules.width, s->len);
    return 0;
}

static size_t items(size_t a, size_t b, size_t size) { return size_mul(size_mul(a, b), size); }

/* Lays all arrays into the arena; over no memory it measures. */
static void carve(struct searcher *s, struct arena *arena) {
    size_t n_seq = (size_t)s->caps.n_seq, n_tok = (size_t)s->caps.n_tok, len = (size_t)s->len;
    size_t hyp = n_seq * (size_t)s->rules.width, n_best = n_seq * (size_t)s->rules.n_best;
    size_t k = (size_t)s->k, v = (size_t)s->n_vocab;
    s->src.ids = arena_take(arena, items(n_tok, 1, sizeof *s->src.ids));
    s->src.pos = arena_take(arena, items(n_tok, 1, sizeof *s->src.pos));
    s->src.start = arena_take(arena, items(n_seq + 1, 1, sizeof *s->src.start));
    s->sentence = arena_take(arena, items(n_seq, 1, sizeof *s->sentence));
    s->active = arena_take(arena, items(n_seq, 1, sizeof *s->active));
    s->id = arena_take(arena, items(hyp, 1, sizeof *s->id));
    s->parent = arena_take(arena, items(hyp, 1, sizeof *s->parent));
    s->owner = arena_take(arena, items(hyp, 1, sizeof *s->owner));
    s->value = arena_take(arena, items(hyp, k, sizeof *s->value));
    s->top = arena_take(arena, items(hyp, k, sizeof *s->top));
    s->penalty = arena_take(arena, items(len + 1, 1, sizeof *s->penalty));
    s->live = arena_take(arena, items(hyp, 1, sizeof *s->live));
    s->sample = arena_take(arena, items(hyp, 1, sizeof *s->sample));
    s->node = arena_take(arena, items(hyp, len, sizeof *s->node));
    s->end = arena_take(arena, items(n_best, 1, sizeof *s->end));
    s->head = arena_take(arena, items(n_seq, 1, sizeof *s->head));
    s->max_len = arena_take(arena, items(n_seq, 1, sizeof *s->max_len));
    s->raw = arena_take(arena, items(v, 1, sizeof(double)));
    s->row = arena_take(arena, items(v, (size_t)s->n_model, sizeof *s->row));
    s->log_prob = arena_take(arena, items(v, 1, sizeof *s->log_prob));
    s->weights = arena_take(arena, items(v, 1, sizeof *s->weights));
    s->order = arena_take(arena, items(v, 1, sizeof *s->order));
    s->written = arena_take(arena, items(len, 1, sizeof *s->written));
    s->seen = arena_take(arena, items(v, 1, sizeof *s->seen));
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
                       s->caps.n_seq, s->rules.width, s->len, (double)arena.cap / 1048576.0);
    arena.base = s->block;
    arena.used = 0;
    carve(s, &arena);
    memset(s->seen, 0, (size_t)s->n_vocab * sizeof *s->seen);
    return 0;
}

/* PAPER: 6.1. The stop needs monotone penalties, also where pow rounds the last bit the other
 * way. */
static void fill_penalty(struct searcher *s) {
    double alpha = (double)s->options.alpha;
    for (int n = 0; n <= s->len; n++) {
        s->penalty[n] = pow((5.0 + n) / 6.0, alpha);
        if (n && (alpha >= 0) != (s->penalty[n] >= s->penalty[n - 1]))
            s->penalty[n] = s->penalty[n - 1];
    }
    s->rules.penalty = s->penalty;
    s->rules.falling = alpha < 0;
}

/* What follows from the options alone. */
static void settle(struct searcher *s) {
    const struct search_options *o = &s->options;
    int width = o->sample ? o->n_best : o->beam;
    s->rules = (struct beam_rules){.width = width, .n_best = o->n_best, .eos = s->marks.eos};
    s->sampling = (struct sample_rule){o->temperature, o->top_k, o->top_p};
    s->full = s->n_model > 1 || o->sample || o->no_repeat || o->repetition != 1;
    s->min_len = o->force_len ? o->force_len : o->min_len;
    /* Enough, because of the `width` candidates that live on and the `width` first among which
     * hypotheses end no more than `width` come from one hypothesis: a row's best `width` tokens
     * beside the marks that may be struck out, and those marks themselves, which may stand before
     * them. */
    s->k = min_int(width + 1 + (o->ban_unk != 0), s->n_vocab);
}

static int open_models(struct searcher *s, struct model *const *models, struct err *err) {
    struct stepper_caps caps = {s->caps.n_seq * s->rules.width, s->len, s->caps.n_tok, s->k};
    for (int m = 0; m < s->n_model; m++) {
        int rc = acts_new(&s->encoder[m], models[m], s->caps.n_tok, 0, 0, err);
        if (!rc) rc = stepper_new(&s->stepper[m], models[m], &caps, err);
        if (rc) return rc;
    }
    return 0;
}

static int32_t banned(const struct searcher *s) { return s->options.ban_unk ? s->marks.unk : -1; }

/* The device ranks by itself where it can. */
static int open_resident(struct searcher *s, struct err *err) {
    const struct stepper *stepper = s->stepper[0];
    int wanted = s->options.place == SEARCH_BACKEND ||
                 (s->options.place == SEARCH_AUTO && backend_device_memory(stepper->model->be));
    if (!wanted || s->full || stepper->value.type != DTYPE_F32) return 0;
    struct resident_rules rules = {.beam = s->rules,
                                   .bos = s->marks.bos,
                                   .unk = banned(s),
                                   .min_len = s->min_len,
                                   .k = s->k,
                                   .n_seq = s->caps.n_seq};
    return resident_new(&s->resident, s->stepper[0], &rules, err);
}

static void take_weights(struct searcher *s, const float *weights) {
    double sum = 0;
    for (int m = 0; m < s->n_model; m++) sum += weights ? (double)weights[m] : 1;
    for (int m = 0; m < s->n_model; m++)
        s->weight[m] = (float)((weights ? (double)weights[m] : 1) / sum);
}

int searcher_new(struct searcher **out, const struct search_setup *setup,
                 const struct search_options *options, struct err *err) {
    *out = NULL;
    int rc = search_check(options, err);
    if (!rc) rc = check_models(setup->model, setup->weight, setup->n_model, err);
    if (!rc) rc = check_marks(&setup->marks, setup->model[0]->config.n_vocab_tgt, err);
    if (rc) return rc;
    struct searcher *s = xcalloc(1, sizeof *s);
    *s = (struct searcher){.options = *options,
                           .marks = setup->marks,
                           .caps = setup->caps,
                           .n_model = setup->n_model,
                           .n_vocab = setup->model[0]->config.n_vocab_tgt,
                           .max_positions = INT32_MAX};
    for (int m = 0; m < s->n_model; m++)
        s->max_positions = min_int(setup->model[m]->config.max_len, s->max_positions);
    settle(s);
    take_weights(s, setup->weight);
    rc = check_caps(s, err);
    if (!rc) rc = reserve(s, err);
    if (!rc) rc = open_models(s, setup->model, err);
    if (!rc) {
        fill_penalty(s);
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
    for (int m = 0; m < s->n_model; m++) {
        stepper_free(s->stepper[m]);
        acts_free(s->encoder[m]);
    }
    mem_block_free(s->block);
    xfree(s);
}

/* ---- input ----------------------------------------------------------------------------------- */

static int check_ids(const int32_t *id, int n, int n_vocab, int s, const char *what,
                     struct err *err) {
    for (int i = 0; i < n; i++)
        if (id[i] < 0 || id[i] >= n_vocab)
            return err_set(err, HEED_EINVAL,
                           "search: sentence %d has the %s token %d; the vocabulary has %d", s,
                           what, (int)id[i], n_vocab);
    return 0;
}

static int check_input(const struct searcher *s, const struct search_input *in, int i,
                       struct err *err) {
    int n_vocab_src = s->stepper[0]->model->config.n_vocab_src;
    if (in->n_src < 1 || in->n_src > s->caps.max_src)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d has %d source tokens; there is room for 1 to %d", i,
                       in->n_src, s->caps.max_src);
    int most = longest(s, in->n_src);
    if (in->n_prefix < 0 || in->n_prefix > most)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d has a prefix of %d tokens; its translation has at most "
                       "%d",
                       i, in->n_prefix, most);
    int rc = check_ids(in->src, in->n_src, n_vocab_src, i, "source", err);
    if (!rc) rc = check_ids(in->prefix, in->n_prefix, s->n_vocab, i, "prefix", err);
    for (int t = 0; !rc && t < in->n_prefix; t++)
        if (in->prefix[t] == s->marks.eos)
            rc = err_set(err, HEED_EINVAL,
                         "search: token %d of the prefix of sentence %d is the end mark", t, i);
    return rc;
}

static int pack(struct searcher *s, const struct search_input *in, int n_seq, struct err *err) {
    if (n_seq < 0 || n_seq > s->caps.n_seq)
        return err_set(err, HEED_ELIMIT, "search: %d sentences; there is room for %d", n_seq,
                       s->caps.n_seq);
    int n = 0, max = 0;
    s->src.start[0] = 0;
    for (int i = 0; i < n_seq; i++) {
        int rc = check_input(s, &in[i], i, err);
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

/* Encodes the packed sentences and puts a beam of one empty hypothesis on each. */
static int begin(struct searcher *s, const struct search_input *in, int n_seq, struct err *err) {
    for (int m = 0; m < s->n_model; m++) {
        int rc = acts_load_src(s->encoder[m], &s->src, n_seq, err);
        if (rc) return rc;
        transformer_encode(&(struct pass){.model = s->stepper[m]->model, .acts = s->encoder[m]});
        if ((rc = stepper_begin(s->stepper[m], s->encoder[m], &s->src, n_seq, err))) return rc;
    }
    size_t width = (size_t)s->rules.width;
    for (int i = 0; i < n_seq; i++) {
        struct sentence *x = &s->sentence[i];
        size_t first = (size_t)i * width;
        *x = (struct sentence){.in = &in[i], .row = i};
        x->beam.log_prob = s->live + first;
        x->beam.sample = s->sample + first;
        x->beam.node = s->node + first * (size_t)s->len;
        x->beam.end = s->end + (size_t)i * (size_t)s->rules.n_best;
        beam_begin(&x->beam, longest(s, in[i].n_src));
        s->active[i] = i;
        s->id[i] = s->marks.bos;
        s->parent[i] = 0;
        s->owner[i] = i;
    }
    s->n_active = s->n_row = n_seq;
    return 0;
}

/* ---- candidates ------------------------------------------------------------------------------ */

static int no_number(const struct searcher *s, const struct sentence *x, struct err *err) {
    return err_set(err, HEED_EINTERNAL,
                   "search: the model's scores for token %d of sentence %d (key %llu) are not "
                   "numbers; its weights may be damaged, or its training may have diverged",
                   x->beam.len, (int)(x - s->sentence), (unsigned long long)x->in->key);
}

static int forced(const struct sentence *x) { return x->beam.len < x->in->n_prefix; }

static int end_forbidden(const struct searcher *s, const struct sentence *x) {
    return x->beam.len < s->min_len;
}

/* One row of logits as f32. */
static void fetch_row(const struct searcher *s, float *row, const struct mat *logits, int at) {
    struct backend *be = s->stepper[0]->model->be;
    size_t size = (size_t)s->n_vocab * dtype_size(logits->type);
    const void *from = mat_row(logits, at);
    if (logits->type == DTYPE_F32) {
        backend_download(be, row, from, size);
        return;
    }
    backend_download(be, s->raw, from, size);
    for (int v = 0; v < s->n_vocab; v++) row[v] = (float)dtype_load(s->raw, logits->type, v);
}

static void penalise(struct searcher *s, float *row, int n_written) {
    if (++s->stamp == 0) { /* once in 2^32 rows: old stamps must not look new */
        memset(s->seen, 0, (size_t)s->n_vocab * sizeof *s->seen);
        s->stamp = 1;
    }
    constraint_penalise(row, s->written, n_written, s->options.repetition, s->seen, s->stamp);
}

/* log_prob = what the models together make of the next token of live hypothesis h. */
static int mix(struct searcher *s, const struct sentence *x, int h, const struct mat *logits,
               struct err *err) {
    for (int m = 0; m < s->n_model; m++) {
        float *row = s->n_model == 1 ? s->log_prob : s->row + (size_t)m * (size_t)s->n_vocab;
        fetch_row(s, row, &logits[m], x->row + h);
        if (s->options.repetition != 1) penalise(s, row, x->beam.len);
        if (logprob_normalise(row, s->n_vocab)) return no_number(s, x, err);
    }
    if (s->n_model > 1) logprob_mean(s->log_prob, s->row, s->weight, s->n_model, s->n_vocab);
    return 0;
}

static void forbid(const struct searcher *s, const struct sentence *x) {
    if (end_forbidden(s, x)) s->log_prob[s->marks.eos] = -INFINITY;
    if (s->options.ban_unk && s->marks.unk >= 0) s->log_prob[s->marks.unk] = -INFINITY;
    if (s->options.no_repeat)
        constraint_no_repeat(s->log_prob, s->written, x->beam.len, s->options.no_repeat);
}

/* A prefix leaves one candidate: its token. Nothing forbids it. */
static void force(const struct searcher *s, const struct sentence *x, float *value, int32_t *id) {
    for (int i = 0; i < s->k; i++) {
        value[i] = -INFINITY;
        id[i] = -1;
    }
    id[0] = x->in->prefix[x->beam.len];
    value[0] = s->log_prob[id[0]];
}

/* Draws for the samples of live hypothesis h: all of them from the first free row, later one
 * each. */
static void draw(struct searcher *s, const struct sentence *x, int h, float *value, int32_t *id) {
    const struct beam *b = &x->beam;
    int first = b->open ? h : 0, last = b->open ? h + 1 : s->rules.width;
    for (int i = first; i < last; i++) {
        double u = sample_uniform(s->options.seed, x->in->key, b->open ? b->sample[i] : i, b->len);
        id[i] = sample_token(s->log_prob, s->n_vocab, &s->sampling, u, s->weights, s->order);
        value[i] = id[i] < 0 ? 0 : s->log_prob[id[i]];
    }
}

/* The full way, for one sentence. */
static int advance_full(struct searcher *s, struct sentence *x, const struct mat *logits,
                        struct err *err) {
    struct beam *b = &x->beam;
    size_t first = (size_t)x->row * (size_t)s->k;
    float drawn_value[SEARCH_MAX_BEAM];
    int32_t drawn_id[SEARCH_MAX_BEAM];
    int sampling = s->options.sample && !forced(x);
    for (int h = 0; h < b->n_live; h++) {
        float *value = s->value + first + (size_t)h * (size_t)s->k;
        int32_t *id = s->top + first + (size_t)h * (size_t)s->k;
        beam_trace(s->written, NULL, b, &s->rules, h, b->len);
        int rc = mix(s, x, h, logits, err);
        if (rc) return rc;
        if (!forced(x)) forbid(s, x);
        if (forced(x))
            force(s, x, value, id);
        else if (sampling)
            draw(s, x, h, drawn_value, drawn_id);
        else
            logprob_best(value, id, s->k, s->log_prob, s->n_vocab);
    }
    if (sampling)
        beam_draw(b, &s->rules, drawn_value, drawn_id);
    else
        beam_advance(b, &s->rules, s->value + first, s->top + first, s->k);
    return 0;
}

/* The fast way, for one sentence. */
static int advance_fast(const struct searcher *s, struct sentence *x, struct err *err) {
    size_t first = (size_t)x->row * (size_t)s->k;
    int32_t eos = end_forbidden(s, x) ? s->marks.eos : -1;
    for (int h = 0; h < x->beam.n_live; h++) {
        size_t at = first + (size_t)h * (size_t)s->k;
        if (beam_strike(s->value + at, s->top + at, s->k, eos, banned(s)))
            return no_number(s, x, err);
    }
    beam_advance(&x->beam, &s->rules, s->value + first, s->top + first, s->k);
    return 0;
}

/* Every active sentence takes its token. */
static int advance(struct searcher *s, struct err *err) {
    struct mat logits[SEARCH_MAX_MODELS] = {0};
    int n_full = 0, rc = 0;
    for (int i = 0; i < s->n_active; i++) n_full += s->full || forced(&s->sentence[s->active[i]]);
    if (n_full < s->n_active) rc = stepper_topk(s->stepper[0], s->k, s->value, s->top, err);
    if (n_full) {
        for (int m = 0; m < s->n_model; m++) logits[m] = stepper_logits(s->stepper[m]);
        if (!rc) rc = backend_sync(s->stepper[0]->model->be, err);
    }
    for (int i = 0; !rc && i < s->n_active; i++) {
        struct sentence *x = &s->sentence[s->active[i]];
        rc = s->full || forced(x) ? advance_full(s, x, logits, err) : advance_fast(s, x, err);
    }
    return rc;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Sentences that are done leave; the live hypotheses of the others are the rows of the next
 * step. */
static void gather(struct searcher *s) {
    int n_active = 0, n_row = 0;
    for (int i = 0; i < s->n_active; i++) {
        struct sentence *x = &s->sentence[s->active[i]];
        const struct beam *b = &x->beam;
        if (b->done) continue;
        const struct beam_node *node = b->node + (size_t)(b->len - 1) * (size_t)s->rules.width;
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

static void report_one(struct searcher *s, const struct sentence *x, int rank) {
    const struct beam_end *e = &x->beam.end[rank];
    size_t at = (size_t)(x - s->sentence) * (size_t)s->rules.n_best + (size_t)rank;
    int32_t *id = s->best_id + at * (size_t)s->len;
    float *log_prob = s->best_log_prob + at * (size_t)s->len;
    beam_trace(id, log_prob, &x->beam, &s->rules, e->hyp, e->n);
    if (e->token >= 0) {
        id[e->n] = e->token;
        log_prob[e->n] = e->last;
    }
    s->best[at] = (struct hypothesis){.ids = id,
                                      .n = e->n + (e->cut && e->token >= 0),
                                      .log_prob = (float)e->log_prob,
                                      .score = (float)e->score,
                                      .token_log_prob = log_prob,
                                      .cut = e->cut};
}

static void report(struct searcher *s, struct search_result *out, int n_seq) {
    for (int i = 0; i < n_seq; i++) {
        const struct sentence *x = &s->sentence[i];
        for (int rank = 0; rank < x->beam.n_end; rank++) report_one(s, x, rank);
        out[i] =
            (struct search_result){s->best + (size_t)i * (size_t)s->rules.n_best, x->beam.n_end};
    }
}

static int plain(const struct search_input *in, int n_seq) {
    for (int i = 0; i < n_seq; i++)
        if (in[i].n_prefix) return 0;
    return 1;
}

/* The device searches, the host reads. An error names the sentence that the host would have met
 * first: the first of those with the fewest tokens. */
static int run_resident(struct searcher *s, int n_seq, const struct search_poll *poll,
                        struct err *err) {
    const struct sentence *sick = NULL;
    for (int i = 0; i < n_seq; i++) s->max_len[i] = s->sentence[i].beam.max_len;
    int rc = resident_run(s->resident, s->src.start, s->max_len, n_seq, poll, err);
    if (!rc) rc = resident_read(s->resident, s->head, s->node, s->end, n_seq, err);
    s->stats = *resident_stats(s->resident);
    for (int i = 0; !rc && i < n_seq; i++) {
        struct sentence *x = &s->sentence[i];
        x->beam.len = s->head[i].len;
        x->beam.n_live = s->head[i].n_live;
        x->beam.n_end = s->head[i].n_end;
        if (s->head[i].broken && (!sick || x->beam.len < sick->beam.len)) sick = x;
    }
    return rc || !sick ? rc : no_number(s, sick, err);
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
        for (int m = 0; !rc && m < s->n_model; m++)
            rc = stepper_step(s->stepper[m], s->n_row, s->id, s->parent, s->owner, err);
        if (!rc) rc = advance(s, err);
        if (rc) return rc;
        gather(s);
    }
    return 0;
}

const struct search_stats *searcher_stats(const struct searcher *s) { return &s->stats; }

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
