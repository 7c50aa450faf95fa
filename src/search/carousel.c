/* carousel.c — see carousel.h. */
#include "search/carousel.h"

#include <string.h>

#include "backend/backend.h"
#include "base/mem.h"
#include "base/num.h"
#include "model/step.h"
#include "model/transformer.h"
#include "search/ranker.h"

/* ---- shelves --------------------------------------------------------------------------------- */

/* A row of places, given out in pieces that lie together. */
struct piece {
    int at, n;
};
struct shelf {
    struct piece *piece; /* [n] ascending; room for one per seat */
    int n, size;
};

/* n places at the first gap that has them, or -1. */
static int shelf_take(struct shelf *s, int n) {
    int at = 0, i = 0;
    for (; i < s->n && s->piece[i].at - at < n; i++) at = s->piece[i].at + s->piece[i].n;
    if (i == s->n && s->size - at < n) return -1;
    memmove(s->piece + i + 1, s->piece + i, (size_t)(s->n++ - i) * sizeof *s->piece);
    s->piece[i] = (struct piece){at, n};
    return at;
}

static void shelf_give(struct shelf *s, int at) {
    int i = 0;
    while (s->piece[i].at != at) BUG_ON(++i == s->n);
    memmove(s->piece + i, s->piece + i + 1, (size_t)(--s->n - i) * sizeof *s->piece);
}

/* ---- new ------------------------------------------------------------------------------------- */

enum seat_state { EMPTY, BOARDING, RIDING, DONE };

struct seat {
    enum seat_state state;
    struct sentence sentence; /* its row: in the last step */
    struct rank_rules rules;
    int cell, src; /* the first of each */
    int held;      /* not in the coming steps */
    struct err err;
    int rc; /* what went wrong, if anything did */
};

/* Those that are encoded together. */
struct group {
    struct acts *encoder[SEARCH_MAX_MODELS];
    struct packed pass; /* [n_pass] or [n_board] */
    int *seat, n;       /* [n_seat] -1: has left again */
    int layer;          /* of the layers of all models, the next */
};

struct carousel {
    struct ranker ranker;
    struct carousel_caps caps;
    int k;       /* most candidates per hypothesis */
    int n_layer; /* of all models' encoders */
    struct stepper *stepper[SEARCH_MAX_MODELS];
    struct shelf cells, sources;
    int n_beam;              /* the sum of the widths aboard */
    void *block;             /* owns all that follows */
    struct seat *seat;       /* [n_seat] */
    int *riding, n_riding;   /* [n_seat] not done, in the order of getting on */
    int *done, n_done;       /* [n_seat] not told yet, in the order of ending */
    int *empty, n_empty;     /* [n_seat] */
    struct group added;      /* at once */
    struct group boarding;   /* by and by */
    struct stepper_row *row; /* [n_row] */
    struct candidates got;   /* [n_row, k] */
    double *penalty, *live;  /* [n_seat, max_len + 1], [n_seat, max_beam] */
    int32_t *sample;         /* [n_seat, max_beam] */
    struct beam_end *end;    /* [n_seat, max_beam] */
    struct hypothesis *best; /* [n_seat, max_beam] */
    struct beam_node *node;  /* [n_cell], as the next */
    int32_t *prefix, *id;
    float *log_prob;
    int32_t *cache;          /* the row of the cache that a cell has; -1: none */
    uint8_t *heirs;          /* hypotheses of the next position that extend a cell */
    int32_t *spare, n_spare; /* rows that no cell has; the last given back is first */
    int32_t *peek;           /* [max_len] */
    int32_t *line;           /* [n_row, max_len] of rows that were not in the last step */
};

