/* cmd_trees.c — `heed trees`: parse trees as text that a model can learn, and back (data/tree.h,
 * docs/parsing.md). A line in is a line out, everywhere. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "data/text.h"
#include "data/tokenizer.h"
#include "data/tree.h"

static struct trees_args {
    const char *input, *words, *like;
    int tags, strict;
} args;

#define OPTIONS_OF trees_args
#define INPUT_ROW                                                                                  \
    ROW(STRING, "input", input, "-", "what to read: plain, gzip, xz, or - for standard input",     \
        .arg = "FILE")
static const struct option plain_rows[] = {INPUT_ROW, {.name = NULL}};
static const struct option linearise_rows[] = {
    INPUT_ROW,
    ROW(FLAG, "tags", tags, NULL, "write the tag of each word in place of XX"),
    {.name = NULL},
};
static const struct option restore_rows[] = {
    INPUT_ROW,
    ROW(STRING, "words", words, NULL, "the sentences, one per line, words divided by spaces",
        .arg = "FILE", .required = 1),
    ROW(STRING, "like", like, NULL,
        "trees of the same sentences, whose tags words get; else punctuation alone has tags",
        .arg = "FILE"),
    ROW(FLAG, "strict", strict, NULL, "end with an error at a row that is no tree; do not repair"),
    {.name = NULL},
};
static struct option_group plain_groups[] = {{.rows = plain_rows, .values = &args}, {.rows = NULL}};
static struct option_group linearise_groups[] = {{.rows = linearise_rows, .values = &args},
                                                 {.rows = NULL}};
static struct option_group restore_groups[] = {{.rows = restore_rows, .values = &args},
                                               {.rows = NULL}};

/* ---- line by line ---------------------------------------------------------------------------- */

enum { MOST_FILES = 3 };
struct job {
    /* Makes the line to be written, or fails; more[0..]: the lines of the other files. */
    int (*line)(struct job *job, const struct line *line, const struct line *more, struct err *err);
    const char *path[MOST_FILES]; /* input first */
    int n_file;
    struct text *text[MOST_FILES];
    struct tree tree, like;
    struct buffer out;
    struct buffer symbols; /* of heed trees symbols, each with its NUL */
    uint64_t n_line, n_bad, changes;
    int silent; /* nothing is written for a line */
    int report; /* bad lines are told, and counted; else the first one ends it */
};

static const char *shown(const char *path) {
    return path[0] == '-' && !path[1] ? "standard input" : path;
}

/* The next line of every file: 1, 0 at the end, negative for an error. */
static int next_lines(struct job *job, struct line *line, struct err *err) {
    int n = 0;
    for (int i = 0; i < job->n_file; i++) {
        int rc = text_next(job->text[i], &line[i], err);
        if (rc < 0) return rc;
        if (rc && line[i].flags & LINE_TOO_LONG)
            return err_set(err, HEED_ELIMIT, "%.180s: line %llu is longer than %s bytes",
                           shown(job->path[i]), (unsigned long long)job->n_line + 1,
                           text_grouped(TEXT_MAX_LINE));
        n += rc;
    }
    if (n == 0 || n == job->n_file) return n > 0;
    for (int i = 1; i < job->n_file; i++) {
        uint64_t first = text_counts(job->text[0]).lines, other = text_counts(job->text[i]).lines;
        if (first == other) continue;
        return err_set(err, HEED_EFORMAT, "%.100s ends after %llu lines, before %.100s",
                       shown(job->path[first < other ? 0 : i]), (unsigned long long)job->n_line,
                       shown(job->path[first < other ? i : 0]));
    }
    return 0;
}

