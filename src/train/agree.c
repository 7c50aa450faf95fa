/* agree.c — see agree.h. */
#include "train/agree.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"

int agree_with_first(struct comm *comm, int rc, struct err *err) {
    struct verdict {
        int rc;
        struct err err;
    } said = {.rc = rc};
    if (agree_alone(comm)) return rc;
    if (rc && err) said.err = *err;
    comm_bcast(comm, &said, sizeof said, 0);
    if (comm->err.code) return comm_check(comm, err);
    if (!said.rc) return rc;
    comm->ends = 1;
    if (err) *err = said.err;
    return said.rc;
}

int agree_all(struct comm *comm, int rc, int *first, struct err *err) {
    struct verdict {
        int rc;
        struct err err;
        char host[64];
    } mine = {.rc = rc}, *all;
    int n_failed = 0, failed = -1;
    if (agree_alone(comm)) return rc;
    if (rc) mine.err = *err;
    gethostname(mine.host, sizeof mine.host - 1);
    all = xcalloc((size_t)comm->size, sizeof *all);
    comm_gather(comm, all, &mine, sizeof mine);
    if (comm->err.code) {
        xfree(all);
        return comm_check(comm, err);
    }
    for (int r = comm->size - 1; r >= 0; r--)
        if (all[r].rc) n_failed++, failed = r;
    if (failed >= 0) {
        rc = all[failed].rc;
        *err = all[failed].err;
        if (n_failed < comm->size)
            err_set(err, rc, "rank %d on %s: %.170s", failed, all[failed].host,
                    all[failed].err.msg);
        comm->ends = 1;
        *first = failed;
    }
    xfree(all);
    return rc;
}

/* The number that most ranks have; the first of those, if several are as frequent. */
static uint32_t usual(const uint32_t *all, int n) {
    int most = 0, at = 0;
    for (int i = 0; i < n; i++) {
        int times = 0;
        for (int k = 0; k < n; k++) times += all[k] == all[i];
        if (times > most) most = times, at = i;
    }
    return all[at];
}

int agree_same(struct comm *comm, uint32_t number, const char *what, struct err *err) {
    char text[100] = "";
    int n_other = 0;
    if (agree_alone(comm)) return 0;
    uint32_t *all = xcalloc((size_t)comm->size, sizeof *all);
    comm_gather(comm, all, &number, sizeof number);
    int rc = comm_check(comm, err);
    uint32_t want = usual(all, comm->size);
    for (int r = 0; r < comm->size && !rc; r++) {
        if (all[r] == want) continue;
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%d", n_other++ ? ", " : "", r);
    }
    xfree(all);
    if (rc || !n_other) return rc;
    err_set(err, HEED_EINTERNAL, "%.100s: rank%s %s differ%s from the others", what,
            n_other == 1 ? "" : "s", text, n_other == 1 ? "s" : "");
    return agree_with_first(comm, HEED_EINTERNAL, err);
}
