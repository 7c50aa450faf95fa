/* defaults.c — see defaults.h. */
#include "search/defaults.h"

#include <stdio.h>
#include <string.h>

#include "base/similar.h"
#include "base/utf8.h"
#include "io/json.h"

/* The option of that name that a model may set, and what its offset counts from; or NULL. */
static const struct option *find(struct translator_options *o, const char *name, size_t length,
                                 void **values) {
    const struct option *row = option_find(search_rows, name, length);
    *values = &o->search;
    if (!row) {
        row = option_find(translator_rows, name, length);
        *values = o;
    }
    return row && row->of_model ? row : NULL;
}

/* What the value should have been; NULL: it is. A text in place of a number would be read, too; but
 * other programs read the file as well. */
static const char *other_type(const struct option *o, const json_t *value) {
    switch (o->kind) {
    case OPTION_FLAG:
        return json_is_boolean(value) ? NULL : "true or false";
    case OPTION_INT:
        return json_is_integer(value) ? NULL : "a whole number";
    case OPTION_CHOICE:
    case OPTION_STRING:
        return json_is_string(value) ? NULL : "a string";
    default:
        return json_is_number(value) ? NULL : "a number";
    }
}

static int check(const struct translator_options *o, const struct config *config, struct err *err) {
    int rc = search_check(&o->search, err);
    if (rc) return rc;
    if (o->align.layer > config->n_layer_dec)
        return err_set(err, HEED_EINVAL, "alignment_layer: %d, but the decoder has %d layers",
                       o->align.layer, config->n_layer_dec);
    if (o->align.head > config->n_head)
        return err_set(err, HEED_EINVAL, "alignment_head: %d, but there are %d heads",
                       o->align.head, config->n_head);
    return 0;
}

int defaults_read(struct translator_options *o, const json_t *translate,
                  const struct config *config, const char *where, struct err *err) {
    const char *key, *wanted;
    json_t *value;
    struct err why = {0};
    char place[120];
    *o = translator_defaults();
    if (!translate) return 0;
    snprintf(place, sizeof place, "%.100s: translate", where);
    json_object_foreach((json_t *)(uintptr_t)translate, key, value) {
        void *values;
        const struct option *row = find(o, key, strlen(key), &values);
        if (!row || strcmp(row->name, key) != 0)
            return err_set(err, HEED_EFORMAT, "%.100s: translate: a model cannot set '%.60s'",
                           where, key);
        size_t size = json_string_length(value); /* of a text, else 0 */
        if ((wanted = other_type(row, value)))
            return json_in_expected(&(struct json_in){.object = translate, .where = place}, key,
                                    wanted, err);
        if (size > 100 || utf8_plain_prefix(json_string_value(value), size) < size)
            err_set(&why, HEED_EFORMAT, "too long, or with control characters");
        if (why.code || json_in_option(row, values, value, NULL, &why))
            return err_set(err, HEED_EFORMAT, "%.100s: translate: %s: %.100s", where, key, why.msg);
    }
    if (check(o, config, &why))
        return err_set(err, HEED_EFORMAT, "%.100s: translate: %.120s", where, why.msg);
    return 0;
}

struct translator_options defaults_of(const struct engine *engine) {
    const struct ensemble *e = engine->ensemble;
    return e && e->defaults ? *e->defaults : translator_defaults();
}

struct align_options defaults_align(const struct engine *engine, struct align_options wanted) {
    struct align_options own = defaults_of(engine).align;
    if (wanted.layer && wanted.layer != own.layer) return wanted;
    struct align_options got = {own.layer, wanted.head, wanted.row ? wanted.row : own.row,
                                wanted.threshold};
    if (!wanted.layer && !wanted.head) got.head = own.head; /* a layer alone: the mean */
    if (!(got.threshold > 0) && got.head == own.head && got.row == own.row)
        got.threshold = own.threshold; /* that of this head and no other */
    return got;
}

static int unknown(const char *name, size_t length, struct err *err) {
    struct similar similar = {.word = name, .length = length};
    for (int i = 0; i < 2; i++)
        for (const struct option *o = i ? translator_rows : search_rows; o->name; o++)
            if (o->of_model) similar_try(&similar, o->name);
    return err_set(err, HEED_EINVAL, "a model cannot set '%.*s'%s%s%s",
                   (int)(length < 60 ? length : 60), name, similar.best ? "; did you mean '" : "",
                   similar.best ? similar.best : "", similar.best ? "'?" : "");
}

int defaults_set(json_t *translate, const char *assignment, struct err *err) {
    struct translator_options o = translator_defaults();
    struct err why;
    void *values;
    size_t length = strcspn(assignment, "=");
    const struct option *row = find(&o, assignment, length, &values);
    if (!assignment[length])
        return err_set(err, HEED_EINVAL, "'%.60s' is not NAME=VALUE", assignment);
    if (!row) return unknown(assignment, length, err);
    const char *text = assignment + length + 1;
    if (!*text) {
        json_object_del(translate, row->name);
        return 0;
    }
    int is_true = strcmp(text, "true") == 0;
    if (row->kind == OPTION_FLAG && !is_true && strcmp(text, "false") != 0)
        return err_set(err, HEED_EINVAL, "%s: '%.60s' is neither true nor false", row->name, text);
    if (row->kind == OPTION_FLAG) text = is_true ? "1" : "0";
    if (option_set(row, values, text, &why))
        return err_set(err, HEED_EINVAL, "%s: %.200s", row->name, why.msg);
    json_object_set_new(translate, row->name, json_out_option(row, values));
    return 0;
}

int defaults_set_align(json_t **translate, const struct align_options *align, struct err *err) {
    char text[4][48];
    int rc = 0;
    snprintf(text[0], sizeof text[0], "alignment_layer=%d", align->layer);
    snprintf(text[1], sizeof text[1], "alignment_head=%d", align->head);
    snprintf(text[2], sizeof text[2], "alignment_row=%s", align_row_names[align->row]);
    snprintf(text[3], sizeof text[3], "alignment_threshold="); /* none */
    if (align->threshold > 0)
        snprintf(text[3], sizeof text[3], "alignment_threshold=%g", (double)align->threshold);
    if (!*translate) *translate = json_object();
    for (int i = 0; i < 4 && !rc; i++) rc = defaults_set(*translate, text[i], err);
    return rc;
}
