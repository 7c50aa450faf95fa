/* test_batcher.c — who is next and who is held, counted in steps; what is left of a cancelled
 * errand; what failures cost whom.
 *
 * Calls back come from the batcher's thread, between two steps, and look at its counters and its
 * backend. */
#include <malloc.h>
#include <semaphore.h>
#include <unistd.h>

#include "backend/device.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/rng.h"
#include "data/sentences.h"
#include "model/modeldir.h"
#include "rig.h"
#include "serve/batcher_inside.h"
#include "test.h"

enum { SEATS = 16, BUSY = 12, MANY = 120, SHORT_LINES = 1 };

static struct batcher *b;
static struct search_options search;
static sem_t ended;
static int n_ended;

/* An errand and what became of it. */
struct trip {
    struct errand errand;
    enum desk_status status;
    char message[256], *text; /* of its first line */
    uint64_t began, steps;    /* the batcher's steps when it was given, and in the end */
    int place;                /* it was the how manieth to end */
    void (*watch)(struct trip *t);
    int watched;
};

static void on_ended(struct errand *e, enum desk_status status, const char *message) {
    struct trip *t = (struct trip *)e;
    int n;
    t->status = status;
    snprintf(t->message, sizeof t->message, "%s", message);
    if (status == DESK_DONE) t->text = xstrdup(task_finish(e->task, &n)[0].best[0].text);
    t->steps = b->now.steps;
    t->place = n_ended++;
    sem_post(&ended);
}

static void on_partial(struct errand *e, const struct desk_partial *partial) {
    struct trip *t = (struct trip *)e;
    (void)partial;
    if (t->watch) t->watch(t);
}

/* n lines of so many words each. */
static struct trip *trip_new(int n, int words, enum desk_class class, uint64_t client) {
    struct trip *t = xcalloc(1, sizeof *t);
    struct desk_text *line = xcalloc((size_t)n, sizeof *line);
    static const char *const word[] = {"cat ", "sat ", "on ", "a ", "mat ", "dog "};
    char *all = xcalloc((size_t)n * (size_t)words, 5), *at = all;
    struct rng rng = {.key = 3};
    for (int i = 0; i < n; i++) {
        line[i].text = at;
        for (int k = 0; k < words; k++) at = stpcpy(at, word[rng_below(&rng, 6)]);
        line[i].size = (size_t)(at - line[i].text);
    }
    struct task_order order = {.text = line,
                               .n = n,
                               .format = DESK_LINE,
                               .n_best = 1,
                               .extras = DESK_PARTIAL,
                               .rules = sentence_rules(NULL)};
    t->errand = (struct errand){.task = task_new(&order),
                                .search = &search,
                                .client = client,
                                .class = class,
                                .ended = on_ended,
                                .partial = on_partial};
    xfree(line);
    xfree(all);
    return t;
}

static void trip_free(struct trip *t) {
    task_free(t->errand.task);
    xfree(t->text);
    xfree(t);
}

static void open_dir(const char *dir, int seats, int busy_rows) {
    struct err err = {0};
    struct batcher_options o = {.dir = dir,
                                .where = {.device = "cpu", .n_thread = 2},
                                .seats = seats,
                                .busy_rows = busy_rows};
    search = search_defaults();
    search.max_extra = 10;
    n_ended = 0;
    sem_init(&ended, 0, 0);
    ASSERT_OK(batcher_open(&b, &o, &err), err);
}

static void open_batcher(int seats, int busy_rows) {
    open_dir(model_dir("m", 3, 300), seats, busy_rows);
}

static sem_t closed;
static void on_gone(void *ctx, const struct desk_stats *totals) {
    (void)ctx;
    (void)totals;
    sem_post(&closed);
}

static void close_batcher(void) {
    sem_init(&closed, 0, 0);
    b->options.gone = on_gone; /* the thread is idle */
    batcher_retire(b);
    sem_wait(&closed);
}

static void wait_for(int n) {
    for (int i = 0; i < n; i++) sem_wait(&ended);
}

