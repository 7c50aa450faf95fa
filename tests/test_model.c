/* test_model.c — properties of the whole model: independence of batch neighbours and threads,
 * causality, windows, decoding over the cache, accumulation, memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>

#include "backend/cpu/isa.h"
#include "model/step.h"
#include "model/transformer.h"
#include "test.h"
#include "toy.h"

static const int src_len[] = {5, 1, 17, 2, 9, 1, 31}, tgt_len[] = {3, 1, 11, 19, 1, 2, 27};
enum { N_SEQ = 7, TOKENS = 80 };
static const struct backend_options two_threads = {.device = "cpu", .n_thread = 2};

static void same_bits(const float *a, const float *b, size_t n, const char *what) {
    for (size_t i = 0; i < n; i++)
        if (memcmp(&a[i], &b[i], sizeof *a) != 0)
            fail_msg("%s: element %zu is %.9g and %.9g", what, i, (double)a[i], (double)b[i]);
}

/* ---- batches --------------------------------------------------------------------------------- */

/* One sentence of a batch as a batch of its own. */
static void single(struct batch *one, const struct batch *b, int s) {
    struct err err;
    int ns = b->src.start[s + 1] - b->src.start[s], nt = b->tgt.start[s + 1] - b->tgt.start[s];
    check_ok(batch_init(one, ns, nt, 1, TOY_BOS, &err), &err);
    assert_int_equal(
        batch_add(one, b->src.ids + b->src.start[s], ns, b->tgt_out + b->tgt.start[s], nt, &err),
        1);
}

static void packed_equals_single(const struct config *config, const char *isa, enum dtype type) {
    struct toy toy;
    struct batch batch, one;
    size_t v = (size_t)config->n_vocab_tgt;
    toy_open(&toy, config, &(struct backend_options){.device = "cpu", .n_thread = 2, .isa = isa},
             type, TOKENS);
    toy_disturb(toy.model);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config->n_vocab_src, 5);
    float *all = toy_logits(&toy, &batch);
    for (int s = 0; s < N_SEQ; s++) {
        single(&one, &batch, s);
        float *alone = toy_logits(&toy, &one);
        same_bits(alone, all + (size_t)batch.tgt.start[s] * v, (size_t)tgt_len[s] * v,
                  "packed and single");
        xfree(alone);
        batch_release(&one);
    }
    xfree(all);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(packed_batch_equals_one_by_one) {
    struct config config = toy_config();
    for (int i = 0; isa_table[i]; i++)
        if (isa_usable(isa_table[i])) {
            packed_equals_single(&config, isa_table[i]->name, DTYPE_F32);
            packed_equals_single(&config, isa_table[i]->name, DTYPE_BF16);
        }
    config.norm = NORM_PRE;
    config.activation = ACT_SILU;
    config.window = 3;
    packed_equals_single(&config, NULL, DTYPE_F32);
    config = toy_foreign_config();
    packed_equals_single(&config, NULL, DTYPE_F32);
    packed_equals_single(&config, NULL, DTYPE_BF16);
    config = toy_ssru_config();
    packed_equals_single(&config, NULL, DTYPE_F32);
    packed_equals_single(&config, NULL, DTYPE_BF16);
}

/* Parameters after a few updates with all kinds of dropout, as a function of the number of
 * threads. */
static float *trained(struct config config, int n_thread, enum dtype type, size_t *n) {
    config.dropout = 0.3f;
    config.attention_dropout = 0.1f;
    config.activation_dropout = 0.2f;
    struct toy toy;
    struct batch batch;
    struct err err;
    toy_open(&toy, &config, &(struct backend_options){.device = "cpu", .n_thread = n_thread}, type,
             TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 6);
    const struct batch *twice[] = {&batch, &batch};
    for (int i = 0; i < 5; i++) {
        struct update_report report;
        check_ok(optimizer_update(toy.opt, twice, 2, &report, &err), &err);
        assert_true(isfinite(report.loss) && report.grad_norm > 0);
    }
    *n = toy.model->table.n_elem;
    float *flat = toy_params(&toy);
    batch_release(&batch);
    toy_close(&toy);
    return flat;
}

