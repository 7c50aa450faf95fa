/* file.h — files as the rest of the program wants them: mapped, read whole, or replaced atomically.
 *
 * Whatever is written is first a temporary file in the same directory, synced, then renamed over
 * its target, and the directory is synced: after a kill or a full disk the target is either the old
 * file or the new one, whole. Every message names the path and the reason. Paths that functions
 * return are xmalloc'ed. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

/* A whole file mapped read-only; an empty file has size 0 and data NULL. */
struct file_map {
    const unsigned char *data;
    size_t size;
};

int file_map_open(struct file_map *map, const char *path, struct err *err);
void file_map_close(struct file_map *map);

/* The path (abbreviated) of the open map that holds the address, or NULL. A file that is cut short
 * while it is mapped, or that the disk cannot read, is a SIGBUS at such an address: this lets a
 * signal handler name it, and is safe to call there. */
const char *file_map_at(const void *address);

/* [at, at + size) of the map will not be read soon: its pages leave this process's memory and are
 * read from the file again when needed. */
void file_map_forget(const struct file_map *map, const void *at, size_t size);

/* The whole file with a NUL added at its end, or HEED_ELIMIT when it is larger than limit.
 * xfree(*data). */
int file_read_all(char **data, size_t *size, const char *path, size_t limit, struct err *err);

/* ---- writing --------------------------------------------------------------------------------- */

/* Buffered. The first error sticks: keep writing, and commit reports it. A target that exists and
 * is neither a file nor a directory (a terminal, a pipe, /dev/null), or that a process has open
 * (/dev/stdout), is written directly. A new file has the mode and, if possible, the owner of the
 * one it replaces. */
struct file_writer {
    int fd;
    char *path, *temp; /* temp NULL: written directly */
    unsigned char *buffer;
    size_t used;
    uint64_t size; /* bytes given so far */
    struct err err;
};

int file_writer_open(struct file_writer *w, const char *path, struct err *err);

/* The same for a file that the user names: links are followed, not replaced, and a file that may be
 * written but not replaced (its directory is read-only, its owner another) is emptied and written
 * directly. */
int file_writer_open_output(struct file_writer *w, const char *path, struct err *err);
void file_writer_write(struct file_writer *w, const void *data, size_t size);
void file_writer_printf(struct file_writer *w, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* Replaces bytes given before, [at, at + size); nothing may be written after that. */
void file_writer_patch(struct file_writer *w, uint64_t at, const void *data, size_t size);

/* What was given so far is on the disk, or the error that commit would report: of several files, do
 * this to all before the first is committed, and a full disk spares the old ones. */
int file_writer_sync(struct file_writer *w, struct err *err);

/* Exactly one of the two ends a writer that was opened. Commit makes the file durable or, on error,
 * leaves the old one and no temporary file behind. */
int file_writer_commit(struct file_writer *w, struct err *err);
void file_writer_abort(struct file_writer *w);

/* Replaces the file by size bytes of data. */
int file_write_all(const char *path, const void *data, size_t size, struct err *err);

/* dst becomes a copy of src, or another name of the same file where the file system can (else a
 * copy). Both replace dst atomically. */
int file_copy(const char *dst, const char *src, struct err *err);
int file_link(const char *dst, const char *src, struct err *err);

/* rename(2), then the target's directory is synced. */
int file_rename(const char *from, const char *to, struct err *err);

/* ---- directories ----------------------------------------------------------------------------- */

int file_exists(const char *path);    /* of any kind */
uint64_t file_size(const char *path); /* bytes; 0 where it is no regular file */

/* Do both paths lead to the same regular file? */
int file_same(const char *a, const char *b);

/* Would what is written to one path replace what is written to the other? Neither need exist. */
int file_same_output(const char *a, const char *b);
int dir_exists(const char *path);

/* Creates the directory and its missing parents. An existing directory is fine, a file in its place
 * is an error. */
int dir_make(const char *path, struct err *err);
int dir_sync(const char *path, struct err *err);

/* Removes a directory of plain files, if it is there; refuses one that contains directories. */
int dir_remove(const char *path, struct err *err);

/* The names in a directory without . and .., sorted by bytes; none where there is no such
 * directory. */
struct dir_names {
    char **name;
    int n;
};
int dir_read(struct dir_names *names, const char *path, struct err *err);
void dir_names_release(struct dir_names *names);

char *path_join(const char *dir, const char *name);
char *path_append(const char *path, const char *suffix); /* "a", ".tmp" -> "a.tmp" */
char *path_parent(const char *path);                     /* "a/b" -> "a", "b" -> ".", "/b" -> "/" */

/* ---- locks ----------------------------------------------------------------------------------- */

/* Makes this process the only one to hold `path` (a file made for that purpose and left there),
 * until it unlocks or ends, however it ends. HEED_EIO when another one holds it; the message gives
 * its PID, which is stored in the file. */
int file_lock(int *lock, const char *path, struct err *err);
void file_unlock(int lock);

/* ---- for tests ------------------------------------------------------------------------------- */

/* The calls that change something on disk. Only tests replace them, to make the n-th one fail or
 * die. */
struct file_calls {
    int (*create)(const char *path, int flags, mode_t mode);
    ssize_t (*write)(int fd, const void *data, size_t size);
    int (*fsync)(int fd);
    int (*rename)(const char *from, const char *to);
    int (*exchange)(const char *one, const char *other); /* their names */
    int (*link)(const char *from, const char *to);
    int (*mkdir)(const char *path, mode_t mode);
    int (*unlink)(const char *path);
    int (*rmdir)(const char *path);
};
extern struct file_calls file_calls;

#endif
