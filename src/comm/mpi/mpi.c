/* mpi.c — ranks that Open MPI (or another MPI) starts and connects; libheed-mpi.so.
 *
 * Device memory that the host cannot read goes through buffers here, which grow to the largest call
 * and stay. Slices travel as single messages between two ranks and not through MPI's collectives:
 * every rank then sees how many bytes each of its peers sent, and a peer that counts otherwise is
 * an error instead of garbage. Messages between two ranks arrive in order, so calls do not mix. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/transport.h"

/* Bytes of one message of the host calls: MPI counts with ints. */
enum { PIECE = COMM_MOST, TAG = 1 };

struct stage {
    char *data;
    size_t size;
};

struct mpi {
    struct comm head;
    MPI_Comm world;
    struct comm_device device;
    struct stage out, in;
    MPI_Request *request; /* two per rank */
    MPI_Status *status;
};

static struct mpi *mpi_of(struct comm *comm) { return (struct mpi *)comm; }

/* Records what MPI complains about; returns non-zero if it does. */
static int failed(struct mpi *mpi, int code, const char *what) {
    if (code == MPI_SUCCESS) return 0;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    comm_fail(&mpi->head, HEED_EIO, "mpi: rank %d of %d: %s: %.150s", mpi->head.rank,
              mpi->head.size, what, text);
    return 1;
}

/* ---- host memory ----------------------------------------------------------------------------- */

static size_t piece_of(size_t left) { return left < PIECE ? left : PIECE; }

static void mpi_bcast(struct comm *comm, void *data, size_t size, int root) {
    struct mpi *mpi = mpi_of(comm);
    for (size_t at = 0; at < size; at += piece_of(size - at))
        if (failed(
                mpi,
                MPI_Bcast((char *)data + at, (int)piece_of(size - at), MPI_BYTE, root, mpi->world),
                "bcast"))
            return;
}

static void mpi_gather(struct comm *comm, void *all, const void *mine, size_t size) {
    struct mpi *mpi = mpi_of(comm);
    failed(mpi, MPI_Allgather(mine, (int)size, MPI_BYTE, all, (int)size, MPI_BYTE, mpi->world),
           "gather");
}

/* A message of `want` bytes arrived: does it have them? */
static void check_size(struct mpi *mpi, const MPI_Status *status, size_t want, const char *what) {
    int got = 0;
    MPI_Get_count(status, MPI_BYTE, &got);
    if ((size_t)got != want)
        comm_fail(&mpi->head, HEED_EINTERNAL,
                  "mpi: %s: rank %d sent %d bytes to rank %d, which expects %zu", what,
                  status->MPI_SOURCE, got, mpi->head.rank, want);
}

static void mpi_send(struct comm *comm, const void *data, size_t size, int to) {
    struct mpi *mpi = mpi_of(comm);
    for (size_t at = 0; at < size; at += piece_of(size - at))
        if (failed(mpi,
                   MPI_Send((const char *)data + at, (int)piece_of(size - at), MPI_BYTE, to, TAG,
                            mpi->world),
                   "send"))
            return;
}

static void mpi_receive(struct comm *comm, void *data, size_t size, int from) {
    struct mpi *mpi = mpi_of(comm);
    for (size_t at = 0; at < size && !comm->err.code; at += piece_of(size - at)) {
        MPI_Status status;
        size_t want = piece_of(size - at);
        if (!failed(
                mpi,
                MPI_Recv((char *)data + at, (int)want, MPI_BYTE, from, TAG, mpi->world, &status),
                "receive"))
            check_size(mpi, &status, want, "move");
    }
}

/* ---- device memory --------------------------------------------------------------------------- */

static void mpi_attach(struct comm *comm, const struct comm_device *device) {
    mpi_of(comm)->device = *device;
}

/* The buffer with room for `size` bytes, or NULL. */
static char *staged(struct mpi *mpi, struct stage *stage, size_t size) {
    if (size > stage->size) {
        free(stage->data);
        stage->data = malloc(size);
        stage->size = stage->data ? size : 0;
        if (!stage->data)
            comm_fail(&mpi->head, HEED_ENOMEM, "mpi: cannot allocate %.1f MiB",
                      (double)size / 1048576.0);
    }
    return stage->data;
}

