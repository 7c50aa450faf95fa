/* heads.c — see heads.h. */
#include "eval/heads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"

const char *const heads_names[] = {"entropy", "distance", "diagonal", "back3",  "back2", "back1",
                                   "here",    "ahead1",   "ahead2",   "ahead3", "same",  "punct",
                                   "mark",    "parent",   "child",    "far",    "link",  NULL};
const char *const heads_kind_names[] = {"rests",  "itself", "positional",  "points",
                                        "parent", "child",  "punctuation", "same",
                                        "local",  "broad",  "mixed",       NULL};

/* One query of a sentence. */
struct row {
    const struct heads_sentence *s;
    const float *a;     /* [n_key] */
    int i;              /* its unit */
    int place;          /* among those that are no marks */
    int n_query, n_key; /* how many of those there are */
};

static int count(const char *unit, int n) {
    int words = 0;
    for (int i = 0; i < n; i++) words += unit[i] != HEADS_MARK;
    return words;
}

static void put(struct heads_sums *sums, enum heads_measure m, double value, double weight) {
    sums->sum[m] += value;
    sums->weight[m] += weight;
}

static int sees(const struct row *r, int j) { return !r->s->causal || j <= r->i; }

/* ---- where attention goes -------------------------------------------------------------------- */

static void add_places(struct heads_sums *sums, const struct row *r) {
    const struct heads_sentence *s = r->s;
    double entropy = 0, mark = 0;
    int marks = 0;
    for (int j = 0, place = 0; j < s->n_key; j++) {
        double p = (double)r->a[j];
        if (p > 0) entropy -= p * log2(p);
        if (s->key_unit[j] == HEADS_MARK) {
            marks += sees(r, j);
            mark += p;
            continue;
        }
        double off = (r->place + 0.5) / r->n_query - (place + 0.5) / r->n_key;
        put(sums, HEADS_DIAGONAL, p * (1 - fabs(off)), p);
        int offset = place++ - r->place, least = -(HEADS_OFFSETS / 2);
        if (!s->self) continue;
        put(sums, HEADS_DISTANCE, p * abs(offset), p);
        if (sees(r, j) && abs(offset) <= -least)
            put(sums, (enum heads_measure)(HEADS_BACK3 + offset - least), p, 1);
    }
    put(sums, HEADS_ENTROPY, entropy, 1);
    put(sums, HEADS_MARKS, mark, marks > 0);
}

static void add_words(struct heads_sums *sums, const struct row *r) {
    const struct heads_sentence *s = r->s;
    double same = 0, punct = 0;
    int n_same = 0, n_punct = 0;
    for (int j = 0; j < s->n_key; j++) {
        if (!sees(r, j)) continue;
        int other = !s->self || j != r->i;
        if (s->key_unit[j] == HEADS_PUNCT) punct += (double)r->a[j], n_punct++;
        if (s->key_unit[j] == HEADS_WORD && other && s->key_form[j] == s->query_form[r->i])
            same += (double)r->a[j], n_same++;
    }
    put(sums, HEADS_PUNCTUATION, punct, n_punct > 0);
    if (s->query_unit[r->i] == HEADS_WORD) put(sums, HEADS_SAME, same, n_same > 0);
}

/* ---- relations ------------------------------------------------------------------------------- */

/* Does the relation hold from query i to key j? */
static int related(const struct heads_sentence *s, enum heads_measure m, int i, int j) {
    if (m == HEADS_LINK) return s->links && links_have(s->links, i, j);
    if (!s->parent || !s->self || s->key_unit[j] != HEADS_WORD) return 0;
    int up = s->parent[i] == j, down = s->parent[j] == i;
    if (m == HEADS_PARENT) return up;
    if (m == HEADS_CHILD) return down;
    if (s->key_form[j] == s->query_form[i]) return 0; /* that is "same" */
    int apart = 0;
    for (int k = min_int(i, j); k < max_int(i, j); k++) apart += s->key_unit[k] != HEADS_MARK;
    return (up || down) && apart >= HEADS_FAR;
}

/* The key other than itself and marks that it looks at most; -1: none. */
static int strongest(const struct row *r) {
    int best = -1;
    for (int j = 0; j < r->s->n_key; j++) {
        if (r->s->key_unit[j] == HEADS_MARK || (r->s->self && j == r->i) || !(r->a[j] > 0))
            continue;
        if (best < 0 || r->a[j] > r->a[best]) best = j;
    }
    return best;
}

