/* prompt_show.h — what the prompt shows: translations, alternatives, which word became which.
 *
 * On a terminal, control characters in a text are shown and not obeyed, lines of words are folded
 * to its width, and there are colours unless NO_COLOR is set. Elsewhere there is only text. */
#ifndef CLI_PROMPT_SHOW_H
#define CLI_PROMPT_SHOW_H

#include "cli/outlet.h"
#include "search/translator.h"

struct screen {
    struct outlet out;
    int terminal;
    const char *bold, *dim, *gloss, *plain; /* escape sequences, or "" */
};

/* Standard output. */
int screen_open(struct screen *screen, struct err *err);
void screen_close(struct screen *screen);

/* Writes what was shown; errors as outlet_flush has them. */
int screen_flush(struct screen *screen, struct err *err);

/* A text and a newline. */
void screen_text(struct screen *screen, const char *text, size_t size);

/* A line about the answer, not part of it: on a terminal only, and dim. */
void screen_aside(struct screen *screen, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* The different texts among the translations, best first, each with its rank and score. */
void screen_alternatives(struct screen *screen, const struct translation *translation);

/* The words of the best translation, and below each the words of the source that it is linked to;
 * then those of the source without a link. The translation must have been aligned, by words. */
void screen_alignment(struct screen *screen, const struct translation *translation);

#endif
