/* look.h — one sentence and its translation through a model, with attention kept to be looked at
 * (model/view.h).
 *
 *     look_source, look_target    the pair as tokens; or look_translate: the model's own
 *     look_run                    one forced pass that keeps what was chosen
 *     look_clear                  before the next pair
 *
 * Borrows the engine; owns everything else. Begin with {.engine, .tags}. */
#ifndef SEARCH_LOOK_H
#define SEARCH_LOOK_H

#include "model/view.h"
#include "search/engine.h"

enum { LOOK_MAX_CELLS = 1 << 26 }; /* probabilities of one pair: 256 MiB of them */

/* As tokens, end marks included. */
struct look_sentence {
    char *text;
    int32_t *ids;
    int n;
};

struct look {
    struct engine *engine;
    struct engine_tags tags;
    struct look_sentence src, tgt;
    struct acts *acts;
    struct view *view;
    float **probs[VIEW_KINDS]; /* per layer [heads, n_query, n_key]; NULL: not wanted */
};

/* A copy of the text, tokenised, behind the model's tag. HEED_ELIMIT: the model has not so many
 * positions. */
int look_source(struct look *look, const char *text, struct err *err);
int look_target(struct look *look, const char *text, struct err *err);

/* The model's own translation of the source, searched as it prefers. */
int look_translate(struct look *look, struct err *err);

int look_run(struct look *look, const struct view_options *options, struct err *err);
void look_clear(struct look *look);

/* Rows and columns of a kind's matrices. */
int look_queries(const struct look *look, enum view_kind kind);
int look_keys(const struct look *look, enum view_kind kind);

#endif
