/* loader.c — see loader.h. */
#include "base/loader.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

int loader_find(void **open, const char *name, const char *path, struct err *err) {
    struct search s = {0};
    char symbol[64];
    *open = NULL;
    snprintf(s.file, sizeof s.file, "libheed-%s.so", name);
    snprintf(symbol, sizeof symbol, "heed_%s_open", name);
    search_all(&s, path);
    if (s.reason[0])
        return err_set(err, HEED_EDEVICE, "%s: the plug-in cannot be loaded: %s", name, s.reason);
    if (!s.handle)
        return err_set(err, HEED_EDEVICE,
                       "%s: %s was not found in %.140s or where the system's loader looks", name,
                       s.file, s.places);
    *open = dlsym(s.handle, symbol);
    if (*open) return 0;
    dlclose(s.handle);
    return err_set(err, HEED_EDEVICE, "%s: %s lacks %s", name, s.file, symbol);
}

int loader_library(void *function, const char *const *name, size_t n, const char *file,
                   struct err *err) {
    void *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return err_set(err, HEED_EIO, "cannot load %.40s: %.180s", file, dlerror());
    for (size_t i = 0; i < n; i++) {
        void *found = dlsym(handle, name[i]);
        if (!found) return err_set(err, HEED_EIO, "%.40s lacks %.60s", file, name[i]);
        memcpy((char *)function + i * sizeof found, &found, sizeof found);
    }
    return 0;
}
