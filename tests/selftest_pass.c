/* A fixture of test_runner.sh: one test passes, one is skipped, one sees its argument. */
#include "test.h"

TEST(passes) { assert_int_equal(1 + 1, 2); }
TEST(skips) { SKIP("always, argument %d", 1); }
TEST(argument) { assert_string_equal(TEST_ARG, "value"); }

TESTS(T(passes), T(skips), TP(argument, "value"))
