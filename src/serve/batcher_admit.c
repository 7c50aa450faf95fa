/* batcher_admit.c — getting on: see batcher_inside.h. */
#include "base/clock.h"
#include "serve/batcher_inside.h"

enum {
    PATIENCE = 256,
    GATHER = 8,           /* steps for which seats that fell empty may stay so */
    WORK = 4 * TASK_PIECE /* bytes tokenised between two steps */
};

/* Somebody is impatient, but others have to get off first: interactive ones, which have a share of
 * everything kept for them, need not wait for that. When no others are aboard any more, they do. */
static int may_overtake(const struct batcher *b) {
    return b->impatient->errand->class != DESK_INTERACTIVE && b->n_order > b->n_urgent;
}

static struct flow *next_flow(const struct batcher *b) {
    struct flow *first = b->impatient ? b->impatient->errand->flow : NULL;
    return flows_pick(&b->flows, first, first && may_overtake(b));
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

/* Are interactive ones here, or were they a moment ago, so that steps are to be short? */
static int busy(const struct batcher *b, const struct chosen *l) {
    return batcher_bounded(b) && (b->lately || l->urgent || flows_urgent(&b->flows));
}

/* While it is busy others board one at a time, or those that they have saved up for, and only as
 * many as will not be held. */
static int others_may(const struct batcher *b, const struct part *p, const struct chosen *l) {
    int rows = b->others_rows + l->rows + p->rows;
    if (rows > max_int(b->suit.busy_rows, b->share + p->rows - 1)) return 0;
    return !l->others || b->entry >= l->slow_tokens + p->n_said;
}

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
    if (!urgent && l->others && l->slow_tokens + p->n_said > b->suit.others_pass) return 0;
    if (!urgent && carousel_boarding(b->carousel)) return 0;
    if (p == b->impatient) return 1;
    if (urgent) return !b->impatient || fits_quarter(b, p, l);
    if (busy(b, l) && !others_may(b, p, l)) return 0;
    if (!seats) return 1;
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
    return (double)p->n_src * p->rows / flows_weight(p->errand->class);
}

void batcher_give_back(struct batcher *b, struct part *p) {
    struct errand *e = p->errand;
    p->next = e->ready;
    e->ready = p;
    if (!e->flow) flows_join(&b->flows, e, 1);
}

int batcher_next_part(struct batcher *b, struct errand *e, struct part **part, size_t *work,
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
        flows_leave(&b->flows, e);
        batcher_end_if_done(b, e);
    }
    return rc;
}

/* Scores one given translation instead of seating a sentence. If the device fails, who was chosen
 * ends, too: others of the same errands may be aboard. */
static void score(struct batcher *b, struct errand *e, struct chosen *l, size_t *work) {
    struct err err = {0};
    int n = task_documents(e->task), rc = extras_score(b->extras, e->task, e->n_scored, &err);
    *work += TASK_PIECE;
    b->now.passes++;
    b->now.sentences++;
    if (rc == HEED_EDEVICE || rc == HEED_ENOMEM) {
        batcher_end(b, e, DESK_FAILED, err.msg);
        batcher_recover(b, &err, l->part, l->n);
        *l = (struct chosen){.n = 0};
    } else if (rc) {
        batcher_fail(b, e, &err);
    } else if (++e->n_scored == n) {
        batcher_end(b, e, DESK_DONE, "");
    }
}

/* Not now: its flow waits until the next step. After too long it goes before all. */
static void pass_over(struct batcher *b, struct flow *f, struct part *p) {
    f->passed_over = b->flows.round;
    batcher_give_back(b, p);
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
        score(b, e, l, work);
        return;
    }
    int rc = batcher_next_part(b, e, &p, work, &err);
    if (rc < 0) {
        drop_chosen(l, e);
        batcher_fail(b, e, &err);
    } else if (rc > 0 && !may_sit(b, p, l)) {
        pass_over(b, f, p);
    } else if (rc > 0) {
        add_chosen(l, p);
        flows_serve(&b->flows, e, charge(p));
    }
}

