/* file.h — files as the rest of the program wants them. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stddef.h>

#include "base/err.h"

/* A whole file mapped read-only; an empty file has size 0 and data NULL. */
struct file_map {
    const unsigned char *data;
    size_t size;
};

int file_map_open(struct file_map *map, const char *path, struct err *err);
void file_map_close(struct file_map *map);

#endif
