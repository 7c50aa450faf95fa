/* toy.h — small models and random batches for the tests of model/, train/ and search/. */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

#include "backend/backend.h"
#include "backend/mat.h"
#include "base/rng.h"
#include "train/optimizer.h"

enum { TOY_BOS = 2, TOY_EOS = 3 };

struct toy {
    struct backend *be;
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
};

/* A 2+2-layer model with odd sizes: d_model 40, 5 heads, d_ff 56, 33 words. */
struct config toy_config(void);

/* The same with what other toolkits' models have: output bias, embedding norm, another d_ff in the
 * decoder. */
struct config toy_foreign_config(void);

/* The same with a recurrence in place of the decoder's self-attention. */
struct config toy_ssru_config(void);

/* Fails the test on any error. device "cpu" or "ref"; isa NULL is the best. The activations have
 * room for `tokens` tokens on each side. */
void toy_open(struct toy *toy, const struct config *config, const struct backend_options *where,
              enum dtype type, int tokens);
void toy_close(struct toy *toy);

/* n sentences with the given lengths, random words below n_vocab. */
void toy_batch(struct batch *batch, const int *src_len, const int *tgt_len, int n, int n_vocab,
               uint64_t seed);

/* The logits [T,V] of a batch as f32, without dropout. Caller frees with xfree. */
float *toy_logits(struct toy *toy, const struct batch *batch);

/* Noise on every parameter: as drawn, biases are zero and norms one, which would hide mix-ups. */
void toy_disturb(struct model *model);

/* All parameters, f32; caller frees with xfree. */
float *toy_params(struct toy *toy);

/* A model directory as a model on a backend: modeldir_open, model_new, all values. */
int model_load(struct model **model, const char *dir, struct backend *be, enum dtype type,
               struct err *err);

/* A model directory in test_dir() with small random weights and a tokenizer learnt from a few
 * lines; its path is static. What it says is nonsense, but it says the same every time. */
const char *model_dir(const char *name, uint64_t seed, int vocabulary);

void check_ok(int rc, const struct err *err);

#endif
