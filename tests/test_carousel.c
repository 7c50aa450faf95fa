/* test_carousel.c — sentences that get on and off while the others ride: each has, to the last bit,
 * what a searcher finds for it alone. */
#include "base/mem.h"
#include "rig.h"
#include "search/carousel.h"
#include "test.h"

enum { V = 14, LONGEST = 19, MAX_LEN = 40, MAX_BEAM = 7, N_KIND = 9, N = 90 };

/* Options that differ in everything that a sentence may have for itself. */
static void kinds(struct search_options *o) {
    for (int k = 0; k < N_KIND; k++) {
        o[k] = search_defaults();
        o[k].max_extra = 8;
        o[k].n_best = 2;
    }
    o[1].beam = o[1].n_best = 1;
    o[2].beam = 7;
    o[2].n_best = 5;
    o[2].alpha = -0.7f;
    o[3].no_repeat = 2;
    o[3].repetition = 1.3f;
    o[4].sample = 1;
    o[4].n_best = 5;
    o[4].top_p = 0.9f;
    o[5].ban_unk = 1;
    o[5].min_len = 6;
    o[5].max_extra = 20;
    o[6].max_len = 3;
    o[6].alpha = 1.5f;
    o[7].force_len = 17;
    o[8].beam = 3;
    o[8].max_len = 1;
}

struct ride {
    struct carousel_input in[N];
    struct search_options kind[N_KIND];
    struct search_input *source;
    uint64_t want[N];
    int seat[N];              /* -1: not aboard */
    int settled[N];           /* tokens that carousel_peek promised */
    int32_t said[N][MAX_LEN]; /* and which */
    int next, n_aboard, n_done, n_gone, n_jumped, most;
    struct rng rng;
};

/* What each is to get. */
static void ride_begin(struct ride *r, const struct rig *rig, uint64_t seed) {
    static const int32_t prefix[] = {UNK, 9, 9};
    struct err err = {0};
    struct search_result one;
    *r = (struct ride){.rng = {.key = seed}};
    kinds(r->kind);
    r->source = rig_inputs(N, LONGEST, rig->n_vocab, seed);
    for (int i = 0; i < N; i++) {
        int k = (int)rng_below(&r->rng, N_KIND);
        r->in[i] = (struct carousel_input){r->source[i], &r->kind[k]};
        r->seat[i] = -1;
        if (k != 8 && i % 6 == 0) {
            r->in[i].in.prefix = prefix;
            r->in[i].in.n_prefix = 1 + i % 3;
            r->in[i].in.n_lead = i % 4 == 0;
        }
        struct searcher *s = rig_searcher(rig, r->in[i].options, 1, LONGEST + 1, LONGEST + 1);
        ASSERT_OK(searcher_run(s, &r->in[i].in, 1, &one, NULL, &err), err);
        r->want[i] = rig_fingerprint(&one);
        searcher_free(s);
    }
}

static int rider(const struct ride *r, int seat) {
    int i = 0;
    while (r->seat[i] != seat) assert_true(++i < N);
    return i;
}

/* Some of the next get on. The carousel must not need their memory. */
static void get_on(struct ride *r, struct carousel *c) {
    struct err err = {0};
    int32_t source[6][LONGEST + 1], prefix[6][3];
    struct search_options options[6];
    struct carousel_input in[6];
    int n = (int)rng_below(&r->rng, 7);
    if (n > N - r->next) n = N - r->next;
    for (int i = 0; i < n; i++) {
        in[i] = r->in[r->next + i];
        memcpy(source[i], in[i].in.src, (size_t)in[i].in.n_src * sizeof **source);
        for (int t = 0; t < in[i].in.n_prefix; t++) prefix[i][t] = in[i].in.prefix[t];
        options[i] = *in[i].options;
        in[i].in.src = source[i];
        in[i].in.prefix = prefix[i];
        in[i].options = &options[i];
        ASSERT_OK(carousel_check(c, &in[i], i, &err), err);
    }
    int *seat = r->seat + r->next;
    int seated =
        rng_below(&r->rng, 2) ? carousel_add(c, in, n, seat, &err) : carousel_board(c, in, n, seat);
    assert_true(seated >= 0 && seated <= n);
    for (int i = seated; i < n; i++) r->seat[r->next + i] = -1;
    if (n && !r->n_aboard) assert_true(seated > 0);
    memset(source, 0xff, sizeof source);
    memset(prefix, 0xff, sizeof prefix);
    memset(options, 0xff, sizeof options);
    r->next += seated;
    r->n_aboard += seated;
    if (r->n_aboard > r->most) r->most = r->n_aboard;
    assert_int_equal(carousel_seats(c), r->n_aboard);
}

