/* test_plan.c — what is found out before a run begins: memory that does not fit, a model that is
 * not the run's. */
#include "backend/device.h"
#include "model/modeldir.h"
#include "test.h"
#include "toy.h"
#include "train/checkpoint.h"
#include "train/plan.h"

enum { TOKENS = 3000, LENGTH = 40, SPARE = 64 << 20 };

static const struct backend_options cpu = {.device = "cpu", .n_thread = 1};

static int plan(struct plan_memory *memory, struct model *model, int tokens, size_t room,
                struct err *err) {
    return plan_memory(memory, model,
                       &(struct plan_run){.tokens = tokens, .max_length = LENGTH, .room = room},
                       err);
}

TEST(memory_is_what_is_taken) {
    struct config config = toy_config();
    struct toy toy;
    struct plan_memory memory;
    struct err err = {0};
    toy_open(&toy, &config, &cpu, DTYPE_F32, TOKENS);
    ASSERT_OK(plan(&memory, toy.model, TOKENS, SIZE_MAX, &err), err);
    assert_int_equal(memory.acts, acts_bytes(toy.acts));
    assert_int_equal(memory.workspace, backend_workspace(toy.be));
    assert_int_equal(memory.state, 3 * toy.model->table.n_elem * sizeof(float));
    assert_int_equal(memory.model, model_bytes(&toy.model->config, DTYPE_F32));
    assert_int_equal(memory.total, memory.model + memory.state + memory.acts + memory.workspace);
    size_t more = memory.total - memory.model + SPARE; /* to the byte */
    ASSERT_OK(plan(&memory, toy.model, TOKENS, more, &err), err);
    ASSERT_ERR(plan(&memory, toy.model, TOKENS, more - 1, &err), err, HEED_ENOMEM, "would fit");
    size_t without = memory.state; /* an average is a fourth buffer, and room for it is wanted */
    struct plan_run run = {.tokens = TOKENS, .max_length = LENGTH, .ema = 1, .room = more};
    ASSERT_ERR(plan_memory(&memory, toy.model, &run, &err), err, HEED_ENOMEM, "would fit");
    run.room += without / 3;
    ASSERT_OK(plan_memory(&memory, toy.model, &run, &err), err);
    assert_int_equal(memory.state, without / 3 * 4);
    toy_close(&toy);
}

/* A copy of weights, moments and average for checkpoints is the host's: that is the memory of
 * everything, unless the device has its own. */
TEST(memory_for_a_copy) {
    struct config config = toy_config();
    struct toy toy;
    struct plan_memory without, with;
    struct err err = {0};
    toy_open(&toy, &config, &cpu, DTYPE_F32, TOKENS);
    ASSERT_OK(plan(&without, toy.model, TOKENS, SIZE_MAX, &err), err);
    size_t copy = 3 * toy.model->table.n_elem * sizeof(float);
    size_t more = without.total - without.model + SPARE + copy; /* to the byte */
    struct plan_run run = {.tokens = TOKENS, .max_length = LENGTH, .aside = 1, .room = more};
    assert_int_equal(without.copy, 0);
    ASSERT_OK(plan_memory(&with, toy.model, &run, &err), err);
    assert_int_equal(with.copy, copy);
    assert_int_equal(with.copy, snapshot_bytes(toy.model, 0));
    assert_int_equal(with.total, without.total + copy);
    run.room--;
    ASSERT_ERR(plan_memory(&with, toy.model, &run, &err), err, HEED_ENOMEM, "would fit");
    for (int i = 1; i < 30; i++) { /* the advice counts the copy, too */
        int tokens = 0;
        run.tokens = TOKENS;
        run.room = more - (size_t)i * (without.acts + without.workspace) / 40;
        ASSERT_ERR(plan_memory(&with, toy.model, &run, &err), err, HEED_ENOMEM, "would fit");
        const char *advice = strstr(err.msg, "; --tokens ");
        assert_int_equal(sscanf(advice, "; --tokens %d would fit", &tokens), 1);
        run.tokens = tokens;
        ASSERT_OK(plan_memory(&with, toy.model, &run, &err), err);
        run.tokens += 201;
        ASSERT_ERR(plan_memory(&with, toy.model, &run, &err), err, HEED_ENOMEM, "needs");
    }
    run.tokens = TOKENS;

    const struct backend_vtable *own = toy.be->vt;
    struct backend_vtable device = *own;
    device.device_memory = 1;
    toy.be->vt = &device;
    run = (struct plan_run){.tokens = TOKENS, .max_length = LENGTH, .aside = 1, .ema = 1};
    run.room = more - copy + copy / 3;
    run.host = SPARE + copy / 3 * 4;
    ASSERT_OK(plan_memory(&with, toy.model, &run, &err), err);
    assert_int_equal(with.copy, snapshot_bytes(toy.model, 1));
    assert_int_equal(with.total, without.total + copy / 3); /* the average, not the copy */
    run.host--;
    ASSERT_ERR(plan_memory(&with, toy.model, &run, &err), err, HEED_ENOMEM,
               "--save-aside off needs none");
    run.aside = 0;
    ASSERT_OK(plan_memory(&with, toy.model, &run, &err), err);
    toy.be->vt = own;
    toy_close(&toy);
}

