/* loaded.c — see loaded.h. */
#include "cli/loaded.h"

#include "backend/backend.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/modeldir.h"

static int open_tokenizer(struct loaded *l, const char *dir, struct err *err) {
    const struct config *c = &l->model->config;
    char *path = path_join(dir, MODELDIR_TOKENIZER);
    int rc = tokenizer_open(&l->tokenizer, path, err);
    if (!rc) rc = tokenizer_check_ends(l->tokenizer, err);
    int size = rc ? 0 : tokenizer_size(l->tokenizer);
    if (!rc && (size != c->n_vocab_src || size != c->n_vocab_tgt))
        rc = err_set(err, HEED_ECONFIG, "%.180s: %d pieces, but the model has %d and %d", path,
                     size, c->n_vocab_src, c->n_vocab_tgt);
    xfree(path);
    return rc;
}

int loaded_open(struct loaded *l, const struct loaded_options *o, struct err *err) {
    *l = (struct loaded){0};
    int rc = backend_open(&l->be, &o->where, err);
    if (!rc) rc = frozen_open(&l->frozen, o->dir, o->precision, o->where.n_thread, err);
    if (!rc) rc = frozen_model(&l->model, l->frozen, l->be, err);
    if (!rc) rc = open_tokenizer(l, o->dir, err);
    return rc;
}

void loaded_close(struct loaded *l) {
    tokenizer_free(l->tokenizer);
    model_free(l->model);
    frozen_close(l->frozen);
    backend_close(l->be);
    *l = (struct loaded){0};
}

int loaded_encode(const struct loaded *l, const char *text, size_t size, int32_t *ids, int cap,
                  const char *what, struct err *err) {
    int n = tokenizer_encode(l->tokenizer, text, size, ids, cap);
    if (n < 0) return err_set(err, n, "%.200s: cannot be tokenised", what);
    if (n < cap) ids[n] = tokenizer_eos(l->tokenizer);
    return n + 1;
}
