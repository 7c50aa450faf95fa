/* loaded.h — how `heed score` and `heed attend` open a model to run it (search/engine.h), as the
 * command line says. Call loaded_close after a failed open, too. */
#ifndef CLI_LOADED_H
#define CLI_LOADED_H

#include "cli/cli.h"
#include "search/engine.h"

struct loaded {
    struct engine *engine;
    struct model *model; /* borrowed from the engine, as is the tokenizer */
    const struct tokenizer *tokenizer;
};

struct loaded_options {
    const char *dir;
    enum precision precision;
    struct backend_options where;
};

int loaded_open(struct loaded *l, const struct loaded_options *options, struct err *err);
void loaded_close(struct loaded *l);

/* Tokenises a text and appends the end mark. Returns the number of tokens, which are all in ids if
 * there are at most cap; or a negative status. */
int loaded_encode(const struct loaded *l, const char *text, size_t size, int32_t *ids, int cap);

#endif
