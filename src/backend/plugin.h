/* plugin.h — backends that live in separate shared objects, loaded when asked for (base/loader.h).
 *
 * heed_NAME_open is of type plugin_open. A plug-in allocates what it owns itself; one built for
 * another struct backend sees that in struct plugin_abi and refuses to work. */
#ifndef BACKEND_PLUGIN_H
#define BACKEND_PLUGIN_H

#include "backend/device.h"

/* What both sides must agree on. The version grows with every change of meaning that sizes do not
 * show. */
struct plugin_abi {
    uint32_t version, backend_size, vtable_size, op_count, err_size, mat_size;
};
#define PLUGIN_ABI                                                                                 \
    {                                                                                              \
        5, (uint32_t)sizeof(struct backend), (uint32_t)sizeof(struct backend_vtable),              \
            (uint32_t)OP_COUNT, (uint32_t)sizeof(struct err), (uint32_t)sizeof(struct mat)         \
    }

typedef int plugin_open(const struct plugin_abi *abi, struct backend **be,
                        const struct backend_options *options, struct err *err);

/* Finds, loads and opens the plug-in of this name; `path` as loader_find's. */
int plugin_load(struct backend **be, const char *name, const char *path,
                const struct backend_options *options, struct err *err);

/* Is there a driver for NVIDIA devices at all? Much cheaper to ask than loading the plug-in. */
int plugin_driver_present(void);
/* How many devices it has; 0 where there is none. Starts the driver. */
int plugin_device_count(void);

#endif
