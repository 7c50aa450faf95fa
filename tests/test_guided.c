/* test_guided.c — guided training: from links of a batch to a head that has learnt them.
 *
 * The op itself is in the table of test_ops.c, links in files are in test_piecelinks.c, and the
 * command in test_train_guided.sh. */
#include "base/mem.h"
#include "gpu.h"
#include "model/transformer.h"
#include "model/view.h"
#include "test.h"
#include "toy.h"

static const struct backend_options two_threads = {.device = "cpu", .n_thread = 2};

/* toy_open for a model that learns links. */
static void guided_open(struct toy *toy, const struct config *config,
                        const struct backend_options *where, enum dtype type, int tokens,
                        struct guided guided) {
    struct err err;
    toy_open(toy, config, where, type, 1);
    struct optimizer_options options = toy->opt->options;
    optimizer_free(toy->opt);
    acts_free(toy->acts);
    toy->model->guided = guided;
    check_ok(acts_new(&toy->acts, toy->model, tokens, tokens, 1, &err), &err);
    check_ok(optimizer_new(&toy->opt, toy->model, toy->acts, &options, &err), &err);
}

/* ---- batches --------------------------------------------------------------------------------- */

static void check_row(const struct batch *b, int row, const int32_t *want, int n) {
    int first = b->span[2 * row], last = b->span[2 * row + 1];
    if (last - first != n) fail_msg("row %d has %d ranges, not %d", row, last - first, n);
    if (n) assert_memory_equal(b->range + 2 * first, want, 2 * (size_t)n * sizeof *want);
}

/* A row has the links of its input, which is the token before: piece t is the input of row t + 1,
 * behind the begin mark. */
TEST(rows_have_the_links_of_their_input) {
    struct batch b;
    struct err err;
    const int32_t ids[] = {7, 8, 9, 10, TOY_EOS};
    check_ok(batch_init(&b, 12, 12, 4, TOY_BOS, &err), &err);
    batch_init_links(&b);
    assert_int_equal(batch_add(&b, ids, 3, ids, 4, &err), 1);
    assert_int_equal(batch_add(&b, ids, 5, ids, 5, &err), 1);
    /* target pieces 0 and 1 are a word of source pieces 2 and 0; piece 3 is one of 1 to 3 */
    const struct piece_link link[] = {{0, 1, 0, 2}, {2, 3, 0, 2}, {1, 4, 3, 4}};
    batch_link(&b, link, 3);
    for (int row = 0; row < 5; row++) check_row(&b, row, NULL, 0);
    check_row(&b, 5, (int32_t[]){0, 1, 2, 3}, 2);
    check_row(&b, 6, (int32_t[]){0, 1, 2, 3}, 2);
    check_row(&b, 7, NULL, 0);
    check_row(&b, 8, (int32_t[]){1, 4}, 1);
    assert_true(b.n_guided == 3 && b.n_range == 3);
    /* No room: the pair goes without. */
    assert_int_equal(batch_add(&b, ids, 2, ids, 2, &err), 1);
    b.cap_range = 5;
    batch_link(&b, link, 3);
    assert_true(b.n_guided == 3 && b.n_range == 3);
    /* A cleared batch has forgotten all of it. */
    batch_clear(&b);
    assert_int_equal(batch_add(&b, ids, 5, ids, 5, &err), 1);
    for (int row = 0; row < 5; row++) check_row(&b, row, NULL, 0);
    assert_true(b.n_guided == 0 && b.n_range == 0);
    batch_release(&b);
}

/* What is loaded is checked: a link outside its sentence would be read on a device. */
TEST(links_outside_their_sentence_are_refused) {
    struct config config = toy_config();
    struct toy toy;
    struct batch b;
    struct err err;
    const int32_t ids[] = {7, 8, 9, TOY_EOS};
    guided_open(&toy, &config, &two_threads, DTYPE_F32, 16, (struct guided){1, 1, 1});
    check_ok(batch_init(&b, 16, 16, 4, TOY_BOS, &err), &err);
    batch_init_links(&b);
    assert_int_equal(batch_add(&b, ids, 3, ids, 4, &err), 1);
    assert_int_equal(batch_add(&b, ids, 4, ids, 4, &err), 1);
    batch_link(&b, (struct piece_link[]){{1, 4, 0, 1}}, 1);
    check_ok(acts_load(toy.acts, &b, &err), &err);
    static const int32_t bad[][2] = {{1, 5}, {-1, 1}, {2, 2}, {3, 2}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        memcpy(b.range, bad[i], sizeof bad[i]);
        ASSERT_ERR(acts_load(toy.acts, &b, &err), err, HEED_EINVAL, "row 5 has links outside");
    }
    b.range[0] = 0, b.range[1] = 1;
    b.span[2 * 5 + 1] = 2;
    ASSERT_ERR(acts_load(toy.acts, &b, &err), err, HEED_EINVAL, "row 5 has links outside");
    batch_release(&b);
    toy_close(&toy);
}

