/* main.c — the `heed` command: finds the sub-command, prints its error, exits.
 *
 * Exit status: 0 success, 2 where the command line, its environment or its --config file asks for
 * something wrong (HEED_EINVAL, HEED_ECONFIG), 1 for every other failure, such as a damaged
 * file. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/similar.h"
#include "cli/cli.h"
#include "cli/completion.h"
#include "cli/manual.h"
#include "cli/ranks.h"
#include "cli/signals.h"

static const struct command cmd_help, cmd_manual, cmd_completion;
static const struct command *const commands[] = {
    &cmd_clean,  &cmd_vocab,  &cmd_words,    &cmd_train,      &cmd_translate,
    &cmd_score,  &cmd_align,  &cmd_attend,   &cmd_eval,       &cmd_average,
    &cmd_import, &cmd_export, &cmd_quantize, &cmd_inspect,    &cmd_describe,
    &cmd_models, &cmd_serve,  &cmd_trees,    &cmd_sweep,      &cmd_plot,
    &cmd_bench,  &cmd_help,   &cmd_manual,   &cmd_completion, NULL};

/* ---- finding --------------------------------------------------------------------------------- */

/* The command that word names; within: of which it is a part, or NULL. */
static int find(const struct command **found, const struct command *within, const char *word,
                struct err *err) {
    const struct command *const *list = within ? within->sub : commands;
    struct similar similar = {.word = word, .length = strlen(word)};
    for (int i = 0; list[i]; i++) {
        if (strcmp(command_name(list[i]), word) == 0) return *found = list[i], 0;
        similar_try(&similar, command_name(list[i]));
    }
    if (!within) similar_try(&similar, "--help"), similar_try(&similar, "--version");
    return err_set(err, HEED_EINVAL, "there is no command '%s%s%.60s'%s%s%s",
                   within ? within->name : "", within ? " " : "", word,
                   similar.best ? "; did you mean " : "", similar.best ? similar.best : "",
                   similar.best ? "?" : "");
}

static void help(FILE *out) {
    fprintf(out,
            "heed %s — the Transformer of \"Attention Is All You Need\"\n\n"
            "usage: heed COMMAND [options]\n\n",
            HEED_VERSION);
    for (int i = 0; commands[i]; i++)
        fprintf(out, "  %-12s %s\n", commands[i]->name, commands[i]->summary);
    fprintf(out, "\n`heed COMMAND --help` or `heed help COMMAND` lists a command's options.\n"
                 "An option whose value ends in dots takes all words up to the next option.\n");
}

/* ---- commands about commands ----------------------------------------------------------------- */

static struct about_args { struct option_list words; } about;
#define OPTIONS_OF about_args

static int run_help(struct err *err) {
    const struct command *c = NULL;
    int rc = 0;
    for (int i = 0; !rc && i < about.words.n; i++) {
        if (i && !c->sub) return cli_usage(err, "heed %s has no sub-commands", c->name);
        rc = find(&c, c, about.words.item[i], err);
    }
    if (rc) return rc;
    if (c)
        options_help(c);
    else
        help(stdout);
    return 0;
}

static int run_manual(struct err *err) {
    (void)err;
    manual_print(commands);
    return 0;
}

static int run_completion(struct err *err) {
    int shell = 0, rc = 0;
    struct err why;
    if (about.words.n && choice_parse(&shell, completion_shells, about.words.item[0], &why))
        rc = cli_usage(err, "completion: %s", why.msg);
    if (!rc) completion_print(shell);
    return rc;
}

static const struct option help_rows[] = {
    ROW(WORDS, "command", words, NULL, "which command", .arg = "COMMAND", .max = 2),
    {.name = NULL}};
static const struct option completion_rows[] = {ROW(WORDS, "shell", words, NULL, "which shell",
                                                    .arg = "SHELL", .max = 1,
                                                    .choices = completion_shells),
                                                {.name = NULL}};