/* Gives them all before the thread looks. */
static void give_all(struct trip *const *t, int n) {
    pthread_mutex_lock(&b->lock);
    for (int i = 0; i < n; i++) {
        t[i]->began = b->now.steps;
        batcher_put(b, &t[i]->errand);
    }
    pthread_mutex_unlock(&b->lock);
}

/* ---- whose turn it is ------------------------------------------------------------------------ */

static struct trip *the_short;
static uint64_t rows_before;

/* In the midst of a large errand a short one comes. */
static void send_short(struct trip *t) {
    if (b->now.steps - t->began < 20 || t->watched++) return;
    rows_before = b->now.rows;
    give_all(&the_short, 1);
}

static uint64_t rows_after;
static void short_ended(struct errand *e, enum desk_status status, const char *message) {
    rows_after = b->now.rows;
    on_ended(e, status, message);
}

TEST(short_beside_long) {
    open_batcher(SEATS, BUSY);
    struct trip *alone = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 2);
    give_all(&alone, 1);
    wait_for(1);
    uint64_t steps = alone->steps - alone->began;
    assert_int_equal(alone->status, DESK_DONE);
    struct trip *large = trip_new(MANY, 12, DESK_BULK, 1);
    large->watch = send_short;
    the_short = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 2);
    the_short->errand.ended = short_ended;
    give_all(&large, 1);
    wait_for(2);
    assert_int_equal(large->status, DESK_DONE);
    assert_int_equal(the_short->status, DESK_DONE);
    assert_true(the_short->place < large->place);
    assert_string_equal(the_short->text, alone->text);
    uint64_t took = the_short->steps - the_short->began, rows = rows_after - rows_before;
    if (took > steps + 1)
        fail_msg("%llu steps beside a large one, %llu alone", (unsigned long long)took,
                 (unsigned long long)steps);
    if (rows > took * BUSY || rows < took * 5) /* the large one goes on all the same */
        fail_msg("%llu rows in %llu steps", (unsigned long long)rows, (unsigned long long)took);
    trip_free(alone);
    trip_free(large);
    trip_free(the_short);
    close_batcher();
}

/* A second short one comes while the first rides, and others have all the seats that they may. */
static struct trip *the_second;
static int others_then;
static void send_second(struct trip *t) {
    if (b->now.steps - t->began < 3 || t->watched++) return;
    others_then = b->n_order - b->n_urgent;
    give_all(&the_second, 1);
}

TEST(two_short_beside_long) {
    open_batcher(SEATS, BUSY);
    struct search_options stays = search;
    search.min_len = 8;
    stays.min_len = 64;
    struct trip *alone = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 3);
    struct trip *large = trip_new(60, 60, DESK_BULK, 1);
    the_short = trip_new(SHORT_LINES, 12, DESK_INTERACTIVE, 2);
    the_second = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 3);
    large->errand.search = &stays;
    large->watch = send_short;
    the_short->watch = send_second;
    give_all(&alone, 1);
    wait_for(1);
    give_all(&large, 1);
    wait_for(3);
    assert_int_equal(the_second->status, DESK_DONE);
    assert_int_equal(others_then, SEATS - SEATS / 4);
    uint64_t took = the_second->steps - the_second->began, steps = alone->steps - alone->began;
    if (took > steps + 1)
        fail_msg("%llu steps beside another and a large one, %llu alone", (unsigned long long)took,
                 (unsigned long long)steps);
    trip_free(alone);
    trip_free(large);
    trip_free(the_short);
    trip_free(the_second);
    close_batcher();
}

/* One after the other, as of a client that has the next at hand when it hears of the last. What
 * each meets of a large errand: a step of it or two, and a sentence or two that get on. */
enum { SHORT_ONES = 24, LARGE_WORDS = 12 };
static struct trip *short_one[SHORT_ONES];
static uint64_t met_rows, met_tokens, rows_then, tokens_then;
static int short_next;

