/* options.h — command-line options as tables.
 *
 * A command is one table: the same rows parse its arguments, print its --help, its section of the
 * manual page and its shell completion. Values land in the variables the rows point at, whose
 * initial values are the defaults and are shown as such. A command that builds a model also takes
 * every field of its configuration (`--d-model`, `--norm`, ...): those come from config_fields, not
 * from a second list. */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <jansson.h>

#include "backend/backend.h"
#include "backend/mat.h"
#include "base/err.h"
#include "model/config.h"

enum option_kind {
    OPTION_FLAG,   /* int: 1 when given */
    OPTION_INT,    /* int */
    OPTION_FLOAT,  /* double */
    OPTION_STRING, /* const char * */
    OPTION_LIST, /* struct option_list: one or more words up to the next option; may be repeated */
};

/* The words given, in order. They belong to argv; the array lives as long as the table. */
struct option_list {
    const char **item;
    int n;
};

struct option {
    const char *name; /* without the dashes; NULL ends the table */
    enum option_kind kind;
    void *value;
    const char *arg; /* what --help calls the argument; NULL for flags */
    const char *help;
    double min, max; /* OPTION_INT and OPTION_FLOAT, inclusive */
};

/* Model fields given on the command line, applied after the preset. */
enum { MAX_OVERRIDES = 64 };
struct overrides {
    struct {
        char name[32];
        const char *value;
    } item[MAX_OVERRIDES];
    int n;
};

struct command {
    const char *name;    /* "bench train" */
    const char *summary; /* one line */
    const char *usage;   /* what follows the name, or NULL */
    const struct option *options;
    struct overrides *overrides; /* NULL: takes no model fields */
};

/* Parses argv[0..argc). 0: go on; 1: --help was printed, stop; negative: *err says what is wrong.
 * Positional arguments are refused. */
int options_parse(const struct command *command, int argc, char **argv, struct err *err);

/* The same from a JSON object, {"tokens": 4096, "src": ["a", "b"], "norm": "pre", ...}: every
 * option and model field by its name, with '_' or '-'; or from the config.json of a model
 * directory. What argv also gives is left to argv, which is parsed afterwards. Unknown keys and
 * wrong types are errors that name file and key. The texts live until the process ends. */
int options_file(const struct command *command, const char *path, int argc, char **argv,
                 struct err *err);

/* What the options are now, as such an object, model fields excepted; a new reference. */
json_t *options_json(const struct command *command);

/* What --dtype means: f32, bf16, or auto, which is bf16 on a GPU and else f32. be may be NULL: the
 * cpu. */
int options_dtype(enum dtype *type, const char *name, const struct backend *be, struct err *err);

/* The preset and what overrides it, checked. */
int options_config(struct config *config, const char *preset, const struct overrides *overrides,
                   struct err *err);

void options_help(const struct command *command);
void options_manual(const struct command *command);     /* roff */
void options_completion(const struct command *command); /* words, one per line */

#endif
