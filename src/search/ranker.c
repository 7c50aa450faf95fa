/* ranker.c — see ranker.h. */
#include "search/ranker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "base/num.h"
#include "model/step.h"
#include "search/constraint.h"
#include "search/logprob.h"

_Static_assert((int)SEARCH_MAX_MODELS == (int)BLEND_MOST, "two names of one limit");

/* ---- what sentences share -------------------------------------------------------------------- */

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
        if (c->mask == MASK_NONE)
            return err_set(err, HEED_ECONFIG,
                           "search: model %d was trained without the decoder's mask (mask = none): "
                           "it was shown what it had to write, and cannot write by itself; to see "
                           "what it does, set \"mask\": \"causal\" in a copy of its config.json",
                           m + 1);
        if (weights && !(weights[m] > 0 && isfinite(weights[m])))
            return err_set(err, HEED_EINVAL,
                           "search: the weight of model %d is %g; it must be above 0", m + 1,
                           (double)weights[m]);
    }
    return 0;
}

static int check_marks(const struct search_marks *k, int n_vocab, struct err *err) {
    int known = k->bos >= -1 && k->bos < n_vocab && k->eos >= 0 && k->eos < n_vocab &&
                k->unk >= -1 && k->unk < n_vocab;
    if (k->n_banned < 0 || k->n_banned > SEARCH_MAX_BANNED)
        return err_set(err, HEED_EINVAL, "search: %d banned tokens; at most %d can be", k->n_banned,
                       SEARCH_MAX_BANNED);
    for (int i = 0; i < k->n_banned; i++)
        if (k->banned[i] < 0 || k->banned[i] >= n_vocab || k->banned[i] == k->eos)
            return err_set(err, HEED_EINVAL,
                           "search: the banned token %d is the end mark, or not among the %d of "
                           "the vocabulary",
                           (int)k->banned[i], n_vocab);
    if (known) return 0;
    return err_set(err, HEED_EINVAL,
                   "search: begin, end and unknown mark are %d, %d and %d; the vocabulary has %d",
                   (int)k->bos, (int)k->eos, (int)k->unk, n_vocab);
}

static void take_weights(struct ranker *r, const float *weights) {
    double sum = 0;
    for (int m = 0; m < r->n_model; m++) sum += weights ? (double)weights[m] : 1;
    for (int m = 0; m < r->n_model; m++)
        r->weight[m] = (float)((weights ? (double)weights[m] : 1) / sum);
}

int ranker_init(struct ranker *r, const struct search_setup *setup, struct err *err) {
    int rc = check_models(setup->model, setup->weight, setup->n_model, err);
    if (!rc) rc = check_marks(&setup->marks, setup->model[0]->config.n_vocab_tgt, err);
    if (rc) return rc;
    const struct model *first = setup->model[0];
    *r = (struct ranker){.be = first->be,
                         .n_model = setup->n_model,
                         .n_vocab_src = first->config.n_vocab_src,
                         .n_vocab = first->config.n_vocab_tgt,
                         .positions = INT32_MAX,
                         .marks = setup->marks};
    for (int m = 0; m < r->n_model; m++)
        r->positions = min_int(setup->model[m]->config.max_len, r->positions);
    take_weights(r, setup->weight);
    return 0;
}

int ranker_speak(const struct ranker *r, struct stepper *const *stepper, struct err *err) {
    if (r->n_model == 1) return 0;
    return stepper_speak(stepper[0], stepper + 1, r->n_model - 1, r->weight, err);
}

