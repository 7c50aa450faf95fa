/* device.c — what every backend does alike, plug-ins included: failing, and the workspace. */
#include "backend/device.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"

/* So that an op that needs nothing gets an address, too. */
enum { LEAST_WORKSPACE = 1 << 16 };

void backend_fail(struct backend *be, enum heed_status code, const char *fmt, ...) {
    if (be->err.code) return;
    char msg[sizeof be->err.msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    err_set(&be->err, code, "%s", msg);
}

double backend_lap(struct backend *be, const char *part, double begin) {
    double now = clock_seconds();
    if (be->n_lap < BACKEND_LAPS) be->lap[be->n_lap++] = (struct backend_lap){part, now - begin};
    return now;
}

void backend_reserve(struct backend *be, size_t size) {
    if (size < LEAST_WORKSPACE) size = LEAST_WORKSPACE;
    if (size <= be->workspace_size) return;
    if (be->workspace) be->vt->free(be, be->workspace);
    be->workspace = be->vt->alloc(be, size);
    be->workspace_size = be->workspace ? size : 0;
    if (!be->workspace)
        backend_fail(be, HEED_ENOMEM, "%s: cannot allocate a workspace of %.1f MiB", be->vt->name,
                     (double)size / 1048576.0);
}

void *backend_scratch(struct backend *be, size_t size) {
    if (backend_planning(be)) {
        if (size > be->need) be->need = size;
        return NULL;
    }
    if (be->err.code) return NULL;
    if (be->workspace && size <= be->workspace_size) return be->workspace;
    if (be->committed)
        backend_fail(be, HEED_EINTERNAL,
                     "%s: an op needs a workspace of %zu bytes, but %zu were planned", be->vt->name,
                     size, be->workspace_size);
    else
        backend_reserve(be, size);
    return be->err.code ? NULL : be->workspace;
}
