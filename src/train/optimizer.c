/* optimizer.c — see optimizer.h. */
#include "train/optimizer.h"

#include <math.h>

#include "backend/backend.h"
#include "model/transformer.h"
#include "train/schedule.h"

const struct optimizer_options optimizer_defaults = {
    .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-9, .warmup = 4000, .lr_scale = 1.0, .seed = 1};

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

size_t optimizer_bytes(const struct model *model, int ema) {
    return (ema ? 4 : 3) * flat_size(model);
}

void optimizer_free(struct optimizer *opt) {
    if (!opt) return;
    struct backend *be = opt->model->be;
    backend_free(be, opt->grads);
    backend_free(be, opt->m);
    backend_free(be, opt->v);
    backend_free(be, opt->avg);
    backend_free(be, opt->sumsq);
    params_release(&opt->g);
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

static struct mat norm_view(const struct optimizer *opt) {
    return mat_of(opt->sumsq, 1, 1, DTYPE_F64);
}

/* Squares of the accumulated gradient, summed; for clipping it stays on the device. */
static void sum_squares(struct optimizer *opt) {
    struct backend *be = opt->model->be;
    backend_zero(be, opt->sumsq, sizeof *opt->sumsq);
    sumsq(be, &(struct sumsq_args){.out = norm_view(opt), .x = flat_view(opt, opt->grads)});
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

int optimizer_new(struct optimizer **out, struct model *model, struct acts *acts,
                  const struct optimizer_options *options, struct err *err) {
    *out = NULL;
    int rc = optimizer_options_check(options, err);
    if (rc) return rc;
    struct optimizer *opt = xcalloc(1, sizeof *opt);
    *opt = (struct optimizer){.options = *options, .model = model, .acts = acts};
    struct backend *be = model->be;
    size_t size = flat_size(model);
    if (!(opt->grads = backend_alloc(be, size, err)) || !(opt->m = backend_alloc(be, size, err)) ||
        !(opt->v = backend_alloc(be, size, err)) ||
        (options->ema > 0 && !(opt->avg = backend_alloc(be, size, err))) ||
        !(opt->sumsq = backend_alloc(be, sizeof *opt->sumsq, err))) {
        optimizer_free(opt);
        return HEED_ENOMEM;
    }
    backend_zero(be, opt->grads, size);
    backend_zero(be, opt->m, size);
    backend_zero(be, opt->v, size);
    if (opt->avg) optimizer_take_average(opt);
    params_init(&opt->g, &model->config, opt->grads, dtype_wide(model->type));
    backend_plan(be);
    opt->step = 1;
    sum_squares(opt);
    apply_adam(opt, 0);
    opt->step = 0;
    if ((rc = backend_commit(be, err))) {
        optimizer_free(opt);
        return rc;
    }
    *out = opt;
    return 0;
}

int optimizer_discard(struct optimizer *opt, struct err *err) {
    backend_zero(opt->model->be, opt->grads, flat_size(opt->model));
    return backend_sync(opt->model->be, err);
}

int optimizer_gradient(struct optimizer *opt, const struct batch *const *batch, int n,
                       struct update_report *report, struct err *err) {
    BUG_ON(opt->shown);
    *report = (struct update_report){0};
    int64_t n_tok = 0;
    for (int i = 0; i < n; i++) n_tok += batch[i]->tgt.n_tok;
    if (n_tok < 1) return err_set(err, HEED_EINVAL, "update: its batches are empty");
    int rc = 0, norm = opt->options.clip > 0 || opt->options.measure;
    for (int i = 0; i < n && !rc; i++) {
        struct pass pass = {.model = opt->model,
                            .acts = opt->acts,
                            .grads = &opt->g,
                            .training = 1,
                            .seed = opt->options.seed,
                            .step = (uint32_t)opt->n_batch++,
                            .grad_scale = (float)(1.0 / (double)n_tok)};
        rc = queue_batch(opt, batch[i], &pass, err);
        if (!rc && norm && i == n - 1)
            sum_squares(opt); /* before the wait, so that it is the only one */
        if (!rc) rc = collect_batch(opt, batch[i], report, err);
    }
    if (!rc && norm) {
        double total = 0;
        backend_download(opt->model->be, &total, opt->sumsq, sizeof total);
        rc = backend_check(opt->model->be, err);
        report->grad_norm = sqrt(total);
    }
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
