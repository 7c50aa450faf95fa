/* test.h — how a test is written. A thin skin over cmocka (assert_int_equal, assert_true, fail_msg
 * ...).
 *
 * Each tests/test_NAME.c is one program; the Makefile finds it, links it with the library's objects
 * (hidden symbols included) and with every tests/NAME.c that is neither test_* nor selftest_*.
 *
 *     #include "test.h"
 *
 *     TEST(adds) { assert_int_equal(1 + 1, 2); }
 *     TEST(learns) { ... }
 *     TEST(product) { const char *isa = TEST_ARG; if (!usable(isa)) SKIP("no %s here", isa); ... }
 *
 *     TESTS(T(adds), TL(learns, 120), TP(product, "avx2"), TP(product, "amx"))
 *
 * T(f) gives f 60 seconds, TL(f, s) gives it s seconds. TP(f, "arg") is the test `f.arg`: f finds
 * the string in TEST_ARG; TPL(f, "arg", s) is both. The program with
 *     no argument    runs all tests in this process, one after another (handy under a debugger);
 *     --list         prints `name seconds` per test;
 *     a test's name  runs that one: exit status 0 passed, 77 skipped, anything else failed.
 *
 * tests/run.sh runs every test of every program in a process of its own, with its timeout, several
 * at a time. So tests share nothing, may crash, and must not write outside a directory they made
 * (test_dir).
 *
 * cmocka's asserts leave the test by longjmp: use them only on the thread the test began on. */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"

/* Set in sanitizer builds, where everything is several times slower: a test may then do less. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TEST_SANITIZED 1
#else
#define TEST_SANITIZED 0
#endif

struct test {
    const char *name, *arg;
    CMUnitTestFunction fn;
    int seconds;
};

extern int test_skipped;

#define TEST(f)  static void f(void **state __attribute__((unused)))
#define TEST_ARG ((const char *)*state)

#define TL(f, s)                                                                                   \
    { .name = #f, .fn = f, .seconds = s }
#define T(f) TL(f, 60)
#define TPL(f, a, s)                                                                               \
    { .name = #f "." a, .fn = f, .arg = a, .seconds = s }
#define TP(f, a) TPL(f, a, 60)

#define TESTS(...)                                                                                 \
    int test_skipped;                                                                              \
    static const struct test test_table[] = {__VA_ARGS__};                                         \
    int main(int argc, char **argv) {                                                              \
        return test_main(argc, argv, test_table, sizeof test_table / sizeof *test_table);          \
    }

/* Leaves the test, saying why it cannot run here. */
#define SKIP(...)                                                                                  \
    do {                                                                                           \
        print_message("skipped: " __VA_ARGS__);                                                    \
        print_message("\n");                                                                       \
        test_skipped = 1;                                                                          \
        _skip(__FILE__, __LINE__);                                                                 \
    } while (0)

/* Fails unless |got - want| <= tol; a NaN on either side fails. */
#define ASSERT_NEAR(got, want, tol)                                                                \
    do {                                                                                           \
        double got_ = (got), want_ = (want), tol_ = (tol);                                         \
        if (!(fabs(got_ - want_) <= tol_))                                                         \
            fail_msg("%s = %.9g, want %.9g within %.3g", #got, got_, want_, tol_);                 \
    } while (0)

/* Fails unless `call` returns 0, and then shows the message in err (a struct err). */
#define ASSERT_OK(call, err)                                                                       \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_) fail_msg("%s: %s: %s", #call, heed_status_text(rc_), (err).msg);                  \
    } while (0)

/* Fails unless `call` returns `status` and the message in err contains `part`. */
#define ASSERT_ERR(call, err, status, part)                                                        \
    do {                                                                                           \
        int rc_ = (call);                                                                          \
        if (rc_ != (status)) fail_msg("%s returned %d, want %s", #call, rc_, #status);             \
        if (!strstr((err).msg, part)) fail_msg("'%s' lacks '%s'", (err).msg, part);                \
    } while (0)

/* The test's own directory, given by the runner and removed after the test. */
static inline const char *test_dir(void) {
    const char *dir = getenv("TEST_DIR");
    return dir ? dir : ".";
}

static inline int test_run(const struct test *t) {
    struct CMUnitTest unit = {.name = t->name, .test_func = t->fn};
    /* cmocka's state is not const; TEST_ARG makes it so again. */
    unit.initial_state = (void *)(uintptr_t)t->arg;
    test_skipped = 0;
    int failed = _cmocka_run_group_tests(t->name, &unit, 1, NULL, NULL);
    return failed ? 1 : test_skipped ? 77 : 0;
}

static inline int test_main(int argc, char **argv, const struct test *table, size_t n) {
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        for (size_t i = 0; i < n; i++) printf("%s %d\n", table[i].name, table[i].seconds);
        return 0;
    }
    int failed = 0;
    for (size_t i = 0; i < n && argc == 1; i++) failed += test_run(&table[i]) == 1;
    if (argc == 1) return failed != 0;
    for (size_t i = 0; i < n && argc == 2; i++)
        if (strcmp(table[i].name, argv[1]) == 0) return test_run(&table[i]);
    fprintf(stderr, "usage: %s [--list | TEST]\n", argv[0]);
    return 2;
}

#endif
