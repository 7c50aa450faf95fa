/* newdir.h — a directory whose files change together.
 *
 * The files are written into a new directory beside the old one and made durable. Then the two
 * exchange their names in one call: however and whenever the writer ends, a reader finds all of the
 * old files or all of the new ones. Other files in the old directory get a second name (link(2)) in
 * the new one before that, and lose their first one after it.
 *
 * Where that cannot be (a mount point, the current directory, directories in the old one, a parent
 * that cannot be written to, a file system without exchange or links), the old files are moved to
 * PATH/.PID-N.tmp one by one and the new ones to their place; if one of the moves fails, all are
 * undone. A kill between two of them leaves a directory without the first of `own`, config.json: it
 * is refused, and the old files are in PATH/.PID-N.tmp.
 *
 * A kill leaves *.PID-N.tmp in or beside PATH, which nobody removes. */
#ifndef BASE_NEWDIR_H
#define BASE_NEWDIR_H

#include "base/err.h"

struct newdir {
    char *path;             /* as the caller named it */
    char *place;            /* the same without symbolic links */
    char *temp;             /* where the files are to be written */
    char *old;              /* where the old ones are */
    const char *const *own; /* names, up to a NULL, that do not stay if they have no new version */
    int is_there, inside;
};

/* Makes temp, and the parents of path if need be. */
int newdir_begin(struct newdir *d, const char *path, const char *const *own, struct err *err);

/* Finishes. rc 0: everything is written and takes its place. Otherwise, or if that fails, what was
 * there before stays, or the message says where it is, and temp is removed; a message about a file
 * in temp becomes one about the file in path. Returns rc, or the status of what went wrong. */
int newdir_end(struct newdir *d, int rc, struct err *err);

#endif
