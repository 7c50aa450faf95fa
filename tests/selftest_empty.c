/* A fixture of test_runner.sh: a program without a test, which must not count as success. */
int main(void) { return 0; }
