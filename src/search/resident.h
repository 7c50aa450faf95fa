/* resident.h — a beam search that stays in the backend's memory.
 *
 * For a device, a search that returns to the host after every step is a chain of waits: send the
 * rows, launch a hundred small kernels, fetch the candidates, think, send the next rows. Here the
 * device itself ranks, reorders and decides which sentences are done (the op beam_step, which is
 * beam.c), so that a step needs nothing from the host. It is recorded once per number of rows and
 * queued in one go from then on; the host runs one step ahead of what it knows and reads, one step
 * late, how many sentences are left. Rows shrink with them, in a few sizes, so that few recordings
 * are needed; rows between the live ones and the size are computed and ignored.
 *
 * Only for plain searches: a distribution that nobody changes, no forced prefixes but one token
 * that is not scored (search.h: n_lead). The results equal the host's to the last bit wherever the
 * ops compute a row identically in batches of any size.
 *
 * Owns its tables and recordings; borrows the stepper. Fails like any backend: the error surfaces
 * where something is waited for. */
#ifndef SEARCH_RESIDENT_H
#define SEARCH_RESIDENT_H

#include "model/step.h"
#include "search/search.h"

struct resident_rules {
    struct beam_rules beam; /* its penalty table is on the host */
    int32_t bos;
    int min_len, k, n_seq; /* k candidates per hypothesis; room for n_seq sentences */
};

struct resident;

int resident_new(struct resident **resident, struct stepper *stepper,
                 const struct resident_rules *rules, struct err *err);
void resident_free(struct resident *resident);

/* The n_seq sentences that stepper_begin was given: src [n_seq + 1] says where each begins, max_len
 * [n_seq] how long its translation may be, lead [n_seq] its first token, or -1. */
struct resident_input {
    const int32_t *src, *max_len, *lead;
    int n_seq;
};

/* Searches them. `poll` as in search.h. */
int resident_run(struct resident *resident, const struct resident_input *in,
                 const struct search_poll *poll, struct err *err);

/* The results: head [n_seq], node [n_seq, cap.len, width], end [n_seq, n_best]. */
int resident_read(struct resident *resident, struct beam_head *head, struct beam_node *node,
                  struct beam_end *end, int n_seq, struct err *err);

/* The numbers of rows that steps are recorded for: 4, 16, 32, 64, 96, 128, 192, ... 512, 640, ...,
 * and as many as there is room for. Few, where a step takes the same time whatever the number; then
 * never half as many again as are needed, and from 512 on never a quarter. */
int resident_next_size(int size);

/* Of the last search. */
const struct search_stats *resident_stats(const struct resident *resident);

#endif
