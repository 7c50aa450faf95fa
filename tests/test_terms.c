/* test_terms.c — translations that must contain terms: reading what a hypothesis has, judged by a
 * reader that shares no code with it; searching, judged by exhaustive enumeration on toy
 * vocabularies; and that a carousel finds the same. */
#include "search/terms.h"

#include "base/rng.h"
#include "model/transformer.h"
#include "rig.h"
#include "search/carousel.h"
#include "test.h"

enum { MAX_N = 24, N_TERM = 4, MAX_V = 8 };

/* ---- reading --------------------------------------------------------------------------------- */

/* Random terms over pieces 0 .. n_vocab - 1. */
struct few {
    struct terms terms;
    struct term term[N_TERM];
    int32_t id[N_TERM][TERM_FORMS][4];
    uint8_t edge[MAX_V];
};

static uint64_t dice(struct rng *rng, uint64_t n) { return rng_next(rng) % n; }

static void make_few(struct few *f, struct rng *rng, int n_vocab, int least, int glued) {
    f->terms = (struct terms){f->term, 1 + (int)dice(rng, N_TERM), f->edge};
    for (int v = 0; v < MAX_V; v++) f->edge[v] = (uint8_t)dice(rng, 4);
    for (int i = 0; i < f->terms.n; i++) {
        f->term[i].n = 1 + (int)dice(rng, 3);
        f->term[i].weight = 0;
        for (int k = 0; k < f->term[i].n; k++) {
            int32_t *id = f->id[i][k];
            int n = 1 + (int)dice(rng, 4);
            if (n > f->term[i].weight) f->term[i].weight = n;
            for (int j = 0; j < n; j++)
                id[j] = (int32_t)(least + (int)dice(rng, (uint64_t)(n_vocab - least)));
            f->term[i].form[k] = (struct term_form){id, n, glued && k && dice(rng, 2)};
        }
    }
}

/* Reads as terms.h says it, by recursion and from the beginning. */
static uint64_t read_slowly(const struct terms *t, uint64_t met, const int32_t *w, int n, int at) {
    int longest = 0, which = -1;
    if (at >= n) return met;
    for (int i = t->n - 1; i >= 0; i--)
        for (int k = 0; k < t->term[i].n; k++) {
            const struct term_form *f = &t->term[i].form[k];
            int fits = !(met >> i & 1) && f->n <= n - at;
            for (int j = 0; fits && j < f->n; j++) fits = f->id[j] == w[at + j];
            if (fits && f->glued && at > 0) fits = (t->edge[w[at - 1]] & TERM_OPENS) != 0;
            if (fits && at + f->n < n) fits = (t->edge[w[at + f->n]] & TERM_PARTS) != 0;
            if (fits && f->n >= longest) {
                longest = f->n;
                which = i;
            }
        }
    if (which < 0) { /* a form that reaches the end of what is written is not looked into */
        for (int i = 0; i < t->n; i++)
            for (int k = 0; k < t->term[i].n; k++) {
                const struct term_form *f = &t->term[i].form[k];
                int begun = !(met >> i & 1) && f->n > n - at;
                for (int j = at; begun && j < n; j++) begun = f->id[j - at] == w[j];
                if (begun && f->glued && at > 0) begun = (t->edge[w[at - 1]] & TERM_OPENS) != 0;
                if (begun) return met;
            }
        return read_slowly(t, met, w, n, at + 1);
    }
    return read_slowly(t, met | (uint64_t)1 << which, w, n, at + longest);
}

TEST(reads_like_the_slow_reader) {
    struct rng rng = {.key = 1};
    for (int round = 0; round < 20000; round++) {
        struct few f;
        int32_t w[MAX_N];
        struct terms_read read = {0};
        int n_vocab = 1 + (int)dice(&rng, 4);
        make_few(&f, &rng, n_vocab, 0, 1);
        for (int n = 0; n < MAX_N; w[n++] = (int32_t)dice(&rng, (uint64_t)n_vocab)) {
            struct terms_read fresh = {0};
            struct terms_view a = terms_view(&f.terms, &fresh, w, n);
            struct terms_view b = terms_view(&f.terms, &read, w, n);
            /* reading on is reading from the beginning */
            assert_true(a.met == b.met && a.n_met == b.n_met && a.begun == b.begun &&
                        a.weight == b.weight);
            assert_true(a.met == read_slowly(&f.terms, 0, w, n, 0));
            assert_int_equal(a.n_met, __builtin_popcountll(a.met));
            assert_true(read.at <= n && (read.met & ~a.met) == 0);
        }
    }
}

