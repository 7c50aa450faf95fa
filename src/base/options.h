/* options.h — an option, stated once.
 *
 * A table of rows describes the fields of a struct that some part of the program takes: name, kind,
 * default, range or choices, help. Everything else follows from the row: defaults, reading text,
 * checking, comparing, JSON (io/json.h), the command line with its help, manual and completion
 * (cli/options.h), and the field of the public header that means the same.
 *
 * Where the caller passes the option, messages do not name it: the caller knows whether it is
 * called --max-length or max_length. Nothing here prints. */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum option_kind {
    OPTION_FLAG, /* int: 0 or 1 */
    OPTION_INT,
    OPTION_I64,
    OPTION_U64,
    OPTION_F32,
    OPTION_F64,
    OPTION_STRING, /* const char *; choices are mere suggestions */
    OPTION_CHOICE, /* int or an enum: the index of the word in choices */
    OPTION_LIST,   /* struct option_list */
    OPTION_WORDS   /* struct option_list: what is not an option; min to max of them */
};

/* The words given, in order. They belong to whoever gave them; the array is never freed. */
struct option_list {
    const char **item;
    int n;
};

struct option {
    const char *name; /* with '_', where the command line has '-'; NULL ends a table */
    enum option_kind kind;
    int required;
    size_t offset, size;        /* of the field */
    size_t also;                /* the value goes there, too; 0: nowhere */
    size_t api;                 /* of the same field in a struct of heed.h; 0: it has none */
    const char *api_name;       /* what heed.h calls it */
    const char *def;            /* the default, as text; NULL: 0, or nothing */
    const char *help;           /* NULL: the command line does not have it */
    const char *arg;            /* what help calls the value, empty only if that is TEXT; NULL: N,
                                   X, or the choices */
    const char *const *choices; /* NULL-terminated; empty words are not offered */
    const char *alone;          /* the choice meant where the command line names none of them */
    double min, max;            /* of numbers, inclusive; both 0: anything */
    int below;                  /* max itself is too much */
    int made;                   /* a file or directory to write: "-" does not name one */
    int once;                   /* only for this call: not stored with a run */
    int of_model;               /* a model may bring its own default (search/defaults.h) */
};

/* A row for a field of the struct that OPTIONS_OF names: default and help, then .max = and such. */
#define ROW(KIND, NAME, FIELD, DEFAULT, HELP, ...)                                                 \
    {                                                                                              \
        .name = (NAME), .kind = OPTION_##KIND, .offset = offsetof(struct OPTIONS_OF, FIELD),       \
        .size = sizeof((struct OPTIONS_OF *)0)->FIELD, .def = (DEFAULT), .help = (HELP),           \
        ##__VA_ARGS__                                                                              \
    }

/* A row's field in a struct of heed.h. */
#define API_FIELD(STRUCT, FIELD) .api = offsetof(STRUCT, FIELD), .api_name = #FIELD

/* The row of that name, where '-' counts as '_'; or NULL. */
const struct option *option_find(const struct option *rows, const char *name, size_t length);

void options_default(const struct option *rows, void *values);

/* Sets one field, or adds to a list. The message begins with the text: "'x' is not a number". */
int option_set(const struct option *option, void *values, const char *text, struct err *err);

/* Is every field within its range? The message begins with the field's name. */
int options_check(const struct option *rows, const void *values, struct err *err);

int options_equal(const struct option *rows, const void *a, const void *b);
int option_equal(const struct option *option, const void *a, const void *b);
void option_copy(const struct option *option, void *to, const void *from);

/* Between the struct and its counterpart in heed.h. */
void options_to_api(const struct option *rows, const void *values, void *api);
void options_from_api(const struct option *rows, void *values, const void *api);

/* Where a message begins with an option's name, puts that of heed.h in its place. */
void options_name_api(const struct option *rows, struct err *err);

/* The field's value as option_set would read it, without loss; lists excepted. */
enum { OPTION_TEXT = 64 };
const char *option_text(const struct option *option, const void *values, char text[OPTION_TEXT]);

/* A float (single) or double in the fewest digits, at least 6, that read back as the same. */
const char *real_text(double value, int single, char text[OPTION_TEXT]);

/* 1000000 as "1,000,000", 0.5 as "0.5", 1e-9 as "1e-9". */
const char *number_text(double value, char text[OPTION_TEXT]);

/* The index of the word: "'x' is not one of a, b, c" when it is not among them. */
int choice_parse(int *index, const char *const *choices, const char *word, struct err *err);

/* ---- groups ---------------------------------------------------------------------------------- */

/* Tables with the structs that they fill, and what was given of each. */
struct option_group {
    const struct option *rows; /* at most 64; NULL ends the groups */
    void *values;
    uint64_t given, seen; /* bit i: row i was given at all; was seen in this walk over argv */
};

/* Its bit in `given` and `seen`. */
uint64_t option_bit(const struct option_group *group, const struct option *option);

/* Was the option given, on the command line or in the file? */
int options_given(const struct option_group *groups, const char *name);

/* " (the default)" after the value of an option that was not given, else "". */
const char *options_if_default(const struct option_group *groups, const char *name);

#endif
