/* test_view.c — what attention looks at (model/view.h), which source tokens a target token chose
 * (search/align.h), and how probable a translation is (search/scorer.h).
 *
 * Probabilities are judged by the reference backend, scores by the loss that training computes
 * (and, in test_oracle.c, by PyTorch's logits). */
#include "backend/backend.h"
#include "backend/cpu/isa.h"
#include "model/frozen.h"
#include "model/transformer.h"
#include "model/view.h"
#include "search/align.h"
#include "search/scorer.h"
#include "test.h"
#include "toy.h"

static const int src_len[] = {5, 1, 17, 2, 9, 1, 31}, tgt_len[] = {3, 1, 11, 19, 1, 2, 27};
enum { N_SEQ = 7, TOKENS = 80 };
static const struct backend_options two_threads = {.device = "cpu", .n_thread = 2};
static const struct view_options everything = {.layer = {VIEW_ALL, VIEW_ALL, VIEW_ALL}};

/* ---- views ----------------------------------------------------------------------------------- */

/* All probabilities of a batch: [kind][layer] of the toy model, each view_size numbers. */
struct seen {
    float *p[VIEW_KINDS][2];
    int n_q[VIEW_KINDS], max_k[VIEW_KINDS];
};

static void look(struct seen *seen, struct toy *toy, const struct batch *batch) {
    struct err err;
    struct view *view;
    *seen = (struct seen){0};
    check_ok(view_new(&view, toy->acts, &everything, &err), &err);
    check_ok(acts_load(toy->acts, batch, &err), &err);
    check_ok(view_load(view, &err), &err);
    uint64_t before = mem_count();
    transformer_fwd(&(struct pass){.model = toy->model, .acts = toy->acts, .view = view});
    check_ok(backend_sync(toy->be, &err), &err);
    if (strcmp(backend_name(toy->be), "ref") != 0)
        assert_int_equal(mem_count(), before); /* planned */
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        seen->n_q[kind] = kind == VIEW_ENC ? batch->src.n_tok : batch->tgt.n_tok;
        seen->max_k[kind] = kind == VIEW_DEC ? batch->tgt.max_len : batch->src.max_len;
        size_t n = view_size(view, kind);
        assert_int_equal(n, (size_t)toy->model->config.n_head * (size_t)seen->n_q[kind] *
                                (size_t)seen->max_k[kind]);
        for (int l = 0; l < view_layers(&toy->model->config, kind); l++) {
            seen->p[kind][l] = xcalloc(n, sizeof(float));
            check_ok(view_read(view, kind, l, seen->p[kind][l], &err), &err);
        }
    }
    view_free(view);
}

static void seen_release(struct seen *seen) {
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int l = 0; l < 2; l++) xfree(seen->p[kind][l]);
}

static const float *row_of(const struct seen *seen, int kind, int l, int h, int i) {
    size_t row = (size_t)h * (size_t)seen->n_q[kind] + (size_t)i;
    return seen->p[kind][l] + row * (size_t)seen->max_k[kind];
}

/* Query i of a sentence that has n_k keys. */
static void check_row(const float *p, int kind, int i, int n_k, int window, double tol) {
    double sum = 0;
    for (int j = 0; j < n_k; j++) {
        int hidden =
            (kind == VIEW_DEC && j > i) || (kind != VIEW_CROSS && window && abs(i - j) > window);
        if (hidden ? p[j] != 0 : !(p[j] > 0 && p[j] <= 1 + (float)tol))
            fail_msg("kind %d: query %d, key %d of %d has %g", kind, i, j, n_k, (double)p[j]);
        sum += (double)p[j];
    }
    ASSERT_NEAR(sum, 1, tol);
}

static void check_seen(const struct seen *seen, const struct batch *batch, int n_head, int window,
                       double tol) {
    for (int kind = 0; kind < VIEW_KINDS; kind++) {
        const struct packed *q = kind == VIEW_ENC ? &batch->src : &batch->tgt;
        const struct packed *k = kind == VIEW_DEC ? &batch->tgt : &batch->src;
        if (!seen->p[kind][0]) continue; /* an SSRU has none */
        for (int s = 0; s < batch->n_seq; s++)
            for (int r = q->start[s]; r < q->start[s + 1]; r++)
                for (int h = 0; h < 2 * n_head; h++) {
                    const float *p = row_of(seen, kind, h % 2, h / 2, r);
                    int n_k = k->start[s + 1] - k->start[s];
                    check_row(p, kind, r - q->start[s], n_k, window, tol);
                    for (int j = n_k; j < seen->max_k[kind]; j++) assert_true(p[j] == 0);
                }
    }
}

