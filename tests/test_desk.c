/* test_desk.c — orders from many threads: each has, to the last bit, what `heed translate` makes of
 * its texts, whatever else there is to do; and who is cancelled, late, refused or failed hears so
 * once. */
#include "serve/desk.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"
#include "search/scorer.h"
#include "search/translator.h"
#include "serve/through.h"
#include "test.h"
#include "text/pages.h"
#include "toy.h"

enum { N_TEXT = 60, MAX_TEXT = 4000, N_THREAD = 8, PER_THREAD = 40 };

static char text[N_TEXT][MAX_TEXT];
static size_t size[N_TEXT];

/* Words at random in lines and sentences; some are far too long for the model, one has no word. */
static void make_texts(int html, int held) {
    static const char *const word[] = {"cat", "sat", "on",  "a",        "mat",
                                       "x",   "12",  "the", "\u00fcber"};
    const char *const gap[] = {" ", " ", held ? " {n} " : " ", " ", ". ", ".\n\n", "!  ", ",\t"};
    static const char *const tags[] = {" ",     " <b>",    "</b> ", " <i>",
                                       "</i> ", "</p><p>", " ",     "<br>"};
    struct rng rng = {.key = 5};
    for (int i = 0; i < N_TEXT; i++) {
        size_t n = 0;
        int n_word = i == 7 ? 0 : i % 20 == 11 ? 300 : 1 + (int)rng_below(&rng, 14);
        for (int k = 0; k < n_word; k++)
            n += (size_t)snprintf(text[i] + n, MAX_TEXT - n, "%s%s", word[rng_below(&rng, 9)],
                                  (html ? tags : gap)[rng_below(&rng, 8)]);
        if (i == 9) text[i][0] = '\xff';
        size[i] = n;
    }
}

/* What each text is to become: by a translator of its own. */
struct wanted {
    char *text[N_TEXT];
    char *second[N_TEXT]; /* the next best */
};

static const char *dir_of(int which) {
    static char dir[2][512];
    if (!dir[which][0])
        snprintf(dir[which], sizeof dir[which], "%s",
                 model_dir(which ? "b" : "a", (uint64_t)which + 1, 300));
    return dir[which];
}

static struct search_options brief(int n_best) {
    struct search_options o = search_defaults();
    o.max_extra = 6;
    o.n_best = n_best;
    return o;
}

static const struct desk_term terms[] = {{"cat", "the mat"}, {"sat on", "x 12"}};

static struct glossary *glossary_of_terms(void) {
    struct err err = {0};
    struct glossary *g = glossary_new();
    for (int i = 0; i < 2; i++)
        ASSERT_OK(glossary_add(g, terms[i].source, strlen(terms[i].source), terms[i].target,
                               strlen(terms[i].target), &err),
                  err);
    return g;
}

static struct wanted *translate_with(const char *dir, enum desk_format format, int n_best,
                                     const struct glossary *glossary) {
    struct wanted *w = xcalloc(1, sizeof *w);
    struct err err = {0};
    struct engine *engine;
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    struct translator_options o = translator_defaults();
    o.search = brief(n_best);
    o.format = format == DESK_TEXT ? FORMAT_TEXT : format == DESK_HTML ? FORMAT_HTML : FORMAT_LINES;
    o.language = "de";
    o.glossary = glossary;
    if (format == DESK_HTML) o.alignment = ALIGNMENT_WORDS;
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    struct translator *t = translator_new(engine);
    struct pages *pages = pages_new(engine, t);
    pages_set(pages, &o);
    ASSERT_OK(translator_set(t, &o, &err), err);
    for (int i = 0; i < N_TEXT; i++) {
        struct translation out;
        struct translator_input in = {.text = text[i], .size = size[i], .name = "text"};
        ASSERT_OK(pages_run(pages, &in, 1, &out, NULL, &err), err);
        w->text[i] = xstrdup(out.best[0].text);
        w->second[i] = xstrdup(out.best[out.n > 1].text);
    }
    pages_free(pages);
    translator_free(t);
    engine_close(engine);
    return w;
}

static struct wanted *translate_all(const char *dir, enum desk_format format, int n_best) {
    return translate_with(dir, format, n_best, NULL);
}

