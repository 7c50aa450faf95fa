/* ref.c — the ref backend as a device: host memory, no queue, no workspace, and the table of its
 * ops.
 *
 * The ops themselves are in the files named after them; start with linear.c. */
#include "backend/ref/ref.h"

#include "backend/host.h"
#include "base/mem.h"

static void ref_close(struct backend *be) { xfree(be); }

static void ref_cast(struct backend *be, const struct mat *dst, const struct mat *src) {
    (void)be;
    for (int i = 0; i < dst->rows; i++)
        for (int j = 0; j < dst->cols; j++) put(dst, i, j, get(src, i, j));
}

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
                                                 .cast = ref_cast,
                                                 HOST_SLOTS,
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
