/* test_file.c — atomic writes, and every way they can fail; hash, crc32c. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/mem.h"
#include "test.h"

static char *in_dir(const char *name) { return path_join(test_dir(), name); }

static void expect_content(const char *path, const char *want) {
    char *data;
    size_t size;
    struct err err = {0};
    ASSERT_OK(file_read_all(&data, &size, path, 1 << 24, &err), err);
    assert_int_equal(size, strlen(want));
    assert_string_equal(data, want);
    xfree(data);
}

static int entries(void) {
    struct dir_names names;
    struct err err = {0};
    ASSERT_OK(dir_read(&names, test_dir(), &err), err);
    int n = names.n;
    dir_names_release(&names);
    return n;
}

/* ---- good days ------------------------------------------------------------------------------- */

TEST(writes_and_reads) {
    struct err err = {0};
    struct file_writer w;
    char *path = in_dir("a");
    static char big[300000];
    memset(big, 'b', sizeof big - 1);
    ASSERT_OK(file_writer_open(&w, path, &err), err);
    file_writer_printf(&w, "%d %s|", 12, "x");
    file_writer_printf(&w, "%s|", big); /* longer than any buffer */
    file_writer_write(&w, big, 70000);
    file_writer_write(&w, "", 0);
    assert_int_equal(w.size, 5 + sizeof big - 1 + 1 + 70000);
    assert_false(file_exists(path)); /* not before it is whole */
    ASSERT_OK(file_writer_commit(&w, &err), err);
    char *data;
    size_t size;
    ASSERT_OK(file_read_all(&data, &size, path, 1 << 24, &err), err);
    assert_int_equal(size, 5 + sizeof big - 1 + 1 + 70000);
    assert_memory_equal(data, "12 x|bbb", 8);
    xfree(data);
    ASSERT_ERR(file_read_all(&data, &size, path, 1000, &err), err, HEED_ELIMIT, "larger than 1000");
    ASSERT_OK(file_write_all(path, "new", 3, &err), err);
    expect_content(path, "new");
    ASSERT_OK(file_writer_open(&w, path, &err), err);
    file_writer_write(&w, "newer", 5);
    file_writer_abort(&w);
    expect_content(path, "new");
    assert_int_equal(entries(), 1);
    xfree(path);
}

TEST(copies_and_links) {
    struct err err = {0};
    char *a = in_dir("a"), *b = in_dir("b"), *c = in_dir("c");
    ASSERT_OK(file_write_all(a, "one", 3, &err), err);
    ASSERT_OK(file_copy(b, a, &err), err);
    ASSERT_OK(file_link(c, a, &err), err);
    ASSERT_OK(file_link(c, a, &err), err); /* already the same file */
    struct stat x, y;
    assert_int_equal(stat(a, &x), 0);
    assert_int_equal(stat(c, &y), 0);
    assert_true(x.st_ino == y.st_ino);
    ASSERT_OK(file_write_all(a, "two", 3, &err), err); /* replaces the name, not the file */
    expect_content(b, "one");
    expect_content(c, "one");
    ASSERT_OK(file_link(b, a, &err), err);
    expect_content(b, "two");
    ASSERT_ERR(file_link(b, "no/such", &err), err, HEED_EIO, "b: cannot write: No such file");
    ASSERT_ERR(file_copy(b, "no/such", &err), err, HEED_EIO, "no/such: No such file");
    assert_int_equal(entries(), 3);
    xfree(a);
    xfree(b);
    xfree(c);
}

static int refuse_link(const char *from, const char *to) {
    (void)from, (void)to;
    errno = EPERM;
    return -1;
}

TEST(copies_where_links_are_not_possible) {
    struct err err = {0};
    char *a = in_dir("a"), *b = in_dir("b");
    ASSERT_OK(file_write_all(a, "one", 3, &err), err);
    file_calls.link = refuse_link;
    ASSERT_OK(file_link(b, a, &err), err);
    expect_content(b, "one");
    xfree(a);
    xfree(b);
}

TEST(directories) {
    struct err err = {0};
    char *deep = in_dir("x/y//z/"), *file = in_dir("f"), *below = in_dir("f/g"), *x = in_dir("x");
    ASSERT_OK(dir_make(deep, &err), err);
    ASSERT_OK(dir_make(deep, &err), err);
    assert_true(dir_exists(deep));
    ASSERT_OK(file_write_all(file, "", 0, &err), err);
    ASSERT_ERR(dir_make(file, &err), err, HEED_EIO, "not a directory");
    ASSERT_ERR(dir_make(below, &err), err, HEED_EIO, "f");
    assert_int_not_equal(dir_remove(x, &err), 0); /* has a directory in it */
    ASSERT_OK(dir_remove(deep, &err), err);
    ASSERT_OK(dir_remove(deep, &err), err);
    assert_false(dir_exists(deep));
    ASSERT_ERR(file_write_all(x, "", 0, &err), err, HEED_EIO, "Is a directory");
    static const char *const pair[][2] = {{"a/b", "a"},  {"b", "."}, {"/b", "/"}, {"a//b", "a"},
                                          {"a/b/", "a"}, {"/", "/"}, {"", "."}};
    for (size_t i = 0; i < sizeof pair / sizeof *pair; i++) {
        char *parent = path_parent(pair[i][0]);
        assert_string_equal(parent, pair[i][1]);
        xfree(parent);
    }
    xfree(deep);
    xfree(file);
    xfree(below);
    xfree(x);
}

