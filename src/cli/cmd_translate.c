/* cmd_translate.c — `heed translate`: lines in, translations out, in the same order, as they come.
 *
 * A window of lines is read (feed.h), translated (search/translator.h) and written (outlet.h); then
 * the next, or on a GPU two at a time (lanes.h). The first window is one batch, so that something
 * is seen soon, and windows grow to --look-ahead, so that sorting pays.
 *
 * Ctrl-C, SIGTERM and SIGHUP end it after a whole line, by the signal itself, as scripts expect; so
 * does a reader that goes away (SIGPIPE). */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "cli/prompt.h"
#include "cli/ranks.h"
#include "cli/signals.h"
#include "cli/translate_print.h"
#include "model/card.h"
#include "model/modeldir.h"
#include "search/defaults.h"
#include "text/deal.h"
#include "text/document.h"
#include "text/lanes.h"
#include "text/pages.h"
#include "train/target.h"

/* ---- options --------------------------------------------------------------------------------- */

static struct translate_args {
    struct option_list model, files;
    const char *output, *prefix, *from, *to, *glossary;
    enum precision precision;
    struct backend_options where;
    struct ranks_options ranks;
    int glossary_reverse;
    int nbest, scores, json, html, document, look_ahead, lanes, quiet, stats, interactive;
} args;
static struct translator_options options;

#define OPTIONS_OF translate_args
static const struct option rows[] = {
    ROW(WORDS, "files", files, NULL, "text to translate; if not given, standard input",
        .arg = "FILE"),
    ROW(LIST, "model", model, NULL,
        "a model: its name (see heed models) or its directory; repeat it for an ensemble of models "
        "with the same tokenizer",
        .arg = "MODEL"),
    ROW(STRING, "from", from, NULL, "language of the text, in place of --model: a tag such as en",
        .arg = "LANGUAGE"),
    ROW(STRING, "to", to, NULL, "language to translate into, in place of --model",
        .arg = "LANGUAGE"),
    ROW(STRING, "output", output, NULL, "where to write; standard output if not given, or -",
        .arg = "FILE"),
    ROW(INT, "nbest", nbest, "0",
        "print the N best: INDEX ||| TEXT ||| SCORE; the beam is at least N where --beam does not "
        "say otherwise; 0: only the best, as plain text",
        .max = SEARCH_MAX_BEAM),
    ROW(FLAG, "scores", scores, NULL, "print TEXT ||| SCORE"),
    JSON_ROW(json),
    ROW(FLAG, "html", html, NULL, "the same as --format html: each FILE is a document"),
    ROW(FLAG, "document", document, NULL,
        "FILE is a document of the format that its name says, .txt, .srt, .html, .md, .docx or "
        ".odt, and so is what comes out; of .docx and .odt, this need not be said"),
    ROW(FLAG, "interactive", interactive, NULL,
        "ask for lines with a prompt, with line editing, a history and commands; :help lists them"),
    ROW(STRING, "prefix", prefix, NULL,
        "file whose lines say what each translation must begin with", .arg = "FILE"),
    ROW(STRING, "glossary", glossary, NULL,
        "terms and how to translate them, a line each: TERM, a tab, TRANSLATION", .arg = "FILE"),
    ROW(FLAG, "glossary_reverse", glossary_reverse, NULL,
        "the glossary is of the other direction: TRANSLATION, a tab, TERM"),
    ROW(INT, "look_ahead", look_ahead, "0",
        "lines read and sorted at a time; 0: as many as make 32 batches", .max = MAX_LOOK_AHEAD),
    ROW(INT, "lanes", lanes, "0",
        "translate as many --look-ahead at the same time; 0: two on a GPU, else one",
        .max = MAX_LANES),
    PRECISION_ROW(precision),
    DEVICE_ROWS(where, "auto"),
    RANKS_ROWS(ranks),
    QUIET_ROW(quiet),
    ROW(FLAG, "stats", stats, NULL, "print speed and latency to standard error at the end"),
    {.name = NULL},
};
static struct option_group groups[] = {{.rows = rows, .values = &args},
                                       {.rows = search_rows, .values = &options.search},
                                       {.rows = translator_rows, .values = &options},
                                       {.rows = NULL}};

