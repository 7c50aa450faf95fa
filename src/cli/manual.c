/* manual.c — see manual.h. */
#include "cli/manual.h"

#include <stdio.h>

static void command(const struct command *c) {
    printf(".SS heed %s\n%s.\n", c->name, c->summary);
    for (const struct option_group *g = c->groups; g && g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            if (!o->help || o->kind == OPTION_WORDS) continue;
            options_words(&w, c, o);
            printf(".TP\n.B \\-\\-%s \\fI%s\\fR\n%s.\n", w.name, w.arg, w.help);
        }
    for (int i = 0; c->sub && c->sub[i]; i++) command(c->sub[i]);
}

void manual_print(const struct command *const *commands) {
    printf(".TH HEED 1 \"\" \"heed %s\"\n.SH NAME\nheed \\- train and run Transformer models\n"
           ".SH SYNOPSIS\n.B heed\n.I command\n[options]\n.SH COMMANDS\n",
           HEED_VERSION);
    for (int i = 0; commands[i]; i++) command(commands[i]);
    printf(
        ".SH ENVIRONMENT\n.TP\n.B HEED_ISA\nInstruction set to use where \\-\\-isa is not given.\n"
        ".SH EXIT STATUS\n0 success, 1 failure, 2 wrong usage.\n");
}
