/* prompt.h — `heed translate --interactive`: a line in, a translation out, and commands that tell
 * more about the last one.
 *
 * Somebody who types gets a prompt, a line editor with a history (prompt_input.h), the time that
 * each line took, and another chance after an error; Ctrl-C cancels the line or the translation,
 * Ctrl-D ends. Lines from a file or a pipe may have the same commands in them; there the first
 * error ends the program, and so does a signal. */
#ifndef CLI_PROMPT_H
#define CLI_PROMPT_H

#include "search/translator.h"

struct prompt_options {
    struct engine_options from;
    /* How to translate with a model. alignment: shown with every line. */
    int (*options)(struct translator_options *out, const struct engine *engine, struct err *err);
    int quiet; /* nothing but what was asked for */
};

/* After signals_watch. A signal that ends it is left in signals_caught. */
int prompt_run(const struct prompt_options *options, struct err *err);

#endif