static void same_for_any_threads(struct config c) {
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        size_t n;
        enum dtype t = (enum dtype)type;
        float *one = trained(c, 1, t, &n), *two = trained(c, 2, t, &n),
              *three = trained(c, 3, t, &n), *again = trained(c, 2, t, &n);
        same_bits(one, two, n, "1 and 2 threads");
        same_bits(one, three, n, "1 and 3 threads");
        same_bits(two, again, n, "two runs");
        xfree(one);
        xfree(two);
        xfree(three);
        xfree(again);
    }
}

TEST(same_seed_same_bits_for_any_threads) {
    same_for_any_threads(toy_config());
    same_for_any_threads(toy_ssru_config());
}

/* Sets with fused multiply-add compute the same f32 numbers in the same order: a translation must
 * not depend on the processor. Depths above and below the blocks of gemm.h, odd widths, a smooth
 * activation. */
static void same_on_all_sets(const struct config *config) {
    struct batch batch;
    float *first = NULL;
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config->n_vocab_src, 5);
    for (int i = 0; isa_table[i]; i++) {
        if (!isa_usable(isa_table[i]) || strcmp(isa_table[i]->name, "generic") == 0) continue;
        struct backend_options where = {.device = "cpu", .n_thread = 2, .isa = isa_table[i]->name};
        struct toy toy;
        toy_open(&toy, config, &where, DTYPE_F32, TOKENS);
        float *logits = toy_logits(&toy, &batch);
        if (!first) first = xcalloc((size_t)batch.tgt.n_tok, (size_t)config->n_vocab_tgt * 4);
        size_t n = (size_t)batch.tgt.n_tok * (size_t)config->n_vocab_tgt;
        if (first[0] == 0)
            memcpy(first, logits, n * sizeof *first);
        else
            same_bits(logits, first, n, isa_table[i]->name);
        xfree(logits);
        toy_close(&toy);
    }
    xfree(first);
    batch_release(&batch);
}

TEST(all_instruction_sets_give_the_same_f32_bits) {
    struct config config = toy_config();
    same_on_all_sets(&config);
    config.activation = ACT_GELU;
    config.d_ff = 1300;
    same_on_all_sets(&config);
    config.activation = ACT_SILU;
    config.norm = NORM_PRE;
    same_on_all_sets(&config);
    config = toy_ssru_config();
    same_on_all_sets(&config);
}

/* ---- attention ------------------------------------------------------------------------------- */

static void later_changes_nothing(const struct config *config) {
    struct toy toy;
    struct batch batch;
    size_t v = (size_t)config->n_vocab_tgt;
    toy_open(&toy, config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config->n_vocab_src, 7);
    float *before = toy_logits(&toy, &batch);
    int s = 6, first = batch.tgt.start[s], changed = first + 13;
    batch.tgt.ids[changed] = batch.tgt.ids[changed] == 9 ? 10 : 9;
    float *after = toy_logits(&toy, &batch);
    if (config->mask == MASK_CAUSAL)
        same_bits(before, after, (size_t)changed * v, "logits before the changed token");
    else /* its sentence's first row has seen it, other sentences have not */
        assert_true(
            memcmp(before + (size_t)first * v, after + (size_t)first * v, v * sizeof *before) != 0);
    same_bits(before, after, (size_t)first * v, "other sentences");
    size_t differ = 0;
    for (size_t i = (size_t)changed * v; i < (size_t)batch.tgt.start[s + 1] * v; i++)
        differ += before[i] != after[i];
    assert_true(differ > v); /* and it does matter afterwards */
    xfree(before);
    xfree(after);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(later_target_tokens_do_not_change_earlier_logits) {
    struct config config = toy_config();
    later_changes_nothing(&config);
    config = toy_ssru_config();
    later_changes_nothing(&config);
    config = toy_config();
    config.mask = MASK_NONE;
    later_changes_nothing(&config);
}

static float *logits_with_window(int window, size_t *n) {
    struct config config = toy_config();
    struct toy toy;
    struct batch batch;
    config.window = window;
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 8);
    float *logits = toy_logits(&toy, &batch);
    *n = (size_t)batch.tgt.n_tok * (size_t)config.n_vocab_tgt;
    batch_release(&batch);
    toy_close(&toy);
    return logits;
}

