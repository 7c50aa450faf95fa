/* test_config.c — impossible configurations, batches and options: one clear error each, naming
 * field and value; nothing crashes and nothing is half made. */
#include "data/batch.h"
#include "model/acts.h"
#include "test.h"
#include "toy.h"
#include "train/optimizer.h"
#include "train/schedule.h"

/* The message must name both the field and the value; the digits of that may be in groups. */
static void refused(int rc, const struct err *err, const char *field, const char *value) {
    if (rc >= 0) fail_msg("%s %s was accepted", field, value);
    char plain[sizeof err->msg], *to = plain;
    for (const char *c = err->msg; *c; c++)
        if (*c != ',') *to++ = *c;
    *to = 0;
    if (!strstr(err->msg, field) || !strstr(plain, value))
        fail_msg("'%s' does not name %s and %s", err->msg, field, value);
    assert_int_equal(err->code, rc);
}

TEST(presets_are_the_papers) {
    static const struct {
        const char *name;
        int n_layer, d_model, d_ff, n_head;
        double dropout;
    } want[] = {{"tiny", 3, 256, 1024, 4, 0.1},
                {"small", 6, 512, 1024, 4, 0.3},
                {"base", 6, 512, 2048, 8, 0.1},
                {"big", 6, 1024, 4096, 16, 0.3}};
    struct config c;
    struct err err;
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        check_ok(config_preset(&c, want[i].name, &err), &err);
        check_ok(config_set(&c, "n_vocab", "37000", &err), &err);
        check_ok(config_check(&c, &err), &err);
        assert_int_equal(c.n_layer_enc, want[i].n_layer);
        assert_int_equal(c.n_layer_dec, want[i].n_layer);
        assert_int_equal(c.d_model, want[i].d_model);
        assert_int_equal(c.d_ff, want[i].d_ff);
        assert_int_equal(c.n_head, want[i].n_head);
        assert_int_equal(c.d_k * c.n_head, c.d_model);
        assert_true(fabs((double)c.dropout - want[i].dropout) < 1e-6);
        assert_true(fabs((double)c.label_smoothing - 0.1) < 1e-6);
    }
    refused(config_preset(&c, "huge", &err), &err, "preset", "huge");
}

/* PAPER: Table 3 gives 65 and 213 million; small differences are biases and the vocabulary's exact
 * size. */
TEST(parameter_counts_are_the_papers) {
    static const struct {
        const char *preset, *field, *value;
        double million;
    } want[] = {{"base", "n_vocab", "37000", 65}, {"big", "n_vocab", "37000", 213},
                {"base", "n_layer", "2", 36},     {"base", "n_layer", "8", 80},
                {"base", "d_ff", "1024", 53},     {"base", "d_ff", "4096", 90},
                {"base", "d_k", "16", 58},        {"base", "d_k", "32", 60}};
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct config c;
        struct err err;
        struct param_table table;
        check_ok(config_preset(&c, want[i].preset, &err), &err);
        check_ok(config_set(&c, "n_vocab", "37000", &err), &err);
        check_ok(config_set(&c, want[i].field, want[i].value, &err), &err);
        check_ok(config_check(&c, &err), &err);
        param_table_init(&table, &c);
        double n = (double)table.n_value / 1e6;
        if (fabs(n - want[i].million) > 0.07 * want[i].million)
            fail_msg("%s with %s %s has %.1f M parameters", want[i].preset, want[i].field,
                     want[i].value, n);
        param_table_release(&table);
    }
}