static int check_caps(const struct carousel_caps *c, int positions, struct err *err) {
    if (c->n_seat < 1 || c->max_src < 1 || c->max_len < 1 || c->max_beam < 1)
        return err_set(err, HEED_EINVAL,
                       "search: room for %d sentences of %d source tokens, %d target tokens and %d "
                       "hypotheses is wanted; at least 1 of everything",
                       c->n_seat, c->max_src, c->max_len, c->max_beam);
    if (c->max_src > positions || c->max_len > positions || c->max_beam > SEARCH_MAX_BEAM)
        return err_set(err, HEED_ELIMIT,
                       "search: room for %d source tokens, %d target tokens and %d hypotheses of a "
                       "sentence is wanted; the model has positions for %d, and beams are up to %d",
                       c->max_src, c->max_len, c->max_beam, positions, SEARCH_MAX_BEAM);
    if (c->n_row < c->max_beam || c->n_src < c->max_src || c->n_pass < c->max_src ||
        c->n_cell < c->max_len)
        return err_set(err, HEED_EINVAL,
                       "search: room for %d hypotheses, %d cells, %d source tokens and %d of these "
                       "at a time is wanted; the largest sentence needs %d, %d, %d and %d",
                       c->n_row, c->n_cell, c->n_src, c->n_pass, c->max_beam, c->max_len,
                       c->max_src, c->max_src);
    if (c->n_board && c->n_board < c->max_src)
        return err_set(err, HEED_EINVAL,
                       "search: room for %d source tokens that board is wanted; the largest "
                       "sentence needs %d",
                       c->n_board, c->max_src);
    return 0;
}

static void *take(struct arena *arena, int a, int b, size_t size) {
    return arena_take(arena, size_mul(size_mul((size_t)a, (size_t)b), size));
}

static void carve_group(struct group *g, struct arena *arena, int n_tok, int n_seat) {
    g->pass.ids = take(arena, n_tok, 1, sizeof *g->pass.ids);
    g->pass.pos = take(arena, n_tok, 1, sizeof *g->pass.pos);
    g->pass.start = take(arena, n_seat + 1, 1, sizeof *g->pass.start);
    g->seat = take(arena, n_seat, 1, sizeof *g->seat);
}

/* Lays all arrays into the arena; over no memory it measures. */
static void carve(struct carousel *c, struct arena *arena) {
    const struct carousel_caps *cap = &c->caps;
    int n = cap->n_seat, beam = cap->max_beam;
    c->seat = take(arena, n, 1, sizeof *c->seat);
    c->cells.piece = take(arena, n, 1, sizeof *c->cells.piece);
    c->sources.piece = take(arena, n, 1, sizeof *c->sources.piece);
    c->riding = take(arena, n, 1, sizeof *c->riding);
    c->done = take(arena, n, 1, sizeof *c->done);
    c->empty = take(arena, n, 1, sizeof *c->empty);
    carve_group(&c->added, arena, cap->n_pass, n);
    carve_group(&c->boarding, arena, cap->n_board, n);
    c->row = take(arena, cap->n_row, 1, sizeof *c->row);
    c->got.value = take(arena, cap->n_row, c->k, sizeof *c->got.value);
    c->got.id = take(arena, cap->n_row, c->k, sizeof *c->got.id);
    c->penalty = take(arena, n, cap->max_len + 1, sizeof *c->penalty);
    c->live = take(arena, n, beam, sizeof *c->live);
    c->sample = take(arena, n, beam, sizeof *c->sample);
    c->end = take(arena, n, beam, sizeof *c->end);
    c->best = take(arena, n, beam, sizeof *c->best);
    c->node = take(arena, cap->n_cell, 1, sizeof *c->node);
    c->prefix = take(arena, cap->n_cell, 1, sizeof *c->prefix);
    c->id = take(arena, cap->n_cell, 1, sizeof *c->id);
    c->log_prob = take(arena, cap->n_cell, 1, sizeof *c->log_prob);
    c->cache = take(arena, cap->n_cell, 1, sizeof *c->cache);
    c->heirs = take(arena, cap->n_cell, 1, sizeof *c->heirs);
    c->spare = take(arena, cap->n_cell, 1, sizeof *c->spare);
    c->peek = take(arena, cap->max_len, 1, sizeof *c->peek);
    c->line = take(arena, cap->n_row, cap->max_len, sizeof *c->line);
    ranker_carve(&c->ranker, arena, cap->max_len);
}

