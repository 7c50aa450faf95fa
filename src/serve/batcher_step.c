/* batcher_step.c — errands, and a step with them: see batcher_inside.h. */
#include <string.h>

#include "base/clock.h"
#include "search/defaults.h"
#include "serve/batcher_inside.h"

enum {
    LINK_TOKENS = 256,  /* of sentences whose links are found between two steps */
    KEYS_PER_ROW = 256, /* that a row may attend to for the price of the rest of it */
    FEW = 8,            /* sentences aboard that touch little memory */
    ENTRY_STEPS = 8,    /* for which others may save up to get on */
    LATELY = 8          /* steps after an interactive one: its client may have the next at hand */
};

/* ---- errands --------------------------------------------------------------------------------- */

static void batcher_seat_out(struct batcher *b, struct part *p) {
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

void batcher_seat_in(struct batcher *b, struct part *p, int seat) {
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

void batcher_end(struct batcher *b, struct errand *e, enum desk_status status,
                 const char *message) {
    for (int i = b->n_order - 1; i >= 0; i--)
        if (b->order[i]->errand == e) batcher_seat_out(b, b->order[i]);
    if (b->impatient && b->impatient->errand == e) b->impatient = NULL;
    for (struct part **at = &b->linking; *at && e->n_linking;) {
        if ((*at)->errand == e)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    }
    b->linking_end = &b->linking;
    while (*b->linking_end) b->linking_end = &(*b->linking_end)->next;
    flows_leave(&b->flows, e);
    *e->link = e->next;
    if (e->next) e->next->link = e->link;
    e->cost.total = clock_seconds();
    b->answered |= e->class == DESK_INTERACTIVE && batcher_bounded(b);
    e->ended(e, status, message);
}

void batcher_fail(struct batcher *b, struct errand *e, const struct err *err) {
    int own = err->code == HEED_ELIMIT || err->code == HEED_EINVAL;
    batcher_end(b, e, own ? DESK_REFUSED : DESK_FAILED, err->msg);
}

void batcher_end_if_done(struct batcher *b, struct errand *e) {
    if (!e->flow && !e->n_linking && task_done(e->task)) batcher_end(b, e, DESK_DONE, "");
}

void batcher_recover(struct batcher *b, const struct err *err, struct part *const *list, int n) {
    struct errand *also[MAX_PASS];
    struct err again = {0};
    int n_also = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (k < n_also && also[k] != list[i]->errand) k++;
        if (k == n_also) also[n_also++] = list[i]->errand;
    }
    for (int i = 0; i < n_also; i++) batcher_end(b, also[i], DESK_FAILED, err->msg);
    while (b->n_order) batcher_end(b, b->order[0]->errand, DESK_FAILED, err->msg);
    while (b->linking) batcher_end(b, b->linking->errand, DESK_FAILED, err->msg);
    batcher_shut_model(b);
    if (!batcher_open_model(b, &again)) return;
    while (b->all) batcher_end(b, b->all, DESK_FAILED, again.msg);
}

void batcher_begin(struct batcher *b, struct errand *e) {
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
    flows_join(&b->flows, e, 0);
    struct engine_tags tags;
    int rc = engine_tags(b->engine, &e->said, &tags, &err);
    if (!rc) rc = search_check(&e->options, &err);
    task_tell(e->task, &tags);
    if (rc) batcher_fail(b, e, &err);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* What a sentence is to a step, in rows of a short one. */
static int load_of(const struct part *p) {
    return p->rows + (int)((int64_t)p->rows * (p->n_said + p->steps) / KEYS_PER_ROW);
}

/* Does it ride, and may be held? */
static int is_other(const struct batcher *b, const struct part *p) {
    return p->errand->class != DESK_INTERACTIVE && carousel_rides(b->carousel, p->seat);
}

/* What others save up in this step, and whether it is enough for them to be in it. */
static int others_due(struct batcher *b) {
    int few = min_int(b->urgent_rows, max_int(b->suit.busy_rows / 4, 1));
    int share = b->share = max_int(few, b->urgent_rows / 4);
    int most = max_int(b->suit.busy_rows, share), goal = 0, first = 0;
    for (int i = 0; i < b->n_order && goal < most; i++) {
        if (!is_other(b, b->order[i])) continue;
        goal += load_of(b->order[i]);
        if (!first) first = goal;
    }
    goal = max_int(min_int(goal, most), first);
    b->credit = b->n_urgent ? min_int(b->credit + share, goal) : goal;
    b->entry = b->n_urgent ? min_int(b->entry + share, ENTRY_STEPS * share) : 0;
    return b->credit >= goal;
}

void batcher_hold(struct batcher *b) {
    int due = others_due(b), left = due ? b->credit : 0, held = 0;
    b->lately = b->n_urgent ? LATELY : max_int(b->lately - 1, 0);
    for (int i = 0; i < b->n_order; i++) {
        struct part *p = b->order[i];
        if (!is_other(b, p)) continue;
        int load = load_of(p);
        held |= b->lately && batcher_bounded(b) && load > left;
        carousel_hold(b->carousel, p->seat, held);
        if (held) continue;
        left -= load;
        p->steps++;
    }
    if (due) b->credit = 0;
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
        batcher_end_if_done(b, e);
        return;
    }
    int rc = batcher_next_part(b, e, &p, &work, &err);
    if (rc < 0)
        batcher_fail(b, e, &err);
    else if (rc > 0)
        batcher_give_back(b, p);
}

static void found(struct batcher *b, struct part *p) {
    struct errand *e = p->errand;
    struct search_result result;
    struct err err = {0};
    int first = task_first(e->task) == p;
    int rc = carousel_result(b->carousel, p->seat, &result, &err);
    if (!rc) rc = task_found(e->task, &b->facts, p, &result, &err);
    if (rc) {
        batcher_end(b, e, DESK_FAILED, err.msg);
        return;
    }
    batcher_seat_out(b, p);
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

void batcher_step(struct batcher *b) {
    struct err err = {0};
    int rows = carousel_rows(b->carousel);
    if (!rows) return;
    if (carousel_step(b->carousel, &err)) {
        batcher_recover(b, &err, NULL, 0);
        return;
    }
    b->now.steps++;
    b->now.rows += (uint64_t)rows;
    b->now.rows_of[bucket_of(rows)]++;
    for (int seat; (seat = carousel_done(b->carousel)) >= 0;) found(b, b->at[seat]);
}

void batcher_look_again(struct batcher *b) {
    int tokens = 0;
    while (b->linking && tokens < (batcher_wanted(b) ? 1 : LINK_TOKENS)) {
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
            batcher_recover(b, &err, NULL, 0); /* which ends this errand, too */
            return;
        }
        if (rc) {
            batcher_fail(b, e, &err);
            continue;
        }
        if (!(b->linking = p->next)) b->linking_end = &b->linking;
        e->n_linking--;
        part_done(b, p);
    }
}

void batcher_tell(struct batcher *b) {
    for (int i = 0; i < b->n_order; i++) {
        struct part *p = b->order[i];
        struct errand *e = p->errand;
        struct desk_partial partial;
        if (!e->partial || !(task_extras(e->task) & DESK_PARTIAL)) continue;
        if (!carousel_rides(b->carousel, p->seat)) continue;
        struct carousel_view view = carousel_peek(b->carousel, p->seat);
        if (view.n && task_partial(e->task, &b->facts, p, &view, &partial)) e->partial(e, &partial);
    }
}
