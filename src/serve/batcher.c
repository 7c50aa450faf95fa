/* batcher.c — see batcher.h. */
#include "serve/batcher.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "search/defaults.h"
#include "serve/extras.h"

enum {
    MAX_PASS = 64, /* sentences that get on together */
    PATIENCE = 256,
    WORK = 4 * TASK_PIECE, /* bytes tokenised between two steps */
    LINK_TOKENS = 256,     /* of sentences whose links are found between two steps */
    BUSY_PASS = 64,        /* source tokens of others that get on beside interactive ones */
    KEYS_PER_ROW = 256,    /* that a row may attend to for the price of the rest of it */
    FEW = 8,               /* sentences aboard that touch little memory */
    REST = 1               /* seconds without work until memory is given back */
};

/* What suits a kind of device. pass: source tokens that get on together. */
struct suit {
    int seats, busy_rows, pass;
};
static const struct suit suits_host = {40, 16, 256}, suits_device = {320, 1 << 20, 8192};
enum { CELLS_PER_ROW = 96, SRC_PER_SEAT = 64 };

/* Errands of one client and class, of which something waits. */
struct flow {
    uint64_t client;
    enum desk_class class;
    double time;
    struct errand *first, *last; /* taking turns */
    uint64_t passed_over;        /* in this round: its head does not fit */
};

struct batcher {
    struct batcher_options options;
    char *dir;
    /* shared */
    pthread_mutex_t lock;
    pthread_cond_t wake, opened;
    struct errand *inbox, **inbox_end;
    int retired;
    int open; /* 0: not yet, 1: yes, -1: failed, err says why */
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
    struct flow **flow;
    int n_flow, cap_flow;
    double time; /* of the flow served last */
    uint64_t round;
    /* [n_speller] one for every time the model was opened: sentences that wait may have terms that
     * an earlier one spelled */
    struct speller **speller;
    int n_speller;
    struct part **at;                        /* [n_seat] who sits there */
    struct part **order;                     /* [n_seat] the same in the order of getting on */
    int n_order;                             /* that are in work */
    int n_urgent, urgent_rows, urgent_cells; /* interactive ones of them */
    int others_rows, others_cells;
    int credit;                          /* load that others may be to a step, saved up */
    struct part *impatient;              /* goes before all */
    struct part *linking, **linking_end; /* found, and to be looked at again */
    struct desk_stats now;               /* what the thread counts; copied to stats */
};

static int weight_of(enum desk_class class) {
    return class == DESK_INTERACTIVE ? 16 : class == DESK_NORMAL ? 4 : 1;
}

/* ---- the model ------------------------------------------------------------------------------- */

static void shut(struct batcher *b) {
    extras_free(b->extras);
    carousel_free(b->carousel);
    engine_close(b->engine);
    xfree(b->at);
    xfree(b->order);
    b->extras = NULL;
    b->carousel = NULL;
    b->engine = NULL;
    b->at = b->order = NULL;
    b->n_order = b->n_urgent = b->urgent_rows = b->urgent_cells = 0;
    b->others_rows = b->others_cells = b->credit = 0;
}

static void plan_caps(struct batcher *b, int beam) {
    int len = b->engine->max_len, seats = b->suit.seats;
    int most = max_int(beam, DESK_MAX_ALTERNATIVES + 1); /* of any length; terms want more */
    b->caps = (struct carousel_caps){.n_seat = seats,
                                     .n_row = max_int(seats * beam, SEARCH_MAX_BEAM),
                                     .n_cell = max_int(seats * beam * CELLS_PER_ROW, most * len),
                                     .n_src = max_int(seats * SRC_PER_SEAT, len),
                                     .n_pass = max_int(b->suit.pass, len),
                                     .max_src = len,
                                     .max_len = len,
                                     .max_beam = SEARCH_MAX_BEAM};
}

static int make_carousel(struct batcher *b, struct err *err) {
    const struct engine *e = b->engine;
    struct search_setup setup = {.model = e->model, .n_model = e->n, .marks = engine_marks(e)};
    b->touched = 0;
    return carousel_new(&b->carousel, &setup, &b->caps, err);
}

