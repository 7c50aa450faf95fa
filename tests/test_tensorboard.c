/* test_tensorboard.c — event files, read back by hand: lengths, checksums, protobuf. */
#include <errno.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"
#include "test.h"
#include "train/tensorboard.h"

/* ---- reading --------------------------------------------------------------------------------- */

struct event {
    double wall_time;
    int64_t step;
    char version[32], tag[64];
    float value;
    int session_status;
    int has_value;
};

static uint64_t varint(const unsigned char **at, const unsigned char *end) {
    uint64_t v = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        assert_true(*at < end);
        unsigned char byte = *(*at)++;
        v |= (uint64_t)(byte & 127) << shift;
        if (byte < 128) return v;
    }
    fail_msg("a varint without end");
    return 0;
}

/* One field: its number, and its payload as [*data, *data + *size); varints land in *number. */
static int field(const unsigned char **at, const unsigned char *end, const unsigned char **data,
                 size_t *size, uint64_t *number) {
    uint64_t key = varint(at, end);
    *data = *at;
    switch (key & 7) {
    case 0:
        *number = varint(at, end);
        return (int)(key >> 3);
    case 1:
        *size = 8;
        break;
    case 2:
        *size = varint(at, end);
        *data = *at;
        break;
    case 5:
        *size = 4;
        break;
    default:
        fail_msg("wire type %d", (int)(key & 7));
    }
    assert_true(*size <= (size_t)(end - *at));
    *at += *size;
    return (int)(key >> 3);
}

static void read_value(struct event *e, const unsigned char *at, size_t n) {
    const unsigned char *end = at + n, *data;
    size_t size = 0;
    uint64_t number = 0;
    while (at < end) switch (field(&at, end, &data, &size, &number)) {
        case 1:
            assert_true(size < sizeof e->tag);
            memcpy(e->tag, data, size);
            break;
        case 2:
            assert_int_equal(size, 4);
            memcpy(&e->value, data, 4);
            e->has_value = 1;
            break;
        default:
            fail_msg("unknown field of a value");
        }
}

static void read_event(struct event *e, const unsigned char *at, size_t n) {
    const unsigned char *end = at + n, *data;
    size_t size = 0;
    uint64_t number = 0;
    *e = (struct event){.session_status = -1};
    while (at < end) switch (field(&at, end, &data, &size, &number)) {
        case 1:
            memcpy(&e->wall_time, data, 8);
            break;
        case 2:
            e->step = (int64_t)number;
            break;
        case 3:
            memcpy(e->version, data, size);
            break;
        case 5: {
            const unsigned char *inner, *p = data;
            size_t length = 0;
            assert_int_equal(field(&p, data + size, &inner, &length, &number), 1);
            read_value(e, inner, length);
            break;
        }
        case 7: {
            const unsigned char *inner, *p = data;
            size_t length = 0;
            assert_int_equal(field(&p, data + size, &inner, &length, &number), 1);
            e->session_status = (int)number;
            break;
        }
        default:
            fail_msg("unknown field of an event");
        }
}

static uint32_t masked(const void *data, size_t size) {
    uint32_t c = crc32c(0, data, size);
    return ((c >> 15) | (c << 17)) + 0xa282ead8u;
}

static int read_file(struct event *event, int max, const char *path) {
    struct file_map map;
    struct err err = {0};
    int n = 0;
    ASSERT_OK(file_map_open(&map, path, &err), err);
    for (size_t at = 0; at < map.size; n++) {
        uint64_t length;
        uint32_t crc;
        assert_true(n < max && map.size - at >= 16);
        memcpy(&length, map.data + at, 8);
        memcpy(&crc, map.data + at + 8, 4);
        assert_int_equal(crc, masked(map.data + at, 8));
        assert_true(length <= map.size - at - 16);
        memcpy(&crc, map.data + at + 12 + length, 4);
        assert_int_equal(crc, masked(map.data + at + 12, length));
        read_event(&event[n], map.data + at + 12, length);
        at += 16 + length;
    }
    file_map_close(&map);
    return n;
}

static void list_files(struct dir_names *names) {
    struct err err = {0};
    ASSERT_OK(dir_read(names, test_dir(), &err), err);
    for (int i = 0; i < names->n; i++)
        assert_int_equal(strncmp(names->name[i], "events.out.tfevents.", 20), 0);
}

/* ---- tests ----------------------------------------------------------------------------------- */