/* ---- gradient -------------------------------------------------------------------------------- */

/* Random pairs, and for most of them random links. */
static void linked_batch(struct batch *b, const int *src_len, const int *tgt_len, int n,
                         int n_vocab, uint64_t seed) {
    struct rng rng = {.key = seed};
    struct err err;
    int32_t src[64], tgt[64];
    check_ok(batch_init(b, 64 * n, 64 * n, n, TOY_BOS, &err), &err);
    batch_init_links(b);
    for (int s = 0; s < n; s++) {
        for (int i = 0; i < src_len[s]; i++)
            src[i] = 4 + (int32_t)rng_below(&rng, (uint32_t)n_vocab - 4);
        for (int i = 0; i < tgt_len[s]; i++)
            tgt[i] = 4 + (int32_t)rng_below(&rng, (uint32_t)n_vocab - 4);
        assert_int_equal(batch_add(b, src, src_len[s], tgt, tgt_len[s], &err), 1);
        if (s % 3 == 2) continue;
        struct piece_link link[64];
        int n_link = 0;
        for (int t = 0; t + 1 < tgt_len[s]; t += 2) {
            int from = (int)rng_below(&rng, (uint32_t)src_len[s]);
            link[n_link++] = (struct piece_link){from, from + 1, t, t + 1};
        }
        batch_link(b, link, n_link);
    }
}

static double objective(struct toy *toy, const struct batch *b, double weight) {
    struct pass pass = {.model = toy->model, .acts = toy->acts};
    struct err err;
    double totals[5];
    check_ok(acts_load(toy->acts, b, &err), &err);
    transformer_fwd(&pass);
    transformer_loss(&pass);
    backend_download(toy->be, totals, toy->acts->totals.data, sizeof totals);
    check_ok(backend_sync(toy->be, &err), &err);
    assert_int_equal((int)totals[4], b->n_guided);
    return totals[0] + weight * totals[3];
}

/* Every layer and norm: the gradient of both losses together against differences, on ref in
 * f64. */
static void check_gradient(int norm, int layer, int head) {
    static const int src_len[] = {4, 2, 5}, tgt_len[] = {3, 4, 2};
    const float weight = 0.7f;
    struct config config = toy_config();
    struct toy toy;
    struct batch b;
    struct err err;
    config.dropout = 0;
    config.d_model = 8;
    config.n_head = 2;
    config.d_k = config.d_v = 0;
    config.d_ff = 6;
    config.n_vocab_src = config.n_vocab_tgt = 9;
    config.norm = norm;
    check_ok(config_check(&config, &err), &err);
    guided_open(&toy, &config, &(struct backend_options){.device = "ref"}, DTYPE_F64, 64,
                (struct guided){layer, head, weight});
    linked_batch(&b, src_len, tgt_len, 3, 9, 5);
    struct pass pass = {
        .model = toy.model, .acts = toy.acts, .grads = toy.opt->g, .training = 1, .grad_scale = 1};
    check_ok(acts_load(toy.acts, &b, &err), &err);
    transformer_fwd(&pass);
    transformer_loss(&pass);
    transformer_bwd(&pass);
    double *flat = toy.model->flat, *grads = toy.opt->grads, most = 0;
    for (size_t i = 0; i < toy.model->table.n_elem; i += 7) {
        double at = flat[i], h = 1e-5;
        flat[i] = at + h;
        double up = objective(&toy, &b, (double)weight);
        flat[i] = at - h;
        double want = (up - objective(&toy, &b, (double)weight)) / (2 * h);
        flat[i] = at;
        if (!(fabs(grads[i] - want) <= 1e-6 * (1 + fabs(want))))
            fail_msg("element %zu: %.9g, differences say %.9g", i, grads[i], want);
        most = fmax(most, fabs(want));
    }
    assert_true(most > 0.1);
    batch_release(&b);
    toy_close(&toy);
}

TEST(gradient_of_both_losses) {
    for (int norm = NORM_POST; norm <= NORM_PRE; norm++)
        for (int layer = 1; layer <= 2; layer++) check_gradient(norm, layer, layer);
}

