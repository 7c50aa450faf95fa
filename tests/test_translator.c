/* test_translator.c — texts to translations: the same ones whoever tokenises, wherever the search
 * is, however large the batches are.
 *
 * The device is the cpu, which says that its memory is out of the host's reach: the translator then
 * takes the batches of a GPU and searches in the backend's memory. */
#include "backend/device.h"
#include "base/mem.h"
#include "base/rng.h"
#include "search/translator.h"
#include "test.h"
#include "toy.h"

enum { N_TEXT = 300, MAX_TEXT = 3000, FEW_TEXTS = 10, LONG = 7, BAD = 70, EMPTY = 71 };

static struct translator_input in[N_TEXT];

/* Words at random: mostly a few, of some texts so many that they are split. */
static void make_texts(void) {
    static char text[N_TEXT][MAX_TEXT];
    static const char *const word[] = {"cat", "sat", "on", "a", "mat", "x", "12", "the", "über"};
    struct rng rng = {.key = 5};
    for (int i = 0; i < N_TEXT; i++) {
        size_t n = 0;
        int n_word = i == EMPTY ? 0 : i % 100 == LONG ? 500 : 1 + (int)rng_below(&rng, 40);
        for (int k = 0; k < n_word; k++)
            n += (size_t)snprintf(text[i] + n, MAX_TEXT - n, "%s%s", k ? " " : "",
                                  word[rng_below(&rng, 9)]);
        if (i == BAD) text[i][1] = '\xff';
        in[i] = (struct translator_input){
            .text = text[i], .size = n, .key = (uint64_t)i, .name = "line", .number = 1};
    }
}

struct rig {
    struct engine *engine;
    struct translator *translator;
    struct pool *pool;
    struct translation out[N_TEXT];
};

static struct backend_vtable device;
static size_t memory;
static size_t memory_left(const struct backend *be) {
    (void)be;
    return memory;
}

static struct rig *rig_open(const char *dir, int threads, int on_device) {
    struct rig *r = xcalloc(1, sizeof *r);
    struct err err = {0};
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    struct translator_options o = translator_defaults();
    o.search.max_extra = 6;
    o.search.n_best = 2;
    ASSERT_OK(engine_open(&r->engine, &from, &err), err);
    if (on_device) {
        device = *r->engine->be->vt;
        device.device_memory = 1;
        device.available = memory_left;
        r->engine->be->vt = &device;
    }
    if (threads) ASSERT_OK(pool_new(&r->pool, threads, &err), err);
    r->translator = translator_new(r->engine);
    translator_share(r->translator, r->pool);
    ASSERT_OK(translator_set(r->translator, &o, &err), err);
    return r;
}

static void rig_close(struct rig *r) {
    translator_free(r->translator);
    engine_close(r->engine);
    pool_free(r->pool);
    xfree(r);
}

/* Translates n texts; returns how many searches that took. */
static int run(struct rig *r, int n) {
    struct err err = {0};
    uint64_t before = translator_stats(r->translator)->batches;
    ASSERT_OK(translator_run(r->translator, in, n, r->out, NULL, &err), err);
    return (int)(translator_stats(r->translator)->batches - before);
}

static void check_same(const struct rig *a, const struct rig *b, int n) {
    for (int i = 0; i < n; i++) {
        const struct translation *x = &a->out[i], *y = &b->out[i];
        assert_int_equal(x->n, y->n);
        assert_int_equal(x->n_src, y->n_src);
        assert_int_equal(x->notes, y->notes);
        if (x->n_src) assert_memory_equal(x->src, y->src, (size_t)x->n_src * sizeof *x->src);
        for (int k = 0; k < x->n; k++) {
            assert_string_equal(x->best[k].text, y->best[k].text);
            assert_int_equal(x->best[k].size, strlen(x->best[k].text));
            assert_memory_equal(&x->best[k].score, &y->best[k].score, sizeof(float));
        }
    }
}

TEST(threads_share_the_text) {
    make_texts();
    const char *dir = model_dir("m", 1, 300);
    struct rig *alone = rig_open(dir, 0, 0), *three = rig_open(dir, 3, 0);
    for (int round = 0; round < 3; round++) {
        int n = round == 1 ? FEW_TEXTS : N_TEXT;
        assert_int_equal(run(alone, n), run(three, n));
        check_same(alone, three, n);
    }
    assert_true(alone->out[LONG].notes & TRANSLATION_SPLIT);
    assert_true(alone->out[BAD].notes & TRANSLATION_REPLACED);
    assert_int_equal(alone->out[EMPTY].n_src, 0);
    rig_close(alone);
    rig_close(three);
}

TEST(devices_get_large_batches) {
    make_texts();
    const char *dir = model_dir("m", 1, 300);
    memory = (size_t)1 << 30;
    struct rig *host = rig_open(dir, 2, 0), *dev = rig_open(dir, 2, 1);
    assert_int_equal(translator_batch(host->translator), 32);
    assert_int_equal(translator_batch(dev->translator), 2048);
    for (int round = 0; round < 3; round++) { /* small, made larger, and kept */
        int n = round == 0 ? FEW_TEXTS : N_TEXT, n_host = run(host, n), n_dev = run(dev, n);
        check_same(host, dev, n);
        assert_int_equal(n_dev, 1);
        if (n == N_TEXT) assert_true(n_host >= N_TEXT / 32);
    }
    const struct search_stats *a = &translator_stats(host->translator)->search;
    const struct search_stats *b = &translator_stats(dev->translator)->search;
    assert_int_equal(a->rows, b->rows);
    assert_int_equal(a->computed, a->rows);
    assert_true(b->computed > b->rows && b->computed < b->rows * 3 / 2);
    assert_true(b->steps < a->steps / 2);
    assert_int_equal(b->anew, b->steps); /* this one cannot record */
    rig_close(dev);
    rig_close(host);
}

/* On a CPU one searcher grows with what comes, and serves short sentences after long ones. */
TEST(a_cpu_gives_the_same_whatever_came_before) {
    static const int sizes[] = {1, 5, LONG, LONG + 1, 3, N_TEXT, 2, LONG + 1, 100};
    make_texts();
    const char *dir = model_dir("m", 1, 300);
    struct rig *old = rig_open(dir, 0, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct rig *fresh = rig_open(dir, 0, 0);
        assert_int_equal(run(old, sizes[i]), run(fresh, sizes[i]));
        check_same(old, fresh, sizes[i]);
        rig_close(fresh);
    }
    rig_close(old);
}

/* A device with little memory: smaller batches, down to one sentence. */
TEST(memory_bounds_batches) {
    make_texts();
    const char *dir = model_dir("m", 1, 300);
    int before = 0;
    struct rig *host = rig_open(dir, 0, 0);
    run(host, N_TEXT);
    for (size_t left = (size_t)1 << 30; left; left = left > 1 << 20 ? left / 64 : 0) {
        memory = left;
        struct rig *dev = rig_open(dir, 0, 1);
        int n = run(dev, N_TEXT);
        check_same(host, dev, N_TEXT);
        assert_true(n >= before);
        before = n;
        rig_close(dev);
    }
    assert_in_range(before, N_TEXT / 10, 2 * N_TEXT);
    rig_close(host);
}

TESTS(T(threads_share_the_text), T(devices_get_large_batches), T(memory_bounds_batches),
      T(a_cpu_gives_the_same_whatever_came_before))
