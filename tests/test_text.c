/* test_text.c — the line reader: what every odd file becomes, compressed or not, and that memory
 * stays bounded; UTF-8 against its definition. */
#define _GNU_SOURCE /* F_SETPIPE_SZ */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lzma.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "data/text.h"
#include "test.h"

#define FFFD UTF8_REPLACEMENT

/* ---- helpers --------------------------------------------------------------------------------- */

static const char *file_with(const char *name, const void *data, size_t size) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", test_dir(), name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
    return path;
}

static size_t gzip(unsigned char *out, size_t cap, const void *data, size_t size) {
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(uintptr_t)data;
    z.avail_in = (uInt)size;
    z.next_out = out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    deflateEnd(&z);
    return n;
}

static size_t xz(unsigned char *out, size_t cap, const void *data, size_t size) {
    size_t n = 0;
    lzma_ret rc = lzma_easy_buffer_encode(1, LZMA_CHECK_CRC64, NULL, data, size, out, &n, cap);
    assert_int_equal(rc, LZMA_OK);
    return n;
}

/* All lines of a file, joined by '|' after each; too long ones as "<LONG>". */
static int slurp(char *out, size_t cap, const char *path, struct text_counts *counts,
                 struct err *err) {
    struct text *text;
    struct line line;
    size_t n = 0;
    out[0] = 0;
    int rc = text_open(&text, path, err);
    if (rc) return rc;
    while ((rc = text_next(text, &line, err)) > 0) {
        assert_int_equal(strlen(line.text), line.size);
        assert_int_equal(utf8_clean_prefix(line.text, line.size), line.size);
        n += (size_t)snprintf(out + n, cap - n, "%s|",
                              line.flags & LINE_TOO_LONG ? "<LONG>" : line.text);
        assert_true(n < cap);
    }
    if (rc < 0) { /* final: told again */
        struct err again = {0};
        assert_int_equal(text_next(text, &line, &again), rc);
        assert_string_equal(again.msg, err->msg);
    }
    if (counts) *counts = text_counts(text);
    text_close(text);
    return rc;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Every code point survives encoding and decoding; every two- and three-byte string decodes as the
 * definition says. */
TEST(utf8_code_points) {
    for (uint32_t code = 0; code < 0x110000; code++) {
        char text[4];
        uint32_t back = 0;
        int n = utf8_encode(text, code), surrogate = code >= 0xD800 && code < 0xE000;
        int got = utf8_decode(&back, text, (size_t)n);
        if (surrogate ? got >= 0 : got != n || back != code) fail_msg("U+%04X", code);
        for (int cut = 1; cut < n && !surrogate; cut++)
            if (utf8_decode(&back, text, (size_t)cut) != -cut)
                fail_msg("U+%04X cut at %d", code, cut);
    }
}

TEST(utf8_replacement) {
    static const struct {
        const char *in, *out;
        int n;
    } cases[] = {
        {"plain", "plain", 0},
        {"\x80", FFFD, 1},
        {"a\xBFz", "a" FFFD "z", 1},
        {"\xC0\xAF", FFFD FFFD, 2},                   /* overlong '/' */
        {"\xE0\x80\xAF", FFFD FFFD FFFD, 3},          /* overlong */
        {"\xF0\x82\x82\xAC", FFFD FFFD FFFD FFFD, 4}, /* overlong */
        {"\xED\xA0\x80", FFFD FFFD FFFD, 3},          /* a surrogate */
        {"\xF4\x90\x80\x80", FFFD FFFD FFFD FFFD, 4}, /* U+110000 */
        {"\xF5\x80\x80\x80", FFFD FFFD FFFD FFFD, 4}, /* no such lead */
        {"\xE2\x82"
         "A",
         FFFD "A", 1},                                    /* begun, not finished: one */
        {"\xF0\x9F\x98", FFFD, 1},                        /* cut off at the end: one */
        {"\xE2\x82\xE2\x82\xAC", FFFD "\xE2\x82\xAC", 1}, /* begun twice */
        {"\xFF\xFE", FFFD FFFD, 2},
        {"\xF4\x8F\xBF\xBF\xEF\xBF\xBF", "\xF4\x8F\xBF\xBF\xEF\xBF\xBF", 0}, /* the last ones */
        {"12345678\xC3\xA9"
         "12345678",
         "12345678\xC3\xA9"
         "12345678",
         0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[64];
        uint64_t n = 0;
        size_t size = utf8_clean(out, cases[i].in, strlen(cases[i].in), &n);
        out[size] = 0;
        assert_string_equal(out, cases[i].out);
        assert_int_equal(n, cases[i].n);
    }
    /* A NUL at any place of the eight bytes that are looked at together. */
    for (size_t at = 0; at < 20; at++) {
        char text[20];
        memset(text, 'x', sizeof text);
        text[at] = 0;
        assert_int_equal(utf8_clean_prefix(text, sizeof text), at);
        text[at] = (char)0x80;
        assert_int_equal(utf8_clean_prefix(text, sizeof text), at);
    }
}

/* ---- lines ----------------------------------------------------------------------------------- */

struct text_case {
    const char *in;
    size_t size;
    const char *out;
    uint64_t lines, replaced;
};
#define CASE(in, out, lines, replaced)                                                             \
    { in, sizeof in - 1, out, lines, replaced }

static const struct text_case text_cases[] = {
    CASE("", "", 0, 0),
    CASE("\n", "|", 1, 0),
    CASE("a\nb\n", "a|b|", 2, 0),
    CASE("a\nb", "a|b|", 2, 0),
    CASE("a\r\nb\r\n", "a|b|", 2, 0),
    CASE("a\r\nb\r", "a|b|", 2, 0),
    CASE("a\rb\r\r\n", "a\rb\r|", 1, 0), /* only the line end's own CR goes */
    CASE("\r\n\r\n", "||", 2, 0),
    CASE("\n\n\n", "|||", 3, 0),
    CASE("\xEF\xBB\xBF"
         "a\n\xEF\xBB\xBF"
         "b\n",
         "a|\xEF\xBB\xBF"
         "b|",
         2, 0), /* only the first */
    CASE("\xEF\xBB\xBF", "", 0, 0),
    CASE("\xEF\xBB\xBF\n", "|", 1, 0),
    CASE("a\0b\n\0\n", "a" FFFD "b|" FFFD "|", 2, 2),
    CASE("caf\xE9\nna\xC3\xAFve\n", "caf" FFFD "|na\xC3\xAFve|", 2, 1),
    CASE("\xC3\nA\n", FFFD "|A|", 2, 1), /* a line end is never part of a character */
    CASE("tab\there\x01\n", "tab\there\x01|", 1, 0),
    CASE("\xE2\x80\xA8x\n", "\xE2\x80\xA8x|", 1, 0), /* U+2028 ends no line */
};

TEST(text_lines) {
    unsigned char packed[1024];
    char got[1024];
    for (size_t i = 0; i < sizeof text_cases / sizeof *text_cases; i++) {
        const struct text_case *c = &text_cases[i];
        for (int kind = 0; kind < 3; kind++) {
            struct err err = {0};
            struct text_counts counts;
            size_t n = kind == 1   ? gzip(packed, sizeof packed, c->in, c->size)
                       : kind == 2 ? xz(packed, sizeof packed, c->in, c->size)
                                   : c->size;
            const char *path = file_with("t", kind ? (const void *)packed : c->in, n);
            ASSERT_OK(slurp(got, sizeof got, path, &counts, &err), err);
            assert_string_equal(got, c->out);
            assert_int_equal(counts.lines, c->lines);
            assert_int_equal(counts.replaced, c->replaced);
            assert_int_equal(counts.bytes, c->size);
            assert_int_equal(counts.file_at, n);
            assert_int_equal(counts.file_end, n);
            assert_int_equal(counts.too_long, 0);
        }
    }
}

/* Lines about the limit, with and without CR, at the start of the file and across every buffer's
 * edge. */
TEST(text_long_lines) {
    enum { MAX = TEXT_MAX_LINE };
    static const size_t before[] = {0, 1, 65535, 65536, 196607, 262143, 262144, 300000};
    char *data = malloc(3u << 20);
    for (size_t b = 0; b < sizeof before / sizeof *before; b++)
        for (size_t len = MAX - 1; len <= MAX + 3; len++)
            for (int cr = 0; cr < 2; cr++) {
                size_t n = 0;
                for (size_t k = 0; k < before[b]; k++) data[n++] = k % 1000 == 999 ? '\n' : '.';
                if (before[b]) data[n++] = '\n';
                memset(data + n, 'y', len);
                data[n + MAX] = '\r'; /* a CR where a long line is cut is not its end */
                n += len;
                if (cr) data[n++] = '\r';
                memcpy(data + n, "\nz\n", 3);
                struct err err = {0};
                struct text *text;
                struct line line, last = {0};
                ASSERT_OK(text_open(&text, file_with("t", data, n + 3), &err), err);
                int long_seen = 0, rc;
                size_t longest = 0;
                while ((rc = text_next(text, &line, &err)) > 0) {
                    if (line.flags & LINE_TOO_LONG) assert_int_equal(line.size, 0);
                    long_seen += (line.flags & LINE_TOO_LONG) != 0;
                    if (line.size > longest) longest = line.size;
                    last = line;
                }
                assert_int_equal(rc, 0);
                assert_int_equal(last.size, 1); /* what follows is whole */
                /* Without a CR of its own the line's last byte may be the one put at MAX. */
                size_t content = len == MAX + 1 && !cr ? MAX : len;
                assert_int_equal(long_seen, content > MAX);
                if (content <= MAX) assert_int_equal(longest, content);
                assert_int_equal(text_counts(text).too_long, content > MAX);
                text_close(text);
            }
    free(data);
}

TEST(text_replaced_long_line) {
    size_t n = TEXT_MAX_LINE;
    char *data = malloc(n + 1);
    memset(data, 0xFF, n);
    data[n] = '\n';
    struct err err = {0};
    struct text *text;
    struct line line;
    ASSERT_OK(text_open(&text, file_with("t", data, n + 1), &err), err);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_int_equal(line.size, 3 * n);
    assert_int_equal(line.flags, LINE_REPLACED);
    assert_int_equal(text_next(text, &line, &err), 0);
    assert_int_equal(text_next(text, &line, &err), 0);
    text_close(text);
    free(data);
}

/* ---- compressed ------------------------------------------------------------------------------ */

static const char poem[] = "one\ntwo\r\nthree\n";

TEST(text_concatenated) {
    unsigned char packed[2048];
    char got[256];
    struct err err = {0};
    size_t n = gzip(packed, 512, poem, 5); /* cut within a line */
    n += gzip(packed + n, 512, "", 0);
    n += gzip(packed + n, 512, poem + 5, sizeof poem - 6);
    ASSERT_OK(slurp(got, sizeof got, file_with("t.gz", packed, n), NULL, &err), err);
    assert_string_equal(got, "one|two|three|");
    memset(packed + n, 0, 700); /* padding */
    ASSERT_OK(slurp(got, sizeof got, file_with("t.gz", packed, n + 700), NULL, &err), err);
    assert_string_equal(got, "one|two|three|");
    n = xz(packed, 512, poem, 5);
    n += xz(packed + n, 512, poem + 5, sizeof poem - 6);
    ASSERT_OK(slurp(got, sizeof got, file_with("t.xz", packed, n), NULL, &err), err);
    assert_string_equal(got, "one|two|three|");
}

/* Cut anywhere, or with any byte changed: an error that says so, or the right lines; never anything
 * else. */
TEST(text_damaged) {
    unsigned char packed[4096], copy[4096];
    char got[4096], whole[] = "one|two|three|";
    for (int kind = 0; kind < 2; kind++) {
        size_t n = kind ? xz(packed, sizeof packed, poem, sizeof poem - 1)
                        : gzip(packed, sizeof packed, poem, sizeof poem - 1);
        for (size_t cut = 10; cut < n; cut++) {
            struct err err = {0};
            ASSERT_ERR(slurp(got, sizeof got, file_with("cut", packed, cut), NULL, &err), err,
                       HEED_EFORMAT, "truncated");
            assert_non_null(strstr(err.msg, "/cut: "));
        }
        int damaged = 0;
        for (size_t at = 6; at < n; at++) {
            struct err err = {0};
            memcpy(copy, packed, n);
            copy[at] ^= 0x21;
            int rc = slurp(got, sizeof got, file_with("bad", copy, n), NULL, &err);
            assert_true(rc == 0 || rc == HEED_EFORMAT || rc == HEED_ELIMIT);
            if (rc == 0) assert_string_equal(got, whole); /* a header field without meaning */
            damaged += rc != 0;
        }
        assert_true(damaged > (int)n / 2);
        struct err err = {0};
        memcpy(packed + n, "garbage at the end", 18);
        ASSERT_ERR(slurp(got, sizeof got, file_with("more", packed, n + 18), NULL, &err), err,
                   HEED_EFORMAT, "something else follows");
    }
}

TEST(text_refused) {
    struct err err = {0};
    struct text *text;
    char path[600];
    ASSERT_ERR(text_open(&text, test_dir(), &err), err, HEED_EIO, "is a directory");
    assert_null(text);
    snprintf(path, sizeof path, "%s/none", test_dir());
    ASSERT_ERR(text_open(&text, path, &err), err, HEED_EIO, "none: No such file");
    ASSERT_ERR(text_open(&text,
                         file_with("u",
                                   "\xFF\xFE"
                                   "a\0\n\0",
                                   6),
                         &err),
               err, HEED_EFORMAT, "UTF-16");
    ASSERT_ERR(text_open(&text, file_with("u", "\xFE\xFF\0a", 4), &err), err, HEED_EFORMAT,
               "UTF-16");
    ASSERT_ERR(text_open(&text, file_with("u", "\x28\xB5\x2F\xFDxyz", 7), &err), err, HEED_EFORMAT,
               "zstd");
    ASSERT_ERR(text_open(&text, file_with("u", "BZh91AY&SYxx", 12), &err), err, HEED_EFORMAT,
               "bzip2");
    if (geteuid() != 0) {
        const char *closed = file_with("closed", "x\n", 2);
        chmod(closed, 0);
        ASSERT_ERR(text_open(&text, closed, &err), err, HEED_EIO, "Permission denied");
    }
}

/* ---- pipes ----------------------------------------------------------------------------------- */

struct feed {
    int fd;
    const unsigned char *data;
    size_t size;
};

static void *feed_bytewise(void *ctx) {
    struct feed *f = ctx;
    for (size_t i = 0; i < f->size; i++)
        if (write(f->fd, f->data + i, 1) != 1) break;
    close(f->fd);
    return NULL;
}

static void *feed_whole(void *ctx) {
    struct feed *f = ctx;
    ssize_t done = write(f->fd, f->data, f->size);
    (void)done; /* the reader goes away first */
    close(f->fd);
    return NULL;
}

/* A pipe that gives one byte at a time hides signatures and marks from whoever reads only once. */
TEST(text_pipe) {
    static const char marked[] = "\xEF\xBB\xBF"
                                 "one\ntwo";
    unsigned char packed[512];
    for (int kind = 0; kind < 3; kind++) {
        size_t n = kind == 1   ? gzip(packed, sizeof packed, marked, sizeof marked - 1)
                   : kind == 2 ? xz(packed, sizeof packed, marked, sizeof marked - 1)
                               : sizeof marked - 1;
        if (!kind) memcpy(packed, marked, n);
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        struct feed feed = {ends[1], packed, n};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, feed_bytewise, &feed), 0);
        struct err err = {0};
        struct text *text;
        struct line line;
        ASSERT_OK(text_open_fd(&text, ends[0], 1, "pipe", &err), err);
        assert_int_equal(text_next(text, &line, &err), 1);
        assert_string_equal(line.text, "one");
        assert_int_equal(text_next(text, &line, &err), 1);
        assert_string_equal(line.text, "two");
        assert_int_equal(text_next(text, &line, &err), 0);
        assert_int_equal(text_counts(text).file_end, 0); /* unknown */
        text_close(text);
        pthread_join(thread, NULL);
    }
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Nothing is waited for that has not been written: neither at the beginning, where the kind of file
 * is looked for, nor in the middle of a line. */
TEST(text_ready_lines) {
    static const char *const bad[] = {"BZ", "BZh9", "\xEF\xBB"};
    struct err err = {0};
    struct text *text;
    struct line line;
    int fd[2];
    assert_int_equal(pipe(fd), 0);
    assert_int_equal(write(fd[1], "a\nbc", 4), 4);
    ASSERT_OK(text_open_fd(&text, fd[0], 1, "pipe", &err), err);
    assert_int_equal(text_fd(text), fd[0]);
    assert_int_equal(text_ready(text), 1);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_string_equal(line.text, "a");
    assert_int_equal(text_ready(text), 0);
    assert_int_equal(text_ready(text), 0);
    assert_int_equal(write(fd[1], "de", 2), 2);
    assert_int_equal(text_ready(text), 0);
    assert_int_equal(write(fd[1], "f\n\nrest", 7), 7);
    assert_int_equal(text_ready(text), 1);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_string_equal(line.text, "bcdef");
    assert_int_equal(text_ready(text), 1);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_string_equal(line.text, "");
    assert_int_equal(text_ready(text), 0);
    close(fd[1]);
    assert_int_equal(text_ready(text), 1);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_string_equal(line.text, "rest");
    assert_int_equal(text_ready(text), 1);
    assert_int_equal(text_next(text, &line, &err), 0);
    text_close(text);

    for (size_t i = 0; i < sizeof bad / sizeof *bad;
         i++) { /* half a signature, then something else */
        assert_int_equal(pipe(fd), 0);
        assert_true(write(fd[1], bad[i], strlen(bad[i])) > 0);
        assert_int_equal(write(fd[1], "-\n", 2), 2);
        ASSERT_OK(text_open_fd(&text, fd[0], 1, "pipe", &err), err);
        assert_int_equal(text_ready(text), 1);
        assert_int_equal(text_next(text, &line, &err), 1);
        close(fd[1]);
        text_close(text);
    }
}

TEST(text_longer_lines) {
    enum { N = 3 * TEXT_MAX_LINE };
    struct err err = {0};
    struct text *text;
    struct line line;
    char *data = xmalloc(N + 1);
    memset(data, 'a', N);
    data[N] = '\n';
    ASSERT_OK(text_open(&text, file_with("long", data, N + 1), &err), err);
    text_max_line(text, N);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_int_equal(line.size, N);
    assert_int_equal(line.flags, 0);
    text_close(text);
    ASSERT_OK(text_open(&text, file_with("long", data, N + 1), &err), err);
    text_max_line(text, N - 1);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_int_equal(line.flags, LINE_TOO_LONG);
    text_close(text);
    xfree(data);
}

/* A line without an end is told as soon as it is too long; should it end after all, the next line
 * follows. */
TEST(text_endless_line) {
    enum { N = TEXT_MAX_LINE + 2 };
    struct err err = {0};
    struct text *text;
    struct line line;
    char *data = xmalloc(N);
    memset(data, 'a', N);
    for (int asked = 0; asked < 2; asked++) {
        int fd[2];
        assert_int_equal(pipe(fd), 0);
        assert_true(fcntl(fd[1], F_SETPIPE_SZ, 1 << 18) >= N);
        assert_int_equal(write(fd[1], "one\n", 4), 4);
        assert_int_equal(write(fd[1], data, N), N);
        ASSERT_OK(text_open_fd(&text, fd[0], 1, "pipe", &err), err);
        assert_int_equal(text_next(text, &line, &err), 1);
        assert_string_equal(line.text, "one");
        if (asked) assert_int_equal(text_ready(text), 1);
        assert_int_equal(text_next(text, &line, &err), 1); /* hangs if it wants the line's end */
        assert_int_equal(line.flags, LINE_TOO_LONG);
        if (asked) assert_int_equal(text_ready(text), 0);
        assert_int_equal(write(fd[1], data, 100), 100);
        if (asked) assert_int_equal(text_ready(text), 0);
        assert_int_equal(write(fd[1], "\r\n\ntwo\n", 7), 7);
        assert_int_equal(text_next(text, &line, &err), 1);
        assert_string_equal(line.text, "");
        assert_int_equal(line.flags, 0);
        assert_int_equal(text_next(text, &line, &err), 1);
        assert_string_equal(line.text, "two");
        close(fd[1]);
        assert_int_equal(text_next(text, &line, &err), 0);
        assert_int_equal(text_counts(text).lines, 4);
        assert_int_equal(text_counts(text).too_long, 1);
        assert_int_equal(text_counts(text).bytes, 4 + N + 100 + 7);
        text_close(text);
    }
    xfree(data);
}

/* In a pipe, where it may go on for ever, it is an error in the end. */
TEST(text_endless_pipe) {
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    size_t size = 2 * TEXT_ENDLESS;
    unsigned char *data = xcalloc(size, 1);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, old;
    sigaction(SIGPIPE, &ignore, &old);
    struct feed feed = {ends[1], data, size};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, feed_whole, &feed), 0);
    struct err err = {0};
    struct text *text;
    struct line line;
    ASSERT_OK(text_open_fd(&text, ends[0], 1, "pipe", &err), err);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_int_equal(line.flags, LINE_TOO_LONG);
    ASSERT_ERR(text_next(text, &line, &err), err, HEED_ELIMIT,
               "pipe: line 1 is longer than 1,048,576 bytes");
    text_close(text);
    pthread_join(thread, NULL);
    sigaction(SIGPIPE, &old, NULL);
    xfree(data);
}

/* A single line of 200 MB costs nothing. */
TEST(text_bounded_memory) {
    const char *path = file_with("huge", "q", 1);
    assert_int_equal(truncate(path, 3200l << 16), 0);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    struct err err = {0};
    struct text *text;
    struct line line;
    ASSERT_OK(text_open(&text, path, &err), err);
    assert_int_equal(text_next(text, &line, &err), 1);
    assert_int_equal(line.flags, LINE_TOO_LONG);
    assert_int_equal(text_next(text, &line, &err), 0);
    assert_int_equal(text_counts(text).bytes, 3200l << 16);
    text_close(text);
    getrusage(RUSAGE_SELF, &after);
    if (!TEST_SANITIZED) assert_true(after.ru_maxrss - before.ru_maxrss < 4096);
}

TESTS(T(utf8_code_points), T(utf8_replacement), T(text_lines), T(text_long_lines),
      T(text_replaced_long_line), T(text_concatenated), T(text_damaged), T(text_refused),
      T(text_pipe), T(text_ready_lines), T(text_longer_lines), T(text_endless_line),
      T(text_endless_pipe), T(text_bounded_memory))