enum { N_SEQ = 6, TOKENS = 64 * N_SEQ };
static const int lengths_src[N_SEQ] = {7, 1, 20, 5, 33, 9},
                 lengths_tgt[N_SEQ] = {6, 4, 21, 2, 30, 9};

/* The part of a batch that is sentence s. */
static void single(struct batch *out, const struct batch *b, int s) {
    struct err err;
    int n_src = b->src.start[s + 1] - b->src.start[s],
        n_tgt = b->tgt.start[s + 1] - b->tgt.start[s];
    check_ok(batch_init(out, n_src, n_tgt, 1, TOY_BOS, &err), &err);
    batch_init_links(out);
    assert_int_equal(batch_add(out, b->src.ids + b->src.start[s], n_src,
                               b->tgt_out + b->tgt.start[s], n_tgt, &err),
                     1);
    for (int row = b->tgt.start[s] + 1; row < b->tgt.start[s + 1]; row++) {
        int32_t first = b->span[2 * row], t = row - b->tgt.start[s] - 1;
        if (first == b->span[2 * row + 1]) continue;
        const int32_t *range = b->range + 2 * first;
        batch_link(out, &(struct piece_link){range[0], range[1], t, t + 1}, 1);
    }
}

TEST(accumulated_batches_equal_one_large_batch) {
    struct config config = toy_config();
    struct toy a, b;
    struct batch whole, part[N_SEQ];
    struct err err;
    struct update_report ra, rb;
    config.dropout = 0;
    guided_open(&a, &config, &two_threads, DTYPE_F32, TOKENS, (struct guided){2, 3, 1});
    guided_open(&b, &config, &two_threads, DTYPE_F32, TOKENS, (struct guided){2, 3, 1});
    linked_batch(&whole, lengths_src, lengths_tgt, N_SEQ, config.n_vocab_src, 10);
    const struct batch *one[] = {&whole}, *many[N_SEQ];
    for (int s = 0; s < N_SEQ; s++) {
        single(&part[s], &whole, s);
        many[s] = &part[s];
    }
    for (int i = 0; i < 3; i++) {
        check_ok(optimizer_update(a.opt, one, 1, &ra, &err), &err);
        check_ok(optimizer_update(b.opt, many, N_SEQ, &rb, &err), &err);
        assert_true(fabs(ra.loss - rb.loss) < 1e-4 * ra.loss);
        assert_true(fabs(ra.guided - rb.guided) < 1e-4 * ra.guided);
        assert_true(fabs(ra.grad_norm - rb.grad_norm) < 1e-3 * ra.grad_norm);
        assert_true(ra.n_guided == rb.n_guided && ra.n_guided == whole.n_guided);
    }
    for (int s = 0; s < N_SEQ; s++) batch_release(&part[s]);
    batch_release(&whole);
    toy_close(&a);
    toy_close(&b);
}

/* Threads change nothing; without links a guided model learns as any other; with them it does
 * not. */
TEST(same_bits) {
    struct config config = toy_config();
    struct batch links, plain;
    struct err err;
    float *params[4];
    size_t n = 0;
    linked_batch(&links, lengths_src, lengths_tgt, N_SEQ, config.n_vocab_src, 10);
    linked_batch(&plain, lengths_src, lengths_tgt, N_SEQ, config.n_vocab_src, 10);
    memset(plain.span, 0, 2 * (size_t)plain.cap_tgt * sizeof *plain.span);
    plain.n_guided = plain.n_range = 0;
    for (int i = 0; i < 4; i++) {
        struct toy toy;
        struct update_report report;
        const struct batch *one[] = {i < 2 ? &links : &plain};
        guided_open(&toy, &config, &(struct backend_options){"cpu", 1 + i % 2, NULL}, DTYPE_BF16,
                    TOKENS, (struct guided){i < 3 ? 1 : 0, i < 3 ? 4 : 0, 0.5f});
        for (int step = 0; step < 3; step++)
            check_ok(optimizer_update(toy.opt, one, 1, &report, &err), &err);
        assert_int_equal(report.n_guided, i < 2 ? links.n_guided : 0);
        params[i] = toy_params(&toy);
        n = toy.model->table.n_elem;
        toy_close(&toy);
    }
    assert_memory_equal(params[0], params[1], n * sizeof **params);
    assert_memory_equal(params[2], params[3], n * sizeof **params);
    assert_memory_not_equal(params[0], params[2], n * sizeof **params);
    for (int i = 0; i < 4; i++) xfree(params[i]);
    batch_release(&links);
    batch_release(&plain);
}

