/* cmd_sweep.c — `heed sweep FILE`: trains a table of models (train/runtable.h), one after another
 * or one per device, tests each, and shows what came of them (docs/sweep.md).
 *
 * A row is a process of its own (sweep_row.h). Nothing of a run is known to this process but what
 * its files say, so a row that dies takes nobody with it, and a sweep that is stopped anywhere is
 * continued by starting it again: runs go on from their checkpoints, finished rows stay. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "cli/sweep_row.h"
#include "data/text.h"
#include "train/runtable.h"

static struct sweep_args {
    struct option_list devices, only, file;
    int dry_run, json, quiet;
} args;

#define OPTIONS_OF sweep_args
static const struct option rows[] = {
    ROW(WORDS, "file", file, NULL, "the table: a JSON file, see docs/sweep.md", .arg = "FILE",
        .min = 1, .max = 1),
    ROW(LIST, "device", devices, NULL,
        "device to run on, as for heed train; repeat it to run one row on each at a time",
        .arg = "NAME"),
    ROW(LIST, "only", only, NULL, "run only this row; repeat it for several", .arg = "NAME"),
    ROW(FLAG, "dry_run", dry_run, NULL, "check the file and list its rows, without running them"),
    JSON_ROW(json),
    ROW(FLAG, "quiet", quiet, NULL, "print only the table at the end"),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args}, {.rows = NULL}};

/* A row as it is run and shown. */
struct entry {
    struct runtable_row *row;
    enum { WAITING, RUNNING, DONE, FAILED } state;
    char why[256]; /* it failed */
};

struct slot {
    const char *device;
    struct entry *entry; /* NULL: free */
    pid_t pid;
};

struct work {
    struct runtable table;
    struct entry *entry; /* [n_entry] those asked for */
    int n_entry;
    struct slot *slot; /* [n_slot] */
    int n_slot;
    struct progress progress;
    double begin, shown;
    int stopping; /* the signal that ends it, or 0 */
    double stopped;
    int live; /* lines at the bottom of the terminal that the next ones replace */
};

/* ---- options of other commands --------------------------------------------------------------- */

/* Options that a table may not set are ours. */
static int check_options(const struct command *command, const json_t *options,
                         const char *const *ours, const char *where, struct err *err) {
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)options, key, value) {
        struct option_group *group;
        for (int i = 0; ours[i]; i++)
            if (strcmp(ours[i], key) == 0)
                return err_set(err, HEED_ECONFIG, "%.100s: '%s' is set by heed sweep", where, key);
        if (!options_find(command->groups, key, strlen(key), &group))
            return err_set(err, HEED_ECONFIG, "%.100s: heed %s has no option '%.60s'", where,
                           command->name, key);
    }
    return 0;
}

static int check_table(struct work *w, const char *path, struct err *err) {
    static const char *const of_train[] = {"out",   "config",   "device",  "overwrite",
                                           "quiet", "new_data", "dry_run", NULL};
    static const char *const of_translate[] = {"model", "output", "device", "quiet", NULL};
    int rc = 0;
    for (int i = 0; i < w->table.n_row && !rc; i++) {
        char where[320];
        snprintf(where, sizeof where, "%.180s: %s", path, w->table.row[i].name);
        rc = check_options(&cmd_train, w->table.row[i].train, of_train, where, err);
    }
    if (!rc && w->table.translate)
        rc = check_options(&cmd_translate, w->table.translate, of_translate, path, err);
    for (int i = 0; i < w->table.n_test && !rc; i++) {
        const struct runtable_test *t = &w->table.test[i];
        const char *gone = !file_exists(t->src) ? t->src : !file_exists(t->ref) ? t->ref : NULL;
        if (gone)
            rc = err_set(err, HEED_EIO, "%.100s: test '%.60s': there is no file '%.180s'", path,
                         t->name, gone);
    }
    return rc;
}

/* ---- showing --------------------------------------------------------------------------------- */