static int reserve(struct carousel *c, struct err *err) {
    struct arena arena = {0};
    carve(c, &arena);
    arena.cap = arena.used;
    if (arena.cap == SIZE_MAX || !(c->block = mem_block(arena.cap)))
        return err_set(err, HEED_ENOMEM,
                       "search: %d sentences of up to %d hypotheses and %d tokens need %.1f MiB of "
                       "bookkeeping: not enough memory",
                       c->caps.n_seat, c->caps.max_beam, c->caps.max_len,
                       (double)arena.cap / 1048576.0);
    arena.base = c->block;
    arena.used = 0;
    carve(c, &arena);
    for (c->n_spare = 0; c->n_spare < c->caps.n_cell; c->n_spare++)
        c->spare[c->n_spare] = c->caps.n_cell - 1 - c->n_spare;
    c->cells.size = c->caps.n_cell;
    c->sources.size = c->caps.n_src;
    for (c->n_empty = 0; c->n_empty < c->caps.n_seat; c->n_empty++) {
        c->seat[c->n_empty].state = EMPTY;
        c->empty[c->n_empty] = c->caps.n_seat - 1 - c->n_empty; /* the last is taken first */
    }
    return 0;
}

static int open_models(struct carousel *c, struct model *const *models, struct err *err) {
    const struct carousel_caps *cap = &c->caps;
    struct stepper_caps caps = {cap->n_row, cap->max_len, cap->n_src, c->k, cap->n_cell};
    for (int m = 0; m < c->ranker.n_model; m++) {
        int rc = acts_new(&c->added.encoder[m], models[m], cap->n_pass, 0, 0, err);
        if (!rc && cap->n_board)
            rc = acts_new(&c->boarding.encoder[m], models[m], cap->n_board, 0, 0, err);
        c->n_layer += models[m]->config.n_layer_enc;
        if (!rc) rc = stepper_new(&c->stepper[m], models[m], &caps, err);
        if (rc) return rc;
    }
    return ranker_speak(&c->ranker, c->stepper, err);
}

int carousel_new(struct carousel **out, const struct search_setup *setup,
                 const struct carousel_caps *caps, struct err *err) {
    *out = NULL;
    struct ranker ranker;
    int rc = ranker_init(&ranker, setup, err);
    if (!rc) rc = check_caps(caps, ranker.positions, err);
    if (rc) return rc;
    struct carousel *c = xcalloc(1, sizeof *c);
    /* the beam, the end mark, the unknown mark, banned ones: rank_settle */
    int k = caps->max_beam + 2 + ranker.marks.n_banned;
    *c = (struct carousel){.ranker = ranker, .caps = *caps, .k = min_int(k, ranker.n_vocab)};
    rc = reserve(c, err);
    if (!rc) rc = open_models(c, setup->model, err);
    if (rc) {
        carousel_free(c);
        return rc;
    }
    *out = c;
    return 0;
}

void carousel_free(struct carousel *c) {
    if (!c) return;
    for (int m = 0; m < c->ranker.n_model; m++) {
        stepper_free(c->stepper[m]);
        acts_free(c->added.encoder[m]);
        acts_free(c->boarding.encoder[m]);
    }
    mem_block_free(c->block);
    xfree(c);
}

int carousel_seats(const struct carousel *c) { return c->caps.n_seat - c->n_empty; }

int carousel_rows(const struct carousel *c) {
    int n = 0;
    for (int i = 0; i < c->n_riding; i++) {
        const struct seat *seat = &c->seat[c->riding[i]];
        if (!seat->held) n += seat->sentence.beam.n_live;
    }
    return n;
}

/* ---- getting on ------------------------------------------------------------------------------ */

int carousel_check(const struct carousel *c, const struct carousel_input *in, int number,
                   struct err *err) {
    struct rank_rules rules;
    int rc = search_check(in->options, err);
    if (rc) return rc;
    rank_settle(&rules, &c->ranker, in->options);
    if ((rc = rank_check(&c->ranker, &rules, &in->in, number, c->caps.max_src, err))) return rc;
    int longest = rank_longest(&rules, &c->ranker, in->in.n_src);
    if (rules.beam.width > c->caps.max_beam || longest > c->caps.max_len)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d wants %d hypotheses of up to %d tokens; there is room "
                       "for %d of %d",
                       number, rules.beam.width, longest, c->caps.max_beam, c->caps.max_len);
    if (longest > c->caps.n_cell / rules.beam.width)
        return err_set(err, HEED_ELIMIT,
                       "search: sentence %d wants %d hypotheses of up to %d tokens; there is room "
                       "for %d in all",
                       number, rules.beam.width, longest, c->caps.n_cell);
    return 0;
}

