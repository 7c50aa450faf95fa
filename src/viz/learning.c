/* learning.c — see learning.h. */
#include "viz/learning.h"

#include <math.h>

#include "base/mem.h"
#include "viz/curves.h"

/* Columns of the history as arrays: curves want x and y apart. */
struct columns {
    double *x, *loss, *nll, *lr, *tok_s, *valid_x, *valid_loss, *valid_nll, *bleu_x, *bleu;
    int n_bleu; /* not every validation measures it */
};

static void fill_columns(struct columns *c, double *store, const struct history *h) {
    size_t n = (size_t)h->n_train, m = (size_t)h->n_valid;
    double *valid = store + 5 * n;
    *c = (struct columns){.x = store,
                          .loss = store + n,
                          .nll = store + 2 * n,
                          .lr = store + 3 * n,
                          .tok_s = store + 4 * n,
                          .valid_x = valid,
                          .valid_loss = valid + m,
                          .valid_nll = valid + 2 * m,
                          .bleu_x = valid + 3 * m,
                          .bleu = valid + 4 * m};
    for (size_t i = 0; i < n; i++) {
        c->x[i] = (double)h->train[i].step;
        c->loss[i] = h->train[i].loss;
        c->nll[i] = h->train[i].nll;
        c->lr[i] = h->train[i].lr;
        c->tok_s[i] = h->train[i].tok_s;
    }
    for (size_t i = 0; i < m; i++) {
        c->valid_x[i] = (double)h->valid[i].step;
        c->valid_loss[i] = h->valid[i].loss;
        c->valid_nll[i] = h->valid[i].nll;
        if (!isfinite(h->valid[i].bleu)) continue;
        c->bleu_x[c->n_bleu] = c->valid_x[i];
        c->bleu[c->n_bleu++] = h->valid[i].bleu;
    }
}

int learning_draw(const char *path, const char *dir, const struct history *h, int log_scale,
                  struct err *err) {
    if (!h->n_train && !h->n_valid)
        return err_set(err, HEED_EIO, "%.160s/log.jsonl: no logged steps to draw", dir);
    struct file_writer w;
    int rc = file_writer_open_output(&w, path, err);
    if (rc) return rc;
    size_t size = 5 * (size_t)h->n_train + 5 * (size_t)h->n_valid;
    double *store = xcalloc(size, sizeof *store);
    struct columns c;
    fill_columns(&c, store, h);
    int n = h->n_train, m = h->n_valid, marked = m <= 60;
    struct curve loss[] = {{"training", c.x, c.loss, n, 0},
                           {"validation", c.valid_x, c.valid_loss, m, marked}};
    struct curve nll[] = {{"training", c.x, c.nll, n, 0},
                          {"validation", c.valid_x, c.valid_nll, m, marked}};
    struct curve bleu = {"BLEU", c.bleu_x, c.bleu, c.n_bleu, marked};
    struct curve rate = {"learning rate", c.x, c.lr, n, 0};
    struct curve speed = {"tokens/s", c.x, c.tok_s, n, 0};
    int both = m > 0 ? 2 : 1, n_panel = 0;
    enum scale scale = log_scale ? SCALE_LOG : SCALE_LINEAR;
    struct panel panel[5];
    panel[n_panel++] = (struct panel){"loss per token (label-smoothed)", loss, both, 260, scale};
    panel[n_panel++] = (struct panel){"negative log-likelihood per token", nll, both, 180, scale};
    if (c.n_bleu)
        panel[n_panel++] = (struct panel){"BLEU on the validation text", &bleu, 1, 120, 0};
    panel[n_panel++] = (struct panel){"learning rate", &rate, 1, 90, 0};
    panel[n_panel++] = (struct panel){"tokens per second", &speed, 1, 90, 0};
    curves_write(&w, &(struct chart){dir, "step", panel, n_panel, SCALE_LINEAR});
    xfree(store);
    return file_writer_commit(&w, err);
}