static int open_carousel(struct batcher *b, struct err *err) {
    const struct engine *e = b->engine;
    struct translator_options defaults = defaults_of(b->engine);
    struct align_options align = defaults_align(b->engine, defaults.align);
    if (defaults.search.trees)
        return err_set(err, HEED_EINVAL,
                       "the model writes parse trees, which are not served; heed translate has "
                       "them");
    b->suit = backend_device_memory(b->engine->be) ? suits_device : suits_host;
    if (b->options.seats) b->suit.seats = b->options.seats;
    if (b->options.busy_rows) b->suit.busy_rows = b->options.busy_rows;
    plan_caps(b, defaults.search.beam);
    b->facts = (struct task_facts){.engine = e,
                                   .source = e->source,
                                   .target = e->target,
                                   .ended = tokenizer_eos(e->source) >= 0};
    int rc = make_carousel(b, err);
    if (rc) return rc;
    b->facts.limit = defaults.max_source ? defaults.max_source : b->engine->max_len;
    b->facts.threshold = align.threshold;
    b->speller = xrealloc(b->speller, ((size_t)b->n_speller + 1) * sizeof(struct speller *));
    b->facts.shares_words = engine_shares_words(b->engine);
    b->facts.speller = b->speller[b->n_speller++] = speller_new(e->target);
    b->align = align;
    b->extras = extras_new(&b->facts, &align);
    b->at = xcalloc((size_t)b->caps.n_seat, sizeof(struct part *));
    b->order = xcalloc((size_t)b->caps.n_seat, sizeof(struct part *));
    return 0;
}

/* Nobody is aboard. Much work has touched memory all over; new memory has not been touched yet. */
static void freshen(struct batcher *b) {
    struct err err = {0};
    extras_free(b->extras);
    carousel_free(b->carousel);
    b->extras = extras_new(&b->facts, &b->align);
    if (make_carousel(b, &err)) shut(b); /* the next errand opens the model anew, or says why not */
    malloc_trim(0);
}

static int open_model(struct batcher *b, struct err *err) {
    const char *dir = b->dir;
    struct engine_options from = {
        .dir = &dir, .n = 1, .precision = b->options.precision, .where = b->options.where};
    int rc = engine_open(&b->engine, &from, err);
    for (int i = 0; i < (rc ? 0 : b->engine->ensemble->n); i++)
        frozen_rest(b->engine->ensemble->model[i]); /* perhaps nobody asks for these languages */
    struct engine_tags tags;
    for (int i = 0; i < b->options.n_said && !rc; i++)
        rc = engine_tags(b->engine, &b->options.said[i], &tags, err);
    b->options.n_said = 0; /* they need not last, and are not looked at twice */
    if (!rc) rc = open_carousel(b, err);
    if (rc) shut(b);
    return rc;
}

/* ---- flows ----------------------------------------------------------------------------------- */

static struct flow *find_flow(struct batcher *b, const struct errand *e) {
    for (int i = 0; i < b->n_flow; i++)
        if (b->flow[i]->client == e->client && b->flow[i]->class == e->class) return b->flow[i];
    if (b->n_flow == b->cap_flow) {
        b->cap_flow = max_int(2 * b->cap_flow, 16);
        b->flow = xrealloc(b->flow, (size_t)b->cap_flow * sizeof(struct flow *));
    }
    struct flow *f = xcalloc(1, sizeof *f);
    *f = (struct flow){.client = e->client, .class = e->class, .time = b->time};
    return b->flow[b->n_flow++] = f;
}

/* Something of the errand waits. At the end of its flow's turns, or first. */
static void join_flow(struct batcher *b, struct errand *e, int first) {
    struct flow *f = e->flow = find_flow(b, e);
    e->turn = NULL;
    if (!f->first) {
        f->first = f->last = e;
    } else if (first) {
        e->turn = f->first;
        f->first = e;
    } else {
        f->last->turn = e;
        f->last = e;
    }
}