static void send_next(void) {
    rows_then = b->now.rows;
    tokens_then = b->now.src_tokens;
    give_all(&short_one[short_next], 1);
}

static void one_ended(struct errand *e, enum desk_status status, const char *message) {
    struct trip *t = short_one[short_next++];
    uint64_t steps = b->now.steps - t->began;
    uint64_t rows = b->now.rows - rows_then - steps, tokens = b->now.src_tokens - tokens_then;
    if (rows > met_rows) met_rows = rows;
    if (tokens > met_tokens) met_tokens = tokens;
    on_ended(e, status, message);
    if (short_next < SHORT_ONES) send_next();
}

static void send_first(struct trip *t) {
    if (b->now.steps - t->began >= 20 && !t->watched++) send_next();
}

TEST(short_one_after_another) {
    open_batcher(SEATS, BUSY);
    search.beam = 1;
    struct trip *large = trip_new(MANY, LARGE_WORDS, DESK_BULK, 1);
    large->watch = send_first;
    for (int i = 0; i < SHORT_ONES; i++) {
        short_one[i] = trip_new(1, 3, DESK_INTERACTIVE, 2);
        short_one[i]->errand.ended = one_ended;
    }
    met_rows = met_tokens = short_next = 0;
    give_all(&large, 1);
    wait_for(SHORT_ONES + 1);
    assert_int_equal(large->status, DESK_DONE);
    assert_true(large->place == SHORT_ONES);
    if (met_rows > 2 * BUSY || met_rows < 1)
        fail_msg("a short one met %llu rows of a large one", (unsigned long long)met_rows);
    if (met_tokens > 4 + 2 * (LARGE_WORDS + 1))
        fail_msg("while a short one rode, %llu tokens got on", (unsigned long long)met_tokens);
    for (int i = 0; i < SHORT_ONES; i++) trip_free(short_one[i]);
    trip_free(large);
    close_batcher();
}

/* A sentence of many words boards beside short ones that go on all the time: between two steps of
 * theirs it is encoded for a layer and a little at the most. When nobody rides it is encoded at
 * once, unless somebody comes. */
enum { LONG_WORDS = 250 };
static int board_most, board_was;

static void watch_boarding(struct trip *t) {
    (void)t;
    int left = carousel_boarding(b->carousel);
    if (b->n_urgent && board_was > left) board_most = max_int(board_most, board_was - left);
    board_was = left;
}

static void knock(struct trip *t) {
    if (t->watched) return;
    atomic_store(&b->wanted, 1);
    batcher_admit(b);
    int boards = carousel_boarding(b->carousel);
    batcher_board(b);
    int waits = carousel_boarding(b->carousel);
    atomic_store(&b->wanted, 0);
    batcher_board(b);
    t->watched = boards && waits == boards && !carousel_boarding(b->carousel) ? 2 : -1;
}

TEST(long_boards_by_and_by) {
    struct trip *large, *wordy;
    open_batcher(SEATS, BUSY);
    search.beam = 1;
    board_most = board_was = short_next = 0;
    wordy = trip_new(4, LONG_WORDS, DESK_BULK, 1);
    for (int i = 0; i < SHORT_ONES; i++) {
        short_one[i] = trip_new(1, 12, DESK_INTERACTIVE, 2);
        short_one[i]->errand.ended = one_ended;
        short_one[i]->watch = watch_boarding;
    }
    give_all((struct trip *[]){short_one[0], wordy}, 2);
    wait_for(SHORT_ONES + 1);
    assert_int_equal(wordy->status, DESK_DONE);
    int layer = min_int(LONG_WORDS, b->facts.limit) / b->engine->model[0]->config.n_layer_enc;
    if (board_most < layer || board_most > layer + 10)
        fail_msg("%d tokens were encoded between two steps of short ones; a layer is %d",
                 board_most, layer);
    large = trip_new(MANY, LARGE_WORDS, DESK_BULK, 1);
    large->watch = knock;
    give_all(&large, 1);
    wait_for(1);
    assert_int_equal(large->status, DESK_DONE);
    assert_int_equal(large->watched, 2);
    for (int i = 0; i < SHORT_ONES; i++) trip_free(short_one[i]);
    trip_free(wordy);
    trip_free(large);
    close_batcher();
}