/* Puts the sentence on seat i, which has the cells and source rows it needs. */
static void sit(struct carousel *c, int i, const struct carousel_input *in, int longest) {
    struct seat *seat = &c->seat[i];
    struct sentence *x = &seat->sentence;
    size_t first = (size_t)i * (size_t)c->caps.max_beam;
    int32_t *prefix = c->prefix + seat->cell;
    seat->state = BOARDING;
    seat->rc = seat->held = 0;
    rank_penalty(&seat->rules, c->penalty + (size_t)i * ((size_t)c->caps.max_len + 1), longest);
    *x = (struct sentence){.in = in->in, .number = i};
    if (in->in.n_prefix) memcpy(prefix, in->in.prefix, (size_t)in->in.n_prefix * sizeof *prefix);
    x->in.prefix = prefix;
    x->in.src = NULL; /* the caller's, and needed no more */
    x->beam.log_prob = c->live + first;
    x->beam.sample = c->sample + first;
    x->beam.end = c->end + first;
    x->beam.node = c->node + seat->cell;
    x->row = -1;
    for (int k = 0; k < seat->rules.beam.width * longest; k++) c->cache[seat->cell + k] = -1;
    beam_begin(&x->beam, longest);
    c->n_beam += seat->rules.beam.width;
}

/* Finds the sentence a seat, or -1. */
static int find_seat(struct carousel *c, const struct carousel_input *in) {
    if (c->n_empty == 0) return -1;
    int i = c->empty[c->n_empty - 1];
    struct seat *seat = &c->seat[i];
    rank_settle(&seat->rules, &c->ranker, in->options);
    int width = seat->rules.beam.width,
        longest = rank_longest(&seat->rules, &c->ranker, in->in.n_src);
    if (width > c->caps.n_row - c->n_beam) return -1;
    if ((seat->cell = shelf_take(&c->cells, width * longest)) < 0) return -1;
    if ((seat->src = shelf_take(&c->sources, in->in.n_src)) < 0) {
        shelf_give(&c->cells, seat->cell);
        return -1;
    }
    c->n_empty--;
    sit(c, i, in, longest);
    return i;
}

static void pack(struct packed *p, const struct search_input *in, int at) {
    memcpy(p->ids + p->n_tok, in->src, (size_t)in->n_src * sizeof *p->ids);
    for (int t = 0; t < in->n_src; t++) p->pos[p->n_tok + t] = t;
    p->start[at] = p->n_tok;
    p->start[at + 1] = p->n_tok += in->n_src;
    p->max_len = max_int(p->max_len, in->n_src);
}

/* Seats as many as fit, and packs them. Returns how many. */
static int fill_group(struct carousel *c, struct group *g, const struct carousel_input *in, int n,
                      int room) {
    g->n = g->layer = g->pass.n_tok = g->pass.max_len = 0;
    for (; g->n < n; g->n++) {
        BUG_ON(carousel_check(c, &in[g->n], g->n, NULL));
        if (in[g->n].in.n_src > room - g->pass.n_tok) break;
        if ((g->seat[g->n] = find_seat(c, &in[g->n])) < 0) break;
        pack(&g->pass, &in[g->n].in, g->n);
    }
    return g->n;
}

/* What the encoder has made of the group is what model m attends to. Those whose source rows follow
 * each other, as they do unless the gaps are small, are projected together. */
static void admit(struct carousel *c, const struct group *g, int m) {
    const int32_t *start = g->pass.start;
    for (int i = 0, last; i < g->n; i = last) {
        last = i + 1;
        if (g->seat[i] < 0) continue;
        int at = c->seat[g->seat[i]].src;
        for (; last < g->n && g->seat[last] >= 0; last++)
            if (c->seat[g->seat[last]].src != at + start[last] - start[i]) break;
        stepper_admit(c->stepper[m], g->encoder[m], start[i], start[last] - start[i], at);
    }
}