TEST(window_as_long_as_the_sentence_is_full_attention) {
    size_t n;
    float *full = logits_with_window(0, &n), *wide = logits_with_window(31, &n),
          *narrow = logits_with_window(2, &n);
    same_bits(full, wide, n, "full and windowed");
    assert_true(memcmp(full, narrow, n * sizeof *full) != 0);
    xfree(full);
    xfree(wide);
    xfree(narrow);
}

/* ---- decoding -------------------------------------------------------------------------------- */

/* Feeds the targets token by token through the cache, with the hypotheses shuffled and one of them
 * dropped on the way, and compares each step's logits with those of the whole-sentence pass. */
static void cached_equals_full(struct config *config, enum dtype type, double tolerance) {
    struct toy toy;
    struct batch batch;
    struct stepper *stepper;
    struct acts *encoder;
    struct err err;
    int lens[] = {8, 8, 8, 8}, n = 4, v = config->n_vocab_tgt;
    toy_open(&toy, config, &two_threads, type, TOKENS);
    toy_disturb(toy.model);
    toy_batch(&batch, src_len, lens, n, config->n_vocab_src, 9);
    if (config->embed_norm)
        for (int s = 0; s < n; s++) batch.tgt.ids[batch.tgt.start[s]] = -1;
    float *full = toy_logits(&toy, &batch), *row = xcalloc((size_t)(n * v), sizeof *row);
    check_ok(acts_new(&encoder, toy.model, TOKENS, 0, 0, &err), &err);
    check_ok(stepper_new(&stepper, toy.model, &(struct stepper_caps){n, 8, TOKENS, 1, 0}, &err),
             &err);
    check_ok(acts_load_src(encoder, &batch.src, n, &err), &err);
    transformer_encode(&(struct pass){.model = toy.model, .acts = encoder});
    stepper_admit(stepper, encoder, 0, batch.src.n_tok, 0);
    check_ok(stepper_begin(stepper, &batch.src, n, &err), &err);
    int32_t sentence[4] = {0, 1, 2, 3}, ids[4], parent[4];
    for (int t = 0, was = n; t < 8; was = n, t++) {
        int32_t old[4];
        memcpy(old, sentence, sizeof old);
        if (t == 4) n--;
        for (int b = 0; b < n; b++) { /* rotate the hypotheses: slot b continues slot b + 1 */
            parent[b] = (b + 1) % was;
            if (t) sentence[b] = old[parent[b]];
            ids[b] = batch.tgt.ids[batch.tgt.start[sentence[b]] + t];
        }
        check_ok(stepper_step(stepper, n, ids, parent, sentence, &err), &err);
        struct mat logits = stepper_logits(stepper), f32 = logits;
        f32.type = DTYPE_F32;
        f32.data = row;
        backend_cast(toy.be, &f32, &logits);
        check_ok(backend_sync(toy.be, &err), &err);
        for (int b = 0; b < n; b++)
            for (int j = 0; j < v; j++) {
                double want =
                    full[(size_t)(batch.tgt.start[sentence[b]] + t) * (size_t)v + (size_t)j];
                if (fabs((double)row[b * v + j] - want) > tolerance)
                    fail_msg("step %d: logit %g, full pass %g", t, (double)row[b * v + j], want);
            }
    }
    /* No memory for who is not there any more, nor, in an SSRU, for what was: while a step reads
     * its parents' states it writes its own. */
    assert_int_equal(stepper->filled, config->decoder == DECODER_SSRU ? 2 * 4 : 3 * 8);
    xfree(full);
    xfree(row);
    stepper_free(stepper);
    acts_free(encoder);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(cached_decoding_equals_the_full_pass) {
    struct config config = toy_config();
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    cached_equals_full(&config, DTYPE_BF16, 0.08);
    config.norm = NORM_PRE;
    config.activation = ACT_GELU;
    config.tie = TIE_NONE;
    config.positions = POSITIONS_LEARNED;
    config.window = 3;
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    config = toy_foreign_config();
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    cached_equals_full(&config, DTYPE_BF16, 0.08);
    config.norm = NORM_PRE;
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    config = toy_ssru_config();
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    cached_equals_full(&config, DTYPE_BF16, 0.08);
    config.norm = NORM_PRE;
    config.d_k = 3; /* the two products of an SSRU are wider than those of attention */
    config.d_v = 2;
    cached_equals_full(&config, DTYPE_F32, 1e-5);
    config = toy_config();
    config.score_scale = SCORE_SCALE_ONE;
    cached_equals_full(&config, DTYPE_F32, 1e-5);
}

/* ---- training -------------------------------------------------------------------------------- */

TEST(accumulated_batches_equal_one_large_batch) {
    struct config config = toy_config();
    config.dropout = 0;
    struct toy a, b;
    struct batch whole, part[N_SEQ];
    struct err err;
    struct update_report ra, rb;
    toy_open(&a, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_open(&b, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&whole, src_len, tgt_len, N_SEQ, config.n_vocab_src, 10);
    const struct batch *one[] = {&whole}, *many[N_SEQ];
    for (int s = 0; s < N_SEQ; s++) {
        single(&part[s], &whole, s);
        many[s] = &part[s];
    }
    for (int i = 0; i < 3; i++) {
        check_ok(optimizer_update(a.opt, one, 1, &ra, &err), &err);
        check_ok(optimizer_update(b.opt, many, N_SEQ, &rb, &err), &err);
        assert_true(fabs(ra.loss - rb.loss) < 1e-4 * ra.loss);
        assert_true(fabs(ra.grad_norm - rb.grad_norm) < 1e-3 * ra.grad_norm);
        assert_int_equal(ra.n_tok, rb.n_tok);
    }
    for (int s = 0; s < N_SEQ; s++) batch_release(&part[s]);
    batch_release(&whole);
    toy_close(&a);
    toy_close(&b);
}

/* One batch learnt by heart: the loss must fall to the entropy of the smoothed targets. */
static void learns(struct config *config, enum dtype type) {
    struct toy toy;
    struct batch batch;
    struct err err;
    struct update_report first, last;
    config->dropout = 0.05f;
    toy_open(&toy, config, &two_threads, type, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config->n_vocab_src, 12);
    const struct batch *one[] = {&batch};
    check_ok(optimizer_update(toy.opt, one, 1, &first, &err), &err);
    for (int i = 0; i < 120; i++) check_ok(optimizer_update(toy.opt, one, 1, &last, &err), &err);
    assert_true(first.n_hit * 2 < first.n_tok);
    assert_true(last.n_hit * 10 > last.n_tok * 9);
    assert_true(last.nll < 0.5 * (double)last.n_tok);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(learns_a_batch_by_heart) {
    struct config config = toy_config();
    learns(&config, DTYPE_F32);
    learns(&config, DTYPE_BF16);
    config.norm = NORM_PRE;
    config.activation = ACT_GELU;
    config.tie = TIE_TARGET;
    config.positions = POSITIONS_LEARNED;
    config.d_k = 6;
    config.d_v = 11;
    learns(&config, DTYPE_F32);
    config = toy_foreign_config();
    learns(&config, DTYPE_F32);
    learns(&config, DTYPE_BF16);
    config = toy_ssru_config();
    learns(&config, DTYPE_F32);
    learns(&config, DTYPE_BF16);
}

/* ---- gradients ------------------------------------------------------------------------------- */

/* The loss of a batch; with `back` also its gradient, in the optimizer's buffer. */
static double loss_of(struct toy *toy, const struct batch *b, int back) {
    struct pass pass = {.model = toy->model, .acts = toy->acts, .grad_scale = 1};
    struct err err;
    double totals[3];
    if (back) pass.grads = toy->opt->g;
    check_ok(acts_load(toy->acts, b, &err), &err);
    transformer_fwd(&pass);
    transformer_loss(&pass);
    if (back) transformer_bwd(&pass);
    backend_download(toy->be, totals, toy->acts->totals.data, sizeof totals);
    check_ok(backend_sync(toy->be, &err), &err);
    return totals[0];
}

static struct config narrow(const struct config *of) {
    struct config c = *of;
    struct err err;
    c.d_model = 8;
    c.n_head = 2;
    c.d_k = c.d_v = 0;
    c.dropout = 0;
    c.d_ff = 6;
    if (c.d_ff_dec) c.d_ff_dec = 9;
    c.n_vocab_src = c.n_vocab_tgt = 9;
    check_ok(config_check(&c, &err), &err);
    return c;
}

/* Every parameter's gradient against differences, on ref in f64; and the cpu's against that. */
static void check_gradient(const struct config *of) {
    static const int n_src[] = {4, 2, 5}, n_tgt[] = {3, 4, 2};
    struct config config = narrow(of);
    struct toy ref, cpu;
    struct batch b;
    toy_open(&ref, &config, &(struct backend_options){.device = "ref"}, DTYPE_F64, TOKENS);
    toy_open(&cpu, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_disturb(ref.model);
    toy_disturb(cpu.model);
    toy_batch(&b, n_src, n_tgt, 3, 9, 5);
    b.tgt.ids[b.tgt.start[1]] = -1; /* no token: the zero vector */
    double loss = loss_of(&ref, &b, 1), *flat = ref.model->flat, *grads = ref.opt->grads;
    assert_true(fabs(loss - loss_of(&cpu, &b, 1)) < 1e-4 * loss);
    const float *own = cpu.opt->grads;
    for (int p = 0; p < ref.model->table.n_param; p++) {
        const struct param *param = &ref.model->table.param[p];
        double most = 0;
        for (size_t k = 0; k < (size_t)param->rows * (size_t)param->cols; k += 3) {
            size_t i = param->offset + k;
            double at = flat[i], h = 1e-5;
            flat[i] = at + h;
            double up = loss_of(&ref, &b, 0);
            flat[i] = at - h;
            double want = (up - loss_of(&ref, &b, 0)) / (2 * h);
            flat[i] = at;
            if (!(fabs(grads[i] - want) <= 1e-6 * (1 + fabs(want))))
                fail_msg("%s[%zu]: %.9g, differences say %.9g", param->name, k, grads[i], want);
            if (!(fabs((double)own[i] - want) <= 2e-5 * (1 + fabs(want))))
                fail_msg("%s[%zu] on the cpu: %.9g, differences say %.9g", param->name, k,
                         (double)own[i], want);
            most = fmax(most, fabs(want));
        }
        assert_true(most > 1e-4 || strstr(param->name, "b_")); /* biases of keys have none */
    }
    batch_release(&b);
    toy_close(&ref);
    toy_close(&cpu);
}

static void check_gradients(struct config config) {
    check_gradient(&config);
    config.norm = NORM_PRE;
    config.tie = TIE_NONE;
    config.positions = POSITIONS_LEARNED;
    config.activation = ACT_GELU;
    check_gradient(&config);
}

/* What experiments take away from the paper's model. */
static struct config experiment(void) {
    struct config c = toy_foreign_config();
    c.mask = MASK_NONE;
    c.score_scale = SCORE_SCALE_ONE;
    return c;
}

TEST(gradients_are_what_differences_say) {
    check_gradients(toy_foreign_config());
    check_gradients(toy_ssru_config());
    check_gradients(experiment());
}

/* What a backward pass has called final so far, and as it was then. */
struct finals {
    const float *flat;
    float *seen;
    size_t from, n;
    int n_call;
};

static void check_final(void *ctx, const void *from) {
    struct finals *f = ctx;
    size_t at = (size_t)((const float *)from - f->flat);
    assert_true(at < f->from);
    same_bits(f->seen + f->from, f->flat + f->from, f->n - f->from, "final");
    memcpy(f->seen + at, f->flat + at, (f->n - at) * sizeof *f->seen);
    f->from = at;
    f->n_call++;
}

static void final_is_final(const struct config *config) {
    struct toy toy;
    struct batch batch;
    struct err err;
    toy_open(&toy, config, &two_threads, DTYPE_F32, TOKENS);
    toy_disturb(toy.model);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config->n_vocab_src, 10);
    size_t n = toy.model->table.n_elem;
    struct finals finals = {
        .flat = toy.opt->grads, .seen = xcalloc(n, sizeof(float)), .from = n, .n = n};
    struct pass pass = {.model = toy.model,
                        .acts = toy.acts,
                        .grads = toy.opt->g,
                        .grad_scale = 1,
                        .final = check_final,
                        .final_ctx = &finals};
    check_ok(acts_load(toy.acts, &batch, &err), &err);
    transformer_fwd(&pass);
    transformer_loss(&pass);
    transformer_bwd(&pass);
    check_final(&finals, finals.flat); /* all is, in the end */
    check_ok(backend_sync(toy.be, &err), &err);
    /* Every sub-layer was, but for the lowest. */
    assert_int_equal(finals.n_call, 3 * config->n_layer_dec + 2 * config->n_layer_enc);
    xfree(finals.seen);
    batch_release(&batch);
    toy_close(&toy);
}

TEST(gradients_that_are_called_final_stay) {
    struct config configs[] = {toy_config(), toy_foreign_config(), toy_ssru_config()};
    for (size_t i = 0; i < 3; i++)
        for (int norm = NORM_POST; norm <= NORM_PRE; norm++) {
            configs[i].norm = (enum norm)norm;
            final_is_final(&configs[i]);
        }
}

/* The logits of ref in f64 from the other backends. */
static void same_as_ref(struct config config) {
    struct batch batch;
    struct toy ref;
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 5);
    size_t n = (size_t)batch.tgt.n_tok * (size_t)config.n_vocab_tgt;
    toy_open(&ref, &config, &(struct backend_options){.device = "ref"}, DTYPE_F64, TOKENS);
    toy_disturb(ref.model);
    float *want = toy_logits(&ref, &batch);
    for (int type = DTYPE_F32; type <= DTYPE_BF16; type++) {
        struct toy cpu;
        toy_open(&cpu, &config, &two_threads, (enum dtype)type, TOKENS);
        toy_disturb(cpu.model);
        float *is = toy_logits(&cpu, &batch);
        for (size_t i = 0; i < n; i++)
            assert_true(fabs((double)is[i] - (double)want[i]) < (type == DTYPE_F32 ? 1e-5 : 0.1));
        xfree(is);
        toy_close(&cpu);
    }
    xfree(want);
    toy_close(&ref);
    batch_release(&batch);
}

TEST(ref_and_cpu_compute_the_same) {
    same_as_ref(toy_foreign_config());
    same_as_ref(toy_ssru_config());
    same_as_ref(experiment());
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* All of the process's allocations pass here; sanitizers bring their own allocator. */
static atomic_ulong n_malloc;
#if !TEST_SANITIZED
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *malloc(size_t size) {
    atomic_fetch_add(&n_malloc, 1);
    return __libc_malloc(size);
}
void *calloc(size_t n, size_t size) {
    atomic_fetch_add(&n_malloc, 1);
    return __libc_calloc(n, size);
}
void *realloc(void *ptr, size_t size) {
    atomic_fetch_add(&n_malloc, 1);
    return __libc_realloc(ptr, size);
}
#endif

TEST(a_step_allocates_nothing) {
    struct config config = toy_config();
    config.attention_dropout = 0.1f;
    struct toy toy;
    struct batch batch;
    struct err err;
    struct update_report report = {0};
    toy_open(&toy, &config, &two_threads, DTYPE_F32, TOKENS);
    toy_batch(&batch, src_len, tgt_len, N_SEQ, config.n_vocab_src, 13);
    const struct batch *one[] = {&batch};
    unsigned long before_malloc = atomic_load(&n_malloc);
    uint64_t before = mem_count();
    for (int i = 0; i < 3; i++) check_ok(optimizer_update(toy.opt, one, 1, &report, &err), &err);
    check_ok(optimizer_evaluate(toy.opt, &batch, &report, &err), &err);
    assert_int_equal(mem_count() - before, 0);
    assert_int_equal(atomic_load(&n_malloc) - before_malloc, 0);
    free(malloc(1));
    assert_true(TEST_SANITIZED || atomic_load(&n_malloc) > before_malloc); /* the counter counts */
    batch_release(&batch);
    toy_close(&toy);
}

/* Most of the table comes from sums of angles; it must not show. */
TEST(sinusoids_are_sines_to_the_last_bit) {
    static const struct {
        enum dtype type;
        int n, d;
    } tables[] = {{DTYPE_F32, 1024, 256}, {DTYPE_F32, 5000, 6},  {DTYPE_F32, 33, 7},
                  {DTYPE_F32, 40, 1},     {DTYPE_BF16, 700, 64}, {DTYPE_F64, 50, 10}};
    for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
        int n = tables[k].n, d = tables[k].d;
        double one;
        char *table = mem_block((size_t)n * (size_t)d * sizeof one);
        size_t size = dtype_size(tables[k].type);
        model_sinusoids(table, tables[k].type, n, d);
        for (int i = 0; i < n * d; i++) {
            double angle = i / d / pow(10000.0, (double)(i % d / 2 * 2) / d);
            dtype_store(&one, tables[k].type, 0, i % d % 2 ? cos(angle) : sin(angle));
            if (memcmp(table + (size_t)i * size, &one, size) != 0)
                fail_msg("table %zu: position %d, column %d", k, i / d, i % d);
        }
        mem_block_free(table);
    }
}

/* The largest absolute value of a tensor as it is drawn. */
static double largest_drawn(const struct param_table *t, const float *flat, const char *name) {
    const struct param *p = param_table_find(t, name);
    double most = 0;
    assert_non_null(p);
    for (size_t i = 0; i < (size_t)p->rows * (size_t)p->cols; i++)
        most = fmax(most, fabs((double)flat[p->offset + i]));
    return most;
}

/* Xavier's bound is reached almost; that of attention's inputs is of one matrix or of three. */
TEST(attention_begins_with_the_bound_of_one_matrix) {
    static const char *const inputs[] = {"enc.0.self.w_qkv", "dec.0.cross.w_q", "dec.0.cross.w_kv"};
    for (int init = ATTENTION_INIT_JOINT; init <= ATTENTION_INIT_EACH; init++) {
        struct err err;
        struct config c;
        struct param_table t;
        check_ok(config_preset(&c, "tiny", &err), &err);
        c.attention_init = init;
        c.n_vocab_src = c.n_vocab_tgt = 10;
        check_ok(config_check(&c, &err), &err);
        param_table_init(&t, &c);
        float *flat = mem_block(t.n_elem * sizeof *flat);
        params_draw(flat, &t, 1);
        const double d = c.d_model, alone = sqrt(6 / (2 * d)), three = sqrt(6 / (4 * d));
        const double want = init == ATTENTION_INIT_JOINT ? three : alone;
        for (int i = 0; i < 3; i++)
            assert_true(fabs(largest_drawn(&t, flat, inputs[i]) / want - 1) < 1e-3);
        assert_true(fabs(largest_drawn(&t, flat, "dec.0.cross.w_o") / alone - 1) < 1e-3);
        mem_block_free(flat);
        param_table_release(&t);
    }
}

TESTS(T(packed_batch_equals_one_by_one), T(all_instruction_sets_give_the_same_f32_bits),
      T(same_seed_same_bits_for_any_threads), T(later_target_tokens_do_not_change_earlier_logits),
      T(window_as_long_as_the_sentence_is_full_attention), T(cached_decoding_equals_the_full_pass),
      T(accumulated_batches_equal_one_large_batch), T(learns_a_batch_by_heart),
      T(gradients_are_what_differences_say), T(gradients_that_are_called_final_stay),
      T(ref_and_cpu_compute_the_same), T(a_step_allocates_nothing),
      T(sinusoids_are_sines_to_the_last_bit), T(attention_begins_with_the_bound_of_one_matrix))