/* Of two clients with much to do, neither gets ahead, though one came first, in one piece. */
static void send_beside_impatient(struct trip *t) {
    if (!b->impatient || t->watched++) return;
    rows_before = b->now.rows;
    give_all(&the_short, 1);
}

/* A short one does not wait for an impatient one, which needs all rows that there are, nor for rows
 * that attend to many tokens, which are worth more than others. */
TEST(short_beside_impatient) {
    open_batcher(SEATS, BUSY);
    struct search_options wide = search;
    search.min_len = 64; /* who gets on stays */
    wide.beam = SEATS * 4;
    struct trip *alone = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 2);
    give_all(&alone, 1);
    wait_for(1);
    uint64_t steps = alone->steps - alone->began;
    struct trip *t[] = {trip_new(60, 60, DESK_BULK, 1), trip_new(1, 6, DESK_BULK, 3)};
    t[0]->watch = send_beside_impatient;
    t[1]->errand.search = &wide;
    the_short = trip_new(SHORT_LINES, 6, DESK_INTERACTIVE, 2);
    the_short->errand.ended = short_ended;
    give_all(t, 2);
    wait_for(3);
    assert_int_equal(t[0]->status, DESK_DONE);
    assert_int_equal(t[1]->status, DESK_DONE);
    assert_int_equal(the_short->status, DESK_DONE);
    assert_true(the_short->place < t[1]->place && t[1]->place < t[0]->place);
    uint64_t took = the_short->steps - the_short->began, rows = rows_after - rows_before;
    if (took > steps + 1)
        fail_msg("%llu steps beside an impatient one, %llu alone", (unsigned long long)took,
                 (unsigned long long)steps);
    if (rows > took * 9 || rows < took * 5)
        fail_msg("%llu rows in %llu steps", (unsigned long long)rows, (unsigned long long)took);
    trip_free(alone);
    trip_free(t[0]);
    trip_free(t[1]);
    trip_free(the_short);
    close_batcher();
}

TEST(equal_shares) {
    enum { N = 60 };
    struct trip *t[2 * N];
    open_batcher(8, BUSY);
    for (int i = 0; i < 2 * N; i++) t[i] = trip_new(1, 8, DESK_BULK, i < N ? 1 : 2);
    give_all(t, 2 * N);
    wait_for(2 * N);
    int ahead[2 * N] = {0}, lead = 0;
    for (int i = 0; i < 2 * N; i++) ahead[t[i]->place] = i < N ? 1 : -1;
    for (int i = 0; i < 2 * N - 16; i++) {
        lead += ahead[i];
        if (abs(lead) > 8) fail_msg("after %d sentences one client is %d ahead", i + 1, lead);
    }
    for (int i = 0; i < 2 * N; i++) trip_free(t[i]);
    close_batcher();
}

/* Clients with a sentence each are served in the order in which they came. */
TEST(first_come_first_served) {
    enum { N = 64 };
    struct trip *t[N];
    open_batcher(8, BUSY);
    for (int i = 0; i < N; i++) t[i] = trip_new(1, 8, DESK_INTERACTIVE, (uint64_t)i);
    give_all(t, N);
    wait_for(N);
    for (int i = 0; i < N; i++)
        if (abs(t[i]->place - i) > 8) fail_msg("client %d was served as number %d", i, t[i]->place);
    for (int i = 0; i < N; i++) trip_free(t[i]);
    close_batcher();
}