static void leave_flow(struct batcher *b, struct errand *e) {
    struct flow *f = e->flow;
    struct errand **at, *before = NULL;
    if (!f) return;
    for (at = &f->first; *at != e; at = &(*at)->turn) before = *at;
    *at = e->turn;
    if (f->last == e) f->last = before;
    e->flow = NULL;
    e->turn = NULL;
    if (f->first) return;
    int i = 0;
    while (b->flow[i] != f) i++;
    b->flow[i] = b->flow[--b->n_flow];
    xfree(f);
}

/* The errand's next turn is behind those of the others. */
static void rotate(struct flow *f, struct errand *e) {
    struct errand **at = &f->first;
    if (f->last == e) return;
    while (*at != e) at = &(*at)->turn;
    *at = e->turn;
    e->turn = NULL;
    f->last->turn = e;
    f->last = e;
}

/* Somebody is impatient, but others have to get off first: interactive ones, which have a share of
 * everything kept for them, need not wait for that. When no others are aboard any more, they do. */
static int may_overtake(const struct batcher *b) {
    return b->impatient->errand->class != DESK_INTERACTIVE && b->n_order > b->n_urgent;
}

/* The flow that is furthest behind, of those not passed over in this round. */
static struct flow *pick(const struct batcher *b) {
    struct flow *best = NULL, *first = b->impatient ? b->impatient->errand->flow : NULL;
    for (int i = 0; i < b->n_flow; i++) {
        struct flow *f = b->flow[i];
        if (f->passed_over == b->round) continue;
        if (first && !(f->class == DESK_INTERACTIVE && may_overtake(b))) continue;
        if (!best || f->time < best->time ||
            (f->time <= best->time && weight_of(f->class) > weight_of(best->class)))
            best = f;
    }
    if (!best && first && first->passed_over != b->round) best = first;
    return best;
}

/* ---- errands --------------------------------------------------------------------------------- */

static void seat_out(struct batcher *b, struct part *p) {
    int i = 0;
    while (b->order[i] != p) i++;
    memmove(b->order + i, b->order + i + 1, (size_t)(--b->n_order - i) * sizeof(struct part *));
    if (p->errand->class == DESK_INTERACTIVE) {
        b->n_urgent--;
        b->urgent_rows -= p->rows;
        b->urgent_cells -= p->cells;
    } else {
        b->others_rows -= p->rows;
        b->others_cells -= p->cells;
    }
    carousel_leave(b->carousel, p->seat);
    b->at[p->seat] = NULL;
    p->seat = -1;
}

static void seat_in(struct batcher *b, struct part *p, int seat) {
    p->seat = seat;
    p->steps = 0;
    b->touched |= p->errand->class != DESK_INTERACTIVE || b->n_order >= FEW;
    b->at[seat] = p;
    b->order[b->n_order++] = p;
    if (p->errand->class == DESK_INTERACTIVE) {
        b->n_urgent++;
        b->urgent_rows += p->rows;
        b->urgent_cells += p->cells;
    } else {
        b->others_rows += p->rows;
        b->others_cells += p->cells;
    }
}

/* Nothing of the errand is in work or waits any more; it is handed back. */
static void end(struct batcher *b, struct errand *e, enum desk_status status, const char *message) {
    for (int i = b->n_order - 1; i >= 0; i--)
        if (b->order[i]->errand == e) seat_out(b, b->order[i]);
    if (b->impatient && b->impatient->errand == e) b->impatient = NULL;
    for (struct part **at = &b->linking; *at && e->n_linking;) {
        if ((*at)->errand == e)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    b->linking_end = &b->linking;
    while (*b->linking_end) b->linking_end = &(*b->linking_end)->next;
    leave_flow(b, e);
    *e->link = e->next;
    if (e->next) e->next->link = e->link;
    e->cost.total = clock_seconds();
    e->ended(e, status, message);
}

static void fail(struct batcher *b, struct errand *e, const struct err *err) {
    int own = err->code == HEED_ELIMIT || err->code == HEED_EINVAL;
    end(b, e, own ? DESK_REFUSED : DESK_FAILED, err->msg);
}

static void end_if_done(struct batcher *b, struct errand *e) {
    if (!e->flow && !e->n_linking && task_done(e->task)) end(b, e, DESK_DONE, "");
}

/* The backend failed. Who is in work, or in the list, ends; for the others the model is opened
 * anew. */
static void recover(struct batcher *b, const struct err *err, struct part *const *list, int n) {
    struct errand *also[MAX_PASS];
    struct err again = {0};
    int n_also = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < n_also && also[k] != list[i]->errand) k++;
        if (k == n_also) also[n_also++] = list[i]->errand;
    }
    for (int i = 0; i < n_also; i++) end(b, also[i], DESK_FAILED, err->msg);
    while (b->n_order) end(b, b->order[0]->errand, DESK_FAILED, err->msg);
    while (b->linking) end(b, b->linking->errand, DESK_FAILED, err->msg);
    shut(b);
    if (!open_model(b, &again)) return;
    while (b->all) end(b, b->all, DESK_FAILED, again.msg);
}

