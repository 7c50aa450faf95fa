/* outlet.h — whole lines to standard output or a file, as they come.
 *
 * Lines are gathered and written together when asked. A stop in the middle of writing ends behind a
 * line, never within one; so does a reader that went away, of which the caller is told. */
#ifndef CLI_OUTLET_H
#define CLI_OUTLET_H

#include <stddef.h>

#include "base/err.h"

struct outlet {
    int fd, owned, closed; /* closed: nobody reads it any more */
    const char *name;
    char *bytes;
    size_t used, size;
};

/* path NULL: standard output. A file is emptied first. */
int outlet_open(struct outlet *o, const char *path, struct err *err);
void outlet_close(struct outlet *o);

void outlet_put(struct outlet *o, const char *text, size_t size);
void outlet_printf(struct outlet *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes what was put, which ends with a line end. HEED_ECANCELLED: *stop became non-zero, or the
 * reader is gone (o->closed). */
int outlet_flush(struct outlet *o, const volatile int *stop, struct err *err);

#endif
