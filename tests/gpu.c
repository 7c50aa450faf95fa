/* gpu.c — see gpu.h. */
#include "gpu.h"

#include "test.h"

struct backend *gpu_open(void) {
    struct backend *be;
    struct err err = {0};
    if (backend_open(&be, &(struct backend_options){.device = "cuda"}, &err) == 0) return be;
    if (getenv("HEED_TEST_GPU")) fail_msg("HEED_TEST_GPU is set, but: %s", err.msg);
    SKIP("%s", err.msg);
    return NULL;
}

void gpu_needed(void) { backend_close(gpu_open()); }
