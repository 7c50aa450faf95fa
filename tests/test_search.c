/* test_search.c — searching with real (random) models, judged by searches that share no code with
 * it: exhaustive enumeration on toy vocabularies, and a naive beam search that sends every prefix
 * through the whole model again at every step and never stops early. */
#include "model/transformer.h"
#include "rig.h"
#include "search/sample.h"
#include "test.h"

enum { MAX_V = 33, MAX_N = 48, MAX_HYP = 64 };

/* ---- naive ----------------------------------------------------------------------------------- */

struct naive {
    int32_t id[MAX_N];
    int n, cut, lead;
    double p, score;
};

struct naive_list {
    struct naive hyp[MAX_HYP * MAX_V];
    int n;
};

static double penalty(const struct search_options *o, int len) {
    return pow(o->length_rule == LENGTH_POWER ? len : (5.0 + len) / 6.0, (double)o->alpha);
}

static void log_softmax(double *out, const float *z, int n) {
    double max = -INFINITY, sum = 0;
    for (int v = 0; v < n; v++) max = fmax(max, (double)z[v]);
    for (int v = 0; v < n; v++) sum += exp((double)z[v] - max);
    for (int v = 0; v < n; v++) out[v] = (double)z[v] - max - log(sum);
}

/* Divides or multiplies the logits of tokens in the hypothesis, each once. */
static void naive_penalise(float *z, const struct naive *h, float r, int n_vocab) {
    for (int v = 0; v < n_vocab; v++) {
        int found = 0;
        for (int i = 0; i < h->n; i++) found |= h->id[i] == v;
        if (found) z[v] = z[v] > 0 ? z[v] / r : z[v] * r;
    }
}

static int repeats(const struct naive *h, int32_t next, int size) {
    int32_t id[MAX_N + 1];
    memcpy(id, h->id, sizeof h->id);
    id[h->n] = next;
    for (int i = 0; i + size <= h->n; i++)
        if (memcmp(id + i, id + h->n + 1 - size, (size_t)size * sizeof *id) == 0) return 1;
    return 0;
}

/* log P(next token) [n, V] of n hypotheses of equal length, by the whole model over the whole
 * prefix. */
static void naive_next(double *out, struct rig *rig, const struct search_input *in,
                       const struct naive *h, int n, const struct search_options *o) {
    struct err err;
    int v_n = rig->n_vocab, rows = h->n + 1;
    float weight = rig->weight[0] + rig->weight[1];
    for (int i = 0; i < n * v_n; i++) out[i] = 0;
    for (int m = 0; m < rig->n_model; m++) {
        struct batch batch;
        check_ok(batch_init(&batch, n * in->n_src, n * rows, n, rig->marks.bos, &err), &err);
        for (int i = 0; i < n; i++) {
            int32_t tgt[MAX_N + 1];
            memcpy(tgt, h[i].id, sizeof h[i].id);
            tgt[rows - 1] = EOS; /* never an input */
            assert_int_equal(batch_add(&batch, in->src, in->n_src, tgt, rows, &err), 1);
        }
        float *z = toy_logits(&rig->toy[m], &batch);
        for (int i = 0; i < n; i++) {
            float *row = z + (size_t)((i + 1) * rows - 1) * (size_t)v_n;
            double lp[MAX_V];
            if (o->repetition != 1) naive_penalise(row, &h[i], o->repetition, v_n);
            log_softmax(lp, row, v_n);
            double w = rig->n_model == 1 ? 1 : (double)(rig->weight[m] / weight);
            for (int v = 0; v < v_n; v++) out[i * v_n + v] += w * exp(lp[v]);
        }
        xfree(z);
        batch_release(&batch);
    }
    for (int i = 0; i < n * v_n; i++) out[i] = log(out[i]);
}

static int naive_allowed(const struct rig *rig, const struct search_options *o,
                         const struct search_input *in, const struct naive *h, int32_t v) {
    if (h->n < in->n_prefix) return v == in->prefix[h->n];
    if (v == EOS && h->n - in->n_lead < (o->force_len ? o->force_len : o->min_len)) return 0;
    if (v == UNK && o->ban_unk) return 0;
    for (int i = 0; i < rig->marks.n_banned; i++)
        if (v == rig->marks.banned[i]) return 0;
    return !(o->no_repeat && repeats(h, v, o->no_repeat));
}

static int naive_longest(const struct search_options *o, const struct search_input *in) {
    if (o->force_len) return o->force_len;
    int n = in->n_src + o->max_extra;
    if (n > 40) n = 40;
    return o->max_len && n > o->max_len ? o->max_len : n;
}

static struct naive extended(const struct naive *h, int32_t v, double p,
                             const struct search_options *o) {
    struct naive x = *h;
    x.p += p;
    x.score = x.p / penalty(o, h->n + 1);
    x.cut = v != EOS;
    if (v != EOS) x.id[x.n++] = v;
    return x;
}

/* Stable, best first. */
static void insert(struct naive_list *list, const struct naive *h, double key,
                   double (*of)(const struct naive *)) {
    int at = list->n++;
    assert_true(list->n <= MAX_HYP * MAX_V);
    for (; at > 0 && of(&list->hyp[at - 1]) < key; at--) list->hyp[at] = list->hyp[at - 1];
    list->hyp[at] = *h;
}
static double of_p(const struct naive *h) { return h->p; }
static double of_score(const struct naive *h) { return h->score; }

