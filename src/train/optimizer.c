/* optimizer.c — see optimizer.h. */
#include "train/optimizer.h"

#include <math.h>
#include <string.h>

#include "backend/backend.h"
#include "base/crc32c.h"
#include "base/num.h"
#include "model/transformer.h"
#include "train/schedule.h"

const struct optimizer_options optimizer_defaults = {.beta1 = 0.9,
                                                     .beta2 = 0.98,
                                                     .eps = 1e-9,
                                                     .warmup = 4000,
                                                     .lr_scale = 1.0,
                                                     .accumulate = 1,
                                                     .seed = 1};

int optimizer_options_check(const struct optimizer_options *o, struct err *err) {
    if (!(o->beta1 >= 0 && o->beta1 < 1))
        return err_set(err, HEED_ECONFIG, "beta1: %g is not in [0, 1)", o->beta1);
    if (!(o->beta2 >= 0 && o->beta2 < 1))
        return err_set(err, HEED_ECONFIG, "beta2: %g is not in [0, 1)", o->beta2);
    if (!(o->eps > 0 && isfinite(o->eps)))
        return err_set(err, HEED_ECONFIG, "adam eps: %g is not positive", o->eps);
    if (!(o->clip >= 0 && isfinite(o->clip)))
        return err_set(err, HEED_ECONFIG, "clip: %g is negative", o->clip);
    if (o->warmup < 0)
        return err_set(err, HEED_ECONFIG, "warmup: %lld is negative", (long long)o->warmup);
    if (o->cooldown < 0 || o->cooldown > o->steps)
        return err_set(err, HEED_ECONFIG, "cooldown: %lld updates in a run of %lld",
                       (long long)o->cooldown, (long long)o->steps);
    if (!(o->ema >= 0 && o->ema < 1))
        return err_set(err, HEED_ECONFIG, "ema: %g is not in [0, 1)", o->ema);
    if (o->accumulate < 1 || o->accumulate > SUM_MOST)
        return err_set(err, HEED_ECONFIG, "accumulate: %d batches are not 1 to %d", o->accumulate,
                       SUM_MOST);
    if (o->comm && !shards_valid(o->accumulate, o->comm->size))
        return err_set(err, HEED_ECONFIG, "accumulate: %d batches cannot be shared by %d ranks",
                       o->accumulate, o->comm->size);
    if (!(o->lr_scale > 0 && isfinite(o->lr_scale)))
        return err_set(err, HEED_ECONFIG, "lr_scale: %g is not positive", o->lr_scale);
    return 0;
}

/* ---- buffers --------------------------------------------------------------------------------- */

enum { N_TOTAL = 7 }; /* numbers of a batch: those of acts, and its tokens */

static int n_rank_of(const struct optimizer_options *o) { return o->comm ? o->comm->size : 1; }
static int alone(const struct optimizer *opt) { return opt->shards.size == 1; }

static enum dtype wide_type(const struct optimizer *opt) { return dtype_wide(opt->model->type); }
static size_t wide_size(const struct model *model) { return dtype_size(dtype_wide(model->type)); }
static size_t flat_size(const struct model *model) {
    return model->table.n_elem * wide_size(model);
}

static void *at_element(void *base, int64_t first, size_t size) {
    return base ? (char *)base + (size_t)first * size : NULL;
}

/* Elements of a flat buffer. */
static struct mat span_view(void *base, struct shard_span span, enum dtype type) {
    return mat_of(at_element(base, span.first, dtype_size(type)), 1, (int)span.count, type);
}

/* Elements of n rows of the gradients, from `row` on. */
static struct mat grad_rows(const struct optimizer *opt, int row, int n, struct shard_span span) {
    int64_t first = row * opt->shards.n + span.first;
    struct mat rows = mat_of(at_element(opt->grads, first, wide_size(opt->model)), n,
                             (int)span.count, wide_type(opt));
    rows.ld = (int)opt->shards.n;
    return rows;
}

static struct shard_span whole(const struct optimizer *opt) {
    return (struct shard_span){0, opt->shards.n};
}

static void *grad_row(const struct optimizer *opt, int row) {
    return grad_rows(opt, row, 1, whole(opt)).data;
}