/* Seats that fall empty one by one are filled several at a time where more wait. */
TEST(crowd_gets_on_together) {
    enum { N = 80 };
    struct trip *t[N];
    open_batcher(20, BUSY);
    search.beam = 1;
    for (int i = 0; i < N; i++) t[i] = trip_new(1, 3 + i % 11, DESK_INTERACTIVE, (uint64_t)i);
    give_all(t, N);
    wait_for(N);
    if (b->now.passes > N / 4)
        fail_msg("%llu passes for %d sentences", (unsigned long long)b->now.passes, N);
    for (int i = 0; i < N; i++) trip_free(t[i]);
    close_batcher();
}

/* Of n sentences of another class beside many interactive ones: the how manieth of all to end is
 * the last? */
static int last_beside(int seats, int n, enum desk_class class) {
    enum { URGENT = 200 };
    struct trip *t[URGENT + 40];
    int last = 0;
    open_batcher(seats, BUSY);
    for (int i = 0; i < URGENT + n; i++)
        t[i] = trip_new(1, 8, i < n ? class : DESK_INTERACTIVE, i < n ? 1 : 2);
    give_all(t, URGENT + n);
    wait_for(URGENT + n);
    for (int i = 0; i < n; i++) last = max_int(last, t[i]->place);
    for (int i = 0; i < URGENT + n; i++) trip_free(t[i]);
    close_batcher();
    return last;
}

/* Interactive ones go first, and nobody starves: of 17 sentences one is bulk, of 5 one is normal,
 * also where interactive ones alone have more rows than a short step. */
TEST(weights_of_classes) {
    int last = last_beside(8, 4, DESK_BULK);
    if (last < 40 || last > 70) fail_msg("the 4th of bulk was number %d", last);
    last = last_beside(24, 24, DESK_NORMAL);
    if (last < 100 || last > 160) fail_msg("the 24th normal one was number %d", last);
}

/* ---- cancelling ------------------------------------------------------------------------------ */

static uint64_t cancelled_at;
static void cancel_now(struct trip *t) {
    if (b->now.steps - t->began < 7 || t->watched++) return;
    cancelled_at = b->now.steps;
    atomic_store(&t->errand.cancelled, 1);
}

TEST(cancel_at_once) {
    open_batcher(SEATS, BUSY);
    struct trip *t = trip_new(MANY, 12, DESK_BULK, 1);
    t->watch = cancel_now;
    give_all(&t, 1);
    wait_for(1);
    assert_int_equal(t->status, DESK_CANCELLED);
    assert_int_equal(t->steps, cancelled_at);
    trip_free(t);
    struct trip *late = trip_new(3, 5, DESK_NORMAL, 1);
    late->errand.deadline = clock_seconds() - 1;
    give_all(&late, 1);
    wait_for(1);
    assert_int_equal(late->status, DESK_DEADLINE);
    assert_int_equal(late->steps, late->began); /* nothing was done for it */
    trip_free(late);
    assert_int_equal(b->n_order, 0);
    assert_int_equal(b->flows.n, 0);
    close_batcher();
}

/* ---- failures -------------------------------------------------------------------------------- */

static char away[600];
static struct trip *waiting;

/* In the midst of an errand that has all seats another one comes, and the device fails. */
static void break_device(struct trip *t) {
    if (b->now.steps - t->began < 3 || t->watched++) return;
    give_all(&waiting, 1);
    if (away[0]) rename(b->dir, away);
    backend_fail(b->engine->be, HEED_EDEVICE, "the device is gone");
}

static void break_beside(struct trip *other) {
    struct trip *t = trip_new(6, 12, DESK_INTERACTIVE, 4);
    waiting = other;
    t->watch = break_device;
    give_all(&t, 1);
    wait_for(2);
    assert_int_equal(t->status, DESK_FAILED);
    assert_string_equal(t->message, "the device is gone");
    trip_free(t);
}

/* Who is not in work when the device fails is translated by the model opened anew; where that
 * cannot be opened, everybody hears why, and the next one tries again. */
