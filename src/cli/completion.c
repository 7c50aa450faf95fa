/* completion.c — see completion.h.
 *
 * Every script does the same three things: offer the commands (and the sub-commands of bench), the
 * options of the command at hand, and the values of the option at hand, which are words, files or
 * directories. */
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

enum value { NO_VALUE, ANY_VALUE, WORD_VALUE, FILE_VALUE, DIR_VALUE };

static enum value value_of(const struct option *o) {
    if (o->kind == OPTION_FLAG) return NO_VALUE;
    if (o->choices) return WORD_VALUE;
    if (o->arg && strncmp(o->arg, "FILE", 4) == 0) return FILE_VALUE;
    return o->arg && strcmp(o->arg, "DIR") == 0 ? DIR_VALUE : ANY_VALUE;
}

/* Within single quotes; what stands for a quote there differs between shells. */
static void quoted(const char *text, const char *quote) {
    for (; *text; text++)
        if (*text == '\'')
            fputs(quote, stdout);
        else
            putchar(*text);
}

static void choices(const struct option *o) {
    const char *between = "";
    for (int i = 0; o->choices[i]; i++)
        if (o->choices[i][0]) printf("%s%s", between, o->choices[i]), between = " ";
}

/* Calls fn for every option of every command that has options; words last. */
typedef void option_fn(const struct command *c, const struct option *o,
                       const struct option_words *w);

static void each_option(const struct command *c, option_fn *fn) {
    for (const struct option_group *g = c->groups; g && g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            if (!o->help) continue;
            options_words(&w, c, o);
            fn(c, o, &w);
        }
}

static void each_command(const struct command *const *list, void (*fn)(const struct command *c)) {
    for (int i = 0; list[i]; i++) {
        if (list[i]->sub)
            each_command(list[i]->sub, fn);
        else
            fn(list[i]);
    }
}

/* ---- bash ------------------------------------------------------------------------------------ */

static void bash_name(const struct command *c, const struct option *o,
                      const struct option_words *w) {
    (void)c;
    if (o->kind != OPTION_WORDS) printf("--%s ", w->name);
}

static void bash_options(const struct command *c) {
    printf("    '%s') echo '", c->name);
    each_option(c, bash_name);
    printf("--help' ;;\n");
}

static void bash_value(const struct command *c, const struct option *o,
                       const struct option_words *w) {
    enum value v = value_of(o);
    if (v == NO_VALUE) return;
    if (o->kind == OPTION_WORDS)
        printf("    '%s ') ", c->name);
    else
        printf("    '%s --%s') ", c->name, w->name);
    if (v == WORD_VALUE) printf("echo words "), choices(o);
    if (v != WORD_VALUE)
        printf("echo %s", v == FILE_VALUE ? "files" : v == DIR_VALUE ? "dirs" : "any");
    printf(" ;;\n");
}

/* The option that takes several words at a time, as a pattern. */
static void bash_list(const struct command *c, const struct option *o,
                      const struct option_words *w) {
    size_t n = strlen(w->arg);
    if (o->kind == OPTION_LIST && n > 3 && strcmp(w->arg + n - 3, "...") == 0)
        printf("'%s --%s'|", c->name, w->name);
}

static void bash_values(const struct command *c) { each_option(c, bash_value); }
static void bash_lists(const struct command *c) { each_option(c, bash_list); }

static void bash(const struct command *const *commands) {
    printf("# heed completion for bash: eval \"$(heed completion bash)\"\n"
           "_heed_options() {\n    case $1 in\n");
    each_command(commands, bash_options);
    printf("    esac\n}\n_heed_values() {\n    case $1 in\n");
    each_command(commands, bash_values);
    printf("    esac\n}\n_heed() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]} first=2 i option= v\n"
           "    local commands='");
    for (int i = 0; commands[i]; i++) printf("%s ", commands[i]->name);
    printf("--help --version'\n");
    for (int i = 0; commands[i]; i++) {
        if (!commands[i]->sub) continue;
        printf("    if [ \"$command\" = %s ] && [ $COMP_CWORD -gt 1 ]; then\n        commands='",
               commands[i]->name);
        for (int k = 0; commands[i]->sub[k]; k++) printf("%s ", command_name(commands[i]->sub[k]));
        printf("--help' first=3 command=\"$command ${COMP_WORDS[2]}\"\n    fi\n");
    }
    printf("    COMPREPLY=()\n"
           "    if [ $COMP_CWORD -lt $first ]; then\n"
           "        COMPREPLY=($(compgen -W \"$commands\" -- \"$cur\"))\n        return\n    fi\n"
           "    [ \"$cur\" = = ] && cur=\n"
           "    for ((i = COMP_CWORD - 1; i >= first; i--)); do\n"
           "        [ \"${COMP_WORDS[i]}\" = = ] && continue\n"
           "        case ${COMP_WORDS[i]} in --*) option=${COMP_WORDS[i]}; break ;; esac\n"
           "    done\n"
           "    v=$(_heed_values \"$command $option\")\n"
           "    if [ -z \"$v\" ]; then\n        option=\n"
           "    elif [ \"${COMP_WORDS[COMP_CWORD - 1]}\" != \"$option\" ] &&\n"
           "        [ \"${COMP_WORDS[COMP_CWORD - 1]}\" != = ]; then\n"
           "        case \"$command $option\" in ");
    each_command(commands, bash_lists);
    printf("'') ;; *) option= ;; esac\n    fi\n"
           "    if [[ $cur == -* ]] || { [ -z \"$option\" ] &&\n"
           "        [ -z \"$(_heed_values \"$command \")\" ]; }; then\n"
           "        COMPREPLY=($(compgen -W \"$(_heed_options \"$command\")\" -- \"$cur\"))\n"
           "        return\n    fi\n"
           "    v=$(_heed_values \"$command $option\")\n"
           "    case $v in\n"
           "    words*) COMPREPLY=($(compgen -W \"${v#words }\" -- \"$cur\")) ;;\n"
           "    files) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "
           "\"$cur\") ;;\n"
           "    dirs) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "
           "\"$cur\") ;;\n"
           "    esac\n}\n"
           "complete -F _heed heed\n");
}