/* A call on a level as the host sees it: slice i of `out` goes to member i; from member i comes
 * slice i of `in`, or what lies i rows of this rank's own slice into it. */
struct traffic {
    enum comm_level level;
    const size_t *count;
    const char *what;
    int scatter; /* exchange; else everybody gets this rank's own slice, and sends its own */
};

static void run(struct mpi *mpi, char *in, const char *out, const struct traffic *t) {
    struct comm *comm = &mpi->head;
    int n = comm_count(comm, t->level), own = comm_index(comm, t->level), n_request = 0, code = 0;
    const size_t *count = t->count;
    for (int i = 0; i < n && !code; i++) {
        char *to = in + (t->scatter ? (size_t)i * count[own] : comm_offset(count, i));
        if (i != own)
            code = MPI_Irecv(to, (int)(t->scatter ? count[own] : count[i]), MPI_BYTE,
                             comm_member(comm, t->level, i), TAG, mpi->world,
                             &mpi->request[n_request++]);
    }
    int n_receive = n_request;
    /* Each begins with the member after itself, so that not all talk to the first at once. */
    for (int k = 1; k < n && !code; k++) {
        int i = (own + k) % n, slice = t->scatter ? i : own;
        code =
            MPI_Isend(out + comm_offset(count, slice), (int)count[slice], MPI_BYTE,
                      comm_member(comm, t->level, i), TAG, mpi->world, &mpi->request[n_request++]);
    }
    if (t->scatter && count[own])
        memcpy(in + (size_t)own * count[own], out + comm_offset(count, own), count[own]);
    if (failed(mpi, code, t->what)) return;
    code = MPI_Waitall(n_request, mpi->request, mpi->status);
    for (int k = 0; k < n_request && code == MPI_ERR_IN_STATUS; k++)
        if (mpi->status[k].MPI_ERROR && mpi->status[k].MPI_ERROR != MPI_ERR_PENDING)
            code = mpi->status[k].MPI_ERROR;
    if (failed(mpi, code, t->what)) return;
    for (int i = 0, k = 0; k < n_receive; i++)
        if (i != own) check_size(mpi, &mpi->status[k++], count[t->scatter ? own : i], t->what);
}

static void mpi_exchange(struct comm *comm, enum comm_level level, void *recv, const void *send,
                         const size_t *count) {
    struct mpi *mpi = mpi_of(comm);
    const struct comm_device *d = &mpi->device;
    struct traffic t = {.level = level, .count = count, .what = "exchange", .scatter = 1};
    if (!d->download) {
        run(mpi, recv, send, &t);
        return;
    }
    int n = comm_count(comm, level);
    size_t all = comm_offset(count, n), rows = (size_t)n * count[comm_index(comm, level)];
    char *out = staged(mpi, &mpi->out, all), *in = staged(mpi, &mpi->in, rows);
    if (comm->err.code) return;
    if (all) d->download(d->ctx, out, send, all);
    run(mpi, in, out, &t);
    if (rows && !comm->err.code) d->upload(d->ctx, recv, in, rows);
}

static void mpi_allgather(struct comm *comm, enum comm_level level, void *data,
                          const size_t *count) {
    struct mpi *mpi = mpi_of(comm);
    const struct comm_device *d = &mpi->device;
    struct traffic t = {.level = level, .count = count, .what = "allgather"};
    if (!d->download) {
        run(mpi, data, data, &t);
        return;
    }
    int own = comm_index(comm, level);
    size_t all = comm_offset(count, comm_count(comm, level)), at = comm_offset(count, own);
    char *stage = staged(mpi, &mpi->out, all);
    if (comm->err.code) return;
    if (count[own]) d->download(d->ctx, stage + at, (char *)data + at, count[own]);
    run(mpi, stage, stage, &t);
    if (all && !comm->err.code) d->upload(d->ctx, data, stage, all);
}

/* ---- life ------------------------------------------------------------------------------------ */

