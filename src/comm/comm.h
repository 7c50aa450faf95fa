/* comm.h — ranks: processes that work on one thing together, on one machine or many.
 *
 * A rank sees how many there are and which one it is, and calls the functions below at the same
 * time as the others, in the same order, with arguments that fit: they are collective, but for
 * comm_move, which concerns two ranks. A process alone is rank 0 of 1; it needs no plug-in, and
 * nothing below costs it anything.
 *
 * Two kinds of memory. The host calls (bcast, gather, move) take memory of the host and are done
 * when they return. The device calls (exchange, allgather) take memory of the device that
 * comm_attach named, or of the host where it named none; they may be queued. comm_begin and
 * comm_end order them against the backend's own queue.
 *
 * Levels. Ranks of a machine talk faster to each other than to those of another, so the device
 * calls work on a level: COMM_INSIDE, groups of `inside` ranks that follow each other, or
 * COMM_ACROSS, the ranks of the same place in every such group. rank = place across * inside +
 * place inside, and size = members across * members inside, always. Where the machines do not have
 * the same power of two of ranks, or the ranks of one do not follow each other, `inside` is 1 and
 * all ranks are one level. Whoever goes through COMM_INSIDE and then COMM_ACROSS (or back) need
 * not know which it is.
 *
 * Failure. Calls return nothing; the first failure is kept, later calls do nothing, comm_sync and
 * comm_check report it. Unlike a backend's it is never cleared: ranks that missed a call are out of
 * step for good. A peer that dies or hangs may never be noticed by a call that waits for it: that
 * is for a watch to see (train/watch.h).
 *
 * Memory. comm_open makes a struct comm that comm_close ends; it borrows what comm_attach was given
 * and all buffers for the time of a call, or until comm_sync where that is later. The calls belong
 * to one thread at a time; comm_abort to any. Includes nothing but base. */
#ifndef COMM_COMM_H
#define COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct comm_transport;

struct comm {
    int rank, size;
    int local_rank, local_size; /* among the ranks of this machine: who gets which device, cores */
    int inside;                 /* ranks per group of COMM_INSIDE */
    uint64_t sent;              /* bytes this rank gave to others, each counted for itself */
    const struct comm_transport *vt;
    struct err err; /* sticky */
    int ends;       /* all ranks know that they end with an error (train/agree.h) */
};

enum comm_level { COMM_INSIDE, COMM_ACROSS };
enum { COMM_MOST = 1 << 30 }; /* bytes of one slice */

struct comm_options {
    const char *name; /* NULL or "none": this process alone; "mpi", "nccl": the plug-in of it */
    const char *path; /* more folders to look for plug-ins in (base/loader.h) */
};

int comm_open(struct comm **comm, const struct comm_options *options, struct err *err);
/* All ranks close together, or abort. */
void comm_close(struct comm *comm);
const char *comm_name(const struct comm *comm); /* "none", "mpi" */

/* How many ranks are in this rank's group of a level, and which of them it is. */
int comm_count(const struct comm *comm, enum comm_level level);
int comm_index(const struct comm *comm, enum comm_level level);

/* ---- host memory ----------------------------------------------------------------------------- */

/* data of rank `root` comes to all. */
void comm_bcast(struct comm *comm, void *data, size_t size, int root);
/* all = `size` bytes (at most COMM_MOST) of each rank, in order of ranks, on every rank. */
void comm_gather(struct comm *comm, void *all, const void *mine, size_t size);
/* data of rank `from` comes to rank `to`; only these two call it (for others it does nothing). */
void comm_move(struct comm *comm, void *data, size_t size, int from, int to);

/* ---- device memory --------------------------------------------------------------------------- */

/* How the memory of a device is reached. A transport that goes through the host copies with
 * download and upload, both of which are done with the host's side when they return; one that
 * knows the device itself waits for its queue. All NULL, as before any attach: host memory.
 * Collective. */
struct comm_device {
    void *ctx;
    void (*download)(void *ctx, void *host, const void *device, size_t size);
    void (*upload)(void *ctx, void *device, const void *host, size_t size);
    void *queue; /* the backend's, e.g. a CUDA stream */
};
void comm_attach(struct comm *comm, const struct comm_device *device);

/* What follows waits for all that the backend has queued so far; what the backend queues from now
 * on waits for all communication so far. Device calls stand between the two, and in between the
 * backend may go on with what they do not touch: beside them, if comm_beside. If not, they are done
 * when they return. */
void comm_begin(struct comm *comm);
void comm_end(struct comm *comm);
int comm_beside(const struct comm *comm);

/* The group's buffers are cut into one slice per member: slice i has count[i] bytes (which may be
 * 0, and are the same numbers on all members), slices lie behind each other. Both calls hand slices
 * to their owners and back; there are at most COMM_MOST bytes in one.
 *
 * exchange: everybody gives slice i of `send` to member i. recv[m] = the slice that member m gave
 * to this rank: as many rows as the group has members, in their order, of count[own place] bytes.
 * A sum over the rows in an order of one's own is then a reduction with known bits. send and recv
 * do not overlap. In a group of one nothing moves and recv is not touched: the only row is send.
 *
 * allgather: slice i of `data` as member i has it comes to all. */
void comm_exchange(struct comm *comm, enum comm_level level, void *recv, const void *send,
                   const size_t *count);
void comm_allgather(struct comm *comm, enum comm_level level, void *data, const size_t *count);

/* ---- errors ---------------------------------------------------------------------------------- */

/* Waits for what was queued; returns the sticky error. */
int comm_sync(struct comm *comm, struct err *err);
/* The same without waiting. */
int comm_check(const struct comm *comm, struct err *err);

/* Ends the other ranks, as far as they can be reached within two seconds, and with them this
 * process, with this exit status; returns only in a process alone. For whoever may end the process
 * (src/cli). */
void comm_abort(struct comm *comm, int status);

#endif
