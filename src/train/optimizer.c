/* optimizer.c — see optimizer.h. */
#include "train/optimizer.h"

#include <math.h>

#include "backend/backend.h"
#include "base/num.h"
#include "model/transformer.h"
#include "train/schedule.h"
#include "train/shards.h"

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
    if (!(o->lr_scale > 0 && isfinite(o->lr_scale)))
        return err_set(err, HEED_ECONFIG, "lr_scale: %g is not positive", o->lr_scale);
    return 0;
}

static struct mat flat_view(const struct optimizer *opt, void *data) {
    return mat_of(data, 1, (int)opt->model->table.n_elem, dtype_wide(opt->model->type));
}

static size_t flat_size(const struct model *model) {
    return model->table.n_elem * dtype_size(dtype_wide(model->type));
}

size_t optimizer_bytes(const struct model *model, int accumulate, int ema) {
    return (size_t)(2 + (ema != 0) + shards_depth(accumulate)) * flat_size(model);
}

void optimizer_free(struct optimizer *opt) {
    if (!opt) return;
    struct backend *be = opt->model->be;
    backend_free(be, opt->grads);
    backend_free(be, opt->m);
    backend_free(be, opt->v);
    backend_free(be, opt->avg);
    backend_free(be, opt->squares);
    backend_free(be, opt->sumsq);
    for (int i = 0; opt->g && i < opt->n_row; i++) params_release(&opt->g[i]);
    xfree(opt->g);
    xfree(opt->partial);
    xfree(opt);
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

/* Waits for a queued batch and adds its totals to the report. */
static int collect_batch(struct optimizer *opt, const struct batch *batch,
                         struct update_report *report, struct err *err) {
    double totals[5] = {0};
    backend_download(opt->model->be, totals, opt->acts->totals.data, acts_totals_size(opt->acts));
    int rc = backend_check(opt->model->be, err); /* a download has waited */
    if (rc) return rc;
    report->loss += totals[0];
    report->nll += totals[1];
    report->n_hit += (int64_t)totals[2];
    report->guided += totals[3];
    report->n_guided += (int64_t)totals[4];
    report->n_tok += batch->tgt.n_tok;
    report->n_src_tok += batch->src.n_tok;
    return 0;
}

/* n rows of the gradients, from `row` on. */
static struct mat grad_rows(const struct optimizer *opt, int row, int n) {
    size_t size = flat_size(opt->model);
    struct mat rows = flat_view(opt, opt->grads ? (char *)opt->grads + (size_t)row * size : NULL);
    rows.rows = n;
    return rows;
}

/* The last two of `depth` partial sums become one. */
static void merge(struct optimizer *opt, int depth) {
    sum(opt->model->be,
        &(struct sum_args){.out = grad_rows(opt, depth - 2, 1), .x = grad_rows(opt, depth - 2, 2)});
}

/* The gradient of batch i of n is in row `depth` - 1: whatever is complete in the tree of all is
 * added up. Returns how many rows are left. */
static int merge_complete(struct optimizer *opt, int depth, int i, int n) {
    for (int c = i + 1; c % 2 == 0; c /= 2) merge(opt, depth--);
    if (i == n - 1)
        while (depth > 1) merge(opt, depth--);
    return depth;
}

static struct mat norm_view(const struct optimizer *opt) {
    return mat_of(opt->sumsq, 1, 1, DTYPE_F64);
}

/* Queues the squares of the gradient. */
static void square(struct optimizer *opt) {
    struct backend *be = opt->model->be;
    backend_zero(be, opt->squares, (size_t)opt->n_range * sizeof *opt->squares);
    sumsq(be, &(struct sumsq_args){.out = mat_of(opt->squares, 1, opt->n_range, DTYPE_F64),
                                   .x = flat_view(opt, opt->grads)});
}

/* Adds them up, in order; Adam, if it clips, reads the sum on the device. */
static int collect_norm(struct optimizer *opt, double *norm, struct err *err) {
    struct backend *be = opt->model->be;
    double total = 0;
    backend_download(be, opt->partial, opt->squares, (size_t)opt->n_range * sizeof total);
    int rc = backend_check(be, err);
    for (int i = 0; i < opt->n_range; i++) total += opt->partial[i];
    backend_upload(be, opt->sumsq, &total, sizeof total);
    *norm = sqrt(total);
    return rc;
}

static void apply_adam(struct optimizer *opt, double rate) {
    struct model *m = opt->model;
    const struct optimizer_options *o = &opt->options;
    struct adam_args args = {.p = flat_view(opt, m->flat),
                             .g = flat_view(opt, opt->grads),
                             .m = flat_view(opt, opt->m),
                             .v = flat_view(opt, opt->v),
                             .lr = (float)rate,
                             .beta1 = (float)o->beta1,
                             .beta2 = (float)o->beta2,
                             .eps = (float)o->eps,
                             .clip = (float)o->clip,
                             .t = opt->step,
                             .clear = 1};
    if (m->copy) {
        args.copy = flat_view(opt, m->copy);
        args.copy.type = DTYPE_BF16;
    }
    if (o->clip > 0) args.sumsq = norm_view(opt);
    if (opt->avg) {
        args.avg = flat_view(opt, opt->avg);
        args.avg_weight = (float)schedule_average(o->ema, opt->step);
    }
    adam(m->be, &args);
}

static int reserve(struct optimizer *opt, struct err *err) {
    struct model *model = opt->model;
    struct backend *be = model->be;
    size_t size = flat_size(model), n_row = (size_t)opt->n_row, n_range = (size_t)opt->n_range;
    if (!(opt->grads = backend_alloc(be, n_row * size, err)) ||
        !(opt->m = backend_alloc(be, size, err)) || !(opt->v = backend_alloc(be, size, err)) ||
        (opt->options.ema > 0 && !(opt->avg = backend_alloc(be, size, err))) ||
        !(opt->squares = backend_alloc(be, n_range * sizeof *opt->squares, err)) ||
        !(opt->sumsq = backend_alloc(be, sizeof *opt->sumsq, err)))
        return HEED_ENOMEM;
    backend_zero(be, opt->grads, n_row * size); /* touched now, so that it is really there */
    backend_zero(be, opt->m, size);
    backend_zero(be, opt->v, size);
    if (opt->avg) optimizer_take_average(opt);
    opt->partial = xcalloc(n_range, sizeof *opt->partial);
    opt->g = xcalloc(n_row, sizeof *opt->g);
    for (int i = 0; i < opt->n_row; i++)
        params_init(&opt->g[i], &model->config, (char *)opt->grads + (size_t)i * size,
                    dtype_wide(model->type));
    backend_plan(be);
    opt->step = 1;
    merge_complete(opt, opt->n_row, opt->options.accumulate - 1, opt->options.accumulate);
    square(opt);
    apply_adam(opt, 0);
    opt->step = 0;
    return backend_commit(be, err);
}

int optimizer_new(struct optimizer **out, struct model *model, struct acts *acts,
                  const struct optimizer_options *options, struct err *err) {
    *out = NULL;
    int rc = optimizer_options_check(options, err);
    if (rc) return rc;
    struct optimizer *opt = xcalloc(1, sizeof *opt);
    *opt = (struct optimizer){.options = *options,
                              .model = model,
                              .acts = acts,
                              .n_row = shards_depth(options->accumulate),
                              .n_range = ceil_div((int)model->table.n_elem, SUMSQ_RANGE)};
    if ((rc = reserve(opt, err)))
        optimizer_free(opt);
    else
        *out = opt;
    return rc;
}

int optimizer_discard(struct optimizer *opt, struct err *err) {
    backend_zero(opt->model->be, opt->grads, flat_size(opt->model));
    return backend_sync(opt->model->be, err);
}

int optimizer_gradient(struct optimizer *opt, const struct batch *const *batch, int n,
                       struct update_report *report, struct err *err) {
    BUG_ON(opt->shown || n > opt->options.accumulate);
    *report = (struct update_report){0};
    int64_t n_tok = 0;
    for (int i = 0; i < n; i++) n_tok += batch[i]->tgt.n_tok;
    if (n_tok < 1) return err_set(err, HEED_EINVAL, "update: its batches are empty");
    int rc = 0, norm = opt->options.clip > 0 || opt->options.measure, depth = 0;
    for (int i = 0; i < n && !rc; i++) {
        if (depth)
            backend_zero(opt->model->be, grad_rows(opt, depth, 1).data, flat_size(opt->model));
        struct pass pass = {.model = opt->model,
                            .acts = opt->acts,
                            .grads = &opt->g[depth],
                            .training = 1,
                            .seed = opt->options.seed,
                            .step = (uint32_t)opt->n_batch++,
                            .grad_scale = (float)(1.0 / (double)n_tok)};
        rc = queue_batch(opt, batch[i], &pass, err);
        if (rc) break;
        /* All is queued before the wait for the totals. */
        depth = merge_complete(opt, depth + 1, i, n);
        if (norm && i == n - 1) square(opt);
        rc = collect_batch(opt, batch[i], report, err);
    }
    if (!rc && norm) rc = collect_norm(opt, &report->grad_norm, err);
    if (rc) optimizer_discard(opt, NULL); /* half an update must not leak into the next */
    return rc;
}

int optimizer_apply(struct optimizer *opt, struct update_report *report, struct err *err) {
    opt->step++;
    const struct optimizer_options *o = &opt->options;
    report->rate = schedule_rate(opt->model->config.d_model, o->warmup, o->lr_scale, opt->step) *
                   schedule_cooldown(o->steps, o->cooldown, opt->step);
    apply_adam(opt, report->rate);
    return backend_check(opt->model->be, err); /* queued; whoever waits next sees if it failed */
}

int optimizer_update(struct optimizer *opt, const struct batch *const *batch, int n,
                     struct update_report *report, struct err *err) {
    int rc = optimizer_gradient(opt, batch, n, report, err);
    return rc ? rc : optimizer_apply(opt, report, err);
}

int optimizer_evaluate(struct optimizer *opt, const struct batch *batch,
                       struct update_report *report, struct err *err) {
    struct pass pass = {.model = opt->model, .acts = opt->acts};
    int rc = queue_batch(opt, batch, &pass, err);
    return rc ? rc : collect_batch(opt, batch, report, err);
}

/* ---- the average ----------------------------------------------------------------------------- */

static void copy_flat(const struct optimizer *opt, void *dst, void *src) {
    struct mat to = flat_view(opt, dst), from = flat_view(opt, src);
    backend_cast(opt->model->be, &to, &from);
}

void optimizer_take_average(struct optimizer *opt) { copy_flat(opt, opt->avg, opt->model->flat); }

/* Between updates the gradients are zero: there is room for the parameters. */
int optimizer_show_average(struct optimizer *opt, struct err *err) {
    if (!opt->avg) return 0;
    BUG_ON(opt->shown);
    copy_flat(opt, opt->grads, opt->model->flat);
    copy_flat(opt, opt->model->flat, opt->avg);
    model_follow(opt->model);
    opt->shown = 1;
    return backend_check(opt->model->be, err);
}

int optimizer_hide_average(struct optimizer *opt, struct err *err) {
    if (!opt->avg) return 0;
    BUG_ON(!opt->shown);
    copy_flat(opt, opt->model->flat, opt->grads);
    model_follow(opt->model);
    opt->shown = 0;
    return optimizer_discard(opt, err);
}