/* Beam search to the longest length. The caller frees the list. */
static struct naive_list *naive_search(struct rig *rig, const struct search_input *in,
                                       const struct search_options *o) {
    struct naive_list *done = xcalloc(1, sizeof *done), *all = xcalloc(1, sizeof *all);
    struct naive live[MAX_HYP] = {{.n = 0}};
    double *lp = xcalloc((size_t)MAX_HYP * MAX_V, sizeof *lp);
    int n_live = 1, longest = naive_longest(o, in);
    for (int t = 0; t < longest && n_live > 0; t++) {
        naive_next(lp, rig, in, live, n_live, o);
        all->n = 0;
        for (int h = 0; h < n_live; h++)
            for (int32_t v = 0; v < rig->n_vocab; v++) {
                if (!naive_allowed(rig, o, in, &live[h], v)) continue;
                struct naive x =
                    extended(&live[h], v, live[h].n < in->n_lead ? 0 : lp[h * rig->n_vocab + v], o);
                insert(all, &x, x.p, of_p);
            }
        n_live = 0;
        for (int i = 0; i < all->n; i++) {
            const struct naive *x = &all->hyp[i];
            int ends = !x->cut || t + 1 == longest;
            if (ends && i < o->beam) insert(done, x, x->score, of_score);
            if (!ends && n_live < o->beam) live[n_live++] = *x;
        }
        if (o->beam == 1 && done->n) break;
    }
    for (int i = 0; i < done->n && in->n_lead; i++) { /* what leads is no part of the result */
        struct naive *x = &done->hyp[i];
        memmove(x->id, x->id + 1, (size_t)--x->n * sizeof *x->id);
        x->lead = 1;
    }
    xfree(lp);
    xfree(all);
    return done;
}

static void check_hypothesis(const struct hypothesis *got, const struct naive *want,
                             const struct search_options *o, double tol) {
    int n_value = got->n + !got->cut;
    double sum = 0;
    assert_int_equal(got->n, want->n);
    assert_memory_equal(got->ids, want->id, (size_t)want->n * sizeof *want->id);
    assert_int_equal(got->cut, want->cut);
    ASSERT_NEAR(got->log_prob, want->p, tol);
    ASSERT_NEAR(got->score, want->score, tol);
    for (int i = 0; i < n_value; i++) sum += (double)got->token_log_prob[i];
    ASSERT_NEAR(sum, got->log_prob, 1e-5 * (1 + fabs(sum)));
    ASSERT_NEAR(got->score, (double)got->log_prob / penalty(o, n_value + want->lead),
                1e-5 * (1 + fabs(sum)));
}

static void check_result(const struct search_result *got, const struct naive_list *want,
                         const struct search_options *o, double tol) {
    assert_int_equal(got->n, want->n < o->n_best ? want->n : o->n_best);
    for (int i = 0; i < got->n; i++) {
        check_hypothesis(&got->best[i], &want->hyp[i], o, tol);
        if (i) assert_true(got->best[i - 1].score >= got->best[i].score);
        for (int j = 0; j < i; j++)
            assert_true(got->best[i].n != got->best[j].n || got->best[i].cut != got->best[j].cut ||
                        memcmp(got->best[i].ids, got->best[j].ids, (size_t)got->best[i].n * 4) !=
                            0);
    }
}

/* ---- exhaustive ------------------------------------------------------------------------------ */

static void enumerate(struct naive_list *all, struct rig *rig, const struct search_input *in,
                      const struct naive *h, const struct search_options *o) {
    double lp[MAX_V];
    naive_next(lp, rig, in, h, 1, o);
    for (int32_t v = 0; v < rig->n_vocab; v++) {
        if (v == EOS && h->n < o->min_len) continue;
        struct naive x = extended(h, v, lp[v], o);
        if (v == EOS || x.n == o->max_len)
            insert(all, &x, x.score, of_score);
        else
            enumerate(all, rig, in, &x, o);
    }
}

static void check_exhaustive(const char *how, const int *shape, float alpha, int min_len,
                             uint64_t seed) {
    int n_vocab = shape[0], max_len = shape[1];
    struct rig rig;
    struct err err = {0};
    struct search_result got[2];
    struct search_options o = search_defaults();
    o.beam = 64;
    o.n_best = 12;
    o.alpha = alpha;
    o.min_len = min_len;
    o.max_len = max_len;
    rig_open_as(&rig, n_vocab, how, 1, seed);
    struct search_input *in = rig_inputs(2, 5, n_vocab, seed);
    struct searcher *s = rig_searcher(&rig, &o, 2, 20, 10);
    struct naive_list *all = xcalloc(1, sizeof *all);
    ASSERT_OK(searcher_run(s, in, 2, got, NULL, &err), err);
    for (int i = 0; i < 2; i++) {
        all->n = 0;
        enumerate(all, &rig, &in[i], &(struct naive){.n = 0}, &o);
        check_result(&got[i], all, &o, 1e-4);
    }
    searcher_free(s);
    xfree(all);
    xfree(in);
    rig_close(&rig);
}

/* No step has more than 64 candidates before the last one, and the last one's are of one length: a
 * beam of 64 sees every hypothesis there is. */