static void begin(struct batcher *b, struct errand *e) {
    int n_best = task_n_best(e->task);
    struct err err = {0};
    e->ready = NULL;
    e->began = e->n_linking = e->n_scored = 0;
    e->options = e->search ? *e->search : defaults_of(b->engine).search;
    e->options.n_best = n_best;
    if (!e->options.sample) e->options.beam = max_int(e->options.beam, n_best);
    if ((e->next = b->all)) e->next->link = &e->next;
    b->all = e;
    e->link = &b->all;
    join_flow(b, e, 0);
    struct engine_tags tags;
    int rc = engine_tags(b->engine, &e->said, &tags, &err);
    if (!rc) rc = search_check(&e->options, &err);
    task_tell(e->task, &tags);
    if (rc) fail(b, e, &err);
}

/* ---- getting on ------------------------------------------------------------------------------ */

static int busy(const struct batcher *b) {
    if (b->n_urgent) return 1;
    for (int i = 0; i < b->n_flow; i++)
        if (b->flow[i]->class == DESK_INTERACTIVE) return 1;
    return 0;
}

/* Rows that others may have beside interactive ones: what leaves a step short or, where those alone
 * make it long, a share that does not matter to them. */
static int rows_beside(const struct batcher *b, int urgent_rows, const struct part *next) {
    return max_int(b->suit.busy_rows - urgent_rows, urgent_rows / 4 + next->rows - 1);
}

/* Source tokens and hypotheses decide what a sentence takes. Terms take more. */
static void measure(const struct batcher *b, struct part *p) {
    const struct search_options *o = p->options = &p->errand->options;
    if (p->terms && !o->sample) {
        struct search_options *wide = keep_take(task_keep(p->errand->task), sizeof *wide);
        *wide = *o;
        wide->beam = search_terms_beam(o, p->terms);
        int longest = search_longest(o, b->engine->max_len, p->n_said);
        while (wide->beam / 2 >= o->beam && wide->beam > b->caps.n_cell / longest) wide->beam /= 2;
        p->options = o = wide;
    }
    p->rows = o->sample ? o->n_best : o->beam;
    p->cells = p->rows * search_longest(o, b->engine->max_len, p->n_said);
}

static struct carousel_input input_of(const struct part *p) {
    const struct task *task = p->errand->task;
    return (struct carousel_input){{.src = p->said,
                                    .n_src = p->n_said,
                                    .prefix = &task_told(task)->target,
                                    .n_prefix = task_leads(task),
                                    .n_lead = task_leads(task),
                                    .key = p->key,
                                    .terms = p->terms},
                                   p->options};
}

/* Those whose turn it is, before they are seated. */
struct chosen {
    struct part *part[MAX_PASS];
    int n, tokens, urgent, urgent_rows, urgent_cells;
    int others, slow_tokens, rows, cells; /* of those that are not interactive */
};

/* Is there room in the quarter of interactive ones? */
static int fits_quarter(const struct batcher *b, const struct part *p, const struct chosen *l) {
    const struct carousel_caps *c = &b->caps;
    return b->n_urgent + l->urgent < c->n_seat / 4 &&
           b->urgent_rows + l->urgent_rows + p->rows <= c->n_row / 4 &&
           b->urgent_cells + l->urgent_cells + p->cells <= c->n_cell / 4;
}