/* Files are documents, not lines. */
static int of_files(void) { return options.format == FORMAT_HTML || args.document; }

/* ---- running --------------------------------------------------------------------------------- */

/* What users are warned of at the end: "1 line was", "2 lines were" ... */
enum { REPLACED, REPLACED_PREFIX, SPLIT, CUT, MISSED, N_TALLY };
static const struct warning {
    const char *one, *more, *what;
} warnings[N_TALLY] = {
    [REPLACED] = {"", "", "contained bytes that are not UTF-8, read as U+FFFD"},
    [REPLACED_PREFIX] = {"has a prefix", "have prefixes",
                         " with bytes that are not UTF-8, read as U+FFFD"},
    [SPLIT] = {"was", "were", " split: too many tokens for the model"},
    [CUT] = {"has a translation", "have translations", " that a length limit cut off"},
    [MISSED] = {"has a translation", "have translations", " without a term of the glossary"}};

/* How often something happened, and where first. */
struct tally {
    uint64_t n, first;
    char *name; /* of the first: "line", "FILE: line" */
};

struct session {
    struct comm *comm;
    struct engine *engine;
    struct lanes_setup setup;
    struct lanes *lanes;
    struct feed *feed;
    struct outlet out;
    struct print_options print;
    struct progress progress;
    struct tally tally[N_TALLY];
    unsigned char *note; /* [n_note] of the lines that this rank has just translated */
    int n_note, note_room;
    double load_seconds, begin;
};

/* The rank that reads and writes; in a process alone, this one. */
static int leads(const struct session *s) { return s->comm->rank == 0; }

static void tally_add(struct tally *t, const struct feed_line *line) {
    if (t->n++ > 0) return;
    t->first = line->number;
    t->name = xstrdup(line->name);
}

static void warn(const struct tally *t, const struct warning *w) {
    if (t->n == 0 || args.quiet) return;
    fprintf(stderr, "heed: warning: %s line%s %s%s; the first is %s %s\n", text_grouped(t->n),
            PLURAL(t->n), t->n == 1 ? w->one : w->more, w->what, t->name, text_grouped(t->first));
}

/* The output must be neither an input nor a file of a model. */
static int check_output(const char *const *path, int n_path, struct err *err) {
    const char *out = args.output, *what = NULL;
    if (args.prefix && file_same(args.prefix, out)) what = "also an input";
    for (int i = 0; i < n_path; i++)
        if (file_same(strcmp(path[i], "-") == 0 ? "/dev/stdin" : path[i], out))
            what = "also an input";
    for (int i = 0; i < args.model.n; i++)
        if (target_holds(args.model.item[i], out)) what = "a file of the model";
    return what ? cli_usage(err, "--output: %.150s is %s; choose another file", out, what) : 0;
}

/* All that were opened, until the end: --interactive may return to a model. */
static struct {
    struct glossary **item;
    int n;
} glossaries;

/* The glossary for the model's direction. */
static int find_glossary(const struct engine *engine, struct err *err) {
    struct glossary *g;
    struct card card;
    if (!args.glossary) return 0;
    if (strcmp(args.glossary, "-") == 0)
        return cli_usage(err, "--glossary: needs a file; standard input is for the text");
    int rc = card_from_json(&card, frozen_notes(engine->ensemble->model[0])->card, "", err);
    if (!rc)
        rc = glossary_open(
            &g,
            &(struct glossary_file){args.glossary, card.source, card.target, args.glossary_reverse},
            err);
    if (rc) return rc;
    glossaries.item =
        xrealloc(glossaries.item, ((size_t)glossaries.n + 1) * sizeof(struct glossary *));
    options.glossary = glossaries.item[glossaries.n++] = g;
    return 0;
}

static void free_glossaries(void) {
    for (int i = 0; i < glossaries.n; i++) glossary_free(glossaries.item[i]);
    xfree(glossaries.item);
}

