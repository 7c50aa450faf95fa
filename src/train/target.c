/* target.c — see target.h. */
#include "train/target.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "model/modeldir.h"
#include "train/checkpoint.h"

static int has_file(const char *dir, const char *name) {
    char *path = path_join(dir, name);
    int is_there = file_exists(path);
    xfree(path);
    return is_there;
}

int target_has_run(const char *dir) {
    struct checkpoint_list list;
    if (checkpoint_list(&list, dir, NULL)) return 0;
    int n = list.n;
    checkpoint_list_release(&list);
    return n > 0;
}

int target_holds(const char *dir, const char *file) {
    static const char *const of_run[] = {"log.jsonl", "state.safetensors", "lock", NULL};
    int found = 0;
    for (int i = 0; i < 2; i++)
        for (const char *const *name = i ? of_run : modeldir_files; *name && !found; name++) {
            char *path = path_join(dir, *name);
            found = file_same(path, file);
            xfree(path);
        }
    return found;
}

static int same_place(const char *a, const char *b) {
    char *left = realpath(a, NULL), *right = realpath(b, NULL);
    int same = left && right && strcmp(left, right) == 0;
    free(left);
    free(right);
    return same;
}

int target_contains(const char *dir, const char *from) {
    char *outer = realpath(dir, NULL), *inner = realpath(from, NULL);
    size_t n = outer ? strlen(outer) : 0;
    int found = outer && inner && strncmp(outer, inner, n) == 0 && (!inner[n] || inner[n] == '/');
    free(outer);
    free(inner);
    return found;
}

int target_for_run(const char *dir, int overwrite, struct err *err) {
    struct config config;
    int rc = modeldir_check_files(dir, err);
    if (rc || overwrite || target_has_run(dir)) return rc;
    if (has_file(dir, MODELDIR_WEIGHTS) || has_file(dir, MODELDIR_CTRANSLATE2))
        return err_set(err, HEED_EIO,
                       "--out: %.140s holds a finished model and no checkpoint to continue from; "
                       "--overwrite replaces it",
                       dir);
    if (has_file(dir, MODELDIR_CONFIG) && modeldir_read_config(dir, &config, NULL, NULL))
        return err_set(err, HEED_EIO,
                       "--out: %.140s/" MODELDIR_CONFIG
                       " does not belong to a run; --overwrite replaces it",
                       dir);
    return 0;
}

/* A run that has only begun has no checkpoint yet, but a lock. */
static int check_lock(const char *dir, struct err *err) {
    if (!has_file(dir, "lock")) return 0;
    char *path = path_join(dir, "lock");
    int lock = -1, rc = file_lock(&lock, path, err);
    file_unlock(lock);
    xfree(path);
    return rc;
}

int target_for_model(const char *dir, const char *const *from, int n, int overwrite,
                     struct err *err) {
    for (int i = 0; i < n; i++)
        if (same_place(dir, from[i]))
            return err_set(err, HEED_EINVAL, "--out: %.120s is %s", dir,
                           n == 1 ? "the model itself" : "one of the models");
    if (file_exists(dir) && !dir_exists(dir))
        return err_set(err, HEED_EIO, "--out: %.180s is not a directory", dir);
    if (target_has_run(dir) || has_file(dir, "state.safetensors"))
        return err_set(err, HEED_EIO,
                       "--out: %.140s belongs to a training run; write to another directory", dir);
    struct dir_names names = {0};
    int rc = check_lock(dir, err);
    if (!rc) rc = dir_read(&names, dir, err);
    if (!rc && names.n && !overwrite)
        rc = err_set(err, HEED_EIO,
                     "--out: %.140s has files in it; --overwrite replaces the model there", dir);
    dir_names_release(&names);
    return rc;
}

int target_clear(const char *dir, struct err *err) {
    static const char *const old[] = {MODELDIR_WEIGHTS,    MODELDIR_CTRANSLATE2,
                                      MODELDIR_VOCABULARY, MODELDIR_TARGET_TOKENIZER,
                                      MODELDIR_TOKENS,     MODELDIR_TARGET_TOKENS};
    int rc = checkpoint_forget(dir, -1, err);
    for (size_t i = 0; i < sizeof old / sizeof *old && !rc; i++) {
        char *path = path_join(dir, old[i]);
        if (file_calls.unlink(path) && errno != ENOENT)
            rc = err_set(err, HEED_EIO, "%.180s: cannot remove: %s", path, strerror(errno));
        xfree(path);
    }
    return rc;
}
