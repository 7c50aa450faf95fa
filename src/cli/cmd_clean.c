/* cmd_clean.c — `heed clean`: drops the pairs of a corpus that are not fit to learn from
 * (data/clean.h) and reports why.
 *
 * Output files appear when all is done: after an error or a signal the old ones remain. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/signals.h"
#include "data/clean.h"
#include "io/json.h"

static struct clean_args {
    const char *src, *tgt, *out_src, *out_tgt, *rejects;
    int json, threads, quiet;
} args;
static struct clean_options options;

#define OPTIONS_OF clean_args
static const struct option rows[] = {
    ROW(STRING, "src", src, NULL, "source text: plain, gzip, xz, or - for standard input",
        .arg = "FILE", .required = 1),
    ROW(STRING, "tgt", tgt, NULL, "its translation, line by line", .arg = "FILE", .required = 1),
    ROW(STRING, "out_src", out_src, NULL, "where to write the source of what is kept, plain text",
        .arg = "FILE", .made = 1, .required = 1),
    ROW(STRING, "out_tgt", out_tgt, NULL, "where to write its translation", .arg = "FILE",
        .made = 1, .required = 1),
    ROW(STRING, "rejects", rejects, NULL,
        "where to write what is dropped: line number, reason, side, source, target; tab-separated",
        .arg = "FILE", .made = 1),
    JSON_ROW(json),
    THREADS_ROW(threads),
    QUIET_ROW(quiet),
    {.name = NULL},
};
static struct option_group groups[] = {
    {.rows = rows, .values = &args}, {.rows = clean_rows, .values = &options}, {.rows = NULL}};

enum { OUT_SRC, OUT_TGT, OUT_REJECTS, N_OUT };

struct job {
    struct pool *pool;
    struct cleaner *cleaner;
    struct pairs *pairs;
    struct file_writer out[N_OUT];
    struct clean_verdict *verdict;
    int cap;
    struct progress progress;
};

/* ---- options --------------------------------------------------------------------------------- */

static int ends_in(const char *path, const char *suffix) {
    size_t n = strlen(path), m = strlen(suffix);
    return n > m && strcmp(path + n - m, suffix) == 0;
}

/* An output must be none of the inputs, no other output, and not be called what it is not. */
static int check_output(int which, const char *const path[N_OUT], struct err *err) {
    static const char *const name[N_OUT] = {"out-src", "out-tgt", "rejects"};
    const char *out = path[which], *what = NULL;
    const char *in[2] = {args.src, args.tgt};
    if (!out) return 0;
    for (int i = 0; i < 2; i++)
        if (file_same(strcmp(in[i], "-") == 0 ? "/dev/stdin" : in[i], out)) what = "also an input";
    for (int i = 0; i < options.exclude.n; i++)
        if (file_same(options.exclude.item[i], out)) what = "also an input";
    for (int i = 0; i < which; i++)
        if (file_same_output(path[i], out)) what = "also another output";
    if (ends_in(out, ".gz") || ends_in(out, ".xz")) what = "a name for compressed text, not plain";
    return what ? cli_usage(err, "--%s: %.150s is %s; choose another file", name[which], out, what)
                : 0;
}

static int check_inputs(struct err *err) {
    int n = (strcmp(args.src, "-") == 0) + (strcmp(args.tgt, "-") == 0);
    for (int i = 0; i < options.exclude.n; i++) n += strcmp(options.exclude.item[i], "-") == 0;
    if (n > 1)
        return cli_usage(err, "clean: only one of --src, --tgt and the files of --exclude can be "
                              "standard input");
    if (options.max_words && options.min_words > options.max_words)
        return cli_usage(err, "--min-words: %d is more than --max-words %d; no pair would be kept",
                         options.min_words, options.max_words);
    return 0;
}

static int open_all(struct job *j, struct err *err) {
    const char *const path[N_OUT] = {args.out_src, args.out_tgt, args.rejects};
    int rc = check_inputs(err);
    for (int i = 0; i < N_OUT && !rc; i++) rc = check_output(i, path, err);
    if (!rc) rc = signals_watch(err);
    if (!rc) rc = pool_new(&j->pool, args.threads, err);
    if (!rc) rc = cleaner_new(&j->cleaner, &options, j->pool, err);
    if (!rc) rc = pairs_open(&j->pairs, args.src, args.tgt, err);
    for (int i = 0; i < N_OUT && !rc; i++)
        if (path[i]) rc = file_writer_open_output(&j->out[i], path[i], err);
    return rc;
}

/* ---- pairs ----------------------------------------------------------------------------------- */

static void write_line(struct file_writer *w, const struct line *line) {
    file_writer_write(w, line->text, line->size);
    file_writer_write(w, "\n", 1);
}

/* A column: tabs of the text itself become spaces. */
static void write_column(struct file_writer *w, const struct line *line) {
    for (size_t at = 0; at < line->size;) {
        size_t n = strcspn(line->text + at, "\t");
        file_writer_write(w, line->text + at, n);
        at += n;
        if (at < line->size) file_writer_write(w, " ", 1), at++;
    }
}

static void write_reject(struct file_writer *w, uint64_t number, const struct clean_verdict *v,
                         const struct pair *pair) {
    static const char *const side[] = {"source", "target", "pair"};
    file_writer_printf(w, "%llu\t%s\t%s\t", (unsigned long long)number, clean_reasons[v->why],
                       side[v->side]);
    write_column(w, &pair->side[0]);
    file_writer_write(w, "\t", 1);
    write_column(w, &pair->side[1]);
    file_writer_write(w, "\n", 1);
}

