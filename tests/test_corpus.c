/* test_corpus.c — from text to the cache and back: filters, odd text, damaged files, kills,
 * memory. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/rng.h"
#include "corpora.h"
#include "data/corpus_file.h"
#include "test.h"

#define WRITE(name, text) corpora_write(name, text, sizeof text - 1)

static struct corpus_options two_texts(const char *src, const char *tgt, int n_vocab) {
    corpora_write("t.src", src, strlen(src));
    corpora_write("t.tgt", tgt, strlen(tgt));
    return corpora_options("t", n_vocab);
}

/* Files in the cache directory whose names end like this. */
static int count_files(const char *suffix) {
    DIR *dir = opendir(corpora_path("cache"));
    if (!dir) return 0;
    int n = 0;
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        size_t size = strlen(entry->d_name), end = strlen(suffix);
        n += size >= end && strcmp(entry->d_name + size - end, suffix) == 0;
    }
    closedir(dir);
    return n;
}

/* Path of the only cache file. */
static const char *cache_file(void) {
    static char path[2048];
    DIR *dir = opendir(corpora_path("cache"));
    assert_non_null(dir);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        size_t n = strlen(entry->d_name);
        if (n > 7 && strcmp(entry->d_name + n - 7, ".corpus") == 0)
            snprintf(path, sizeof path, "%s/%s", corpora_path("cache"), entry->d_name);
    }
    closedir(dir);
    return path;
}

static void check_pair(const struct corpus *c, int64_t i, const int32_t *src, int n_src,
                       const int32_t *tgt, int n_tgt) {
    int32_t s[64], t[64];
    struct corpus_place place;
    struct err err;
    ASSERT_OK(corpus_find(c, i, &place, &err), err);
    assert_true(place.n_src == n_src && place.n_tgt == n_tgt);
    ASSERT_OK(corpus_read(c, &place, s, t, &err), err);
    assert_memory_equal(s, src, (size_t)n_src * sizeof *s);
    assert_memory_equal(t, tgt, (size_t)n_tgt * sizeof *t);
}

/* ---- building -------------------------------------------------------------------------------- */

TEST(pairs_come_back) {
    int n_vocab = atoi(TEST_ARG);
    struct corpus_options o = two_texts("1 2 3\n4\n", "5\n69999 7\n", n_vocab);
    struct corpus c;
    struct corpus_report report;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &report, &err), err);
    assert_int_equal(c.n_pair, 2);
    assert_int_equal(c.width, n_vocab > 65536 ? 4 : 2);
    assert_int_equal(c.n_vocab, n_vocab);
    int32_t eos = n_vocab - 1;
    check_pair(&c, 0, (int32_t[]){1, 2, 3, eos}, 4, (int32_t[]){5, eos}, 2);
    check_pair(&c, 1, (int32_t[]){4, eos}, 2, (int32_t[]){69999 % n_vocab, 7, eos}, 3);
    assert_true(c.max_src == 4 && c.max_tgt == 3);
    assert_true(report.n_read == 2 && report.n_kept == 2 && report.n_src_tok == 6 &&
                report.n_tgt_tok == 5 && !report.reused);
    corpus_close(&c);
}

/* Another encoder for the target's lines; tokens before each line; a source without an end mark. */
TEST(two_encoders) {
    struct corpus_options o = two_texts("1 2 3\n4\n", "5\n69999 7\n", 100);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    o.target = numbers_encoder(70000);
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(c.width == 4 && c.n_vocab == 70000 && !r.reused);
    check_pair(&c, 0, (int32_t[]){1, 2, 3, 99}, 4, (int32_t[]){5, 69999}, 2);
    check_pair(&c, 1, (int32_t[]){4, 99}, 2, (int32_t[]){69999, 7, 69999}, 3);
    corpus_close(&c);
    o.encoder.eos = -1;
    o.target.has_first = 1;
    o.target.first = 8;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_false(r.reused);
    check_pair(&c, 0, (int32_t[]){1, 2, 3}, 3, (int32_t[]){8, 5, 69999}, 3);
    check_pair(&c, 1, (int32_t[]){4}, 1, (int32_t[]){8, 69999, 7, 69999}, 4);
    corpus_close(&c);
    o.target.first = 9; /* and every one of them is part of the key */
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_false(r.reused);
    corpus_close(&c);
    o.encoder.has_first = 1;
    o.max_len = 4; /* what stands around a line counts */
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(!r.reused && r.n_kept == 2);
    check_pair(&c, 0, (int32_t[]){0, 1, 2, 3}, 4, (int32_t[]){9, 5, 69999}, 3);
    corpus_close(&c);
    o.max_len = 3;
    ASSERT_ERR(corpus_build(&c, &o, &r, &err), err, HEED_EFORMAT, "2 too long");
    o.target.eos = -1;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "end mark -1");
    o.target.eos = 3;
    o.target.first = 70000;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "first token 70000");
}