TEST(rows_sum_to_one_and_respect_masks) {
    for (int window = 0; window <= 3; window += 3)
        for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
            struct config config = toy_config();
            struct toy toy;
            struct batch batch;
            struct seen seen;
            config.window = window;
            toy_open(&toy, &config, &two_threads, (enum dtype)type, TOKENS);
            toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 5);
            look(&seen, &toy, &batch);
            check_seen(&seen, &batch, config.n_head, window, 1e-5);
            seen_release(&seen);
            batch_release(&batch);
            toy_close(&toy);
        }
}

/* Largest difference between two looks at the same batch. */
static double apart(const struct seen *a, const struct seen *b, int n_head) {
    double worst = 0;
    for (int kind = 0; kind < VIEW_KINDS; kind++)
        for (int l = 0; l < 2; l++)
            for (int i = 0; i < n_head * a->n_q[kind] * a->max_k[kind]; i++)
                worst = fmax(worst, fabs((double)a->p[kind][l][i] - (double)b->p[kind][l][i]));
    return worst;
}

TEST(equals_the_reference) {
    struct config config = toy_config();
    struct toy ref;
    struct batch batch;
    struct seen want;
    config.norm = NORM_PRE;
    toy_open(&ref, &config, &(struct backend_options){.device = "ref"}, DTYPE_F64, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 6);
    look(&want, &ref, &batch);
    for (int i = 0; isa_table[i]; i++)
        for (int type = DTYPE_F32; type <= DTYPE_BF16 && isa_usable(isa_table[i]); type++) {
            struct toy toy;
            struct seen got;
            toy_open(&toy, &config,
                     &(struct backend_options){"cpu", .n_thread = 2, .isa = isa_table[i]->name},
                     (enum dtype)type, TOKENS);
            look(&got, &toy, &batch);
            ASSERT_NEAR(apart(&got, &want, config.n_head), 0, type == DTYPE_F32 ? 1e-5 : 3e-2);
            seen_release(&got);
            toy_close(&toy);
        }
    seen_release(&want);
    batch_release(&batch);
    toy_close(&ref);
}

/* One sentence of a batch as a batch of its own. */
static void single(struct batch *one, const struct batch *b, int s) {
    struct err err;
    int ns = b->src.start[s + 1] - b->src.start[s], nt = b->tgt.start[s + 1] - b->tgt.start[s];
    check_ok(batch_init(one, ns, nt, 1, TOY_BOS, &err), &err);
    assert_int_equal(
        batch_add(one, b->src.ids + b->src.start[s], ns, b->tgt_out + b->tgt.start[s], nt, &err),
        1);
}

TEST(neighbours_do_not_matter) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch, one;
    struct seen all, alone;
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 7);
    look(&all, &toy, &batch);
    for (int s = 0; s < N_SEQ; s++) {
        single(&one, &batch, s);
        look(&alone, &toy, &one);
        for (int kind = 0; kind < VIEW_KINDS; kind++) {
            const struct packed *q = kind == VIEW_ENC ? &batch.src : &batch.tgt;
            for (int i = 0; i < alone.n_q[kind]; i++)
                for (int h = 0; h < 2 * config.n_head; h++)
                    assert_memory_equal(row_of(&alone, kind, h % 2, h / 2, i),
                                        row_of(&all, kind, h % 2, h / 2, q->start[s] + i),
                                        (size_t)alone.max_k[kind] * sizeof(float));
        }
        seen_release(&alone);
        batch_release(&one);
    }
    seen_release(&all);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(a_view_changes_no_result) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    struct seen seen;
    struct err err;
    double with[3], without[3];
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 8);
    look(&seen, &toy, &batch); /* leaves the decoder's output in the activations */
    transformer_loss(&(struct pass){.model = toy.model, .acts = toy.acts});
    backend_download(toy.be, with, toy.acts->totals.data, sizeof with);
    check_ok(acts_load(toy.acts, &batch, &err), &err);
    transformer_fwd(&(struct pass){.model = toy.model, .acts = toy.acts});
    transformer_loss(&(struct pass){.model = toy.model, .acts = toy.acts});
    backend_download(toy.be, without, toy.acts->totals.data, sizeof without);
    check_ok(backend_sync(toy.be, &err), &err);
    assert_memory_equal(with, without, sizeof with);
    seen_release(&seen);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(impossible_views_are_refused) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    struct view *view;
    struct acts *encoder;
    struct err err;
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 8);
    ASSERT_ERR(
        view_new(&view, toy.acts, &(struct view_options){.layer = {VIEW_NONE, 2, VIEW_NONE}}, &err),
        err, HEED_EINVAL, "layer 3: the decoder has 2");
    ASSERT_ERR(view_new(&view, toy.acts, &(struct view_options){.layer = {-3, 0, 0}}, &err), err,
               HEED_EINVAL, "the encoder has 2");
    assert_null(view);
    check_ok(acts_new(&encoder, toy.model, TOKENS, 0, 0, &err), &err);
    ASSERT_ERR(view_new(&view, encoder, &everything, &err), err, HEED_EINVAL, "encoder alone");
    acts_free(encoder);
    struct view_options narrow = everything;
    narrow.cells = 200; /* the batch has 66 source tokens, 31 the longest */
    check_ok(view_new(&view, toy.acts, &narrow, &err), &err);
    check_ok(acts_load(toy.acts, &batch, &err), &err);
    ASSERT_ERR(view_load(view, &err), err, HEED_ELIMIT, "66 queries and up to 31 keys");
    view_free(view);
    batch_release(&batch);
    toy_close(&toy);
}