/* What is settled only grows. */
static void watch(struct ride *r, struct carousel *c, int i) {
    struct carousel_view view = carousel_peek(c, r->seat[i]);
    assert_true(view.n_settled >= r->settled[i] && view.n_settled <= view.n);
    assert_memory_equal(view.ids, r->said[i], (size_t)r->settled[i] * sizeof *view.ids);
    r->settled[i] = view.n_settled;
    memcpy(r->said[i], view.ids, (size_t)view.n_settled * sizeof *view.ids);
}

/* Those that board, if there are any, are a layer further. */
static void board(struct carousel *c) {
    struct err err = {0};
    int left = carousel_boarding(c);
    ASSERT_OK(carousel_encode(c, &err), err);
    assert_true(left ? carousel_boarding(c) < left : !carousel_boarding(c));
}

static void get_off(struct ride *r, struct carousel *c) {
    struct err err = {0};
    struct search_result got;
    for (int seat; (seat = carousel_done(c)) >= 0;) {
        int i = rider(r, seat);
        ASSERT_OK(carousel_result(c, seat, &got, &err), err);
        if (rig_fingerprint(&got) != r->want[i]) fail_msg("sentence %d is not as it is alone", i);
        for (int k = 0; k < got.n; k++) {
            assert_true(got.best[k].n >= r->settled[i]);
            assert_memory_equal(got.best[k].ids, r->said[i], (size_t)r->settled[i] * 4);
        }
        carousel_leave(c, seat);
        r->seat[i] = -1;
        r->n_aboard--;
        r->n_done++;
    }
    for (int i = 0; i < r->next; i++) {
        if (r->seat[i] < 0) continue;
        int rides = carousel_rides(c, r->seat[i]);
        if (rides) {
            watch(r, c, i);
            carousel_hold(c, r->seat[i], rng_below(&r->rng, 5) == 0);
        }
        if (rng_below(&r->rng, rides ? 40 : 5)) continue;
        r->n_jumped += !rides;
        carousel_leave(c, r->seat[i]); /* cancelled */
        r->seat[i] = -1;
        r->n_aboard--;
        r->n_gone++;
    }
}

static struct carousel *rig_carousel(const struct rig *rig, const struct carousel_caps *caps) {
    struct carousel *c;
    struct err err = {0};
    struct search_setup setup = rig_setup(rig, 0, 0, 0);
    ASSERT_OK(carousel_new(&c, &setup, caps, &err), err);
    return c;
}

static const struct carousel_caps small = {.n_seat = 12,
                                           .n_row = 30,
                                           .n_cell = 700,
                                           .n_src = 100,
                                           .n_pass = 50,
                                           .max_src = LONGEST + 1,
                                           .max_len = MAX_LEN,
                                           .max_beam = MAX_BEAM,
                                           .n_board = 30};

/* Random arrivals, lengths, options, cancels, in a carousel that is mostly full. */
static void check_ride(const struct rig *rig, uint64_t seed) {
    struct err err = {0};
    struct ride *r = xcalloc(1, sizeof *r);
    struct carousel *c = rig_carousel(rig, &small);
    ride_begin(r, rig, seed);
    uint64_t before = mem_count();
    while (r->next < N || r->n_aboard) {
        get_on(r, c);
        if (rng_below(&r->rng, 3)) board(c);
        ASSERT_OK(carousel_step(c, &err), err);
        get_off(r, c);
    }
    assert_true(mem_count() == before);
    assert_int_equal(r->n_done + r->n_gone, N);
    assert_true(r->n_done > N / 3 && r->n_gone > 3 && r->n_jumped && r->most > 5);
    carousel_free(c);
    xfree(r->source);
    xfree(r);
}

TEST(as_if_alone) {
    for (int n_thread = 1; n_thread <= 2; n_thread++) {
        struct rig rig;
        rig_open_as(&rig, V, TEST_ARG, n_thread, 15);
        for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 1 : 3); seed++) check_ride(&rig, seed);
        rig_close(&rig);
    }
}

TEST(from_zero) {
    struct rig rig;
    rig_open_as(&rig, V, "frozen-f32", 2, 15);
    rig.marks.bos = -1;
    check_ride(&rig, 1);
    rig_close(&rig);
}

TEST(two_models) {
    struct rig rig;
    rig_open(&rig, 2, V, DTYPE_F32, 2, 12);
    rig.weight[1] = 2.5f;
    check_ride(&rig, 4);
    rig_close(&rig);
}

