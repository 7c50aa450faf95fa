/* completion.c — see completion.h. */
#include "cli/completion.h"

#include <stdio.h>

const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

static void command(const struct command *c) {
    if (c->groups) printf("  'heed %s '*) COMPREPLY=($(compgen -W '", c->name);
    for (const struct option_group *g = c->groups; g && g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            if (!o->help || o->kind == OPTION_WORDS) continue;
            options_words(&w, c, o);
            printf("--%s ", w.name);
        }
    if (c->groups) printf("' -- \"$cur\"));;\n");
    for (int i = 0; c->sub && c->sub[i]; i++) command(c->sub[i]);
}

void completion_print(const struct command *const *commands, int shell) {
    (void)shell;
    printf("_heed() {\n  local cur=${COMP_WORDS[COMP_CWORD]}\n  case \"${COMP_WORDS[*]}\" in\n");
    for (int i = 0; commands[i]; i++) command(commands[i]);
    printf("  *) COMPREPLY=($(compgen -W '");
    for (int i = 0; commands[i]; i++) printf("%s ", commands[i]->name);
    printf("--help --version' -- \"$cur\"));;\n  esac\n}\n"
           "complete -o default -F _heed heed\n");
}
