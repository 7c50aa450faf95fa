/* json.c — see json.h. */
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"

/* ---- parsing --------------------------------------------------------------------------------- */

/* jansson recurses; how deep is counted first, without recursion. Returns the line that goes too
 * deep, or 0. */
static int too_deep(const char *text, size_t size) {
    int depth = 0, in_string = 0, line = 1;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        if (c == '\n') line++;
        if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = 0;
        } else if (c == '"') {
            in_string = 1;
        } else if (c == '[' || c == '{') {
            if (++depth > JSON_IN_MAX_DEPTH) return line;
        } else if (c == ']' || c == '}') {
            depth--;
        }
    }
    return 0;
}

int json_in_text(json_t **value, const char *text, size_t size, const char *where,
                 struct err *err) {
    *value = NULL;
    int line = too_deep(text, size);
    if (line)
        return err_set(err, HEED_EFORMAT, "%.120s:%d: nested deeper than %d", where, line,
                       JSON_IN_MAX_DEPTH);
    json_error_t why;
    *value = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (*value) return 0;
    /* jansson's words, unless they are about its flags; they may quote anything */
    for (char *c = why.text; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
    int has_nul = json_error_code(&why) == json_error_null_character;
    return err_set(err, HEED_EFORMAT, "%.120s:%d: %.100s", where, why.line > 0 ? why.line : 1,
                   has_nul ? "a string contains the NUL character, \\u0000" : why.text);
}

int json_in_file(json_t **value, const char *path, struct err *err) {
    char *text;
    size_t size;
    *value = NULL;
    int rc = file_read_all(&text, &size, path, JSON_IN_MAX_SIZE, err);
    if (rc) return rc;
    size_t mark = size >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* editors add it */
    rc = json_in_text(value, text + mark, size - mark, path, err);
    xfree(text);
    return rc;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A value as a message shows it: short, on one line. */
static void show(char *text, size_t size, const json_t *value) {
    if (!value || json_is_object(value) || json_is_array(value)) {
        const char *what = !value ? "nothing" : json_is_object(value) ? "an object" : "a list";
        snprintf(text, size, "%s", what);
        return;
    }
    char *all = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
    snprintf(text, size, "%.*s%s", (int)size - 4, all ? all : "?",
             all && strlen(all) > size - 4 ? "..." : "");
    free(all);
}

int json_in_expected(const struct json_in *in, const char *key, const char *what, struct err *err) {
    char got[48];
    show(got, sizeof got, json_object_get(in->object, key));
    return err_set(err, HEED_EFORMAT, "%.120s: %.40s: expected %s, got %s", in->where, key, what,
                   got);
}

int json_in_begin(struct json_in *in, const json_t *value, const char *where, struct err *err) {
    *in = (struct json_in){.object = value, .where = where};
    if (json_is_object(value)) return 0;
    char got[48];
    show(got, sizeof got, value);
    return err_set(err, HEED_EFORMAT, "%.120s: expected an object, got %s", where, got);
}

int json_in_has(const struct json_in *in, const char *key) {
    return json_object_get(in->object, key) != NULL;
}

int json_in_int(const struct json_in *in, const char *key, int64_t *value, struct err *err) {
    const json_t *v = json_object_get(in->object, key);
    if (!json_is_integer(v)) return json_in_expected(in, key, "a whole number", err);
    *value = json_integer_value(v);
    return 0;
}

int json_in_real(const struct json_in *in, const char *key, double *value, struct err *err) {
    const json_t *v = json_object_get(in->object, key);
    if (!json_is_number(v)) return json_in_expected(in, key, "a number", err);
    *value = json_number_value(v);
    return 0;
}

int json_in_string(const struct json_in *in, const char *key, const char **value, struct err *err) {
    const json_t *v = json_object_get(in->object, key);
    if (!json_is_string(v)) return json_in_expected(in, key, "a string", err);
    *value = json_string_value(v);
    return 0;
}

int json_in_object(const struct json_in *in, const char *key, const json_t **value,
                   struct err *err) {
    const json_t *v = json_object_get(in->object, key);
    if (!json_is_object(v)) return json_in_expected(in, key, "an object", err);
    *value = v;
    return 0;
}

int json_in_known(const struct json_in *in, const char *const *keys, struct err *err) {
    const char *key;
    json_t *value;
    /* Iterating wants a pointer that is not const, though nothing changes. */
    json_object_foreach((json_t *)(uintptr_t)in->object, key, value) {
        int known = 0;
        for (int i = 0; keys[i] && !known; i++) known = strcmp(keys[i], key) == 0;
        if (!known)
            return err_set(err, HEED_EFORMAT, "%.120s: there is no field '%.60s'", in->where, key);
    }
    return 0;
}

int json_in_option(const struct option *o, void *values, const json_t *value, json_t *kept,
                   struct err *err) {
    if (o->kind == OPTION_LIST && json_is_array(value)) {
        int rc = 0;
        for (size_t i = 0; !rc && i < json_array_size(value); i++)
            rc = json_in_option(o, values, json_array_get(value, i), kept, err);
        return rc;
    }
    const char *text = json_string_value(value);
    char number[40];
    if (o->kind == OPTION_FLAG) {
        if (!json_is_boolean(value)) return err_set(err, HEED_ECONFIG, "neither true nor false");
        text = json_is_true(value) ? "1" : "0";
    } else if (json_is_number(value)) {
        if (json_is_integer(value))
            snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        else
            snprintf(number, sizeof number, "%.17g", json_real_value(value));
        text = number;
        if (o->kind == OPTION_STRING || o->kind == OPTION_LIST) { /* which would point to it */
            json_array_append_new(kept, json_string(number));
            text = json_string_value(json_array_get(kept, json_array_size(kept) - 1));
        }
    }
    return text ? option_set(o, values, text, err)
                : err_set(err, HEED_ECONFIG, "neither a string nor a number");
}

/* ---- writing --------------------------------------------------------------------------------- */

json_t *json_out_float(float value) {
    char text[OPTION_TEXT];
    BUG_ON(!isfinite(value));
    return json_real(strtod(real_text((double)value, 1, text), NULL));
}

json_t *json_out_real(double value) { return isfinite(value) ? json_real(value) : json_null(); }

json_t *json_out_string(const char *text) {
    json_t *value = json_string(text);
    if (value) return value;
    uint64_t n = 0;
    size_t size = strlen(text);
    char *clean = xmalloc(3 * size + 1);
    value = json_stringn(clean, utf8_clean(clean, text, size, &n));
    xfree(clean);
    return value;
}

json_t *json_out_option(const struct option *o, const void *values) {
    const char *at = (const char *)values + o->offset;
    char number[OPTION_TEXT];
    if (o->kind == OPTION_LIST || o->kind == OPTION_WORDS) {
        const struct option_list *list = (const void *)at;
        json_t *array = json_array();
        for (int i = 0; i < list->n; i++)
            json_array_append_new(array, json_out_string(list->item[i]));
        return array;
    }
    if (o->kind == OPTION_F32) return json_out_float(*(const float *)(const void *)at);
    if (o->kind == OPTION_F64) return json_real(*(const double *)(const void *)at);
    if (o->kind == OPTION_FLAG) return json_boolean(*(const int *)(const void *)at);
    const char *text = option_text(o, values, number);
    if (!text) return json_null();
    if (o->kind == OPTION_STRING || o->kind == OPTION_CHOICE) return json_out_string(text);
    errno = 0;
    long long whole = strtoll(text, NULL, 10);
    return errno ? json_string(text) : json_integer(whole); /* JSON's numbers end at 2^63 */
}

json_t *json_out_options(const struct option *rows, const void *values) {
    json_t *object = json_object();
    for (const struct option *o = rows; o->name; o++)
        if (!o->once) json_object_set_new(object, o->name, json_out_option(o, values));
    return object;
}

/* In the fewest digits from 15 that read back as the same value. */
static char *dump(const json_t *value) {
    char *text = NULL;
    for (size_t digits = 15, same = 0; digits <= 17 && !same; digits++) {
        free(text);
        text = json_dumps(value, JSON_INDENT(2) | JSON_REAL_PRECISION(digits));
        json_t *back = text ? json_loads(text, 0, NULL) : NULL;
        same = (size_t)json_equal(back, value);
        json_decref(back);
    }
    return text;
}

int json_out_file(const char *path, const json_t *value, struct err *err) {
    char *text = dump(value);
    if (!text) return err_set(err, HEED_EINTERNAL, "%.180s: not a JSON document", path);
    struct file_writer w;
    int rc = file_writer_open(&w, path, err);
    if (!rc) {
        file_writer_write(&w, text, strlen(text));
        file_writer_write(&w, "\n", 1);
        rc = file_writer_commit(&w, err);
    }
    free(text);
    return rc;
}