TEST(reference_backend) {
    struct rig rig;
    struct err err = {0};
    struct search_result one[4], got;
    int seat[4];
    uint64_t want[4];
    struct search_options o = search_defaults();
    o.max_extra = 4;
    rig_open(&rig, 1, V, DTYPE_F64, 1, 2);
    struct search_input *in = rig_inputs(4, 9, V, 5);
    struct searcher *s = rig_searcher(&rig, &o, 4, 40, 10);
    ASSERT_OK(searcher_run(s, in, 4, one, NULL, &err), err);
    for (int i = 0; i < 4; i++) want[i] = rig_fingerprint(&one[i]);
    struct carousel *c = rig_carousel(&rig, &small);
    for (int i = 0; i < 4; i++) { /* one more per step */
        assert_int_equal(carousel_add(c, &(struct carousel_input){in[i], &o}, 1, &seat[i], &err),
                         1);
        ASSERT_OK(carousel_step(c, &err), err);
    }
    while (carousel_rows(c)) ASSERT_OK(carousel_step(c, &err), err);
    for (int i = 0; i < 4; i++) {
        ASSERT_OK(carousel_result(c, seat[i], &got, &err), err);
        assert_true(rig_fingerprint(&got) == want[i]);
    }
    carousel_free(c);
    searcher_free(s);
    xfree(in);
    rig_close(&rig);
}

/* ---- room ------------------------------------------------------------------------------------ */

/* How many of n get on, one pass after another. */
static int seated(struct carousel *c, const struct carousel_input *in, int n, int *seat) {
    struct err err = {0};
    int on = 0, more = 1;
    while (on < n && more) {
        more = carousel_add(c, in + on, n - on, seat + on, &err);
        assert_true(more >= 0);
        on += more;
    }
    return on;
}

/* Each kind of room is the one that is short, and is there again when somebody leaves. */
static void check_room(const struct rig *rig, struct carousel_caps caps, int want) {
    enum { MANY = 20 };
    static const int32_t source[5] = {5, 6, 7, 8, EOS};
    struct search_options o = search_defaults();
    struct carousel_input in[MANY];
    struct err err = {0};
    int seat[MANY];
    o.max_extra = 5; /* 10 tokens, 4 hypotheses */
    for (int i = 0; i < MANY; i++) in[i] = (struct carousel_input){{.src = source, .n_src = 5}, &o};
    struct carousel *c = rig_carousel(rig, &caps);
    assert_int_equal(seated(c, in, MANY, seat), want);
    assert_int_equal(carousel_rows(c), want); /* one each, before the first token */
    ASSERT_OK(carousel_step(c, &err), err);
    carousel_leave(c, seat[1]);
    assert_int_equal(carousel_rows(c), 4 * (want - 1));
    assert_int_equal(seated(c, in, MANY, seat + 1), 1);
    assert_int_equal(seated(c, in, 1, seat), 0);
    carousel_free(c);
}

TEST(room_is_kept) {
    struct carousel_caps much = {20, 100, 1000, 200, 20, 10, 10, 4, 0};
    struct rig rig;
    rig_open(&rig, 1, V, DTYPE_F32, 1, 3);
    struct carousel_caps caps = much;
    check_room(&rig, caps, 20);
    caps.n_seat = 4;
    check_room(&rig, caps, 4);
    caps = much;
    caps.n_row = 27;
    check_room(&rig, caps, 6);
    caps = much;
    caps.n_cell = 359;
    check_room(&rig, caps, 8);
    caps = much;
    caps.n_src = 39;
    check_room(&rig, caps, 7);
    rig_close(&rig);
}

TEST(what_cannot_ride_is_refused) {
    static const int32_t source[30] = {5, V};
    struct rig rig;
    struct err err = {0};
    struct search_options o = search_defaults();
    struct carousel_input in = {{.src = source, .n_src = 1}, &o};
    rig_open(&rig, 1, V, DTYPE_F32, 1, 3);
    struct carousel *c = rig_carousel(&rig, &small);
    ASSERT_OK(carousel_check(c, &in, 7, &err), err);
    in.in.n_src = 2;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_EINVAL, "sentence 7 has the source");
    in.in.n_src = 21;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_ELIMIT, "room for 1 to 20");
    in.in.n_src = 1;
    in.in.prefix = source;
    in.in.n_prefix = 2;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_EINVAL, "sentence 7 has the prefix");
    in.in.n_prefix = 0;
    o.beam = 8;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_ELIMIT, "room for 7 of 40");
    o.beam = 0;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_EINVAL, "beam");
    o.beam = 4;
    o.force_len = 41;
    ASSERT_ERR(carousel_check(c, &in, 7, &err), err, HEED_ELIMIT, "up to 41 tokens");
    carousel_free(c);
    rig_close(&rig);
}

