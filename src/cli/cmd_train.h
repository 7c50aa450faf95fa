/* cmd_train.h — what the two halves of `heed train` share: cmd_train.c has the options and runs,
 * train_setup.c builds what the options ask for. */
#ifndef CLI_CMD_TRAIN_H
#define CLI_CMD_TRAIN_H

#include "backend/mat.h"
#include "base/num.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "data/batches.h"
#include "data/subword.h"
#include "data/tokenizer.h"
#include "model/modeldir.h"
#include "model/tongues.h"
#include "search/engine.h"
#include "train/plan.h"
#include "train/trainer.h"

struct train_args {
    struct option_list src, tgt, weights, tags, links;
    const char *valid_src, *valid_tgt, *valid_tag, *valid_links, *tokenizer, *init, *cache;
    const char *source_lang, *target_lang;
    const char *config_file;
    int preset; /* of config_preset_names */
    enum tokenizer_type vocab_type;
    int vocab_size, tokens, dtype, max_length, prefetch, bleu_lines;
    uint64_t seed;
    int64_t warmup, cooldown;
    double lr_scale, clip, ema, ratio;
    struct subword_options subword;
    enum { SAMPLE_BOTH, SAMPLE_SRC, SAMPLE_TGT } sample_side;
    int link_unit, guided_layer, guided_head;
    double guided_weight;
    struct trainer_options trainer; /* as the options set it */
    struct backend_options where;
    struct ranks_options ranks;
    int dry_run, overwrite, quiet;
};

/* Everything a run works on, in the order it is built. */
struct train_setup {
    const struct train_args *a;
    const struct option_group *groups; /* of the command: which model fields were given */
    struct progress *progress;
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
    enum dtype type;
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
    struct batches *batches;
    struct sweep *sweep;
    struct plan_memory memory;
};

/* setup_check does everything that can be checked at once (options, files, the model's shape, the
 * device) and writes nothing. setup_build does the long work and announces each part. After an
 * error in either, setup_release still frees what there is. */
int setup_check(struct train_setup *s, struct err *err);
int setup_build(struct train_setup *s, struct err *err);
void setup_release(struct train_setup *s);

#endif