TEST(impossible_fields_are_named) {
    static const struct {
        const char *field, *value;
    } bad[] = {{"n_layer_enc", "0"},
               {"n_layer_dec", "-1"},
               {"n_layer", "1001"},
               {"d_model", "0"},
               {"d_model", "9999999999999"},
               {"d_ff", "-5"},
               {"d_ff_dec", "-5"},
               {"d_ff_dec", "65537"},
               {"n_head", "0"},
               {"n_head", "2.5"},
               {"d_k", "-1"},
               {"dropout", "1"},
               {"dropout", "1.5"},
               {"dropout", "-0.1"},
               {"dropout", "nan"},
               {"label_smoothing", "1"},
               {"attention_dropout", "1"},
               {"max_len", "0"},
               {"window", "-1"},
               {"n_vocab", "0"},
               {"norm", "sideways"},
               {"activation", "tanh"},
               {"decoder", "lstm"},
               {"tie", "two"},
               {"positions", "spiral"},
               {"d_model", "12x"},
               {"d_model", ""},
               {"norm_eps", "0"},
               {"colour", "blue"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct config c = toy_config(), before = c;
        struct err err;
        int rc = config_set(&c, bad[i].field, bad[i].value, &err);
        refused(rc, &err,
                strcmp(bad[i].field, "n_vocab") && strcmp(bad[i].field, "n_layer") ? bad[i].field
                                                                                   : "n_",
                strcmp(bad[i].field, "colour") ? bad[i].value : "no such field");
        assert_memory_equal(&c, &before, sizeof c);
    }
}

TEST(limits_belong_to_the_range) {
    struct err err;
    struct config c = toy_config();
    check_ok(config_set(&c, "norm_eps", "1e-12", &err), &err);
    check_ok(config_check(&c, &err), &err); /* though 1e-12f is less than 1e-12 */
    refused(config_set(&c, "norm_eps", "1e-13", &err), &err, "norm_eps",
            "at least 1e-12 and below 1");
}

TEST(impossible_combinations_are_named) {
    struct err err;
    struct config c = toy_config();
    c.d_k = c.d_v = 0;
    c.d_model = 41;
    refused(config_check(&c, &err), &err, "d_model", "41");
    assert_non_null(strstr(err.msg, "number of heads, 5"));
    c.d_k = c.d_v = 8; /* given: then it need not divide */
    check_ok(config_check(&c, &err), &err);

    c = toy_config();
    c.n_vocab_tgt = 34;
    refused(config_check(&c, &err), &err, "tie", "34");
    c.tie = TIE_TARGET;
    check_ok(config_check(&c, &err), &err);

    c = toy_config();
    c.d_k = 65536;
    refused(config_check(&c, &err), &err, "d_k", "65536");

    c = toy_config();
    c.n_vocab_src = c.n_vocab_tgt = 1 << 24;
    c.d_model = 40000; /* 6.7e11 parameters */
    refused(config_check(&c, &err), &err, "d_model", "40000");

    c = toy_config(); /* just below the limit, but for a bias of each logit */
    c.n_vocab_src = c.n_vocab_tgt = 1 << 24;
    c.d_model = 126;
    c.n_head = 2;
    c.d_k = c.d_v = 0;
    check_ok(config_check(&c, &err), &err);
    c.output_bias = 1;
    refused(config_check(&c, &err), &err, "d_model", "126");

    c = toy_config();
    c.dropout = 0.999999f;
    refused(config_check(&c, &err), &err, "dropout", "65535");

    c = toy_config(); /* fields are checked again, however they got there */
    c.n_layer_enc = 0;
    refused(config_check(&c, &err), &err, "n_layer_enc", "0");
    c = toy_config();
    c.norm = 7;
    refused(config_check(&c, &err), &err, "norm", "7");
}

TEST(optimizer_options_are_checked) {
    struct err err;
    struct optimizer_options o = optimizer_defaults;
    check_ok(optimizer_options_check(&o, &err), &err);
    o.beta2 = 1;
    refused(optimizer_options_check(&o, &err), &err, "beta2", "1");
    o = optimizer_defaults;
    o.clip = -2;
    refused(optimizer_options_check(&o, &err), &err, "clip", "-2");
    o = optimizer_defaults;
    o.lr_scale = 0;
    refused(optimizer_options_check(&o, &err), &err, "lr_scale", "0");
    o = optimizer_defaults;
    o.warmup = -3;
    refused(optimizer_options_check(&o, &err), &err, "warmup", "-3");
    o = optimizer_defaults;
    o.ema = 1;
    refused(optimizer_options_check(&o, &err), &err, "ema", "1");
    o = optimizer_defaults;
    o.steps = o.cooldown = 20;
    check_ok(optimizer_options_check(&o, &err), &err);
    o.cooldown = 21;
    refused(optimizer_options_check(&o, &err), &err, "cooldown", "21 updates in a run of 20");
}

TEST(batches_refuse_what_never_fits) {
    struct err err;
    struct batch b;
    int32_t ids[12] = {4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    refused(batch_init(&b, 0, 10, 4, TOY_BOS, &err), &err, "batch", "0 source");
    check_ok(batch_init(&b, 10, 10, 3, TOY_BOS, &err), &err);
    refused(batch_add(&b, ids, 11, ids, 2, &err), &err, "11 source tokens", "budget of 10");
    refused(batch_add(&b, ids, 2, ids, 12, &err), &err, "12 target tokens", "budget of 10");
    refused(batch_add(&b, ids, 0, ids, 1, &err), &err, "0 source", "empty");
    assert_int_equal(b.n_seq, 0);
    assert_int_equal(batch_add(&b, ids, 6, ids, 4, &err), 1);
    assert_int_equal(batch_add(&b, ids, 5, ids, 1, &err), 0); /* not now, but in the next batch */
    assert_int_equal(batch_add(&b, ids, 4, ids, 6, &err), 1);
    assert_int_equal(b.src.n_tok, 10);
    assert_int_equal(b.tgt.ids[0], TOY_BOS);
    assert_int_equal(b.tgt.ids[1], 4);
    assert_int_equal(b.tgt_out[0], 4);
    assert_int_equal(b.tgt.ids[4], TOY_BOS);
    assert_int_equal(b.src.max_len, 6);
    batch_release(&b);
}

TEST(acts_refuse_batches_that_do_not_belong) {
    struct err err;
    struct toy toy;
    struct batch b;
    struct config config = toy_config();
    struct update_report report;
    config.max_len = 8;
    toy_open(&toy, &config, &(struct backend_options){.device = "cpu", .n_thread = 1}, DTYPE_F32,
             20);
    float *before = toy_params(&toy);
    const struct batch *one[] = {&b};

    toy_batch(&b, (int[]){9}, (int[]){3}, 1, 33, 1); /* longer than max_len */
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "source", "9 tokens");
    batch_release(&b);
    toy_batch(&b, (int[]){8, 8, 8}, (int[]){3, 3, 3}, 3, 33, 1); /* more than there is room for */
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "24 source", "20");
    batch_release(&b);
    toy_batch(&b, (int[]){4}, (int[]){4}, 1, 33, 1);
    b.src.ids[2] = 33; /* not in the vocabulary */
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "source token id", "33");
    b.src.ids[2] = -1;
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "source token id", "-1");
    b.src.ids[2] = 4;
    b.tgt.ids[1] = -1; /* only the first may be none */
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "target token id", "-1");
    b.tgt.ids[1] = 4;
    b.tgt.ids[0] = -2;
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "target token id", "-2");
    b.tgt.ids[0] = -1;
    b.tgt_out[3] = 99;
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "target token id", "99");
    b.tgt_out[3] = 4;
    batch_clear(&b);
    refused(optimizer_update(toy.opt, one, 1, &report, &err), &err, "update", "empty");

    float *after = toy_params(&toy);
    assert_memory_equal(before, after, toy.model->table.n_elem * sizeof *after);
    xfree(before);
    xfree(after);
    batch_release(&b);
    toy_close(&toy);
}

