/* prompt_input.h — lines that somebody types: with editing and a history where standard input and
 * output are a terminal that can do it, read as they come everywhere else.
 *
 * Editing is libedit's, with the keys of Emacs or those of ~/.editrc; between its calls the
 * terminal stays in the editor's mode, so that what is typed or pasted while a translation runs is
 * neither echoed nor lost. Signals are waited for together with keys: a new window size redraws the
 * line, Ctrl-Z leaves the terminal as it was and comes back to the line, and those of signals.h end
 * the waiting.
 *
 * The history is a file of plain lines, $XDG_STATE_HOME/heed/history (or ~/.local/state/...), for
 * its owner's eyes only. Each line is appended when it is entered; one that grew too long is cut
 * when it is read. Whatever is wrong with the file is no error: there is no history then.
 *
 * One at a time in a process: it owns the terminal until it is closed. */
#ifndef CLI_PROMPT_INPUT_H
#define CLI_PROMPT_INPUT_H

#include "data/feed.h"

struct prompt_input;

/* After signals_watch, and before threads are made: signals about the terminal must find only the
 * one that waits for them. */
int prompt_input_open(struct prompt_input **input, struct err *err);
void prompt_input_close(struct prompt_input *input);

/* Does it come from somebody who types? */
int prompt_input_typed(const struct prompt_input *input);

/* The next line: 1; 0 at the end; HEED_ECANCELLED when a signal was caught (signals.h), after which
 * one may ask again: what had been typed is gone. prompt: what to show before it, with escape
 * sequences between \1 and \1; it is shown to who types. The line is valid until the next call. */
int prompt_input_next(struct prompt_input *input, const char *prompt, struct feed_line *line,
                      struct err *err);

/* Forgets what was typed or pasted ahead, as terminals do at Ctrl-C. */
void prompt_input_drop(struct prompt_input *input);

/* Adds a line to the history. */
void prompt_input_remember(struct prompt_input *input, const char *text, size_t size);

#endif
