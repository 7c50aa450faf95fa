/* A fixture of test_runner.sh: a program that dies before it can list its tests. */
#include <stdlib.h>

int main(void) { abort(); }