/* What the model is best run with, where the user has not said otherwise. */
static int options_for(struct translator_options *out, const struct engine *engine,
                       struct err *err) {
    struct translator_options own = defaults_of(engine);
    options_take(groups, search_rows, &own.search);
    options.search.n_best = args.nbest ? args.nbest : 1;
    /* A beam finds at most as many as it is wide. */
    if (args.nbest > options.search.beam && !options_given(groups, "beam"))
        options.search.beam = args.nbest;
    if (!options.language) options.language = args.from;
    if (options.format == FORMAT_HTML) options.alignment = ALIGNMENT_WORDS;
    int rc = find_glossary(engine, err);
    *out = options;
    return rc;
}

static int open_parts(struct session *s, const char *const *path, int n_path, struct err *err) {
    struct engine_options from = {.dir = args.model.item,
                                  .n = args.model.n,
                                  .precision = args.precision,
                                  .where = args.where};
    int rc = outlet_is_file(args.output) ? check_output(path, n_path, err) : 0;
    if (!rc) rc = signals_watch(err);
    if (!rc) rc = engine_open(&s->engine, &from, err);
    if (!rc) rc = options_for(&options, s->engine, err);
    static const struct translator_poll poll = {signals_poll, NULL};
    s->setup =
        (struct lanes_setup){s->engine, &options, &args.where, args.lanes, args.look_ahead, &poll};
    if (!rc) rc = lanes_new(&s->lanes, &s->setup, err);
    if (!rc && leads(s) && !of_files())
        rc = feed_open(&s->feed, path, n_path, args.prefix, signals_fd(), err);
    if (!rc && leads(s)) rc = outlet_open(&s->out, args.output, err);
    return rc;
}

static int session_open(struct session *s, const char *const *path, int n_path, struct err *err) {
    double begin = clock_seconds();
    int rc = ranks_open(&s->comm, &args.ranks, &args.where, err);
    if (rc) return rc;
    if (s->comm->size > 1 && of_files())
        rc = cli_usage(err, "documents are translated by one process, not by %d ranks",
                       s->comm->size);
    if (!rc) rc = open_parts(s, path, n_path, err);
    rc = ranks_agree(s->comm, rc, err);
    if (rc) return rc;
    s->print = (struct print_options){.json = args.json,
                                      .nbest = args.nbest,
                                      .scores = args.scores,
                                      .own_ends = options.format == FORMAT_TEXT && !args.nbest &&
                                                  !args.scores && !options.alignment,
                                      .alignment = options.alignment,
                                      .source = s->engine->source,
                                      .target = s->engine->target};
    s->begin = clock_seconds();
    s->load_seconds = s->begin - begin;
    progress_begin(&s->progress, args.quiet);
    return 0;
}

static void session_close(struct session *s) {
    char *part = outlet_close(&s->out);
    if (part && !args.quiet)
        fprintf(stderr, "heed: the lines that were finished are in %s\n", part);
    xfree(part);
    feed_close(s->feed);
    lanes_free(s->lanes);
    free_glossaries();
    engine_close(s->engine);
    for (int i = 0; i < N_TALLY; i++) xfree(s->tally[i].name);
    xfree(s->note);
    comm_close(s->comm);
}

/* Seconds in which something was searched, to divide by: lanes search at the same time. */
static double searching(const struct session *s) {
    double sum = lanes_stats(s->lanes)->seconds, ran = clock_seconds() - s->begin;
    return (sum < ran ? sum : ran) + 1e-9;
}

static void show_progress(struct session *s) {
    const struct translator_stats *st = lanes_stats(s->lanes);
    if (!s->progress.terminal || isatty(s->out.fd) || !progress_due(&s->progress, 0)) return;
    progress_line(&s->progress, "%s lines  %s tokens/s", text_grouped(st->texts),
                  text_grouped((uint64_t)((double)st->tgt_tokens / searching(s))));
}

static void tally(struct session *s, const struct feed_line *line, unsigned notes) {
    const unsigned happened[N_TALLY] = {[REPLACED] = line->flags & LINE_REPLACED,
                                        [REPLACED_PREFIX] = line->prefix_flags & LINE_REPLACED,
                                        [SPLIT] = notes & TRANSLATION_SPLIT,
                                        [CUT] = notes & TRANSLATION_CUT,
                                        [MISSED] = notes & TRANSLATION_MISSED};
    for (int i = 0; i < N_TALLY; i++)
        if (happened[i]) tally_add(&s->tally[i], line);
}