/* The group's next layer, and with the last one its seats ride. */
static int encode(struct carousel *c, struct group *g, struct err *err) {
    int l = g->layer, m = 0;
    for (int n; l >= (n = c->stepper[m]->model->config.n_layer_enc); m++) l -= n;
    struct model *model = c->stepper[m]->model;
    if (l == 0) {
        int rc = acts_load_src(g->encoder[m], &g->pass, g->n, err);
        if (rc) return rc;
    }
    transformer_encode_layer(&(struct pass){.model = model, .acts = g->encoder[m]}, l);
    if (l == model->config.n_layer_enc - 1) admit(c, g, m);
    if (++g->layer == c->n_layer) {
        for (int i = 0; i < g->n; i++) {
            if (g->seat[i] < 0) continue;
            c->seat[g->seat[i]].state = RIDING;
            c->riding[c->n_riding++] = g->seat[i];
        }
        g->n = 0;
    }
    return backend_check(c->ranker.be, err);
}

int carousel_add(struct carousel *c, const struct carousel_input *in, int n, int *seat,
                 struct err *err) {
    struct group *g = &c->added;
    int seated = fill_group(c, g, in, n, c->caps.n_pass), rc = 0;
    memcpy(seat, g->seat, (size_t)seated * sizeof *seat);
    while (!rc && g->n) rc = encode(c, g, err);
    for (int i = 0; rc && i < seated; i++) carousel_leave(c, seat[i]);
    return rc ? rc : seated;
}

int carousel_board(struct carousel *c, const struct carousel_input *in, int n, int *seat) {
    struct group *g = &c->boarding;
    if (g->n) return 0;
    int seated = fill_group(c, g, in, n, c->caps.n_board);
    memcpy(seat, g->seat, (size_t)seated * sizeof *seat);
    return seated;
}

int carousel_encode(struct carousel *c, struct err *err) {
    return c->boarding.n ? encode(c, &c->boarding, err) : 0;
}

int carousel_boarding(const struct carousel *c) {
    const struct group *g = &c->boarding;
    if (!g->n) return 0;
    int64_t left = (int64_t)g->pass.n_tok * (c->n_layer - g->layer);
    return (int)((left + c->n_layer - 1) / c->n_layer);
}

int carousel_rides(const struct carousel *c, int at) { return c->seat[at].state == RIDING; }

/* ---- a turn ---------------------------------------------------------------------------------- */

/* The cells of the tokens that hypothesis h has, found by its parents: the stepper has forgotten
 * who was not in its last step. */
static void trace_line(const struct carousel *c, const struct seat *seat, int h, int32_t *line) {
    const struct beam *b = &seat->sentence.beam;
    int width = seat->rules.beam.width;
    for (int t = b->len - 1; t >= 0; t--) {
        h = b->node[(size_t)t * (size_t)width + (size_t)h].parent;
        line[t] = c->cache[seat->cell + t * width + h];
    }
}

/* Hypothesis s of position t has no heir: its row is free, and so are those before that had no
 * other. */
static void bury(struct carousel *c, const struct seat *seat, int t, int s) {
    int width = seat->rules.beam.width, cell = seat->cell + t * width + s;
    for (;;) {
        c->spare[c->n_spare++] = c->cache[cell];
        c->cache[cell] = -1;
        if (t == 0) return;
        t--;
        s = seat->sentence.beam.node[(size_t)t * (size_t)width + (size_t)s].parent;
        cell = seat->cell + t * width + s;
        if (--c->heirs[cell] > 0) return;
    }
}

/* Frees the rows that no live hypothesis will look at again: what a beam has in common lies in the
 * cache once, and only its last few tokens in several versions. */
static void forget(struct carousel *c, const struct seat *seat) {
    const struct beam *b = &seat->sentence.beam;
    int width = seat->rules.beam.width, t = b->len - 1;
    if (t < 0) return;
    int first = seat->cell + t * width;
    const struct beam_node *node = b->node + (size_t)t * (size_t)width;
    memset(c->heirs + first, 0, (size_t)width * sizeof *c->heirs);
    for (int h = 0; h < b->n_live; h++) c->heirs[first + node[h].parent]++;
    for (int s = 0; s < width; s++)
        if (c->cache[first + s] >= 0 && !c->heirs[first + s]) bury(c, seat, t, s);
}

