/* summary.c — see summary.h. */
#include "train/summary.h"

#include <math.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"

/* The values of a tensor. */
struct spread {
    double sumsq, min, max;
    long long n_bad; /* NaN or infinite */
};

static struct spread spread_of(const struct modeldir *md, int i) {
    enum { CHUNK = 4096 };
    float part[CHUNK];
    struct spread s = {.min = INFINITY, .max = -INFINITY};
    size_t n = (size_t)md->table.param[i].rows * (size_t)md->table.param[i].cols;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t count = n - at < CHUNK ? n - at : CHUNK;
        modeldir_values(md, i, at, count, part);
        for (size_t k = 0; k < count; k++) {
            double v = (double)part[k];
            if (!isfinite(v)) {
                s.n_bad++;
                continue;
            }
            s.sumsq += v * v;
            s.min = fmin(s.min, v);
            s.max = fmax(s.max, v);
        }
    }
    return s;
}

/* Adds "step", "parameters", "tensors" and "not_finite". */
static void gather_weights(json_t *all, const struct modeldir *md) {
    json_t *tensors = json_array();
    long long n_bad = 0;
    for (int i = 0; i < md->table.n_param; i++) {
        const struct param *p = &md->table.param[i];
        struct spread s = spread_of(md, i);
        n_bad += s.n_bad;
        json_array_append_new(
            tensors, json_pack("{s:s, s:s, s:[i, i], s:I, s:o, s:o, s:o, s:I}", "name", p->name,
                               "dtype", md->tensor[i]->dtype, "shape", p->rows, p->cols, "count",
                               (json_int_t)p->rows * p->cols, "norm", json_out_real(sqrt(s.sumsq)),
                               "min", json_out_real(s.min), "max", json_out_real(s.max),
                               "not_finite", (json_int_t)s.n_bad));
    }
    if (md->step >= 0) json_object_set_new(all, "step", json_integer(md->step));
    json_object_set_new(all, "parameters", json_integer((json_int_t)md->table.n_value));
    json_object_set_new(all, "not_finite", json_integer(n_bad));
    json_object_set_new(all, "tensors", tensors);
}

static json_t *valid_json(const struct valid_point *p) {
    return json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)p->step, "loss",
                     json_out_real(p->loss), "nll", json_out_real(p->nll), "ppl",
                     json_out_real(p->ppl));
}

static json_t *bleu_json(const struct valid_point *p) {
    return json_pack("{s:I, s:f}", "step", (json_int_t)p->step, "bleu", p->bleu);
}

static void gather_history(json_t *all, const struct history *h) {
    if (h->n_train) {
        const struct train_point *p = &h->train[h->n_train - 1];
        json_object_set_new(all, "train",
                            json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "step",
                                      (json_int_t)p->step, "epoch", json_out_real(p->epoch), "loss",
                                      json_out_real(p->loss), "nll", json_out_real(p->nll), "ppl",
                                      json_out_real(p->ppl), "lr", json_out_real(p->lr), "tok_s",
                                      json_out_real(p->tok_s)));
    }
    const struct valid_point *best = NULL, *bleu = NULL, *best_bleu = NULL;
    for (int i = 0; i < h->n_valid; i++) {
        const struct valid_point *p = &h->valid[i];
        if (!best || p->loss < best->loss) best = p;
        if (!isfinite(p->bleu)) continue;
        bleu = p;
        if (!best_bleu || p->bleu > best_bleu->bleu) best_bleu = p;
    }
    if (best) json_object_set_new(all, "valid", valid_json(&h->valid[h->n_valid - 1]));
    if (best) json_object_set_new(all, "best_valid", valid_json(best));
    if (bleu) json_object_set_new(all, "bleu", bleu_json(bleu));
    if (bleu) json_object_set_new(all, "best_bleu", bleu_json(best_bleu));
    if (h->n_bad) json_object_set_new(all, "log_lines_unread", json_integer(h->n_bad));
}

static int gather_checkpoints(json_t *all, const char *dir, char **newest, struct err *err) {
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, dir, err);
    if (rc) return rc;
    json_t *steps = json_array();
    for (int i = 0; i < list.n; i++)
        json_array_append_new(steps, json_integer((json_int_t)list.item[i].step));
    if (list.n) json_object_set(all, "checkpoints", steps);
    json_decref(steps);
    *newest = list.n ? xstrdup(list.item[list.n - 1].path) : NULL;
    checkpoint_list_release(&list);
    return 0;
}

double summary_last_epoch(const char *dir) {
    struct config config;
    struct model_notes notes;
    modeldir_read_config(dir, &config, &notes, NULL);
    json_int_t epochs = json_integer_value(json_object_get(notes.training, "epochs"));
    model_notes_release(&notes);
    return epochs > 0 ? (double)epochs : (double)INFINITY;
}

int summary_of(json_t *all, const char *dir, const struct history *h, struct err *err) {
    struct config config;
    struct weights_form form;
    struct modeldir md;
    char *newest = NULL, *published = path_join(dir, MODELDIR_WEIGHTS);
    json_object_set_new(all, "directory", json_out_string(dir));
    struct model_notes notes = {0};
    int rc = modeldir_read_any(dir, &config, &form, &notes, err);
    if (!rc) json_object_set_new(all, "model", config_to_json(&config));
    if (!rc && notes.card) json_object_set(all, "card", notes.card);
    if (!rc && notes.translate) json_object_set(all, "translate", notes.translate);
    if (!rc && notes.tokens) json_object_set(all, "tokens", notes.tokens);
    model_notes_release(&notes);
    if (!rc) rc = gather_checkpoints(all, dir, &newest, err);
    const char *from = file_exists(published) ? dir : newest;
    if (!rc && from && !(rc = modeldir_open_any(&md, from, err))) {
        gather_weights(all, &md);
        modeldir_close(&md);
    }
    if (!rc) gather_history(all, h);
    xfree(newest);
    xfree(published);
    return rc;
}
