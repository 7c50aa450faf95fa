/* place.c — see place.h. */
#define _GNU_SOURCE /* dladdr */
#include "base/place.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "heed.h"

static void folder_of(char folder[PLACE_SIZE], const char *file) {
    const char *slash = strrchr(file, '/');
    size_t n = slash ? (size_t)(slash - file) : 0;
    if (n >= PLACE_SIZE) n = 0;
    memcpy(folder, file, n);
    folder[n] = 0;
}

void places_find(struct places *p) {
    char program[PLACE_SIZE];
    Dl_info library;
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = 0;
    folder_of(p->program, program);
    int known = dladdr((const void *)&heed_version, &library) && library.dli_fname;
    folder_of(p->library, known ? library.dli_fname : "");
}
