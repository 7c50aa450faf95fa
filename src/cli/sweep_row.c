/* sweep_row.c — see sweep_row.h. */
#include "cli/sweep_row.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "io/json.h"

struct job {
    const struct runtable *table;
    const struct runtable_row *row;
    const char *device;
};

/* ---- command lines --------------------------------------------------------------------------- */

enum { MOST_WORDS = 512 }; /* more than heed translate has options, twice */
struct words {
    const char *word[MOST_WORDS + 1];
    char *made[MOST_WORDS];
    int n, n_made;
};

static void add_word(struct words *w, const char *word) {
    if (w->n < MOST_WORDS) w->word[w->n++] = word;
}

static void add_words(struct words *w, const char *const *word) {
    for (; *word; word++) add_word(w, *word);
}

/* An option from JSON: --name value. */
static void add_option(struct words *w, const char *key, const json_t *value) {
    if (json_is_false(value) || w->n_made + 2 > MOST_WORDS) return;
    char *name = path_append("--", key);
    for (char *c = name; *c; c++) *c = *c == '_' ? '-' : *c;
    add_word(w, w->made[w->n_made++] = name);
    if (json_is_true(value)) return;
    char *text = json_is_string(value)
                     ? xstrdup(json_string_value(value))
                     : json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
    add_word(w, w->made[w->n_made++] = text);
}

/* ---- running heed ---------------------------------------------------------------------------- */

/* What the row's process is running, and whether it is to end. The signal is blocked wherever both
 * might be about to change, so that none is lost between two programs. */
static volatile sig_atomic_t row_runs, row_ends;

static void end_row_by(int number) {
    row_ends = number;
    if (row_runs > 0) kill((pid_t)row_runs, number);
}

static void hold_signals(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(how, &set, NULL);
}

/* Runs heed with these words; what it prints goes to the log, standard output to `out` if that is
 * not NULL. Its exit status; 128 and more: a signal. */
static int run_heed(const struct words *words, const char *log, const char *out) {
    hold_signals(SIG_BLOCK);
    pid_t pid = row_ends ? -1 : fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        signal(SIGINT, SIG_DFL);
        hold_signals(SIG_UNBLOCK);
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
        if (fd < 0) _exit(1);
        dup2(fd, STDOUT_FILENO);
        dup2(fd, STDERR_FILENO);
        if (out) {
            fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
            if (fd < 0 || dup2(fd, STDOUT_FILENO) < 0) _exit(1);
        }
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        dup2(fd, STDIN_FILENO);
        execv("/proc/self/exe", (char *const *)words->word);
        _exit(1);
    }
    int status = 0;
    row_runs = pid;
    hold_signals(SIG_UNBLOCK);
    if (pid < 0) return 1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    row_runs = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int test_row(const struct job *j, const struct runtable_test *t, const char *model,
                    const char *log) {
    char suffix[128];
    struct words words = {0};
    const char *key;
    json_t *value;
    snprintf(suffix, sizeof suffix, ".%s.txt", t->name);
    char *hyp = runtable_path(j->table, j->row, suffix);
    snprintf(suffix, sizeof suffix, ".%s.json", t->name);
    char *scores = runtable_path(j->table, j->row, suffix);
    add_words(&words, (const char *[]){"heed", "translate", "--quiet", "--model", model, "--device",
                                       j->device, "--output", hyp, NULL});
    json_object_foreach((json_t *)j->table->translate, key, value) {
        add_option(&words, key, value);
    }
    add_words(&words, (const char *[]){"--", t->src, NULL});
    int rc = run_heed(&words, log, NULL);
    struct words eval = {0};
    add_words(&eval, (const char *[]){"heed", "eval", "--json", "--width", "2", "--hyp", hyp,
                                      "--ref", t->ref, NULL});
    if (!rc) rc = run_heed(&eval, log, scores);
    for (int i = 0; i < words.n_made; i++) xfree(words.made[i]);
    xfree(hyp);
    xfree(scores);
    return rc;
}

static int run_row(const struct job *j) {
    const struct runtable *s = j->table;
    const struct runtable_row *row = j->row;
    struct err err;
    char *log = runtable_path(s, row, ".log"), *config = runtable_path(s, row, ".json");
    char *dir = runtable_path(s, row, ""), *mean = runtable_path(s, row, ".average");
    char last[16];
    struct words train = {0}, average = {0};
    add_words(&train, (const char *[]){"heed", "train", "--config", config, "--out", dir,
                                       "--device", j->device, NULL});
    snprintf(last, sizeof last, "%d", s->average);
    add_words(&average, (const char *[]){"heed", "average", "--overwrite", "--last", last, "--out",
                                         mean, dir, NULL});
    int rc = json_out_file(config, row->train, &err) ? 1 : 0;
    if (!rc) rc = run_heed(&train, log, NULL);
    if (!rc && s->average) rc = run_heed(&average, log, NULL);
    for (int i = 0; i < s->n_test && !rc; i++)
        rc = test_row(j, &s->test[i], s->average ? mean : dir, log);
    return rc;
}

int sweep_row_start(pid_t *pid, const struct runtable *table, const struct runtable_row *row,
                    const char *device, struct err *err) {
    struct job job = {table, row, device};
    fflush(NULL);
    hold_signals(SIG_BLOCK);
    *pid = fork();
    if (*pid == 0) {
        setpgid(0, 0);
        signal(SIGTERM, end_row_by); /* it waits until what it runs has saved */
        signal(SIGINT, SIG_IGN);
        hold_signals(SIG_UNBLOCK);
        _exit(run_row(&job));
    }
    hold_signals(SIG_UNBLOCK);
    return *pid < 0 ? err_set(err, HEED_EIO, "fork: %s", strerror(errno)) : 0;
}