TEST(filters_drop_and_say_why) {
    struct corpus_options o =
        two_texts("1\n\n1 2 3 4 5 6\n1 2\n1 1 1 1 1\n   \n1 2 3\n1 2 3 4 5 6\n",
                  "1\n1\n1\n1 2 3 4 5 6\n2\n1\n3 2 1\n\n", 100);
    o.max_len = 6;
    o.ratio = 2.5;
    o.ratio_above = 5;
    struct corpus c;
    struct corpus_report r;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.n_read == 8 && r.n_kept == 2);
    assert_true(r.n_dropped[CORPUS_EMPTY] == 3 && r.first_dropped[CORPUS_EMPTY] == 2);
    assert_true(r.n_dropped[CORPUS_TOO_LONG] == 2 && r.first_dropped[CORPUS_TOO_LONG] == 3);
    assert_true(r.n_dropped[CORPUS_RATIO] == 1 && r.first_dropped[CORPUS_RATIO] == 5);
    char text[256];
    corpus_report_text(&r, text, sizeof text);
    assert_string_equal(text, "8 pairs read, 2 kept; dropped: 3 empty (first: line 2), 2 too long "
                              "(first: line 3), 1 length ratio (first: line 5)");
    corpus_report_text(&r, text, 9);
    assert_string_equal(text, "8 pairs ");
    corpus_close(&c);
    o.min_len = 3;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.n_kept == 1 && r.n_dropped[CORPUS_TOO_SHORT] == 2);
    corpus_close(&c);
}

TEST(odd_text_flows_through) {
    static const char src[] = "1 2\r\n"
                              "3\0004 5\n"
                              "6 \xff\xfe 7\n"
                              "\xe2\x82 8\n"
                              "last";
    static const char tgt[] = "1\n2\n3\n4\n5\n";
    WRITE("t.src", src);
    WRITE("t.tgt", tgt);
    struct corpus_options o = corpora_options("t", 1000);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.n_read == 5 && r.n_kept == 5);
    assert_true(r.n_replaced >= 4 && r.first_replaced == 2);
    check_pair(&c, 0, (int32_t[]){1, 2, 999}, 3, (int32_t[]){1, 999}, 2);
    corpus_close(&c);
}

TEST(long_line_is_dropped) {
    size_t n = 1 << 20;
    char *text = xmalloc(n + 8);
    memset(text, '7', n);
    memcpy(text + n, "\n1 2\n", 6);
    corpora_write("t.src", text, n + 5);
    WRITE("t.tgt", "1\n2\n");
    struct corpus_options o = corpora_options("t", 1000);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.n_kept == 1 && r.n_dropped[CORPUS_TOO_LONG] == 1);
    corpus_close(&c);
    xfree(text);
}

TEST(unequal_texts_are_refused) {
    struct corpus_options o = two_texts("1\n2\n3\n4\n5\n", "1\n2\n3\n", 100);
    struct corpus c;
    struct err err;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "t.src has 5 lines");
    assert_non_null(strstr(err.msg, "t.tgt has 3"));
    o = two_texts("1\n", "1\n2\n3", 100);
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "t.tgt has 3");
    assert_int_equal(count_files(".corpus") + count_files(".tmp"), 0);
}

TEST(nothing_usable_is_refused) {
    struct corpus_options o = two_texts("", "", 100);
    struct corpus c;
    struct err err;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT, "are empty");
    o = two_texts("\n\n", "1\n2\n", 100);
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EFORMAT,
               "no usable pair: 2 pairs read, 0 kept; dropped: 2 empty (first: line 1)");
    assert_int_equal(count_files(".corpus") + count_files(".tmp"), 0);
}

TEST(bad_options_and_paths_are_refused) {
    struct corpus_options good = two_texts("1\n", "1\n", 100), o = good;
    struct corpus c;
    struct err err;
    o.src = corpora_path("none");
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EIO, "none: No such file");
    o.src = test_dir();
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "not a regular file");
    o = good;
    o.max_len = 1;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "longest sentence: 1");
    o = good;
    o.ratio = 0.5;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EINVAL, "length ratio: 0.5");
    o = good;
    o.cache_dir = good.src;
    ASSERT_ERR(corpus_build(&c, &o, NULL, &err), err, HEED_EIO, "t.src");
}

