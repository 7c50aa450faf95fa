/* test_resident.c — searching in the backend's memory gives what searching on the host gives, on
 * every backend; and the pieces of it: recordings, posts, and the op beam_step where nobody is
 * left. */
#include "backend/backend.h"
#include "base/mem.h"
#include "base/rng.h"
#include "gpu.h"
#include "model/frozen.h"
#include "search/resident.h"
#include "search/search.h"
#include "test.h"
#include "toy.h"

enum { BOS = 0, EOS = 1, UNK = 2, V = 33, MAX_SEQ = 48, MAX_SRC = 20 };

struct rig {
    struct backend *be;
    struct model *model[2]; /* the second of an ensemble, or NULL */
    struct search_marks marks;
};

static const struct search_marks usual = {.bos = BOS, .eos = EOS, .unk = UNK};

/* With larger weights than training begins with, so that distributions have peaks. */
static struct model *model_of(const struct rig *rig, const struct config *c, enum dtype type,
                              uint64_t seed) {
    struct model *m;
    struct err err = {0};
    check_ok(model_new(&m, c, rig->be, type, &err), &err);
    float *flat = xcalloc(m->table.n_elem, sizeof *flat);
    check_ok(model_draw(m, seed, &err), &err);
    if (rig->marks.bos < 0) toy_disturb(m);
    check_ok(model_get(m, flat, &err), &err);
    for (size_t i = 0; i < m->table.n_elem; i++) flat[i] *= 1.6f;
    check_ok(model_set(m, flat, &err), &err);
    xfree(flat);
    return m;
}

/* "cpu-f32", "ref-f32", "cuda-ssru-bf16", ...: the device, the decoder if it is an SSRU, whether it
 * has what only models of other toolkits have, whether it is a pair of models, and the type. */
static void rig_open(struct rig *rig, const char *where, const char *head, int n_vocab,
                     uint64_t seed) {
    struct config c;
    struct err err = {0};
    char device[8] = "";
    memcpy(device, where, (size_t)(strchr(where, '-') - where));
    rig->marks = usual;
    enum dtype type = strstr(where, "bf16") ? DTYPE_BF16 : DTYPE_F32;
    if (strcmp(device, "cuda") == 0)
        rig->be = gpu_open();
    else
        ASSERT_OK(backend_open(&rig->be, &(struct backend_options){.device = device, .n_thread = 1},
                               &err),
                  err);
    check_ok(config_preset(&c, "tiny", &err), &err);
    c.n_layer_enc = 1;
    c.n_layer_dec = 2;
    c.d_model = strcmp(head, "odd") == 0 ? 24 : 64;
    c.n_head = strcmp(head, "odd") == 0 ? 3 : 2;
    c.d_ff = 80;
    c.max_len = 40;
    c.tie = TIE_NONE;
    if (strstr(where, "ssru")) c.decoder = DECODER_SSRU;
    rig->marks.bos = strstr(where, "foreign") ? -1 : BOS;
    c.output_bias = c.embed_norm = rig->marks.bos < 0;
    if (rig->marks.bos < 0) c.d_ff_dec = 56;
    c.n_vocab_src = c.n_vocab_tgt = n_vocab;
    check_ok(config_check(&c, &err), &err);
    rig->model[0] = model_of(rig, &c, type, seed);
    rig->model[1] = strstr(where, "pair") ? model_of(rig, &c, type, seed + 100) : NULL;
}

static void rig_close(struct rig *rig) {
    for (int m = 0; m < 2; m++) model_free(rig->model[m]);
    backend_close(rig->be);
}

static struct searcher *searcher_of(const struct rig *rig, struct search_options o, int n_seq,
                                    enum search_place place) {
    struct searcher *s;
    struct err err = {0};
    o.place = place;
    struct search_setup setup = {.model = rig->model,
                                 .n_model = rig->model[1] ? 2 : 1,
                                 .marks = rig->marks,
                                 .caps = {n_seq, n_seq * MAX_SRC, MAX_SRC}};
    ASSERT_OK(searcher_new(&s, &setup, &o, &err), err);
    return s;
}

