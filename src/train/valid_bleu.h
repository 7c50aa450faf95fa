/* valid_bleu.h — BLEU of a model in training, on the beginning of its validation text: real
 * translations by beam search, detokenised and scored as `heed translate | heed eval` would.
 *
 * Ranks share the lines: sorted by length, batches of them go round, so that a batch has the same
 * lines whatever the number of ranks, and the counts that BLEU is made of are added up.
 *
 * Uses the run's backend. From the first measurement on it takes the memory of a translator and,
 * where the backend wants tiles, of a copy of the weights. */
#ifndef TRAIN_VALID_BLEU_H
#define TRAIN_VALID_BLEU_H

#include "train/setup.h"

struct valid_bleu;

/* Reads at most `lines` pairs of the validation text. stop: as in trainer.h; ends a measurement. */
int valid_bleu_open(struct valid_bleu **bleu, const struct setup *setup, int lines,
                    const volatile int *stop, struct err *err);
void valid_bleu_close(struct valid_bleu *bleu);

/* For trainer_options: the score of the model as it is now; NaN when a rank was stopped. All ranks
 * call it together. ctx is a struct valid_bleu. */
int valid_bleu_measure(void *ctx, double *score, struct err *err);

#endif
