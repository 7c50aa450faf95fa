/* attend_find.c — see attend_find.h. */
#include "cli/attend_find.h"

#include <math.h>
#include <stdio.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/num.h"
#include "io/json.h"

static void print_value(double v, int share) {
    if (isnan(v))
        printf(" %8s", "-");
    else
        printf(share ? " %8.1f" : " %8.2f", share ? 100 * v : v);
}

static int is_share(int m) { return m > HEADS_DIAGONAL; }

static void print_table(const struct findings *f) {
    struct findings_head w;
    printf("%-10s %-12s", "head", "kind");
    for (int m = 0; m < HEADS_MEASURES; m++) printf(" %8s", heads_names[m]);
    putchar('\n');
    for (int i = 0; findings_nth(f, i, &w); i++) {
        char name[40];
        const struct heads_sums *s = findings_sums(f, w);
        findings_name(name, w);
        printf("%-10s %-12s", name, heads_kind_names[heads_kind(s, f->fixed)]);
        for (int m = 0; m < HEADS_MEASURES; m++)
            print_value(heads_value(s, (enum heads_measure)m), is_share(m));
        putchar('\n');
    }
    printf("%-10s %-12s", "fixed", "");
    for (int m = 0; m < HEADS_MEASURES; m++) print_value(m >= HEADS_PARENT ? f->fixed[m] : NAN, 1);
    printf("\n\nheads of the encoder by kind:");
    for (int k = 0, any = 0; k < HEADS_KINDS; k++) {
        int n = 0;
        for (int i = 0; i < f->survey.n_layer[VIEW_ENC] * f->survey.n_head; i++)
            n += (int)heads_kind(&f->survey.head[VIEW_ENC][i], f->fixed) == k;
        if (n) printf("%s %d %s", any++ ? "," : "", n, heads_kind_names[k]);
    }
    putchar('\n');
}

/* Of the measures that a figure could be about. */
static void print_best(const json_t *best) {
    size_t i;
    json_t *o;
    printf("\nbest at\n");
    json_array_foreach((json_t *)best, i, o) {
        printf("  %-9s %-10s %7.3f", json_string_value(json_object_get(o, "measure")),
               json_string_value(json_object_get(o, "head")),
               json_number_value(json_object_get(o, "value")));
        if (json_object_get(o, "line"))
            printf("  %s line %d", json_string_value(json_object_get(o, "file")),
                   (int)json_integer_value(json_object_get(o, "line")));
        if (json_object_get(o, "query"))
            printf(": %s -> %s %.2f", json_string_value(json_object_get(o, "query")),
                   json_string_value(json_object_get(o, "key")),
                   json_number_value(json_object_get(o, "attention")));
        putchar('\n');
    }
}

static int report(struct findings *f, const struct attend_find *how, struct err *err) {
    int rc = f->options->out ? findings_draw(f, err) : 0;
    if (rc) return rc;
    json_t *best = findings_best(f, err), *root = findings_json(f, best);
    if (how->json) {
        json_dumpf(root, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
        putchar('\n');
    } else {
        print_table(f);
        print_best(best);
    }
    if (f->options->out) {
        char *path = path_join(f->options->out, "heads.json");
        rc = json_out_file(path, root, err);
        xfree(path);
    }
    if (!how->quiet)
        fprintf(stderr, "%d sentence%s, %d words%s\n", f->survey.n_sentence,
                PLURAL(f->survey.n_sentence), (int)f->survey.n_word,
                f->skipped ? "; some were too long for the model or had other words than their tree"
                           : "");
    json_decref(best);
    json_decref(root);
    return rc;
}

int attend_find(struct engine *engine, const struct engine_tags *tags,
                const struct attend_find *how, struct err *err) {
    struct findings f;
    findings_init(&f, engine, tags, &how->what);
    int rc = findings_read(&f, err);
    if (!rc) rc = findings_measure(&f, err);
    if (!rc) rc = report(&f, how, err);
    findings_release(&f);
    return rc;
}
