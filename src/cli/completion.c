/* completion.c — see completion.h. */
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

#include "backend/cpu/isa.h"
#include "cli/models.h"

const char *const completion_shells[] = {"bash", "zsh", "fish", NULL};

/* ---- answers --------------------------------------------------------------------------------- */

/* The word to complete; `before` is its fixed beginning: "--preset=". */
struct question {
    const char *word, *before;
    int n_before;
};

static void offer(const struct question *q, const char *word, const char *help) {
    if (strncmp(word, q->word, strlen(q->word)) == 0)
        printf("%.*s%s\t%s\n", q->n_before, q->before, word, help);
}

static void offer_models(const struct question *q) {
    struct catalog catalog;
    struct catalog_list list;
    models_catalog(&catalog);
    catalog_list(&list, &catalog);
    for (int i = 0; i < list.n; i++) offer(q, list.model[i].name, list.model[i].dir);
    catalog_list_release(&list);
    catalog_release(&catalog);
}

/* Values of an option, or the words of a command. */
static void offer_values(const struct question *q, const struct option *o) {
    struct question last = *q; /* of several, separated by commas */
    const char *comma = o->arg && strcmp(o->arg, "NAMES") == 0 ? strrchr(q->word, ',') : NULL;
    if (comma) last.word = comma + 1;
    if (comma && !q->n_before) last.before = q->word;
    if (comma) last.n_before = (int)(last.word - last.before);
    for (int i = 0; o->choices && o->choices[i]; i++)
        if (o->choices[i][0] &&
            !(o->choices == isa_names && isa_select(&(const struct isa *){0}, o->choices[i], NULL)))
            offer(&last, o->choices[i], o->help);
    if (o->choices || !o->arg) return;
    if (strncmp(o->arg, "FILE", 4) == 0) printf(":files\n");
    int model = strcmp(o->arg, "MODEL") == 0;
    if (model) offer_models(q);
    if (model || strcmp(o->arg, "DIR") == 0) printf(":directories\n");
}

static void offer_options(const struct question *q, const struct command *c) {
    for (const struct option_group *g = c->groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            char name[48];
            if (!o->help || o->kind == OPTION_WORDS) continue;
            options_words(&w, c, o);
            snprintf(name, sizeof name, "--%s", w.name);
            offer(q, name, w.help);
        }
    offer(q, "--help", "show the options");
}

/* The option whose value the word after these n is; NULL: none. */
static const struct option *open_option(const struct command *c, char *const *word, int n) {
    int at = n - 1;
    while (at >= 0 && strncmp(word[at], "--", 2) != 0) at--;
    if (at < 0 || strchr(word[at], '=')) return NULL;
    struct option_group *g;
    const struct option *o = options_find(c->groups, word[at] + 2, strlen(word[at] + 2), &g);
    int more = o && (at == n - 1 || (o->kind == OPTION_LIST && !options_words_of(c)));
    return more && o->kind != OPTION_FLAG ? o : NULL;
}

static void answer(const struct question *q, const struct command *c, char *const *word, int n) {
    const char *equals = strncmp(q->word, "--", 2) == 0 ? strchr(q->word, '=') : NULL;
    if (equals) {
        char name[48];
        snprintf(name, sizeof name, "%.*s", (int)(equals - q->word), q->word);
        const struct option *o = open_option(c, (char *[]){name}, 1);
        struct question rest = {equals + 1, q->word, (int)(equals + 1 - q->word)};
        if (o) offer_values(&rest, o);
        return;
    }
    const struct option *o = open_option(c, word, n);
    if (!o && q->word[0] != '-') o = options_words_of(c);
    if (o && q->word[0] != '-')
        offer_values(q, o);
    else
        offer_options(q, c);
}

void completion_answer(const struct command *const *commands, int n, char **word) {
    struct question q = {.word = n ? word[n - 1] : "", .before = ""};
    const struct command *c = NULL;
    int at = 0, kept = 0, help = n > 1 && strcmp(word[0], "help") == 0;
    if (help) word++, n--; /* the rest is the name of a command */
    for (; at < n - 1 && (!c || c->sub); at++) {
        const struct command *const *list = c ? c->sub : commands;
        while (*list && strcmp(command_name(*list), word[at]) != 0) list++;
        if (!(c = *list)) return;
    }
    if (c && !c->sub) {
        if (help) return;
        for (int i = at; i < n - 1; i++) /* bash makes three words of --a=b */
            if (strcmp(word[i], "=") != 0) word[at + kept++] = word[i];
        if (strcmp(q.word, "=") == 0) q.word = "";
        answer(&q, c, word + at, kept);
        return;
    }
    for (const struct command *const *list = c ? c->sub : commands; *list; list++)
        offer(&q, command_name(*list), (*list)->summary);
    if (!help) offer(&q, "--help", "show the commands");
    if (!c && !help) offer(&q, "--version", "the version of this program");
}

/* ---- scripts --------------------------------------------------------------------------------- */

/* They ask the program being called, so that each build completes its own options. */
static const char *const scripts[] = {
    "# eval \"$(heed completion bash)\"\n"
    "_heed() {\n"
    "    local IFS=$'\\n' line cur=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\\~/$HOME}\n"
    "    type -P -- \"$program\" >/dev/null || program=heed\n"
    "    [ \"$cur\" = = ] && cur=\n"
    "    COMPREPLY=()\n"
    "    for line in $(\"$program\" __complete \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null); do\n"
    "        case $line in\n"
    "        :files) mapfile -t COMPREPLY < <(compgen -f -- \"$cur\") ;;\n"
    "        :directories) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- \"$cur\") "
    ";;\n"
    "        *) COMPREPLY+=(\"${line%%$'\\t'*}\") ;;\n"
    "        esac\n"
    "        [[ $line == :* ]] && compopt -o filenames 2>/dev/null\n"
    "    done\n"
    "}\n"
    "complete -F _heed heed\n",
    "#compdef heed\n"
    "# as _heed in a directory of $fpath, or: eval \"$(heed completion zsh)\"\n"
    "_heed() {\n"
    "    local -a list\n"
    "    local line ret=1\n"
    "    local program=${(Q)words[1]}\n"
    "    for line in \"${(@f)$($~program __complete \"${(@)words[2,CURRENT]}\" "
    "2>/dev/null)}\"; do\n"
    "        case $line in\n"
    "        :files) _files; return ;;\n"
    "        :directories) _files -/ && ret=0 ;;\n"
    "        ?*) list+=(\"${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}\") ;;\n"
    "        esac\n"
    "    done\n"
    "    (($#list)) && _describe heed list && ret=0\n"
    "    return ret\n"
    "}\n"
    "if [[ $funcstack[1] == _heed ]]; then _heed; else compdef _heed heed; fi\n",
    "# heed completion fish | source\n"
    "function __heed_complete\n"
    "    set -l words (commandline -opc) (commandline -ct)\n"
    "    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)\n"
    "        switch $line\n"
    "            case ':files'\n"
    "                __fish_complete_path (commandline -ct)\n"
    "            case ':directories'\n"
    "                __fish_complete_directories (commandline -ct)\n"
    "            case '*'\n"
    "                echo $line\n"
    "        end\n"
    "    end\n"
    "end\n"
    "complete -c heed -f -a '(__heed_complete)'\n"};

void completion_print(int shell) { fputs(scripts[shell], stdout); }