/* Others leave a quarter of everything to interactive ones, and do not get on only to be held. */
static int may_sit(const struct batcher *b, const struct part *p, const struct chosen *l) {
    const struct carousel_caps *c = &b->caps;
    int seats = b->n_order - b->n_urgent + l->others;
    int rows = b->others_rows + l->rows + p->rows, cells = b->others_cells + l->cells + p->cells;
    int urgent = p->errand->class == DESK_INTERACTIVE;
    if (l->n && l->tokens + p->n_said > b->suit.pass) return 0;
    if (!urgent && l->others && busy(b) && l->slow_tokens + p->n_said > BUSY_PASS) return 0;
    if (p == b->impatient) return 1;
    if (urgent) return !b->impatient || fits_quarter(b, p, l);
    if (!seats) return 1;
    if (busy(b) && rows > rows_beside(b, b->urgent_rows + l->urgent_rows, p)) return 0;
    return seats < c->n_seat - c->n_seat / 4 && rows <= c->n_row - c->n_row / 4 &&
           cells <= c->n_cell - c->n_cell / 4;
}

static void add_chosen(struct chosen *l, struct part *p) {
    l->part[l->n++] = p;
    l->tokens += p->n_said;
    if (p->errand->class == DESK_INTERACTIVE) {
        l->urgent++;
        l->urgent_rows += p->rows;
        l->urgent_cells += p->cells;
        return;
    }
    l->others++;
    l->slow_tokens += p->n_said;
    l->rows += p->rows;
    l->cells += p->cells;
}

/* The errand ends: what was chosen of it is not any more. */
static void drop_chosen(struct chosen *l, const struct errand *e) {
    struct chosen kept = {.n = 0};
    for (int i = 0; i < l->n; i++)
        if (l->part[i]->errand != e) add_chosen(&kept, l->part[i]);
    *l = kept;
}

static double charge(const struct part *p) {
    return (double)p->n_src * p->rows / weight_of(p->errand->class);
}

static void give_back(struct batcher *b, struct part *p) {
    struct errand *e = p->errand;
    p->next = e->ready;
    e->ready = p;
    if (!e->flow) join_flow(b, e, 1);
}

/* The next sentence of an errand: 1, or 0 if it has none now and perhaps was ended; or what is
 * wrong with it. */
static int next_part(struct batcher *b, struct errand *e, struct part **part, size_t *work,
                     struct err *err) {
    struct part *p = e->ready;
    if (p) {
        e->ready = p->next;
        *part = p;
        return 1;
    }
    int rc = task_next(e->task, &b->facts, part, work, err);
    if (rc > 0) {
        p = *part;
        p->errand = e;
        p->since = b->now.steps;
        measure(b, p);
        struct carousel_input in = input_of(p);
        rc = carousel_check(b->carousel, &in, 1, err);
        return rc ? rc : 1;
    }
    if (rc == 0 && task_read(e->task)) {
        leave_flow(b, e);
        end_if_done(b, e);
    }
    return rc;
}

/* Scores one given translation instead of seating a sentence. */
static void score(struct batcher *b, struct errand *e, size_t *work) {
    struct err err = {0};
    int n = task_documents(e->task), rc = extras_score(b->extras, e->task, e->n_scored, &err);
    *work += TASK_PIECE;
    b->now.passes++;
    b->now.sentences++;
    if (rc == HEED_EDEVICE || rc == HEED_ENOMEM) {
        end(b, e, DESK_FAILED, err.msg);
        recover(b, &err, NULL, 0);
    } else if (rc) {
        fail(b, e, &err);
    } else if (++e->n_scored == n) {
        end(b, e, DESK_DONE, "");
    }
}

/* Not now: its flow waits until the next step. After too long it goes before all. */
static void pass_over(struct batcher *b, struct flow *f, struct part *p) {
    f->passed_over = b->round;
    give_back(b, p);
    if (!b->impatient && b->now.steps - p->since > PATIENCE) b->impatient = p;
}