static void wanted_free(struct wanted *w) {
    for (int i = 0; i < N_TEXT; i++) {
        xfree(w->text[i]);
        xfree(w->second[i]);
    }
    xfree(w);
}

/* ---- a desk and its customers ---------------------------------------------------------------- */

static struct desk *open_desk(int seats, int busy_rows) {
    struct err err = {0};
    struct desk *desk;
    struct desk_model model[] = {{.source = "de", .target = "en", .dir = dir_of(0)},
                                 {.source = "en", .target = "fr", .dir = dir_of(1)}};
    struct desk_options o = {.model = model,
                             .n_model = 2,
                             .where = {.device = "cpu", .n_thread = 2},
                             .seats = seats,
                             .busy_rows = busy_rows};
    ASSERT_OK(desk_open(&desk, &o, &err), err);
    return desk;
}

/* Somebody who waits for a job. */
struct customer {
    pthread_mutex_t lock;
    pthread_cond_t heard;
    int done, n_done;
};

static void hear(void *ctx, struct desk_job *job) {
    struct customer *c = ctx;
    (void)job;
    pthread_mutex_lock(&c->lock);
    c->done = 1;
    c->n_done++;
    pthread_cond_signal(&c->heard);
    pthread_mutex_unlock(&c->lock);
}

static void customer_init(struct customer *c) {
    *c = (struct customer){0};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->heard, NULL);
}

static void wait_for(struct customer *c) {
    pthread_mutex_lock(&c->lock);
    while (!c->done) pthread_cond_wait(&c->heard, &c->lock);
    c->done = 0;
    pthread_mutex_unlock(&c->lock);
}

struct crowd {
    struct desk *desk;
    struct wanted *want;
    enum desk_format format;
    int alternatives;
    atomic_int wrong, ended[DESK_FAILED + 1];
};

struct thread {
    struct crowd *crowd;
    int number;
    pthread_t id;
};

/* 1 if the answers are those that were wanted for texts first .. first + n - 1. */
static int right(const struct crowd *c, const struct desk_job *job, int first, int n) {
    if (desk_count(job) != n) return 0;
    for (int i = 0; i < n; i++) {
        const struct desk_answer *a = desk_answer(job, i);
        const char *want = c->want->text[first + i], *second = c->want->second[first + i];
        if (strcmp(a->best[0].text, want) != 0 || strlen(want) != a->best[0].size) return 0;
        if (c->alternatives && a->n > 1 && strcmp(want, second) != 0 &&
            strcmp(a->best[1].text, second) != 0)
            return 0;
        if (!c->alternatives && a->n != 1) return 0;
    }
    return 1;
}

/* Orders of some texts at a time; some are cancelled, some are late, some released at once. */
static void *customer_main(void *arg) {
    struct thread *t = arg;
    struct crowd *c = t->crowd;
    struct rng rng = {.key = (uint64_t)t->number + 77};
    struct customer me;
    struct search_options search = brief(1);
    customer_init(&me);
    for (int k = 0; k < (TEST_SANITIZED ? PER_THREAD / 4 : PER_THREAD); k++) {
        struct desk_text in[4];
        int n = 1 + (int)rng_below(&rng, 4), first = (int)rng_below(&rng, N_TEXT - 3);
        int fate = (int)rng_below(&rng, 8);
        for (int i = 0; i < n; i++)
            in[i] = (struct desk_text){.text = text[first + i], .size = size[first + i]};
        struct desk_order o = {.text = in,
                               .n = n,
                               .source = "de",
                               .target = "EN",
                               .format = c->format,
                               .search = &search,
                               .alternatives = c->alternatives,
                               .client = (uint64_t)t->number / 2,
                               .class = (enum desk_class)rng_below(&rng, 4),
                               .done = hear,
                               .ctx = &me};
        struct desk_job *job;
        if (fate == 1) o.deadline = clock_seconds() + 1e-3 * (double)rng_below(&rng, 20);
        if (desk_submit(c->desk, &o, &job, NULL) != DESK_ACCEPTED) {
            atomic_fetch_add(&c->wrong, 1);
            break;
        }
        if (fate == 0) {
            usleep((unsigned)rng_below(&rng, 8000));
            desk_cancel(job);
        }
        wait_for(&me);
        enum desk_status status = desk_status(job);
        atomic_fetch_add(&c->ended[status], 1);
        if (status == DESK_DONE ? !right(c, job, first, n)
                                : (fate != 0 && fate != 1) || desk_message(job)[0])
            atomic_fetch_add(&c->wrong, 1);
        desk_release(job);
    }
    if (me.done) atomic_fetch_add(&c->wrong, 1);
    return NULL;
}

