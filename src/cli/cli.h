/* cli.h — the sub-commands of `heed`.
 *
 * Each runs with the words after its name and returns 0 or a negative status with *err filled;
 * main.c prints the error, adds a hint for usage errors, and exits. Only src/cli prints, exits or
 * reads argv. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/options.h"

struct subcommand {
    const char *name, *summary;
    int (*run)(int argc, char **argv, struct err *err);
    const struct command *const *commands; /* its option tables, for the manual; NULL-terminated */
};

extern const struct subcommand cmd_export, cmd_quantize;
extern const struct subcommand cmd_train, cmd_translate, cmd_eval, cmd_average, cmd_bench,
    cmd_inspect, cmd_score, cmd_attend, cmd_vocab;

/* For usage errors that options_parse did not find itself. */
int cli_usage(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
