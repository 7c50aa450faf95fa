/* yaml.c — see yaml.h. libyaml gives events one by one; the open lists and maps are a stack, so
 * nothing recurses. */
#include "io/yaml.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"

struct reader {
    const char *where;
    struct err *err;
    json_t *root;                        /* owns all below it */
    json_t *open[YAML_IN_MAX_DEPTH + 1]; /* borrowed */
    json_t *key[YAML_IN_MAX_DEPTH + 1];  /* of each open map: a key without its value yet; owned */
    int depth, n_value;
};

static int refuse(const struct reader *r, const yaml_event_t *event, const char *what) {
    return err_set(r->err, HEED_EFORMAT, "%.120s:%zu: %s", r->where, event->start_mark.line + 1,
                   what);
}

/* ---- scalars --------------------------------------------------------------------------------- */

static int is_word(const char *text, size_t size, const char *const *words) {
    for (; *words; words++)
        if (strlen(*words) == size && memcmp(text, *words, size) == 0) return 1;
    return 0;
}

/* A number as JSON has them, or NULL. 0x10, 1_000, .inf and 1:30 stay texts. */
static json_t *number(const char *text, size_t size) {
    char copy[48], *end;
    if (!size || size >= sizeof copy || strspn(text, "+-.0123456789eE") < size) return NULL;
    memcpy(copy, text, size);
    copy[size] = 0;
    errno = 0;
    long long whole = strtoll(copy, &end, 10);
    if (!*end && !errno) return json_integer(whole);
    double real = strtod(copy, &end);
    return *end || !isfinite(real) ? NULL : json_real(real);
}

static json_t *scalar(const yaml_event_t *event) {
    static const char *const nulls[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const trues[] = {"true", "True", "TRUE", NULL};
    static const char *const falses[] = {"false", "False", "FALSE", NULL};
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    if (event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE) {
        if (is_word(text, size, nulls)) return json_null();
        if (is_word(text, size, trues)) return json_true();
        if (is_word(text, size, falses)) return json_false();
        json_t *n = number(text, size);
        if (n) return n;
    }
    return memchr(text, 0, size) ? NULL : json_stringn(text, size);
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Puts the value where it belongs, and takes the reference. */
static int put(struct reader *r, const yaml_event_t *event, json_t *value) {
    json_t *in = r->depth ? r->open[r->depth - 1] : NULL;
    if (!value) return refuse(r, event, "a text that is not UTF-8 or contains a NUL");
    if (++r->n_value > YAML_IN_MAX_VALUES) {
        json_decref(value);
        return refuse(r, event, "too many values");
    }
    if (!in) {
        r->root = value;
        return 0;
    }
    if (json_is_array(in)) {
        json_array_append_new(in, value);
        return 0;
    }
    json_t **key = &r->key[r->depth - 1];
    json_object_set_new(in, json_string_value(*key), value);
    json_decref(*key);
    *key = NULL;
    return 0;
}

/* A scalar where a key is due: as it is written. */
static int put_key(struct reader *r, const yaml_event_t *event) {
    const char *text = (const char *)event->data.scalar.value;
    size_t size = event->data.scalar.length;
    json_t **key = &r->key[r->depth - 1];
    *key = memchr(text, 0, size) ? NULL : json_stringn(text, size);
    if (!*key) return refuse(r, event, "a key that is not UTF-8 or contains a NUL");
    if (json_object_get(r->open[r->depth - 1], json_string_value(*key)))
        return err_set(r->err, HEED_EFORMAT, "%.120s:%zu: the key '%.60s' comes twice", r->where,
                       event->start_mark.line + 1, json_string_value(*key));
    return 0;
}

static int open_value(struct reader *r, const yaml_event_t *event, json_t *value) {
    if (r->depth == YAML_IN_MAX_DEPTH) {
        json_decref(value);
        return refuse(r, event, "nested too deep");
    }
    int rc = put(r, event, value);
    if (!rc) r->open[r->depth++] = value;
    return rc;
}

static int is_key_due(const struct reader *r) {
    return r->depth && json_is_object(r->open[r->depth - 1]) && !r->key[r->depth - 1];
}

static int take(struct reader *r, const yaml_event_t *event) {
    switch (event->type) {
    case YAML_ALIAS_EVENT:
        return refuse(r, event, "aliases (*name) are not read here");
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.tag) return refuse(r, event, "tags (!name) are not read here");
        return is_key_due(r) ? put_key(r, event) : put(r, event, scalar(event));
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: {
        int list = event->type == YAML_SEQUENCE_START_EVENT;
        if (list ? event->data.sequence_start.tag : event->data.mapping_start.tag)
            return refuse(r, event, "tags (!name) are not read here");
        if (is_key_due(r)) return refuse(r, event, "a key that is a list or a map");
        return open_value(r, event, list ? json_array() : json_object());
    }
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        r->depth--;
        return 0;
    case YAML_DOCUMENT_START_EVENT:
        return r->root ? refuse(r, event, "a second document in the file") : 0;
    default:
        return 0;
    }
}

/* libyaml's own reason, which may quote anything. */
static int fail_parse(const struct reader *r, const yaml_parser_t *parser) {
    return err_set(r->err, HEED_EFORMAT, "%.120s:%zu: %.100s", r->where,
                   parser->problem_mark.line + 1,
                   parser->problem ? parser->problem : "this is not YAML");
}

int yaml_in_text(json_t **value, const char *text, size_t size, const char *where,
                 struct err *err) {
    struct reader r = {.where = where, .err = err};
    yaml_parser_t parser;
    *value = NULL;
    if (size > YAML_IN_MAX_SIZE)
        return err_set(err, HEED_ELIMIT, "%.120s: YAML of more than %d bytes", where,
                       YAML_IN_MAX_SIZE);
    BUG_ON(!yaml_parser_initialize(&parser));
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
    int rc = 0;
    for (int done = 0; !rc && !done;) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event)) {
            rc = fail_parse(&r, &parser);
            break;
        }
        rc = take(&r, &event);
        done = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    for (int i = 0; i < YAML_IN_MAX_DEPTH; i++) json_decref(r.key[i]);
    if (rc)
        json_decref(r.root);
    else
        *value = r.root ? r.root : json_null();
    return rc;
}

int yaml_in_file(json_t **value, const char *path, struct err *err) {
    char *text;
    size_t size;
    *value = NULL;
    int rc = file_read_all(&text, &size, path, YAML_IN_MAX_SIZE, err);
    if (rc) return rc;
    rc = yaml_in_text(value, text, size, path, err);
    xfree(text);
    return rc;
}
