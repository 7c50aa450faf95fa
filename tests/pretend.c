/* pretend.c — libheed-cuda.so for machines without a GPU: a plug-in that computes as ref does and
 * says that it is the GPU that HEED_PRETEND names. For tests of what is said about devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/plugin.h"

static struct backend_vtable table;

static void describe(const struct backend *be, char *text, size_t size) {
    const char *name = getenv("HEED_PRETEND");
    snprintf(text, size, "%s %s", be->vt->name, name ? name : "nothing");
}

plugin_open heed_cuda_open;

__attribute__((visibility("default"))) int heed_cuda_open(const struct plugin_abi *abi,
                                                          struct backend **be,
                                                          const struct backend_options *options,
                                                          struct err *err) {
    const struct plugin_abi mine = PLUGIN_ABI;
    if (memcmp(&mine, abi, sizeof mine) != 0)
        return err_set(err, HEED_EDEVICE, "pretend: belongs to another heed");
    int rc = ref_open(be, options, err);
    if (rc) return rc;
    table = *(*be)->vt;
    table.name = "cuda";
    table.describe = describe;
    (*be)->vt = &table;
    return 0;
}