static void write_window(struct job *j, const struct pair *pair, int n) {
    uint64_t before = cleaner_report(j->cleaner)->n_read - (uint64_t)n;
    for (int i = 0; i < n; i++) {
        const struct clean_verdict *v = &j->verdict[i];
        if (v->why == CLEAN_KEPT)
            for (int s = 0; s < 2; s++) write_line(&j->out[s], &pair[i].side[s]);
        else if (args.rejects)
            write_reject(&j->out[OUT_REJECTS], before + (uint64_t)i + 1, v, &pair[i]);
    }
}

static int clean(struct job *j, struct err *err) {
    int n;
    while ((n = pairs_fill(j->pairs, err)) > 0) {
        if (signals_caught) return err_set(err, HEED_ECANCELLED, "stopped");
        if (n > j->cap) {
            j->cap = n;
            j->verdict = xrealloc(j->verdict, (size_t)n * sizeof *j->verdict);
        }
        cleaner_run(j->cleaner, j->verdict, pairs_window(j->pairs), n);
        write_window(j, pairs_window(j->pairs), n);
        const struct clean_report *r = cleaner_report(j->cleaner);
        if (progress_due(&j->progress, 10))
            progress_line(&j->progress, "%s pairs read, %s kept", text_grouped(r->n_read),
                          text_grouped(r->n_kept));
    }
    return n;
}

/* ---- the report ------------------------------------------------------------------------------ */

static void print_text(const struct clean_report *r) {
    printf("%s pair%s read, %s kept", text_grouped(r->n_read), PLURAL(r->n_read),
           text_grouped(r->n_kept));
    if (r->n_read) printf(" (%.2f %%)", 100.0 * (double)r->n_kept / (double)r->n_read);
    puts(r->n_kept < r->n_read ? "; dropped:" : "");
    for (int i = 0; i < CLEAN_N; i++)
        if (r->n_dropped[i])
            printf("  %-15s %10s  (first: line %s)\n", clean_reasons[i],
                   text_grouped(r->n_dropped[i]), text_grouped(r->first_dropped[i]));
}

static void print_json(const struct clean_report *r) {
    json_t *o = json_object(), *dropped = json_object();
    json_object_set_new(o, "read", json_integer((json_int_t)r->n_read));
    json_object_set_new(o, "kept", json_integer((json_int_t)r->n_kept));
    for (int i = 0; i < CLEAN_N; i++) {
        json_t *reason = json_object();
        json_object_set_new(reason, "pairs", json_integer((json_int_t)r->n_dropped[i]));
        json_object_set_new(reason, "first_line",
                            r->n_dropped[i] ? json_integer((json_int_t)r->first_dropped[i])
                                            : json_null());
        json_object_set_new(dropped, clean_reasons[i], reason);
    }
    json_object_set_new(o, "dropped", dropped);
    json_dumpf(o, stdout, JSON_COMPACT);
    putchar('\n');
    json_decref(o);
}

static void report(const struct job *j) {
    const struct clean_report *r = cleaner_report(j->cleaner);
    if (args.json)
        print_json(r);
    else
        print_text(r);
    if (args.quiet) return;
    fprintf(stderr, "%.1f s, tables of %.0f MB\n", clock_seconds() - j->progress.begin,
            (double)r->bytes / 1e6);
}

/* ---- the command ----------------------------------------------------------------------------- */

static int commit(struct job *j, struct err *err) {
    int rc = 0;
    if (args.rejects) rc = file_writer_commit(&j->out[OUT_REJECTS], err);
    if (!rc && !cleaner_report(j->cleaner)->n_kept)
        return err_set(err, HEED_EFORMAT, "no pair passes the filters; nothing is written%s",
                       args.rejects ? " but the rejects" : "");
    for (int s = 0; s < 2 && !rc; s++) rc = file_writer_sync(&j->out[s], err);
    for (int s = 0; s < 2 && !rc; s++) rc = file_writer_commit(&j->out[s], err);
    return rc;
}

static int run(struct err *err) {
    struct job j = {0};
    progress_begin(&j.progress, args.quiet);
    int rc = open_all(&j, err);
    if (!rc) rc = clean(&j, err);
    progress_end(&j.progress);
    if (!rc) {
        report(&j);
        rc = commit(&j, err);
    }
    for (int i = 0; i < N_OUT; i++) file_writer_abort(&j.out[i]);
    pairs_close(j.pairs);
    cleaner_free(j.cleaner);
    pool_free(j.pool);
    xfree(j.verdict);
    if (signals_caught) signals_end_by(signals_caught);
    return rc;
}

const struct command cmd_clean = {
    .name = "clean",
    .summary = "drop broken, foreign, unlike and repeated pairs of a corpus",
    .usage = "--src FILE --tgt FILE --out-src FILE --out-tgt FILE [options]",
    .about =
        "A pair is dropped for the first reason that holds: empty, broken, length, letters, "
        "word, repeated, markup, copy, ratio, fragment, numbers, language, excluded, duplicate, "
        "near-duplicate, repeated-side. The rest is written in order. The report counts every "
        "reason and names the first line that it applied to.",
    .groups = groups,
    .run = run};