static void release(struct mpi *mpi) {
    free(mpi->out.data);
    free(mpi->in.data);
    free(mpi->request);
    free(mpi->status);
    free(mpi);
}

/* Finalizing waits for all; a rank that failed must not, and leaves it to the end of the process,
 * which its launcher sees. */
static void mpi_close(struct comm *comm) {
    if (!comm->err.code) MPI_Finalize();
    release(mpi_of(comm));
}

static void mpi_quit(struct comm *comm, int status) {
    if (comm->size > 1) MPI_Abort(MPI_COMM_WORLD, status);
}

static const struct comm_transport table = {.name = "mpi",
                                            .close = mpi_close,
                                            .quit = mpi_quit,
                                            .bcast = mpi_bcast,
                                            .gather = mpi_gather,
                                            .send = mpi_send,
                                            .receive = mpi_receive,
                                            .attach = mpi_attach,
                                            .exchange = mpi_exchange,
                                            .allgather = mpi_allgather};

/* Who is where: the machine of a rank is named after the lowest rank on it. */
static void find_place(struct mpi *mpi) {
    struct comm *comm = &mpi->head;
    MPI_Comm local = MPI_COMM_NULL;
    int *machine = malloc((size_t)comm->size * sizeof *machine), lowest = comm->rank;
    int ok = machine && !failed(mpi,
                                MPI_Comm_split_type(mpi->world, MPI_COMM_TYPE_SHARED, comm->rank,
                                                    MPI_INFO_NULL, &local),
                                "looking for ranks on this machine");
    if (ok) {
        MPI_Comm_rank(local, &comm->local_rank);
        MPI_Comm_size(local, &comm->local_size);
        ok = !failed(mpi, MPI_Bcast(&lowest, 1, MPI_INT, 0, local), "first bcast");
    }
    if (ok) mpi_gather(comm, machine, &lowest, sizeof lowest);
    if (ok && !comm->err.code) comm_set_levels(comm, machine);
    if (local != MPI_COMM_NULL) MPI_Comm_free(&local);
    free(machine);
}

static int start(struct mpi *mpi, struct err *err) {
    int level, done = 0;
    /* Any thread may abort. */
    MPI_Finalized(&done);
    if (done) return err_set(err, HEED_EDEVICE, "mpi: it was closed, and starts only once");
    if (MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level) != MPI_SUCCESS)
        return err_set(err, HEED_EDEVICE, "mpi: cannot start; was heed started by its mpirun?");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (MPI_Comm_dup(MPI_COMM_WORLD, &mpi->world) != MPI_SUCCESS)
        return err_set(err, HEED_EDEVICE, "mpi: cannot start talking");
    MPI_Comm_set_errhandler(mpi->world, MPI_ERRORS_RETURN);
    MPI_Comm_rank(mpi->world, &mpi->head.rank);
    MPI_Comm_size(mpi->world, &mpi->head.size);
    mpi->request = calloc(2 * (size_t)mpi->head.size, sizeof *mpi->request);
    mpi->status = calloc(2 * (size_t)mpi->head.size, sizeof *mpi->status);
    if (!mpi->request || !mpi->status) return err_set(err, HEED_ENOMEM, "mpi: out of memory");
    find_place(mpi);
    return comm_check(&mpi->head, err);
}

int heed_mpi_open(const struct comm_abi *abi, struct comm **comm, const char *path,
                  struct err *err);

__attribute__((visibility("default"))) int
heed_mpi_open(const struct comm_abi *abi, struct comm **comm, const char *path, struct err *err) {
    (void)path;
    int rc = comm_abi_check(abi, "mpi", err);
    if (rc) return rc;
    struct mpi *mpi = calloc(1, sizeof *mpi);
    if (!mpi) return err_set(err, HEED_ENOMEM, "mpi: out of memory");
    mpi->head = (struct comm){.size = 1, .local_size = 1, .inside = 1, .vt = &table};
    rc = start(mpi, err);
    if (rc)
        release(mpi);
    else
        *comm = &mpi->head;
    return rc;
}