static int one_line(struct job *job, const struct line *line, struct err *err) {
    struct err why;
    job->out.size = 0;
    int rc = job->line(job, &line[0], &line[1], &why);
    job->n_line++;
    if (rc && !job->report)
        return err_set(err, rc, "%.180s: line %llu: %s", shown(job->path[0]),
                       (unsigned long long)job->n_line, why.msg);
    if (rc) {
        job->n_bad++;
        printf("%llu: %s\n", (unsigned long long)job->n_line, why.msg);
    } else if (!job->report && !job->silent) {
        buffer_puts(&job->out, "\n");
        fwrite(job->out.text, 1, job->out.size, stdout);
    }
    return 0;
}

static int work(struct job *job, struct err *err) {
    struct line line[MOST_FILES];
    int rc = 0;
    for (int i = 0; i < job->n_file && !rc; i++) rc = text_open(&job->text[i], job->path[i], err);
    while (!rc && (rc = next_lines(job, line, err)) > 0) rc = one_line(job, line, err);
    for (int i = 0; i < job->n_file; i++)
        if (job->text[i]) text_close(job->text[i]);
    tree_release(&job->tree);
    tree_release(&job->like);
    xfree(job->out.text);
    return rc;
}

static int run_plain(int (*line)(struct job *, const struct line *, const struct line *,
                                 struct err *),
                     struct err *err) {
    struct job job = {.line = line, .path = {args.input}, .n_file = 1};
    return work(&job, err);
}

/* ---- check, clean, words, linearise ---------------------------------------------------------- */

static int check_line(struct job *job, const struct line *line, const struct line *more,
                      struct err *err) {
    (void)more;
    int rc = tree_read(&job->tree, line->text, line->size, err);
    return rc ? rc : tree_check(&job->tree, err);
}

static int run_check(struct err *err) {
    struct job job = {.line = check_line, .path = {args.input}, .n_file = 1, .report = 1};
    int rc = work(&job, err);
    if (rc) return rc;
    if (job.n_bad)
        return err_set(err, HEED_EFORMAT, "%.180s: %s of %s lines are no trees", shown(args.input),
                       text_grouped(job.n_bad), text_grouped(job.n_line));
    fprintf(stderr, "heed: %s: trees, all whole: %s\n", shown(args.input),
            text_grouped(job.n_line));
    return 0;
}

static int clean_line(struct job *job, const struct line *line, const struct line *more,
                      struct err *err) {
    (void)more;
    int rc = tree_read(&job->tree, line->text, line->size, err);
    if (rc) return rc;
    tree_clean(&job->tree);
    tree_put(&job->out, &job->tree);
    return 0;
}
static int run_clean(struct err *err) { return run_plain(clean_line, err); }

static int words_line(struct job *job, const struct line *line, const struct line *more,
                      struct err *err) {
    int rc = check_line(job, line, more, err);
    if (!rc) tree_put_words(&job->out, &job->tree);
    return rc;
}
static int run_words(struct err *err) { return run_plain(words_line, err); }

static int linearise_line(struct job *job, const struct line *line, const struct line *more,
                          struct err *err) {
    int rc = check_line(job, line, more, err);
    if (!rc) tree_put_row(&job->out, &job->tree, args.tags);
    return rc;
}
static int run_linearise(struct err *err) { return run_plain(linearise_line, err); }

/* ---- restore --------------------------------------------------------------------------------- */

static int restore_line(struct job *job, const struct line *line, const struct line *more,
                        struct err *err) {
    int rc = 0, changes = 0;
    if (args.strict)
        rc = tree_read_row(&job->tree, line->text, line->size, err);
    else
        changes = tree_repair(&job->tree, line->text, line->size,
                              tree_words_in(more[0].text, more[0].size));
    if (!rc && args.like) rc = tree_read(&job->like, more[1].text, more[1].size, err);
    if (!rc)
        rc = tree_fill(&job->tree, more[0].text, more[0].size, args.like ? &job->like : NULL, err);
    if (!rc && args.strict) rc = tree_check(&job->tree, err);
    if (rc) return rc;
    job->n_bad += changes > 0;
    job->changes += (uint64_t)changes;
    tree_put(&job->out, &job->tree);
    return 0;
}