TEST(scalars) {
    enum { N = 3000 }; /* more than one buffer */
    struct tensorboard *tb;
    struct err err = {0};
    ASSERT_OK(tensorboard_open(&tb, test_dir(), 0, &err), err);
    for (int i = 0; i < N; i++)
        tensorboard_scalar(tb, "train/loss", (int64_t)i << 30, 10.0 / (i + 1));
    ASSERT_OK(tensorboard_flush(tb, &err), err);
    tensorboard_scalar(tb, "valid/loss", 7, NAN);
    ASSERT_OK(tensorboard_close(tb, &err), err);
    struct dir_names names;
    list_files(&names);
    assert_int_equal(names.n, 1);
    struct event *event = xcalloc(N + 10, sizeof *event);
    char *path = path_join(test_dir(), names.name[0]);
    assert_int_equal(read_file(event, N + 10, path), N + 2);
    assert_string_equal(event[0].version, "brain.Event:2");
    assert_true(event[0].wall_time > 1.6e9);
    for (int i = 0; i < N; i++) {
        assert_string_equal(event[i + 1].tag, "train/loss");
        assert_true(event[i + 1].step == (int64_t)i << 30);
        assert_true(event[i + 1].value == (float)(10.0 / (i + 1)));
    }
    assert_string_equal(event[N + 1].tag, "valid/loss");
    assert_true(event[N + 1].has_value && isnan(event[N + 1].value));
    xfree(path);
    xfree(event);
    dir_names_release(&names);
}

/* A second process begins its own file and says from which step on the first one's events are
 * void. */
TEST(resume_begins_a_new_file) {
    struct tensorboard *tb;
    struct err err = {0};
    for (int i = 0; i < 3; i++) {
        ASSERT_OK(tensorboard_open(&tb, test_dir(), 100 * i, &err), err);
        tensorboard_scalar(tb, "x", 100 * i + 1, i);
        ASSERT_OK(tensorboard_close(tb, &err), err);
    }
    struct dir_names names;
    list_files(&names);
    assert_int_equal(names.n, 3);
    int n_start = 0;
    for (int i = 0; i < 3; i++) {
        struct event event[4];
        char *path = path_join(test_dir(), names.name[i]);
        int n = read_file(event, 4, path);
        if (n == 3) {
            assert_int_equal(event[1].session_status, 1);
            assert_int_equal(event[1].step + 1, event[2].step);
            n_start++;
        } else {
            assert_int_equal(n, 2);
        }
        xfree(path);
    }
    assert_int_equal(n_start, 2);
    dir_names_release(&names);
}

static ssize_t no_write(int fd, const void *data, size_t size) {
    (void)fd, (void)data, (void)size;
    errno = ENOSPC;
    return -1;
}

TEST(errors_stick) {
    struct tensorboard *tb;
    struct err err = {0};
    ASSERT_ERR(tensorboard_open(&tb, "no/such/dir", 0, &err), err, HEED_EIO, "no/such/dir");
    assert_null(tb);
    ASSERT_OK(tensorboard_open(&tb, test_dir(), 0, &err), err);
    struct file_calls real = file_calls;
    file_calls.write = no_write;
    for (int i = 0; i < 5000; i++) tensorboard_scalar(tb, "x", i, i); /* nothing happens */
    file_calls = real;
    ASSERT_ERR(tensorboard_flush(tb, &err), err, HEED_EIO, "No space left");
    ASSERT_ERR(tensorboard_close(tb, &err), err, HEED_EIO, "tfevents");
    assert_int_equal(tensorboard_close(NULL, &err), 0);
}

TEST(tensorboard_reads_it) {
    if (system("python3 -c 'import tensorboard.backend.event_processing.event_accumulator' "
               "2>/dev/null"))
        SKIP("no Python tensorboard");
    struct tensorboard *tb;
    struct err err = {0};
    ASSERT_OK(tensorboard_open(&tb, test_dir(), 0, &err), err);
    tensorboard_scalar(tb, "train/loss", 5, 1.5);
    ASSERT_OK(tensorboard_close(tb, &err), err);
    char command[4096];
    snprintf(command, sizeof command,
             "python3 -c 'from tensorboard.backend.event_processing.event_accumulator import *\n"
             "a = EventAccumulator(\"%s\"); a.Reload()\n"
             "e, = a.Scalars(\"train/loss\"); assert e.step == 5 and e.value == 1.5'",
             test_dir());
    assert_int_equal(system(command), 0);
}

TESTS(T(scalars), T(resume_begins_a_new_file), T(errors_stick), T(tensorboard_reads_it))