/* The last line that a row printed, for the message. */
static void last_words(const struct work *w, struct entry *entry) {
    char *path = runtable_path(&w->table, entry->row, ".log");
    struct text *text;
    struct line line;
    struct err err;
    snprintf(entry->why, sizeof entry->why, "see %.200s", path);
    if (text_open(&text, path, &err) == 0) {
        while (text_next(text, &line, &err) > 0)
            if (strncmp(line.text, "heed: ", 6) == 0)
                snprintf(entry->why, sizeof entry->why, "%.250s", line.text + 6);
        text_close(text);
    }
    xfree(path);
}

static void show_number(char *cell, size_t size, const json_t *value, int digits) {
    if (json_is_number(value))
        snprintf(cell, size, "%.*f", digits, json_number_value(value));
    else
        snprintf(cell, size, "-");
}

static int name_width(const struct work *w) {
    int width = 4;
    for (int i = 0; i < w->n_entry; i++) {
        int n = (int)strlen(w->entry[i].row->name);
        width = n > width ? n : width;
    }
    return width;
}

static int column_width(const struct runtable_test *t) {
    int n = (int)strlen(t->name);
    return n > 6 ? n : 6;
}

static void print_head(const struct work *w, FILE *out) {
    fprintf(out, "%-*s  %12s  %9s  %9s  %9s", name_width(w), "row", "parameters", "steps",
            "valid ppl", "time");
    for (int i = 0; i < w->table.n_test; i++)
        fprintf(out, "  %*s", column_width(&w->table.test[i]), w->table.test[i].name);
    fprintf(out, "\n");
}

static void print_row(const struct work *w, const struct entry *entry, FILE *out) {
    const json_t *r = entry->row->result;
    char ppl[32], score[32];
    fprintf(out, "%-*s  ", name_width(w), entry->row->name);
    if (!r) {
        fprintf(out, "%s%s\n", entry->state == FAILED ? "failed: " : "not run", entry->why);
        return;
    }
    show_number(ppl, sizeof ppl, json_object_get(r, "valid_ppl"), 3);
    fprintf(out, "%12s  %9s  %9s  %9s",
            text_grouped((uint64_t)json_integer_value(json_object_get(r, "parameters"))),
            text_grouped((uint64_t)json_integer_value(json_object_get(r, "steps"))), ppl,
            text_duration(json_number_value(json_object_get(r, "seconds"))));
    for (int i = 0; i < w->table.n_test; i++) {
        const struct runtable_test *t = &w->table.test[i];
        const json_t *scores = json_object_get(json_object_get(r, "scores"), t->name);
        show_number(score, sizeof score, json_object_get(scores, "BLEU"), 2);
        fprintf(out, "  %*s", column_width(t), score);
    }
    fprintf(out, "\n");
}

static void clear_live(struct work *w) {
    if (w->live) fprintf(stderr, "\033[%dA\033[J", w->live);
    w->live = 0;
}

/* A line that stays, above those that change. */
static void print_event(struct work *w, const struct entry *entry) {
    if (args.quiet) return;
    clear_live(w);
    print_row(w, entry, stderr);
    fflush(stderr);
}

/* Loss and perplexity, as far as they are known yet; a log may have any number. */
static void known(char *text, size_t size, const struct runtable_progress *f) {
    char loss[32] = "", ppl[32] = "";
    if (!isnan(f->loss)) snprintf(loss, sizeof loss, " loss %.3f", f->loss);
    if (!isnan(f->ppl)) snprintf(ppl, sizeof ppl, " valid ppl %.3f", f->ppl);
    snprintf(text, size, "%s%s", loss, ppl);
}