/* The own slice of a bucket, in a shard. */
static struct mat shard_view(const struct optimizer *opt, void *shard, int bucket) {
    struct shard_span at = {shards_offset(&opt->shards, bucket),
                            shards_own(&opt->shards, bucket).count};
    return span_view(shard, at, wide_type(opt));
}

/* For every bucket of which this rank has a part, as a struct shard_span `own`. */
#define EACH_OWN(opt, bucket, own)                                                                 \
    for (int bucket = 0; bucket < shards_buckets(&(opt)->shards); bucket++)                        \
        for (struct shard_span own = shards_own(&(opt)->shards, bucket); own.count; own.count = 0)

/* Elements that a rank receives of a bucket, from as many ranks as there are at most. */
static int64_t received_count(const struct shards *s) {
    return shards_bucket(s, 0).count + (int64_t)s->size * SHARD_RANGE;
}

size_t optimizer_bytes(const struct model *model, int accumulate, int n_rank, int ema) {
    struct shards shards = {.n = (int64_t)model->table.n_elem, .size = n_rank};
    size_t n_state = 2 + (ema != 0), depth = (size_t)shards_depth(accumulate / n_rank);
    size_t state = n_state * (size_t)shards_most(&shards) * wide_size(model);
    size_t received = n_rank > 1 ? (size_t)received_count(&shards) * wide_size(model) : 0;
    return state + depth * flat_size(model) + received;
}

