/* backend.h — a device as the model sees it: open, memory, transfer, waiting, recordings,
 * workspace.
 *
 * What it computes is in ops.h, views of its memory are in mat.h, what ops cost in profile.h; how a
 * device is written is in device.h. Calls are queued or done at once, which a caller cannot tell
 * apart; the first failure is kept, later calls do nothing, and backend_sync reports it. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include <stddef.h>

#include "base/err.h"

struct backend;
struct mat;
struct recording;

struct backend_options {
    const char *device; /* NULL or "auto": the best available; "cpu", "ref", "cuda", "cuda:N" */
    int n_thread;       /* 0: all CPUs the process may use */
    /* cpu only: NULL or "auto" for the best, or a name of isa_table (cpu/isa.h). HEED_ISA, unless
     * empty, stands in for NULL. */
    const char *isa;
};

int backend_open(struct backend **be, const struct backend_options *options, struct err *err);
void backend_close(struct backend *be);

const char *backend_name(const struct backend *be); /* "cpu" */
/* The name and whatever else the bits of its results depend on: "cpu avx2", or a GPU's model and
 * cuBLASLt's version. May ask the device, which takes a while. */
void backend_describe(const struct backend *be, char *text, size_t size);

/* How long opening took, part by part: starting a device is most of a short run. Returns the number
 * of parts. */
struct backend_lap {
    const char *part;
    double seconds;
};
int backend_laps(const struct backend *be, const struct backend_lap **laps);

/* What backend_alloc gives cannot be read by the host. */
int backend_device_memory(const struct backend *be);
/* The queue that calls go to, for others who order their own work against it: a CUDA stream; NULL
 * where there is none. */
void *backend_queue(const struct backend *be);
/* Weights that are only run should be tiled (tile.h); a backend that says no takes only plain
 * ones. */
int backend_wants_tiles(const struct backend *be);

/* Memory. backend_alloc fails with HEED_ENOMEM in *err and returns NULL; the others are queued like
 * ops. */
void *backend_alloc(struct backend *be, size_t size, struct err *err);
void backend_free(struct backend *be, void *ptr);
void backend_upload(struct backend *be, void *dst, const void *host_src, size_t size);
void backend_download(struct backend *be, void *host_dst, const void *src, size_t size);
void backend_zero(struct backend *be, void *dst, size_t size);
void backend_cast(struct backend *be, const struct mat *dst, const struct mat *src);

/* Waits for all queued work; returns and clears the sticky error. */
int backend_sync(struct backend *be, struct err *err);
/* The same without waiting: what is still queued may fail later. */
int backend_check(struct backend *be, struct err *err);

/* Recording. A sequence of ops that is repeated with exactly the same arguments (addresses, shapes,
 * numbers; what lies at the addresses may change) can be kept by a device and queued in one go:
 *
 *     if (!backend_replay(be, &recording))
 *         do { ops; } while (backend_recorded(be, &recording));
 *
 * *recording is NULL at first; the caller ends it with backend_forget. backend_replay queues what
 * was recorded, or returns 0: then the caller calls the ops, and backend_recorded says whether they
 * have to be called once more because recording them failed. Backends without a queue, and any
 * backend while it profiles, just run the ops. Only ops may come between the two calls. */
int backend_replay(struct backend *be, struct recording **recording);
int backend_recorded(struct backend *be, struct recording **recording);
void backend_forget(struct backend *be, struct recording *recording);

enum { POST_SLOTS = 4, POST_SIZE = 64 };

/* Posts: small results that the host reads while the device goes on. backend_post queues a copy of
 * at most POST_SIZE bytes into a slot (0 .. POST_SLOTS - 1), backend_collect waits for that copy
 * and no longer. */
void backend_post(struct backend *be, int slot, const void *src, size_t size);
void backend_collect(struct backend *be, int slot, void *host_dst, size_t size);

/* Workspace. Ops need scratch memory. Between backend_plan and backend_commit ops check their
 * arguments and record the largest scratch they would need, but compute nothing and touch no data
 * (addresses may be NULL). backend_commit then allocates that much, once; from then on an op that
 * wants more is a sticky error. Without plan and commit the workspace grows when needed, which is
 * convenient in tests. */
void backend_plan(struct backend *be);
int backend_commit(struct backend *be, struct err *err);
size_t backend_workspace(const struct backend *be); /* bytes planned so far */

/* Ends a plan without keeping it: returns what it would have needed. */
size_t backend_dismiss(struct backend *be);

/* Memory the device could still give, in bytes. */
size_t backend_available(const struct backend *be);

#endif
