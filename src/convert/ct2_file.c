/* ct2_file.c — see ct2_file.h. */
#include "convert/ct2_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/mem.h"

static const uint8_t type_size[CT2_TYPES] = {4, 1, 2, 4, 2, 2};

/* ---- bytes ----------------------------------------------------------------------------------- */

struct cursor {
    const unsigned char *at, *end;
    struct keep *keep;
    int short_of; /* the file ended too early; everything read since is 0 */
};

static const unsigned char *take(struct cursor *c, size_t n) {
    if ((size_t)(c->end - c->at) < n) c->short_of = 1;
    if (c->short_of) return NULL;
    c->at += n;
    return c->at - n;
}

static uint32_t take_number(struct cursor *c, size_t bytes) {
    const unsigned char *b = take(c, bytes);
    uint32_t value = 0;
    for (size_t i = 0; b && i < bytes; i++) value |= (uint32_t)b[i] << 8 * i;
    return value;
}

/* NULL: not a string. */
static const char *take_string(struct cursor *c) {
    size_t n = take_number(c, 2);
    const char *text = (const char *)take(c, n);
    if (!text || !n || text[n - 1] || memchr(text, 0, n - 1)) return NULL;
    return keep_text(c->keep, text, n - 1);
}

/* ---- names of the first revision ------------------------------------------------------------- */

static const char *joined(struct keep *keep, const char *a, int n, const char *b, const char *c) {
    size_t room = (size_t)n + strlen(b) + strlen(c) + 1;
    char *made = keep_take(keep, room);
    snprintf(made, room, "%.*s%s%s", n, a, b, c);
    return made;
}

/* The first `from` in the name becomes `to`. */
static const char *replace(struct keep *keep, const char *name, const char *from, const char *to) {
    const char *at = strstr(name, from);
    return at ? joined(keep, name, (int)(at - name), to, at + strlen(from)) : name;
}

static const char *modern_name(struct keep *keep, const char *name) {
    static const char *const pairs[][2] = {
        {"transformer/", ""},
        {":0", ""},
        {"w_embs", "embeddings/weight"},
        {"kernel", "weight"},
        {"LayerNorm", "layer_norm"},
        {"dense", "projection"},
        {"conv1d_", "linear_"},
        {"conv1d", "linear_0"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        name = replace(keep, name, pairs[i][0], pairs[i][1]);
    if (strstr(name, "encoder")) return replace(keep, name, "multi_head", "self_attention");
    name = replace(keep, name, "masked_multi_head", "self_attention");
    return replace(keep, name, "multi_head", "attention");
}

/* ---- variables ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const struct ct2_variable *)a)->name, ((const struct ct2_variable *)b)->name);
}

const struct ct2_variable *ct2_find(const struct ct2_file *file, const char *name) {
    struct ct2_variable key = {.name = name};
    return file->n ? bsearch(&key, file->variable, (size_t)file->n, sizeof key, by_name) : NULL;
}

static void sort(struct ct2_file *f) {
    if (f->n) qsort(f->variable, (size_t)f->n, sizeof *f->variable, by_name);
}

static int read_variable(struct ct2_file *f, struct cursor *c, const char *where, struct err *err) {
    struct ct2_variable v = {.name = take_string(c)};
    if (!v.name && !c->short_of)
        return err_set(err, HEED_EFORMAT, "%.120s: the name of variable %d is not a text", where,
                       f->n + 1);
    if (c->short_of) return 0;
    v.rank = (int)take_number(c, 1);
    if (v.rank > CT2_RANK)
        return err_set(err, HEED_EFORMAT, "%.100s: '%.80s' has %d dimensions", where, v.name,
                       v.rank);
    size_t count = 1;
    for (int i = 0; i < v.rank; i++) {
        v.shape[i] = take_number(c, 4);
        count = size_mul(count, v.shape[i]);
    }
    uint32_t type = take_number(c, 1);
    size_t length = take_number(c, 4);
    if (f->version < 4) { /* the size of an element, and how many there are */
        length = size_mul(length, type);
        type = type == 4 ? CT2_F32 : type == 2 ? CT2_I16 : type == 1 ? CT2_I8 : CT2_TYPES;
    }
    if (c->short_of) return 0;
    if (type >= CT2_TYPES)
        return err_set(err, HEED_EFORMAT, "%.100s: '%.80s' has a type that is not known", where,
                       v.name);
    v.type = (enum ct2_type)type;
    v.bytes = length;
    if (length != size_mul(count, type_size[type]))
        return err_set(err, HEED_EFORMAT, "%.100s: '%.80s' has %zu bytes for %zu elements", where,
                       v.name, length, count);
    v.data = take(c, length);
    if (f->revision == 1) v.name = modern_name(&f->keep, v.name);
    GROW(f->variable, f->n, f->room);
    f->variable[f->n++] = v;
    return 0;
}