static int flush(struct session *s, struct err *err) {
    progress_end(&s->progress);
    int rc = outlet_flush(&s->out, &signals_caught, err);
    if (!rc) show_progress(s);
    return rc;
}

/* Writes a window of n lines. */
static int answer(void *ctx, const struct feed_line *line, const struct translation *result, int n,
                  struct err *err) {
    struct session *s = ctx;
    for (int i = 0; i < n && result[i].n > 0; i++) {
        translate_print(&s->out, &s->print, &line[i], &result[i]);
        tally(s, &line[i], result[i].notes);
    }
    return flush(s, err);
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* Prints a window without writing it. */
static int keep_answer(void *ctx, const struct feed_line *line, const struct translation *result,
                       int n, struct err *err) {
    struct session *s = ctx;
    (void)err;
    s->out.used = 0;
    for (s->n_note = 0; s->n_note < n && result[s->n_note].n > 0; s->n_note++) {
        GROW(s->note, s->n_note, s->note_room);
        s->note[s->n_note] = (unsigned char)result[s->n_note].notes;
        translate_print(&s->out, &s->print, &line[s->n_note], &result[s->n_note]);
    }
    return 0;
}

static int translate_window(void *ctx, const struct feed_line *line, int n, struct deal_answer *out,
                            struct err *err) {
    struct session *s = ctx;
    int rc = lanes_window(s->lanes, line, n, &(struct lanes_writer){keep_answer, s}, err);
    *out = (struct deal_answer){
        .bytes = s->out.bytes, .size = s->out.used, .note = s->note, .n_done = s->n_note};
    return rc;
}

static int write_window(void *ctx, const struct feed_line *line, int n,
                        const struct deal_answer *from, struct err *err) {
    struct session *s = ctx;
    (void)n;
    for (int i = 0; i < from->n_done; i++) tally(s, &line[i], from->note[i]);
    if (from->bytes == s->out.bytes)
        s->out.used = from->size; /* its own are there */
    else
        outlet_put(&s->out, from->bytes, from->size);
    return flush(s, err);
}

static int translate_lines(struct session *s, struct err *err) {
    if (s->comm->size == 1)
        return lanes_run(s->lanes, s->feed, &(struct lanes_writer){answer, s}, err);
    struct deal_ops ops = {s, translate_window, write_window};
    int rc = deal_run(s->comm, s->lanes, s->feed, &ops, err);
    lanes_gather(s->lanes, s->comm);
    return rc ? rc : comm_check(s->comm, err);
}

/* ---- documents ------------------------------------------------------------------------------- */

/* A file that is translated as a whole. */
struct file {
    char *bytes;
    struct document *document;
};

static int is_office(const char *path) {
    enum document_kind kind;
    struct err none = {0};
    return !document_kind(&kind, path, &none) && (kind == DOCUMENT_DOCX || kind == DOCUMENT_ODT);
}

/* Before signals are watched: Ctrl-C ends the reading at once. */
static int read_file(struct file *file, const char *path, struct err *err) {
    const char *from = strcmp(path, "-") == 0 ? "/dev/stdin" : path;
    enum document_kind kind = DOCUMENT_HTML;
    struct err inner = {0};
    size_t size;
    int rc = args.document ? document_kind(&kind, path, err) : 0;
    if (!rc) rc = file_read_all(&file->bytes, &size, from, DOCUMENT_MAX, err);
    if (rc) return rc;
    rc = document_read(&file->document, kind, file->bytes, size, &inner);
    if (rc) return err_set(err, rc, "%.150s: %.200s", path, inner.msg);
    options.format = (int)document_format(file->document);
    return 0;
}

static int read_files(struct file *file, const char *const *path, int n, struct err *err) {
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) rc = read_file(&file[i], path[i], err);
    return rc;
}

