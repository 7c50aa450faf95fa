/* backend.c — the program's side of a device: opens backends, passes memory and queue calls on,
 * keeps the sticky error and the plan of the workspace. */
#include "backend/backend.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/device.h"
#include "backend/plugin.h"
#include "base/mem.h"

/* ---- life ------------------------------------------------------------------------------------ */

/* The best available: a usable GPU, else the CPU. */
static int open_auto(struct backend **be, struct backend_options *o, const char *path,
                     struct err *err) {
    o->device = "cuda";
    if (plugin_driver_present() && plugin_load(be, "cuda", path, o, NULL) == 0) return 0;
    o->device = "cpu";
    return cpu_open(be, o, err);
}

/* "cuda" or "cuda:N". */
static bool is_cuda(const char *device) {
    if (strncmp(device, "cuda", 4) != 0) return false;
    size_t digits = device[4] == ':' ? strspn(device + 5, "0123456789") : 0;
    return !device[4] || (digits > 0 && digits <= 4 && !device[5 + digits]);
}

static int open_device(struct backend **be, struct backend_options *o, struct err *err) {
    const char *path = getenv("HEED_PLUGIN_PATH");
    if (!o->device || strcmp(o->device, "auto") == 0) return open_auto(be, o, path, err);
    if (strcmp(o->device, "cpu") == 0) return cpu_open(be, o, err);
    if (strcmp(o->device, "ref") == 0) return ref_open(be, o, err);
    if (is_cuda(o->device)) return plugin_load(be, "cuda", path, o, err);
    return err_set(err, HEED_EINVAL, "device: '%s' is not one of auto, cpu, ref, cuda, cuda:N",
                   o->device);
}

int backend_open(struct backend **be, const struct backend_options *options, struct err *err) {
    struct backend_options o = options ? *options : (struct backend_options){0};
    struct err why = {0};
    const char *isa = getenv("HEED_ISA");
    int from_env = !o.isa && isa && *isa;
    if (from_env) o.isa = isa;
    *be = NULL;
    int rc = open_device(be, &o, &why);
    if (rc && from_env && strncmp(why.msg, "isa:", 4) == 0)
        return err_set(err, rc, "HEED_ISA%s", why.msg + strlen("isa"));
    return rc ? err_set(err, rc, "%s", why.msg) : 0;
}

void backend_close(struct backend *be) {
    if (!be) return;
    if (be->workspace) be->vt->free(be, be->workspace);
    be->vt->close(be);
}

const char *backend_name(const struct backend *be) { return be->vt->name; }

void backend_describe(const struct backend *be, char *text, size_t size) {
    if (be->vt->describe)
        be->vt->describe(be, text, size);
    else
        snprintf(text, size, "%s", be->vt->name);
}
int backend_device_memory(const struct backend *be) { return be->vt->device_memory; }
int backend_laps(const struct backend *be, const struct backend_lap **laps) {
    *laps = be->lap;
    return be->n_lap;
}
void *backend_queue(const struct backend *be) { return be->vt->queue ? be->vt->queue(be) : NULL; }
int backend_wants_tiles(const struct backend *be) { return be->vt->wants_tiles; }

int backend_check(struct backend *be, struct err *err) {
    int code = be->err.code;
    if (code && err) *err = be->err;
    be->err = (struct err){0};
    return code;
}

int backend_sync(struct backend *be, struct err *err) {
    be->vt->sync(be);
    return backend_check(be, err);
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *backend_alloc(struct backend *be, size_t size, struct err *err) {
    void *ptr = be->vt->alloc(be, size);
    if (!ptr)
        err_set(err, HEED_ENOMEM, "%s: cannot allocate %.1f MiB", be->vt->name,
                (double)size / 1048576.0);
    return ptr;
}

void backend_free(struct backend *be, void *ptr) {
    if (ptr) be->vt->free(be, ptr);
}

void backend_upload(struct backend *be, void *dst, const void *host_src, size_t size) {
    if (!be->err.code && !backend_planning(be) && size) be->vt->upload(be, dst, host_src, size);
}

void backend_download(struct backend *be, void *host_dst, const void *src, size_t size) {
    if (!be->err.code && !backend_planning(be) && size) be->vt->download(be, host_dst, src, size);
}

void backend_zero(struct backend *be, void *dst, size_t size) {
    if (!be->err.code && !backend_planning(be) && size) be->vt->zero(be, dst, size);
}

/* ---- queue ----------------------------------------------------------------------------------- */

/* Events that time single ops would be part of a recording, so there is none while profiling. */
static bool can_record(const struct backend *be) {
    return be->vt->replay && !be->profiling && !backend_planning(be) && !be->err.code;
}

int backend_replay(struct backend *be, struct recording **recording) {
    return can_record(be) && be->vt->replay(be, recording);
}

int backend_recorded(struct backend *be, struct recording **recording) {
    return be->vt->recorded && be->vt->recorded(be, recording);
}

void backend_forget(struct backend *be, struct recording *recording) {
    if (recording) be->vt->forget(be, recording);
}

void backend_post(struct backend *be, int slot, const void *src, size_t size) {
    BUG_ON(slot < 0 || slot >= POST_SLOTS || size > POST_SIZE);
    if (be->err.code || backend_planning(be)) return;
    if (be->vt->post)
        be->vt->post(be, slot, src, size);
    else
        be->vt->download(be, be->posted[slot], src, size);
}

void backend_collect(struct backend *be, int slot, void *host_dst, size_t size) {
    BUG_ON(slot < 0 || slot >= POST_SLOTS || size > POST_SIZE);
    if (be->err.code || backend_planning(be)) return;
    if (be->vt->collect)
        be->vt->collect(be, slot, host_dst, size);
    else
        memcpy(host_dst, be->posted[slot], size);
}

/* ---- workspace ------------------------------------------------------------------------------- */

void backend_plan(struct backend *be) {
    be->planning = 1;
    be->settled = be->need;
    be->need = 0;
}

int backend_commit(struct backend *be, struct err *err) {
    be->planning = 0;
    if (be->need < be->settled) be->need = be->settled;
    if (!be->err.code) backend_reserve(be, be->need);
    be->committed = 1;
    return backend_sync(be, err);
}

size_t backend_dismiss(struct backend *be) {
    size_t need = be->need;
    be->planning = 0;
    be->need = be->settled;
    return need;
}

size_t backend_available(const struct backend *be) {
    return be->vt->available ? be->vt->available(be) : mem_available();
}

size_t backend_workspace(const struct backend *be) { return be->need; }
