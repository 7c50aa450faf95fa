/* train_bleu.h — BLEU of a model in training, on the beginning of its validation text: real
 * translations by beam search, detokenised and scored as `heed translate | heed eval` would.
 *
 * Ranks share the lines: sorted by length, batches of them go round, so that a batch has the same
 * lines whatever the number of ranks, and the counts that BLEU is made of are added up.
 *
 * Uses the run's backend. From the first measurement on it takes the memory of a translator and,
 * where the backend wants tiles, of a copy of the weights. */
#ifndef CLI_TRAIN_BLEU_H
#define CLI_TRAIN_BLEU_H

#include "cli/cmd_train.h"

struct train_bleu;

/* Reads at most `lines` pairs of the validation text. stop: as in trainer.h; ends a measurement. */
int train_bleu_open(struct train_bleu **bleu, const struct train_setup *setup, int lines,
                    const volatile int *stop, struct err *err);
void train_bleu_close(struct train_bleu *bleu);

/* For trainer_options: the score of the model as it is now; NaN when a rank was stopped. All ranks
 * call it together. ctx is a struct train_bleu. */
int train_bleu_measure(void *ctx, double *score, struct err *err);

#endif
