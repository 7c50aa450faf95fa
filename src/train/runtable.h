/* runtable.h — a table of training runs: what is to be run, and what came of it.
 *
 *     {"out": "runs/heads",
 *      "train": {"src": ["a.en"], "tgt": ["a.de"], "steps": 10000, ...},   what all rows share
 *      "rows": [{"name": "base", "seeds": [1, 2]},
 *               {"name": "h1", "group": "A", "train": {"n_head": 1}}],
 *      "average": 5,                                        checkpoints to average; 0: the last one
 *      "tidy": true,                      remove a row's checkpoints once it is finished; not so if
 *                                         not given
 *      "translate": {"beam": 4},
 *      "tests": [{"name": "news", "src": "n.en", "ref": "n.de"}]}
 *
 * "train" are options of heed train by their names, those of a row in place of the common ones;
 * "translate" options of heed translate. A row with seeds is as many rows, called NAME.SEED. The
 * run of a row is in OUT/NAME, and OUT/results.json has what is finished: a row whose options and
 * tests are the same is not run again, one whose options are others is an error, so that no figure
 * belongs to another run than its row says.
 *
 * The file is somebody's: unknown keys, names that are no file names, and rows of the same name are
 * refused. A struct runtable owns everything; rows point into it. */
#ifndef TRAIN_RUNTABLE_H
#define TRAIN_RUNTABLE_H

#include <jansson.h>

#include "base/err.h"

enum { RUNTABLE_MAX_ROWS = 10000 };

struct runtable_test {
    const char *name, *src, *ref;
};

struct runtable_row {
    char *name;
    const char *group;    /* NULL: none */
    json_t *train;        /* all options of its run */
    const json_t *result; /* NULL until it is finished */
};

struct runtable {
    json_t *file, *results;
    const char *dir;
    char *results_path;
    const json_t *translate; /* NULL: none */
    struct runtable_row *row;
    struct runtable_test *test;
    int n_row, room_row, n_test, average, tidy;
};

int runtable_open(struct runtable *table, const char *path, struct err *err);
void runtable_close(struct runtable *table);

/* DIR/NAME with something behind it, such as ".log"; xfree. */
char *runtable_path(const struct runtable *table, const struct runtable_row *row,
                    const char *suffix);

/* How far a row's run is, from its log. */
struct runtable_progress {
    int64_t step;
    double loss, ppl, seconds; /* NaN: not known */
};
struct runtable_progress runtable_progress(const struct runtable *table,
                                           const struct runtable_row *row);

/* A row is finished: what its files say goes to results.json, atomically, with its name, group,
 * options and tests; then, of a table that is kept tidy, its checkpoints go. The run's own model
 * stays, and the average. */
int runtable_finish(struct runtable *table, struct runtable_row *row, struct err *err);

#endif