/* n random sentences of 1 .. MAX_SRC - 1 words and an end mark, in one allocation. */
static struct search_input *inputs_new(int n, int n_vocab, uint64_t seed) {
    struct search_input *in = xcalloc((size_t)n, sizeof *in + MAX_SRC * sizeof(int32_t));
    int32_t *id = (int32_t *)(in + n);
    struct rng rng = {.key = seed};
    for (int s = 0; s < n; s++, id += MAX_SRC) {
        int len = 1 + (int)rng_below(&rng, MAX_SRC - 1);
        for (int i = 0; i < len; i++) id[i] = (int32_t)rng_below(&rng, (uint32_t)n_vocab);
        id[len] = EOS;
        in[s] = (struct search_input){.src = id, .n_src = len + 1, .key = 100 + (uint64_t)s};
    }
    return in;
}

/* ---- equality -------------------------------------------------------------------------------- */

static int same_hypothesis(const struct hypothesis *a, const struct hypothesis *b) {
    return a->n == b->n && a->cut == b->cut &&
           (a->n == 0 || memcmp(a->ids, b->ids, (size_t)a->n * sizeof *a->ids) == 0);
}

static char what[80]; /* is compared, for messages */

/* To the bit, or every token's score within tol, and so their sum within as many times that. */
static void check_same(const struct search_result *host, const struct search_result *back, int i,
                       double tol) {
    if (host->n != back->n) fail_msg("%ssentence %d: %d hypotheses, %d", what, i, host->n, back->n);
    for (int k = 0; k < host->n; k++) {
        const struct hypothesis *a = &host->best[k], *b = &back->best[k];
        if (!same_hypothesis(a, b)) fail_msg("%ssentence %d, rank %d: other tokens", what, i, k);
        double sum = tol * (a->n + 1);
        if (!(fabs((double)a->score - (double)b->score) <= sum) ||
            !(fabs((double)a->log_prob - (double)b->log_prob) <= sum))
            fail_msg("%ssentence %d, rank %d: score %.9g, %.9g", what, i, k, (double)a->score,
                     (double)b->score);
        for (int t = 0; t < a->n + !a->cut; t++)
            ASSERT_NEAR(a->token_log_prob[t], b->token_log_prob[t], tol);
    }
}

/* The same work, one step more where the host heard of the end too late, rounded up. */
static void check_stats(const struct search_stats *host, const struct search_stats *back) {
    assert_int_equal(host->rows, back->rows);
    assert_in_range(back->steps - host->steps, 0, 1);
    assert_true(back->computed >= back->rows);
}

/* Both ways, several times and with fewer sentences in between: recordings are made on the way. */
static void check_options(const struct rig *rig, const struct search_options *o, int n,
                          const struct search_input *in, double tol) {
    struct err err = {0};
    struct search_result host[MAX_SEQ], back[MAX_SEQ];
    struct searcher *a = searcher_of(rig, *o, n, SEARCH_HOST);
    struct searcher *b = searcher_of(rig, *o, n, SEARCH_BACKEND);
    for (int run = 0; run < 4; run++) {
        int first = n == 1 ? run : 0, count = run == 2 ? (n + 1) / 2 : n;
        snprintf(what, sizeof what, "beam %d, n-best %d, longest %d, run %d of %d: ", o->beam,
                 o->n_best, o->max_len, run, count);
        ASSERT_OK(searcher_run(a, in + first, count, host, NULL, &err), err);
        ASSERT_OK(searcher_run(b, in + first, count, back, NULL, &err), err);
        for (int i = 0; i < count; i++) check_same(&host[i], &back[i], first + i, tol);
        if (tol == 0) check_stats(searcher_stats(a), searcher_stats(b));
    }
    what[0] = 0;
    searcher_free(a);
    searcher_free(b);
}

/* NOLINTNEXTLINE(bugprone-easily-swappable-parameters) */
static struct search_options beam_of(int beam, int n_best, float alpha) {
    struct search_options o = search_defaults();
    o.beam = beam;
    o.n_best = n_best;
    o.alpha = alpha;
    o.max_extra = 8;
    return o;
}

