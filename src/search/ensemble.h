/* ensemble.h — what does not change while translating: the weights of one model or of several that
 * decide together, and the tokenizer they share.
 *
 * Opened once and immutable from then on, so that any number of translators on any number of
 * threads use it at once. It owns the weights (memory-mapped where the directory allows it, see
 * model/frozen.h) and must outlive its translators. */
#ifndef SEARCH_ENSEMBLE_H
#define SEARCH_ENSEMBLE_H

#include "data/tokenizer.h"
#include "model/frozen.h"
#include "search/search.h"

struct ensemble {
    struct frozen *model[SEARCH_MAX_MODELS];
    int n;
    struct tokenizer *tokenizer;
    int max_len;  /* positions that all of them have */
    int borrowed; /* models and tokenizer are somebody else's */
};

/* Opens n model directories. HEED_ECONFIG when they do not share one tokenizer, or when a tokenizer
 * does not belong to its model. n_thread: for preparing weights that are not stored ready to use;
 * 0: all CPUs. */
int ensemble_open(struct ensemble **ensemble, const char *const *dir, int n,
                  enum precision precision, int n_thread, struct err *err);
void ensemble_close(struct ensemble *ensemble);

/* The same around a single model that the caller has and keeps, e.g. from a training run. Closing
 * it leaves both alone. */
int ensemble_borrow(struct ensemble **ensemble, struct frozen *model, struct tokenizer *tokenizer,
                    struct err *err);

#endif
