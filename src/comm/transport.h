/* transport.h — what carries bytes between ranks: only for those who write one.
 *
 * A transport embeds struct comm as its first member, fills in its place in the world and a table.
 * The program's side is comm.c; transport.c is linked into plug-ins, too, which need no other
 * symbol of the program that loads them (base/loader.h) and allocate what they own themselves. */
#ifndef COMM_TRANSPORT_H
#define COMM_TRANSPORT_H

#include "comm/comm.h"

/* Slots are called only by comm.c, with checked arguments, in worlds of more than one rank (close
 * and quit excepted), never while an error is pending. exchange and allgather have at least two
 * members. */
struct comm_transport {
    const char *name;
    void (*close)(struct comm *comm);
    void (*quit)(struct comm *comm, int status);
    void (*bcast)(struct comm *comm, void *data, size_t size, int root);
    void (*gather)(struct comm *comm, void *all, const void *mine, size_t size);
    void (*send)(struct comm *comm, const void *data, size_t size, int to);
    void (*receive)(struct comm *comm, void *data, size_t size, int from);
    void (*attach)(struct comm *comm, const struct comm_device *device);
    void (*exchange)(struct comm *comm, enum comm_level level, void *recv, const void *send,
                     const size_t *count);
    void (*allgather)(struct comm *comm, enum comm_level level, void *data, const size_t *count);
    /* NULL where nothing is queued. */
    void (*begin)(struct comm *comm);
    void (*end)(struct comm *comm);
    void (*sync)(struct comm *comm);
};

/* What both sides of a plug-in must agree on; the version grows with every change of meaning that
 * sizes do not show. */
struct comm_abi {
    uint32_t version, comm_size, transport_size, device_size, err_size;
};
#define COMM_ABI                                                                                   \
    {                                                                                              \
        1, (uint32_t)sizeof(struct comm), (uint32_t)sizeof(struct comm_transport),                 \
            (uint32_t)sizeof(struct comm_device), (uint32_t)sizeof(struct err)                     \
    }
/* Fails unless the program was built for this COMM_ABI. `name` is the plug-in's. */
int comm_abi_check(const struct comm_abi *abi, const char *name, struct err *err);

/* heed_NAME_open of a plug-in. `path`: for one that needs another. */
typedef int comm_plugin_open(const struct comm_abi *abi, struct comm **comm, const char *path,
                             struct err *err);

/* Records a failure; the first one wins. */
void comm_fail(struct comm *comm, enum heed_status code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Where slice i begins: what the slices before it have together. */
size_t comm_offset(const size_t *count, int i);

/* The rank of member i of this rank's group of a level. */
int comm_member(const struct comm *comm, enum comm_level level, int i);

/* Sets `inside` from where all ranks are: machine[r] is any number that ranks share exactly when
 * they are on the same machine. */
void comm_set_levels(struct comm *comm, const int *machine);

#endif
