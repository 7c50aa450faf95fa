/* runlog.c — see runlog.h. Formats: docs/formats.md. */
#include "train/runlog.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/json.h"
#include "train/tensorboard.h"

struct runlog {
    int fd;
    int64_t size;
    struct tensorboard *tb;
    struct err err;
};

int runlog_open(struct runlog **out, const char *dir, int64_t size, int64_t first_step,
                struct err *err) {
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/log.jsonl", dir) >= (int)sizeof path)
        return err_set(err, HEED_EIO, "%.100s...: the path is too long", dir);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    off_t end = lseek(fd, 0, SEEK_END);
    if (size > end) size = end; /* someone shortened it: keep what there is */
    if (end < 0 || ftruncate(fd, size) != 0 || lseek(fd, size, SEEK_SET) < 0) {
        int why = errno;
        close(fd);
        return err_set(err, HEED_EIO, "%s: %s", path, strerror(why));
    }
    struct runlog *log = xcalloc(1, sizeof *log);
    log->fd = fd;
    log->size = size;
    int rc = tensorboard_open(&log->tb, dir, first_step, err);
    if (rc) {
        runlog_close(log);
        return rc;
    }
    *out = log;
    return 0;
}

void runlog_close(struct runlog *log) {
    if (!log) return;
    tensorboard_close(log->tb, NULL);
    close(log->fd);
    xfree(log);
}

int64_t runlog_size(const struct runlog *log) { return log->size; }

int runlog_error(struct runlog *log, struct err *err) {
    if (!log) return 0;
    int code = log->err.code;
    if (code && err) *err = log->err;
    log->err = (struct err){0};
    return code;
}

/* Takes over the object. The line goes out in one write, so that a kill cannot leave half of
 * two. */
static void append(struct runlog *log, json_t *object) {
    char *text = json_dumps(object, JSON_COMPACT | JSON_REAL_PRECISION(9));
    json_decref(object);
    if (!text) return; /* cannot happen: numbers are finite and strings are UTF-8 by then */
    size_t n = strlen(text);
    char *line = xmalloc(n + 2);
    snprintf(line, n + 2, "%s\n", text);
    ssize_t done = write(log->fd, line, n + 1);
    if (done == (ssize_t)(n + 1))
        log->size += done;
    else if (!log->err.code)
        err_set(&log->err, HEED_EIO, "log.jsonl: %s", done < 0 ? strerror(errno) : "disk full");
    if (done > 0 && done < (ssize_t)(n + 1) && ftruncate(log->fd, log->size) == 0)
        lseek(log->fd, log->size, SEEK_SET);
    xfree(line);
    free(text);
}

static void put(json_t *object, const char *key, double value) {
    json_object_set_new(object, key, json_out_real(value));
}

void runlog_train(struct runlog *log, const struct runlog_train *x) {
    if (!log) return;
    json_t *o = json_pack("{s:I,s:I}", "step", (json_int_t)x->step, "epoch", (json_int_t)x->epoch);
    put(o, "loss", x->loss);
    put(o, "nll", x->nll);
    put(o, "ppl", exp(x->nll));
    if (!isnan(x->guided)) put(o, "guided", x->guided);
    put(o, "lr", x->rate);
    put(o, "grad_norm", x->grad_norm);
    put(o, "tokens", x->tokens);
    put(o, "tok_s", x->tok_s);
    put(o, "time", x->seconds);
    if (x->ranks > 1) {
        json_object_set_new(o, "ranks", json_integer(x->ranks));
        put(o, "slowest", x->slowest);
        put(o, "sent", x->sent);
    }
    append(log, o);
    tensorboard_scalar(log->tb, "train/loss", x->step, x->loss);
    tensorboard_scalar(log->tb, "train/ppl", x->step, exp(x->nll));
    if (!isnan(x->guided)) tensorboard_scalar(log->tb, "train/guided", x->step, x->guided);
    tensorboard_scalar(log->tb, "train/lr", x->step, x->rate);
    tensorboard_scalar(log->tb, "train/grad_norm", x->step, x->grad_norm);
    tensorboard_scalar(log->tb, "train/tokens_per_s", x->step, x->tok_s);
    tensorboard_flush(log->tb, log->err.code ? NULL : &log->err);
}

void runlog_valid(struct runlog *log, const struct runlog_valid *x) {
    if (!log) return;
    json_t *o = json_pack("{s:I}", "step", (json_int_t)x->step);
    put(o, "valid_loss", x->loss);
    put(o, "valid_nll", x->nll);
    put(o, "valid_ppl", exp(x->nll));
    if (!isnan(x->guided)) put(o, "valid_guided", x->guided);
    if (!isnan(x->bleu)) put(o, "valid_bleu", x->bleu);
    put(o, "valid_time", x->seconds);
    json_object_set_new(o, "best", json_boolean(x->best));
    append(log, o);
    tensorboard_scalar(log->tb, "valid/loss", x->step, x->loss);
    tensorboard_scalar(log->tb, "valid/ppl", x->step, exp(x->nll));
    if (!isnan(x->guided)) tensorboard_scalar(log->tb, "valid/guided", x->step, x->guided);
    if (!isnan(x->bleu)) tensorboard_scalar(log->tb, "valid/bleu", x->step, x->bleu);
    tensorboard_flush(log->tb, log->err.code ? NULL : &log->err);
}

void runlog_times(struct runlog *log, const struct runlog_times *x) {
    if (!log) return;
    json_t *o =
        json_pack("{s:I,s:s,s:s}", "step", (json_int_t)x->step, "event", "times", "text", x->text);
    put(o, "all", x->all);
    put(o, "updates", x->updates);
    put(o, "validation", x->validation);
    put(o, "saving", x->saving);
    put(o, "data", x->data);
    append(log, o);
}

void runlog_note(struct runlog *log, int64_t step, const char *event, const char *text) {
    if (!log) return;
    append(log, json_pack("{s:I,s:s,s:s}", "step", (json_int_t)step, "event", event, "text", text));
}