static void add_alias(struct ct2_file *f, int n, const char *name, const char *target,
                      const char *suffix) {
    struct ct2_file stored = *f;
    stored.n = n;
    const struct ct2_variable *v =
        ct2_find(&stored, joined(&f->keep, target, (int)strlen(target), suffix, ""));
    if (!v) return;
    struct ct2_variable alias = *v;
    alias.name = joined(&f->keep, name, (int)strlen(name), suffix, "");
    GROW(f->variable, f->n, f->room);
    f->variable[f->n++] = alias;
}

/* An alias of a quantised matrix is one of its scales, too. */
static int read_aliases(struct ct2_file *f, struct cursor *c, const char *where, struct err *err) {
    uint32_t n = take_number(c, 4);
    int stored = f->n;
    for (uint32_t i = 0; i < n && !c->short_of; i++) {
        const char *name = take_string(c), *target = take_string(c);
        if (c->short_of) break;
        if (!name || !target || f->n > 2 * CT2_VARIABLES)
            return err_set(err, HEED_EFORMAT, "%.120s: alias %u is not two names", where, i + 1);
        add_alias(f, stored, name, target, "");
        add_alias(f, stored, name, target, "_scale");
    }
    return 0;
}

static int check_names(const struct ct2_file *f, const char *where, struct err *err) {
    for (int i = 1; i < f->n; i++)
        if (strcmp(f->variable[i - 1].name, f->variable[i].name) == 0)
            return err_set(err, HEED_EFORMAT, "%.100s: there are two variables '%.100s'", where,
                           f->variable[i].name);
    return 0;
}

int ct2_file_read(struct ct2_file *f, const void *data, size_t size, const char *where,
                  struct err *err) {
    *f = (struct ct2_file){.spec = "", .revision = 1};
    const unsigned char *bytes = size ? data : (const void *)"";
    struct cursor c = {.at = bytes, .end = bytes + size, .keep = &f->keep};
    f->version = take_number(&c, 4);
    if (!c.short_of && (f->version < 1 || f->version > CT2_VERSION))
        return err_set(err, HEED_EFORMAT,
                       "%.120s: version %u of CTranslate2's format; versions 1 to %d are known",
                       where, f->version, CT2_VERSION);
    if (f->version >= 2) {
        f->spec = take_string(&c);
        f->revision = take_number(&c, 4);
        if (!f->spec && !c.short_of)
            return err_set(err, HEED_EFORMAT, "%.120s: the name of the kind of model is not a text",
                           where);
    }
    uint32_t n = take_number(&c, 4);
    if (n > CT2_VARIABLES)
        return err_set(err, HEED_ELIMIT, "%.120s: %u variables, more than %d", where, n,
                       CT2_VARIABLES);
    int rc = 0;
    for (uint32_t i = 0; i < n && !rc && !c.short_of; i++) rc = read_variable(f, &c, where, err);
    sort(f);
    if (!rc) rc = check_names(f, where, err);
    if (!rc && f->version >= 3) rc = read_aliases(f, &c, where, err);
    sort(f);
    if (!rc) rc = check_names(f, where, err);
    if (!rc && c.short_of)
        rc =
            err_set(err, HEED_EFORMAT, "%.120s: the file ends too early, at byte %zu", where, size);
    return rc;
}

void ct2_file_release(struct ct2_file *f) {
    xfree(f->variable);
    keep_release(&f->keep);
    *f = (struct ct2_file){0};
}

double ct2_scalar(const struct ct2_file *f, const char *name, double otherwise) {
    const struct ct2_variable *v = ct2_find(f, name);
    if (!v || v->bytes != type_size[v->type]) return otherwise;
    uint32_t bits = 0;
    for (size_t i = 0; i < v->bytes; i++) bits |= (uint32_t)v->data[i] << 8 * i;
    union {
        uint32_t u;
        float f;
    } x = {.u = v->type == CT2_BF16 ? bits << 16 : bits};
    switch (v->type) {
    case CT2_I8:
        return (int8_t)bits;
    case CT2_I16:
        return (int16_t)bits;
    case CT2_I32:
        return (int32_t)bits;
    case CT2_F16: /* scalars are never narrowed */
        return otherwise;
    default:
        return (double)x.f;
    }
}
