/* outlet.h — whole lines to standard output or a file, as they come.
 *
 * A file is written beside its target and renamed once it is complete (base/file.h); what an
 * interrupted command has written is kept as FILE.part. Pipes, devices and what cannot be replaced
 * are written directly.
 *
 * Lines are gathered and written together when asked. A stop in the middle of writing takes effect
 * after a whole line, never within one. A reader that goes away also ends the writing, and the
 * caller is told. */
#ifndef CLI_OUTLET_H
#define CLI_OUTLET_H

#include "base/file.h"

struct outlet {
    int fd, closed; /* closed: its reader has gone */
    const char *name;
    struct file_writer file; /* path NULL: standard output */
    uint64_t written;        /* bytes */
    char *bytes;
    size_t used, size;
};

/* Does the path name a file? NULL and "-" are standard output. */
int outlet_is_file(const char *path);
int outlet_open(struct outlet *o, const char *path, struct err *err);

/* Everything was written: the file gets its name. */
int outlet_commit(struct outlet *o, struct err *err);

/* Gives up without a commit. Returns FILE.part (to xfree) if it has the lines so far, else NULL;
 * NULL after a commit. */
char *outlet_close(struct outlet *o);

void outlet_put(struct outlet *o, const char *text, size_t size);
void outlet_printf(struct outlet *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Writes what was put, which must end with a newline. HEED_ECANCELLED: *stop became non-zero, or
 * the reader is gone (o->closed). */
int outlet_flush(struct outlet *o, const volatile int *stop, struct err *err);

#endif