TEST(beam_of_all_is_exhaustive) {
    static const int shape[][2] = {{3, 6}, {4, 4}, {5, 3}}; /* vocabulary, longest */
    static const float alpha[] = {0, 0.6f, 1, -1, 2.5f};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t a = 0; a < sizeof alpha / sizeof *alpha; a++)
            for (int min_len = 0; min_len < 3; min_len += 2)
                check_exhaustive(TEST_ARG, shape[i], alpha[a], min_len, 7 * i + a);
}

/* ---- re-decoding ----------------------------------------------------------------------------- */

/* Searches `n` sentences at once and each of them naively. */
static void check_naive(struct rig *rig, const struct search_input *in, int n,
                        const struct search_options *o, double tol) {
    struct err err = {0};
    struct search_result got[16];
    struct searcher *s = rig_searcher(rig, o, n, 300, 20);
    ASSERT_OK(searcher_run(s, in, n, got, NULL, &err), err);
    for (int i = 0; i < n; i++) {
        struct naive_list *want = naive_search(rig, &in[i], o);
        check_result(&got[i], want, o, tol);
        xfree(want);
    }
    searcher_free(s);
}

static struct search_options beam_of(int beam, int n_best) {
    struct search_options o = search_defaults();
    o.beam = beam;
    o.n_best = n_best;
    o.max_extra = 8;
    return o;
}

enum { N_IN = 6 };

TEST(cached_is_redecoded) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 3);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        rig_open_as(&rig, 14, TEST_ARG, 2, seed);
        struct search_options o = beam_of(1, 1);
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o = beam_of(4, 4);
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.alpha = seed == 1 ? -0.7f : seed == 2 ? 0 : 1.5f;
        o.beam = 7;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        rig_close(&rig);
    }
    xfree(in);
}

/* The first token is no token: the zero vector in the place of its embedding. */
TEST(from_zero) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 3);
    struct search_options o = beam_of(4, 4);
    rig_open_as(&rig, 14, TEST_ARG, 2, 1);
    rig.marks.bos = -1;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o.no_repeat = 2; /* rules that look at what was written */
    o.repetition = 1.3f;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    xfree(in);
    rig_close(&rig);
}

TEST(reference_backend) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 3);
    rig_open(&rig, 1, 14, DTYPE_F64, 1, 2);
    struct search_options o = beam_of(4, 2);
    check_naive(&rig, in, N_IN, &o, 1e-5);
    o.no_repeat = 3; /* logits of double precision on the host */
    check_naive(&rig, in, N_IN, &o, 1e-5);
    xfree(in);
    rig_close(&rig);
}

TEST(lengths_and_bans) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 4);
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 8);
    struct search_options o = beam_of(4, 3);
    o.min_len = 5;
    o.ban_unk = 1;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o.max_len = 5; /* the end mark never comes */
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o = beam_of(3, 3);
    o.max_len = 1;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o = beam_of(4, 2);
    o.force_len = 17;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o = beam_of(14, 5); /* as wide as the vocabulary */
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o = beam_of(30, 5);
    check_naive(&rig, in, N_IN, &o, 1e-4);
    xfree(in);
    rig_close(&rig);
}

/* Few words, two of them forbidden: whether every row brings enough candidates decides the
 * result. */
TEST(forbidden_marks_leave_enough) {
    struct search_input *in = rig_inputs(N_IN, 12, 7, 4);
    for (uint64_t seed = 0; seed < 8; seed++) {
        struct rig rig;
        rig_open(&rig, 1, 7, DTYPE_F32, 1, seed);
        struct search_options o = beam_of(4, 4);
        o.min_len = 3;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.ban_unk = 1;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.no_repeat = 4; /* the full way */
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.no_repeat = 0;
        o.min_len = o.max_len = 1; /* every candidate of the first step is a result */
        check_naive(&rig, in, N_IN, &o, 1e-4);
        rig_close(&rig);
    }
    xfree(in);
}

TEST(repetition_guards) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 5);
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 9);
    for (int size = 1; size <= 3; size++) {
        struct search_options o = beam_of(4, 2);
        o.min_len = 12;
        o.no_repeat = size;
        check_naive(&rig, in, N_IN, &o, 1e-4);
    }
    struct search_options o = beam_of(4, 2);
    o.repetition = 1.4f;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o.no_repeat = 2;
    o.ban_unk = 1;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    xfree(in);
    rig_close(&rig);
}

static int any_repeat(const struct hypothesis *h, int size) {
    for (int i = 0; i + size <= h->n; i++)
        for (int j = i + 1; j + size <= h->n; j++)
            if (memcmp(h->ids + i, h->ids + j, (size_t)size * sizeof *h->ids) == 0) return 1;
    return 0;
}

/* Sentences that have any n-gram of this size twice, guarded or not. */
static int count_repeats(struct rig *rig, const struct search_input *in, int size, int guarded) {
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_options o = beam_of(4, 1);
    int n = 0;
    o.force_len = 12;
    o.no_repeat = guarded ? size : 0;
    struct searcher *s = rig_searcher(rig, &o, N_IN, 300, 20);
    ASSERT_OK(searcher_run(s, in, N_IN, got, NULL, &err), err);
    for (int i = 0; i < N_IN; i++) n += any_repeat(got[i].best, size);
    searcher_free(s);
    return n;
}

