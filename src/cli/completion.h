/* completion.h — `heed completion`: scripts that complete commands, options and values in a shell,
 * from the tables of the commands. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/options.h"

extern const char *const completion_shells[]; /* bash, zsh, fish; NULL-terminated */

void completion_print(const struct command *const *commands, int shell);

#endif
