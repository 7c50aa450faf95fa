/* words.h — the words of a command line that are not options: `heed average --out DIR CKPT...`. */
#ifndef CLI_WORDS_H
#define CLI_WORDS_H

#include "cli/options.h"

/* Moves them, in order, out of argv[0..*argc) into words[0..*n), room for *argc of them; what is
 * left is for options_parse. After a lone `--` everything is a word. */
void words_split(const struct command *command, int *argc, char **argv, char **words, int *n);

#endif
