/* train_bleu.h — BLEU of a model in training, on the beginning of its validation text: real
 * translations by beam search, detokenised and scored as `heed translate | heed eval` would.
 *
 * Runs on the run's own backend. Costs a translator's memory from the first measurement on and,
 * where the backend wants tiles, a copy of the weights. */
#ifndef CLI_TRAIN_BLEU_H
#define CLI_TRAIN_BLEU_H

#include "cli/cmd_train.h"

struct train_bleu;

/* Reads at most `lines` pairs of the validation text. stop: as in trainer.h; ends a measurement. */
int train_bleu_open(struct train_bleu **bleu, const struct train_setup *setup, int lines,
                    const volatile int *stop, struct err *err);
void train_bleu_close(struct train_bleu *bleu);

/* For trainer_options: the score as the model is now; NaN when it was stopped. ctx is a struct
 * train_bleu. */
int train_bleu_measure(void *ctx, double *score, struct err *err);

#endif
