/* host.c — see host.h. */
#include "backend/host.h"

#include <string.h>

#include "base/mem.h"

void *host_alloc(struct backend *be, size_t size) {
    (void)be;
    return mem_block(size);
}

void host_free(struct backend *be, void *ptr) {
    (void)be;
    mem_block_free(ptr);
}

void host_copy(struct backend *be, void *dst, const void *src, size_t size) {
    (void)be;
    memcpy(dst, src, size);
}

void host_zero(struct backend *be, void *dst, size_t size) {
    (void)be;
    memset(dst, 0, size);
}

void host_sync(struct backend *be) { (void)be; }
