/* transport.c — what every transport does alike, plug-ins included. */
#include "comm/transport.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int comm_abi_check(const struct comm_abi *abi, const char *name, struct err *err) {
    const struct comm_abi mine = COMM_ABI;
    if (memcmp(abi, &mine, sizeof mine) == 0) return 0;
    return err_set(err, HEED_EDEVICE, "%s: the plug-in was built for another version of heed",
                   name);
}

void comm_fail(struct comm *comm, enum heed_status code, const char *fmt, ...) {
    if (comm->err.code) return;
    char msg[sizeof comm->err.msg];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(msg, sizeof msg, fmt, ap);
    va_end(ap);
    err_set(&comm->err, code, "%s", msg);
}

/* comm.h's, here for plug-ins. */
int comm_count(const struct comm *comm, enum comm_level level) {
    return level == COMM_INSIDE ? comm->inside : comm->size / comm->inside;
}

int comm_index(const struct comm *comm, enum comm_level level) {
    return level == COMM_INSIDE ? comm->rank % comm->inside : comm->rank / comm->inside;
}

int comm_member(const struct comm *comm, enum comm_level level, int i) {
    return level == COMM_INSIDE ? comm->rank - comm->rank % comm->inside + i
                                : comm->rank % comm->inside + i * comm->inside;
}

size_t comm_offset(const size_t *count, int i) {
    size_t offset = 0;
    for (int k = 0; k < i; k++) offset += count[k];
    return offset;
}

/* Groups of n ranks that follow each other: is each on one machine, and no machine in two? */
static int regular(const int *machine, int size, int n) {
    if (size % n != 0 || (n & (n - 1)) != 0) return 0;
    for (int r = 0; r < size; r++)
        for (int s = 0; s < r; s++)
            if ((machine[r] == machine[s]) != (r / n == s / n)) return 0;
    return 1;
}

void comm_set_levels(struct comm *comm, const int *machine) {
    int n = 0;
    for (int r = 0; r < comm->size; r++) n += machine[r] == machine[0];
    BUG_ON(n < 1);
    comm->inside = regular(machine, comm->size, n) ? n : 1;
}

int comm_check(const struct comm *comm, struct err *err) {
    if (comm->err.code && err) *err = comm->err;
    return comm->err.code;
}
