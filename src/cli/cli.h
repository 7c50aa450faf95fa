/* cli.h — the commands of `heed`.
 *
 * Each runs once its options have been read and returns 0 or a negative status with *err filled;
 * main.c prints the error, adds a hint for usage errors, and exits. Only src/cli and src/bench
 * print, exit or read argv. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "cli/options.h"

extern const struct command cmd_clean, cmd_vocab, cmd_words, cmd_train, cmd_translate, cmd_score,
    cmd_align, cmd_attend, cmd_eval, cmd_average, cmd_import, cmd_export, cmd_quantize, cmd_inspect,
    cmd_describe, cmd_models, cmd_serve, cmd_trees, cmd_sweep, cmd_plot, cmd_bench;

/* For usage errors that parsing the options cannot find. */
#define cli_usage(err, ...) err_set(err, HEED_EINVAL, __VA_ARGS__)

#endif
