/* loaded.h — what `heed score` and `heed attend` begin with: a model opened to be run
 * (search/engine.h), by the options of the command line. Release also what a failed open left. */
#ifndef CLI_LOADED_H
#define CLI_LOADED_H

#include "cli/cli.h"
#include "search/engine.h"

struct loaded {
    struct engine *engine;
    struct model *model; /* the engine's, as the next */
    const struct tokenizer *tokenizer;
};

struct loaded_options {
    const char *dir;
    enum precision precision;
    struct backend_options where;
};

int loaded_open(struct loaded *l, const struct loaded_options *options, struct err *err);
void loaded_close(struct loaded *l);

/* The tokens of a text and the end mark behind them: how many, all of them in ids when that is at
 * most cap; or a negative status. */
int loaded_encode(const struct loaded *l, const char *text, size_t size, int32_t *ids, int cap);

#endif