TEST(no_ngram_twice) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 5);
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 9);
    for (int size = 1; size <= 3; size++) {
        assert_int_equal(count_repeats(&rig, in, size, 1), 0);
        assert_true(count_repeats(&rig, in, size, 0) > 0);
    }
    xfree(in);
    rig_close(&rig);
}

/* With every token used up and the end mark forbidden a hypothesis ends where it is. */
TEST(dead_ends_are_cut) {
    struct rig rig;
    struct err err = {0};
    struct search_result got;
    struct search_input *in = rig_inputs(1, 12, 4, 5);
    struct search_options o = beam_of(2, 2);
    o.no_repeat = 1;
    o.force_len = 12;
    rig_open(&rig, 1, 4, DTYPE_F32, 1, 9);
    for (int sample = 0; sample < 2; sample++) {
        o.sample = sample;
        struct searcher *s = rig_searcher(&rig, &o, 1, 20, 20);
        ASSERT_OK(searcher_run(s, in, 1, &got, NULL, &err), err);
        assert_int_equal(got.n, 2);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(got.best[i].n, 3); /* all but the end mark */
            assert_true(got.best[i].cut && !any_repeat(&got.best[i], 1));
        }
        searcher_free(s);
    }
    xfree(in);
    rig_close(&rig);
}

TEST(prefixes_are_forced) {
    static const int32_t prefix[] = {UNK, 5, 5, 5, 13, 0};
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 6);
    for (int i = 0; i < N_IN; i++) { /* the first has none */
        in[i].prefix = prefix;
        in[i].n_prefix = i;
    }
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 10);
    struct search_options o = beam_of(4, 4);
    check_naive(&rig, in, N_IN, &o, 1e-4);
    o.ban_unk = 1; /* a prefix is never forbidden */
    o.no_repeat = 1;
    o.min_len = 9;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    in[1].n_prefix = 6; /* nothing but the prefix */
    o.max_len = 6;
    o.min_len = 0;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    xfree(in);
    rig_close(&rig);
}

/* A first token that names a language: neither scored nor part of what is found. */
TEST(leads_are_forced) {
    static const int32_t prefix[] = {9, 5, UNK, 9};
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 6);
    for (int i = 0; i < N_IN; i++) { /* the first has none, the third begins with more */
        in[i].prefix = prefix;
        in[i].n_prefix = i == 2 ? 4 : i > 0;
        in[i].n_lead = i > 0;
    }
    for (int n_model = 1; n_model <= 2; n_model++) {
        rig_open(&rig, n_model, 14, DTYPE_F32, 1, 10);
        struct search_options o = beam_of(4, 4);
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.min_len = 4;
        o.ban_unk = 1;
        o.length_rule = LENGTH_POWER;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.no_repeat = 2; /* the full way */
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o = beam_of(1, 1);
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.force_len = 9;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        rig_close(&rig);
    }
    xfree(in);
}

TEST(banned_is_never_written) {
    struct search_input *in = rig_inputs(N_IN, 12, 24, 4);
    for (int n = 1; n <= SEARCH_MAX_BANNED; n += 5) {
        struct rig rig;
        rig_open(&rig, 1, 24, DTYPE_F32, 1, (uint64_t)n);
        for (rig.marks.n_banned = 0; rig.marks.n_banned < n; rig.marks.n_banned++)
            rig.marks.banned[rig.marks.n_banned] = 23 - rig.marks.n_banned;
        struct search_options o = beam_of(4, 4);
        o.min_len = 3;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.ban_unk = 1;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        o.no_repeat = 3; /* the full way */
        check_naive(&rig, in, N_IN, &o, 1e-4);
        rig_close(&rig);
    }
    xfree(in);
}

TEST(power_of_length) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 3);
    for (uint64_t seed = 1; seed <= 4; seed++) {
        rig_open(&rig, 1, 14, DTYPE_F32, 2, seed);
        struct search_options o = beam_of(seed == 3 ? 1 : 5, 1);
        o.length_rule = LENGTH_POWER;
        o.alpha = seed == 1 ? -0.7f : seed == 2 ? 0.2f : 1;
        check_naive(&rig, in, N_IN, &o, 1e-4);
        rig_close(&rig);
    }
    xfree(in);
}

/* ---- ensembles ------------------------------------------------------------------------------- */

/* A model and itself decide as it does alone. Alone goes the fast way, the pair the full one. */
TEST(twins_are_one) {
    struct rig rig;
    struct err err = {0};
    struct search_result one[N_IN], two[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 7);
    struct search_options o = beam_of(4, 4);
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        rig_open(&rig, 1, 14, (enum dtype)type, 1, 11);
        struct searcher *a = rig_searcher(&rig, &o, N_IN, 100, 20);
        rig.model[1] = rig.model[0];
        rig.n_model = 2;
        struct searcher *b = rig_searcher(&rig, &o, N_IN, 100, 20);
        ASSERT_OK(searcher_run(a, in, N_IN, one, NULL, &err), err);
        ASSERT_OK(searcher_run(b, in, N_IN, two, NULL, &err), err);
        for (int i = 0; i < N_IN; i++) {
            assert_int_equal(one[i].n, two[i].n);
            for (int k = 0; k < one[i].n; k++) {
                const struct hypothesis *x = &one[i].best[k], *y = &two[i].best[k];
                assert_int_equal(x->n, y->n);
                assert_memory_equal(x->ids, y->ids, (size_t)x->n * sizeof *x->ids);
                ASSERT_NEAR(x->log_prob, y->log_prob, 2e-5);
            }
        }
        searcher_free(a);
        searcher_free(b);
        rig.n_model = 1;
        rig_close(&rig);
    }
    xfree(in);
}

