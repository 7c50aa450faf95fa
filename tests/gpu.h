/* gpu.h — a GPU for a test, or the end of the test. */
#ifndef TESTS_GPU_H
#define TESTS_GPU_H

#include "backend/backend.h"

/* The cuda backend. Skips the test where there is none, unless HEED_TEST_GPU says that there must
 * be one. */
struct backend *gpu_open(void);

/* The same where only its presence matters. */
void gpu_needed(void);

#endif
