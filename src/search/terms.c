/* terms.c — see terms.h. */
#include "search/terms.h"

#include <string.h>

static int has(const struct terms *t, int32_t piece, int bit) {
    return !t->edge || (t->edge[piece] & bit);
}

static int may_begin(const struct terms *t, const struct term_form *f, const int32_t *written,
                     int at) {
    return !f->glued || at == 0 || has(t, written[at - 1], TERM_OPENS);
}

static int same(const int32_t *a, const int32_t *b, int n) {
    return memcmp(a, b, (size_t)n * sizeof *a) == 0;
}

/* What unmet terms have at one place. */
struct found {
    int term, n; /* the longest whole form; -1: none */
    int begun;   /* the tokens from here to the end begin a form */
};

static struct found find(const struct terms *t, uint64_t met, const int32_t *written, int n,
                         int at) {
    struct found best = {-1, 0, 0};
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->term[i].n && !(met >> i & 1); k++) {
            const struct term_form *f = &t->term[i].form[k];
            int left = n - at, whole = f->n <= left;
            if (f->id[0] != written[at] || !may_begin(t, f, written, at) ||
                !same(f->id, written + at, whole ? f->n : left))
                continue;
            if (!whole)
                best.begun = 1;
            else if (f->n > best.n && (f->n == left || has(t, written[at + f->n], TERM_PARTS)))
                best = (struct found){i, f->n, best.begun};
        }
    return best;
}

int terms_weight(const struct terms *t) {
    int sum = 0;
    for (int i = 0; i < t->n; i++) sum += t->term[i].weight;
    return sum;
}

struct terms_view terms_view(const struct terms *t, struct terms_read *read, const int32_t *written,
                             int n) {
    struct terms_view v = {.met = read->met};
    int settled = 1, at = read->at;
    while (at < n) {
        struct found f = find(t, v.met, written, n, at);
        /* one more token may finish what has begun, or go on with the word that ends here */
        settled &= !f.begun && at + f.n < n;
        if (f.term < 0 && f.begun) {
            v.begun = n - at;
            break;
        }
        if (f.term >= 0) v.met |= (uint64_t)1 << f.term;
        at += f.term >= 0 ? f.n : 1;
        if (settled) *read = (struct terms_read){v.met, at};
    }
    for (int i = 0; i < t->n; i++)
        if (v.met >> i & 1) v.n_met++, v.weight += t->term[i].weight;
    return v;
}

int terms_next(const struct terms *t, const struct terms_view *v, const int32_t *written, int n,
               int32_t id[TERMS_NEXT]) {
    int count = 0, at = n - v->begun;
    for (int i = 0; i < t->n; i++)
        for (int k = 0; k < t->term[i].n && !(v->met >> i & 1); k++) {
            const struct term_form *f = &t->term[i].form[k];
            int known = f->n <= n - at || !may_begin(t, f, written, at) ||
                        !same(f->id, written + at, n - at);
            for (int j = 0; j < count && !known; j++) known = id[j] == f->id[n - at];
            if (!known && count < TERMS_NEXT) id[count++] = f->id[n - at];
        }
    return count;
}
