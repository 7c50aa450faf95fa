/* rig.h — random models to search with, and random sentences, for the tests of searching. */
#ifndef TESTS_RIG_H
#define TESTS_RIG_H

#include "model/frozen.h"
#include "search/search.h"
#include "toy.h"

enum { BOS = 0, EOS = 1, UNK = 2, RIG_TOKENS = 2048 };

/* One model or two on one backend. */
struct rig {
    struct toy toy[2];
    struct model *model[2];
    int n_model, n_vocab;
    struct search_marks marks; /* at first BOS, EOS, UNK, nothing banned */
    float weight[2];
    struct frozen *frozen; /* or NULL */
};

struct config rig_config(int n_vocab);

/* Weights larger than training begins with, so that distributions have peaks; 40 positions. Double
 * precision is what only the reference backend has. */
void rig_open(struct rig *rig, int n_model, int n_vocab, enum dtype type, int n_thread,
              uint64_t seed);
/* One model: trained weights ("f32", "bf16") or frozen ones ("frozen-f32", ...); with an SSRU
 * decoder where "ssru-" stands before it. */
void rig_open_as(struct rig *rig, int n_vocab, const char *how, int n_thread, uint64_t seed);
void rig_close(struct rig *rig);

/* Puts a NaN at the beginning of a row of a parameter. */
void rig_spoil(struct model *model, const char *name, int row);

/* What any search with it is made of. */
struct search_setup rig_setup(const struct rig *rig, int n_seq, int n_tok, int max_src);
struct searcher *rig_searcher(const struct rig *rig, const struct search_options *options,
                              int n_seq, int n_tok, int max_src);

/* n random sentences of 1 .. longest tokens and an end mark, in one allocation. */
struct search_input *rig_inputs(int n, int longest, int n_vocab, uint64_t seed);

/* Every hypothesis of a result as one number that knows ids, scores and log-probabilities. */
uint64_t rig_fingerprint(const struct search_result *result);

#endif
