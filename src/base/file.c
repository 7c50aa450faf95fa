/* file.c — see file.h. */
#define _GNU_SOURCE /* renameat2 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

static int call_create(const char *path, int flags, mode_t mode) { return open(path, flags, mode); }
static int call_exchange(const char *one, const char *other) {
    return renameat2(AT_FDCWD, one, AT_FDCWD, other, RENAME_EXCHANGE);
}

enum { MAP_PLACES = 64, PATH_NAMED = 160 };

struct file_calls file_calls = {.create = call_create,
                                .write = write,
                                .fsync = fsync,
                                .rename = rename,
                                .exchange = call_exchange,
                                .link = link,
                                .mkdir = mkdir,
                                .unlink = unlink,
                                .rmdir = rmdir};

/* errno as an error about path. */
static int io_error(const char *path, struct err *err) {
    return err_set(err, HEED_EIO, "%.180s: %s", path, strerror(errno));
}

/* The same after a failed write, where a user may worry about the old file. */
static int write_error(const char *path, int intact, struct err *err) {
    if (errno == ENOSPC || errno == EDQUOT)
        return err_set(err, HEED_EIO, "%.160s: %s%s", path,
                       errno == ENOSPC ? "no space left on the disk" : "disk quota exceeded",
                       intact ? "; what was there before is intact" : "");
    return err_set(err, HEED_EIO, "%.180s: cannot write: %s", path, strerror(errno));
}

/* ---- reading --------------------------------------------------------------------------------- */

/* All maps, for file_map_at. One that finds no room here is not named, and nothing worse. */
static struct map_place {
    _Atomic(const unsigned char *) data; /* set last */
    size_t size;
    char path[PATH_NAMED];
    atomic_flag taken;
} places[MAP_PLACES];

static void note_map(const struct file_map *map, const char *path) {
    for (int i = 0; i < MAP_PLACES; i++) {
        struct map_place *p = &places[i];
        if (atomic_flag_test_and_set(&p->taken)) continue;
        p->size = map->size;
        snprintf(p->path, sizeof p->path, "%s", path);
        p->data = map->data;
        return;
    }
}

static void forget_map(const struct file_map *map) {
    for (int i = 0; i < MAP_PLACES; i++)
        if (places[i].data == map->data) {
            places[i].data = NULL;
            atomic_flag_clear(&places[i].taken);
            return;
        }
}

const char *file_map_at(const void *address) {
    for (int i = 0; i < MAP_PLACES; i++) {
        const unsigned char *data = places[i].data;
        if (data && (uintptr_t)address - (uintptr_t)data < places[i].size) return places[i].path;
    }
    return NULL;
}

static int map_fd(struct file_map *map, int fd, const char *path, struct err *err) {
    struct stat st;
    if (fstat(fd, &st)) return io_error(path, err);
    if (!S_ISREG(st.st_mode)) return err_set(err, HEED_EIO, "%.180s: not a regular file", path);
    if (st.st_size == 0) return 0;
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return io_error(path, err);
    map->data = data;
    map->size = (size_t)st.st_size;
    note_map(map, path);
    return 0;
}

int file_map_open(struct file_map *map, const char *path, struct err *err) {
    *map = (struct file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(path, err);
    int rc = map_fd(map, fd, path, err);
    close(fd);
    return rc;
}

void file_map_close(struct file_map *map) {
    if (map->data) {
        forget_map(map);
        munmap((void *)map->data, map->size);
    }
    *map = (struct file_map){0};
}

void file_map_forget(const struct file_map *map, const void *at, size_t size) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE),
           first = (size_t)((const unsigned char *)at - map->data);
    size_t last = first + size;
    BUG_ON(last > map->size || last < first);
    first = (first + page - 1) / page * page; /* whole pages: the rest has other readers */
    last = last / page * page;
    if (first < last) madvise((void *)(map->data + first), last - first, MADV_DONTNEED);
}