/* ---- cache ----------------------------------------------------------------------------------- */

TEST(cache_is_reused) {
    corpora_generate("a", 500, 1);
    struct corpus_options o = corpora_options("a", 60000);
    struct corpus c;
    struct corpus_report first, again;
    struct err err;
    ASSERT_OK(corpus_build(&c, &o, &first, &err), err);
    assert_int_equal(numbers_calls, 1000);
    corpus_close(&c);
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_int_equal(numbers_calls, 1000);
    assert_true(again.reused && !first.reused);
    again.reused = 0;
    assert_memory_equal(&first, &again, sizeof first);
    corpus_close(&c);
    /* Anything that matters makes another cache. */
    o.max_len = 100;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused);
    corpus_close(&c);
    o.encoder.hash[3]++;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused);
    corpus_close(&c);
    FILE *f = fopen(o.src, "r+b"); /* same size, same name, one byte differs */
    assert_non_null(f);
    fputc('9', f);
    fclose(f);
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused);
    corpus_close(&c);
    assert_int_equal(count_files(".corpus"), 4);
    o.rebuild = 1;
    ASSERT_OK(corpus_build(&c, &o, &again, &err), err);
    assert_true(!again.reused);
    corpus_close(&c);
    assert_int_equal(count_files(".corpus"), 4);
    assert_int_equal(count_files(".tmp"), 0);
}

static char *slurp(const char *path, size_t *size) {
    char *data;
    struct err err;
    ASSERT_OK(file_read_all(&data, size, path, 1 << 26, &err), err);
    return data;
}

TEST(threads_do_not_matter) {
    corpora_generate("a", 9000, 3);
    char *data[2];
    size_t size[2];
    for (int i = 0; i < 2; i++) {
        struct corpus_options o = corpora_options("a", 60000);
        o.threads = 1 + 4 * i;
        o.rebuild = 1;
        struct corpus c;
        struct err err;
        ASSERT_OK(corpus_build(&c, &o, NULL, &err), err);
        corpus_close(&c);
        data[i] = slurp(cache_file(), &size[i]);
    }
    assert_int_equal(size[0], size[1]);
    assert_memory_equal(data[0], data[1], size[0]);
    xfree(data[0]);
    xfree(data[1]);
}

/* Reads everything a corpus offers. */
static void read_all(const struct corpus *c) {
    int32_t *src = xcalloc((size_t)c->max_src, sizeof *src);
    int32_t *tgt = xcalloc((size_t)c->max_tgt, sizeof *tgt);
    uint64_t at = 0;
    for (int64_t i = 0; i < c->n_pair; i++) {
        struct corpus_place place;
        struct err err;
        ASSERT_OK(corpus_find(c, i, &place, &err), err);
        assert_true(place.start == at); /* no pair overlaps another */
        at += (uint64_t)(place.n_src + place.n_tgt);
        ASSERT_OK(corpus_read(c, &place, src, tgt, &err), err);
        for (int k = 0; k < place.n_src; k++) assert_true(src[k] >= 0 && src[k] < c->n_vocab);
        for (int k = 0; k < place.n_tgt; k++) assert_true(tgt[k] >= 0 && tgt[k] < c->n_vocab);
    }
    xfree(src);
    xfree(tgt);
}

/* Every bit of a small file flipped, every length cut: found out, each time. */
TEST(damage_is_found) {
    struct corpus c;
    struct err err;
    corpora_make(&c, "a", 8, 60000);
    corpus_close(&c);
    size_t size;
    char *data = slurp(cache_file(), &size);
    ASSERT_OK(corpus_open_memory(&c, data, size, &err), err);
    read_all(&c);
    corpus_close(&c);
    for (size_t i = 0; i < size * 8; i++) {
        data[i / 8] ^= (char)(1 << i % 8);
        ASSERT_ERR(corpus_open_memory(&c, data, size, &err), err, HEED_EFORMAT, "memory: ");
        data[i / 8] ^= (char)(1 << i % 8);
    }
    for (size_t i = 0; i < size; i++) {
        char *cut = xmalloc(i + 1); /* exactly sized, so that reading past the end shows */
        memcpy(cut, data, i);
        cut = xrealloc(cut, i ? i : 1);
        ASSERT_ERR(corpus_open_memory(&c, cut, i, &err), err, HEED_EFORMAT, "memory: ");
        xfree(cut);
    }
    xfree(data);
}

