/* main.c — the `heed` command: finds the sub-command, prints its error, exits.
 *
 * Exit status: 0 success, 1 failure, 2 wrong usage. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

static const struct subcommand *const subcommands[] = {
    &cmd_vocab,   &cmd_train,  &cmd_translate, &cmd_score,   &cmd_attend, &cmd_eval,
    &cmd_average, &cmd_export, &cmd_quantize,  &cmd_inspect, &cmd_bench,  NULL};

static const struct subcommand *find(const char *name) {
    for (int i = 0; subcommands[i]; i++)
        if (strcmp(subcommands[i]->name, name) == 0) return subcommands[i];
    return NULL;
}

int cli_usage(struct err *err, const char *fmt, ...) {
    char msg[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    return err_set(err, HEED_EINVAL, "%s", msg);
}

static void help(FILE *out) {
    fprintf(out,
            "heed %s — the Transformer of \"Attention Is All You Need\"\n\n"
            "usage: heed COMMAND [options]\n\n",
            HEED_VERSION);
    for (int i = 0; subcommands[i]; i++)
        fprintf(out, "  %-12s %s\n", subcommands[i]->name, subcommands[i]->summary);
    fprintf(out, "  %-12s %s\n  %-12s %s\n\n`heed COMMAND --help` lists a command's options.\n",
            "manual", "print the manual page (roff)", "completion",
            "print a completion script for bash");
}

static void manual(void) {
    printf(".TH HEED 1 \"\" \"heed %s\"\n.SH NAME\nheed \\- train and run Transformer models\n"
           ".SH SYNOPSIS\n.B heed\n.I command\n[options]\n.SH COMMANDS\n",
           HEED_VERSION);
    for (int i = 0; subcommands[i]; i++)
        for (int k = 0; subcommands[i]->commands[k]; k++)
            options_manual(subcommands[i]->commands[k]);
    printf(
        ".SH ENVIRONMENT\n.TP\n.B HEED_ISA\nInstruction set to use where \\-\\-isa is not given.\n"
        ".SH EXIT STATUS\n0 success, 1 failure, 2 wrong usage.\n");
}

static void completion(void) {
    printf("_heed() {\n  local cur=${COMP_WORDS[COMP_CWORD]}\n  case \"${COMP_WORDS[*]}\" in\n");
    for (int i = 0; subcommands[i]; i++)
        for (int k = 0; subcommands[i]->commands[k]; k++) {
            printf("  'heed %s '*) COMPREPLY=($(compgen -W '", subcommands[i]->commands[k]->name);
            options_completion(subcommands[i]->commands[k]);
            printf("' -- \"$cur\"));;\n");
        }
    printf("  *) COMPREPLY=($(compgen -W '");
    for (int i = 0; subcommands[i]; i++) printf("%s ", subcommands[i]->name);
    printf("manual completion --help --version' -- \"$cur\"));;\n  esac\n}\n"
           "complete -o default -F _heed heed\n");
}

/* The last output may only fail when it is flushed: a full disk must not look like success. */
static int finish(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    if (errno != EPIPE) fprintf(stderr, "heed: writing output: %s\n", strerror(errno));
    return status ? status : 1;
}

int main(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : NULL;
    if (!name) {
        help(stderr);
        return 2;
    }
    if (strcmp(name, "--version") == 0) {
        printf("heed %s\n", HEED_VERSION);
        return finish(0);
    }
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        help(stdout);
        return finish(0);
    }
    if (strcmp(name, "manual") == 0 || strcmp(name, "completion") == 0) {
        if (name[0] == 'm')
            manual();
        else
            completion();
        return finish(0);
    }
    const struct subcommand *sub = find(name);
    if (!sub) {
        fprintf(stderr, "heed: there is no command '%s'\nhint: heed --help lists the commands\n",
                name);
        return 2;
    }
    struct err err = {0};
    int rc = sub->run(argc - 2, argv + 2, &err);
    if (!rc) return finish(0);
    fflush(stdout);
    fprintf(stderr, "heed: %s\n", err.msg);
    if (rc == HEED_EINVAL) fprintf(stderr, "hint: heed %s --help lists the options\n", name);
    return rc == HEED_EINVAL || rc == HEED_ECONFIG ? 2 : 1;
}