void ranker_carve(struct ranker *r, struct arena *arena, int len) {
    size_t v = (size_t)r->n_vocab, n_model = (size_t)r->n_model;
    r->raw = arena_take(arena, size_mul(v, sizeof(double)));
    r->row = arena_take(arena, size_mul(size_mul(v, n_model), sizeof *r->row));
    r->log_prob = arena_take(arena, size_mul(v, sizeof *r->log_prob));
    r->weights = arena_take(arena, size_mul(v, sizeof *r->weights));
    r->order = arena_take(arena, size_mul(v, sizeof *r->order));
    r->written = arena_take(arena, size_mul((size_t)len, sizeof *r->written));
    r->seen = arena_take(arena, size_mul(v, sizeof *r->seen));
    r->pick = arena_take(arena, RANK_PICKS * sizeof *r->pick);
    if (arena->base) memset(r->seen, 0, v * sizeof *r->seen);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* PAPER: 6.1, or the power of the length: 0 tokens, where nothing may be written, count as 1. The
 * stop needs monotone penalties, also where pow rounds the last bit the other
 * way. */
void rank_penalty(struct rank_rules *rules, double *penalty, int len) {
    double alpha = (double)rules->options.alpha;
    int power = rules->options.length_rule == LENGTH_POWER;
    for (int n = 0; n <= len; n++) {
        penalty[n] = pow(power ? (double)max_int(n, 1) : (5.0 + n) / 6.0, alpha);
        if (n && (alpha >= 0) != (penalty[n] >= penalty[n - 1])) penalty[n] = penalty[n - 1];
    }
    rules->beam.penalty = penalty;
    rules->beam.falling = alpha < 0;
}

enum { TREES_K = 2 * SEARCH_MAX_BEAM };

void rank_settle(struct rank_rules *rules, const struct ranker *r, const struct search_options *o) {
    int width = o->sample ? o->n_best : o->beam;
    *rules = (struct rank_rules){.options = *o};
    rules->beam = (struct beam_rules){.width = width, .n_best = o->n_best, .eos = r->marks.eos};
    rules->sampling = (struct sample_rule){o->temperature, o->top_k, o->top_p};
    rules->full = o->sample || o->no_repeat || o->repetition != 1;
    rules->min_len = o->force_len ? o->force_len : o->min_len;
    struct beam_rules *beam = &rules->beam;
    for (; beam->n_banned < r->marks.n_banned; beam->n_banned++)
        beam->banned[beam->n_banned] = r->marks.banned[beam->n_banned];
    if (o->ban_unk && r->marks.unk >= 0) beam->banned[beam->n_banned++] = r->marks.unk;
    /* Trees: no number is enough, and many are rarely too few. */
    if (o->trees) rules->k = min_int(TREES_K, r->n_vocab);
    if (o->trees) return;
    /* Enough, because of the `width` candidates that live on and the `width` first among which
     * hypotheses end no more than `width` come from one hypothesis: a row's best `width` tokens
     * beside those that may be struck out, and these themselves, which may stand before them. */
    rules->k = min_int(width + 1 + beam->n_banned, r->n_vocab);
}

int rank_longest(const struct rank_rules *rules, const struct ranker *r, int n_src) {
    return search_longest(&rules->options, r->positions, n_src);
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

static int check_tree(const struct ranker *r, const struct search_input *in, int i, int most,
                      struct err *err) {
    if (!r->marks.brackets || in->n_prefix > in->n_lead || in->terms)
        return err_set(err, HEED_EINVAL,
                       "search: sentence %d is to become a tree: that takes brackets, and goes "
                       "with neither prefix nor terms",
                       i);
    if (in->n_word > 0 && brackets_least(in->n_word) <= most - in->n_lead) return 0;
    return err_set(err, HEED_ELIMIT,
                   "search: sentence %d has %d words; its tree may have at most %d tokens, which "
                   "are too few",
                   i, in->n_word, most);
}

int rank_check(const struct ranker *r, const struct rank_rules *rules,
               const struct search_input *in, int i, int max_src, struct err *err) {
    if (in->n_src < 1 || in->n_src > max_src)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d has %d source tokens; there is room for 1 to %d", i,
                       in->n_src, max_src);
    int most = rank_longest(rules, r, in->n_src);
    BUG_ON(in->n_lead < 0 || in->n_lead > 1 || in->n_lead > in->n_prefix);
    if (in->n_prefix < 0 || in->n_prefix > most)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d has a prefix of %d tokens; its translation has at most "
                       "%d",
                       i, in->n_prefix, most);
    if (in->terms && rules->options.sample)
        return err_set(err, HEED_EINVAL,
                       "search: sentence %d has terms; they are for a search, not for samples", i);
    int rc = rules->options.trees ? check_tree(r, in, i, most, err) : 0;
    if (!rc) rc = check_ids(in->src, in->n_src, r->n_vocab_src, i, "source", err);
    if (!rc) rc = check_ids(in->prefix, in->n_prefix, r->n_vocab, i, "prefix", err);
    for (int t = 0; !rc && t < in->n_prefix; t++)
        if (in->prefix[t] == r->marks.eos)
            rc = err_set(err, HEED_EINVAL,
                         "search: token %d of the prefix of sentence %d is the end mark", t, i);
    return rc;
}

/* ---- candidates ------------------------------------------------------------------------------ */