static void check_crowd(enum desk_format format, int alternatives) {
    struct thread thread[N_THREAD];
    struct crowd c = {.format = format, .alternatives = alternatives};
    make_texts(format == DESK_HTML, 1);
    c.want = translate_all(dir_of(0), format, alternatives + 1);
    c.desk = open_desk(9, 10);
    for (int i = 0; i < N_THREAD; i++) {
        thread[i] = (struct thread){&c, i, 0};
        assert_int_equal(pthread_create(&thread[i].id, NULL, customer_main, &thread[i]), 0);
    }
    for (int i = 0; i < N_THREAD; i++) pthread_join(thread[i].id, NULL);
    struct desk_stats s = desk_stats(c.desk);
    assert_int_equal(atomic_load(&c.wrong), 0);
    assert_true(c.ended[DESK_DONE] > 0 && c.ended[DESK_CANCELLED] > 0);
    for (int k = 0; k <= DESK_FAILED; k++) assert_int_equal(s.ended[k], c.ended[k]);
    assert_int_equal(s.jobs, 0);
    assert_int_equal(s.queued_bytes, 0);
    assert_true(s.steps > 0 && s.rows > s.steps && s.passes > 0 && s.tgt_tokens > 0);
    desk_close(c.desk);
    wanted_free(c.want);
}

TEST(lines_as_if_alone) { check_crowd(DESK_LINE, 0); }
TEST(texts_as_if_alone) { check_crowd(DESK_TEXT, 0); }
TEST(alternatives_as_if_alone) { check_crowd(DESK_TEXT, 2); }
TEST(pages_as_if_alone) { check_crowd(DESK_HTML, 0); }

/* ---- one order at a time --------------------------------------------------------------------- */

static struct customer me;
static struct search_options search;
static struct desk_text one;

/* An order of the text, to be changed. */
static struct desk_order order_of(const char *words, enum desk_format format) {
    search = brief(1);
    one = (struct desk_text){.text = words, .size = strlen(words)};
    return (struct desk_order){.text = &one,
                               .n = 1,
                               .source = "de",
                               .target = "en",
                               .format = format,
                               .search = &search,
                               .done = hear,
                               .ctx = &me};
}

static struct desk_job *run(struct desk *desk, const struct desk_order *o) {
    struct desk_job *job;
    struct desk_refusal no = {.retry_after = 0};
    if (desk_submit(desk, o, &job, &no) != DESK_ACCEPTED) fail_msg("refused: %s", no.err.msg);
    wait_for(&me);
    if (desk_status(job) != DESK_DONE)
        fail_msg("status %d: %s", desk_status(job), desk_message(job));
    return job;
}

static char *translated(struct desk *desk, const char *words, const char *from, const char *to) {
    struct desk_order o = order_of(words, DESK_TEXT);
    o.source = from;
    o.target = to;
    struct desk_job *job = run(desk, &o);
    char *out = xstrdup(desk_answer(job, 0)->best[0].text);
    desk_release(job);
    return out;
}

TEST(through_a_third_language) {
    customer_init(&me);
    struct desk *desk = open_desk(0, 0);
    char *half = translated(desk, "the cat sat. a dog", "de", "en");
    char *whole = translated(desk, half, "en", "fr");
    char *both = translated(desk, "the cat sat. a dog", "de", "fr");
    assert_string_equal(both, whole);
    assert_string_not_equal(half, whole);
    struct desk_pairs pairs = desk_pairs(desk);
    assert_int_equal(pairs.n, 3);
    assert_string_equal(pairs.pair[1].target, "fr");
    assert_string_equal(pairs.pair[1].through, "en");
    assert_null(pairs.pair[0].through);
    desk_pairs_free(&pairs);
    desk_close(desk);
    xfree(half);
    xfree(whole);
    xfree(both);
}

