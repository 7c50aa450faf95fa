/* json.h — what we want from JSON beyond jansson: limits, errors that say where, and no silent
 * surprises.
 *
 * Input is hostile: size and nesting are limited before jansson sees it, duplicate keys are
 * refused. A reader takes values out of one object by name and type; a value that is missing, of
 * another type or out of range is an error like `config.json: d_model: expected a whole number, got
 * "x"`, and json_in_known refuses unknown keys, so that a typo is not silently a default. */
#ifndef IO_JSON_H
#define IO_JSON_H

#include <jansson.h>

#include "base/file.h"
#include "base/options.h"

enum { JSON_IN_MAX_DEPTH = 32, JSON_IN_MAX_SIZE = 1 << 20 };

/* Text or file -> value (a new reference). Messages begin `where:line:`. */
int json_in_text(json_t **value, const char *text, size_t size, const char *where, struct err *err);
int json_in_file(json_t **value, const char *path, struct err *err);

/* One object to read from; borrows both. `where` begins every message. */
struct json_in {
    const json_t *object;
    const char *where;
};

int json_in_begin(struct json_in *in, const json_t *value, const char *where, struct err *err);
int json_in_has(const struct json_in *in, const char *key);
int json_in_int(const struct json_in *in, const char *key, int64_t *value, struct err *err);
int json_in_real(const struct json_in *in, const char *key, double *value, struct err *err);
int json_in_string(const struct json_in *in, const char *key, const char **value, struct err *err);
int json_in_object(const struct json_in *in, const char *key, const json_t **value,
                   struct err *err);

/* Refuses any key that is not in the NULL-terminated list. */
int json_in_known(const struct json_in *in, const char *const *keys, struct err *err);

/* Sets an option from JSON: true or false for flags, texts or numbers for the others, an array for
 * a list. Texts stay in the value, which must live as long; those of numbers that
 * become text are added to `kept`, which may be NULL where none can. */
int json_in_option(const struct option *option, void *values, const json_t *value, json_t *kept,
                   struct err *err);

/* `where: key: expected WHAT, got VALUE`, for checks of the caller's own. */
int json_in_expected(const struct json_in *in, const char *key, const char *what, struct err *err);

/* A float as a short decimal that reads back as the same float. */
json_t *json_out_float(float value);

/* null for NaN and infinity, which JSON does not have. */
json_t *json_out_real(double value);

/* A text from anywhere: what is not UTF-8 becomes U+FFFD. */
json_t *json_out_string(const char *text);

/* Options as an object, without those that hold for one call only; or the value of one. Choices as
 * words, lists as arrays; new references. */
json_t *json_out_option(const struct option *option, const void *values);
json_t *json_out_options(const struct option *rows, const void *values);

/* Writes the value to a file, indented, keys in the order they were set; atomic. */
int json_out_file(const char *path, const json_t *value, struct err *err);

#endif
