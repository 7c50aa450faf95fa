/* npy.c — see npy.h. */
#include "io/npy.h"

#include <string.h>

#include "base/mem.h"

/* How NumPy calls them, behind the byte order. */
static const struct {
    char code[3];
    const char *dtype;
    size_t size;
} types[] = {{"f2", "F16", 2}, {"f4", "F32", 4}, {"f8", "F64", 8}, {"i1", "I8", 1},
             {"i2", "I16", 2}, {"i4", "I32", 4}, {"i8", "I64", 8}, {"u1", "U8", 1},
             {"u2", "U16", 2}, {"u4", "U32", 4}, {"u8", "U64", 8}, {"b1", "BOOL", 1}};

/* ---- the dictionary -------------------------------------------------------------------------- */

struct text {
    const char *at, *end;
};

static void skip_spaces(struct text *t) {
    while (t->at < t->end && (*t->at == ' ' || *t->at == '\n')) t->at++;
}

/* 1 and behind it, if the word comes next. */
static int take(struct text *t, const char *word) {
    size_t n = strlen(word);
    skip_spaces(t);
    if ((size_t)(t->end - t->at) < n || memcmp(t->at, word, n) != 0) return 0;
    t->at += n;
    return 1;
}

/* 'text', without escapes: its length, or -1. */
static int take_quoted(struct text *t, const char **text) {
    skip_spaces(t);
    if (t->at >= t->end || (*t->at != '\'' && *t->at != '"')) return -1;
    const char *from = t->at + 1, *to = memchr(from, *t->at, (size_t)(t->end - from));
    if (!to || to - from > 40 || memchr(from, '\\', (size_t)(to - from))) return -1;
    t->at = to + 1;
    *text = from;
    return (int)(to - from);
}

static int take_number(struct text *t, int64_t *n) {
    skip_spaces(t);
    int digits = 0;
    for (*n = 0; t->at < t->end && *t->at >= '0' && *t->at <= '9' && digits < 18; digits++)
        *n = 10 * *n + (*t->at++ - '0');
    return digits > 0 && (t->at == t->end || *t->at < '0' || *t->at > '9');
}

/* (), (3,), (3, 4): as Python writes tuples. */
static int take_shape(struct text *in, struct tensor *t) {
    if (!take(in, "(")) return 0;
    for (t->rank = 0; !take(in, ")"); t->rank++) {
        if (t->rank == SAFETENSORS_MAX_RANK || !take_number(in, &t->shape[t->rank])) return 0;
        if (!take(in, ",")) { /* (3) is a number, not a tuple */
            t->rank++;
            return t->rank > 1 && take(in, ")");
        }
    }
    return 1;
}

/* descr -> t->dtype and the size of an element, or 0. */
static size_t take_type(struct text *in, struct tensor *t) {
    const char *text;
    if (take_quoted(in, &text) != 3) return 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (memcmp(text + 1, types[i].code, 2) != 0) continue;
        t->dtype = types[i].dtype;
        return *text == '<' || (*text == '|' && types[i].size == 1) ? types[i].size : 0;
    }
    return 0;
}

/* What is wrong with the dictionary, or NULL. */
static const char *read_fields(struct text in, struct tensor *t, size_t *item) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    int seen = 0;
    if (!take(&in, "{")) return "no dictionary";
    while (!take(&in, "}")) {
        const char *key = NULL;
        int n = take_quoted(&in, &key), which = 0;
        while (which < 3 &&
               (n != (int)strlen(keys[which]) || memcmp(key, keys[which], (size_t)n) != 0))
            which++;
        if (n < 0 || which == 3 || !take(&in, ":")) return "a field that is not known";
        if (seen & 1 << which) return "a field that comes twice";
        seen |= 1 << which;
        if (which == 0 && !(*item = take_type(&in, t)))
            return "descr is no type of numbers that is read here";
        if (which == 1 && take(&in, "True")) return "fortran_order is True: columns come first";
        if (which == 1 && !take(&in, "False")) return "fortran_order is neither True nor False";
        if (which == 2 && !take_shape(&in, t)) return "shape is not a tuple of sizes";
        if (!take(&in, ",") && !take(&in, "}")) return "no comma after a field";
        if (in.at[-1] == '}') break;
    }
    skip_spaces(&in);
    if (seen != 7) return "descr, fortran_order or shape is missing";
    return in.at == in.end ? NULL : "something after the dictionary";
}

/* ---- the array ------------------------------------------------------------------------------- */

int npy_read(struct tensor *t, const char *bytes, size_t size, const char *where, const char *name,
             struct err *err) {
    *t = (struct tensor){.name = name};
    const unsigned char *at = (const unsigned char *)bytes;
    size_t head = 10, item = 0;
    if (size < 12 || memcmp(bytes, "\x93NUMPY", 6) != 0)
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s is not a .npy array", where, name);
    if (at[6] < 1 || at[6] > 3 || at[7])
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s: .npy of version %d.%d; 1 to 3 are known",
                       where, name, at[6], at[7]);
    size_t length = at[8] | (size_t)at[9] << 8;
    if (at[6] > 1) {
        head = 12;
        length |= (size_t)at[10] << 16 | (size_t)at[11] << 24;
    }
    if (length > size - head)
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s: a header of %zu bytes in %zu", where,
                       name, length, size);
    struct text dictionary = {bytes + head, bytes + head + length};
    const char *wrong = read_fields(dictionary, t, &item);
    if (wrong)
        return err_set(err, HEED_EFORMAT, "%.120s: %.60s: in the header: %s", where, name, wrong);
    size_t want = item;
    for (int i = 0; i < t->rank && want != SIZE_MAX; i++) /* even if a zero follows */
        want = size_mul(want, (size_t)t->shape[i]);
    t->data = bytes + head + length;
    t->size = size - head - length;
    if (want == t->size) return 0;
    char shape[100];
    tensor_shape_text(shape, sizeof shape, t->shape, t->rank);
    return err_set(err, HEED_EFORMAT, "%.120s: %.60s: %s of %s needs %zu bytes and has %zu", where,
                   name, shape, t->dtype, want, t->size);
}
