/* A fixture of test_runner.sh: tests that fail, crash and hang beside one that passes. */
#include <signal.h>
#include <unistd.h>

#include "test.h"

TEST(passes) { assert_true(1); }
TEST(fails) { assert_int_equal(1 + 1, 3); }
TEST(fails_near) { ASSERT_NEAR(NAN, 0.0, 1e9); }
TEST(crashes) { raise(SIGSEGV); }
TEST(aborts) { abort(); }
TEST(leaves) { exit(3); }
TEST(hangs) {
    for (;;) pause();
}

TESTS(T(passes), T(fails), T(fails_near), T(crashes), T(aborts), T(leaves), TL(hangs, 1))
