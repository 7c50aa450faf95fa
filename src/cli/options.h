/* options.h — commands, and how their options are read.
 *
 * A command has groups of options (base/options.h). The same rows read the command line and a JSON
 * file, and give --help, the manual page (manual.c) and the completion of shells (completion.c).
 *
 * How words are read, in every command: --name VALUE or --name=VALUE; a list takes all words up to
 * the next option, except in commands that also take plain arguments (`translate FILE...`), where
 * it takes one word and may be repeated; everything after -- is an argument, not an option; - is
 * standard input, and standard output where a row does not say `made`. Where a row's arg is MODEL,
 * a model's name becomes its directory (models.h). */
#ifndef CLI_OPTIONS_H
#define CLI_OPTIONS_H

#include <jansson.h>

#include "backend/backend.h"
#include "backend/mat.h"
#include "base/options.h"
#include "model/config.h"

struct command {
    const char *name;                 /* "bench train" */
    const char *summary;              /* one line */
    const char *usage;                /* what follows the name; NULL: [options] */
    const char *about;                /* more about it, or NULL: plain text */
    struct option_group *groups;      /* NULL where there are sub-commands */
    const char *const *config;        /* the option that names a file of options, or NULL */
    int (*run)(struct err *err);      /* once all options are read */
    const struct command *const *sub; /* NULL-terminated, or NULL */
};

/* Defaults, then argv[0..argc), then the file it names (and argv again, which wins). 0: go on; 1:
 * --help was printed, stop; negative: *err says what is wrong. */
int options_parse(const struct command *command, int argc, char **argv, struct err *err);

/* Rows that a model may set and the user has not take the model's values, which are a struct of the
 * kind that the rows describe. */
void options_take(const struct option_group *groups, const struct option *rows, const void *values);

/* The row of the arguments that are not options, or NULL. */
const struct option *options_words_of(const struct command *command);

/* The option of that name, and its group; or NULL. */
const struct option *options_find(struct option_group *groups, const char *name, size_t length,
                                  struct option_group **group);

/* The options' current values as a JSON object that could serve as the options file, without the
 * model fields and what holds for one call only; a new reference. */
json_t *options_json(const struct option_group *groups);

/* "train" of "bench train", and what follows its name. */
const char *command_name(const struct command *command);
const char *command_usage(const struct command *command);

/* --help: heed NAME — SUMMARY, and all options. */
void options_help(const struct command *command);

/* An option as help, manual and completion show it: "--max-length", "N", and the whole help. */
struct option_words {
    char name[40], arg[96], help[320];
};
void options_words(struct option_words *words, const struct command *command,
                   const struct option *option);

/* ---- options that several commands have ------------------------------------------------------ */

/* Rows that fill a struct backend_options. */
#define DEVICE_ROWS(FIELD, DEVICE)                                                                 \
    ROW(STRING, "device", FIELD.device, (DEVICE),                                                  \
        "device to run on: cpu, cuda, cuda:N, ref; auto: a usable GPU, else the cpu",              \
        .arg = "NAME", .choices = device_names),                                                   \
        ROW(STRING, "isa", FIELD.isa, NULL,                                                        \
            "instruction set of the cpu device; the best available if not given", .arg = "NAME",   \
            .choices = isa_names),                                                                 \
        THREADS_ROW(FIELD.n_thread)
#define THREADS_ROW(FIELD)                                                                         \
    ROW(INT, "threads", FIELD, "0", "number of threads; 0: all CPUs", .max = 1024)
#define MODEL_ROW(FIELD)                                                                           \
    ROW(STRING, "model", FIELD, NULL, "a model: its name (see heed models) or its directory",      \
        .arg = "MODEL", .required = 1)
#define PRECISION_ROW(FIELD)                                                                       \
    ROW(CHOICE, "precision", FIELD, "auto",                                                        \
        "precision to compute in; auto: int8 if the model is, on a GPU bf16 if it is, else f32",   \
        .choices = precision_names)
#define JSON_ROW(FIELD) ROW(FLAG, "json", FIELD, NULL, "print JSON, one object per line")
#define QUIET_ROW(FIELD)                                                                           \
    ROW(FLAG, "quiet", FIELD, NULL, "print only errors: no progress, no warnings", .once = 1)
extern const char *const device_names[], *const isa_names[];

/* ---- models ---------------------------------------------------------------------------------- */

/* Groups of a command that builds a model: the fields that were given replace the preset's. */
#define MODEL_FIELDS(CONFIG)                                                                       \
    {.rows = config_pairs, .values = (CONFIG)}, { .rows = config_rows, .values = (CONFIG) }
extern const char *const dtype_names[]; /* for options_dtype */

/* What --dtype means: auto is bf16 on a GPU, f32 otherwise. be may be NULL: the cpu. */
enum dtype options_dtype(int index, const struct backend *be);

#endif
