/* cmd_average.c — `heed average --out DIR MODEL...`: the mean of several checkpoints. PAPER:
 * 6.1. */
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "train/average.h"
#include "train/checkpoint.h"
#include "train/target.h"

static struct average_args {
    const char *out;
    int last, overwrite;
    struct option_list models;
} args;

#define OPTIONS_OF average_args
static const struct option rows[] = {
    ROW(STRING, "out", out, NULL, "model directory to write", .arg = "DIR", .made = 1,
        .required = 1),
    ROW(FLAG, "overwrite", overwrite, NULL, "replace an existing model"),
    ROW(INT, "last", last, "0", "average the last N checkpoints of the one run given",
        .max = 1 << 20),
    ROW(WORDS, "models", models, NULL, "models, checkpoints or a run", .arg = "MODEL", .min = 1),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

static int average_last(const char *run, struct err *err) {
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, run, err);
    if (rc) return rc;
    int last = args.last;
    if (list.n < last)
        rc = err_set(err, HEED_EINVAL, "--last %d: %.180s has only %d checkpoint%s", last, run,
                     list.n, PLURAL(list.n));
    const char **dir = xcalloc((size_t)last, sizeof *dir);
    for (int i = 0; i < last && !rc; i++) dir[i] = list.item[list.n - last + i].path;
    if (!rc) rc = target_for_model(args.out, dir, last, args.overwrite, err);
    if (!rc) rc = average_models(args.out, dir, last, err);
    if (!rc)
        printf("%s: average of %d checkpoint%s, steps %lld to %lld\n", args.out, last, PLURAL(last),
               (long long)list.item[list.n - last].step, (long long)list.item[list.n - 1].step);
    xfree(dir);
    checkpoint_list_release(&list);
    return rc;
}

static int run(struct err *err) {
    int n = args.models.n;
    if (args.last && n != 1)
        return cli_usage(err, "average: --last takes one run's directory, not %d", n);
    if (args.last) return average_last(args.models.item[0], err);
    int rc = target_for_model(args.out, args.models.item, n, args.overwrite, err);
    if (!rc) rc = average_models(args.out, args.models.item, n, err);
    if (!rc) printf("%s: average of %d model%s\n", args.out, n, PLURAL(n));
    return rc;
}

const struct command cmd_average = {.name = "average",
                                    .summary = "average the weights of several checkpoints",
                                    .usage = "--out DIR MODEL... | --out DIR --last N RUN",
                                    .groups = groups,
                                    .run = run};