/* ---- zsh ------------------------------------------------------------------------------------- */

/* Brackets end an explanation. */
static void zsh_help(const char *help) {
    for (; *help; help++) {
        char one[2] = {*help, 0};
        if (*help == '[' || *help == ']') putchar('\\');
        quoted(one, "'\\''");
    }
}

static void zsh_option(const struct command *c, const struct option *o,
                       const struct option_words *w) {
    (void)c;
    enum value v = value_of(o);
    size_t n = strlen(w->arg);
    int several = n > 3 && strcmp(w->arg + n - 3, "...") == 0;
    if (o->kind == OPTION_WORDS) {
        printf(" \\\n            '*:%s:", o->name);
    } else {
        printf(" \\\n            '%s--%s%s[", o->kind == OPTION_LIST ? "*" : "", w->name,
               v == NO_VALUE || several ? "" : "=");
        zsh_help(w->help);
        printf("]");
        if (v != NO_VALUE) printf("%s%s:", several ? ":*--*:" : ":", w->name);
    }
    if (v == WORD_VALUE) printf("("), choices(o), printf(")");
    if (v == FILE_VALUE) printf("_files");
    if (v == DIR_VALUE) printf("_files -/");
    if (v == ANY_VALUE) printf(" ");
    printf("'");
}

static void zsh_command(const struct command *c) {
    printf("        '%s')\n        _arguments", c->name);
    each_option(c, zsh_option);
    printf(" \\\n            '--help[this text]' ;;\n");
}

static void zsh_list(const struct command *const *list) {
    for (int i = 0; list[i]; i++) {
        printf("        '%s:", command_name(list[i]));
        quoted(list[i]->summary, "'\\''");
        printf("'\n");
    }
}

static void zsh(const struct command *const *commands) {
    printf(
        "#compdef heed\n# heed completion for zsh: heed completion zsh >DIR/_heed, DIR in $fpath\n"
        "_heed() {\n    local command=$words[2] first=3\n    local -a list\n    list=(\n");
    zsh_list(commands);
    printf("    )\n");
    for (int i = 0; commands[i]; i++) {
        if (!commands[i]->sub) continue;
        printf("    if [[ $command == %s ]] && ((CURRENT > 2)); then\n"
               "        first=4 command=\"%s $words[3]\"\n        list=(\n",
               commands[i]->name, commands[i]->name);
        zsh_list(commands[i]->sub);
        printf("        )\n    fi\n");
    }
    printf(
        "    if ((CURRENT < first)); then\n        _describe command list\n        return\n    fi\n"
        "    shift $((first - 2)) words\n    ((CURRENT -= first - 2))\n    case $command in\n");
    each_command(commands, zsh_command);
    printf(
        "    esac\n}\nif [[ $funcstack[1] == _heed ]]; then _heed \"$@\"; else compdef _heed heed; "
        "fi\n");
}

/* ---- fish ------------------------------------------------------------------------------------ */

static void fish_option(const struct command *c, const struct option *o,
                        const struct option_words *w) {
    enum value v = value_of(o);
    printf("complete -c heed -n '__heed_at %s'", c->name);
    if (o->kind != OPTION_WORDS)
        printf(" -l %s%s", w->name, v == NO_VALUE ? "" : v == FILE_VALUE ? " -r" : " -x");
    if (v == WORD_VALUE) printf(" -a '"), choices(o), printf("'");
    if (v == FILE_VALUE) printf(" -F");
    if (v == DIR_VALUE) printf(" -a '(__fish_complete_directories)'");
    printf(" -d '");
    quoted(w->help, "\\'");
    printf("'\n");
}

static void fish_command(const struct command *c) {
    each_option(c, fish_option);
    printf("complete -c heed -n '__heed_at %s' -l help -d 'this text'\n", c->name);
}

static void fish_list(const struct command *const *list, const char *at) {
    for (int i = 0; list[i]; i++) {
        printf("complete -c heed -n '__heed_at%s' -a %s -d '", at, command_name(list[i]));
        quoted(list[i]->summary, "\\'");
        printf("'\n");
    }
}

static void fish(const struct command *const *commands) {
    printf("# heed completion for fish: heed completion fish | source\n"
           "function __heed_at\n"
           "    set -l words (commandline -opc)\n    set -l at $words[2]\n");
    for (int i = 0; commands[i]; i++)
        if (commands[i]->sub)
            printf("    if test \"$at\" = %s; set at $at $words[3]; end\n", commands[i]->name);
    printf("    test \"$at\" = \"$argv\"\nend\ncomplete -c heed -f\n");
    fish_list(commands, "");
    for (int i = 0; commands[i]; i++) {
        char at[64];
        snprintf(at, sizeof at, " %s", commands[i]->name);
        if (commands[i]->sub) fish_list(commands[i]->sub, at);
    }
    each_command(commands, fish_command);
}

void completion_print(const struct command *const *commands, int shell) {
    static void (*const print[])(const struct command *const *) = {bash, zsh, fish};
    print[shell](commands);
}