/* What is running: every second on a terminal, every minute elsewhere. */
static void show_running(struct work *w) {
    double now = clock_seconds();
    if (args.quiet || now - w->shown < (w->progress.terminal ? 1 : 60)) return;
    int done = 0, columns = progress_columns(STDERR_FILENO);
    w->shown = now;
    clear_live(w);
    for (int i = 0; i < w->n_entry; i++) done += w->entry[i].state >= DONE;
    for (int i = 0; i < w->n_slot; i++) {
        const struct slot *slot = &w->slot[i];
        if (!slot->entry) continue;
        struct runtable_progress f = runtable_progress(&w->table, slot->entry->row);
        const json_t *steps = json_object_get(slot->entry->row->train, "steps");
        double whole = json_number_value(steps);
        char bar[32], figures[64], line[256];
        known(figures, sizeof figures, &f);
        snprintf(line, sizeof line, "%s on %s %s step %s%s time %s", slot->entry->row->name,
                 slot->device, progress_bar(bar, 20, whole > 0 ? (double)f.step / whole : NAN),
                 text_grouped((uint64_t)f.step), figures,
                 text_duration(isnan(f.seconds) ? 0 : f.seconds));
        fprintf(stderr, "%.*s\n", w->progress.terminal ? columns - 1 : 255, line);
        w->live++;
    }
    fprintf(stderr, "%d of %d rows done, %s since the start\n", done, w->n_entry,
            text_duration(now - w->begin));
    w->live = w->progress.terminal ? w->live + 1 : 0;
    fflush(stderr);
}

/* ---- running --------------------------------------------------------------------------------- */

static int start(struct work *w, struct slot *slot, struct entry *entry, struct err *err) {
    int rc = sweep_row_start(&slot->pid, &w->table, entry->row, slot->device, err);
    if (rc) return rc;
    slot->entry = entry;
    entry->state = RUNNING;
    return 0;
}

static int end_row(struct work *w, struct slot *slot, int status, struct err *err) {
    struct entry *entry = slot->entry;
    int rc = 0;
    slot->entry = NULL;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        rc = runtable_finish(&w->table, entry->row, err);
        entry->state = DONE;
    } else if (w->stopping) {
        entry->state = WAITING;
        snprintf(entry->why, sizeof entry->why, " to its end; start heed sweep again to go on");
    } else {
        entry->state = FAILED;
        last_words(w, entry);
    }
    print_event(w, entry);
    return rc;
}

/* 1: there is more to do. */
static int turn(struct work *w, struct err *err) {
    int busy = 0, status;
    for (int i = 0; i < w->n_slot; i++) {
        struct slot *slot = &w->slot[i];
        struct entry *next = NULL;
        if (slot->entry && waitpid(slot->pid, &status, WNOHANG) == slot->pid) {
            int rc = end_row(w, slot, status, err);
            if (rc) return rc;
        }
        for (int k = 0; k < w->n_entry && !next && !slot->entry && !w->stopping && !signals_caught;
             k++)
            if (w->entry[k].state == WAITING) next = &w->entry[k];
        if (next) {
            int rc = start(w, slot, next, err);
            if (rc) return rc;
        }
        busy |= slot->entry != NULL;
    }
    return busy;
}

/* Every row is told to end, which takes it as long as it takes to save; or its whole group is
 * killed. */
static void stop_all(const struct work *w, int kill_them) {
    for (int i = 0; i < w->n_slot; i++)
        if (w->slot[i].entry)
            kill(kill_them ? -w->slot[i].pid : w->slot[i].pid, kill_them ? SIGKILL : SIGTERM);
}

/* The first signal ends rows in order, the next at once; two within a second are one that came by
 * two ways, as those of timeout(1) do. */
static void answer_signals(struct work *w) {
    if (!signals_caught) return;
    double now = clock_seconds();
    if (!w->stopping) {
        w->stopping = signals_caught;
        w->stopped = now;
        stop_all(w, 0);
    } else if (now - w->stopped > 1) {
        stop_all(w, 1);
    }
    signals_answered();
}

