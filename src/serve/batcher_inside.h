/* batcher_inside.h — the inside of a batcher (batcher.h), for src/serve/batcher*.c only.
 *
 *     batcher.c         the model, and the thread that takes turns
 *     batcher_admit.c   who gets on, of those whose turn it is (flows.h)
 *     batcher_step.c    a step with all that are aboard; errands begin and end
 *
 * Everything but what is shared under the lock is the thread's own. */
#ifndef SERVE_BATCHER_INSIDE_H
#define SERVE_BATCHER_INSIDE_H

#include <pthread.h>

#include "base/num.h"
#include "serve/batcher.h"
#include "serve/extras.h"
#include "serve/flows.h"

enum { MAX_PASS = 64 }; /* sentences that get on together */

/* What suits a kind of device. pass: source tokens that get on together, others_pass: those of them
 * that are not of interactive sentences. */
struct suit {
    int seats, busy_rows, pass, others_pass;
};

struct batcher {
    struct batcher_options options;
    char *dir;
    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t wake, opened;
    struct errand *inbox, **inbox_end;
    int retired;
    atomic_int wanted; /* somebody interactive is in the inbox */
    int open;          /* 0: not yet, 1: yes, -1: failed, err says why */
    struct err err;
    struct desk_stats stats;
    /* the thread's own */
    struct engine *engine;
    struct carousel *carousel;
    struct carousel_caps caps;
    struct extras *extras;
    struct task_facts facts;
    struct align_options align;
    int touched; /* the carousel has had many sentences or long ones */
    struct suit suit;
    struct errand *all;
    struct flows flows;
    /* [n_speller] one for every time the model was opened: sentences that wait may have terms that
     * an earlier one spelled */
    struct speller **speller;
    int n_speller;
    struct part **at;                        /* [n_seat] who sits there */
    struct part **order;                     /* [n_seat] the same in the order of getting on */
    int n_order;                             /* that are in work */
    int n_urgent, urgent_rows, urgent_cells; /* interactive ones of them */
    int others_rows, others_cells;
    int share;    /* what others are to a step beside interactive ones, on average */
    int credit;   /* load that others may be to a step, saved up */
    int entry;    /* source tokens that may be encoded beside interactive ones, likewise */
    int lately;   /* steps for which it is as if interactive ones rode */
    int gathered; /* steps for which nobody was admitted, to be several in a pass */
    int answered; /* an interactive errand has ended */
    struct part *impatient;              /* goes before all */
    struct part *linking, **linking_end; /* found, and to be looked at again */
    struct desk_stats now;               /* what the thread counts; copied to stats */
};

/* ---- batcher.c ------------------------------------------------------------------------------- */

/* Into the inbox. With the lock. */
void batcher_put(struct batcher *b, struct errand *e);
int batcher_open_model(struct batcher *b, struct err *err);
void batcher_shut_model(struct batcher *b);

/* ---- batcher_admit.c ------------------------------------------------------------------------- */

/* Seats those whose turn it is: as many as a pass may have, and there is room for. */
void batcher_admit(struct batcher *b);
/* Encodes those that board, until somebody interactive comes; beside interactive ones, as much as
 * was saved up for. */
void batcher_board(struct batcher *b);
/* The next sentence of an errand: 1, or 0 if it has none now and perhaps was ended; or what is
 * wrong with it. */
int batcher_next_part(struct batcher *b, struct errand *e, struct part **part, size_t *work,
                      struct err *err);
/* It was taken too early. */
void batcher_give_back(struct batcher *b, struct part *p);

/* ---- batcher_step.c -------------------------------------------------------------------------- */

void batcher_begin(struct batcher *b, struct errand *e);
/* Nothing of the errand is in work or waits any more; it is handed back. */
void batcher_end(struct batcher *b, struct errand *e, enum desk_status status, const char *message);
void batcher_end_if_done(struct batcher *b, struct errand *e);
void batcher_fail(struct batcher *b, struct errand *e, const struct err *err);
/* The backend failed. Who is in work, or in the list, ends; for the others the model is opened
 * anew. */
void batcher_recover(struct batcher *b, const struct err *err, struct part *const *list, int n);

/* Does the device make steps with many rows long? */
static inline int batcher_bounded(const struct batcher *b) {
    return b->suit.busy_rows < b->caps.n_row;
}

/* Is an interactive errand there that was not taken in yet? */
static inline int batcher_wanted(const struct batcher *b) {
    return atomic_load_explicit(&b->wanted, memory_order_relaxed);
}

void batcher_seat_in(struct batcher *b, struct part *p, int seat);
/* Beside interactive sentences others sit still until they have saved up a step's worth, and then
 * go on together, the oldest first. So a short one rides as if alone, and meets others once. */
void batcher_hold(struct batcher *b);
void batcher_step(struct batcher *b);
/* Looks once more at sentences that are found: links, attention. A few tokens at a time. */
void batcher_look_again(struct batcher *b);
/* Tells those who watch what there is so far. */
void batcher_tell(struct batcher *b);

#endif