/* A recurrence has no probabilities: all there is to see are the other two kinds. */
TEST(an_ssru_decoder_shows_cross_attention_only) {
    struct config config = toy_ssru_config(), plain = toy_foreign_config();
    struct toy toy;
    struct batch batch;
    struct seen seen;
    struct view *view;
    struct err err;
    assert_int_equal(view_layers(&plain, VIEW_DEC), 2);
    assert_int_equal(view_layers(&config, VIEW_DEC), 0);
    assert_int_equal(view_layers(&config, VIEW_CROSS), 2);
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    ASSERT_ERR(
        view_new(&view, toy.acts, &(struct view_options){.layer = {VIEW_NONE, 0, VIEW_NONE}}, &err),
        err, HEED_EINVAL, "the decoder has 0");
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 5);
    look(&seen, &toy, &batch);
    assert_null(seen.p[VIEW_DEC][0]);
    check_seen(&seen, &batch, config.n_head, 0, 1e-5);
    seen_release(&seen);
    batch_release(&batch);
    toy_close(&toy);
}

/* ---- alignment ------------------------------------------------------------------------------- */

static int new_aligner(struct aligner **aligner, struct model *model, struct align_options choice,
                       struct batch_caps caps, struct err *err) {
    struct aligner_setup setup = {.bos = TOY_BOS, .choice = &choice, .n_choice = 1, .caps = caps};
    return aligner_new(aligner, model, &setup, err);
}

static void align_all(struct aligner *aligner, const struct batch *b, float **out, int first,
                      int n) {
    struct err err;
    struct align_pair pair[N_SEQ];
    for (int s = first; s < first + n; s++)
        pair[s - first] =
            (struct align_pair){b->src.ids + b->src.start[s], b->tgt_out + b->tgt.start[s],
                                src_len[s], tgt_len[s], out[s]};
    check_ok(aligner_run(aligner, pair, n, &err), &err);
}

static void new_matrices(float *out[N_SEQ], int n_choice) {
    for (int s = 0; s < N_SEQ; s++)
        out[s] = xcalloc((size_t)(n_choice * src_len[s] * tgt_len[s]), sizeof **out);
}

static void free_matrices(float *out[N_SEQ]) {
    for (int s = 0; s < N_SEQ; s++) xfree(out[s]);
}

/* Row j of sentence s must be that of the decoder which has token j as input: the next one, except
 * for the last token; or the one that writes it. */
static void check_matrix(const struct seen *seen, const struct batch *b, const float *out, int s,
                         struct align_options o) {
    enum { HEADS = 5 };
    int n_src = src_len[s], n_tgt = tgt_len[s];
    for (int j = 0; j < n_tgt; j++) {
        double sum = 0;
        int output = o.row != ALIGN_INPUT; /* auto: two layers are few */
        int row = output || j + 1 == n_tgt ? j : j + 1;
        for (int i = 0; i < n_src; i++) {
            double want = 0;
            for (int h = 0; h < HEADS; h++)
                if (o.head == 0 || h == o.head - 1)
                    want += (double)row_of(seen, VIEW_CROSS, o.layer ? o.layer - 1 : 1, h,
                                           b->tgt.start[s] + row)[i];
            if (o.head == 0) want /= HEADS;
            ASSERT_NEAR((double)out[j * n_src + i], want, 1e-6);
            sum += (double)out[j * n_src + i];
        }
        ASSERT_NEAR(sum, 1, 1e-5);
    }
}

