/* damage.c — see damage.h. */
#include "damage.h"

#include "base/file.h"
#include "base/mem.h"
#include "test.h"

void damage_all(const char *bytes, size_t size, damage_reader *read) {
    size_t step = size / 4096 + 1;
    for (size_t at = 0; at < size; at += step) {
        char *copy = xmalloc(at + !at);
        memcpy(copy, bytes, at);
        read(copy, at);
        xfree(copy);
        copy = xmalloc(size);
        memcpy(copy, bytes, size);
        copy[at] = (char)(copy[at] ^ 1 << at % 8);
        read(copy, size);
        xfree(copy);
    }
}

void damage_file(const char *path, damage_reader *read) {
    char *bytes;
    size_t size;
    struct err err = {0};
    ASSERT_OK(file_read_all(&bytes, &size, path, 1 << 22, &err), err);
    read(bytes, size);
    damage_all(bytes, size, read);
    xfree(bytes);
}
