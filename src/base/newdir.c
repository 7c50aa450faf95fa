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
    const char *why = strerror(errno);
    if (!d->is_there) return err_set(err, HEED_EIO, "%.180s: cannot be created: %s", d->path, why);
    if (d->old)
        return err_set(err, HEED_EIO, "%.80s: cannot be replaced: %.40s; its files are in %.100s",
                       d->path, why, d->old);
    return err_set(err, HEED_EIO, "%.160s: cannot be replaced: %s; what was there before is intact",
                   d->path, why);
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

static char *make_inner_temp(const char *dir) {
    char *prefix = path_join(dir, ""), *temp = make_temp(prefix);
    xfree(prefix);
    return temp;
}

/* What is mounted cannot be renamed, and whoever started us is probably in our current directory,
 * too, and would find themselves in a removed one. */
static int must_stay(const char *path, const struct stat *st) {
    struct stat above, here;
    char *parent = path_parent(path);
    int mounted = stat(parent, &above) == 0 && above.st_dev != st->st_dev;
    xfree(parent);
    return mounted ||
           (stat(".", &here) == 0 && here.st_dev == st->st_dev && here.st_ino == st->st_ino);
}

int newdir_begin(struct newdir *d, const char *path, const char *const *own, struct err *err) {
    struct stat st;
    char *real = realpath(path, NULL), *parent = path_parent(path);
    int rc = 0;
    *d = (struct newdir){.path = xstrdup(path), .place = xstrdup(real ? real : path), .own = own};
    d->is_there = real && stat(real, &st) == 0;
    free(real);
    for (size_t n = strlen(d->place); n > 1 && d->place[n - 1] == '/';) d->place[--n] = 0;
    if (d->is_there && !S_ISDIR(st.st_mode))
        rc = err_set(err, HEED_EIO, "%.180s: not a directory", path);
    else if (!d->is_there)
        rc = dir_make(parent, err);
    xfree(parent);
    if (!rc && !(d->is_there && must_stay(d->place, &st))) d->temp = make_temp(d->place);
    if (!rc && !d->temp && d->is_there) {
        d->temp = make_inner_temp(d->place);
        d->inside = 1;
    }
    if (!rc && !d->temp) rc = failed(d, err);
    return rc ? newdir_end(d, rc, err) : 0;
}

static int is_own(const struct newdir *d, const char *name) {
    for (int i = 0; d->own[i]; i++)
        if (strcmp(d->own[i], name) == 0) return 1;
    return 0;
}

/* The new directory gets the owner and the mode of the old one, and another name for each of its
 * files that stay; fails where one of them is a directory. */
static int take_after(const struct newdir *d) {
    struct dir_names names;
    struct stat st;
    if (stat(d->place, &st) || chown(d->temp, st.st_uid, st.st_gid)) return -1;
    int rc = dir_read(&names, d->place, NULL);
    for (int i = 0; i < names.n && !rc; i++) {
        if (is_own(d, names.name[i])) continue;
        char *from = path_join(d->place, names.name[i]), *to = path_join(d->temp, names.name[i]);
        rc = file_calls.link(from, to) && errno != EEXIST; /* which is a new version */
        xfree(from);
        xfree(to);
    }
    dir_names_release(&names);
    return rc ? rc : chmod(d->temp, st.st_mode & 07777);
}

/* A file that is not there is fine. */
static int move(const char *from, const char *to, const char *name) {
    char *source = path_join(from, name), *target = path_join(to, name);
    int rc = file_calls.rename(source, target) && errno != ENOENT;
    if (rc && errno == EXDEV) rc = file_copy(target, source, NULL); /* into a bind mount */
    xfree(source);
    xfree(target);
    return rc;
}

/* What has left goes back. */
static void move_back(struct newdir *d) {
    struct dir_names names;
    int why = errno, rc = dir_read(&names, d->old, NULL);
    for (int i = names.n - 1; i >= 0; i--) rc |= move(d->old, d->place, names.name[i]);
    dir_names_release(&names);
    if (!rc && file_calls.rmdir(d->old) == 0) {
        xfree(d->old);
        d->old = NULL;
    }
    errno = why;
}

/* One by one. The first name, config.json, without which nothing is a model, goes first and comes
 * last. */
static int move_in(struct newdir *d, const struct dir_names *new) {
    int rc = 0, n = new->n;
    if (!(d->old = make_inner_temp(d->place))) return -1;
    for (int i = 0; d->own[i] && !rc; i++) rc = move(d->place, d->old, d->own[i]);
    for (int i = 0; i < n && !rc; i++) rc = move(d->place, d->old, new->name[i]);
    if (!rc) {
        while (n > 0 && !rc) rc = move(d->temp, d->place, new->name[--n]);
        for (int why = errno; rc && n < new->n; n++, errno = why) {
            char *path = path_join(d->place, new->name[n]);
            file_calls.unlink(path);
            xfree(path);
        }
    }
    if (rc) move_back(d);
    return rc;
}

static int take_place(struct newdir *d) {
    struct dir_names new;
    int rc = dir_read(&new, d->temp, NULL);
    int whole = !rc && !d->inside && (!d->is_there || !take_after(d));
    if (whole && file_calls.rename(d->temp, d->place) == 0) { /* nothing there, or nothing in it */
        xfree(d->temp);
        d->temp = NULL;
    } else if (whole && d->is_there && file_calls.exchange(d->temp, d->place) == 0) {
        d->old = d->temp;
        d->temp = NULL;
    } else if (!rc) {
        rc = d->is_there ? move_in(d, &new) : -1;
    }
    dir_names_release(&new);
    return rc;
}

/* Of the old files only those that have a new version or are ours to delete. */
static int remove_old(const struct newdir *d) {
    struct dir_names names;
    int rc = dir_read(&names, d->old, NULL);
    chmod(d->old, 0700);
    for (int i = 0; i < names.n; i++) {
        char *old = path_join(d->old, names.name[i]), *new = path_join(d->place, names.name[i]);
        if (is_own(d, names.name[i]) || file_exists(new)) file_calls.unlink(old);
        xfree(old);
        xfree(new);
    }
    dir_names_release(&names);
    return rc ? rc : file_calls.rmdir(d->old);
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
    char *parent = path_parent(d->place);
    if (!rc) rc = dir_sync(d->temp, err);
    if (rc) {
        rename_in(err, d);
    } else if (take_place(d)) {
        rc = failed(d, err);
    } else {
        if (dir_sync(d->place, NULL) || dir_sync(parent, NULL))
            rc = err_set(err, HEED_EIO, "%.160s: replaced, but the disk may not have it yet: %s",
                         d->path, strerror(errno));
        if (d->old && remove_old(d) && !rc)
            rc = err_set(err, HEED_EIO, "%.80s: replaced, but its old files are still in %.90s: %s",
                         d->path, d->old, strerror(errno));
    }
    if (d->temp) dir_remove(d->temp, NULL);
    xfree(parent);
    xfree(d->old);
    xfree(d->temp);
    xfree(d->place);
    xfree(d->path);
    *d = (struct newdir){0};
    return rc;
}