static const struct align_options choices[] = {
    {0, 0, ALIGN_AUTO, 0}, /* the last of two layers, all heads, output row */
    {1, 0, ALIGN_AUTO, 0}, /* of the first, the same row */
    {2, 0, ALIGN_OUTPUT, 0}, {2, 4, ALIGN_INPUT, 0},
    {1, 2, ALIGN_OUTPUT, 0}, {1, 3, ALIGN_INPUT, 0}};
enum { N_CHOICE = 6 };

TEST(an_alignment_is_cross_attention) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    struct seen seen;
    struct err err;
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 9);
    look(&seen, &toy, &batch);
    for (int c = 0; c < N_CHOICE; c++) {
        struct aligner *roomy, *tight;
        float *out[N_SEQ], *again[N_SEQ];
        check_ok(new_aligner(&roomy, toy.model, choices[c], (struct batch_caps){TOKENS, TOKENS, 16},
                             &err),
                 &err);
        check_ok(new_aligner(&tight, toy.model, choices[c], (struct batch_caps){31, 27, 2}, &err),
                 &err);
        new_matrices(out, 1);
        new_matrices(again, 1);
        align_all(roomy, &batch, out, 0, N_SEQ);
        align_all(tight, &batch, again, 0, N_SEQ); /* in many rounds */
        for (int s = 0; s < N_SEQ; s++) {
            check_matrix(&seen, &batch, out[s], s, choices[c]);
            assert_memory_equal(out[s], again[s], (size_t)(src_len[s] * tgt_len[s]) * sizeof **out);
        }
        free_matrices(out);
        free_matrices(again);
        aligner_free(roomy);
        aligner_free(tight);
    }
    seen_release(&seen);
    batch_release(&batch);
    toy_close(&toy);
}

/* Several choices at once give what each gives alone. */
TEST(an_aligner_can_compare) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    struct seen seen;
    struct err err;
    struct aligner *aligner;
    float *out[N_SEQ];
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 9);
    look(&seen, &toy, &batch);
    for (int n = 2; n <= N_CHOICE; n++) { /* the last two share a layer, and need two heads of it */
        const struct align_options *first = choices + N_CHOICE - n;
        struct aligner_setup setup = {TOY_BOS, first, n, {TOKENS, TOKENS, 16}, NULL, NULL};
        check_ok(aligner_new(&aligner, toy.model, &setup, &err), &err);
        new_matrices(out, n);
        align_all(aligner, &batch, out, 0, N_SEQ);
        for (int s = 0; s < N_SEQ; s++)
            for (int c = 0; c < n; c++)
                check_matrix(&seen, &batch, out[s] + c * src_len[s] * tgt_len[s], s, first[c]);
        free_matrices(out);
        aligner_free(aligner);
    }
    seen_release(&seen);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(usual_alignments) {
    static const struct align_options want[] = {{1, 0, ALIGN_OUTPUT, 0}, {2, 0, ALIGN_OUTPUT, 0},
                                                {3, 0, ALIGN_OUTPUT, 0}, {2, 0, ALIGN_INPUT, 0},
                                                {3, 0, ALIGN_INPUT, 0},  {3, 0, ALIGN_INPUT, 0}};
    for (int n = 1; n <= 6; n++) {
        struct align_options got = align_default(n);
        assert_memory_equal(&got, &want[n - 1], sizeof got);
    }
}

TEST(impossible_alignments_are_refused) {
    struct config config = toy_config();
    struct toy toy;
    struct aligner *aligner;
    struct err err;
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    ASSERT_ERR(new_aligner(&aligner, toy.model, (struct align_options){3, 0, ALIGN_INPUT, 0},
                           (struct batch_caps){9, 9, 1}, &err),
               err, HEED_EINVAL, "alignment_layer: there is no such layer; the decoder has 2");
    ASSERT_ERR(new_aligner(&aligner, toy.model, (struct align_options){0, 6, ALIGN_INPUT, 0},
                           (struct batch_caps){9, 9, 1}, &err),
               err, HEED_EINVAL, "alignment_head: there is no such head; a layer has 5");
    assert_null(aligner);
    check_ok(new_aligner(&aligner, toy.model, (struct align_options){0, 0, ALIGN_INPUT, 0},
                         (struct batch_caps){4, 4, 1}, &err),
             &err);
    int32_t ids[5] = {5, 6, 7, 8, TOY_EOS};
    float out[25];
    struct align_pair pair = {ids, ids, 5, 4, out};
    ASSERT_ERR(aligner_run(aligner, &pair, 1, &err), err, HEED_ELIMIT, "5 source tokens");
    aligner_free(aligner);
    toy_close(&toy);
}