/* One sentence of the flow, if it may. */
static void choose_of(struct batcher *b, struct flow *f, struct chosen *l, size_t *work) {
    int first = b->impatient && b->impatient->errand->flow == f;
    struct errand *e = first ? b->impatient->errand : f->first;
    struct part *p;
    struct err err = {0};
    if (!e->began) {
        e->began = 1;
        e->cost.waited = clock_seconds();
    }
    if (task_extras(e->task) & DESK_SCORE) {
        score(b, e, work);
        return;
    }
    int rc = next_part(b, e, &p, work, &err);
    if (rc < 0) {
        drop_chosen(l, e);
        fail(b, e, &err);
    } else if (rc > 0 && !may_sit(b, p, l)) {
        pass_over(b, f, p);
    } else if (rc > 0) {
        add_chosen(l, p);
        b->time = f->time;
        f->time += charge(p);
        rotate(f, e);
    }
}

/* Seats those whose turn it is: as many as a pass may have, and there is room for. */
static void admit(struct batcher *b) {
    struct carousel_input in[MAX_PASS];
    struct chosen l = {.n = 0};
    int seat[MAX_PASS], room = b->caps.n_seat - carousel_seats(b->carousel);
    size_t work = 0;
    struct err err = {0};
    b->round++;
    for (struct flow *f; l.n < min_int(room, MAX_PASS) && work < WORK && (f = pick(b));) {
        choose_of(b, f, &l, &work);
        if (!b->carousel) return;
        if (b->impatient && l.n && l.part[l.n - 1] == b->impatient) break;
    }
    if (!l.n) return;
    for (int i = 0; i < l.n; i++) in[i] = input_of(l.part[i]);
    int seated = carousel_add(b->carousel, in, l.n, seat, &err);
    if (seated < 0) {
        recover(b, &err, l.part, l.n);
        return;
    }
    b->now.passes += seated > 0;
    for (int i = 0; i < seated; i++) {
        struct part *p = l.part[i];
        seat_in(b, p, seat[i]);
        b->now.src_tokens += (uint64_t)p->n_src;
        p->errand->cost.src_tokens += (uint64_t)p->n_src;
        if (p == b->impatient) b->impatient = NULL;
    }
    for (int i = l.n - 1; i >= seated; i--) {
        struct part *p = l.part[i];
        if (p->errand->flow) p->errand->flow->time -= charge(p);
        give_back(b, p);
        if (i == seated && !b->impatient && b->now.steps - p->since > PATIENCE) b->impatient = p;
    }
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* What a sentence is to a step, in rows of a short one. */
static int load_of(const struct part *p) {
    return p->rows + (int)((int64_t)p->rows * (p->n_said + p->steps) / KEYS_PER_ROW);
}

/* Beside interactive sentences only so many others go on, the oldest, that a step is short on
 * average: one that is more than a step may have goes on when enough was saved up for it. */
static void hold(struct batcher *b) {
    int left = 0, held = 0;
    for (int i = 0, first = 1; i < b->n_order; i++) {
        struct part *p = b->order[i];
        if (p->errand->class == DESK_INTERACTIVE) continue;
        int load = load_of(p), most = rows_beside(b, b->urgent_rows, p);
        if (first) left = b->credit = min_int(b->credit + most, max_int(most, load));
        first = 0;
        held |= b->n_urgent && load > left;
        carousel_hold(b->carousel, p->seat, held);
        if (held) continue;
        left -= load;
        p->steps++;
    }
    b->credit = b->n_urgent ? max_int(left, 0) : 0;
}

static int bucket_of(int rows) {
    int k = 0;
    while (k < DESK_BUCKETS - 1 && rows > 1 << k) k++;
    return k;
}

/* A part has all that was wanted of it. Was it the last? Only reading on tells; an errand of which
 * nothing is in work does not wait for its turn to find out. */
static void part_done(struct batcher *b, struct part *p) {
    struct errand *e = p->errand;
    struct err err = {0};
    size_t work = 0;
    b->now.sentences++;
    e->cost.sentences++;
    if (!e->flow || e->ready || e->n_linking || !task_idle(e->task)) {
        end_if_done(b, e);
        return;
    }
    int rc = next_part(b, e, &p, &work, &err);
    if (rc < 0)
        fail(b, e, &err);
    else if (rc > 0)
        give_back(b, p);
}

static void found(struct batcher *b, struct part *p) {
    struct errand *e = p->errand;
    struct search_result result;
    struct err err = {0};
    int first = task_first(e->task) == p;
    int rc = carousel_result(b->carousel, p->seat, &result, &err);
    if (!rc) rc = task_found(e->task, &b->facts, p, &result, &err);
    if (rc) {
        end(b, e, DESK_FAILED, err.msg);
        return;
    }
    seat_out(b, p);
    b->now.tgt_tokens += (uint64_t)p->best[0].n;
    e->cost.tgt_tokens += (uint64_t)p->best[0].n;
    if (task_wants_links(e->task, p) || (first && task_extras(e->task) & DESK_ATTENTION)) {
        e->n_linking++;
        p->next = NULL;
        *b->linking_end = p;
        b->linking_end = &p->next;
    } else {
        part_done(b, p);
    }
}

static void step(struct batcher *b) {
    struct err err = {0};
    int rows = carousel_rows(b->carousel);
    if (!rows) return;
    if (carousel_step(b->carousel, &err)) {
        recover(b, &err, NULL, 0);
        return;
    }
    b->now.steps++;
    b->now.rows += (uint64_t)rows;
    b->now.rows_of[bucket_of(rows)]++;
    for (int seat; (seat = carousel_done(b->carousel)) >= 0;) found(b, b->at[seat]);
}

/* Looks once more at sentences that are found: links, attention. A few tokens at a time. */
static void look_again(struct batcher *b) {
    int tokens = 0;
    while (b->linking && tokens < LINK_TOKENS) {
        struct part *p = b->linking;
        struct errand *e = p->errand;
        struct err err = {0};
        int rc = 0, first = task_first(e->task) == p;
        for (int k = 0; k < p->n; k++) tokens += p->n_src + p->best[k].n;
        if (task_wants_links(e->task, p)) rc = extras_link(b->extras, e->task, p, &err);
        if (!rc && first && task_extras(e->task) & DESK_ATTENTION)
            rc = extras_attend(b->extras, e->task, p, &err);
        b->now.passes++;
        if (rc == HEED_EDEVICE || rc == HEED_ENOMEM) {
            recover(b, &err, NULL, 0); /* which ends this errand, too */
            return;
        }
        if (rc) {
            fail(b, e, &err);
            continue;
        }
        if (!(b->linking = p->next)) b->linking_end = &b->linking;
        e->n_linking--;
        part_done(b, p);
    }
}

/* Tells those who watch what there is so far. */
static void tell(struct batcher *b) {
    for (int i = 0; i < b->n_order; i++) {
        struct part *p = b->order[i];
        struct errand *e = p->errand;
        struct desk_partial partial;
        if (!e->partial || !(task_extras(e->task) & DESK_PARTIAL)) continue;
        struct carousel_view view = carousel_peek(b->carousel, p->seat);
        if (view.n && task_partial(e->task, &b->facts, p, &view, &partial)) e->partial(e, &partial);
    }
}

/* ---- the thread ------------------------------------------------------------------------------ */

/* Who does not want to wait any more, or not at all. */
static void sweep(struct batcher *b) {
    double now = 0;
    for (struct errand *e = b->all, *next; e; e = next) {
        next = e->next;
        if (atomic_load_explicit(&e->cancelled, memory_order_acquire)) {
            end(b, e, DESK_CANCELLED, "");
        } else if (e->deadline > 0) {
            if (now <= 0) now = clock_seconds();
            if (now > e->deadline) end(b, e, DESK_DEADLINE, "");
        }
    }
}

static int is_idle(const struct batcher *b) { return !b->inbox && !b->all && !b->retired; }

/* Waits for something to do; if it takes long, memory is given back. With the lock. */
static void rest(struct batcher *b) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += REST;
    while (is_idle(b) && b->touched && b->carousel) {
        if (pthread_cond_timedwait(&b->wake, &b->lock, &until) != ETIMEDOUT) continue;
        pthread_mutex_unlock(&b->lock);
        freshen(b);
        pthread_mutex_lock(&b->lock);
    }
    while (is_idle(b)) pthread_cond_wait(&b->wake, &b->lock);
}