/* The live hypotheses of a seat as rows from c->row[n] on. Returns how many there are then. */
static int gather_seat(struct carousel *c, struct seat *seat, int n) {
    struct sentence *x = &seat->sentence;
    const struct beam *b = &x->beam;
    int width = seat->rules.beam.width, row = x->row; /* in the step before, or -1 */
    const struct beam_node *node = b->len ? b->node + (size_t)(b->len - 1) * (size_t)width : NULL;
    x->row = n;
    forget(c, seat);
    for (int h = 0; h < b->n_live; h++, n++) {
        int32_t *cache = &c->cache[seat->cell + b->len * width + h];
        BUG_ON(c->n_spare == 0);
        *cache = c->spare[--c->n_spare];
        c->row[n] = (struct stepper_row){.id = node ? node[h].token : c->ranker.marks.bos,
                                         .pos = b->len,
                                         .parent = node ? row + node[h].parent : 0,
                                         .cache = *cache,
                                         .src = seat->src,
                                         .n_src = x->in.n_src};
        if (!node || row >= 0) continue;
        int32_t *line = c->line + (size_t)n * (size_t)c->caps.max_len;
        trace_line(c, seat, h, line);
        c->row[n].line = line;
    }
    return n;
}

/* The live hypotheses of all seats that are not held are the rows of the step. Returns how many. */
static int gather(struct carousel *c) {
    int n = 0;
    for (int i = 0; i < c->n_riding; i++) {
        struct seat *seat = &c->seat[c->riding[i]];
        if (seat->held)
            seat->sentence.row = -1;
        else
            n = gather_seat(c, seat, n);
    }
    return n;
}

/* What the rows of the step need: the best candidates of all, and logits. */
static int candidates(struct carousel *c, struct mat *logits, struct err *err) {
    unsigned needs = 0;
    c->got.k = 1;
    for (int i = 0; i < c->n_riding; i++) {
        const struct seat *seat = &c->seat[c->riding[i]];
        if (seat->held) continue;
        needs |= rank_needs(&seat->rules, &seat->sentence);
        c->got.k = max_int(c->got.k, seat->rules.k);
    }
    for (int m = 0; needs & RANK_LOGITS && m < c->ranker.n_model; m++)
        logits[m] = stepper_logits(c->stepper[m]);
    if (needs & RANK_TOPK)
        return stepper_topk(c->stepper[0], c->got.k, c->got.value, c->got.id, err);
    return backend_sync(c->ranker.be, err);
}

/* Every seat takes its token; those that are done stop riding. */
static void advance(struct carousel *c, const struct mat *logits) {
    int n = 0;
    for (int i = 0; i < c->n_riding; i++) {
        struct seat *seat = &c->seat[c->riding[i]];
        struct sentence *x = &seat->sentence;
        if (seat->held) {
            c->riding[n++] = c->riding[i];
            continue;
        }
        seat->rc = rank_next(&c->ranker, &seat->rules, x, logits, &c->got, &seat->err);
        if (seat->rc || x->beam.done) {
            seat->state = DONE;
            c->done[c->n_done++] = c->riding[i];
        } else {
            c->riding[n++] = c->riding[i];
        }
    }
    c->n_riding = n;
}

int carousel_step(struct carousel *c, struct err *err) {
    struct mat logits[SEARCH_MAX_MODELS] = {0};
    int n = gather(c), rc = 0;
    if (n == 0) return 0;
    for (int m = 0; !rc && m < c->ranker.n_model; m++)
        rc = stepper_advance(c->stepper[m], c->row, n, err);
    if (!rc) rc = candidates(c, logits, err);
    if (!rc) advance(c, logits);
    return rc;
}

/* ---- results --------------------------------------------------------------------------------- */

static struct seat *seat_in(const struct carousel *c, int seat, enum seat_state state) {
    BUG_ON(seat < 0 || seat >= c->caps.n_seat || c->seat[seat].state != state);
    return &c->seat[seat];
}

