/* words.c — see words.h. */
#include "cli/words.h"

#include <string.h>

/* Does this option take the next word as its value? Unknown ones are options_parse's to refuse. */
static int takes_value(const struct command *command, const char *word) {
    if (strchr(word, '=')) return 0;
    for (const struct option *o = command->options; o->name; o++)
        if (strcmp(o->name, word + 2) == 0) return o->kind != OPTION_FLAG;
    return command->overrides != NULL;
}

void words_split(const struct command *command, int *argc, char **argv, char **words, int *n) {
    int kept = 0;
    *n = 0;
    for (int i = 0; i < *argc; i++) {
        if (strcmp(argv[i], "--") == 0) {
            while (++i < *argc) words[(*n)++] = argv[i];
        } else if (argv[i][0] != '-' || !argv[i][1]) { /* "-" is standard input */
            words[(*n)++] = argv[i];
        } else {
            argv[kept++] = argv[i];
            if (strncmp(argv[i], "--", 2) == 0 && takes_value(command, argv[i]) && i + 1 < *argc)
                argv[kept++] = argv[++i];
        }
    }
    *argc = kept;
}