static void add_relations(struct heads_sums *sums, const struct row *r) {
    const struct heads_sentence *s = r->s;
    if (s->query_unit[r->i] != HEADS_WORD || (!s->parent && !s->links)) return;
    int most = strongest(r);
    for (int m = HEADS_PARENT; m <= HEADS_LINK; m++) {
        int any = 0, right = 0;
        for (int j = 0; j < s->n_key; j++) {
            if (!sees(r, j) || !related(s, (enum heads_measure)m, r->i, j)) continue;
            any = 1;
            if (j != most) continue;
            right = 1;
            if ((double)r->a[j] > sums->best[m].value)
                sums->best[m] = (struct heads_case){(double)r->a[j], s->number, r->i, j};
        }
        put(sums, (enum heads_measure)m, right, any);
    }
}

/* ---- sums ------------------------------------------------------------------------------------ */

void heads_add(struct heads_sums *sums, const struct heads_sentence *s, const float *a) {
    struct heads_sums one = {0};
    struct row r = {
        .s = s, .n_query = count(s->query_unit, s->n_query), .n_key = count(s->key_unit, s->n_key)};
    for (int i = 0; i < s->n_query; i++) {
        if (s->query_unit[i] == HEADS_MARK) continue;
        r.i = i;
        r.a = a + (size_t)i * (size_t)s->n_key;
        float total = 0;
        for (int j = 0; j < s->n_key; j++) total += r.a[j];
        if (total > 0) { /* a word without pieces looks at nothing */
            add_places(&one, &r);
            add_words(&one, &r);
            add_relations(&one, &r);
        }
        r.place++;
    }
    for (int m = 0; m < HEADS_MEASURES; m++) {
        sums->sum[m] += one.sum[m];
        sums->weight[m] += one.weight[m];
        int words = m >= HEADS_PARENT;
        double value = words                  ? one.best[m].value
                       : one.weight[m] >= 4.0 ? one.sum[m] / one.weight[m]
                                              : 0;
        if (s->number < 0 || !(value > sums->best[m].value)) continue;
        sums->best[m] = words ? one.best[m] : (struct heads_case){value, s->number, -1, -1};
    }
}

double heads_value(const struct heads_sums *sums, enum heads_measure m) {
    return sums->weight[m] > 0 ? sums->sum[m] / sums->weight[m] : NAN;
}

void heads_fixed(float *a, const struct heads_sentence *s, int offset) {
    memset(a, 0, (size_t)s->n_query * (size_t)s->n_key * sizeof *a);
    for (int i = 0; i < s->n_query; i++) {
        int to = i, step = offset < 0 ? -1 : 1;
        for (int left = abs(offset), k = i + step; left && k >= 0 && k < s->n_key; k += step)
            if (s->key_unit[k] != HEADS_MARK && --left == 0) to = k;
        if (s->causal && to > i) to = i;
        if (to < s->n_key) a[(size_t)i * (size_t)s->n_key + (size_t)to] = 1;
    }
}

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Comparisons with NaN, what was not measured, are false. */
enum heads_kind heads_kind(const struct heads_sums *sums, const double fixed[HEADS_MEASURES]) {
    double v[HEADS_MEASURES], over[HEADS_MEASURES];
    for (int m = 0; m < HEADS_MEASURES; m++) {
        v[m] = heads_value(sums, (enum heads_measure)m);
        over[m] = v[m] - fixed[m];
    }
    if (v[HEADS_MARKS] > 0.5) return HEADS_RESTS;
    if (v[HEADS_HERE] > 0.5) return HEADS_ITSELF;
    for (int m = HEADS_BACK3; m <= HEADS_AHEAD3; m++)
        if (v[m] > 0.5) return HEADS_POSITIONAL;
    if (v[HEADS_LINK] >= 0.5 && over[HEADS_LINK] >= 1.0 / 3) return HEADS_POINTS;
    if (over[HEADS_PARENT] >= 0.1 && !(over[HEADS_CHILD] > over[HEADS_PARENT]))
        return HEADS_TO_PARENT;
    if (over[HEADS_CHILD] >= 0.1) return HEADS_TO_CHILD;
    if (v[HEADS_PUNCTUATION] > 0.4) return HEADS_TO_PUNCTUATION;
    if (v[HEADS_SAME] > 0.4) return HEADS_TO_SAME;
    if (v[HEADS_DISTANCE] < 2.5) return HEADS_LOCAL;
    return v[HEADS_ENTROPY] > 3.5 ? HEADS_BROAD : HEADS_MIXED;
}