/* Takes one number out of a list and keeps the order of the others. */
static void drop(int *list, int *n, int seat) {
    int i = 0;
    while (i < *n && list[i] != seat) i++;
    if (i == *n) return;
    memmove(list + i, list + i + 1, (size_t)(--*n - i) * sizeof *list);
}

/* It leaves before it rides: its rows are not to be filled any more. */
static void jump_off(struct group *g, int seat) {
    int left = 0;
    for (int i = 0; i < g->n; i++) {
        if (g->seat[i] == seat) g->seat[i] = -1;
        left += g->seat[i] >= 0;
    }
    if (!left) g->n = 0;
}

void carousel_hold(struct carousel *c, int at, int held) { seat_in(c, at, RIDING)->held = held; }

int carousel_done(struct carousel *c) {
    if (c->n_done == 0) return -1;
    int seat = c->done[0];
    drop(c->done, &c->n_done, seat);
    return seat;
}

int carousel_result(struct carousel *c, int at, struct search_result *result, struct err *err) {
    const struct seat *seat = seat_in(c, at, DONE);
    const struct beam *b = &seat->sentence.beam;
    struct hypothesis *best = c->best + (size_t)at * (size_t)c->caps.max_beam;
    *result = (struct search_result){best, 0};
    if (seat->rc) {
        if (err) *err = seat->err;
        return seat->rc;
    }
    for (int rank = 0; rank < b->n_end; rank++) {
        size_t first = (size_t)seat->cell + (size_t)rank * (size_t)b->max_len;
        best[rank] =
            rank_report(&seat->rules, &seat->sentence, rank, c->id + first, c->log_prob + first);
    }
    result->n = b->n_end;
    return 0;
}

void carousel_leave(struct carousel *c, int at) {
    BUG_ON(at < 0 || at >= c->caps.n_seat || c->seat[at].state == EMPTY);
    struct seat *seat = &c->seat[at];
    if (seat->state == RIDING)
        drop(c->riding, &c->n_riding, at);
    else if (seat->state == DONE)
        drop(c->done, &c->n_done, at);
    else
        jump_off(&c->boarding, at);
    seat->state = EMPTY;
    c->n_beam -= seat->rules.beam.width;
    int width = seat->rules.beam.width;
    for (int k = min_int(seat->sentence.beam.len + 1, seat->sentence.beam.max_len) * width;
         k > 0;) {
        int32_t row = c->cache[seat->cell + --k];
        if (row >= 0) c->spare[c->n_spare++] = row;
    }
    shelf_give(&c->cells, seat->cell);
    shelf_give(&c->sources, seat->src);
    c->empty[c->n_empty++] = at;
}

/* How many first tokens all hypotheses share: the slots that they come from, walked backwards until
 * there is one. Those that have ended join where they ended. */
static int settled(const struct seat *seat) {
    const struct beam *b = &seat->sentence.beam;
    uint64_t slots = b->n_live == 64 ? UINT64_MAX : (UINT64_C(1) << b->n_live) - 1;
    int n = b->len;
    for (int i = 0; i < b->n_end; i++) n = min_int(n, b->end[i].n);
    for (int t = b->len; t > 0; t--) {
        const struct beam_node *node = b->node + (size_t)(t - 1) * (size_t)seat->rules.beam.width;
        uint64_t parents = 0;
        for (int i = 0; i < b->n_end; i++)
            if (b->end[i].n == t) slots |= UINT64_C(1) << b->end[i].hyp;
        if (t <= n && (slots & (slots - 1)) == 0) return t;
        for (uint64_t left = slots; left; left &= left - 1)
            parents |= UINT64_C(1) << node[__builtin_ctzll(left)].parent;
        slots = parents;
    }
    return 0;
}

struct carousel_view carousel_peek(struct carousel *c, int at) {
    const struct seat *seat = seat_in(c, at, RIDING);
    const struct beam *b = &seat->sentence.beam;
    beam_trace(c->peek, NULL, b, &seat->rules.beam, 0, b->len);
    int lead = min_int(seat->sentence.in.n_lead, b->len);
    return (struct carousel_view){c->peek + lead, b->len - lead, max_int(settled(seat) - lead, 0)};
}