static struct option_group help_groups[] = {{.rows = help_rows, .values = &about}, {.rows = NULL}};
static struct option_group manual_groups[] = {{.rows = NULL}};
static struct option_group completion_groups[] = {{.rows = completion_rows, .values = &about},
                                                  {.rows = NULL}};

static const struct command cmd_help = {.name = "help",
                                        .summary = "list the commands, or the options of one",
                                        .usage = "[COMMAND]",
                                        .groups = help_groups,
                                        .run = run_help};
static const struct command cmd_manual = {.name = "manual",
                                          .summary = "print the manual page (roff)",
                                          .usage = "| man -l -",
                                          .groups = manual_groups,
                                          .run = run_manual};
static const struct command cmd_completion = {.name = "completion",
                                              .summary =
                                                  "print a completion script for bash, zsh or fish",
                                              .usage = "[bash|zsh|fish]",
                                              .groups = completion_groups,
                                              .run = run_completion};

/* ---- running --------------------------------------------------------------------------------- */

/* A closed descriptor 0, 1 or 2 would be given to the next file that is opened, and output would go
 * into it. Each is opened the wrong way round, so that using it fails as if it were closed. */
static void reserve_descriptors(void) {
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) return;
}

/* The last output may only fail when it is flushed: a full disk must not look like success. */
static int finish(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (errno == EPIPE && signals_caught == SIGPIPE) signals_end_by(SIGPIPE);
    if (errno != EPIPE) fprintf(stderr, "heed: writing output: %s\n", strerror(errno));
    return status ? status : 1;
}

static int is_help(const char *word) {
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* argv[0] names a command (of `within`); *used is the command that ran or was misused. */
static int run(const struct command **used, const struct command *within, int argc, char **argv,
               struct err *err) {
    if (argc < 1) return cli_usage(err, "%s: which command?", within->name);
    const struct command *c;
    int rc = find(&c, within, argv[0], err);
    if (rc) return rc;
    *used = c;
    if (c->sub && argc > 1 && is_help(argv[1])) return options_help(c), 0;
    if (c->sub) return run(used, c, argc - 1, argv + 1, err);
    rc = options_parse(c, argc - 1, argv + 1, err);
    return rc > 0 ? 0 : rc < 0 ? rc : c->run(err);
}

/* The library calls an option max_source; here it is --max-source. That goes for errors of usage:
 * other messages begin with the name of a file, which may well be "seed". */
static void complain(const struct command *used, const struct err *err) {
    struct option_group *g;
    struct option_words words = {0};
    int usage = err->code == HEED_EINVAL || err->code == HEED_ECONFIG || err->code == HEED_ELIMIT;
    size_t length = strcspn(err->msg, ":");
    const struct option *o = used && used->groups && usage && err->msg[length]
                                 ? options_find(used->groups, err->msg, length, &g)
                                 : NULL;
    if (o) options_words(&words, used, o);
    fprintf(stderr, "heed: %s%s%s\n", o ? "--" : "", words.name, err->msg + (o ? length : 0));
}

int main(int argc, char **argv) {
    reserve_descriptors();
    signals_explain();
    ranks_command(argv);
    if (argc < 2) {
        help(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("heed %s\n", HEED_VERSION);
        return finish(0);
    }
    if (is_help(argv[1])) {
        help(stdout);
        return finish(0);
    }
    if (strcmp(argv[1], "__complete") == 0) {
        completion_answer(commands, argc - 2, argv + 2);
        return finish(0);
    }
    struct err err = {0};
    const struct command *used = NULL;
    int rc = run(&used, NULL, argc - 1, argv + 1, &err);
    if (!rc) return finish(0);
    fflush(stdout);
    int speaks = ranks_speaks(err.code);
    if (speaks) complain(used, &err);
    if (rc == HEED_EINVAL && speaks)
        fprintf(stderr, "hint: heed %s%s--help lists the %s\n", used ? used->name : "",
                used ? " " : "", used && !used->sub ? "options" : "commands");
    return rc == HEED_EINVAL || rc == HEED_ECONFIG ? 2 : 1;
}