TEST(links_are_the_largest_of_each_row) {
    struct align_link link[4];
    const float matrix[] = {
        0.1f, 0.6f, 0.1f, 0.2f, /* 1 */
        0.3f, 0.3f, 0.0f, 0.4f, /* 0: a tie, and the end mark does not count */
        0.2f, 0.3f, 0.4f, 0.1f, /* 2 */
        0.9f, 0.0f, 0.0f, 0.1f, /* the end mark */
    };
    assert_int_equal(align_links(link, &(struct align_matrix){matrix, 3, 3, 4}, 0), 3);
    const struct align_link want[] = {{0, 1}, {1, 0}, {2, 2}};
    assert_memory_equal(link, want, sizeof want);
    assert_int_equal(align_links(link, &(struct align_matrix){matrix, 0, 3, 4}, 0), 0);
    assert_int_equal(align_links(link, &(struct align_matrix){matrix, 3, 0, 4}, 0), 0);
    /* and so it is with a threshold */
    assert_int_equal(align_links(link, &(struct align_matrix){matrix, 3, 3, 4}, 0.4f), 2);
    assert_memory_equal(link, (want + 1), sizeof *link);
    const float nothing[] = {0, 0, 0.5f, 0}; /* a row without a value has no link */
    assert_int_equal(align_links(link, &(struct align_matrix){nothing, 2, 2, 2}, 0), 1);
    assert_memory_equal(link, (&(const struct align_link){0, 1}), sizeof *link);
}

/* By hand: two source words of two and one tokens and an end mark, three target words, the second
 * of which has no tokens. */
TEST(words_sum_their_source_tokens_and_average_their_target_tokens) {
    const float matrix[] = {
        0.1f, 0.3f, 0.4f, 0.2f, /* target word 0 */
        0.5f, 0.1f, 0.0f, 0.4f, /* again */
        0.2f, 0.2f, 0.6f, 0.0f, /* no word */
        0.0f, 0.2f, 0.3f, 0.5f, /* target word 2 */
    };
    const int src_of[] = {0, 0, 1, -1}, tgt_of[] = {0, 0, -1, 2};
    const double want[] = {0.5, 0.2, 0, 0, 0.2, 0.3};
    float out[6];
    align_to_words(out, &(struct align_matrix){matrix, 4, 4, 4},
                   &(struct align_words){src_of, tgt_of, 2, 3});
    for (int i = 0; i < 6; i++) ASSERT_NEAR((double)out[i], want[i], 1e-6);
}

/* ---- scores ---------------------------------------------------------------------------------- */

struct forced {
    struct score_pair pair[16];
    float out[256];
    int n;
};

static void force(struct forced *f, const struct batch *b) {
    f->n = b->n_seq;
    for (int s = 0; s < b->n_seq; s++)
        f->pair[s] =
            (struct score_pair){b->src.ids + b->src.start[s], b->tgt_out + b->tgt.start[s],
                                b->src.start[s + 1] - b->src.start[s],
                                b->tgt.start[s + 1] - b->tgt.start[s], f->out + b->tgt.start[s]};
}

/* Scores whole, in small batches and one by one: the same bits; their sum: what training calls
 * nll. */