static void free_files(struct file *file, int n) {
    for (int i = 0; i < n; i++) {
        document_free(file[i].document);
        xfree(file[i].bytes);
    }
    xfree(file);
}

static int translate_files(struct session *s, const struct file *file, const char *const *path,
                           int n, struct err *err) {
    static const struct translator_poll poll = {signals_poll, NULL};
    struct pages *pages = lanes_pages(s->lanes);
    int rc = 0;
    for (int i = 0; i < n && !rc; i++) {
        struct pages_file out = {0};
        rc = pages_document(pages, file[i].document, &out, &poll, err);
        if (!rc) outlet_put(&s->out, out.bytes, out.size);
        xfree(out.bytes);
        if (!rc) rc = outlet_flush(&s->out, &signals_caught, err);
        if ((out.notes & TRANSLATION_CUT) && !args.quiet)
            fprintf(stderr, "heed: warning: %s: a length limit cut off a sentence\n", path[i]);
    }
    return rc;
}

/* What the search consisted of, and what came before and after it. */
static void print_work(const struct translator_stats *st) {
    const struct search_stats *x = &st->search;
    const uint64_t count[] = {x->steps, x->rows, x->computed, x->anew};
    static const char *const key[] = {"steps", "rows", "computed_rows", "steps_anew"};
    static const char *const behind[] = {" steps of ", " rows, computed as ", " rows, ",
                                         " steps not replayed\n"};
    for (int i = 0; i < 4; i++) {
        if (args.json)
            fprintf(stderr, ",\"%s\":%llu", key[i], (unsigned long long)count[i]);
        else
            fprintf(stderr, "%s%s", text_grouped(count[i]), behind[i]);
    }
    fprintf(stderr,
            args.json
                ? ",\"waited_seconds\":%.4f,\"prepare_seconds\":%.4f,\"read_seconds\":%.4f}\n"
                : "waited for the device for %.3f s; to tokens in %.3f s, to text in %.3f s\n",
            x->waited, st->preparing, st->reading);
}

static void print_stats(const struct session *s) {
    const struct translator_stats *st = lanes_stats(s->lanes);
    const uint64_t count[] = {st->texts, st->sentences, st->batches, st->src_tokens,
                              st->tgt_tokens};
    static const char *const key[] = {"lines", "sentences", "batches", "source_tokens",
                                      "target_tokens"};
    static const char *const behind[] = {" lines, ", " sentences in ", " batches, ", " source and ",
                                         " target tokens\n"};
    double seconds = clock_seconds() - s->begin, search = searching(s);
    for (int i = 0; i < 5; i++) {
        if (args.json)
            fprintf(stderr, "%s\"%s\":%llu", i ? "," : "{", key[i], (unsigned long long)count[i]);
        else
            fprintf(stderr, "%s%s", text_grouped(count[i]), behind[i]);
    }
    fprintf(stderr,
            args.json ? ",\"load_seconds\":%.4f,\"seconds\":%.4f,\"search_seconds\":%.4f,"
                        "\"tokens_per_s\":%.1f,\"sentences_per_s\":%.2f,\"batch_p50_ms\":%.3f,"
                        "\"batch_p99_ms\":%.3f"
                      : "loaded in %.3f s, ran for %.3f s, searching for %.3f s of it\n%.1f target "
                        "tokens/s, %.2f sentences/s, batches p50 %.3f ms, p99 %.3f ms\n",
            s->load_seconds, seconds, search, (double)st->tgt_tokens / search,
            (double)st->sentences / search, 1e3 * translator_latency(st, 0.5),
            1e3 * translator_latency(st, 0.99));
    print_work(st);
    char opening[256];
    if (!args.json)
        fprintf(stderr, "opening: %s\n", engine_opening(s->engine, opening, sizeof opening));
}

