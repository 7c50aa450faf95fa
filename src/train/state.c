/* state.c — see state.h. Texts are stored with every byte outside printable ASCII as %XX, so that
 * any file name survives a JSON header. */
#include "train/state.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static const char *const kind_name[] = {"i64", "u64", "f64", "text"};

/* ---- values ---------------------------------------------------------------------------------- */

static struct state_item *find(const struct state *state, const char *key) {
    for (int i = 0; i < state->n_item; i++)
        if (strcmp(state->item[i].key, key) == 0) return &state->item[i];
    return NULL;
}

static int key_ok(const char *key) {
    size_t n = strlen(key);
    return n > 0 && n < 64 && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_.") == n;
}

static struct state_item *put(struct state *state, const char *key, enum state_kind kind) {
    BUG_ON(!key_ok(key));
    struct state_item *item = find(state, key);
    if (!item) {
        if (state->n_item == state->cap) {
            state->cap = 2 * state->cap + 16;
            state->item = xrealloc(state->item, (size_t)state->cap * sizeof *state->item);
        }
        item = &state->item[state->n_item++];
        *item = (struct state_item){.key = xstrdup(key)};
    } else if (item->kind == STATE_TEXT) {
        xfree(item->as.text);
    }
    item->kind = kind;
    return item;
}

void state_clear(struct state *state) {
    for (int i = 0; i < state->n_item; i++) {
        xfree(state->item[i].key);
        if (state->item[i].kind == STATE_TEXT) xfree(state->item[i].as.text);
    }
    state->n_item = 0;
}

void state_release(struct state *state) {
    state_clear(state);
    xfree(state->item);
    *state = (struct state){0};
}

void state_set_i64(struct state *state, const char *key, int64_t value) {
    put(state, key, STATE_I64)->as.i64 = value;
}

void state_set_u64(struct state *state, const char *key, uint64_t value) {
    put(state, key, STATE_U64)->as.u64 = value;
}

void state_set_f64(struct state *state, const char *key, double value) {
    put(state, key, STATE_F64)->as.f64 = value;
}

void state_set_text(struct state *state, const char *key, const char *value) {
    char *copy = xstrdup(value); /* first: value may be the one being replaced */
    put(state, key, STATE_TEXT)->as.text = copy;
}

static int get(const struct state *state, const char *key, enum state_kind kind,
               const struct state_item **out, struct err *err) {
    const struct state_item *item = find(state, key);
    if (!item) return err_set(err, HEED_EFORMAT, "training state: '%.63s' is missing", key);
    if (item->kind != kind)
        return err_set(err, HEED_EFORMAT, "training state: '%.63s' is %s, expected %s", key,
                       kind_name[item->kind], kind_name[kind]);
    *out = item;
    return 0;
}

int state_get_i64(const struct state *state, const char *key, int64_t *value, struct err *err) {
    const struct state_item *item = NULL;
    int rc = get(state, key, STATE_I64, &item, err);
    if (!rc) *value = item->as.i64;
    return rc;
}

int state_get_u64(const struct state *state, const char *key, uint64_t *value, struct err *err) {
    const struct state_item *item = NULL;
    int rc = get(state, key, STATE_U64, &item, err);
    if (!rc) *value = item->as.u64;
    return rc;
}

int state_get_f64(const struct state *state, const char *key, double *value, struct err *err) {
    const struct state_item *item = NULL;
    int rc = get(state, key, STATE_F64, &item, err);
    if (!rc) *value = item->as.f64;
    return rc;
}

int state_get_text(const struct state *state, const char *key, const char **value,
                   struct err *err) {
    const struct state_item *item = NULL;
    int rc = get(state, key, STATE_TEXT, &item, err);
    if (!rc) *value = item->as.text;
    return rc;
}

/* ---- text ------------------------------------------------------------------------------------ */

static char *format_text(const char *text) {
    char *out = xmalloc(5 + 3 * strlen(text) + 1), *at = out;
    at += sprintf(at, "text:");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p > 0x7e || *p == '%')
            at += sprintf(at, "%%%02X", *p);
        else
            *at++ = (char)*p;
    *at = 0;
    return out;
}

char *state_item_format(const struct state_item *item) {
    if (item->kind == STATE_TEXT) return format_text(item->as.text);
    char *out = xmalloc(48);
    if (item->kind == STATE_I64) snprintf(out, 48, "i64:%" PRId64, item->as.i64);
    if (item->kind == STATE_U64) snprintf(out, 48, "u64:%" PRIu64, item->as.u64);
    if (item->kind == STATE_F64) { /* %a says every finite double exactly; a NaN has a payload */
        uint64_t bits;
        memcpy(&bits, &item->as.f64, sizeof bits);
        if (isnan(item->as.f64))
            snprintf(out, 48, "f64:nan:%016" PRIx64, bits);
        else
            snprintf(out, 48, "f64:%a", item->as.f64);
    }
    return out;
}

static int parse_text(struct state *state, const char *key, const char *text) {
    char *out = xmalloc(strlen(text) + 1), *at = out;
    int ok = 1;
    while (*text && ok) {
        if (*text != '%') {
            *at++ = *text++;
            continue;
        }
        ok = isxdigit((unsigned char)text[1]) && isxdigit((unsigned char)text[2]);
        if (!ok) break;
        *at++ = (char)strtoul((char[]){text[1], text[2], 0}, NULL, 16);
        ok = at[-1] != 0;
        text += 3;
    }
    *at = 0;
    if (ok) state_set_text(state, key, out);
    xfree(out);
    return ok;
}

static int parse_double(struct state *state, const char *key, const char *text) {
    char *end;
    double value;
    if (strncmp(text, "nan:", 4) == 0) {
        uint64_t bits = strtoull(text + 4, &end, 16);
        memcpy(&value, &bits, sizeof value);
        if (strlen(text + 4) != 16 || *end || !isnan(value)) return 0;
    } else {
        value = strtod(text, &end);
        if (end == text || *end || isnan(value)) return 0;
    }
    state_set_f64(state, key, value);
    return 1;
}

static int parse_whole(struct state *state, const char *key, const char *text, int is_signed) {
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)text[is_signed && text[0] == '-'])) return 0;
    if (is_signed)
        state_set_i64(state, key, strtoll(text, &end, 10));
    else
        state_set_u64(state, key, strtoull(text, &end, 10));
    return !errno && !*end;
}

int state_parse(struct state *state, const char *key, const char *text, struct err *err) {
    int ok = key_ok(key);
    if (ok && strncmp(text, "i64:", 4) == 0)
        ok = parse_whole(state, key, text + 4, 1);
    else if (ok && strncmp(text, "u64:", 4) == 0)
        ok = parse_whole(state, key, text + 4, 0);
    else if (ok && strncmp(text, "f64:", 4) == 0)
        ok = parse_double(state, key, text + 4);
    else if (ok && strncmp(text, "text:", 5) == 0)
        ok = parse_text(state, key, text + 5);
    else
        ok = 0;
    return ok ? 0
              : err_set(err, HEED_EFORMAT, "training state: '%.60s' has the value '%.60s'", key,
                        text);
}