/* The n words at these places of a text. */
static struct desk_answer halves(const struct desk_word *to, int n_to,
                                 const struct align_link *link, int n_link) {
    return (struct desk_answer){
        .translated = to, .n_translated = n_to, .link = link, .n_link = n_link};
}

/* Words in between that are cut differently: "ab" "c" by the first model, "a" "b" "c" by the
 * second. */
TEST(links_through_a_third_language) {
    static const struct span source[] = {{0, 3}, {4, 6}},
                             middle[] = {{0, 1}, {1, 3}, {4, 5}, {6, 7}};
    static const struct desk_word between[] = {{{0, 3}, 1}, {{4, 5}, 1}},
                                  end[] = {{{0, 2}, 1}, {{2, 3}, 1}, {{3, 4}, 1}};
    static const struct align_link first[] = {{1, 0}, {0, 1}};
    static const struct align_link second[] = {{2, 0}, {1, 1}, {0, 1}, {3, 2}};
    struct keep keep = {0};
    struct desk_answer a = halves(between, 2, first, 2), b = halves(end, 3, second, 4);
    a.word = source;
    a.n_word = 2;
    b.word = middle;
    b.n_word = 4;
    through_join(&b, &a, &keep);
    assert_ptr_equal(b.word, source);
    assert_int_equal(b.n_link, 2); /* 0-0 by "c"; 1-1 by both halves of "ab", once; nothing by 3 */
    assert_int_equal(b.link[0].src, 0);
    assert_int_equal(b.link[0].tgt, 0);
    assert_int_equal(b.link[1].src, 1);
    assert_int_equal(b.link[1].tgt, 1);
    keep_release(&keep);
    customer_init(&me);
    struct desk *desk = open_desk(0, 0);
    struct desk_order o = order_of("The cat sat on 12 mats.\nA dog.", DESK_TEXT);
    o.target = "fr";
    o.extras = DESK_WORDS;
    struct desk_job *job = run(desk, &o);
    const struct desk_answer *whole = desk_answer(job, 0);
    assert_string_equal(whole->source, one.text);
    assert_int_equal(whole->n_word, 10);
    assert_true(whole->n_link > 0 && whole->n_translated > 0);
    for (int i = 0; i < whole->n_link; i++)
        assert_true(whole->link[i].src < whole->n_word && whole->link[i].tgt < whole->n_translated);
    for (int i = 0; i < whole->n_translated; i++)
        assert_true((size_t)whole->translated[i].at.end <= whole->best[0].size);
    desk_release(job);
    desk_close(desk);
}

/* Nobody is accepted who cannot be served, and everybody hears why. */
static void check_wrong(struct desk *desk, const struct desk_order *o, const char *why) {
    struct desk_job *job;
    struct desk_refusal no = {.retry_after = 0};
    assert_int_equal(desk_submit(desk, o, &job, &no), DESK_WRONG);
    assert_null(job);
    if (!strstr(no.err.msg, why)) fail_msg("'%s' lacks '%s'", no.err.msg, why);
}

