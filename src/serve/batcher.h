/* batcher.h — one model and the thread that runs it: sentences of all errands share every step.
 *
 * An errand is a task (task.h) on its way through this model. Between two steps of its carousel
 * (search/carousel.h) the engine thread looks who was cancelled or is late, takes in what is new,
 * seats whose turn it is, and hands back who is done. Nobody waits for a batch to fill or to end;
 * only where all seats are taken, those that fall empty are filled a few at a time.
 *
 * Whose turn it is (flows.h). A sentence costs its source tokens times the beam, over the weight of
 * its class: flows of a class get equal shares, and errands of a flow take turns, sentence by
 * sentence.
 *
 * How long a short one takes. What it can meet of others is one step of all their rows, or one
 * layer of the encoder over those that board: these are encoded layer by layer, and when somebody
 * interactive comes the rest waits. While interactive sentences ride, others sit still. With every
 * step they save up as many rows as ride, at most a quarter of `busy_rows` (or of those that ride,
 * if these are many); with `busy_rows` of them they make one step, the oldest first; and a layer is
 * encoded when its share of the source tokens was saved up likewise. When the last interactive one
 * has ended, nobody goes on for half a millisecond: the answer finds a processor, and a client that
 * has the next text at hand meets nothing. For a few steps after that others go on without waiting,
 * but still with `busy_rows` rows and one sentence boarding. With nobody interactive about all rows
 * go on, and those that board together have few tokens. What is tokenised between two steps
 * has few bytes. Others than interactive ones never take more than three quarters of seats, rows
 * and cells, unless it is one sentence that is so large. One that could not be seated for PATIENCE
 * steps goes before all. Where a device makes steps of all rows short, nobody is held.
 *
 * Who owns what. The engine, the carousel and all scratch belong to the thread, which opens and
 * frees them. An errand is the caller's; from batcher_give to `ended` the batcher uses it and its
 * task. Calls back come from the engine thread, which holds no lock and has let go of the errand
 * when it calls `ended`.
 *
 * Failure. A text that cannot be translated, and scores that are not numbers, end their errand
 * alone. When the backend fails, errands with sentences in work end with its message, and the model
 * is opened anew for the others; when that fails, all there are end, and the next to come tries
 * again. */
#ifndef SERVE_BATCHER_H
#define SERVE_BATCHER_H

#include <stdatomic.h>

#include "serve/desk.h"
#include "serve/task.h"

struct batcher;
struct flow;

struct errand {
    struct task *task;
    const struct search_options *search; /* NULL: the model's */
    struct engine_said said;             /* languages, of a model that must be told */
    uint64_t client;
    enum desk_class class; /* not AUTO */
    double deadline;       /* 0: none */
    atomic_int cancelled;  /* set it at any time: it ends before the next step */
    void (*ended)(struct errand *errand, enum desk_status status, const char *message);
    void (*partial)(struct errand *errand, const struct desk_partial *partial); /* or NULL */
    struct desk_cost cost; /* waited: when it was first in work, as clock_seconds; 0: never */
    /* the batcher's */
    struct errand *next, **link; /* of all it has */
    struct errand *turn;         /* of its flow's */
    struct flow *flow;           /* NULL: nothing of it waits */
    struct part *ready;          /* tokenised, not seated */
    int began, n_linking, n_scored;
    struct search_options options;
};

struct batcher_options {
    const char *dir;
    struct backend_options where;
    enum precision precision;
    int seats, busy_rows; /* 0: as suits the device */
    /* [n_said] what errands will say; what the model does not know is an error of batcher_open */
    const struct engine_said *said;
    int n_said;
    /* called when its model is closed and nobody may use it any more; totals are its counters */
    void (*gone)(void *ctx, const struct desk_stats *totals);
    void *ctx;
};

/* Starts the thread, and waits until the model is open. Strings are copied. */
int batcher_open(struct batcher **batcher, const struct batcher_options *options, struct err *err);

/* No more errands will come: when it has ended those it has, it frees itself. */
void batcher_retire(struct batcher *batcher);

void batcher_give(struct batcher *batcher, struct errand *errand);

/* Adds counters. */
void batcher_add_stats(struct desk_stats *to, const struct desk_stats *stats);

/* Adds what it did and has: seated, sentences, tokens, steps, rows, passes, seconds, engines. */
void batcher_stats(struct batcher *batcher, struct desk_stats *stats);

#endif
