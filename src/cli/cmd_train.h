/* cmd_train.h — what the two halves of `heed train` share: cmd_train.c has the options and runs,
 * train_setup.c builds what the options ask for. */
#ifndef CLI_CMD_TRAIN_H
#define CLI_CMD_TRAIN_H

#include "backend/mat.h"
#include "backend/ops.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "data/batches.h"
#include "data/tokenizer.h"
#include "train/trainer.h"

struct train_args {
    struct option_list src, tgt, weights;
    const char *valid_src, *valid_tgt, *tokenizer, *cache, *config_file;
    int preset; /* of config_preset_names */
    enum tokenizer_type vocab_type;
    int vocab_size, tokens, dtype, max_length, prefetch, bleu_lines;
    uint64_t seed;
    int64_t warmup;
    double lr_scale, clip, ratio;
    struct trainer_options trainer; /* what options say of it */
    struct backend_options where;
    int dry_run, overwrite, quiet;
};

/* Everything a run works on, in the order it is built. */
struct train_setup {
    const struct train_args *a;
    const struct option_group *groups; /* of the command: which model fields were given */
    struct progress *progress;
    struct tokenizer *tokenizer;
    char *tokenizer_path;  /* as it will be copied into the run directory */
    struct corpus *corpus; /* [src.n] */
    int n_corpus;
    struct batches_source *source;
    struct corpus valid_corpus;
    int has_valid;
    struct config config;
    struct backend *be;
    enum dtype type;
    struct model *model;
    struct acts *acts;
    struct optimizer *opt;
    struct batches *batches;
    struct sweep *sweep;
    size_t need_model, need_state, need_acts, need_workspace;
};

/* Builds all of it, telling about each part. On error what was built is still released by
 * setup_release. */
int setup_build(struct train_setup *s, struct err *err);
void setup_release(struct train_setup *s);

/* Is there an earlier part of a run in the directory? */
int setup_has_run(const char *dir);

#endif