/* Gives seats to n chosen ones: encoded at once, or boarding. Returns how many there were for, or
 * an error. */
static int seat_chosen(struct batcher *b, struct part *const *part, int n, int boards,
                       struct err *err) {
    struct carousel_input in[MAX_PASS];
    int seat[MAX_PASS];
    if (!n) return 0;
    for (int i = 0; i < n; i++) in[i] = input_of(part[i]);
    int seated = boards ? carousel_board(b->carousel, in, n, seat)
                        : carousel_add(b->carousel, in, n, seat, err);
    if (seated < 0) return seated;
    BUG_ON(seated > n);
    b->now.passes += seated > 0;
    for (int i = 0; i < seated; i++) {
        struct part *p = part[i];
        batcher_seat_in(b, p, seat[i]);
        b->now.src_tokens += (uint64_t)p->n_src;
        p->errand->cost.src_tokens += (uint64_t)p->n_src;
        if (p == b->impatient) b->impatient = NULL;
    }
    for (int i = n - 1; i >= seated; i--) {
        struct part *p = part[i];
        if (p->errand->flow) p->errand->flow->time -= charge(p);
        batcher_give_back(b, p);
        if (i == seated && !b->impatient && b->now.steps - p->since > PATIENCE) b->impatient = p;
    }
    return seated;
}

/* Interactive ones first, if the others are to board. */
static int urgent_first(struct chosen *l) {
    struct part *other[MAX_PASS];
    int n = 0, n_other = 0;
    for (int i = 0; i < l->n; i++) {
        struct part *p = l->part[i];
        if (p->errand->class == DESK_INTERACTIVE)
            l->part[n++] = p;
        else
            other[n_other++] = p;
    }
    for (int i = 0; i < n_other; i++) l->part[n + i] = other[i];
    return n;
}

/* Where more wait than there are seats for, those that fall empty are filled several at a time: a
 * pass over a few sentences costs little more than over one. Not where interactive ones and others
 * share. */
static int gathers(struct batcher *b, int room) {
    int others = b->n_order > b->n_urgent, few = b->caps.n_seat / 5, wait = b->flows.n;
    int share = others && (b->n_urgent || flows_urgent(&b->flows) || b->lately);
    if (others) {
        room -= b->caps.n_seat / 4;
        wait = few;
    }
    b->gathered = !share && wait > room && room < few ? (b->gathered + 1) % GATHER : 0;
    return b->gathered;
}

void batcher_admit(struct batcher *b) {
    struct chosen l = {.n = 0};
    int room = b->caps.n_seat - carousel_seats(b->carousel);
    if (gathers(b, room)) return;
    size_t work = 0;
    struct err err = {0};
    b->flows.round++;
    for (struct flow *f; l.n < min_int(room, MAX_PASS) && work < WORK && (f = next_flow(b));) {
        choose_of(b, f, &l, &work);
        if (!b->carousel) return;
        if (b->impatient && l.n && l.part[l.n - 1] == b->impatient) break;
    }
    int at_once = batcher_bounded(b) ? urgent_first(&l) : l.n;
    if (seat_chosen(b, l.part, at_once, 0, &err) < 0)
        batcher_recover(b, &err, l.part, l.n);
    else
        seat_chosen(b, l.part + at_once, l.n - at_once, 1, &err);
}

void batcher_board(struct batcher *b) {
    struct err err = {0};
    for (int left; (left = carousel_boarding(b->carousel));) {
        if (b->n_urgent ? b->entry <= 0 : batcher_wanted(b)) return;
        if (carousel_encode(b->carousel, &err)) {
            batcher_recover(b, &err, NULL, 0);
            return;
        }
        if (b->n_urgent) b->entry -= left - carousel_boarding(b->carousel);
    }
}
