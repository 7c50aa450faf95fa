/* options.c — see options.h. */
#include "cli/options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/similar.h"
#include "cli/models.h"
#include "cli/progress.h"
#include "io/json.h"

const char *const device_names[] = {"auto", "cpu", "cuda", "ref", NULL};
const char *const isa_names[] = {"auto",       "generic",    "avx2", "avx512",
                                 "avx512vnni", "avx512bf16", "amx",  NULL};
const char *const dtype_names[] = {"auto", "f32", "bf16", NULL};

static void dashed(char *out, size_t size, const char *name) {
    snprintf(out, size, "%s", name);
    for (char *p = out; *p; p++)
        if (*p == '_') *p = '-';
}

const char *command_name(const struct command *command) {
    const char *space = strrchr(command->name, ' ');
    return space ? space + 1 : command->name;
}

const char *command_usage(const struct command *command) {
    return command->usage ? command->usage : command->sub ? "COMMAND [options]" : "[options]";
}

/* ---- groups ---------------------------------------------------------------------------------- */

const struct option *options_find(struct option_group *groups, const char *name, size_t length,
                                  struct option_group **group) {
    for (struct option_group *g = groups; g->rows; g++) {
        const struct option *o = option_find(g->rows, name, length);
        if (!o || !o->help || o->kind == OPTION_WORDS) continue;
        *group = g;
        return o;
    }
    return NULL;
}

static const struct option *find_words(struct option_group *groups, struct option_group **group) {
    for (struct option_group *g = groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++)
            if (o->kind == OPTION_WORDS) return *group = g, o;
    return NULL;
}

const struct option *options_words_of(const struct command *command) {
    struct option_group *g;
    return find_words(command->groups, &g);
}

/* Notes that the option is given. A list begins anew in every walk: the command line's words
 * replace the file's. */
static void mark(struct option_group *g, const struct option *o) {
    uint64_t bit = option_bit(g, o);
    if ((o->kind == OPTION_LIST || o->kind == OPTION_WORDS) && !(g->seen & bit))
        ((struct option_list *)(void *)((char *)g->values + o->offset))->n = 0;
    g->given |= bit;
    g->seen |= bit;
}

static int set(struct option_group *g, const struct option *o, const char *text, struct err *err) {
    mark(g, o);
    return option_set(o, g->values, text, err);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* "; did you mean --label-smoothing?", or nothing. */
static const char *guess(const struct command *command, const char *name, size_t length,
                         const char *dashes) {
    static char text[80];
    char best[40];
    struct similar similar = {.word = name, .length = length};
    for (const struct option_group *g = command->groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++)
            if (o->help && o->kind != OPTION_WORDS) similar_try(&similar, o->name);
    if (!similar.best) return "";
    dashed(best, sizeof best, similar.best);
    snprintf(text, sizeof text, "; did you mean %s%s?", dashes, *dashes ? best : similar.best);
    return text;
}

/* A negative number is a value. */
static int is_option(const char *word) {
    char *end = NULL;
    return word[0] == '-' && word[1] && (strtod(word, &end), *end);
}

/* In place of a value: it was forgotten. */
static int is_known_option(const struct command *command, const char *word) {
    struct option_group *g;
    return strncmp(word, "--", 2) == 0 &&
           (!word[2] || strcmp(word, "--help") == 0 ||
            options_find(command->groups, word + 2, strcspn(word, "=") - 2, &g));
}

static int needs_value(const struct option *o, const char *name, struct err *err) {
    return err_set(err, HEED_EINVAL, "--%s needs %s value", name,
                   o->kind == OPTION_LIST ? "at least one" : "a");
}

/* One option; *used is how many words it took. */
static int parse_option(const struct command *command, int argc, char **argv, int *used,
                        struct err *err) {
    struct option_group *g;
    struct err why = {0};
    char name[40];
    const char *text = argv[0] + 2, *equals = strchr(text, '=');
    if (strncmp(argv[0], "--", 2) != 0)
        return err_set(err, HEED_EINVAL, "%s: unexpected argument '%.100s'", command->name,
                       argv[0]);
    size_t length = equals ? (size_t)(equals - text) : strlen(text);
    const struct option *o = options_find(command->groups, text, length, &g);
    if (!o)
        return err_set(err, HEED_EINVAL, "%s: there is no option '--%.*s'%s", command->name,
                       (int)(length < 60 ? length : 60), text, guess(command, text, length, "--"));
    dashed(name, sizeof name, o->name);
    if (o->kind == OPTION_FLAG)
        return equals ? err_set(err, HEED_EINVAL, "--%s takes no value", name)
                      : set(g, o, "1", err);
    int rc = 0;
    if (equals) {
        rc = set(g, o, equals + 1, &why);
    } else if (o->kind == OPTION_LIST && !options_words_of(command)) {
        while (!rc && *used < argc && !is_option(argv[*used]))
            rc = set(g, o, argv[(*used)++], &why);
        if (*used == 1) return needs_value(o, name, err);
    } else if (o->alone && (argc < 2 || choice_parse(&(int){0}, o->choices, argv[1], NULL))) {
        rc = set(g, o, o->alone, &why);
    } else {
        if (argc < 2 || is_known_option(command, argv[1])) return needs_value(o, name, err);
        *used = 2;
        rc = set(g, o, argv[1], &why);
    }
    return rc ? err_set(err, HEED_EINVAL, "--%s: %.200s", name, why.msg) : 0;
}

static int parse_word(const struct command *command, const char *word, struct err *err) {
    struct option_group *g;
    const struct option *o = find_words(command->groups, &g);
    const struct option_list *list = o ? (const void *)((char *)g->values + o->offset) : NULL;
    if (!o || (g->seen & option_bit(g, o) && o->max > 0 && list->n >= (int)o->max))
        return err_set(err, HEED_EINVAL, "%s: unexpected argument '%.100s'", command->name, word);
    struct err why = {0};
    int rc = set(g, o, word, &why);
    return rc ? err_set(err, rc, "%s: %s %s", command->name, o->arg, why.msg) : 0;
}

static int walk(const struct command *command, int argc, char **argv, struct err *err) {
    int rc = 0, only_words = 0;
    for (struct option_group *g = command->groups; g->rows; g++) g->seen = 0;
    for (int i = 0, used; !rc && i < argc; i += used) {
        used = 1;
        if (only_words || !is_option(argv[i])) {
            rc = parse_word(command, argv[i], err);
        } else if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            options_help(command);
            return 1;
        } else if (strcmp(argv[i], "--") == 0) {
            only_words = 1;
        } else {
            rc = parse_option(command, argc - i, argv + i, &used, err);
        }
    }
    return rc;
}