/* Sentences of different lengths that end at different times, by every rule there is. */
static void check_ends(const struct rig *rig, int n, int n_vocab, double tol) {
    static const float alpha[] = {0.6f, 0, -0.7f, 1.5f};
    struct search_input *in = inputs_new(MAX_SEQ, n_vocab, 3);
    for (int beam = 1; beam <= 6; beam += 1 + (beam == 4)) {
        struct search_options o = beam_of(beam, 1, alpha[beam % 4]);
        check_options(rig, &o, n, in, tol);
        o = beam_of(beam, beam, alpha[(beam + 1) % 4]);
        o.min_len = 4;
        check_options(rig, &o, n, in, tol);
    }
    struct search_options o = beam_of(4, 3, 0.6f);
    o.ban_unk = 1;
    o.max_len = 7;
    check_options(rig, &o, n, in, tol);
    o.max_len = 1;
    check_options(rig, &o, n, in, tol);
    xfree(in);
}

/* What models of other toolkits want: tokens that are banned, the zero vector to begin with,
 * another rule of lengths, and of some sentences a first token that is not scored. */
static void check_foreign(struct rig *rig, int n, double tol) {
    static const int32_t lead[] = {7, 9};
    struct search_input *in = inputs_new(MAX_SEQ, V, 6);
    struct search_options o = beam_of(4, 2, 1);
    o.length_rule = LENGTH_POWER;
    o.min_len = 3;
    rig->marks = (struct search_marks){
        .bos = -1, .eos = EOS, .unk = UNK, .banned = {4, 7, 11, 2}, .n_banned = 4};
    check_options(rig, &o, n, in, tol);
    for (int i = 0; i < MAX_SEQ; i++) {
        in[i].prefix = &lead[i % 3 == 1];
        in[i].n_prefix = in[i].n_lead = i % 3 > 0;
    }
    o.ban_unk = 1;
    check_options(rig, &o, n, in, tol);
    o.max_len = 1;
    o.min_len = 0;
    check_options(rig, &o, n, in, tol);
    rig->marks = usual;
    xfree(in);
}

/* All sentences live to the same length, at last to the model's last position. */
static void check_forced(const struct rig *rig, double tol) {
    struct search_input *in = inputs_new(MAX_SEQ, V, 4);
    for (int n = 1; n <= 16; n *= 4) {
        struct search_options o = beam_of(4, 4, 1);
        o.force_len = n == 16 ? 40 : 17;
        check_options(rig, &o, n, in, tol);
    }
    xfree(in);
}

/* To the bit wherever both ways compute the same number of rows: on a GPU another number may mean
 * another kernel, which adds in another order. One sentence has 1 row and then `beam`, all of which
 * are sizes that recordings come in. Its products in f32 differ in the last digit even so where a
 * width is odd: there the kernel depends on where in memory a matrix lies. */
TEST(host_and_backend_agree) {
    struct rig rig;
    int cuda = strncmp(TEST_ARG, "cuda", 4) == 0, ref = strncmp(TEST_ARG, "ref", 3) == 0;
    for (uint64_t seed = 1; seed <= (ref || TEST_SANITIZED ? 1 : 2); seed++) {
        rig_open(&rig, TEST_ARG, seed == 1 ? "odd" : "even", V, seed);
        double tol = cuda && strstr(TEST_ARG, "f32") ? 1e-4 : 0;
        if (!ref) check_ends(&rig, 1, V, tol);
        if (!cuda) check_ends(&rig, ref ? 2 : 16, V, 0);
        if (!ref) check_forced(&rig, tol);
        check_foreign(&rig, cuda ? 1 : ref ? 2 : 16, tol);
        rig_close(&rig);
    }
    if (cuda && strstr(TEST_ARG, "bf16")) return;
    rig_open(&rig, TEST_ARG, "even", 4, 5); /* fewer words than hypotheses */
    check_ends(&rig, 2, 4, cuda ? 1e-4 : 0);
    rig_close(&rig);
}

/* A crowd of several hundred rows that shrinks. On a GPU the two ways may round differently then,
 * so that scores agree to a tolerance and almost all translations are the same. */