/* Takes what has come; waits if there is nothing else to do. 0: it never will again. */
static int take_in(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    b->stats = b->now;
    b->stats.seated = b->n_order;
    rest(b);
    struct errand *in = b->inbox;
    int goes_on = in || b->all;
    b->inbox = NULL;
    b->inbox_end = &b->inbox;
    pthread_mutex_unlock(&b->lock);
    struct err err = {0};
    if (in && !b->engine) open_model(b, &err);
    for (struct errand *next; in; in = next) {
        next = in->next;
        if (b->engine)
            begin(b, in);
        else
            in->ended(in, DESK_FAILED, err.msg);
    }
    return goes_on;
}

static void turn(struct batcher *b) {
    double began = clock_seconds();
    sweep(b);
    if (b->carousel) admit(b);
    if (b->carousel) look_again(b);
    if (b->carousel) hold(b);
    if (b->carousel) step(b);
    if (b->carousel) tell(b);
    b->now.seconds += clock_seconds() - began;
}

static void free_batcher(struct batcher *b) {
    pthread_mutex_destroy(&b->lock);
    pthread_cond_destroy(&b->wake);
    pthread_cond_destroy(&b->opened);
    for (int i = 0; i < b->n_speller; i++) speller_free(b->speller[i]);
    xfree(b->speller);
    xfree(b->flow);
    xfree(b->dir);
    xfree(b);
}

