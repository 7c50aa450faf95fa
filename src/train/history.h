/* history.h — what log.jsonl says about a run: the losses, step by step.
 *
 * One JSON object per line. A line with "loss" is a point of training, one with "valid_loss" a
 * validation; others (notes, events) are skipped, as are unknown keys. A run that was killed
 * and resumed repeats steps: a later line replaces earlier ones of the same and later steps. A line
 * that is not a JSON object with a step (the torn end of a killed process) is counted, not fatal.
 * Values a line lacks are NaN. */
#ifndef TRAIN_HISTORY_H
#define TRAIN_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct train_point {
    int64_t step;
    double epoch, loss, nll, ppl, lr, tokens, tok_s, time;
};

struct valid_point {
    int64_t step;
    double loss, nll, ppl, bleu;
};

struct history {
    struct train_point *train;
    struct valid_point *valid;
    int n_train, n_valid, cap_train, cap_valid;
    int n_bad;      /* lines that could not be read */
    int first_bad;  /* the first one's number, from 1 */
    struct err bad; /* what is wrong with it */
};

/* No such file: an empty history. */
int history_read(struct history *history, const char *path, struct err *err);
void history_parse(struct history *history, const char *text, size_t size, const char *where);
void history_release(struct history *history);

#endif