TEST(crowds_agree) {
    struct rig rig;
    struct err err = {0};
    struct search_result host[MAX_SEQ], back[MAX_SEQ];
    struct search_options o = beam_of(8, 2, 0.6f);
    int same = 0;
    double tol = strstr(TEST_ARG, "bf16") ? 0.05 : 1e-4;
    rig_open(&rig, TEST_ARG, "even", V, 7);
    struct search_input *in = inputs_new(MAX_SEQ, V, 11);
    struct searcher *a = searcher_of(&rig, o, MAX_SEQ, SEARCH_HOST);
    struct searcher *b = searcher_of(&rig, o, MAX_SEQ, SEARCH_BACKEND);
    ASSERT_OK(searcher_run(a, in, MAX_SEQ, host, NULL, &err), err);
    for (int run = 0; run < 3; run++) {
        same = 0;
        ASSERT_OK(searcher_run(b, in, MAX_SEQ, back, NULL, &err), err);
        for (int i = 0; i < MAX_SEQ; i++) {
            same += same_hypothesis(host[i].best, back[i].best);
            ASSERT_NEAR(host[i].best->score, back[i].best->score, tol);
        }
        print_message("%d of %d the same\n", same, MAX_SEQ);
        assert_true(same >= (strstr(TEST_ARG, "cuda") ? MAX_SEQ * 9 / 10 : MAX_SEQ));
    }
    searcher_free(a);
    searcher_free(b);
    xfree(in);
    rig_close(&rig);
}

/* ---- conduct --------------------------------------------------------------------------------- */

static void spoil(struct model *model, const char *name, int row) {
    struct err err;
    float *flat = xcalloc(model->table.n_elem, sizeof *flat);
    const struct param *p = param_table_find(&model->table, name);
    check_ok(model_get(model, flat, &err), &err);
    flat[p->offset + (size_t)row * (size_t)p->cols] = NAN;
    check_ok(model_set(model, flat, &err), &err);
    xfree(flat);
}

/* A model that yields no numbers for one sentence, or for all: the same message as from the
 * host. */
TEST(no_numbers) {
    static const int32_t well[] = {5, 6, EOS}, sick[] = {5, 13, EOS};
    struct search_input in[3] = {{.src = well, .n_src = 3, .key = 100},
                                 {.src = sick, .n_src = 3, .key = 101},
                                 {.src = well, .n_src = 3, .key = 102}};
    struct rig rig;
    struct err err = {0};
    struct search_result got[3];
    struct search_options o = beam_of(4, 1, 0.6f);
    rig_open(&rig, TEST_ARG, "even", V, 20);
    spoil(rig.model[0], "src_embed", 13);
    struct searcher *s = searcher_of(&rig, o, 3, SEARCH_BACKEND);
    ASSERT_ERR(searcher_run(s, in, 3, got, NULL, &err), err, HEED_EINTERNAL,
               "token 0 of sentence 1 (key 101)");
    spoil(rig.model[0], "out", V - 1);
    ASSERT_ERR(searcher_run(s, in, 3, got, NULL, &err), err, HEED_EINTERNAL,
               "token 0 of sentence 0 (key 100)");
    searcher_free(s);
    rig_close(&rig);
}

static int third_time(void *ctx) { return ++*(int *)ctx == 3; }

/* Prefixes go the host's way in the same searcher; a cancelled search leaves nothing behind;
 * nothing is allocated. */
TEST(conduct) {
    static const int32_t prefix[] = {5, 9};
    struct rig rig;
    struct err err = {0};
    struct search_result host[6], back[6];
    struct search_options o = beam_of(4, 1, 0.6f);
    int calls = 0;
    double tol = strstr(TEST_ARG, "cuda") ? 1e-4 : 0;
    rig_open(&rig, TEST_ARG, "even", V, 17);
    struct search_input *in = inputs_new(4, V, 17);
    struct searcher *a = searcher_of(&rig, o, 4, SEARCH_HOST);
    struct searcher *b = searcher_of(&rig, o, 4, SEARCH_BACKEND);
    uint64_t before = mem_count();
    for (int run = 0; run < 2; run++) {
        ASSERT_OK(searcher_run(a, in, 4, host, NULL, &err), err);
        ASSERT_OK(searcher_run(b, in, 4, back, NULL, &err), err);
        for (int i = 0; i < 4; i++) check_same(&host[i], &back[i], i, tol);
        calls = 0;
        ASSERT_ERR(searcher_run(b, in, 4, back, &(struct search_poll){third_time, &calls}, &err),
                   err, HEED_ECANCELLED, "after 2 tokens");
    }
    in[2].prefix = prefix;
    in[2].n_prefix = 2;
    ASSERT_OK(searcher_run(a, in, 4, host, NULL, &err), err);
    ASSERT_OK(searcher_run(b, in, 4, back, NULL, &err), err);
    for (int i = 0; i < 4; i++) check_same(&host[i], &back[i], i, tol);
    assert_memory_equal(back[2].best->ids, prefix, sizeof prefix);
    if (strcmp(backend_name(rig.be), "ref") != 0) assert_int_equal(mem_count(), before);
    searcher_free(a);
    searcher_free(b);
    xfree(in);
    rig_close(&rig);
}

