/* options.c — see options.h. */
#include "base/options.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

const struct option *option_find(const struct option *rows, const char *name, size_t length) {
    for (const struct option *o = rows; o->name; o++) {
        size_t i = 0;
        while (i < length && (o->name[i] == name[i] || (o->name[i] == '_' && name[i] == '-'))) i++;
        if (i == length && !o->name[i]) return o;
    }
    return NULL;
}

/* ---- numbers --------------------------------------------------------------------------------- */

const char *real_text(double value, int single, char text[OPTION_TEXT]) {
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, OPTION_TEXT, "%.*g", digits, value);
        if (single ? strtof(text, NULL) == (float)value : strtod(text, NULL) == value) break;
    }
    return text;
}

const char *number_text(double value, char text[OPTION_TEXT]) {
    if (value != floor(value) || fabs(value) >= 1e15) {
        char *e = strchr(real_text(value, 0, text), 'e');
        if (e && e[2] == '0') memmove(e + 2, e + 3, strlen(e + 3) + 1); /* 1e-09 */
        return text;
    }
    char digits[28];
    snprintf(text, OPTION_TEXT, "%s%s", value < 0 ? "-" : "",
             num_grouped(digits, (uint64_t)fabs(value)));
    return text;
}

static int is_whole(const struct option *o) {
    return o->kind == OPTION_INT || o->kind == OPTION_I64 || o->kind == OPTION_U64;
}

static int is_number(const struct option *o) {
    return is_whole(o) || o->kind == OPTION_F32 || o->kind == OPTION_F64;
}

static int in_range(const struct option *o, double v) {
    double min = o->min, max = o->max;
    if (min == 0 && max == 0) return 1;
    if (o->kind == OPTION_F32) { /* 1e-12 as a float is less than 1e-12 */
        v = (double)(float)v;
        min = (double)(float)min;
        max = (double)(float)max;
    }
    return v >= min && (o->below ? v < max : v <= max);
}

/* text: the value as it was given. */
static int range_error(const struct option *o, const char *text, struct err *err) {
    char min[OPTION_TEXT], max[OPTION_TEXT], value[OPTION_TEXT];
    size_t n = strlen(text);
    if (n < 16 && strspn(text, "0123456789") == n) text = number_text(strtod(text, NULL), value);
    return err_set(err, HEED_EINVAL,
                   o->below ? "%.60s is not at least %s and below %s"
                            : "%.60s is not between %s and %s",
                   text, number_text(o->min, min), number_text(o->max, max));
}

static int set_u64(const struct option *o, void *at, const char *text, struct err *err) {
    char *end;
    errno = 0;
    uint64_t v = strtoull(text, &end, 10);
    if (text[0] == '-' && end != text && !*end && o->max > 0) return range_error(o, text, err);
    if (text[0] < '0' || text[0] > '9' || *end)
        return err_set(err, HEED_EINVAL, "'%.60s' is not a whole number", text);
    if (!in_range(o, (double)v)) return range_error(o, text, err);
    if (errno) return err_set(err, HEED_EINVAL, "%.60s is too large", text);
    memcpy(at, &v, sizeof v);
    return 0;
}