static int run_restore(struct err *err) {
    struct job job = {.line = restore_line,
                      .path = {args.input, args.words, args.like},
                      .n_file = args.like ? 3 : 2};
    int rc = work(&job, err);
    if (!rc && job.n_bad)
        fprintf(stderr, "heed: %s: repaired %s of %s trees, with %s changes\n", shown(args.input),
                text_grouped(job.n_bad), text_grouped(job.n_line), text_grouped(job.changes));
    return rc;
}

/* ---- symbols --------------------------------------------------------------------------------- */

static int symbols_line(struct job *job, const struct line *line, const struct line *more,
                        struct err *err) {
    (void)more;
    int rc = tree_read_row(&job->tree, line->text, line->size, err);
    if (!rc) rc = tree_check(&job->tree, err);
    return rc ? rc : tree_list_symbols(&job->symbols, &job->tree, TOKENIZER_MAX_SYMBOL, err);
}

static int run_symbols(struct err *err) {
    struct job job = {.line = symbols_line, .path = {args.input}, .n_file = 1, .silent = 1};
    int rc = work(&job, err);
    for (size_t at = 0; at < job.symbols.size && !rc; at += strlen(job.symbols.text + at) + 1) {
        if (at) printf(",");
        for (const char *p = job.symbols.text + at; *p; p++) printf(*p == ',' ? "\\," : "%c", *p);
    }
    if (!rc) printf("\n");
    xfree(job.symbols.text);
    return rc;
}

/* ---- the commands ---------------------------------------------------------------------------- */

static const char linearise_about[] =
    "The tree (S (NP (DT The) (NN cat)) (VP (VBZ sleeps))) becomes (S (NP XX XX )NP (VP XX )VP )S: "
    "what a model learns to write when it reads The cat sleeps.";
static const char restore_about[] =
    "Reads what a model wrote and puts the words back. Rows that are no trees are repaired: "
    "brackets that close nothing go, open ones are closed, words that are missing come at the end.";
static const char symbols_about[] =
    "Reads rows of heed trees linearise and prints what --symbols of heed vocab needs to make "
    "every "
    "bracket and every word of a tree one piece, as --trees of heed translate wants it.";
static const char clean_about[] =
    "Empty elements (-NONE-) go, and phrases that have nothing else; labels lose functions and "
    "indices (NP-SBJ-1 becomes NP); NP in NP is one; the outermost bracket is called ROOT where it "
    "has no label.";

static const struct command check = {.name = "trees check",
                                     .summary = "tell which lines are no trees",
                                     .groups = plain_groups,
                                     .run = run_check};
static const struct command clean = {.name = "trees clean",
                                     .summary = "make of a treebank's trees what a parser learns",
                                     .about = clean_about,
                                     .groups = plain_groups,
                                     .run = run_clean};
static const struct command words = {.name = "trees words",
                                     .summary = "the words of trees, divided by spaces",
                                     .groups = plain_groups,
                                     .run = run_words};
static const struct command linearise = {.name = "trees linearise",
                                         .summary = "write trees as rows of tokens",
                                         .about = linearise_about,
                                         .groups = linearise_groups,
                                         .run = run_linearise};
static const struct command restore = {.name = "trees restore",
                                       .summary = "make trees of rows of tokens and sentences",
                                       .usage = "--words FILE [options]",
                                       .about = restore_about,
                                       .groups = restore_groups,
                                       .run = run_restore};

static const struct command symbols = {.name = "trees symbols",
                                       .summary = "the tokens of rows, for heed vocab --symbols",
                                       .about = symbols_about,
                                       .groups = plain_groups,
                                       .run = run_symbols};

static const struct command *const sub[] = {&check,   &clean,   &words, &linearise,
                                            &symbols, &restore, NULL};
const struct command cmd_trees = {
    .name = "trees", .summary = "parse trees as text that models learn, and back", .sub = sub};