TEST(special_files) {
    struct err err = {0};
    ASSERT_OK(file_write_all("/dev/null", "x", 1, &err), err);
    if (access("/dev/full", W_OK) == 0)
        ASSERT_ERR(file_write_all("/dev/full", "x", 1, &err), err, HEED_EIO, "no space left");
    struct file_map map;
    ASSERT_ERR(file_map_open(&map, "/dev/null", &err), err, HEED_EIO, "not a regular file");
    ASSERT_ERR(file_map_open(&map, "no/such", &err), err, HEED_EIO, "no/such: No such file");
    char *data;
    size_t size;
    ASSERT_OK(file_read_all(&data, &size, "/dev/null", 10, &err), err);
    assert_int_equal(size, 0);
    xfree(data);
    ASSERT_ERR(file_read_all(&data, &size, "/dev/zero", 100000, &err), err, HEED_ELIMIT, "larger");
    ASSERT_ERR(file_read_all(&data, &size, test_dir(), 10, &err), err, HEED_EIO, "directory");
    char *empty = in_dir("empty");
    ASSERT_OK(file_write_all(empty, NULL, 0, &err), err);
    ASSERT_OK(file_map_open(&map, empty, &err), err);
    assert_int_equal(map.size, 0);
    file_map_close(&map);
    xfree(empty);
}

static int refuse_create(const char *path, int flags, mode_t mode) {
    (void)path, (void)flags, (void)mode;
    errno = EACCES;
    return -1;
}

static void write_output(const char *path, const char *text) {
    struct err err = {0};
    struct file_writer w;
    ASSERT_OK(file_writer_open_output(&w, path, &err), err);
    file_writer_write(&w, text, strlen(text));
    ASSERT_OK(file_writer_commit(&w, &err), err);
}

