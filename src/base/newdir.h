/* newdir.h — a directory whose files change together.
 *
 * The files are written into a new directory beside the old one, which then takes its place in one
 * rename (an exchange, where the file system can): however and whenever the writer ends, a
 * reader finds all of the old files or all of the new ones. Files of the old directory that have no
 * new version are moved over.
 *
 * Where there is no room beside it (a mount point, a parent that cannot be written to), the files
 * are written into a directory inside and renamed one by one when all of them are durable: a full
 * disk leaves the old ones alone there, too, but a kill between two renames does not. */
#ifndef BASE_NEWDIR_H
#define BASE_NEWDIR_H

#include "base/err.h"

struct newdir {
    char *path;  /* as the caller named it */
    char *place; /* the same without symbolic links */
    char *temp;  /* where the files are to be written */
    int inside;
};

/* Makes temp, and the parents of path if need be. */
int newdir_begin(struct newdir *d, const char *path, struct err *err);

/* Finishes. rc 0: everything is written and takes its place. Otherwise, or if that fails, what was
 * there before stays and temp is removed; a message about a file in temp becomes one about the file
 * in path. Returns rc, or the status of what went wrong. */
int newdir_end(struct newdir *d, int rc, struct err *err);

#endif
