/* greedy.c — see greedy.h. Finished sentences leave the batch, so the work shrinks as they end. */
#include "search/greedy.h"

#include "model/step.h"
#include "model/transformer.h"

/* The sentences still being written; slot i is hypothesis i of the stepper. */
struct live {
    int n;
    int32_t *id, *parent, *sentence; /* [n_seq] */
    int32_t *best;                   /* [n_seq] */
    float *value;                    /* [n_seq] */
};

static int run(struct stepper *stepper, struct live *live, int32_t eos, int cap_len, int32_t *out,
               int *out_len, struct err *err) {
    while (live->n > 0) {
        int rc = stepper_step(stepper, live->n, live->id, live->parent, live->sentence, err);
        if (!rc) rc = stepper_topk(stepper, 1, live->value, live->best, err);
        if (rc) return rc;
        int kept = 0;
        for (int i = 0; i < live->n; i++) {
            int32_t s = live->sentence[i], id = live->best[i];
            if (id == eos) continue;
            out[(size_t)s * (size_t)cap_len + (size_t)out_len[s]++] = id;
            if (out_len[s] == cap_len) continue;
            live->id[kept] = id;
            live->parent[kept] = i;
            live->sentence[kept] = s;
            kept++;
        }
        live->n = kept;
    }
    return 0;
}

int greedy_search(struct model *model, struct acts *encoder, const struct packed *src, int n_seq,
                  int32_t bos, int32_t eos, int cap_len, int32_t *out, int *out_len,
                  struct err *err) {
    int rc = acts_load_src(encoder, src, n_seq, err);
    if (rc) return rc;
    transformer_encode(&(struct pass){.model = model, .acts = encoder});
    struct stepper *stepper;
    if ((rc = stepper_new(&stepper, model, &(struct stepper_caps){n_seq, cap_len, src->n_tok, 1},
                          err)))
        return rc;
    size_t n = (size_t)n_seq;
    struct live live = {.n = n_seq};
    int32_t *host = xcalloc(4 * n, sizeof *host);
    live.id = host;
    live.parent = host + n;
    live.sentence = host + 2 * n;
    live.best = host + 3 * n;
    live.value = xcalloc(n, sizeof *live.value);
    for (int s = 0; s < n_seq; s++) {
        live.id[s] = bos;
        live.sentence[s] = s;
        out_len[s] = 0;
    }
    rc = stepper_begin(stepper, encoder, src, n_seq, err);
    if (!rc) rc = run(stepper, &live, eos, cap_len, out, out_len, err);
    xfree(live.value);
    xfree(host);
    stepper_free(stepper);
    return rc;
}