TEST(scores_are_the_loss_and_do_not_depend_on_batches) {
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        struct config config = toy_config();
        struct toy toy;
        struct batch batch;
        struct err err;
        struct scorer *roomy, *tight;
        struct forced f, g;
        double totals[3], sum = 0;
        toy_open(&toy, &config, &two_threads, (enum dtype)type, TOKENS);
        toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 10);
        check_ok(acts_load(toy.acts, &batch, &err), &err);
        transformer_fwd(&(struct pass){.model = toy.model, .acts = toy.acts});
        transformer_loss(&(struct pass){.model = toy.model, .acts = toy.acts});
        backend_download(toy.be, totals, toy.acts->totals.data, sizeof totals);
        check_ok(backend_sync(toy.be, &err), &err);
        force(&f, &batch);
        force(&g, &batch);
        check_ok(
            scorer_new(&roomy, toy.model, TOY_BOS, &(struct batch_caps){TOKENS, TOKENS, 99}, &err),
            &err);
        check_ok(scorer_new(&tight, toy.model, TOY_BOS, &(struct batch_caps){32, 28, 2}, &err),
                 &err);
        check_ok(scorer_run(roomy, f.pair, f.n, &err), &err);
        check_ok(scorer_run(tight, g.pair, g.n, &err), &err);
        assert_memory_equal(f.out, g.out, (size_t)batch.tgt.n_tok * sizeof *f.out);
        for (int s = 0; s < f.n; s++) check_ok(scorer_run(roomy, &g.pair[s], 1, &err), &err);
        assert_memory_equal(f.out, g.out, (size_t)batch.tgt.n_tok * sizeof *f.out);
        for (int i = 0; i < batch.tgt.n_tok; i++) sum += (double)f.out[i];
        ASSERT_NEAR(-sum, totals[1], 1e-9 * totals[1]);
        scorer_free(roomy);
        scorer_free(tight);
        batch_release(&batch);
        toy_close(&toy);
    }
}

/* A frozen model has no loss: its scores come from logits, and are the same; so are its
 * alignments. */
static void frozen_agrees(enum precision precision, double tolerance) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    struct err err;
    struct frozen *frozen;
    struct model *model;
    struct scorer *plain, *roomy, *tight;
    struct aligner *aligner;
    struct forced want, got, again;
    float *matrix[N_SEQ];
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 12);
    check_ok(frozen_from_model(&frozen, toy.model, precision, 1, &err), &err);
    check_ok(frozen_model(&model, frozen, toy.be, &err), &err);
    force(&want, &batch);
    force(&got, &batch);
    force(&again, &batch);
    check_ok(scorer_new(&plain, toy.model, TOY_BOS, &(struct batch_caps){TOKENS, TOKENS, 99}, &err),
             &err);
    check_ok(scorer_new(&roomy, model, TOY_BOS, &(struct batch_caps){TOKENS, TOKENS, 99}, &err),
             &err);
    check_ok(scorer_new(&tight, model, TOY_BOS, &(struct batch_caps){32, 28, 2}, &err), &err);
    check_ok(scorer_run(plain, want.pair, want.n, &err), &err);
    check_ok(scorer_run(roomy, got.pair, got.n, &err), &err);
    check_ok(scorer_run(tight, again.pair, again.n, &err), &err);
    assert_memory_equal(got.out, again.out, (size_t)batch.tgt.n_tok * sizeof *got.out);
    for (int i = 0; i < batch.tgt.n_tok; i++)
        ASSERT_NEAR((double)got.out[i], (double)want.out[i], tolerance);
    check_ok(new_aligner(&aligner, model, (struct align_options){0, 0, ALIGN_INPUT, 0},
                         (struct batch_caps){TOKENS, TOKENS, 16}, &err),
             &err);
    new_matrices(matrix, 1);
    align_all(aligner, &batch, matrix, 0, N_SEQ);
    for (int s = 0; s < N_SEQ; s++) {
        for (int j = 0; j < tgt_len[s]; j++) {
            double sum = 0;
            for (int i = 0; i < src_len[s]; i++) sum += (double)matrix[s][j * src_len[s] + i];
            ASSERT_NEAR(sum, 1, 1e-5);
        }
    }
    free_matrices(matrix);
    aligner_free(aligner);
    scorer_free(plain);
    scorer_free(roomy);
    scorer_free(tight);
    model_free(model);
    frozen_close(frozen);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(frozen_models_score_and_align_the_same) {
    frozen_agrees(PRECISION_F32, 1e-5);
    frozen_agrees(PRECISION_BF16, 0.2);
    frozen_agrees(PRECISION_INT8, 0.2);
}

TESTS(T(frozen_models_score_and_align_the_same), T(rows_sum_to_one_and_respect_masks),
      T(equals_the_reference), T(neighbours_do_not_matter), T(a_view_changes_no_result),
      T(an_ssru_decoder_shows_cross_attention_only), T(impossible_views_are_refused),
      T(an_alignment_is_cross_attention), T(an_aligner_can_compare), T(usual_alignments),
      T(words_sum_their_source_tokens_and_average_their_target_tokens),
      T(impossible_alignments_are_refused), T(links_are_the_largest_of_each_row),
      T(scores_are_the_loss_and_do_not_depend_on_batches))
