/* fuzz.h — what fuzz targets of file formats share: a directory of their own, in memory where
 * possible.
 *
 * Each tests/fuzz/fuzz_NAME.c is one libFuzzer program, its seeds in tests/fuzz/corpus/NAME. It
 * calls a parser with any bytes and checks what the parser promises; `want` ends the program, which
 * counts as a finding. */
#ifndef FUZZ_FUZZ_H
#define FUZZ_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void want(int condition) {
    if (!condition) abort();
}

static char fuzz_dir[64];

static inline void fuzz_path(char *path, size_t room, const char *name) {
    want(snprintf(path, room, "%s/%s", fuzz_dir, name) < (int)room);
}

static inline void fuzz_leave(void) {
    static const char *const names[] = {"config.json", "model.safetensors",     "state.safetensors",
                                        "model.bin",   "shared_vocabulary.txt", "input"};
    char path[128];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fuzz_path(path, sizeof path, names[i]);
        unlink(path);
    }
    rmdir(fuzz_dir);
}

/* 1 the first time, when the caller may put more files there. */
static inline int fuzz_enter(void) {
    if (fuzz_dir[0]) return 0;
    strcpy(fuzz_dir,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/heed-fuzz.XXXXXX" : "/tmp/heed-fuzz.XXXXXX");
    want(mkdtemp(fuzz_dir) != NULL);
    atexit(fuzz_leave);
    return 1;
}

/* The file `name` in the directory, with these bytes. */
static inline void fuzz_put(const char *name, const uint8_t *data, size_t size) {
    char path[128];
    fuzz_path(path, sizeof path, name);
    FILE *f = fopen(path, "wb");
    want(f && fwrite(data, 1, size, f) == size && fclose(f) == 0);
}

#endif
