/* embed.c — token embedding plus position, and its reverse.        PAPER: 3.4 and 3.5. */
#include "backend/dropout.h"
#include "backend/ref/ref.h"

void ref_embed_fwd(const struct embed_args *a) {
    for (int i = 0; i < a->y.rows; i++)
        for (int j = 0; j < a->y.cols; j++) {
            double token = a->ids[i] < 0 ? 0 : get(&a->table, a->ids[i], j);
            double sum = a->scale * token + get(&a->pos_table, a->pos[i], j);
            put(&a->y, i, j, dropout_factor(&a->drop, i, j) * sum);
        }
}

void ref_embed_bwd(const struct embed_args *a) {
    for (int i = 0; i < a->dy.rows; i++)
        for (int j = 0; j < a->dy.cols; j++) {
            double dsum = dropout_factor(&a->drop, i, j) * get(&a->dy, i, j);
            if (a->ids[i] >= 0) add(&a->dtable, a->ids[i], j, a->scale * dsum);
            if (!mat_empty(&a->dpos)) add(&a->dpos, a->pos[i], j, dsum);
        }
}