/* read(2), whole: less than size only at the end of the file, negative on error. */
static ssize_t read_whole(int fd, char *data, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = read(fd, data + done, size - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return -1;
        if (n == 0) break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int file_read_all(char **data, size_t *size, const char *path, size_t limit, struct err *err) {
    enum { CHUNK = 1 << 16 };
    *data = NULL;
    *size = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return io_error(path, err);
    char *text = NULL;
    size_t used = 0, cap = 0;
    ssize_t n;
    do {
        if (cap - used < CHUNK + 1) text = xrealloc(text, cap = 2 * cap + CHUNK + 1);
        n = read_whole(fd, text + used, CHUNK);
        used += n > 0 ? (size_t)n : 0;
    } while (n == CHUNK && used <= limit);
    int rc = 0;
    if (n < 0)
        rc = io_error(path, err);
    else if (used > limit)
        rc = err_set(err, HEED_ELIMIT, "%.180s: larger than %zu bytes", path, limit);
    close(fd);
    if (rc) {
        xfree(text);
        return rc;
    }
    text[used] = 0;
    *data = text;
    *size = used;
    return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Files are written in whole blocks of this size, which stay whole in the page cache: whoever maps
 * the file then needs one entry of the page table for each where small writes need hundreds. */
enum { WRITE_BLOCK = 2 << 20 };

/* A new file beside path with a name nobody else uses; the number goes up where a killed process
 * with the same PID left a file behind. */
static int create_temp(struct file_writer *w) {
    size_t room = strlen(w->path) + 40;
    w->temp = xmalloc(room);
    for (int i = 0; i < 1000; i++) {
        snprintf(w->temp, room, "%s.%ld-%d.tmp", w->path, (long)getpid(), i);
        w->fd = file_calls.create(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (w->fd >= 0 || errno != EEXIST) break;
    }
    return w->fd < 0;
}

/* Where a file written through the links of path would be; NULL where they lead through /proc, to a
 * file that a process has open (/dev/stdout). */
static char *follow_links(const char *path) {
    char *at = xstrdup(path), link[PATH_MAX];
    for (int i = 0; at && i < 40; i++) { /* a circle is open's to report */
        char *parent = path_parent(at), *dir = realpath(parent, NULL), *next = at;
        ssize_t n = readlink(at, link, sizeof link - 1);
        if (dir && (strcmp(dir, "/proc") == 0 || strncmp(dir, "/proc/", 6) == 0)) {
            next = NULL;
        } else if (dir && n > 0) {
            link[n] = 0;
            next = *link == '/' ? xstrdup(link) : path_join(dir, link);
        }
        free(dir);
        xfree(parent);
        if (next == at) break;
        xfree(at);
        at = next;
    }
    return at;
}

static int open_direct(struct file_writer *w, int flags) {
    if (w->fd >= 0) {
        close(w->fd);
        file_calls.unlink(w->temp);
    }
    xfree(w->temp);
    w->temp = NULL;
    return (w->fd = open(w->path, O_WRONLY | O_CLOEXEC | flags)) < 0;
}

static int open_writer(struct file_writer *w, const char *path, int through, struct err *err) {
    struct stat st;
    char *real = follow_links(path);
    int is_there = stat(path, &st) == 0, failed;
    *w = (struct file_writer){.fd = -1, .path = xstrdup(through && real ? real : path)};
    if (is_there && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        failed = 1;
    } else if (!real || (is_there && !S_ISREG(st.st_mode))) {
        failed = open_direct(w, O_APPEND);
    } else {
        failed = create_temp(w);
        int barred = failed && (errno == EACCES || errno == EPERM || errno == EROFS);
        if (!failed && is_there) {
            barred = fchown(w->fd, st.st_uid, st.st_gid) != 0;
            barred |= fchmod(w->fd, st.st_mode & 0777) != 0;
        }
        if (through && is_there && barred) failed = open_direct(w, O_TRUNC);
    }
    xfree(real);
    if (failed) {
        int rc = write_error(path, 1, err);
        xfree(w->temp);
        xfree(w->path);
        *w = (struct file_writer){.fd = -1};
        return rc;
    }
    w->buffer = xmalloc(WRITE_BLOCK);
    return 0;
}

int file_writer_open(struct file_writer *w, const char *path, struct err *err) {
    return open_writer(w, path, 0, err);
}

int file_writer_open_output(struct file_writer *w, const char *path, struct err *err) {
    return open_writer(w, path, 1, err);
}

/* Makes the name durable that path was given. */
static int sync_name(const char *path, struct err *err) {
    char *dir = path_parent(path);
    int rc = dir_sync(dir, NULL);
    xfree(dir);
    return rc ? err_set(err, rc, "%.160s: written, but the disk may not have it yet: %s", path,
                        strerror(errno))
              : 0;
}

static void write_out(struct file_writer *w, const unsigned char *data, size_t size) {
    while (size && !w->err.code) {
        ssize_t n = file_calls.write(w->fd, data, size);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            if (n == 0) errno = EIO;
            write_error(w->path, w->temp != NULL, &w->err);
            return;
        }
        data += n;
        size -= (size_t)n;
    }
}

static void flush(struct file_writer *w) {
    write_out(w, w->buffer, w->used);
    w->used = 0;
}

void file_writer_write(struct file_writer *w, const void *data, size_t size) {
    const unsigned char *at = data;
    w->size += size;
    while (size) {
        int direct = w->used == 0 && size >= WRITE_BLOCK;
        size_t room = WRITE_BLOCK - w->used, n = size < room ? size : room;
        if (direct) {
            write_out(w, at, n = size / WRITE_BLOCK * WRITE_BLOCK);
        } else {
            memcpy(w->buffer + w->used, at, n);
            w->used += n;
            if (w->used == WRITE_BLOCK) flush(w);
        }
        at += n;
        size -= n;
    }
}

void file_writer_printf(struct file_writer *w, const char *fmt, ...) {
    char text[1024], *long_text = NULL;
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    BUG_ON(n < 0);
    if ((size_t)n >= sizeof text) {
        long_text = xmalloc((size_t)n + 1);
        vsnprintf(long_text, (size_t)n + 1, fmt, again);
    }
    va_end(again);
    va_end(ap);
    file_writer_write(w, long_text ? long_text : text, (size_t)n);
    xfree(long_text);
}

void file_writer_patch(struct file_writer *w, uint64_t at, const void *data, size_t size) {
    flush(w);
    if (!w->err.code && lseek(w->fd, (off_t)at, SEEK_SET) < 0)
        write_error(w->path, w->temp != NULL, &w->err);
    write_out(w, data, size);
}

static void writer_end(struct file_writer *w) {
    if (w->fd >= 0) close(w->fd);
    if (w->temp) file_calls.unlink(w->temp);
    xfree(w->temp);
    xfree(w->path);
    xfree(w->buffer);
    *w = (struct file_writer){.fd = -1};
}

void file_writer_abort(struct file_writer *w) {
    if (w->path) writer_end(w);
}

int file_writer_sync(struct file_writer *w, struct err *err) {
    flush(w);
    if (!w->err.code && w->temp && file_calls.fsync(w->fd)) write_error(w->path, 1, &w->err);
    return w->err.code ? err_set(err, w->err.code, "%s", w->err.msg) : 0;
}

int file_writer_commit(struct file_writer *w, struct err *err) {
    file_writer_sync(w, NULL);
    int fd = w->fd;
    w->fd = -1;
    if (close(fd) && !w->err.code) write_error(w->path, w->temp != NULL, &w->err);
    struct err failure = w->err;
    if (!failure.code && w->temp && file_calls.rename(w->temp, w->path) == 0) {
        xfree(w->temp);
        w->temp = NULL;
        sync_name(w->path, &failure);
    } else if (!failure.code && w->temp) {
        write_error(w->path, 1, &failure);
    }
    writer_end(w);
    return failure.code ? err_set(err, failure.code, "%s", failure.msg) : 0;
}

int file_write_all(const char *path, const void *data, size_t size, struct err *err) {
    struct file_writer w;
    int rc = file_writer_open(&w, path, err);
    if (rc) return rc;
    file_writer_write(&w, data, size);
    return file_writer_commit(&w, err);
}

int file_copy(const char *dst, const char *src, struct err *err) {
    struct file_map map;
    int rc = file_map_open(&map, src, err);
    if (rc) return rc;
    rc = file_write_all(dst, map.data, map.size, err);
    file_map_close(&map);
    return rc;
}

int file_rename(const char *from, const char *to, struct err *err) {
    if (file_calls.rename(from, to)) return write_error(to, 1, err);
    return sync_name(to, err);
}

int file_link(const char *dst, const char *src, struct err *err) {
    char temp[32];
    snprintf(temp, sizeof temp, ".%ld-link.tmp", (long)getpid());
    char *path = path_append(dst, temp);
    int rc;
    unlink(path); /* left by a killed process with the same PID */
    if (file_calls.link(src, path) == 0) {
        rc = file_rename(path, dst, err);
        file_calls.unlink(path); /* also where dst was the same file, which rename leaves alone */
    } else if (errno == ENOSPC || errno == EDQUOT || errno == EROFS || errno == EACCES ||
               errno == ENOENT || errno == EIO) {
        rc = write_error(dst, 1, err);
    } else {
        rc = file_copy(dst, src, err);
    }
    xfree(path);
    return rc;
}

/* ---- directories ----------------------------------------------------------------------------- */

int file_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

uint64_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

int dir_exists(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int file_same(const char *a, const char *b) {
    struct stat x, y;
    return !stat(a, &x) && S_ISREG(x.st_mode) && !stat(b, &y) && x.st_dev == y.st_dev &&
           x.st_ino == y.st_ino;
}

/* Where a file written to path would be, without links; NULL where that is unknown. */
static char *output_place(const char *path) {
    char *at = follow_links(path), *parent = at ? path_parent(at) : NULL;
    char *dir = parent ? realpath(parent, NULL) : NULL, *place = NULL;
    const char *slash = at ? strrchr(at, '/') : NULL;
    if (dir) place = path_join(dir, slash ? slash + 1 : at);
    free(dir);
    xfree(parent);
    xfree(at);
    return place;
}

int file_same_output(const char *a, const char *b) {
    char *x = output_place(a), *y = output_place(b);
    int same = file_same(a, b) || strcmp(a, b) == 0 || (x && y && strcmp(x, y) == 0);
    xfree(x);
    xfree(y);
    return same;
}

char *path_join(const char *dir, const char *name) {
    size_t n = strlen(dir), room = n + strlen(name) + 2;
    char *path = xmalloc(room);
    snprintf(path, room, n && dir[n - 1] == '/' ? "%s%s" : "%s/%s", dir, name);
    return path;
}

char *path_append(const char *path, const char *suffix) {
    size_t room = strlen(path) + strlen(suffix) + 1;
    char *out = xmalloc(room);
    snprintf(out, room, "%s%s", path, suffix);
    return out;
}

char *path_parent(const char *path) {
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--; /* "a/b/" is "a/b" */
    while (n > 0 && path[n - 1] != '/') n--;
    if (n == 0) return xstrdup(".");
    while (n > 1 && path[n - 1] == '/') n--;
    char *parent = xstrdup(path);
    parent[n] = 0;
    return parent;
}

int dir_make(const char *path, struct err *err) {
    if (dir_exists(path)) return 0;
    char *parent = path_parent(path);
    int rc = strcmp(parent, path) == 0 ? 0 : dir_make(parent, err);
    if (!rc && file_calls.mkdir(path, 0777)) {
        int why = errno;
        if (why == EEXIST && !dir_exists(path))
            rc = err_set(err, HEED_EIO, "%.180s: not a directory", path);
        else if (why != EEXIST)
            rc = err_set(err, HEED_EIO, "%.180s: cannot create the directory: %s", path,
                         strerror(why));
    } else if (!rc) {
        rc = dir_sync(parent, err);
    }
    xfree(parent);
    return rc;
}

int dir_sync(const char *path, struct err *err) {
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return io_error(path, err);
    int rc = 0;
    /* EINVAL: this file system cannot sync a directory. */
    if (file_calls.fsync(fd) && errno != EINVAL) rc = write_error(path, 1, err);
    close(fd);
    return rc;
}

static int by_bytes(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int dir_read(struct dir_names *names, const char *path, struct err *err) {
    *names = (struct dir_names){0};
    DIR *dir = opendir(path);
    if (!dir) return errno == ENOENT ? 0 : io_error(path, err);
    int cap = 0;
    const struct dirent *entry;
    /* cppcheck-suppress readdirCalled ; a DIR of one thread is safe, and readdir_r is deprecated */
    while ((void)(errno = 0), (entry = readdir(dir))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
        if (names->n == cap) {
            cap = 2 * cap + 16;
            names->name = xrealloc(names->name, (size_t)cap * sizeof *names->name);
        }
        names->name[names->n++] = xstrdup(entry->d_name);
    }
    int rc = errno ? io_error(path, err) : 0;
    closedir(dir);
    if (rc) dir_names_release(names);
    if (names->n) qsort(names->name, (size_t)names->n, sizeof *names->name, by_bytes);
    return rc;
}

void dir_names_release(struct dir_names *names) {
    for (int i = 0; i < names->n; i++) xfree(names->name[i]);
    xfree(names->name);
    *names = (struct dir_names){0};
}

int dir_remove(const char *path, struct err *err) {
    struct dir_names names;
    int rc = dir_read(&names, path, err);
    for (int i = 0; i < names.n && !rc; i++) {
        char *file = path_join(path, names.name[i]);
        if (file_calls.unlink(file) && errno != ENOENT)
            rc = err_set(err, HEED_EIO, "%.180s: cannot remove: %s", file, strerror(errno));
        xfree(file);
    }
    dir_names_release(&names);
    if (!rc && file_calls.rmdir(path) && errno != ENOENT)
        rc = err_set(err, HEED_EIO, "%.180s: cannot remove: %s", path, strerror(errno));
    return rc;
}

/* ---- locks ----------------------------------------------------------------------------------- */

int file_lock(int *lock, const char *path, struct err *err) {
    *lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (*lock < 0) return write_error(path, 1, err);
    char pid[16] = "";
    if (flock(*lock, LOCK_EX | LOCK_NB) == 0) {
        int n = snprintf(pid, sizeof pid, "%ld\n", (long)getpid());
        /* Only for the message below: without it, on a full disk, the lock holds all the same. */
        if (ftruncate(*lock, 0) || write(*lock, pid, (size_t)n) != n) errno = 0;
        return 0;
    }
    int rc, held = errno == EWOULDBLOCK;
    if (held && read_whole(*lock, pid, sizeof pid - 1) > 0) pid[strspn(pid, "0123456789")] = 0;
    rc = held ? err_set(err, HEED_EIO, "%.180s: in use by another process%s%s", path,
                        *pid ? ": PID " : "", pid)
              : io_error(path, err);
    close(*lock);
    *lock = -1;
    return rc;
}

void file_unlock(int lock) {
    if (lock >= 0) close(lock);
}