TEST(two_models_are_their_mean) {
    struct rig rig;
    struct search_input *in = rig_inputs(N_IN, 12, 14, 8);
    rig_open(&rig, 2, 14, DTYPE_F32, 1, 12);
    struct search_options o = beam_of(4, 3);
    check_naive(&rig, in, N_IN, &o, 1e-4);
    rig.weight[0] = 0.6f;
    rig.weight[1] = 1.8f;
    o.no_repeat = 2;
    o.repetition = 1.2f;
    check_naive(&rig, in, N_IN, &o, 1e-4);
    xfree(in);
    rig_close(&rig);
}

/* ---- sampling -------------------------------------------------------------------------------- */

static struct search_options samples_of(int n) {
    struct search_options o = search_defaults();
    o.sample = 1;
    o.n_best = n;
    o.max_extra = 8;
    return o;
}

TEST(best_of_one_is_greedy) {
    struct rig rig;
    struct err err = {0};
    struct search_result greedy[N_IN], drawn[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 9);
    struct search_options beam = beam_of(1, 1), sample = samples_of(3);
    sample.top_k = 1;
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 13);
    struct searcher *a = rig_searcher(&rig, &beam, N_IN, 100, 20);
    struct searcher *b = rig_searcher(&rig, &sample, N_IN, 100, 20);
    ASSERT_OK(searcher_run(a, in, N_IN, greedy, NULL, &err), err);
    ASSERT_OK(searcher_run(b, in, N_IN, drawn, NULL, &err), err);
    for (int i = 0; i < N_IN; i++) {
        assert_int_equal(drawn[i].n, 3);
        for (int k = 0; k < 3; k++) {
            const struct hypothesis *x = greedy[i].best, *y = &drawn[i].best[k];
            assert_int_equal(x->n, y->n);
            assert_memory_equal(x->ids, y->ids, (size_t)x->n * sizeof *x->ids);
            ASSERT_NEAR(x->score, y->score, 2e-5);
        }
    }
    searcher_free(a);
    searcher_free(b);
    xfree(in);
    rig_close(&rig);
}

TEST(samples_are_repeatable) {
    struct rig rig;
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 9);
    struct search_options o = samples_of(4);
    uint64_t print[3][N_IN];
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 13);
    for (int run = 0; run < 3; run++) {
        o.seed = run == 2 ? 99 : 5;
        struct searcher *s = rig_searcher(&rig, &o, N_IN, 100, 20);
        ASSERT_OK(searcher_run(s, in, N_IN, got, NULL, &err), err);
        for (int i = 0; i < N_IN; i++) print[run][i] = rig_fingerprint(&got[i]);
        if (run == 0) { /* the four of a sentence are not all the same */
            const struct hypothesis *h = got[0].best;
            int same = 0;
            for (int k = 1; k < 4; k++)
                same += h[k].n == h[0].n && memcmp(h[k].ids, h[0].ids, (size_t)h[0].n * 4) == 0;
            assert_true(same < 3);
        }
        searcher_free(s);
    }
    assert_memory_equal(print[0], print[1], sizeof print[0]);
    for (int i = 0; i < N_IN; i++) assert_true(print[0][i] != print[2][i]);
    xfree(in);
    rig_close(&rig);
}

/* Sample `which` of a sentence, drawn by itself, the whole model over the whole prefix for every
 * token. */
static struct naive naive_sample(struct rig *rig, const struct search_input *in,
                                 const struct search_options *o, int which) {
    struct naive h = {.cut = 1};
    const struct sample_rule rule = {o->temperature, o->top_k, o->top_p};
    for (int t = 0; h.cut && t < naive_longest(o, in); t++) {
        double lp[MAX_V], u = sample_uniform(o->seed, in->key, which, t);
        float row[MAX_V], weight[MAX_V];
        int32_t order[MAX_V];
        naive_next(lp, rig, in, &h, 1, o);
        for (int v = 0; v < rig->n_vocab; v++) row[v] = (float)lp[v];
        int32_t v = sample_token(row, rig->n_vocab, &rule, u, weight, order);
        h = extended(&h, v, lp[v], o);
    }
    return h;
}

/* A sample does not know the others, although they end before it and leave the batch. */
TEST(samples_are_independent) {
    enum { N = 5 };
    struct rig rig;
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 6, 9);
    struct search_options o = samples_of(N);
    o.temperature = 1.3f;
    o.top_p = 0.95f;
    rig_open(&rig, 1, 6, DTYPE_F32, 1, 13);
    struct searcher *s = rig_searcher(&rig, &o, N_IN, 100, 20);
    ASSERT_OK(searcher_run(s, in, N_IN, got, NULL, &err), err);
    for (int i = 0; i < N_IN; i++) {
        struct naive_list *want = xcalloc(1, sizeof *want);
        for (int k = 0; k < N; k++) {
            struct naive h = naive_sample(&rig, &in[i], &o, k);
            insert(want, &h, h.score, of_score);
        }
        for (int k = 0; k < N; k++) check_hypothesis(&got[i].best[k], &want->hyp[k], &o, 1e-4);
        xfree(want);
    }
    searcher_free(s);
    xfree(in);
    rig_close(&rig);
}