static int check_required(const struct command *command, struct err *err) {
    for (const struct option_group *g = command->groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            char name[40];
            int words = o->kind == OPTION_WORDS;
            dashed(name, sizeof name, o->name);
            if ((o->required || (words && o->min > 0)) && !(g->given & option_bit(g, o)))
                return err_set(err, HEED_EINVAL, "%s: %s%s is missing", command->name,
                               words ? "" : "--", words ? o->arg : name);
        }
    return 0;
}

/* ---- files ----------------------------------------------------------------------------------- */

/* Options point into texts read from files until the process ends: those are kept here. */
static json_t *kept;

/* What the command line also gives is left to it. of_run: the file is the config.json of a run,
 * which says nothing about this call. */
static int file_option(const struct command *command, const char *key, const json_t *value,
                       int of_run, struct err *err) {
    struct option_group *g;
    const struct option *o = options_find(command->groups, key, strlen(key), &g);
    if (!o)
        return err_set(err, HEED_ECONFIG, "there is no such option%s",
                       guess(command, key, strlen(key), ""));
    if (g->seen & option_bit(g, o) || json_is_null(value) || (of_run && o->once)) return 0;
    mark(g, o);
    return json_in_option(o, g->values, value, kept, err);
}

static int file_object(const struct command *command, const char *path, const json_t *object,
                       int of_run, struct err *err) {
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return err_set(err, HEED_ECONFIG, "%s: expected a JSON object", path);
    json_object_foreach((json_t *)object, key, value) {
        struct err why = {0};
        if (file_option(command, key, value, of_run, &why))
            return err_set(err, HEED_ECONFIG, "%.100s: %.40s: %.100s", path, key, why.msg);
    }
    return 0;
}

/* {"tokens": 4096, "src": ["a", "b"], "norm": "pre", ...}: every option by its name, with '_' or
 * '-'; or the config.json of a model directory: the run's options and the model's fields, but for
 * the vocabularies, which the tokenizer decides. */
static int read_file(const struct command *command, const char *path, struct err *err) {
    json_t *root;
    int rc = json_in_file(&root, path, err);
    if (rc) return rc;
    kept = json_array();
    json_array_append_new(kept, root);
    json_t *model = json_object_get(root, "model"), *training = json_object_get(root, "training");
    if (!json_is_object(model) || !json_is_object(training))
        return file_object(command, path, root, 0, err);
    json_object_del(model, "n_vocab_src");
    json_object_del(model, "n_vocab_tgt");
    rc = file_object(command, path, training, 1, err);
    return rc ? rc : file_object(command, path, model, 1, err);
}

/* ---- names of models ------------------------------------------------------------------------- */

static int find_models(const struct command *command, struct err *err) {
    int rc = 0;
    for (const struct option_group *g = command->groups; g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            if (!o->arg || strcmp(o->arg, "MODEL") != 0) continue;
            void *at = (char *)g->values + o->offset;
            struct option_list one = {.item = at, .n = o->kind == OPTION_STRING && *(char **)at},
                               *list = o->kind == OPTION_STRING ? &one : at;
            for (int i = 0; i < list->n && !rc; i++)
                rc = models_find(&list->item[i], list->item[i], err);
        }
    return rc;
}