void optimizer_free(struct optimizer *opt) {
    if (!opt) return;
    struct backend *be = opt->model->be;
    backend_free(be, opt->grads);
    backend_free(be, opt->received);
    backend_free(be, opt->m);
    backend_free(be, opt->v);
    backend_free(be, opt->avg);
    backend_free(be, opt->squares);
    backend_free(be, opt->sumsq);
    for (int i = 0; opt->g && i < opt->n_row; i++) params_release(&opt->g[i]);
    xfree(opt->g);
    if (opt->all != opt->mine) xfree(opt->all);
    xfree(opt->mine);
    xfree(opt->count);
    xfree(opt);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Which rank has the slices of a place: slices lie as the members of COMM_INSIDE do, and within
 * each, those of COMM_ACROSS. */
static int rank_of(const struct optimizer *opt, int place) {
    const struct comm *comm = opt->options.comm;
    if (alone(opt)) return 0;
    int across = comm_count(comm, COMM_ACROSS);
    return place % across * comm_count(comm, COMM_INSIDE) + place / across;
}

static int place_of(const struct comm *comm) {
    if (!comm || comm->size == 1) return 0;
    return comm_index(comm, COMM_INSIDE) * comm_count(comm, COMM_ACROSS) +
           comm_index(comm, COMM_ACROSS);
}

/* What the group of a level has of a bucket, cut into one slice per member: opt->count says how
 * many bytes they are, *own which is this rank's. */
static struct shard_span cut_level(struct optimizer *opt, int bucket, enum comm_level level,
                                   size_t size, struct shard_span *own) {
    const struct comm *comm = opt->options.comm;
    int across = comm_count(comm, COMM_ACROSS), n = comm_count(comm, level);
    int inside = level == COMM_INSIDE, each = inside ? across : 1;
    int first = inside ? 0 : comm_index(comm, COMM_INSIDE) * across;
    for (int i = 0; i < n; i++) {
        struct shard_span slice = shards_slices(&opt->shards, bucket, first + i * each, each);
        opt->count[i] = (size_t)slice.count * size;
        if (i == comm_index(comm, level)) *own = slice;
    }
    return shards_slices(&opt->shards, bucket, first, n * each);
}

/* The last two of `depth` partial sums become one. */
static void merge(struct optimizer *opt, int depth, struct shard_span span) {
    sum(opt->model->be, &(struct sum_args){.out = grad_rows(opt, depth - 2, 1, span),
                                           .x = grad_rows(opt, depth - 2, 2, span)});
}

/* Reducing the gradient of an update: what the ranks have of a bucket becomes its sum, each slice
 * at its owner, by one step for each level. Buckets are taken from the last to the first, as the
 * backward pass finishes them, and one step at a time is under way: what others sent waits in
 * opt->received until the backend has added it up, and only then does the next step begin. */
struct step {
    int bucket;
    enum comm_level level;
};

static struct step step_at(const struct optimizer *opt, int i) {
    return (struct step){shards_buckets(&opt->shards) - 1 - i / 2,
                         i % 2 ? COMM_ACROSS : COMM_INSIDE};
}

/* Returns 0 if there is nobody to exchange with. A rank's own batches are added up before. */
static int begin_step(struct optimizer *opt, struct step step) {
    struct comm *comm = opt->options.comm;
    size_t size = wide_size(opt->model);
    struct shard_span own, all = cut_level(opt, step.bucket, step.level, size, &own);
    for (int depth = opt->n_row; step.level == COMM_INSIDE && depth > 1; depth--)
        merge(opt, depth, shards_bucket(&opt->shards, step.bucket));
    if (comm_count(comm, step.level) == 1) return 0;
    comm_begin(comm);
    comm_exchange(comm, step.level, opt->received, at_element(opt->grads, all.first, size),
                  opt->count);
    return 1;
}

static void end_step(struct optimizer *opt, struct step step) {
    struct shard_span own = {0};
    int n = comm_count(opt->options.comm, step.level);
    cut_level(opt, step.bucket, step.level, wide_size(opt->model), &own);
    comm_end(opt->options.comm);
    if (!own.count) return;
    sum(opt->model->be,
        &(struct sum_args){.out = span_view(opt->grads, own, wide_type(opt)),
                           .x = mat_of(opt->received, n, (int)own.count, wide_type(opt))});
}

/* Ends the step under way and begins the next, if its bucket is final: `from` is where that
 * begins. */
static void reduce_next(struct optimizer *opt, int64_t from) {
    int n = 2 * shards_buckets(&opt->shards);
    if (opt->under_way) end_step(opt, step_at(opt, opt->n_reduced - 1));
    opt->under_way = 0;
    while (!opt->under_way && opt->n_reduced < n) {
        struct step next = step_at(opt, opt->n_reduced);
        if (shards_bucket(&opt->shards, next.bucket).first < from) return;
        opt->under_way = begin_step(opt, next);
        opt->n_reduced++;
    }
}

/* For the backward pass of a rank's last batch. */
static void on_final(void *ctx, const void *from) {
    struct optimizer *opt = ctx;
    ptrdiff_t at = (const char *)from - (const char *)grad_row(opt, opt->n_row - 1);
    reduce_next(opt, at / (ptrdiff_t)wide_size(opt->model));
}

/* All that is left to reduce. */
static void reduce(struct optimizer *opt) {
    watch_phase(opt->options.watch, opt->step, WATCH_EXCHANGE);
    do reduce_next(opt, 0);
    while (opt->under_way);
    opt->n_reduced = 0;
}

/* All slices of a flat buffer with elements of `size` bytes come to all ranks. */
static void spread(struct optimizer *opt, void *flat, size_t size) {
    static const enum comm_level order[] = {COMM_ACROSS, COMM_INSIDE};
    struct comm *comm = opt->options.comm;
    if (alone(opt)) return;
    comm_begin(comm);
    for (int b = 0; b < shards_buckets(&opt->shards); b++)
        for (int i = 0; i < 2; i++) {
            struct shard_span own, all = cut_level(opt, b, order[i], size, &own);
            comm_allgather(comm, order[i], at_element(flat, all.first, size), opt->count);
        }
    comm_end(comm);
}

/* The parameters that the model computes with come to all ranks; it may round them. */
static void spread_params(struct optimizer *opt) {
    struct model *m = opt->model;
    spread(opt, m->copy ? m->copy : m->flat, m->copy ? dtype_size(DTYPE_BF16) : wide_size(m));
    model_round(m);
}

/* A failure of either. */
static int check(const struct optimizer *opt, struct err *err) {
    int rc = backend_check(opt->model->be, err);
    return rc || !opt->options.comm ? rc : comm_check(opt->options.comm, err);
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* Queues a batch: forward, loss, and backward if there are gradients. */
static int queue_batch(struct optimizer *opt, const struct batch *batch, const struct pass *pass,
                       struct err *err) {
    int rc = acts_load(opt->acts, batch, err);
    if (rc) return rc;
    transformer_fwd(pass);
    transformer_loss(pass);
    if (pass->grads) transformer_bwd(pass);
    return 0;
}

/* Waits for a queued batch: its totals. */
static int collect_batch(struct optimizer *opt, const struct batch *batch, double *totals,
                         struct err *err) {
    memset(totals, 0, N_TOTAL * sizeof *totals);
    backend_download(opt->model->be, totals, opt->acts->totals.data, acts_totals_size(opt->acts));
    totals[5] = batch->tgt.n_tok;
    totals[6] = batch->src.n_tok;
    return backend_check(opt->model->be, err); /* a download has waited */
}

static void add_totals(struct update_report *report, const double *totals) {
    report->loss += totals[0];
    report->nll += totals[1];
    report->n_hit += (int64_t)totals[2];
    report->guided += totals[3];
    report->n_guided += (int64_t)totals[4];
    report->n_tok += (int64_t)totals[5];
    report->n_src_tok += (int64_t)totals[6];
}

/* The gradient of batch i of n is in row `depth` - 1: whatever is complete in the tree of all is
 * added up. Returns how many rows are left. */
static int merge_complete(struct optimizer *opt, int depth, int i, int n) {
    for (int c = i + 1; c % 2 == 0; c /= 2) merge(opt, depth--, whole(opt));
    if (i == n - 1)
        while (depth > 1) merge(opt, depth--, whole(opt));
    return depth;
}

static struct mat norm_view(const struct optimizer *opt) {
    return mat_of(opt->sumsq, 1, 1, DTYPE_F64);
}

static int n_ranges(int64_t count) { return (int)((count + SHARD_RANGE - 1) / SHARD_RANGE); }

/* Queues the squares of own slices of the gradient. */
static void square(struct optimizer *opt) {
    struct backend *be = opt->model->be;
    int at = 0;
    backend_zero(be, opt->squares, (size_t)opt->n_range * sizeof *opt->squares);
    EACH_OWN(opt, bucket, own) {
        int n = n_ranges(own.count);
        sumsq(be, &(struct sumsq_args){.out = mat_of(opt->squares + at, 1, n, DTYPE_F64),
                                       .x = span_view(opt->grads, own, wide_type(opt))});
        at += n;
    }
}

/* The squares that all ranks gave to all, added up in the order of the elements. */
static double add_squares(const struct optimizer *opt) {
    const struct shards *s = &opt->shards;
    double total = 0;
    for (int b = 0; b < shards_buckets(s); b++)
        for (int place = 0; place < s->size; place++) {
            struct shards its = *s;
            its.place = place;
            const double *from = opt->all + (ptrdiff_t)rank_of(opt, place) * opt->n_mine +
                                 (ptrdiff_t)N_TOTAL * opt->n_own + n_ranges(shards_offset(&its, b));
            for (int i = 0; i < n_ranges(shards_own(&its, b).count); i++) total += from[i];
        }
    return total;
}

/* What each rank has found out comes to all: the report. Adam, if it clips, reads the sum of
 * squares on the device. */
static int collect_all(struct optimizer *opt, int norm, struct update_report *report,
                       struct err *err) {
    struct backend *be = opt->model->be;
    int n = N_TOTAL * opt->n_own;
    if (norm && opt->n_range)
        backend_download(be, opt->mine + n, opt->squares,
                         (size_t)opt->n_range * sizeof *opt->squares);
    int rc = backend_check(be, err);
    if (rc) return rc;
    if (!alone(opt))
        comm_gather(opt->options.comm, opt->all, opt->mine,
                    (size_t)opt->n_mine * sizeof *opt->mine);
    for (int r = 0; r < opt->shards.size; r++)
        for (int i = 0; i < opt->n_own; i++)
            add_totals(report, opt->all + (ptrdiff_t)r * opt->n_mine + (ptrdiff_t)i * N_TOTAL);
    if (norm) {
        double total = add_squares(opt);
        backend_upload(be, opt->sumsq, &total, sizeof total);
        report->grad_norm = sqrt(total);
    }
    return check(opt, err);
}

static void apply_adam(struct optimizer *opt, double rate) {
    struct model *m = opt->model;
    const struct optimizer_options *o = &opt->options;
    struct adam_args args = {.lr = (float)rate,
                             .beta1 = (float)o->beta1,
                             .beta2 = (float)o->beta2,
                             .eps = (float)o->eps,
                             .clip = (float)o->clip,
                             .t = opt->step,
                             .clear = alone(opt)};
    if (o->clip > 0) args.sumsq = norm_view(opt);
    if (opt->avg) args.avg_weight = (float)schedule_average(o->ema, opt->step);
    EACH_OWN(opt, bucket, own) {
        args.p = span_view(m->flat, own, wide_type(opt));
        args.g = span_view(opt->grads, own, wide_type(opt));
        args.m = shard_view(opt, opt->m, bucket);
        args.v = shard_view(opt, opt->v, bucket);
        if (m->copy) args.copy = span_view(m->copy, own, DTYPE_BF16);
        if (opt->avg) args.avg = shard_view(opt, opt->avg, bucket);
        adam(m->be, &args);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int reserve(struct optimizer *opt, struct err *err) {
    struct model *model = opt->model;
    struct backend *be = model->be;
    size_t size = flat_size(model), n_row = (size_t)opt->n_row;
    size_t shard = (size_t)max_i64(shards_count(&opt->shards, opt->shards.place), 1);
    size_t part = shard * wide_size(model), squares = (size_t)max_int(opt->n_range, 1);
    size_t received = (size_t)received_count(&opt->shards) * wide_size(model);
    if (!(opt->grads = backend_alloc(be, n_row * size, err)) ||
        (!alone(opt) && !(opt->received = backend_alloc(be, received, err))) ||
        !(opt->m = backend_alloc(be, part, err)) || !(opt->v = backend_alloc(be, part, err)) ||
        (opt->options.ema > 0 && !(opt->avg = backend_alloc(be, part, err))) ||
        !(opt->squares = backend_alloc(be, squares * sizeof *opt->squares, err)) ||
        !(opt->sumsq = backend_alloc(be, sizeof *opt->sumsq, err)))
        return HEED_ENOMEM;
    backend_zero(be, opt->grads, n_row * size); /* touched now, so that it is really there */
    if (opt->received) backend_zero(be, opt->received, received);
    backend_zero(be, opt->m, part);
    backend_zero(be, opt->v, part);
    if (opt->avg) optimizer_take_average(opt);
    opt->g = xcalloc(n_row, sizeof *opt->g);
    for (int i = 0; i < opt->n_row; i++)
        params_init(&opt->g[i], &model->config, grad_row(opt, i), wide_type(opt));
    backend_plan(be);
    opt->step = 1;
    merge_complete(opt, opt->n_row, opt->n_own - 1, opt->n_own);
    square(opt);
    apply_adam(opt, 0);
    opt->step = 0;
    return backend_commit(be, err);
}

int optimizer_new(struct optimizer **out, struct model *model, struct acts *acts,
                  const struct optimizer_options *options, struct err *err) {
    *out = NULL;
    int rc = optimizer_options_check(options, err), size = n_rank_of(options);
    if (rc) return rc;
    struct optimizer *opt = xcalloc(1, sizeof *opt);
    *opt = (struct optimizer){.options = *options,
                              .model = model,
                              .acts = acts,
                              .n_own = options->accumulate / size,
                              .shards = {.n = (int64_t)model->table.n_elem,
                                         .size = size,
                                         .place = place_of(options->comm),
                                         .bucket = options->bucket}};
    opt->n_row = shards_depth(opt->n_own);
    opt->n_range = n_ranges(shards_count(&opt->shards, opt->shards.place));
    opt->n_mine = N_TOTAL * opt->n_own + n_ranges(shards_most(&opt->shards));
    opt->mine = xcalloc((size_t)opt->n_mine, sizeof *opt->mine);
    opt->all =
        alone(opt) ? opt->mine : xcalloc((size_t)size * (size_t)opt->n_mine, sizeof *opt->all);
    opt->count = xcalloc((size_t)size, sizeof *opt->count);
    if ((rc = reserve(opt, err)))
        optimizer_free(opt);
    else
        *out = opt;
    return rc;
}

/* ---- updates --------------------------------------------------------------------------------- */

int optimizer_discard(struct optimizer *opt, struct err *err) {
    backend_zero(opt->model->be, opt->grads, flat_size(opt->model));
    return backend_sync(opt->model->be, err);
}

int optimizer_gradient(struct optimizer *opt, const struct update *update,
                       struct update_report *report, struct err *err) {
    int n = update->n, n_all = n * opt->shards.size;
    BUG_ON(opt->shown || n < 1 || n > opt->n_own || (!alone(opt) && n != opt->n_own));
    *report = (struct update_report){0};
    if (update->n_tok < 1) return err_set(err, HEED_EINVAL, "update: its batches are empty");
    int rc = 0, norm = opt->options.clip > 0 || opt->options.measure, depth = 0;
    int64_t first = opt->n_batch + (alone(opt) ? 0 : (int64_t)opt->options.comm->rank * n);
    memset(opt->mine, 0, (size_t)opt->n_mine * sizeof *opt->mine);
    watch_phase(opt->options.watch, opt->step, WATCH_GRADIENT);
    for (int i = 0; i < n && !rc; i++) {
        int last = i == n - 1, beside = last && !alone(opt) && comm_beside(opt->options.comm);
        if (depth) backend_zero(opt->model->be, grad_row(opt, depth), flat_size(opt->model));
        struct pass pass = {.model = opt->model,
                            .acts = opt->acts,
                            .grads = &opt->g[depth],
                            .training = 1,
                            .seed = opt->options.seed,
                            .step = (uint32_t)(first + i),
                            .grad_scale = (float)(1.0 / (double)update->n_tok),
                            .final = beside ? on_final : NULL,
                            .final_ctx = opt};
        rc = queue_batch(opt, update->batch[i], &pass, err);
        if (rc) break;
        /* All is queued before the wait for the totals. */
        if (last && !alone(opt))
            reduce(opt);
        else
            depth = merge_complete(opt, depth + 1, i, n);
        if (norm && last) square(opt);
        rc = collect_batch(opt, update->batch[i], opt->mine + (ptrdiff_t)i * N_TOTAL, err);
    }
    opt->n_batch += n_all;
    if (!rc) rc = collect_all(opt, norm, report, err);
    if (rc) optimizer_discard(opt, NULL); /* half an update must not leak into the next */
    return rc;
}

int optimizer_apply(struct optimizer *opt, struct update_report *report, struct err *err) {
    opt->step++;
    watch_phase(opt->options.watch, opt->step, WATCH_UPDATE);
    const struct optimizer_options *o = &opt->options;
    report->rate = schedule_rate(opt->model->config.d_model, o->warmup, o->lr_scale, opt->step) *
                   schedule_cooldown(o->steps, o->cooldown, opt->step);
    apply_adam(opt, report->rate);
    if (!alone(opt)) {
        watch_phase(opt->options.watch, opt->step, WATCH_EXCHANGE);
        backend_zero(opt->model->be, opt->grads, flat_size(opt->model));
    }
    spread_params(opt);
    return check(opt, err); /* queued; whoever waits next sees if it failed */
}

int optimizer_update(struct optimizer *opt, const struct batch *const *batch, int n,
                     struct update_report *report, struct err *err) {
    struct update update = {.batch = batch, .n = n};
    BUG_ON(!alone(opt));
    for (int i = 0; i < n; i++) update.n_tok += batch[i]->tgt.n_tok;
    int rc = optimizer_gradient(opt, &update, report, err);
    return rc ? rc : optimizer_apply(opt, report, err);
}

int optimizer_evaluate(struct optimizer *opt, const struct batch *batch,
                       struct update_report *report, struct err *err) {
    struct pass pass = {.model = opt->model, .acts = opt->acts};
    double totals[N_TOTAL];
    int rc = queue_batch(opt, batch, &pass, err);
    if (!rc) rc = collect_batch(opt, batch, totals, err);
    if (!rc) add_totals(report, totals);
    return rc;
}

/* ---- parts ----------------------------------------------------------------------------------- */

static void cast(const struct optimizer *opt, struct mat to, struct mat from) {
    backend_cast(opt->model->be, &to, &from);
}

const void *optimizer_gather(struct optimizer *opt, enum optimizer_part part) {
    struct model *model = opt->model;
    void *const shard[] = {model->flat, opt->m, opt->v, opt->avg};
    if (part == OPT_PARAMS && model->copy) spread(opt, model->flat, wide_size(model));
    if (part == OPT_PARAMS || alone(opt)) return shard[part];
    EACH_OWN(opt, bucket, own)
    cast(opt, span_view(opt->grads, own, wide_type(opt)), shard_view(opt, shard[part], bucket));
    spread(opt, opt->grads, wide_size(model));
    return opt->grads;
}

void optimizer_set(struct optimizer *opt, enum optimizer_part part, size_t first, size_t n,
                   const float *from) {
    struct model *model = opt->model;
    float *const shard[] = {model->flat, opt->m, opt->v, opt->avg};
    int64_t begin = (int64_t)first, end = begin + (int64_t)n;
    if (part == OPT_PARAMS) {
        backend_upload(model->be, shard[part] + first, from, n * sizeof *from);
        return;
    }
    EACH_OWN(opt, bucket, own) {
        int64_t low = max_i64(begin, own.first), high = min_i64(end, own.first + own.count);
        float *to = shard[part] + shards_offset(&opt->shards, bucket);
        if (low < high)
            backend_upload(model->be, to + (low - own.first), from + (low - begin),
                           (size_t)(high - low) * sizeof *from);
    }
}

int optimizer_checksum(struct optimizer *opt, uint32_t *crc, struct err *err) {
    enum { CHUNK = 1 << 18 };
    struct model *m = opt->model;
    const char *from = m->copy ? m->copy : m->flat;
    size_t size = (size_t)opt->shards.n * (m->copy ? dtype_size(DTYPE_BF16) : wide_size(m));
    char *buffer = xmalloc(CHUNK);
    int rc = 0;
    *crc = 0;
    for (size_t at = 0; at < size && !rc; at += CHUNK) {
        size_t n = min_size(CHUNK, size - at);
        backend_download(m->be, buffer, from + at, n);
        rc = backend_sync(m->be, err);
        *crc = crc32c(*crc, buffer, n);
    }
    xfree(buffer);
    return rc;
}

/* ---- the average ----------------------------------------------------------------------------- */

/* After own slices of the parameters were written: what the model computes with follows. */
static void follow(struct optimizer *opt) {
    struct model *m = opt->model;
    EACH_OWN(opt, bucket, own)
    if (m->copy)
        cast(opt, span_view(m->copy, own, DTYPE_BF16), span_view(m->flat, own, wide_type(opt)));
    spread_params(opt);
}

void optimizer_take_average(struct optimizer *opt) {
    EACH_OWN(opt, bucket, own)
    cast(opt, shard_view(opt, opt->avg, bucket), span_view(opt->model->flat, own, wide_type(opt)));
}

/* Between updates the gradients are zero: there is room for the parameters. */
int optimizer_show_average(struct optimizer *opt, struct err *err) {
    if (!opt->avg) return 0;
    BUG_ON(opt->shown);
    EACH_OWN(opt, bucket, own) {
        struct mat params = span_view(opt->model->flat, own, wide_type(opt));
        cast(opt, span_view(opt->grads, own, wide_type(opt)), params);
        cast(opt, params, shard_view(opt, opt->avg, bucket));
    }
    follow(opt);
    opt->shown = 1;
    return check(opt, err);
}

int optimizer_hide_average(struct optimizer *opt, struct err *err) {
    if (!opt->avg) return 0;
    BUG_ON(!opt->shown);
    EACH_OWN(opt, bucket, own)
    cast(opt, span_view(opt->model->flat, own, wide_type(opt)),
         span_view(opt->grads, own, wide_type(opt)));
    follow(opt);
    opt->shown = 0;
    int rc = optimizer_discard(opt, err);
    return rc ? rc : check(opt, err);
}