/* ---- queue ----------------------------------------------------------------------------------- */

/* Five rounds of "double what is there": plain, recorded, replayed; and again after the workspace
 * has moved. */
TEST(recordings) {
    enum { N = 64 };
    struct rig rig;
    struct err err = {0};
    struct recording *recording = NULL;
    rig_open(&rig, TEST_ARG, "even", V, 1);
    struct backend *be = rig.be;
    double *sum = backend_alloc(be, 2 * sizeof *sum, &err), got = 0, zero[2] = {0};
    float *x = backend_alloc(be, N * sizeof *x, &err), ones[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    backend_upload(be, x, ones, sizeof ones);
    backend_upload(be, sum, zero, sizeof zero);
    struct sumsq_args a = {.out = {.data = sum, .ld = 1, .rows = 1, .cols = 1, .type = DTYPE_F64},
                           .x = {.data = x, .ld = N, .rows = 1, .cols = N, .type = DTYPE_F32}};
    for (int round = 1; round <= 8; round++) {
        if (round == 5) { /* more workspace than so far */
            struct embed_args large = {
                .dy = {.ld = 64, .rows = 1 << 18, .cols = 64, .type = DTYPE_F32},
                .dtable = {.ld = 64, .rows = 50, .cols = 64, .type = DTYPE_F32}};
            backend_plan(be);
            embed_bwd(be, &large);
            ASSERT_OK(backend_commit(be, &err), err);
        }
        if (!backend_replay(be, &recording)) do {
                sumsq(be, &a);
                sumsq(be, &a);
            } while (backend_recorded(be, &recording));
        backend_post(be, round % POST_SLOTS, sum, sizeof *sum);
        backend_collect(be, round % POST_SLOTS, &got, sizeof got);
        ASSERT_OK(backend_sync(be, &err), err);
        if (got != 2.0 * N * round) fail_msg("round %d: %g", round, got);
    }
    backend_forget(be, recording);
    backend_free(be, sum);
    backend_free(be, x);
    rig_close(&rig);
}

/* Few sizes, and none much larger than what is needed. */
TEST(sizes) {
    int n = 0;
    for (int size = 4, next; size < 8192; size = next, n++) {
        next = resident_next_size(size);
        assert_true(next > size);
        if (size >= 64) assert_true(2 * next <= 3 * size && next % 32 == 0);
        if (size >= 512) assert_true(4 * next <= 5 * size && next % 128 == 0);
    }
    assert_in_range(n, 16, 32);
}

TESTS(T(sizes), TP(host_and_backend_agree, "cpu-f32"), TP(host_and_backend_agree, "cpu-bf16"),
      TP(host_and_backend_agree, "ref-f32"), TP(host_and_backend_agree, "cpu-ssru-f32"),
      TP(host_and_backend_agree, "cpu-pair-f32"), TP(host_and_backend_agree, "cpu-pair-bf16"),
      TP(host_and_backend_agree, "cuda-pair-f32"), TP(host_and_backend_agree, "cuda-pair-bf16"),
      TP(crowds_agree, "cuda-pair-bf16"), TP(host_and_backend_agree, "cpu-foreign-f32"),
      TP(host_and_backend_agree, "cuda-foreign-f32"),
      TP(host_and_backend_agree, "cuda-foreign-bf16"), TP(host_and_backend_agree, "cuda-ssru-f32"),
      TP(host_and_backend_agree, "cuda-ssru-bf16"), TP(host_and_backend_agree, "cuda-f32"),
      TP(host_and_backend_agree, "cuda-bf16"), TP(crowds_agree, "cpu-f32"),
      TP(crowds_agree, "cuda-f32"), TP(crowds_agree, "cuda-ssru-f32"),
      TP(crowds_agree, "cuda-bf16"), TP(no_numbers, "cpu-f32"), TP(no_numbers, "cuda-f32"),
      TP(no_numbers, "cuda-bf16"), TP(conduct, "cpu-f32"), TP(conduct, "cuda-f32"),
      TP(recordings, "cpu-f32"), TP(recordings, "cuda-f32"))