int options_parse(const struct command *command, int argc, char **argv, struct err *err) {
    for (struct option_group *g = command->groups; g->rows; g++)
        options_default(g->rows, g->values);
    int rc = walk(command, argc, argv, err);
    if (!rc && command->config && *command->config) {
        rc = read_file(command, *command->config, err);
        if (!rc) rc = walk(command, argc, argv, err);
    }
    if (!rc) rc = check_required(command, err);
    return rc ? rc : find_models(command, err);
}

void options_take(const struct option_group *groups, const struct option *rows,
                  const void *values) {
    const struct option_group *g = groups;
    while (g->rows != rows) g++;
    for (const struct option *o = rows; o->name; o++)
        if (o->of_model && !(g->given & option_bit(g, o))) option_copy(o, g->values, values);
}

json_t *options_json(const struct option_group *groups) {
    json_t *object = json_object();
    for (const struct option_group *g = groups; g->rows; g++) {
        if (g->rows == config_rows || g->rows == config_pairs) continue;
        json_t *part = json_out_options(g->rows, g->values);
        json_object_update(object, part);
        json_decref(part);
    }
    return object;
}

/* ---- models ---------------------------------------------------------------------------------- */

enum dtype options_dtype(int index, const struct backend *be) {
    if (index == 0) return be && backend_device_memory(be) ? DTYPE_BF16 : DTYPE_F32;
    return index == 1 ? DTYPE_F32 : DTYPE_BF16;
}

/* ---- showing --------------------------------------------------------------------------------- */

static void join_choices(char *out, size_t size, const struct option *o) {
    size_t n = o->alone ? (size_t)snprintf(out, size, "[") : 0, first = n;
    for (int i = 0; o->choices[i] && n < size; i++)
        if (o->choices[i][0])
            n += (size_t)snprintf(out + n, size - n, "%s%s", n > first ? "|" : "", o->choices[i]);
    if (o->alone && n < size) snprintf(out + n, size - n, "]");
}

void options_words(struct option_words *w, const struct command *command, const struct option *o) {
    int repeated = o->kind == OPTION_LIST && options_words_of(command);
    *w = (struct option_words){0};
    dashed(w->name, sizeof w->name, o->name);
    if (o->arg)
        snprintf(w->arg, sizeof w->arg, "%s%s", o->arg,
                 o->kind == OPTION_WORDS || (o->kind == OPTION_LIST && !repeated) ? "..." : "");
    else if (o->kind == OPTION_CHOICE)
        join_choices(w->arg, sizeof w->arg, o);
    else if (o->kind != OPTION_FLAG)
        snprintf(w->arg, sizeof w->arg, "%s",
                 o->kind == OPTION_F32 || o->kind == OPTION_F64 ? "X" : "N");
    int shown = o->def && strcmp(o->def, "0") != 0; /* what 0 means is in the help */
    snprintf(w->help, sizeof w->help, "%s%s%s%s", o->help ? o->help : "", shown ? " (" : "",
             shown ? o->def : "", shown ? ")" : "");
}

/* Words in lines that begin at column `left`; the cursor is at column `at`. */
static void wrap(const char *text, int left, int at) {
    const char *columns = getenv("COLUMNS");
    int end = columns ? atoi(columns) : progress_columns(STDOUT_FILENO);
    if (end < 40) end = 80;
    if (at >= left && at) at = (putchar('\n'), 0);
    for (int first = 1; *text; first = 0) {
        int n = (int)strcspn(text, " "), breaks = !first && at + 1 + n > end;
        if (breaks) at = (putchar('\n'), 0);
        at += printf("%*s%.*s", at < left ? left - at : !first && !breaks, "", n, text);
        text += n + (text[n] != 0);
    }
    putchar('\n');
}

static void help_row(const char *name, const char *arg, const char *help) {
    enum { INDENT = 30 };
    wrap(help, INDENT, printf("  --%s%s%s", name, *arg ? " " : "", arg));
}

void options_help(const struct command *command) {
    char line[240];
    snprintf(line, sizeof line, "heed %s — %s", command->name, command->summary);
    wrap(line, 0, 0);
    snprintf(line, sizeof line, "usage: heed %s %s", command->name, command_usage(command));
    putchar('\n'), wrap(line, 0, 0), putchar('\n');
    if (command->about) wrap(command->about, 0, 0), putchar('\n');
    for (int i = 0; command->sub && command->sub[i]; i++)
        wrap(command->sub[i]->summary, 21, printf("  %s", command->sub[i]->name));
    for (const struct option_group *g = command->groups; g && g->rows; g++)
        for (const struct option *o = g->rows; o->name; o++) {
            struct option_words w;
            if (!o->help || o->kind == OPTION_WORDS) continue;
            options_words(&w, command, o);
            help_row(w.name, w.arg, w.help);
        }
    if (command->groups)
        help_row("help", "", "show this text");
    else
        printf("\n`heed %s COMMAND --help` lists the options of one.\n", command->name);
}
