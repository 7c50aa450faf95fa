/* host.h — the memory slots of a backend whose memory is the host's and whose ops are never queued:
 * ref and cpu. */
#ifndef BACKEND_HOST_H
#define BACKEND_HOST_H

#include "backend/device.h"

void *host_alloc(struct backend *be, size_t size);
void host_free(struct backend *be, void *ptr);
void host_copy(struct backend *be, void *dst, const void *src, size_t size);
void host_zero(struct backend *be, void *dst, size_t size);
void host_sync(struct backend *be);

/* In the initialiser of a vtable. */
#define HOST_SLOTS                                                                                 \
    .alloc = host_alloc, .free = host_free, .upload = host_copy, .download = host_copy,            \
    .zero = host_zero, .sync = host_sync

#endif