/* A forger computes the checksums too: what is opened can be read without harm. */
TEST(forged_files_do_no_harm) {
    struct corpus c;
    struct err err;
    corpora_make(&c, "a", 8, 60000);
    corpus_close(&c);
    size_t size;
    char *data = slurp(cache_file(), &size), *forged = xmalloc(size);
    static const unsigned char values[] = {0, 1, 0x7f, 0xff};
    for (size_t i = 0; i < size; i++)
        for (size_t k = 0; k < sizeof values; k++) {
            memcpy(forged, data, size);
            forged[i] = (char)values[k];
            corpora_sign(forged, size);
            if (corpus_open_memory(&c, forged, size, &err) == 0) read_all(&c);
            corpus_close(&c);
        }
    xfree(forged);
    xfree(data);
}

TEST(damaged_cache_is_rebuilt) {
    struct corpus c;
    struct corpus_report r;
    struct err err;
    corpora_make(&c, "a", 50, 60000);
    corpus_close(&c);
    struct corpus_options o = corpora_options("a", 60000);
    char path[1024];
    snprintf(path, sizeof path, "%s", cache_file());
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    for (int i = 0; i < 3; i++) {
        if (i == 0) assert_int_equal(truncate(path, st.st_size / 2), 0);
        if (i == 1) assert_int_equal(truncate(path, 0), 0);
        if (i == 2) {
            corpora_generate("b", 50, 2); /* a good cache under the wrong name */
            struct corpus_options other = corpora_options("b", 60000);
            other.cache_dir = corpora_path("other");
            ASSERT_OK(corpus_build(&c, &other, NULL, &err), err);
            corpus_close(&c);
            char command[3000];
            snprintf(command, sizeof command, "cp %s/*.corpus %s", other.cache_dir, path);
            assert_int_equal(system(command), 0);
        }
        ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
        assert_true(!r.reused && c.n_pair == 50);
        corpus_close(&c);
    }
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_true(r.reused);
    corpus_close(&c);
}

/* Another program writes into the file, or cuts it short, while we read it. */
TEST(change_while_open_is_an_error) {
    struct corpus c;
    struct err err;
    corpora_make(&c, "a", 50, 60000);
    int32_t src[256], tgt[256];
    struct corpus_place place;
    ASSERT_OK(corpus_find(&c, 3, &place, &err), err);
    FILE *f = fopen(cache_file(), "r+b");
    assert_non_null(f);
    for (uint64_t i = 0; i < c.size; i++) fputc(0xff, f);
    fclose(f);
    ASSERT_ERR(corpus_read(&c, &place, src, tgt, &err), err, HEED_EIO, "changed while in use");
    ASSERT_ERR(corpus_find(&c, 4, &place, &err), err, HEED_EIO, "changed while in use");
    assert_int_equal(truncate(cache_file(), 1), 0);
    ASSERT_ERR(corpus_find(&c, 4, &place, &err), err, HEED_EIO, "cut short");
    corpus_close(&c);
}

/* ---- stopping -------------------------------------------------------------------------------- */

static int stop_after(void *ctx, const struct corpus_progress *p) {
    int *left = ctx;
    assert_true(p->bytes_done <= p->bytes_total);
    return (*left)-- > 0 ? 0 : HEED_EINTERNAL;
}

TEST(progress_can_cancel) {
    corpora_generate("a", 20000, 1);
    struct corpus_options o = corpora_options("a", 60000);
    struct corpus c;
    struct err err;
    int left, n_cancelled = 0;
    o.progress = stop_after;
    o.progress_ctx = &left;
    for (int i = 0; i < 1000; i++) {
        left = i;
        int rc = corpus_build(&c, &o, NULL, &err);
        if (rc == 0) break;
        assert_int_equal(rc, HEED_EINTERNAL);
        assert_non_null(strstr(err.msg, "stopped"));
        assert_int_equal(count_files(".corpus") + count_files(".tmp"), 0);
        n_cancelled++;
    }
    assert_true(n_cancelled > 10 && n_cancelled < 999);
    corpus_close(&c);
}

static int die_after(void *ctx, const struct corpus_progress *p) {
    (void)p;
    int *left = ctx;
    if ((*left)-- == 0) raise(SIGKILL);
    return 0;
}

