/* cmd_average.c — `heed average --out DIR MODEL...`: the mean of several checkpoints. PAPER:
 * 6.1. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/words.h"
#include "train/average.h"
#include "train/checkpoint.h"
#include "train/target.h"

static const char *out;
static int last, overwrite;

static const struct option rows[] = {
    {"out", OPTION_STRING, &out, "DIR", "model directory to write", 0, 0},
    {"overwrite", OPTION_FLAG, &overwrite, NULL, "replace a model that is there", 0, 0},
    {"last", OPTION_INT, &last, "N", "average the last N checkpoints of the one run given", 0,
     1 << 20},
    {NULL, 0, NULL, NULL, NULL, 0, 0},
};

static const struct command command = {.name = "average",
                                       .summary = "average the weights of several checkpoints",
                                       .usage = "--out DIR MODEL... | --out DIR --last N RUN",
                                       .options = rows};
static const struct command *const commands[] = {&command, NULL};

static int average_last(const char *run, struct err *err) {
    struct checkpoint_list list;
    int rc = checkpoint_list(&list, run, err);
    if (rc) return rc;
    if (list.n < last)
        rc = err_set(err, HEED_EINVAL, "--last %d: %.180s has %d checkpoints", last, run, list.n);
    const char **dir = xcalloc((size_t)last, sizeof *dir);
    for (int i = 0; i < last && !rc; i++) dir[i] = list.item[list.n - last + i].path;
    if (!rc) rc = target_for_model(out, dir, last, overwrite, err);
    if (!rc) rc = average_models(out, dir, last, err);
    if (!rc)
        printf("%s: average of %d checkpoint%s, steps %lld to %lld\n", out, last,
               last == 1 ? "" : "s", (long long)list.item[list.n - last].step,
               (long long)list.item[list.n - 1].step);
    xfree(dir);
    checkpoint_list_release(&list);
    return rc;
}

static int average(int n, char **words, struct err *err) {
    if (!out) return cli_usage(err, "average: --out is missing");
    if (last && n != 1)
        return cli_usage(err, "average: --last takes one run's directory, not %d", n);
    if (last) return average_last(words[0], err);
    if (n < 1) return cli_usage(err, "average: which models?");
    int rc = target_for_model(out, (const char *const *)words, n, overwrite, err);
    if (!rc) rc = average_models(out, (const char *const *)words, n, err);
    if (!rc) printf("%s: average of %d model%s\n", out, n, n == 1 ? "" : "s");
    return rc;
}

static int run(int argc, char **argv, struct err *err) {
    char **words = xcalloc((size_t)argc + 1, sizeof *words);
    int n;
    words_split(&command, &argc, argv, words, &n);
    int rc = options_parse(&command, argc, argv, err);
    if (!rc) rc = average(n, words, err);
    xfree(words);
    return rc > 0 ? 0 : rc;
}

const struct subcommand cmd_average = {.name = "average",
                                       .summary = "average the weights of several checkpoints",
                                       .run = run,
                                       .commands = commands};
