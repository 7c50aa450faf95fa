/* completion.h — `heed completion`: scripts that let a shell complete commands, options and values.
 *
 * The scripts know nothing: they ask `heed __complete WORD...`, which answers from the tables of
 * the commands. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/options.h"

extern const char *const completion_shells[]; /* bash, zsh, fish; NULL-terminated */
void completion_print(int shell);

/* What the last of the n words behind `heed` may become: a line "WORD<tab>HELP" each, or ":files",
 * ":directories". */
void completion_answer(const struct command *const *commands, int n, char **word);

#endif