TEST(impossible_carousels) {
    struct rig rig;
    struct err err = {0};
    struct carousel *c;
    rig_open(&rig, 1, V, DTYPE_F32, 1, 3);
    struct search_setup setup = rig_setup(&rig, 0, 0, 0);
    struct carousel_caps caps = small;
    caps.n_seat = 0;
    ASSERT_ERR(carousel_new(&c, &setup, &caps, &err), err, HEED_EINVAL, "at least 1");
    caps = small;
    caps.max_len = 41;
    ASSERT_ERR(carousel_new(&c, &setup, &caps, &err), err, HEED_ELIMIT, "positions for 40");
    caps = small;
    caps.n_cell = MAX_LEN - 1;
    ASSERT_ERR(carousel_new(&c, &setup, &caps, &err), err, HEED_EINVAL, "needs 7, 40, 20");
    caps.n_cell = small.n_cell;
    caps.n_board = LONGEST;
    ASSERT_ERR(carousel_new(&c, &setup, &caps, &err), err, HEED_EINVAL, "19 source tokens that b");
    caps.n_board = 0;
    /* a wide search of a long sentence is not what there must be room for */
    struct search_options wide = search_defaults();
    struct carousel_input in = {{.src = (int32_t[]){5, EOS}, .n_src = 2}, &wide};
    wide.beam = MAX_BEAM;
    wide.max_extra = 37;
    caps.n_cell = MAX_BEAM * (MAX_LEN - 1) - 1;
    ASSERT_OK(carousel_new(&c, &setup, &caps, &err), err);
    ASSERT_ERR(carousel_check(c, &in, 3, &err), err, HEED_ELIMIT, "7 hypotheses of up to 39");
    wide.max_extra = 36;
    ASSERT_OK(carousel_check(c, &in, 3, &err), err);
    carousel_free(c);
    setup.marks.eos = V;
    ASSERT_ERR(carousel_new(&c, &setup, &small, &err), err, HEED_EINVAL, "vocabulary has 14");
    rig_close(&rig);
}

/* One of three has a source word that the model makes no number of; the others do not notice. */
TEST(sick_alone) {
    static const int32_t well[] = {5, 6, EOS}, sick[] = {5, 13, EOS};
    struct rig rig;
    struct err err = {0};
    struct search_result one, got;
    struct search_options o = search_defaults(), full = o;
    full.no_repeat = 3;
    rig_open(&rig, 1, V, DTYPE_F32, 1, 20);
    rig_spoil(rig.model[0], "src_embed", 13);
    for (int way = 0; way < 2; way++) {
        const struct search_options *how = way ? &full : &o;
        struct carousel_input in[3] = {{{.src = well, .n_src = 3}, how},
                                       {{.src = sick, .n_src = 3, .key = 77}, how},
                                       {{.src = well, .n_src = 3}, &o}};
        int seat[3];
        struct carousel *c = rig_carousel(&rig, &small);
        assert_int_equal(carousel_add(c, in, 3, seat, &err), 3);
        ASSERT_OK(carousel_step(c, &err), err);
        assert_int_equal(carousel_done(c), seat[1]);
        assert_int_equal(carousel_done(c), -1);
        ASSERT_ERR(carousel_result(c, seat[1], &got, &err), err, HEED_EINTERNAL, "(key 77)");
        carousel_leave(c, seat[1]);
        while (carousel_rows(c)) ASSERT_OK(carousel_step(c, &err), err);
        for (int i = 0; i < 3; i += 2) {
            struct searcher *s = rig_searcher(&rig, in[i].options, 1, 3, 3);
            ASSERT_OK(searcher_run(s, &in[i].in, 1, &one, NULL, &err), err);
            ASSERT_OK(carousel_result(c, seat[i], &got, &err), err);
            assert_true(rig_fingerprint(&got) == rig_fingerprint(&one));
            searcher_free(s);
        }
        carousel_free(c);
    }
    rig_close(&rig);
}

TESTS(TP(as_if_alone, "f32"), TP(as_if_alone, "bf16"), TP(as_if_alone, "frozen-f32"),
      TP(as_if_alone, "frozen-bf16"), TP(as_if_alone, "frozen-int8"), TP(as_if_alone, "ssru-bf16"),
      TP(as_if_alone, "ssru-frozen-int8"), T(from_zero), T(two_models), T(reference_backend),
      T(room_is_kept), T(what_cannot_ride_is_refused), T(impossible_carousels), T(sick_alone))