TEST(turned_away) {
    customer_init(&me);
    struct err err = {0};
    struct desk_model model = {.source = "de", .target = "en", .dir = dir_of(0)};
    struct desk_options few = {
        .model = &model, .n_model = 1, .where = {.device = "cpu", .n_thread = 1}, .max_jobs = 2};
    struct desk *desk;
    struct desk_job *job[3];
    struct desk_refusal no = {.retry_after = 0};
    ASSERT_OK(desk_open(&desk, &few, &err), err);
    struct desk_order o = order_of("a cat", DESK_TEXT);
    o.target = "fr";
    check_wrong(desk, &o, "from de to fr");
    o = order_of("a cat", DESK_TEXT);
    o.alternatives = DESK_MAX_ALTERNATIVES + 1;
    check_wrong(desk, &o, "16 alternatives");
    o = order_of("a cat", DESK_HTML);
    o.extras = DESK_WORDS;
    check_wrong(desk, &o, "HTML");
    o = order_of("a cat", DESK_LINE);
    one.size = DESK_MAX_TEXT + 1;
    check_wrong(desk, &o, "bytes");
    o = order_of("a cat sat on a mat", DESK_LINE);
    search.beam = 100;
    struct desk_job *wide;
    assert_int_equal(desk_submit(desk, &o, &wide, &no), DESK_ACCEPTED);
    wait_for(&me);
    assert_int_equal(desk_status(wide), DESK_REFUSED);
    assert_non_null(strstr(desk_message(wide), "beam"));
    desk_release(wide);
    char *much = xmalloc(200000);
    for (int i = 0; i < 199999; i++) much[i] = "cat. "[i % 5];
    much[199999] = 0;
    o = order_of(much, DESK_TEXT);
    for (int i = 0; i < 2; i++)
        assert_int_equal(desk_submit(desk, &o, &job[i], &no), DESK_ACCEPTED);
    assert_int_equal(desk_submit(desk, &o, &job[2], &no), DESK_FULL);
    assert_true(no.retry_after >= 1 && no.retry_after <= 60);
    assert_int_equal(desk_drain(desk, 0.01), 0);
    assert_int_equal(desk_submit(desk, &o, &job[2], &no), DESK_DRAINING);
    struct desk_stats s = desk_stats(desk);
    assert_int_equal(s.turned[DESK_FULL], 1);
    assert_int_equal(s.turned[DESK_WRONG], 4);
    assert_int_equal(s.jobs, 2);
    desk_release(job[0]); /* cancels it */
    desk_cancel(job[1]);
    assert_int_equal(desk_drain(desk, 60), 1);
    assert_int_equal(desk_status(job[1]), DESK_CANCELLED);
    desk_release(job[1]);
    desk_close(desk);
    xfree(much);
}

/* A closing desk cancels what is left, and everybody hears. */
static void hear_and_release(void *ctx, struct desk_job *job) {
    atomic_int *n = ctx;
    if (desk_status(job) == DESK_CANCELLED) atomic_fetch_add(n, 1);
    desk_release(job);
}

TEST(closing) {
    make_texts(0, 0);
    struct desk *desk = open_desk(4, 4);
    atomic_int n = 0;
    for (int i = 0; i < 200; i++) {
        struct desk_job *job;
        struct desk_order o = order_of(text[11], DESK_TEXT);
        o.done = hear_and_release;
        o.ctx = &n;
        assert_int_equal(desk_submit(desk, &o, &job, NULL), DESK_ACCEPTED);
    }
    desk_close(desk);
    assert_true(atomic_load(&n) > 100);
}

/* ---- other models ---------------------------------------------------------------------------- */

struct reloading {
    struct desk *desk;
    char *want[2];
    atomic_int stop, wrong, n_done;
};

static void *reload_customer(void *arg) {
    struct reloading *r = arg;
    struct customer c;
    struct search_options brief_one = brief(1);
    customer_init(&c);
    while (!atomic_load(&r->stop)) {
        struct desk_job *job;
        struct desk_text in = {.text = "the cat sat. a dog", .size = 18};
        struct desk_order o = {.text = &in,
                               .n = 1,
                               .source = "de",
                               .target = "en",
                               .search = &brief_one,
                               .done = hear,
                               .ctx = &c};
        if (desk_submit(r->desk, &o, &job, NULL) != DESK_ACCEPTED) {
            atomic_fetch_add(&r->wrong, 1);
            break;
        }
        wait_for(&c);
        int ok = desk_status(job) == DESK_DONE;
        const char *got = ok ? desk_answer(job, 0)->best[0].text : "";
        int which = strcmp(got, r->want[0]) == 0 ? 0 : strcmp(got, r->want[1]) == 0 ? 1 : -1;
        if (which < 0) atomic_fetch_add(&r->wrong, 1);
        desk_release(job);
        atomic_fetch_add(&r->n_done, 1);
    }
    return NULL;
}

