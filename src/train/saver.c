/* saver.c — see saver.h. */
#include "train/saver.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "model/modeldir.h"

/* DIR/model.safetensors is the best model so far, or the last one where nothing says which is best.
 * Should someone have removed the best one's checkpoint, then what was published before is all that
 * is left of it. */
static int publish(const struct saver_task *task, struct err *err) {
    int64_t step = task->best >= 0 ? task->best : task->step;
    char *best = checkpoint_path(task->dir, step), *now = path_join(task->dir, MODELDIR_WEIGHTS);
    int there = dir_exists(best), published = file_exists(now);
    xfree(best);
    xfree(now);
    if (!there && published) return 0;
    return checkpoint_publish(task->dir, there ? step : task->step, err);
}

int saver_follow(const struct saver_task *task, struct err *err) {
    int rc = publish(task, err);
    if (!rc && task->spent >= 0) rc = checkpoint_drop(task->dir, task->spent, err);
    return rc ? rc : checkpoint_prune(task->dir, task->keep, task->best, err);
}

static void write_all(void *ctx) {
    struct saver *s = ctx;
    double begin = clock_seconds();
    s->rc = snapshot_write(s->copy, s->task.dir, &s->err);
    if (!s->rc) s->rc = saver_follow(&s->task, &s->err);
    s->seconds = clock_seconds() - begin;
    s->done = 1;
}

void saver_begin(struct saver *s, const struct snapshot *copy, const struct saver_task *task) {
    BUG_ON(s->begun);
    *s = (struct saver){.copy = copy, .task = *task, .begun = 1};
    aside_begin(&s->aside, write_all, s);
}

int saver_done(const struct saver *s) { return s->begun && s->done; }

int saver_end(struct saver *s, struct err *err) {
    if (!s->begun) return 0;
    aside_end(&s->aside);
    s->begun = 0;
    if (s->rc && err) *err = s->err;
    return s->rc;
}