/* Whoever takes what is proposed gets all terms, from wherever it begins. */
TEST(what_is_proposed_leads_to_all_terms) {
    struct rng rng = {.key = 2};
    for (int round = 0; round < 5000; round++) {
        struct few f;
        int32_t w[128], id[TERMS_NEXT];
        int n = (int)dice(&rng, 12), n_vocab = 2 + (int)dice(&rng, 6);
        make_few(&f, &rng, n_vocab, 0, 0);
        memset(f.edge, TERM_PARTS, sizeof f.edge);
        for (int i = 0; i < n; i++) w[i] = (int32_t)dice(&rng, (uint64_t)n_vocab);
        for (;;) {
            struct terms_read read = {0};
            struct terms_view v = terms_view(&f.terms, &read, w, n);
            int n_next = terms_next(&f.terms, &v, w, n, id);
            if (v.n_met == f.terms.n) break;
            assert_true(n_next > 0 && n < 100);
            w[n++] = id[dice(&rng, (uint64_t)n_next)];
        }
    }
}

/* ---- searching ------------------------------------------------------------------------------- */

struct path {
    int32_t id[MAX_N];
    int n, cut;
    double p, score;
};
struct paths {
    struct path path[8192];
    int n;
};

/* log P of every next token, by the whole model. */
static void next_of(double *out, struct rig *rig, const struct search_input *in,
                    const struct path *h) {
    struct err err;
    struct batch batch;
    int32_t tgt[MAX_N + 1];
    memcpy(tgt, h->id, sizeof h->id);
    tgt[h->n] = EOS;
    check_ok(batch_init(&batch, in->n_src, h->n + 1, 1, BOS, &err), &err);
    assert_int_equal(batch_add(&batch, in->src, in->n_src, tgt, h->n + 1, &err), 1);
    float *z = toy_logits(&rig->toy[0], &batch);
    const float *row = z + (size_t)h->n * (size_t)rig->n_vocab;
    double sum = 0;
    for (int v = 0; v < rig->n_vocab; v++) sum += exp((double)row[v]);
    for (int v = 0; v < rig->n_vocab; v++) out[v] = (double)row[v] - log(sum);
    xfree(z);
    batch_release(&batch);
}

static int has_all(const struct terms *t, const struct path *x) {
    return read_slowly(t, 0, x->id, x->n, 0) == ((uint64_t)1 << t->n) - 1;
}

static void enumerate(struct paths *all, struct rig *rig, const struct search_input *in,
                      const struct path *h, const struct search_options *o) {
    double lp[MAX_V];
    next_of(lp, rig, in, h);
    for (int32_t v = 0; v < rig->n_vocab; v++) {
        struct path x = *h;
        x.p += lp[v];
        x.cut = v != EOS;
        if (x.cut) x.id[x.n++] = v;
        x.score = x.p / pow((5.0 + h->n + 1) / 6.0, (double)o->alpha);
        if (x.cut && x.n < o->max_len) {
            enumerate(all, rig, in, &x, o);
        } else if (has_all(in->terms, &x)) {
            int at = all->n++;
            assert_true(all->n < 8192);
            for (; at > 0 && all->path[at - 1].score < x.score; at--)
                all->path[at] = all->path[at - 1];
            all->path[at] = x;
        }
    }
}

static int check_exhaustive(int n_vocab, int max_len, float alpha, uint64_t seed) {
    struct rig rig;
    struct rng rng = {.key = seed};
    struct few f;
    struct err err = {0};
    struct search_result got;
    struct search_options o = search_defaults();
    o.beam = 64;
    o.n_best = 12;
    o.alpha = alpha;
    o.max_len = max_len;
    rig_open(&rig, 1, n_vocab, DTYPE_F32, 1, seed);
    struct search_input *in = rig_inputs(1, 5, n_vocab, seed);
    struct searcher *s = rig_searcher(&rig, &o, 1, 20, 10);
    struct paths *all = xcalloc(1, sizeof *all);
    make_few(&f, &rng, n_vocab, UNK, 1);
    in->terms = &f.terms;
    ASSERT_OK(searcher_run(s, in, 1, &got, NULL, &err), err);
    enumerate(all, &rig, in, &(struct path){.n = 0}, &o);
    if (all->n) assert_int_equal(got.n, all->n < o.n_best ? all->n : o.n_best);
    for (int i = 0; i < got.n && all->n; i++) {
        const struct hypothesis *a = &got.best[i];
        const struct path *b = &all->path[i];
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->ids, b->id, (size_t)b->n * sizeof *b->id);
        assert_int_equal(a->cut, b->cut);
        ASSERT_NEAR(a->log_prob, b->p, 1e-4);
        ASSERT_NEAR(a->score, b->score, 1e-4);
    }
    int found = all->n > 0;
    searcher_free(s);
    xfree(all);
    xfree(in);
    rig_close(&rig);
    return found;
}

