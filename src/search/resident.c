/* resident.c — see resident.h. */
#include "search/resident.h"
#include "backend/backend.h"
#include "base/clock.h"

#include <string.h>

enum { MAX_SIZES = 64 };

struct resident {
    struct stepper *stepper;
    struct resident_rules rules;
    struct arena arena; /* backend memory: */
    struct beam_table table;
    int32_t *src, *max_len, *lead;             /* [3 * n_seq + 1] together */
    double *penalty;                           /* [cap.len + 1] */
    int32_t *host;                             /* what goes to these */
    int size[MAX_SIZES], n_size;               /* numbers of rows, ascending; the last is cap.hyp */
    struct recording *recording[MAX_SIZES][2]; /* by size and turn of the index tables */
    struct search_stats stats;                 /* of the last search */
};

static void carve(struct resident *r) {
    size_t n_seq = (size_t)r->rules.n_seq, width = (size_t)r->rules.beam.width;
    size_t len = (size_t)r->stepper->cap.len, n_best = (size_t)r->rules.beam.n_best;
    r->arena.used = 0;
    r->table.head = arena_take(&r->arena, n_seq * sizeof *r->table.head);
    r->table.log_prob = arena_take(&r->arena, n_seq * width * sizeof *r->table.log_prob);
    r->table.node = arena_take(&r->arena, n_seq * width * len * sizeof *r->table.node);
    r->table.end = arena_take(&r->arena, n_seq * n_best * sizeof *r->table.end);
    r->table.count = arena_take(&r->arena, sizeof *r->table.count);
    r->penalty = arena_take(&r->arena, (len + 1) * sizeof *r->penalty);
    r->src = arena_take(&r->arena, (3 * n_seq + 1) * sizeof *r->src);
    r->max_len = r->src ? r->src + n_seq + 1 : NULL;
    r->lead = r->src ? r->max_len + n_seq : NULL;
}

int resident_next_size(int size) {
    if (size < 64) return size < 4 ? 4 : size < 16 ? 16 : 2 * size;
    int octave = 64;
    while (octave <= size / 2) octave *= 2;
    return size + octave / (octave < 512 ? 2 : 4);
}

static void list_sizes(struct resident *r) {
    int most = r->stepper->cap.hyp, n = 0;
    for (int size = 4; size < most && n < MAX_SIZES - 1; size = resident_next_size(size))
        r->size[n++] = size;
    r->size[n++] = most;
    r->n_size = n;
}

int resident_new(struct resident **out, struct stepper *stepper, const struct resident_rules *rules,
                 struct err *err) {
    struct backend *be = stepper->model->be;
    struct resident *r = *out = xcalloc(1, sizeof *r);
    *r = (struct resident){.stepper = stepper, .rules = *rules};
    BUG_ON((int64_t)rules->n_seq * rules->beam.width > stepper->cap.hyp);
    r->host = xcalloc(3 * (size_t)rules->n_seq + 1, sizeof *r->host);
    list_sizes(r);
    carve(r);
    r->arena.cap = r->arena.used;
    if (!(r->arena.base = backend_alloc(be, r->arena.cap, err))) {
        resident_free(r);
        *out = NULL;
        return HEED_ENOMEM;
    }
    carve(r);
    backend_upload(be, r->penalty, rules->beam.penalty,
                   ((size_t)stepper->cap.len + 1) * sizeof *r->penalty);
    return 0;
}

void resident_free(struct resident *r) {
    if (!r) return;
    struct backend *be = r->stepper->model->be;
    for (int i = 0; i < r->n_size; i++)
        for (int turn = 0; turn < 2; turn++) backend_forget(be, r->recording[i][turn]);
    backend_free(be, r->arena.base);
    xfree(r->host);
    xfree(r);
}

/* ---- running --------------------------------------------------------------------------------- */

/* Bookkeeping after a step of n rows in turn `turn`: the next one's are written into the other
 * table. */
