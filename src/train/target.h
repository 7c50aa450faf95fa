/* target.h — may something be written to this directory?
 *
 * A directory with checkpoints is a run: the command that began it continues it, and nothing else
 * writes there. One with weights and no checkpoints is a finished model, the work of hours, and a
 * config.json that no run wrote is somebody else's: they are replaced only on request. */
#ifndef TRAIN_TARGET_H
#define TRAIN_TARGET_H

#include "base/err.h"

/* Are there checkpoints, from which a run can be continued? */
int target_has_run(const char *dir);

/* Is the file one of those that heed keeps there, for a model or a run? */
int target_holds(const char *dir, const char *file);

/* Is `from` this directory, or inside it? */
int target_contains(const char *dir, const char *from);

/* For a run that begins or continues: HEED_EIO if a finished or foreign model is there, unless
 * overwrite. */
int target_for_run(const char *dir, int overwrite, struct err *err);

/* For a model made from the n directories `from`: never one of those (HEED_EINVAL), never a run or
 * a checkpoint of one, nor a directory that another process holds; one that has files in it only
 * with overwrite (HEED_EIO). */
int target_for_model(const char *dir, const char *const *from, int n, int overwrite,
                     struct err *err);

/* Begins a run anew: checkpoints and published weights go, so that no new configuration ever lies
 * beside old weights. */
int target_clear(const char *dir, struct err *err);

#endif
