/* ensemble.c — see ensemble.h. */
#include "search/ensemble.h"

#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "model/modeldir.h"

/* A tokenizer of another size would name words the model does not have. */
static int check_size(const struct tokenizer *tokenizer, const struct frozen *model,
                      const char *name, struct err *err) {
    const struct config *c = frozen_config(model);
    int size = tokenizer_size(tokenizer);
    if (size == c->n_vocab_src && size == c->n_vocab_tgt) return 0;
    return err_set(err, HEED_ECONFIG, "%.180s: %d pieces, but the model has %d and %d", name, size,
                   c->n_vocab_src, c->n_vocab_tgt);
}

static int check_same(const struct tokenizer *a, const struct tokenizer *b, const char *dir_a,
                      const char *dir_b, struct err *err) {
    unsigned char hash[2][TOKENIZER_HASH_SIZE];
    tokenizer_hash(a, hash[0]);
    tokenizer_hash(b, hash[1]);
    if (memcmp(hash[0], hash[1], TOKENIZER_HASH_SIZE) == 0) return 0;
    return err_set(
        err, HEED_ECONFIG,
        "%.100s and %.100s have different tokenizers; models that translate together share one",
        dir_a, dir_b);
}

/* Adds the model of dir; the first one's tokenizer is kept. */
static int add(struct ensemble *e, const char *const *dir, enum precision precision, int n_thread,
               struct err *err) {
    const char *here = dir[e->n];
    struct tokenizer *tokenizer = NULL;
    char *path = path_join(here, MODELDIR_TOKENIZER);
    int rc = frozen_open(&e->model[e->n], here, precision, n_thread, err);
    if (!rc) rc = tokenizer_open(&tokenizer, path, err);
    if (!rc) rc = tokenizer_check_ends(tokenizer, err);
    if (!rc) rc = check_size(tokenizer, e->model[e->n], path, err);
    if (!rc && e->n > 0) rc = check_same(e->tokenizer, tokenizer, dir[0], here, err);
    xfree(path);
    if (rc || e->tokenizer) {
        tokenizer_free(tokenizer);
    } else {
        e->tokenizer = tokenizer;
    }
    if (rc) {
        frozen_close(e->model[e->n]);
        return rc;
    }
    int max_len = frozen_config(e->model[e->n])->max_len;
    if (e->n == 0 || max_len < e->max_len) e->max_len = max_len;
    e->n++;
    return 0;
}

int ensemble_open(struct ensemble **ensemble, const char *const *dir, int n,
                  enum precision precision, int n_thread, struct err *err) {
    *ensemble = NULL;
    if (n < 1 || n > SEARCH_MAX_MODELS)
        return err_set(err, HEED_EINVAL, "%d models; between 1 and %d can translate together", n,
                       SEARCH_MAX_MODELS);
    struct ensemble *e = xcalloc(1, sizeof *e);
    int rc = 0;
    while (!rc && e->n < n) rc = add(e, dir, precision, n_thread, err);
    if (rc) {
        ensemble_close(e);
        return rc;
    }
    *ensemble = e;
    return 0;
}

int ensemble_borrow(struct ensemble **ensemble, struct frozen *model, struct tokenizer *tokenizer,
                    struct err *err) {
    *ensemble = NULL;
    int rc = tokenizer_check_ends(tokenizer, err);
    if (!rc) rc = check_size(tokenizer, model, "the tokenizer", err);
    if (rc) return rc;
    struct ensemble *e = xcalloc(1, sizeof *e);
    *e = (struct ensemble){.model = {model},
                           .n = 1,
                           .borrowed = 1,
                           .tokenizer = tokenizer,
                           .max_len = frozen_config(model)->max_len};
    *ensemble = e;
    return 0;
}

void ensemble_close(struct ensemble *e) {
    if (!e) return;
    for (int i = 0; i < e->n && !e->borrowed; i++) frozen_close(e->model[i]);
    if (!e->borrowed) tokenizer_free(e->tokenizer);
    xfree(e);
}
