/* comm.c — the program's side of communication: opens transports, checks arguments, keeps the
 * sticky error; and the process that is alone. */
#include "comm/comm.h"

#include <string.h>

#include "base/loader.h"
#include "base/mem.h"
#include "comm/transport.h"

/* ---- alone ----------------------------------------------------------------------------------- */

static void alone_close(struct comm *comm) { xfree(comm); }
static void alone_quit(struct comm *comm, int status) { (void)comm, (void)status; }
static const struct comm_transport alone = {
    .name = "none", .close = alone_close, .quit = alone_quit};

static int open_alone(struct comm **comm) {
    *comm = xcalloc(1, sizeof **comm);
    **comm = (struct comm){.size = 1, .local_size = 1, .inside = 1, .vt = &alone};
    return 0;
}

/* ---- life ------------------------------------------------------------------------------------ */

int comm_open(struct comm **comm, const struct comm_options *options, struct err *err) {
    const char *name = options && options->name ? options->name : "none";
    const struct comm_abi abi = COMM_ABI;
    *comm = NULL;
    if (strcmp(name, "none") == 0) return open_alone(comm);
    if (strcmp(name, "mpi") != 0 && strcmp(name, "nccl") != 0)
        return err_set(err, HEED_EINVAL, "comm: '%s' is not one of none, mpi, nccl", name);
    union {
        void *object;
        comm_plugin_open *function;
    } open;
    int rc = loader_find(&open.object, name, options->path, err);
    return rc ? rc : open.function(&abi, comm, options->path, err);
}

void comm_close(struct comm *comm) {
    if (comm) comm->vt->close(comm);
}

const char *comm_name(const struct comm *comm) { return comm->vt->name; }

void comm_abort(struct comm *comm, int status) { comm->vt->quit(comm, status); }

/* ---- calls ----------------------------------------------------------------------------------- */

/* Is there anybody to talk to, and are we still on terms? */
static int speaks(const struct comm *comm) { return comm->size > 1 && !comm->err.code; }

/* Bytes that every other rank gets from this one. */
static uint64_t to_others(const struct comm *comm, size_t size) {
    return (uint64_t)(comm->size - 1) * size;
}

void comm_bcast(struct comm *comm, void *data, size_t size, int root) {
    BUG_ON(root < 0 || root >= comm->size);
    if (!speaks(comm) || !size) return;
    if (comm->rank == root) comm->sent += to_others(comm, size);
    comm->vt->bcast(comm, data, size, root);
}

void comm_gather(struct comm *comm, void *all, const void *mine, size_t size) {
    BUG_ON(size > COMM_MOST);
    if (comm->size == 1 && size) memcpy(all, mine, size);
    if (!speaks(comm) || !size) return;
    comm->sent += to_others(comm, size);
    comm->vt->gather(comm, all, mine, size);
}

void comm_move(struct comm *comm, void *data, size_t size, int from, int to) {
    BUG_ON(from < 0 || from >= comm->size || to < 0 || to >= comm->size);
    if (!speaks(comm) || from == to || !size) return;
    if (comm->rank == from) {
        comm->sent += size;
        comm->vt->send(comm, data, size, to);
    }
    if (comm->rank == to) comm->vt->receive(comm, data, size, from);
}

void comm_attach(struct comm *comm, const struct comm_device *device) {
    BUG_ON(!device->download != !device->upload);
    if (speaks(comm)) comm->vt->attach(comm, device);
}

void comm_begin(struct comm *comm) {
    if (speaks(comm) && comm->vt->begin) comm->vt->begin(comm);
}

void comm_end(struct comm *comm) {
    if (speaks(comm) && comm->vt->end) comm->vt->end(comm);
}

int comm_beside(const struct comm *comm) { return comm->size > 1 && comm->vt->begin != NULL; }

/* Is there anything to move on this level? */
static int moves(const struct comm *comm, enum comm_level level, const size_t *count) {
    int n = comm_count(comm, level);
    if (!speaks(comm) || n == 1) return 0;
    for (int i = 0; i < n; i++) BUG_ON(count[i] > COMM_MOST);
    return 1;
}

void comm_exchange(struct comm *comm, enum comm_level level, void *recv, const void *send,
                   const size_t *count) {
    int n = comm_count(comm, level);
    if (!moves(comm, level, count)) return;
    comm->sent += comm_offset(count, n) - count[comm_index(comm, level)];
    comm->vt->exchange(comm, level, recv, send, count);
}

void comm_allgather(struct comm *comm, enum comm_level level, void *data, const size_t *count) {
    int n = comm_count(comm, level);
    if (!moves(comm, level, count)) return;
    comm->sent += (uint64_t)(n - 1) * count[comm_index(comm, level)];
    comm->vt->allgather(comm, level, data, count);
}

/* ---- errors ---------------------------------------------------------------------------------- */

int comm_sync(struct comm *comm, struct err *err) {
    if (speaks(comm) && comm->vt->sync) comm->vt->sync(comm);
    return comm_check(comm, err);
}
