/* plugin.c — see plugin.h. */
#include "backend/plugin.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/place.h"

/* Where the search stands: what was found, or what to tell the user. */
struct search {
    char file[64]; /* libheed-NAME.so */
    void *handle;
    char reason[160]; /* a file was there but could not be loaded */
    char places[160]; /* folders without one, abbreviated */
};

static void note_place(struct search *s, const char *folder) {
    size_t n = strlen(s->places);
    if (n + strlen(folder) + 3 < sizeof s->places)
        snprintf(s->places + n, sizeof s->places - n, "%s%s", n ? ", " : "", folder);
}

/* Tries one folder; "" is the loader's own search. */
static void try_folder(struct search *s, const char *folder) {
    char path[PATH_MAX];
    if (s->handle || s->reason[0]) return;
    if (snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", s->file) >=
        (int)sizeof path)
        return;
    if (*folder && access(path, F_OK) != 0) {
        note_place(s, folder);
        return;
    }
    s->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *why = s->handle ? NULL : dlerror();
    if (why && (*folder || !strstr(why, s->file)))
        snprintf(s->reason, sizeof s->reason, "%.150s", why);
}

/* The folders that belong to an installation, seen from one of its own. */
static void try_beside(struct search *s, const char *folder) {
    char beside[PLACE_SIZE + 16];
    static const char *const relative[] = {"", "/../lib/heed", "/../lib", "/.."};
    for (size_t i = 0; *folder && i < sizeof relative / sizeof *relative; i++) {
        snprintf(beside, sizeof beside, "%s%s", folder, relative[i]);
        try_folder(s, beside);
    }
}

static void try_list(struct search *s, const char *list) {
    char folder[PATH_MAX];
    while (list && *list) {
        size_t n = strcspn(list, ":");
        if (n > 0 && n < sizeof folder) {
            memcpy(folder, list, n);
            folder[n] = 0;
            try_folder(s, folder);
        }
        list += n + (list[n] == ':');
    }
}

static void search_all(struct search *s, const char *path) {
    struct places places;
    places_find(&places);
    try_beside(s, places.library); /* of libheed.so, when this is one */
    try_beside(s, places.program);
    try_list(s, path);
    try_folder(s, "");
}

/* It stays open: whoever asks wants it next. */
static void *driver(void) { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); }

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

static void load(struct search *s, const char *name, const char *path) {
    pthread_t thread;
    void *handle = strcmp(name, "cuda") == 0 ? driver() : NULL;
    int starting = handle && pthread_create(&thread, NULL, start_driver, handle) == 0;
    search_all(s, path);
    if (starting) pthread_join(thread, NULL);
}

int plugin_load(struct backend **be, const char *name, const char *path,
                const struct backend_options *options, struct err *err) {
    struct search s = {0};
    struct plugin_abi abi = PLUGIN_ABI;
    char symbol[64];
    *be = NULL;
    snprintf(s.file, sizeof s.file, "libheed-%s.so", name);
    snprintf(symbol, sizeof symbol, "heed_%s_open", name);
    double begin = clock_seconds();
    load(&s, name, path);
    double loading = clock_seconds() - begin;
    if (s.reason[0])
        return err_set(err, HEED_EDEVICE, "%s: the plug-in cannot be loaded: %s", name, s.reason);
    if (!s.handle)
        return err_set(err, HEED_EDEVICE,
                       "%s: %s was not found in %.140s or where the system's loader looks", name,
                       s.file, s.places);
    union {
        void *object;
        plugin_open *function;
    } open = {.object = dlsym(s.handle, symbol)};
    if (!open.object) {
        dlclose(s.handle);
        return err_set(err, HEED_EDEVICE, "%s: %s lacks %s", name, s.file, symbol);
    }
    int rc = open.function(&abi, be, options, err);
    if (!rc) backend_lap(*be, "driver and plug-in", clock_seconds() - loading);
    return rc;
}