/* Models change under load: every answer is of one of them, none is lost, old ones are gone. */
TEST(reload_drops_nothing) {
    customer_init(&me);
    struct reloading r = {.desk = open_desk(0, 0)};
    struct err err = {0};
    pthread_t id[4];
    struct desk_model other[] = {{.source = "de", .target = "en", .dir = dir_of(1)},
                                 {.source = "en", .target = "fr", .dir = dir_of(1)}};
    struct desk_model again[] = {{.source = "de", .target = "en", .dir = dir_of(0)},
                                 {.source = "en", .target = "fr", .dir = dir_of(1)}};
    struct desk_model bad = {.source = "de", .target = "en", .dir = "/nowhere"};
    r.want[0] = translated(r.desk, "the cat sat. a dog", "de", "en");
    r.want[1] = translated(r.desk, "the cat sat. a dog", "en", "fr");
    assert_string_not_equal(r.want[0], r.want[1]);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&id[i], NULL, reload_customer, &r), 0);
    for (int i = 0; i < 6; i++) {
        int before = atomic_load(&r.n_done);
        ASSERT_OK(desk_reload(r.desk, i % 2 ? again : other, 2, &err), err);
        assert_int_not_equal(desk_reload(r.desk, &bad, 1, &err), 0);
        while (atomic_load(&r.n_done) < before + 8 && !atomic_load(&r.wrong)) usleep(1000);
    }
    ASSERT_OK(desk_reload(r.desk, other, 2, &err), err);
    char *now = translated(r.desk, "the cat sat. a dog", "de", "en");
    assert_string_equal(now, r.want[1]);
    atomic_store(&r.stop, 1);
    for (int i = 0; i < 4; i++) pthread_join(id[i], NULL);
    assert_int_equal(atomic_load(&r.wrong), 0);
    struct desk_stats s = desk_stats(r.desk);
    for (int i = 0; i < 2000 && s.engines != 1; i++) { /* the old ones go when they are idle */
        usleep(1000);
        s = desk_stats(r.desk);
    }
    assert_int_equal(s.engines, 1); /* the same directory twice is one model */
    assert_int_equal(s.ended[DESK_DONE], atomic_load(&r.n_done) + 3);
    desk_close(r.desk);
    xfree(r.want[0]);
    xfree(r.want[1]);
    xfree(now);
}

/* ---- extras ---------------------------------------------------------------------------------- */

/* Words and links are those of heed translate --alignment words; confidences are probabilities. */
TEST(words_and_links) {
    customer_init(&me);
    make_texts(0, 0);
    struct err err = {0};
    const char *dir = dir_of(0);
    struct engine *engine;
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    struct translator_options o = translator_defaults();
    o.search = brief(1);
    o.format = FORMAT_TEXT;
    o.language = "de";
    o.alignment = ALIGNMENT_WORDS;
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    struct translator *t = translator_new(engine);
    ASSERT_OK(translator_set(t, &o, &err), err);
    struct desk *desk = open_desk(0, 0);
    int n_link = 0;
    for (int i = 0; i < N_TEXT; i += 3) {
        struct translation want;
        struct translator_input in = {.text = text[i], .size = size[i], .name = "text"};
        ASSERT_OK(translator_run(t, &in, 1, &want, NULL, &err), err);
        struct desk_order order = order_of("", DESK_TEXT);
        one = (struct desk_text){.text = text[i], .size = size[i]};
        order.extras = DESK_WORDS;
        struct desk_job *job = run(desk, &order);
        const struct desk_answer *a = desk_answer(job, 0);
        const struct candidate *c = &want.best[0];
        assert_string_equal(a->best[0].text, c->text);
        assert_int_equal(a->n_link, c->n_link);
        assert_int_equal(a->n_translated, c->n_word);
        if (want.n_part) assert_int_equal(a->n_word, want.n_word);
        for (int k = 0; k < a->n_link; k++) {
            assert_int_equal(a->link[k].src, c->link[k].src);
            assert_int_equal(a->link[k].tgt, c->link[k].tgt);
        }
        for (int k = 0; k < a->n_translated; k++) {
            assert_int_equal(a->translated[k].at.begin, c->word[k].begin);
            assert_int_equal(a->translated[k].at.end, c->word[k].end);
            assert_true(a->translated[k].confidence > 0 && a->translated[k].confidence <= 1);
        }
        n_link += a->n_link;
        desk_release(job);
    }
    assert_true(n_link > 50);
    desk_close(desk);
    translator_free(t);
    engine_close(engine);
}

