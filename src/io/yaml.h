/* yaml.h — YAML as settings are written in it, read by libyaml into the values of JSON, so that
 * io/json's readers take them apart.
 *
 * Lists and maps become arrays and objects; a plain scalar that is a number, true, false, null, ~
 * or nothing becomes that (`no` and `on` stay texts: one is also a language), any other a string.
 * Input is hostile: size, depth and the number of values are limited; aliases, tags, keys that are
 * not scalars or come twice, a second document and bytes that are not UTF-8 are refused. */
#ifndef IO_YAML_H
#define IO_YAML_H

#include "io/json.h"

enum { YAML_IN_MAX_DEPTH = 32, YAML_IN_MAX_SIZE = 1 << 20, YAML_IN_MAX_VALUES = 200000 };

/* Text or file -> value (a new reference); an empty text is null. Messages begin `where:line:`. */
int yaml_in_text(json_t **value, const char *text, size_t size, const char *where, struct err *err);
int yaml_in_file(json_t **value, const char *path, struct err *err);

#endif
