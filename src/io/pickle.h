/* pickle.h — Python's pickles as plain values, as far as checkpoints have them (protocols 2 to 4):
 * nothing in them is imported, called or executed.
 *
 * A pickle is a program for a small stack machine that builds objects. Here it builds values; what
 * the program would import is a GLOBAL, its name, and what it would call an OBJECT: the callable,
 * its arguments, and the state and items it is given afterwards. Whoever reads the tree acts on the
 * names that it knows, and on no other.
 *
 * The input is hostile: size and number of values are limited, opcodes that checkpoints do without
 * are refused by name, and a stack or memo that lacks what an opcode wants is an error. Values may
 * be shared, and lists, dictionaries and objects may contain themselves: whoever walks them must
 * bound the depth. */
#ifndef IO_PICKLE_H
#define IO_PICKLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/keep.h"

enum { PICKLE_MAX_SIZE = 64 << 20, PICKLE_MAX_VALUES = 1 << 20 };

enum pickle_kind {
    PICKLE_NONE,
    PICKLE_BOOL,      /* integer */
    PICKLE_INT,       /* integer */
    PICKLE_LONG,      /* bytes: too long for that; little-endian, two's complement */
    PICKLE_FLOAT,     /* real */
    PICKLE_STRING,    /* bytes: UTF-8, unchecked; no NUL behind them */
    PICKLE_BYTES,     /* bytes */
    PICKLE_TUPLE,     /* items; frozen sets, too */
    PICKLE_LIST,      /* items; sets, too */
    PICKLE_DICT,      /* items: key, value, key, value, as they came */
    PICKLE_GLOBAL,    /* bytes: "module name" */
    PICKLE_OBJECT,    /* callable, args, state, and items as a LIST or, if pairs, a DICT has them */
    PICKLE_PERSISTENT /* args: what the saving program called it */
};

struct pickle_value {
    enum pickle_kind kind;
    int pairs;
    union {
        int64_t integer;
        double real;
        const char *bytes;                /* in the pickle, or kept */
        const struct pickle_value **item; /* kept */
    };
    size_t n, room;                                     /* of bytes or items; items of memory */
    const struct pickle_value *callable, *args, *state; /* state: NULL if there is none */
};

struct pickle_input {
    const char *bytes;
    size_t size;
    const char *where; /* begins messages */
};

/* The first pickle in these bytes, which must outlive its value, as `keep` must. *used: how long it
 * is. */
int pickle_read(const struct pickle_value **value, const struct pickle_input *in, size_t *used,
                struct keep *keep, struct err *err);

int pickle_is_text(const struct pickle_value *value, const char *text);   /* this STRING? */
int pickle_is_global(const struct pickle_value *value, const char *name); /* "module name"? */

#endif
