/* file.c — see file.h. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static int map_fd(struct file_map *map, int fd, const char *path, struct err *err) {
    struct stat st;
    if (fstat(fd, &st)) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return err_set(err, HEED_EIO, "%s: not a regular file", path);
    if (st.st_size == 0) return 0;
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    map->data = data;
    map->size = (size_t)st.st_size;
    return 0;
}

int file_map_open(struct file_map *map, const char *path, struct err *err) {
    *map = (struct file_map){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_set(err, HEED_EIO, "%s: %s", path, strerror(errno));
    int rc = map_fd(map, fd, path, err);
    close(fd);
    return rc;
}

void file_map_close(struct file_map *map) {
    if (map->data) munmap((void *)map->data, map->size);
    *map = (struct file_map){0};
}