static int count(const char *in, const char *what) {
    int n = 0;
    while ((in = strstr(in, what))) n++, in += strlen(what);
    return n;
}

/* A placeholder that the model does not write is a word of the answer nevertheless, linked to what
 * it was; what is told of a text while it is searched is all of it so far. */
TEST(words_of_placeholders) {
    customer_init(&me);
    make_texts(0, 1);
    struct desk *desk = open_desk(0, 0);
    int n_held = 0;
    for (int i = 0; i < N_TEXT; i += 3) {
        struct desk_order order = order_of("", DESK_TEXT);
        one = (struct desk_text){.text = text[i], .size = size[i]};
        order.extras = DESK_WORDS | DESK_PARTIAL;
        struct desk_job *job = run(desk, &order);
        const struct desk_answer *a = desk_answer(job, 0);
        const char *out = a->best[0].text;
        assert_int_equal(count(out, "{n}"), count(a->source, "{n}"));
        for (int k = 0; k < a->n_link; k++) {
            struct span s = a->word[a->link[k].src], t = a->translated[a->link[k].tgt].at;
            if (t.end - t.begin != 3 || memcmp(out + t.begin, "{n}", 3) != 0) continue;
            assert_non_null(memchr("{n}", a->source[s.begin], 3));
            n_held++;
        }
        desk_release(job);
    }
    assert_true(n_held > 10);
    desk_close(desk);
}

/* log P(target | source) of a pair, and its pieces. */
static double score_alone(const char *source, const char *target, int *n_piece) {
    struct err err = {0};
    const char *dir = dir_of(0);
    struct engine *engine;
    struct scorer *scorer;
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    int32_t src[64], tgt[64];
    float out[64];
    double sum = 0;
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    int n = tokenizer_encode_end(engine->source, source, strlen(source), src, 64);
    int m = *n_piece = tokenizer_encode_end(engine->target, target, strlen(target), tgt, 64);
    struct batch_caps caps = {64, 64, 1};
    ASSERT_OK(scorer_new(&scorer, engine->model[0], tokenizer_bos(engine->target), &caps, &err),
              err);
    ASSERT_OK(scorer_run(scorer, &(struct score_pair){src, tgt, n, m, out}, 1, &err), err);
    for (int i = 0; i < m; i++) sum += out[i];
    scorer_free(scorer);
    engine_close(engine);
    return sum;
}

TEST(score_and_attention) {
    customer_init(&me);
    struct desk *desk = open_desk(0, 0);
    struct desk_order o = order_of("the cat sat on a mat", DESK_LINE);
    o.extras = DESK_ATTENTION;
    struct desk_job *job = run(desk, &o), *scored;
    const struct desk_attention *look = desk_answer(job, 0)->attention;
    assert_non_null(look);
    struct desk_order again = order_of("the cat sat on a mat", DESK_LINE);
    one.given = "a dog 12.";
    one.given_size = 9;
    again.extras = DESK_SCORE;
    scored = run(desk, &again);
    const struct desk_answer *s = desk_answer(scored, 0);
    int n_piece;
    ASSERT_NEAR(s->best[0].log_prob, score_alone("the cat sat on a mat", "a dog 12.", &n_piece),
                1e-4);
    assert_int_equal(s->n_piece, n_piece);
    assert_int_equal(s->n_translated, 4);
    for (int i = 0; i < s->n_translated; i++)
        assert_true(s->translated[i].confidence > 0 && s->translated[i].confidence < 1);
    int n[3] = {look->n_src, look->n_tgt, look->n_tgt},
        m[3] = {look->n_src, look->n_tgt, look->n_src};
    int layers[3] = {look->n_layer_enc, look->n_layer_dec, look->n_layer_dec};
    const float *at[3] = {look->enc, look->dec, look->cross};
    for (int kind = 0; kind < 3; kind++)
        for (int row = 0; row < layers[kind] * look->n_head * n[kind]; row++) {
            double sum = 0;
            for (int k = 0; k < m[kind]; k++)
                sum += at[kind][(size_t)row * (size_t)m[kind] + (size_t)k];
            ASSERT_NEAR(sum, 1, 1e-4);
        }
    assert_string_equal(look->tgt[look->n_tgt - 1], "</s>");
    desk_release(job);
    desk_release(scored);
    desk_close(desk);
}