static struct beam_step_args bookkeeping(const struct resident *r, int n, int turn) {
    const struct stepper *s = r->stepper;
    struct stepper_rows from = stepper_rows(s, turn), to = stepper_rows(s, !turn);
    struct beam_step_args a = {.id = s->top,
                               .rules = r->rules.beam,
                               .bos = r->rules.bos,
                               .min_len = r->rules.min_len,
                               .n_seq = r->rules.n_seq,
                               .n_row = s->cap.hyp,
                               .longest = s->cap.len,
                               .src = r->src,
                               .max_len = r->max_len,
                               .lead = r->lead,
                               .table = r->table,
                               .ids = to.ids,
                               .pos = to.pos,
                               .len = to.len,
                               .src_start = to.src_start,
                               .src_len = to.src_len,
                               .index = to.index,
                               .old_index = from.index};
    a.rules.penalty = r->penalty;
    a.value = (struct mat){
        .data = s->value.data, .ld = r->rules.k, .rows = n, .cols = r->rules.k, .type = DTYPE_F32};
    return a;
}

/* One step of at least `rows` rows. */
static void queue_step(struct resident *r, int rows, int turn) {
    struct backend *be = r->stepper->model->be;
    int i = 0;
    while (r->size[i] < rows) i++;
    r->stats.steps++;
    r->stats.computed += (uint64_t)r->size[i];
    if (backend_replay(be, &r->recording[i][turn])) return;
    r->stats.anew++;
    do {
        struct beam_step_args a = bookkeeping(r, r->size[i], turn);
        stepper_queue(r->stepper, r->size[i], r->rules.k, turn);
        beam_step(be, &a);
    } while (backend_recorded(be, &r->recording[i][turn]));
}

/* The counts after step t; waits for it. */
static struct beam_count collect(struct resident *r, int t) {
    struct beam_count count = {0};
    double begin = clock_seconds();
    backend_collect(r->stepper->model->be, t % POST_SLOTS, &count, sizeof count);
    r->stats.waited += clock_seconds() - begin;
    r->stats.rows += (uint64_t)count.n_row;
    return count;
}

/* Absent sentences have a longest length of 0. Returns the longest of all. */
static int begin(struct resident *r, const struct resident_input *in) {
    struct backend *be = r->stepper->model->be;
    size_t room = (size_t)r->rules.n_seq, n = (size_t)in->n_seq;
    int longest = 0;
    memset(r->host, 0, (3 * room + 1) * sizeof *r->host);
    memcpy(r->host, in->src, (n + 1) * sizeof *in->src);
    memcpy(r->host + room + 1, in->max_len, n * sizeof *in->max_len);
    memcpy(r->host + 2 * room + 1, in->lead, n * sizeof *in->lead);
    for (int i = 0; i < in->n_seq; i++)
        longest = in->max_len[i] > longest ? in->max_len[i] : longest;
    backend_upload(be, r->src, r->host, (3 * room + 1) * sizeof *r->host);
    struct beam_step_args a = bookkeeping(r, 1, 1); /* writes the rows of turn 0 */
    a.begin = 1;
    beam_step(be, &a);
    return longest;
}

int resident_run(struct resident *r, const struct resident_input *in,
                 const struct search_poll *poll, struct err *err) {
    struct backend *be = r->stepper->model->be;
    int n_seq = in->n_seq, longest = begin(r, in);
    struct beam_count count = {.n_active = n_seq};
    r->stats = (struct search_stats){.rows = (uint64_t)n_seq};
    for (int t = 0; t < longest && count.n_active > 0; t++) {
        if (poll &&
            poll->call(poll->ctx)) /* what is queued still runs, before anything of a later call */
            return err_set(err, HEED_ECANCELLED, "search: cancelled after %d tokens", t);
        queue_step(r, t ? count.n_active * r->rules.beam.width : n_seq, t % 2);
        backend_post(be, t % POST_SLOTS, r->table.count, sizeof count);
        /* One step late: the device is never without work while the host reads. */
        if (t) count = collect(r, t - 1);
        int rc = backend_check(be, err);
        if (rc) return rc;
    }
    return 0;
}

int resident_read(struct resident *r, struct beam_head *head, struct beam_node *node,
                  struct beam_end *end, int n_seq, struct err *err) {
    struct backend *be = r->stepper->model->be;
    size_t n = (size_t)n_seq, width = (size_t)r->rules.beam.width;
    double begin = clock_seconds();
    backend_download(be, head, r->table.head, n * sizeof *head);
    backend_download(be, node, r->table.node,
                     n * (size_t)r->stepper->cap.len * width * sizeof *node);
    backend_download(be, end, r->table.end, n * (size_t)r->rules.beam.n_best * sizeof *end);
    int rc = backend_sync(be, err);
    r->stats.waited += clock_seconds() - begin;
    return rc;
}

const struct search_stats *resident_stats(const struct resident *r) { return &r->stats; }