int rank_no_number(const struct sentence *x, struct err *err) {
    return err_set(err, HEED_EINTERNAL,
                   "search: the model's scores for token %d of sentence %d (key %llu) are not "
                   "numbers; its weights may be damaged, or its training may have diverged",
                   x->beam.len, x->number, (unsigned long long)x->in.key);
}

/* Does the next token come from the prefix? */
static int forced(const struct sentence *x) { return x->beam.len < x->in.n_prefix; }

/* And is it the one that is not scored? */
static int leads(const struct sentence *x) { return x->beam.len < x->in.n_lead; }

static int full_way(const struct rank_rules *rules, const struct sentence *x) {
    return rules->full || (!leads(x) && (x->in.terms || forced(x)));
}

unsigned rank_needs(const struct rank_rules *rules, const struct sentence *x) {
    if (full_way(rules, x)) return RANK_LOGITS;
    return rules->options.trees && !leads(x) ? RANK_TOPK | RANK_LOGITS : RANK_TOPK;
}

/* The log-probability of live hypothesis h with one more token, as beam.c has it. */
static double longer(const struct sentence *x, int h, float value) {
    return x->beam.log_prob[h] + (value < 0 ? (double)value : 0.0);
}

static int end_forbidden(const struct rank_rules *rules, const struct sentence *x) {
    return x->beam.len < rules->min_len + x->in.n_lead;
}

/* One row of logits as f32. */
static void fetch_row(const struct ranker *r, float *row, const struct mat *logits, int at) {
    struct backend *be = r->be;
    size_t size = (size_t)r->n_vocab * dtype_size(logits->type);
    const void *from = mat_row(logits, at);
    if (logits->type == DTYPE_F32) {
        backend_download(be, row, from, size);
        return;
    }
    backend_download(be, r->raw, from, size);
    for (int v = 0; v < r->n_vocab; v++) row[v] = (float)dtype_load(r->raw, logits->type, v);
}

static void penalise(struct ranker *r, float *row, int n_written, float penalty) {
    if (++r->stamp == 0) { /* once in 2^32 rows: old stamps must not look new */
        memset(r->seen, 0, (size_t)r->n_vocab * sizeof *r->seen);
        r->stamp = 1;
    }
    constraint_penalise(row, r->written, n_written, penalty, r->seen, r->stamp);
}

/* log_prob = what the models together make of the next token of live hypothesis h. */
static int mix(struct ranker *r, const struct rank_rules *rules, const struct sentence *x, int h,
               const struct mat *logits, struct err *err) {
    for (int m = 0; m < r->n_model; m++) {
        float *row = r->n_model == 1 ? r->log_prob : r->row + (size_t)m * (size_t)r->n_vocab;
        fetch_row(r, row, &logits[m], x->row + h);
        if (rules->options.repetition != 1)
            penalise(r, row, x->beam.len, rules->options.repetition);
        if (logprob_normalise(row, r->n_vocab)) return rank_no_number(x, err);
    }
    if (r->n_model > 1) logprob_mean(r->log_prob, r->row, r->weight, r->n_model, r->n_vocab);
    return 0;
}

/* What may follow in the tree of the hypothesis that has been traced. */
static struct brackets_view view_of(const struct ranker *r, const struct sentence *x) {
    int lead = x->in.n_lead;
    return brackets_view(r->marks.brackets, r->written + lead, x->beam.len - lead, x->in.n_word,
                         x->beam.max_len - lead);
}

static void forbid(const struct ranker *r, const struct rank_rules *rules,
                   const struct sentence *x) {
    if (rules->options.trees) {
        struct brackets_view view = view_of(r, x);
        for (int v = 0; v < r->n_vocab; v++)
            if (!brackets_allow(r->marks.brackets, &view, v, r->marks.eos))
                r->log_prob[v] = -INFINITY;
    }
    if (end_forbidden(rules, x)) r->log_prob[r->marks.eos] = -INFINITY;
    for (int i = 0; i < rules->beam.n_banned; i++) r->log_prob[rules->beam.banned[i]] = -INFINITY;
    if (rules->options.no_repeat)
        constraint_no_repeat(r->log_prob, r->written, x->beam.len, rules->options.no_repeat);
}

/* A prefix leaves one candidate: its token. Nothing forbids it. */
static void force(const struct ranker *r, const struct sentence *x, float *value, int32_t *id,
                  int k) {
    beam_force(value, id, k, x->in.prefix[x->beam.len]);
    if (!leads(x)) value[0] = r->log_prob[id[0]];
}