/* As in test_search.c: a beam of 64 sees every hypothesis there is. */
TEST(a_beam_of_all_finds_the_best_with_all_terms) {
    static const int shape[][2] = {{3, 6}, {4, 4}, {5, 3}}; /* vocabulary, longest */
    static const float alpha[] = {0, 0.6f, -1, 2.5f};
    int possible = 0;
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        for (size_t a = 0; a < sizeof alpha / sizeof *alpha; a++)
            for (uint64_t seed = 0; seed < 4; seed++)
                possible += check_exhaustive(shape[i][0], shape[i][1], alpha[a], 100 * i + seed);
    assert_true(possible > 20);
}

/* ---- neighbours ------------------------------------------------------------------------------ */

enum { N_SEQ = 12 };

static void ride(struct carousel *c, const struct search_input *in, const struct search_options *o,
                 uint64_t *fingerprint) {
    struct err err = {0};
    int seat[N_SEQ], of[N_SEQ], left = N_SEQ;
    struct carousel_input all[N_SEQ];
    for (int i = 0; i < N_SEQ; i++) {
        all[i] = (struct carousel_input){in[i], o};
        ASSERT_OK(carousel_check(c, &all[i], i, &err), err);
    }
    assert_int_equal(carousel_add(c, all, N_SEQ, seat, &err), N_SEQ);
    for (int i = 0; i < N_SEQ; i++) of[seat[i]] = i;
    while (left > 0) {
        ASSERT_OK(carousel_step(c, &err), err);
        for (int done; (done = carousel_done(c)) >= 0; left--) {
            struct search_result r;
            ASSERT_OK(carousel_result(c, done, &r, &err), err);
            fingerprint[of[done]] = rig_fingerprint(&r);
            carousel_leave(c, done);
        }
    }
}

/* Half of the sentences have terms. The others are as if nobody had; those are the same alone, and
 * the same in a carousel. */
TEST(neighbours_do_not_notice) {
    struct rig rig;
    struct rng rng = {.key = 3};
    struct err err = {0};
    struct few f[N_SEQ];
    struct search_result got[N_SEQ];
    struct search_options o = search_defaults();
    uint64_t plain[N_SEQ], mixed[N_SEQ], riding[N_SEQ];
    int n_differ = 0;
    o.beam = 8;
    o.n_best = 3;
    o.max_extra = 30;
    rig_open(&rig, 1, 30, DTYPE_F32, 2, 5);
    struct search_input *in = rig_inputs(N_SEQ, 12, 30, 9);
    struct searcher *s = rig_searcher(&rig, &o, N_SEQ, 300, 20);
    ASSERT_OK(searcher_run(s, in, N_SEQ, got, NULL, &err), err);
    for (int i = 0; i < N_SEQ; i++) plain[i] = rig_fingerprint(&got[i]);
    for (int i = 0; i < N_SEQ; i += 2) {
        make_few(&f[i], &rng, 8, 3, 0);
        f[i].terms.edge = NULL;
        in[i].terms = &f[i].terms;
    }
    ASSERT_OK(searcher_run(s, in, N_SEQ, got, NULL, &err), err);
    for (int i = 0; i < N_SEQ; i++) {
        mixed[i] = rig_fingerprint(&got[i]);
        if (i % 2) assert_true(mixed[i] == plain[i]);
        n_differ += mixed[i] != plain[i];
        for (int k = 0; i % 2 == 0 && k < got[i].n; k++) {
            struct terms_read read = {0};
            struct terms_view v =
                terms_view(in[i].terms, &read, got[i].best[k].ids, got[i].best[k].n);
            assert_int_equal(v.n_met, in[i].terms->n);
        }
    }
    assert_true(n_differ > 3);
    for (int i = 0; i < N_SEQ; i++) {
        struct search_result one;
        ASSERT_OK(searcher_run(s, &in[i], 1, &one, NULL, &err), err);
        assert_true(rig_fingerprint(&one) == mixed[i]);
    }
    struct carousel *c;
    struct search_setup setup = rig_setup(&rig, N_SEQ, 300, 20);
    struct carousel_caps caps = {N_SEQ, 8 * N_SEQ, 8 * 40 * N_SEQ, 300, 300, 20, 40, 8, 0};
    ASSERT_OK(carousel_new(&c, &setup, &caps, &err), err);
    ride(c, in, &o, riding);
    for (int i = 0; i < N_SEQ; i++) assert_true(riding[i] == mixed[i]);
    carousel_free(c);
    o.sample = 1;
    struct carousel_input drawn = {in[0], &o};
    ASSERT_OK(carousel_new(&c, &setup, &caps, &err), err);
    assert_int_equal(carousel_check(c, &drawn, 7, &err), HEED_EINVAL);
    assert_string_equal(err.msg,
                        "search: sentence 7 has terms; they are for a search, not for samples");
    carousel_free(c);
    searcher_free(s);
    xfree(in);
    rig_close(&rig);
}

TESTS(T(reads_like_the_slow_reader), T(what_is_proposed_leads_to_all_terms),
      T(a_beam_of_all_finds_the_best_with_all_terms), T(neighbours_do_not_notice))
