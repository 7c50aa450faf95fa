/* align_choose.c — see align_choose.h. */
#include "cli/align_choose.h"

#include <math.h>
#include <stdio.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "eval/aer.h"
#include "io/json.h"
#include "model/modeldir.h"
#include "search/defaults.h"
#include "train/target.h"

struct table {
    const struct align_choose *job;
    struct bitext_choices choices[BITEXT_WAYS];
    struct bitext_standing *standing[BITEXT_WAYS];
};

/* With links made by hand. */
static double error_rate(const struct table *t, int way, int c) {
    struct aer aer = {0};
    const struct links *links = t->choices[way].links + (size_t)c * (size_t)t->job->n;
    for (int p = 0; p < t->job->n; p++)
        aer_add(&aer, &links[p], &t->job->sure[p], &t->job->possible[p]);
    return aer_rate(&aer);
}

/* ---- showing --------------------------------------------------------------------------------- */

static const char *const way_names[BITEXT_WAYS] = {"model", "reverse"};

static void name_of(char *text, size_t size, const struct align_options *o) {
    if (o->head)
        snprintf(text, size, "%d %-6s %4d", o->layer, align_row_names[o->row], o->head);
    else
        snprintf(text, size, "%d %-6s mean", o->layer, align_row_names[o->row]);
}

static void print_row(const struct table *t, int way, int c) {
    const struct bitext_standing *s = &t->standing[way][c];
    char name[48], other[48];
    name_of(name, sizeof name, &t->choices[way].choice[c]);
    name_of(other, sizeof other, &t->choices[!way].choice[s->with]);
    printf("%-8s %-16s %9.4f  %-16s", way_names[way], name, s->agreement, other);
    if (t->job->sure) printf(" %7.4f", error_rate(t, way, c));
    putchar('\n');
}

/* Of each layer and row the mean of the heads, and the best head. */
static void print_table(const struct table *t) {
    printf("%-8s %-16s %9s  %-16s%s\n", "", "layer row head", "agreement", "with",
           t->job->sure ? "     AER" : "");
    for (int way = 0; way < BITEXT_WAYS; way++) {
        const struct bitext_choices *all = &t->choices[way];
        for (int c = 0; c < all->n;) {
            int head = -1, mean = c;
            for (c++; c < all->n && all->choice[c].head; c++)
                if (head < 0 || t->standing[way][c].agreement > t->standing[way][head].agreement)
                    head = c;
            print_row(t, way, mean);
            if (head >= 0) print_row(t, way, head);
        }
    }
}

static void print_json(const struct table *t) {
    for (int way = 0; way < BITEXT_WAYS; way++)
        for (int c = 0; c < t->choices[way].n; c++) {
            const struct align_options *o = &t->choices[way].choice[c];
            const struct bitext_standing *s = &t->standing[way][c];
            printf("{\"model\":\"%s\",\"layer\":%d,\"row\":\"%s\",\"head\":%d,\"agreement\":%.6f",
                   way_names[way], o->layer, align_row_names[o->row], o->head, s->agreement);
            double aer = t->job->sure ? error_rate(t, way, c) : (double)NAN;
            if (!isnan(aer)) printf(",\"aer\":%.6f", aer);
            puts("}");
        }
}

/* ---- storing --------------------------------------------------------------------------------- */

static int store(const char *dir, const struct align_options *o, struct err *err) {
    struct config config;
    struct weights_form form;
    struct model_notes notes = {0};
    struct translator_options old;
    struct align_options now = *o;
    int rc = modeldir_read_any(dir, &config, &form, &notes, err);
    if (!rc) rc = defaults_read(&old, notes.translate, &config, dir, err);
    /* A threshold belongs to the head that it was found for. */
    if (!rc && old.align.layer == o->layer && old.align.head == o->head && old.align.row == o->row)
        now.threshold = old.align.threshold;
    if (!rc) rc = defaults_set_align(&notes.translate, &now, err);
    if (!rc) rc = modeldir_annotate(dir, &notes, err);
    model_notes_release(&notes);
    return rc;
}

/* In both models or, as far as can be known beforehand, in none. */
static int store_both(const struct align_choose *job, const struct align_options *const best[],
                      struct err *err) {
    int rc = 0;
    for (int way = 0; way < BITEXT_WAYS; way++)
        if (target_has_run(job->dir[way]))
            return err_set(err, HEED_EIO,
                           "%.120s: a training run writes its config.json anew; store the choice "
                           "in what heed average or heed export makes of it",
                           job->dir[way]);
    for (int way = 0; way < BITEXT_WAYS && !rc; way++) rc = store(job->dir[way], best[way], err);
    if (!rc && !job->json)
        printf("stored in the config.json of %s and %s\n", job->dir[0], job->dir[1]);
    return rc;
}

/* ---- choosing -------------------------------------------------------------------------------- */

int align_choose(const struct align_choose *job, struct err *err) {
    struct table t = {.job = job};
    int rc = bitext_compare(t.choices, job->bitext, job->pair, job->n, err);
    if (rc) return rc;
    for (int way = 0; way < BITEXT_WAYS; way++)
        t.standing[way] = xcalloc((size_t)t.choices[way].n, sizeof *t.standing[way]);
    bitext_rank(t.standing, t.choices, job->n);
    int first = bitext_best(t.standing[0], t.choices[0].n);
    if (!(t.standing[0][first].agreement > 0))
        rc = err_set(err, HEED_EFORMAT,
                     "nothing to choose by: the models agree on no link of this text");
    else if (job->json)
        print_json(&t);
    else
        print_table(&t);
    const struct align_options *best[BITEXT_WAYS] = {0};
    for (int way = 0; way < BITEXT_WAYS && !rc; way++) {
        const struct align_options *o = best[way] =
            &t.choices[way].choice[bitext_best(t.standing[way], t.choices[way].n)];
        if (!job->json)
            printf("best for %s: layer %d, %s row, %s%.0d\n", job->dir[way], o->layer,
                   align_row_names[o->row], o->head ? "head " : "the mean of its heads", o->head);
    }
    if (!rc && job->store) rc = store_both(job, best, err);
    for (int way = 0; way < BITEXT_WAYS; way++) {
        xfree(t.standing[way]);
        bitext_choices_release(&t.choices[way], job->n);
    }
    return rc;
}
