/* beam_step.c — the bookkeeping of a beam search, sentence after sentence: beam.c does the work. */
#include "backend/beam.h"

#include <string.h>

#include "backend/ref/ref.h"

/* The candidates of sentence s, without forbidden ones; returns -1 where they are not numbers. */
static int strike(const struct beam_step_args *a, const struct beam *b, int s, float *value,
                  int32_t *id) {
    int k = a->value.cols, no_end = b->len < a->min_len + (a->lead[s] >= 0);
    for (int h = 0; h < b->n_live; h++)
        if (beam_strike(value + (size_t)h * (size_t)k, id + (size_t)h * (size_t)k, k, &a->rules,
                        no_end))
            return -1;
    if (b->len == 0 && a->lead[s] >= 0) beam_force(value, id, k, a->lead[s]);
    return 0;
}

static void advance(const struct beam_step_args *a, int s) {
    struct beam_head *head = &a->table.head[s];
    struct beam b;
    int32_t unused;
    if (!a->begin && head->done) return;
    beam_load(&b, &a->table, &a->rules, a->longest, s, &unused);
    if (a->begin) {
        beam_begin(&b, a->max_len[s]);
        b.done = a->max_len[s] < 1;
        head->row = head->broken = 0;
    } else {
        size_t first = (size_t)head->row * (size_t)a->value.cols;
        float *value = (float *)a->value.data + first;
        if (strike(a, &b, s, value, a->id + first))
            head->broken = b.done = 1;
        else
            beam_advance(&b, &a->rules, value, a->id + first, a->value.cols);
    }
    beam_store(&b, &a->table, s);
}

/* The live hypotheses of sentence s become rows, from `row` on. Returns how many they are. */
static int settle(const struct beam_step_args *a, int s, int row) {
    struct beam_head *head = &a->table.head[s];
    size_t width = (size_t)a->rules.width, first = (size_t)s * (size_t)a->longest * width;
    int t = head->len;
    const struct beam_node *node = t ? a->table.node + first + (size_t)(t - 1) * width : NULL;
    if (head->done) return 0;
    for (int h = 0; h < head->n_live; h++) {
        int at = row + h;
        int32_t *line = a->index + (size_t)at * (size_t)a->longest;
        a->ids[at] = node ? node[h].token : a->bos;
        a->pos[at] = t;
        a->len[at] = t + 1;
        a->src_start[at] = a->src[s];
        a->src_len[at] = a->src[s + 1] - a->src[s];
        if (node)
            memcpy(line, a->old_index + (size_t)(head->row + node[h].parent) * (size_t)a->longest,
                   (size_t)t * sizeof *line);
        line[t] = t * a->n_row + at;
    }
    head->row = row;
    return head->n_live;
}

void ref_beam_step(const struct beam_step_args *a) {
    struct beam_count *count = a->table.count;
    *count = (struct beam_count){.step = a->begin ? 0 : count->step + 1};
    for (int s = 0; s < a->n_seq; s++) {
        advance(a, s);
        count->n_row += settle(a, s, count->n_row);
        count->n_active += !a->table.head[s].done;
    }
    for (int row = count->n_row; row < a->n_row; row++) {
        a->ids[row] = -1;
        a->pos[row] = a->src_start[row] = 0;
        a->len[row] = a->src_len[row] = 1;
        a->index[(size_t)row * (size_t)a->longest] = count->step * a->n_row + row;
    }
}