/* 64 sentences, all the same but for their keys, of 64 samples of one token each: as often as the
 * model says. */
static void check_first_tokens(struct rig *rig, const struct search_options *o) {
    enum { N = 64, SAMPLES = 64 };
    struct err err = {0};
    struct search_input in[N], *first = rig_inputs(1, 12, 8, 10);
    struct search_result got[N];
    int count[8] = {0};
    double lp[8], sum = 0, chi = 0;
    struct search_options plain = search_defaults();
    struct searcher *s = rig_searcher(rig, o, N, 1000, 20);
    for (int i = 0; i < N; i++) {
        in[i] = *first;
        in[i].key = (uint64_t)i;
    }
    ASSERT_OK(searcher_run(s, in, N, got, NULL, &err), err);
    for (int i = 0; i < N; i++) {
        assert_int_equal(got[i].n, SAMPLES);
        for (int k = 0; k < SAMPLES; k++) count[got[i].best[k].n ? got[i].best[k].ids[0] : EOS]++;
    }
    naive_next(lp, rig, first, &(struct naive){.n = 0}, 1, &plain);
    for (int v = 0; v < 8; v++) sum += exp(lp[v] / (double)o->temperature);
    for (int v = 0; v < 8; v++) {
        double want = exp(lp[v] / (double)o->temperature) / sum * N * SAMPLES;
        chi += (count[v] - want) * (count[v] - want) / want;
    }
    if (chi > 24.32) fail_msg("chi-square %.2f with 7 degrees of freedom", chi);
    searcher_free(s);
    xfree(first);
}

TEST(samples_follow_the_model) {
    struct rig rig;
    struct search_options o = samples_of(64);
    o.max_len = 1;
    rig_open(&rig, 1, 8, DTYPE_F32, 1, 14);
    check_first_tokens(&rig, &o);
    o.temperature = 1.7f;
    check_first_tokens(&rig, &o);
    rig_close(&rig);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

enum { N_CROWD = 31, CROWD_LEN = 19 };

static void check_crowd(const struct rig *rig, const struct search_input *in,
                        const struct search_options *o, uint64_t *print) {
    struct err err = {0};
    struct search_result got[N_CROWD], one;
    struct searcher *all = rig_searcher(rig, o, N_CROWD, N_CROWD * (CROWD_LEN + 1), CROWD_LEN + 1);
    struct searcher *alone = rig_searcher(rig, o, 1, CROWD_LEN + 1, CROWD_LEN + 1);
    ASSERT_OK(searcher_run(all, in, N_CROWD, got, NULL, &err), err);
    for (int i = 0; i < N_CROWD; i++) {
        uint64_t in_crowd = rig_fingerprint(&got[i]);
        ASSERT_OK(searcher_run(alone, &in[i], 1, &one, NULL, &err), err);
        if (in_crowd != rig_fingerprint(&one)) fail_msg("sentence %d depends on its neighbours", i);
        if (print[i] && print[i] != in_crowd) fail_msg("sentence %d depends on threads", i);
        print[i] = in_crowd;
    }
    searcher_free(all);
    searcher_free(alone);
}

TEST(neighbours_do_not_matter) {
    static const int32_t prefix[] = {5, 9};
    struct search_input *in = rig_inputs(N_CROWD, CROWD_LEN, MAX_V, 15);
    uint64_t print[4][N_CROWD] = {{0}};
    for (int i = 0; i < N_CROWD; i += 7) {
        in[i].prefix = prefix;
        in[i].n_prefix = 2;
    }
    for (int n_thread = 1; n_thread <= 2; n_thread++) {
        struct rig rig;
        struct search_options o = beam_of(4, 2);
        rig_open_as(&rig, MAX_V, TEST_ARG, n_thread, 15);
        check_crowd(&rig, in, &o, print[0]);
        o.no_repeat = 2;
        check_crowd(&rig, in, &o, print[1]);
        o = samples_of(2);
        check_crowd(&rig, in, &o, print[2]);
        o = beam_of(1, 1);
        check_crowd(&rig, in, &o, print[3]);
        rig_close(&rig);
    }
    xfree(in);
}

/* ---- conduct --------------------------------------------------------------------------------- */

static void count_allocations(struct rig *rig, const struct search_options *o) {
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 16);
    struct searcher *s = rig_searcher(rig, o, N_IN, 100, 20);
    uint64_t before = mem_count();
    ASSERT_OK(searcher_run(s, in, N_IN, got, NULL, &err), err);
    ASSERT_OK(searcher_run(s, in, N_IN - 2, got, NULL, &err), err);
    assert_true(mem_count() == before);
    searcher_free(s);
    xfree(in);
}

TEST(nothing_is_allocated_while_running) {
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        struct rig rig;
        struct search_options o = beam_of(4, 4);
        rig_open(&rig, 2, 14, (enum dtype)type, 2, 16);
        count_allocations(&rig, &o);
        rig.n_model = 1;
        count_allocations(&rig, &o);
        o.no_repeat = 2;
        o.repetition = 1.3f;
        count_allocations(&rig, &o);
        o = samples_of(3);
        o.top_p = 0.9f;
        count_allocations(&rig, &o);
        rig.n_model = 2;
        rig_close(&rig);
    }
}

static int third_time(void *ctx) { return ++*(int *)ctx == 3; }

