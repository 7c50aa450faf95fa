/* loaded.h — a model directory opened to be run: weights on a backend, and the tokenizer that
 * belongs to them.
 *
 * What `heed score` and `heed attend` begin with. Owns all of it; release also what a failed open
 * left. */
#ifndef CLI_LOADED_H
#define CLI_LOADED_H

#include "cli/cli.h"
#include "data/tokenizer.h"
#include "model/frozen.h"

struct loaded {
    struct backend *be;
    struct frozen *frozen;
    struct model *model;
    struct tokenizer *tokenizer; /* has begin and end mark, and as many pieces as the model */
};

struct loaded_options {
    const char *dir;
    enum precision precision;
    struct backend_options where;
};

int loaded_open(struct loaded *l, const struct loaded_options *options, struct err *err);
void loaded_close(struct loaded *l);

/* The tokens of a text and the end mark behind them: how many, all of them in ids when that is at
 * most cap. Negative: an error that begins with `what`. */
int loaded_encode(const struct loaded *l, const char *text, size_t size, int32_t *ids, int cap,
                  const char *what, struct err *err);

#endif