TEST(failing_backend) {
    struct trip *t[4];
    open_batcher(2, BUSY);
    for (int i = 0; i < 4; i++) t[i] = trip_new(1, 8, DESK_INTERACTIVE, 5);
    give_all(t, 1);
    wait_for(1);
    break_beside(t[1]);
    assert_int_equal(t[1]->status, DESK_DONE);
    assert_string_equal(t[1]->text, t[0]->text);
    snprintf(away, sizeof away, "%s.away", b->dir);
    break_beside(t[2]);
    assert_int_equal(t[2]->status, DESK_FAILED);
    assert_true(t[2]->message[0] && strcmp(t[2]->message, "the device is gone") != 0);
    assert_int_equal(rename(away, b->dir), 0);
    away[0] = 0;
    give_all(t + 3, 1);
    wait_for(1);
    assert_int_equal(t[3]->status, DESK_DONE);
    assert_string_equal(t[3]->text, t[0]->text);
    assert_int_equal(n_ended, 6);
    for (int i = 0; i < 4; i++) trip_free(t[i]);
    close_batcher();
}

/* The device fails while a translation is scored; of an errand that has a sentence aboard another
 * one was chosen just before. */
static void break_scoring(struct trip *t) {
    if (t->watched++) return;
    t->errand.flow->time = -1;
    give_all(&waiting, 1);
    backend_fail(b->engine->be, HEED_EDEVICE, "the device is gone");
}

TEST(failing_score) {
    struct trip *t = trip_new(6, 200, DESK_INTERACTIVE, 1), *next;
    struct desk_text pair = {"cat", 3, "mat", 3};
    open_batcher(SEATS, BUSY);
    waiting = trip_new(1, 1, DESK_INTERACTIVE, 2);
    task_free(waiting->errand.task);
    waiting->errand.task = task_new(&(struct task_order){.text = &pair,
                                                         .n = 1,
                                                         .format = DESK_LINE,
                                                         .n_best = 1,
                                                         .extras = DESK_SCORE,
                                                         .rules = sentence_rules(NULL)});
    t->watch = break_scoring;
    give_all(&t, 1);
    wait_for(2);
    assert_int_equal(t->status, DESK_FAILED);
    assert_int_equal(waiting->status, DESK_FAILED);
    assert_int_equal(t->place, 1); /* it was not the step that failed */
    assert_string_equal(t->message, "the device is gone");
    next = trip_new(1, 6, DESK_INTERACTIVE, 3);
    give_all(&next, 1);
    wait_for(1);
    assert_int_equal(next->status, DESK_DONE);
    assert_int_equal(n_ended, 3);
    assert_int_equal(b->n_order, 0);
    trip_free(t);
    trip_free(waiting);
    trip_free(next);
    close_batcher();
}

/* ---- texts without end ----------------------------------------------------------------------- */

/* Five megabytes without a space are read in portions: a short one is done long before. */
TEST(endless_word) {
    enum { SIZE = 5 << 20 };
    open_batcher(SEATS, BUSY);
    char *word = xmalloc(SIZE);
    memset(word, 'a', SIZE);
    struct trip *alone = trip_new(1, 6, DESK_INTERACTIVE, 2), *huge = trip_new(1, 1, DESK_BULK, 1);
    struct trip *beside = trip_new(1, 6, DESK_INTERACTIVE, 2);
    struct desk_text line = {.text = word, .size = SIZE};
    task_free(huge->errand.task);
    huge->errand.task = task_new(&(struct task_order){.text = &line,
                                                      .n = 1,
                                                      .format = DESK_TEXT,
                                                      .n_best = 1,
                                                      .extras = DESK_PARTIAL,
                                                      .rules = sentence_rules(NULL)});
    give_all(&alone, 1);
    wait_for(1);
    double begin = clock_seconds();
    give_all(&huge, 1);
    give_all(&beside, 1);
    wait_for(1);
    assert_int_equal(beside->status, DESK_DONE);
    assert_true(beside->steps - beside->began <= alone->steps - alone->began + 8);
    atomic_store(&huge->errand.cancelled, 1);
    wait_for(1);
    assert_int_equal(huge->status, DESK_CANCELLED);
    assert_true(clock_seconds() - begin < 20);
    trip_free(alone);
    trip_free(huge);
    trip_free(beside);
    xfree(word);
    close_batcher();
}