/* The advice is good: what is named fits, and not much more does. */
TEST(memory_that_would_fit) {
    struct config config = toy_config();
    struct toy toy;
    struct plan_memory memory;
    struct err err = {0};
    toy_open(&toy, &config, &cpu, DTYPE_F32, LENGTH);
    ASSERT_OK(plan(&memory, toy.model, TOKENS, SIZE_MAX, &err), err);
    for (int percent = 90; percent >= 10; percent -= 20) {
        size_t part = (memory.acts + memory.workspace) / 100 * (size_t)percent;
        size_t room = SPARE + memory.state + part;
        struct plan_memory other;
        ASSERT_ERR(plan(&other, toy.model, TOKENS, room, &err), err, HEED_ENOMEM,
                   "--tokens 3000 needs");
        int tokens = 0, times = 0;
        const char *advice = strstr(err.msg, "; --tokens ");
        assert_non_null(advice);
        assert_int_equal(
            sscanf(advice, "; --tokens %d would fit (with --accumulate %d", &tokens, &times), 2);
        assert_true(tokens >= LENGTH && tokens < TOKENS && tokens * times >= TOKENS);
        ASSERT_OK(plan(&other, toy.model, tokens, room, &err), err);
        ASSERT_ERR(plan(&other, toy.model, tokens + 101, room, &err), err, HEED_ENOMEM,
                   "would fit");
    }
    for (size_t room = 0; room <= SPARE + memory.state; room += SPARE / 4)
        ASSERT_ERR(plan(&memory, toy.model, TOKENS, room, &err), err, HEED_ENOMEM,
                   "even for a single sentence of --max-length 40");
    toy_close(&toy);
}

/* Every field of a model is the run's, but for those that only training uses. */
TEST(shape_of_the_run) {
    struct config config = toy_config(), other;
    struct err err = {0};
    ASSERT_OK(config_check(&config, &err), err);
    ASSERT_OK(modeldir_init(test_dir(), &config, NULL, NULL, &err), err);
    ASSERT_OK(plan_shape(test_dir(), &config, &err), err);
    int n_free = 0, n_fixed = 0;
    for (const struct option *o = config_rows; o->name; o++) {
        other = config;
        memset((char *)&other + o->offset, 1, 4);
        if (o->kind == OPTION_CHOICE) *(int *)(void *)((char *)&other + o->offset) = 1;
        if (option_equal(o, &config, &other)) continue; /* it was 1 */
        if (plan_shape(test_dir(), &other, &err) == 0) {
            n_free++;
            assert_null(plan_difference(&config, &other));
        } else {
            n_fixed++;
            assert_int_equal(err.code, HEED_EINVAL);
            assert_non_null(strstr(err.msg, o->name));
            assert_true(plan_difference(&config, &other) == o);
        }
    }
    assert_int_equal(n_free, 4);
    assert_true(n_fixed > 10);
    other = config;
    other.norm = !config.norm;
    ASSERT_ERR(plan_shape(test_dir(), &other, &err), err, HEED_EINVAL,
               config.norm ? "norm pre, not post" : "norm post, not pre");
    ASSERT_ERR(plan_shape("no/such", &other, &err), err, HEED_EIO, "no/such");
}

TESTS(T(memory_is_what_is_taken), T(memory_for_a_copy), T(memory_that_would_fit),
      T(shape_of_the_run))