static int run_all(struct work *w, struct err *err) {
    int rc;
    if (!args.quiet) print_head(w, stderr);
    for (int i = 0; i < w->n_entry && !args.quiet; i++)
        if (w->entry[i].state == DONE) print_row(w, &w->entry[i], stderr);
    while ((rc = turn(w, err)) > 0) {
        answer_signals(w);
        show_running(w);
        usleep(50000);
    }
    answer_signals(w);
    clear_live(w);
    if (rc < 0) stop_all(w, 0);
    return rc;
}

static int choose_rows(struct work *w, struct err *err) {
    w->entry = xcalloc((size_t)w->table.n_row, sizeof *w->entry);
    for (int k = 0; k < args.only.n; k++) {
        int found = 0;
        for (int i = 0; i < w->table.n_row; i++)
            found |= strcmp(w->table.row[i].name, args.only.item[k]) == 0;
        if (!found) return cli_usage(err, "--only: there is no row '%.60s'", args.only.item[k]);
    }
    for (int i = 0; i < w->table.n_row; i++) {
        struct runtable_row *row = &w->table.row[i];
        int wanted = !args.only.n;
        for (int k = 0; k < args.only.n; k++) wanted |= strcmp(args.only.item[k], row->name) == 0;
        if (wanted)
            w->entry[w->n_entry++] =
                (struct entry){.row = row, .state = row->result ? DONE : WAITING};
    }
    return 0;
}

static int finish(struct work *w, struct err *err) {
    int failed = 0;
    for (int i = 0; i < w->n_entry; i++) failed += w->entry[i].state == FAILED;
    if (args.json) {
        json_dumpf(w->table.results, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(15));
        printf("\n");
    } else {
        print_head(w, stdout);
        for (int i = 0; i < w->n_entry; i++) print_row(w, &w->entry[i], stdout);
    }
    fflush(stdout);
    if (w->stopping) signals_end_by(w->stopping);
    if (!failed) return 0;
    return err_set(err, HEED_EIO, "%d of %d rows failed; what they printed is in %.180s/NAME.log",
                   failed, w->n_entry, w->table.dir);
}

static int sweep(struct work *w, struct err *err) {
    char *lock_path = NULL;
    int lock = -1, rc = runtable_open(&w->table, args.file.item[0], err);
    if (!rc) rc = check_table(w, args.file.item[0], err);
    if (!rc) rc = choose_rows(w, err);
    if (rc) return rc;
    if (args.dry_run) return finish(w, err);
    w->n_slot = args.devices.n ? args.devices.n : 1;
    w->slot = xcalloc((size_t)w->n_slot, sizeof *w->slot);
    for (int i = 0; i < w->n_slot; i++)
        w->slot[i].device = args.devices.n ? args.devices.item[i] : "auto";
    rc = dir_make(w->table.dir, err);
    lock_path = path_join(w->table.dir, "lock");
    if (!rc) rc = file_lock(&lock, lock_path, err);
    if (!rc) rc = signals_watch(err);
    if (!rc) signals_watch_every();
    if (!rc) rc = run_all(w, err);
    if (!rc) rc = finish(w, err);
    if (lock >= 0) file_unlock(lock);
    xfree(lock_path);
    return rc;
}

static int run(struct err *err) {
    struct work w = {.begin = clock_seconds()};
    progress_begin(&w.progress, args.quiet);
    int rc = sweep(&w, err);
    runtable_close(&w.table);
    xfree(w.entry);
    xfree(w.slot);
    return rc;
}

static const char about[] =
    "Every row of the table is a training run; what it is to be compared by is measured the same "
    "way for all. Stopped anywhere, by Ctrl-C, SIGTERM or worse, the same command goes on where it "
    "was: runs continue from their last checkpoints, and finished rows are not run again. A row "
    "that fails does not end the others.";

const struct command cmd_sweep = {.name = "sweep",
                                  .summary = "train and compare a table of models",
                                  .usage = "FILE [options]",
                                  .about = about,
                                  .groups = groups,
                                  .run = run};
