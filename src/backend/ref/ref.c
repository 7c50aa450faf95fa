/* ref.c — the ref backend as a device: host memory, no queue, no workspace, and the table of its
 * ops.
 *
 * The ops themselves are in the files named after them; start with linear.c. */
#include "backend/ref/ref.h"

#include <string.h>

#include "base/mem.h"

static void ref_close(struct backend *be) { xfree(be); }

static void *ref_alloc(struct backend *be, size_t size) {
    (void)be;
    return mem_block(size);
}

static void ref_free(struct backend *be, void *ptr) {
    (void)be;
    mem_block_free(ptr);
}

static void ref_upload(struct backend *be, void *dst, const void *host_src, size_t size) {
    if (!backend_planning(be) && size) memcpy(dst, host_src, size);
}

static void ref_download(struct backend *be, void *host_dst, const void *src, size_t size) {
    if (!backend_planning(be) && size) memcpy(host_dst, src, size);
}

static void ref_zero(struct backend *be, void *dst, size_t size) {
    if (!backend_planning(be) && size) memset(dst, 0, size);
}

static void ref_cast(struct backend *be, const struct mat *dst, const struct mat *src) {
    if (backend_planning(be)) return;
    for (int i = 0; i < dst->rows; i++)
        for (int j = 0; j < dst->cols; j++) put(dst, i, j, get(src, i, j));
}

static void ref_sync(struct backend *be) { (void)be; }

/* While planning there is nothing to do: ref asks for no workspace. */
#define REF_OP_SLOT(slot, args)                                                                    \
    static void slot##_unless_planning(struct backend *be, const struct args *a) {                 \
        if (!backend_planning(be)) ref_##slot(a);                                                  \
    }
BACKEND_OPS(REF_OP_SLOT)
#undef REF_OP_SLOT

static const struct backend_vtable ref_vtable = {.name = "ref",
                                                 .wants_tiles = 1,
                                                 .close = ref_close,
                                                 .alloc = ref_alloc,
                                                 .free = ref_free,
                                                 .upload = ref_upload,
                                                 .download = ref_download,
                                                 .zero = ref_zero,
                                                 .cast = ref_cast,
                                                 .sync = ref_sync,
#define REF_OP_ENTRY(slot, args) .slot = slot##_unless_planning,
                                                 BACKEND_OPS(REF_OP_ENTRY)
#undef REF_OP_ENTRY
};

int ref_open(struct backend **be, const struct backend_options *options, struct err *err) {
    (void)options; /* one thread, no instruction sets */
    (void)err;
    *be = xcalloc(1, sizeof **be);
    (*be)->vt = &ref_vtable;
    return HEED_OK;
}