TEST(memory_that_cannot_be_had_is_an_error) {
    struct err err;
    struct toy toy;
    struct acts *acts;
    struct config config = toy_config();
    toy_open(&toy, &config, &(struct backend_options){.device = "cpu", .n_thread = 1}, DTYPE_F32,
             20);
    refused(acts_new(&acts, toy.model, 0, 5, 1, &err), &err, "tokens", "0 source");
    assert_null(acts);
    int rc = acts_new(&acts, toy.model, 2000000000, 2000000000, 1, &err);
    refused(rc, &err, "2000000000 source", "not enough memory");
    assert_int_equal(rc, HEED_ENOMEM);
    assert_null(acts);
    toy_close(&toy);
}

TEST(schedule_is_the_papers) {
    assert_true(fabs(schedule_rate(512, 4000, 1, 4000) - 1 / sqrt(512.0 * 4000)) < 1e-12);
    assert_true(fabs(schedule_rate(512, 4000, 1, 1) - pow(4000, -1.5) / sqrt(512.0)) < 1e-15);
    assert_true(fabs(schedule_rate(512, 4000, 2, 16000) - 2 / sqrt(512.0 * 16000)) < 1e-12);
    assert_true(fabs(schedule_rate(256, 0, 1, 1) - 1 / 16.0) < 1e-12);
}

TEST(cooldown_is_linear) {
    assert_true(schedule_cooldown(0, 0, 7) == 1); /* no end, no cool-down */
    assert_true(schedule_cooldown(100, 0, 100) == 1);
    assert_true(schedule_cooldown(100, 9, 1) == 1);
    assert_true(schedule_cooldown(100, 9, 91) == 1);
    for (int i = 1; i <= 9; i++)
        assert_true(fabs(schedule_cooldown(100, 9, 91 + i) - (1 - 0.1 * i)) < 1e-15);
    assert_true(schedule_cooldown(3, 3, 1) == 0.75 && schedule_cooldown(3, 3, 3) == 0.25);
}

TESTS(T(presets_are_the_papers), T(parameter_counts_are_the_papers), T(impossible_fields_are_named),
      T(limits_belong_to_the_range), T(impossible_combinations_are_named),
      T(optimizer_options_are_checked), T(batches_refuse_what_never_fits),
      T(acts_refuse_batches_that_do_not_belong), T(memory_that_cannot_be_had_is_an_error),
      T(schedule_is_the_papers), T(cooldown_is_linear))