/* What a user names is written where they mean it, and stays theirs. */
TEST(outputs) {
    struct err err = {0};
    struct stat st;
    char *a = in_dir("a"), *to_a = in_dir("to_a"), *to_none = in_dir("to_none"),
         *none = in_dir("none"), *to_fd = in_dir("to_fd"), fd_path[32];
    ASSERT_OK(file_write_all(a, "one and all", 11, &err), err);
    assert_int_equal(chmod(a, 0640), 0);
    assert_int_equal(symlink("to_a2", to_a) | symlink("none", to_none), 0);
    char *second = in_dir("to_a2");
    assert_int_equal(symlink(a, second), 0);
    write_output(to_a, "two");
    expect_content(a, "two");
    assert_int_equal(lstat(to_a, &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_int_equal(stat(a, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    write_output(to_none, "new");
    expect_content(none, "new");
    int (*create)(const char *, int, mode_t) = file_calls.create;
    file_calls.create = refuse_create; /* as in a directory that may not be written to */
    write_output(a, "3");
    ASSERT_ERR(file_write_all(a, "x", 1, &err), err, HEED_EIO, "Permission denied");
    file_calls.create = create;
    expect_content(a, "3");
    int fd = open(a, O_WRONLY | O_APPEND); /* /dev/stdout is such a link, too */
    snprintf(fd_path, sizeof fd_path, "/proc/self/fd/%d", fd);
    assert_int_equal(symlink(fd_path, to_fd), 0);
    write_output(to_fd, "4");
    ASSERT_OK(file_write_all(fd_path, "5", 1, &err), err);
    assert_int_equal(write(fd, "6", 1), 1);
    close(fd);
    expect_content(a, "3456");
    assert_int_equal(entries(), 6);
    char *all[] = {a, to_a, second, to_none, none, to_fd};
    for (int i = 0; i < 6; i++) xfree(all[i]);
}

TEST(same_file) {
    struct err err = {0};
    char *a = in_dir("a"), *b = in_dir("b"), *c = in_dir("c"), *none = in_dir("none");
    ASSERT_OK(file_write_all(a, "x", 1, &err), err);
    ASSERT_OK(file_write_all(c, "x", 1, &err), err);
    assert_int_equal(symlink(a, b), 0);
    assert_true(file_same(a, a) && file_same(a, b) && file_same(b, a));
    assert_false(file_same(a, c) || file_same(a, none) || file_same(none, none));
    assert_false(file_same("/dev/null", "/dev/null")); /* writing there harms nobody */
    xfree(a), xfree(b), xfree(c), xfree(none);
}

TEST(locks) {
    struct err err = {0};
    char *path = in_dir("lock");
    int lock, status;
    ASSERT_OK(file_lock(&lock, path, &err), err);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int other;
        char number[40];
        snprintf(number, sizeof number, "in use by another process: PID %d", (int)getppid());
        _exit(file_lock(&other, path, &err) != HEED_EIO || !strstr(err.msg, number));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    file_unlock(lock);
    ASSERT_OK(file_lock(&lock, path, &err), err);
    file_unlock(lock);
    xfree(path);
}

/* ---- bad days -------------------------------------------------------------------------------- */

static int left; /* calls until the one that fails */
static struct file_calls real;

static int fails(void) {
    if (--left != 0) return 0;
    errno = ENOSPC;
    return 1;
}
static int fail_create(const char *p, int f, mode_t m) {
    return fails() ? -1 : real.create(p, f, m);
}
static int fail_fsync(int fd) { return fails() ? -1 : real.fsync(fd); }
static int fail_rename(const char *a, const char *b) { return fails() ? -1 : real.rename(a, b); }
/* Takes a few bytes at a time, and is interrupted now and then. */
static ssize_t fail_write(int fd, const void *data, size_t size) {
    static int n;
    if (fails()) return -1;
    if (++n % 3 == 0) {
        errno = EINTR;
        return -1;
    }
    return real.write(fd, data, size > 40000 ? 40000 : size);
}

TEST(every_call_fails_once) {
    struct err err = {0};
    char *path = in_dir("a"), *big = xmalloc(200001);
    memset(big, 'z', 200000);
    big[200000] = 0;
    ASSERT_OK(file_write_all(path, "old", 3, &err), err);
    real = file_calls;
    int rc = -1, n = 0;
    while (rc) {
        left = ++n;
        file_calls.create = fail_create;
        file_calls.write = fail_write;
        file_calls.fsync = fail_fsync;
        file_calls.rename = fail_rename;
        rc = file_write_all(path, big, 200000, &err);
        file_calls = real;
        assert_true(n < 100);
        if (!rc) break;
        assert_int_equal(rc, HEED_EIO);
        char *said = strstr(err.msg, "no space left on the disk; what was there before is intact");
        assert_true(said || strstr(err.msg, "a: written, but the disk may not have it yet"));
        assert_int_equal(entries(), 1); /* no temporary file stays */
        char *data;
        size_t size;
        ASSERT_OK(file_read_all(&data, &size, path, 1 << 20, &err), err);
        /* Whole either way: only the sync of the directory comes after the rename. */
        assert_string_equal(data, said ? "old" : big);
        xfree(data);
    }
    assert_true(n > 8);
    expect_content(path, big);
    xfree(path);
    xfree(big);
}

/* ---- hash ------------------------------------------------------------------------------------ */

/* Every length up to where blocks of blocks begin, at odd addresses, and one large block. */
TEST(hash_is_the_librarys) {
    enum { N = 5000, LARGE = 1 << 20 };
    unsigned char *data = xmalloc(LARGE + 1);
    for (size_t i = 0; i <= LARGE; i++) data[i] = (unsigned char)(i * i * 31 >> 7);
    for (size_t n = 0; n <= LARGE; n = n < N ? n + 1 : 2 * n) {
        const unsigned char *at = data + n % 2;
        uint64_t wanted = XXH3_64bits(at, n);
        assert_true(hash64_plain(at, n) == wanted);
        assert_true(hash64(at, n) == wanted);
    }
    xfree(data);
}

/* ---- crc32c ---------------------------------------------------------------------------------- */

/* Vectors of RFC 3720, B.4. */
TEST(crc32c_vectors) {
    unsigned char data[32];
    memset(data, 0, 32);
    assert_int_equal(crc32c(0, data, 32), 0x8a9136aau);
    memset(data, 255, 32);
    assert_int_equal(crc32c(0, data, 32), 0x62a8ab43u);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)i;
    assert_int_equal(crc32c(0, data, 32), 0x46dd794eu);
    for (int i = 0; i < 32; i++) data[i] = (unsigned char)(31 - i);
    assert_int_equal(crc32c(0, data, 32), 0x113fdb5cu);
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(0, "", 0), 0);
    for (size_t cut = 0; cut <= 9; cut++) /* in two parts */
        assert_int_equal(crc32c(crc32c(0, "123456789", cut), &"123456789"[cut], 9 - cut),
                         0xe3069283u);
}

TESTS(T(writes_and_reads), T(copies_and_links), T(copies_where_links_are_not_possible),
      T(directories), T(special_files), T(outputs), T(same_file), T(locks),
      T(every_call_fails_once), T(hash_is_the_librarys), T(crc32c_vectors))
