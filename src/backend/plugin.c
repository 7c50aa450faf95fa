/* plugin.c — see plugin.h. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/loader.h"

/* It stays open: whoever asks wants it next. */
static void *driver(void) {
    void *handle = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
    /* The second call frees what the C library keeps of a failure: a thread that is ending while
     * the program does would leave it behind. */
    if (!handle) dlerror(), dlerror();
    return handle;
}

/* cppcheck-suppress leakReturnValNotUsed ; as said */
int plugin_driver_present(void) { return driver() != NULL; }

/* The driver takes about as long to start as the plug-in and its libraries to load, and neither
 * needs the other, so they do it at the same time. If it cannot start, the plug-in says why. */
static void *start_driver(void *handle) {
    union {
        void *object;
        int (*function)(unsigned);
    } init = {.object = dlsym(handle, "cuInit")};
    if (init.object) init.function(0);
    return NULL;
}

int plugin_device_count(void) {
    int n = 0;
    void *handle = driver();
    if (!handle) return 0;
    start_driver(handle);
    union {
        void *object;
        int (*function)(int *);
    } count = {.object = dlsym(handle, "cuDeviceGetCount")};
    return count.object && count.function(&n) == 0 ? n : 0;
}

static int load(void **open, const char *name, const char *path, struct err *err) {
    pthread_t thread;
    void *handle = strcmp(name, "cuda") == 0 ? driver() : NULL;
    int starting = handle && pthread_create(&thread, NULL, start_driver, handle) == 0;
    int rc = loader_find(open, name, path, err);
    if (starting) pthread_join(thread, NULL);
    return rc;
}

int plugin_load(struct backend **be, const char *name, const char *path,
                const struct backend_options *options, struct err *err) {
    struct plugin_abi abi = PLUGIN_ABI;
    union {
        void *object;
        plugin_open *function;
    } open;
    *be = NULL;
    double begin = clock_seconds();
    int rc = load(&open.object, name, path, err);
    double loading = clock_seconds() - begin;
    if (!rc) rc = open.function(&abi, be, options, err);
    if (!rc) backend_lap(*be, "driver and plug-in", clock_seconds() - loading);
    return rc;
}