TEST(kill_leaves_nothing_half) {
    corpora_generate("a", 20000, 1);
    struct corpus_options o = corpora_options("a", 60000);
    struct corpus c;
    struct corpus_report r;
    struct err err;
    for (int i = 0; i < 12; i++) {
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            int left = 3 * i;
            o.progress = die_after;
            o.progress_ctx = &left;
            _exit(corpus_build(&c, &o, NULL, &err) ? 1 : 0);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSIGNALED(status)) break;
        assert_int_equal(WTERMSIG(status), SIGKILL);
        assert_int_equal(count_files(".corpus"), 0);
        assert_true(count_files(".tmp") <= 1); /* of the last one: the next build clears it away */
    }
    ASSERT_OK(corpus_build(&c, &o, &r, &err), err);
    assert_int_equal(c.n_pair, 20000);
    read_all(&c);
    corpus_close(&c);
    assert_int_equal(count_files(".corpus"), 1);
    assert_int_equal(count_files(".tmp"), 0);
}

/* A disk that fills up: every write from the n-th on fails. */
static int writes_left;
static ssize_t full_disk(int fd, const void *data, size_t size) {
    if (writes_left-- > 0) return write(fd, data, size);
    errno = ENOSPC;
    return -1;
}

TEST(full_disk_is_an_error) {
    corpora_generate("a", 100000, 1); /* several blocks of what writes */
    struct corpus_options o = corpora_options("a", 60000);
    struct corpus c;
    struct err err;
    ssize_t (*real)(int, const void *, size_t) = file_calls.write;
    file_calls.write = full_disk;
    int n = 0;
    for (;; n++) {
        writes_left = n;
        if (corpus_build(&c, &o, NULL, &err) == 0) break;
        assert_int_equal(err.code, HEED_EIO);
        assert_non_null(strstr(err.msg, "no space left"));
        assert_int_equal(count_files(".corpus") + count_files(".tmp"), 0);
    }
    file_calls.write = real;
    assert_true(n > 1);
    corpus_close(&c);
}

TEST(two_builders_agree) {
    corpora_generate("a", 20000, 1);
    struct corpus_options o = corpora_options("a", 60000);
    struct err err;
    pid_t pid[3];
    for (int i = 0; i < 3; i++) {
        pid[i] = fork();
        assert_true(pid[i] >= 0);
        if (pid[i] == 0) {
            struct corpus c;
            int rc = corpus_build(&c, &o, NULL, &err);
            _exit(rc || c.n_pair != 20000);
        }
    }
    for (int i = 0; i < 3; i++) {
        int status;
        assert_int_equal(waitpid(pid[i], &status, 0), pid[i]);
        assert_int_equal(status, 0);
    }
    assert_int_equal(count_files(".corpus"), 1);
    assert_int_equal(count_files(".tmp"), 0);
}

/* Largest resident size, in kB, of a process that builds a corpus of n pairs and reads all of it at
 * random. */
static long peak_of(const char *name, int n) {
    corpora_generate(name, n, 1);
    struct corpus_options o = corpora_options(name, 60000);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        struct corpus c;
        struct err err;
        if (corpus_build(&c, &o, NULL, &err)) _exit(1);
        struct rng rng = {.key = 1};
        int32_t src[256], tgt[256];
        struct corpus_place place;
        for (int i = 0; i < n; i++) {
            int64_t pair = rng_below(&rng, (uint32_t)c.n_pair);
            if (corpus_find(&c, pair, &place, &err) || corpus_read(&c, &place, src, tgt, &err))
                _exit(1);
        }
        _exit(0);
    }
    int status;
    struct rusage usage;
    assert_int_equal(wait4(pid, &status, 0, &usage), pid);
    assert_int_equal(status, 0);
    return usage.ru_maxrss;
}

TEST(memory_does_not_grow_with_the_corpus) {
    if (TEST_SANITIZED) SKIP("sanitizers count their own memory");
    long small = peak_of("small", 40000), large = peak_of("large", 400000);
    print_message("peak: %ld kB with 40,000 pairs, %ld kB with 400,000\n", small, large);
    assert_true((double)large < 1.1 * (double)small);
}

TESTS(TP(pairs_come_back, "100"), TP(pairs_come_back, "65536"), TP(pairs_come_back, "65537"),
      TP(pairs_come_back, "1000000"), T(two_encoders), T(filters_drop_and_say_why),
      T(odd_text_flows_through), T(long_line_is_dropped), T(unequal_texts_are_refused),
      T(nothing_usable_is_refused), T(bad_options_and_paths_are_refused), T(cache_is_reused),
      T(threads_do_not_matter), T(damage_is_found), T(forged_files_do_no_harm),
      T(damaged_cache_is_rebuilt), T(change_while_open_is_an_error), T(progress_can_cancel),
      T(kill_leaves_nothing_half), T(full_disk_is_an_error), T(two_builders_agree),
      T(memory_does_not_grow_with_the_corpus))