/* What links need is known beforehand, and is all that is taken. */
TEST(memory_is_planned) {
    struct config config = toy_config();
    struct toy toy;
    struct err err;
    struct acts_need need, plain;
    guided_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS, (struct guided){2, 5, 1});
    check_ok(acts_measure(&need, toy.model, TOKENS, TOKENS, 1, &err), &err);
    assert_int_equal(need.acts, acts_bytes(toy.acts));
    toy.model->guided = (struct guided){0};
    check_ok(acts_measure(&plain, toy.model, TOKENS, TOKENS, 1, &err), &err);
    size_t links = 2 * (TOKENS + LINKS_PER_TOKEN * 2 * TOKENS) * sizeof(int32_t);
    assert_in_range(need.acts - plain.acts, links, links + 1024);
    toy_close(&toy);
}

/* ---- learning -------------------------------------------------------------------------------- */

/* Sentences whose translation is their reverse, so that the truth is known: target i is source
 * n - 1 - i. */
enum { FIRST = 4, N_SYMBOL = 20, LONGEST = 8, BATCH = 512, STEPS = 300, LAYER = 1, HEAD = 2 };

static void reversed(struct batch *b, struct rng *rng) {
    struct err err = {0};
    batch_clear(b);
    for (int rc = 1; rc == 1;) {
        int32_t src[LONGEST + 1], tgt[LONGEST + 1];
        struct piece_link link[LONGEST];
        int n = 1 + (int)rng_below(rng, LONGEST);
        for (int i = 0; i < n; i++) {
            tgt[n - 1 - i] = src[i] = FIRST + (int32_t)rng_below(rng, N_SYMBOL);
            link[i] = (struct piece_link){n - 1 - i, n - i, i, i + 1};
        }
        src[n] = tgt[n] = TOY_EOS;
        rc = batch_add(b, src, n + 1, tgt, n + 1, &err);
        if (rc == 1) batch_link(b, link, n);
        if (rc < 0) check_ok(rc, &err);
    }
}

/* The share of the rows with links whose head looks most at another position. */
static double alignment_error(struct toy *toy, const struct batch *b) {
    struct view *view;
    struct err err;
    struct view_options options = {.layer = {VIEW_NONE, VIEW_NONE, LAYER - 1}};
    check_ok(view_new(&view, toy->acts, &options, &err), &err);
    check_ok(acts_load(toy->acts, b, &err), &err);
    check_ok(view_load(view, &err), &err);
    transformer_fwd(&(struct pass){.model = toy->model, .acts = toy->acts, .view = view});
    float *p = xcalloc(view_size(view, VIEW_CROSS), sizeof *p);
    check_ok(view_read(view, VIEW_CROSS, LAYER - 1, p, &err), &err);
    int wrong = 0, n_tok = b->tgt.n_tok, width = b->src.max_len;
    for (int row = 0; row < n_tok; row++) {
        if (b->span[2 * row] == b->span[2 * row + 1]) continue;
        const float *of = p + ((size_t)(HEAD - 1) * (size_t)n_tok + (size_t)row) * (size_t)width;
        int best = 0;
        for (int j = 1; j < width; j++)
            if (of[j] > of[best]) best = j;
        wrong += best != b->range[2 * b->span[2 * row]];
    }
    xfree(p);
    view_free(view);
    return (double)wrong / b->n_guided;
}

struct learnt {
    double nll, error, guided;
};