TEST(cancelled_and_used_again) {
    struct rig rig;
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 17);
    struct search_options o = beam_of(4, 1);
    int calls = 0;
    uint64_t print;
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 17);
    struct searcher *s = rig_searcher(&rig, &o, N_IN, 100, 20);
    ASSERT_OK(searcher_run(s, in, N_IN, got, NULL, &err), err);
    print = rig_fingerprint(&got[2]);
    ASSERT_ERR(searcher_run(s, in, N_IN, got, &(struct search_poll){third_time, &calls}, &err), err,
               HEED_ECANCELLED, "after 2 tokens");
    assert_int_equal(calls, 3);
    ASSERT_OK(searcher_run(s, in, N_IN, got, &(struct search_poll){third_time, &calls}, &err), err);
    assert_true(rig_fingerprint(&got[2]) == print);
    ASSERT_OK(searcher_run(s, in, 0, got, NULL, &err), err);
    searcher_free(s);
    xfree(in);
    rig_close(&rig);
}

TEST(impossible_input) {
    struct rig rig;
    struct err err = {0};
    struct search_result got[N_IN];
    struct search_input *in = rig_inputs(N_IN, 12, 14, 18), one = in[0];
    struct search_options o = beam_of(4, 1);
    int32_t bad = 14, negative = -1, end = EOS;
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 18);
    struct searcher *s = rig_searcher(&rig, &o, 3, 25, 14);
    ASSERT_ERR(searcher_run(s, in, 4, got, NULL, &err), err, HEED_ELIMIT, "4 sentences");
    ASSERT_ERR(searcher_run(s, in, -1, got, NULL, &err), err, HEED_ELIMIT, "-1 sentences");
    struct search_input same[3] = {in[0], in[0], in[0]};
    for (int i = 0; i < N_IN; i++)
        if (in[i].n_src >= 9) same[0] = same[1] = same[2] = in[i];
    assert_true(same[0].n_src >= 9);
    ASSERT_ERR(searcher_run(s, same, 3, got, NULL, &err), err, HEED_ELIMIT, "room for 25");
    one.n_src = 15;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_ELIMIT, "15 source");
    one.n_src = 0;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_ELIMIT, "0 source");
    one = (struct search_input){.src = &bad, .n_src = 1};
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_EINVAL, "token 14");
    one.src = &negative;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_EINVAL, "token -1");
    one = in[0];
    one.prefix = &bad;
    one.n_prefix = 1;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_EINVAL, "prefix token 14");
    one.prefix = &end;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_EINVAL, "end mark");
    one.n_prefix = 40;
    ASSERT_ERR(searcher_run(s, &one, 1, got, NULL, &err), err, HEED_ELIMIT, "prefix of 40");
    ASSERT_OK(searcher_run(s, in, 1, got, NULL, &err), err);
    searcher_free(s);
    xfree(in);
    rig_close(&rig);
}

static int try_new(const struct rig *rig, const struct search_options *o,
                   const struct search_marks *marks, struct search_caps caps, struct err *err) {
    struct searcher *s;
    struct search_setup setup = {rig->model, rig->n_model, rig->weight, *marks, caps};
    int rc = searcher_new(&s, &setup, o, err);
    assert_null(s);
    return rc;
}

TEST(impossible_searchers) {
    struct rig rig;
    struct err err = {0};
    const struct search_marks marks = {.bos = BOS, .eos = EOS, .unk = UNK};
    struct search_options o = search_defaults();
    const struct search_caps caps = {2, 40, 20};
    rig_open(&rig, 2, 14, DTYPE_F32, 1, 19);
#define REFUSED(text) ASSERT_ERR(try_new(&rig, &o, &marks, caps, &err), err, HEED_EINVAL, text)
#define WITH(change, text)                                                                         \
    do {                                                                                           \
        struct search_options was = o;                                                             \
        change;                                                                                    \
        REFUSED(text);                                                                             \
        o = was;                                                                                   \
    } while (0)
    WITH(o.beam = 0, "beam: 0");
    WITH(o.beam = 65, "beam: 65");
    WITH(o.n_best = 5, "nbest: 5");
    WITH(o.n_best = 0, "nbest: 0");
    WITH(o.alpha = NAN, "alpha: ");
    WITH(o.alpha = 11, "alpha: 11");
    WITH(o.min_len = -1, "min_length: -1");
    WITH(o.max_extra = -1, "max_extra: -1");
    WITH(o.max_len = -1, "max_length: -1");
    WITH(o.force_len = -1, "force_length: -1");
    WITH(o.min_len = 9; o.max_len = 8, "min_length: 9");
    WITH(o.no_repeat = -1, "no_repeat_ngram: -1");
    WITH(o.repetition = 0, "repetition_penalty: 0");
    WITH(o.repetition = INFINITY, "repetition_penalty: inf");
    WITH(o.sample = 1; o.temperature = 0, "temperature: 0");
    WITH(o.sample = 1; o.top_p = 0, "top_p: 0");
    WITH(o.sample = 1; o.top_p = 1.5f, "top_p: 1.5");
    WITH(o.sample = 1; o.top_k = -1, "top_k: -1");
    WITH(o.sample = 1; o.n_best = 65, "nbest: 65");
    WITH(rig.weight[1] = -1, "weight of model 2 is -1");
    rig.weight[1] = 1;
#undef WITH
#undef REFUSED
    struct search_marks none = {.bos = BOS, .eos = 14, .unk = UNK};
    ASSERT_ERR(try_new(&rig, &o, &none, caps, &err), err, HEED_EINVAL, "14");
    none = (struct search_marks){.bos = -2, .eos = EOS, .unk = UNK};
    ASSERT_ERR(try_new(&rig, &o, &none, caps, &err), err, HEED_EINVAL, "-2");
    ASSERT_ERR(try_new(&rig, &o, &marks, (struct search_caps){0, 1, 1}, &err), err, HEED_EINVAL,
               "room for 0 sentences");
    ASSERT_ERR(try_new(&rig, &o, &marks, (struct search_caps){1, 50, 41}, &err), err, HEED_ELIMIT,
               "41 tokens");
    ASSERT_ERR(try_new(&rig, &o, &marks, (struct search_caps){1 << 30, 50, 40}, &err), err,
               HEED_ELIMIT, "1073741824 sentences");
    o.force_len = 41;
    ASSERT_ERR(try_new(&rig, &o, &marks, caps, &err), err, HEED_ELIMIT, "force_length: 41");
    rig_close(&rig);
}

