/* findings.h — what the heads of a model do, found by looking at many sentences (search/survey.h):
 * the measures of each, which is best at what and where that shows, and pictures like the paper's
 * figures 3 to 5.
 *
 * findings_read and findings_measure, then whatever is wanted of the rest; findings_release in any
 * case. Borrows options and engine. */
#ifndef VIZ_FINDINGS_H
#define VIZ_FINDINGS_H

#include <jansson.h>

#include "search/survey.h"

struct findings_options {
    const char *src, *tgt; /* sentences and their translations; NULL: none, the model's own */
    const char *links;     /* between words of src */
    const char *trees;     /* more sentences, with their trees */
    const char *out;       /* directory of the pictures; NULL: none */
    int lines;             /* of each file at most; 0: all */
};

/* A sentence that is measured. Owns all it has. */
struct findings_item {
    char *text, *target;
    int *parent;
    int n_word;
    struct links links;
    int has_links, from_tree, line;
};

/* A head of the model. */
struct findings_head {
    enum view_kind kind;
    int layer, head; /* from 0 */
};

struct findings {
    const struct findings_options *options;
    struct survey survey;
    struct findings_item *item;
    int n, room;
    int skipped;                  /* sentences that could not be measured */
    double fixed[HEADS_MEASURES]; /* the best of a head with a fixed offset */
    json_t *figures;              /* what was drawn, or NULL */
};

void findings_init(struct findings *f, struct engine *engine, const struct engine_tags *tags,
                   const struct findings_options *options);
void findings_release(struct findings *f);

int findings_read(struct findings *f, struct err *err);
/* Sentences that are too long, or are not cut into the words that their tree has, are left out. */
int findings_measure(struct findings *f, struct err *err);

/* Draws the heads that show best what figures 3 to 5 show, to options->out. */
int findings_draw(struct findings *f, struct err *err);

/* The i-th head of all; 0 behind the last. */
int findings_nth(const struct findings *f, int i, struct findings_head *head);
const struct heads_sums *findings_sums(const struct findings *f, struct findings_head head);
void findings_name(char text[40], struct findings_head head); /* "enc 1.3" */

/* The head of a kind with the highest value in a measure, of which it was measured at least three
 * times; 0: there is none. `layer` >= 0: of this layer, other than `but`. */
int findings_best_at(const struct findings *f, enum view_kind kind, enum heads_measure m, int layer,
                     int but, struct findings_head *best);

/* A list of the best head of each measure and kind, and the case that shows it best. */
json_t *findings_best(struct findings *f, struct err *err);
/* All there is, with that list in it. */
json_t *findings_json(const struct findings *f, json_t *best);

/* For findings_draw: item i as the survey takes it, and a unit of a side, or "". */
struct survey_sentence findings_sentence(const struct findings_item *item);
const char *findings_unit(const struct survey_side *side, int i);

#endif
