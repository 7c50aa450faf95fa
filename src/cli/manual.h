/* manual.h — `heed manual`: the manual page, from the tables of the commands. */
#ifndef CLI_MANUAL_H
#define CLI_MANUAL_H

#include "cli/options.h"

void manual_print(const struct command *const *commands);

#endif