static void *thread_main(void *arg) {
    struct batcher *b = arg;
    struct err err = {0};
    int rc = open_model(b, &err);
    pthread_mutex_lock(&b->lock);
    b->open = rc ? -1 : 1;
    b->err = err;
    pthread_cond_signal(&b->opened);
    pthread_mutex_unlock(&b->lock);
    if (rc) return NULL; /* whoever opens it joins */
    while (take_in(b)) turn(b);
    struct batcher_options o = b->options;
    struct desk_stats totals = b->now;
    shut(b);
    if (o.gone) o.gone(o.ctx, &totals);
    free_batcher(b);
    return NULL;
}

int batcher_open(struct batcher **out, const struct batcher_options *options, struct err *err) {
    struct batcher *b = xcalloc(1, sizeof *b);
    pthread_t thread;
    *out = NULL;
    b->options = *options;
    b->dir = xstrdup(options->dir);
    b->inbox_end = &b->inbox;
    b->linking_end = &b->linking;
    pthread_mutex_init(&b->lock, NULL);
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&b->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_cond_init(&b->opened, NULL);
    if (pthread_create(&thread, NULL, thread_main, b)) {
        free_batcher(b);
        return err_set(err, HEED_ENOMEM, "%.150s: no thread can be started for it", options->dir);
    }
    pthread_mutex_lock(&b->lock);
    while (!b->open) pthread_cond_wait(&b->opened, &b->lock);
    int failed = b->open < 0;
    if (failed && err) *err = b->err;
    pthread_mutex_unlock(&b->lock);
    if (!failed) {
        pthread_detach(thread);
        *out = b;
        return 0;
    }
    pthread_join(thread, NULL);
    int code = b->err.code;
    free_batcher(b);
    return code;
}

void batcher_retire(struct batcher *b) {
    pthread_mutex_lock(&b->lock);
    b->retired = 1;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock); /* from here on it may be gone */
}

void batcher_give(struct batcher *b, struct errand *e) {
    e->next = NULL;
    pthread_mutex_lock(&b->lock);
    *b->inbox_end = e;
    b->inbox_end = &e->next;
    pthread_cond_signal(&b->wake);
    pthread_mutex_unlock(&b->lock);
}

void batcher_add_stats(struct desk_stats *to, const struct desk_stats *s) {
    to->sentences += s->sentences;
    to->src_tokens += s->src_tokens;
    to->tgt_tokens += s->tgt_tokens;
    to->steps += s->steps;
    to->rows += s->rows;
    to->passes += s->passes;
    for (int i = 0; i < DESK_BUCKETS; i++) to->rows_of[i] += s->rows_of[i];
    to->seconds += s->seconds;
}

void batcher_stats(struct batcher *b, struct desk_stats *s) {
    pthread_mutex_lock(&b->lock);
    batcher_add_stats(s, &b->stats);
    s->seated += b->stats.seated;
    s->engines++;
    pthread_mutex_unlock(&b->lock);
}
