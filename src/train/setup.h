/* setup.h — from the options of a training run to something that can train: tokenizer, corpora,
 * model, memory, batches.
 *
 * setup_check does everything that can be checked at once (options, files, the model's shape, the
 * device) and writes nothing. setup_build does the long work and announces each part. After an
 * error in either, setup_release still frees what there is. With several ranks all call these
 * together. */
#ifndef TRAIN_SETUP_H
#define TRAIN_SETUP_H

#include "backend/mat.h"
#include "base/num.h"
#include "base/options.h"
#include "comm/comm.h"
#include "data/batches.h"
#include "data/corpus.h"
#include "data/subword.h"
#include "data/tokenizer.h"
#include "model/modeldir.h"
#include "model/tongues.h"
#include "search/engine.h"
#include "train/plan.h"
#include "train/trainer.h"
#include "train/watch.h"

struct setup_options {
    struct option_list src, tgt, weights, tags, links;
    const char *valid_src, *valid_tgt, *valid_tag, *valid_links, *tokenizer, *init, *cache;
    const char *source_lang, *target_lang;
    const char *models; /* where models are looked for by name, for a message (model/catalog.h) */
    int preset;         /* of config_preset_names */
    enum tokenizer_type vocab_type;
    int vocab_size, tokens, max_length, prefetch;
    uint64_t seed;
    int64_t warmup, cooldown;
    double lr_scale, clip, ema, ratio;
    enum { ROUNDING_NONE, ROUNDING_INT8 } rounding;
    enum { SAVE_AUTO, SAVE_ON, SAVE_OFF } save_aside; /* how, not what: no bit depends on it */
    struct subword_options subword;
    enum { SAMPLE_BOTH, SAMPLE_SRC, SAMPLE_TGT } sample_side;
    int link_unit, guided_layer, guided_head;
    double guided_weight;
    struct trainer_options trainer; /* as the options set it */
    struct backend_options where;
    int overwrite;
};

/* What is told meanwhile: a line for each thing that is done, and how far the long ones are. */
struct setup_talk {
    void (*note)(void *ctx, const char *text);
    int (*learning)(void *ctx, const struct tokenizer_report *report, const char *file);
    int (*corpus)(void *ctx, const struct corpus_progress *progress);
    void *ctx;
};

/* Everything a run works on, in the order it is built. */
struct setup {
    const struct setup_options *a;
    const struct option_group *groups; /* which of them, and which model fields, were given */
    const struct setup_talk *talk;
    struct comm *comm;        /* a process alone has one, too */
    struct watch *watch;      /* of the ranks; NULL: alone */
    int continues;            /* an earlier part of the run */
    char *home;               /* where the run's configuration and tokenizers can be read */
    char *cache;              /* directory */
    struct model_notes notes; /* of the model that it begins with, or of the run which continues */
    struct tokenizer *tokenizer;
    char *tokenizer_path;    /* as it will be copied into the run directory */
    struct tongues *tongues; /* or, in its place, those of the model that it begins with */
    const struct tokenizer *src_tokenizer, *tgt_tokenizer; /* of both sides, often the same */
    struct engine_said said; /* languages of the texts, or NULL; no prefix_token */
    int32_t language[2];     /* a token before the lines of each side, or -1 */
    struct subword *subword; /* what to sample segmentations with, or NULL */
    struct corpus *corpus;   /* [src.n] */
    int n_corpus;
    struct batches_source *source; /* [src.n] */
    struct corpus valid_corpus;
    struct batches_source valid_source;
    int has_valid;
    struct config begun; /* with --init: the model's, or that of the run which continues */
    struct config config;
    struct guided guided;
    struct backend *be;
    enum dtype type; /* to compute in: the caller sets it once there is a backend */
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
    struct snapshot *copy; /* to write checkpoints from while training goes on, or NULL */
    struct batches *batches;
    struct sweep *sweep;
    struct plan_memory memory;
};

int setup_check(struct setup *s, struct err *err);
int setup_build(struct setup *s, struct err *err);
void setup_release(struct setup *s);

/* Can so many ranks share the batches of an update? HEED_EINVAL names the numbers that do. */
int setup_ranks(const struct comm *comm, int accumulate, struct err *err);

/* Collective. Refuses ranks whose program, processor, data, model or options differ, and names
 * them. */
int setup_guard(const struct setup *s, struct err *err);

/* Configuration and tokenizers of the run's directory, with the options of the run. What a model
 * says of itself is also true of what it becomes: card, options, marks. */
int setup_write_config(const struct setup *s, json_t *training, struct err *err);

/* A few updates on real batches, timed and thrown away. Collective. */
enum { SETUP_TRIAL_STEPS = 5 };
struct setup_trial {
    double seconds, tokens; /* of all but the first, which touches everything */
    double sent;            /* bytes that this rank gave to others per update */
};
int setup_try(struct setup *s, struct setup_trial *trial, struct err *err);

#endif
