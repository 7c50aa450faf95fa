/* completion.h — `heed completion`: scripts that let a shell complete commands, options and values.
 *
 * The scripts hold no tables: they ask `heed __complete WORD...`, which answers from the tables of
 * the commands. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/options.h"

extern const char *const completion_shells[]; /* bash, zsh, fish; NULL-terminated */
void completion_print(int shell);

/* Prints how the last of the n words after `heed` can be completed: a line "WORD<tab>HELP" per
 * candidate, then perhaps ":files" or ":directories": those as well. */
void completion_answer(const struct command *const *commands, int n, char **word);

#endif
