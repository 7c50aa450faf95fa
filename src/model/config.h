/* config.h — what a model is: every number of the paper's Table 3 and the few knobs beyond it.
 *
 * One table (base/options.h) describes every field; parsing by name, command-line options, config
 * files and checks all follow from it. A config is plain data and owns nothing.
 *
 * config_check is the gate: whatever passes it can be built, and no size computed from it
 * overflows. */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "base/options.h"

enum norm { NORM_POST, NORM_PRE };
enum positions { POSITIONS_SINUSOIDAL, POSITIONS_LEARNED };
enum tie { TIE_ALL, TIE_TARGET, TIE_NONE };
enum decoder { DECODER_ATTENTION, DECODER_SSRU };
enum mask { MASK_CAUSAL, MASK_NONE };
enum score_scale { SCORE_SCALE_SQRT, SCORE_SCALE_ONE };
enum attention_init { ATTENTION_INIT_JOINT, ATTENTION_INIT_EACH };

struct config {
    int n_vocab_src, n_vocab_tgt; /* equal when tied in all three places */
    int n_layer_enc, n_layer_dec; /* N */
    int d_model, d_ff, n_head;    /* n_head is h */
    int d_k, d_v;  /* per head; 0 means d_model / n_head until config_check fills it in */
    float dropout; /* P_drop: sub-layer outputs, embedding + position */
    float attention_dropout, activation_dropout;
    float label_smoothing; /* epsilon_ls */
    float norm_eps;
    int max_len; /* number of positions: the longest sentence, end mark included */
    int window;  /* self-attention sees |i - j| <= window; 0 is everything */
    int norm;    /* enum norm */
    int positions;
    int tie; /* all: source, target and output share one matrix; target: target and output do */
    int activation;
    /* What other toolkits' models have and the paper's does not. Their rows have defaults: a file
     * without them means those, and they are written only where they differ. */
    int output_bias; /* logits have a bias */
    int embed_norm;  /* LayerNorm after embedding + position, in both stacks */
    int d_ff_dec;    /* of the decoder's feed-forward layers; 0: d_ff */
    int decoder;     /* what looks back in a decoder layer: self-attention, or an SSRU */
    /* What the paper has and experiments take away (docs/paper/questions.md); written likewise. */
    int mask;        /* enum mask: none lets the decoder see what it is to write; training only */
    int score_scale; /* enum score_scale: what attention's scores are divided by */
    int attention_init; /* enum attention_init: how w_q, w_k and w_v are drawn (params.h) */
};

/* The width of a stack's feed-forward layers. */
static inline int config_d_ff(const struct config *c, int decoder) {
    return decoder && c->d_ff_dec ? c->d_ff_dec : c->d_ff;
}

/* Every field, and the options that set two of them at once: n_layer and n_vocab. */
extern const struct option config_rows[], config_pairs[];

/* The named preset: tiny, small, base, big. Vocabulary sizes are left 0. */
int config_preset(struct config *config, const char *name, struct err *err);
extern const char *const config_preset_names[]; /* NULL-terminated */

/* Sets one field from text: "n_layer" sets both stacks, "n_vocab" both vocabularies. */
int config_set(struct config *config, const char *name, const char *value, struct err *err);

/* Fills in what is derived (d_k, d_v), says the same in one way (d_ff_dec is 0 where it would be
 * d_ff), and refuses what cannot be built, naming field and value. */
int config_check(struct config *config, struct err *err);

/* *config with the fields that were given in groups of config_rows and config_pairs, checked; and
 * the same with the preset and vocabularies of n_vocab pieces to begin with. */
int config_take(struct config *config, const struct option_group *groups, struct err *err);
int config_from_preset(struct config *config, const char *preset, int n_vocab,
                       const struct option_group *groups, struct err *err);

/* The field that makes it a model of an experiment, which no other program has an equivalent of, or
 * NULL. */
const char *config_experiment(const struct config *config);

/* Elements of the matrices that each token is multiplied by, of a checked config. A source token
 * also meets the decoder's projections of the memory to keys and values. Attention's n^2 products
 * have no matrix and are not counted. */
struct products {
    double per_src, per_tgt;
};
struct products config_products(const struct config *config);

#endif
