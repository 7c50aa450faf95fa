/* newdir.c — see newdir.h. */
#include "base/newdir.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

static int failed(const struct newdir *d, struct err *err) {
    return err_set(err, HEED_EIO, "%.160s: cannot be replaced: %s%s", d->path, strerror(errno),
                   d->inside ? "" : "; what was there before is intact");
}

/* A new directory PREFIX.PID-N.tmp; NULL and errno when there can be none. */
static char *make_temp(const char *prefix) {
    for (int i = 0; i < 1000; i++) {
        char suffix[48];
        snprintf(suffix, sizeof suffix, ".%ld-%d.tmp", (long)getpid(), i);
        char *temp = path_append(prefix, suffix);
        if (file_calls.mkdir(temp, 0777) == 0) return temp;
        xfree(temp);
        if (errno != EEXIST) break;
    }
    return NULL;
}

/* What is mounted cannot be renamed. */
static int is_mounted(const char *path, const struct stat *st) {
    struct stat above;
    char *parent = path_parent(path);
    int mounted = stat(parent, &above) == 0 && above.st_dev != st->st_dev;
    xfree(parent);
    return mounted;
}

int newdir_begin(struct newdir *d, const char *path, struct err *err) {
    struct stat st;
    char *real = realpath(path, NULL), *parent = path_parent(path);
    int is_there = real && stat(real, &st) == 0, rc = 0;
    *d = (struct newdir){.path = xstrdup(path), .place = xstrdup(real ? real : path)};
    free(real);
    for (size_t n = strlen(d->place); n > 1 && d->place[n - 1] == '/';) d->place[--n] = 0;
    if (is_there && !S_ISDIR(st.st_mode))
        rc = err_set(err, HEED_EIO, "%.180s: not a directory", path);
    else if (!is_there)
        rc = dir_make(parent, err);
    xfree(parent);
    errno = EXDEV;
    if (!rc && !(is_there && is_mounted(d->place, &st))) d->temp = make_temp(d->place);
    if (!rc && !d->temp && is_there && (errno == EXDEV || errno == EACCES || errno == EROFS)) {
        char *prefix = path_join(d->place, "");
        d->temp = make_temp(prefix);
        d->inside = 1;
        xfree(prefix);
    }
    if (!rc && !d->temp) rc = failed(d, err);
    if (!rc && is_there && !d->inside) chmod(d->temp, st.st_mode & 07777);
    return rc ? newdir_end(d, rc, err) : 0;
}

/* Moves the files of one directory to another; those that are there already only if they are to be
 * replaced. From the last name to the first: config.json, by which a model is known, is late. */
static int move_files(const char *from, const char *to, int replace) {
    struct dir_names names;
    int rc = dir_read(&names, from, NULL);
    for (int i = names.n - 1; i >= 0 && !rc; i--) {
        char *source = path_join(from, names.name[i]), *target = path_join(to, names.name[i]);
        if (replace || !file_exists(target)) rc = file_calls.rename(source, target);
        xfree(source);
        xfree(target);
    }
    dir_names_release(&names);
    return rc;
}

/* The old directory, which has files, and the new one change names; temp is the old one then. */
static int swap(struct newdir *d) {
    if (file_calls.exchange(d->temp, d->place) == 0) return 0;
    if (errno != EINVAL && errno != ENOSYS && errno != ENOTSUP) return -1;
    char *aside = path_append(d->temp, ".old");
    int rc = file_calls.rename(d->place, aside);
    if (!rc && (rc = file_calls.rename(d->temp, d->place))) file_calls.rename(aside, d->place);
    xfree(rc ? aside : d->temp);
    if (!rc) d->temp = aside;
    return rc;
}

static int take_place(struct newdir *d) {
    if (d->inside) return move_files(d->temp, d->place, 1);
    if (file_calls.rename(d->temp, d->place) == 0) { /* nothing there, or nothing in it */
        xfree(d->temp);
        d->temp = NULL;
        return 0;
    }
    if (errno != ENOTEMPTY && errno != EEXIST) return -1;
    int rc = swap(d);
    if (!rc) move_files(d->temp, d->place, 0);
    return rc;
}

/* "TEMP/name: why" is about PATH/name. */
static void rename_in(struct err *err, const struct newdir *d) {
    size_t n = d->temp ? strlen(d->temp) : 0;
    char rest[sizeof err->msg];
    if (!err || !n || strncmp(err->msg, d->temp, n) != 0) return;
    snprintf(rest, sizeof rest, "%s", err->msg + n);
    err_set(err, err->code, "%.120s%s", d->path, rest);
}

int newdir_end(struct newdir *d, int rc, struct err *err) {
    if (!rc) rc = dir_sync(d->temp, err);
    if (rc)
        rename_in(err, d);
    else if (take_place(d))
        rc = failed(d, err);
    if (d->temp) dir_remove(d->temp, NULL);
    char *parent = path_parent(d->place);
    if (!rc && dir_sync(d->inside ? d->place : parent, NULL))
        rc = err_set(err, HEED_EIO, "%.160s: replaced, but the disk may not have it yet: %s",
                     d->path, strerror(errno));
    xfree(parent);
    xfree(d->temp);
    xfree(d->place);
    xfree(d->path);
    *d = (struct newdir){0};
    return rc;
}
