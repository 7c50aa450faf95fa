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
#include "search/translator.h"
#include "test.h"
#include "text/pages.h"
#include "toy.h"

enum { N_TEXT = 60, MAX_TEXT = 4000, N_THREAD = 8, PER_THREAD = 40 };

static char text[N_TEXT][MAX_TEXT];
static size_t size[N_TEXT];

/* Words at random in lines and sentences; some are far too long for the model, one has no word. */
static void make_texts(int html) {
    static const char *const word[] = {"cat", "sat", "on",  "a",        "mat",
                                       "x",   "12",  "the", "\u00fcber"};
    static const char *const gap[] = {" ", " ", " ", " ", ". ", ".\n\n", "!  ", ",\t"};
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

static struct wanted *translate_all(const char *dir, enum desk_format format, int n_best) {
    struct wanted *w = xcalloc(1, sizeof *w);
    struct err err = {0};
    struct engine *engine;
    struct engine_options from = {.dir = &dir, .n = 1, .where = {.device = "cpu", .n_thread = 1}};
    struct translator_options o = translator_defaults();
    o.search = brief(n_best);
    o.format = format == DESK_TEXT ? FORMAT_TEXT : FORMAT_LINES;
    o.language = "de";
    if (format == DESK_HTML) o.alignment = ALIGNMENT_WORDS;
    ASSERT_OK(engine_open(&engine, &from, &err), err);
    struct translator *t = translator_new(engine);
    struct pages *pages = pages_new(t);
    ASSERT_OK(translator_set(t, &o, &err), err);
    for (int i = 0; i < N_TEXT; i++) {
        struct translation out;
        struct translator_input in = {.text = text[i], .size = size[i], .name = "text"};
        ASSERT_OK(format == DESK_HTML ? pages_run(pages, &in, 1, &out, NULL, &err)
                                      : translator_run(t, &in, 1, &out, NULL, &err),
                  err);
        w->text[i] = xstrdup(out.best[0].text);
        w->second[i] = xstrdup(out.best[out.n > 1].text);
    }
    pages_free(pages);
    translator_free(t);
    engine_close(engine);
    return w;
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
    struct desk_model model[] = {{"de", "en", dir_of(0)}, {"en", "fr", dir_of(1)}};
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

__attribute__((unused)) static int hears_yet(struct customer *c) {
    pthread_mutex_lock(&c->lock);
    int done = c->done;
    pthread_mutex_unlock(&c->lock);
    return done;
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
    make_texts(format == DESK_HTML);
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

TESTS(TL(lines_as_if_alone, 120), TL(texts_as_if_alone, 120), TL(alternatives_as_if_alone, 120),
      TL(pages_as_if_alone, 120))