static struct learnt learn(const char *device, enum dtype type, float weight) {
    struct config config = toy_config();
    struct toy toy;
    struct err err;
    struct rng rng = {.key = 1};
    struct batch train, test;
    struct update_report report, judged = {0};
    config.n_vocab_src = config.n_vocab_tgt = FIRST + N_SYMBOL;
    config.d_model = 64;
    config.n_head = 4;
    config.d_k = config.d_v = 0;
    config.d_ff = 128;
    config.dropout = 0;
    check_ok(config_check(&config, &err), &err);
    guided_open(&toy, &config, &(struct backend_options){device, 0, NULL}, type, BATCH,
                (struct guided){LAYER, HEAD, weight});
    struct optimizer_options options = optimizer_defaults;
    options.warmup = 100;
    options.lr_scale = 0.25;
    optimizer_free(toy.opt);
    check_ok(optimizer_new(&toy.opt, toy.model, toy.acts, &options, &err), &err);
    check_ok(batch_init(&train, BATCH, BATCH, BATCH, TOY_BOS, &err), &err);
    check_ok(batch_init(&test, BATCH, BATCH, BATCH, TOY_BOS, &err), &err);
    batch_init_links(&train);
    batch_init_links(&test);
    reversed(&test, &(struct rng){.key = 2});
    const struct batch *one[] = {&train};
    for (int i = 0; i < STEPS; i++) {
        reversed(&train, &rng);
        check_ok(optimizer_update(toy.opt, one, 1, &report, &err), &err);
    }
    check_ok(optimizer_evaluate(toy.opt, &test, &judged, &err), &err);
    assert_int_equal(judged.n_guided, test.n_guided);
    struct learnt out = {judged.nll / (double)judged.n_tok, alignment_error(&toy, &test),
                         judged.guided / (double)judged.n_guided};
    print_message("%s %s, weight %g: nll %.4f, links wrong %.1f %%, loss of links %.4f\n", device,
                  dtype_name(type), (double)weight, out.nll, 100 * out.error, out.guided);
    batch_release(&train);
    batch_release(&test);
    toy_close(&toy);
    return out;
}

/* The head learns where words come from, and the translation does not suffer. */
static void learns_links(const char *device, enum dtype type) {
    if (TEST_SANITIZED) SKIP("hundreds of updates, of which the other tests do a few");
    struct learnt without = learn(device, type, 0), with = learn(device, type, 0.5f);
    assert_true(with.error < 0.05); /* 0.022 where AMX rounds */
    assert_true(without.error > 0.2);
    assert_true(with.guided < 0.1 * without.guided);
    assert_true(with.nll < without.nll + 0.1);
}

TEST(a_head_learns_links) { learns_links("cpu", DTYPE_F32); }
TEST(a_head_learns_links_bf16) { learns_links("cpu", DTYPE_BF16); }
TEST(a_head_learns_links_cuda) {
    gpu_needed();
    learns_links("cuda", DTYPE_BF16);
    learns_links("cuda", DTYPE_F32);
}

/* Five updates on the GPU beside the cpu's: same data, same masks. */
TEST(updates_cuda) {
    gpu_needed();
    struct config config = toy_config();
    struct batch b;
    struct err err;
    linked_batch(&b, lengths_src, lengths_tgt, N_SEQ, config.n_vocab_src, 10);
    const struct batch *one[] = {&b};
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        struct toy cpu, gpu, again;
        const struct guided guided = {2, 3, 1};
        double near = type == DTYPE_F32 ? 1e-3 : 2e-2;
        guided_open(&cpu, &config, &two_threads, (enum dtype)type, TOKENS, guided);
        guided_open(&gpu, &config, &(struct backend_options){.device = "cuda"}, (enum dtype)type,
                    TOKENS, guided);
        guided_open(&again, &config, &(struct backend_options){.device = "cuda"}, (enum dtype)type,
                    TOKENS, guided);
        for (int i = 0; i < 5; i++) {
            struct update_report a, c, d;
            check_ok(optimizer_update(cpu.opt, one, 1, &a, &err), &err);
            check_ok(optimizer_update(gpu.opt, one, 1, &c, &err), &err);
            check_ok(optimizer_update(again.opt, one, 1, &d, &err), &err);
            assert_int_equal(a.n_guided, c.n_guided);
            if (!(fabs(a.guided - c.guided) <= near * a.guided &&
                  fabs(a.grad_norm - c.grad_norm) <= 5 * near * a.grad_norm))
                fail_msg("%s, update %d: loss of links %.6g, gradient %.6g on the cpu; %.6g, %.6g",
                         dtype_name((enum dtype)type), i + 1, a.guided, a.grad_norm, c.guided,
                         c.grad_norm);
            assert_memory_equal(&c.guided, &d.guided, sizeof c.guided);
        }
        float *x = toy_params(&gpu), *y = toy_params(&again);
        assert_memory_equal(x, y, gpu.model->table.n_elem * sizeof *x);
        xfree(x);
        xfree(y);
        toy_close(&cpu);
        toy_close(&gpu);
        toy_close(&again);
    }
    batch_release(&b);
}

TESTS(T(rows_have_the_links_of_their_input), T(links_outside_their_sentence_are_refused),
      T(gradient_of_both_losses), T(accumulated_batches_equal_one_large_batch), T(same_bits),
      T(memory_is_planned), T(a_head_learns_links), T(a_head_learns_links_bf16),
      T(a_head_learns_links_cuda), T(updates_cuda))
