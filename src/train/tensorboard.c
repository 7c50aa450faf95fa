/* tensorboard.c — see tensorboard.h. The protobuf messages are written by hand, field by field:
 *
 *     Event    1 wall_time double, 2 step int64, one of: 3 file_version string, 5 summary Summary,
 *              7 session_log SessionLog
 *     Summary  1 value, repeated: { 1 tag string, 2 simple_value float }
 *     SessionLog  1 status enum (1 is START: TensorBoard drops earlier files' events from this step
 *                 on) */
#include "train/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"

enum { BUFFER = 1 << 16, MAX_TAG = 200, MAX_EVENT = 400 };

struct tensorboard {
    int fd;
    char *path;
    size_t used;
    struct err err; /* the first failure; nothing is written after it */
    unsigned char buffer[BUFFER];
};

/* ---- protobuf -------------------------------------------------------------------------------- */

struct message {
    unsigned char data[MAX_EVENT];
    size_t size;
};

static void put_bytes(struct message *m, const void *data, size_t size) {
    BUG_ON(size > sizeof m->data - m->size);
    memcpy(m->data + m->size, data, size);
    m->size += size;
}

static void put_varint(struct message *m, uint64_t value) {
    do {
        unsigned char byte = (unsigned char)((value & 127) | (value > 127 ? 128 : 0));
        put_bytes(m, &byte, 1);
        value >>= 7;
    } while (value);
}

enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

static void put_field(struct message *m, int number, int wire) {
    put_varint(m, (uint64_t)(number << 3 | wire));
}

static void put_string(struct message *m, int number, const void *data, size_t size) {
    put_field(m, number, WIRE_BYTES);
    put_varint(m, size);
    put_bytes(m, data, size);
}

static void begin_event(struct message *m, int64_t step) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    double seconds = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    m->size = 0;
    put_field(m, 1, WIRE_64);
    put_bytes(m, &seconds, sizeof seconds);
    put_field(m, 2, WIRE_VARINT);
    put_varint(m, (uint64_t)step);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t masked_crc(const void *data, size_t size) {
    uint32_t c = crc32c(0, data, size);
    return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void write_buffer(struct tensorboard *tb) {
    const unsigned char *at = tb->buffer;
    while (tb->used && !tb->err.code) {
        ssize_t n = file_calls.write(tb->fd, at, tb->used);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            err_set(&tb->err, HEED_EIO, "%.180s: cannot write: %s", tb->path, strerror(errno));
            break;
        }
        at += n;
        tb->used -= (size_t)n;
    }
    tb->used = 0;
}

static void append(struct tensorboard *tb, const void *data, size_t size) {
    memcpy(tb->buffer + tb->used, data, size);
    tb->used += size;
}

static void write_record(struct tensorboard *tb, const struct message *m) {
    uint64_t length = m->size;
    uint32_t length_crc = masked_crc(&length, sizeof length), crc = masked_crc(m->data, m->size);
    if (tb->used + m->size + 16 > BUFFER) write_buffer(tb);
    append(tb, &length, sizeof length);
    append(tb, &length_crc, sizeof length_crc);
    append(tb, m->data, m->size);
    append(tb, &crc, sizeof crc);
}

/* ---- interface ------------------------------------------------------------------------------- */

/* A file of this name is never shared: a second one in the same second gets a suffix. */
static int create(struct tensorboard *tb, const char *dir, struct err *err) {
    char host[64] = "localhost", name[128];
    gethostname(host, sizeof host - 1);
    long long seconds = (long long)time(NULL);
    tb->fd = -1;
    for (int i = 0; i < 1000 && tb->fd < 0; i++) {
        snprintf(name, sizeof name,
                 i ? "events.out.tfevents.%010lld.%.60s.%d" : "events.out.tfevents.%010lld.%.60s",
                 seconds, host, i);
        xfree(tb->path);
        tb->path = path_join(dir, name);
        tb->fd = file_calls.create(tb->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (tb->fd < 0 && errno != EEXIST) break;
    }
    if (tb->fd >= 0) return 0;
    return err_set(err, HEED_EIO, "%.180s: cannot create: %s", tb->path, strerror(errno));
}

int tensorboard_open(struct tensorboard **out, const char *dir, int64_t first_step,
                     struct err *err) {
    static const char version[] = "brain.Event:2";
    *out = NULL;
    struct tensorboard *tb = xcalloc(1, sizeof *tb);
    int rc = create(tb, dir, err);
    if (rc) {
        xfree(tb->path);
        xfree(tb);
        return rc;
    }
    struct message m;
    begin_event(&m, 0);
    put_string(&m, 3, version, sizeof version - 1);
    write_record(tb, &m);
    if (first_step > 0) {
        static const unsigned char start[] = {1 << 3 | WIRE_VARINT, 1};
        begin_event(&m, first_step);
        put_string(&m, 7, start, sizeof start);
        write_record(tb, &m);
    }
    *out = tb;
    return 0;
}

void tensorboard_scalar(struct tensorboard *tb, const char *tag, int64_t step, double value) {
    struct message m, summary = {.size = 0}, one = {.size = 0};
    size_t n = strlen(tag);
    float narrow = (float)value;
    BUG_ON(n > MAX_TAG);
    put_string(&one, 1, tag, n);
    put_field(&one, 2, WIRE_32);
    put_bytes(&one, &narrow, sizeof narrow);
    put_string(&summary, 1, one.data, one.size);
    begin_event(&m, step);
    put_string(&m, 5, summary.data, summary.size);
    write_record(tb, &m);
}

int tensorboard_flush(struct tensorboard *tb, struct err *err) {
    write_buffer(tb);
    return tb->err.code ? err_set(err, tb->err.code, "%s", tb->err.msg) : 0;
}

int tensorboard_close(struct tensorboard *tb, struct err *err) {
    if (!tb) return 0;
    tensorboard_flush(tb, NULL);
    if (close(tb->fd) && !tb->err.code)
        err_set(&tb->err, HEED_EIO, "%.180s: %s", tb->path, strerror(errno));
    int rc = tb->err.code ? err_set(err, tb->err.code, "%s", tb->err.msg) : 0;
    xfree(tb->path);
    xfree(tb);
    return rc;
}
