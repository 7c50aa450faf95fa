/* checkpoint.h — everything a training run needs to continue bit for bit, even after a kill at any
 * instant.
 *
 *     DIR/config.json, tokenizer.model     written once, by modeldir_init, before the first
 *                                          checkpoint
 *     DIR/ckpt-00000300/                   one checkpoint: a complete model directory of its own
 *         config.json  tokenizer.model     copies of DIR's (tokenizer.model if DIR has one)
 *         model.safetensors                the weights, f32: their moving average where one is kept
 *         state.safetensors                Adam's moments, the weights that learn where those above
 *                                          are an average, counters, the trainer's state, checksums
 *     DIR/model.safetensors                what users load: a hard link to the published
 *                                          checkpoint's
 *
 * Atomic: a checkpoint is written as ckpt-00000300.tmp/, every file and the directory are synced,
 * then one rename gives it its name and DIR is synced. So a directory with a proper name is whole,
 * weights and state together; a leftover *.tmp is rubbish. There is no "last" pointer that could
 * disagree: the last checkpoint is the one with the highest step. A step that already has one moves
 * it aside to ckpt-00000300.old/ for the instant between two renames; readers take the .old one
 * where the proper one is missing. Older checkpoints are only ever removed by checkpoint_prune,
 * after the new one is durable.
 *
 * Damage from outside (a flipped bit, a truncated file) is found by checksums: state.safetensors
 * holds the crc32c of its own header, of its every tensor and of every weight in model.safetensors,
 * so weights of one checkpoint with the state of another are refused too. config.json has the hash
 * of the tokenizer beside it.
 *
 * Ranks. Files are the same for any number of ranks and are rank 0's alone: no other reads or
 * writes any. Saving and loading are collective; the parts that ranks keep for themselves are
 * gathered in the gradients' buffer while they are written, and broadcast when they are loaded.
 *
 * There are two ways to save, and the files are the same to the last byte. checkpoint_save goes
 * through a small buffer, and training waits for the disk. A struct snapshot is memory for all that
 * a checkpoint holds: training waits for the copy only (snapshot_take), and another thread makes
 * files of it (snapshot_write) while updates go on. A kill in between finds the checkpoints that
 * were there before, since nothing is removed until the new one is durable: train/saver.h.
 *
 * Only f32 and bf16 models (f32 master weights) are saved; an f64 model is HEED_EINVAL. */
#ifndef TRAIN_CHECKPOINT_H
#define TRAIN_CHECKPOINT_H

#include "train/optimizer.h"
#include "train/state.h"

struct checkpoint {
    char *path; /* "DIR/ckpt-00000300" */
    int64_t step;
};

struct checkpoint_list {
    struct checkpoint *item; /* ascending steps */
    int n;
};

/* "DIR/ckpt-00000300"; the caller frees with xfree. */
char *checkpoint_path(const char *dir, int64_t step);

/* Collective. Saves model, moments, average, opt->step, opt->n_batch and the trainer's state (NULL:
 * none) as DIR/ckpt-STEP. On error nothing that was there has changed and nothing of the attempt is
 * left. */
int checkpoint_save(const char *dir, struct optimizer *opt, const struct state *state,
                    struct err *err);

/* The same in two steps, for checkpoints that are written while training goes on. */
struct snapshot;

/* The host's memory that it takes: 12 bytes a parameter, 16 with an average. */
size_t snapshot_bytes(const struct model *model, int ema);

/* Reserves it for an optimizer whose model outlives it. With ranks only rank 0 needs one. */
int snapshot_new(struct snapshot **snapshot, const struct optimizer *opt, struct err *err);
void snapshot_free(struct snapshot *snapshot);

/* Collective; NULL on other ranks than the first. Copies what checkpoint_save would save, in place
 * of what was copied before. */
int snapshot_take(struct snapshot *snapshot, struct optimizer *opt, const struct state *state,
                  struct err *err);

/* Saves what was copied as DIR/ckpt-STEP, as checkpoint_save does. Not collective, and safe beside
 * all else that is done with the optimizer: it touches nothing but the copy and the disk. */
int snapshot_write(const struct snapshot *snapshot, const char *dir, struct err *err);

/* Only the trainer's state (fingerprints, ...) and the step, before there is a model to load
 * into. */
int checkpoint_read_state(const char *path, struct state *state, int64_t *step, struct err *err);

/* Collective; only rank 0 needs `path`. The checkpoint into an optimizer whose model has the same
 * configuration (names and shapes decide; dropout and smoothing may differ) and that keeps an
 * average if the checkpoint has one (else HEED_EINVAL), and the trainer's state (NULL: not wanted).
 * All
 * checksums are verified first: on error neither the optimizer nor *state has changed. */
int checkpoint_load(const char *path, struct optimizer *opt, struct state *state, struct err *err);

/* All checkpoints of a run that carry a proper name; changes nothing on disk. A directory without
 * any, or no directory at all: n = 0. */
int checkpoint_list(struct checkpoint_list *list, const char *dir, struct err *err);
void checkpoint_list_release(struct checkpoint_list *list);

/* Is this checkpoint whole: all files there, headers right, state and weights of the same step?
 * With `deep` all checksums too, which reads every byte. */
int checkpoint_verify(const char *path, int deep, struct err *err);

/* The newest checkpoint that passes checkpoint_verify, deep. Returns 0 with found->path NULL where
 * there is none. Newer ones that are damaged are counted, and `damage` says what is wrong with the
 * newest of them: kills never cause that, so the user should hear of it. */
struct checkpoint_found {
    char *path;   /* the caller frees with xfree; NULL: none */
    int64_t step; /* -1: none */
    int n_damaged;
    struct err damage;
};
int checkpoint_find_last(struct checkpoint_found *found, const char *dir, struct err *err);

/* For the process that owns DIR, before it starts or resumes: removes what kills left behind (*.tmp
 * files and directories, .old directories) and gives a lone .old one its name back. */
int checkpoint_clean(const char *dir, struct err *err);

/* Removes all checkpoints but the newest keep_last (>= 1) and the one of step keep_best (negative:
 * none). */
int checkpoint_prune(const char *dir, int keep_last, int64_t keep_best, struct err *err);

/* Removes the checkpoint of one step, if it is there. */
int checkpoint_drop(const char *dir, int64_t step, struct err *err);

/* Removes all checkpoints of later steps: a run that rewinds must not find them again. */
int checkpoint_forget(const char *dir, int64_t after, struct err *err);

/* Makes DIR/model.safetensors the weights of the checkpoint of that step: atomic, a hard link where
 * the file system can, else a copy. It survives the pruning of its checkpoint. Doing it twice does
 * no harm: after a resume publish the best step again, since a kill may have come between save and
 * publish. */
int checkpoint_publish(const char *dir, int64_t step, struct err *err);

#endif
