/* device.h — what a device is made of: only for those who write one.
 *
 * A backend embeds struct backend as its first member and fills a vtable. The program's side of it
 * is backend.c, ops.c and profile.c; device.c is linked into plug-ins, too, which need no other
 * symbol of the program that loads them. */
#ifndef BACKEND_DEVICE_H
#define BACKEND_DEVICE_H

#include "backend/backend.h"
#include "backend/mat.h"
#include "backend/ops.h"
#include "backend/profile.h"

/* The vtable. Slots are called only by backend.c, ops.c and profile.c, with arguments already
 * checked, and never while an error is pending. */
struct backend_vtable {
    const char *name;
    /* Capabilities. */
    int device_memory; /* what alloc gives cannot be read by the host */
    int wants_tiles;   /* weights that are only run should be tiled (tile.h); else plain only */
    void (*describe)(const struct backend *be, char *text, size_t size); /* NULL: the name does */
    void (*close)(struct backend *be);
    void *(*alloc)(struct backend *be, size_t size); /* MEM_ALIGN-aligned, or NULL */
    void (*free)(struct backend *be, void *ptr);
    void (*upload)(struct backend *be, void *dst, const void *host_src, size_t size);
    void (*download)(struct backend *be, void *host_dst, const void *src, size_t size); /* waits */
    void (*zero)(struct backend *be, void *dst, size_t size);
    void (*cast)(struct backend *be, const struct mat *dst, const struct mat *src);
    void (*sync)(struct backend *be); /* waits for all queued work, turning failures into be->err */
    size_t (*available)(const struct backend *be); /* NULL: the host's memory */
    void *(*queue)(const struct backend *be);      /* NULL: there is none */
    /* Profiling of a device with a queue (NULL: the host's clock around a sync). mark notes the
     * time at which an op begins or ends on the device; settle waits and adds what was noted to
     * be->cost[].ns. */
    void (*mark)(struct backend *be, enum op op, int end);
    void (*settle)(struct backend *be);
    /* Recording and posts; all NULL where ops are not queued. See backend_replay and
     * backend_post. */
    int (*replay)(struct backend *be, struct recording **recording);
    int (*recorded)(struct backend *be, struct recording **recording);
    void (*forget)(struct backend *be, struct recording *recording);
    void (*post)(struct backend *be, int slot, const void *src, size_t size);
    void (*collect)(struct backend *be, int slot, void *host_dst, size_t size);
#define OP_SLOT(slot, args) void (*slot)(struct backend * be, const struct args *a);
    BACKEND_OPS(OP_SLOT)
#undef OP_SLOT
};

enum { BACKEND_LAPS = 8 };

/* Common head of every backend; a backend embeds it as its first member. */
struct backend {
    const struct backend_vtable *vt;
    struct err err; /* sticky */
    int planning, committed, profiling;
    /* Workspace: the largest request of this plan, and of those committed before. */
    size_t need, settled;
    void *workspace;
    size_t workspace_size;
    struct op_cost cost[OP_COUNT];
    char posted[POST_SLOTS][POST_SIZE];   /* of backends without a queue */
    struct backend_lap lap[BACKEND_LAPS]; /* of opening */
    int n_lap;
};

/* Between backend_plan and backend_commit: ops ask for their workspace and compute nothing. */
static inline int backend_planning(const struct backend *be) { return be->planning; }

/* Records a part of opening that began at `begin` (clock_seconds) and ends now; returns now. */
double backend_lap(struct backend *be, const char *part, double begin);

/* Records a failure; the first one wins. */
void backend_fail(struct backend *be, enum heed_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The op's scratch memory: aligned as alloc's, uninitialised, valid until the next op begins.
 * Called once per op with the sum of what it needs, which may be 0. NULL means "compute nothing":
 * the backend is planning, or the error is set. */
void *backend_scratch(struct backend *be, size_t size);
/* The workspace, at least `size` bytes of it; what was in it is lost. */
void backend_reserve(struct backend *be, size_t size);

/* Around each op while profiling: profile.c. */
double profile_begin(struct backend *be, enum op op);
void profile_end(struct backend *be, enum op op, double begin, const void *args);

/* Constructors of the built-in backends. */
int ref_open(struct backend **be, const struct backend_options *options, struct err *err);
int cpu_open(struct backend **be, const struct backend_options *options, struct err *err);

#endif