/* ---- memory ---------------------------------------------------------------------------------- */

TEST(memory_stays) {
    size_t in_use[3];
    open_batcher(SEATS, BUSY);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 40; i++) {
            struct trip *t[3];
            for (int k = 0; k < 3; k++)
                t[k] = trip_new(1 + k, 4 + i % 9, (enum desk_class)(1 + k), (uint64_t)k);
            if (i % 5 == 0) t[1]->watch = cancel_now;
            give_all(t, 3);
            wait_for(3);
            for (int k = 0; k < 3; k++) trip_free(t[k]);
        }
        pthread_mutex_lock(&b->lock); /* the thread is idle */
        in_use[round] = mallinfo2().uordblks;
        pthread_mutex_unlock(&b->lock);
    }
    if (in_use[2] > in_use[1] + 4096)
        fail_msg("%zu bytes, then %zu, then %zu", in_use[0], in_use[1], in_use[2]);
    close_batcher();
}

static size_t resident(void) {
    size_t size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%zu %zu", &size, &pages), 2);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* What much work has touched is given back when there is none. */
TEST(memory_is_given_back) {
    open_batcher(600, BUSY);
    size_t before = resident();
    struct trip *t = trip_new(TEST_SANITIZED ? 60 : 600, 60, DESK_BULK, 1);
    give_all(&t, 1);
    wait_for(1);
    size_t used = resident() - before;
    trip_free(t);
    for (double begin = clock_seconds(); clock_seconds() - begin < (TEST_SANITIZED ? 3 : 20);) {
        if (resident() < before + used / 3) break;
        usleep(50000);
    }
    size_t now = resident();
    if (now > before + used / 3 && !TEST_SANITIZED)
        fail_msg("%zu bytes left of %zu", now - before, used);
    t = trip_new(1, 6, DESK_INTERACTIVE, 1); /* and it goes on */
    give_all(&t, 1);
    wait_for(1);
    assert_int_equal(t->status, DESK_DONE);
    trip_free(t);
    close_batcher();
}

/* ---- scores that are no numbers -------------------------------------------------------------- */

TEST(not_a_number) {
    struct err err = {0};
    struct backend *be;
    struct model *model;
    const char *dir = model_dir("n", 3, 300);
    char *weights = path_join(dir, MODELDIR_WEIGHTS);
    ASSERT_OK(backend_open(&be, &(struct backend_options){"cpu", 1, NULL}, &err), err);
    ASSERT_OK(model_load(&model, dir, be, DTYPE_F32, &err), err);
    rig_spoil(model, "tgt_embed", 9);
    ASSERT_OK(
        model_save(model, weights, &(struct weights_options){.step = 1, .type = DTYPE_F32}, &err),
        err);
    model_free(model);
    backend_close(be);
    xfree(weights);
    open_dir(dir, SEATS, BUSY);
    struct trip *t[3];
    for (int i = 0; i < 3; i++) t[i] = trip_new(1 + i, 6, DESK_NORMAL, (uint64_t)i);
    give_all(t, 2);
    wait_for(2);
    give_all(t + 2, 1); /* it lives */
    wait_for(1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(t[i]->status, DESK_FAILED);
        assert_non_null(strstr(t[i]->message, "not "));
        trip_free(t[i]);
    }
    assert_int_equal(n_ended, 3);
    assert_int_equal(b->n_order, 0);
    close_batcher();
}

TESTS(T(short_beside_long), T(two_short_beside_long), T(short_one_after_another),
      T(long_boards_by_and_by), T(short_beside_impatient), T(equal_shares),
      T(first_come_first_served), T(crowd_gets_on_together), T(weights_of_classes),
      T(cancel_at_once), T(failing_backend), T(failing_score), T(endless_word), T(memory_stays),
      T(memory_is_given_back), T(not_a_number))