/* What was said to be settled stays; the last word is the whole. */
static struct {
    char said[20000];
    size_t settled;
    int n, broken;
} growth;

static void grow(void *ctx, struct desk_job *job, const struct desk_partial *p) {
    (void)ctx;
    (void)job;
    growth.n++;
    if (p->size >= sizeof growth.said || p->settled > p->size || p->text != 0 ||
        p->settled < growth.settled || memcmp(p->out, growth.said, growth.settled) != 0)
        growth.broken++;
    else
        memcpy(growth.said, p->out, p->size);
    growth.settled = p->settled;
}

TEST(partial_texts) {
    customer_init(&me);
    struct desk *desk = open_desk(2, 4);
    struct desk_order o =
        order_of("\n  The cat sat. A dog sat on 12 mats!\n\n- so did x.  The end.\n", DESK_TEXT);
    o.extras = DESK_PARTIAL;
    o.partial = grow;
    struct desk_job *job = run(desk, &o);
    const struct desk_candidate *best = &desk_answer(job, 0)->best[0];
    assert_int_equal(growth.broken, 0);
    assert_true(growth.n > 10 && growth.settled > 0);
    assert_true(growth.settled <= best->size);
    assert_memory_equal(best->text, growth.said, growth.settled);
    desk_release(job);
    desk_close(desk);
}

/* Each has what a translator with a glossary makes of it; those without, beside them, what it makes
 * without. */
TEST(terms_as_if_alone) {
    customer_init(&me);
    make_texts(0, 0);
    struct glossary *g = glossary_of_terms();
    struct wanted *want[] = {translate_all(dir_of(0), DESK_TEXT, 1),
                             translate_with(dir_of(0), DESK_TEXT, 1, g)};
    struct desk *desk = open_desk(8, 16);
    int n_differ = 0;
    for (int i = 0; i < N_TEXT; i++) {
        struct desk_order o = order_of(text[i], DESK_TEXT);
        one.size = size[i];
        search = brief(1);
        o.term = terms;
        o.n_term = i % 3 ? 2 : 0;
        struct desk_job *job = run(desk, &o);
        assert_string_equal(desk_answer(job, 0)->best[0].text, want[i % 3 > 0]->text[i]);
        n_differ += strcmp(want[0]->text[i], want[1]->text[i]) != 0;
        desk_release(job);
    }
    assert_true(n_differ > 10);
    struct desk_refusal refusal;
    struct desk_job *job;
    struct desk_order o = order_of("cat", DESK_TEXT);
    struct desk_term bad = {"cat", " "};
    o.term = &bad;
    o.n_term = 1;
    assert_int_equal(desk_submit(desk, &o, &job, &refusal), DESK_WRONG);
    assert_string_equal(refusal.err.msg, "term 1: the target term is empty");
    o.n_term = DESK_MAX_TERMS + 1;
    assert_int_equal(desk_submit(desk, &o, &job, &refusal), DESK_WRONG);
    assert_string_equal(refusal.err.msg, "1001 terms; at most 1000 are possible");
    o.term = terms;
    o.n_term = 2;
    o.source = "de";
    o.target = "fr";
    assert_int_equal(desk_submit(desk, &o, &job, &refusal), DESK_WRONG);
    assert_non_null(strstr(refusal.err.msg, "a third language, which has no terms"));
    desk_close(desk);
    glossary_free(g);
    wanted_free(want[0]);
    wanted_free(want[1]);
}

TESTS(TL(lines_as_if_alone, 120), TL(texts_as_if_alone, 120), TL(alternatives_as_if_alone, 120),
      TL(pages_as_if_alone, 120), T(through_a_third_language), T(links_through_a_third_language),
      T(turned_away), T(closing), T(reload_drops_nothing), T(words_and_links),
      T(words_of_placeholders), T(score_and_attention), T(partial_texts), TL(terms_as_if_alone, 60))