static int work(const char *const *path, int n_path, struct err *err) {
    struct session s = {.out = {.fd = -1}};
    struct file *file = xcalloc((size_t)n_path + 1, sizeof *file);
    int rc = of_files() ? read_files(file, path, n_path, err) : 0;
    if (!rc) rc = session_open(&s, path, n_path, err);
    if (!rc)
        rc = of_files() ? translate_files(&s, file, path, n_path, err) : translate_lines(&s, err);
    free_files(file, n_path);
    if (!rc && leads(&s)) rc = outlet_commit(&s.out, err);
    progress_end(&s.progress);
    int closed = s.out.closed;
    if (s.begin > 0 && leads(&s) && !signals_caught && !closed) {
        for (int i = 0; i < N_TALLY; i++) warn(&s.tally[i], &warnings[i]);
        if (args.stats) print_stats(&s);
    }
    session_close(&s);
    if (signals_caught || closed) signals_end_by(closed ? SIGPIPE : signals_caught);
    return rc;
}

/* `option` does not go with the others. */
static int alone(const char *option, const char *const *others, struct err *err) {
    for (int i = 0; others[i]; i++)
        if (options_given(groups, others[i]))
            return cli_usage(err, "--%s and --%s do not go together", option, others[i]);
    return 0;
}

static int interactive(struct err *err) {
    static const char *const filter[] = {"output", "nbest",    "scores", "json",
                                         "html",   "document", "prefix", "look-ahead",
                                         "lanes",  "stats",    "ranks",  NULL};
    if (args.files.n)
        return cli_usage(err, "--interactive asks for its lines: leave it out to translate %.150s",
                         args.files.item[0]);
    int rc = alone("interactive", filter, err);
    if (!rc) rc = signals_watch(err);
    if (!rc)
        rc = prompt_run(&(struct prompt_options){.from = {.dir = args.model.item,
                                                          .n = args.model.n,
                                                          .precision = args.precision,
                                                          .where = args.where},
                                                 .options = options_for,
                                                 .quiet = args.quiet},
                        err);
    free_glossaries();
    if (signals_caught) signals_end_by(signals_caught);
    return rc;
}

/* What goes together and what does not. */
static int check_args(struct err *err) {
    if (args.model.n && (args.from || args.to))
        return cli_usage(err, "--%s chooses a model, and --model does, too; give one of them",
                         args.from ? "from" : "to");
    static const char *const lines[] = {"nbest",      "scores", "json",  "alignment", "prefix",
                                        "look-ahead", "lanes",  "ranks", NULL};
    static const char *const others[] = {"format", "html", NULL};
    int office = 0, rc;
    if (args.interactive) return 0;
    for (int i = 0; i < args.files.n; i++) office |= is_office(args.files.item[i]);
    args.document |= office;
    if (args.document && (rc = alone("document", others, err))) return rc;
    if (args.document && args.files.n != 1)
        return cli_usage(err, "%s: one FILE at a time, not %d",
                         office ? ".docx and .odt" : "--document", args.files.n);
    if (args.html) options.format = FORMAT_HTML;
    const char *what = args.html ? "html" : args.document ? "document" : "format html";
    return of_files() ? alone(what, lines, err) : 0;
}

static int run(struct err *err) {
    static const char *const standard_input[] = {"-"};
    int rc = check_args(err);
    if (!rc && !args.interactive) rc = ranks_launch(&args.ranks, &(struct ranks_job){0}, err);
    args.quiet |= !ranks_first();
    if (!rc && !args.model.n) rc = models_choose(&args.model, args.from, args.to, args.quiet, err);
    if (rc) return rc;
    if (args.interactive) return interactive(err);
    return args.files.n ? work(args.files.item, args.files.n, err) : work(standard_input, 1, err);
}

static const char about[] =
    "One line out for every line in, in order, translated as a whole unless --format says "
    "otherwise; reads standard input if no FILE is given. "
    "With --html or --document, FILEs are documents, and what comes out is the same document in "
    "the other language. "
    "The output does not depend on batches or the number of threads. The --output file "
    "is replaced once everything is translated; after an error, Ctrl-C, SIGTERM, SIGHUP or "
    "SIGPIPE, FILE.part has the lines finished so far.";

const struct command cmd_translate = {.name = "translate",
                                      .summary = "translate text, one sentence per line",
                                      .usage = "[--model MODEL] [options] [FILE...]",
                                      .about = about,
                                      .groups = groups,
                                      .run = run};
