/* trainer.h — a training run: updates, validations and checkpoints, until a limit is reached.
 *
 * Everything a run does is a function of its options, its data and its seed; time and interruptions
 * leave no trace in the weights. A run that is stopped anywhere, by signal or by SIGKILL, and
 * started again gives the same final file, byte for byte, as one that was not (unless --minutes
 * ends it).
 *
 * With several ranks (the comm of the optimizer's options) all call these functions together, each
 * with batches that are its share of `accumulate`, and the files are rank 0's: on the others `dir`
 * and listener are not used. Which ranks there are, and whether they change when a run is
 * continued, leaves no trace either. Whoever is asked to stop stops all.
 *
 * The trainer borrows what it works on (optimizer, batches, sweep) and owns the run directory's
 * log. It prints nothing: it reports progress to `listener`, and the caller asks for an orderly end
 * through `stop`, which the trainer looks at after every update. */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "data/batches.h"
#include "data/tokenizer.h"
#include "train/checkpoint.h"
#include "train/optimizer.h"
#include "train/runlog.h"

/* When the loss is not finite, its gradient is not, or the loss is far worse than guessing: stop
 * the run; skip the update; or go back to the last checkpoint and continue with the data that
 * follow. */
enum divergence { DIVERGENCE_STOP, DIVERGENCE_SKIP, DIVERGENCE_REWIND };

enum train_event {
    TRAIN_RESUMED,    /* text: from where, and what was odd */
    TRAIN_STEP,       /* after every update */
    TRAIN_LOGGED,     /* after the updates that log_every picks: means are fresh */
    TRAIN_VALIDATING, /* a validation goes on: fraction */
    TRAIN_VALIDATED,
    TRAIN_SAVED,   /* a checkpoint is on the disk; updates may have gone on meanwhile */
    TRAIN_WARNING, /* text: skipped, rewound, log trouble */
};

/* Seconds of this part of the run: from trainer_run's beginning to its end, and what of them went
 * where. Saving is what training waited for checkpoints, not what was written beside it. */
struct train_times {
    double all, updates, validation, saving, data;
};

struct train_status {
    int64_t step, epoch;
    double fraction;  /* of the whole run, by whichever limit comes first; NaN: no limit */
    double loss, nll; /* per token, means over the last log window */
    double rate, grad_norm, tok_s, seconds; /* tokens of all ranks */
    int ranks;
    /* What ranks worked since the last line of the log, beside waiting: the least and the most
     * against the median; 1 where there are no others. */
    double least, most;
    double sent;   /* bytes that rank 0 gave to others per update since then */
    double guided; /* loss of the rows that learn from links, likewise; NaN: there were none */
    double valid_loss, valid_nll; /* NaN: none yet */
    double valid_guided;          /* NaN: the validation text has no links */
    double valid_bleu;            /* NaN: not measured this time */
    int valid_is_best;
    struct train_times times; /* `all` only once the run has ended; 0: it had ended before */
    const char *text;
};

/* "98.1 % of the time went to updates, 1.3 % to validation, ..." */
enum { TRAIN_TIMES_TEXT = 160 };
const char *train_times_text(char text[TRAIN_TIMES_TEXT], const struct train_times *times);

typedef void train_listener(void *ctx, enum train_event event, const struct train_status *status);

struct trainer_options {
    const char *dir;
    /* What the run works on, borrowed; no validation where valid is NULL. */
    struct optimizer *opt;
    struct batches *batches;
    struct sweep *valid;
    struct snapshot
        *copy; /* rank 0's, to write checkpoints while updates go on; NULL: in between */
    const struct tokenizer *tokenizer, *target; /* of both sides; they may be the same */
    train_listener *listener;                   /* NULL: nobody listens */
    void *listener_ctx;
    int64_t max_steps;  /* 0: no limit; counts from the run's beginning, also after a resume */
    int64_t max_epochs; /* 0: no limit */
    double max_minutes; /* 0: no limit; training time of all processes of the run together */
    int accumulate;     /* batches per update, of all ranks together */
    int log_every, valid_every, save_every; /* updates */
    int keep;                               /* checkpoints kept beside the best one */
    int patience; /* validations without a better loss before the run ends; 0: never */
    enum divergence on_divergence;
    int new_data, new_tokenizer; /* a resumed run may continue although these changed */
    const volatile int *stop;    /* non-zero: save and end; may be NULL */
    /* updates; a multiple of valid_every: these validations, and the last one, also measure BLEU.
     * 0: none do */
    int bleu_every;
    /* Measures it: the score of the model as it is now, or NaN. All ranks call it together and get
     * the same. */
    int (*bleu)(void *ctx, double *score, struct err *err);
    void *bleu_ctx;
};

/* Why a run ended. */
enum train_end { TRAIN_DONE, TRAIN_STOPPED, TRAIN_PATIENCE };

struct trainer;

/* Creates the trainer of a run directory. Where that holds an earlier part of the same run, it
 * resumes from the last checkpoint that is whole. Refuses with the reason, and changes nothing in
 * the directory, when data or tokenizer differ from the earlier part's (see new_data,
 * new_tokenizer) or when all its checkpoints are damaged. So modeldir_init, which replaces
 * configuration and tokenizer, comes after it and before trainer_run. */
int trainer_new(struct trainer **trainer, const struct trainer_options *options, struct err *err);
void trainer_free(struct trainer *trainer);

/* Runs to the end; a run that had ended before is left as it is. On error the last checkpoint is
 * whole, and the message names step and batch. A checkpoint that cannot be written is an error
 * before the next one at the latest; none is being written any more when this returns. */
int trainer_run(struct trainer *trainer, enum train_end *end, struct err *err);

const struct train_status *trainer_status(const struct trainer *trainer);

#endif
