/* faults.c — see faults.h. */
#include "faults.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/file.h"

static atomic_int calls_left; /* several threads may write */
static int stop_errno;        /* 0: die; else fail with it, again and again */

static int stops(void) {
    if (atomic_fetch_sub(&calls_left, 1) > 1) return 0;
    if (!stop_errno) _exit(9);
    errno = stop_errno;
    return 1;
}
static struct file_calls real;
static int stop_create(const char *p, int f, mode_t m) {
    return stops() ? -1 : real.create(p, f, m);
}
static int stop_fsync(int fd) { return stops() ? -1 : real.fsync(fd); }
static int stop_rename(const char *a, const char *b) { return stops() ? -1 : real.rename(a, b); }
static int stop_exchange(const char *a, const char *b) {
    return stops() ? -1 : real.exchange(a, b);
}
static int stop_link(const char *a, const char *b) { return stops() ? -1 : real.link(a, b); }
static int stop_mkdir(const char *p, mode_t m) { return stops() ? -1 : real.mkdir(p, m); }
static int stop_unlink(const char *p) { /* a full disk does not keep one from deleting */
    return !stop_errno && stops() ? -1 : real.unlink(p);
}
static int stop_rmdir(const char *p) { return !stop_errno && stops() ? -1 : real.rmdir(p); }
static ssize_t stop_write(int fd, const void *data, size_t size) {
    if (calls_left == 1 && real.write(fd, data, size / 2) < 0) return -1;
    return stops() ? -1 : real.write(fd, data, size);
}

void faults_arm(int n, int error) {
    real = file_calls;
    calls_left = n;
    stop_errno = error;
    file_calls =
        (struct file_calls){stop_create, stop_write, stop_fsync,  stop_rename, stop_exchange,
                            stop_link,   stop_mkdir, stop_unlink, stop_rmdir};
}

void faults_disarm(void) { file_calls = real; }