static int set_number(const struct option *o, void *at, const char *text, struct err *err) {
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    int overflow = errno == ERANGE && fabs(v) > 1;
    if (end == text || *end || (!overflow && !isfinite(v)) || (is_whole(o) && v != floor(v)))
        return err_set(err, HEED_EINVAL, "'%.60s' is not a %snumber", text,
                       is_whole(o) ? "whole " : "");
    if (!in_range(o, v)) return range_error(o, text, err);
    if (overflow) return err_set(err, HEED_EINVAL, "%.60s is too large", text);
    errno = 0;
    int64_t i = strtoll(text, &end, 10); /* a double would round it */
    if (*end || errno) i = (int64_t)v;   /* 1e3 */
    if (o->kind == OPTION_INT)
        memcpy(at, &(int){(int)v}, sizeof(int));
    else if (o->kind == OPTION_I64)
        memcpy(at, &i, sizeof(int64_t));
    else if (o->kind == OPTION_F32)
        memcpy(at, &(float){(float)v}, sizeof(float));
    else
        memcpy(at, &v, sizeof v);
    return 0;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static int as_int(const void *at) {
    int v;
    memcpy(&v, at, sizeof v);
    return v;
}

static double as_number(const struct option *o, const void *at) {
    if (o->kind == OPTION_INT) return as_int(at);
    int64_t i;
    uint64_t u;
    float f;
    double d;
    if (o->kind == OPTION_I64) return memcpy(&i, at, sizeof i), (double)i;
    if (o->kind == OPTION_U64) return memcpy(&u, at, sizeof u), (double)u;
    if (o->kind == OPTION_F32) return memcpy(&f, at, sizeof f), (double)f;
    return memcpy(&d, at, sizeof d), d;
}

int choice_parse(int *index, const char *const *choices, const char *word, struct err *err) {
    char list[160] = "";
    size_t n = 0;
    for (int i = 0; choices[i]; i++) {
        if (!choices[i][0]) continue;
        if (strcmp(word, choices[i]) == 0) return *index = i, 0;
        if (n < sizeof list)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", n ? ", " : "", choices[i]);
    }
    return err_set(err, HEED_EINVAL, "'%.60s' is not one of %s", word, list);
}

static int set_field(const struct option *o, void *at, const char *text, struct err *err) {
    int index = 0, rc = 0;
    if (!*text && o->arg && strcmp(o->arg, "TEXT") != 0)
        return err_set(err, HEED_EINVAL, "is empty");
    if (o->made && strcmp(text, "-") == 0)
        return err_set(err, HEED_EINVAL,
                       "what is written here needs a name; - (standard output) is none");
    switch (o->kind) {
    case OPTION_FLAG:
        index = strcmp(text, "0") != 0;
        break;
    case OPTION_CHOICE:
        rc = choice_parse(&index, o->choices, text, err);
        break;
    case OPTION_STRING:
        memcpy(at, &text, sizeof text);
        return 0;
    case OPTION_LIST:
    case OPTION_WORDS: {
        struct option_list *list = at;
        list->item = xrealloc(list->item, ((size_t)list->n + 1) * sizeof *list->item);
        list->item[list->n++] = text;
        return 0;
    }
    case OPTION_U64:
        return set_u64(o, at, text, err);
    default:
        return set_number(o, at, text, err);
    }
    if (!rc) memcpy(at, &index, sizeof index);
    return rc;
}

static size_t size_of(const struct option *o) {
    static const size_t size[] = {[OPTION_FLAG] = sizeof(int),
                                  [OPTION_INT] = sizeof(int),
                                  [OPTION_I64] = sizeof(int64_t),
                                  [OPTION_U64] = sizeof(uint64_t),
                                  [OPTION_F32] = sizeof(float),
                                  [OPTION_F64] = sizeof(double),
                                  [OPTION_STRING] = sizeof(char *),
                                  [OPTION_CHOICE] = sizeof(int),
                                  [OPTION_LIST] = sizeof(struct option_list),
                                  [OPTION_WORDS] = sizeof(struct option_list)};
    BUG_ON(o->size != size[o->kind]);
    return o->size;
}

int option_set(const struct option *o, void *values, const char *text, struct err *err) {
    size_t size = size_of(o);
    int rc = set_field(o, (char *)values + o->offset, text, err);
    if (!rc && o->also) memcpy((char *)values + o->also, (char *)values + o->offset, size);
    return rc;
}

void options_default(const struct option *rows, void *values) {
    for (const struct option *o = rows; o->name; o++) {
        memset((char *)values + o->offset, 0, size_of(o));
        BUG_ON(o->def && option_set(o, values, o->def, NULL));
    }
}

int options_check(const struct option *rows, const void *values, struct err *err) {
    for (const struct option *o = rows; o->name; o++) {
        const char *at = (const char *)values + o->offset;
        struct err why = {0};
        char text[OPTION_TEXT];
        int rc = 0;
        if (o->kind == OPTION_CHOICE) {
            int n = 0, v = as_int(at);
            while (o->choices[n]) n++;
            if (v < 0 || v >= n || !o->choices[v][0]) {
                snprintf(text, sizeof text, "%d", v);
                rc = choice_parse(&n, o->choices, text, &why);
            }
        } else if (is_number(o) && !in_range(o, as_number(o, at))) {
            rc = range_error(o, option_text(o, values, text), &why);
        }
        if (rc) return err_set(err, rc, "%s: %.200s", o->name, why.msg);
    }
    return 0;
}

int option_equal(const struct option *o, const void *a, const void *b) {
    const char *x = (const char *)a + o->offset, *y = (const char *)b + o->offset;
    return memcmp(x, y, size_of(o)) == 0;
}

int options_equal(const struct option *rows, const void *a, const void *b) {
    for (const struct option *o = rows; o->name; o++)
        if (!option_equal(o, a, b)) return 0;
    return 1;
}

void option_copy(const struct option *o, void *to, const void *from) {
    memcpy((char *)to + o->offset, (const char *)from + o->offset, size_of(o));
    if (o->also) memcpy((char *)to + o->also, (const char *)from + o->also, size_of(o));
}

void options_to_api(const struct option *rows, const void *values, void *api) {
    for (const struct option *o = rows; o->name; o++)
        if (o->api) memcpy((char *)api + o->api, (const char *)values + o->offset, size_of(o));
}

void options_from_api(const struct option *rows, void *values, const void *api) {
    for (const struct option *o = rows; o->name; o++) {
        if (!o->api) continue;
        char *at = (char *)values + o->offset;
        memcpy(at, (const char *)api + o->api, size_of(o));
        if (o->kind == OPTION_FLAG) memcpy(at, &(int){as_int(at) != 0}, sizeof(int));
    }
}

void options_name_api(const struct option *rows, struct err *err) {
    struct err was = *err;
    size_t length = strcspn(was.msg, ":");
    const struct option *o = option_find(rows, was.msg, length);
    if (o && o->api) err_set(err, was.code, "%s%.200s", o->api_name, was.msg + length);
}

const char *option_text(const struct option *o, const void *values, char text[OPTION_TEXT]) {
    const char *at = (const char *)values + o->offset, *word = NULL;
    uint64_t u;
    int64_t i;
    switch (o->kind) {
    case OPTION_CHOICE:
        return o->choices[as_int(at)];
    case OPTION_STRING:
        memcpy(&word, at, sizeof word);
        return word;
    case OPTION_LIST:
    case OPTION_WORDS:
        return NULL;
    case OPTION_U64:
        memcpy(&u, at, sizeof u);
        snprintf(text, OPTION_TEXT, "%" PRIu64, u);
        return text;
    case OPTION_F32:
    case OPTION_F64:
        return real_text(as_number(o, at), o->kind == OPTION_F32, text);
    case OPTION_I64:
        memcpy(&i, at, sizeof i);
        snprintf(text, OPTION_TEXT, "%" PRId64, i);
        return text;
    default:
        snprintf(text, OPTION_TEXT, "%d", as_int(at));
        return text;
    }
}

/* ---- groups ---------------------------------------------------------------------------------- */

uint64_t option_bit(const struct option_group *g, const struct option *o) {
    BUG_ON(o - g->rows >= 64);
    return (uint64_t)1 << (o - g->rows);
}

int options_given(const struct option_group *groups, const char *name) {
    for (const struct option_group *g = groups; g->rows; g++) {
        const struct option *o = option_find(g->rows, name, strlen(name));
        if (o && g->given & option_bit(g, o)) return 1;
    }
    return 0;
}

const char *options_if_default(const struct option_group *groups, const char *name) {
    return options_given(groups, name) ? "" : " (the default)";
}