/* Other vocabularies, and more models than there may be. */
TEST(impossible_ensembles) {
    struct rig rig;
    struct err err = {0};
    struct model *odd;
    struct config c = rig_config(15);
    struct search_options o = search_defaults();
    struct searcher *s;
    rig_open(&rig, 1, 14, DTYPE_F32, 1, 19);
    check_ok(model_new(&odd, &c, rig.toy[0].be, DTYPE_F32, &err), &err);
    struct model *both[] = {rig.model[0], odd};
    struct search_setup setup = {both, 2, NULL, rig.marks, {2, 40, 20}};
    ASSERT_ERR(searcher_new(&s, &setup, &o, &err), err, HEED_ECONFIG,
               "model 2 has vocabularies of 15");
    setup.n_model = 17;
    ASSERT_ERR(searcher_new(&s, &setup, &o, &err), err, HEED_EINVAL, "17 models");
    model_free(odd);
    rig_close(&rig);
}

static void check_no_number(enum dtype type, int full, const char *name, int row,
                            const char *want) {
    static const int32_t well[] = {5, 6, EOS}, sick[] = {5, 13, EOS};
    struct rig rig;
    struct err err = {0};
    struct search_result got[3];
    struct search_input in[3] = {{.src = well, .n_src = 3, .key = 100},
                                 {.src = sick, .n_src = 3, .key = 101},
                                 {.src = well, .n_src = 3, .key = 102}};
    struct search_options o = beam_of(4, 1);
    o.no_repeat = full;
    rig_open(&rig, 1, MAX_V, type, 1, 20);
    rig_spoil(rig.model[0], name, row);
    struct searcher *s = rig_searcher(&rig, &o, 3, 100, 20);
    ASSERT_ERR(searcher_run(s, in, 3, got, NULL, &err), err, HEED_EINTERNAL, want);
    searcher_free(s);
    rig_close(&rig);
}

/* A NaN in one word's output, the first, one within, or the last; or in a source word that one
 * sentence has. It is found whichever way the scores come. */
TEST(scores_that_are_no_numbers) {
    enum dtype type = strcmp(TEST_ARG, "bf16") == 0 ? DTYPE_BF16 : DTYPE_F32;
    for (int full = 0; full < 2; full++) {
        check_no_number(type, full, "out", 0, "token 0 of sentence 0 (key 100)");
        check_no_number(type, full, "out", 13, "token 0 of sentence 0 (key 100)");
        check_no_number(type, full, "out", MAX_V - 1, "token 0 of sentence 0 (key 100)");
        check_no_number(type, full, "src_embed", 13, "token 0 of sentence 1 (key 101)");
    }
}

TESTS(TP(beam_of_all_is_exhaustive, "f32"), TP(beam_of_all_is_exhaustive, "ssru-f32"),
      TP(cached_is_redecoded, "f32"), TP(cached_is_redecoded, "ssru-f32"), TP(from_zero, "f32"),
      TP(from_zero, "ssru-f32"), T(reference_backend), T(lengths_and_bans),
      T(forbidden_marks_leave_enough), T(repetition_guards), T(no_ngram_twice),
      T(dead_ends_are_cut), T(prefixes_are_forced), T(leads_are_forced), T(banned_is_never_written),
      T(power_of_length), T(twins_are_one), T(two_models_are_their_mean), T(best_of_one_is_greedy),
      T(samples_are_repeatable), T(samples_are_independent), T(samples_follow_the_model),
      TP(neighbours_do_not_matter, "f32"), TP(neighbours_do_not_matter, "bf16"),
      TP(neighbours_do_not_matter, "frozen-f32"), TP(neighbours_do_not_matter, "frozen-bf16"),
      TP(neighbours_do_not_matter, "frozen-int8"), TP(neighbours_do_not_matter, "ssru-f32"),
      TP(neighbours_do_not_matter, "ssru-frozen-int8"), T(nothing_is_allocated_while_running),
      T(cancelled_and_used_again), T(impossible_input), T(impossible_searchers),
      T(impossible_ensembles), TP(scores_that_are_no_numbers, "f32"),
      TP(scores_that_are_no_numbers, "bf16"))