/* Draws for the samples of live hypothesis h: all of them from the first free row, later one
 * each. */
static void draw(struct ranker *r, const struct rank_rules *rules, const struct sentence *x, int h,
                 float *value, int32_t *id) {
    const struct beam *b = &x->beam;
    int first = b->open ? h : 0, last = b->open ? h + 1 : rules->beam.width;
    for (int i = first; i < last; i++) {
        double u =
            sample_uniform(rules->options.seed, x->in.key, b->open ? b->sample[i] : i, b->len);
        id[i] = sample_token(r->log_prob, r->n_vocab, &rules->sampling, u, r->weights, r->order);
        value[i] = id[i] < 0 ? 0 : r->log_prob[id[i]];
    }
}

/* ---- terms ----------------------------------------------------------------------------------- */

/* The candidates of a sentence with terms, as they are gathered. */
struct picking {
    struct ranker *r;
    const struct rank_rules *rules;
    const struct sentence *x;
    int all;                /* pieces of all terms: the bank of those who have them */
    int most;               /* pieces that it may have before another term begins */
    struct terms_view view; /* what the hypothesis at hand has */
    int first, n;           /* its first pick, and how many there are */
};

/* Best first. */
static int better(const void *a, const void *b) {
    const struct beam_pick *x = a, *y = b;
    if (x->log_prob != y->log_prob) return x->log_prob > y->log_prob ? -1 : 1;
    if (x->hyp != y->hyp) return x->hyp < y->hyp ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Where terms have more pieces than there are banks to keep, only the fullest are kept, and nobody
 * may hurry: they come as fast as the source goes by, give or take half of the banks. */
static int most_pieces(const struct picking *p) {
    const struct beam *b = &p->x->beam;
    int width = p->rules->beam.width, pace = max_int(min_int(p->x->in.n_src, b->max_len / 2), 1);
    if (p->all < width) return p->all;
    return (int)min_i64(width / 2 + (int64_t)p->all * (b->len + 1) / pace, p->all);
}

/* One more token for live hypothesis h, which has been read, unless that is among the picks. */
static void add_pick(struct picking *p, struct terms_read read, int h, int32_t id, float value) {
    struct ranker *r = p->r;
    int len = p->x->beam.len, lead = p->x->in.n_lead;
    for (int i = p->first; i < p->n; i++)
        if (r->pick[i].it.id == id) return;
    if (value == -INFINITY) return;
    double log_prob = longer(p->x, h, value);
    r->written[len] = id;
    struct terms_view v =
        terms_view(p->x->in.terms, &read, r->written + lead, len - lead + (id != r->marks.eos));
    int last = len + 1 == p->x->beam.max_len, bank = v.weight + (last ? 0 : v.begun);
    if (bank > p->most && bank > p->view.weight && !p->view.begun) return; /* not yet */
    r->pick[p->n++] = (struct rank_pick){{log_prob, h, id, value}, bank, 0};
}

/* The candidates of live hypothesis h: its best tokens, and those that its terms want, which
 * nothing forbids. The end mark is forbidden until all terms are there. */
static void pick_from(struct picking *p, int h, const struct candidates *got) {
    struct ranker *r = p->r;
    const struct terms *terms = p->x->in.terms;
    int32_t id[TERMS_NEXT];
    float value[TERMS_NEXT];
    struct terms_read read = {0};
    const int32_t *written = r->written + p->x->in.n_lead;
    int n_written = p->x->beam.len - p->x->in.n_lead, k = p->rules->k;
    p->view = terms_view(terms, &read, written, n_written);
    int n_next = terms_next(terms, &p->view, written, n_written, id);
    for (int i = 0; i < n_next; i++) value[i] = r->log_prob[id[i]];
    forbid(r, p->rules, p->x);
    if (p->view.n_met < terms->n) r->log_prob[r->marks.eos] = -INFINITY;
    size_t at = (size_t)(p->x->row + h) * (size_t)got->k;
    logprob_best(got->value + at, got->id + at, k, r->log_prob, r->n_vocab);
    p->first = p->n;
    for (int i = 0; i < k; i++) add_pick(p, read, h, got->id[at + i], got->value[at + i]);
    for (int i = 0; i < n_next; i++) add_pick(p, read, h, id[i], value[i]);
}

/* Takes the best that is left of a bank and does not end; 0 if there is none. */
static int take_from(const struct picking *p, int bank) {
    for (int i = 0; i < p->n; i++) {
        struct rank_pick *pick = &p->r->pick[i];
        if (!pick->taken && pick->bank == bank && pick->it.id != p->r->marks.eos)
            return pick->taken = 1;
    }
    return 0;
}

/* Chooses among the picks, best first. Of the best `width` with all terms those that end; and as
 * many as the beam is wide that go on, one of each bank after the other, the fullest first. The
 * last token goes to those that have most; they are cut off, so not in place of what has ended. */
static void choose(const struct picking *p) {
    const struct beam *b = &p->x->beam;
    int fullest = 0, rank = 0, width = p->rules->beam.width, last = b->len + 1 == b->max_len;
    for (int i = 0; i < p->n; i++) {
        struct rank_pick *pick = &p->r->pick[i];
        fullest = max_int(fullest, pick->bank);
        if (pick->bank == p->all && rank++ < width) pick->taken = pick->it.id == p->r->marks.eos;
    }
    if (last && fullest < p->all && b->n_end) return;
    for (int left = width, before = 0; left > 0 && left != before;) {
        before = left;
        for (int bank = fullest; bank >= (last ? fullest : 0) && left > 0; bank--)
            left -= take_from(p, bank);
    }
}

static int rank_terms(struct ranker *r, const struct rank_rules *rules, struct sentence *x,
                      const struct mat *logits, const struct candidates *got, struct err *err) {
    struct beam *b = &x->beam;
    struct picking p = {.r = r, .rules = rules, .x = x, .all = terms_weight(x->in.terms)};
    struct beam_pick chosen[2 * SEARCH_MAX_BEAM];
    int n_chosen = 0;
    p.most = most_pieces(&p);
    for (int h = 0; h < b->n_live; h++) {
        beam_trace(r->written, NULL, b, &rules->beam, h, b->len);
        int rc = mix(r, rules, x, h, logits, err);
        if (rc) return rc;
        pick_from(&p, h, got);
    }
    qsort(r->pick, (size_t)p.n, sizeof *r->pick, better);
    choose(&p);
    for (int i = 0; i < p.n; i++)
        if (r->pick[i].taken) chosen[n_chosen++] = r->pick[i].it;
    beam_take(b, &rules->beam, chosen, n_chosen);
    return 0;
}

/* ---- the full way ---------------------------------------------------------------------------- */

/* The full way, for one sentence. */
static int rank_full(struct ranker *r, const struct rank_rules *rules, struct sentence *x,
                     const struct mat *logits, const struct candidates *got, struct err *err) {
    struct beam *b = &x->beam;
    size_t first = (size_t)x->row * (size_t)got->k;
    float drawn_value[SEARCH_MAX_BEAM];
    int32_t drawn_id[SEARCH_MAX_BEAM];
    int sampling = rules->options.sample && !forced(x);
    if (x->in.terms && !forced(x)) return rank_terms(r, rules, x, logits, got, err);
    for (int h = 0; h < b->n_live; h++) {
        float *value = got->value + first + (size_t)h * (size_t)got->k;
        int32_t *id = got->id + first + (size_t)h * (size_t)got->k;
        beam_trace(r->written, NULL, b, &rules->beam, h, b->len);
        int rc = mix(r, rules, x, h, logits, err);
        if (rc) return rc;
        if (!forced(x)) forbid(r, rules, x);
        if (forced(x))
            force(r, x, value, id, got->k);
        else if (sampling)
            draw(r, rules, x, h, drawn_value, drawn_id);
        else
            logprob_best(value, id, got->k, r->log_prob, r->n_vocab);
    }
    if (sampling)
        beam_draw(b, &rules->beam, drawn_value, drawn_id);
    else
        beam_advance(b, &rules->beam, got->value + first, got->id + first, got->k);
    return 0;
}

/* ---- trees ----------------------------------------------------------------------------------- */

/* The candidates of the live hypotheses of a sentence, [n_live, k]. */
struct shortlist {
    float *value;
    int32_t *id;
    int k;
    double bound[SEARCH_MAX_BEAM]; /* what a hypothesis lacks is no better; -INFINITY: nothing */
};

/* Keeps what may follow of the k candidates of hypothesis h, of which n were asked for. */
static void keep_allowed(const struct ranker *r, const struct sentence *x, struct shortlist *s,
                         int h, int n) {
    const struct brackets *b = r->marks.brackets;
    struct brackets_view view = view_of(r, x);
    float *value = s->value + (size_t)h * (size_t)s->k, last = value[n - 1];
    int32_t *id = s->id + (size_t)h * (size_t)s->k;
    int kept = 0;
    for (int i = 0; i < n; i++) {
        if (id[i] < 0 || !brackets_allow(b, &view, id[i], r->marks.eos)) continue;
        value[kept] = value[i];
        id[kept++] = id[i];
    }
    for (int i = kept; i < s->k; i++) value[i] = -INFINITY, id[i] = -1;
    s->bound[h] = kept < brackets_choices(b, &view) ? longer(x, h, last) : -INFINITY;
}

/* Are there as many better candidates that go on as the beam is wide? */
static int beaten(const struct ranker *r, const struct rank_rules *rules, const struct sentence *x,
                  const struct shortlist *s, double bound) {
    int n = 0;
    for (int h = 0; h < x->beam.n_live; h++)
        for (int i = 0; i < s->k; i++) {
            size_t at = (size_t)h * (size_t)s->k + (size_t)i;
            if (!(longer(x, h, s->value[at]) > bound)) break;
            n += s->id[at] != r->marks.eos;
        }
    return n >= rules->beam.width;
}

static int rank_tree(struct ranker *r, const struct rank_rules *rules, struct sentence *x,
                     const struct mat *logits, const struct candidates *got, struct err *err) {
    struct beam *b = &x->beam;
    size_t first = (size_t)x->row * (size_t)got->k;
    struct shortlist s = {.value = got->value + first, .id = got->id + first, .k = got->k};
    for (int h = 0; h < b->n_live; h++) {
        for (int i = 0; i < rules->k; i++)
            if (isnan(s.value[(size_t)h * (size_t)s.k + (size_t)i])) return rank_no_number(x, err);
        beam_trace(r->written, NULL, b, &rules->beam, h, b->len);
        keep_allowed(r, x, &s, h, rules->k);
    }
    for (int h = 0; h < b->n_live; h++) {
        if (s.bound[h] == -INFINITY || beaten(r, rules, x, &s, s.bound[h])) continue;
        beam_trace(r->written, NULL, b, &rules->beam, h, b->len);
        int rc = mix(r, rules, x, h, logits, err);
        if (rc) return rc;
        forbid(r, rules, x);
        logprob_best(s.value + (size_t)h * (size_t)s.k, s.id + (size_t)h * (size_t)s.k, s.k,
                     r->log_prob, r->n_vocab);
    }
    beam_advance(b, &rules->beam, s.value, s.id, s.k);
    return 0;
}

/* ---- the fast way ---------------------------------------------------------------------------- */

/* The fast way, for one sentence. */
static int rank_fast(const struct ranker *r, const struct rank_rules *rules, struct sentence *x,
                     const struct candidates *got, struct err *err) {
    size_t first = (size_t)x->row * (size_t)got->k;
    for (int h = 0; h < x->beam.n_live; h++) {
        size_t at = first + (size_t)h * (size_t)got->k;
        if (beam_strike(got->value + at, got->id + at, got->k, &rules->beam,
                        end_forbidden(rules, x)))
            return rank_no_number(x, err);
        if (leads(x)) force(r, x, got->value + at, got->id + at, got->k);
    }
    beam_advance(&x->beam, &rules->beam, got->value + first, got->id + first, got->k);
    return 0;
}

int rank_next(struct ranker *r, const struct rank_rules *rules, struct sentence *x,
              const struct mat *logits, const struct candidates *got, struct err *err) {
    if (full_way(rules, x)) return rank_full(r, rules, x, logits, got, err);
    if (rules->options.trees && !leads(x)) return rank_tree(r, rules, x, logits, got, err);
    return rank_fast(r, rules, x, got, err);
}

/* ---- results --------------------------------------------------------------------------------- */

struct hypothesis rank_report(const struct rank_rules *rules, const struct sentence *x, int rank,
                              int32_t *id, float *log_prob) {
    const struct beam *b = &x->beam;
    const struct beam_end *e = &b->end[rank];
    int lead = x->in.n_lead;
    beam_trace(id, log_prob, b, &rules->beam, e->hyp, e->n);
    if (e->token >= 0) {
        id[e->n] = e->token;
        log_prob[e->n] = e->last;
    }
    return (struct hypothesis){.ids = id + lead,
                               .n = max_int(e->n + (e->cut && e->token >= 0) - lead, 0),
                               .log_prob = (float)e->log_prob,
                               .score = (float)e->score,
                               .token_log_prob = log_prob + lead,
                               .cut = e->cut};
}
