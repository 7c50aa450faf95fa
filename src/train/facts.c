/* facts.c — see facts.h. */
#define _GNU_SOURCE /* dl_iterate_phdr */
#include "train/facts.h"

#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "base/file.h"
#include "base/mem.h"

int facts_same(struct comm *comm, const struct fact *fact, int n, struct err *err) {
    enum { HOST = 64, TEXT = sizeof fact->text };
    size_t size = HOST + (size_t)n * TEXT;
    char *all = xcalloc((size_t)comm->size + 1, size), *mine = all + (size_t)comm->size * size;
    gethostname(mine, HOST - 1);
    for (int i = 0; i < n; i++) memcpy(mine + HOST + i * TEXT, fact[i].text, TEXT);
    comm_gather(comm, all, mine, size);
    int rc = comm_check(comm, err);
    for (int i = 0; i < n && comm->size > 1; i++) {
        const char *first = all + HOST + i * TEXT, *one = first + size;
        for (int r = 1; r < comm->size && !rc; r++, one += size)
            if (strncmp(one, first, TEXT) != 0)
                rc = err_set(err, HEED_ECONFIG,
                             "rank %d on %s has another %s than rank 0 on %s: '%s', not '%s'", r,
                             all + (size_t)r * size, fact[i].name, all, one, first);
    }
    xfree(all);
    return rc;
}

static void add_file(uint32_t *sum, const char *path) {
    enum { LIMIT = 1 << 28 };
    char *data = NULL;
    size_t size = 0;
    if (file_read_all(&data, &size, path, LIMIT, NULL)) return;
    *sum = crc32c(*sum, data, size);
    xfree(data);
}

static int add_plugin(struct dl_phdr_info *object, size_t size, void *sum) {
    const char *name = strrchr(object->dlpi_name, '/');
    (void)size;
    if (name && strncmp(name, "/libheed", 8) == 0) add_file(sum, object->dlpi_name);
    return 0;
}

/* Two builds may have the same version: the files are the program. */
void fact_program(struct fact *fact) {
    uint32_t sum = 0;
    add_file(&sum, "/proc/self/exe");
    dl_iterate_phdr(add_plugin, &sum);
    *fact = (struct fact){.name = "program"};
    snprintf(fact->text, sizeof fact->text, "%s, %08x", heed_version(), sum);
}
